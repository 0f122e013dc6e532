"""Runs the blocks of the pages on a real control plane. Blocks that are not run are marked."""

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.repo.walk import Slate, Walk, dialogue, is_as_shown
from tests.repo.walk_before import BEFORE, NEW_SOURCE
from tests.support.pages import EXAMPLES, PAGES, ROOT, Fence, fences

from samara import crds
from samara_devtools.devcluster import Devcluster, DevclusterOptions
from samara_devtools.devcluster.cluster import to_stderr
from samara_devtools.devcluster.helm_program import find_helm

RUN = ("yaml", "sh", "console")
LISTED = tuple(fences())


def walked() -> dict[str, list[Fence]]:
    """By page: the blocks that are run."""
    by_page: dict[str, list[Fence]] = {}
    for fence in LISTED:
        if fence.language in RUN and not fence.not_run and not fence.is_for_the_server:
            by_page.setdefault(str(fence.page.relative_to(ROOT)), []).append(fence)
    return by_page


WALKED = walked()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Devcluster]:
    with Devcluster() as running:
        running.kubectl("apply", "--filename=-", input="---\n".join(map(crds.text, crds.shipped())))
        running.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        yield running


@pytest.fixture(scope="module")
def slate(cluster: Devcluster) -> Slate:
    return Slate(cluster)


@pytest.fixture
def walk(cluster: Devcluster, slate: Slate, tmp_path: Path) -> Iterator[Walk]:
    made = Walk(cluster, tmp_path / "here", find_helm(to_stderr))
    try:
        yield made
    finally:
        made.stop()
        slate.restore()


@pytest.mark.cluster
@pytest.mark.parametrize("page", WALKED)
def test_the_commands_of_a_page_print_what_it_shows(page: str, walk: Walk) -> None:
    fill_folder(walk, page)
    before = BEFORE.get(page)
    if before is not None:
        walk.prepare(before)
    for fence in WALKED[page]:
        walk.take(fence)


def fill_folder(walk: Walk, page: str) -> None:
    """Fills the folder in which a reader runs the commands of this page: the example, or the checkout."""
    folder = (ROOT / page).parent
    if EXAMPLES in folder.parents:
        shutil.copytree(folder, walk.folder)
        for file in walk.folder.glob("*.yaml"):
            file.write_text(walk.private(file.read_text()))
        return
    walk.folder.mkdir()
    for name in ("deploy", "examples"):
        (walk.folder / name).symlink_to(ROOT / name)


@pytest.mark.cluster
def test_distributions_are_encrypted_as_documented(tmp_path: Path) -> None:
    [fence] = [fence for fence in LISTED if fence.is_for_the_server]
    file = tmp_path / "encryption.yaml"
    file.write_text(fence.text)
    options = DevclusterOptions(apiserver_args=(f"--encryption-provider-config={file}",), controllers=False)
    with Devcluster(options) as cluster:
        cluster.kubectl("apply", "--filename=-", input=crds.text("resourcedistributions.apps.kruise.io"))
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        source = EXAMPLES / "resource-distribution" / "company-registry.yaml"
        cluster.kubectl("apply", f"--filename={source}")
        stored = raw(cluster, "/registry/apps.kruise.io/resourcedistributions/company-registry")
    assert stored.startswith(b"k8s:enc:secretbox:v1:key1:")
    assert b"an-example-not-a-password" not in stored


def raw(cluster: Devcluster, key: str) -> bytes:
    """The contents of etcd."""
    request = {"key": base64.b64encode(key.encode()).decode()}
    return base64.b64decode(cluster.etcd_call("/v3/kv/range", request)["kvs"][0]["value"])


# answers in JSON

SHOWN_BY = {
    "plan": "samara plan -o json",
    "status": "samara status -o json",
    "why": "samara why secret/orders-database -n shop -o json",
    "orphans": "samara orphans -o json",
    "lint": "samara lint wrong.yaml -o json || true",
    "rbac": "samara rbac --explain -o json",
    "tree": "samara tree payments --config settings.yaml -o json",
}


def shapes() -> dict[str, Any]:
    """By command: the JSON that the pages show for it."""
    by_name = {}
    for fence in LISTED:
        if fence.language == "json" and fence.page.name in ("commands.md", "kubectl-accurate.md"):
            above = "".join(fence.page.read_text().splitlines(keepends=True)[: fence.line])
            by_name[re.findall(r"`samara ([a-z]+)[^`]*`", above)[-1]] = json.loads(fence.text)
    return by_name


def differences(shown: Any, actual: Any, at: str = "") -> list[str]:
    """The paths at which the keys differ. A list is represented by its first item, and null matches anything."""
    if isinstance(shown, list) and isinstance(actual, list):
        return differences(shown[0], actual[0], f"{at}[]") if shown and actual else []
    if isinstance(shown, dict) and isinstance(actual, dict):
        other = [f"{at}.{key}" for key in shown.keys() ^ actual.keys()]
        return other + [
            difference
            for key in shown.keys() & actual.keys()
            for difference in differences(shown[key], actual[key], f"{at}.{key}")
        ]
    return [] if None in (shown, actual) or type(shown) is type(actual) else [f"{at} is {type(actual).__name__}"]


@pytest.mark.cluster
def test_json_output_has_the_shape_that_the_pages_show(walk: Walk) -> None:
    walk.folder.mkdir()
    walk.prepare(BEFORE["docs/reference/kubectl-accurate.md"])
    walk.apply(NEW_SOURCE)
    (walk.folder / "wrong.yaml").write_text(NEW_SOURCE.replace("nowhere", "No_Where"))
    assert shapes().keys() == SHOWN_BY.keys()
    for name, shown in shapes().items():
        done = walk.shell(SHOWN_BY[name])
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        empty = ["held", "waiting"] if name == "status" else []
        assert [key for key, value in answer.items() if value == []] == empty, name
        assert differences(shown, answer) == [], name


def test_another_key_or_another_type_is_a_difference() -> None:
    shown = {"a": [{"b": 1, "c": None}]}
    assert differences(shown, {"a": [{"b": 2, "c": "x"}, {}]}) == []
    assert differences(shown, {"a": [{"b": "2", "c": "x"}]}) == [".a[].b is str"]
    assert sorted(differences(shown, {"a": [{"b": 2, "d": 1}]})) == [".a[].c", ".a[].d"]


# blocks that are not run


def test_blocks_that_are_not_run_need_a_container_engine_or_an_outside_address() -> None:
    reasons = {str(fence): fence.not_run for fence in LISTED if fence.not_run}
    assert [at for at, why in reasons.items() if not re.search("container engine|outside address", why)] == []
    assert len(reasons) > 3


def test_every_marker_precedes_a_block_that_would_be_run() -> None:
    marks = "".join(page.read_text() for page in PAGES).count("*Not run by the tests")
    assert marks == sum(1 for fence in LISTED if fence.not_run and fence.language in RUN)


def test_no_block_of_plain_text_hides_a_command_or_a_manifest() -> None:
    hidden = re.compile(
        r"^(?:\$ |(?:samara|kubectl|make|helm) |(?:apiVersion|kind|spec|vocabularies|metadata):)", re.MULTILINE
    )
    assert [str(fence) for fence in LISTED if fence.language == "text" and hidden.search(fence.text)] == []


def test_every_page_with_a_preparation_is_run() -> None:
    assert set(BEFORE) <= set(WALKED)


# the walk itself can fail


def test_a_console_block_is_split_into_commands_and_their_output() -> None:
    assert dialogue("$ one\n$ two\na\nb\n") == [("one", ""), ("two", "a\nb\n")]


@pytest.mark.parametrize(
    ("output", "right"),
    [
        ("NAME  AGE\nx     3d\n", True),
        ("NAME AGE\nx 1m30s\n", True),
        ("NAME AGE\ny 3d\n", False),
        ("NAME AGE\n", False),
    ],
)
def test_output_is_compared_with_the_shown_text_except_for_times_and_spaces(output: str, right: bool) -> None:
    assert is_as_shown(output, "NAME   AGE\nx      5s\n") is right


@pytest.mark.cluster
def test_a_wrong_block_fails(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.repo.walk.PATIENCE", 0.0)
    walk.folder.mkdir()
    wrong = {
        "sh": "samara plan --no-such-flag\n",
        "console": "$ kubectl get namespace default -o name\nnamespace/other\n",
        "yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: default}\ndata: {a: not base64}\n",
    }
    for language, text in wrong.items():
        with pytest.raises(AssertionError):
            walk.take(Fence(ROOT / "README.md", 1, language, text, ""))
