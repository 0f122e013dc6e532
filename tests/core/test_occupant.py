"""The occupant of the address of a desired copy, row by row of the table in docs/concepts/ownership.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support import toys
from tests.support.world import World, at, content, secret

from samara.assembly import registry_of
from samara.core.context import PlanContext
from samara.core.desired import Adopt, Copy, Desired, Template
from samara.core.metadata_keys import ADOPTED, APP, PAUSED, RELEASED
from samara.core.model import FIELD_MANAGER, Key, Object, OwnerReference, Ref, namespace_ref
from samara.core.occupant import Occupant, Target
from samara.core.ownership import ByMark
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.rules import decide
from samara.core.source_type import Policy
from samara.core.writes import Blocked
from samara.settings import Settings
from samara.vocabularies import replicator, sync_to
from samara.vocabularies.accurate import labels as accurate
from samara.vocabularies.resource_distribution import FROM as DISTRIBUTED_FROM
from samara.vocabularies.resource_distribution import HASHCODE, RESOURCE_DISTRIBUTION
from samara.vocabularies.secret_copy import FROM, ORIGIN, TARGETS, SecretCopySettings

PLACE = at("a", "x")
COPY = Key("secret-copy", at("admin", "x"))
SYNC = Key("sync-to", at("b", "x"))
DISTRIBUTION = Key("resource-distribution", Ref(RESOURCE_DISTRIBUTION, "", "d"))
EVERYWHERE = {sync_to.SYNC_TO: "cluster"}

COPIED = {"labels": {FROM: "admin-x"}, "annotations": {ORIGIN: "admin/x"}}
SYNCED = {"labels": {sync_to.FROM: "b-x"}, "annotations": {sync_to.FROM: "b/x"}}
DISTRIBUTED = {"annotations": {DISTRIBUTED_FROM: "d", HASHCODE: "0"}}
CREATED_ONCE = {"annotations": {accurate.FROM: "b"}}

Marks = Mapping[str, Mapping[str, str]]


def owned_by(uid: str) -> tuple[OwnerReference, ...]:
    return (OwnerReference(RESOURCE_DISTRIBUTION.api_version, RESOURCE_DISTRIBUTION.name, "d", uid, controller=True),)


def a_world(paused: bool = False, gone: str = "keep", copied_to: str = "a") -> World:
    """A source of each of three vocabularies; the first and the last want the Secret `a/x`."""
    world, pause = World(toys.full_registry(gone)), {PAUSED: "true"} if paused else {}
    for name in ("admin", "a", "b"):
        world.namespace(name)
    world.put(COPY.source, secret(), annotations={TARGETS: copied_to, **pause})
    world.put(SYNC.source, secret(), annotations={**EVERYWHERE, **pause})
    world.put(DISTRIBUTION.source, content(spec={}), annotations=pause)
    return world


def an_object(
    world: World,
    marks: Marks | None = None,
    by: str = FIELD_MANAGER,
    owners: tuple[OwnerReference, ...] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """An object at the address, whose labels and annotations one field manager has set."""
    marked = marks or {}
    live = world.put(
        PLACE,
        secret(),
        by,
        owner_references=owners,
        labels={**marked.get("labels", {}), **(labels or {})},
        annotations={**marked.get("annotations", {}), **(annotations or {})},
    )
    world.fetch([PLACE])
    return live


def owned(world: World) -> tuple[OwnerReference, ...]:
    """The owner reference of a copy of the distribution as it is now."""
    return owned_by(world.objects[DISTRIBUTION.source].uid)


def target(world: World, key: Key, adopt: Adopt = Adopt.IDENTICAL) -> Target:
    return Target(context(world, key), desired_copy(adopt))


def context(world: World, key: Key) -> PlanContext:
    registry = world.registry
    return PlanContext(key, registry[key.source_type], world.get(key.source), world, world, registry, ClusterPolicy())


def desired_copy(adopt: Adopt = Adopt.IDENTICAL) -> Copy:
    return Copy(PLACE, Template(secret(), adopt=adopt))


def keep(world: World, key: Key) -> None:
    """The source of this key does not prune."""
    change(world, key, desired=lambda source, view: Desired(prune=False))


def ask_for_consent(world: World, key: Key) -> None:
    """Sources of this type need the consent of a namespace, and no namespace gives it."""
    change(world, key, policy=Policy(needs_consent=True))


def replaces_original(world: World, key: Key) -> None:
    """The copies that the field manager `original` marked count as Samara's."""
    ownership = world.registry[key.source_type].ownership
    assert isinstance(ownership, ByMark)
    change(world, key, ownership=replace(ownership, managers=frozenset({FIELD_MANAGER, "original"})))


def change(world: World, key: Key, **changes: Any) -> None:
    types = world.registry.source_types
    changed = tuple(
        replace(source_type, **changes) if source_type.name == key.source_type else source_type for source_type in types
    )
    world.registry = Registry(changed)


def occupant(world: World, key: Key) -> Occupant:
    return target(world, key).occupant


def rule(world: World, key: Key, adopt: Adopt = Adopt.IDENTICAL) -> str:
    return decide(context(world, key), desired_copy(adopt))[1]


# 1. This source owns by mark, and the mark names it


@pytest.mark.parametrize("by", [FIELD_MANAGER, "", "kubectl"])
def test_row_1_an_object_whose_mark_names_this_source_is_ours_for_any_field_manager(by: str) -> None:
    world = a_world()
    an_object(world, COPIED, by)
    assert occupant(world, COPY) is Occupant.OURS


def test_row_1_an_object_is_ours_even_with_marks_of_other_vocabularies() -> None:
    world = a_world()
    an_object(world, SYNCED, annotations={**COPIED["annotations"], **SYNCED["annotations"]})
    assert occupant(world, SYNC) is Occupant.OURS
    assert occupant(world, COPY) is Occupant.OURS


# 2. and 3. This source owns by owner reference


def test_row_2_an_owner_reference_with_the_uid_of_this_source_makes_an_object_ours() -> None:
    world = a_world()
    an_object(world, by="", owners=owned(world))
    assert occupant(world, DISTRIBUTION) is Occupant.OURS


def test_row_2_an_object_with_our_owner_reference_is_ours_even_if_a_mark_names_another_holder() -> None:
    world = a_world()
    an_object(world, SYNCED, owners=owned(world))
    assert world.registry.owner(world.objects[PLACE], world) == SYNC
    assert occupant(world, DISTRIBUTION) is Occupant.OURS


def test_row_3_an_owner_reference_with_another_uid_names_an_earlier_source_of_this_name() -> None:
    world = a_world(copied_to="b")
    an_object(world, DISTRIBUTED, owners=owned_by("u-old"))
    assert occupant(world, DISTRIBUTION) is Occupant.PREDECESSOR
    assert rule(world, DISTRIBUTION) == "predecessor"


# 4. The object requests its own content


@pytest.mark.parametrize("key", [COPY, SYNC, DISTRIBUTION])
@pytest.mark.parametrize("adopt", list(Adopt))
def test_row_4_an_object_with_a_pull_annotation_of_any_vocabulary_is_nobodys_copy(key: Key, adopt: Adopt) -> None:
    world = a_world(copied_to="a" if key == COPY else "b")
    an_object(world, by="", annotations={replicator.PULL: "other/x"})
    assert occupant(world, key) is Occupant.PULLING
    assert rule(world, key, adopt) == "pulls"


def test_row_4_a_pull_annotation_counts_while_its_vocabulary_is_disabled() -> None:
    world = a_world()
    world.registry = registry_of(Settings(vocabularies={"secret-copy": SecretCopySettings()}))
    an_object(world, by="", annotations={replicator.PULL: "other/x"})
    assert not world.registry["replicator"].enabled
    assert occupant(world, COPY) is Occupant.PULLING


def test_row_4_a_copy_that_lost_its_marks_and_has_a_pull_annotation_is_nobodys_copy() -> None:
    world = a_world()
    an_object(world, COPIED, annotations={**COPIED["annotations"], replicator.PULL: "other/x"})
    assert occupant(world, COPY) is Occupant.OURS
    assert occupant(world, SYNC) is Occupant.OURS
    world.strip(PLACE)
    assert occupant(world, COPY) is Occupant.PULLING


@pytest.mark.parametrize("by", ["", "kubectl"])
def test_row_4_a_forged_mark_does_not_hide_a_pull_annotation(by: str) -> None:
    world = a_world()
    an_object(world, SYNCED, by, annotations={**SYNCED["annotations"], replicator.PULL: "other/x"})
    assert occupant(world, COPY) is Occupant.PULLING


# 5. This source owns by mark, and no source holds the object


def test_row_5_a_copy_that_lost_its_marks_is_ours() -> None:
    world = a_world()
    an_object(world, COPIED)
    world.strip(PLACE)
    assert occupant(world, COPY) is Occupant.OURS
    assert occupant(world, SYNC) is Occupant.OURS


@pytest.mark.parametrize(
    "why",
    [
        {"annotations": {RELEASED: "true"}},
        {"labels": {APP: "samara"}},  # the operator's own object
        {"marks": DISTRIBUTED},  # a copy of a distribution that lost its owner reference
        {"marks": CREATED_ONCE},  # Accurate created it once, and its source is gone
        {"by": "kubectl"},
    ],
    ids=["released", "operator", "owner reference removed", "created once", "not made by us"],
)
def test_row_5_a_copy_that_belongs_to_its_namespace_is_foreign(why: Mapping[str, Marks]) -> None:
    world = a_world()
    an_object(world, **why)  # type: ignore[arg-type]
    assert world.registry.owner(world.objects[PLACE], world) is None
    assert occupant(world, COPY) is Occupant.FOREIGN


# 6. This source owns by mark, and the object's holder too


def test_row_6_a_copy_that_samara_made_for_another_source_is_taken_over_with_one_update() -> None:
    world = a_world()
    an_object(world, SYNCED)
    assert occupant(world, COPY) is Occupant.OURS
    assert rule(world, COPY) == "drifted"


def test_row_6_the_kept_orphan_of_a_lower_vocabulary_is_taken_over() -> None:
    world = a_world()
    an_object(world, SYNCED)
    world.delete(SYNC.source)
    assert occupant(world, COPY) is Occupant.OURS


def test_row_6_the_kept_orphan_of_the_same_vocabulary_is_taken_over() -> None:
    world = a_world()
    replaces_original(world, SYNC)
    later = world.put(at("c", "x"), secret(), annotations=EVERYWHERE, created="2027")
    an_object(world, SYNCED, "original")
    world.delete(SYNC.source)
    keep(world, SYNC)
    assert occupant(world, Key("sync-to", later.ref)) is Occupant.OURS


def test_row_6_a_copy_of_a_source_without_consent_is_taken_over() -> None:
    world = a_world()
    replaces_original(world, COPY)
    an_object(world, COPIED, "original")
    world.edit(COPY.source, finalizers=("somebody/else",), deleting=True)
    keep(world, COPY)
    assert target(world, SYNC).winner == COPY
    ask_for_consent(world, COPY)
    assert target(world, SYNC).winner is None
    assert occupant(world, SYNC) is Occupant.OURS


@pytest.mark.parametrize("gone", ["keep", "delete"])
def test_row_6_the_kept_orphan_of_a_higher_vocabulary_is_taken_over(gone: str) -> None:
    world = a_world(gone=gone)
    an_object(world, COPIED)
    world.delete(COPY.source)
    assert occupant(world, SYNC) is Occupant.OURS
    assert rule(world, SYNC) == "drifted"


@pytest.mark.parametrize("by", [FIELD_MANAGER, "original"])
def test_row_6_the_orphan_that_the_original_controller_made_for_a_higher_vocabulary_is_left_alone(by: str) -> None:
    """The original may still serve it: two controllers on one object fight."""
    world = a_world()
    replaces_original(world, COPY)
    an_object(world, COPIED, by)
    world.delete(COPY.source)
    assert occupant(world, SYNC) is (Occupant.OURS if by == FIELD_MANAGER else Occupant.FOREIGN)


def test_row_6_a_copy_that_the_original_controller_made_for_a_later_source_is_ours() -> None:
    world = a_world()
    world.edit(namespace_ref("b"), labels={accurate.TYPE: accurate.ROOT})
    world.edit(namespace_ref("a"), labels={accurate.PARENT: "b"})
    propagated = {"annotations": {accurate.FROM: "b", accurate.PROPAGATE: accurate.UPDATE}}
    an_object(world, propagated, accurate.ACCURATE_MANAGER)
    assert occupant(world, COPY) is Occupant.OURS


def test_row_6_an_adopted_object_is_foreign() -> None:
    world = a_world()
    an_object(world, SYNCED, annotations={ADOPTED: "true"})
    assert occupant(world, COPY) is Occupant.FOREIGN


@pytest.mark.parametrize("by", ["", "kubectl"])
def test_row_6_an_object_that_another_field_manager_marked_is_foreign(by: str) -> None:
    world = a_world()
    an_object(world, SYNCED, by)
    assert occupant(world, COPY) is Occupant.FOREIGN


# 7. and 8. One of the two owns by owner reference: an update cannot hand the object over


def test_row_7_a_distribution_replaces_a_copy_of_a_vocabulary_that_comes_after_it() -> None:
    world = a_world(copied_to="b")
    an_object(world, SYNCED)
    assert occupant(world, DISTRIBUTION) is Occupant.REPLACEABLE
    assert rule(world, DISTRIBUTION) == "replaceable"


def test_row_7_a_vocabulary_that_comes_first_replaces_a_copy_of_a_distribution() -> None:
    world = a_world()
    an_object(world, DISTRIBUTED, owners=owned(world))
    assert occupant(world, COPY) is Occupant.REPLACEABLE
    assert rule(world, COPY) == "replaceable"


def test_row_8_a_copy_of_a_source_that_comes_first_stays_that_sources() -> None:
    world = a_world()
    an_object(world, DISTRIBUTED, owners=owned(world))
    assert occupant(world, SYNC) is Occupant.OF_ANOTHER_SOURCE


def test_row_8_a_copy_of_a_paused_source_stays_that_sources() -> None:
    world = a_world(paused=True, copied_to="b")
    an_object(world, SYNCED)
    assert occupant(world, DISTRIBUTION) is Occupant.OF_ANOTHER_SOURCE
    world.edit(DISTRIBUTION.source, annotations={})
    assert rule(world, DISTRIBUTION) == "outranked"


def test_row_8_an_adopted_object_stays_that_of_its_source() -> None:
    world = a_world(copied_to="b")
    an_object(world, SYNCED, annotations={ADOPTED: "true"})
    assert occupant(world, DISTRIBUTION) is Occupant.OF_ANOTHER_SOURCE
    assert rule(world, DISTRIBUTION) == "other-source"


def test_a_copy_of_another_source_is_reported_with_the_source_that_it_was_made_for() -> None:
    world = a_world(copied_to="b")
    an_object(world, SYNCED, annotations={ADOPTED: "true"})
    outcome, _ = decide(context(world, DISTRIBUTION), desired_copy())
    assert isinstance(outcome, Blocked)
    assert (outcome.reason, str(SYNC) in outcome.message) == ("conflict", True)


@pytest.mark.parametrize(("by", "annotations"), [("", {}), ("kubectl", {}), (FIELD_MANAGER, {RELEASED: "true"})])
def test_rows_7_and_8_apply_only_to_objects_that_samara_made_for_their_holder(
    by: str, annotations: Mapping[str, str]
) -> None:
    world = a_world()
    an_object(world, SYNCED, by, annotations=annotations)
    assert occupant(world, DISTRIBUTION) is Occupant.FOREIGN


# 9. The object is a source


@pytest.mark.parametrize("key", [COPY, SYNC, DISTRIBUTION])
def test_row_9_an_object_that_is_a_source_is_left_alone(key: Key) -> None:
    world = a_world()
    an_object(world, by="", annotations=EVERYWHERE)
    assert occupant(world, key) is Occupant.SOURCE


def test_row_9_a_copy_that_accurate_created_once_is_a_source_again() -> None:
    world = a_world()
    an_object(world, CREATED_ONCE, annotations={**CREATED_ONCE["annotations"], accurate.PROPAGATE: accurate.CREATE})
    assert occupant(world, COPY) is Occupant.SOURCE
    assert rule(world, COPY) == "is-a-source"


@pytest.mark.parametrize("adopt", list(Adopt))
def test_row_9_a_source_of_the_same_chain_may_be_overwritten(adopt: Adopt) -> None:
    world = a_world()
    world.namespace("a", {toys.PARENT: "b"})
    source = world.put(at("b", "x"), secret(), annotations={toys.CHAIN: "yes"})
    an_object(world, by="", annotations={toys.CHAIN: "yes"})
    chained = target(world, Key("chain", source.ref), adopt)
    assert chained.occupant is (Occupant.FOREIGN if adopt is Adopt.ANY else Occupant.SOURCE)


def test_row_9_a_copy_is_not_a_source_of_another_vocabulary() -> None:
    world = a_world()
    an_object(world, COPIED, annotations=EVERYWHERE)
    assert occupant(world, SYNC) is Occupant.OURS  # row 6: only its rank keeps the copy for the other source


# 10. Anything else


@pytest.mark.parametrize("key", [COPY, SYNC, DISTRIBUTION])
def test_row_10_an_object_without_a_mark_is_foreign(key: Key) -> None:
    world = a_world()
    an_object(world, by="")
    assert occupant(world, key) is Occupant.FOREIGN


def test_row_9_an_object_that_another_field_manager_marked_as_a_copy_is_still_a_source() -> None:
    world = a_world()
    an_object(world, by="kubectl", annotations={accurate.FROM: "b", accurate.PROPAGATE: accurate.UPDATE})
    chained = Key(accurate.NAME, PLACE)
    assert chained in world.registry.sources(world.objects[PLACE], world)
    assert occupant(world, COPY) is Occupant.SOURCE
    assert rule(world, COPY) == "is-a-source"


def test_row_10_an_adopted_copy_is_not_a_source_although_its_chain_continues() -> None:
    world = a_world()
    an_object(world, annotations={accurate.FROM: "b", accurate.PROPAGATE: accurate.UPDATE, ADOPTED: "true"})
    chained = Key(accurate.NAME, PLACE)
    assert chained in world.registry.sources(world.objects[PLACE], world)
    assert occupant(world, COPY) is Occupant.FOREIGN
    assert rule(world, COPY) == "identical"


@pytest.mark.parametrize(
    ("adopt", "value", "name"),
    [
        (Adopt.NEVER, "one", "foreign"),
        (Adopt.IDENTICAL, "one", "identical"),
        (Adopt.IDENTICAL, "other", "foreign"),
        (Adopt.ANY, "one", "identical"),
        (Adopt.ANY, "other", "overwrite"),
    ],
)
def test_a_foreign_object_is_adopted_overwritten_or_left_alone(adopt: Adopt, value: str, name: str) -> None:
    world = a_world()
    an_object(world, by="")
    world.edit(PLACE, content=secret(value))
    assert rule(world, COPY, adopt) == name


def test_an_object_with_the_owner_reference_of_a_distribution_is_not_overwritten() -> None:
    """The garbage collector deletes it with its owner, even after an update of ours."""
    world = a_world()
    an_object(world, by="", owners=owned(world))
    assert occupant(world, COPY) is Occupant.FOREIGN
    assert rule(world, COPY, Adopt.ANY) == "foreign"


def test_row_10_annotations_of_a_distribution_do_not_make_an_object_its_copy() -> None:
    world = a_world()
    an_object(world, DISTRIBUTED, by="")
    assert occupant(world, DISTRIBUTION) is Occupant.FOREIGN


# The winner of an address


def test_the_winner_is_the_first_rival_that_may_write_there() -> None:
    world = a_world()
    assert target(world, COPY).winner is None
    assert target(world, SYNC).winner == COPY
    world.edit(COPY.source, annotations={TARGETS: "b"})
    assert target(world, SYNC).winner is None


def test_a_holder_that_is_not_pruning_keeps_its_copy() -> None:
    world = a_world()
    an_object(world, SYNCED)
    later = world.put(at("c", "x"), secret(), annotations=EVERYWHERE, created="2027")
    world.edit(SYNC.source, annotations={sync_to.SYNC_TO: "a mistake"})
    world.edit(COPY.source, annotations={TARGETS: "b"})
    assert target(world, Key("sync-to", later.ref)).winner == SYNC


def test_an_object_that_is_no_longer_a_source_does_not_keep_its_copy() -> None:
    world = a_world()
    an_object(world, COPIED)
    world.edit(COPY.source, annotations={})
    world.fetch([COPY.source])
    keep(world, COPY)
    assert target(world, SYNC).winner is None


def test_the_occupant_is_classified_only_once() -> None:
    world = a_world()
    an_object(world, COPIED)
    chosen = target(world, COPY)
    assert chosen.occupant is Occupant.OURS
    chosen.live = replace(world.objects[PLACE], labels={}, annotations={}, managed_keys=frozenset())
    assert chosen.occupant is Occupant.OURS
