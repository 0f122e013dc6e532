"""What all commands have in common: a variable for every flag, `--debug`, `--config`, `-o`, and notes on stderr."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "SAMARA"
BY_HAND = frozenset({"--delete", "--discard"})
"""Flags without a variable: what removes things is said each time, not left lying in an environment."""


@dataclass(slots=True)
class Debug:
    """Whether somebody wants the traceback of an unexpected fault."""

    wanted: bool = False


def _remember(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    found = context.find_object(Debug)
    if wanted and found is not None:
        found.wanted = True


class Command(click.Command):
    """A command whose flags can all be given as `SAMARA_<FLAG>`, the same for every command."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        about = "Show the traceback of an unexpected fault."
        self.params.append(
            click.Option(["--debug"], is_flag=True, expose_value=False, callback=_remember, is_eager=True, help=about)
        )
        for parameter in self.params:
            if isinstance(parameter, click.Option):
                _name_variable(parameter)


def _name_variable(option: click.Option) -> None:
    flag = max(option.opts, key=len)
    if flag in BY_HAND or (option.is_eager and flag != "--debug"):
        return
    option.envvar = f"{PREFIX}_{flag.lstrip('-').replace('-', '_').upper()}"
    option.show_envvar = not option.hidden


def config_flag(command: F) -> F:
    about = "The settings; without it those of the operator in the cluster, else the defaults."
    return click.option("--config", metavar="FILE", help=about)(command)


def output_flag(*forms: str) -> Callable[[F], F]:
    choice = click.Choice(forms or ("table", "json", "yaml"))
    return click.option("-o", "--output", type=choice, default=choice.choices[0], show_default=True, help="The form.")


def note(text: str) -> None:
    """Tells a person something that is no part of the answer."""
    click.echo(f"samara: {text}", err=True)
