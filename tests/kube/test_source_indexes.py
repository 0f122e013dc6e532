"""The indexes over what sources list and hold: a new namespace finds them, and a source that ends wakes the refused."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st
from tests.support.caches import a_plain_cache
from tests.support.samples import a_namespace, an_object
from tests.support.toys import a_sync_to
from tests.support.world import at, secret

from samara.core.model import Key, Object, Ref
from samara.core.registry import Registry
from samara.core.restrictions import limited
from samara.core.source_limits import SourceLimits, SourceSize, excess
from samara.kube.cache import Cache
from samara.kube.indexes import NameIndex, SizeIndex
from samara.vocabularies.sync_to import FROM, NAME, SYNC_TO, SYNC_TO_NAMESPACES

LIMITS = SourceLimits(listed_names=3, listed_names_per_namespace=4, source_bytes_per_namespace=1000)


def a_cache() -> Cache:
    source_type = a_sync_to()
    return a_plain_cache(Registry((limited(source_type, LIMITS),)))


def a_source(name: str, targets: str, version: int = 1, namespace: str = "team") -> Object:
    asked = {SYNC_TO: "cluster"} if targets == "*" else {SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: targets}
    return an_object(at(namespace, name), version, annotations=asked, content=secret("one"), created=name)


def key(name: str, namespace: str = "team") -> Key:
    return Key(NAME, at(namespace, name))


def affected(cache: Cache, name: str) -> set[Ref]:
    return set(cache.registry[NAME].affected_by(a_namespace(name), cache))


def test_a_namespace_finds_the_sources_that_list_it_or_want_every_one() -> None:
    cache = a_cache()
    for source in (a_source("a", "x;y"), a_source("b", "y", namespace="other"), a_source("c", "*")):
        cache.put(source)

    assert affected(cache, "x") == {at("team", "a"), at("team", "c")}
    assert affected(cache, "y") == {at("team", "a"), at("other", "b"), at("team", "c")}
    assert affected(cache, "z") == {at("team", "c")}
    cache.put(a_source("a", "z", 2))
    cache.remove(at("team", "c"))

    assert affected(cache, "x") == set()
    assert affected(cache, "z") == {at("team", "a")}


def test_the_names_of_a_source_that_lists_too_many_are_not_kept() -> None:
    cache = a_cache()
    cache.put(a_source("a", "x;y;z;v"))

    assert cache.excess(key("a"))
    assert not list(cache.sources_naming(NAME, "x"))
    cache.put(a_source("a", "x;y;z", 2))
    assert not cache.excess(key("a"))
    assert list(cache.sources_naming(NAME, "x")) == [at("team", "a")]


def test_a_source_that_ends_wakes_those_that_the_limits_refused() -> None:
    cache = a_cache()
    for source in (a_source("a", "x;y;z"), a_source("b", "x;y"), a_source("c", "x")):
        cache.put(source)

    assert [bool(cache.excess(key(name))) for name in "abc"] == [False, True, False]
    change = cache.remove(at("team", "a"))

    assert change is not None
    assert key("b") in change.rivals
    assert not cache.excess(key("b"))


def test_an_edit_wakes_only_the_sources_that_the_limits_no_longer_refuse() -> None:
    """A tenant with thousands of refused sources could queue all of them with every edit of any other one."""
    cache = a_cache()
    for name, targets in {"a": "x;y;z", "b": "x;y", "c": "x", "d": "x;y", "e": "x;y;z;v"}.items():
        cache.put(a_source(name, targets))
    cache.put(a_namespace("x"))

    def refused() -> list[str]:
        return [name for name in "abcde" if cache.excess(key(name))]

    def woken(source: Object | None, name: str = "") -> set[str]:
        change = cache.remove(at("team", name)) if source is None else cache.put(source)
        assert change is not None
        return {rival.source.name for rival in change.rivals if rival.source.name in waiting}

    waiting = set(refused())
    assert waiting == {"b", "d", "e"}
    assert woken(a_source("a", "x;z;y", 2)) == set()
    assert woken(a_source("c", "y", 2)) == set()
    assert woken(None, "c") == set(), "one name is free, and the next one needs two"
    assert woken(a_source("c", "x", 3)) == set()
    assert woken(a_source("a", "x;y", 4)) == {"b"}
    waiting = set(refused())
    assert waiting == {"c", "d", "e"}
    assert woken(None, "b") == {"c"}
    assert woken(None, "a") == {"d"}
    assert refused() == ["e"]


def test_the_work_to_find_the_sources_that_list_a_name_does_not_grow_with_their_number() -> None:
    """A scan through 20,000 sources took 20 ms for each new namespace."""
    index, sources = NameIndex(), [at("team", f"s{number}") for number in range(20_000)]
    for number, source in enumerate(sources):
        index.add(source, [f"a{number}", f"b{number // 2}", "common"] if number < 1000 else [f"a{number}"])
    started = time.process_time()
    for number in range(0, 20_000, 20):
        assert index.naming(f"a{number}") == (sources[number],)
    assert time.process_time() - started < 0.5
    assert set(index.naming("b7")) == {sources[14], sources[15]}
    assert len(index.naming("common")) == 1000


_LISTS = st.lists(st.sampled_from([f"n{number}" for number in range(8)]), max_size=8)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | _LISTS), max_size=30), st.sampled_from([0, 2, 100]))
def test_the_index_of_names_finds_what_a_scan_finds(changes: list[tuple[str, list[str] | None]], few: int) -> None:
    index, listed = NameIndex(few), dict[Ref, list[str]]()
    for name, names in changes:
        ref = at("team", name)
        index.discard(ref)
        listed.pop(ref, None)
        if names is not None:
            index.add(ref, names)
            listed[ref] = names
        for number in range(8):
            expected = {ref for ref, names in listed.items() if f"n{number}" in names}
            assert set(index.naming(f"n{number}")) == expected
            assert len(index.naming(f"n{number}")) == len(expected)


def test_a_source_that_is_being_deleted_does_not_count() -> None:
    cache = a_cache()
    for source in (a_source("a", "x;y;z"), a_source("b", "x;y")):
        cache.put(source)
    ending = an_object(at("team", "a"), 2, annotations={SYNC_TO: "cluster"}, deleting=True, created="a")
    cache.put(ending)

    assert not cache.excess(key("b"))


def test_an_object_counts_whose_marks_are_not_proven() -> None:
    cache = a_cache()
    forged = {FROM: "team/a", SYNC_TO: "namespaces", SYNC_TO_NAMESPACES: "x;y;z"}
    cache.put(a_source("a", "b"))
    cache.put(an_object(at("b", "a"), annotations=forged, content=secret("one"), created="a"))
    cache.put(a_source("b", "x;y", namespace="b"))

    assert cache.excess(key("b", "b"))


_SIZES = st.builds(SourceSize, st.sampled_from(["1", "2", "3"]), st.integers(0, 4), st.integers(0, 800))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | _SIZES), max_size=20))
def test_the_index_refuses_what_the_rule_refuses(changes: list[tuple[str, SourceSize | None]]) -> None:
    index, sizes = SizeIndex(), dict[Key, SourceSize]()
    for name, size in changes:
        index.discard(key(name))
        sizes.pop(key(name), None)
        if size is not None:
            index.add(key(name), size, LIMITS)
            sizes[key(name)] = size
        refused = excess(sizes, LIMITS)
        assert {each: index.excess(each) for each in map(key, "abcdef")} == {
            each: refused.get(each, "") for each in map(key, "abcdef")
        }
