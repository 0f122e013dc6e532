"""The harness itself: a copy through a real operator, through the proxy, and oracles that can fail."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cluster.support.audit import OPERATOR, Audit, Event, end_of
from tests.cluster.support.faults import answer_lost
from tests.cluster.support.oracles import History, Judge, listed
from tests.cluster.support.stage import ORIGIN, Stage, encoded
from tests.cluster.support.waiting import eventually


def test_a_copy_appears_where_its_source_names_it(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    operator = stage.operator()
    stage.until_copied("db", "a", "b")
    operator.stop()


def test_a_copy_appears_through_the_proxy_although_the_first_answer_is_lost(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    rule = proxy.on_request(lambda seen: seen.method == "POST" and seen.plural == "secrets", answer_lost, times=1)
    stage.operator(through=proxy)
    stage.until_copied("db", "a")
    assert rule.hits == 1


@pytest.mark.oracle_off("O1", reason="the test shows that O1 fails")
def test_oracle_o1_sees_a_missing_copy(stage: Stage, judge: Judge) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    with pytest.raises(AssertionError, match="a/db: no copy is there"):
        judge.o1(deadline=0.1)


@pytest.mark.oracle_off("O4", reason="the test shows that O4 fails")
def test_oracle_o4_sees_an_unsafe_write_to_a_foreign_object(stage: Stage, judge: Judge) -> None:
    stage.namespace("a")
    live = stage.foreign("a", "db")
    forger = stage.api.as_agent(OPERATOR)
    forger.replace(stage.path("a", "db"), {**live, "data": encoded({"x": "y"})})
    forger.close()
    with pytest.raises(AssertionError, match="overwrites an object that we did not make"):
        judge.o4()


@pytest.mark.oracle_off("O4", reason="the test shows that O4 fails")
def test_oracle_o4_sees_a_value_that_goes_back_in_time(stage: Stage, judge: Judge) -> None:
    stage.namespace("a")
    forger = stage.api.as_agent(OPERATOR)
    body = {"metadata": {"name": "db", "annotations": {ORIGIN: "admin/db"}}, "data": encoded({"n": "2"})}
    copy = forger.create("/api/v1/namespaces/a/secrets", body)
    forger.replace(stage.path("a", "db"), {**copy, "data": encoded({"n": "1"})})
    forger.close()
    with pytest.raises(AssertionError, match="an older value was written over a newer one"):
        judge.o4()


@pytest.mark.oracle_off("O4", reason="the test shows that O4 fails")
def test_oracle_o4_sees_a_patch_without_version_of_content_and_of_a_foreign_object(stage: Stage, judge: Judge) -> None:
    stage.namespace("a")
    meta = stage.foreign("a", "db")["metadata"]
    condition = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    forger = stage.api.as_agent(OPERATOR)
    forger.patch(stage.path("a", "db"), {"metadata": {**condition, "annotations": {"x": "1"}}})
    forger.patch(stage.path("a", "db"), {"metadata": {"annotations": {"x": "2"}}})
    now = forger.get(stage.path("a", "db"))["metadata"]["resourceVersion"]
    forger.patch(stage.path("a", "db"), {"metadata": {**condition, "resourceVersion": now}, "data": {"mine": None}})
    forger.close()
    with pytest.raises(AssertionError) as raised:
        judge.o4()
    for fault in ("not ours", "does not name the version", "more than metadata"):
        assert fault in str(raised.value)


def recorded(code: int, verb: str, uid: str = "", agent: str = OPERATOR) -> Event:
    """A line of the audit log, as the server writes it for a Secret a/db."""
    response = {"kind": "Secret", "metadata": {"uid": uid, "resourceVersion": "1"}} if uid else {"kind": "Status"}
    times = {"received": 0.0, "answered": 0.0}
    return Event(verb, agent, "u", "/", "secrets", "", "a", "db", code, **times, request={}, response=response)


def test_a_create_recorded_as_504_may_be_ours_but_an_object_of_others_never_is() -> None:
    """If a client disconnects, the server may or may not commit its write, and records a 504 in both cases."""
    history = History()
    history.take(recorded(504, "create"))
    history.take(recorded(201, "create", "theirs", agent="kubectl/1"))
    assert history.is_ours("unrecorded", ("a", "db"))
    assert not history.is_ours("theirs", ("a", "db"))
    assert not history.is_ours("unrecorded", ("b", "db"))
    assert recorded(504, "delete").uncertain
    assert not recorded(409, "delete").uncertain


@pytest.mark.parametrize("piece", [b"", b'{"half": "a li'])
def test_a_log_is_read_from_the_start_of_a_line(tmp_path: Path, piece: bytes) -> None:
    """The server may be about to write one while a test begins."""
    log, before = tmp_path / "audit.log", b'{"verb": "get"}\n'
    log.write_bytes(before + piece)
    assert end_of(log) == len(before)


def test_a_log_without_a_line_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(b"")
    assert end_of(log) == 0


def test_a_request_made_before_a_mark_does_not_count_although_it_is_recorded_after_it(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.touch()
    audit = Audit(log, clock=iter((10.0, 20.0)).__next__)

    def record(uri: str, received: float) -> None:
        stamps = [datetime.fromtimestamp(second, UTC).isoformat() for second in (received, 40.0)]
        times = dict(zip(("requestReceivedTimestamp", "stageTimestamp"), stamps, strict=True))
        with log.open("a") as file:
            file.write(json.dumps({"verb": "create", "requestURI": uri, **times}) + "\n")

    first, second = audit.mark(), audit.mark()
    record("/before", 5.0)
    record("/between", 15.0)
    record("/after", 25.0)
    assert [event.uri for event in audit.since(first)] == ["/between", "/after"]
    assert [event.uri for event in audit.since(second)] == ["/after"]
    assert [event.uri for event in audit.since(0)] == ["/before", "/between", "/after"]


@pytest.mark.oracle_off("O2", reason="the test shows that O2 fails")
@pytest.mark.oracle_off("O5", reason="a person changes the copy all the time")
def test_oracle_o2_sees_a_write_after_convergence(stage: Stage, judge: Judge) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    mark = stage.audit.mark()
    stage.api.patch(stage.path("a", "db"), {"data": encoded({"n": "0"})})
    eventually(lambda: stage.audit.writes(mark))
    with pytest.raises(AssertionError, match="came true"):
        judge.o2(1.0, mark)


@pytest.mark.parametrize(
    ("text", "names"),
    [("", None), (" ", None), (",", []), ("a, b,,a", ["a", "b"]), ('"a","b"', ["a", "b"]), ("Bad_Name", [])],
)
def test_the_oracles_read_lists_on_their_own(text: str, names: list[str] | None) -> None:
    assert listed(text) == names
