"""The examples and the manifests on the pages are valid, and the demo runs on a real cluster.

The manifests on the pages are applied by `test_docs_run.py`, in the order of their page.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.cluster.support.waiting import eventually
from tests.devtools.devcluster.test_lifetime import children_of, none_runs
from tests.support import toys
from tests.support.pages import EXAMPLES, MANIFESTS, ROOT, SETTINGS, fences

from samara import crds
from samara.cli.main import samara
from samara.settings import load, parse
from samara.vocabularies import VOCABULARIES
from samara_devtools.demo import stage, walks
from samara_devtools.devcluster import Devcluster

SHOWN = {str(path.relative_to(ROOT)): path.read_text() for path in MANIFESTS}
LINTED = SHOWN | {
    str(fence): fence.text
    for fence in fences()
    if fence.is_manifest and not fence.not_run and not fence.is_for_the_server
}
SAMARA = (sys.executable, "-P", "-m", "samara.cli.main")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Devcluster]:
    with Devcluster() as running:
        running.kubectl("create", "namespace", "admin")
        running.kubectl("apply", "--filename=-", input="---\n".join(map(crds.text, crds.shipped())))
        running.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        yield running


@pytest.mark.parametrize("name", LINTED)
def test_every_example_manifest_passes_lint(name: str, tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(LINTED[name])
    done = CliRunner().invoke(samara, ["lint", str(file)])
    assert done.exit_code == 0, done.output


def test_the_demo_serves_every_vocabulary_with_the_settings_of_its_example() -> None:
    settings = parse(stage.settings_text(), "demo")
    assert settings.vocabularies.keys() == {vocabulary.name for vocabulary in VOCABULARIES}
    for path in SETTINGS:
        name = path.parent.name
        assert settings.vocabularies[name] == load(str(path)).vocabularies[name]


def test_every_module_in_the_folder_of_walks_is_the_walk_of_a_vocabulary() -> None:
    modules = {path.stem for path in Path(walks.__file__).parent.glob("[a-z]*.py")}
    assert modules == {name.replace("-", "_") for name in walks.walks()}


def test_a_new_vocabulary_needs_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    before = walks.walks()
    monkeypatch.setattr(walks, "VOCABULARIES", (*VOCABULARIES, toys.CHAINS))
    assert walks.walks() == before


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: str(path.parent.name))
def test_manifests_beside_settings_pass_lint_with_them(path: Path) -> None:
    beside = [str(manifest) for manifest in MANIFESTS if manifest.parent == path.parent]
    done = CliRunner().invoke(samara, ["lint", "--config", str(path), *beside])
    assert done.exit_code == 0, done.output
    assert beside


@pytest.mark.cluster
@pytest.mark.parametrize("name", SHOWN)
def test_the_server_accepts_every_example_manifest(name: str, cluster: Devcluster) -> None:
    documents = [document for document in yaml.safe_load_all(SHOWN[name]) if document]
    there = cluster.kubectl("get", "namespaces", "--output=name").split()
    for namespace in {str(document["metadata"].get("namespace", "default")) for document in documents}:
        if f"namespace/{namespace}" not in there:  # a sub-namespace, which an operator would create
            cluster.kubectl("create", "namespace", namespace)
    # Namespaces first, and for real: a dry run in a namespace that does not exist is refused.
    for document in sorted(documents, key=lambda document: str(document["kind"]) != "Namespace"):
        dry = () if document["kind"] == "Namespace" else ("--dry-run=server",)
        cluster.kubectl("apply", *dry, "--filename=-", input=yaml.safe_dump(document))


def test_the_demo_of_a_checkout_uses_the_examples_of_the_checkout() -> None:
    assert stage.EXAMPLES == EXAMPLES


def finished(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Runs the demo and leaves no process behind, even after a timeout."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, process_group=0) as running:
        try:
            out, err = running.communicate(timeout=280)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, running.returncode, out, err)


@pytest.mark.cluster
def test_the_demo_shows_every_step_and_leaves_nothing(temporary: Path) -> None:
    # As on the pages. `make` uses the environment that runs the tests.
    installed = f"{sys.prefix}/.installed"
    command = ("make", "--directory", str(ROOT), f"--old-file={installed}", f"VENV={sys.prefix}", "demo")
    done = finished(command)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = ("10 copies", "equal to its source again", "the new namespace has its copy", "the copy in billing is gone")
    trees = (
        "each with its copy",
        "equal to that in the root",
        "flows three deep",
        "never saw the change",
        "is removed",
    )
    rotation = ("one key for each value", "has the new password", "with the last good values", "its Secret is gone")
    pushes = ("2 Secrets", "3 ConfigMaps", "the labelled namespace has its copy", "that in shop stays")
    assert [step for step in (*steps, *trees, *rotation, *pushes) if step not in done.stdout] == []
    assert "\x1b" not in done.stdout
    assert "example-not-a-password" not in done.stdout
    assert list(temporary.iterdir()) == []


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("flags", "code"), [((), 130), (("--keep",), 0)])
def test_an_interrupted_demo_leaves_nothing(
    temporary: Path, number: signal.Signals, flags: tuple[str, ...], code: int
) -> None:
    with subprocess.Popen([*SAMARA, "demo", *flags], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        mark = "export KUBECONFIG=" if flags else "in sync"
        line = next(line for line in demo.stdout if mark in line)
        started = children_of(demo.pid)
        assert len(started) >= 4  # three of the cluster and the operator; the demo may also run kubectl
        if flags:
            assert Path(line.strip().removeprefix("export KUBECONFIG=")).exists()
        demo.send_signal(number)
        assert demo.wait(60) == code
        eventually(lambda: none_runs(started), deadline=60.0)
    assert list(temporary.iterdir()) == []


@pytest.mark.cluster
def test_a_killed_demo_ends_its_cluster_and_its_operator(temporary: Path) -> None:
    with subprocess.Popen([*SAMARA, "demo", "--keep"], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if "export KUBECONFIG=" in line)
        started = children_of(demo.pid)
        demo.kill()
        demo.wait()
        eventually(lambda: none_runs(started), deadline=60.0)
    assert len(started) == 4


def test_on_a_machine_without_go_the_error_is_one_line(tmp_path: Path) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)}
    env.pop("KUBEBUILDER_ASSETS", None)
    done = subprocess.run([*SAMARA, "demo"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("samara: Go was not found")
    assert done.stderr.count("\n") == 1
