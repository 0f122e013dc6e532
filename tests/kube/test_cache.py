"""Tests that the cache agrees with a naive model after any order of events."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support import toys
from tests.support.caches import a_plain_cache
from tests.support.samples import a_copy, a_key, a_namespace, a_source, an_object
from tests.support.world import World, at, secret

from samara.core.metadata_keys import ADOPTED, RELEASED
from samara.core.model import (
    FIELD_MANAGER,
    NAMESPACE,
    SECRET,
    Content,
    Key,
    Kind,
    ManagedKey,
    Object,
    OwnerReference,
    Ref,
    namespace_ref,
)
from samara.core.names import NamespaceNames
from samara.core.near_misses import NearMissRules
from samara.core.ownership import is_recorded
from samara.core.queries import UNREAD, Query
from samara.core.registry import Registry
from samara.core.source_type import Addresses, SourceType
from samara.core.trust import ChosenLabel, Trust
from samara.kube import cache as cache_module
from samara.kube.cache import Cache, Change, address_hash
from samara.kube.codec import Codec
from samara.kube.indexes import MOST_UNREMOVABLE, CopyIndex
from samara.vocabularies import resource_distribution, secret_copy
from samara.vocabularies.resource_distribution import HASHCODE, RESOURCE_DISTRIBUTION
from samara.vocabularies.secret_copy import FROM, ORIGIN, TARGETS
from samara.vocabularies.sync_to import SYNC_TO

REGISTRY = Registry((secret_copy.source_type("admin"), toys.fetch()))
KINDS = (NAMESPACE, SECRET, toys.FETCH)
NEAR_MISSES = NearMissRules(REGISTRY)


@dataclass
class Naive:
    """A naive model of the cache: an object by address, or None if only the address is known."""

    known_of: dict[Ref, Object | None] = field(default_factory=dict)
    tombs: dict[Ref, str] = field(default_factory=dict)
    listed: set[Kind] = field(default_factory=set)
    missed: set[Ref] = field(default_factory=set)
    """The objects with near misses."""

    # the methods of a View, which scan all objects

    def get(self, ref: Ref) -> Object | None:
        return self.known_of.get(ref)

    def exists_unread(self, ref: Ref) -> bool:
        return ref in self.known_of and self.known_of[ref] is None

    def held(self) -> list[Object]:
        return [obj for obj in self.known_of.values() if obj is not None]

    def objects_of(self, kind: Kind) -> list[Object]:
        return [obj for obj in self.held() if obj.ref.kind == kind]

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        return listed.legal if listed is not None else [obj.ref.name for obj in self.objects_of(NAMESPACE)]

    def keys(self) -> list[Key]:
        return [key for obj in self.held() for key in REGISTRY.sources(obj, self)]

    def namespaces_with_label(self, label: str, value: str) -> list[Object]:
        return [obj for obj in self.objects_of(NAMESPACE) if obj.labels.get(label) == value]

    def sources(self, source_type: str, namespace: str | None = None) -> list[Ref]:
        sources = [key.source for key in self.keys() if key.source_type == source_type]
        return [ref for ref in sources if namespace in (None, ref.namespace)]

    def sources_targeting(self, source_type: str, namespace: str) -> list[Ref]:
        spots = {ref: REGISTRY[source_type].addresses(ref, self) for ref in self.sources(source_type)}
        return [ref for ref, spot in spots.items() if spot is not None and spot.within == namespace]

    only_namespace: None = None

    def sources_naming(self, source_type: str, namespace: str) -> list[Ref]:
        return self.sources(source_type)

    def trees_of(self, namespace: str) -> Iterable[str]:
        return REGISTRY.trees_of(namespace, self)

    def chosen_labels(self, namespace: Object, keys: Iterable[str]) -> Mapping[str, ChosenLabel]:
        return REGISTRY.chosen_labels_on(namespace, keys, self)

    def trust_in(self, name: str) -> Iterable[Trust]:
        return REGISTRY.trust_in(name, self, [namespace.ref for namespace in self.objects_of(NAMESPACE)])

    def is_trust_known(self) -> bool:
        return all(map(self.has_synced, REGISTRY.kinds_that_name))

    def excess(self, key: Key) -> str:
        return ""

    def copies_of(self, key: Key) -> list[Object]:
        mine = [obj for obj in self.held() if REGISTRY.owner(obj, self) == key.all_namespaces]
        return [obj for obj in mine if key.namespace in (None, obj.ref.namespace)]

    def claimants(self, ref: Ref) -> list[Key]:
        namespace = self.get(namespace_ref(ref.namespace))
        above = ("",) if namespace is None else ("", *REGISTRY.parents(namespace))
        spots = {Addresses(ref.kind, ref.name, below) for below in above}
        return [key for key in self.keys() if REGISTRY[key.source_type].addresses(key.source, self) in spots]

    def is_claimed(self, ref: Ref) -> bool:
        spots = (REGISTRY[key.source_type].addresses(key.source, self) for key in self.keys())
        return any(spot is not None and spot.target == (ref.kind, ref.name) for spot in spots)

    def readers(self, ref: Ref) -> Iterable[Key]:
        return ()

    def owner(self, obj: Object) -> Key | None:
        return REGISTRY.owner(obj, self)

    def has_synced(self, kind: Kind) -> bool:
        return kind in self.listed

    def answer(self, read: Query) -> object:
        return UNREAD

    def is_stored_form_of(self, kind: Kind, sent: Content, stored: Content) -> bool:
        return False

    def canonical(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        return None

    # what happens

    def put(self, obj: Object) -> bool:
        old = self.get(obj.ref)
        if self.tombs.get(obj.ref) == obj.uid or (old is not None and old.resource_version >= obj.resource_version):
            return False
        if old is not None and old.uid == obj.uid:
            obj = replace(obj, known_copy=obj.known_copy or old.known_copy or self._was_ours(old))
        self.known_of[obj.ref] = obj
        (self.missed.add if NEAR_MISSES.of_object(obj, self) else self.missed.discard)(obj.ref)
        self._forget_what_nobody_claims()
        return True

    def _was_ours(self, old: Object) -> bool:
        """A copy with a mark that managedFields attribute to us."""
        owner = REGISTRY.owner(old, self)
        return owner is not None and any(
            managed.key in REGISTRY[owner.source_type].ownership.marks for managed in old.managed_keys
        )

    def remove(self, ref: Ref, version: int | None = None) -> bool:
        old = self.get(ref)
        if old is not None and version is not None and old.resource_version > version:
            return False
        self.tombs.pop(ref, None)
        self.known_of.pop(ref, None)
        self.missed.discard(ref)
        self._forget_what_nobody_claims()
        return True

    def remove_deleted(self, obj: Object) -> None:
        held = self.get(obj.ref)
        if held is not None and held.uid == obj.uid:
            self.remove(obj.ref)
            self.tombs[obj.ref] = obj.uid

    def finish_list(self, kind: Kind, present: set[Ref], version: int) -> None:
        self.tombs = {ref: uid for ref, uid in self.tombs.items() if ref.kind != kind}
        for ref, obj in list(self.known_of.items()):
            if ref.kind == kind and ref not in present and (obj is None or obj.resource_version <= version):
                self.remove(ref)
        for ref in present:
            self.known_of.setdefault(ref, None)
        self.listed.add(kind)

    def _forget_what_nobody_claims(self) -> None:
        for obj in self.held():
            kept = obj.ref.kind == NAMESPACE or REGISTRY.owner(obj, self) or any(REGISTRY.sources(obj, self))
            if not kept and not self.is_claimed(obj.ref):
                self.known_of[obj.ref] = None


SPOTS = [at(namespace, name) for namespace in ("admin", "a", "b") for name in ("x", "y")]
ASKS = [at(namespace, name, toys.FETCH) for namespace in ("a", "b") for name in ("x", "y")]
REFS = [*SPOTS, *ASKS, *map(namespace_ref, ("admin", "a", "b"))]

WORDS = [
    {},
    {"note": "theirs"},
    {TARGETS: ""},
    {TARGETS: "a"},
    {ORIGIN: "admin/x"},
    {ORIGIN: "admin/y"},
    {toys.FETCHED: "a"},
    {toys.FETCHED: "b"},
    {ORIGIN: "admin/x", toys.FETCHED: "b"},
]


def ids(objects: Iterable[Object]) -> set[tuple[Ref, str, int, bool]]:
    return {(obj.ref, obj.uid, obj.resource_version, obj.known_copy) for obj in objects}


class CacheAgainstNaive(RuleBasedStateMachine):
    """Uses few addresses and versions, so that stale events, new uids and changing claims collide."""

    def __init__(self) -> None:
        super().__init__()
        self.cache, self.naive = a_plain_cache(REGISTRY), Naive()
        self.version = 0

    def _version(self, back: int) -> int:
        self.version += 1
        return max(1, self.version - back)

    @rule(
        ref=st.sampled_from(REFS),
        annotations=st.sampled_from(WORDS),
        uid=st.sampled_from(["u1", "u1", "u2"]),
        back=st.sampled_from([0, 0, 0, 1, 4]),
        made=st.booleans(),
        forged=st.booleans(),
    )
    def put(self, ref: Ref, annotations: dict[str, str], uid: str, back: int, made: bool, forged: bool) -> None:
        ours = frozenset(ManagedKey(FIELD_MANAGER, "annotations", key) for key in annotations if not forged)
        obj = an_object(
            ref,
            self._version(back),
            uid=uid,
            annotations=annotations,
            known_copy=made,
            content=secret("one"),
            managed_keys=ours,
        )
        old, new = self.naive.get(ref), self.naive.put(obj)
        self._check_change(self.cache.put(obj), ref, old, new)

    @rule(ref=st.sampled_from(REFS), back=st.sampled_from([None, 0, 0, 2]))
    def drop(self, ref: Ref, back: int | None) -> None:
        version = None if back is None else self._version(back)
        old, new = self.naive.get(ref), self.naive.remove(ref, version)
        self._check_change(self.cache.remove(ref, version), ref, old, new)

    def _check_change(self, change: Change | None, ref: Ref, old: Object | None, is_news: bool) -> None:
        assert (change is not None) == is_news
        if change is not None:
            assert (change.ref, change.new) == (ref, self.cache.get(ref))
            assert ids(filter(None, [change.old])) == ids(filter(None, [old]))

    @rule(ref=st.sampled_from(SPOTS), uid=st.sampled_from(["u1", "u2"]))
    def bury(self, ref: Ref, uid: str) -> None:
        obj = an_object(ref, 1, uid=uid)
        self.cache.remove_deleted(obj)
        self.naive.remove_deleted(obj)

    @rule(ref=st.sampled_from(SPOTS))
    def pass_by(self, ref: Ref) -> None:
        if not self.cache.must_parse(ref):  # as the watch does
            self.cache.note_ignored(ref)
            self.naive.known_of[ref] = None

    @rule(ref=st.sampled_from(SPOTS))
    def absent(self, ref: Ref) -> None:
        if self.cache.exists_unread(ref):
            self.cache.note_absent(ref)
            del self.naive.known_of[ref]

    @rule(kind=st.sampled_from(KINDS), present=st.sets(st.sampled_from(REFS)), back=st.sampled_from([0, 0, 3]))
    def relist(self, kind: Kind, present: set[Ref], back: int) -> None:
        seen = {ref for ref in present if ref.kind == kind}
        version = self._version(back)
        before, missed = {ref for ref in REFS if self.naive.get(ref) is not None}, set(self.naive.missed)
        self.naive.finish_list(kind, seen, version)
        changes = self.cache.finish_list(kind, set(map(address_hash, seen)), version)
        gone = {ref for ref in before | missed if ref.kind == kind and ref not in self.naive.known_of}
        assert {change.ref for change in changes} == gone
        assert all((change.ref in before) == (change.old is not None) and change.new is None for change in changes)

    @invariant()
    def every_answer_is_the_same(self) -> None:
        for ref in REFS:
            assert ids(filter(None, [self.cache.get(ref)])) == ids(filter(None, [self.naive.get(ref)]))
            assert self.cache.exists_unread(ref) == self.naive.exists_unread(ref)
            claimed = self.naive.is_claimed(ref)
            always = ref.kind in (NAMESPACE, toys.FETCH)
            assert set(self.cache.claimants(ref)) == set(self.naive.claimants(ref))
            missed = ref in self.naive.missed
            assert self.cache.has_near_misses(ref) == missed
            assert self.cache.must_parse(ref) == (always or self.naive.get(ref) is not None or claimed or missed)
        for kind in KINDS:
            assert ids(self.cache.objects_of(kind)) == ids(self.naive.objects_of(kind))
            assert self.cache.has_synced(kind) == self.naive.has_synced(kind)
        assert sorted(self.cache.namespaces()) == sorted(self.naive.namespaces())
        for name in ("a", "b", "admin"):
            assert ids(self.cache.namespaces_with_label(toys.PARENT, name)) == ids(
                self.naive.namespaces_with_label(toys.PARENT, name)
            )

    @invariant()
    def sources_and_copies_are_the_same(self) -> None:
        owners = {owner for obj in self.naive.held() if (owner := REGISTRY.owner(obj, self.naive)) is not None}
        assert set(self.cache.marked_sources()) == owners
        for source_type in REGISTRY.source_types:
            assert sorted(self.cache.sources(source_type.name)) == sorted(self.naive.sources(source_type.name))
            for namespace in ("a", "b", "admin") if source_type.hierarchy is not None else ():
                sources = self.cache.sources(source_type.name, namespace)
                assert sorted(sources) == sorted(self.naive.sources(source_type.name, namespace))
            for ref in (*SPOTS, *ASKS):
                key = Key(source_type.name, ref)
                copies = self.naive.copies_of(key)
                assert ids(self.cache.copies_of(key)) == ids(copies)
                assert self.cache.count(key) == self._ours(copies, key)
                for namespace in ("a", "b"):
                    part = key.in_namespace(namespace)
                    assert ids(self.cache.copies_of(part)) == ids(self.naive.copies_of(part))

    def _ours(self, copies: Iterable[Object], key: Key) -> int:
        return sum(is_recorded(obj, REGISTRY[key.source_type].ownership) for obj in copies)

    @invariant()
    def homes_are_counted_as_the_sum_of_their_sources(self) -> None:
        for namespace in ("admin", "a", "b"):
            refs = [ref for ref in (*SPOTS, *ASKS) if ref.namespace == namespace]
            keys = [Key(source_type.name, ref) for source_type in REGISTRY.source_types for ref in refs]
            copies = sum(self._ours(self.naive.copies_of(key), key) for key in keys)
            assert self.cache.count_in_namespace(namespace) == copies

    @invariant()
    def only_a_source_is_held_with_its_bytes(self) -> None:
        for obj in self.cache.objects_of(SECRET):
            is_source = any(REGISTRY.sources(obj, self.cache))
            assert all((field.raw is not None) == is_source for field in obj.content.fields)


TestCacheAgainstNaive = CacheAgainstNaive.TestCase
TestCacheAgainstNaive.settings = settings(max_examples=40, stateful_step_count=25)


def filled(*objects: Object) -> Cache:
    cache = a_plain_cache(REGISTRY)
    for obj in objects:
        cache.put(obj)
    return cache


@given(st.permutations([*range(6)]))
def test_the_cache_agrees_with_the_reference_view(order: list[int]) -> None:
    world = World(REGISTRY)
    for name in ("admin", "a", "b"):
        world.namespace(name)
    world.put(at("admin", "x"), secret("one"), annotations={TARGETS: "a,b"})
    world.put(at("a", "x"), secret("one"), FIELD_MANAGER, annotations={ORIGIN: "admin/x"}, labels={FROM: "admin-x"})
    world.put(at("b", "x", toys.FETCH), annotations={toys.PATH: "p", toys.INTO: "a"})
    there = list(world.objects.values())
    cache = filled(*(there[number] for number in order))

    for key in (a_key("x"), Key("fetch", at("b", "x", toys.FETCH))):
        assert ids(cache.copies_of(key)) == ids(world.copies_of(key))
        assert set(cache.sources(key.source_type)) == set(world.sources(key.source_type))
    assert all(set(cache.claimants(ref)) == set(world.claimants(ref)) for ref in world.objects)
    assert all(ids(cache.objects_of(kind)) == ids(world.objects_of(kind)) for kind in KINDS)


# single rules


def test_an_older_version_changes_nothing() -> None:
    cache = filled(new := a_copy("a", "x", version=7))

    assert cache.put(a_copy("a", "x", version=6)) is None
    assert cache.put(a_copy("a", "x", version=7)) is None
    assert cache.remove(at("a", "x"), 6) is None
    assert ids(filter(None, [cache.get(at("a", "x"))])) == ids([new])
    assert [cache.is_newer(at("a", "x"), version) for version in (6, 7, 8)] == [False, False, True]


def test_a_late_event_does_not_bring_a_deleted_copy_back() -> None:
    cache = filled(copy := a_copy("a", "x"))
    cache.remove_deleted(copy)

    assert cache.put(replace(copy, resource_version=9)) is None
    assert cache.get(copy.ref) is None
    assert cache.put(a_copy("a", "x", version=10, uid="new")) is not None


def test_after_the_deleted_event_a_new_object_is_taken() -> None:
    cache = filled(copy := a_copy("a", "x"))
    cache.remove_deleted(copy)
    cache.remove(copy.ref, 9)

    assert cache.put(replace(copy, resource_version=10)) is not None


def test_a_recreated_object_is_not_removed_with_the_deleted_one() -> None:
    cache = filled(a_copy("a", "x", version=5, uid="new"))

    assert cache.remove_deleted(a_copy("a", "x", uid="old")) is None
    assert cache.get(at("a", "x")) is not None


def test_a_copy_without_its_marks_is_still_known_as_ours() -> None:
    cache = filled(a_source("x"), a_copy("a", "x"))
    stripped = an_object(at("a", "x"), 2, uid="uid of a/x")
    cache.put(stripped)

    held = cache.get(at("a", "x"))
    assert held is not None
    assert held.known_copy
    assert list(cache.copies_of(a_key("x"))) == []
    cache.put(an_object(at("a", "x"), 3, uid="another"))
    held = cache.get(at("a", "x"))
    assert held is not None
    assert not held.known_copy


def stripped(*, ours: frozenset[ManagedKey] = frozenset(), **more: str) -> Object:
    """The cached form of a marked object that we did not create, after all marks were removed."""
    registry = Registry((secret_copy.source_type("admin", managers=frozenset({"old-copier"})),))
    cache = a_plain_cache(registry)
    annotations = {ORIGIN: "admin/x", **more}
    for obj in (
        a_source("x"),
        an_object(at("a", "x"), 2, annotations=annotations, managed_keys=ours),
        an_object(at("a", "x"), 3),
    ):
        cache.put(obj)
    held = cache.get(at("a", "x"))
    assert held is not None
    return held


RECORD = frozenset({ManagedKey("old-copier", "annotations", ORIGIN)})


def test_law_4_removing_the_marks_does_not_release_a_copy_of_an_original() -> None:
    assert stripped(ours=RECORD).known_copy


def test_law_4_a_forged_mark_does_not_make_an_object_ours() -> None:
    assert not stripped().known_copy


def test_law_4_removing_all_marks_releases_an_adopted_object() -> None:
    assert not stripped(ours=RECORD, **{ADOPTED: "true"}).known_copy


def test_a_foreign_object_is_kept_only_while_a_source_claims_its_address() -> None:
    cache = filled(a_source("x"), an_object(at("a", "x"), content=secret("theirs")))
    held = cache.get(at("a", "x"))
    assert held is not None
    assert held.content == secret("theirs")
    assert [field.raw for field in held.content.fields] == [None, None]
    cache.remove(at("admin", "x"))

    assert cache.get(at("a", "x")) is None
    assert cache.exists_unread(at("a", "x"))


@pytest.mark.parametrize("ours", [frozenset(), frozenset({ManagedKey(FIELD_MANAGER, "annotations", ORIGIN)})])
def test_equal_copies_share_one_content_without_bytes(ours: frozenset[ManagedKey]) -> None:
    copies = [replace(a_copy(namespace, "x", content=secret("one")), managed_keys=ours) for namespace in ("a", "b")]
    one, two = filled(a_source("x"), *copies).copies_of(a_key("x"))

    assert one.content is two.content
    assert one.content == secret("one")
    assert one.content != secret("two")
    assert all(field.raw is None for field in one.content.fields)


def test_an_object_keeps_its_bytes_while_it_is_a_source() -> None:
    cache = filled(a_source("x"))
    held = cache.get(at("admin", "x"))
    assert held is not None
    assert all(field.raw is not None for field in held.content.fields)
    cache.put(an_object(at("admin", "x"), 2, content=secret("one"), annotations={ORIGIN: "admin/x"}))

    assert cache.get(at("admin", "x")) is None


def test_bytes_are_kept_for_a_diff() -> None:
    cache = a_plain_cache(REGISTRY, keep_bytes=True)
    cache.put(a_copy("a", "x", content=secret("one")))

    (held,) = cache.copies_of(a_key("x"))
    assert all(field.raw is not None for field in held.content.fields)


def test_a_source_with_another_value_keeps_its_bytes() -> None:
    cache = a_plain_cache(REGISTRY)
    cache.put(a_source())
    cache.put(replace(a_source(version=2), content=secret("two")))
    held = cache.get(at("admin", "db"))
    assert held is not None
    assert [field.raw for field in held.content.fields] == [field.raw for field in secret("two").fields]
    assert None not in [field.raw for field in held.content.fields]


def test_a_copy_with_other_content_is_indexed_counted_and_reported_as_before() -> None:
    cache = a_plain_cache(REGISTRY)
    cache.put(a_source())
    old = a_copy("a", version=2, content=secret("one"))
    cache.put(old)
    change = cache.put(a_copy("a", version=3, content=secret("two")))
    new = cache.get(at("a", "db"))
    assert new is not None
    assert new.content == secret("two").digests_only()
    assert all(field.raw is None for field in new.content.fields)
    assert change is not None
    assert (change.old is not None and change.old.resource_version, change.new) == (2, new)
    assert list(cache.copies_of(a_key())) == [new]
    assert cache.count(a_key()) == 1


@pytest.mark.parametrize(
    ("other", "copies", "counted"),
    [
        ({"annotations": {}}, 0, 0),
        ({"annotations": {ORIGIN: "admin/other"}}, 0, 0),
        ({"managed_keys": frozenset()}, 1, 0),
    ],
    ids=["the mark is gone", "the mark names another", "the mark is not ours any more"],
)
def test_a_copy_with_changed_marks_is_indexed_and_counted_by_the_new_ones(
    other: dict[str, Any], copies: int, counted: int
) -> None:
    cache = a_plain_cache(REGISTRY)
    cache.put(a_source())
    cache.put(a_copy("a", version=2))
    cache.put(replace(a_copy("a", version=3), **other))
    assert len(list(cache.copies_of(a_key()))) == copies
    assert cache.count(a_key()) == counted


def test_forged_marks_never_count() -> None:
    """Otherwise users who may write a Secret could make a source look larger, and so weaken the brake."""
    forged = [replace(a_copy(f"f{number}", "x"), managed_keys=frozenset()) for number in range(9)]
    cache = filled(a_source("x"), a_copy("a", "x"), a_copy("b", "y"), *forged)

    assert len(list(cache.copies_of(a_key("x")))) == 10
    assert (cache.count(a_key("x")), cache.count(a_key("y"))) == (1, 1)
    assert (cache.count_in_namespace("admin"), cache.count_in_namespace("a")) == (2, 0)
    cache.put(replace(forged[0], resource_version=2, managed_keys=a_copy("f0", "x").managed_keys))
    cache.remove(at("a", "x"))
    cache.remove(at("b", "y"))
    assert (cache.count(a_key("x")), cache.count_in_namespace("admin")) == (1, 1)


DISTRIBUTION = Key("resource-distribution", Ref(RESOURCE_DISTRIBUTION, "", "db"))


def a_distributed(namespace: str, name: str, **more: Any) -> Object:
    """An object with a reference to `DISTRIBUTION`. Its name may differ from that of the copies."""
    owner = OwnerReference(RESOURCE_DISTRIBUTION.api_version, RESOURCE_DISTRIBUTION.name, "db", "u", controller=True)
    return an_object(at(namespace, name), owner_references=(owner,), **more)


def distributions() -> SourceType:
    return resource_distribution.source_type((SECRET,), lambda where, words: dict(words), lambda namespace: False)


OURS = frozenset({ManagedKey(FIELD_MANAGER, "annotations", HASHCODE)})
UNREMOVABLE: dict[str, dict[str, Any]] = {
    "without proof": {},
    "released": {"managed_keys": OURS, "annotations": {RELEASED: "true"}},
}


@pytest.mark.parametrize("why", UNREMOVABLE)
def test_objects_that_name_a_source_and_are_never_removed_hide_no_copy_and_hardly_slow_its_plan(why: str) -> None:
    """Who may write in one namespace can name a source of others in as many objects there as the quota allows."""
    forged = [a_distributed("a", f"f{number}", **UNREMOVABLE[why]) for number in range(100)]
    copies = [a_distributed(namespace, "old", managed_keys=OURS) for namespace in ("a", "b")]
    cache = a_plain_cache(Registry((distributions(),)))
    for obj in (*forged[:50], *copies, *forged[50:]):
        cache.put(obj)

    assert len(list(cache.copies_of(DISTRIBUTION))) == 2 + MOST_UNREMOVABLE
    assert len(list(cache.copies_of(DISTRIBUTION.in_namespace("a")))) == 1 + MOST_UNREMOVABLE
    assert {obj.ref for obj in copies} <= {obj.ref for obj in cache.copies_of(DISTRIBUTION)}

    for obj in forged[:95]:
        cache.remove(obj.ref)
    in_a = {obj.ref for obj in cache.copies_of(DISTRIBUTION.in_namespace("a"))}
    assert in_a == {at("a", "old"), *(obj.ref for obj in forged[95:])}
    for obj in (*forged[95:], *copies):
        cache.remove(obj.ref)
    assert list(cache.marked_sources()) == []


def test_an_object_that_becomes_a_proven_copy_is_found_among_those_that_are_none() -> None:
    cache = a_plain_cache(Registry((distributions(),)))
    for number in range(100):
        cache.put(a_distributed("a", f"f{number}"))
    for number in (98, 99):
        cache.put(replace(a_distributed("a", f"f{number}", managed_keys=OURS), resource_version=2))

    assert {at("a", "f98"), at("a", "f99")} <= {obj.ref for obj in cache.copies_of(DISTRIBUTION)}


def test_the_memory_of_an_index_grows_with_the_number_of_copies_in_a_namespace_and_not_with_its_square() -> None:
    index, refs = CopyIndex(), [at("a", f"x{number}") for number in range(3000)]
    tracemalloc.start()
    try:
        for number, ref in enumerate(refs):
            index.add(a_key(), ref, is_removable=number % 2 == 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak / len(refs) < 500, f"{peak / len(refs):.0f} bytes per object"
    assert len(list(index.of(a_key()))) == len(refs) // 2 + MOST_UNREMOVABLE
    for number, ref in enumerate(refs):
        index.discard(a_key(), ref, is_removable=number % 2 == 0)
    assert a_key() not in index


def test_a_fetched_object_stays_while_its_source_changes() -> None:
    """Otherwise every change of a source would read every conflicting object again."""
    cache = filled(a_source("x"), an_object(at("a", "x"), content=secret("theirs")))
    cache.put(a_source("x", version=2))

    assert cache.get(at("a", "x")) is not None


def test_the_end_of_a_list_finds_missed_deletions() -> None:
    cache = filled(a_source("x"), a_copy("a", "x"), a_copy("b", "x"))
    cache.note_ignored(at("b", "theirs"))
    changes = cache.finish_list(SECRET, {address_hash(at("admin", "x")), address_hash(at("b", "x"))})

    assert [(change.ref, change.new) for change in changes] == [(at("a", "x"), None)]
    assert [obj.ref.namespace for obj in cache.copies_of(a_key("x"))] == ["b"]
    assert not cache.exists_unread(at("b", "theirs"))


def test_an_object_newer_than_a_list_is_not_removed_by_it() -> None:
    cache = filled(a_copy("a", "x", version=11))

    assert cache.finish_list(SECRET, set(), 10) == []
    assert cache.get(at("a", "x")) is not None


def test_an_object_with_an_unproven_mark_is_indexed_as_a_source_and_is_a_rival_of_the_source_it_names() -> None:
    """Whether it is a source depends on the other one, and may change with that."""
    cache = a_plain_cache(toys.full_registry())
    cache.put(a_namespace("a"))
    cache.put(a_source(targets="a"))
    marked = an_object(at("a", "db"), annotations={SYNC_TO: "cluster", ORIGIN: "admin/db"})
    cache.put(marked)
    key = Key("sync-to", marked.ref)
    assert key.source in cache.sources("sync-to")
    assert key not in cache.registry.sources(marked, cache)
    change = cache.put(a_source(targets="b", version=2))
    assert change is not None
    assert key in change.rivals
    assert key in cache.registry.sources(marked, cache)


def test_a_change_of_a_source_names_its_rivals() -> None:
    fetch = an_object(at("a", "x", toys.FETCH), annotations={toys.PATH: "p", toys.INTO: "b"})
    cache = filled(fetch)
    rival = (Key("fetch", fetch.ref),)
    came, changed, went = cache.put(a_source("x")), cache.put(a_source("x", version=2)), cache.remove(at("admin", "x"))

    assert [change and change.rivals for change in (came, changed, went)] == [rival, rival, rival]
    assert list(cache.claimants(at("b", "x"))) == list(rival)


def test_the_cache_knows_which_version_the_watch_has_reported() -> None:
    cache = filled()
    cache.advance(SECRET, 10)

    assert [cache.watch_passed(SECRET, version) for version in (9, 10, 11)] == [True, True, False]
    assert not cache.watch_passed(NAMESPACE, 9)
    cache.advance(SECRET, 8)
    assert cache.watch_passed(SECRET, 10)


def test_an_object_that_a_list_missed_is_taken_and_its_kind_listed_again() -> None:
    cache = filled()
    cache.put_unlisted(a_source("x"))
    assert cache.get(at("admin", "x")) is not None
    assert cache.stores[SECRET].needs_relist
    cache.begin_relist(SECRET)
    assert not cache.stores[SECRET].needs_relist


def test_a_kind_that_is_not_watched_has_no_objects_and_is_never_synced() -> None:
    other = Kind("", "v1", "ConfigMap", "configmaps")

    assert not filled().has_synced(other)
    assert filled().get(at("a", "x", other)) is None


# memory


def wire(number: int) -> bytes:
    """A copy as the server sends it."""
    ours: dict[str, Any] = {
        "f:data": {},
        "f:metadata": {"f:annotations": {f"f:{ORIGIN}": {}}, "f:labels": {f"f:{FROM}": {}}},
    }
    meta = {
        "name": "db",
        "namespace": f"namespace-{number:05}",
        "uid": f"0b5f3a52-1111-4222-8333-{number:012}",
        "resourceVersion": str(1_000_000 + number),
        "creationTimestamp": "2026-11-15T10:00:00Z",
        "labels": {FROM: "admin-db"},
        "annotations": {ORIGIN: "admin/db"},
        "managedFields": [
            {"manager": FIELD_MANAGER, "operation": "Update", "time": "2026-11-15T10:00:00Z", "fieldsV1": ours}
        ],
    }
    return json.dumps({"metadata": meta, "data": {"password": "x" * 1024}, "type": "Opaque"}).encode()


def test_ten_thousand_copies_share_one_content_and_cost_little_each() -> None:
    codec, cache, many = Codec(frozenset({FIELD_MANAGER})), filled(), 10_000
    wires = list(map(wire, range(many)))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for raw in wires:
            cache.put(codec.object(SECRET, raw))
        size = (tracemalloc.get_traced_memory()[0] - before) / many
    finally:
        tracemalloc.stop()

    copies = list(cache.copies_of(a_key()))
    assert len(copies) == many
    assert len({id(obj.content) for obj in copies}) == 1
    assert len({id(obj.annotations) for obj in copies}) == 1
    assert copies[0].managed_keys == {
        ManagedKey(FIELD_MANAGER, "annotations", ORIGIN),
        ManagedKey(FIELD_MANAGER, "labels", FROM),
    }
    assert size < 900, f"{size:.0f} bytes per copy"


def test_forged_marks_do_not_fill_the_memory() -> None:
    codec, cache, many = Codec(frozenset({FIELD_MANAGER})), filled(), 50
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(many):
            cache.put(codec.object(SECRET, wire(number).replace(b"x" * 1024, f"{number}-".encode() * 50_000)))
        size = (tracemalloc.get_traced_memory()[0] - before) / many
    finally:
        tracemalloc.stop()

    assert len(list(cache.copies_of(a_key()))) == many
    # Each has 100,000 bytes or more; the interpreter's own table of strings may happen to grow meanwhile.
    assert size < 60_000, f"{size:.0f} bytes per copy"


def test_an_unrelated_object_costs_a_hash() -> None:
    cache, many = filled(a_namespace("a")), 10_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(many):
            cache.note_ignored(at("a", f"theirs-{number}"))
        size = (tracemalloc.get_traced_memory()[0] - before) / many
    finally:
        tracemalloc.stop()

    assert cache.exists_unread(at("a", "theirs-7"))
    assert size < 120, f"{size:.0f} bytes per object"


@pytest.mark.parametrize("listed", [None, NamespaceNames(("b", "zz"), (), frozenset({"b", "zz"}))])
def test_listed_namespaces_are_returned_without_a_lookup(listed: NamespaceNames | None) -> None:
    cache = filled(a_namespace("a"), a_namespace("b"))

    assert tuple(cache.namespaces(listed)) == (("a", "b") if listed is None else ("b", "zz"))


def test_a_kind_whose_crd_is_gone_is_not_synced_until_it_is_listed_again() -> None:
    cache = a_plain_cache(REGISTRY)
    cache.stores[SECRET].listed = True
    assert cache.has_synced(SECRET)
    cache.set_served(SECRET, False)
    assert not cache.has_synced(SECRET)
    assert cache.is_settled(SECRET)


# near misses


def a_near_miss(version: int = 1, **more: Any) -> Object:
    return an_object(at("a", "x"), version, annotations={TARGETS: "b"}, content=secret("one"), uid="u1", **more)


def test_of_an_object_with_near_misses_only_its_uid_and_these_are_kept() -> None:
    cache = filled(a_near_miss())
    missed = cache.near_misses(at("a", "x"))
    assert missed is not None
    assert (missed.uid, [miss.key for miss in missed.misses]) == ("u1", [TARGETS])
    assert list(cache.with_near_misses()) == [at("a", "x")]
    assert cache.get(at("a", "x")) is None
    assert cache.exists_unread(at("a", "x"))


def test_near_misses_end_with_a_change_a_deletion_or_a_list_without_the_object() -> None:
    mended = filled(a_near_miss(), an_object(at("a", "x"), 2, uid="u1"))
    deleted, missing = filled(a_near_miss()), filled(a_near_miss())
    deleted.remove(at("a", "x"), 2)
    (change,) = missing.finish_list(SECRET, set(), 2)
    assert change.ref == at("a", "x")
    for cache in (mended, deleted, missing):
        assert list(cache.with_near_misses()) == []
        assert cache.near_misses(at("a", "x")) is None


def test_near_misses_of_a_kept_object_are_those_that_it_has_now() -> None:
    cache = filled(a_source("x"))
    assert cache.near_misses(at("admin", "x")) is None
    cache.put(an_object(at("admin", "x"), 2, uid="uid of admin/x", annotations={TARGETS: "", f"{TARGETS}s": ""}))
    missed = cache.near_misses(at("admin", "x"))
    assert missed is not None
    assert [miss.key for miss in missed.misses] == [f"{TARGETS}s"]
    assert cache.get(at("admin", "x")) is not None


def test_an_object_with_near_misses_costs_little() -> None:
    """Its annotation may be long, and its content is not kept."""
    cache, many = filled(a_namespace("a")), 2_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(many):
            annotations = {TARGETS: f"b,{number}," + "c," * 5_000}
            cache.put(an_object(at("a", f"x-{number}"), 1, annotations=annotations, content=secret("one")))
        size = (tracemalloc.get_traced_memory()[0] - before) / many
    finally:
        tracemalloc.stop()

    assert len(list(cache.with_near_misses())) == many
    assert size < 700, f"{size:.0f} bytes per object"


def test_the_near_misses_of_so_many_objects_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MOST_NEAR_MISSED", 3)
    cache = filled(a_namespace("a"))

    def put(number: int, version: int, **annotations: str) -> None:
        cache.put(an_object(at("a", f"x-{number}"), version, annotations={TARGETS: "b", **annotations}))

    for number in range(5):
        put(number, 1)
    assert [ref.name for ref in cache.with_near_misses()] == ["x-0", "x-1", "x-2"]
    put(1, 2, more="of it")  # an object that is kept stays so
    cache.remove(at("a", "x-0"), 2)
    put(4, 2)
    assert [ref.name for ref in cache.with_near_misses()] == ["x-1", "x-2", "x-4"]
    assert cache.exists_unread(at("a", "x-3"))
