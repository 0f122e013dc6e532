"""What `samara --help`, the help of a command and `samara --version` show."""

from __future__ import annotations

import re

from tests.cli.program import samara_inside

from samara import __version__
from samara.cli.main import COMMANDS, DEVTOOLS_COMMANDS, GROUPS


def test_help_shows_the_commands_under_the_title_of_their_group() -> None:
    shown = samara_inside("--help").out
    for title, group in GROUPS.items():
        section = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  ([a-z]+) ", section, re.MULTILINE) == list(group)


def test_every_command_of_the_program_has_one_group() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert sorted(names) == sorted({*COMMANDS})
    assert not {*names} & {*DEVTOOLS_COMMANDS}


def test_the_version_flag_prints_the_version_without_a_cluster() -> None:
    done = samara_inside("--version")
    assert done == (0, f"samara {__version__}\n", "")
    assert samara_inside("version").out.startswith(done.out)
