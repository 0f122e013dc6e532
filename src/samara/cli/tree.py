"""`samara tree`: namespace trees and templates, with what flows along them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial

import click

from samara.cli.accurate.drawing import lines
from samara.cli.accurate.flows import Flow, Landscape, Node, add_flows, landscape
from samara.cli.accurate.fold import Fold, is_wrong
from samara.cli.accurate.space import Thing, not_found, spaces, things
from samara.cli.accurate.watched import of_original, of_samara, resolved
from samara.cli.base import Command, config_flag, note, output_flag, wait_for
from samara.cli.kubectl_flags import Cluster, kubectl_flags
from samara.cli.output import emit, progress
from samara.core.match import sample
from samara.core.model import Kind
from samara.dialects.accurate.words import ROOT, TYPE
from samara.kube.client import Client
from samara.kube.errors import SamaraError

_ORIGINAL = "accurate"
_SAMPLE = 5
_MOST = 60
"""Namespaces that are drawn before a tree is folded."""
_FEW = 5
"""Of the children of one namespace, and of its objects, that many are shown then."""
Part = tuple[str, str]
"""Some text, and the style that it has on a terminal."""
_PLAIN, _TOP, _FAULT, _DIM = "plain", "top", "fault", "dim"


@click.command("tree", cls=Command)
@click.argument("root", required=False)
@click.option("--all", "each", is_flag=True, help="Every namespace and object, however many there are.")
@config_flag
@output_flag()
@kubectl_flags
def command(cluster: Cluster, root: str | None, each: bool, config: str | None, output: str) -> None:
    """Namespace trees and templates, or what lies below ROOT, with what flows along them.

    Shown are the labels and annotations that each namespace has inherited, the objects that are passed on, and where
    they are missing. What is wrong with a tree is said where it is. No content of any object is read. A large tree is
    folded; what is wrong is shown first.
    """
    with progress() as doing:
        doing("reading namespaces, and what flows along them")
        land = wait_for(_look(cluster, root, config))
    emit(lambda: {"trees": land.shape(root)}, output, lambda: show(land, root, each))


async def _look(cluster: Cluster, root: str | None, config: str | None) -> Landscape:
    async with Client(cluster.access(), timeout=cluster.timeout) as client:
        names = await of_samara(cluster, config)
        if not names and config is None:
            names = await of_original(client, _ORIGINAL) or ()
        kinds = await resolved(client, names)
        found, listed = await asyncio.gather(spaces(client), asyncio.gather(*(_things(client, kind) for kind in kinds)))
        if root is not None and all(each.name != root for each in found):
            raise not_found(root)
        land = landscape(found, root or "")
        for kind, objects in zip(kinds, listed, strict=True):
            add_flows(land, kind, objects)
        return land


async def _things(client: Client, kind: Kind) -> list[Thing]:
    try:
        return await things(client, kind)
    except SamaraError as fault:
        note(f"{kind} is left out: {fault}")
        return []


def show(land: Landscape, root: str | None = None, each: bool = True) -> None:
    if not land.tops and root is None:
        click.echo("No trees and no templates.")
        return
    painted = _styles() if sys.stdout.isatty() and "NO_COLOR" not in os.environ else {}
    told = ("".join(painted.get(style, str)(text) for text, style in line) for line in drawing(land, root, each))
    click.echo("\n".join(told))  # at once: a flush after every line took longer than all the rest


def _styles() -> dict[str, Callable[[str], str]]:
    """Not by a library that measures and folds: 10,000 namespaces took it ten seconds."""
    return {
        _TOP: partial(click.style, bold=True),
        _FAULT: partial(click.style, fg="red"),
        _DIM: partial(click.style, dim=True),
    }


def drawing(land: Landscape, root: str | None = None, each: bool = True) -> Iterator[list[Part]]:
    """The lines, in parts that know their style; folded where there are many, unless each is asked for."""
    tops = land.tops if root is None else [root]
    most = sys.maxsize if each or len(land.nodes) <= _MOST else _FEW
    fold = Fold(land, most)
    for line in lines(fold.shown("", tops), lambda name: fold.shown(name, land.children.get(name, ()))):
        if line.name in fold.rest:
            yield [(line.before, _DIM), (fold.rest[line.name], _DIM)]
            continue
        node = land.nodes[line.name]
        if line.again:
            yield [(line.before, _DIM), (line.name, _PLAIN), (" (loop)", _FAULT)]
            continue
        style = _TOP if node.space.labels.get(TYPE) == ROOT else _PLAIN
        going = ", being deleted" if node.space.deleting else ""
        yield [(line.before, _DIM), (line.name, style), (f" ({node.role}{going})", _DIM)]
        yield from ([(line.below, _DIM), *about] for about in _details(node, most))


def _details(node: Node, most: int) -> Iterator[list[Part]]:
    yield from ([(f"! {fault}", _FAULT)] for fault in node.faults)
    for what, keys in (("labels", node.labels), ("annotations", node.annotations)):
        if keys:
            yield [(f"{what}: {', '.join(keys)}", _PLAIN)]
    flows = sorted(node.flows, key=lambda flow: not is_wrong(flow)) if len(node.flows) > most else node.flows
    yield from map(_told, flows[:most])
    if len(flows) > most:
        yield [(f"… and {len(flows) - most:,} more objects; --all lists each", _DIM)]


def _told(flow: Flow) -> list[Part]:
    origin = f", from {_printable(flow.origin)}" if flow.origin else ""
    parts = [(f"{flow.kind.name} {flow.name}: {_printable(flow.mode) or 'not passed on'}{origin}", _PLAIN)]
    if flow.is_stale:
        parts.append((", which is neither its parent nor its template", _FAULT))
    if flow.mode and not flow.is_passed_on:
        parts.append(("; this mode means nothing, expected create or update", _FAULT))
    wanted = flow.there + len(flow.missing) + len(flow.others)
    if flow.is_passed_on and wanted:
        parts.append((f"; copies {flow.there} of {wanted}", _PLAIN))
        parts += [(f"; missing in {sample(flow.missing, _SAMPLE)}", _FAULT)] if flow.missing else []
        parts += [(f"; another object in {sample(flow.others, _SAMPLE)}", _FAULT)] if flow.others else []
    return parts


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "·" for char in text)
