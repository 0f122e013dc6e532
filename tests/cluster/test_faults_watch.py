"""Rows 1–10 of the fault catalogue: faults of a watch and of the cache that it fills."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.support.audit import until_recorded
from tests.cluster.support.faults import (
    answered,
    asking,
    body,
    error_event,
    every_nth,
    held,
    held_back,
    late,
    preceded_by,
    recycled,
    replaced,
    stalled,
    truncated,
)
from tests.cluster.support.link import Link
from tests.cluster.support.operators import Operator
from tests.cluster.support.oracles import Judge
from tests.cluster.support.proxy import Exchange, Fault, Proxy, Rule, Seen, Stream, When, WhenEvent
from tests.cluster.support.stage import ORIGIN, TARGETS, Stage, decoded
from tests.cluster.support.waiting import eventually, never

from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
BLIND = "the watch"
DELETING = {"vocabularies": {"secret-copy": {"onSourceGone": "delete"}}}
EXPIRED = json.dumps(error_event(410, "Expired")).encode() + b"\n"


def is_watch(plural: str = "secrets") -> When:
    return lambda seen: seen.watch and seen.plural == plural


def is_list(plural: str = "secrets") -> When:
    return lambda seen: seen.lists and seen.plural == plural


def tells_of(namespace: str, name: str) -> WhenEvent:
    """Matches the lines of a watch about this Secret."""

    def is_about(seen: Seen, event: Json) -> bool:
        meta = event["object"].get("metadata") or {}
        return seen.plural == "secrets" and (meta.get("namespace"), meta.get("name")) == (namespace, name)

    return is_about


def ends_list(seen: Seen, event: Json) -> bool:
    words = (event["object"].get("metadata") or {}).get("annotations") or {}
    return seen.plural == "secrets" and event["type"] == "BOOKMARK" and "k8s.io/initial-events-end" in words


def blinded(proxy: Proxy, then: Fault | None = None, plural: str = "secrets") -> Rule:
    """Ends the watch of a kind and keeps the next one waiting until `proxy.thaw(BLIND)`."""
    proxy.freeze(BLIND)
    rule = proxy.on_request(is_watch(plural), held(BLIND, then), times=1)
    assert proxy.cut(plural) == 1
    eventually(lambda: rule.hits)
    return rule


gone = body(EXPIRED)
"""A watch that ends with 410: the server no longer has the resource version to resume from."""


def restarts(operator: Operator, reason: str, kind: str = "v1/Secret") -> float:
    return operator.metrics().get(f'samara_watch_restarts_total{{kind="{kind}",reason="{reason}"}}', 0.0)


def warnings(operator: Operator) -> list[str]:
    return [line for line in operator.log.splitlines() if " warning " in line or " error " in line]


def announced(operator: Operator, fault: str) -> list[float]:
    """The pauses that the log states after this fault of a watch."""
    lines = [line for line in operator.log.splitlines() if "watch.failed" in line and fault in line]
    return [float(line.rpartition("again_in=")[2].removesuffix("s")) for line in lines]


def written(stage: Stage, mark: int = 0) -> Counter[tuple[str, str, str]]:
    """The number of creates, updates and deletes of each copy, including refused ones."""
    return Counter((event.verb, *event.address) for event in stage.audit.writes(mark))


# 1


def test_fault_01_an_apiserver_restart_under_load_ends_with_every_copy_written_once(stage: Stage, judge: Judge) -> None:
    stage.namespace(*(f"n{number}" for number in range(60)))
    operator = stage.operator(
        "--leader-elect", config={"writes": {"perSecond": 20}, "timers": {"lease": "60s", "renew": "40s"}}
    )
    stage.source("db", "")
    eventually(lambda: len(stage.audit.writes()) >= 5)
    stage.cluster.restart_apiserver()
    judge.o1(60)
    done = Counter(event.address for event in stage.audit.writes() if event.done)
    assert set(done.values()) == {1}, "a copy was written twice"
    assert not [str(event) for event in stage.audit.writes() if event.code == 409]
    assert operator.running


# 2


def test_fault_02_a_watch_cut_within_an_object_resumes_from_the_last_resource_version(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    stage.until_copied("db", "a")
    for size in (1, 60, 1_000_000):  # the last one lacks only the newline
        last = int((stage.secret("a", "db") or {})["metadata"]["resourceVersion"])
        rule = proxy.on_event(tells_of("admin", "db"), truncated(size), times=1)
        before = len(proxy.requests(is_watch()))
        cut = int(stage.bump("db")["metadata"]["resourceVersion"])
        stage.until_copied("db", "a")
        assert rule.hits == 1
        again = proxy.requests(is_watch())[before]
        assert last <= int(again.query["resourceVersion"]) < cut
    assert len(proxy.requests(is_list())) == 1
    assert operator.running


# 3


def test_fault_03_a_watch_that_falls_silent_is_reopened_without_a_list(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    operator = stage.operator("--watch-seconds=1", config={"timers": {"silence": "2s"}}, through=proxy)
    stage.until_copied("db", "a")
    rule = proxy.on_event(tells_of("admin", "db"), late(3600), times=1)
    stage.bump("db")
    stage.until_copied("db", "a")
    assert rule.hits == 1
    assert restarts(operator, "silent") >= 1
    assert len(proxy.requests(is_list())) == 1


def test_fault_03_liveness_reports_watches_without_a_response_until_there_is_one(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    operator = stage.operator("--watch-seconds=1", config={"timers": {"silence": "2s"}}, through=proxy)
    stage.until_copied("db", "a")
    assert operator.answer("/healthz")[0] == 200
    proxy.on_request(is_watch(), stalled)
    stage.bump("db")
    eventually(lambda: operator.answer("/healthz")[0] == 503)
    assert b"the watch of v1/Secret has been quiet" in operator.answer("/healthz")[1]
    proxy.clear()
    eventually(lambda: operator.answer("/healthz")[0] == 200)
    stage.until_copied("db", "a")


def test_fault_03_a_silent_watch_is_reopened_without_backoff(stage: Stage) -> None:
    """A kind without events is always silent. If that were a failure, its watch would be in backoff half the time."""
    proxy = stage.proxy()
    operator = stage.operator(config={"timers": {"silence": "1s"}}, through=proxy)
    eventually(lambda: restarts(operator, "silent", "v1/ResourceQuota") >= 5)
    assert warnings(operator) == []


# 4


def test_fault_04_a_410_after_compaction_is_followed_by_a_list_that_finds_missed_deletes(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.source("old", "a")
    proxy = stage.proxy()
    operator = stage.operator(config=DELETING, through=proxy)
    stage.until_copied("db", "a", "b")
    stage.until_copied("old", "a")
    blinded(proxy)
    stage.api.delete(stage.path("admin", "old"))
    stage.bump("db")
    stage.retarget("db", "a")
    stage.cluster.compact()
    stage.cluster.restart_apiserver()  # its watch cache is empty now, and etcd is compacted
    proxy.clear()
    stage.until_gone("a", "old")
    stage.until_gone("b", "db")
    stage.until_copied("db", "a")
    assert restarts(operator, "gone") >= 1


def test_fault_04_a_410_in_the_stream_is_followed_by_a_list_that_finds_missed_deletes(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    stage.until_copied("db", "a", "b")
    blinded(proxy, gone)
    stage.api.delete(stage.path("a", "db"))
    stage.retarget("db", "a")
    proxy.thaw(BLIND)
    stage.until_copied("db", "a")
    stage.until_gone("b", "db")
    assert restarts(operator, "gone") == 1


def test_fault_04_a_410_between_the_pages_of_a_list_restarts_the_list(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b", "c")
    stage.source("db", "a,b,c")
    stage.source("old", "a")
    proxy = stage.proxy()
    streamed = proxy.on_request(lambda seen: "sendInitialEvents" in seen.query, answered(422, "Invalid"))
    forgotten = proxy.on_request(lambda seen: "continue" in seen.query, answered(410, "Expired"), times=1)
    proxy.on_request(lambda seen: "limit" in seen.query, asking(limit="2"))
    operator = stage.operator(config=DELETING, through=proxy)
    stage.until_copied("db", "a", "b", "c")
    stage.until_copied("old", "a")
    assert (streamed.hits, forgotten.hits) == (3, 1)
    blinded(proxy, gone)
    stage.api.delete(stage.path("admin", "old"))
    stage.bump("db")
    forgotten.times, forgotten.skip = 2, 1
    proxy.thaw(BLIND)
    stage.until_copied("db", "a", "b", "c")
    stage.until_gone("a", "old")
    assert forgotten.hits == 2
    assert operator.running


def test_fault_04_a_server_that_always_answers_410_is_not_listed_in_a_hot_loop(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    stage.operator(through=proxy)
    stage.until_copied("db", "a")
    rule = proxy.on_request(lambda seen: is_watch()(seen) and "sendInitialEvents" not in seen.query, gone)
    listed = proxy.on_request(is_list(), _ends_after_list)
    proxy.cut("secrets")
    eventually(lambda: listed.hits >= 4)
    lists = [seen.at for seen in proxy.requests(is_list())][1:]
    assert lists[3] - lists[0] > 1.0, "four lists within a second"
    assert rule.hits >= 4
    proxy.clear()
    stage.bump("db")
    stage.until_copied("db", "a")


async def _ends_after_list(exchange: Exchange) -> Any:
    """Ends the stream after a complete streamed list."""
    exchange.proxy.on_event(ends_list, _ended, times=1)
    return await exchange.forward()


async def _ended(stream: Stream, line: bytes) -> list[bytes]:
    stream.over = True
    return [line]


def test_fault_04_a_copy_that_is_written_while_the_list_is_read_is_not_written_again(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a,b")
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    stage.until_copied("db", "a")
    blinded(proxy, gone)
    proxy.freeze("the end of the list")
    proxy.freeze("the event")
    rule = proxy.on_event(ends_list, held_back("the end of the list"), times=1)
    proxy.on_event(tells_of("b", "db"), held_back("the event"), times=1)
    proxy.thaw(BLIND)
    eventually(lambda: rule.hits)
    stage.namespace("b")
    stage.until_copied("db", "b")
    mark = stage.audit.mark()
    proxy.thaw("the end of the list")
    eventually(lambda: operator.log.count("watch.listed kind=v1/Secret") == 2)
    never(lambda: stage.audit.writes(mark), 0.5)
    proxy.clear()


# 5


def test_fault_05_an_object_created_and_deleted_between_two_lists_has_no_effect(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.source("old", "a,b")
    proxy = stage.proxy()
    stage.operator(config=DELETING, through=proxy)
    stage.until_copied("db", "a", "b")
    stage.until_copied("old", "a", "b")
    blinded(proxy, gone)
    mark = stage.audit.mark()
    stage.source("brief", "a,b")
    stage.api.delete(stage.path("admin", "brief"))
    stage.api.delete(stage.path("admin", "old"))
    proxy.thaw(BLIND)
    stage.until_gone("a", "old")
    stage.until_gone("b", "old")
    until_recorded(lambda: stage.audit.writes(mark), 2)
    assert written(stage, mark) == {("delete", "a", "old"): 1, ("delete", "b", "old"): 1}


# 6


@pytest.mark.parametrize("then", [gone, None], ids=["listed again", "resumed"])
def test_fault_06_a_new_object_of_the_same_name_inherits_nothing_from_the_old_one(
    stage: Stage, then: Fault | None
) -> None:
    stage.namespace("a", "b", "c")
    stage.source("db", "a,b")
    proxy = stage.proxy()
    stage.operator(config=DELETING, through=proxy)
    stage.until_copied("db", "a", "b")
    blinded(proxy, then)
    mark = stage.audit.mark()
    stage.api.delete(stage.path("a", "db"))
    theirs = stage.foreign("a", "db", {"theirs": "1"})
    stage.api.delete(stage.path("admin", "db"))
    stage.source("db", "a,c")
    proxy.thaw(BLIND)
    stage.until_copied("db", "c")
    stage.until_gone("b", "db")
    assert stage.secret("a", "db") == theirs, "our copy went, and what came in its place is not ours"
    stage.until_event("Conflict", about="db")
    done = Counter((event.verb, *event.address) for event in stage.audit.writes(mark) if event.done)
    assert done == {("create", "c", "db"): 1, ("delete", "b", "db"): 1}


# 7


@pytest.fixture
def lagging(cluster: Devcluster) -> Iterator[tuple[str, Link]]:
    """A second API server on the same etcd, whose connection to etcd can be stalled."""
    with Link(cluster.etcd_url) as link:
        url = cluster.start_second_apiserver(etcd_url=link.url)
        yield url, link
        for name in [name for name in cluster.pids if name.startswith("kube-apiserver-")]:
            cluster.stop_process(name)


def test_fault_07_after_a_restart_a_lagging_server_causes_no_stale_write(
    stage: Stage, lagging: tuple[str, Link]
) -> None:
    stage.expect.on_source_gone = "delete"
    url, link = lagging
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    first = stage.operator(config=DELETING)
    stage.until_copied("db", "a", "b")
    eventually(lambda: _value_at(stage, url, "a", "db") == "1")
    link.stall()
    stage.bump("db")
    stage.source("new", "a,b")
    stage.until_copied("db", "a", "b")
    stage.until_copied("new", "a", "b")
    first.stop()
    assert _value_at(stage, url, "admin", "db") == "1", "this server does not lag"
    assert _value_at(stage, url, "admin", "new") is None
    mark = stage.audit.mark()
    proxy = stage.proxy()
    proxy.upstream = url
    second = stage.operator(config=DELETING, through=proxy, wait="started")
    eventually(lambda: proxy.requests(is_list()))
    never(lambda: stage.audit.writes(mark) or second.answer("/syncz")[0] == 200, 2.0, every=0.2)
    link.flow()
    second.synced()
    assert written(stage, mark) == {}
    uris = [event.uri for event in stage.audit.ours() if "resourceVersion=0" in event.uri.replace("&", "?").split("?")]
    assert not uris
    assert not [seen for seen in proxy.requests() if seen.query.get("resourceVersion") == "0"]


def _value_at(stage: Stage, url: str, namespace: str, name: str) -> str | None:
    """The number in a Secret as the cache of this API server has it."""
    other = stage.api.at(url)
    try:
        items = other.items("/api/v1/secrets", resourceVersion="0")
    finally:
        other.close()
    matches = [item for item in items if (item["metadata"]["namespace"], item["metadata"]["name"]) == (namespace, name)]
    return decoded(matches[0])["n"] if matches else None


# 8

UNKNOWN = {"type": "RENAMED", "object": {"kind": "Secret", "metadata": {"name": "x", "resourceVersion": "1"}}}
STREAM_FAULTS = {
    "an error 500": replaced(error_event(500, "InternalError")),
    "an error 429": replaced(error_event(429, "TooManyRequests")),
    "an error without a code": replaced({"type": "ERROR", "object": {"kind": "Status"}}),
    "an unknown type": preceded_by({"type": "RENAMED", "object": {"kind": "Secret", "metadata": {"name": "x"}}}),
    "no object": preceded_by({"type": "ADDED", "object": None}),
    "no JSON": preceded_by(b"<html>bad gateway</html>\n"),
    "an empty line": preceded_by(b"\n"),
}


def test_fault_08_errors_and_invalid_data_in_the_stream_lose_no_event_and_end_no_process(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    for what, fault in STREAM_FAULTS.items():
        stage.until_copied("db", "a")
        rule = proxy.on_event(tells_of("admin", "db"), fault, times=1)
        stage.bump("db")
        stage.until_copied("db", "a")
        assert rule.hits == 1, what
    assert operator.running
    assert len(proxy.requests(is_list())) == 1, "an error in the stream is no reason to list again"


def test_fault_08_events_of_an_unknown_type_and_bookmarks_are_ignored(stage: Stage) -> None:
    stage.namespace("a")
    version = stage.source("db", "a")["metadata"]["resourceVersion"]
    proxy = stage.proxy()
    stage.operator(through=proxy)
    stage.until_copied("db", "a")
    before = len(proxy.requests(is_watch()))
    for type_ in ("RENAMED", "BOOKMARK"):
        line = {"type": type_, "object": {"kind": "Secret", "metadata": {"resourceVersion": version}}}
        proxy.on_event(tells_of("admin", "db"), preceded_by(line, line), times=1)
        stage.bump("db")
        stage.until_copied("db", "a")
    assert len(proxy.requests(is_watch())) == before, "the watch was reopened for nothing"


def test_fault_08_a_watch_that_delivers_only_errors_is_reopened_with_backoff(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    stage.until_copied("db", "a")
    line = json.dumps(error_event(500, "InternalError")).encode() + b"\n"
    opened = len(proxy.requests(is_watch()))
    rule = proxy.on_request(is_watch(), body(line))
    proxy.cut("secrets")
    eventually(lambda: rule.hits >= 5)
    pauses = announced(operator, "InternalError")[:4]
    assert pauses == sorted(set(pauses))
    assert pauses[3] > 2 * pauses[0]
    times = [seen.at for seen in proxy.requests(is_watch())[opened:]]
    waited = [after - before for before, after in itertools.pairwise(times)]
    assert all(passed >= pause - 0.05 for pause, passed in zip(pauses, waited, strict=False)), (waited, pauses)
    proxy.clear()
    stage.bump("db")
    stage.until_copied("db", "a")
    assert operator.running


def test_fault_08_a_429_in_the_stream_is_waited_out_for_retry_after(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    stage.operator(through=proxy)
    stage.until_copied("db", "a")
    error = error_event(429, "TooManyRequests")
    error["object"]["details"] = {"retryAfterSeconds": 2}
    rule = proxy.on_request(is_watch(), body(json.dumps(error).encode() + b"\n"), times=1)
    proxy.cut("secrets")
    eventually(lambda: rule.hits)
    stage.bump("db")
    stage.until_copied("db", "a")
    refused, again = [seen.at for seen in proxy.requests(is_watch())][-2:]
    assert again - refused >= 2.0


# 9


def test_fault_09_connections_closed_after_every_few_requests_cause_no_error(stage: Stage) -> None:
    """Our client speaks HTTP/1.1: the server's GOAWAY reaches it as a connection that is closed after an answer."""
    names = [f"n{number}" for number in range(20)]
    stage.namespace(*names)
    proxy = stage.proxy()
    rule = proxy.on_request(every_nth(3, lambda seen: not seen.watch), recycled)
    operator = stage.operator("--watch-seconds=1", "--leader-elect", through=proxy)
    stage.source("db", ",".join(names))
    for _ in range(3):
        stage.until_copied("db", *names)
        stage.bump("db")
    stage.until_copied("db", *names)
    assert rule.hits >= 20
    assert warnings(operator) == []
    assert {event.code for event in stage.audit.writes()} == {200, 201}
    metrics = operator.metrics()
    assert not [name for name in metrics if name.startswith("samara_writes_total") and 'result="done"' not in name]


# 10


async def _doubled_and_late(stream: Stream, line: bytes) -> list[bytes]:
    """Events of Namespaces arrive long after those of Secrets, and all events arrive twice."""
    return [line, *await late(0.15 if stream.seen.plural == "namespaces" else 0.01)(stream, line)]


async def _secrets_late(stream: Stream, line: bytes) -> list[bytes]:
    return [*await late(0.15 if stream.seen.plural == "secrets" else 0.01)(stream, line), line]


@pytest.mark.parametrize("fault", [_doubled_and_late, _secrets_late], ids=["namespaces late", "secrets late"])
def test_fault_10_duplicate_late_and_reordered_events_lead_to_the_same_state(
    stage: Stage, judge: Judge, fault: Any
) -> None:
    stage.expect.on_source_gone = "delete"
    calm = stage.operator(config=DELETING)
    _busy_minutes(stage, "calm")
    judge.o1()
    calm.stop()
    proxy = stage.proxy()
    rule = proxy.on_event(lambda seen, event: event["type"] != "BOOKMARK", fault)
    stage.operator(config=DELETING, through=proxy)
    _busy_minutes(stage, "storm")
    judge.o1(60)
    assert _state(stage, "storm") == _state(stage, "calm")
    assert rule.hits >= 10


def _busy_minutes(stage: Stage, tag: str) -> None:
    """Makes a few changes of every type as fast as possible. All names contain the tag."""
    names = [f"{tag}-{namespace}" for namespace in "abc"]
    a, b, c = names
    stage.namespace(a)
    stage.source(f"{tag}-db", f"{a},{b}", {"step": "1"})
    stage.source(f"{tag}-old", a)
    stage.source(f"{tag}-back", f"{a},{b}", {"step": "1"})
    stage.namespace(b)
    stage.until_copied(f"{tag}-db", a, b)
    stage.bump(f"{tag}-db", step="2")
    stage.foreign(b, f"{tag}-late", {"theirs": "1"})
    stage.source(f"{tag}-late", f"{a},{b},{c}", {"step": "1"})
    stage.api.delete(stage.path("admin", f"{tag}-old"))
    stage.api.delete(stage.path("admin", f"{tag}-back"))
    stage.source(f"{tag}-back", f"{b},{c}", {"step": "3"})
    stage.retarget(f"{tag}-db", f"{b},{c}")
    stage.namespace(c)
    stage.bump(f"{tag}-db", step="4")


def _state(stage: Stage, tag: str) -> dict[tuple[str, str], Json]:
    """Every Secret of a tag, without the tag and without fields that differ between runs."""
    state = {}
    for secret in stage.api.items("/api/v1/secrets"):
        meta = secret["metadata"]
        if meta["name"].startswith(tag):
            data = {key: value for key, value in decoded(secret).items() if key != "n"}
            words = {key: (meta.get("annotations") or {}).get(key, "").replace(tag, "") for key in (ORIGIN, TARGETS)}
            state[meta["namespace"].replace(tag, ""), meta["name"].replace(tag, "")] = {**data, **words}
    return state
