"""What a shell offers when the user presses Tab: words of the program, and names from the cluster. Never an error."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class
from tests.cli.program import environment, samara, samara_inside
from tests.cluster.support.stage import Stage
from tests.support import forks
from tests.support.ports import free_port

from samara.cli.commands.completion import CORRECTED, PROGRAMS
from samara.cli.completion import TIME_LIMIT
from samara.cli.main import COMMANDS, DEVTOOLS_COMMANDS
from samara.settings import STRUCTS
from samara_devtools.devcluster import Devcluster

CANARY = "CANARY-9b41"
VARIABLE = "_SAMARA_COMPLETE"
PATIENT = {"SAMARA_REQUEST_TIMEOUT": "60s"}
"""A machine that runs many tests at a time may take longer than a shell would wait."""


def asked(line: str) -> dict[str, str]:
    """The variables with which the shell function asks for the last word of a line. It may be empty."""
    return {VARIABLE: "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}


def offered(line: str, env: Mapping[str, str] | None = None) -> list[str]:
    done = samara_inside(env={**asked(line), **PATIENT, **(env or {})})
    assert (done.code, done.err) == (0, "")
    return [word.removeprefix("plain,") for word in done.out.splitlines() if word]


def kubeconfig(folder: Path, server: str) -> dict[str, str]:
    file = folder / "kubeconfig"
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("test", "production")]
    clusters, users = [{"name": "c", "cluster": {"server": server}}], [{"name": "u", "user": {}}]
    document = {"current-context": "test", "contexts": contexts, "clusters": clusters, "users": users}
    file.write_text(json.dumps(document))
    return {"KUBECONFIG": str(file)}


# words of the program


def test_commands_are_offered_without_importing_one() -> None:
    script = (
        "import sys\nfrom samara.cli import main\n"
        "try:\n    main.main()\nexcept SystemExit as end:\n    code = end.code\n"
        "loaded = [name for name in sys.modules if name.startswith('samara.cli.commands.')]\n"
        "sys.exit(f'{code} {loaded}' if code or loaded else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(asked("samara ")), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [f"plain,{name}" for name in (*COMMANDS, *DEVTOOLS_COMMANDS)]


def test_flags_of_a_command_are_offered() -> None:
    assert offered("samara why --names") == ["--namespace"]


@pytest.mark.parametrize("command", ["run", "status", "orphans"])
def test_vocabularies_are_offered(command: str) -> None:
    assert offered(f"samara {command} --vocabulary s") == [name for name in STRUCTS if name.startswith("s")]


@pytest.mark.parametrize(
    "line", ["samara lint ", "samara plan -f ", "samara status --config ", "samara why --kubeconfig "]
)
def test_the_shell_offers_files_where_a_file_is_expected(line: str) -> None:
    assert offered(line) == ["file,"]


def test_contexts_of_the_kubeconfig_are_offered(tmp_path: Path) -> None:
    assert offered("samara status --context ", kubeconfig(tmp_path, "http://x")) == ["production", "test"]


@pytest.mark.parametrize("shell", CORRECTED)
def test_every_part_of_a_script_that_is_corrected_is_in_it_once(shell: str) -> None:
    script = get_completion_class(shell)
    assert script is not None
    assert {part: script.source_template.count(part) for part in CORRECTED[shell]} == dict.fromkeys(CORRECTED[shell], 1)


def test_zsh_and_fish_keep_the_flag_in_front_of_a_value() -> None:
    zsh, fish = (samara_inside("completion", shell).out for shell in ("zsh", "fish"))
    assert zsh.count('+=("$flag$key"') == 2 * len(PROGRAMS)
    assert fish.count('echo "$flag"$') == 2 * len(PROGRAMS)


# no cluster, and slow clusters

NAMES = ("samara why -n ", "samara why secret ", "samara why secret/", "samara tree ", "samara release ")


@pytest.mark.parametrize("line", [*NAMES, "samara status --context "])
def test_without_a_cluster_nothing_is_offered_and_nothing_said(line: str) -> None:
    assert offered(line) == []


@pytest.mark.parametrize("line", NAMES)
def test_a_cluster_that_refuses_the_connection_is_not_mentioned(line: str, tmp_path: Path) -> None:
    assert offered(line, kubeconfig(tmp_path, f"http://127.0.0.1:{free_port()}")) == []


def test_a_kubeconfig_that_cannot_be_read_is_not_mentioned(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("[")
    assert offered("samara why -n ", {"KUBECONFIG": str(tmp_path / "broken")}) == []
    assert offered("samara why --request-timeout soon -n ") == []


def test_kinds_are_offered_without_a_cluster() -> None:
    assert offered("samara why s") == ["secret", "subnamespace"]


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.heavy
def test_a_cluster_that_does_not_answer_is_waited_for_no_longer_than_the_limit(
    silent_server: str, tmp_path: Path
) -> None:
    samara("--version")  # starts what starts the processes
    began = time.monotonic()
    done = samara(env={**asked("samara why secret/"), **kubeconfig(tmp_path, silent_server)})
    assert done == (0, "", "")
    assert time.monotonic() - began < 10 * TIME_LIMIT < 30, "a request alone may take 30 s"


@pytest.mark.heavy
def test_an_exec_plugin_that_would_ask_the_user_is_not_started(tmp_path: Path) -> None:
    """As in a shell, stdin and stderr are a terminal."""
    variables = kubeconfig(tmp_path, "https://127.0.0.1:1")
    file = Path(variables["KUBECONFIG"])
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", f"echo password? >&2; touch {tmp_path / 'started'}"],
        "interactiveMode": "Always",
    }
    file.write_text(json.dumps({**json.loads(file.read_text()), "users": [{"name": "u", "user": {"exec": plugin}}]}))
    ours, terminal = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "samara.cli.main"],
        env=environment({**asked("samara why -n "), **PATIENT, **variables}),
        stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, check=False,
    )  # fmt: skip
    os.close(terminal)
    with pytest.raises(OSError, match="Input/output error"):  # nothing was written before the other end was closed
        os.read(ours, 100)
    os.close(ours)
    assert (done.returncode, done.stdout.strip()) == (0, b"")
    assert not (tmp_path / "started").exists()


# names from the cluster


@pytest.fixture
def names(stage: Stage) -> dict[str, str]:
    """Secrets and ConfigMaps in two namespaces, and the variable that names the cluster."""
    stage.namespace("shop", "shipping")
    for name in ("registry-pull", "registry-push", "db"):
        stage.foreign("shop", name, {"password": CANARY})
    stage.foreign("shipping", "other")
    stage.api.create("/api/v1/namespaces/shop/configmaps", {"metadata": {"name": "registry"}, "data": {"a": CANARY}})
    return {"KUBECONFIG": str(stage.cluster.kubeconfig)}


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("samara why -n sh", ["shipping", "shop"]),
        ("samara status --namespace sh", ["shipping", "shop"]),
        ("samara tree sh", ["shipping", "shop"]),
        ("samara why sec", ["secret"]),
        ("samara why -n shop secret reg", ["registry-pull", "registry-push"]),
        ("samara why -n shop secret/reg", ["secret/registry-pull", "secret/registry-push"]),
        ("samara why -n shop v1/Secret/reg", ["v1/Secret/registry-pull", "v1/Secret/registry-push"]),
        ("samara why -n shop secret registry-pull reg", ["registry-push"]),
        ("samara why -n shop secret/db cm/", ["cm/kube-root-ca.crt", "cm/registry"]),
        ("samara why -n shop secret,cm reg", ["registry", "registry-pull", "registry-push"]),
        ("samara why ns sh", ["shipping", "shop"]),
        ("samara why -n shop secret/db re", []),
        ("samara why -n shop nothing re", []),
        ("samara why -n missing secret re", []),
    ],
)
def test_names_of_the_cluster_are_offered(line: str, expected: list[str], names: dict[str, str]) -> None:
    # The controller manager creates this ConfigMap some time after the namespace.
    assert [word for word in offered(line, names) if word != "cm/kube-root-ca.crt"] == [
        word for word in expected if word != "cm/kube-root-ca.crt"
    ]


@pytest.mark.cluster
def test_keys_of_held_deletions_are_offered(stage: Stage, names: dict[str, str]) -> None:
    key = "secret-copy/Secret/admin/db"
    record = {"key": key, "count": 7, "since": "", "until": "forever", "set": "x"}
    holds = {"metadata": {"name": "samara-holds"}, "data": {"x": json.dumps(record)}}
    stage.api.create("/api/v1/namespaces/shop/configmaps", holds)
    assert offered("samara release -n shop secret-", names) == [key]
    assert offered(f"samara release -n shop {key} secret-", names) == []
    assert offered("samara release -n shipping secret-", names) == []


@pytest.mark.cluster
def test_completion_reads_names_only(stage: Stage, names: dict[str, str]) -> None:
    mark = stage.audit.mark()
    assert offered("samara why -n shop secret/db", names) == ["secret/db"]
    read = [event for event in stage.audit.ours(mark) if event.resource == "secrets"]
    assert [event.response["kind"] for event in read] == ["Table"]
    assert CANARY not in str(read)


@pytest.mark.cluster
def test_without_rights_nothing_is_offered_and_nothing_said(stage: Stage, names: dict[str, str]) -> None:
    nobody = {"KUBECONFIG": str(stage.kubeconfig("nobody"))}
    for line in NAMES:
        assert offered(line, nobody) == []


@pytest.mark.cluster
def test_bash_completes_with_the_printed_script(stage: Stage, names: dict[str, str], tmp_path: Path) -> None:
    forks.on_path(tmp_path)
    script = (
        'eval "$(samara completion bash)"\n'
        "COMP_WORDS=(samara why -n shop secret/reg) COMP_CWORD=4 COMPREPLY=()\n"
        "_samara_completion samara\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment({**names, **PATIENT, "PATH": path}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (
        0, ["secret/registry-pull", "secret/registry-push"], ""
    )  # fmt: skip


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["why", "-n", "shop", "secret/reg"], ["secret/registry-pull", "secret/registry-push", ":4"]),
        (["st"], ["status\t" + COMMANDS["status"], ":4"]),
        (["lint", ""], [":0"]),
    ],
)
def test_kubectl_completes_its_plugin(
    words: list[str], expected: list[str], names: dict[str, str], tmp_path: Path, cluster: Devcluster
) -> None:
    forks.on_path(tmp_path)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        [cluster.binaries.kubectl, "__complete", "samara", *words],
        env=environment({**names, **PATIENT, "PATH": path, "HOME": str(tmp_path)}),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == expected
