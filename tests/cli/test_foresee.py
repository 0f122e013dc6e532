"""What a plan lays over the picture is what the server would store, and a plan is followed to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from tests.contract.test_contract import copy_of
from tests.support import strategies
from tests.support.caches import a_plain_cache
from tests.support.server import perform
from tests.support.settle import settle
from tests.support.world import World, at, content, secret

from samara.assembly import registry_of
from samara.cli.inspect.diff import changes
from samara.cli.inspect.simulate import NAMED, lay, left_by
from samara.core.desired import Copy, Overlay, Template
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, LABELS, NAMESPACE, Key, ManagedKey, Object, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.status import status_of
from samara.core.writes import Apply, Create, Delete, SetFinalizer, Update, Write, WriteStatus
from samara.kube.cache import Cache
from samara.settings import Settings
from samara.vocabularies import fishysecret
from samara.vocabularies.accurate.labels import ACCURATE_MANAGER, SUB_NAMESPACE

NOW = "2030-01-01T00:00:00Z"
TABLE = registry_of(Settings())
WEB = Key("accurate:sub", at("root", "web", SUB_NAMESPACE))


def shown(obj: Object) -> tuple[object, ...]:
    labels = {key: value for key, value in obj.labels.items() if key != NAMED}
    words = labels, dict(obj.annotations), obj.managed_keys, obj.applied_keys
    return obj.content, *words, obj.owner_references, set(obj.finalizers), obj.deleting, obj.known_copy


def compare(before: World, write: Write) -> None:
    server = copy_of(before)
    if not perform(server, write) or (isinstance(write, Delete) and write.ref.kind == NAMESPACE):
        return  # refused; or it ends when it is empty, which is another test
    after, left = server.objects.get(write.ref), left_by(write, before.registry[write.key.source_type], NOW)
    assert (after is None) == (left is None), write
    if after is None or left is None:
        return
    assert shown(after) == shown(left), write
    assert not isinstance(write, WriteStatus) or write.status.items() <= status_of(left).items()


@given(strategies.worlds(), strategies.rules())
def test_what_a_write_leaves_behind_is_what_the_server_stores(world: World, rules: ClusterPolicy) -> None:
    world.meddled = ""
    settle(world, rules, check=compare)


def a_cache(*objects: Object) -> Cache:
    cache = a_plain_cache(TABLE, keep_bytes=True)
    for kind in TABLE.kinds:
        cache.finish_list(kind, set())
    for each in objects:
        cache.put(each)
    return cache


def a_namespace(name: str, **more: Any) -> Object:
    return Object(namespace_ref(name), f"u-{name}", 1, **more)


def test_a_new_namespace_has_the_label_that_the_server_gives_it() -> None:
    ref = namespace_ref("web")
    made = left_by(Create(WEB, ref, Copy(ref, Template(content()))), TABLE[WEB.source_type], NOW)
    assert made is not None
    assert made.labels == {"kubernetes.io/metadata.name": "web"}
    assert made.created == NOW


def test_a_deleted_namespace_is_there_until_it_is_empty() -> None:
    live = a_namespace("web")
    left = left_by(Delete(WEB, live.ref, live), TABLE[WEB.source_type], NOW)
    assert left is not None
    assert left.deleting


def test_what_waited_for_its_last_finalizer_goes_with_it() -> None:
    ours = fishysecret.FINALIZER
    live = Object(at("team", "db", fishysecret.FISHY_SECRET), "u", 1, finalizers=("x", ours), deleting=True)
    off = SetFinalizer(Key("fishysecret", live.ref), live.ref, live, ours, add=False, why="")
    left = left_by(off, TABLE["fishysecret"], NOW)
    assert left is not None
    assert left.finalizers == ("x",)
    assert left_by(replace(off, live=replace(live, finalizers=(ours,))), TABLE["fishysecret"], NOW) is None


@pytest.mark.parametrize("applied", [True, False])
def test_a_report_leaves_what_others_say(applied: bool) -> None:
    source_type = TABLE["accurate:sub" if applied else "fishysecret"]
    kind = SUB_NAMESPACE if applied else fishysecret.FISHY_SECRET
    told = {"conditions": [{"type": "Theirs", "status": "True"}], "old": 1}
    live = Object(at("root", "web", kind), "u", 1, status=content(status=told).get("status"))
    left = left_by(
        WriteStatus(Key(source_type.name, live.ref), live.ref, live, {"observedGeneration": 2}), source_type, NOW
    )
    assert left is not None
    found = status_of(left)
    assert found["conditions"] == told["conditions"]
    assert found["observedGeneration"] == 2
    assert ("old" in found) is not applied


def test_laying_a_copy_over_wakes_its_source() -> None:
    source = Object(at("admin", "db"), "u", 1, secret(), annotations={"secret-copy/namespaces": "a"})
    cache = a_cache(a_namespace("admin"), a_namespace("a"), source)
    template = Template(source.content, {"secret-copy/from": "admin-db"}, {"secret-copy/origin": "admin/db"})
    copy = Copy(at("a", "db"), template)
    key = Key("secret-copy", source.ref)
    assert key in set(lay(cache, Create(key, copy.ref, copy), NOW))
    there = cache.get(copy.ref)
    assert there is not None
    assert there.known_copy


def test_laying_a_namespace_over_wakes_whoever_reaches_it() -> None:
    source = Object(at("admin", "db"), "u", 1, secret(), annotations={"secret-copy/namespaces": ""})
    cache = a_cache(a_namespace("admin"), source)
    ref = namespace_ref("web")
    assert Key("secret-copy", source.ref) in set(lay(cache, Create(WEB, ref, Copy(ref, Template(content()))), NOW))


def test_what_we_said_before_and_say_now_is_still_ours() -> None:
    mark, theirs = {"secret-copy/origin": "admin/db"}, {"note": "theirs"}
    ours = frozenset({ManagedKey(FIELD_MANAGER, ANNOTATIONS, "secret-copy/origin")})
    live = Object(at("a", "db"), "u", 1, secret("old"), annotations={**mark, **theirs}, managed_keys=ours)
    copy = Copy(live.ref, Template(secret("new"), {"secret-copy/from": "admin-db"}, mark))
    key = Key("secret-copy", at("admin", "db"))
    left = left_by(Update(key, live.ref, copy, live, "differs"), TABLE[key.source_type], NOW)
    assert left is not None
    assert (left.content, dict(left.annotations)) == (secret("new"), {**mark, **theirs})
    assert left.managed_keys == ours | {ManagedKey(FIELD_MANAGER, LABELS, "secret-copy/from")}


def test_the_diff_of_an_overlay_shows_what_it_takes_back() -> None:
    laid = frozenset({ManagedKey(ACCURATE_MANAGER, LABELS, "team"), ManagedKey(ACCURATE_MANAGER, LABELS, "app")})
    live = a_namespace("web", labels={"team": "a", "app": "web", "mine": "1"}, managed_keys=laid, applied_keys=laid)
    overlay = Overlay(live.ref, {"app": "new"}, manager=ACCURATE_MANAGER)
    shown = [str(each) for each in changes(Apply(WEB, live.ref, overlay, live), TABLE)]
    assert shown == ["~ label app", "- label team"]


def test_an_overlay_takes_back_what_it_laid_before_and_nothing_else() -> None:
    laid = frozenset({ManagedKey(ACCURATE_MANAGER, LABELS, "team")})
    live = a_namespace("web", labels={"team": "a", "mine": "1"}, managed_keys=laid, applied_keys=laid)
    overlay = Overlay(live.ref, {"app": "web"}, manager=ACCURATE_MANAGER)
    left = left_by(Apply(WEB, live.ref, overlay, live), TABLE[WEB.source_type], NOW)
    assert left is not None
    assert left.labels == {"mine": "1", "app": "web"}
    assert left.applied_keys == left.managed_keys == {ManagedKey(ACCURATE_MANAGER, LABELS, "app")}
