"""Status writes: once a second while work is going on, once when it is done, and never for nothing."""

from __future__ import annotations

from dataclasses import replace

from tests.engine.parts import Clock, a_desk, an_object, create
from tests.support import toys
from tests.support.world import a_field, at

from samara.core.model import Key, Object, Ref
from samara.core.table import Table
from samara.core.tally import Missing, Tally
from samara.core.write import Report, Write
from samara.engine.report import Reports

SOURCE = Ref(toys.FETCH, "home", "f")
KEY = Key("fetch", SOURCE)
CONDITION = {"type": "Ready", "status": "True", "reason": "Right"}


def reported(obj: Object, view: object, tally: Tally) -> dict[str, object]:
    return {"wanted": tally.wanted, "right": tally.right, "conditions": [CONDITION]}


class Stage:
    def __init__(self) -> None:
        self.clock = Clock()
        self.desk = a_desk(
            self.clock, table=Table((replace(toys.fetch(), report=reported, conditions=frozenset({"Ready"})),))
        )
        self.growing: set[Key] = set()
        self.offered: list[Report] = []
        self.tally = Tally(names={"a": ("f",), "b": ("f",)})
        self.reports = Reports(self.desk, {KEY: self.tally}, self.growing, self._offer, now=lambda: "2026-01-01")
        self.put()

    def put(self, version: int = 1, **status: object) -> None:
        words = {toys.PATH: "p", toys.INTO: "a,b"}
        found = a_field("status", status) if status else None
        self.desk.cache.put(an_object(SOURCE, version, annotations=words, status=found))

    def _offer(self, write: Write, tally: Tally, soon: bool) -> None:
        assert isinstance(write, Report)
        self.offered.append(write)

    def statuses(self) -> list[dict[str, object]]:
        return [dict(each.status) for each in self.offered]


def test_a_status_is_written_with_the_time_at_which_its_conditions_changed() -> None:
    stage = Stage()
    stage.reports.write(KEY)
    assert stage.statuses() == [
        {"wanted": 2, "right": 2, "conditions": [{**CONDITION, "lastTransitionTime": "2026-01-01"}]}
    ]


def test_a_status_that_is_right_is_not_written() -> None:
    stage = Stage()
    stage.put(2, wanted=2, right=2, conditions=[{**CONDITION, "lastTransitionTime": "2025"}], theirs=1)
    stage.reports.write(KEY)
    assert stage.offered == []


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    stage = Stage()
    stage.put(2, wanted=1, right=1, conditions=[{**CONDITION, "lastTransitionTime": "2025"}])
    stage.reports.write(KEY)
    assert stage.statuses()[0]["conditions"] == [{**CONDITION, "lastTransitionTime": "2025"}]


def test_an_odd_status_counts_as_none() -> None:
    stage = Stage()
    words = {toys.PATH: "p", toys.INTO: "a,b"}
    stage.desk.cache.put(an_object(SOURCE, 2, annotations=words, status=a_field("status", ["odd"])))
    stage.reports.write(KEY)
    assert len(stage.offered) == 1


def test_a_source_without_a_word_of_status_is_never_due() -> None:
    stage = Stage()
    stage.reports.touched(Key("fetch", SOURCE, "a"))
    assert stage.reports.due == 1
    desk = a_desk(Clock())
    quiet = Reports(desk, {}, (), stage._offer)
    quiet.touched(Key("secret-copy", SOURCE))
    assert quiet.due == 0


def test_while_work_is_going_on_a_status_is_written_once_a_second() -> None:
    stage = Stage()
    stage.growing.add(KEY)
    stage.reports.touched(KEY)
    assert not stage.reports._is_time(KEY)
    for _ in range(2):
        stage.clock.now += 1.0
        assert stage.reports._is_time(KEY)
        stage.reports.write(KEY)
        assert not stage.reports._is_time(KEY)


def test_when_the_last_write_has_landed_a_status_is_written_at_once() -> None:
    stage = Stage()
    stage.reports.touched(KEY)
    write = create("a", KEY)
    stage.desk.outbox.put(write, soon=False)
    assert not stage.reports._is_time(KEY)
    taken = stage.desk.outbox.take()
    assert taken is write
    assert not stage.reports._is_time(KEY)
    stage.desk.outbox.done(write)
    assert stage.reports._is_time(KEY)


def test_what_is_missing_is_told() -> None:
    stage = Stage()
    stage.tally.exceptions["a"] = {at("a", "f"): Missing("conflict")}
    stage.reports.write(KEY)
    assert stage.statuses()[0]["right"] == 1


def test_fault_38_a_condition_that_is_not_ours_stays_and_is_no_reason_to_write() -> None:
    stage = Stage()
    theirs = {"type": "Fresh", "status": "True", "lastTransitionTime": "2025"}
    mine = {**CONDITION, "lastTransitionTime": "2025"}
    stage.put(2, wanted=2, right=2, conditions=[mine, theirs])
    stage.reports.write(KEY)
    assert stage.offered == []
    stage.put(3, wanted=1, right=1, conditions=[mine, theirs])
    stage.reports.write(KEY)
    assert stage.statuses()[0]["conditions"] == [mine, theirs]


def test_fault_38_a_status_that_somebody_else_writes_too_is_put_right_five_times_in_ten_minutes() -> None:
    stage = Stage()
    for _ in range(20):
        stage.reports.contested(KEY)
        stage.reports._due.discard(KEY)
        stage.clock.now += 1.0
    stage.reports.contested(KEY)
    assert stage.reports.due == 0
    stage.reports.touched(KEY)
    assert stage.reports.due == 1, "what we have to tell ourselves is told all the same"
    stage.reports._due.discard(KEY)
    stage.clock.now += 600.0
    stage.reports.contested(KEY)
    assert stage.reports.due == 1
