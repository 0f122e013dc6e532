"""SubNamespaces create and delete namespaces; the numbers are the sections and rows of the specification."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import pytest
from tests.support.samples import Clock
from tests.support.server import perform
from tests.support.settle import follow, plan_of, settle
from tests.support.world import World, a_field, at
from tests.vocabularies.accurate.forest import (
    RULES,
    a_sub,
    a_world,
    blocked,
    labels,
    namespace,
    root,
    set_roles,
    settled,
    source,
    sub,
)

from samara.core.copy_counts import CopyCounts
from samara.core.mass_delete import WINDOW, MassDeleteLimit
from samara.core.metadata_keys import PAUSED
from samara.core.model import NAMESPACE, Key, Object, Ref, namespace_ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.queries import UNREAD, NamespaceIsActive
from samara.core.status import status_of, status_to_write
from samara.core.writes import Create, Delete, SetFinalizer, Write, WriteStatus
from samara.engine.mass_delete import MassDeleteGuard
from samara.vocabularies.accurate.labels import ACCURATE_MANAGER, CREATED_BY, FINALIZER, PARENT, SUB_NAMESPACE, TYPE
from samara.vocabularies.accurate.sub import SUB

OTHER = "somebody/else"
NEVER = "Conflicting namespace already exists"


def at_sub(name: str = "a", holder: str = "r") -> Ref:
    return Ref(SUB_NAMESPACE, holder, name)


def key(name: str = "a", holder: str = "r") -> Key:
    return Key(SUB, at_sub(name, holder))


def made(guard: bool = True, **terms: bool) -> World:
    """A root with one sub-namespace, settled."""
    world = a_world(**terms)
    root(world)
    a_sub(world, "a", "r", guard)
    settled(world)
    return world


def condition(world: World, ref: Ref) -> dict[str, object] | None:
    """The condition Stalled. None if there is none. The condition Ready says the contrary, with the same words."""
    conditions = {condition["type"]: condition for condition in status_of(world.objects[ref]).get("conditions") or []}
    stalled, reported = conditions.get("Stalled"), conditions.get("Ready")
    if stalled is not None:
        assert reported == {**stalled, "type": "Ready", "status": "False"}
    return stalled


def ready(world: World, ref: Ref) -> tuple[str, str, str]:
    """Status, reason and message of the condition Ready."""
    [reported] = [entry for entry in status_of(world.objects[ref])["conditions"] if entry["type"] == "Ready"]
    return reported["status"], reported["reason"], reported["message"]


def is_well(world: World, ref: Ref) -> bool:
    """True if the status is complete and says that the namespace exists."""
    status = status_of(world.objects[ref])
    types = [condition["type"] for condition in status["conditions"]]
    return (status["observedGeneration"], types, ready(world, ref)[0]) == (1, ["Ready"], "True")


def deletions(writes: list[Write]) -> list[str]:
    return [write.ref.name for write in writes if isinstance(write, Delete) and write.ref.kind == NAMESPACE]


def follow_events(world: World, act: object) -> None:
    assert callable(act)
    follow(world, RULES, act)
    assert settled(world) == [], "the events of the act must cause every write"


def test_2_3_a_successful_status_has_the_generation_and_is_ready() -> None:
    message = "namespace a exists below r"
    assert status_of(made().objects[at_sub()]) == {
        "observedGeneration": 1,
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Created", "message": message, "observedGeneration": 1}
        ],
    }


def test_2_3_a_status_in_which_the_original_reports_success_stays_until_the_next_change() -> None:
    world = made()
    status, sub = world.registry[SUB].status, at_sub()
    have = world.edit(sub, status=a_field("status", {"observedGeneration": 1}))
    assert status_to_write(status, have, world, CopyCounts(), "now") is None
    have = world.edit(sub, generation=2)
    assert types_in(status_to_write(status, have, world, CopyCounts(), "now")) == ["Ready"]
    world.edit(sub, generation=1)
    have = world.edit(sub, status=a_field("status", {"observedGeneration": 1, "conditions": [{"type": "Stalled"}]}))
    assert types_in(status_to_write(status, have, world, CopyCounts(), "now")) == ["Ready"]


def test_2_3_a_conflict_is_one_condition() -> None:
    world = a_world()
    root(world), world.namespace("a"), a_sub(world, "a", "r")
    settled(world)
    assert status_of(world.objects[at_sub()])["observedGeneration"] == 1
    assert condition(world, at_sub()) == {
        "type": "Stalled",
        "status": "True",
        "reason": "Conflict",
        "message": NEVER,
        "observedGeneration": 1,
    }


def test_2_3_a_condition_disappears_when_its_cause_is_gone() -> None:
    world = a_world()
    root(world), world.namespace("a"), a_sub(world, "a", "r")
    settled(world)
    follow_events(world, lambda world: set_roles(world, "a", parent="r"))
    assert is_well(world, at_sub())


def test_2_3_the_transition_time_of_a_condition_stays_while_its_status_stays() -> None:
    world = a_world()
    root(world), world.namespace("a"), a_sub(world, "a", "r")
    status, have = world.registry[SUB].status, world.objects[at_sub()]
    first = status_to_write(status, have, world, CopyCounts(), "then")
    have = world.edit(have.ref, status=a_field("status", first), generation=2)
    second = status_to_write(status, have, world, CopyCounts(), "now")
    have = world.edit(have.ref, status=a_field("status", second))
    reported = condition(world, have.ref)
    assert reported is not None
    assert (reported["lastTransitionTime"], reported["observedGeneration"]) == ("then", 2)
    assert status_to_write(status, have, world, CopyCounts(), "later") is None


def test_2_3_an_applied_status_loses_a_condition_that_it_does_not_repeat() -> None:
    world = made()
    status, have = world.registry[SUB].status, world.objects[at_sub()]
    stale = {"observedGeneration": 1, "conditions": [{"type": "Stalled", "status": "True"}]}
    have = world.edit(have.ref, status=a_field("status", stale))
    assert types_in(status_to_write(status, have, world, CopyCounts(), "now")) == ["Ready"]
    assert status is not None
    assert status.field_manager == ACCURATE_MANAGER


def written_conditions(world: World) -> list[dict[str, object]]:
    """The conditions of the SubNamespace with their transition times, which the world leaves out."""
    status, have = world.registry[SUB].status, world.objects[at_sub()]
    written = status_to_write(status, have, world, CopyCounts(), "then")
    assert written is not None
    conditions = written["conditions"]
    assert isinstance(conditions, list)
    return conditions


def types_in(written: Mapping[str, object] | None) -> list[str]:
    assert written is not None
    conditions = written["conditions"]
    assert isinstance(conditions, list)
    return [condition["type"] for condition in conditions]


@pytest.mark.parametrize("theirs", [[], [{"type": "Audited", "status": "True"}]])
def test_2_3_conditions_of_other_controllers_are_neither_written_nor_a_reason_to_write(
    theirs: list[dict[str, str]],
) -> None:
    """They stay, because server-side apply keeps the conditions that another field manager applied."""
    world = made()
    status, have = world.registry[SUB].status, world.objects[at_sub()]
    ours = written_conditions(world)
    have = world.edit(have.ref, status=a_field("status", {"observedGeneration": 1, "conditions": [*theirs, *ours]}))
    assert status_to_write(status, have, world, CopyCounts(), "now") is None
    stale = [*theirs, {"type": "Stalled", "status": "True"}, *ours]
    have = world.edit(have.ref, status=a_field("status", {"observedGeneration": 1, "conditions": stale}))
    assert types_in(status_to_write(status, have, world, CopyCounts(), "now")) == ["Ready"]
    set_roles(world, "a", type="root")
    written = status_to_write(status, have, world, CopyCounts(), "now")
    assert types_in(written) == ["Ready", "Stalled"], "conditions of other controllers are not written"


def test_the_order_in_which_the_server_keeps_our_conditions_is_no_reason_to_write() -> None:
    world = a_world()
    root(world), world.namespace("a"), a_sub(world, "a", "r")
    settled(world)
    status, have = world.registry[SUB].status, world.objects[at_sub()]
    turned = {**status_of(have), "conditions": written_conditions(world)[::-1]}
    have = world.edit(have.ref, status=a_field("status", turned))
    assert status_to_write(status, have, world, CopyCounts(), "now") is None


def test_a_namespace_that_cannot_be_created_is_not_ready_and_its_generation_is_not_observed() -> None:
    world = a_world()
    world.namespace("plain"), a_sub(world, "a", "plain")
    settled(world)
    assert "observedGeneration" not in status_of(world.objects[at_sub("a", "plain")])
    message = "namespace a cannot be created: namespace plain is neither a root nor a sub namespace"
    assert ready(world, at_sub("a", "plain")) == ("False", "Refused", message)
    follow_events(world, lambda world: set_roles(world, "plain", type="root"))
    assert is_well(world, at_sub("a", "plain"))


def test_a_namespace_that_is_gone_and_cannot_be_created_again_is_not_ready() -> None:
    world = made()
    set_roles(world, "r")
    world.delete(namespace_ref("a"))
    settled(world)
    assert status_of(world.objects[at_sub()])["observedGeneration"] == 1
    assert ready(world, at_sub())[:2] == ("False", "Refused")


def test_2_4_a_missing_namespace_is_created_with_two_labels() -> None:
    world = a_world()
    root(world, "r", {"team": "red"}), a_sub(world, "a", "r", labels={"size": "L"})
    (write,) = plan_of(key(), world, RULES).writes
    assert isinstance(write, Create)
    perform(world, write)
    assert labels(world, "a") == {CREATED_BY: "accurate", PARENT: "r"}
    settled(world)
    assert labels(world, "a") == {CREATED_BY: "accurate", PARENT: "r", "team": "red", "size": "L"}


def test_2_4_a_namespace_below_the_parent_is_healthy_even_while_it_terminates() -> None:
    world = a_world()
    root(world), sub(world, "a", "r"), a_sub(world, "a", "r")
    world.terminate("a")
    settled(world)
    assert condition(world, at_sub()) is None
    assert ready(world, at_sub())[:2] == ("False", "Terminating")
    assert blocked(world, key()) == []
    follow_events(world, lambda world: world.edit(namespace_ref("a"), finalizers=()))
    assert not namespace(world, "a").deleting, "it is created again"
    assert is_well(world, at_sub())


@pytest.mark.parametrize("roles", [{}, {"parent": "q"}, {"type": "root"}, {"template": "q"}])
def test_2_4_any_other_namespace_is_a_conflict_and_never_adopted(roles: dict[str, str]) -> None:
    world = a_world()
    root(world), root(world, "q"), world.namespace("a"), set_roles(world, "a", **roles)
    a_sub(world, "a", "r")
    before = namespace(world, "a").labels.get(PARENT)
    settled(world)
    assert namespace(world, "a").labels.get(PARENT) == before
    assert [(target.reason, target.message) for target in blocked(world, key())] == [("conflict", NEVER)]


@pytest.mark.parametrize("roles", [{}, {"type": "template"}, {"template": "r"}, {"parent": ""}])
def test_2_4_nothing_is_created_if_the_parent_is_neither_root_nor_sub_namespace(roles: dict[str, str]) -> None:
    world = a_world()
    root(world), world.namespace("h"), set_roles(world, "h", **roles), a_sub(world, "a", "h")
    settled(world)
    assert namespace_ref("a") not in world.objects
    (conflict,) = blocked(world, key("a", "h"))
    assert conflict.message == "namespace h is neither a root nor a sub namespace"


def test_2_4_a_parent_that_becomes_a_root_gets_its_sub_namespaces() -> None:
    world = a_world()
    world.namespace("h"), a_sub(world, "a", "h")
    settled(world)
    follow_events(world, lambda world: set_roles(world, "h", type="root"))
    assert labels(world, "a")[PARENT] == "h"


def test_2_4_nothing_is_created_below_a_terminating_namespace() -> None:
    world = a_world()
    root(world), a_sub(world, "a", "r")
    world.terminate("r")
    settled(world)
    assert namespace_ref("a") not in world.objects


def test_2_4_a_sub_namespace_deleted_by_hand_is_created_again() -> None:
    world = made()
    before = namespace(world, "a").uid
    follow_events(world, lambda world: world.delete(namespace_ref("a")))
    assert namespace(world, "a").uid != before


def test_2_4_a_conflict_ends_when_the_other_namespace_is_deleted() -> None:
    world = a_world()
    root(world), world.namespace("a"), a_sub(world, "a", "r")
    settled(world)
    follow_events(world, lambda world: world.delete(namespace_ref("a")))
    assert labels(world, "a")[PARENT] == "r"
    assert condition(world, at_sub()) is None


def test_2_4_a_move_makes_the_old_object_a_conflict_and_the_new_one_healthy() -> None:
    world = made()
    root(world, "q"), a_sub(world, "a", "q")
    settled(world)
    assert condition(world, at_sub("a", "q")) is not None
    follow_events(world, lambda world: set_roles(world, "a", parent="q"))
    assert condition(world, at_sub("a", "q")) is None
    assert condition(world, at_sub()) is not None


@pytest.mark.parametrize("first", ["q", "r"])
def test_2_4_of_two_sub_namespaces_of_one_name_the_older_wins(first: str) -> None:
    world = a_world()
    root(world), root(world, "q")
    for holder in "qr":
        ref = a_sub(world, "a", holder).ref
        world.objects[ref] = a_dated(world.objects[ref], "2025" if holder == first else "2026")
    settle(world, RULES, order=lambda keys: keys[::-1])
    assert labels(world, "a")[PARENT] == first
    assert condition(world, at_sub("a", first)) is None
    assert condition(world, at_sub("a", "q" if first == "r" else "r")) is not None


def a_dated(have: Object, created: str) -> Object:
    return Object(have.ref, have.uid, have.resource_version, created=created, generation=1, finalizers=have.finalizers)


def test_2_6_the_finalizer_is_removed_if_there_is_no_namespace() -> None:
    world = a_world()
    world.namespace("plain"), a_sub(world, "a", "plain")
    world.delete(at_sub("a", "plain"))
    writes = settled(world)
    assert [type(write) for write in writes] == [SetFinalizer]
    assert at_sub("a", "plain") not in world.objects


def test_2_6_a_namespace_that_is_already_terminating_is_not_deleted_again() -> None:
    world = made()
    world.terminate("a")
    world.delete(at_sub())
    assert [type(write) for write in settled(world)] == [SetFinalizer]
    assert at_sub() not in world.objects


@pytest.mark.parametrize("roles", [{"parent": "q"}, {"type": "root"}, {}])
def test_2_6_a_namespace_that_was_moved_or_cut_is_left_alone(roles: dict[str, str]) -> None:
    world = made()
    root(world, "q"), set_roles(world, "a", **roles)
    settled(world)
    follow_events(world, lambda world: world.delete(at_sub()))
    assert namespace_ref("a") in world.objects
    assert at_sub() not in world.objects


def test_2_6_a_conflicting_namespace_is_left_alone() -> None:
    world = a_world()
    root(world), world.namespace("a"), a_sub(world, "a", "r")
    settled(world)
    follow_events(world, lambda world: world.delete(at_sub()))
    assert namespace_ref("a") in world.objects


def test_2_6_the_namespace_is_deleted_first_and_then_the_finalizer() -> None:
    world = made()
    world.delete(at_sub())
    assert [type(write) for write in settled(world)] == [Delete, SetFinalizer]
    assert namespace_ref("a") not in world.objects
    assert at_sub() not in world.objects


def test_2_6_the_finalizer_does_not_wait_for_the_end_of_the_namespace() -> None:
    world = made()
    world.edit(namespace_ref("a"), finalizers=("kubernetes",))
    follow_events(world, lambda world: world.delete(at_sub()))
    assert namespace(world, "a").deleting
    assert at_sub() not in world.objects


def test_2_6_a_namespace_that_was_grafted_by_its_label_is_deleted_too() -> None:
    world = a_world()
    root(world), sub(world, "a", "r"), a_sub(world, "a", "r")
    settled(world)
    follow_events(world, lambda world: world.delete(at_sub()))
    assert namespace_ref("a") not in world.objects


def test_2_6_a_namespace_is_deleted_by_its_label_even_if_we_never_wrote_it() -> None:
    """Its overlay is not applied yet, or the server refuses it."""
    world = a_world()
    root(world), sub(world, "a", "r"), a_sub(world, "a", "r")
    assert not namespace(world, "a").managed_keys
    world.delete(at_sub())
    (write,) = plan_of(Key(SUB, at_sub()), world, RULES).writes
    assert isinstance(write, Delete)
    assert write.ref == namespace_ref("a")


def test_2_6_a_namespace_that_the_original_created_is_deleted_with_its_sub_namespace() -> None:
    world = a_world()
    root(world), a_sub(world, "a", "r")
    world.put(namespace_ref("a"), by=ACCURATE_MANAGER, labels={PARENT: "r", CREATED_BY: "accurate"})
    settled(world)
    follow_events(world, lambda world: world.delete(at_sub()))
    assert namespace_ref("a") not in world.objects


def test_2_6_finalizers_of_other_controllers_are_kept() -> None:
    world = made()
    world.edit(at_sub(), finalizers=(OTHER, FINALIZER))
    follow_events(world, lambda world: world.delete(at_sub()))
    assert world.objects[at_sub()].finalizers == (OTHER,)


def test_2_6_without_the_finalizer_the_object_disappears_and_the_namespace_stays() -> None:
    world = made()
    world.edit(at_sub(), finalizers=())
    follow_events(world, lambda world: world.delete(at_sub()))
    assert labels(world, "a")[PARENT] == "r"


def test_2_6_with_cascading_namespaces_with_a_sub_namespace_are_deleted_at_every_depth() -> None:
    world = made(cascading=True)
    a_sub(world, "b", "a")
    settled(world)
    a_sub(world, "c", "b"), sub(world, "loose", "b")
    settled(world)
    follow_events(world, lambda world: world.delete(at_sub()))
    assert {ref.name for ref in world.objects if ref.kind == NAMESPACE} == {"r", "loose"}
    assert labels(world, "loose")[PARENT] == "b"


def test_2_6_the_status_of_a_sub_namespace_that_waits_for_children_names_what_to_do() -> None:
    world = made()
    sub(world, "b", "a")
    settled(world)
    world.delete(at_sub())
    settled(world)
    assert condition(world, at_sub()) == {
        "type": "Stalled",
        "status": "True",
        "reason": "ChildrenExist",
        "message": "child namespaces exist below a: delete them or move them elsewhere",
        "observedGeneration": world.objects[at_sub()].generation,
    }


def ending(world: World, tally: CopyCounts) -> dict[str, object] | None:
    """The condition Stalled that would be written on a terminating SubNamespace."""
    status, have = world.registry[SUB].status, world.objects[at_sub()]
    written = status_to_write(status, have, world, tally, "now") or {}
    reported = written.get("conditions")
    assert isinstance(reported, list | None)
    return next((condition for condition in reported or () if condition["type"] == "Stalled"), None)


def test_row_25_the_status_of_a_held_sub_namespace_names_the_command_to_release_it() -> None:
    world, tally = made(), CopyCounts()
    world.delete(at_sub())
    assert ending(world, tally) is None
    tally.mark_held([namespace_ref("a")])
    reported = ending(world, tally)
    assert reported is not None
    assert (reported["type"], reported["status"], reported["reason"]) == ("Stalled", "True", "Held")
    assert "`samara release accurate/SubNamespace/r/a`" in str(reported["message"])


def test_2_6_the_status_shows_why_the_server_does_not_delete_the_namespace() -> None:
    world, tally = made(), CopyCounts()
    world.delete(at_sub())
    tally.mark_not_removed(namespace_ref("a"), "refused", "not on a Friday")
    reported = ending(world, tally)
    assert reported is not None
    assert (reported["reason"], reported["message"]) == ("Refused", "not on a Friday")


def test_the_status_of_a_sub_namespace_that_waits_for_a_paused_namespace_shows_it() -> None:
    world = made()
    world.edit(namespace_ref("a"), annotations={PAUSED: "true"})
    world.delete(at_sub())
    settled(world)
    reported = condition(world, at_sub())
    assert reported is not None
    assert reported["reason"] == "Held"
    assert "samara.dev/paused" in str(reported["message"])


def test_2_6_the_condition_disappears_when_only_a_foreign_finalizer_is_left() -> None:
    world = made()
    sub(world, "b", "a")
    world.edit(at_sub(), finalizers=(OTHER, FINALIZER))
    world.delete(at_sub())
    settled(world)
    assert condition(world, at_sub()) is not None
    follow_events(world, lambda world: set_roles(world, "b", type="root"))
    assert world.objects[at_sub()].finalizers == (OTHER,)
    assert condition(world, at_sub()) is None


def test_2_6_a_namespace_that_names_itself_is_not_its_own_child() -> None:
    """Its SubNamespace loses the finalizer. The namespace stays, as every namespace in a loop."""
    world = made()
    a_sub(world, "a", "a")
    set_roles(world, "a", parent="a")
    settled(world)
    follow_events(world, lambda world: world.delete(at_sub("a", "a")))
    assert at_sub("a", "a") not in world.objects
    assert labels(world, "a")[PARENT] == "a"


@pytest.mark.parametrize("cascading", [False, True])
def test_row_20_deleting_the_parent_deletes_the_namespaces_below_only_with_cascading(cascading: bool) -> None:
    world = made(cascading=cascading)
    settled(world)
    world.terminate("r")
    world.delete(at_sub())
    settled(world)
    assert (namespace_ref("a") in world.objects) is not cascading
    assert at_sub() not in world.objects, "it must not block the deletion of the parent"


def test_row_20_the_server_decides_whether_the_parent_terminates_because_the_watch_may_be_behind() -> None:
    world = made()
    settled(world)
    world.outside[NamespaceIsActive("r")] = False
    world.delete(at_sub())
    settled(world)
    assert namespace_ref("a") in world.objects
    assert at_sub() not in world.objects, "it must not block the deletion of the parent"


def test_row_20_nothing_is_written_before_the_server_answers_whether_the_parent_terminates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = made()
    settled(world)
    world.delete(at_sub())
    monkeypatch.setattr(World, "answer", lambda self, read: UNREAD)
    planned = plan(key(), world, world.registry, RULES)
    assert (planned.ready, planned.reads, planned.writes) == (False, (NamespaceIsActive("r"),), ())


def test_row_20_a_plan_of_one_namespace_sees_the_children_too() -> None:
    world = made()
    sub(world, "b", "a")
    settled(world)
    world.delete(at_sub())
    assert plan_of(key().in_namespace(""), world, RULES).writes == ()


def test_row_26_a_reserved_namespace_is_not_deleted_with_a_sub_namespace() -> None:
    """An administrator may make the operator's own namespace a sub-namespace."""
    world = a_world()
    root(world), sub(world, "operator", "r"), a_sub(world, "operator", "r")
    settled(world)
    world.delete(at_sub("operator"))
    settled(world)
    assert namespace_ref("operator") in world.objects
    assert at_sub("operator") not in world.objects


def test_a_paused_namespace_is_not_deleted() -> None:
    world = made()
    settled(world)
    world.edit(namespace_ref("a"), annotations={PAUSED: "true"})
    world.delete(at_sub())
    settled(world)
    assert namespace_ref("a") in world.objects
    assert world.objects[at_sub()].finalizers == (FINALIZER,)


@pytest.mark.parametrize("cascading", [False, True])
def test_row_9_and_20_a_namespace_with_children_is_deleted_only_with_cascading(cascading: bool) -> None:
    world = made(cascading=cascading)
    sub(world, "b", "a")
    settled(world)
    world.delete(at_sub())
    settled(world)
    assert (namespace_ref("a") in world.objects) is not cascading
    if not cascading:
        assert world.objects[at_sub()].finalizers == (FINALIZER,)
        assert [(target.reason, target.message) for target in blocked(world, key())] == [
            ("refused", "child namespaces exist")
        ]


@pytest.mark.parametrize("leaves", [{"parent": "r"}, {"type": "root"}])
def test_row_20_the_deletion_continues_when_the_last_child_is_moved(leaves: dict[str, str]) -> None:
    world = made()
    sub(world, "b", "a")
    world.delete(at_sub())
    settled(world)
    follow_events(world, lambda world: set_roles(world, "b", **leaves))
    assert namespace_ref("a") not in world.objects


def test_row_20_the_deletion_continues_when_the_last_child_is_deleted() -> None:
    world = made()
    sub(world, "b", "a")
    world.delete(at_sub())
    settled(world)
    follow_events(world, lambda world: world.delete(namespace_ref("b")))
    assert namespace_ref("a") not in world.objects


def test_row_10_a_delete_decided_on_a_stale_read_is_not_performed() -> None:
    world = made()
    root(world, "q")
    world.delete(at_sub())
    (write,) = plan_of(key(), world, RULES).writes
    assert isinstance(write, Delete)
    set_roles(world, "a", parent="q")
    assert not perform(world, write)
    settled(world)
    assert namespace_ref("a") in world.objects


def test_row_18_the_finalizer_is_added_first_while_there_is_no_status() -> None:
    world = a_world()
    root(world), a_sub(world, "a", "r", guard=False)
    first, second, *_ = settled(world)
    assert isinstance(first, SetFinalizer)
    assert first.add
    assert isinstance(second, Create)
    assert world.objects[at_sub()].finalizers == (FINALIZER,)


def test_row_18_no_status_is_written_before_the_finalizer_is_set() -> None:
    world = a_world()
    root(world), sub(world, "a", "r"), a_sub(world, "a", "r", guard=False)
    settle(world, RULES, fates=["done", "dropped"])
    assert world.objects[at_sub()].finalizers == (FINALIZER,)
    assert is_well(world, at_sub())


def test_row_18_a_removed_finalizer_is_not_added_again_once_there_is_a_status() -> None:
    world = made()
    world.edit(at_sub(), finalizers=(OTHER,))
    assert settled(world) == []
    assert world.objects[at_sub()].finalizers == (OTHER,)


def test_row_18_the_finalizers_of_users_stay_when_ours_is_added() -> None:
    world = a_world()
    root(world), a_sub(world, "a", "r", guard=False)
    world.edit(at_sub(), finalizers=(OTHER,))
    settled(world)
    assert set(world.objects[at_sub()].finalizers) == {OTHER, FINALIZER}


def test_row_24_a_terminating_sub_namespace_without_our_finalizer_deletes_and_adds_nothing() -> None:
    world = made()
    world.edit(at_sub(), finalizers=(OTHER,))
    world.delete(at_sub())
    assert settled(world) == []
    assert namespace_ref("a") in world.objects


def test_row_25_deleting_the_crd_deletes_no_namespace() -> None:
    world = made()
    a_sub(world, "b", "a")
    settled(world)
    world.objects = {ref: obj for ref, obj in world.objects.items() if ref.kind != SUB_NAMESPACE}
    assert settled(world) == []
    world.unlisted.add(SUB_NAMESPACE)
    assert settled(world) == []


def test_row_25_more_than_three_namespaces_in_ten_minutes_are_held_until_released() -> None:
    world, clock = a_world(), Clock()
    root(world)
    for name in "abcde":
        a_sub(world, name, "r")
    settled(world)
    holds, sent = MassDeleteGuard(MassDeleteLimit(), 600.0, clock, awaits_record=False), list[str]()
    for name in "abcde":
        world.delete(at_sub(name))
        deletes = [write for write in plan_of(key(name), world, RULES).writes if isinstance(write, Delete)]
        sent += [write.ref.name for write in holds.check(key(name), deletes, 1, 5)]
    assert sent == ["a", "b", "c"]
    assert {hold.until for hold in holds.held.values()} == {inf}
    clock.now += 10 * WINDOW
    assert holds.due() == []
    held = [write for write in plan_of(key("d"), world, RULES).writes if isinstance(write, Delete)]
    assert holds.check(key("d"), held, 1, 5) == ()
    holds.release(key("d"))
    assert list(holds.check(key("d"), held, 1, 5)) == held


def test_row_25_after_ten_minutes_three_more_namespaces_may_be_deleted() -> None:
    world, clock = a_world(), Clock()
    root(world)
    for name in "abcd":
        a_sub(world, name, "r")
    settled(world)
    holds = MassDeleteGuard(MassDeleteLimit(), 600.0, clock, awaits_record=False)
    for name in "abcd":
        clock.now += WINDOW / 2
        world.delete(at_sub(name))
        deletes = [write for write in plan_of(key(name), world, RULES).writes if isinstance(write, Delete)]
        assert list(holds.check(key(name), deletes, 1, 4)) == deletes


@pytest.mark.parametrize("name", ["default", "kube-system", "operator"])
def test_row_26_a_reserved_name_is_refused_and_reported_in_the_status(name: str) -> None:
    world = a_world()
    root(world), a_sub(world, name, "r")
    settled(world)
    assert namespace_ref(name) not in world.objects
    reported = condition(world, at_sub(name))
    assert reported is not None
    assert (reported["type"], reported["status"], reported["reason"]) == ("Stalled", "True", "Reserved")
    assert [target.reason for target in blocked(world, key(name))] == ["refused"]


POLICY = [{"root": "^r$", "match": "^r-"}]


def test_a_name_that_a_naming_policy_denies_becomes_no_namespace_although_admission_did_not_see_it() -> None:
    """Nobody may have answered when the SubNamespace was created."""
    world = a_world(namingPolicies=POLICY)
    root(world), a_sub(world, "a", "r"), a_sub(world, "r-b", "r")
    settled(world)
    assert {ref.name for ref in world.objects if ref.kind == NAMESPACE} == {"r", "r-b"}
    expected = (
        "namespace r is not match naming policies: namespace - target=a root=r denied policy - root=^r$ match=^r-"
    )
    reported = condition(world, at_sub())
    assert reported is not None
    assert (reported["reason"], reported["message"]) == ("Refused", expected)
    assert [(target.reason, target.message) for target in blocked(world, key())] == [("refused", expected)]


def test_a_policy_is_applied_with_the_root_at_the_top_of_the_tree() -> None:
    world = a_world(namingPolicies=POLICY)
    root(world), a_sub(world, "r-b", "r"), a_sub(world, "a", "r-b"), a_sub(world, "r-c", "r-b")
    settled(world)
    assert {ref.name for ref in world.objects if ref.kind == NAMESPACE} == {"r", "r-b", "r-c"}


def test_a_policy_that_cannot_be_expanded_creates_nothing() -> None:
    world = a_world(namingPolicies=[{"root": "^(r)$", "match": "^$1["}])
    root(world), a_sub(world, "a", "r")
    settled(world)
    assert namespace_ref("a") not in world.objects


def test_a_namespace_stays_when_a_policy_that_came_later_denies_its_name() -> None:
    world = made()
    world.registry = a_world(namingPolicies=POLICY).registry
    assert settled(world) == []
    assert condition(world, at_sub()) is None


def test_row_26_a_reserved_namespace_that_exists_is_neither_adopted_nor_touched() -> None:
    world = a_world()
    root(world), a_sub(world, "operator", "r")
    theirs = world.namespace("operator")
    settled(world)
    assert namespace(world, "operator") is theirs
    reported = condition(world, at_sub("operator"))
    assert reported is not None
    assert reported["reason"] == "Reserved"
    follow_events(world, lambda world: world.delete(at_sub("operator")))
    assert namespace(world, "operator") is theirs


def test_row_26_the_cluster_policy_reserves_names_too() -> None:
    world = a_world()
    root(world), a_sub(world, "a", "r"), a_sub(world, "team-x", "r")
    settle(world, ClusterPolicy(protected=("team-*",), reserved=("a",)))
    assert {ref.name for ref in world.objects if ref.kind == NAMESPACE} == {"r"}


def test_row_26_a_name_reserved_later_leaves_its_namespace_healthy() -> None:
    world = made()
    rules = ClusterPolicy(reserved=("a",))
    assert settle(world, rules) == []
    assert plan_of(key(), world, rules).blocked == ()


def test_a_paused_sub_namespace_creates_and_deletes_nothing() -> None:
    world = a_world()
    root(world), a_sub(world, "a", "r")
    world.edit(at_sub(), annotations={PAUSED: "true"})
    settled(world)
    assert namespace_ref("a") not in world.objects
    world = made()
    world.edit(at_sub(), annotations={PAUSED: "true"})
    world.delete(at_sub())
    settled(world)
    assert namespace_ref("a") in world.objects
    assert at_sub() in world.objects


def test_a_sub_namespace_in_a_paused_namespace_is_not_reconciled() -> None:
    world = a_world()
    root(world), a_sub(world, "a", "r")
    world.edit(namespace_ref("r"), annotations={PAUSED: "true"})
    assert settle(world, RULES) == []
    (blocked,) = plan_of(key(), world, RULES).blocked
    assert (blocked.reason, blocked.message) == ("held", f"namespace r of the source is paused ({PAUSED})")
    world.edit(namespace_ref("r"), annotations={})
    settled(world)
    assert namespace_ref("a") in world.objects
    world.edit(namespace_ref("r"), annotations={PAUSED: "true"})
    world.delete(at_sub())
    assert settle(world, RULES) == []
    assert {at_sub(), namespace_ref("a")} <= world.objects.keys()


def test_a_new_sub_namespace_gets_labels_and_objects_at_once() -> None:
    world = a_world()
    root(world, "r", {"team": "red"})
    source(world, at("r", "x"), "update")
    settled(world)
    follow_events(world, lambda world: a_sub(world, "a", "r"))
    assert labels(world, "a")["team"] == "red"
    assert at("a", "x") in world.objects


def test_a_status_is_written_only_when_it_changes() -> None:
    world = made()
    world.edit(at_sub(), generation=2)
    assert [type(write) for write in settled(world)] == [WriteStatus]
    assert settled(world) == []


def test_a_new_sub_namespace_never_gets_a_type_label() -> None:
    world = made()
    assert TYPE not in labels(world, "a")
    assert deletions(settled(world)) == []
