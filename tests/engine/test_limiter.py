"""How many writes are sent at once, and how fast."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import cycle, islice, pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.scripted import Store, access, serving
from tests.support.samples import Clock, a_cache, a_key, a_registry, create, numbered

from samara.engine.limiter import ConcurrencyLimiter
from samara.engine.outbox import Outbox
from samara.engine.process import FaultPoints
from samara.engine.writer import Applier, Writer
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec

CEILING = 32
START = 16


def limiter(ceiling: int = CEILING, per_second: float = 0.0, clock: Clock | None = None) -> ConcurrencyLimiter:
    return ConcurrencyLimiter(ceiling, per_second, clock or Clock())


def overload(limits: ConcurrencyLimiter, retry_after: float | None = None) -> None:
    """Failures in two namespaces at once count as an overload of the server."""
    limits.note_overload("a", retry_after)
    limits.note_overload("b", retry_after)


def overload_until(limits: ConcurrencyLimiter, clock: Clock, limit: int) -> None:
    while limits.limit > limit:
        overload(limits)
        clock.now += 1.0


def fan_out(limits: ConcurrencyLimiter, latency: Callable[[int], float], writes: int) -> list[int]:
    """Sends writes as fast as the limit allows to a server that answers in order; returns the limit at each answer."""
    in_flight: deque[float] = deque()
    seen = []
    for _ in range(writes):
        while len(in_flight) < limits.limit:
            in_flight.append(latency(len(in_flight) + 1))
            limits.note_sent(len(in_flight))
        limits.note_answer(in_flight.popleft())
        seen.append(limits.limit)
    return seen


def queued(servers: int, seed: int = 0) -> Iterator[int]:
    """A fan-out to an M/M/c server; yields the limit at each answer."""
    limits, dice, now, busy, flying = limiter(), random.Random(seed), 0.0, 0, 0
    waiting: deque[float] = deque()
    served: list[tuple[float, float]] = []
    while True:
        while flying < limits.limit:
            flying += 1
            limits.note_sent(flying)
            waiting.append(now)
        while waiting and busy < servers:
            busy += 1
            heapq.heappush(served, (now + dice.expovariate(100), waiting.popleft()))
        now, sent = heapq.heappop(served)
        busy, flying = busy - 1, flying - 1
        limits.note_answer(now - sent)
        yield limits.limit


def settled(limits: Iterator[int]) -> list[int]:
    return list(islice(limits, 4000, 12_000))


# Finding the best limit


@pytest.mark.parametrize("servers", [2, 4, 8, 12, 16])
def test_the_limit_converges_to_about_the_number_of_workers_of_the_server(servers: int) -> None:
    """With fewer writes in flight workers would idle; twice as many would only wait in the server's queue."""
    means = [fmean(settled(queued(servers, seed))) for seed in range(5)]

    assert servers <= fmean(means) <= 2 * servers
    assert servers * 0.8 <= min(means)


@pytest.mark.parametrize("servers", [24, 64])
def test_the_limit_stays_at_the_ceiling_while_the_server_has_room(servers: int) -> None:
    assert fmean(settled(queued(servers))) > 0.9 * CEILING


@pytest.mark.parametrize("ceiling", [1, 3, 20, 32, 100])
def test_the_limit_climbs_to_the_ceiling_if_latency_does_not_depend_on_it(ceiling: int) -> None:
    seen = fan_out(limiter(ceiling), lambda in_flight: 0.01, 8000)

    assert seen[0] == min(START, ceiling)
    assert max(seen) == ceiling
    assert fmean(seen[-4000:]) > 0.85 * ceiling


def test_the_limit_falls_if_latency_grows_as_fast_as_the_limit() -> None:
    seen = fan_out(limiter(), lambda in_flight: 0.001 * in_flight, 8000)

    assert fmean(seen[-4000:]) < 4


@pytest.mark.parametrize("seed", range(5))
def test_noise_does_not_make_the_limit_collapse(seed: int) -> None:
    dice = random.Random(seed)
    seen = fan_out(limiter(), lambda in_flight: 0.005 * dice.lognormvariate(0, 2), 20_000)

    assert fmean(seen) > 0.95 * CEILING


@pytest.mark.parametrize("seed", range(5))
def test_a_few_very_slow_writes_do_not_change_the_limit(seed: int) -> None:
    """One write in fifty waits for a slow webhook. That shows nothing about the server."""
    dice = random.Random(seed)
    seen = fan_out(limiter(), lambda in_flight: 30.0 if dice.random() < 0.02 else 0.01, 20_000)

    assert fmean(seen[4000:]) > 0.9 * CEILING


@pytest.mark.parametrize("factor", [0.1, 3.0, 10.0])
def test_after_a_lasting_step_of_the_latency_the_limit_climbs_as_before(factor: float) -> None:
    limits = limiter()
    fan_out(limits, lambda in_flight: 0.01 * max(1.0, in_flight / START), 4000)
    after = fan_out(limits, lambda in_flight: 0.01 * factor, 12_000)

    assert fmean(after[-6000:]) > 0.9 * CEILING


@pytest.mark.parametrize("factor", [0.1, 3.0, 10.0])
def test_a_lasting_step_of_the_latency_does_not_change_the_limit(factor: float) -> None:
    limits = limiter()
    fan_out(limits, lambda in_flight: 0.01, 4000)
    after = fan_out(limits, lambda in_flight: 0.01 * factor, 12_000)

    assert fmean(after) > 0.85 * CEILING


def test_the_limit_follows_a_server_that_gets_more_or_fewer_workers() -> None:
    limits = limiter()

    def mean(workers: int) -> float:
        return fmean(fan_out(limits, lambda in_flight: 0.01 * max(1.0, in_flight / workers), 16_000)[-8000:])

    means = [mean(4), mean(32), mean(4)]

    assert means[0] < 9
    assert means[1] > 25
    assert means[2] < 9


def test_the_limit_stays_while_there_is_too_little_work_to_fill_it() -> None:
    """Latency of half as many writes in flight shows nothing about the limit."""
    limits = limiter()
    for number in range(10_000):
        limits.note_sent(START // 2)
        limits.note_answer(0.001 if number % 300 < 150 else 1.0)
        assert limits.limit == START


@given(
    st.lists(st.one_of(st.floats(0, 4), st.sampled_from("ab")), max_size=60),
    st.integers(1, 40),
    st.integers(1, 50),
)
def test_the_limit_stays_between_one_and_its_ceiling(answers: list[float | str], repeat: int, ceiling: int) -> None:
    limits = limiter(ceiling, clock=(clock := Clock()))
    for answer in answers:
        for _ in range(repeat):
            limits.note_sent(limits.limit)
            if isinstance(answer, str):
                limits.note_overload(answer, None)
            else:
                limits.note_answer(answer)
            clock.now += 0.1
            assert 1 <= limits.limit <= ceiling


# Overload


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_the_limit_halves_when_the_server_refuses_for_load(retry_after: float | None) -> None:
    limits = limiter()
    overload(limits, retry_after)

    assert limits.limit == START // 2
    assert limits.wait() > 0


def test_refusals_of_writes_that_were_sent_together_halve_the_limit_once() -> None:
    limits = limiter(clock=(clock := Clock()))
    for namespace in "abababab":
        limits.note_overload(namespace, None)
        clock.now += 0.05

    assert limits.limit == START // 2


def test_the_limit_recovers_after_an_overload() -> None:
    limits = limiter(clock=(clock := Clock()))
    overload_until(limits, clock, 1)
    seen = fan_out(limits, lambda in_flight: 0.01, 1000)

    assert seen[0] == 1
    assert seen[-1] == CEILING


def test_a_trial_that_overloads_the_server_is_not_repeated_at_once() -> None:
    limits = limiter(clock=(clock := Clock()))
    fan_out(limits, lambda in_flight: 0.01, 8 * START)
    assert limits.limit == 2 * START
    overload(limits)
    clock.now += 1.0

    assert set(fan_out(limits, lambda in_flight: 0.01, 5 * 8 * START)) == {START}


@pytest.mark.parametrize("overloaded_above", [4, 10, 24])
def test_the_limit_settles_below_the_number_at_which_the_server_refuses(overloaded_above: int) -> None:
    limits, refusals, seen = limiter(clock=(clock := Clock())), 0, []
    for _ in range(10_000):
        limits.note_sent(limits.limit)
        if limits.limit > overloaded_above:
            overload(limits)
            refusals += 1
            clock.now += 1.0
        else:
            limits.note_answer(0.01)
        seen.append(limits.limit)

    assert overloaded_above / 2 <= fmean(seen[-5000:]) < overloaded_above + 1
    assert refusals < 100


def test_repeated_failures_in_one_namespace_do_not_change_the_limit() -> None:
    limits = limiter(clock=(clock := Clock()))
    for _ in range(100):
        limits.note_overload("a", 60.0)
        clock.now += 0.3

    assert (limits.limit, limits.wait()) == (START, 0.0)


@pytest.mark.parametrize(("apart", "limit"), [(9.9, 8), (10.1, 16)])
def test_failures_in_two_namespaces_within_ten_seconds_count_as_overload(apart: float, limit: int) -> None:
    limits = limiter(clock=(clock := Clock()))
    limits.note_overload("a", None)
    clock.now += apart
    limits.note_overload("b", None)

    assert limits.limit == limit
    assert (limits.wait() > 0) == (limit < START)


def test_writes_are_never_stopped_for_good() -> None:
    limits = limiter(clock=(clock := Clock()))
    for _ in range(50):
        overload(limits)
        clock.now += 1.0

    assert limits.limit == 1
    clock.now += 5.0
    assert limits.wait() == 0.0


def test_writes_wait_as_long_as_the_server_says_and_no_shorter_for_a_later_answer() -> None:
    limits = limiter(clock=(clock := Clock()))
    overload(limits, 7.0)
    overload(limits, 1.0)

    assert limits.wait() == 7.0
    clock.now += 7.0
    assert limits.wait() == 0.0


def test_writes_wait_no_longer_than_a_minute_whatever_the_server_says() -> None:
    limits = limiter()
    overload(limits, 86_400.0)

    assert limits.wait() == 60.0


def test_writes_continue_after_the_server_was_unreachable_for_a_day() -> None:
    limits = limiter(clock=(clock := Clock()))
    for namespace, _ in zip(cycle("ab"), range(20_000), strict=False):
        limits.note_overload(namespace, None)
        clock.now += 5.0

    assert limits.wait() == 0.0


def test_answers_that_come_together_do_not_lengthen_the_pause_once_the_limit_is_one() -> None:
    limits = limiter(1)
    overload(limits)
    pause = limits.wait()
    for _ in range(10):
        overload(limits)

    assert limits.wait() == pause


def test_pauses_grow_while_the_server_is_unreachable_and_start_again_after_a_success() -> None:
    limits = limiter(clock=(clock := Clock()))
    limits.note_overload("z", None)
    pauses = []
    for namespace, _ in zip(cycle("ab"), range(12), strict=False):
        limits.note_overload(namespace, None)
        pauses.append(limits.wait())
        clock.now += limits.wait() + 0.5
    limits.note_answer(0.01)
    overload(limits)

    assert pauses == pytest.approx([min(0.05 * 2**number, 5.0) for number in range(1, 13)])
    assert limits.wait() == pytest.approx(pauses[0])


# The rate


def test_a_rate_is_kept_however_many_writes_the_limit_allows() -> None:
    limits = limiter(per_second=4.0, clock=(clock := Clock()))
    sent = []
    while clock.now < 1010.0:
        clock.now += limits.wait()
        limits.note_sent(1)
        sent.append(clock.now)

    gaps = [after - before for before, after in pairwise(sent)]
    assert min(gaps) == pytest.approx(0.25)


def test_unused_write_rate_does_not_accumulate() -> None:
    limits = limiter(per_second=4.0, clock=(clock := Clock()))
    limits.note_sent(1)
    clock.now += 60.0
    limits.note_sent(1)

    assert limits.wait() == pytest.approx(0.25)


# In the engine


def test_no_namespace_has_more_than_half_of_the_writes_in_flight() -> None:
    """A namespace with a slow webhook delays no other, also after the server was overloaded."""
    limiter = ConcurrencyLimiter(16, 0.0, Clock())
    outbox = Outbox(Clock(), limiter)
    for number in range(9):
        outbox.put(create("slow", a_key(f"s{number}")), urgent=True)
    outbox.put(create("other", a_key("s9")), urgent=True)
    flying = [write.ref.namespace for _ in range(limiter.limit) if (write := outbox.take()) is not None]
    assert flying.count("slow") == limiter.limit // 2
    assert "other" in flying


class Recorder(ConcurrencyLimiter):
    """Remembers how many writes were in flight whenever one was sent."""

    def __init__(self) -> None:
        super().__init__(4, 0.0, Clock())
        self.in_flight: list[int] = []

    def note_sent(self, in_flight: int) -> None:
        self.in_flight.append(in_flight)
        super().note_sent(in_flight)


def test_the_writer_reports_to_the_limiter_when_a_write_fills_the_limit() -> None:
    """Otherwise no sample would count, and the limit would never move."""

    async def run() -> None:
        limiter, registry = Recorder(), a_registry()
        async with serving(Store()) as script, Client(access(script), may_write=unrestricted) as client:
            codec, cache = Codec(registry.managers), a_cache(registry)
            applier = Applier(client, codec, cache, registry, FaultPoints())
            outbox = Outbox(Clock(), limiter)
            for name in numbered(0, 10):
                outbox.put(create(name), urgent=False)
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                writer = Writer(outbox, limiter, cache, applier, lambda: True, lambda message: None, Clock())
                writer.send_waiting(group)
        assert limiter.in_flight == [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]

    asyncio.run(run())
