"""`samara version`: the version of the program and of the server."""

from __future__ import annotations

from typing import Any

import click

from samara import __version__
from samara.cli.formats import Form, output_flag
from samara.cli.options import Cluster, Command, kubectl_flags, wait_for
from samara.cli.output import emit, note
from samara.kube.client import Client, unrestricted
from samara.kube.codec import decode
from samara.kube.errors import SamaraError
from samara.settings import STRUCTS


@click.command(
    "version",
    cls=Command,
    namespace="Not used: the version of a server is the same in all its namespaces.",
    examples={
        "The program, and the server of the current context": "samara version",
        "For a script": "samara version -o json",
    },
)
@output_flag()
@kubectl_flags
def command(cluster: Cluster, output: Form) -> None:
    """Show the version, the vocabularies, and the version of the API server.

    If the server cannot be reached, stderr says why, and the exit code is 0.
    """
    answer = {"version": __version__, "vocabularies": list(STRUCTS), "server": wait_for(_server(cluster))}
    emit(lambda: answer, output, lambda: _show(answer))


async def _server(cluster: Cluster) -> str | None:
    try:
        async with Client(cluster.access(), timeout=cluster.optional_timeout, may_write=unrestricted) as client:
            return str(decode(await client.get("/version"))["gitVersion"])
    except SamaraError as fault:
        note(f"the server's version could not be read: {fault}")
    except (LookupError, ValueError):
        note("the server's version could not be read: the answer is not that of an API server")
    return None


def _show(answer: dict[str, Any]) -> None:
    click.echo(f"samara {answer['version']}")
    click.echo(f"vocabularies: {', '.join(answer['vocabularies'])}")
    click.echo(f"server: {answer['server'] or 'not reached'}")
