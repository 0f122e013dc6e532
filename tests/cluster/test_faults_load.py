"""Rows 39–41, 43 and 44 of the fault catalogue, scaled to what fits a test: load shapes, counted in the audit log."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.cluster.support.api import in_parallel
from tests.cluster.support.audit import Event, until_recorded
from tests.cluster.support.faults import answered, swallowed
from tests.cluster.support.operators import Operator
from tests.cluster.support.proxy import Seen
from tests.cluster.support.stage import SYSTEM, Stage, decoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
Measured = Callable[[str, float], None]
EMPTY: Json = {"metadata": {"generateName": "bare-"}, "data": {}}
DELETE_ORPHANS: Json = {"vocabularies": {"secret-copy": {"onSourceGone": "delete"}}}


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def many(letter: str, count: int) -> list[str]:
    return [f"{letter}{number:04}" for number in range(count)]


# 39


@pytest.mark.timeout(300)
def test_fault_39_a_burst_of_new_namespaces_is_filled_with_one_request_per_copy(
    stage: Stage, measured: Measured
) -> None:
    names = many("burst", 400)
    stage.source("all", "")
    stage.source("named", ",".join(names))
    stage.operator()
    mark = stage.audit.mark()
    stage.namespace(*names)
    eventually(lambda: len(copies_made(stage, mark)) == 800, 60, every=0.5)
    made = born(stage, names)
    waits = [event.answered - made[event.namespace] for event in copies_made(stage, mark)]
    measured("p99 in seconds until a new namespace has its copies:", p99(waits))
    bare = seconds_for(lambda name: stage.api.create(f"/api/v1/namespaces/{name}/configmaps", EMPTY), names * 2)
    measured("seconds for as many writes of a bare client:", bare)
    assert p99(waits) < max(10.0, 4 * bare), "a new namespace waits for more than the writes themselves"
    attempts = Counter(event.address for event in stage.audit.writes(mark))
    assert set(attempts.values()) == {1}, "one request per copy"


def seconds_for(do: Callable[[str], object], names: list[str]) -> float:
    """The time that this machine needs for the same calls now, as a reference for the operator."""
    began = time.monotonic()
    in_parallel(do, names, threads=16)
    return time.monotonic() - began


def copies_made(stage: Stage, mark: int) -> list[Event]:
    return [event for event in stage.audit.writes(mark) if event.verb == "create" and event.done]


def born(stage: Stage, names: list[str]) -> dict[str, float]:
    """When each namespace was created."""
    creates = [event for event in stage.audit.events() if (event.resource, event.verb) == ("namespaces", "create")]
    times = {event.name: event.answered for event in creates}
    assert set(names) <= set(times)
    return times


# 40


@pytest.mark.timeout(300)
def test_fault_40_a_burst_of_deleted_namespaces_causes_few_errors_and_the_queue_drains(
    stage: Stage, measured: Measured
) -> None:
    names = many("burst", 500)
    stage.namespace(*names, "stays")
    stage.source("all", "")
    stage.source("named", ",".join(names))
    operator = stage.operator()
    eventually(lambda: operator.copies("right") >= 1000, 60, every=0.5)
    mark, lines = stage.audit.mark(), operator.log.count("\n")
    began = time.monotonic()
    in_parallel(lambda name: stage.api.delete(f"/api/v1/namespaces/{name}"), names)
    stage.until_seen()  # each kind has its own watch, and the change must not overtake the deletions
    stage.bump("all")  # other work meanwhile is not delayed
    stage.until_copied("all", "stays")
    eventually(lambda: not left_of(stage, names), 200, every=0.5)
    measured("seconds until all 500 namespaces were gone:", time.monotonic() - began)
    eventually(lambda: has_drained(operator))
    into = [event for event in stage.audit.writes(mark) if event.namespace in set(names)]
    measured("writes into namespaces that were being deleted:", len(into))
    assert len(into) <= 50, "what was in flight, and no more"
    assert [event for event in into if event.verb == "delete"] == [], "the server empties them, not we"
    written = operator.log.count("\n") - lines
    measured("lines of log for 500 deleted namespaces:", written)
    assert written <= 50
    assert " warning " not in operator.log
    assert operator.copies("right") == 3 + len(SYSTEM), "one source has no namespace left, and says so"
    assert operator.copies("blocked") == 500


def left_of(stage: Stage, names: list[str]) -> set[str]:
    return {namespace["metadata"]["name"] for namespace in stage.api.items("/api/v1/namespaces")} & set(names)


def has_drained(operator: Operator) -> bool:
    metrics = operator.metrics()
    return not (
        metrics["samara_queue_depth"]
        or metrics["samara_oldest_pending_seconds"]
        or metrics['samara_copies{state="pending",vocabulary="secret-copy"}']
    )


# 41


@pytest.mark.timeout(300)
def test_fault_41_a_flapping_source_is_coalesced_and_its_last_value_is_everywhere(
    stage: Stage, measured: Measured
) -> None:
    """300 changes as fast as the server takes them, to 50 targets, with 200 writes per second allowed."""
    names = many("t", 50)
    stage.namespace(*names)
    stage.source("db", ",".join(names))
    stage.operator(config={"writes": {"perSecond": 200}})
    stage.until_copied("db", *names)
    mark = stage.audit.mark()
    for _ in range(300):
        last = stage.bump("db")
    still = stage.audit.mark()
    stage.until_copied("db", *names)
    written = stage.audit.writes(mark)
    measured("writes for 300 changes to 50 targets:", len(written))
    changes = [event.received for event in stage.audit.since(mark) if not event.ours and event.verb == "patch"]
    took = changes[-1] - changes[0]
    assert len(written) <= 200 * (took + 0.5) + 16 + 50, "as many as are allowed meanwhile, and then the last value"
    after = [event for event in stage.audit.writes(still) if decoded(event.request).get("n") == decoded(last)["n"]]
    assert len(after) <= 50, "the last value is written once to each"
    assert len(stage.audit.writes(still)) <= 50 + 40, "besides what was in flight only the last value is written"


# 43


class Noise(threading.Thread):
    """One source that changes all the time."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(daemon=True)
        self._stage = stage
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.05):
            self._stage.bump("noisy")


@pytest.mark.timeout(300)
def test_fault_43_small_sources_are_served_beside_a_noisy_one(stage: Stage, measured: Measured) -> None:
    """One round of the noisy source takes 3 s: 300 targets at 100 writes per second. No other source waits for it.

    The test counts the writes of the noisy source that come first, because seconds depend on the machine.
    """
    names = many("n", 300)
    stage.namespace(*names, "small")
    stage.source("noisy", ",".join(names))
    small = [f"small-{number}" for number in range(15)]
    for name in small:
        stage.source(name, "small")
    stage.operator(config={"writes": {"perSecond": 100}})
    mark = stage.audit.mark()
    noise = Noise(stage)
    noise.start()
    try:
        for name in small:
            stage.bump(name)
            stage.until_copied(name, "small")
    finally:
        noise.over.set()
        noise.join(10)
    until_recorded(lambda: [event for event in stage.audit.writes(mark) if event.namespace == "small"], len(small))
    before = [noisy_before(stage, mark, name) for name in small]
    measured("writes of the noisy source before a small one's, at most:", max(before))
    assert max(before) < 200, f"a small source waited for {max(before)} writes of a noisy one"


def noisy_before(stage: Stage, mark: int, name: str) -> int:
    """How many writes of the noisy source were sent between the change of a small one and the write of its copy."""
    of_small = [event for event in stage.audit.since(mark) if event.name == name and event.verb in ("patch", "update")]
    changed = next(write.answered for write in of_small if not write.ours)
    copied = next(write.received for write in of_small if write.ours)
    return len(
        [event for event in stage.audit.writes(mark) if changed < event.received < copied and event.name == "noisy"]
    )


# 44


def filled(stage: Stage, number: int = 10) -> list[str]:
    stage.expect.on_source_gone = "delete"
    names = many("t", number)
    stage.namespace(*names)
    stage.source("db", ",".join(names))
    return names


def test_fault_44_a_selector_edited_to_match_nothing_deletes_nothing(stage: Stage) -> None:
    names = filled(stage)
    operator = stage.operator(config=DELETE_ORPHANS)
    stage.until_copied("db", *names)
    mark = stage.audit.mark()
    stage.retarget("db", ",")
    stage.expect.kept = {(name, "db") for name in names}
    eventually(lambda: operator.metrics()["samara_mass_delete_held"] == 10)
    never(lambda: stage.audit.writes(mark), 1.0)


@pytest.mark.parametrize("plural", ["secrets", "namespaces"])
def test_fault_44_an_empty_list_answered_200_deletes_nothing(stage: Stage, plural: str) -> None:
    """The watch is cut, its version is too old, and the list that follows is empty."""
    names = filled(stage)
    proxy = stage.proxy()
    operator = stage.operator(through=proxy, config={**DELETE_ORPHANS, "massDelete": None})
    stage.until_copied("db", *names)
    mark = stage.audit.mark()
    expired = proxy.on_request(
        lambda seen: seen.plural == plural and seen.watch and not seen.lists, answered(410, "Expired"), times=1
    )
    emptied = proxy.on_event(lambda seen, event: seen.plural == plural and is_listed(seen, event), swallowed)
    proxy.cut(plural)
    eventually(lambda: expired.hits and emptied.hits)
    eventually(lambda: "is empty and was not before" in operator.log)
    never(lambda: stage.audit.writes(mark), 2.0)
    assert all(stage.has_copy(name, "db") for name in names)


def is_listed(seen: Seen, event: Json) -> bool:
    return seen.lists and event["type"] == "ADDED"


def test_fault_44_a_list_at_start_in_which_the_sources_are_missing_deletes_nothing_at_once(stage: Stage) -> None:
    names = filled(stage)
    stage.operator(config=DELETE_ORPHANS).stop()
    proxy = stage.proxy()
    lacking = proxy.on_event(
        lambda seen, event: is_listed(seen, event) and event["object"]["metadata"].get("namespace") == "admin",
        swallowed,
    )
    mark = stage.audit.mark()
    operator = stage.operator(through=proxy, config=DELETE_ORPHANS)
    assert lacking.hits
    eventually(lambda: operator.metrics()["samara_mass_delete_held"] == 10)
    never(lambda: stage.audit.writes(mark), 1.0)
    proxy.clear()
    proxy.on_request(
        lambda seen: seen.plural == "secrets" and seen.watch and not seen.lists, answered(410, "Expired"), times=1
    )
    proxy.cut("secrets")
    eventually(lambda: operator.metrics()["samara_mass_delete_held"] == 0)
    assert not stage.audit.writes(mark), "the truth came back, and nothing was lost"
    assert all(stage.has_copy(name, "db") for name in names)
