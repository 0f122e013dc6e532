"""One control plane per module, swept after every test that used it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.program import Done, samara
from tests.cluster.support.stage import Stage, on_stage, prepare

from samara_devtools.devcluster import Devcluster, DevclusterOptions


@pytest.fixture(scope="module")
def cluster() -> Iterator[Devcluster]:
    with Devcluster(DevclusterOptions(audit_secret_bodies=True)) as running:
        prepare(running)
        yield running


class Shell:
    """Runs commands as the user of a kubeconfig file."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def __call__(self, *args: str | Path, stdin: str = "") -> Done:
        return samara(*args, f"--kubeconfig={self._kubeconfig}", stdin=stdin)


@pytest.fixture
def shell(cluster: Devcluster) -> Shell:
    return Shell(cluster.kubeconfig)


@pytest.fixture
def stage(request: pytest.FixtureRequest, cluster: Devcluster, tmp_path: Path) -> Iterator[Stage]:
    with on_stage(request, cluster, tmp_path) as made:
        made.ensure_home()
        yield made
