"""What `samara --help`, the help of a command and `samara --version` show."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from contextlib import suppress

import click
import pytest
from tests.cli.program import samara_inside

from samara import __version__
from samara.cli.main import COMMANDS, DEVTOOLS_COMMANDS, GROUPS
from samara.cli.main import samara as program
from samara.cli.options import Command


def test_help_shows_the_commands_under_the_title_of_their_group() -> None:
    shown = samara_inside("--help").out
    for title, group in GROUPS.items():
        section = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  ([a-z]+) ", section, re.MULTILINE) == list(group)


def test_every_command_of_the_program_has_one_group() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert sorted(names) == sorted({*COMMANDS})
    assert not {*names} & {*DEVTOOLS_COMMANDS}


def test_help_of_a_command_is_also_a_command_as_in_kubectl() -> None:
    assert samara_inside("help", "why") == samara_inside("why", "--help")
    assert samara_inside("help") == samara_inside("--help")
    done = samara_inside("help", "statsu")
    assert (done.code, done.err.splitlines()[-1].partition("; ")[2]) == (2, "did you mean 'status'?")


def test_the_version_flag_prints_the_version_without_a_cluster() -> None:
    done = samara_inside("--version")
    assert done == (0, f"samara {__version__}\n", "")
    assert samara_inside("version").out.startswith(done.out)


# the help of a command

FLAGS = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def commands() -> dict[str, click.Command]:
    context = click.Context(program)
    named = {name: program.get_command(context, name) for name in (*COMMANDS, *DEVTOOLS_COMMANDS)}
    return {name: command for name, command in named.items() if command is not None}


def examples() -> list[tuple[str, str]]:
    return [
        (name, line)
        for name, command in commands().items()
        if isinstance(command, Command)
        for line in command.examples.values()
    ]


def words_of(line: str) -> list[str]:
    """The arguments of `samara` in a line of a shell, where it may be in a pipe or in a substitution."""
    (arguments,) = re.findall(r"\bsamara ([^|>)]*)", line)
    return shlex.split(arguments)


@pytest.mark.parametrize(("name", "line"), examples())
def test_the_examples_of_a_command_are_legal_usage_of_it(name: str, line: str) -> None:
    first, *arguments = words_of(line)
    assert first == name
    with suppress(click.exceptions.Exit), click.Context(program, info_name="samara") as parent:
        commands()[name].make_context(name, arguments, parent)


def test_every_command_has_two_or_three_examples_and_its_help_shows_them_before_the_flags() -> None:
    by_command = Counter(name for name, _ in examples())
    assert {name: count for name, count in by_command.items() if count not in (2, 3)} == {}
    assert set(by_command) == {*COMMANDS, *DEVTOOLS_COMMANDS}
    for name, line in examples():
        shown = samara_inside(name, "--help").out
        assert f"\n  {line}\n" in shown.partition("\nOptions:\n")[0]


def test_the_help_of_a_command_shows_its_own_flags_before_those_of_every_command() -> None:
    own, general = samara_inside("why", "--help").out.partition("Options of every command:")[::2]
    assert {"--config", "--namespace", "--output"} <= set(FLAGS.findall(own))
    assert "--kubeconfig" not in own
    assert {"--kubeconfig", "--context", "--as", "--request-timeout", "--debug", "--help"} <= set(
        FLAGS.findall(general)
    )


def test_every_flag_that_help_shows_is_explained() -> None:
    for name, command in commands().items():
        options = (parameter for parameter in command.params if isinstance(parameter, click.Option))
        assert [option.opts for option in options if not option.hidden and not option.help] == [], name


def test_the_help_of_a_command_fits_a_terminal() -> None:
    for name in (*COMMANDS, *DEVTOOLS_COMMANDS):
        lines = samara_inside(name, "--help").out.splitlines()
        assert [line for line in lines if len(line) > 80] == [], name


def test_the_help_names_the_variable_of_a_flag() -> None:
    assert "such as SAMARA_CONFIG for --config." in " ".join(samara_inside("why", "--help").out.split())
    assert "Flags that delete something have none." in " ".join(samara_inside("orphans", "--help").out.split())


def test_a_wrong_value_of_a_variable_is_reported_with_its_name() -> None:
    done = samara_inside("status", env={"SAMARA_VOCABULARY": "syncto"})
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("Error: Invalid value for the variable SAMARA_VOCABULARY: 'syncto'")
    assert "SAMARA_VOCABULARY" not in samara_inside("status", "--vocabulary", "syncto").err
