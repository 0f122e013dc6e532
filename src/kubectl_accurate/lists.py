"""`list`, `sub list` and `template list`: trees of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import click

from kubectl_accurate.client import connect
from kubectl_accurate.program import Command
from samara.cli.inspect.namespaces import Namespace, list_namespaces, not_found
from samara.cli.inspect.trees import draw_branches
from samara.cli.options import Cluster, kubectl_flags, wait_for
from samara.vocabularies.accurate.labels import IS_TEMPLATE, PARENT, ROOT, TEMPLATE, TYPE


@click.command("list", cls=Command)
@click.argument("root", required=False)
@kubectl_flags
def list_trees(cluster: Cluster, root: str | None) -> None:
    """List the trees of namespaces, or the one below ROOT."""
    _show(cluster, root, tree_forest)


@click.command("list", cls=Command)
@click.argument("template", required=False)
@kubectl_flags
def list_templates(cluster: Cluster, template: str | None) -> None:
    """List templates and their instances, or those below TEMPLATE."""
    _show(cluster, template, template_forest)


class Forest(NamedTuple):
    """Trees of names: the names at the top, and those below each name."""

    tops: tuple[str, ...]
    children: dict[str, list[str]]

    def lines(self, top: str | None = None) -> Iterator[str]:
        """The lines of all trees, or of the tree below one name."""
        tops = self.tops if top is None else (top,)
        for branch in draw_branches(tops, lambda name: self.children.get(name, ())):
            yield f"{branch.prefix}{branch.name}{' (loop)' if branch.closes_loop else ''}"


def tree_forest(namespaces: Iterable[Namespace]) -> Forest:
    """The trees below all roots, by parent labels."""
    namespaces = list(namespaces)
    tops = (namespace.name for namespace in namespaces if namespace.labels.get(TYPE) == ROOT)
    return Forest(tuple(tops), _children(namespaces, PARENT))


def template_forest(namespaces: Iterable[Namespace]) -> Forest:
    """The trees below all templates that are not instances themselves, by template labels."""
    namespaces = list(namespaces)
    tops = (
        namespace.name
        for namespace in namespaces
        if namespace.labels.get(TYPE) == IS_TEMPLATE and TEMPLATE not in namespace.labels
    )
    return Forest(tuple(tops), _children(namespaces, TEMPLATE))


def _children(namespaces: Iterable[Namespace], label: str) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for namespace in namespaces:
        if upstream := namespace.labels.get(label):
            children.setdefault(upstream, []).append(namespace.name)
    return children


def _show(cluster: Cluster, top: str | None, build_forest: Callable[[Iterable[Namespace]], Forest]) -> None:
    namespaces = wait_for(_namespaces(cluster))
    if top is not None and all(namespace.name != top for namespace in namespaces):
        raise not_found(top)
    click.echo("".join(f"{line}\n" for line in build_forest(namespaces).lines(top)), nl=False)


async def _namespaces(cluster: Cluster) -> list[Namespace]:
    async with connect(cluster) as client:
        return await list_namespaces(client)
