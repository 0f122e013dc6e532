"""The indexes over what sources list and hold: a new namespace finds them, and a source that ends wakes the refused."""

from __future__ import annotations

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
from samara.kube.indexes import SizeIndex
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
