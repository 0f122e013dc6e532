"""Status writes: once a second while writes wait, once after the last one, and never without a change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support import toys
from tests.support.samples import Clock, a_cache, an_object
from tests.support.world import a_field, at

from samara.core.copy_counts import CopyCounts, NotInSync
from samara.core.model import Key, Object, Ref
from samara.core.registry import Registry
from samara.core.source_type import Status
from samara.core.writes import WriteStatus
from samara.engine.status import BATCH, EVERY, StatusReporter

SOURCE = Ref(toys.FETCH, "home", "f")
KEY = Key("fetch", SOURCE)
CONDITION = {"type": "Ready", "status": "True", "reason": "Right"}


def reported(obj: Object, view: object, counts: CopyCounts) -> dict[str, object]:
    return {"wanted": counts.wanted, "right": counts.in_sync, "conditions": [CONDITION]}


class Stage:
    """The statuses of one source with copies in two namespaces."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.cache = a_cache(Registry((replace(toys.fetch(), status=Status(reported, frozenset({"Ready"}))),)))
        self.busy = False
        self.counts = CopyCounts(names={"a": ("f",), "b": ("f",)})
        self.reporter = StatusReporter(
            self.cache,
            self.cache.registry,
            {KEY: self.counts},
            self.clock,
            now=lambda: "2026-01-01",
        )
        self.put()

    def put(self, version: int = 1, **status: object) -> None:
        words = {toys.PATH: "p", toys.INTO: "a,b"}
        stored = a_field("status", status) if status else None
        self.cache.put(an_object(SOURCE, version, annotations=words, status=stored))

    def status(self) -> dict[str, object] | None:
        """What would be written now."""
        report = self.reporter.take_report(KEY)
        return None if report is None else dict(report.status)

    def due(self) -> int:
        """How many statuses are written after a while."""
        self.clock.now += BATCH
        return len(self.written())

    def written(self) -> list[WriteStatus]:
        """The statuses that are written now."""
        return list(self.reporter.due(lambda key: self.busy))


def test_a_status_is_written_with_the_time_at_which_its_conditions_changed() -> None:
    stage = Stage()
    assert stage.status() == {
        "wanted": 2,
        "right": 2,
        "conditions": [{**CONDITION, "lastTransitionTime": "2026-01-01"}],
    }


def test_a_status_that_is_right_is_not_written() -> None:
    stage = Stage()
    stage.put(2, wanted=2, right=2, conditions=[{**CONDITION, "lastTransitionTime": "2025"}], theirs=1)
    assert stage.status() is None


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    stage = Stage()
    stage.put(2, wanted=1, right=1, conditions=[{**CONDITION, "lastTransitionTime": "2025"}])
    assert (stage.status() or {})["conditions"] == [{**CONDITION, "lastTransitionTime": "2025"}]


def test_a_malformed_status_is_replaced() -> None:
    stage = Stage()
    words = {toys.PATH: "p", toys.INTO: "a,b"}
    stage.cache.put(an_object(SOURCE, 2, annotations=words, status=a_field("status", ["odd"])))
    assert stage.status() is not None


def test_a_source_type_without_a_status_has_none_to_write() -> None:
    stage = Stage()
    stage.reporter.mark_stale(Key("fetch", SOURCE, "a"))
    assert stage.due() == 1
    cache = a_cache()
    quiet = StatusReporter(cache, cache.registry, {}, stage.clock)
    quiet.mark_stale(Key("secret-copy", SOURCE))
    assert quiet.stale == set()
    assert quiet.next_due() is None


def test_while_writes_wait_a_status_is_written_once_a_second() -> None:
    stage = Stage()
    stage.busy = True
    stage.reporter.mark_stale(KEY)
    written = []
    for _ in range(round(2.5 * EVERY / BATCH)):
        written.append(stage.due())
        stage.reporter.mark_stale(KEY)

    assert sum(written) == 2
    assert written[0] == 0


def test_after_the_last_write_a_status_is_written_at_once() -> None:
    stage = Stage()
    stage.busy = True
    stage.reporter.mark_stale(KEY)
    assert stage.due() == 0
    stage.busy = False
    assert stage.due() == 1
    assert stage.due() == 0


def test_results_that_arrive_together_share_one_status_write() -> None:
    stage = Stage()
    stage.reporter.mark_stale(KEY)
    assert stage.written() == []
    assert stage.reporter.next_due() == pytest.approx(BATCH)
    stage.reporter.mark_stale(KEY)
    assert stage.due() == 1


def test_missing_copies_are_in_the_status() -> None:
    stage = Stage()
    stage.counts.not_in_sync["a"] = {at("a", "f"): NotInSync("conflict")}
    assert (stage.status() or {})["right"] == 1


def test_fault_38_a_condition_of_another_client_stays_and_causes_no_write() -> None:
    stage = Stage()
    theirs = {"type": "Fresh", "status": "True", "lastTransitionTime": "2025"}
    mine = {**CONDITION, "lastTransitionTime": "2025"}
    stage.put(2, wanted=2, right=2, conditions=[mine, theirs])
    assert stage.status() is None
    stage.put(3, wanted=1, right=1, conditions=[mine, theirs])
    assert (stage.status() or {})["conditions"] == [mine, theirs]


def test_fault_38_a_status_that_another_client_writes_is_corrected_five_times_in_ten_minutes() -> None:
    stage = Stage()
    written = 0
    for _ in range(20):
        stage.reporter.note_foreign_write(KEY)
        written += stage.due()
        stage.clock.now += 1.0
    assert written == 5
    stage.reporter.mark_stale(KEY)
    assert stage.due() == 1, "what we have to tell ourselves is told all the same"
    stage.clock.now += 600.0
    stage.reporter.note_foreign_write(KEY)
    assert stage.due() == 1
