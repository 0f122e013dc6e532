"""One control plane for all cluster tests. Each test starts with an empty cluster and is checked by the oracles.

A test opts out of an oracle by name and with a reason: `@pytest.mark.oracle_off("O5", reason="…")`.
A module that needs a control plane of its own overrides the fixture `cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from tests.cluster.support import fishy_judge
from tests.cluster.support.fishy import Fishy
from tests.cluster.support.fishy import defined as fishy_defined
from tests.cluster.support.oracles import Judge
from tests.cluster.support.stage import Stage, on_stage, prepare
from tests.cluster.support.trees import SETTLED, Trees, defined
from tests.cluster.support.trees import judge as judge_trees

from samara_devtools.devcluster import Devcluster, DevclusterOptions

ORACLES = frozenset({"O1", "O2", "O4", "O5"})
_FAILED = pytest.StashKey[bool]()
_PREPARED = pytest.StashKey[set[str]]()
_MEASURED = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "oracle_off(name, reason): this test is not judged by the oracle of this name")
    config.addinivalue_line("markers", "forest_off(reason): this test leaves trees that cannot be right")
    config.stash[_PREPARED] = set()
    config.stash[_MEASURED] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def cluster() -> Iterator[Devcluster]:
    """One control plane for the session: starting one takes longer than emptying it."""
    with Devcluster(DevclusterOptions(audit_secret_bodies=True, audit_bodies=True)) as running:
        yield running


@pytest.fixture(autouse=True)
def stage(request: pytest.FixtureRequest, cluster: Devcluster, tmp_path: Path) -> Iterator[Stage]:
    """The stage of one test. After the test body the oracles judge the cluster; then it is emptied."""
    prepared = request.config.stash[_PREPARED]
    if str(cluster.data) not in prepared:
        prepare(cluster)
        prepared.add(str(cluster.data))
    with on_stage(request, cluster, tmp_path) as made:
        made.ensure_home()
        yield made
        if not request.node.stash.get(_FAILED, True):
            Judge(made, _opted_out(request.node)).judge()


@pytest.fixture(scope="module")
def accurate(cluster: Devcluster) -> Iterator[None]:
    """SubNamespaces are served, and the operator has the rights for trees."""
    with defined(cluster):
        yield


@pytest.fixture
def trees(request: pytest.FixtureRequest, accurate: None, stage: Stage) -> Iterator[Trees]:
    """Namespace trees, judged when the body of the test is done."""
    stage.expect.quiet = SETTLED
    made = Trees(stage)
    yield made
    if not request.node.stash.get(_FAILED, True):
        judge_trees(made, settled=request.node.get_closest_marker("forest_off") is None)


@pytest.fixture(scope="module")
def fishysecret(cluster: Devcluster) -> Iterator[None]:
    """FishySecrets are served, and the operator has the rights for them."""
    with fishy_defined(cluster):
        yield


@pytest.fixture
def fishy(request: pytest.FixtureRequest, fishysecret: None, stage: Stage) -> Iterator[Fishy]:
    """FishySecrets with a folder as their manager, judged and searched for values when the test is done."""
    made = Fishy(stage)
    yield made
    if not request.node.stash.get(_FAILED, True):
        fishy_judge.judge(made)


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str, float], None]:
    """Prints a measured value in the summary of the session."""

    def state(what: str, value: float) -> None:
        request.config.stash[_MEASURED].append(f"{request.node.name}: {what} {value:.3g}")

    return state


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[_MEASURED]:
        terminalreporter.write_line(line)


@pytest.fixture
def judge(request: pytest.FixtureRequest, stage: Stage) -> Judge:
    """The oracles, for a test that calls them before its end."""
    return Judge(stage, _opted_out(request.node))


def _opted_out(node: pytest.Item) -> frozenset[str]:
    off = set()
    for mark in node.iter_markers("oracle_off"):
        assert mark.args[0] in ORACLES, f"there is no oracle {mark.args[0]}"
        assert mark.kwargs.get("reason"), f"{node.name} opts out of {mark.args[0]} without a reason"
        off.add(mark.args[0])
    return frozenset(off)
