"""A simulated write leaves the object that the API server would store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from tests.support import strategies
from tests.support.settle import settle
from tests.support.world import World, at, content, secret

from samara.assembly import registry_of
from samara.core.desired import Copy, Overlay, Template
from samara.core.metadata import is_applied, is_in_sync
from samara.core.metadata_keys import RELEASED
from samara.core.model import (
    ANNOTATIONS,
    FIELD_MANAGER,
    LABELS,
    NAMESPACE,
    Key,
    ManagedKey,
    Object,
    namespace_ref,
)
from samara.core.policy import ClusterPolicy
from samara.core.simulate import simulate_write
from samara.core.source_type import SourceType
from samara.core.status import status_of
from samara.core.writes import (
    Apply,
    Create,
    Delete,
    KeepAsOrphan,
    Recreate,
    Release,
    SetFinalizer,
    Update,
    Write,
    WriteStatus,
)
from samara.settings import Settings
from samara.vocabularies import fishysecret
from samara.vocabularies.accurate.labels import ACCURATE_MANAGER, SUB_NAMESPACE

NOW = "2030-01-01T00:00:00Z"
REGISTRY = registry_of(Settings())
SUB_KEY = Key("accurate:sub", at("root", "web", SUB_NAMESPACE))
COPY_KEY = Key("secret-copy", at("admin", "db"))


def simulated(write: Write) -> Object | None:
    return simulate_write(write, REGISTRY[write.key.source_type], NOW)


def metadata(obj: Object) -> dict[tuple[str, str], str]:
    labels = {(LABELS, key): value for key, value in obj.labels.items()}
    return labels | {(ANNOTATIONS, key): value for key, value in obj.annotations.items()}


def check(world: World, write: Write) -> None:
    source_type = world.registry[write.key.source_type]
    after = simulate_write(write, source_type, NOW)
    if after is None:
        assert isinstance(write, Delete | SetFinalizer)
        return
    assert {(owned.where, owned.key) for owned in after.managed_keys | after.applied_keys} <= metadata(after).keys()
    if not isinstance(write, Create):
        assert after.resource_version > write.live.resource_version
        if not isinstance(write, Recreate):
            check_field_managers(write, write.live, after)
    check_purpose(world, write, source_type, after)


def check_field_managers(write: Write, before: Object, after: Object) -> None:
    """A changed key belongs to the manager that wrote it. Any other key keeps its managers."""
    manager = write.overlay.manager if isinstance(write, Apply) else FIELD_MANAGER
    old, new = metadata(before), metadata(after)
    for place, value in new.items():
        managers = [{owned.manager for owned in obj.managed_keys if owned[1:] == place} for obj in (before, after)]
        if old.get(place) != value:
            assert managers[1] == {manager}, place
        else:
            assert managers[1] - {manager} == managers[0] - {manager}, place


def check_purpose(world: World, write: Write, source_type: SourceType, after: Object) -> None:
    """Asserts that a plan after the write would not need it again."""
    match write:
        case Create(copy=copy) | Update(copy=copy) | Recreate(copy=copy):
            assert is_in_sync(copy.template, after, source_type.ownership, world)
            assert after.known_copy
        case Delete():
            assert after.deleting
            assert after.finalizers or write.ref.kind == NAMESPACE
        case Release():
            assert source_type.ownership.marks.isdisjoint((*after.labels, *after.annotations))
            assert RELEASED in after.annotations
        case KeepAsOrphan():
            assert RELEASED in after.annotations
        case Apply(overlay=overlay):
            assert is_applied(overlay, after)
        case SetFinalizer(finalizer=finalizer, add=add):
            assert (finalizer in after.finalizers) == add
        case WriteStatus(status=status):
            assert status.items() <= status_of(after).items()


@given(strategies.worlds(), strategies.rules())
def test_every_write_leads_to_its_planned_state_with_the_right_field_managers(
    world: World, rules: ClusterPolicy
) -> None:
    world.mutated = ""
    settle(world, rules, check=check)


def a_namespace(name: str, labels: dict[str, str] | None = None, keys: frozenset[ManagedKey] = frozenset()) -> Object:
    return Object(namespace_ref(name), f"u-{name}", 1, labels=labels or {}, managed_keys=keys, applied_keys=keys)


def test_new_namespace_has_the_label_that_the_server_gives_it() -> None:
    ref = namespace_ref("web")
    created = simulated(Create(SUB_KEY, ref, Copy(ref, Template(content()))))
    assert created is not None
    assert created.labels == {"kubernetes.io/metadata.name": "web"}
    assert created.created == NOW


def test_deleted_namespace_terminates_until_it_is_empty() -> None:
    live = a_namespace("web")
    after = simulated(Delete(SUB_KEY, live.ref, live))
    assert after is not None
    assert after.deleting


def test_terminating_object_is_gone_with_its_last_finalizer() -> None:
    ours = fishysecret.FINALIZER
    live = Object(at("team", "db", fishysecret.FISHY_SECRET), "u", 1, finalizers=("x", ours), deleting=True)
    write = SetFinalizer(Key("fishysecret", live.ref), live.ref, live, ours, add=False, why="")
    after = simulated(write)
    assert after is not None
    assert after.finalizers == ("x",)
    assert simulated(replace(write, live=replace(live, finalizers=(ours,)))) is None


@pytest.mark.parametrize("applied", [True, False])
def test_written_status_keeps_the_conditions_of_others(applied: bool) -> None:
    name, kind = ("accurate:sub", SUB_NAMESPACE) if applied else ("fishysecret", fishysecret.FISHY_SECRET)
    before = {"conditions": [{"type": "Theirs", "status": "True"}], "old": 1}
    live = Object(at("root", "web", kind), "u", 1, status=content(status=before).get("status"))
    obj = simulated(WriteStatus(Key(name, live.ref), live.ref, live, {"observedGeneration": 2}))
    assert obj is not None
    after = status_of(obj)
    assert after["conditions"] == before["conditions"]
    assert after["observedGeneration"] == 2
    assert ("old" in after) is not applied


def test_updated_copy_keeps_our_marks_and_the_annotations_of_others() -> None:
    mark, theirs = {"secret-copy/origin": "admin/db"}, {"note": "theirs"}
    ours = frozenset({ManagedKey(FIELD_MANAGER, ANNOTATIONS, "secret-copy/origin")})
    live = Object(at("a", "db"), "u", 1, secret("old"), annotations={**mark, **theirs}, managed_keys=ours)
    copy = Copy(live.ref, Template(secret("new"), {"secret-copy/from": "admin-db"}, mark))
    after = simulated(Update(COPY_KEY, live.ref, copy, live, "differs"))
    assert after is not None
    assert (after.content, dict(after.annotations)) == (secret("new"), {**mark, **theirs})
    assert after.managed_keys == ours | {ManagedKey(FIELD_MANAGER, LABELS, "secret-copy/from")}


def test_recreated_copy_keeps_the_labels_of_others_without_owning_them() -> None:
    live = Object(at("a", "db"), "u", 7, secret("old"), labels={"theirs": "1"})
    copy = Copy(live.ref, Template(secret("new"), {"secret-copy/from": "admin-db"}))
    after = simulated(Recreate(COPY_KEY, live.ref, copy, live))
    assert after is not None
    assert (after.uid, after.created) != (live.uid, live.created)
    assert after.labels == {"theirs": "1", "secret-copy/from": "admin-db"}
    assert after.managed_keys == {ManagedKey(FIELD_MANAGER, LABELS, "secret-copy/from")}


def test_applied_overlay_removes_only_the_keys_that_it_applied_before() -> None:
    applied = frozenset({ManagedKey(ACCURATE_MANAGER, LABELS, "team")})
    live = a_namespace("web", {"team": "a", "mine": "1"}, applied)
    after = simulated(Apply(SUB_KEY, live.ref, Overlay(live.ref, {"app": "web"}, manager=ACCURATE_MANAGER), live))
    assert after is not None
    assert after.labels == {"mine": "1", "app": "web"}
    assert after.applied_keys == after.managed_keys == {ManagedKey(ACCURATE_MANAGER, LABELS, "app")}
