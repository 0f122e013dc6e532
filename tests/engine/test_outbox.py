"""Waiting writes: one in flight for each address, and fair turns between sources."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.samples import Clock, a_key, create, numbered

from samara.core.model import Key, Ref
from samara.core.writes import Create, Write
from samara.engine.outbox import NamespaceLanes, Outbox


@dataclass
class Limit:
    limit: int


def an_outbox(per_namespace: int = 8, clock: Clock | None = None) -> Outbox:
    return Outbox(clock or Clock(), Limit(2 * per_namespace))


def take_lines(outbox: Outbox, most: int = 1000) -> list[str]:
    """The next writes as "<source> to <namespace>". Each is finished before the next is taken."""
    lines: list[str] = []
    while len(lines) < most and (write := outbox.take()) is not None:
        outbox.done(write)
        lines.append(f"{write.key.source.name} to {write.ref.namespace}")
    return lines


def test_a_newer_write_replaces_one_that_waits_for_the_same_address() -> None:
    outbox = an_outbox()
    outbox.put(create("a", value="old"), urgent=False)
    outbox.put(newer := create("a", value="new"), urgent=False)

    assert len(outbox) == 1
    assert outbox.take() is newer
    assert outbox.take() is None


def test_one_write_is_in_flight_per_address() -> None:
    outbox = an_outbox()
    outbox.put(first := create("a"), urgent=False)
    assert outbox.take() is first
    outbox.put(create("a", value="new"), urgent=False)

    assert (outbox.take(), outbox.in_flight_count, len(outbox)) == (None, 1, 0)
    assert outbox.done(first) == {a_key()}
    assert outbox.in_flight_count == 0
    outbox.put(create("a", value="new"), urgent=False)
    assert outbox.take() is not None


def test_a_write_in_flight_during_a_new_plan_is_planned_again_at_its_end() -> None:
    outbox = an_outbox()
    for namespace in ("a", "b"):
        outbox.put(create(namespace), urgent=False)
    a, b = outbox.take(), outbox.take()
    assert a is not None
    assert b is not None
    outbox.clear(a_key("other"))
    outbox.clear(a_key().in_namespace("b"))

    assert (outbox.done(a), outbox.done(b)) == (set(), {a_key()})


def test_two_sources_never_write_to_one_address_at_once() -> None:
    outbox = an_outbox()
    mine, theirs = create("a", a_key("x"), "same"), create("a", a_key("y"), "same")
    outbox.put(mine, urgent=False)
    outbox.put(theirs, urgent=False)

    assert (outbox.take(), outbox.take()) == (mine, None)
    assert outbox.done(mine) == {a_key("y")}
    assert len(outbox) == 0


def test_a_locked_address_delays_no_other_address_of_its_source() -> None:
    outbox = an_outbox()
    outbox.put(first := create("a", a_key("x"), "same"), urgent=False)
    outbox.put(create("a", a_key("y"), "same"), urgent=False)
    outbox.put(free := create("b", a_key("y"), "same"), urgent=False)

    assert (outbox.take(), outbox.take()) == (first, free)


def test_a_noisy_source_does_not_delay_many_small_ones() -> None:
    outbox = an_outbox()
    for namespace in numbered(0, 1000):
        outbox.put(create(namespace, a_key("noisy")), urgent=False)
    small = [f"small-{number}" for number in range(50)]
    for name in small:
        outbox.put(create("a", a_key(name)), urgent=False)

    first = take_lines(outbox, 101)
    assert {f"{name} to a" for name in small} <= set(first)
    assert len([line for line in first if line.startswith("noisy")]) >= 50


def test_a_new_source_is_served_within_two_turns() -> None:
    outbox = an_outbox()
    for namespace in numbered(0, 100):
        outbox.put(create(namespace, a_key("noisy")), urgent=False)
    take_lines(outbox, 10)
    outbox.put(create("a", a_key("late")), urgent=False)

    assert "late to a" in take_lines(outbox, 2)


def test_a_slice_overtakes_the_fan_out_of_its_source() -> None:
    outbox = an_outbox()
    for namespace in numbered(0, 100):
        outbox.put(create(namespace), urgent=False)
    outbox.put(create("new"), urgent=True)

    assert take_lines(outbox, 2) == ["db to new", "db to ns-00000"]


def test_clearing_a_slice_leaves_the_rest() -> None:
    outbox = an_outbox()
    for soon, namespace in ((False, "a"), (False, "b"), (True, "b"), (True, "c")):
        outbox.put(create(namespace), soon)
    outbox.put(create("b", a_key("other")), urgent=False)
    outbox.clear(a_key().in_namespace("b"))

    assert len(outbox) == 3
    assert sorted(take_lines(outbox)) == ["db to a", "db to c", "other to b"]


def test_clearing_a_source_leaves_other_sources() -> None:
    outbox = an_outbox()
    for soon, namespace in ((False, "a"), (True, "b")):
        outbox.put(create(namespace), soon)
    outbox.put(create("a", a_key("other")), urgent=True)
    outbox.clear(a_key())

    assert (len(outbox), outbox.waiting(a_key()), outbox.waiting(a_key("other"))) == (1, 0, 1)
    assert take_lines(outbox) == ["other to a"]


def test_a_write_locks_its_address_from_when_it_is_taken_until_its_result_is_handled() -> None:
    outbox = an_outbox()
    outbox.put(write := create("a"), urgent=False)
    assert outbox.in_flight(write.ref) is None
    outbox.take()
    assert outbox.in_flight(write.ref) is write
    outbox.done(write)
    assert outbox.in_flight(write.ref) is None


def test_a_slow_namespace_does_not_fill_all_writes_in_flight() -> None:
    outbox = an_outbox(2)
    slow = [create("slow", a_key(f"s{number}")) for number in range(5)]
    for write in slow:
        outbox.put(write, urgent=True)
    outbox.put(other := create("other", a_key("s4")), urgent=False)

    assert [outbox.take() for _ in range(4)] == [slow[0], slow[1], other, None]
    assert (outbox.in_flight_count, len(outbox)) == (3, 3)
    outbox.done(slow[1])
    assert outbox.take() in slow[2:]
    assert outbox.take() is None


def test_writes_to_a_slow_namespace_are_sent_when_it_has_room() -> None:
    outbox = an_outbox(1)
    for number in range(5):
        outbox.put(create("slow", a_key(f"s{number}")), urgent=False)

    assert len(take_lines(outbox)) == 5
    assert len(outbox) == 0


def take_all(outbox: Outbox, most: int) -> list[Write]:
    """Takes writes without finishing them, up to this number."""
    writes: list[Write] = []
    while len(writes) < most and (write := outbox.take()) is not None:
        writes.append(write)
    return writes


class Counting(Outbox):
    """Counts how often a source is searched for a write."""

    takes = 0

    def _first(self, key: Key, lanes: dict[Key, NamespaceLanes]) -> Write | None:
        self.takes += 1
        return super()._first(key, lanes)


def test_a_finished_write_does_not_search_the_sources_that_wait_for_a_full_namespace() -> None:
    outbox = Counting(Clock(), Limit(16))
    for number in range(500):
        for namespace in ("a", "b"):
            outbox.put(create(namespace, a_key(f"{namespace}{number}")), urgent=True)
    for namespace in numbered(0, 500):
        outbox.put(create(namespace, a_key("noisy")), urgent=False)
    flying = deque(take_all(outbox, 24))
    outbox.takes = 0
    for _ in range(300):
        outbox.done(flying.popleft())
        flying.extend(take_all(outbox, 24 - len(flying)))

    assert len(flying) == 24
    assert outbox.takes < 300 * 10


def test_a_source_waiting_for_two_namespaces_is_served_when_either_has_room() -> None:
    for free in ("a", "b"):
        outbox = an_outbox(1)
        for namespace, name in (("a", "x"), ("b", "y"), ("a", "both"), ("b", "both")):
            outbox.put(create(namespace, a_key(name)), urgent=False)
        flying = {write.ref.namespace: write for write in take_all(outbox, 9)}
        outbox.done(flying[free])

        assert [(write.key, write.ref.namespace) for write in take_all(outbox, 9)] == [(a_key("both"), free)]


def test_a_source_waiting_for_a_full_namespace_is_served_for_a_new_write() -> None:
    outbox = an_outbox(1)
    for name in ("x", "y"):
        outbox.put(create("full", a_key(name)), urgent=False)
    take_all(outbox, 9)
    outbox.put(other := create("other", a_key("y")), urgent=True)

    assert take_all(outbox, 9) == [other]


def test_a_source_waiting_for_a_full_namespace_keeps_its_turn() -> None:
    outbox = an_outbox(1)
    for name in ("x", "y"):
        outbox.put(create("full", a_key(name)), urgent=False)
    for namespace in numbered(0, 9):
        outbox.put(create(namespace, a_key("noisy")), urgent=False)
    x, *_ = take_all(outbox, 5)
    outbox.put(create("late", a_key("z")), urgent=False)
    outbox.done(x)

    assert take_lines(outbox, 2) == ["y to full", "noisy to ns-00004"]


def put_writes(outbox: Outbox, *waiting: str) -> dict[str, Write]:
    """Puts writes, each "<source> to <namespace>", and returns those that are in flight then, by namespace."""
    for source, _, namespace in (words.split() for words in waiting):
        outbox.put(create(namespace, a_key(source)), urgent=False)
    return {write.ref.namespace: write for write in take_all(outbox, 9)}


def test_turns_are_fair_between_sources_waiting_for_different_namespaces() -> None:
    outbox = an_outbox(1)
    flying = put_writes(outbox, "x to a", "y to b", "early to a", "late to b")
    outbox.put(create("c", a_key("early")), urgent=False)
    outbox.done(flying["b"])

    assert take_lines(outbox) == ["early to c", "late to b"]


def test_a_source_that_was_served_comes_after_those_that_were_not() -> None:
    outbox = an_outbox(1)
    flying = put_writes(outbox, "x to a", "y to b", "both to a", "both to b", "one to a")
    outbox.done(flying["b"])
    assert take_lines(outbox) == ["both to b"]
    outbox.done(flying["a"])

    assert take_lines(outbox) == ["one to a", "both to a"]


def test_an_unused_turn_in_a_full_namespace_passes_to_the_next_source() -> None:
    outbox = an_outbox(1)
    for name in ("x", "y", "z"):
        outbox.put(create("full", a_key(name)), urgent=False)
    (x,) = take_all(outbox, 9)
    outbox.done(x)
    outbox.clear(a_key("y"))

    assert take_lines(outbox) == ["z to full"]


def test_the_outbox_reports_the_age_of_its_oldest_write() -> None:
    outbox = an_outbox(1, clock := Clock())
    assert outbox.oldest() == 0.0
    outbox.put(create("a", a_key("x")), urgent=False)
    clock.now += 4.0
    outbox.put(create("a", a_key("y")), urgent=False)
    assert outbox.oldest() == 4.0
    outbox.take()
    clock.now += 1.0

    assert (outbox.take(), outbox.oldest()) == (None, 1.0)


def test_a_source_without_writes_does_not_wait() -> None:
    outbox = an_outbox(1, clock := Clock())
    put_writes(outbox, "x to full", "y to full")
    clock.now += 4.0
    outbox.clear(a_key("y"))

    assert (outbox.take(), outbox.oldest()) == (None, 0.0)


Lot = tuple[str, dict[Ref, Write]]


class Plain:
    """A naive model of the outbox: for each source two lists of writes, in the order of their arrival."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.lanes: dict[Key, tuple[list[Lot], list[Lot]]] = {}
        self.flying: dict[Ref, Write] = {}
        self.again: dict[Ref, set[Key]] = {}

    def size(self) -> int:
        return sum(len(writes) for lanes in self.lanes.values() for lane in lanes for _, writes in lane)

    def put(self, write: Write, soon: bool) -> None:
        if write.ref in self.flying:
            self.again.setdefault(write.ref, set()).add(write.key)
            return
        lane = self.lanes.setdefault(write.key, ([], []))[not soon]
        lots = [writes for name, writes in lane if name == write.ref.namespace]
        if not lots:
            lane.append((write.ref.namespace, {write.ref: write}))
        else:
            lots[0][write.ref] = write

    def clear(self, key: Key) -> None:
        for ref, write in self.flying.items():
            if write.key == key.all_namespaces and key.namespace in (None, ref.namespace):
                self.again.setdefault(ref, set()).add(write.key)
        for lane in self.lanes.get(key.all_namespaces, ()):
            lane[:] = [lot for lot in lane if key.namespace not in (None, lot[0])]

    def take(self) -> Write | None:
        for key in list(self.lanes):
            lanes = self.lanes[key]
            write = self._first(key, lanes[0]) or self._first(key, lanes[1])
            if not any(lanes):
                del self.lanes[key]
            if write is not None:
                self.flying[write.ref] = write
                if key in self.lanes:
                    self.lanes[key] = self.lanes.pop(key)  # now last; a source without room keeps its turn
                return write
        return None

    def _first(self, key: Key, lane: list[Lot]) -> Write | None:
        while True:
            lot = next((lot for lot in lane if self._has_room(lot[0])), None)
            if lot is None:
                return None
            write = lot[1].pop(next(iter(lot[1])))
            if not lot[1]:
                lane.remove(lot)
            if write.ref not in self.flying:
                return write
            self.again.setdefault(write.ref, set()).add(key)

    def _has_room(self, namespace: str) -> bool:
        return sum(ref.namespace == namespace for ref in self.flying) < self.most


SOURCES, NAMES = st.sampled_from(["x", "y", "z"]), st.sampled_from(["x", "y"])
NAMESPACES = st.sampled_from(["a", "b", "c"])


class OutboxAgainstLists(RuleBasedStateMachine):
    """Three sources want every address, so that they collide."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox, self.plain = an_outbox(), Plain(8)

    @initialize(most=st.integers(1, 3))
    def begin(self, most: int) -> None:
        self.outbox, self.plain = an_outbox(most), Plain(most)

    @rule(source=SOURCES, namespace=NAMESPACES, name=NAMES, soon=st.booleans())
    def put(self, source: str, namespace: str, name: str, soon: bool) -> None:
        write: Create = create(namespace, a_key(source), name)
        self.outbox.put(write, soon)
        self.plain.put(write, soon)

    @rule(source=SOURCES, namespace=st.none() | NAMESPACES)
    def clear(self, source: str, namespace: str | None) -> None:
        key = a_key(source) if namespace is None else a_key(source).in_namespace(namespace)
        self.outbox.clear(key)
        self.plain.clear(key)

    @rule()
    def take(self) -> None:
        assert self.outbox.take() is self.plain.take()

    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        if self.plain.flying:
            ref = data.draw(st.sampled_from(sorted(self.plain.flying)))
            assert self.outbox.done(self.plain.flying.pop(ref)) == self.plain.again.pop(ref, set())

    @invariant()
    def counts_are_right(self) -> None:
        assert len(self.outbox) == self.plain.size()
        assert self.outbox.in_flight_count == len(self.plain.flying)
        for name in ("x", "y", "z"):
            assert self.outbox.waiting(a_key(name)) == sum(map(len, self.plain.lanes.get(a_key(name), ())))


TestOutboxAgainstLists = OutboxAgainstLists.TestCase
TestOutboxAgainstLists.settings = settings(max_examples=40, stateful_step_count=30)
