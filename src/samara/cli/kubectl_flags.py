"""kubectl's own flags, which every command that talks to a cluster takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from samara.kube.auth import Access, load
from samara.settings.durations import FORM, parse_duration

F = TypeVar("F", bound=Callable[..., Any])

ENDLESS = 86_400.0
"""kubectl's `0`: no timeout. A day is as good, and ends."""

_FLAGS = (
    click.option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig file."),
    click.option("--context", metavar="NAME", help="The kubeconfig context to use."),
    click.option("-n", "--namespace", metavar="NAME", help="The namespace, where the command has one."),
    click.option("--as", "as_user", metavar="USER", help="Act as this user."),
    click.option(
        "--request-timeout", default="30s", show_default=True, metavar="DURATION", help="How long a request may take."
    ),
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
    """As kubectl reads it: a duration, or a bare number of seconds."""
    seconds = float(text) if text.isdecimal() and len(text) < 10 else parse_duration(text)
    if seconds is None:
        raise click.UsageError(f"--request-timeout: expected {FORM}, found {text!r}")
    return seconds or ENDLESS
