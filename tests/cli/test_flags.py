"""Boolean flags in all spellings that kubectl accepts, and their variables."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import click
import pytest
from tests.cli.program import samara_inside

from samara.cli.commands.run import command as run
from samara.cli.main import samara
from samara.cli.options import Command, flags_behind_command


def parsed(*args: str, **variables: str) -> dict[str, Any]:
    with patch.dict("os.environ", variables):
        program = click.Context(samara, **samara.context_settings)  # click caches the help of the first call
        return run.make_context("run", list(args), program).params


def test_flag_that_is_not_given_has_its_default() -> None:
    params = parsed()
    assert (params["leader_elect"], params["observe"]) == (None, False)


@pytest.mark.parametrize(
    ("args", "elects"),
    [
        (["--leader-elect"], True),
        (["--leader-elect=true"], True),
        (["--leader-elect=false"], False),
        (["--no-leader-elect"], False),
        (["--leader-elect", "--leader-elect=false"], False),
        (["--leader-elect=false", "--leader-elect=true"], True),
        (["--leader-elect=0"], False),
        (["--leader-elect=F", "--leader-elect=T"], True),
    ],
)
@pytest.mark.parametrize("variables", [{}, {"SAMARA_LEADER_ELECT": "true"}, {"SAMARA_LEADER_ELECT": "false"}])
def test_false_is_the_same_as_no(args: list[str], elects: bool, variables: dict[str, str]) -> None:
    assert parsed(*args, **variables)["leader_elect"] is elects


@pytest.mark.parametrize(
    ("args", "observes"),
    [
        ([], True),
        (["--observe=false"], False),
        (["--observe=true"], True),
        (["--observe", "--observe=false"], False),
        (["--observe=false", "--observe"], True),
        (["--log-level=debug", "--observe=false", "--no-webhook"], False),
    ],
)
def test_a_flag_that_is_switched_off_wins_over_its_variable(args: list[str], observes: bool) -> None:
    assert parsed(*args, SAMARA_OBSERVE="true")["observe"] is observes


def test_arguments_after_two_dashes_are_no_flags() -> None:
    @click.command("x", cls=Command)
    @click.option("--loud", is_flag=True)
    @click.argument("words", nargs=-1)
    def command() -> None: ...

    params = command.make_context("x", ["--loud", "--", "--loud=false"]).params
    assert params == {"loud": True, "words": ("--loud=false",)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("-n shop why secret/db", "why -n shop secret/db"),
        ("--namespace=shop --context c why secret/db", "why --namespace=shop --context c secret/db"),
        ("--insecure-skip-tls-verify -s https://x plan", "plan --insecure-skip-tls-verify -s https://x"),
        ("why -n shop secret/db", "why -n shop secret/db"),
        ("-o json -n shop status", "status -o json -n shop"),
        ("-o=name --selector=a=b -A plan", "plan -o=name --selector=a=b -A"),
        ("-A status -l a", "status -A -l a"),
        ("--version", "--version"),
        ("--observe run", "--observe run"),
        ("-n shop", ""),
        ("-n shop --help", "--help"),
        ("-n", ""),
        ("", ""),
    ],
)
def test_flags_of_kubectl_may_be_in_front_of_the_command(before: str, after: str) -> None:
    assert flags_behind_command(before.split()) == after.split()


def test_a_flag_in_front_of_the_command_is_one_of_the_command() -> None:
    assert samara_inside("-n", "elsewhere", "rbac") == samara_inside("rbac", "-n", "elsewhere")
    assert "namespace: elsewhere" in samara_inside("--namespace=elsewhere", "rbac").out
    assert samara_inside("-n", "shop", "statsu").err.endswith("found 'statsu'; did you mean 'status'?\n")
    assert samara_inside("-n", "shop", "--help") == samara_inside("--help")
    assert samara_inside("-n", "shop", "-o", "json", "help", "status") == samara_inside("status", "--help")
    assert samara_inside("-o", "json", "rbac") == samara_inside("rbac", "-o", "json")
    assert samara_inside("-o", "json", "crds").out.startswith("{")
    assert "No such option '-o'" in samara_inside("-o", "json", "release", "x").err
    assert samara_inside("-n", "shop") == samara_inside()
