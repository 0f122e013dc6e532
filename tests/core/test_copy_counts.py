"""What is right, pending and blocked."""

import pytest
from tests.support.world import at, secret

from samara.core.copy_counts import CopyCounts, total
from samara.core.desired import Copy, Template
from samara.core.model import Key, Ref
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
    found = tally.by_reason().items()
    return {reason: {ref: missing.shown(ref) for ref, missing in places.items()} for reason, places in found}


def figures(tally: CopyCounts) -> tuple[int, int, int, int]:
    return tally.wanted, tally.in_sync, tally.pending, tally.blocked


def test_a_place_is_right_pending_or_blocked() -> None:
    create = Create(KEY, B, Copy(B, Template(secret())))
    tally = counted(step(A, None), step(B, create), step(C, Blocked(KEY, C, "conflict", "taken")))
    assert figures(tally) == (3, 1, 1, 1)


def test_a_place_to_look_at_is_pending() -> None:
    assert figures(counted(step(A, ReadFirst(A)))) == (1, 0, 1, 0)


def test_what_is_not_wanted_does_not_count() -> None:
    assert figures(counted(step(A, Blocked(KEY, A, "held", "paused"), desired=False))) == (0, 0, 0, 0)


def test_a_write_that_succeeds_makes_its_place_right() -> None:
    tally = counted(step(A, Create(KEY, A, Copy(A, Template(secret())))))
    tally.mark_in_sync(A)
    assert figures(tally) == (1, 1, 0, 0)


def test_a_write_that_is_refused_blocks_its_place() -> None:
    tally = counted(step(A, Create(KEY, A, Copy(A, Template(secret())))))
    tally.mark_blocked(A, "refused", "quota")
    assert figures(tally) == (1, 0, 0, 1)


def test_a_refused_delete_of_what_is_not_wanted_blocks_nothing() -> None:
    tally = counted(step(A, None))
    tally.mark_blocked(B, "refused", "no right to delete")
    assert figures(tally) == (1, 1, 0, 0)


def test_a_slice_is_counted_anew_and_the_others_stay() -> None:
    tally = counted(step(A, Blocked(KEY, A, "conflict", "taken")), step(B, Blocked(KEY, B, "conflict", "taken")))
    tally.reset("a")
    tally.count(step(A, None))
    assert figures(tally) == (2, 1, 0, 1)


def test_a_slice_that_is_no_longer_wanted_leaves_the_tally() -> None:
    tally = counted(step(A, Blocked(KEY, A, "conflict", "taken")), step(B, None))
    tally.reset("a")
    assert figures(tally) == (1, 1, 0, 0)


def test_a_whole_plan_starts_from_nothing() -> None:
    tally = counted(step(A, None), step(B, Blocked(KEY, B, "conflict", "taken")))
    tally.reset(None)
    assert figures(tally) == (0, 0, 0, 0)


def test_what_is_missing_is_found_by_its_namespace() -> None:
    """Ten thousand slices must not look through ten thousand exceptions each."""
    other = at("a", "y")
    tally = counted(step(A, ReadFirst(A)), step(other, ReadFirst(other)), step(B, ReadFirst(B)), step(C, None))
    assert {namespace: set(found) for namespace, found in tally.exceptions.items()} == {"a": {A, other}, "b": {B}}
    tally.mark_in_sync(A)
    tally.mark_in_sync(B)
    tally.mark_in_sync(C)
    assert {namespace: set(found) for namespace, found in tally.exceptions.items()} == {"a": {other}}
    assert figures(tally) == (4, 3, 1, 0)


def test_reasons_are_gathered_over_all_namespaces() -> None:
    steps = [step(ref, Blocked(KEY, ref, "conflict", f"taken in {ref.namespace}")) for ref in (A, B)]
    assert shown(counted(*steps, step(C, ReadFirst(C)))) == {"conflict": {A: "taken in a", B: "taken in b"}}


def test_a_message_that_only_names_its_namespace_is_kept_once_for_all_places() -> None:
    """A list may name ten thousand namespaces that do not exist."""
    one, two = at("team-one", "x"), at("team-two", "x")
    steps = [step(ref, Blocked(KEY, ref, "no-namespace", f"namespace {ref.namespace} is absent")) for ref in (one, two)]
    tally = counted(*steps)
    assert tally.exceptions["team-one"][one] is tally.exceptions["team-two"][two]
    texts = {one: "namespace team-one is absent", two: "namespace team-two is absent"}
    assert shown(tally) == {"no-namespace": texts}


def test_what_is_pending_is_kept_once_for_all_places() -> None:
    tally = counted(step(A, ReadFirst(A)), step(B, ReadFirst(B)))
    assert tally.exceptions["a"][A] is tally.exceptions["b"][B]


@pytest.mark.parametrize("message", ["", "a", "namespace a has a banana"])
def test_a_message_is_shown_as_it_was_given(message: str) -> None:
    tally = counted(step(A, None))
    tally.mark_blocked(A, "refused", message)
    assert shown(tally) == {"refused": {A: message}}


def test_namespaces_that_went_leave_the_tally() -> None:
    tally = counted(step(A, None), step(B, Blocked(KEY, B, "conflict", "taken")), step(C, ReadFirst(C)))
    tally.retain({A, A._replace(namespace="new")})
    assert figures(tally) == (1, 1, 0, 0)
    assert not tally.exceptions


def test_a_removal_that_is_refused_is_told_no_more_once_its_namespace_is_planned_anew() -> None:
    """Somebody else may have removed the copy; where not, the removal is offered and refused again."""
    tally = counted(step(A, None))
    tally.mark_not_removed(B, "refused", "a policy")
    tally.mark_not_removed(C, "refused", "a policy")
    tally.reset("b")
    assert set(tally.removals) == {C}


def test_a_large_plan_that_is_done_tells_of_no_removal_of_before() -> None:
    tally = counted(step(A, None))
    tally.mark_not_removed(B, "refused", "a policy")
    tally.retain({A})
    assert not tally.removals
    assert figures(tally) == (1, 1, 0, 0)


def test_places_that_nobody_wants_any_more_leave_the_tally_also_where_their_namespace_stays() -> None:
    mistyped = A._replace(name="mistyped")
    unserved = A._replace(kind=A.kind._replace(name="Unserved"))
    tally = counted(*(step(ref, Blocked(KEY, ref, "invalid", "not served")) for ref in (mistyped, unserved)))
    tally.count(step(A, None))
    tally.retain({A})
    assert figures(tally) == (1, 1, 0, 0)


def test_metrics_are_the_sums() -> None:
    one, two = counted(step(A, None)), counted(step(B, None), step(C, Blocked(KEY, C, "held", "paused")))
    assert dict(total([one, two])) == {"right": 2, "pending": 0, "blocked": 1}


PAUSED = Blocked(KEY, A, "held", "its namespace is paused")


def test_a_copy_that_may_not_go_is_told_until_it_may() -> None:
    tally = counted(step(A, PAUSED, desired=False))
    assert list(tally.problems()) == ["held"]
    tally.mark_held([B])
    assert set(tally.removals) == {A, B}
    assert list(tally.problems()["held"]) == [A]
    tally.retain(())
    assert set(tally.removals) == {A}
    tally.reset("a")
    assert tally.removals == {}


def test_a_plan_says_of_which_copies_that_should_go_something_stands_against_it() -> None:
    assert list(CopyCounts.of(Plan((step(A, PAUSED, desired=False),))).removals) == [A]


def test_what_a_pause_held_back_before_a_large_plan_is_said_anew_by_it() -> None:
    tally = counted(step(A, PAUSED, desired=False))
    tally.mark_held([B])
    tally.start_chunked()
    assert set(tally.removals) == {B}
