"""When a failed write is tried again, and when its failure is reported."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NoReturn

import pytest
from tests.support.samples import Clock, a_key, a_namespace, create, numbered
from tests.support.world import at

from samara.core.desired import Overlay
from samara.core.model import Key, Ref, namespace_ref
from samara.core.writes import Apply
from samara.engine.retry import RetryBackoff, RetryState
from samara.engine.writer import Ending, Result

REFUSED = Result(Ending.REFUSED, "quota")
FAILED = Result(Ending.FAILED, "500")
BROKEN = Result(Ending.FAILED, "a webhook fails", server_fault=True)
STALE = Result(Ending.STALE, "409")
MOST = 900.0


def backoff_at(backoffs: RetryBackoff, ref: Ref) -> RetryState | None:
    """The backoff that still delays a write to this address."""
    here = backoffs._by_namespace.get(ref.namespace or ref.name, {})
    return next((wait for (_, at_), wait in here.items() if at_ == ref and wait.until > backoffs._clock()), None)


def waits_after(backoffs: RetryBackoff, clock: Clock, result: Result, times: int) -> list[float]:
    noted = []
    for _ in range(times):
        noted.append(backoffs.note(create("a"), result))
        clock.now += noted[-1]
    return noted


def test_the_wait_after_a_refusal_doubles_up_to_fifteen_minutes() -> None:
    clock = Clock()
    waited = waits_after(RetryBackoff(MOST, clock), clock, REFUSED, 14)

    for number, delay in enumerate(waited):
        assert min(2.0 * 2**number, MOST) * 0.8 <= delay <= min(2.0 * 2**number, MOST) * 1.2 + 0.2


def test_an_unreported_failure_counts_as_retrying_until_it_is_due() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    retrying = [backoffs.is_retrying]
    delay = backoffs.note(create("a"), FAILED)
    retrying.append(backoffs.is_retrying)
    clock.now += delay  # then it is queued, or in flight
    retrying.append(backoffs.is_retrying)
    assert retrying == [False, True, False]


def test_a_reported_failure_does_not_count_as_retrying() -> None:
    backoffs = RetryBackoff(MOST, Clock())
    for _ in range(3):
        backoffs.note(create("a"), BROKEN)
    backoffs.note(create("b"), REFUSED)
    assert not backoffs.is_retrying


def test_the_longest_wait_is_a_setting() -> None:
    clock = Clock()

    assert max(waits_after(RetryBackoff(10.0, clock), clock, REFUSED, 12)) <= 12.2


def test_the_wait_after_a_failure_grows_to_half_a_minute() -> None:
    clock = Clock()
    waited = waits_after(RetryBackoff(MOST, clock), clock, FAILED, 100)

    assert waited[0] <= 0.24
    assert 24.0 <= waited[-1] <= 36.0


def test_a_stale_write_is_retried_at_once_and_then_with_backoff() -> None:
    clock = Clock()
    waited = waits_after(RetryBackoff(MOST, clock), clock, STALE, 3)

    assert waited[0] == 0.0
    assert 0.0 < waited[1] < waited[2]


def test_a_retry_waits_at_least_for_retry_after() -> None:
    backoffs = RetryBackoff(MOST, Clock())

    assert backoffs.note(create("a"), FAILED._replace(retry_after=17.0)) == 17.0


def test_retry_after_is_limited_to_a_minute() -> None:
    backoffs = RetryBackoff(MOST, Clock())

    assert backoffs.note(create("a"), FAILED._replace(retry_after=86_400.0)) == 60.0


def test_all_refused_retries_together_are_at_most_five_per_second() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    times = []
    for namespace in numbered(0, 400):
        times.append(clock.now + backoffs.note(create(namespace), REFUSED))
        clock.now += 0.001
    times.sort()

    assert all(later - sooner > 0.2 - 1e-6 for sooner, later in pairwise(times))
    assert times[-1] < clock.now + 400 * 0.2 + 5


def test_a_long_wait_at_one_address_does_not_delay_another() -> None:
    clock = Clock()
    backoffs = RetryBackoff(MOST, clock)
    waits_after(backoffs, clock, REFUSED, 10)
    backoffs.note(create("a"), REFUSED)

    assert backoffs.note(create("b"), REFUSED) < 3.0


def test_thousands_of_retries_are_spread_out_and_past_slots_forgotten() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    for round_ in range(6):
        for namespace in numbered(0, 1000):
            backoffs.note(create(namespace, a_key(str(round_))), REFUSED)
        assert backoffs.note(create("a"), REFUSED) > 195.0
        clock.now += 1000.0

    assert len(backoffs._slots) < 3500


def test_only_the_address_that_failed_waits() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    delay = backoffs.note(create("a"), REFUSED)

    held = backoff_at(backoffs, at("a", "db"))
    assert held is not None
    assert (held.is_reported, held.message, held.attempts) == (True, "quota", 1)
    assert backoff_at(backoffs, at("b", "db")) is None
    assert backoff_at(backoffs, at("a", "other")) is None
    clock.now += delay
    assert backoff_at(backoffs, at("a", "db")) is None


def test_each_address_counts_its_own_attempts() -> None:
    clock = Clock()
    backoffs = RetryBackoff(MOST, clock)
    waits_after(backoffs, clock, REFUSED, 6)

    assert backoffs.note(create("a", name="other"), REFUSED) < 3.0


def test_a_success_resets_the_backoff() -> None:
    clock = Clock()
    backoffs = RetryBackoff(MOST, clock)
    waits_after(backoffs, clock, REFUSED, 6)
    backoffs.forget(a_key(), at("a", "db"))

    assert backoff_at(backoffs, at("a", "db")) is None
    assert backoffs.note(create("a"), REFUSED) < 3.0


def test_a_change_in_a_namespace_ends_its_backoffs() -> None:
    backoffs = RetryBackoff(MOST, Clock())
    for namespace in ("a", "b"):
        backoffs.note(create(namespace), REFUSED)
        backoffs.note(create(namespace, a_key("other")), REFUSED)

    assert set(backoffs.end_in_namespace("a")) == {
        (a_key().in_namespace("a"), 0.0),
        (a_key("other").in_namespace("a"), 0.0),
    }
    assert backoffs.end_in_namespace("nobody") == []
    assert backoff_at(backoffs, at("a", "db")) is None
    assert backoff_at(backoffs, at("b", "db")) is not None


def test_a_write_that_is_refused_again_after_its_backoff_ended_waits_longer() -> None:
    """A quota changes with every Pod, so the end of a backoff must not reset it."""
    clock = Clock()
    backoffs = RetryBackoff(MOST, clock)
    waits_after(backoffs, clock, REFUSED, 6)
    backoffs.end_in_namespace("a")

    assert backoffs.note(create("a"), REFUSED) > 100.0


@pytest.mark.parametrize("ticks", [1, 2])
def test_a_change_during_a_retry_causes_another_retry_a_second_later(ticks: int) -> None:
    """When a quota is raised its spec changes first. Its status, which admission reads, changes during the next try."""
    backoffs = RetryBackoff(MOST, clock := Clock())
    waits_after(backoffs, clock, REFUSED, 6)
    clock.now += 0.01
    for _ in range(ticks):
        backoffs.end_in_namespace("a")
        clock.now += 0.01
    delay = backoffs.note(create("a"), REFUSED)

    held = backoff_at(backoffs, at("a", "db"))
    assert 0.9 < delay <= 1.0
    assert held is not None
    assert held.until == clock.now + delay
    clock.now += delay
    assert backoffs.note(create("a"), REFUSED) > 100.0


def test_a_change_does_not_shorten_the_wait_that_the_server_asked_for() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    backoffs.note(create("a"), REFUSED)
    for _ in range(2):
        backoffs.end_in_namespace("a")
        clock.now += 0.01

    assert backoffs.note(create("a"), Result(Ending.REFUSED, "later", retry_after=20.0)) >= 20.0


def test_the_backoffs_of_a_namespace_end_at_most_once_per_second() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    tries: set[float] = set()
    for _ in range(500):
        backoffs.note(create("a"), REFUSED)
        ((_, delay),) = backoffs.end_in_namespace("a")
        tries.add(round(clock.now + delay, 6))
        clock.now += 0.01

    ordered = sorted(tries)
    assert all(after - before >= 1.0 for before, after in pairwise(ordered))
    assert len(ordered) == 6


def test_the_backoffs_of_a_namespace_without_recent_changes_end_at_once() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    backoffs.note(create("a"), REFUSED)
    for _ in range(200):
        backoffs.end_in_namespace("a")
    clock.now += 3.0
    backoffs.note(create("a"), REFUSED)

    assert backoffs.end_in_namespace("a") == [(a_key().in_namespace("a"), 0.0)]


def test_a_write_due_before_the_next_end_keeps_its_time() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    backoffs.note(create("a"), FAILED)
    backoffs.end_in_namespace("a")
    soon = clock.now + backoffs.note(create("a", name="other"), FAILED)
    backoffs.end_in_namespace("a")

    held = backoff_at(backoffs, at("a", "other"))
    assert held is not None
    assert held.until == soon


def test_a_changed_source_ends_its_own_backoffs_only() -> None:
    backoffs = RetryBackoff(MOST, Clock())
    for namespace in ("a", "b"):
        backoffs.note(create(namespace), REFUSED)
        backoffs.note(create(namespace, a_key("other")), REFUSED)
    backoffs.end_for_source(a_key().source)

    assert [backoff_at(backoffs, at(namespace, "db")) for namespace in ("a", "b")] == [None, None]
    assert all(backoff_at(backoffs, at(namespace, "other")) for namespace in ("a", "b"))


def test_two_sources_at_one_address_have_backoffs_of_their_own() -> None:
    backoffs = RetryBackoff(MOST, clock := Clock())
    one, two = create("a", name="same"), create("a", a_key("other"), "same")
    for _ in range(6):
        backoffs.note(one, REFUSED)
    assert backoffs.note(two, REFUSED) < 3.0
    assert dict(backoffs.end_in_namespace("a")).keys() == {a_key().in_namespace("a"), a_key("other").in_namespace("a")}
    backoffs.forget(two.key, two.ref)
    clock.now += 1.0
    assert backoffs.note(one, REFUSED) > 100.0
    backoffs.end_for_source(a_key("other").source)
    assert backoffs.state_of(one) is not None
    backoffs.end_for_source(a_key().source)
    assert backoffs.state_of(one) is None


class Unsearched(dict[str, Any]):
    """Allows lookups, and no iteration."""

    def values(self) -> NoReturn:
        raise AssertionError("every backoff is searched")

    __iter__ = items = keys = values


def test_releasing_a_source_does_not_search_all_backoffs() -> None:
    backoffs = RetryBackoff(MOST, Clock())
    backoffs._by_namespace = Unsearched()
    backoffs.note(create("a"), REFUSED)
    backoffs.note(create("b", a_key("other")), REFUSED)
    backoffs.end_for_source(a_key().source)

    assert backoff_at(backoffs, at("a", "db")) is None
    assert backoff_at(backoffs, at("b", "db")) is None
    assert backoff_at(backoffs, at("b", "other")) is not None


def test_ended_backoffs_are_removed_from_the_indexes() -> None:
    backoffs = RetryBackoff(MOST, Clock())
    for namespace in ("a", "b"):
        backoffs.note(create(namespace), REFUSED)
    backoffs.forget(a_key(), at("a", "db"))
    backoffs.end_for_source(a_key().source)

    assert (backoffs._by_namespace, backoffs._by_source) == ({}, {})


def test_a_deleted_namespace_ends_its_backoffs() -> None:
    backoffs = RetryBackoff(MOST, Clock())
    for namespace in ("a", "b"):
        backoffs.note(create(namespace), REFUSED)
    backoffs.note(create("a", a_key("other")), REFUSED)
    backoffs.forget_object(namespace_ref("a"))
    backoffs.forget_object(namespace_ref("nobody"))

    assert backoffs._by_namespace.keys() == {"b"}
    assert backoffs._by_source == {a_key().source: {(a_key(), at("b", "db"))}}


def test_a_deleted_object_ends_its_backoffs() -> None:
    backoffs = RetryBackoff(MOST, Clock())
    for key in (a_key(), a_key("other")):
        backoffs.note(create("a", key), REFUSED)
    backoffs.forget_object(at("a", "db"))

    assert [ref.name for _, ref in backoffs._by_namespace["a"]] == ["other"]


def test_a_changed_namespace_ends_the_backoffs_of_writes_to_the_namespace_itself() -> None:
    backoffs = RetryBackoff(MOST, Clock())
    for name in ("a", "b"):
        have = a_namespace(name)
        backoffs.note(Apply(Key("tree", have.ref), have.ref, Overlay(have.ref), have), REFUSED)
    backoffs.note(create("a"), REFUSED)

    assert backoffs.end_in_namespace("a") == [(Key("tree", namespace_ref("a")), 0.0), (a_key().in_namespace("a"), 0.0)]
    assert backoff_at(backoffs, namespace_ref("a")) is None
    assert backoff_at(backoffs, namespace_ref("b")) is not None


@pytest.mark.parametrize("namespace", ["a", "nobody"])
def test_forgetting_an_unknown_write_does_nothing(namespace: str) -> None:
    backoffs = RetryBackoff(MOST, Clock())
    backoffs.note(create("a"), REFUSED)
    backoffs.forget(a_key(), at(namespace, "unheard-of"))

    assert backoff_at(backoffs, at("a", "db")) is not None


# faults of the server


def are_reported(*results: Result) -> list[bool]:
    """After each result: whether the failure is reported."""
    backoffs = RetryBackoff(MOST, Clock())
    reported = []
    for result in results:
        backoffs.note(create("a"), result)
        wait = backoffs.state_of(create("a"))
        assert wait is not None
        reported.append(wait.is_reported)
    return reported


def test_the_third_server_fault_in_a_row_is_reported() -> None:
    assert are_reported(BROKEN, BROKEN, BROKEN, BROKEN) == [False, False, True, True]


def test_an_overloaded_or_unreachable_server_does_not_change_the_number_of_faults() -> None:
    assert are_reported(FAILED, FAILED, FAILED, FAILED) == [False] * 4
    assert are_reported(BROKEN, BROKEN, FAILED, BROKEN, FAILED) == [False, False, False, True, True]


def test_an_answer_that_is_no_fault_resets_the_number_of_faults() -> None:
    assert are_reported(BROKEN, BROKEN, STALE, BROKEN, BROKEN, BROKEN) == [False] * 5 + [True]


def test_a_reported_failure_stays_known_when_its_retry_is_due() -> None:
    clock = Clock()
    backoffs = RetryBackoff(MOST, clock)
    backoffs.note(create("a"), REFUSED)
    clock.now += MOST
    wait = backoffs.state_of(create("a"))
    assert backoff_at(backoffs, at("a", "db")) is None
    assert wait is not None
    assert (wait.is_reported, wait.message) == (True, "quota")
