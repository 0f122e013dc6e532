"""How failed writes are reported, and for how long."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.controller import ControllerHarness
from tests.support.samples import a_copy, a_key, a_namespace, a_source, create, delete
from tests.support.world import at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.model import FIELD_MANAGER, ManagedKey, Object, namespace_ref
from samara.core.registry import Registry
from samara.core.writes import Write, WriteStatus, verb
from samara.engine.writer import Ending, Result, classify
from samara.kube.errors import ServerFault, from_status
from samara.vocabularies.accurate.config import read
from samara.vocabularies.accurate.labels import CREATED_BY, PARENT
from samara.vocabularies.accurate.tree import NamespaceTree

BROKEN = Result(Ending.FAILED, "a webhook fails", server_fault=True)
REFUSED = Result(Ending.REFUSED, "exceeded quota")
FULL = ServerFault(500, "InternalError", "etcdserver: mvcc: database space exceeded")
HERE = at("a", "db")


def try_writes(harness: ControllerHarness, result: Result, times: int = 1) -> Write:
    """Plans and sends the write this number of times, each with this result."""
    for _ in range(times):
        harness.clock.now += 1000.0
        harness.plan(a_key().in_namespace("a"))
        (write,) = harness.sent()
        harness.finish(write, result)
    return write


def problems(tally: CopyCounts) -> dict[str, str]:
    return {reason: messages[HERE].shown(HERE) for reason, messages in tally.by_reason().items()}


def harness_with_failing_write() -> tuple[ControllerHarness, CopyCounts]:
    harness = ControllerHarness(a_source(targets="a"), namespaces=["a"])
    harness.plan(a_key())
    harness.sent()
    return harness, harness.counts[a_key()]


def due(harness: ControllerHarness) -> bool:
    return bool(harness.events._due)


def test_the_third_failure_in_a_row_is_reported_with_the_servers_message() -> None:
    harness, tally = harness_with_failing_write()
    harness.events._due.clear()
    try_writes(harness, BROKEN, 2)
    assert (tally.pending, problems(tally)) == (1, {})
    try_writes(harness, BROKEN)
    assert (tally.pending, problems(tally)) == (0, {"refused": "a webhook fails"})
    assert due(harness)


@pytest.mark.parametrize(("result", "times"), [(BROKEN, 3), (REFUSED, 1)])
def test_a_refused_copy_stays_reported_while_it_is_retried(result: Result, times: int) -> None:
    """Otherwise a condition would change with every attempt."""
    harness, tally = harness_with_failing_write()
    try_writes(harness, result, times)
    for key in (a_key(), a_key().in_namespace("a")):
        harness.clock.now += 1000.0
        harness.plan(key)
        (write,) = harness.sent()
        assert problems(tally) == {"refused": result.message}
    harness.finish(write)
    assert (tally.in_sync, problems(tally)) == (1, {})


def test_a_copy_of_a_changed_source_is_pending_until_it_is_tried() -> None:
    harness, tally = harness_with_failing_write()
    try_writes(harness, BROKEN, 3)
    harness.observe(a_source(targets="a", version=2, generation=2))
    harness.plan(a_key())
    assert (tally.pending, problems(tally)) == (1, {})


def test_a_deleted_copy_is_recreated_at_once_although_its_update_was_refused() -> None:
    harness = ControllerHarness(a_source(targets="a", version=9), a_copy("a", content=secret("old")), namespaces=["a"])
    assert verb(try_writes(harness, REFUSED)) == "update"
    harness.deliver(harness.cache.remove(HERE))
    harness.plan(a_key().in_namespace("a"))
    (write,) = harness.sent()
    assert verb(write) == "create"


def test_a_refusal_of_one_source_does_not_delay_another() -> None:
    harness, tally = harness_with_failing_write()
    harness.retry.note(create("a", a_key("other"), "db"), REFUSED)
    harness.plan(a_key())
    assert [write.ref for write in harness.sent()] == [HERE]
    assert problems(tally) == {}


def test_a_removal_that_keeps_failing_is_reported_after_a_new_plan_too() -> None:
    harness = ControllerHarness(a_source(targets="b"), a_copy("a"), namespaces=["a", "b"])
    harness.plan(a_key())
    tally, gone = harness.counts[a_key()], delete("a")
    for _ in range(3):
        harness.finish(gone, BROKEN)
    for _ in range(2):
        assert {ref.namespace: removal.reason for ref, removal in tally.removals.items()} == {"a": "refused"}
        harness.plan(a_key())


def test_a_lasting_refusal_is_logged_once_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    harness, _ = harness_with_failing_write()
    try_writes(harness, BROKEN, 6)
    warned: list[Any] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.getMessage() for record in warned] == ["write.refused"]


# overlays

APPLIER = "accurate-controller"


def a_child(version: int, team: str, editor: str = "") -> Object:
    """A namespace below `top`, as the server records what was applied to it."""
    labels = {PARENT: "top", CREATED_BY: "accurate", "team": team}
    applied = frozenset(ManagedKey(APPLIER, "labels", key) for key in labels)
    return a_namespace("a", version, labels=labels, applied_keys=applied, last_manager=editor)


def test_labels_that_another_client_keeps_setting_are_reverted_five_times_and_then_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "samara")
    registry = Registry(
        (NamespaceTree(read({"labelKeys": ["team"]}), frozenset({APPLIER, FIELD_MANAGER})).source_type(),)
    )
    top = a_namespace("top", labels={"team": "red"})
    harness = ControllerHarness(top, a_child(1, "red"), registry=registry)
    counts = []
    for number in range(1, 7):
        harness.observe(a_child(2 * number, "blue", "kubectl-label"))
        harness.work()
        writes = harness.sent()
        counts.append(len(writes))
        for write in writes:
            harness.cache.put(a_child(2 * number + 1, "red"))
            harness.finish(write)

    assert counts == [1, 1, 1, 1, 1, 0]
    records = [record for record in caplog.records if record.getMessage() == "wrote"]
    assert [record.levelname for record in records] == ["INFO"] * 5
    assert harness.queue.next_due() == 600.0
    topic = harness.events._sink._topics[namespace_ref("a"), "Fought"]
    assert topic.message.startswith("kubectl-label keeps changing the inherited labels and annotations")


def obstacle(harness: ControllerHarness) -> str:
    return harness.obstacle or ""


def test_fault_19_full_storage_is_logged_once_and_ends_with_the_first_stored_write() -> None:
    harness, tally = harness_with_failing_write()
    assert not obstacle(harness)
    try_writes(harness, classify(FULL), 5)
    assert (tally.pending, problems(tally)) == (1, {})
    assert "database space exceeded" in obstacle(harness)
    harness.finish(delete("b"))
    assert obstacle(harness), "a delete needs no room"
    harness.finish(create("b"))
    assert not obstacle(harness)


def test_fault_19_full_storage_ends_by_time_if_nothing_is_written() -> None:
    harness, _ = harness_with_failing_write()
    harness.finish(create("a"), classify(FULL))
    assert obstacle(harness)
    harness.clock.now += 61.0
    assert not obstacle(harness)


def test_fault_19_a_full_store_pauses_all_writes() -> None:
    harness, _ = harness_with_failing_write()
    for namespace in ("a", "b"):
        harness.finish(create(namespace), classify(FULL))
    assert harness.limiter.wait() > 0


@pytest.mark.parametrize("message", ["etcdserver: request timed out", "a webhook failed"])
def test_other_server_errors_do_not_count_as_full_storage(message: str) -> None:
    result = classify(ServerFault(500, "InternalError", message))
    assert (result.storage_full, result.server_fault, result.overloaded) == (False, True, False)


@pytest.mark.parametrize("status", [401, 404, 409, 418, 500])
@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "x.y" denied the request: no',
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
    ],
)
def test_a_denial_by_admission_is_a_refusal_with_any_status(status: int, message: str) -> None:
    body = json.dumps({"kind": "Status", "reason": "Odd", "message": message, "code": status}).encode()
    assert classify(from_status(status, body)).ending is Ending.REFUSED


def test_a_refused_status_is_reported_and_not_counted_as_a_copy() -> None:
    """A status is written to the source itself, whose namespace may also have a copy."""
    harness, tally = harness_with_failing_write()
    harness.finish(create("a"))
    status = WriteStatus(a_key(), at("a", "the-source"), a_source(), {})
    harness.finish(status, REFUSED)
    harness.offer(status, tally)
    assert (tally.in_sync, tally.blocked) == (1, 0)
    assert (a_key().source, "Refused") in harness.events._sink._topics
