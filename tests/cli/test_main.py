"""Exit codes, one-line faults, help and variables: what every command has in common."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.program import environment, samara, samara_inside
from tests.support.ports import free_port

from samara.cli.main import COMMANDS, DEVTOOLS_COMMANDS, NO_DEMO
from samara.cli.main import samara as program
from samara.vocabularies import VOCABULARIES

pytestmark = pytest.mark.heavy

ON_A_CLUSTER = (
    ("plan",),
    ("why", "secret/db"),
    ("status",),
    ("release", "secret-copy/Secret/admin/db"),
    ("orphans",),
)
WITHOUT_A_CLUSTER = (("rbac",), ("crds",), ("manifests",), ("lint", "-"))
"""Commands that use the default settings if no cluster answers."""


def kubeconfig(folder: Path, server: str) -> Path:
    file = folder / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    return file


def test_help_lists_every_command_without_importing_one() -> None:
    script = (
        "import sys; sys.argv = ['samara', '--help']\nfrom samara.cli import main\n"
        "try:\n    main.main()\nexcept SystemExit as end:\n    code = end.code\n"
        "loaded = [name for name in sys.modules if name.startswith('samara.cli.commands.')]\n"
        "sys.exit(f'{code} {loaded}' if code or loaded else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    for name in (*COMMANDS, *DEVTOOLS_COMMANDS):
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", ["why", "status", "plan"])
def test_a_command_that_reads_imports_neither_the_operator_nor_a_secret_manager(name: str) -> None:
    """They would take a third of the time of `samara why`."""
    script = (
        f"import sys; from samara.cli.commands import {name}\n"
        "heavy = {'samara.app', 'samara.engine.controller', 'samara.web', 'samara.secretstores', 'prometheus_client'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = samara_inside(name, "--help")
    assert (done.code, done.err) == (0, "")


def test_without_the_development_tools_demo_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **selection: ())
    done = samara_inside("demo")
    assert (done.code, done.out) == (2, "")
    assert f"Error: {NO_DEMO}\n" in done.err
    assert samara_inside("no-such-command").code == 2


def test_another_package_adds_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def hello() -> None:
        click.echo("hello")

    class Entry:
        def load(self) -> click.Command:
            return hello

    def entry_points(group: str, name: str) -> list[Entry]:
        return [Entry()] if (group, name) == ("samara.commands", "hello") else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert samara_inside("hello") == (0, "hello\n", "")


@pytest.mark.parametrize("args", [*ON_A_CLUSTER, *WITHOUT_A_CLUSTER])
def test_a_missing_kubeconfig_is_one_line_and_exit_1(args: tuple[str, ...], tmp_path: Path) -> None:
    assert "No such file" in samara_inside(*args, "--kubeconfig", tmp_path / "none").fault


@pytest.mark.parametrize("args", ON_A_CLUSTER)
def test_no_cluster_at_all_is_one_line_and_exit_1(args: tuple[str, ...]) -> None:
    assert "expected a cluster to talk to" in samara_inside(*args).fault


@pytest.mark.parametrize("args", ON_A_CLUSTER)
def test_an_unreachable_server_is_one_line_and_exit_1(args: tuple[str, ...], tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, f"http://127.0.0.1:{free_port()}")
    assert "no answer from http://127.0.0.1" in samara_inside(*args, "--kubeconfig", file).fault


@pytest.mark.parametrize("flag", ["--context", "--cluster", "--user"])
@pytest.mark.parametrize("args", WITHOUT_A_CLUSTER)
def test_name_that_the_kubeconfig_lacks_is_refused(args: tuple[str, ...], flag: str, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, f"http://127.0.0.1:{free_port()}")
    assert "nowhere" in samara_inside(*args, flag, "nowhere", env={"KUBECONFIG": str(file)}).fault


def test_invalid_address_is_refused() -> None:
    assert "expected a URL" in samara_inside("crds", "--server", "ftp://nowhere").fault


@pytest.mark.parametrize("args", WITHOUT_A_CLUSTER)
def test_defaults_are_used_if_a_named_server_does_not_answer(args: tuple[str, ...], tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, f"http://127.0.0.1:{free_port()}")
    done = samara_inside(*args, "--kubeconfig", file)
    assert (done.code, "settings: the defaults (no cluster could be reached" in done.err) == (0, True), done.err


@pytest.mark.parametrize("args", WITHOUT_A_CLUSTER)
def test_defaults_are_used_if_no_cluster_is_named(args: tuple[str, ...], tmp_path: Path) -> None:
    done = samara_inside(*args, env={"KUBECONFIG": str(tmp_path / "none")})
    assert (done.code, "settings: the defaults (no cluster could be reached" in done.err) == (0, True), done.err


def test_wrong_settings_are_reported_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("recreate: maybe\nresink: 5m\n")
    done = samara("plan", "--config", file)
    assert done.code == 1
    assert done.err.splitlines() != []
    assert all(line.startswith(f"samara: {file}: ") for line in done.err.splitlines())


@pytest.mark.parametrize(
    "args",
    [
        ("nothing",),
        ("plan", "--nothing"),
        ("plan", "-o", "xml"),
        ("why",),
        ("why", "db"),
        ("why", "secret/"),
        ("release", "db"),
        ("release", "secret-copy/Secret//db"),
        ("lint",),
        ("completion", "tcsh"),
        ("plan", "--request-timeout", "soon"),
        ("run", "--vocabulary", "nothing"),
        ("run", "--dialect", "sync-to"),
    ],
)
def test_wrong_usage_is_exit_2(args: tuple[str, ...]) -> None:
    done = samara_inside(*args)
    assert done.code == 2, done.err
    assert "Traceback" not in done.err


def test_the_former_name_of_a_flag_and_its_variable_is_refused_and_the_new_one_named() -> None:
    for done in (samara_inside("run", "--dialect=sync-to"), samara_inside("run", env={"SAMARA_DIALECT": "sync-to"})):
        assert "--dialect: unknown option, it is called '--vocabulary' now" in done.err


def test_vocabulary_that_the_settings_leave_out_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("vocabularies: {secret-copy: {}, accurate: {}}\n")
    fault = samara_inside("run", "--config", file, "--vocabulary", "sync-to").fault
    assert "--vocabulary sync-to: expected a vocabulary that the settings name" in fault
    assert "secret-copy, accurate" in fault


def test_contradiction_in_settings_of_a_vocabulary_that_is_not_served_is_accepted(tmp_path: Path) -> None:
    file, nowhere = tmp_path / "settings.yaml", ("--kubeconfig", tmp_path / "none")
    file.write_text("{tenancy: strict, conflicts: overwrite}\n")
    assert "because tenancy is strict" in samara_inside("run", "--config", file, *nowhere).err
    assert "because tenancy is strict" in samara_inside("run", "--config", file, *nowhere, "--vocabulary=sync-to").fault
    assert "No such file" in samara_inside("run", "--config", file, *nowhere, "--vocabulary=secret-copy").fault


@pytest.mark.parametrize("text", ["secret-copy sync-to", "secret-copy,sync-to", "secret-copy, sync-to"])
def test_the_variable_of_a_repeatable_flag_takes_several(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("vocabularies: {secret-copy: {}}\n")
    fault = samara_inside("run", "--config", file, env={"SAMARA_VOCABULARY": text}).fault
    assert "--vocabulary sync-to: " in fault


def test_unexpected_fault_is_one_line_with_its_location_and_debug_shows_the_traceback(tmp_path: Path) -> None:
    # A registered command whose module is broken is a bug that needs no change of our code.
    script = (
        "import sys, types\nfrom samara.cli import main, options\nimport click\n"
        "@click.command('plan', cls=options.Command)\ndef command():\n    raise KeyError('CANARY')\n"
        "broken = types.ModuleType('samara.cli.commands.plan'); broken.command = command\n"
        "sys.modules['samara.cli.commands.plan'] = broken\nmain.main()\n"
    )
    for more, shown in ((["plan"], False), (["plan", "--debug"], True)):
        done = subprocess.run(
            [sys.executable, "-c", script, *more], capture_output=True, text=True, env=environment(), check=False
        )
        assert done.returncode == 1
        assert "samara: a bug: unexpected KeyError" in done.stderr
        assert ("Traceback" in done.stderr) is shown
        assert ("CANARY" in done.stderr) is shown


def test_closed_pipe_causes_no_output_on_stderr() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "samara.cli.main", "rbac"], stdout=writing, stderr=subprocess.PIPE, env=environment(),
        check=False,
    )  # fmt: skip
    os.close(writing)
    assert b"Traceback" not in done.stderr
    assert b"Broken" not in done.stderr
    assert b"Exception ignored" not in done.stderr


PROGRAM = (sys.executable, "-m", "samara.cli.main")


def test_full_disk_is_one_line_and_exit_1() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "crds"], stdout=full, stderr=subprocess.PIPE, env=environment(), text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("samara: expected to be able to write, found: No space left on")


def test_closed_stdout_is_no_error() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{shlex.join(PROGRAM)} crds >&-"], capture_output=True, env=environment(), text=True, check=False
    )
    assert (done.returncode, "bug" in done.stderr) == (0, False)


def test_interrupt_prints_no_traceback(tmp_path: Path) -> None:
    pipe = tmp_path / "manifests.yaml"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "samara.cli.main", "lint", str(pipe), "--config=/dev/null"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    with pipe.open("wb"):  # returns when the program has opened the pipe for reading
        while not _interrupted(process):
            pass
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stderr.strip() == b""


def _interrupted(process: subprocess.Popen[bytes]) -> bool:
    """A signal between open and read of a pipe does not interrupt the read, so the signal is sent repeatedly."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    return process.poll() is not None


def commands() -> list[click.Command]:
    context = click.Context(program)
    commands = [program.get_command(context, name) for name in COMMANDS]
    return [command for command in commands if command is not None]


def test_every_flag_has_a_variable_of_its_own_name() -> None:
    for command in commands():
        for option in (parameter for parameter in command.params if isinstance(parameter, click.Option)):
            flag = max(option.opts, key=len)
            if flag in ("--copies", "--delete", "--discard"):
                assert option.envvar is None
            else:
                assert option.envvar == f"SAMARA_{flag.strip('-').replace('-', '_').upper()}"


def test_variable_has_the_effect_of_its_flag(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("resink: 5m\n")
    assert "resink" in samara_inside("rbac", env={"SAMARA_CONFIG": str(file)}).fault
    assert samara_inside("rbac", env={"SAMARA_OUTPUT": "json"}).json["kind"] == "List"
    assert "namespace: elsewhere" in samara_inside("rbac", env={"SAMARA_NAMESPACE": "elsewhere"}).out
    assert "SAMARA_EXPLAIN" in samara_inside("rbac", "--help").out
    assert samara_inside("run", env={"SAMARA_HELP_SETTINGS": "1"}) == samara_inside("run", "--help-settings")


def test_run_accepts_every_flag_of_the_specification(tmp_path: Path) -> None:
    flags = [
        "--observe", "--leader-elect", "--http-address=:0", "--webhook-address=:0", "--no-webhook",
        "--webhook-url=https://127.0.0.1:9443", "--log-format=json", "--log-level=debug", "--vocabulary=secret-copy",
    ]  # fmt: skip
    done = samara("run", *flags, "--kubeconfig", tmp_path / "none")
    assert done.code == 1
    assert "--no-webhook was given, so --webhook-url has no effect" in done.err.splitlines()[0]
    assert "No such file" in done.err.splitlines()[1]


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--http-address", "foo"),
        ("--http-address", ""),
        ("--webhook-address", ":99999"),
        ("--webhook-url", "foo"),
        ("--webhook-url", "http://127.0.0.1:9443"),
    ],
)
def test_run_with_an_invalid_address_is_wrong_usage(flag: str, value: str) -> None:
    before = signal.getsignal(signal.SIGINT)
    done = samara_inside("run", f"{flag}={value}")
    assert signal.getsignal(signal.SIGINT) is before
    assert done.code == 2, done.err
    assert f"{flag}: expected" in done.err
    assert f"found {value!r}" in done.err


EARLY = """
import os, signal, sys
from samara.cli import main
main.run = lambda *_: os.kill(os.getpid(), signal.SIG{name})
sys.argv = ["samara", "{command}"]
main.main()
"""


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_signal_while_the_operator_is_being_imported_exits_0(name: str) -> None:
    early = [sys.executable, "-c", EARLY.format(name=name, command="run")]
    done = subprocess.run(early, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_signal_to_another_command_does_not_exit_0() -> None:
    early = [sys.executable, "-c", EARLY.format(name="TERM", command="orphans")]
    assert subprocess.run(early, timeout=30, check=False).returncode == -signal.SIGTERM


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_both_names_of_the_program(shell: str) -> None:
    done = samara_inside("completion", shell)
    assert done.code == 0
    assert "_samara_completion" in done.out
    assert "_kubectl_samara_completion" in done.out


def test_the_completion_that_is_printed_completes() -> None:
    env = {"_SAMARA_COMPLETE": "bash_complete", "COMP_WORDS": "kubectl-samara pl", "COMP_CWORD": "1"}
    assert samara_inside(env=env).out.split() == ["plain,plan"]


def test_bash_accepts_the_completion() -> None:
    done = subprocess.run(["bash", "-n"], input=samara_inside("completion", "bash").out, text=True, check=False)
    assert done.returncode == 0


def test_version_needs_no_cluster() -> None:
    version = samara("version", "-o", "json").json
    assert version["vocabularies"] == [vocabulary.name for vocabulary in VOCABULARIES]
    assert version["server"] is None


def test_version_exits_with_zero_and_says_why_the_server_was_not_reached() -> None:
    done = samara_inside("version", "--server=https://127.0.0.1:1", "--token=none", "--request-timeout=2s")
    assert done.code == 0
    assert "server: not reached" in done.out
    assert done.err.startswith("samara: the server's version could not be read: no answer from https://127.0.0.1:1")
