"""What `samara plan --diff` prints: every object, though those that change in the same way share their lines."""

from __future__ import annotations

import pytest
from tests.support.world import at, secret

from samara.assembly import registry_of
from samara.cli.commands.plan import _show_diffs
from samara.cli.inspect.diff import changes
from samara.cli.inspect.outcome import Outcome
from samara.cli.session import Picture
from samara.core.desired import Copy, Template
from samara.core.model import Key
from samara.core.writes import Create, Step
from samara.settings import Settings

TABLE = registry_of(Settings())
KEY = Key("secret-copy", at("admin", "db"))
NAMESPACES = ("a", "b", "c", "d", "e")


@pytest.fixture
def found() -> Outcome:
    places = [at(namespace, "db") for namespace in NAMESPACES]
    creates = (Create(KEY, place, Copy(place, Template(secret()))) for place in places)
    return Outcome(tuple(Step(write.ref, write, "missing") for write in creates))


@pytest.mark.parametrize(("each", "blocks"), [(False, 1), (True, 5)])
def test_every_object_of_a_diff_is_named(
    found: Outcome, each: bool, blocks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    diffs = [changes(write, TABLE) for write in found.writes]
    _show_diffs(Picture(None, TABLE, {}), found, diffs, each)  # type: ignore[arg-type] # what is there is not asked
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("create ")]
    assert len(told) == blocks
    assert all(any(f"{namespace}/db" in line for line in told) for namespace in NAMESPACES)
    assert not any(" more" in line for line in told)
