"""The brake for deletions of Namespaces: answers to a hold, and what is remembered over a restart."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime

import pytest
from tests.engine.test_hold_store import PATH, with_store
from tests.kube.scripted import Script, Store
from tests.support.controller import ControllerHarness
from tests.support.samples import Clock, a_namespace, an_object

from samara.core.mass_delete import MassDeleteLimit
from samara.core.model import Key, ManagedKey, Object, Ref, namespace_ref
from samara.core.queries import CrdExists, NamespaceIsActive
from samara.core.registry import Registry
from samara.core.writes import Create, Delete, SetFinalizer, Write
from samara.engine.hold_records import deleted_namespaces, records
from samara.engine.hold_store import HoldStore
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.messages import HoldsStored, Inbox, Message
from samara.engine.writer import Ending, Result
from samara.kube.client import Client
from samara.vocabularies.accurate import sub
from samara.vocabularies.accurate.labels import ACCURATE_MANAGER, FINALIZER, PARENT, ROOT, SUB_NAMESPACE, TYPE

REGISTRY = Registry(
    (sub.SubNamespaces(cascading=False, is_reserved=lambda name: False).source_type(frozenset({ACCURATE_MANAGER})),)
)
TOP = a_namespace("top", labels={TYPE: ROOT})


def below(name: str, version: int = 1) -> Object:
    """A sub-namespace that we made."""
    ours = frozenset({ManagedKey(ACCURATE_MANAGER, "labels", PARENT)})
    return a_namespace(name, version, labels={PARENT: "top"}, managed_keys=ours, known_copy=True)


def a_sub(name: str, version: int = 1, uid: str = "first", deleting: bool = True) -> Object:
    return an_object(Ref(SUB_NAMESPACE, "top", name), version, uid=uid, deleting=deleting, finalizers=(FINALIZER,))


def a_key(name: str) -> Key:
    return Key("accurate:sub", Ref(SUB_NAMESPACE, "top", name))


def ending(*names: str, holds: MassDeleteGuard, client: Client | None = None) -> ControllerHarness:
    """An engine that has planned SubNamespaces that are deleted."""
    subs = [a_sub(name) for name in names]
    harness = ControllerHarness(
        TOP, *map(below, names), *subs, registry=REGISTRY, holds=holds, gone_after=0.0, client=client
    )
    harness.cache.answers.keep(CrdExists(SUB_NAMESPACE), True)
    harness.cache.answers.keep(NamespaceIsActive("top"), True)
    for name in names:
        harness.plan(a_key(name))
    return harness


def written(harness: ControllerHarness) -> list[tuple[type[Write], str]]:
    return [(type(write), write.ref.name) for write in harness.sent()]


# a deletion that is discarded


def discarded() -> ControllerHarness:
    harness = ending("a", holds=MassDeleteGuard(MassDeleteLimit(namespaces=0), 600.0, Clock()))
    assert written(harness) == []
    assert list(harness.holds.held) == [a_key("a")]
    harness.hold_answered(a_key("a"), "discard")
    harness.work()
    return harness


def test_a_discarded_deletion_of_a_namespace_releases_its_sub_namespace_only() -> None:
    harness = discarded()

    (write,) = harness.sent()
    assert isinstance(write, SetFinalizer)
    assert (write.ref, write.finalizer, write.add) == (a_key("a").source, FINALIZER, False)
    assert harness.holds.held == {}


def test_a_sub_namespace_that_is_recreated_can_be_deleted_again() -> None:
    harness = discarded()
    harness.sent()
    cache = harness.cache
    cache.remove(a_key("a").source)
    harness.plan(a_key("a"))
    assert written(harness) == []
    assert cache.get(namespace_ref("a")) is not None
    harness.holds._limit = MassDeleteLimit(namespaces=3)
    cache.put(a_sub("a", 2, "second", deleting=False))
    harness.plan(a_key("a"))
    harness.sent()
    cache.put(a_sub("a", 3, "second"))
    harness.plan(a_key("a"))
    harness.post(HoldsStored(harness.holds.mark_recorded(["a"])))
    harness.work()

    assert written(harness) == [(Delete, "a")]


def test_a_held_sub_namespace_is_released_soon_after_its_crd_begins_to_terminate() -> None:
    harness = ending("a", holds=MassDeleteGuard(MassDeleteLimit(namespaces=0), 600.0, Clock()))
    assert written(harness) == []
    harness.cache.answers.keep(CrdExists(SUB_NAMESPACE), False)
    assert isinstance(harness.clock, Clock)
    harness.clock.now += 10.0
    harness.work()

    assert written(harness) == [(SetFinalizer, "a")]
    assert harness.holds.held == {}


# in several trees


def in_tree(root: str, *names: str) -> list[Object]:
    """The namespaces below a root, and their SubNamespaces, which are deleted."""
    ours = frozenset({ManagedKey(ACCURATE_MANAGER, "labels", PARENT)})
    children = [a_namespace(name, labels={PARENT: root}, managed_keys=ours, known_copy=True) for name in names]
    subs = [an_object(Ref(SUB_NAMESPACE, root, name), deleting=True, finalizers=(FINALIZER,)) for name in names]
    return [*children, *subs]


def test_deletions_in_one_tree_hold_none_in_another() -> None:
    holds = MassDeleteGuard(MassDeleteLimit(), 600.0, Clock(), awaits_record=False)
    other = a_namespace("other", labels={TYPE: ROOT})
    first, second = ("a", "b", "c", "d"), ("e", "f", "g")
    objects = [TOP, other, *in_tree("top", *first), *in_tree("other", *second)]
    harness = ControllerHarness(*objects, registry=REGISTRY, holds=holds, gone_after=0.0)
    harness.cache.answers.keep(CrdExists(SUB_NAMESPACE), True)
    for root, names in (("top", first), ("other", second)):
        harness.cache.answers.keep(NamespaceIsActive(root), True)
        for name in names:
            harness.plan(Key("accurate:sub", Ref(SUB_NAMESPACE, root, name)))

    assert sorted(written(harness)) == [(Delete, name) for name in ("a", "b", "c", "e", "f", "g")]
    assert list(holds.held) == [a_key("d")]


def test_deletions_below_a_sub_namespace_count_for_the_root_of_its_tree() -> None:
    holds = MassDeleteGuard(MassDeleteLimit(namespaces=1), 600.0, Clock(), awaits_record=False)
    objects = [TOP, below("team"), *in_tree("top", "a"), *in_tree("team", "b")]
    harness = ControllerHarness(*objects, registry=REGISTRY, holds=holds, gone_after=0.0)
    harness.cache.answers.keep(CrdExists(SUB_NAMESPACE), True)
    for root, name in (("top", "a"), ("team", "b")):
        harness.cache.answers.keep(NamespaceIsActive(root), True)
        harness.plan(Key("accurate:sub", Ref(SUB_NAMESPACE, root, name)))

    assert written(harness) == [(Delete, "a")]
    assert [key.source.name for key in holds.held] == ["b"]


# over a restart


async def loaded_hold_store(client: Client, holds: MassDeleteGuard, posted: list[Message] | None = None) -> HoldStore:
    """The guard of a process that has just started."""
    hold_store = HoldStore(client, "samara", holds, Inbox().post if posted is None else posted.append)
    await hold_store.load()
    return hold_store


def a_guard() -> MassDeleteGuard:
    return MassDeleteGuard(MassDeleteLimit(), 600.0, Clock())


def test_a_namespace_is_deleted_only_after_that_is_recorded() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        posted = list[Message]()
        hold_store = await loaded_hold_store(client, holds := a_guard(), posted)
        harness = ending("a", "b", holds=holds)
        assert written(harness) == []
        await hold_store._write()
        assert sorted(json.loads(store.objects[PATH]["data"]["namespaces"])) == ["a", "b"]
        (stored,) = posted
        assert isinstance(stored, HoldsStored)
        assert set(stored.keys) == {a_key("a"), a_key("b")}
        harness.post(stored)
        harness.work()
        assert sorted(written(harness)) == [(Delete, "a"), (Delete, "b")]

    with_store(scenario)


def test_the_deletions_of_a_process_count_in_the_next_one() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        first = await loaded_hold_store(client, holds := a_guard())
        ending("a", "b", "c", holds=holds)
        await first._write()
        second = await loaded_hold_store(client, holds := a_guard())
        harness = ending("d", holds=holds)
        assert list(holds.held) == [a_key("d")]
        holds.check(a_key("d"), [], 0, 0)
        await second._write()
        assert [request.method for request in script.seen] == ["GET", "POST", "GET"]
        assert json.loads(store.objects[PATH]["data"]["namespaces"]).keys() == {"a", "b", "c"}
        assert written(harness) == []

    with_store(scenario)


def test_the_trees_of_deleted_namespaces_are_remembered() -> None:
    async def deed(client: Client, store: Store, script: Script) -> None:
        first = await loaded_hold_store(client, holds := a_guard())
        ending("a", "b", "c", holds=holds)
        await first._write()
        assert {entry.tree for entry in deleted_namespaces(store.objects[PATH]).values()} == {"top"}
        await loaded_hold_store(client, holds := a_guard())
        delete = Delete(a_key("x"), namespace_ref("x"), a_namespace("x"))
        other = Key("accurate:sub", Ref(SUB_NAMESPACE, "other", "x"))
        holds.check(other, [delete], 1, 1, tree="other")
        assert not holds.held
        holds.check(a_key("x"), [delete], 1, 1, tree="top")
        assert list(holds.held) == [a_key("x")]

    with_store(deed)


def test_a_record_without_trees_counts_for_every_tree() -> None:
    """An earlier version wrote it."""
    holds = a_guard()
    holds.restore((), dict.fromkeys("abc", 1.0))
    holds.check(a_key("x"), [Delete(a_key("x"), namespace_ref("x"), a_namespace("x"))], 1, 1, tree="top")

    assert list(holds.held) == [a_key("x")]


def test_the_record_of_deleted_namespaces_lasts_ten_minutes() -> None:
    async def scenario(client: Client, store: Store, script: Script) -> None:
        clock = Clock()
        hold_store = await loaded_hold_store(client, holds := MassDeleteGuard(MassDeleteLimit(), 600.0, clock))
        ending("a", holds=holds)
        await hold_store._write()
        await hold_store._write()
        (text,) = store.objects[PATH]["data"].values()
        assert abs(datetime.fromisoformat(json.loads(text)["a"].partition(" ")[0]).timestamp() - time.time()) < 60
        assert [request.method for request in script.seen if request.method != "GET"] == ["POST"]
        clock.now += 601.0
        await hold_store._write()
        assert store.objects[PATH]["data"] == {}

    with_store(scenario)


@pytest.mark.parametrize("text", ["", "[]", "null", '{"a": 1}', '{"a": "yesterday"}', "[" * 5000])
def test_unreadable_records_of_deleted_namespaces_are_left_out(text: str) -> None:
    assert deleted_namespaces({"data": {"namespaces": text}}) == {}
    assert records({"data": {"namespaces": text}}) == {}


def test_a_recorded_deletion_in_the_future_counts_from_now() -> None:
    holds = a_guard()
    holds.restore((), {"a": -3600.0, "b": 599.0, "c": 601.0})

    assert holds.deleted_namespaces() == {"a": 1000.0, "b": 401.0}


def test_the_hold_store_writes_at_once_if_keys_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samara.engine.hold_store.INTERVAL", 3600.0)

    async def scenario(client: Client, store: Store, script: Script) -> None:
        harness = ending(holds=a_guard(), client=client)
        running = asyncio.create_task(harness.hold_store.run())
        await asyncio.sleep(0)
        for obj in (below("a"), a_sub("a")):
            harness.cache.put(obj)
        harness.plan(a_key("a"))
        await harness.inbox.wait(5.0)
        assert isinstance(harness.inbox.take(), HoldsStored)
        assert "a" in json.loads(store.objects[PATH]["data"]["namespaces"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with_store(scenario)


def test_a_namespace_that_may_not_be_created_is_retried_with_backoff() -> None:
    """That the namespace does not exist must not reset its backoff."""
    harness = ControllerHarness(TOP, a_sub("web", deleting=False), registry=REGISTRY)
    for attempt in range(1, 4):
        harness.clock.now += 1000.0
        harness.plan(a_key("web"))
        (write,) = harness.sent()
        assert isinstance(write, Create)
        harness.finish(write, Result(Ending.REFUSED, "quota"))
        wait = harness.retry.state_of(write)
        assert wait is not None
        assert wait.attempts == attempt


def test_the_finalizer_stays_while_the_namespace_is_being_created() -> None:
    """A SubNamespace deleted right after its creation must not leave a namespace behind."""
    harness = ControllerHarness(TOP, a_sub("x", deleting=False), registry=REGISTRY, gone_after=0.0)
    harness.plan(a_key("x"))
    flying = harness.outbox.take()
    assert isinstance(flying, Create)
    harness.cache.put(a_sub("x", 2))
    harness.cache.answers.keep(CrdExists(SUB_NAMESPACE), True)
    harness.cache.answers.keep(NamespaceIsActive("top"), True)
    harness.plan(a_key("x"))
    assert harness.sent() == []

    harness.cache.put(below("x", 5))
    for key in harness.outbox.done(flying):
        harness.plan(key)
    assert written(harness) == [(Delete, "x")]
