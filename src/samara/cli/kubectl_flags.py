"""kubectl's own flags, which every command that talks to a cluster takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:  # what speaks to a cluster is imported when it is spoken to: help and completion must be quick
    from samara.kube.auth import Access

F = TypeVar("F", bound=Callable[..., Any])

ENDLESS = 86_400.0
"""kubectl's `0`: no timeout. A day is as good, and ends."""


def _text(flag: str, *names: str, metavar: str, about: str, **more: Any) -> Callable[[F], F]:
    return click.option(flag, *names, metavar=metavar, help=about, **more)


_USUAL = (
    _text("--kubeconfig", metavar="FILE", about="Path of the kubeconfig file."),
    _text("--context", metavar="NAME", about="The kubeconfig context to use."),
    _text("-n", "--namespace", metavar="NAME", about="The namespace, where the command has one."),
    _text("--as", "as_user", metavar="USER", about="Act as this user."),
    _text(
        "--request-timeout", metavar="DURATION", about="How long a request may take.", default="30s", show_default=True
    ),
)
_RARE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--cluster", {"metavar": "NAME", "help": "The kubeconfig cluster to use."}),
    ("--user", {"metavar": "NAME", "help": "The kubeconfig user to use."}),
    ("--server", {"metavar": "URL", "help": "The address of the API server."}),
    ("--certificate-authority", {"metavar": "FILE", "help": "The certificate of the authority to trust."}),
    ("--insecure-skip-tls-verify", {"is_flag": True, "help": "Do not check the server's certificate."}),
    ("--tls-server-name", {"metavar": "NAME", "help": "The name to check the server's certificate for."}),
    ("--client-certificate", {"metavar": "FILE", "help": "The client certificate to show."}),
    ("--client-key", {"metavar": "FILE", "help": "The key of the client certificate."}),
    ("--token", {"metavar": "TOKEN", "help": "The bearer token to show."}),
    ("--as-group", {"metavar": "GROUP", "multiple": True, "help": "Act as a member of this group; repeatable."}),
    ("--as-uid", {"metavar": "UID", "help": "Act as the user with this uid."}),
    ("--as-user-extra", {"metavar": "KEY=VALUE", "multiple": True, "help": "Act with this extra; repeatable."}),
    ("--disable-compression", {"is_flag": True, "help": "Accepted; answers are never compressed."}),
    ("--cache-dir", {"metavar": "FOLDER", "help": "Accepted; nothing is cached on disk."}),
)
"""Accepted everywhere, and shown by `kubectl-accurate --help` only: every other help would be twice as long."""
_NOTHING = ("disable_compression", "cache_dir")
_ALSO = {"--server": ("-s",)}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which cluster a command speaks to."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    as_user: str | None
    timeout: float
    rare: dict[str, Any] = field(default_factory=dict, repr=False)
    """The flags that few people give, by their names; a token may be among them."""

    @property
    def named(self) -> bool:
        """True where somebody has said which cluster is meant."""
        return any((self.kubeconfig, self.context, *map(self.rare.get, ("cluster", "user", "server"))))

    @property
    def anywhere(self) -> Cluster:
        """The same where -n says which object is meant, and not where the operator is."""
        return replace(self, namespace=None)

    def access(self) -> Access:
        from samara.kube.auth import load
        from samara.kube.auth.kubeconfig import Flags

        flags = Flags(**{name: value for name, value in self.rare.items() if value})
        home = Path.home()
        return load(self.kubeconfig, self.context, self.namespace, self.as_user, os.environ, home, flags=flags)


def kubectl_options(*, all_shown: bool = False) -> tuple[Callable[[F], F], ...]:
    """The flags as decorators, in kubectl's own spelling."""
    rare = (click.option(*_ALSO.get(flag, ()), flag, hidden=not all_shown, **more) for flag, more in _RARE)
    return (*_USUAL, *rare)


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
        rare = _picked(rest)
        return command(cluster=Cluster(kubeconfig, context, namespace, as_user, timeout, rare), **rest)

    with_cluster.__name__ = command.__name__
    with_cluster.__doc__ = command.__doc__
    with_cluster.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    wrapped: Any = with_cluster
    for flag in reversed(kubectl_options()):
        wrapped = flag(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _picked(rest: dict[str, Any]) -> dict[str, Any]:
    """Takes the rare flags out of what a command is called with."""
    names = [flag.strip("-").replace("-", "_") for flag, _ in _RARE]
    found = {name: rest.pop(name) for name in names}
    found["as_groups"] = found.pop("as_group")
    return {name: value for name, value in found.items() if name not in _NOTHING}


def _seconds(text: str) -> float:
    """As kubectl reads it: a duration, or a bare number of seconds."""
    from samara.setting_types import DURATION, parse_duration

    seconds = float(text) if text.isdecimal() and len(text) < 10 else parse_duration(text)
    if seconds is None:
        raise click.UsageError(f"--request-timeout: expected {DURATION}, found {text!r}")
    return seconds or ENDLESS
