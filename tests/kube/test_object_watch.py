"""Tests the watcher of one object: the versions that it reports, their order, and those that it ignores."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.kube.scripted import Answer, Script, access, cuts, gated, hangs, refuses, says, serving, streams

from samara.core.model import SECRET, Ref
from samara.kube.client import Client, unrestricted
from samara.kube.object_watch import ObjectWatcher, RawObject, secret_data

REF = Ref(SECRET, "samara", "config")
ABSENT = refuses(404, "NotFound", "there is none")


def sight(version: int, uid: str = "u", **data: str) -> dict[str, Any]:
    coded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"name": "config", "uid": uid, "resourceVersion": str(version)}, "data": coded}


def event(type: str, obj: object) -> dict[str, object]:
    return {"type": type, "object": obj}


@dataclass
class Followed:
    script: Script
    seen: list[int | None] = field(default_factory=list)
    """The versions of the object; None if it did not exist."""
    faults: list[str] = field(default_factory=list)

    def taken(self, raw: RawObject | None) -> None:
        self.seen.append(None if raw is None else int(json.loads(bytes(raw))["metadata"]["resourceVersion"]))
        self.script.news.set()

    def failed(self, fault: Exception) -> None:
        self.faults.append(str(fault))
        self.script.news.set()


def followed(*answers: Answer, until: Callable[[Followed], Any]) -> Followed:
    """Runs the watcher against these answers until a condition is true."""

    async def run() -> Followed:
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            result = Followed(script)
            task = asyncio.create_task(ObjectWatcher(client, REF, result.taken, result.failed, pause=0.0).run())
            await script.until(lambda: bool(until(result)))
            await _ended(task)
            return result

    return asyncio.run(run())


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_the_object_is_read_first_and_then_watched() -> None:
    result = followed(
        says(sight(5)), streams(event("ADDED", sight(5)), event("MODIFIED", sight(6))), until=lambda at: 6 in at.seen
    )

    look, watch = result.script.seen[:2]
    assert look.path == "/api/v1/namespaces/samara/secrets/config"
    assert watch.path == "/api/v1/namespaces/samara/secrets"
    assert watch.query == {"watch": "1", "fieldSelector": "metadata.name=config", "timeoutSeconds": "60"}
    assert result.seen == [5, 5, 6]


def test_a_missing_object_is_reported_and_seen_when_it_is_created() -> None:
    result = followed(ABSENT, streams(event("ADDED", sight(7))), until=lambda at: 7 in at.seen)

    assert result.seen == [None, 7]
    assert result.faults == []


def test_the_deletion_of_the_object_is_reported() -> None:
    result = followed(says(sight(5)), streams(event("DELETED", sight(6))), until=lambda at: None in at.seen)

    assert result.seen == [5, None]


def test_the_deletion_of_an_older_object_of_the_same_name_is_ignored() -> None:
    gone = event("DELETED", sight(6, uid="before"))
    result = followed(says(sight(5)), streams(gone, event("MODIFIED", sight(8))), until=lambda at: 8 in at.seen)

    assert result.seen == [5, 8]


def test_older_versions_and_bookmarks_are_ignored() -> None:
    news = event("MODIFIED", sight(4)), event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    result = followed(says(sight(5)), streams(*news, event("MODIFIED", sight(6))), until=lambda at: 6 in at.seen)

    assert result.seen == [5, 6]


def test_a_recreated_object_is_taken_whatever_its_version() -> None:
    result = followed(says(sight(5)), streams(event("ADDED", sight(3, uid="new"))), until=lambda at: 3 in at.seen)

    assert result.seen == [5, 3]


@pytest.mark.parametrize(
    "fault", [refuses(500), refuses(403, "Forbidden"), cuts, says(b"no JSON"), says({"metadata": 7})], ids=range(5)
)
def test_an_error_is_reported_and_the_watch_continues(fault: Answer) -> None:
    result = followed(fault, says(sight(5)), gated(hangs), until=lambda at: at.seen)

    assert len(result.faults) == 1
    assert result.seen == [5]


def test_an_error_event_reopens_the_watch() -> None:
    ends = streams(event("ERROR", {"kind": "Status", "code": 410}))
    result = followed(says(sight(5)), ends, says(sight(6)), gated(hangs), until=lambda at: 6 in at.seen)

    assert result.faults == ["the watch ended with an error"]


def test_the_answer_to_our_own_write_is_taken() -> None:
    async def run(scenario: Callable[[ObjectWatcher, Followed], Awaitable[None]]) -> None:
        async with serving(ABSENT) as script, Client(access(script), may_write=unrestricted) as client:
            result = Followed(script)
            await scenario(ObjectWatcher(client, REF, result.taken, result.failed), result)

    async def scenario(follower: ObjectWatcher, result: Followed) -> None:
        follower.take(json.dumps(sight(9)).encode())
        follower.take(json.dumps(sight(8)).encode())
        assert result.seen == [9]

    asyncio.run(run(scenario))


def test_a_secret_is_its_type_and_the_bytes_of_its_keys() -> None:
    raw = json.dumps({"type": "Opaque", "data": {"a": "b25l", "odd": "no base64", "none": None, "number": 7}}).encode()

    assert secret_data(raw) == ("Opaque", {"a": b"one", "odd": b"", "none": b"", "number": b""})
    assert secret_data(b'{"metadata": {}}') == ("", {})
