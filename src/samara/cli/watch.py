"""`--watch`: looks again and again, and shows what has changed, until somebody ends it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

import click

from samara.cli.options import wait_for
from samara.cli.output import note, without_progress
from samara.kube.errors import SamaraError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

EVERY = 2.0
SHARE = 9.0
"""After a look that took long: ten times as long from one to the next, so that watching is no burden."""


def watch_flag(command: F) -> F:
    about = "Look again and again, and show what has changed, until Ctrl-C."
    return click.option("-w", "--watch", is_flag=True, help=about)(command)


def until_interrupted(endless: Coroutine[Any, Any, None]) -> None:
    """Ctrl-C is how a watch ends, so it is no fault."""
    with suppress(KeyboardInterrupt):
        wait_for(endless)


async def watched(
    look: Callable[[], Awaitable[T]],
    tell: Callable[[T], None],
    shape: Callable[[T], object],
    form: str,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Tells what a look brings whenever its shape differs from the one before; a server that is away is waited for."""
    before, trouble = None, ""
    while True:
        began = monotonic()
        try:
            found = await look()
        except SamaraError as fault:
            if before is None:
                raise
            if str(fault) != trouble:
                note(f"{fault}; it is tried again")
            trouble = str(fault)
        else:
            trouble = ""
            if shape(found) != before:
                _begin(before is None, form)
                tell(found)
            before = shape(found)
            without_progress()
        await pause(max(EVERY, SHARE * (monotonic() - began)))


def _begin(first: bool, form: str) -> None:
    """On a terminal what is new takes the place of what is old; elsewhere one block follows the other."""
    if sys.stdout.isatty():
        click.clear()
    elif not first:
        click.echo("---" if form == "yaml" else "")
