"""What all commands have in common: a variable for every flag, `--debug`, `--config`, `-o`, and notes on stderr."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

PREFIX = "SAMARA"
BY_HAND = frozenset({"--copies", "--delete", "--discard"})
"""Flags without a variable: what removes things is said each time, not left lying in an environment."""

_ON = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_OFF = frozenset({"0", "f", "F", "false", "FALSE", "False"})
"""What kubectl takes for a flag that is on, and for one that is off."""


@dataclass(slots=True)
class Debug:
    """Whether somebody wants the traceback of an unexpected fault."""

    wanted: bool = False


def _remember(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    found = context.find_object(Debug)
    if wanted and found is not None:
        found.wanted = True


def debug_flag() -> click.Option:
    about = "Show the traceback of an unexpected fault."
    return click.Option(["--debug"], is_flag=True, expose_value=False, callback=_remember, is_eager=True, help=about)


def _spelled_out(flags: Mapping[str, click.Option], args: Sequence[str]) -> list[str]:
    """The arguments without the `=true` and `=false` that kubectl takes after a flag that has no value."""
    kept = []
    for each in args:
        flag, _, value = each.partition("=")
        if flag not in flags or value not in _ON | _OFF:
            kept.append(each)
        elif value in _ON:
            kept.append(flag)
    return kept


def _switched_off(flags: Mapping[str, click.Option], args: Sequence[str]) -> list[str]:
    """The names of the flags whose last word is `=false`: they are off, whatever a variable says."""
    last = {}
    for each in args:
        flag, _, value = each.partition("=")
        if flag in flags and flags[flag].expose_value:
            last[flags[flag].name or ""] = value
    return [name for name, value in last.items() if value in _OFF]


class Switching(click.Command):
    """Takes `--flag=false` as kubectl does: the last word on a flag counts, whatever stood before it."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        options = {flag: each for each in self.params if isinstance(each, click.Option) for flag in each.opts}
        flags = {flag: each for flag, each in options.items() if each.is_flag}
        end = _end(args, None if self.allow_interspersed_args else options)
        off = _switched_off(flags, args[:end])
        rest = super().parse_args(context, [*_spelled_out(flags, args[:end]), *args[end:]])
        context.params.update(dict.fromkeys(off, False))
        return rest


def _end(args: Sequence[str], options: Mapping[str, click.Option] | None) -> int:
    """Where the flags end at the latest; with `options` at the first word that is neither a flag nor its value."""
    last = args.index("--") if "--" in args else len(args)
    place = 0
    while options is not None and place < last and args[place].startswith("-"):
        found = options.get(args[place])
        place += 1 if found is None or found.is_flag else 2
    return last if options is None else min(place, last)


class Command(Switching):
    """A command whose flags can all be given as `SAMARA_<FLAG>`, the same for every command."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params.append(debug_flag())
        for parameter in self.params:
            if isinstance(parameter, click.Option):
                _name_variable(parameter)


def _name_variable(option: click.Option) -> None:
    flag = max(option.opts, key=len)
    if flag in BY_HAND:
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
    """Tells a person something that is no part of the answer, in the name of the program that runs."""
    context = click.get_current_context(silent=True)
    program = context.find_root().info_name if context is not None else None
    click.echo(f"{program or 'samara'}: {text}", err=True)


def wait_for(answer: Coroutine[Any, Any, T]) -> T:
    """The answer, kept out of the task: `asyncio.run` makes a repr of the task's result, here of 10,000 writes."""
    import asyncio  # as late as can be: help and completion must not wait for it

    kept: list[T] = []

    async def keep() -> None:
        kept.append(await answer)

    asyncio.run(keep())
    return kept[0]
