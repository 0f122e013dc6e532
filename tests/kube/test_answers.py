"""Tests the answers to queries: they are found by digests and bounded."""

from __future__ import annotations

import gc

import pytest
from tests.support import toys
from tests.support.caches import a_plain_cache, some_answers
from tests.support.samples import a_namespace, an_object
from tests.support.world import at

from samara.core.model import SECRET, Content, Field, Key, Kind, OwnerReference
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.queries import (
    UNREAD,
    DryRunCreate,
    NamespaceIsActive,
    OwnerAnnotation,
    Rejected,
    SecretPath,
    SecretReading,
)
from samara.core.registry import Registry
from samara.kube import answers

QUEUE = Kind("toys.dev", "v1", "Queue", "queues")
OTHER = Kind("toys.dev", "v1", "Other", "others")
CANARY = b"canary-7f3a9"


def a_trial(body: bytes = b"{}", kind: Kind = QUEUE) -> DryRunCreate:
    return DryRunCreate(kind, bytes(bytearray(body)))


def a_content(size: int, name: str = "spec") -> Content:
    return Content((Field(name, f"digest of {size}".encode(), b"x" * size),))


def held(of: object) -> bytes:
    """All bytes that are kept, here and below."""
    kept, waiting, seen = b"", [of], set()
    while waiting:
        obj = waiting.pop()
        if isinstance(obj, bytes):
            kept += obj
        if id(obj) not in seen and not isinstance(obj, type):
            seen.add(id(obj))
            waiting += gc.get_referents(obj) if not callable(obj) else []
    return kept


def test_an_answer_is_found_by_an_equal_query() -> None:
    known = some_answers()
    known.keep(a_trial(), Rejected("no"))
    assert known.value(a_trial()) == Rejected("no")
    assert known.value(a_trial(kind=OTHER)) is UNREAD
    assert known.value(a_trial(b"[]")) is UNREAD


def test_an_answer_can_be_kept_for_any_other_query() -> None:
    known = some_answers()
    known.keep(NamespaceIsActive("a"), True)
    assert (known.value(NamespaceIsActive("a")), known.value(NamespaceIsActive("b"))) == (True, UNREAD)


def test_the_body_of_a_dry_run_is_not_kept() -> None:
    known = some_answers()
    known.keep(a_trial(CANARY), Rejected("no"))
    gc.collect()
    assert CANARY not in held(known)


def test_two_processes_use_different_digests() -> None:
    """A digest does not reveal the body of the dry run."""
    both = [some_answers(), some_answers()]
    for known in both:
        known.keep(a_trial(), Rejected("no"))
    one, two = (set(known._answers) for known in both)
    assert not one & two


def test_a_forgotten_answer_is_unread() -> None:
    known = some_answers()
    known.keep(a_trial(), Rejected("no"))
    known.forget(a_trial())
    assert known.value(a_trial()) is UNREAD


@pytest.mark.parametrize(("askers", "again"), [(0, 1500), (500, 0), (1500, 0)])
def test_with_many_sources_every_answer_is_found(askers: int, again: int) -> None:
    """Otherwise each answer would displace one that is needed next, and all would be read again in every round."""
    known = some_answers(askers)
    queries = [
        OwnerAnnotation(OwnerReference("v1", "Thing", f"o{number}", f"uid-{number}"), "a", "says")
        for number in range(1500)
    ]
    reads = 0
    for query in queries * 2:
        if known.value(query) is UNREAD:
            reads += 1
            known.keep(query, "update")
    assert reads == 1500 + again


def test_there_is_room_for_an_answer_for_every_source() -> None:
    source_type = toys.propagation(SECRET, generated=True)
    cache = a_plain_cache(Registry((source_type,)))
    for store in cache.stores.values():
        store.listed = True
    cache.put(a_namespace("a"))
    for number in range(1500):
        owner = OwnerReference("v1", "Thing", f"o{number}", f"uid-{number}", controller=True)
        cache.put(an_object(at("a", f"s{number}"), owner_references=(owner,)))
    keys = [Key(source_type.name, source) for source in cache.sources(source_type.name)]
    for _ in range(2):
        for key in keys:
            for read in plan(key, cache, cache.registry, ClusterPolicy()).reads:
                cache.answers.keep(read, "update")

    assert len(keys) == 1500
    assert not any(plan(key, cache, cache.registry, ClusterPolicy()).reads for key in keys)


def test_the_answer_that_was_kept_longest_ago_is_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MAX_ANSWERS", 2)
    known = some_answers()
    for body in (b"1", b"2", b"1", b"3"):
        known.keep(a_trial(body), Rejected("no"))
    assert [known.value(a_trial(body)) is UNREAD for body in (b"1", b"2", b"3")] == [False, True, False]


def test_looking_up_an_answer_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the order in which plans are made would decide which answers are asked for again."""
    monkeypatch.setattr(answers, "_MAX_ANSWERS", 2)
    known = some_answers()
    for body in (b"1", b"2"):
        known.keep(a_trial(body), Rejected("no"))
    known.value(a_trial(b"1"))
    known.keep(a_trial(b"3"), Rejected("no"))
    assert [known.value(a_trial(body)) is UNREAD for body in (b"1", b"2", b"3")] == [True, False, False]


def test_answers_are_bounded_by_their_size_and_the_newest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source of a megabyte that changes every minute must not fill the memory with old bodies."""
    monkeypatch.setattr(answers, "_MAX_BYTES", 100)
    known = some_answers()
    for body, size in ((b"1", 60), (b"2", 60), (b"3", 30)):
        known.keep(a_trial(body), a_content(size))
    assert [known.value(a_trial(body)) is UNREAD for body in (b"1", b"2", b"3")] == [True, False, False]
    known.keep(a_trial(b"4"), a_content(500))
    assert [known.value(a_trial(body)) is UNREAD for body in (b"2", b"3", b"4")] == [True, True, False]


def test_a_replaced_answer_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MAX_BYTES", 100)
    known = some_answers()
    known.keep(a_trial(b"1"), a_content(30))
    for _ in range(5):
        known.keep(a_trial(b"2"), a_content(60))
    known.forget(a_trial(b"2"))
    known.keep(a_trial(b"3"), a_content(60))
    assert [known.value(a_trial(body)) is UNREAD for body in (b"1", b"2", b"3")] == [False, True, False]


def test_a_path_of_the_secret_manager_has_one_reading_for_all_intervals() -> None:
    known = some_answers()
    assert known.value(SecretPath("team/db", 300.0)) is UNREAD
    known.add_readings({"team/db": SecretReading(CANARY, "now")})
    assert known.value(SecretPath("team/db", 60.0)) == SecretReading(CANARY, "now")
    assert known.value(SecretPath("team/other", 60.0)) is UNREAD
