"""The rules one by one: the writes for desired copies, unwanted copies, overlays and finalizers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support import toys
from tests.support.server import perform
from tests.support.settle import plan_of
from tests.support.toys import unaffected
from tests.support.world import World, at, path, secret

from samara.core import rules
from samara.core.desired import UNAVAILABLE, Adopt, Copy, Desired, Mode, Overlay, Template, Unavailable
from samara.core.metadata import merged
from samara.core.metadata_keys import ACCEPT, ADOPTED, IGNORE, PAUSED, RELEASED
from samara.core.model import (
    ANNOTATIONS,
    FIELD_MANAGER,
    NAMESPACE,
    SECRET,
    Content,
    Key,
    Kind,
    Object,
    OwnerReference,
    Ref,
    namespace_ref,
)
from samara.core.ownership import ByMark
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.registry import Registry
from samara.core.source_type import Addresses, Annotated, Hierarchy, Policy, Protected, SourceType
from samara.core.view import View
from samara.core.writes import (
    Apply,
    Blocked,
    Create,
    Delete,
    Plan,
    ReadFirst,
    Recreate,
    Release,
    SetFinalizer,
    Step,
    Update,
    Write,
)

MARK = "toy/from"
SOURCE = at("home", "x")
KEY = Key("toy", SOURCE)
A = at("a", "x")
RULES = ClusterPolicy()
PAUSING = {"toy/ask": "yes", PAUSED: "true"}


def a_source_type(*copies: Copy, desired: Desired | None = None) -> SourceType:
    """One source, `home/x`, that wants exactly this, while it is there."""

    def source_of(obj: Object, view: View) -> Ref | None:
        return SOURCE if obj.annotations.get(MARK) == "home" else None

    def desired_state(source: Ref, view: View) -> Desired:
        namespaces = set(view.namespaces())
        state = desired or Desired(tuple(copy for copy in copies if copy.ref.namespace in namespaces))
        return state if view.get(source) is not None else Desired()

    return SourceType(
        "toy",
        (SECRET,),
        source=Annotated(frozenset({"toy/ask"}), lambda obj, view: obj.ref == SOURCE),
        ownership=ByMark(frozenset({MARK}), source_of),
        desired=desired_state,
        affected_by=unaffected,
        addresses=lambda source, view: Addresses(SECRET, "x"),
    )


def a_copy(
    content: Content | Unavailable | None = None, adopt: Adopt = Adopt.IDENTICAL, mode: Mode = Mode.SYNC
) -> Copy:
    return Copy(A, Template(content or secret(), {"team": "red"}, {MARK: "home"}, mode, adopt))


def with_consent(source_type: SourceType) -> SourceType:
    return replace(source_type, policy=Policy(needs_consent=True))


def a_world(*source_types: SourceType) -> World:
    world = World(Registry(source_types or (a_source_type(a_copy()),)))
    for name in ("home", "a", "b"):
        world.namespace(name)
    world.put(SOURCE, secret(), annotations={"toy/ask": "yes"})
    return world


def write_of(world: World, policy: ClusterPolicy = RULES) -> Write:
    (write,) = plan_of(KEY, world, policy).writes
    return write


def blocked_by(world: World, policy: ClusterPolicy = RULES) -> str:
    planned = plan_of(KEY, world, policy)
    assert planned.writes == ()
    (blocked,) = planned.blocked
    return blocked.reason


def is_quiet(world: World) -> bool:
    planned = plan_of(KEY, world, RULES)
    return planned.writes == () and planned.blocked == ()


def ours(world: World, has: Content | None = None, ref: Ref = A, **more: Any) -> Object:
    words: dict[str, Any] = {"labels": {"team": "red"}, "annotations": {MARK: "home"}, **more}
    return world.put(ref, has or secret(), FIELD_MANAGER, **words)


def theirs(world: World, has: Content | None = None, **more: Any) -> Object:
    return world.put(A, has or secret(), **more)


def test_a_missing_copy_is_created() -> None:
    assert isinstance(write_of(a_world()), Create)


def test_an_equal_copy_needs_no_write() -> None:
    world = a_world()
    ours(world)
    assert is_quiet(world)


def test_a_copy_that_differs_is_updated_at_the_cached_resource_version() -> None:
    world = a_world()
    live = ours(world, secret("old"))
    write = write_of(world)
    assert isinstance(write, Update)
    assert (write.live.uid, write.live.resource_version) == (live.uid, live.resource_version)


def test_a_surplus_field_makes_a_copy_differ() -> None:
    world = a_world()
    ours(world, secret(immutable=False))
    assert isinstance(write_of(world), Update)


def test_a_missing_mark_or_label_makes_a_copy_differ() -> None:
    world = a_world()
    ours(world, labels={})
    assert isinstance(write_of(world), Update)


def test_foreign_labels_and_annotations_are_left_alone() -> None:
    world = a_world()
    ours(world)
    world.edit(A, labels={"team": "red", "theirs": "1"}, annotations={MARK: "home", "note": "mine"})
    assert is_quiet(world)


def test_a_label_of_ours_that_is_no_longer_wanted_makes_a_copy_differ() -> None:
    world = a_world()
    ours(world, labels={"team": "red", "old": "1"})
    assert isinstance(write_of(world), Update)


def test_fault_38_an_unknown_samara_annotation_belongs_to_another_version_and_stays() -> None:
    world = a_world()
    words = {MARK: "home", "samara.dev/of-tomorrow": "1"}
    ours(world, annotations=words)
    assert is_quiet(world)
    ours(world, secret("old"), annotations=words)
    write = write_of(world)
    assert isinstance(write, Update)
    assert (
        merged(ANNOTATIONS, write.copy.template, write.live, world.registry[write.key.source_type].ownership) == words
    )


def test_a_difference_in_an_immutable_field_recreates_the_copy() -> None:
    world = a_world()
    ours(world, secret(kind="kubernetes.io/tls"))
    assert isinstance(write_of(world), Recreate)


def test_a_copy_that_must_be_recreated_is_blocked_if_the_settings_refuse_it() -> None:
    world = a_world()
    ours(world, secret(kind="kubernetes.io/tls"))
    assert blocked_by(world, ClusterPolicy(recreate=False)) == "refused"


def test_an_absent_namespace_blocks() -> None:
    world = a_world(a_source_type(desired=Desired((a_copy(),))))
    world.delete(namespace_ref("a"))
    assert blocked_by(world) == "no-namespace"


def test_a_terminating_namespace_blocks_and_its_copies_are_left() -> None:
    world = a_world()
    ours(world, secret("old"))
    world.terminate("a")
    assert blocked_by(world) == "no-namespace"


def test_an_unwanted_copy_in_a_terminating_namespace_is_left_to_the_server() -> None:
    world = a_world(a_source_type())
    ours(world)
    world.terminate("a")
    assert is_quiet(world)


def test_an_object_that_is_not_cached_is_read_first() -> None:
    world = a_world()
    theirs(world)
    planned = plan(KEY, world, world.registry, RULES)
    assert planned == Plan((Step(A, ReadFirst(A), "not-read-yet"),))
    assert (planned.read_first, planned.desired) == ((ReadFirst(A),), (A,))


def test_a_create_only_copy_is_created_once_and_left_alone() -> None:
    world = a_world(a_source_type(a_copy(mode=Mode.CREATE_ONLY)))
    assert isinstance(write_of(world), Create)
    ours(world, secret("changed since"))
    assert is_quiet(world)


def test_a_create_only_copy_leaves_an_existing_object_alone_even_with_overwrite() -> None:
    world = a_world(a_source_type(a_copy(mode=Mode.CREATE_ONLY, adopt=Adopt.ANY)))
    theirs(world, secret("theirs"))
    assert is_quiet(world)


def test_a_copy_with_unavailable_content_is_neither_created_updated_nor_deleted() -> None:
    world = a_world(a_source_type(a_copy(UNAVAILABLE)))
    assert blocked_by(world) == "invalid"  # it is wanted, and it is not there
    ours(world, secret("old"))
    assert is_quiet(world)


@pytest.mark.parametrize("adopt", list(Adopt))
def test_without_content_a_foreign_object_is_a_conflict_and_stays(adopt: Adopt) -> None:
    world = a_world(a_source_type(a_copy(UNAVAILABLE, adopt)))
    theirs(world, secret("theirs"))
    assert blocked_by(world) == "conflict"
    assert rule_at(world) == "content-unavailable"


def test_without_content_a_copy_that_was_made_for_another_source_is_a_conflict() -> None:
    """With content, one update would take the copy over. It is not a copy of this source before that."""
    other = replace(
        a_source_type(desired=Desired(prune=False)),
        name="other",
        ownership=ByMark(frozenset({"other/from"}), lambda obj, view: at("home", "y")),
    )
    world = a_world(a_source_type(a_copy(UNAVAILABLE)), other)
    ours(world, annotations={"other/from": "home"})
    assert blocked_by(world) == "conflict"


def test_without_content_a_copy_that_lost_its_marks_is_right() -> None:
    world = a_world(a_source_type(a_copy(UNAVAILABLE)))
    ours(world)
    world.strip(A)
    assert is_quiet(world)


def test_an_identical_object_is_adopted() -> None:
    world = a_world()
    theirs(world)
    write = write_of(world)
    assert isinstance(write, Update)
    assert write.copy.template.annotations[ADOPTED] == "true"


@pytest.mark.parametrize("adopt", [Adopt.IDENTICAL, Adopt.NEVER])
def test_a_different_object_is_a_conflict(adopt: Adopt) -> None:
    world = a_world(a_source_type(a_copy(adopt=adopt)))
    theirs(world, secret("theirs"))
    assert blocked_by(world) == "conflict"


def test_with_adopt_never_an_identical_object_is_a_conflict() -> None:
    world = a_world(a_source_type(a_copy(adopt=Adopt.NEVER)))
    theirs(world)
    assert blocked_by(world) == "conflict"


TOOLS = ["argocd.argoproj.io/instance", "app.kubernetes.io/managed-by", "meta.helm.sh/release-name", "a.fluxcd.io/x"]


@pytest.mark.parametrize("key", TOOLS)
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_an_object_of_another_tool_is_not_adopted(key: str, where: str) -> None:
    world = a_world()
    words: dict[str, Any] = {where: {key: "x"}}
    theirs(world, **words)
    assert blocked_by(world) == "conflict"


def test_an_object_with_an_owner_is_not_adopted() -> None:
    world = a_world()
    theirs(world, owner_references=(OwnerReference("v1", "Pod", "p", "u"),))
    assert blocked_by(world) == "conflict"


@pytest.mark.parametrize("in_tree", [False, True])
@pytest.mark.parametrize("adopt", [Adopt.IDENTICAL, Adopt.ANY])
def test_an_object_that_is_itself_a_source_is_neither_adopted_nor_taken_over(adopt: Adopt, in_tree: bool) -> None:
    hierarchy = Hierarchy(frozenset(), lambda namespace: "") if in_tree else None
    wanting = replace(a_source_type(a_copy(adopt=adopt)), hierarchy=hierarchy)
    world = World(Registry((wanting, toys.chain(lambda where, words: dict(words)))))
    for name in ("home", "a"):
        world.namespace(name)
    world.put(SOURCE, secret(), annotations={"toy/ask": "yes"})
    theirs(world, annotations={toys.CHAIN: "yes"})
    assert blocked_by(world) == "conflict"


def test_overwrite_takes_over_any_existing_object() -> None:
    world = a_world(a_source_type(a_copy(adopt=Adopt.ANY)))
    theirs(world, secret("theirs"), owner_references=(OwnerReference("v1", "Pod", "p", "u"),))
    write = write_of(world)
    assert isinstance(write, Update)
    assert ADOPTED not in write.copy.template.annotations


def test_a_copy_that_is_being_deleted_blocks_until_it_is_deleted() -> None:
    world = a_world()
    ours(world, secret("old"), finalizers=("somebody/else",))
    world.delete(A)
    assert blocked_by(world) == "conflict"


def test_an_unwanted_copy_is_deleted_by_uid_and_version() -> None:
    world = a_world(a_source_type())
    live = ours(world)
    write = write_of(world)
    assert isinstance(write, Delete)
    assert (write.live.uid, write.live.resource_version) == (live.uid, live.resource_version)


def test_an_unwanted_copy_is_deleted_although_it_is_newer_than_its_source() -> None:
    world = a_world(a_source_type())
    ours(world, created="2027")
    assert isinstance(write_of(world), Delete)


def test_an_unwanted_copy_of_another_kind_and_the_same_name_is_deleted() -> None:
    config = Kind("", "v1", "ConfigMap", "configmaps")
    world = a_world()
    ours(world, ref=at("a", "x", config))
    assert {type(write) for write in plan_of(KEY, world, RULES).writes} == {Create, Delete}


def test_an_unwanted_adopted_copy_loses_only_our_marks() -> None:
    world = a_world(a_source_type())
    ours(world, annotations={MARK: "home", ADOPTED: "true"})
    assert isinstance(write_of(world), Release)


def test_an_unwanted_copy_that_carries_released_stays() -> None:
    world = a_world(a_source_type())
    ours(world, annotations={MARK: "home", RELEASED: "true"})
    assert is_quiet(world)


def test_copies_stay_if_the_source_does_not_prune() -> None:
    world = a_world(a_source_type(desired=Desired(prune=False)))
    ours(world)
    assert is_quiet(world)


def test_a_paused_source_writes_nothing_and_deletes_nothing() -> None:
    for source_type in (a_source_type(a_copy()), a_source_type()):
        world = a_world(source_type)
        ours(world, secret("old"))
        world.edit(SOURCE, annotations=PAUSING)
        assert blocked_by(world) == "held"


def test_in_a_paused_namespace_nothing_is_written_or_deleted() -> None:
    for source_type in (a_source_type(a_copy()), a_source_type()):
        world = a_world(source_type)
        ours(world, secret("old"))
        world.edit(namespace_ref("a"), annotations={PAUSED: "true"})
        assert blocked_by(world) == "held"


def test_an_ignored_namespace_keeps_its_copies_as_they_are() -> None:
    world = a_world()
    ours(world, secret("old"))
    world.edit(namespace_ref("a"), annotations={IGNORE: "true"})
    assert is_quiet(world)


@pytest.mark.parametrize("why", ["the source is paused", "the namespace is on its way out"])
def test_an_excluded_namespace_is_never_counted_as_blocked(why: str) -> None:
    world = a_world()
    world.edit(namespace_ref("a"), annotations={IGNORE: "true"})
    if why == "the source is paused":
        world.edit(KEY.source, annotations=PAUSING)
    else:
        world.terminate("a")
    planned = plan_of(KEY, world, RULES)
    assert planned == Plan((Step(A, None, "excluded", desired=False),))
    assert (planned.writes, planned.read_first, planned.blocked, planned.desired) == ((), (), (), ())


def test_a_copy_in_a_namespace_that_is_protected_now_stays() -> None:
    for by_name, protected in ((False, Protected.REFUSE), (True, Protected.REFUSE), (False, Protected.BY_NAME)):
        source_type = a_source_type(a_copy()._replace(by_name=by_name))
        world = a_world(replace(source_type, policy=Policy(protected)))
        ours(world, secret("old"))
        assert plan_of(KEY, world, ClusterPolicy(protected=("a",))).writes == ()


def test_without_consent_a_copy_is_deleted_with_one_request() -> None:
    world = a_world(with_consent(a_source_type(a_copy())))
    ours(world)
    assert isinstance(write_of(world), Delete)


def test_a_copy_is_created_only_with_consent() -> None:
    world = a_world(with_consent(a_source_type(a_copy())))
    assert blocked_by(world) == "not-accepted"
    world.edit(namespace_ref("a"), annotations={ACCEPT: "home"})
    assert isinstance(write_of(world), Create)


def test_without_consent_a_foreign_object_stays() -> None:
    world = a_world(with_consent(a_source_type(a_copy())))
    theirs(world, annotations={MARK: "home"})
    assert blocked_by(world) == "not-accepted"


def test_a_denied_kind_is_blocked_and_existing_objects_stay() -> None:
    role = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
    world = a_world(a_source_type(a_copy()._replace(ref=at("a", "x", role))))
    ours(world, ref=at("a", "x", role))
    assert blocked_by(world) == "refused"


def test_an_unlisted_kind_yields_no_plan() -> None:
    for kind in (SECRET, NAMESPACE):
        world = a_world(a_source_type())
        ours(world)
        world.unlisted.add(kind)
        assert plan(KEY, world, world.registry, RULES) == Plan(ready=False)


LABELLED = Overlay(namespace_ref("a"), {"team": "red"}, {"note": "x"})


def test_an_overlay_is_applied_where_a_value_differs_and_is_then_in_sync() -> None:
    world = a_world(a_source_type(desired=Desired(overlays=(LABELLED,))))
    write = write_of(world)
    assert isinstance(write, Apply)
    assert perform(world, write)
    assert is_quiet(world)


def test_an_overlay_whose_values_others_set_is_applied_once_to_own_them() -> None:
    world = a_world(a_source_type(desired=Desired(overlays=(LABELLED,))))
    world.edit(namespace_ref("a"), labels={"team": "red"}, annotations={"note": "x"})
    assert isinstance(write_of(world), Apply)


def test_a_key_that_left_the_overlay_is_removed_and_foreign_keys_stay() -> None:
    world = a_world(a_source_type(desired=Desired(overlays=(LABELLED,))))
    world.edit(namespace_ref("a"), labels={"theirs": "1"})
    assert perform(world, write_of(world))
    world.registry = Registry((a_source_type(desired=Desired(overlays=(replace(LABELLED, labels={}),))),))
    assert perform(world, write_of(world))
    live = world.objects[namespace_ref("a")]
    assert (dict(live.labels), dict(live.annotations)) == ({"theirs": "1"}, {"note": "x"})
    assert is_quiet(world)


def test_an_overlay_creates_no_object_and_leaves_a_terminating_one_alone() -> None:
    world = a_world(a_source_type(desired=Desired(overlays=(replace(LABELLED, ref=namespace_ref("none")), LABELLED))))
    world.terminate("a")
    assert is_quiet(world)


def test_an_overlay_is_held_by_a_pause_of_source_or_target() -> None:
    for ref in (SOURCE, namespace_ref("a")):
        world = a_world(a_source_type(desired=Desired(overlays=(LABELLED,))))
        world.edit(ref, annotations=PAUSING)
        assert blocked_by(world) == "held"


GUARDED = Desired((a_copy(),), finalizer="toy/guard")


def test_a_finalizer_is_added_before_any_other_write() -> None:
    world = a_world(a_source_type(desired=GUARDED))
    write = write_of(world)
    assert isinstance(write, SetFinalizer)
    assert write.add


def test_a_source_with_its_finalizer_is_served() -> None:
    world = a_world(a_source_type(desired=GUARDED))
    world.edit(SOURCE, finalizers=("toy/guard",))
    assert isinstance(write_of(world), Create)


def test_a_finalizer_is_removed_when_nothing_is_left_to_write() -> None:
    world = a_world(a_source_type(desired=Desired(finalizer="toy/guard")))
    ours(world)
    world.edit(SOURCE, finalizers=("toy/guard",), deleting=True)
    assert isinstance(write_of(world), Delete)
    world.delete(A)
    write = write_of(world)
    assert isinstance(write, SetFinalizer)
    assert not write.add


def test_a_slice_keeps_the_finalizer_while_another_namespace_has_a_copy() -> None:
    world = a_world(a_source_type(desired=Desired(finalizer="toy/guard")))
    ours(world)
    world.edit(SOURCE, finalizers=("toy/guard",), deleting=True)
    assert plan_of(KEY.in_namespace("b"), world, RULES).writes == ()
    world.delete(A)
    assert isinstance(plan_of(KEY.in_namespace("b"), world, RULES).writes[0], SetFinalizer)


def test_a_source_deleted_without_its_finalizer_deletes_nothing() -> None:
    world = a_world(a_source_type(desired=Desired(finalizer="toy/guard")))
    ours(world)
    world.edit(SOURCE, finalizers=("somebody/else",), deleting=True)
    assert is_quiet(world)


def test_a_paused_source_gets_no_finalizer_and_keeps_an_existing_one() -> None:
    world = a_world(a_source_type(desired=GUARDED))
    world.edit(SOURCE, annotations=PAUSING)
    assert blocked_by(world) == "held"
    world = a_world(a_source_type(desired=Desired(finalizer="toy/guard")))
    world.edit(SOURCE, annotations=PAUSING, finalizers=("toy/guard",), deleting=True)
    assert is_quiet(world)


def test_a_missing_read_is_requested_and_nothing_else_is_planned() -> None:
    reads = (path("p"), path("q"))
    world = a_world(a_source_type(desired=Desired(reads=reads)))
    ours(world)
    world.values[path("p")] = "read"
    assert plan(KEY, world, world.registry, RULES) == Plan(ready=False, reads=reads)
    world.values[path("q")] = "read"
    assert isinstance(write_of(world), Delete)


def test_a_released_object_is_treated_as_foreign() -> None:
    world = a_world(a_source_type(a_copy(adopt=Adopt.NEVER)))
    ours(world, secret(), annotations={RELEASED: "true"})
    assert blocked_by(world) == "conflict"


def test_no_secret_value_is_in_the_repr_of_a_plan() -> None:
    world = a_world()
    ours(world, secret("canary"), annotations={MARK: "home", "note": "canary"})
    planned = plan_of(KEY, world, RULES)
    assert len(planned.writes) == 1
    assert "canary" not in repr(planned) + repr(world.objects[A].content.fields)


def test_every_blocked_address_is_still_desired() -> None:
    world = a_world()
    theirs(world, secret("theirs"))
    planned = plan_of(KEY, world, RULES)
    assert planned.desired == (A,)
    assert isinstance(planned.blocked[0], Blocked)


# The tables


def test_only_the_last_rule_of_a_table_always_applies() -> None:
    for table in (rules.RULES, rules.UNWANTED_RULES):
        assert [rule.name for rule in table if rule.when is rules.otherwise] == [table[-1].name]


def test_every_rule_documents_its_condition_and_its_outcome() -> None:
    for table in rules.TABLES[:2]:
        rows = [line.strip("| ").split(" | ") for line in rules.table(table)][2:]
        assert [row[0].strip("`") for row in rows] == [rule.name for rule in table]
        assert all(len(row) == 3 and all(row) for row in rows)


def rule_at(world: World, policy: ClusterPolicy = RULES, ref: Ref = A, key: Key = KEY) -> str:
    """The name of the rule that decides about one address."""
    (step,) = [step for step in plan(key, world, world.registry, policy).steps if step.ref == ref]
    return step.rule


def read(world: World) -> None:
    world.fetch([A])


def pause(world: World) -> None:
    world.edit(SOURCE, annotations=PAUSING)


def ignore(world: World) -> None:
    world.edit(namespace_ref("a"), annotations={IGNORE: "true"})


def terminate(world: World) -> None:
    world.terminate("a")


def pause_namespace(world: World) -> None:
    world.edit(namespace_ref("a"), labels={PAUSED: "true"})


def outrank(world: World) -> None:
    """Another vocabulary wants the address too, and comes first."""
    copy = Copy(A, Template(secret("first"), annotations={"first/from": "home"}))
    first = replace(
        a_source_type(copy), name="first", ownership=ByMark(frozenset({"first/from"}), lambda obj, view: None)
    )
    world.registry = Registry((first, *world.registry.source_types))


def occupy(world: World) -> None:
    theirs(world, secret("theirs"))


def end(world: World) -> None:
    world.edit(A, finalizers=("somebody/else",), deleting=True)


def desire(**changes: Any) -> Callable[[World], None]:
    """The source wants another copy."""

    def change(world: World) -> None:
        template = world.registry["toy"].desired(SOURCE, world).copies[0].template._replace(**changes)
        desired = Desired((Copy(A, template),))
        first = [source_type for source_type in world.registry.source_types if source_type.name != "toy"]
        world.registry = Registry((*first, a_source_type(desired=desired)))

    return change


once, unavailable = desire(mode=Mode.CREATE_ONLY), desire(content=UNAVAILABLE)

OBSTACLES: list[tuple[str, Callable[[World], None]]] = [
    ("excluded", ignore),
    ("paused", pause),
    ("terminating", terminate),
    ("namespace-paused", pause_namespace),
    ("refused", desire(content=secret("one", "kubernetes.io/service-account-token"))),
    ("outranked", outrank),
    ("deleting", end),
    ("create-only", once),
    ("content-unavailable", unavailable),
]


@pytest.mark.parametrize("number", range(len(OBSTACLES)))
def test_of_several_obstacles_the_first_decides(number: int) -> None:
    world = a_world(a_source_type(desired=Desired((a_copy(),))))
    occupy(world)
    for _, obstacle in reversed(OBSTACLES[number:]):
        obstacle(world)
    read(world)
    assert rule_at(world) == OBSTACLES[number][0]


def test_a_missing_namespace_comes_after_a_pause_and_before_all_that_needs_the_namespace() -> None:
    world = a_world(a_source_type(desired=Desired((a_copy(UNAVAILABLE),))))
    world.delete(namespace_ref("a"))
    outrank(world)
    assert rule_at(world) == "no-namespace"
    pause(world)
    assert rule_at(world) == "paused"


def test_an_object_known_only_by_its_address_is_read_before_any_other_decision() -> None:
    world = a_world(a_source_type(a_copy(UNAVAILABLE)))
    occupy(world)
    assert rule_at(world) == "not-read-yet"
    read(world)
    assert rule_at(world) == "content-unavailable"


OCCUPIED: list[tuple[str, Adopt, Callable[[World], object]]] = [
    ("missing", Adopt.IDENTICAL, lambda world: None),
    ("in-sync", Adopt.IDENTICAL, ours),
    ("drifted", Adopt.IDENTICAL, lambda world: ours(world, secret("old"))),
    ("identical", Adopt.IDENTICAL, theirs),
    ("identical", Adopt.ANY, theirs),
    ("overwrite", Adopt.ANY, occupy),
    ("foreign", Adopt.IDENTICAL, occupy),
    ("foreign", Adopt.NEVER, theirs),
]


@pytest.mark.parametrize(("name", "adopt", "prepare"), OCCUPIED)
def test_each_occupant_leads_to_its_rule(name: str, adopt: Adopt, prepare: Callable[[World], object]) -> None:
    world = a_world(a_source_type(a_copy(adopt=adopt)))
    prepare(world)
    read(world)
    assert rule_at(world) == name


def unprove(world: World) -> None:
    world.put(A, secret(), annotations=world.objects[A].annotations)


def mark(**annotations: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        live = world.objects[A]
        world.edit(A, annotations={**live.annotations, **annotations})

    return change


UNWANTED: list[tuple[str, Callable[[World], None]]] = [
    ("disappearing", terminate),
    ("released", mark(**{RELEASED: "true"})),
    ("unproven", unprove),
    ("paused", pause_namespace),
    ("adopted", mark(**{ADOPTED: "true"})),
    ("not-desired", lambda world: None),
]


@pytest.mark.parametrize("number", range(len(UNWANTED)))
def test_of_several_reasons_to_leave_an_unwanted_copy_the_first_decides(number: int) -> None:
    world = a_world(a_source_type())
    ours(world)
    for _, reason in reversed(UNWANTED[number:]):
        reason(world)
    assert rule_at(world) == UNWANTED[number][0]


def test_a_copy_whose_source_does_not_prune_is_kept_unless_its_namespace_withdrew_consent() -> None:
    world = a_world(with_consent(a_source_type(desired=Desired(prune=False))))
    ours(world)
    assert rule_at(world) == "not-desired"
    world.edit(namespace_ref("a"), annotations={ACCEPT: "home"})
    assert rule_at(world) == "kept"


def test_a_copy_that_the_next_source_takes_over_unchanged_is_handed_over() -> None:
    world = a_world(a_source_type(), replace(a_source_type(a_copy()), name="next"))
    ours(world)
    assert rule_at(world) == "handed-over"


def test_a_copy_that_the_original_controller_made_is_handed_over_as_well() -> None:
    source_of = a_source_type().ownership.source_of
    original = ByMark(frozenset({MARK}), source_of, frozenset({FIELD_MANAGER, "original"}))
    world = a_world(replace(a_source_type(), ownership=original), replace(a_source_type(a_copy()), name="next"))
    world.put(A, secret(), "original", annotations={MARK: "home"})
    assert rule_at(world) == "handed-over"


@pytest.mark.parametrize("protected", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
def test_a7_a_copy_of_the_original_stays_where_the_namespace_is_protected_or_has_not_accepted(
    wanted: bool, protected: bool
) -> None:
    made = a_source_type(a_copy(secret("new"))) if wanted else a_source_type()
    original = ByMark(frozenset({MARK}), made.ownership.source_of, frozenset({FIELD_MANAGER, "original"}))
    policy, rules = Policy(needs_consent=not protected), ClusterPolicy(protected=("a",) if protected else ())
    world = a_world(replace(made, ownership=original, policy=policy))
    before = world.put(A, secret(), "original", annotations={MARK: "home"})
    planned = plan(KEY, world, world.registry, rules)
    assert planned.writes == ()
    assert [step.rule for step in planned.steps if step.ref == A] == [
        "left-by-original" if not wanted else "excluded" if protected else "refused"
    ]
    world.store(replace(before, written=True))
    if not protected:
        assert [type(write) for write in plan(KEY, world, world.registry, rules).writes] == [Delete]


def test_a_copy_that_the_next_source_would_not_recognise_is_deleted() -> None:
    """Another client set the mark, which only this source type trusts: the next source would see a foreign object."""
    trusting = ByMark(frozenset({MARK}), a_source_type().ownership.source_of, trusted=True)
    world = a_world(replace(a_source_type(), ownership=trusting), replace(a_source_type(a_copy()), name="next"))
    world.put(A, secret(), "another-client", annotations={MARK: "home"})
    assert rule_at(world) == "not-desired"


def test_a_source_with_an_unknown_value_of_paused_is_paused_and_says_so() -> None:
    world = a_world()
    world.edit(SOURCE, annotations={"toy/ask": "yes", PAUSED: "yes"})
    planned = plan_of(KEY, world, RULES)
    assert [blocked.reason for blocked in planned.blocked] == ["held"]
    assert [(fault.reason, fault.field) for fault in planned.faults] == [("Invalid", PAUSED)]
