"""What a plan with manifests leaves out: writes that would be made without them."""

from __future__ import annotations

from tests.support.world import at, content

from samara.cli.inspect.caused import caused_by_manifests
from samara.cli.inspect.forecast import Anyway, PlannedWrites
from samara.core.desired import Copy, Template
from samara.core.model import Content, Field, Key, Object
from samara.core.writes import Blocked, Create, Delete, Step, Write, WriteStatus

KEY = Key("secret-copy", at("admin", "db"))


def step(outcome: Write | Blocked) -> Step:
    return Step(outcome.ref, outcome, "rule")


def create(namespace: str, value: bytes = b'{"n":"1"}', digest: bytes = b"d") -> Step:
    template = Template(Content((Field("data", digest, value),)), {"a": "b"})
    return step(Create(KEY, at(namespace, "db"), Copy(at(namespace, "db"), template)))


def status(at_time: str, wanted: int) -> Step:
    conditions = [{"type": "Ready", "lastTransitionTime": at_time}]
    live = Object(KEY.source, "u", 1, content())
    return step(WriteStatus(KEY, KEY.source, live, {"wanted": wanted, "conditions": conditions}))


def planned(*steps: Step) -> PlannedWrites:
    return PlannedWrites(steps)


def test_only_new_writes_are_left_and_the_others_are_counted() -> None:
    before, after = planned(create("a"), create("b")), planned(create("a"), create("b"), create("c"))
    result = caused_by_manifests(before, after)
    assert [write.ref.namespace for write in result.writes] == ["c"]
    assert result.anyway == Anyway(2, 0, 0)


def test_a_write_with_other_content_is_caused_by_the_manifests() -> None:
    result = caused_by_manifests(planned(create("a")), planned(create("a", b'{"n":"2"}')))
    assert [write.ref.namespace for write in result.writes] == ["a"]
    assert result.anyway == Anyway(0, 0, 0)


def test_digests_of_another_snapshot_make_no_difference() -> None:
    assert caused_by_manifests(planned(create("a")), planned(create("a", digest=b"e"))).steps == ()


def test_a_write_that_is_no_longer_made_is_counted() -> None:
    delete = step(Delete(KEY, at("a", "db"), Object(at("a", "db"), "u", 1, content())))
    assert caused_by_manifests(planned(delete), planned()).anyway == Anyway(0, 0, 1)


def test_the_time_in_a_status_makes_no_difference() -> None:
    assert caused_by_manifests(planned(status("1", 2)), planned(status("2", 2))).anyway == Anyway(1, 0, 0)
    assert len(caused_by_manifests(planned(status("1", 2)), planned(status("1", 3))).steps) == 1


def test_what_is_blocked_anyway_is_counted() -> None:
    blocked = step(Blocked(KEY, at("a", "db"), "conflict", "taken"))
    other = step(Blocked(KEY, at("b", "db"), "conflict", "taken"))
    result = caused_by_manifests(planned(blocked), planned(blocked, other))
    assert [outcome.ref.namespace for outcome in result.blocked] == ["b"]
    assert result.anyway == Anyway(0, 1, 0)
