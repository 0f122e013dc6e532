"""Objects that a source reads: when the cache holds them in full, when it lets go of them, and what a change queues."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.caches import a_plain_cache
from tests.support.samples import an_object
from tests.support.world import at, secret

from samara.core.desired import Copy, Desired, Template
from samara.core.model import NAMESPACE, SECRET, Key, Object, Ref
from samara.core.ownership import ByMark
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.source_limits import SourceLimits
from samara.core.source_type import Annotated, Policy, SourceType
from samara.core.view import View
from samara.engine.triggers import next_hops, triggers
from samara.kube.cache import Cache

READS = "toy/reads"
READER, OTHER, INPUT = at("a", "reader"), at("b", "reader"), at("x", "input")


def reads(obj: Object) -> tuple[Ref, ...]:
    return tuple(Ref(SECRET, *path.split("/")) for path in obj.annotations[READS].split(","))


def desired(source: Ref, view: View) -> Desired:
    obj = view.get(source)
    found = None if obj is None else view.get(reads(obj)[0])
    return Desired() if found is None else Desired((Copy(at("target", source.name), Template(found.content)),))


READING = SourceType(
    "reading",
    (SECRET,),
    Annotated(frozenset({READS}), lambda obj, view: READS in obj.annotations, inputs=reads),
    ByMark(frozenset({"toy/from"}), lambda obj, view: None),
    desired,
    lambda obj, view: (),
)
REGISTRY = Registry((READING,))


def reader(ref: Ref = READER, path: str = "x/input", version: int = 1) -> Object:
    return an_object(ref, version, annotations={READS: path})


def an_input(version: int = 1, value: str = "one") -> Object:
    return an_object(INPUT, version, content=secret(value))


def a_cache(*objects: Object) -> Cache:
    cache = a_plain_cache(REGISTRY)
    for obj in objects:
        cache.put(obj)
    for kind in (NAMESPACE, SECRET):
        cache.stores[kind].listed = True
    return cache


def key(ref: Ref = READER) -> Key:
    return Key("reading", ref)


def test_an_object_that_a_source_reads_is_held_in_full_although_it_has_no_key_of_ours() -> None:
    cache = a_cache(reader())
    assert cache.must_parse(INPUT)
    cache.put(an_input())
    held = cache.get(INPUT)
    assert held is not None
    assert held.content.has_bytes


def test_an_object_that_no_source_reads_is_not_held() -> None:
    cache = a_cache(an_input())
    assert (cache.get(INPUT), cache.must_parse(INPUT)) == (None, False)


def test_an_object_that_exists_and_is_not_held_is_read_before_the_source_is_planned() -> None:
    cache = a_cache(an_input(), reader())
    planned = plan(key(), cache, REGISTRY, ClusterPolicy())
    assert (planned.ready, [read.ref for read in planned.read_first]) == (False, [INPUT])
    cache.put(an_input())
    assert plan(key(), cache, REGISTRY, ClusterPolicy()).ready


def test_an_object_of_which_only_digests_are_held_is_read_again() -> None:
    """The target of another source, for example: until now only its digests were needed."""
    at_target = at("target", "reader")
    cache = a_cache(reader(), an_object(at_target, content=secret()))
    held = cache.get(at_target)
    assert held is not None
    assert not held.content.has_bytes
    cache.put(reader(OTHER, at_target.path))
    assert cache.exists_unread(at_target)
    change = cache.put(an_object(at_target, content=secret()))
    assert change is not None
    assert not cache.exists_unread(at_target)


@pytest.mark.parametrize(
    "change", [lambda cache: cache.remove(READER), lambda cache: cache.put(reader(path="x/o", version=2))]
)
def test_an_object_that_no_source_reads_any_more_leaves_only_its_address(change: object) -> None:
    cache = a_cache(reader(), an_input())
    assert callable(change)
    change(cache)
    assert (cache.get(INPUT), cache.exists_unread(INPUT)) == (None, True)


def test_an_object_stays_as_long_as_one_source_reads_it() -> None:
    cache = a_cache(reader(), reader(OTHER), an_input())
    cache.remove(READER)
    assert cache.get(INPUT) is not None
    assert list(cache.readers(INPUT)) == [key(OTHER)]


def test_an_object_that_is_also_the_target_of_a_source_keeps_its_digests() -> None:
    at_target = at("target", "reader")
    cache = a_cache(reader(), reader(OTHER, at_target.path), an_object(at_target, content=secret()))
    cache.remove(OTHER)
    held = cache.get(at_target)
    assert held is not None
    assert not held.content.has_bytes


def test_an_object_that_is_no_target_any_more_stays_while_it_is_read() -> None:
    at_target = at("target", "reader")
    cache = a_cache(reader(), reader(at("b", "other"), at_target.path), an_object(at_target, content=secret()))
    cache.remove(READER)
    held = cache.get(at_target)
    assert held is not None
    assert held.content.has_bytes


def test_a_list_that_does_not_contain_an_input_removes_it_and_queues_its_reader() -> None:
    cache = a_cache(reader(), an_input())
    changes = cache.finish_list(SECRET, {hash((READER.namespace, READER.name))})
    assert [set(triggers(change, REGISTRY, cache).keys) for change in changes] == [{key()}]


@pytest.mark.parametrize("ref", [INPUT])
def test_every_change_of_an_input_queues_its_readers(ref: Ref) -> None:
    cache = a_cache(reader(), reader(OTHER))
    made = cache.put(an_input())
    edited = cache.put(an_input(2, "two"))
    removed = cache.remove(ref)
    for change in (made, edited, removed):
        assert change is not None
        assert set(triggers(change, REGISTRY, cache).keys) == {key(), key(OTHER)}


def test_our_own_write_to_an_input_queues_its_readers_at_once() -> None:
    cache = a_cache(reader(), an_input())
    change = cache.put(an_input(2, "two"))
    assert change is not None
    assert list(next_hops(change, REGISTRY, cache)) == [key()]


def test_a_source_that_reads_another_source_is_queued_with_it() -> None:
    cache = a_cache(reader(), reader(OTHER, READER.path), an_input())
    assert set(cache.readers(INPUT)) == {key(), key(OTHER)}


def test_sources_that_read_each_other_are_found_once() -> None:
    cache = a_cache(reader(path=OTHER.path), reader(OTHER, READER.path))
    assert sorted(cache.readers(READER)) == [key(), key(OTHER)]


def test_an_input_of_a_kind_that_is_not_listed_delays_the_plan() -> None:
    cache = a_cache(reader())
    cache.stores[SECRET].listed = False
    assert not plan(key(), cache, REGISTRY, ClusterPolicy()).ready


def test_a_disabled_source_type_reads_nothing() -> None:
    registry = Registry((replace(READING, enabled=False),))
    cache = a_plain_cache(registry)
    cache.put(reader())
    assert not cache.must_parse(INPUT)


def test_what_a_source_reads_counts_for_its_namespace_and_beyond_the_limit_no_content_is_held() -> None:
    limits = SourceLimits(source_bytes_per_namespace=2500)
    registry = Registry((replace(READING, policy=Policy(limits=limits)),))
    cache = a_plain_cache(registry)
    inputs = [at("x", f"input-{number}") for number in range(3)]
    for number, ref in enumerate(inputs):
        cache.put(reader(at("a", f"reader-{number}"), ref.path))
    for ref in inputs:
        cache.put(an_object(ref, content=secret("v" * 1000)))
    held = [obj.content.has_bytes for ref in inputs if (obj := cache.get(ref)) is not None]
    assert sorted(held) == [False, True, True]
    assert not any(cache.exists_unread(ref) for ref in inputs)
    cache.remove(at("a", "reader-0"))
    left = [ref for ref in inputs[1:] if cache.exists_unread(ref)]
    assert len(left) == held[1:].count(False)
