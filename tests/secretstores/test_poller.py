"""Tests when the secret manager is read, and the reading of a path after each kind of answer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.support.samples import HOME, Clock, a_key

from samara.core.model import Key
from samara.core.queries import ReadError, SecretPath, SecretReading
from samara.core.vocabulary import PathLimit
from samara.engine.process import utc_timestamp
from samara.secretstores.base import (
    Content,
    Forbidden,
    Location,
    NamedValues,
    NotFound,
    SingleValue,
    StoreError,
    Unauthenticated,
    Unavailable,
    Unusable,
)
from samara.secretstores.poller import MAX_CONCURRENT_READS, PollTimings, SecretPoller, SecretValues
from samara.secretstores.readings import Readings

CANARY = b"canary-7f3a9"
EVERY = 300.0
MISSING = ReadError("TokenError", "the Secret is not there")


@dataclass
class Manager:
    """A store with documents from the test. A document is a value, or the fault that reading it raises."""

    documents: dict[str, Content | Exception] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    scheme: str = "toy"
    gate: asyncio.Event | None = None
    down: Exception | None = None
    flying: int = 0
    most: int = 0
    closed: bool = False
    stubborn: bool = False
    """True if it answers even after a cancelled read."""

    def locate(self, path: str) -> Location:
        if path.startswith("odd"):
            raise Unusable("expected another path")
        document, _, part = path.partition("#")
        return Location(document, part)

    async def read(self, document: str) -> Content:
        self.reads.append(document)
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            if not self.stubborn:
                raise
        finally:
            self.flying -= 1
        values = {"": b"whole", "a": document.encode(), "b": b"2"}
        content = self.down or self.documents.get(document, NamedValues(values))
        if isinstance(content, Exception):
            raise content
        return content

    async def close(self) -> None:
        self.closed = True


@dataclass
class Stage:
    """A poller that reads when a test says so, with a clock that a test moves."""

    group: asyncio.TaskGroup
    clock: Clock = field(default_factory=Clock)
    manager: Manager = field(default_factory=Manager)
    jitter: float = 1.0
    deadline: float = 5.0
    limit: int | None = None
    """Paths that the sources of one namespace may have together."""
    planned: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    poller: SecretPoller = field(init=False)

    def __post_init__(self) -> None:
        limit = None if self.limit is None else PathLimit(self.limit, f"at most {self.limit}")
        times = PollTimings(self.clock, lambda: f"at {self.clock.now:g}", lambda: self.jitter, self.deadline)
        self.poller = SecretPoller(
            Readings(self.clock, limit), frozenset({"fetch"}), times, post=self.post, count_call=self.count
        )

    def post(self, message: SecretValues) -> None:
        self.planned += [key.source.name for key in message.changed]
        self.touched += [key.source.name for key in message.refreshed]

    def count(self, store: str, result: str) -> None:
        self.calls[store, result] += 1

    async def ask(
        self,
        source: str,
        *paths: str,
        every: float = EVERY,
        opened: bool = True,
        edition: int | None = None,
        optional: bool = False,
        namespace: str = HOME,
    ) -> None:
        """Subscribes a source to these paths, with the store open."""
        self.poller.subscribe(
            a_key(source, namespace), tuple(SecretPath(path, every, optional) for path in paths), edition
        )
        if opened and self.poller._store is None:
            await self.poller.use_store(self.manager, keep=True)
        await self.settle()

    async def settle(self) -> None:
        """Performs all reads that are due now, and those that follow from them."""
        quiet = 0
        while quiet < 3:
            before = self._progress()
            self.poller.start_due(self.group)
            for _ in range(3):
                await asyncio.sleep(0)
            quiet = quiet + 1 if before == self._progress() else 0

    def _progress(self) -> tuple[int, list[str]]:
        return sum(self.calls.values()), list(self.poller._in_flight)

    async def after(self, seconds: float) -> list[str]:
        """Advances the clock in one step, and returns the documents that were read."""
        self.manager.reads.clear()
        self.planned.clear()
        self.touched.clear()
        self.clock.now += seconds
        await self.settle()
        return list(self.manager.reads)

    async def in_steps(self, seconds: float, step: float = 1.0) -> list[float]:
        """Advances the clock in small steps, and returns the times of the reads."""
        began, times = self.clock.now, []
        while self.clock.now < began + seconds:
            documents = await self.after(step)
            times += [self.clock.now - began] * len(documents)
        return times

    async def until_read(self) -> None:
        """Advances the clock until the next read."""
        while not await self.after(1.0):
            pass

    def known(self, path: str) -> SecretReading:
        return self.poller.readings.known[path]

    def value(self, path: str) -> bytes | None:
        return self.known(path).value

    def fault(self, path: str) -> str:
        fault = self.known(path).fault
        return "" if fault is None else f"{fault.reason}: {fault.message}"


def on_stage(scenario: Callable[[Stage], Awaitable[None]], **more: float) -> None:
    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            stage = Stage(group, **more)  # type: ignore[arg-type]
            await scenario(stage)
            await stage.poller.close_store()

    asyncio.run(run())


# how often


def test_a_document_is_read_once_per_refresh_for_all_subscribers() -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(500):
            await stage.ask(f"f{number}", "db#a", "db#b", opened=False)
        await stage.ask("last", "db")
        assert stage.manager.reads == ["db"]
        assert await stage.after(EVERY - 1) == []
        assert await stage.after(1) == ["db"]
        assert await stage.after(EVERY) == ["db"]

    on_stage(scenario)


def test_all_fields_of_one_document_come_from_one_read() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a", "db#b")
        assert (stage.value("db#a"), stage.value("db#b")) == (b"db", b"2")
        assert stage.known("db#a").read_at == stage.known("db#b").read_at == "at 1000"
        assert stage.manager.reads == ["db"]

    on_stage(scenario)


def test_the_shortest_refresh_applies_until_its_source_unsubscribes() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("slow", "db#a")
        await stage.after(20)
        await stage.ask("quick", "db#b", every=60)
        assert stage.manager.reads == []
        assert await stage.in_steps(150) == [40, 100]
        await stage.ask("quick")
        await stage.in_steps(60)
        assert await stage.in_steps(240) == []
        assert await stage.in_steps(20) != []

    on_stage(scenario)


def test_a_new_subscriber_of_a_fresh_document_causes_no_read() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        await stage.after(100)
        await stage.ask("g", "db#b")
        assert stage.manager.reads == []
        assert stage.known("db#b") == SecretReading(b"2", "at 1000")

    on_stage(scenario)


def test_a_subscriber_with_a_shorter_refresh_causes_an_earlier_read() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        await stage.after(100)
        await stage.ask("g", "db#a", every=60)
        assert stage.manager.reads == ["db"]

    on_stage(scenario)


def test_jitter_spreads_only_the_first_refresh() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        assert await stage.after(EVERY * 0.9 - 1) == []
        assert await stage.after(1.001) == ["db"]
        for _ in range(3):
            assert await stage.after(EVERY - 1) == []
            assert await stage.after(1.001) == ["db"]

    on_stage(scenario, jitter=0.9)


def test_jitter_shortens_a_wait_by_at_most_a_tenth() -> None:
    jitters = [PollTimings(Clock(), utc_timestamp).jitter() for _ in range(2000)]
    assert 0.9 <= min(jitters) < 0.91
    assert 0.99 < max(jitters) <= 1.0


def test_no_refresh_is_shorter_than_a_second() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db", every=0.0)
        assert stage.manager.reads == ["db"]
        assert await stage.after(0.99) == []
        assert await stage.after(0.01) == ["db"]

    on_stage(scenario)


def test_concurrent_reads_are_limited_and_half_of_them_are_for_one_namespace() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.gate = asyncio.Event()
        await stage.ask("f", *(f"d{number}" for number in range(50)))
        assert stage.manager.flying == MAX_CONCURRENT_READS // 2 == 4
        await stage.ask("g", *(f"e{number}" for number in range(50)), namespace="other")
        assert stage.manager.flying == MAX_CONCURRENT_READS == 8
        await stage.ask("h", "late", namespace="third")
        stage.manager.gate.set()
        await stage.settle()
        assert stage.manager.most == 8
        assert len(stage.manager.reads) == 101
        assert stage.poller.readings.pending == 0

    on_stage(scenario)


def test_new_documents_of_a_namespace_are_read_before_its_refreshes() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", *(f"old{number}" for number in range(20)))
        stage.manager.gate = asyncio.Event()
        stage.manager.reads.clear()
        stage.clock.now += EVERY
        await stage.ask("g", *(f"new{number}" for number in range(4)))
        assert sorted(stage.manager.reads) == sorted(f"new{number}" for number in range(4))
        stage.manager.gate.set()

    on_stage(scenario)


# several namespaces


def test_a_namespace_waits_for_one_read_of_each_other_namespace_and_not_for_all_of_them() -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(10):
            paths = (f"flood{number}-{path}" for path in range(500))
            key = a_key(f"f{number}", f"busy-{number % 3}")
            stage.poller.subscribe(key, tuple(SecretPath(path, 1.0) for path in paths))
        await stage.ask("victim", "mine", namespace="quiet")
        reads = await stage.after(EVERY)  # all 5,001 documents are due
        assert len(reads) == 5001
        assert reads.index("mine") <= MAX_CONCURRENT_READS
        stage.manager.gate = asyncio.Event()
        stage.clock.now += 1.0
        stage.poller.start_due(stage.group)
        stage.manager.gate.set()
        await stage.ask("new", "fresh", namespace="quiet")
        assert stage.manager.reads.index("fresh") - 5001 <= 2 * MAX_CONCURRENT_READS

    on_stage(scenario)


def test_a_document_of_several_namespaces_is_read_in_the_first_turn_of_any_of_them() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.gate = asyncio.Event()
        await stage.ask("f", *(f"d{number}" for number in range(50)), "shared#a", namespace="busy")
        await stage.ask("g", "shared#b", namespace="quiet")
        assert stage.manager.reads == ["d0", "d1", "d2", "d3", "shared"]
        stage.manager.gate.set()
        await stage.settle()
        assert Counter(stage.manager.reads)["shared"] == 1

    on_stage(scenario)


def test_a_source_whose_paths_exceed_the_limit_of_its_namespace_waits_until_others_read_fewer() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "a", "b")
        await stage.ask("g", "c", "d")
        assert stage.fault("c").startswith("LimitExceeded: at most 3")
        assert stage.fault("d") == stage.fault("c")
        await stage.ask("h", "e")
        await stage.ask("k", "c", "x", namespace="other")  # the limit of another namespace
        assert stage.manager.reads == ["a", "b", "e", "c", "x"]
        assert stage.value("c") == b"whole"
        stage.planned.clear()
        await stage.ask("f", "a")
        assert stage.manager.reads == ["a", "b", "e", "c", "x"]
        await stage.ask("h")
        assert stage.manager.reads == ["a", "b", "e", "c", "x", "d"]
        assert "g" in stage.planned
        assert stage.value("d") == b"whole"

    on_stage(scenario, limit=3)


def test_a_source_that_grows_beyond_the_limit_keeps_its_values_and_is_read_no_more() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "a", "b")
        await stage.ask("g", "c")
        await stage.ask("f", "a", "b", "d")
        assert stage.fault("a").startswith("LimitExceeded")
        assert stage.value("a") == b"whole"
        assert await stage.after(EVERY) == ["c"]
        await stage.ask("f", "a", "b")
        assert stage.manager.reads == ["c", "a", "b"]
        assert stage.fault("a") == ""

    on_stage(scenario, limit=3)


def test_another_store_does_not_read_what_exceeds_the_limit() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "a", "b")
        await stage.ask("g", "c")
        await stage.poller.fail(MISSING)
        assert stage.fault("c") == "TokenError: the Secret is not there"
        other = Manager()
        await stage.poller.use_store(other, keep=True)
        await stage.settle()
        assert sorted(other.reads) == ["a", "b"]
        assert stage.fault("c").startswith("LimitExceeded")

    on_stage(scenario, limit=2)


def test_a_document_without_subscribers_is_forgotten() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a", "db#b", "other")
        await stage.ask("g", "db#a")
        await stage.ask("f", "db#b")
        assert set(stage.poller.readings.known) == {"db#a", "db#b"}
        assert await stage.after(EVERY) == ["db"]
        await stage.ask("f")
        await stage.ask("g")
        assert stage.poller.readings.known == {}
        assert stage.poller._documents == {}
        assert await stage.after(10 * EVERY) == []
        await stage.ask("g", "db#a")
        assert stage.manager.reads == ["db"]

    on_stage(scenario)


@pytest.mark.parametrize("stubborn", [False, True])
def test_the_answer_for_a_forgotten_document_is_dropped(stubborn: bool) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.gate, stage.manager.stubborn = asyncio.Event(), stubborn
        await stage.ask("f", "db")
        await stage.ask("f")
        assert stage.manager.flying == 0
        stage.manager.gate.set()
        await stage.settle()
        assert stage.poller.readings.known == {}
        await stage.ask("f", "db")
        assert stage.value("db") == b"whole"
        assert stage.manager.reads == ["db", "db"]

    on_stage(scenario)


# notifications


def test_a_changed_value_plans_its_sources_and_an_equal_one_only_refreshes_them() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NamedValues({"a": b"1", "b": b"1"})}
        await stage.ask("f", "db#a")
        await stage.ask("g", "db#b")
        assert stage.planned == ["f"]  # g got its answer during its plan
        await stage.after(EVERY)
        assert (stage.planned, sorted(stage.touched)) == ([], ["f", "g"])
        assert stage.known("db#a").read_at == "at 1300"
        stage.manager.documents = {"db": NamedValues({"a": b"1", "b": b"2"})}
        await stage.after(EVERY)
        assert stage.planned == ["g"]
        assert stage.value("db#b") == b"2"

    on_stage(scenario)


def test_the_same_subscription_again_changes_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        stage.manager.reads.clear()
        for _ in range(3):
            await stage.ask("f", "db#a")
        assert stage.manager.reads == []
        assert stage.planned == ["f"]

    on_stage(scenario)


def test_five_thousand_subscribers_of_two_hundred_documents_do_not_block_the_loop() -> None:
    async def scenario(stage: Stage) -> None:
        for number in range(5000):
            stage.poller.subscribe(a_key(f"f{number}"), (SecretPath(f"d{number % 200}#a", EVERY),))
        await stage.poller.use_store(stage.manager, keep=True)
        await stage.settle()
        longest = 0.0
        stage.clock.now += EVERY
        for _ in range(200):
            began = time.thread_time()
            stage.poller.start_due(stage.group)
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)
        assert len(stage.manager.reads) == 400
        assert longest < 0.05

    on_stage(scenario)


# faults of one document


@pytest.mark.parametrize("fault", [Forbidden("not yours"), NotFound("none"), Unusable("too large")], ids=str)
def test_a_failing_document_does_not_affect_others(fault: StoreError) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"bad": fault}
        await stage.ask("f", "bad#a")
        await stage.ask("g", "good#a")
        assert stage.fault("bad#a").startswith(f"FetchError: cannot read 'bad#a' from the toy store: {fault}")
        assert stage.value("good#a") == b"good"
        assert stage.known("bad#a").value is None
        assert not stage.known("bad#a").is_absent(EVERY)
        assert await stage.in_steps(700) == [10, 30, 70, 150, 300, 310, 600, 610]  # 10 s, doubling up to its refresh

    on_stage(scenario)


IMPATIENT = 1.0
LONGER_AND_LONGER = [1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]
"""1 s, doubling up to five minutes."""


FAULTS = [Forbidden("not yours"), NotFound("none"), Unusable("too large"), Unavailable("busy")]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_failing_document_is_retried_less_and_less_often_for_every_refresh(fault: StoreError) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"bad": fault}
        await stage.ask("f", "bad#a", every=IMPATIENT)
        assert await stage.in_steps(1200) == LONGER_AND_LONGER

    on_stage(scenario)


def test_a_retry_is_never_sooner_than_a_long_refresh() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"bad": Forbidden("not yours")}
        await stage.ask("f", "bad#a", every=3600)
        await stage.in_steps(10_000, 10)
        assert await stage.in_steps(7200, 10) != []
        assert len(await stage.in_steps(7200, 10)) == 2

    on_stage(scenario)


def test_a_missing_field_does_not_delay_the_other_fields_of_its_document() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("well", "db#a", every=60)
        await stage.ask("wrong", "db#none", every=IMPATIENT)
        await stage.in_steps(1200)
        assert len(await stage.in_steps(600)) in (
            10,
            11,
            12,
        )  # once a minute, and at most two reads of the other document

    on_stage(scenario)


def test_an_edited_source_is_read_at_once_and_its_backoff_starts_again() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"bad": Forbidden("not yours")}
        await stage.ask("f", "bad#a", "good#a", edition=1)
        await stage.in_steps(100)
        stage.manager.reads.clear()
        await stage.ask("f", "bad#a", "good#a", edition=1)
        assert stage.manager.reads == []  # planned again without a change
        await stage.ask("f", "bad#a", "good#a", edition=2)
        assert stage.manager.reads == ["bad"]
        assert await stage.in_steps(31) == [10, 30]

    on_stage(scenario)


def test_edits_cause_at_most_one_read_a_second() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"bad": Forbidden("not yours")}
        for edition in range(20):
            await stage.ask("f", "bad#a", edition=edition)
            stage.clock.now += 0.25
        await stage.settle()
        assert len(stage.manager.reads) in (5, 6)

    on_stage(scenario)


@pytest.mark.parametrize(
    "document", [Forbidden("not yours"), NamedValues({"b": b"2"})], ids=["refused", "without-the-field"]
)
def test_a_new_subscriber_retries_a_failing_document_at_once(document: Content | Exception) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"bad": document}
        await stage.ask("f", "bad#a")
        await stage.in_steps(100)
        stage.manager.reads.clear()
        await stage.ask("g", "bad#a")
        assert stage.manager.reads == ["bad"]

    on_stage(scenario)


def test_a_missing_path_is_reported_with_advice() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"gone": NotFound("there is none"), "closed": Forbidden("not yours")}
        await stage.ask("f", "gone#a", "db#none", "closed#a")
        for path in ("gone#a", "db#none"):
            assert stage.fault(path).endswith("; put a value there, or ask for another path")
        assert stage.fault("closed#a").endswith(": not yours")

    on_stage(scenario)


def test_the_backoff_of_a_document_ends_with_a_successful_read() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": Forbidden("not yours")}
        await stage.ask("f", "db#a")
        await stage.in_steps(31)
        stage.manager.documents.clear()
        assert await stage.after(40) == ["db"]
        assert stage.planned == ["f"]
        assert stage.known("db#a") == SecretReading(b"db", "at 1071")
        stage.manager.documents = {"db": Forbidden("not yours")}
        await stage.after(EVERY)
        assert await stage.after(10) == ["db"]

    on_stage(scenario)


def test_the_value_stays_when_its_document_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        stage.manager.documents = {"db": Forbidden("not yours")}
        await stage.after(EVERY)
        assert (stage.value("db#a"), stage.known("db#a").read_at) == (b"db", "at 1000")
        assert stage.planned == ["f"]
        assert stage.touched == []
        await stage.after(10)
        assert stage.planned == []  # the same fault

    on_stage(scenario)


def test_a_missing_field_affects_its_own_path_only() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a", "db#none")
        assert stage.value("db#a") == b"db"
        assert "no field 'none'" in stage.fault("db#none")

    on_stage(scenario)


def test_an_unusable_path_is_reported_without_a_read() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "odd/path")
        assert stage.manager.reads == []
        assert "expected another path" in stage.fault("odd/path")
        await stage.ask("f")
        assert stage.poller.readings.known == {}

    on_stage(scenario)


def test_a_value_that_is_too_large_is_reported_but_not_shown() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": SingleValue(CANARY * 100_000)}
        await stage.ask("f", "db")
        assert stage.value("db") is None
        assert CANARY.decode() not in stage.fault("db")

    on_stage(scenario)


# absent paths


def test_a_path_is_absent_after_two_answers_one_refresh_apart() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        stage.manager.documents = {"db": NotFound("none")}
        await stage.after(EVERY)
        assert not stage.known("db#a").is_absent(EVERY)
        while stage.clock.now < 1300 + 0.8 * EVERY:
            assert not stage.known("db#a").is_absent(EVERY)
            await stage.after(10)
        await stage.in_steps(80, 10)
        assert stage.known("db#a").is_absent(EVERY)
        assert stage.value("db#a") == b"db"  # for sources that require the path

    on_stage(scenario)


def test_a_short_refresh_does_not_make_a_path_absent_for_another_source() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=EVERY)
        await stage.ask("g", "db#a", every=10)
        await stage.in_steps(100, 10)
        assert not stage.known("db#a").is_absent(EVERY)
        await stage.in_steps(300, 10)
        assert stage.known("db#a").is_absent(EVERY)

    on_stage(scenario)


def test_a_long_refresh_does_not_delay_absence_for_another_source() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("patient", "db#a", every=1e9)
        await stage.ask("f", "db#a", every=2)
        assert not stage.known("db#a").is_absent(2)
        await stage.after(2)
        assert stage.known("db#a").is_absent(2)
        assert "f" in stage.planned

    on_stage(scenario)


def test_a_source_is_planned_when_its_path_becomes_absent_and_not_at_each_read() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=10)
        planned: dict[float, bool] = {}
        for _ in range(4):
            await stage.until_read()
            planned[stage.clock.now - 1000] = "f" in stage.planned
        assert planned == {10: True, 30: False, 70: False, 150: False}

    on_stage(scenario)


def test_a_single_not_found_is_no_absence() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=0.0)
        assert stage.known("db#a").not_found
        assert not stage.known("db#a").is_absent(0.0)

    on_stage(scenario)


def test_absence_is_counted_again_after_a_new_configuration() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=10)
        await stage.poller.use_store(stage.manager, keep=True)
        await stage.after(0)
        await stage.after(9)
        assert not stage.known("db#a").is_absent(10)

    on_stage(scenario)


def test_a_missing_field_becomes_absent_by_the_same_rule() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#none", every=10)
        assert not stage.known("db#none").is_absent(10)
        await stage.after(10)
        assert stage.known("db#none").is_absent(10)
        assert stage.planned == ["f"]

    on_stage(scenario)


@pytest.mark.parametrize(
    "between", [Forbidden("no"), Unavailable("down"), Unusable("odd"), NamedValues({"a": b"1"})], ids=str
)
def test_any_other_answer_restarts_the_count_of_absence(between: Content | Exception) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=10)
        stage.manager.documents = {"db": between}
        await stage.after(10)
        stage.manager.documents = {"db": NotFound("none")}
        await stage.until_read()
        assert not stage.known("db#a").is_absent(10)
        await stage.until_read()
        assert stage.known("db#a").is_absent(10)

    on_stage(scenario)


@pytest.mark.parametrize("later", [Forbidden("no"), Unavailable("down"), Unusable("odd")], ids=str)
def test_an_absent_path_stays_absent_until_it_has_a_value(later: Exception) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=10)
        await stage.after(10)
        stage.manager.documents = {"db": later}
        await stage.until_read()
        assert stage.known("db#a").is_absent(10)
        await stage.poller.fail(MISSING)
        assert stage.known("db#a").is_absent(10)
        await stage.poller.use_store(stage.manager, keep=True)
        stage.manager.documents = {}
        await stage.after(10)
        assert stage.known("db#a") == SecretReading(b"db", f"at {stage.clock.now:g}")

    on_stage(scenario)


def test_an_absent_optional_path_is_read_at_its_refresh() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=2, optional=True)
        assert await stage.in_steps(600) == list(range(2, 602, 2))
        stage.manager.documents = {}
        await stage.after(2)
        assert (stage.value("db#a"), stage.planned) == (b"db", ["f"])

    on_stage(scenario)


def test_an_absent_optional_field_is_read_at_its_refresh() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#none", every=2, optional=True)
        assert await stage.in_steps(600) == list(range(2, 602, 2))

    on_stage(scenario)


@pytest.mark.parametrize("later", [Forbidden("no"), Unavailable("down"), Unusable("odd")], ids=str)
def test_an_absent_path_that_starts_to_fail_backs_off(later: Exception) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=IMPATIENT, optional=True)
        await stage.in_steps(10)
        stage.manager.documents = {"db": later}
        await stage.until_read()
        assert await stage.in_steps(1200) == LONGER_AND_LONGER

    on_stage(scenario)


def test_a_required_absent_path_does_not_delay_optional_subscribers() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("can", "db#a", every=60, optional=True)
        await stage.ask("cannot", "db#a", every=IMPATIENT)
        await stage.in_steps(1200)
        assert len(await stage.in_steps(600)) in (
            10,
            11,
            12,
        )  # once a minute, and at most two reads for the other source

    on_stage(scenario)


def test_failing_subscribers_do_not_delay_absence_for_others() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("cannot", "db#a", every=IMPATIENT)
        await stage.ask("can", "db#a", every=400, optional=True)
        await stage.in_steps(400)
        assert stage.known("db#a").is_absent(400)

    on_stage(scenario)


def test_a_path_required_once_is_required_for_the_source() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        both = SecretPath("db#a", IMPATIENT, optional=True), SecretPath("db#a", IMPATIENT)
        stage.poller.subscribe(a_key("f"), both)
        await stage.poller.use_store(stage.manager, keep=True)
        await stage.settle()
        assert await stage.in_steps(1200) == LONGER_AND_LONGER

    on_stage(scenario)


def test_an_absent_path_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": NotFound("none")}
        await stage.ask("f", "db#a", every=2, optional=True)
        await stage.in_steps(60)
        assert [record.message for record in caplog.records] == ["store.refused"]
        stage.manager.documents = {"db": Forbidden("not yours")}
        await stage.in_steps(60)
        assert len(caplog.records) == 2

    on_stage(scenario)


# an unreachable store

DOWN = [Unavailable("refused"), Unauthenticated("who are you?"), OSError(CANARY.decode()), TimeoutError()]


@pytest.mark.parametrize("fault", DOWN, ids=lambda fault: type(fault).__name__)
def test_an_unreachable_store_is_probed_less_and_less_often(fault: Exception) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.down = fault
        await stage.ask("f", *(f"d{number}" for number in range(30)))
        stage.manager.reads.clear()
        times = await stage.in_steps(1200)
        assert times == [1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]

    on_stage(scenario)


def test_an_unreachable_store_with_one_document_backs_off_too() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.down = Unavailable("refused")
        await stage.ask("f", "db")
        assert await stage.in_steps(1200) == [1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]

    on_stage(scenario)


def test_after_an_outage_one_read_probes_and_the_others_follow() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.down = Unavailable("refused")
        await stage.ask("f", *(f"d{number}" for number in range(30)))
        stage.manager.down, stage.manager.gate = None, asyncio.Event()
        await stage.after(1)
        assert stage.manager.flying == 1
        stage.manager.gate.set()
        await stage.settle()
        assert len(stage.manager.reads) == 30
        assert not any(stage.fault(f"d{number}") for number in range(30))
        stage.manager.down = Unavailable("refused")
        await stage.after(EVERY)
        assert await stage.after(1) != []  # the backoff starts again

    on_stage(scenario)


def test_new_subscribers_learn_of_an_outage_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.down = Unavailable("refused")
        await stage.ask("f", *(f"d{number}" for number in range(30)))
        assert stage.poller.readings.pending == 0
        assert len(stage.manager.reads) == MAX_CONCURRENT_READS // 2
        assert stage.fault("d29") == "FetchError: cannot read 'd29' from the toy store: refused"
        await stage.ask("g", "new")
        assert "refused" in stage.fault("new")
        assert len(stage.manager.reads) == MAX_CONCURRENT_READS // 2

    on_stage(scenario)


def test_values_stay_during_an_outage_and_due_sources_learn_of_it() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        await stage.after(100)
        await stage.ask("g", "later#a")
        stage.manager.down = Unavailable("refused")
        await stage.after(EVERY - 100)
        assert (stage.value("db#a"), stage.fault("later#a")) == (b"db", "")
        assert "refused" in stage.fault("db#a")
        assert stage.planned == ["f"]
        await stage.in_steps(101)
        assert stage.value("later#a") == b"later"
        assert "refused" in stage.fault("later#a")
        stage.manager.down = None
        await stage.in_steps(300)
        assert (stage.fault("db#a"), stage.fault("later#a")) == ("", "")

    on_stage(scenario)


def test_one_document_that_never_answers_does_not_stop_the_others() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"bad": Unavailable("internal error")}
        await stage.ask("f", "bad", *(f"d{number}" for number in range(20)))
        await stage.in_steps(5)
        assert not any(stage.fault(f"d{number}") for number in range(20))
        reads = Counter[str]()
        for _ in range(600):
            reads.update(await stage.after(1))
            assert not any(stage.fault(f"d{number}") for number in range(20))
        assert reads["bad"] < 10  # 1 s, doubling up to its refresh
        assert all(reads[f"d{number}"] == 2 for number in range(20))

    on_stage(scenario)


def test_a_source_with_a_value_is_planned_for_a_confirmed_outage_only() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "good")
        await stage.after(EVERY - 0.5)
        stage.manager.documents = {"bad": Unavailable("internal error")}
        await stage.ask("g", "bad")
        assert await stage.after(0.6) == []
        assert stage.fault("good") == ""
        await stage.in_steps(2, 0.5)
        assert stage.known("good") == SecretReading(b"whole", f"at {1000 + EVERY + 1.6:g}")

    on_stage(scenario)


def test_the_retry_after_of_a_store_is_obeyed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.down = Unavailable("slow down", retry_after=120.0)
        await stage.ask("f", "db")
        assert (await stage.after(119), await stage.after(1)) == ([], ["db"])

    on_stage(scenario)


def test_the_retry_after_of_a_store_is_limited() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.down = Unavailable("slow down", retry_after=1e9)
        await stage.ask("f", "db")
        assert await stage.after(3600) == ["db"]

    on_stage(scenario)


def test_an_answer_after_the_deadline_is_an_outage() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.gate = asyncio.Event()
        await stage.ask("f", "db")
        async with asyncio.timeout(8):
            while stage.poller.readings.pending:  # noqa: ASYNC110 - the deadline is real time
                await asyncio.sleep(0.001)
        assert "did not answer within 0.01 s" in stage.fault("db")
        assert stage.calls == {("toy", "timeout"): 1}

    on_stage(scenario, deadline=0.01)


def test_reads_are_counted_by_their_result() -> None:
    async def scenario(stage: Stage) -> None:
        faults = Forbidden(""), NotFound(""), Unusable(""), Unauthenticated(""), Unavailable("")
        stage.manager.documents = {type(fault).__name__: fault for fault in faults}
        await stage.ask("f", "fine", *stage.manager.documents)
        results = "ok", "denied", "absent", "unfit", "unauthenticated", "unavailable"
        assert stage.calls == Counter(("toy", result) for result in results)

    on_stage(scenario)


# another store


def test_without_a_store_nothing_is_known_or_read() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db", opened=False)
        assert (stage.poller.readings.pending, stage.manager.reads) == (1, [])
        assert stage.poller.subscribed.is_set()

    on_stage(scenario)


def test_all_sources_learn_why_there_is_no_store_until_there_is_one() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a", opened=False)
        await stage.poller.fail(MISSING)
        await stage.ask("g", "db#b", opened=False)
        assert [stage.known(path) for path in ("db#a", "db#b")] == [SecretReading(fault=MISSING)] * 2
        assert stage.planned == ["f"]
        assert stage.poller.readings.pending == 0
        await stage.poller.fail(MISSING)
        assert stage.planned == ["f"]
        await stage.poller.use_store(stage.manager, keep=True)
        await stage.settle()
        assert [stage.value(path) for path in ("db#a", "db#b")] == [b"db", b"2"]
        assert sorted(stage.planned) == ["f", "f", "g"]

    on_stage(scenario)


def test_values_stay_while_there_is_no_store() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        await stage.poller.close_store()
        await stage.poller.fail(MISSING)
        assert stage.known("db#a") == SecretReading(b"db", "at 1000", MISSING)
        assert await stage.after(10 * EVERY) == []
        await stage.poller.use_store(Manager(), keep=True)
        assert stage.value("db#a") == b"db"

    on_stage(scenario)


def test_new_credentials_read_everything_again_and_values_stay_meanwhile() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"refused": Forbidden("not yours")}
        await stage.ask("f", "db#a", "refused#a")
        await stage.poller.close_store()
        assert stage.manager.closed
        new = Manager(gate=asyncio.Event())
        await stage.poller.use_store(new, keep=True)
        await stage.settle()
        assert sorted(new.reads) == ["db", "refused"]
        assert stage.value("db#a") == b"db"
        assert new.gate is not None
        new.gate.set()
        await stage.settle()
        assert stage.value("refused#a") == b"refused"

    on_stage(scenario)


def test_new_credentials_end_the_backoff_of_documents() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": Forbidden("not yours")}
        await stage.ask("f", "db")
        await stage.in_steps(100)
        await stage.poller.use_store(stage.manager, keep=True)
        assert await stage.in_steps(35) == [1, 11, 31]

    on_stage(scenario)


def test_new_credentials_end_the_backoff_of_the_store() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.down = Unauthenticated("who are you?")
        await stage.ask("f", *(f"d{number}" for number in range(20)))
        await stage.in_steps(100)
        await stage.poller.close_store()
        new = Manager()
        await stage.poller.use_store(new, keep=True)
        await stage.settle()
        assert len(new.reads) == 20
        assert not any(stage.fault(f"d{number}") for number in range(20))

    on_stage(scenario)


def test_another_store_drops_all_values() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.ask("f", "db#a")
        await stage.poller.close_store()
        new = Manager(down=Unavailable("refused"))
        await stage.poller.use_store(new, keep=False)
        assert stage.poller.readings.pending == 1
        await stage.settle()
        assert stage.value("db#a") is None
        assert "refused" in stage.fault("db#a")
        assert stage.planned[-1] == "f"

    on_stage(scenario)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_late_answer_of_the_old_store_is_ignored(stubborn: bool) -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.gate, stage.manager.stubborn = asyncio.Event(), stubborn
        stage.manager.documents = {"db": NamedValues({"a": b"old"})}
        await stage.ask("f", "db#a")
        await stage.poller.close_store()
        assert stage.poller.readings.pending == 1
        new = Manager(documents={"db": NamedValues({"a": b"new"})})
        await stage.poller.use_store(new, keep=True)
        stage.manager.gate.set()
        await stage.settle()
        assert stage.value("db#a") == b"new"

    on_stage(scenario)


# hidden values


class Talkative:
    def __repr__(self) -> str:
        return CANARY.decode()

    def value(self, field: str) -> bytes:
        return CANARY


def test_no_value_appears_in_a_repr_a_fault_or_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": SingleValue(CANARY), "many": Talkative(), "bug": KeyError(CANARY)}
        await stage.ask("f", "db", "many#a", "bug")
        await stage.after(EVERY)
        shown = repr([stage.poller, stage.poller._documents, stage.poller.readings.known, stage.poller.readings])
        assert CANARY.decode() not in shown
        assert "KeyError" in stage.fault("bug")
        assert CANARY.decode() not in stage.fault("bug")

    on_stage(scenario)
    logged = " ".join(f"{record.getMessage()} {record.__dict__.get('fields')}" for record in caplog.records)
    assert "store.unreachable" in logged
    assert CANARY.decode() not in logged


def test_the_message_of_a_fault_is_bounded() -> None:
    async def scenario(stage: Stage) -> None:
        stage.manager.documents = {"db": Forbidden("so\nmuch " * 1000)}
        await stage.ask("f", "db")
        assert len(stage.fault("db")) < 700
        assert "\n" not in stage.fault("db")

    on_stage(scenario)


# for ever


def test_the_poller_runs_until_it_is_cancelled() -> None:
    async def run() -> None:
        read, manager = asyncio.Event(), Manager()
        poller = SecretPoller(
            Readings(time.monotonic, None),
            frozenset({"fetch"}),
            PollTimings(time.monotonic, utc_timestamp, jitter=lambda: 1.0),
            post=lambda message: read.set(),
            count_call=lambda store, result: None,
        )
        task = asyncio.create_task(poller.run())
        await poller.use_store(manager, keep=True)
        poller.subscribe(Key("fetch", a_key().source), (SecretPath("db", 1.0),))
        async with asyncio.timeout(8):
            await read.wait()
            manager.documents = {"db": SingleValue(b"two")}
            read.clear()
            await read.wait()
        assert poller.readings.known["db"].value == b"two"
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
