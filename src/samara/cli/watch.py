"""`--watch`: repeats a command, and prints its answer when it has changed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from time import monotonic
from typing import Any, TypeVar

import click

from samara.cli.options import wait_for
from samara.cli.output import note, without_progress
from samara.kube.errors import SamaraError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

MIN_PAUSE = 2.0
"""Seconds between two rounds at least."""
PAUSE_FACTOR = 9.0
"""The pause after a round as a multiple of its length, so that watching takes at most a tenth of the time."""


def watch_flag(command: F) -> F:
    help_text = "Repeat until Ctrl-C, and show every change."
    return click.option("-w", "--watch", is_flag=True, help=help_text)(command)


def until_interrupted(coroutine: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine until Ctrl-C, which is no error here."""
    with suppress(KeyboardInterrupt):
        wait_for(coroutine)


async def show_changes(
    read: Callable[[], Awaitable[T]],
    show: Callable[[T], None],
    comparable: Callable[[T], object],
    form: str,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Reads in rounds, and shows an answer if its `comparable` form differs from that of the last one.

    An error in the first round is raised. Later ones are noted once, and the next round tries again.
    """
    shown: object = None
    last_error = ""
    while True:
        started = monotonic()
        try:
            with nullcontext() if shown is None else without_progress():  # it would flicker every two seconds
                answer = await read()
        except SamaraError as error:
            if shown is None:
                raise
            if str(error) != last_error:
                note(f"{error}; trying again")
            last_error = str(error)
        else:
            last_error = ""
            if (current := comparable(answer)) != shown:
                _separate(shown is None, form)
                show(answer)
                shown = current
        await pause(max(MIN_PAUSE, PAUSE_FACTOR * (monotonic() - started)))


def _separate(is_first: bool, form: str) -> None:
    """On a terminal, clears the last answer. Elsewhere, prints a separator after it."""
    if sys.stdout.isatty():
        click.clear()
    elif not is_first:
        click.echo("---" if form == "yaml" else "")
