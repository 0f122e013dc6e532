"""Properties of every vocabulary in every world: of all real vocabularies and of the toys."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support import examples, strategies, toys
from tests.support.oracle import (
    assert_lawful,
    desired_copy,
    has_content_of,
    is_kept,
    is_of_deleted_definition,
    is_ours,
    names_earlier_source,
    namespace_accepts,
    policy_allows,
)
from tests.support.samples import Clock, a_cache, a_key, a_source, deletes, numbered
from tests.support.settle import RULES, Fate, every_key, follow, is_silent, plan_of, settle, writes_of
from tests.support.strategies import CANARY
from tests.support.world import World, at, content, secret

import samara.core
from samara.assembly import registry_of
from samara.core.copy_counts import CopyCounts
from samara.core.desired import UNAVAILABLE, Adopt, Mode
from samara.core.mass_delete import MassDeleteLimit
from samara.core.metadata_keys import ACCEPT, ADOPTED, IGNORE, PAUSED, RELEASED
from samara.core.model import (
    FIELD_MANAGER,
    NAMESPACE,
    Content,
    Key,
    Kind,
    Object,
    OwnerReference,
    Ref,
    namespace_ref,
    vocabulary_of,
)
from samara.core.near_misses import NearMissRules
from samara.core.ownership import ByOwnerReference
from samara.core.plan import plan, prepare, steps
from samara.core.policy import ClusterPolicy, paused_by
from samara.core.registry import Registry
from samara.core.source_type import CustomResource, Protected, SourceType
from samara.core.status import status_of
from samara.core.writes import Create, Delete, Plan, Recreate, Release, SetFinalizer, Update, Write
from samara.engine.deletions import DeletionGate
from samara.engine.limits import FlapDamper
from samara.engine.mass_delete import MassDeleteGuard
from samara.settings import Settings
from samara.vocabularies import VOCABULARIES, accurate, resource_distribution, sync_to
from samara.vocabularies.accurate import labels as trees
from samara.vocabularies.accurate.labels import PROPAGATE, SUB_NAMESPACE
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION
from samara.vocabularies.secret_copy import TARGETS

CORE = Path(inspect.getfile(samara.core)).parent
EVERYTHING = toys.full_registry()
RESOURCES = EVERYTHING.resources
"""The custom resources, real ones and toys."""
COPIED_KINDS = tuple(kind for kind in EVERYTHING.kinds if kind not in (NAMESPACE, *RESOURCES))
"""The kinds of which copies are made."""
FINALIZERS = frozenset(source_type.finalizer for source_type in EVERYTHING.source_types if source_type.finalizer)
Order = Callable[[list[Key]], list[Key]]


def fresh_copy(world: World) -> World:
    fresh = world.snapshot()
    fresh.fetched, fresh.values = set(world.fetched), dict(world.values)
    return fresh


PLACES = st.sets(st.sampled_from([at(namespace, name) for namespace in "abc" for name in "xy"]))


@given(PLACES, PLACES, PLACES)
def test_held_removals_are_replaced_and_refused_ones_stay_refused(
    refused: set[Ref], before: set[Ref], now: set[Ref]
) -> None:
    tally = CopyCounts()
    for ref in refused:
        tally.mark_not_removed(ref, "refused", "no right to delete")
    for held in (before - refused, now - refused):
        tally.mark_held(held)
    assert {ref: blocked.reason for ref, blocked in tally.removals.items()} == {
        **dict.fromkeys(refused, "refused"),
        **dict.fromkeys(now - refused, "held"),
    }


@pytest.mark.parametrize("name", [source_type.name for source_type in toys.full_registry().source_types])
@pytest.mark.parametrize("there", [False, True])
def test_many_removals_at_once_are_held_unless_the_source_was_deleted_explicitly(name: str, there: bool) -> None:
    clock, registry = Clock(), toys.full_registry()
    guard = MassDeleteGuard(MassDeleteLimit(5), 600.0, clock)
    gate = DeletionGate(a_cache(registry), registry, guard, FlapDamper(clock), clock, gone_after=3.0)
    key, source = a_key(source_type=name), a_source() if there else None
    gone = deletes(numbered(0, 10), key)
    source_kind = registry[name].source
    custom = source_kind if isinstance(source_kind, CustomResource) else None
    explicit = custom is not None and custom.explicit_deletion and not there
    patience = custom.gone_after if custom is not None else None
    first = gate.judge(key, source, gone).allowed
    assert first == (gone if explicit and patience == 0.0 else []), (
        "held, or the grace period of the source is not over"
    )
    clock.now += patience or 3.0
    assert gate.judge(key, source, gone).allowed == (gone if explicit else [])


SMALL = {"data": {"key": "b25l"}}


@pytest.mark.parametrize(
    ("paused", "resource", "gives_way"),
    [("", SMALL, True), ("true", SMALL, False), ("", {"data": {"key": "no base64"}}, False)],
    ids=["ready", "paused", "unfit"],
)
def test_a_copy_is_replaced_only_if_the_winner_can_write_its_own(
    paused: str, resource: dict[str, object], gives_way: bool
) -> None:
    world = World(toys.full_registry())
    for name in ("admin", "a", "b"):
        world.namespace(name)
    world.put(at("a", "x"), secret(), annotations={sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "b"})
    settle(world)
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, **resource}
    spec = {"resource": body, "targets": {"includedNamespaces": {"list": [{"name": "b"}]}}}
    world.put(Ref(RESOURCE_DISTRIBUTION, "", "d"), content(spec=spec), annotations={PAUSED: paused} if paused else {})
    settle(world, check=assert_lawful)
    assert bool(world.objects[at("b", "x")].owner_references) == gives_way


def test_overwrite_leaves_an_object_with_the_owner_reference_of_a_distribution() -> None:
    world = World(toys.full_registry(adopt=Adopt.ANY))
    for name in ("admin", "a", "b"):
        world.namespace(name)
    given = world.put(at("b", "x"), secret("two"), owner_references=strategies.owner_of(world, "d1", stale=True))
    world.put(at("a", "x"), secret(), annotations={sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "b"})
    world.fetch([given.ref])
    settle(world, check=assert_lawful)
    assert world.objects[at("b", "x")] is given


def test_overwrite_waits_until_the_copy_of_a_deleted_distribution_is_deleted() -> None:
    world = World(toys.full_registry(adopt=Adopt.ANY))
    for name in ("admin", "a", "b"):
        world.namespace(name)
    gone = strategies.owner_of(world, "d1", stale=True)
    words = {resource_distribution.FROM: "d1"}
    world.put(at("b", "x"), secret("two"), "samara", annotations=words, owner_references=gone)
    world.put(at("a", "x"), secret(), annotations={sync_to.SYNC_TO: "namespaces", sync_to.SYNC_TO_NAMESPACES: "b"})
    blocked = plan_of(Key("sync-to", at("a", "x")), world, ClusterPolicy()).blocked
    assert [blocked_copy.reason for blocked_copy in blocked] == ["conflict"]
    settle(world, check=assert_lawful)
    assert world.objects[at("b", "x")].content == secret()


@pytest.mark.parametrize("adopt", [Adopt.IDENTICAL, Adopt.ANY])
def test_overwrite_lets_a_source_take_over_a_source_below_it_in_the_tree(adopt: Adopt) -> None:
    world = World(toys.full_registry(adopt=adopt))
    world.namespace("r", {trees.TYPE: trees.ROOT})
    world.namespace("a", {trees.PARENT: "r"})
    world.put(at("r", "x"), secret(), annotations={PROPAGATE: trees.UPDATE})
    world.put(at("a", "x"), secret("two"), annotations={PROPAGATE: trees.CREATE})
    settle(world, check=assert_lawful)
    assert world.objects[at("a", "x")].content == secret("one" if adopt is Adopt.ANY else "two")


def test_a_copy_that_accurate_created_once_belongs_to_its_namespace_for_other_vocabularies() -> None:
    world = World(toys.full_registry())
    for name in ("admin", "b"):
        world.namespace(name)
    marks = {trees.FROM: "gone", PROPAGATE: trees.CREATE}
    created = world.put(at("b", "x"), secret("two"), "samara", annotations=marks)
    source = world.put(at("admin", "x"), secret(), annotations={TARGETS: ""})
    settle(world, check=assert_lawful)
    key = Key("secret-copy", source.ref)
    assert world.objects[created.ref] is created
    assert [blocked_copy.reason for blocked_copy in plan_of(key, world, RULES).blocked] == ["conflict"]
    assert not is_ours(world, key, created)


def test_a_namespace_is_deleted_with_its_sub_namespace_even_if_another_field_manager_set_its_parent() -> None:
    world = World(toys.full_registry())
    world.namespace("r", {trees.TYPE: trees.ROOT})
    world.namespace("a", {trees.PARENT: "r"})
    sub = world.put(Ref(SUB_NAMESPACE, "r", "a"), content(spec={}), finalizers=(trees.FINALIZER,), generation=1)
    world.delete(sub.ref)
    settle(world, order=lambda keys: sorted(keys, key=lambda key: key.source != sub.ref), check=assert_lawful)
    assert {sub.ref, namespace_ref("a")}.isdisjoint(world.objects)


VOCABULARY_NAMES = [vocabulary.name for vocabulary in VOCABULARIES]


def writes_left_after_events(vocabulary: str, registry: Registry) -> tuple[list[Write], int]:
    """The writes that remain after the events of the Namespaces of an example, and the number of copies they caused."""
    remaining, made = list[Write](), 0
    for world, event in examples.namespace_events(vocabulary, registry):
        before = copies_in(world)
        follow(world, RULES, event)
        made += len(copies_in(world) - before)
        remaining += settle(world, RULES)
    return remaining, made


def copies_in(world: World) -> set[Ref]:
    return {obj.ref for obj in world.held() if world.owner(obj) is not None}


@pytest.mark.parametrize("vocabulary", VOCABULARY_NAMES)
def test_a_new_namespace_of_an_example_gets_its_copies_through_events_alone(vocabulary: str) -> None:
    remaining, made = writes_left_after_events(vocabulary, examples.registry_for(vocabulary))
    assert remaining == []
    assert made, f"a namespace in examples/{vocabulary} must get a copy when it appears"


@pytest.mark.parametrize("vocabulary", VOCABULARY_NAMES)
def test_sources_and_copies_of_an_example_have_no_near_misses(vocabulary: str) -> None:
    registry = examples.registry_for(vocabulary)
    world = examples.a_world(registry)
    examples.populate(world, examples.examples(vocabulary))
    assert copies_in(world)
    rules = NearMissRules(registry)
    assert {obj.ref: misses for obj in world.held() if (misses := rules.of_object(obj, world))} == {}


REACTING = [
    source_type.name
    for vocabulary in VOCABULARY_NAMES
    for source_type in examples.registry_for(vocabulary).source_types
    if source_type.vocabulary == vocabulary
]


@pytest.mark.parametrize("name", REACTING)
def test_a_source_type_that_ignores_events_of_namespaces_leaves_copies_unwritten(name: str) -> None:
    """It shows for every source type that the test above can fail."""
    vocabulary = vocabulary_of(name)
    types = examples.registry_for(vocabulary).source_types
    source_types = tuple(
        replace(source_type, affected_by=toys.unaffected) if source_type.name == name else source_type
        for source_type in types
    )
    remaining, _ = writes_left_after_events(vocabulary, Registry(source_types))
    assert remaining


@pytest.mark.parametrize("vocabulary", VOCABULARY_NAMES)
def test_a_vocabulary_lists_every_metadata_key_of_its_source_types(vocabulary: str) -> None:
    """Otherwise these keys would be copied, and a copy could be taken for a source or for a copy of another source."""
    settings = Settings()
    named = next(known.metadata_keys for known in VOCABULARIES if known.name == vocabulary)
    types = [source_type for source_type in registry_of(settings).source_types if source_type.vocabulary == vocabulary]
    assert named == frozenset().union(
        *(source_type.ownership.marks | source_type.source.metadata_keys for source_type in types)
    )


@given(strategies.worlds())
def test_an_object_without_marks_leads_to_no_source(world: World) -> None:
    """The registry asks only about objects with marks or owner references. An owner reference is not a mark."""
    for obj in world.objects.values():
        for source_type in world.registry.source_types:
            bare = without(obj, source_type.ownership.marks)
            if not isinstance(source_type.ownership, ByOwnerReference):
                assert source_type.ownership.source_of(bare, world) is None


def without(obj: Object, keys: frozenset[str]) -> Object:
    labels, annotations = (
        {key: value for key, value in metadata.items() if key not in keys} for metadata in (obj.labels, obj.annotations)
    )
    return replace(obj, labels=labels, annotations=annotations)


@given(strategies.worlds(), strategies.rules())
def test_every_world_settles_with_lawful_writes_and_then_needs_none(world: World, rules: ClusterPolicy) -> None:
    settle(world, rules, check=assert_lawful)
    assert is_silent(world, rules)


@given(
    strategies.worlds(),
    strategies.rules(),
    st.sampled_from(EVERYTHING.kinds),
)
def test_an_unlisted_kind_stops_only_the_keys_that_use_it(world: World, rules: ClusterPolicy, kind: Kind) -> None:
    before = fresh_copy(world)
    settle_reads(before, rules)
    world.fetched, world.values = before.fetched, before.values
    world.unlisted.add(kind)
    world.objects = {ref: obj for ref, obj in world.objects.items() if ref.kind != kind}
    for key in every_key(before):
        planned = plan(key, world, world.registry, rules)
        if kind in _used(key, before):
            assert planned == Plan(ready=False)
        elif _is_known(key, before):
            assert planned.ready


def _used(key: Key, world: World) -> set[Kind]:
    """The kinds that the plan of a key reads, if its addresses are known."""
    place = world.registry[key.source_type].addresses(key.source, world)
    return {NAMESPACE, key.source.kind, *(() if place is None else (place.kind,))}


def _is_known(key: Key, world: World) -> bool:
    return world.registry[key.source_type].addresses(key.source, world) is not None


@given(strategies.worlds(), strategies.rules())
def test_an_object_that_is_neither_ours_nor_wanted_is_never_changed(world: World, rules: ClusterPolicy) -> None:
    before = fresh_copy(world)
    touched = {write.ref for write in settle(world, rules)}
    desired_refs = _desired_refs(before) | _desired_refs(world)
    for ref, obj in before.objects.items():
        if (
            ref.kind in COPIED_KINDS
            and ref not in desired_refs
            and not _is_proven(obj, before)
            and _has_namespace(ref, world)
        ):
            assert world.objects.get(ref) is obj
            assert ref not in touched


def _desired_refs(world: World, besides: Key | None = None) -> set[Ref]:
    """Every address that any source desires, allowed or not."""
    desired = [
        world.registry[key.source_type].desired(key.source, world) for key in world.source_keys() if key != besides
    ]
    return {copy.ref for state in desired for copy in state.copies}


def _has_namespace(ref: Ref, world: World) -> bool:
    """False if the Namespace is missing or terminating."""
    namespace = world.objects.get(namespace_ref(ref.namespace))
    return namespace is not None and not namespace.deleting


def _is_proven(obj: Object, world: World) -> bool:
    return any(owned.key in world.registry.metadata_keys for owned in obj.managed_keys)


@given(strategies.worlds(), strategies.rules(), strategies.orders())
def test_the_order_of_keys_does_not_matter(world: World, rules: ClusterPolicy, order: Order) -> None:
    assume(not _deletes_what_is_inherited(world))
    before, other = fresh_copy(world), fresh_copy(world)
    written = [*settle(world, rules), *settle(other, rules, order)]
    assert _state(other, before, written) == _state(world, before, written)


@given(strategies.worlds(), strategies.rules(), strategies.fates(), strategies.orders())
def test_lost_writes_and_late_events_only_delay_the_result(
    world: World, rules: ClusterPolicy, fates: list[Fate], order: Order
) -> None:
    assume(not _deletes_what_is_inherited(world))
    before, other = fresh_copy(world), fresh_copy(world)
    written = [*settle(world, rules), *settle(other, rules, order, fates, check=assert_lawful)]
    assert _state(other, before, written) == _state(world, before, written)


def test_a_write_is_not_sent_if_a_late_event_shows_that_its_object_has_changed() -> None:
    """The distribution no longer wants the Secret, which another source takes over. It sees that after its first write.

    The operator drops such a write too, and plans again.
    """
    world = World(toys.full_registry())
    for name in ("admin", "a", "b"):
        world.namespace(name)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"key": "one"}}
    spec = {"resource": body, "targets": {"allNamespaces": True}}
    source = world.put(Ref(RESOURCE_DISTRIBUTION, "", "d"), content(spec=spec))
    kind = RESOURCE_DISTRIBUTION
    owner = OwnerReference(kind.api_version, kind.name, "d", source.uid, controller=True, block_owner_deletion=True)
    marks = {resource_distribution.FROM: "d", resource_distribution.HASHCODE: "0"}
    world.put(at("b", "x"), secret("old"), by=FIELD_MANAGER, annotations=marks, owner_references=(owner,))
    world.put(at("admin", "x"), secret(), annotations={TARGETS: "b"})

    def distribution_last(keys: list[Key]) -> list[Key]:
        return sorted(keys, key=lambda key: key.source == source.ref)

    written = settle(world, order=distribution_last, fates=["unseen"], check=assert_lawful)
    assert not any(isinstance(write, Delete) for write in written)
    assert world.objects[at("b", "x")].content == secret()


def _state(world: World, before: World, written: list[Write]) -> dict[Ref, tuple[object, ...]]:
    """The state without the labels and annotations that others had put on an object which Samara replaced.

    One write that takes the object over keeps them. They are lost if the former source deletes the object first.
    """
    state = world.state()
    replaced = {write.ref for write in written if isinstance(write, Delete | Recreate)}
    for ref in replaced & state.keys() & before.objects.keys():
        old, new = before.objects[ref], world.objects[ref]
        foreign = {*old.labels, *old.annotations} - {owned.key for owned in old.managed_keys}
        metadata = ({key: keys[key] for key in keys.keys() - foreign} for keys in (new.labels, new.annotations))
        content, _, _, *others = state[ref]
        state[ref] = (content, *metadata, *others)
    return state


def _deletes_what_is_inherited(world: World) -> bool:
    """True if a SubNamespace is being deleted whose namespace is the parent or the template of others.

    What these inherit then depends on which is first, the deletion or the inheritance: their labels, and whether their
    copies already have the new mode of a source that just changed from create to update.
    """
    givers = {
        namespace.labels.get(label)
        for namespace in world.objects_of(NAMESPACE)
        for label in (trees.PARENT, trees.TEMPLATE)
    }
    return any(sub.deleting and sub.ref.name in givers for sub in world.objects_of(SUB_NAMESPACE))


@given(strategies.worlds(), strategies.rules(), st.lists(strategies.user_actions(), min_size=1, max_size=3))
def test_events_alone_lead_to_every_key_with_work(
    world: World, rules: ClusterPolicy, actions: list[Callable[[World], None]]
) -> None:
    settle(world, rules)
    for action in actions:
        follow(world, rules, action)
        assert [write for key in world.source_keys() for write in writes_of(key, world, rules)] == []
        settle(world, rules)  # as a resync does: a copy may have been kept for a source that was paused or waiting


@given(strategies.worlds(), strategies.rules())
def test_the_slices_of_a_plan_together_are_the_plan(world: World, rules: ClusterPolicy) -> None:
    settle_reads(world, rules)
    namespaces = {"admin", "a", "b", "c", "zz", "kube-x"}  # all that exist, and those that are only listed
    for key in every_key(world):
        if not world.registry[key.source_type].per_namespace:
            continue
        complete = _outcomes(key, world, rules)
        parts = [_outcomes(key.in_namespace(namespace), world, rules) for namespace in sorted(namespaces)]
        assert {ref: outcome for part in parts for ref, outcome in part.items()} == complete
        assert all(part[ref] == complete[ref] for part in parts for ref in part)


def settle_reads(world: World, rules: ClusterPolicy) -> None:
    for key in every_key(world):
        plan_of(key, world, rules)


def _outcomes(key: Key, world: World, rules: ClusterPolicy) -> dict[Ref, object]:
    prepared = prepare(key, world, world.registry, rules)
    if isinstance(prepared, Plan):
        return {}
    taken = list(steps(*prepared))
    assert len({step.ref for step in taken}) == len(taken), "one address has two outcomes"
    return {step.ref: (step.outcome, step.desired) for step in taken}


@given(strategies.worlds(), strategies.rules())
def test_every_label_written_is_legal(world: World, rules: ClusterPolicy) -> None:
    legal = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
    for write in settle(world, rules):
        if isinstance(write, Create | Update | Recreate):
            assert all(legal.fullmatch(value) for value in write.copy.template.labels.values())


@given(strategies.worlds(), strategies.rules())
def test_no_value_is_in_any_repr(world: World, rules: ClusterPolicy) -> None:
    shown = [repr(obj) + repr(obj.content) for obj in world.objects.values()]
    for key in every_key(world):
        shown.append(repr(plan_of(key, world, rules)))
        shown.append(repr(world.registry[key.source_type].desired(key.source, world)))
        shown += [repr(write) for write in writes_of(key, world, rules)]
    assert CANARY not in "".join(shown)


@given(strategies.worlds(), strategies.rules())
def test_an_address_has_at_most_one_owner_across_all_source_types(world: World, rules: ClusterPolicy) -> None:
    settle(world, rules)
    holders: dict[Ref, Key] = {}
    for key in world.source_keys():
        planned = plan_of(key, world, rules)
        for ref in set(planned.desired) - {blocked.ref for blocked in planned.blocked}:
            assert holders.setdefault(ref, key) == key
            assert (
                _is_left_as_it_is(ref, key, world)
                or world.registry[key.source_type].ownership.source_of(world.objects[ref], world) == key.source
            )


def _is_left_as_it_is(ref: Ref, key: Key, world: World) -> bool:
    """True if a source leaves an object alone that does not name it: it only creates, or it knows no content and the
    object may be its copy, because it names no source."""
    copies = [copy for copy in world.registry[key.source_type].desired(key.source, world).copies if copy.ref == ref]
    names_none = world.registry.owner(world.objects[ref], world) is None
    return any(
        copy.template.mode is Mode.CREATE_ONLY or (copy.template.content is UNAVAILABLE and names_none)
        for copy in copies
    )


@given(strategies.worlds(), strategies.rules())
def test_every_conflict_has_a_visible_cause(world: World, rules: ClusterPolicy) -> None:
    settle(world, rules)
    plans = {key: plan_of(key, world, rules) for key in world.source_keys()}
    for key, planned in plans.items():
        for ref in [blocked.ref for blocked in planned.blocked if blocked.reason == "conflict"]:
            live = world.objects.get(ref)
            rivals = [other for other in plans if other != key and _may_win(plans[other], ref, rules)]
            assert (
                rivals
                or _waits_for_its_source(ref, key, world)
                or (live is not None and (live.deleting or _is_anothers(world, key, live)))
            )


def _waits_for_its_source(ref: Ref, key: Key, world: World) -> bool:
    """True if the source is a copy that must be repaired first. The conflict names what it waits for."""
    copies = world.registry[key.source_type].desired(key.source, world).copies
    return any(copy.template.waiting_for for copy in copies if copy.ref == ref)


def _is_anothers(world: World, key: Key, live: Object) -> bool:
    if live.ref.kind == NAMESPACE:  # the parent label counts, whichever field manager set it
        return world.registry[key.source_type].ownership.source_of(live, world) != key.source
    stays = is_kept(world, key, live) or _outlives_its_source(live, world) or is_of_deleted_definition(world, live)
    return stays or not is_ours(world, key, live)


def _outlives_its_source(live: Object, world: World) -> bool:
    """True for a copy whose source is gone and which stays on purpose."""
    owner = world.registry.owner(live, world)
    return owner is not None and owner not in world.source_keys() and not _prunes(owner, world)


def _prunes(key: Key, world: World) -> bool:
    return world.registry[key.source_type].desired(key.source, world).prune


def _may_win(planned: Plan, ref: Ref, rules: ClusterPolicy) -> bool:
    """True if the source may win the address, even if a pause or an immutable field prevents the write."""
    bars = ("not-accepted", "no-namespace", *(("refused",) if rules.recreate else ()))
    barred = {blocked_copy.ref for blocked_copy in planned.blocked if blocked_copy.reason in bars}
    return ref in planned.desired and ref not in barred


@given(strategies.worlds(), strategies.rules())
def test_marks_and_requests_are_never_copied(world: World, rules: ClusterPolicy) -> None:
    words = world.registry.metadata_keys | {ADOPTED, RELEASED, PAUSED, IGNORE, ACCEPT}
    for write in settle(world, rules):
        if isinstance(write, Create | Update | Recreate):
            source_type = world.registry[write.key.source_type]
            carried = {*write.copy.template.labels, *write.copy.template.annotations} - {ADOPTED}
            assert carried & words <= source_type.ownership.marks | _needed_by_next_hop(source_type, write, world)
            assert strategies.GITOPS not in carried or isinstance(source_type.source, CustomResource), (
                "the author of a custom resource wrote it for the copies"
            )


def _needed_by_next_hop(source_type: SourceType, write: Create | Update | Recreate, world: World) -> set[str]:
    """In a chain: the keys without which the copy would be no source of the next copy."""
    if source_type.hierarchy is None:
        return set()
    annotations = write.copy.template.annotations
    shortened = {
        key: Object(write.ref, "", 1, annotations={other: annotations[other] for other in annotations if other != key})
        for key in source_type.source.metadata_keys.intersection(annotations)
    }
    return {key for key, rest in shortened.items() if not source_type.is_source(rest, world)}


@given(strategies.worlds(), strategies.rules())
def test_protected_namespaces_are_written_only_by_source_types_that_may(world: World, rules: ClusterPolicy) -> None:
    def check(cache: World, write: Write) -> None:
        copy = desired_copy(cache, write)
        if isinstance(write, Create | Update | Recreate) and copy is not None:
            assert policy_allows(cache, write, copy, rules.protected)

    settle(world, rules, check=check)


@given(strategies.worlds(), strategies.rules())
def test_an_object_of_the_operator_is_never_written_for_a_source_type_that_protected_namespaces_refuse(
    world: World, rules: ClusterPolicy
) -> None:
    def check(cache: World, write: Write) -> None:
        if isinstance(write, Create | Update | Recreate) and write.ref in rules.operators_own:
            assert cache.registry[write.key.source_type].policy.protected is not Protected.REFUSE

    settle(world, rules, check=check)


@given(strategies.worlds())
def test_every_source_that_wants_a_copy_in_a_namespace_by_its_name_trusts_that_name(world: World) -> None:
    for key in world.source_keys():
        if vocabulary_of(key.source_type) == accurate.NAME:
            continue  # it makes the Namespaces themselves
        source_type = world.registry[key.source_type]
        for copy in source_type.desired(key.source, world).copies:
            if copy.by_name:
                assert source_type.names.trusts is not None
                assert source_type.names.trusts(world.objects[key.source], copy.ref.namespace)


@given(strategies.worlds(), strategies.rules())
def test_no_namespace_of_a_trusted_name_is_created(world: World, rules: ClusterPolicy) -> None:
    def check(cache: World, write: Write) -> None:
        if isinstance(write, Create) and write.ref.kind == NAMESPACE:
            before = status_of(cache.objects[write.key.source])
            assert not list(cache.trust_in(write.ref.name)) or before

    settle(world, rules, check=check)


@given(strategies.worlds(), strategies.rules())
def test_immutable_differences_recreate_a_copy_only_if_the_settings_allow_it(
    world: World, rules: ClusterPolicy
) -> None:
    def check(cache: World, write: Write) -> None:
        taken_over = isinstance(write, Recreate) and cache.registry.owner(write.live, cache) != write.key
        assert rules.recreate or not isinstance(write, Recreate) or taken_over

    settle(world, rules, check=check)


@given(strategies.worlds(), strategies.rules())
def test_every_desired_copy_that_is_not_blocked_equals_its_template(world: World, rules: ClusterPolicy) -> None:
    settle(world, rules)
    for key in world.source_keys():
        blocked = {blocked_copy.ref for blocked_copy in plan_of(key, world, rules).blocked}
        planned = set(plan_of(key, world, rules).desired)
        for ref, template, *_ in world.registry[key.source_type].desired(key.source, world).copies:
            if ref in planned - blocked and template.content is not UNAVAILABLE and template.mode is Mode.SYNC:
                live = world.objects[ref]
                assert template.owner is None or template.owner in live.owner_references
                assert has_content_of(template, live) or world.is_stored_form_of(
                    ref.kind, template.content, live.content
                )
                assert {**live.labels, **template.labels} == dict(live.labels)
                assert {**live.annotations, **template.annotations} == dict(live.annotations)


@given(strategies.worlds(), strategies.rules())
def test_no_copy_in_sync_is_deleted_while_its_source_wants_it(world: World, rules: ClusterPolicy) -> None:
    settle_reads(world, rules)
    plans = {key: plan_of(key, world, rules) for key in every_key(world)}
    gone = {write.ref for planned in plans.values() for write in planned.writes if isinstance(write, Delete | Release)}
    for key, planned in plans.items():
        seeds = {
            copy.ref
            for copy in world.registry[key.source_type].desired(key.source, world).copies
            if copy.template.mode is Mode.CREATE_ONLY
        }
        waiting = {step.ref for step in planned.steps if step.rule == "content-unavailable"}
        undecided = {outcome.ref for outcome in (*planned.writes, *planned.blocked)} | seeds | waiting
        good = {ref for ref in planned.desired if ref not in undecided and ref in world.objects}
        assert not gone & good


@given(strategies.worlds(), strategies.rules(), strategies.specs(), st.booleans())
def test_a_copy_that_is_replaced_for_a_late_distribution_exists_afterwards(
    world: World, rules: ClusterPolicy, spec: Content, paused: bool
) -> None:
    """A late distribution comes before most other sources, and must recreate their copies instead of updating them."""
    settle(world, rules)
    given_up: set[Ref] = set()
    world.put(Ref(RESOURCE_DISTRIBUTION, "", "late"), spec, annotations={PAUSED: "true"} if paused else {})

    def check(cache: World, write: Write) -> None:
        if isinstance(write, Recreate) and cache.registry.owner(write.live, cache) != write.key:
            given_up.add(write.ref)
        if isinstance(write, Delete) and (copy := desired_copy(cache, write)) and namespace_accepts(cache, write, copy):
            assert names_earlier_source(cache, write), "a source that loses an address deletes nothing"

    settle(world, rules, check=check)
    assert given_up <= world.objects.keys()


@given(strategies.worlds(), strategies.rules(), st.sampled_from(RESOURCES))
def test_a_deleted_definition_deletes_no_copies_and_keeps_no_finalizers(
    world: World, rules: ClusterPolicy, kind: Kind
) -> None:
    """The server deletes all objects of the kind. Our finalizers are removed, and the copies stay."""
    settle(world, rules)
    world.revoked, world.values = {kind}, {}
    going = [obj for obj in world.objects.values() if obj.ref.kind == kind]
    made = {
        obj.ref
        for obj in world.held()
        for key in (world.registry.owner(obj, world),)
        if key and key.source.kind == kind
    }
    for obj in going:
        if not obj.deleting:
            world.delete(obj.ref)

    def check(cache: World, write: Write) -> None:
        assert not isinstance(write, Delete | Release) or write.key.source.kind != kind

    settle(world, rules, check=check)
    assert made <= world.objects.keys()
    there = [obj for obj in world.objects.values() if obj.ref.kind == kind]
    remaining = [obj for obj in there if not paused_by(obj, _source_type_of(kind), world)]
    assert not any(FINALIZERS & {*obj.finalizers} for obj in remaining)


def _source_type_of(kind: Kind) -> SourceType:
    return next(source_type for source_type in EVERYTHING.source_types if source_type.resource == kind)


@given(strategies.worlds(), strategies.rules())
def test_a_copy_of_ours_never_blocks_the_source_that_wins_its_address(world: World, rules: ClusterPolicy) -> None:
    settle(world, rules)
    plans = {key: plan_of(key, world, rules) for key in world.source_keys()}
    for key, planned in plans.items():
        for ref in [blocked.ref for blocked in planned.blocked if blocked.reason == "conflict"]:
            live, rivals = world.objects.get(ref), [other for other in plans if other != key]
            if live is not None and not any(_may_win(plans[other], ref, rules) for other in rivals):
                owner = world.registry.owner(live, world)
                assert owner is None or _must_stay(live, owner, world, rules)


def _must_stay(live: Object, owner: Key, world: World, rules: ClusterPolicy) -> bool:
    """True for an object that we did not create, and for a copy that is terminating, released, paused or not pruned."""
    source, write = world.get(owner.source), Delete(owner, live.ref, live)
    if (
        live.deleting
        or is_of_deleted_definition(world, live)
        or RELEASED in live.annotations
        or not any(owned.key in world.registry.metadata_keys for owned in live.managed_keys)
    ):
        return True
    prunes = world.registry[owner.source_type].desired(owner.source, world).prune
    if not prunes or (source is not None and source.annotations.get(PAUSED) == "true"):
        return True
    copy = desired_copy(world, write)
    return copy is not None and not (
        namespace_accepts(world, write, copy) and policy_allows(world, write, copy, rules.protected)
    )


@given(strategies.worlds(), strategies.rules())
def test_no_copy_stays_in_a_namespace_that_does_not_accept_it(world: World, rules: ClusterPolicy) -> None:
    settle(world, rules)
    for key in world.source_keys():
        for blocked in plan_of(key, world, rules).blocked:
            live = world.objects.get(blocked.ref)
            if blocked.reason == "not-accepted" and live is not None and world.registry.owner(live, world) == key:
                assert not _could_be_deleted(live, world, besides=key) or ADOPTED in live.annotations


@given(strategies.worlds(), strategies.rules())
def test_copies_of_a_distribution_that_was_deleted_explicitly_are_deleted(world: World, rules: ClusterPolicy) -> None:
    world.revoked = set()
    settle(world, rules)
    for ref in [ref for ref in world.objects if ref.kind == RESOURCE_DISTRIBUTION]:
        if not world.objects[ref].deleting:
            world.delete(ref)
    settle(world, rules)
    for obj in world.held():
        owner = world.registry.owner(obj, world)
        if owner is not None and owner.source.kind == RESOURCE_DISTRIBUTION and owner.source not in world.objects:
            assert not _could_be_deleted(obj, world)


@given(strategies.worlds(), strategies.rules())
def test_the_finalizer_is_added_before_the_first_write_and_removed_after_the_last(
    world: World, rules: ClusterPolicy
) -> None:
    def check(cache: World, write: Write) -> None:
        source = cache.get(write.key.source)
        guard = cache.registry[write.key.source_type].desired(write.key.source, cache).finalizer
        if guard is None or source is None or isinstance(write, SetFinalizer):
            return
        assert guard in source.finalizers or write.ref == source.ref

    for write in settle(world, rules, check=check):
        exists = write.key.source.kind not in world.revoked  # a source that is deleted with its CRD deletes nothing
        if isinstance(write, SetFinalizer) and not write.add and exists:
            assert not [obj for obj in world.copies_of(write.key) if _could_be_deleted(obj, world)]


def _could_be_deleted(obj: Object, world: World, besides: Key | None = None) -> bool:
    """True if nothing prevents the deletion of an unwanted copy."""
    namespace = world.objects[Ref(NAMESPACE, "", obj.ref.namespace or obj.ref.name)]
    stays = (
        obj.deleting or namespace.deleting or RELEASED in obj.annotations or obj.ref in _desired_refs(world, besides)
    )
    return _is_proven(obj, world) and not stays and namespace.annotations.get(PAUSED) != "true"


@pytest.mark.parametrize("gone", ["keep", "delete"])
@pytest.mark.parametrize("adopt", list(Adopt))
def test_each_setting_fills_an_empty_cluster(gone: str, adopt: Adopt) -> None:
    world = World(toys.registry(gone, adopt))
    for name in ("admin", "a", "b"):
        world.namespace(name)
    world.put(at("admin", "db"), secret(), annotations={TARGETS: ""})
    assert {write.ref for write in settle(world)} == {at("a", "db"), at("b", "db")}


@pytest.mark.parametrize("toy", [toys.chain, toys.inherit, toys.fetch, toys.poster, toys.seed])
def test_a_toy_source_type_takes_few_lines(toy: Callable[..., object]) -> None:
    assert len(inspect.getsource(toy).splitlines()) <= 25


CORE_FILES = sorted(CORE.glob("*.py"))
GENERAL = ("core", "kube", "engine", "settings", "admission", "web", "secretstores")
"""The packages that serve every vocabulary alike."""
SPELLED = frozenset(
    vocabulary.name.replace("-", between).lower() for vocabulary in VOCABULARIES for between in ("-", "_", " ")
)
RESOURCE_NAMES = frozenset(kind.name.lower() for vocabulary in VOCABULARIES for kind in vocabulary.custom_resources)
GROUPS = frozenset(kind.group for vocabulary in VOCABULARIES for kind in vocabulary.custom_resources)
PREFIXES = frozenset(key.partition("/")[0] for vocabulary in VOCABULARIES for key in vocabulary.metadata_keys)
ORDINARY = frozenset({"reflector"})
"""What keeps a cache up to date has this name in every controller. The keys of the vocabulary have a prefix of their
own."""
WORDS = sorted({*SPELLED, *RESOURCE_NAMES, *GROUPS, *PREFIXES} - ORDINARY)


@pytest.mark.parametrize(
    "file",
    [file for name in GENERAL for file in sorted((CORE.parent / name).rglob("*.py"))],
    ids=lambda file: f"{file.parent.name}/{file.name}",
)
def test_what_serves_every_vocabulary_names_none(file: Path) -> None:
    text = re.sub(r'"[^"]*/\*"', "", file.read_text().lower())  # patterns of keys that are not copied by default
    assert [word for word in WORDS if word in text] == []


PURE = frozenset(
    {
        *("__future__", "base64", "binascii", "collections", "csv", "dataclasses", "enum", "functools", "hashlib"),
        *("itertools", "json", "re", "types", "typing", "unicodedata"),
    }
)


@pytest.mark.parametrize("file", CORE_FILES, ids=lambda file: file.name)
def test_the_core_imports_no_clock_no_loop_and_no_third_party(file: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    outside = {name for name in imported if not name.startswith("samara.core") and name.split(".")[0] not in PURE}
    assert outside - {"samara.core"} == set()
