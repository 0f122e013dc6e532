"""What the pages show is done, block by block, on a real control plane; what is not done says so."""

import base64
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pages import EXAMPLES, PAGES, ROOT, Fence, fences
from tests.walk import Slate, Walk, dialogue, is_as_shown
from tests.walk_before import BEFORE

from samara import crds
from samara.devcluster import Devcluster, DevclusterOptions
from samara.devcluster.cluster import to_stderr
from samara.devcluster.helm_program import find_helm

RUN = ("yaml", "sh", "console")
LISTED = tuple(fences())


def walked() -> dict[str, list[Fence]]:
    """By page: the blocks that are run."""
    found: dict[str, list[Fence]] = {}
    for fence in LISTED:
        if fence.language in RUN and not fence.not_run and not fence.is_for_the_server:
            found.setdefault(str(fence.page.relative_to(ROOT)), []).append(fence)
    return found


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
def test_a_page_does_what_it_shows(page: str, walk: Walk) -> None:
    lay_out(walk, page)
    before = BEFORE.get(page)
    if before is not None:
        walk.prepare(before)
    for fence in WALKED[page]:
        walk.take(fence)


def lay_out(walk: Walk, page: str) -> None:
    """The folder in which a reader of this page stands: that of the example, or the checkout."""
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
def test_distributions_are_encrypted_as_the_page_says(tmp_path: Path) -> None:
    [fence] = [each for each in LISTED if each.is_for_the_server]
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
    """What is in etcd."""
    asked = {"key": base64.b64encode(key.encode()).decode()}
    return base64.b64decode(cluster.etcd_call("/v3/kv/range", asked)["kvs"][0]["value"])


# what is not run


def test_what_is_not_run_needs_a_container_engine_or_an_outside_address() -> None:
    reasons = {str(fence): fence.not_run for fence in LISTED if fence.not_run}
    assert [at for at, why in reasons.items() if not re.search("container engine|outside address", why)] == []
    assert len(reasons) > 3


def test_every_mark_stands_before_a_block_that_would_be_run() -> None:
    marks = "".join(page.read_text() for page in PAGES).count("*Not run by the tests")
    assert marks == sum(1 for fence in LISTED if fence.not_run and fence.language in RUN)


def test_no_block_of_plain_text_hides_a_command_or_a_manifest() -> None:
    hidden = re.compile(
        r"^(?:\$ |(?:samara|kubectl|make|helm) |(?:apiVersion|kind|spec|dialects|metadata):)", re.MULTILINE
    )
    assert [str(fence) for fence in LISTED if fence.language == "text" and hidden.search(fence.text)] == []


def test_every_page_that_is_prepared_is_walked() -> None:
    assert set(BEFORE) <= set(WALKED)


# the walk itself can fail


def test_a_console_block_is_its_commands_with_what_they_show() -> None:
    assert dialogue("$ one\n$ two\na\nb\n") == [("one", ""), ("two", "a\nb\n")]


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("NAME  AGE\nx     3d\n", True),
        ("NAME AGE\nx 1m30s\n", True),
        ("NAME AGE\ny 3d\n", False),
        ("NAME AGE\n", False),
    ],
)
def test_what_is_said_is_compared_with_what_is_shown(said: str, right: bool) -> None:
    assert is_as_shown(said, "NAME   AGE\nx      5s\n") is right


@pytest.mark.cluster
def test_a_wrong_block_fails(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.walk.PATIENCE", 0.0)
    walk.folder.mkdir()
    wrong = {
        "sh": "samara plan --no-such-flag\n",
        "console": "$ kubectl get namespace default -o name\nnamespace/other\n",
        "yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: default}\ndata: {a: not base64}\n",
    }
    for language, text in wrong.items():
        with pytest.raises(AssertionError):
            walk.take(Fence(ROOT / "README.md", 1, language, text, ""))
