"""`samara tree`: namespace trees and templates, with the labels, annotations and objects that are passed on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import click

from samara.cli import completion
from samara.cli.filters import Filter, filter_of, operators_cluster, selection_flags
from samara.cli.formats import JSON, JSONPATH, NAME, TABLE, YAML, Form, output_flag
from samara.cli.inspect.namespaces import Object, list_namespaces, list_objects, not_found
from samara.cli.inspect.tree_kinds import kinds_in_settings, kinds_of_originals, resolve_kinds
from samara.cli.inspect.trees import (
    Folding,
    Forest,
    Node,
    Propagation,
    add_propagations,
    build_forest,
    draw_branches,
    with_labels,
)
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import emit, note, printable, progress
from samara.core.model import NAMESPACE, Kind
from samara.core.names import sample
from samara.kube.client import Client, unrestricted
from samara.kube.errors import SamaraError
from samara.vocabularies.accurate.labels import ROOT, TYPE

_MAX_LISTED = 5
_MAX_UNFOLDED = 60
"""Namespaces that are drawn before a tree is folded."""
_MAX_FOLDED = 5
"""Children of one namespace, and objects in it, that are shown in a folded tree."""
StyledText = tuple[str, str]
"""A text, and the name of its style on a terminal."""
_PLAIN, _TOP, _FAULT, _DIM = "plain", "top", "fault", "dim"


@click.command(
    "tree",
    cls=Command,
    namespace="The namespace to begin with, as ROOT.",
    examples={
        "Every tree and template": "samara tree",
        "One namespace, and those below it": "samara tree acme",
    },
)
@click.argument("root", required=False, shell_complete=completion.namespaces)
@click.option("--all", "show_all", is_flag=True, help="Every namespace and object, even if there are many.")
@selection_flags("namespaces, and those above them,")
@config_flag
@output_flag(TABLE, JSON, YAML, NAME, JSONPATH)
@kubectl_flags
def command(
    cluster: Cluster, root: str | None, show_all: bool, config: str | None, output: Form, **filters: Any
) -> None:
    """Show namespace trees and templates, or ROOT and what is below it, with what they propagate.

    It shows the labels and annotations that each namespace inherited, the objects that are propagated, and where
    copies are missing. Problems of a tree are shown where they are. No content of any object is read. A large tree is
    shortened, with problems first.
    """
    if root is not None and filters["all_namespaces"]:
        raise click.UsageError(f"--all-namespaces: expected no ROOT beside it, found {root!r}")
    chosen = filter_of(cluster, **filters)
    root = root or chosen.namespace
    with progress() as show_progress:
        show_progress("reading namespaces, and what flows along them")
        forest = wait_for(_read_forest(cluster, root, config, chosen))
    emit(
        lambda: {"trees": forest.as_json(root)},
        output,
        lambda: show(forest, root, show_all),
        lambda: _namespaces(forest, root, chosen),
    )


def _namespaces(forest: Forest, root: str | None, chosen: Filter) -> Iterator[dict[str, str]]:
    """The namespaces of the trees that have the labels, without those that are shown only because they are above."""
    for name in forest.names(root):
        if chosen.selector.matches(forest.nodes[name].namespace.labels):
            yield {"kind": str(NAMESPACE), "namespace": "", "name": name}


async def _read_forest(cluster: Cluster, root: str | None, config: str | None, chosen: Filter) -> Forest:
    of_settings = operators_cluster(cluster, chosen)
    async with Client(cluster.access(), timeout=cluster.timeout, may_write=unrestricted) as client:
        names = await kinds_in_settings(of_settings, config)
        if not names and config is None:
            names = await kinds_of_originals(client)
        kinds = await resolve_kinds(client, names)
        namespaces, objects = await asyncio.gather(
            list_namespaces(client), asyncio.gather(*(_list_objects(client, kind) for kind in kinds))
        )
        if root is not None and all(namespace.name != root for namespace in namespaces):
            raise not_found(root, (namespace.name for namespace in namespaces))
        forest = build_forest(namespaces, root or "")
        for kind, objects_of_kind in zip(kinds, objects, strict=True):
            add_propagations(forest, kind, objects_of_kind)
        return with_labels(forest, chosen.selector)


async def _list_objects(client: Client, kind: Kind) -> list[Object]:
    try:
        return await list_objects(client, kind)
    except SamaraError as error:
        note(f"{kind} is left out: {error}")
        return []


def show(forest: Forest, root: str | None = None, show_all: bool = True) -> None:
    if not forest.top_names(root):
        click.echo("No trees and no templates.")
        return
    styles = _styles() if sys.stdout.isatty() and "NO_COLOR" not in os.environ else {}
    lines = ("".join(styles.get(style, str)(text) for text, style in line) for line in draw(forest, root, show_all))
    click.echo("\n".join(lines))  # in one write, because a flush after every line took longer than everything else


def _styles() -> dict[str, Callable[[str], str]]:
    return {
        _TOP: partial(click.style, bold=True),
        _FAULT: partial(click.style, fg="red"),
        _DIM: partial(click.style, dim=True),
    }


def draw(forest: Forest, root: str | None = None, show_all: bool = True) -> Iterator[list[StyledText]]:
    """The lines, each as texts with a style. A large tree is folded unless `show_all` is set."""
    tops = forest.top_names(root)
    most = sys.maxsize if show_all or len(forest.nodes) <= _MAX_UNFOLDED else _MAX_FOLDED
    folding = Folding(forest, most)
    for branch in draw_branches(
        folding.shown("", tops), lambda name: folding.shown(name, forest.children.get(name, ()))
    ):
        if branch.name in folding.summaries:
            yield [(branch.prefix, _DIM), (folding.summaries[branch.name], _DIM)]
            continue
        node = forest.nodes[branch.name]
        if branch.closes_loop:
            yield [(branch.prefix, _DIM), (branch.name, _PLAIN), (" (loop)", _FAULT)]
            continue
        style = _TOP if node.namespace.labels.get(TYPE) == ROOT else _PLAIN
        terminating = ", being deleted" if node.namespace.is_terminating else ""
        yield [(branch.prefix, _DIM), (branch.name, style), (f" ({node.role}{terminating})", _DIM)]
        yield from ([(branch.details_prefix, _DIM), *detail] for detail in _details(node, most))


def _details(node: Node, most: int) -> Iterator[list[StyledText]]:
    yield from ([(f"! {fault}", _FAULT)] for fault in node.faults)
    for title, keys in (("labels", node.labels), ("annotations", node.annotations)):
        if keys:
            yield [(f"{title}: {', '.join(keys)}", _PLAIN)]
    propagations = node.propagations
    if len(propagations) > most:
        propagations = sorted(propagations, key=lambda propagation: not propagation.is_wrong)
    yield from map(_describe, propagations[:most])
    if len(propagations) > most:
        yield [(f"… and {len(propagations) - most:,} more objects; --all lists each", _DIM)]


def _describe(propagation: Propagation) -> list[StyledText]:
    mode = printable(propagation.mode) or "not passed on"
    origin = f", from {printable(propagation.origin)}" if propagation.origin else ""
    parts = [(f"{propagation.kind.name} {propagation.name}: {mode}{origin}", _PLAIN)]
    if propagation.is_stale:
        parts.append((", which is neither its parent nor its template", _FAULT))
    if propagation.mode and not propagation.is_passed_on:
        parts.append(("; this mode means nothing, expected create or update", _FAULT))
    missing, occupied = propagation.missing, propagation.occupied
    desired = propagation.present + len(missing) + len(occupied)
    if propagation.is_passed_on and desired:
        parts.append((f"; copies {propagation.present} of {desired}", _PLAIN))
        parts += [(f"; missing in {sample(missing, _MAX_LISTED)}", _FAULT)] if missing else []
        parts += [(f"; another object in {sample(occupied, _MAX_LISTED)}", _FAULT)] if occupied else []
    return parts
