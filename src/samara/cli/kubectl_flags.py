"""kubectl's own flags, which every command that talks to a cluster takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from samara.kube.auth import Access, load
from samara.kube.errors import ConfigError
from samara.settings.durations import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

_FLAGS = (
    click.option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig file."),
    click.option("--context", metavar="NAME", help="The kubeconfig context to use."),
    click.option("-n", "--namespace", metavar="NAME", help="The namespace, where the command has one."),
    click.option("--as", "as_user", metavar="USER", help="Act as this user."),
    click.option("--request-timeout", default="30s", metavar="DURATION", help="How long one request may take."),
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which cluster a command speaks to."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    as_user: str | None
    timeout: float

    def access(self) -> Access:
        return load(self.kubeconfig, self.context, self.namespace, self.as_user, os.environ, Path.home())


def kubectl_flags(command: F) -> F:
    """Adds the flags; the command gets one `cluster` in their place."""

    def with_cluster(
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        as_user: str | None,
        request_timeout: str,
        **rest: Any,
    ) -> Any:
        timeout = _seconds(request_timeout)
        return command(cluster=Cluster(kubeconfig, context, namespace, as_user, timeout), **rest)

    with_cluster.__name__ = command.__name__
    with_cluster.__doc__ = command.__doc__
    with_cluster.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    wrapped: Any = with_cluster
    for flag in reversed(_FLAGS):
        wrapped = flag(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _seconds(text: str) -> float:
    try:
        return parse_duration(text) or 86_400.0
    except ValueError as fault:
        raise ConfigError(f"--request-timeout {text!r}: {fault}") from fault
