"""Tests the faults of a watch against a server that produces them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.kube.scripted import Answer, Script, access, cuts, gated, hangs, refuses, says, serving, streams
from tests.support.caches import a_plain_cache
from tests.support.samples import a_registry
from tests.support.world import at

from samara import __version__
from samara.assembly import WELL_KNOWN, registry_of
from samara.core.metadata_keys import PAUSED
from samara.core.model import FIELD_MANAGER, SECRET, Ref
from samara.core.registry import Registry
from samara.kube import reflector as reflector_module
from samara.kube.cache import Change
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec
from samara.kube.errors import TooMany
from samara.kube.reflector import Changed, Ingest, Listed, Observed, QuotaChanged, Reflector, ReflectorTimings
from samara.settings import parse
from samara.vocabularies.secret_copy import ORIGIN, TARGETS

TIMINGS = ReflectorTimings(silence=30.0, recheck_absence=0.05, watch_length=30.0, max_backoff=0.2)
STAYS = streams()
GENERATED = "vocabularies: {accurate: {watches: [{version: v1, kind: Secret}], propagateGenerated: true}}"


def obj(name: str, version: int, namespace: str = "admin", **annotations: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"kind": "Secret", "metadata": {**meta, "annotations": annotations}, "data": {"k": "YQ=="}, "type": "Opaque"}


def source(name: str, version: int) -> dict[str, Any]:
    return obj(name, version, **{TARGETS: ""})


def event(type_: str, about: dict[str, Any]) -> dict[str, Any]:
    return {"type": type_, "object": about}


def added(name: str, version: int) -> dict[str, Any]:
    return event("ADDED", source(name, version))


def bookmark(version: int, end: bool = False) -> bytes:
    notes = {"k8s.io/initial-events-end": "true"} if end else {}
    meta = {"resourceVersion": str(version), **({"annotations": notes} if end else {})}
    about = {"type": "BOOKMARK", "object": {"kind": "Secret", "apiVersion": "v1", "metadata": meta}}
    return json.dumps(about, separators=(",", ":")).encode() + b"\n"


def error(code: int, reason: str = "Expired") -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "metadata": {}, "code": code, "reason": reason, "message": "because"})


def listing(*objects: dict[str, Any], version: int = 10) -> tuple[object, ...]:
    """A streamed list."""
    return (*(event("ADDED", obj) for obj in objects), bookmark(version, end=True))


def page(*objects: dict[str, Any], version: int = 10, token: str = "") -> Answer:
    return says(
        {"kind": "SecretList", "metadata": {"resourceVersion": str(version), "continue": token}, "items": objects}
    )


class RecordingInbox:
    """An inbox that remembers what a reflector posts, and sets an event for tests that wait."""

    def __init__(self, news: asyncio.Event) -> None:
        self.news = news
        self.changes: list[Change] = []
        self.quotas: list[Ref] = []
        self.lists = 0
        self.has_room = asyncio.Event()
        self.has_room.set()

    def post(self, message: Observed | Listed | QuotaChanged) -> None:
        match message:
            case Observed(changes):
                self.changes += changes
            case Listed():
                self.lists += 1
            case QuotaChanged(ref):
                self.quotas.append(ref)
        self.news.set()

    async def wait_for_room(self) -> None:
        await self.has_room.wait()

    def names(self) -> list[str]:
        return [f"{'+' if change.new is not None else '-'}{change.ref.name}" for change in self.changes]


class Stage:
    def __init__(self, script: Script, client: Client, timings: ReflectorTimings) -> None:
        self.script, self.heard = script, RecordingInbox(script.news)
        registry = a_registry()
        self.cache = a_plain_cache(registry)
        self.reflector = Reflector(SECRET, client, self.cache, Codec(registry.managers), self.heard, timings)

    async def until(self, true: Callable[[], bool]) -> None:
        await self.script.until(true)

    async def requests(self, number: int) -> None:
        """Waits for this number of requests."""
        await self.until(lambda: len(self.script.seen) >= number)

    def queries(self, name: str) -> list[str | None]:
        return [seen.query.get(name) for seen in self.script.seen]

    def held(self) -> list[str]:
        return sorted(obj.ref.name for obj in self.cache.objects_of(SECRET))


def watching(
    scenario: Callable[[Stage], Awaitable[None]], *answers: Answer, timings: ReflectorTimings = TIMINGS
) -> None:
    """Runs a watch against these answers, and checks each of its requests."""

    async def run() -> None:
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            stage = Stage(script, client, timings)
            task = asyncio.create_task(stage.reflector.run())
            try:
                await scenario(stage)
                assert not task.done(), "a watch never ends"
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            _judge(script)

    asyncio.run(run())


def _judge(script: Script) -> None:
    for seen in script.seen:
        assert seen.method == "GET"
        assert seen.path == "/api/v1/secrets"
        assert seen.query.get("resourceVersion") != "0"
        assert seen.headers["User-Agent"] == f"samara/{__version__}"
        assert seen.headers["Accept-Encoding"] == "identity"
        if "watch" in seen.query:
            assert seen.query["allowWatchBookmarks"] == "true"
            assert int(seen.query["timeoutSeconds"]) > 0


def test_a_list_is_streamed_and_followed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.names() == ["+x", "+y", "+y", "-x"])
        assert stage.heard.lists == 1
        assert stage.reflector.not_ready_reason is None
        assert stage.cache.has_synced(SECRET)
        (seen,) = stage.script.seen
        assert seen.query["sendInitialEvents"] == "true"
        assert seen.query["resourceVersionMatch"] == "NotOlderThan"
        assert "resourceVersion" not in seen.query

    changed = (added("y", 11), event("MODIFIED", source("y", 12)), event("DELETED", source("x", 13)))
    watching(scenario, streams(*listing(source("x", 5)), *changed))


def test_a_kind_is_unknown_until_its_list_has_ended() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.names() == ["+x"])
        assert not stage.cache.has_synced(SECRET)
        assert stage.reflector.not_ready_reason == "not listed yet"
        assert stage.heard.lists == 0

    watching(scenario, streams(added("x", 5), bookmark(7)))


def test_only_the_address_of_an_unrelated_object_is_kept() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert stage.cache.exists_unread(at("b", "theirs"))
        assert stage.held() == []

    watching(scenario, streams(*listing(obj("theirs", 3, "b"))))


def test_an_object_deleted_during_the_list_is_not_kept() -> None:
    """Otherwise the object would count as one that is not a source, and its copies would be deleted."""

    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert not stage.cache.exists_unread(at("admin", "x"))
        assert stage.cache.exists_unread(at("b", "theirs"))

    first, *rest = listing(source("x", 5), obj("theirs", 3, "b"))
    *others, end = rest
    watching(scenario, streams(first, *others, event("DELETED", source("x", 6)), end))


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_events_may_come_in_pieces_of_any_size(size: int) -> None:
    lines = b"".join(item if isinstance(item, bytes) else json.dumps(item).encode() + b"\n" for item in _events())
    pieces = [lines[index : index + size] for index in range(0, len(lines), size)]

    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.names() == ["+x", "+y", "-x"])

    watching(scenario, streams(*pieces))


def _events() -> tuple[object, ...]:
    return (*listing(source("x", 5)), added("y", 11), event("DELETED", source("x", 13)))


# watches that are cut or ended


@pytest.mark.parametrize("end", ["ends", "cut"])
def test_after_a_truncated_line_the_watch_continues_from_the_last_complete_event(end: str) -> None:
    half = json.dumps(added("z", 12)).encode()[:40]

    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+z" in stage.heard.names())
        assert stage.queries("resourceVersion") == [None, "11"]
        assert stage.heard.names() == ["+x", "+y", "+z"]
        assert stage.heard.lists == 1

    watching(scenario, streams(*listing(source("x", 5)), added("y", 11), half, end=end), streams(added("z", 12)))


def test_a_garbled_line_reopens_the_watch() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+z" in stage.heard.names())
        assert stage.queries("resourceVersion") == [None, "10", "10"]

    garbled = (b"not json\n", b'{"type":"ADDED","object":{"metadata":{"name":"\xff","resourceVersion":"11"}}}\n')
    watching(scenario, streams(*listing(), garbled[0]), streams(garbled[1]), streams(added("z", 12)))


def test_a_watch_that_the_server_ends_continues_from_its_version() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.requests(3)
        assert stage.queries("resourceVersion") == [None, "12", "12"]
        assert stage.reflector.restarts == {"ended": 2}
        assert stage.heard.lists == 1

    watching(scenario, streams(*listing(source("x", 5)), bookmark(12), end="ends"), streams(end="ends"), STAYS)


def test_a_list_that_is_cut_starts_again_and_deletes_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert stage.queries("sendInitialEvents") == ["true", "true", "true"]
        assert stage.heard.names() == ["+x", "+y"]

    complete = streams(*listing(source("x", 5), source("y", 6)))
    watching(scenario, streams(added("x", 5), end="cut"), streams(added("x", 5), end="ends"), complete)


def test_events_of_known_versions_are_ignored() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.names() == ["+x", "+y"])

    old = (event("MODIFIED", source("x", 5)), event("MODIFIED", source("x", 4)), event("DELETED", source("x", 4)))
    watching(scenario, streams(*listing(source("x", 5)), *old, added("y", 11)))


# events and errors in the stream


def test_an_unknown_type_of_event_is_skipped() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+y" in stage.heard.names())
        assert len(stage.script.seen) == 1

    watching(scenario, streams(*listing(), event("SURPRISE", source("x", 11)), added("y", 12)))


@pytest.mark.parametrize("code", [500, 429, 504])
def test_an_error_in_the_stream_reopens_it_after_a_pause(code: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+y" in stage.heard.names())
        assert stage.queries("resourceVersion") == [None, "10"]
        assert stage.reflector.restarts == {"error": 1}

    watching(scenario, streams(*listing(source("x", 5)), error(code, "because")), streams(added("y", 11)))


def test_events_before_an_error_are_reported() -> None:
    """Both arrive in one piece. The event has changed the cache, and the server will not send it again."""
    together = b"".join(json.dumps(item).encode() + b"\n" for item in (added("y", 11), error(500)))

    async def scenario(stage: Stage) -> None:
        await stage.requests(2)
        assert stage.queries("resourceVersion") == [None, "11"]
        assert stage.heard.names() == ["+x", "+y"]

    watching(scenario, streams(*listing(source("x", 5)), together), STAYS)


def test_bookmarks_advance_the_version() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.requests(2)
        assert stage.queries("resourceVersion") == [None, "30"]
        assert stage.heard.names() == []

    watching(scenario, streams(*listing(), bookmark(20), bookmark(30), end="ends"), STAYS)


@pytest.mark.parametrize("how", ["in the stream", "as the answer"])
def test_410_relists_and_finds_missed_deletions(how: str) -> None:
    first = listing(source("x", 5), source("y", 6), obj("theirs", 7, "b"))
    gone = (
        [streams(*first, error(410))]
        if how == "in the stream"
        else [streams(*first, end="ends"), refuses(410, "Expired")]
    )

    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 2)
        await stage.until(lambda: "-x" in stage.heard.names())
        assert stage.heard.names() == ["+x", "+y", "+y", "-x"]
        assert stage.held() == ["y"]
        assert not stage.cache.exists_unread(at("b", "theirs"))
        assert stage.queries("sendInitialEvents")[-1] == "true"
        assert stage.reflector.restarts["gone"] == 1

    watching(scenario, *gone, streams(*listing(source("y", 16), version=20)))


def test_an_object_recreated_before_a_relist_replaces_the_old_one() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 2)
        held = stage.cache.get(at("admin", "x"))
        assert held is not None
        assert (held.uid, held.resource_version) == ("new", 15)

    recreated = source("x", 15)
    recreated["metadata"]["uid"] = "new"
    watching(scenario, streams(*listing(source("x", 5)), error(410)), streams(*listing(recreated, version=20)))


def test_repeated_410_backs_off() -> None:
    async def scenario(stage: Stage) -> None:
        began = asyncio.get_running_loop().time()
        await stage.requests(5)
        assert asyncio.get_running_loop().time() - began > 0.3

    watching(scenario, refuses(410, "Expired"))


# silence


def test_silence_reopens_the_watch_without_a_list() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+y" in stage.heard.names())
        assert stage.queries("resourceVersion") == [None, "10"]
        assert stage.heard.lists == 1
        assert stage.reflector.restarts == {"silent": 1}

    watching(
        scenario,
        streams(*listing(source("x", 5))),
        streams(added("y", 11)),
        timings=ReflectorTimings(silence=0.4, max_backoff=0.1),
    )


def test_a_watch_that_is_never_answered_is_retried() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert len(stage.script.seen) == 2

    watching(scenario, hangs, streams(*listing()), timings=ReflectorTimings(silence=0.4, max_backoff=0.1))


def test_every_byte_counts_as_a_sign_of_life() -> None:
    async def scenario(stage: Stage) -> None:
        assert stage.reflector.last_received == 0.0
        await stage.until(lambda: stage.heard.lists == 1)
        assert asyncio.get_running_loop().time() - stage.reflector.last_received < 5.0

    watching(scenario, streams(*listing()))


# empty lists


def test_a_suddenly_empty_list_is_fetched_again_before_it_deletes() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.requests(3)
        assert stage.held() == ["x"]
        assert stage.heard.lists == 1
        stage.script.gate.set()
        await stage.until(lambda: "-x" in stage.heard.names())
        assert stage.held() == []
        assert len(stage.script.seen) == 3

    empty = streams(*listing(version=20))
    watching(scenario, streams(*listing(source("x", 5)), error(410)), empty, gated(streams(*listing(version=21))))


def test_a_list_that_was_empty_by_mistake_deletes_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 2)
        assert stage.held() == ["x"]
        assert "-x" not in stage.heard.names()

    complete = listing(source("x", 5))
    watching(scenario, streams(*complete, error(410)), streams(*listing(version=20)), streams(*complete))


def test_a_suddenly_empty_list_is_fetched_again_after_the_set_time() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.requests(2)
        began = asyncio.get_running_loop().time()
        await stage.requests(3)
        assert asyncio.get_running_loop().time() - began > 0.5

    timings = ReflectorTimings(silence=30.0, recheck_absence=0.6, max_backoff=0.1)
    empty = streams(*listing(version=20))
    watching(scenario, streams(*listing(source("x", 5)), error(410)), empty, empty, timings=timings)


def test_absence_after_a_relist_is_unproven_for_a_while() -> None:
    async def scenario(stage: Stage) -> None:
        began = asyncio.get_running_loop().time()
        await stage.until(lambda: stage.heard.lists == 2)
        assert stage.cache.stores[SECRET].absence_unproven_until >= began + TIMINGS.recheck_absence
        assert stage.held() == ["y"]  # its CRD may have been deleted and created again in between

    watching(scenario, streams(*listing(source("x", 5)), error(410)), streams(*listing(source("y", 21), version=22)))


def test_an_empty_first_list_is_accepted_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert len(stage.script.seen) == 1
        assert stage.cache.stores[SECRET].absence_unproven_until == 0.0

    watching(scenario, streams(*listing()))


# servers that do not stream lists


SOURCES = [source(name, 5) for name in "xyz"]


@pytest.mark.parametrize(
    "answers", [(refuses(400), page(*SOURCES)), (streams(*listing(*SOURCES)),)], ids=["in pages", "streamed"]
)
def test_other_tasks_run_while_a_list_is_taken(answers: tuple[Answer, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose how large objects are. What was taken is posted first, so that no one acts on it unawares."""
    monkeypatch.setattr(reflector_module, "_SLICE", 0.0)
    turns, posted = 0, list[tuple[int, int]]()

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def scenario(stage: Stage) -> None:
        def post(message: Observed | Listed | QuotaChanged) -> None:
            if isinstance(message, Observed) and message.changes:
                posted.append((turns, len(stage.held())))
                assert message.first_list
            stage.heard.lists += isinstance(message, Listed)
            stage.heard.news.set()

        monkeypatch.setattr(stage.heard, "post", post)
        counting = asyncio.create_task(count_turns())
        await stage.until(lambda: stage.heard.lists == 1)
        counting.cancel()

    watching(scenario, *answers, STAYS)
    assert [held for _, held in posted] == [1, 2, 3]
    assert len({turn for turn, _ in posted}) == 3


@pytest.mark.parametrize("status", [400, 422])
def test_an_older_server_is_listed_in_pages(status: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+z" in stage.heard.names())
        assert stage.heard.names() == ["+x", "+y", "+z"]
        assert stage.heard.lists == 1
        assert stage.queries("limit") == [None, "500", "500", None]
        assert stage.queries("continue") == [None, None, "more", None]
        assert stage.queries("resourceVersion") == [None, None, None, "10"]

    pages = page(source("x", 5), token="more"), page(source("y", 6))
    watching(scenario, refuses(status, "Invalid"), *pages, streams(added("z", 11)))


def test_410_on_a_later_page_starts_the_list_again() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert stage.queries("continue")[1:] == [None, "more", None]
        assert stage.held() == ["x", "y"]

    complete = page(source("x", 5), source("y", 6), version=20)
    watching(scenario, refuses(400), page(source("x", 5), token="more"), refuses(410, "Expired"), complete, STAYS)


def test_a_server_that_ignores_sendinitialevents_is_listed_in_pages() -> None:
    """It sends all objects and then watches. It is detected by a bookmark that does not end a list."""

    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+z" in stage.heard.names())
        assert stage.queries("limit") == [None, "500", None]
        assert stage.queries("resourceVersion") == [None, None, "10"]
        assert stage.held() == ["x", "y", "z"]
        assert stage.heard.lists == 1

    watching(
        scenario, streams(added("x", 5), bookmark(9)), page(source("x", 5), source("y", 6)), streams(added("z", 11))
    )


async def ends_late(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(0.55)
    return await streams(end="ends")(request)


@pytest.mark.parametrize(
    ("timings", "answer"),
    [(replace(TIMINGS, silence=0.1), STAYS), (replace(TIMINGS, watch_length=1.0), ends_late)],
    ids=["silent", "ended"],
)
def test_a_streamed_list_without_an_end_is_fetched_in_pages(timings: ReflectorTimings, answer: Answer) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert stage.queries("limit")[:2] == [None, "500"]

    watching(scenario, answer, page(source("x", 5)), STAYS, timings=timings)


def test_pages_find_missed_deletions_too() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "-x" in stage.heard.names())
        assert stage.held() == ["y"]

    first, second = page(source("x", 5), source("y", 6)), page(source("y", 6), version=20)
    watching(scenario, refuses(400), first, streams(error(410)), second, STAYS)


@pytest.mark.parametrize(
    "answer",
    [
        says(b"<html>hello</html>"),
        says(b"\xff"),
        says({"metadata": {"resourceVersion": "soon"}, "items": []}),
        says({"items": []}),
        refuses(500),
        cuts,
    ],
)
def test_a_page_that_is_no_list_is_fetched_again(answer: Answer) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert stage.held() == ["x"]

    watching(scenario, refuses(400), answer, page(source("x", 5)), STAYS)


def test_a_list_without_items_is_an_empty_one() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)

    watching(scenario, refuses(400), says({"metadata": {"resourceVersion": "5"}, "items": None}), STAYS)


# kinds that cannot be served, and odd objects


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (404, "NotFound")])
def test_a_kind_that_cannot_be_listed_is_retried_until_it_can(status: int, reason: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.requests(2)
        assert stage.reflector.not_served
        assert stage.reflector.not_ready_reason is not None
        assert reason in stage.reflector.not_ready_reason
        back = asyncio.get_running_loop().time()
        stage.script.gate.set()
        await stage.until(lambda: stage.heard.lists == 1)
        assert [stage.reflector.not_ready_reason, stage.reflector.not_served] == [None, False]
        # Its objects may be on their way back.
        assert stage.cache.stores[SECRET].absence_unproven_until >= back + TIMINGS.recheck_absence

    watching(scenario, refuses(status, reason), gated(streams(*listing())))


def test_a_kind_that_is_no_longer_served_keeps_its_objects() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.requests(3)
        assert stage.reflector.not_served
        assert stage.held() == ["x"]
        assert stage.heard.names() == ["+x"]

    watching(scenario, streams(*listing(source("x", 5)), end="ends"), refuses(404, "NotFound"))


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (404, "NotFound")])
def test_a_kind_that_is_served_again_is_relisted(status: int, reason: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 2)
        assert not stage.reflector.not_served
        assert stage.held() == ["x", "y"]

    before, now = listing(source("x", 5)), listing(source("x", 5), source("y", 11), version=12)
    watching(scenario, streams(*before, end="ends"), refuses(status, reason), refuses(status, reason), streams(*now))


def test_a_kind_that_may_be_listed_but_not_watched_backs_off() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 3)
        assert stage.reflector._failures == 2  # each of which doubles the wait

    once, refused = page(source("x", 5)), refuses(403, "Forbidden")
    watching(scenario, refuses(400), once, refused, once, refused, once, STAYS)


def _odd(name: str, **meta: Any) -> bytes:
    about = source(name, 11)
    about["metadata"] |= meta
    return json.dumps(event("ADDED", about)).encode() + b"\n"


@pytest.mark.parametrize(
    "odd",
    [
        _odd("odd", labels=["a", "list"]),
        _odd("odd", annotations={TARGETS: 7}),
        _odd("odd", ownerReferences="nobody"),
        _odd("odd", managedFields=[{"fieldsV1": {"f:metadata": 7}}]),
        _odd("odd", uid="\N{SNOWMAN}").replace(b"\\u2603", b"\xff"),
    ],
)
def test_a_malformed_object_neither_ends_the_watch_nor_leaks(odd: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+y" in stage.heard.names())
        assert stage.held() == ["y"]

    with caplog.at_level(logging.DEBUG):
        watching(scenario, streams(*listing(), odd, added("y", 12)), streams(added("y", 12)))
    assert "YQ==" not in caplog.text


def test_a_version_that_is_no_number_is_never_watched_from() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+y" in stage.heard.names())
        assert stage.queries("resourceVersion") == [None, "10"]

    watching(scenario, streams(*listing(), _odd("odd", resourceVersion="soon")), streams(added("y", 12)))


def test_an_unreachable_server_is_retried_with_backoff() -> None:
    async def scenario(stage: Stage) -> None:
        began = asyncio.get_running_loop().time()
        await stage.until(lambda: stage.heard.lists == 1)
        assert asyncio.get_running_loop().time() - began > 0.4
        assert stage.reflector.restarts == {"error": 3}

    watching(scenario, cuts, refuses(503), cuts, streams(*listing()))


def test_retry_after_is_obeyed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.requests(1)
        began = asyncio.get_running_loop().time()
        await stage.requests(2)
        assert asyncio.get_running_loop().time() - began > 0.9

    watching(scenario, refuses(429, retryAfterSeconds=1), STAYS)


def test_retry_after_is_limited_to_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.requests(1)
        pause = asyncio.create_task(stage.reflector._pause(TooMany(429, "TooManyRequests", "", 86_400.0), 1))
        await asyncio.sleep(0)  # it logs before it waits
        pause.cancel()

    watching(scenario, STAYS)
    assert [getattr(record, "fields", {}).get("again_in") for record in caplog.records] == ["60.0s"]


def is_parsed(metadata: dict[str, Any], registry: Registry | None = None) -> bool:
    """True if an object with this metadata is parsed, and False if the cache keeps its address only."""
    registry = registry or a_registry()
    about = obj("x", 7)
    about["metadata"] |= {"annotations": None, **metadata}
    about["data"] = {"note": f'"{TARGETS}"'}
    raw = msgspec.Raw(json.dumps(about, separators=(",", ":")).encode())
    ingest = Ingest(SECRET, a_plain_cache(registry), Codec(registry.managers))
    return isinstance(ingest.take(raw, ingest.envelope(raw)), Changed)


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_an_object_with_our_metadata_is_parsed(where: str) -> None:
    assert is_parsed({where: {ORIGIN: "x"}})
    assert is_parsed({where: {PAUSED: "true"}})
    assert not is_parsed({where: {"note": f'"{ORIGIN}"'}})


def test_an_object_with_our_field_manager_is_parsed() -> None:
    assert is_parsed({"managedFields": [{"manager": FIELD_MANAGER}]})
    assert not is_parsed({"managedFields": [{"manager": "samara-2"}]})


def test_an_object_with_a_controller_is_parsed_if_a_vocabulary_asks_for_it() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": True}
    generated = registry_of(parse(GENERATED, "settings"), WELL_KNOWN)
    assert is_parsed({"ownerReferences": [owner]}, generated)
    assert not is_parsed({"ownerReferences": [owner]})


@pytest.mark.parametrize("key", ["secret-copy/namspaces", "secretcopy/namespaces", "secret-copy.namespace"])
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_an_object_with_a_key_that_resembles_ours_is_parsed(key: str, where: str) -> None:
    assert is_parsed({where: {"a": "", key: ""}})


@pytest.mark.parametrize("key", ["not-secret-copy/namespaces", "example.com/namespaces", "example.com/type"])
def test_an_object_with_a_key_of_others_is_not_parsed(key: str) -> None:
    assert not is_parsed({"labels": {key: ""}, "annotations": {key: ""}})


def test_an_object_nested_without_end_does_not_end_the_watch() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000

    async def scenario(stage: Stage) -> None:
        await stage.requests(3)

    watching(scenario, streams(b'{"type":"ADDED","object":{"metadata":{"name":"x"},"data":' + deep + b"}}\n"))


DEPTHS = [990, 1100, 1600, 9000, 60_000]
"""Depths around the limits of the decoders of all Python versions, and beyond them."""


def deep(about: dict[str, Any], levels: int, where: str = "spec") -> bytes:
    """An object that is nested this deep."""
    nested = b'{"a":' * (levels - 1) + b"[7]" + b"}" * (levels - 1)
    if where == "managedFields":
        about["metadata"]["managedFields"] = [{"manager": "x", "fieldsV1": "DEEP"}]
    else:
        about[where] = "DEEP"
    return json.dumps(about, separators=(",", ":")).encode().replace(b'"DEEP"', nested)


def line(type_: str, about: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), about)


@pytest.mark.parametrize("where", ["spec", "managedFields"])
@pytest.mark.parametrize("levels", DEPTHS)
def test_an_object_nested_too_deep_is_ignored_and_the_watch_continues(levels: int, where: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+y" in stage.heard.names())
        assert stage.held() == ["y"]
        assert stage.cache.exists_unread(at("b", "deep"))
        assert stage.reflector.restarts == {}
        assert len(stage.script.seen) == 1

    theirs = deep(obj("deep", 11, "b"), levels, where)
    watching(scenario, streams(*listing(), line("ADDED", theirs), added("y", 12)))


def test_a_source_that_becomes_too_deep_keeps_its_last_state_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+y" in stage.heard.names())
        assert stage.held() == ["x", "y"]
        assert stage.reflector.restarts == {}

    odd = deep(source("x", 11), 60_000)
    with caplog.at_level(logging.WARNING):
        watching(scenario, streams(*listing(source("x", 5)), line("MODIFIED", odd), added("y", 12)))
    assert "watch.odd-object" in caplog.text


def test_the_deletion_of_an_object_nested_too_deep_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "-x" in stage.heard.names())
        assert not stage.cache.exists_unread(at("b", "theirs"))

    gone = (deep(obj("theirs", 12, "b"), 60_000), deep(source("x", 13), 60_000))
    first = listing(source("x", 5), obj("theirs", 6, "b"))
    watching(scenario, streams(*first, *(line("DELETED", obj) for obj in gone)))


def test_unrelated_objects_nested_too_deep_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: "+y" in stage.heard.names())

    many = [line("MODIFIED", deep(obj(f"deep-{number}", 11 + number, "b"), 60_000)) for number in range(3)]
    with caplog.at_level(logging.WARNING):
        watching(scenario, streams(*listing(), *many, added("y", 15)))
    assert [record.getMessage() for record in caplog.records].count("watch.deep-object") == 1


@pytest.mark.parametrize("levels", DEPTHS)
def test_one_object_nested_too_deep_does_not_hide_the_rest_of_its_page(levels: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert stage.held() == ["y"]
        assert stage.cache.exists_unread(at("b", "deep"))
        held = stage.cache.get(at("admin", "y"))
        assert held is not None
        assert [(field.name, field.raw) for field in held.content.fields] == [
            ("data", b'{"k": "YQ=="}'),
            ("type", b'"Opaque"'),
        ]

    listed = b'{"metadata":{"resourceVersion":"10"},"items":[%s,%s]}' % (
        deep(obj("deep", 3, "b"), levels),
        json.dumps(source("y", 4)).encode(),
    )
    watching(scenario, refuses(400, "BadRequest"), says(listed), STAYS)


def test_a_truncated_source_is_never_used() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.until(lambda: stage.heard.lists == 1)
        assert stage.held() == []
        assert stage.cache.exists_unread(at("admin", "x"))

    listed = b'{"metadata":{"resourceVersion":"10"},"items":[%s]}' % deep(source("x", 4), 60_000)
    watching(scenario, refuses(400, "BadRequest"), says(listed), STAYS)
