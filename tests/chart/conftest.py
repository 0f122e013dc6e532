"""helm, built once for each version, and a control plane to which the tests apply its output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chart.helm import Helm
from tests.cluster.support.stage import Stage, on_stage

from samara_devtools.devcluster import Devcluster, DevclusterOptions
from samara_devtools.devcluster.cluster import to_stderr
from samara_devtools.devcluster.helm_program import find_helm


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def program() -> Path:
    return find_helm(to_stderr)


@pytest.fixture
def helm(program: Path, tmp_path: Path) -> Helm:
    folder = tmp_path / "helm"
    folder.mkdir()
    return Helm(program, folder)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Devcluster]:
    with Devcluster(DevclusterOptions()) as running:
        yield running


@pytest.fixture
def stage(request: pytest.FixtureRequest, cluster: Devcluster, tmp_path: Path) -> Iterator[Stage]:
    with on_stage(request, cluster, tmp_path) as made:
        yield made
