"""`sub create`, `delete`, `move`, `graft` and `cut`."""

from __future__ import annotations

import csv
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from types import FrameType

import click

from kubectl_accurate import moves
from kubectl_accurate.client import Spec, SubNamespace, api_client
from kubectl_accurate.program import Command
from samara.cli.options import Cluster, kubectl_flags, wait_for
from samara.cli.output import note
from samara.kube.errors import SamaraError
from samara.vocabularies.accurate.labels import PARENT


def _parse_pairs(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Parses `a=b,c=d`; the flag is repeatable. A pair is quoted if its value has a comma and other pairs follow."""
    pairs: dict[str, str] = {}
    try:
        parts = [part for text in texts for part in _split_pairs(text)]
    except csv.Error as error:
        raise click.BadParameter(f"expected pairs such as a=b,c=d, found: {error}", context, parameter) from error
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"expected pairs such as a=b,c=d, found {part!r}", context, parameter)
        pairs[key] = value
    return pairs


def _split_pairs(text: str) -> list[str]:
    """Like kubectl: a text with a single `=` is one pair, even if it has commas."""
    if text.count("=") == 1:
        return [text.strip('"')]
    return [part for row in csv.reader(StringIO(text, newline="")) for part in row]


def _pairs_flag(flag: str) -> click.Option:
    help_text = f"The {flag.strip('-')} that the namespace is to have, as far as the settings let them through."
    return click.Option([flag], metavar="KEY=VALUE,...", multiple=True, callback=_parse_pairs, help=help_text)


@click.command("create", cls=Command, params=[_pairs_flag("--labels"), _pairs_flag("--annotations")])
@click.argument("name")
@click.argument("ns")
@kubectl_flags
def create(cluster: Cluster, name: str, ns: str, labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Create the sub-namespace NAME under the namespace NS."""
    wait_for(_create(cluster, name, ns, Spec(labels, annotations)))
    click.echo(f"SubNamespace {name} is created in {ns}")


async def _create(cluster: Cluster, name: str, ns: str, spec: Spec) -> None:
    async with api_client(cluster) as api:
        if await api.find_namespace(name) is not None:
            raise SamaraError(f"namespace {name} already exists; to put it under {ns}: `sub graft {name} {ns}`")
        await api.create_sub_namespace(ns, name, spec)


@click.command("delete", cls=Command)
@click.argument("name")
@kubectl_flags
def delete(cluster: Cluster, name: str) -> None:
    """Delete the sub-namespace NAME, and everything in it."""
    click.echo(f"deleted SubNamespace {wait_for(_delete(cluster, name))}")


async def _delete(cluster: Cluster, name: str) -> SubNamespace:
    async with api_client(cluster) as api:
        namespace = await api.get_namespace(name)
        parent = namespace.labels.get(PARENT)
        if not parent:
            raise SamaraError(f"{name} is not a sub-namespace: expected the label {PARENT}, found none")
        sub = await api.find_sub_namespace(parent, name)
        if sub is None:
            raise SamaraError(f"SubNamespace {parent}/{name} not found; expected the one that created {name}")
        await api.delete_sub_namespace(sub)
        return sub


@click.command("move", cls=Command)
@click.argument("ns")
@click.argument("new_parent")
@click.option("--leave-original", is_flag=True, help="Keep the SubNamespace in the old parent; it will be in conflict.")
@kubectl_flags
def move(cluster: Cluster, ns: str, new_parent: str, leave_original: bool) -> None:
    """Give the sub-namespace NS another parent. All is checked first; what fails half-way is undone."""
    done, error = wait_for(_move(cluster, ns, new_parent, leave_original))
    for line in done:
        click.echo(line)
    if error is not None:
        raise error


async def _move(cluster: Cluster, ns: str, parent: str, leave: bool) -> tuple[list[str], SamaraError | None]:
    async with api_client(cluster) as api:
        with finish_on_interrupt():
            return await moves.move(api, ns, parent, leave)


@click.command("graft", cls=Command)
@click.argument("ns")
@click.argument("parent")
@kubectl_flags
def graft(cluster: Cluster, ns: str, parent: str) -> None:
    """Make the namespace NS a sub-namespace of PARENT. It loses its type and its template."""
    wait_for(_graft(cluster, ns, parent))
    click.echo(f"grafted {ns} under {parent}")


async def _graft(cluster: Cluster, ns: str, parent: str) -> None:
    async with api_client(cluster) as api:
        with finish_on_interrupt():
            await moves.graft(api, ns, parent)


@click.command("cut", cls=Command)
@click.argument("ns")
@kubectl_flags
def cut(cluster: Cluster, ns: str) -> None:
    """Make the sub-namespace NS a root. Its own sub-namespaces stay below it."""
    error = wait_for(_cut(cluster, ns))
    click.echo(f"cut {ns} as a root namespace")
    if error is not None:
        raise error


async def _cut(cluster: Cluster, ns: str) -> SamaraError | None:
    async with api_client(cluster) as api:
        with finish_on_interrupt():
            return await moves.cut(api, ns)


@contextmanager
def finish_on_interrupt() -> Iterator[None]:
    """The first Ctrl-C only prints a note, so that a change is not left half done. The second one ends the program."""
    handler = signal.getsignal(signal.SIGINT)

    def on_first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, handler)
        note("finishing the change, because stopping now would leave it half done; Ctrl-C again stops anyway")

    signal.signal(signal.SIGINT, on_first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
