"""Tests commands, aliases, flags in every position, and wrong usage. None of it needs a cluster."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.program import environment
from tests.cli.test_main import kubeconfig
from tests.kube.scripted import access, says, serving
from tests.kubectl_accurate.plugin import accurate, accurate_inside
from tests.support.ports import free_port

from kubectl_accurate import lists
from kubectl_accurate.program import Command
from kubectl_accurate.sub import create, finish_on_interrupt
from samara import __version__
from samara.cli.inspect.namespaces import read_namespace
from samara.cli.options import Cluster, kubectl_flags
from samara.kube.client import Client, unrestricted

pytestmark = pytest.mark.heavy

COMMANDS = (
    ("list",),
    ("ls", "r"),
    ("namespace", "describe", "a"),
    ("ns", "describe", "a"),
    ("ns", "set-type", "a", "root"),
    ("template", "list"),
    ("template", "ls"),
    ("template", "set", "a", "t"),
    ("template", "unset", "a"),
    ("sub", "create", "a", "r"),
    ("sub", "delete", "a"),
    ("sub", "move", "a", "s"),
    ("sub", "graft", "a", "s"),
    ("sub", "cut", "a"),
    ("sub", "list"),
    ("sub", "ls"),
)
FLAGS = (
    "--context=c", "--cluster=c", "--user=u", "--as=eve", "--as-group=g", "--as-group=h", "--as-uid=1",
    "--as-user-extra=k=v", "--token=t", "--certificate-authority=ca", "--client-certificate=c", "--client-key=k",
    "--insecure-skip-tls-verify=false", "--tls-server-name=n", "--disable-compression", "--cache-dir=d", "-n", "x",
    "--request-timeout=3s",
)  # fmt: skip


@pytest.fixture
def nobody(tmp_path: Path) -> Path:
    """A kubeconfig for a server that does not exist."""
    return kubeconfig(tmp_path, f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_takes_kubectls_flags_after_it(command: tuple[str, ...], nobody: Path) -> None:
    result = accurate_inside(*command, f"--kubeconfig={nobody}", *FLAGS)
    assert result.fault.startswith("no answer from http://127.0.0.1")


@pytest.mark.parametrize("command", [("list",), ("sub", "create", "a", "r"), ("ns", "set-type", "a", "root")])
def test_a_command_takes_kubectls_flags_before_and_between(command: tuple[str, ...], nobody: Path) -> None:
    for place in range(len(command)):
        result = accurate_inside(*command[:place], f"--kubeconfig={nobody}", *FLAGS, *command[place:])
        assert result.fault.startswith("no answer from http://127.0.0.1"), place


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> list[Cluster]:
    """The clusters with which `list` is called. A stand-in replaces the command."""
    clusters: list[Cluster] = []

    @click.command("list", cls=Command)
    @kubectl_flags
    def command(cluster: Cluster) -> None:
        clusters.append(cluster)

    monkeypatch.setattr(lists, "list_trees", command)
    return clusters


@pytest.mark.parametrize("off", ["--insecure-skip-tls-verify=false", "--insecure-skip-tls-verify=0"])
def test_a_flag_that_is_switched_off_after_the_command_wins_over_the_same_before_it(
    off: str, clusters: list[Cluster]
) -> None:
    assert accurate_inside("--insecure-skip-tls-verify=T", "list").good == ""
    assert accurate_inside("--insecure-skip-tls-verify", "list", off).good == ""
    assert accurate_inside("list", "--insecure-skip-tls-verify", off).good == ""
    assert [cluster.rare_flags["insecure_skip_tls_verify"] for cluster in clusters] == [True, False, False]


def test_values_of_a_repeatable_flag_add_up_before_and_after_the_command(clusters: list[Cluster]) -> None:
    assert accurate_inside("--as-group=a", "--as=u", "list", "--as-group=b", "--as-group=c").good == ""
    assert accurate_inside("--as-group=a", "--as=u", "list").good == ""
    assert [cluster.rare_flags["as_groups"] for cluster in clusters] == [("a", "b", "c"), ("a",)]


def test_a_flag_after_the_command_wins_over_the_same_before_it(nobody: Path) -> None:
    result = accurate_inside("--kubeconfig=/nonexistent/file", "sub", "list", f"--kubeconfig={nobody}")
    assert result.fault.startswith("no answer")


@pytest.mark.parametrize(
    "args",
    [
        ("nothing",),
        ("sub", "nothing"),
        ("list", "a", "b"),
        ("list", "--nothing"),
        ("ns", "describe"),
        ("ns", "set-type", "a"),
        ("template", "set", "a"),
        ("sub", "create", "a"),
        ("sub", "create", "a", "r", "--labels", "novalue"),
        ("sub", "create", "a", "r", "--annotations", "=value"),
        ("sub", "create", "a", "r", "--annotations", f"a=b,c={'d' * 200_000}"),
        ("sub", "move", "a"),
        ("sub", "list", "--request-timeout=soon"),
        ("help", "nothing"),
        ("help", "list", "more"),
        ("completion",),
        ("completion", "tcsh"),
        ("completion", "powershell"),
    ],
    ids=lambda args: " ".join(args)[:40],
)
def test_7_wrong_usage_is_exit_1_and_one_line_without_the_usage(args: tuple[str, ...]) -> None:
    result = accurate_inside(*args)
    assert result.fault.endswith("--help` shows how it is used")
    assert (result.out, "Usage:" in result.err) == ("", False)


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (command, place)
        for command in COMMANDS
        for place in range(len(command))
        if command[place] in ("a", "r", "s", "t")
    ],
    ids=str,
)
def test_an_empty_name_is_refused_before_any_request(command: tuple[str, ...], place: int, nobody: Path) -> None:
    result = accurate_inside(*command[:place], "", *command[place + 1 :], f"--kubeconfig={nobody}")
    assert ": expected a name, found ''" in result.fault


def test_any_name_is_one_segment_of_a_path() -> None:
    async def run() -> None:
        namespace_json = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}
        async with serving(says(namespace_json)) as script, Client(access(script), may_write=unrestricted) as client:
            await read_namespace(client, "a?x")
            assert (script.seen[0].path, script.seen[0].query) == (
                "/api/v1/namespaces/a?x",
                {},
            )  # decoded, and not a query parameter

    asyncio.run(run())


PAIRS = [
    (["a=b,c=d"], {"a": "b", "c": "d"}),
    (["a=b", "c=d"], {"a": "b", "c": "d"}),
    (["a=b, c"], {"a": "b, c"}),
    (['"a=b, c"'], {"a": "b, c"}),
    (["a=b\nc"], {"a": "b\nc"}),
    (['"a=b,c",d=e'], {"a": "b,c", "d": "e"}),
    (['"a=b\nc",d=e'], {"a": "b\nc", "d": "e"}),
    (["a="], {"a": ""}),
]


@pytest.mark.parametrize(("given", "pairs"), PAIRS)
def test_7_pairs_are_read_as_kubectl_reads_them(given: list[str], pairs: dict[str, str]) -> None:
    flags = [word for pair in given for word in ("--annotations", pair)]
    assert create.make_context("create", ["a", "r", *flags]).params["annotations"] == pairs


def test_7_an_unknown_type_is_refused_on_one_line_without_a_request(nobody: Path) -> None:
    result = accurate("ns", "set-type", "a", "tree", f"--kubeconfig={nobody}")
    assert result.fault == "invalid type: tree; expected root, template or none"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lsit",), "expected a command, found 'lsit'; did you mean 'list'?"),
        (("sub", "delte"), "expected a command, found 'delte'; did you mean 'delete'?"),
        (("help", "templat"), "expected a command, found 'templat'; did you mean 'template'?"),
        (("help", "sub", "mvoe"), "expected a command, found 'mvoe'; did you mean 'move'?"),
        (("frobnicate",), "expected a command, found 'frobnicate'"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(words: tuple[str, ...], message: str) -> None:
    assert accurate_inside(*words).fault.startswith(message)


def test_version_needs_no_cluster_and_imports_no_client() -> None:
    script = (
        "import sys; sys.argv = ['kubectl-accurate', '--version']\nfrom kubectl_accurate import program\n"
        "try:\n    program.main()\nexcept SystemExit as end:\n    code = end.code\n"
        "slow = sorted({'aiohttp', 'yaml', 'msgspec', 'ssl', 'asyncio', 'rich'} & set(sys.modules))\n"
        "sys.exit(f'{code} {slow}' if code or slow else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"kubectl-accurate version {__version__}\n"


@pytest.mark.parametrize("words", [(), ("sub",), ("sub", "move"), ("ns", "describe")])
def test_help_is_the_help_of_the_command(words: tuple[str, ...]) -> None:
    result = accurate_inside("help", *words).good
    assert result.startswith("Usage: kubectl-accurate")
    assert result.splitlines()[2:] == accurate_inside(*words, "--help").good.splitlines()[2:]


@pytest.mark.parametrize("words", [(), ("sub",), ("ns",), ("template",)])
def test_a_group_without_a_command_shows_its_help(words: tuple[str, ...]) -> None:
    assert accurate_inside(*words).good == accurate_inside(*words, "--help").good


def test_the_first_interrupt_lets_a_move_finish(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with finish_on_interrupt():
        signal.raise_signal(signal.SIGINT)
        assert "finishing the change" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_help_shows_every_flag_of_kubectl() -> None:
    result = accurate_inside("--help").good
    for flag in FLAGS:
        if flag.startswith("--"):
            assert flag.partition("=")[0] in result


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_the_shell(shell: str) -> None:
    assert "_KUBECTL_ACCURATE_COMPLETE" in accurate_inside("completion", shell).good


def test_the_completion_that_is_printed_completes() -> None:
    env = {"_KUBECTL_ACCURATE_COMPLETE": "bash_complete", "COMP_WORDS": "kubectl-accurate sub gr", "COMP_CWORD": "2"}
    assert accurate_inside(env=env).out.split() == ["plain,graft"]


def test_a_missing_cluster_is_one_line_and_exit_1() -> None:
    assert "expected a cluster to talk to" in accurate("list").fault
