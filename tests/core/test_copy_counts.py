"""Counts of copies that are in sync, pending and blocked."""

import time
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.world import at, secret

from samara.core.copy_counts import CopyCounts, count_by_state
from samara.core.desired import Copy, Template
from samara.core.model import Key, Ref
from samara.core.names import PackedNames
from samara.core.writes import Blocked, Create, Outcome, Plan, ReadFirst, Step

KEY = Key("toy", at("admin", "x"))
A, B, C = at("a", "x"), at("b", "x"), at("c", "x")


def step(ref: Ref, outcome: Outcome, desired: bool = True) -> Step:
    return Step(ref, outcome, "a rule", desired)


def counted(*steps: Step) -> CopyCounts:
    tally = CopyCounts()
    for step in steps:
        tally.count(step)
    return tally


def shown(tally: CopyCounts) -> dict[str, dict[Ref, str]]:
    by_reason = tally.by_reason().items()
    return {reason: {ref: missing.shown(ref) for ref, missing in places.items()} for reason, places in by_reason}


def figures(tally: CopyCounts) -> tuple[int, int, int, int]:
    return tally.wanted, tally.in_sync, tally.pending, tally.blocked


def test_a_desired_address_is_in_sync_pending_or_blocked() -> None:
    create = Create(KEY, B, Copy(B, Template(secret())))
    tally = counted(step(A, None), step(B, create), step(C, Blocked(KEY, C, "conflict", "taken")))
    assert figures(tally) == (3, 1, 1, 1)


def test_an_address_that_must_be_read_first_is_pending() -> None:
    assert figures(counted(step(A, ReadFirst(A)))) == (1, 0, 1, 0)


def test_an_unwanted_copy_is_not_counted() -> None:
    assert figures(counted(step(A, Blocked(KEY, A, "held", "paused"), desired=False))) == (0, 0, 0, 0)


def test_a_successful_write_brings_its_address_in_sync() -> None:
    tally = counted(step(A, Create(KEY, A, Copy(A, Template(secret())))))
    tally.mark_in_sync(A)
    assert figures(tally) == (1, 1, 0, 0)


def test_a_refused_write_blocks_its_address() -> None:
    tally = counted(step(A, Create(KEY, A, Copy(A, Template(secret())))))
    tally.mark_blocked(A, "refused", "quota")
    assert figures(tally) == (1, 0, 0, 1)


def test_a_refused_delete_of_an_unwanted_copy_blocks_no_desired_copy() -> None:
    tally = counted(step(A, None))
    tally.mark_blocked(B, "refused", "no right to delete")
    assert figures(tally) == (1, 1, 0, 0)


def test_a_slice_is_counted_again_and_the_others_keep_their_counts() -> None:
    tally = counted(step(A, Blocked(KEY, A, "conflict", "taken")), step(B, Blocked(KEY, B, "conflict", "taken")))
    tally.reset("a")
    tally.count(step(A, None))
    assert figures(tally) == (2, 1, 0, 1)


def test_a_slice_that_is_no_longer_wanted_is_not_counted() -> None:
    tally = counted(step(A, Blocked(KEY, A, "conflict", "taken")), step(B, None))
    tally.reset("a")
    assert figures(tally) == (1, 1, 0, 0)


def test_a_complete_plan_resets_all_counts() -> None:
    tally = counted(step(A, None), step(B, Blocked(KEY, B, "conflict", "taken")))
    tally.reset(None)
    assert figures(tally) == (0, 0, 0, 0)


def test_exceptions_are_indexed_by_namespace() -> None:
    """Ten thousand slices must not look through ten thousand exceptions each."""
    other = at("a", "y")
    tally = counted(step(A, ReadFirst(A)), step(other, ReadFirst(other)), step(B, ReadFirst(B)), step(C, None))
    assert {namespace: set(missing) for namespace, missing in tally.not_in_sync.items()} == {"a": {A, other}, "b": {B}}
    tally.mark_in_sync(A)
    tally.mark_in_sync(B)
    tally.mark_in_sync(C)
    assert {namespace: set(missing) for namespace, missing in tally.not_in_sync.items()} == {"a": {other}}
    assert figures(tally) == (4, 3, 1, 0)


def test_reasons_are_collected_across_all_namespaces() -> None:
    steps = [step(ref, Blocked(KEY, ref, "conflict", f"taken in {ref.namespace}")) for ref in (A, B)]
    assert shown(counted(*steps, step(C, ReadFirst(C)))) == {"conflict": {A: "taken in a", B: "taken in b"}}


def test_a_message_that_differs_only_in_the_namespace_is_stored_once() -> None:
    """A list may name ten thousand namespaces that do not exist."""
    one, two = at("team-one", "x"), at("team-two", "x")
    steps = [step(ref, Blocked(KEY, ref, "no-namespace", f"namespace {ref.namespace} is absent")) for ref in (one, two)]
    tally = counted(*steps)
    assert len(tally.absent) == 1
    texts = {one: "namespace team-one is absent", two: "namespace team-two is absent"}
    assert shown(tally) == {"no-namespace": texts}


def test_a_pending_exception_is_stored_once_for_all_addresses() -> None:
    tally = counted(step(A, ReadFirst(A)), step(B, ReadFirst(B)))
    assert tally.not_in_sync["a"][A] is tally.not_in_sync["b"][B]


@pytest.mark.parametrize("message", ["", "a", "namespace a has a banana"])
def test_a_message_is_shown_unchanged(message: str) -> None:
    tally = counted(step(A, None))
    tally.mark_blocked(A, "refused", message)
    assert shown(tally) == {"refused": {A: message}}


def test_deleted_namespaces_are_not_counted() -> None:
    tally = counted(step(A, None), step(B, Blocked(KEY, B, "conflict", "taken")), step(C, ReadFirst(C)))
    tally.end_chunked_plan({A, A._replace(namespace="new")})
    assert figures(tally) == (1, 1, 0, 0)
    assert not tally.not_in_sync


def test_a_refused_removal_is_no_longer_reported_once_its_namespace_is_planned_again() -> None:
    """Another user may have deleted the copy. If not, the next plan deletes it and is refused again."""
    tally = counted(step(A, None))
    tally.mark_not_removed(B, "refused", "a policy")
    tally.mark_not_removed(C, "refused", "a policy")
    tally.reset("b")
    assert set(tally.removals) == {C}


def test_a_finished_large_plan_forgets_earlier_refused_removals() -> None:
    tally = counted(step(A, None))
    tally.mark_not_removed(B, "refused", "a policy")
    tally.end_chunked_plan({A})
    assert not tally.removals
    assert figures(tally) == (1, 1, 0, 0)


def test_addresses_that_are_no_longer_wanted_are_not_counted_even_if_their_namespace_stays() -> None:
    mistyped = A._replace(name="mistyped")
    unserved = A._replace(kind=A.kind._replace(name="Unserved"))
    tally = counted(*(step(ref, Blocked(KEY, ref, "invalid", "not served")) for ref in (mistyped, unserved)))
    tally.count(step(A, None))
    tally.end_chunked_plan({A})
    assert figures(tally) == (1, 1, 0, 0)


def test_metrics_are_the_sums() -> None:
    one, two = counted(step(A, None)), counted(step(B, None), step(C, Blocked(KEY, C, "held", "paused")))
    assert dict(count_by_state([one, two])) == {"right": 2, "pending": 0, "blocked": 1}


PAUSED = Blocked(KEY, A, "held", "its namespace is paused")


def test_a_held_removal_is_reported_until_its_namespace_is_planned_again() -> None:
    tally = counted(step(A, PAUSED, desired=False))
    assert list(tally.problems()) == ["held"]
    tally.mark_held([B])
    assert set(tally.removals) == {A, B}
    assert list(tally.problems()["held"]) == [A]
    tally.end_chunked_plan(())
    assert set(tally.removals) == {A}
    tally.reset("a")
    assert tally.removals == {}


def test_a_plan_lists_the_removals_that_are_blocked() -> None:
    assert list(CopyCounts.of(Plan((step(A, PAUSED, desired=False),))).removals) == [A]


def test_a_large_plan_starts_without_the_held_removals_of_earlier_plans() -> None:
    tally = counted(step(A, PAUSED, desired=False))
    tally.mark_held([B])
    tally.begin_chunked_plan()
    assert set(tally.removals) == {B}


# namespaces that do not exist


def absent(ref: Ref) -> Step:
    return step(ref, Blocked(KEY, ref, "no-namespace", f"namespace {ref.namespace} does not exist yet"))


def test_a_copy_whose_namespace_is_missing_is_blocked_until_it_appears() -> None:
    tally = counted(absent(A), absent(B), absent(B))
    assert figures(tally) == (2, 0, 0, 2)
    assert shown(tally) == {"no-namespace": {A: "namespace a does not exist yet", B: "namespace b does not exist yet"}}
    tally.reset("a")
    tally.count(step(A, None))
    assert figures(tally) == (2, 1, 0, 1)
    tally.count(absent(A))
    assert figures(tally) == (2, 0, 0, 2)
    tally.end_chunked_plan({B})
    assert figures(tally) == (1, 0, 0, 1)
    tally.reset(None)
    assert figures(tally) == (0, 0, 0, 0)


def test_a_copy_is_blocked_no_longer_once_its_namespace_exists() -> None:
    """A large plan counts again without a reset."""
    tally = counted(absent(A), absent(B), step(A, None))
    assert figures(tally) == (2, 1, 0, 1)


def absent_namespaces(number: int) -> list[Ref]:
    return [Ref(A.kind, f"namespace-with-a-long-name-{index:06}", A.name) for index in range(number)]


def cpu_of_large_plan(tally: CopyCounts, refs: Iterable[Ref]) -> float:
    steps = list(map(absent, refs))
    wanted = {ref for ref, *_ in steps}
    started = time.process_time()
    tally.begin_chunked_plan()
    for each in steps:
        tally.count(each)
    tally.end_chunked_plan(wanted)
    return time.process_time() - started


def test_the_work_for_a_missing_namespace_does_not_grow_with_their_number() -> None:
    """A search through the text at every step took 4 s of CPU for 20,000 names, and 1.4 s to count them again."""
    tally, refs = CopyCounts(), absent_namespaces(20_000)
    assert cpu_of_large_plan(tally, refs) < 1.0
    assert cpu_of_large_plan(tally, refs) < 1.0
    assert tally.blocked == len(refs)


def test_names_of_missing_namespaces_cost_little_more_than_their_characters() -> None:
    tally = CopyCounts()
    tracemalloc.start()
    try:
        cpu_of_large_plan(tally, absent_namespaces(10_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tally.blocked == 10_000
    assert kept < 60 * 10_000


_NAMES = st.sampled_from(["a", "b", "ab", "a-b", "b-a", *(f"n{number}" for number in range(100))])


@given(st.lists(st.tuples(st.booleans(), _NAMES, st.sampled_from(["pack", "unpack", ""])), max_size=300))
def test_packed_names_are_a_set(changes: list[tuple[bool, str, str]]) -> None:
    packed, names = PackedNames(), set[str]()
    for is_added, name, form in changes:
        if form:
            getattr(packed, form)()
        (packed.add if is_added else packed.discard)(name)
        (names.add if is_added else names.discard)(name)
        assert (name in packed) == is_added
        assert len(packed) == len(names)
    assert (set(packed), len(packed)) == (names, len(names))
    assert len(list(packed)) == len(names)
    assert packed == PackedNames(names)
