"""Held sets in a ConfigMap, for `samara status`, `samara release` and the next process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import pytest
from aiohttp import web
from tests.engine.test_hold_records import GARBAGE
from tests.kube.scripted import Script, Store, access, refuses, serving
from tests.support.samples import Clock, a_key, an_object, deletes, numbered

from samara.core.mass_delete import MassDeleteLimit
from samara.core.model import Key, namespace_ref
from samara.core.writes import Delete
from samara.engine.hold_records import Answer, HoldRecord, post_answer, record_name, records
from samara.engine.hold_store import HoldStore
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.messages import HoldAnswered, HoldsStored, Inbox
from samara.kube.client import Client, unrestricted
from samara.kube.errors import Conflict

PATH = "/api/v1/namespaces/samara/configmaps/samara-holds"


Scenario = Callable[[Client, Store, Script], Awaitable[None]]


def with_store(scenario: Scenario) -> None:
    async def run() -> None:
        store = Store()
        async with serving(store) as script, Client(access(script), may_write=unrestricted) as client:
            await scenario(client, store, script)

    asyncio.run(run())


def holding(clock: Clock, hold: float = 600.0, many: int = 8) -> MassDeleteGuard:
    holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), hold, clock)
    holds.check(a_key(), deletes(numbered(0, many)), 10, 10)
    return holds


async def run_once(hold_store: HoldStore) -> list[tuple[Key, Answer]]:
    """What the hold store does once a second."""
    answers = await hold_store._answers()
    await hold_store._write()
    return answers


def written(store: Store) -> dict[str, HoldRecord]:
    return records(store.objects[PATH])


def test_a_hold_is_recorded_once_and_removed_when_it_ends() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        holds = holding(Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await run_once(hold_store)
        assert [(record.key, record.count) for record in written(store).values()] == [(str(a_key()), 8)]
        await run_once(hold_store)
        await run_once(hold_store)
        assert [request.method for request in script.seen if request.method != "GET"] == ["POST"]
        holds.check(a_key(), [], 10, 10)
        await run_once(hold_store)
        assert written(store) == {}

    with_store(scenario)


@pytest.mark.parametrize("seconds", [float("inf"), 3600.0 * 999_999_999])
def test_a_hold_without_an_end_is_recorded_as_forever(seconds: float) -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        await run_once(HoldStore(client, "samara", holding(Clock(), seconds), Inbox().post))
        assert written(store)[str(a_key())].until == "forever"

    with_store(scenario)


def test_a_set_that_is_held_again_has_new_times() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        holds = holding(clock := Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        clock.now += 300.0
        await run_once(hold_store)
        before = written(store)[str(a_key())]
        holds.check(a_key(), [], 10, 10)
        await run_once(hold_store)
        holds.check(a_key(), deletes(numbered(0, 8)), 10, 10)
        await run_once(hold_store)
        after = written(store)[str(a_key())]
        assert after.set == before.set
        assert after.until > before.until

    with_store(scenario)


def test_an_answer_applies_to_its_own_set_only() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        holds = holding(Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await run_once(hold_store)
        answered = await post_answer(client, "samara", str(a_key()), "release")
        assert answered is not None
        assert answered.answer == f"release {holds.held[a_key()].digest}"
        assert await hold_store._answers() == [(a_key(), "release")]
        holds.check(a_key(), deletes(numbered(0, 9)), 10, 10)
        assert await hold_store._answers() == []

    with_store(scenario)


def test_an_answer_applies_to_the_rest_of_its_set() -> None:
    """Namespaces are deleted before the user answers."""

    async def scenario(client: Client, store: Store, script: Script) -> None:
        holds = holding(Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await run_once(hold_store)
        await post_answer(client, "samara", str(a_key()), "release")
        holds.check(a_key().in_namespace(numbered(0, 1)[0]), [], 10, 10)
        assert holds.held[a_key()].count == 7
        assert await hold_store._answers() == [(a_key(), "release")]

    with_store(scenario)


def test_an_answer_to_an_older_set_is_ignored() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        holds = holding(Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await run_once(hold_store)
        first = holds.held[a_key()].digest
        holds.check(a_key(), deletes(numbered(0, 9)), 10, 10)
        await run_once(hold_store)
        (entry,) = written(store).values()
        answered_record = json.dumps(asdict(entry) | {"answer": f"release {first}"})
        store.write(PATH, {**store.objects[PATH], "data": {record_name(entry.key): answered_record}})
        assert await hold_store._answers() == []

    with_store(scenario)


def test_an_answer_to_a_key_that_is_not_planned_yet_after_a_restart_is_kept() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        await run_once(HoldStore(client, "samara", holding(Clock()), Inbox().post))
        holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await hold_store.load()
        answered = await post_answer(client, "samara", str(a_key()), "release")
        assert answered is not None
        holds.check(a_key("x"), deletes(numbered(0, 8), a_key("x")), 10, 10)
        await run_once(hold_store)
        assert set(written(store)) == {str(a_key()), str(a_key("x"))}
        assert written(store)[str(a_key())].answer == answered.answer

    with_store(scenario)


def test_an_answer_to_a_key_that_is_not_held_is_not_posted() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        assert await post_answer(client, "samara", str(a_key()), "release") is None
        await run_once(HoldStore(client, "samara", holding(Clock()), Inbox().post))
        assert await post_answer(client, "samara", "another/key", "release") is None

    with_store(scenario)


def test_a_restart_remembers_holds_until_their_keys_are_planned() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        await run_once(HoldStore(client, "samara", holding(Clock()), Inbox().post))
        holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await hold_store.load()
        assert holds.remembered == {str(a_key())}
        await run_once(hold_store)
        assert str(a_key()) in written(store)
        assert not holds.check(a_key(), deletes(["a"]), 100, 100)
        await run_once(hold_store)
        assert written(store)[str(a_key())].count == 1
        holds.check(a_key(), [], 100, 100)
        await run_once(hold_store)
        assert written(store) == {}

    with_store(scenario)


def test_an_answer_posted_before_a_write_is_not_overwritten() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        holds = holding(Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await run_once(hold_store)
        await post_answer(client, "samara", str(a_key()), "release")
        holds.check(a_key("x"), deletes(numbered(0, 8), a_key("x")), 10, 10)
        with pytest.raises(Conflict):
            await hold_store._write()
        assert written(store)[str(a_key())].answer.startswith("release ")
        assert await hold_store._answers() == [(a_key(), "release")]
        await hold_store._write()
        assert set(written(store)) == {str(a_key()), str(a_key("x"))}

    with_store(scenario)


def test_the_first_write_after_a_restart_names_the_loaded_version() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        await run_once(HoldStore(client, "samara", holding(Clock()), Inbox().post))
        hold_store = HoldStore(client, "samara", holding(Clock(), many=9), Inbox().post)
        await hold_store.load()
        await hold_store._write()
        assert [request.method for request in script.seen][-1] == "PUT"
        assert "resourceVersion" in script.seen[-1].json["metadata"]

    with_store(scenario)


async def run_until(running: asyncio.Task[None], true: Callable[[], bool]) -> None:
    """Lets the hold store run until a condition is true."""
    async with asyncio.timeout(8):
        while not true():
            assert not running.done()
            await asyncio.sleep(0)


def test_a_release_between_a_read_and_a_write_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samara.engine.hold_store.INTERVAL", 0.0)
    heard: list[tuple[Key, str]] = []

    async def scenario(client: Client, store: Store, script: Script) -> None:
        holds = holding(Clock())

        def post(message: HoldAnswered | HoldsStored) -> None:
            if isinstance(message, HoldAnswered):
                heard.append((message.key, message.answer))
                holds.release(message.key)

        hold_store = HoldStore(client, "samara", holds, post)
        await run_once(hold_store)
        holds.check(a_key("x"), deletes(numbered(0, 8), a_key("x")), 10, 10)

        async def release_first(request: web.Request) -> web.StreamResponse:
            (entry,) = written(store).values()
            answered_record = json.dumps(asdict(entry) | {"answer": f"release {entry.set}"})
            store.write(PATH, {**store.objects[PATH], "data": {record_name(entry.key): answered_record}})
            return await store(request)

        script.answers = [*[store] * len(script.seen), store, release_first, store]  # GET, PUT, and then as usual
        running = asyncio.create_task(hold_store.run())
        await run_until(running, lambda: set(written(store)) == {str(a_key("x"))})
        running.cancel()

    with_store(scenario)
    assert heard == [(a_key(), "release")]


@pytest.mark.parametrize("gone", [False, True])
def test_an_ended_hold_is_removed_whatever_happened_to_the_config_map(
    monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    monkeypatch.setattr("samara.engine.hold_store.INTERVAL", 0.0)

    async def scenario(client: Client, store: Store, script: Script) -> None:
        holds = holding(Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await run_once(hold_store)
        if gone:
            del store.objects[PATH]
        else:
            await post_answer(client, "samara", str(a_key()), "release")
        holds.check(a_key(), [], 10, 10)
        running = asyncio.create_task(hold_store.run())
        await run_until(running, lambda: not hold_store._written and not records(store.objects.get(PATH, {})))
        holds.check(a_key(), deletes(numbered(0, 8)), 10, 10)
        await run_until(running, lambda: str(a_key()) in records(store.objects.get(PATH, {})))
        running.cancel()

    with_store(scenario)


def test_each_error_of_the_hold_store_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("samara.engine.hold_store.INTERVAL", 0.0)

    async def scenario(client: Client, store: Store, script: Script) -> None:
        hold_store = HoldStore(client, "samara", holding(Clock()), Inbox().post)
        refused, full = refuses(403, "Forbidden", "no right"), refuses(422, "Invalid", "no room")
        script.answers = [refused] * 6 + [full] * 6 + [store] * 4 + [refused]  # the last answer is repeated
        running = asyncio.create_task(hold_store.run())
        await run_until(running, lambda: len(script.seen) > 20)
        running.cancel()

    with_store(scenario)
    faults = [str(getattr(record, "fields", {})["fault"]) for record in caplog.records]
    assert {record.getMessage() for record in caplog.records} == {"holds.failed"}
    assert [("no right" in fault, "no room" in fault) for fault in faults] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def test_unreadable_records_do_not_stop_the_start() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        data = {f"g{number}": text for number, text in enumerate(GARBAGE)}
        store.write(PATH, {"metadata": {"name": "samara-holds"}, "data": data})
        holds = MassDeleteGuard(MassDeleteLimit(), 600.0, Clock())
        await HoldStore(client, "samara", holds, Inbox().post).load()
        assert holds.remembered == set()

    with_store(scenario)


def test_a_record_has_only_names_counts_and_times() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        await run_once(HoldStore(client, "samara", holding(Clock()), Inbox().post))
        (text,) = store.objects[PATH]["data"].values()
        assert set(json.loads(text)) == {"key", "count", "since", "until", "set", "answer"}
        assert "uid" not in text

    with_store(scenario)


def held_by(namespace: str, number: int) -> list[Key]:
    return [a_key(f"source-{index}", namespace) for index in range(number)]


def test_a_tenant_with_thousands_of_held_sources_takes_no_room_from_others_nor_from_deleted_namespaces() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        guard = MassDeleteGuard(MassDeleteLimit(5, 30.0), float("inf"), Clock())
        tenants = held_by("tenant", 6000)
        other = a_key("db", "other")
        for key in (*tenants, other):
            guard.check(key, deletes(numbered(0, 8), key), 10, 10)
        tree = a_key("web", "root")
        deletion = [Delete(tree, namespace_ref("web"), an_object(namespace_ref("web")))]
        assert guard.check(tree, deletion, 1, 1, tree="root") == [], "it waits for the record"
        hold_store = HoldStore(client, "samara", guard, Inbox().post)
        await run_once(hold_store)
        recorded = written(store)
        assert str(other) in recorded
        assert 1000 < len(recorded) < len(tenants)
        assert sum(map(len, store.objects[PATH]["data"].values())) < 1024 * 1024, "what the API server accepts"
        assert guard.check(tree, deletion, 1, 1, tree="root") == deletion

    with_store(scenario)


def test_fault_38_records_of_another_version_stay() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        entry = {**asdict(HoldRecord("of tomorrow", 1, "s", "u", "d")), "weight": 3}
        theirs = {"a-new-sort": "v2 {}", record_name("of tomorrow"): json.dumps(entry)}
        store.write(PATH, {"metadata": {"name": "samara-holds"}, "data": theirs})
        holds = MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, Clock())
        hold_store = HoldStore(client, "samara", holds, Inbox().post)
        await hold_store.load()
        assert holds.remembered == {"of tomorrow"}
        holds.check(a_key(), deletes(numbered(0, 8)), 10, 10)
        await run_once(hold_store)
        assert store.objects[PATH]["data"].items() > theirs.items(), "with a field that we do not know"
        holds.settle([a_key()], lambda vocabulary: True)
        holds.check(a_key(), [], 10, 10)
        await run_once(hold_store)
        assert store.objects[PATH]["data"] == {"a-new-sort": "v2 {}"}

    with_store(scenario)
