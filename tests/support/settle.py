"""Plans keys and performs their writes in a `World`, until nothing is left to write or along the events of a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

from tests.support.server import perform
from tests.support.world import World, a_field

from samara.core.copy_counts import CopyCounts
from samara.core.model import Key, Ref
from samara.core.plan import plan, prepare, steps
from samara.core.policy import ClusterPolicy
from samara.core.writes import Create, Plan, Write, WriteStatus

Order = Callable[[list[Key]], list[Key]]
Fate = Literal["done", "dropped", "unseen"]
Check = Callable[[World, Write], None]
ROUNDS = 40
RULES = ClusterPolicy()


def in_given_order(keys: list[Key]) -> list[Key]:
    return keys


def every_key(world: World) -> list[Key]:
    """Every source, and every source that a mark names, present or not."""
    owners = [owner for obj in world.held() if (owner := world.registry.owner(obj, world)) is not None]
    return list(dict.fromkeys((*world.source_keys(), *owners)))


def plan_of(key: Key, world: World, rules: ClusterPolicy) -> Plan:
    """Plans a key with all reads that it needs: addresses, paths and definitions; adds the status write."""
    planned = plan(key, world, world.registry, rules)
    while planned.read_first or planned.queries:
        world.fetch(read.ref for read in planned.read_first)
        world.read(planned.queries)
        planned = plan(key, world, world.registry, rules)
    return planned


def report(key: Key, world: World, rules: ClusterPolicy) -> Iterator[Write]:
    """The status write of a source whose plan has been counted."""
    source_type, source = world.registry[key.source_type], world.get(key.source)
    prepared = prepare(key.all_namespaces, world, world.registry, rules)
    if source_type.status is None or source is None or isinstance(prepared, Plan) or prepared[0].paused:
        return
    tally = CopyCounts()
    for step in steps(*prepared):
        tally.count(step)
    status = source_type.status.report(source, world, tally)
    if status and source.status != a_field("status", status):
        yield WriteStatus(key, source.ref, source, status)


def writes_of(key: Key, world: World, rules: ClusterPolicy) -> list[Write]:
    return [*plan_of(key, world, rules).writes, *report(key, world, rules)]


def is_silent(world: World, rules: ClusterPolicy) -> bool:
    return not any(writes_of(key, world, rules) for key in every_key(world))


def settle(
    world: World,
    rules: ClusterPolicy = RULES,
    order: Order = in_given_order,
    fates: Iterable[Fate] = (),
    check: Check = lambda world, write: None,
) -> list[Write]:
    """Plans every key until none has a write, and returns all writes.

    A write is performed, dropped, or performed without the cache seeing the result, as `fates` says. Like the operator,
    it sends no write to an object that has changed in the cache since the plan, and plans that again.
    """
    fate, sent, outdated = iter(fates), list[Write](), 0
    for _ in range(ROUNDS):
        cache, before = world.snapshot(), (len(sent), outdated, len(world.fetched), len(world.values))
        for key in order(every_key(cache)):
            for write in writes_of(key, cache, rules):
                if cache.get(write.ref) is not (None if isinstance(write, Create) else write.live):
                    outdated += 1
                    continue
                sent.append(write)
                check(cache, write)
                outcome = next(fate, "done")
                if outcome != "dropped":
                    perform(world, write)
                if outcome == "done":
                    cache.catch_up(world)
        if (len(sent), outdated, len(world.fetched), len(world.values)) == before:
            return sent  # nothing was read either, which could have changed the plan of an earlier key
    raise AssertionError(f"not settled after {ROUNDS} rounds: {sent[-3:]}")


def follow(world: World, rules: ClusterPolicy, change: Callable[[World], object]) -> None:
    """Makes a change and plans the keys that its events lead to, then those of the events of the writes, and so on."""
    queue = dict.fromkeys(_keys_to_plan(world, change))
    for _ in range(ROUNDS * 10):
        if not queue:
            return
        key = next(iter(queue))
        del queue[key]
        for write in writes_of(key, world, rules):
            queue.update(dict.fromkeys(_keys_to_plan(world, partial(perform, write=write))))
    raise AssertionError("the events never end")


def _keys_to_plan(world: World, change: Callable[[World], object]) -> list[Key]:
    """The keys that a change's events lead to: those of the object before and after, and the rivals of a source."""
    before = world.snapshot()
    change(world)
    refs = [ref for ref in {**before.objects, **world.objects} if before.objects.get(ref) is not world.objects.get(ref)]
    rivals = [key for ref in refs for state in (before, world) for key in _rivals(state, ref)]
    changed = [state.objects[ref] for ref in refs for state in (before, world) if ref in state.objects]
    return [*rivals, *(key for obj in changed for key in world.registry.keys_to_reconcile(obj, world))]


def _rivals(world: World, ref: Ref) -> list[Key]:
    claims = [world.registry[key.source_type].addresses(ref, world) for key in world.source_keys() if key.source == ref]
    return [
        key for claim in claims if claim is not None for key in world.sources_overlapping(claim) if key.source != ref
    ]
