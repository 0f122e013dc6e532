"""`--watch`: repeats a command, and prints its answer whenever that has changed."""

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

MIN_PAUSE = 2.0
"""Seconds between two rounds."""
PAUSE_FACTOR = 9.0
"""The pause after a round as a multiple of its length, so that watching takes at most a tenth of the time."""


def watch_flag(command: F) -> F:
    about = "Repeat until Ctrl-C, and show every change."
    return click.option("-w", "--watch", is_flag=True, help=about)(command)


def until_interrupted(endless: Coroutine[Any, Any, None]) -> None:
    """Runs until Ctrl-C, which is no error here."""
    with suppress(KeyboardInterrupt):
        wait_for(endless)


async def watched(
    read: Callable[[], Awaitable[T]],
    show: Callable[[T], None],
    comparable: Callable[[T], object],
    form: str,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Shows an answer if its `comparable` form differs from that of the last one.

    An error in the first round is raised. Later ones are noted once, and the next round tries again.
    """
    before, error_before = None, ""
    while True:
        started = monotonic()
        try:
            answer = await read()
        except SamaraError as error:
            if before is None:
                raise
            if str(error) != error_before:
                note(f"{error}; it is tried again")
            error_before = str(error)
        else:
            error_before = ""
            if comparable(answer) != before:
                _separate(before is None, form)
                show(answer)
            before = comparable(answer)
            without_progress()
        await pause(max(MIN_PAUSE, PAUSE_FACTOR * (monotonic() - started)))


def _separate(first: bool, form: str) -> None:
    """On a terminal the new answer replaces the old one. Elsewhere one block follows the other."""
    if sys.stdout.isatty():
        click.clear()
    elif not first:
        click.echo("---" if form == "yaml" else "")
