"""Reads of single objects: what they put into the cache, and which keys are planned again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.kube.scripted import Answer, Script, access, gated, refuses, says, serving
from tests.support.samples import a_cache, a_copy, a_key, a_source
from tests.support.world import at

from samara.core.model import SECRET, Key, Ref
from samara.engine.fetcher import Fetcher
from samara.engine.messages import Fetched
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec

PLACE = at("a", "db")


def theirs(version: int = 11) -> dict[str, Any]:
    meta = {"name": "db", "namespace": "a", "uid": "theirs", "resourceVersion": str(version)}
    return {"metadata": meta, "data": {"k": "YQ=="}, "type": "Opaque"}


class Stage:
    """A fetcher, and what it posts."""

    def __init__(self, client: Client, script: Script, group: asyncio.TaskGroup) -> None:
        self.script, self.cache, self.group = script, a_cache(), group
        self.posted: list[Fetched] = []
        self.fetcher = Fetcher(client, Codec(self.cache.registry.managers), self.cache, "operator", self.posted.append)
        self.cache.put(a_source())
        self.cache.note_ignored(PLACE)
        self.cache.stores[SECRET].version = 11

    def fetch(self, ref: Ref, key: Key, delay: float = 0.0) -> None:
        self.fetcher.fetch(ref, key, delay)
        self.fetcher.start_waiting(self.group)

    @property
    def planned(self) -> list[tuple[Key, float]]:
        return [(key, message.delay) for message in self.posted for key in message.keys]


def fetch_with(scenario: Callable[[Stage], Awaitable[None]], answer: Answer) -> Stage:
    stages: list[Stage] = []

    async def run() -> None:
        async with (
            serving(answer) as script,
            Client(access(script), may_write=unrestricted) as client,
            asyncio.timeout(8),
            asyncio.TaskGroup() as group,
        ):
            stages.append(Stage(client, script, group))
            await scenario(stages[0])

    asyncio.run(run())
    return stages[0]


def a_slice(name: str = "db") -> Key:
    return a_key(name).in_namespace("a")


async def fetch_once(stage: Stage) -> None:
    stage.fetch(PLACE, a_slice())


def test_a_read_object_is_cached_and_its_slice_is_planned_again() -> None:
    stage = fetch_with(fetch_once, says(theirs()))

    cached = stage.cache.get(PLACE)
    assert cached is not None
    assert cached.uid == "theirs"
    assert stage.planned == [(a_slice(), 0.0)]
    assert stage.fetcher.pending == 0


def test_a_missing_object_is_no_longer_in_the_cache() -> None:
    stage = fetch_with(fetch_once, refuses(404, "NotFound"))

    assert not stage.cache.exists_unread(PLACE)
    assert stage.planned == [(a_slice(), 0.0)]


def test_an_address_that_cannot_be_read_is_planned_again_later() -> None:
    stage = fetch_with(fetch_once, refuses(500))

    assert stage.cache.exists_unread(PLACE)
    assert stage.planned == [(a_slice(), 5.0)]


def test_keys_that_need_one_object_share_one_read() -> None:
    async def scenario(stage: Stage) -> None:
        for name in ("x", "y", "x"):
            stage.fetch(PLACE, a_slice(name))

    stage = fetch_with(scenario, says(theirs()))
    assert len(stage.script.seen) == 1
    assert {key for key, _ in stage.planned} == {a_slice("x"), a_slice("y")}


def test_a_read_that_is_older_than_a_deletion_restores_no_object() -> None:
    """The server read the object; it was deleted; the watch reported that; then the answer arrived."""

    async def scenario(stage: Stage) -> None:
        await fetch_once(stage)
        await stage.script.until(lambda: len(stage.script.seen) == 1)
        stage.cache.remove(PLACE, 12)
        stage.cache.stores[SECRET].version = 12
        stage.script.gate.set()

    stage = fetch_with(scenario, gated(says(theirs(11))))
    assert stage.cache.get(PLACE) is None
    assert not stage.cache.exists_unread(PLACE)


def test_a_read_that_is_newer_than_the_watch_is_cached_and_planned_after_a_delay() -> None:
    """Another operator may have written it, from a source that we do not know yet: its old value must not come back."""

    async def scenario(stage: Stage) -> None:
        stage.cache.remove(PLACE)
        stage.cache.stores[SECRET].version = 10
        await fetch_once(stage)

    stage = fetch_with(scenario, says(theirs(11)))
    assert stage.cache.get(PLACE) is not None
    assert stage.planned == [(a_slice(), 0.1)]


def test_a_read_that_is_older_than_the_cached_object_changes_nothing() -> None:
    held = a_copy("a", version=20)

    async def scenario(stage: Stage) -> None:
        stage.cache.put(held)
        await fetch_once(stage)

    cached = fetch_with(scenario, says(theirs(11))).cache.get(PLACE)
    assert cached is not None
    assert (cached.uid, cached.resource_version) == (held.uid, 20)


def test_an_immediate_read_does_not_wait_for_a_delayed_one() -> None:
    async def scenario(stage: Stage) -> None:
        stage.fetch(PLACE, a_slice("failed"), 0.2)
        stage.fetch(PLACE, a_slice("other"))
        await stage.script.until(lambda: len(stage.planned) == 1)
        assert stage.planned == [(a_slice("other"), 0.0)]

    fetch_with(scenario, says(theirs()))


def test_a_delayed_key_is_planned_after_its_delay_even_if_another_key_read_before() -> None:
    async def scenario(stage: Stage) -> None:
        stage.fetch(PLACE, a_slice("failed"), 0.02)
        stage.fetch(PLACE, a_slice("other"))

    stage = fetch_with(scenario, says(theirs()))
    assert sorted(stage.planned) == [(a_slice("failed"), 0.0), (a_slice("other"), 0.0)]


def test_a_delayed_read_does_not_count_as_pending() -> None:
    """It counts as delayed at once, even if its task has not started yet."""
    seen: list[int] = []

    async def scenario(stage: Stage) -> None:
        stage.fetch(PLACE, a_slice(), 0.02)
        seen.append(stage.fetcher.pending)
        stage.fetch(at("b", "db"), a_key())
        seen.append(stage.fetcher.pending)
        await stage.script.until(lambda: len(stage.script.seen) == 2)
        seen.append(stage.fetcher.pending)
        stage.script.gate.set()

    stage = fetch_with(scenario, gated(says(theirs())))
    assert seen == [0, 1, 2]
    assert stage.fetcher.pending == 0


def test_a_read_posts_its_change_because_the_watch_will_not() -> None:
    async def scenario(stage: Stage) -> None:
        stage.cache.stores[SECRET].version = 10
        await fetch_once(stage)

    (message,) = fetch_with(scenario, says(theirs(11))).posted
    delay, change = message.delay, message.change
    assert change is not None
    assert change.new is not None
    assert (change.ref, change.new.resource_version, delay > 0.0) == (PLACE, 11, True)


def test_a_read_of_a_missing_object_posts_its_deletion() -> None:
    async def scenario(stage: Stage) -> None:
        stage.cache.put(a_copy("a"))
        await fetch_once(stage)

    (message,) = fetch_with(scenario, refuses(404, "NotFound")).posted
    assert message.change is not None
    assert (message.change.ref, message.change.new) == (PLACE, None)
