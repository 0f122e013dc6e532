"""Completes words in a shell with names that the cluster has. It shows no error, and gives up after two seconds.

Only names are read: of namespaces, of objects (as the table that `kubectl get` prints) and of held deletions.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from samara.assembly import registry_of
from samara.cli.addresses import is_kind, parse_refs, split_words
from samara.cli.inspect.names import list_names
from samara.cli.options import Cluster, cluster_of, wait_for
from samara.cli.session import open_session
from samara.core.model import NAMESPACE
from samara.core.registry import Registry
from samara.kube.auth import context_names
from samara.kube.client import Client, unrestricted
from samara.settings import Settings

TIME_LIMIT = 2.0
"""Seconds until the process ends without an answer, unless --request-timeout is given, because the user is waiting."""
Question = Callable[[Cluster, str | None], Coroutine[Any, Any, Iterable[str]]]
"""Asks a cluster, under the settings in a file, for the names that fit."""
_ANY_NAME = "x"


def namespaces(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _matching(incomplete, _ask(context, _namespaces))


def contexts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The contexts of the kubeconfig."""
    return _matching(incomplete, _ask(context, _contexts))


def held_keys(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The keys of held deletions that are not given yet."""
    given = context.params.get(parameter.name or "") or ()
    return _matching(incomplete, (key for key in _ask(context, _held_keys) if key not in given))


def objects(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Kinds, and the names of objects of a kind in the namespace: the next word of `KIND NAME...` or `KIND/NAME...`."""
    words: tuple[str, ...] = context.params.get(parameter.name or "") or ()
    if words and is_kind(words[0]):
        names = _ask(context, partial(_names_of_kind, words[0]))
        return _matching(incomplete, (name for name in names if name not in words))
    if is_kind(incomplete):  # a further object of the form KIND/NAME has no end yet that could be offered
        kinds = [] if words else _ask(context, _served_kinds) or _kinds(registry_of(Settings()))
        return _matching(incomplete, kinds)
    kind = incomplete.rpartition("/")[0]
    return _matching(incomplete, (f"{kind}/{name}" for name in _ask(context, partial(_names_of_kind, kind))))


def _matching(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(word) for word in sorted(set(words)) if word.startswith(incomplete)]


# questions


async def _namespaces(cluster: Cluster, config: str | None) -> list[str]:
    async with Client(cluster.access(), timeout=cluster.timeout, may_write=unrestricted) as client:
        return await list_names(client, NAMESPACE)


async def _contexts(cluster: Cluster, config: str | None) -> list[str]:
    return context_names(cluster.kubeconfig, os.environ, Path.home())


async def _held_keys(cluster: Cluster, config: str | None) -> Collection[str]:
    async with open_session(cluster, config) as session:
        return await session.held_deletions()


async def _served_kinds(cluster: Cluster, config: str | None) -> list[str]:
    async with open_session(cluster.without_namespace, config) as session:
        return _kinds(session.registry)


def _kinds(registry: Registry) -> list[str]:
    return [kind.name.lower() for kind in registry.kinds]


async def _names_of_kind(kind: str, cluster: Cluster, config: str | None) -> list[str]:
    namespace = cluster.access().namespace
    async with open_session(cluster.without_namespace, config) as session:
        refs = parse_refs(split_words((kind, _ANY_NAME)), namespace, session.registry)
        return [name for ref in refs for name in await list_names(session.client, ref.kind, ref.namespace)]


def _ask(context: click.Context, question: Question) -> list[str]:
    """The names in the cluster that the flags before the cursor select. Empty after any error."""
    values = dict(context.params)
    try:
        cluster = cluster_of(values)
        is_default = context.get_parameter_source("request_timeout") is ParameterSource.DEFAULT
        with _exit_after(TIME_LIMIT if is_default else cluster.timeout), _without_terminal():
            return list(wait_for(question(cluster, values.get("config"))))
    except Exception:  # noqa: BLE001 - a shell that completes shows no error, whatever it is
        return []


@contextmanager
def _exit_after(seconds: float) -> Iterator[None]:
    """Ends the process without an answer if this block takes longer.

    A lookup of a host name and an exec plugin cannot be cancelled.
    """
    watchdog = threading.Timer(seconds, os._exit, (0,))
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


@contextmanager
def _without_terminal() -> Iterator[None]:
    """Within this block nothing reaches the terminal, and exec plugins do not ask the user anything."""
    with Path(os.devnull).open("r+") as nothing, redirect_stderr(nothing):
        kept = {number: os.dup(number) for number in (0, 2)}
        for number in kept:
            os.dup2(nothing.fileno(), number)
        try:
            yield
        finally:
            for number, copy in kept.items():
                os.dup2(copy, number)
                os.close(copy)
