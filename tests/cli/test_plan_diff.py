"""`samara plan --diff` names every object, although objects that change in the same way share their lines."""

from __future__ import annotations

import pytest
from tests.support.world import at, secret

from samara.assembly import registry_of
from samara.cli.commands.plan import _show_diffs
from samara.cli.inspect.cluster_plans import ClusterPlans
from samara.cli.inspect.diff import changes
from samara.cli.inspect.forecast import PlannedWrites
from samara.core.desired import Copy, Template
from samara.core.model import Key
from samara.core.writes import Create, Step
from samara.settings import Settings

REGISTRY = registry_of(Settings())
KEY = Key("secret-copy", at("admin", "db"))
NAMESPACES = ("a", "b", "c", "d", "e")


@pytest.fixture
def planned() -> PlannedWrites:
    refs = [at(namespace, "db") for namespace in NAMESPACES]
    creates = (Create(KEY, ref, Copy(ref, Template(secret()))) for ref in refs)
    return PlannedWrites(tuple(Step(write.ref, write, "missing") for write in creates))


@pytest.mark.parametrize(("show_all", "blocks"), [(False, 1), (True, 5)])
def test_diff_names_every_object(
    planned: PlannedWrites, show_all: bool, blocks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    diffs = [changes(write, REGISTRY) for write in planned.writes]
    _show_diffs(ClusterPlans(None, REGISTRY, {}), planned, diffs, show_all)  # type: ignore[arg-type] # it is not read
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("create ")]
    assert len(lines) == blocks
    assert all(any(f"{namespace}/db" in line for line in lines) for namespace in NAMESPACES)
    assert not any(" more" in line for line in lines)
