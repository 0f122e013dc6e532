"""The rule, clause by clause: what a wanted copy, an unwanted one, an overlay and a guard need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support import toys
from tests.support.server import perform
from tests.support.settle import plan_of
from tests.support.world import World, at, secret

from samara.core.allow import Rules
from samara.core.compare import merged
from samara.core.model import (
    ANNOTATIONS,
    MANAGER,
    NAMESPACE,
    SECRET,
    Content,
    Key,
    Kind,
    Object,
    Owner,
    Ref,
    namespace_ref,
)
from samara.core.plan import plan
from samara.core.table import Table
from samara.core.travel import ACCEPT, ADOPTED, IGNORE, PAUSED, RELEASED
from samara.core.view import View
from samara.core.want import KEEP, Adopt, Copy, Dialect, Keep, Mode, Overlay, Places, Reach, Want
from samara.core.write import Apply, Blocked, Create, Delete, Guard, Look, Plan, Recreate, Release, Update, Write

MARK = "toy/from"
SOURCE = at("home", "x")
KEY = Key("toy", SOURCE)
A = at("a", "x")
RULES = Rules()
PAUSING = {"toy/ask": "yes", PAUSED: "true"}


def a_dialect(*copies: Copy, name: str = "toy", rank: int = 0, want: Want | None = None) -> Dialect:
    """One source, `home/x`, that wants exactly this, while it is there."""

    def origin(obj: Object, view: View) -> Ref | None:
        return SOURCE if obj.annotations.get(MARK) == "home" else None

    def wanted(source: Ref, view: View) -> Want:
        in_sight = set(view.namespaces())
        held = want or Want(tuple(copy for copy in copies if copy.ref.namespace in in_sight))
        return held if view.get(source) is not None else Want()

    def is_source(obj: Object, view: View) -> bool:
        return obj.ref == SOURCE

    places = Places(SECRET, "x")
    marks, asks = frozenset({MARK}), frozenset({"toy/ask"})
    return Dialect(name, (SECRET,), is_source, origin, lambda *_: places, wanted, marks, asks, rank=rank)


def a_copy(has: Content | Keep | None = None, adopt: Adopt = Adopt.IDENTICAL, mode: Mode = Mode.SYNC) -> Copy:
    return Copy(A, has or secret(), {"team": "red"}, {MARK: "home"}, mode, adopt)


def a_world(*dialects: Dialect) -> World:
    world = World(Table(dialects or (a_dialect(a_copy()),)))
    for name in ("home", "a", "b"):
        world.namespace(name)
    world.put(SOURCE, secret(), annotations={"toy/ask": "yes"})
    return world


def write_of(world: World, rules: Rules = RULES) -> Write:
    (write,) = plan_of(KEY, world, rules).writes
    return write


def blocked_by(world: World, rules: Rules = RULES) -> str:
    planned = plan_of(KEY, world, rules)
    assert planned.writes == ()
    (blocked,) = planned.blocked
    return blocked.reason


def is_quiet(world: World) -> bool:
    planned = plan_of(KEY, world, RULES)
    return planned.writes == () and planned.blocked == ()


def ours(world: World, has: Content | None = None, ref: Ref = A, **more: Any) -> Object:
    words: dict[str, Any] = {"labels": {"team": "red"}, "annotations": {MARK: "home"}, **more}
    return world.put(ref, has or secret(), MANAGER, **words)


def theirs(world: World, has: Content | None = None, **more: Any) -> Object:
    return world.put(A, has or secret(), **more)


def test_nothing_there_is_created() -> None:
    assert isinstance(write_of(a_world()), Create)


def test_an_equal_copy_needs_nothing() -> None:
    world = a_world()
    ours(world)
    assert is_quiet(world)


def test_a_copy_that_differs_is_updated_on_the_version_that_was_seen() -> None:
    world = a_world()
    have = ours(world, secret("old"))
    write = write_of(world)
    assert isinstance(write, Update)
    assert (write.have.uid, write.have.version) == (have.uid, have.version)


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


def test_fault_38_a_word_of_ours_that_we_do_not_know_is_another_versions_and_stays() -> None:
    world = a_world()
    words = {MARK: "home", "samara.dev/of-tomorrow": "1"}
    ours(world, annotations=words)
    assert is_quiet(world)
    ours(world, secret("old"), annotations=words)
    write = write_of(world)
    assert isinstance(write, Update)
    assert merged(ANNOTATIONS, write.copy, write.have, world.table[write.key.dialect]) == words


def test_a_fixed_field_that_differs_means_recreate() -> None:
    world = a_world()
    ours(world, secret(kind="kubernetes.io/tls"))
    assert isinstance(write_of(world), Recreate)


def test_where_the_settings_refuse_to_recreate_it_is_blocked() -> None:
    world = a_world()
    ours(world, secret(kind="kubernetes.io/tls"))
    assert blocked_by(world, Rules(recreate=False)) == "refused"


def test_an_absent_namespace_blocks() -> None:
    world = a_world(a_dialect(want=Want((a_copy(),))))
    world.delete(namespace_ref("a"))
    assert blocked_by(world) == "no-namespace"


def test_a_terminating_namespace_blocks_and_its_copies_are_left() -> None:
    world = a_world()
    ours(world, secret("old"))
    world.terminate("a")
    assert blocked_by(world) == "no-namespace"


def test_an_unwanted_copy_in_a_terminating_namespace_goes_by_itself() -> None:
    world = a_world(a_dialect())
    ours(world)
    world.terminate("a")
    assert is_quiet(world)


def test_a_place_taken_by_what_is_not_held_is_looked_at_first() -> None:
    world = a_world()
    theirs(world)
    assert plan(KEY, world, world.table, RULES) == Plan(looks=(Look(A),), wanted=(A,))


def test_a_seed_is_created_once_and_left_alone() -> None:
    world = a_world(a_dialect(a_copy(mode=Mode.SEED)))
    assert isinstance(write_of(world), Create)
    ours(world, secret("changed since"))
    assert is_quiet(world)


def test_a_seed_leaves_whatever_is_there_even_where_others_are_taken_over() -> None:
    world = a_world(a_dialect(a_copy(mode=Mode.SEED, adopt=Adopt.ANY)))
    theirs(world, secret("theirs"))
    assert is_quiet(world)


def test_a_kept_place_is_neither_created_rewritten_nor_deleted() -> None:
    world = a_world(a_dialect(a_copy(KEEP)))
    assert blocked_by(world) == "invalid"  # it is wanted, and it is not there
    ours(world, secret("old"))
    assert is_quiet(world)


def test_a_kept_place_leaves_somebody_elses_object() -> None:
    world = a_world(a_dialect(a_copy(KEEP, Adopt.ANY)))
    theirs(world, secret("theirs"))
    assert plan_of(KEY, world, RULES).writes == ()


def test_an_identical_object_is_adopted() -> None:
    world = a_world()
    theirs(world)
    write = write_of(world)
    assert isinstance(write, Update)
    assert write.copy.annotations[ADOPTED] == "true"


@pytest.mark.parametrize("adopt", [Adopt.IDENTICAL, Adopt.NEVER])
def test_a_different_object_is_a_conflict(adopt: Adopt) -> None:
    world = a_world(a_dialect(a_copy(adopt=adopt)))
    theirs(world, secret("theirs"))
    assert blocked_by(world) == "conflict"


def test_never_adopts_not_even_an_identical_one() -> None:
    world = a_world(a_dialect(a_copy(adopt=Adopt.NEVER)))
    theirs(world)
    assert blocked_by(world) == "conflict"


TOOLS = ["argocd.argoproj.io/instance", "app.kubernetes.io/managed-by", "meta.helm.sh/release-name", "a.fluxcd.io/x"]


@pytest.mark.parametrize("key", TOOLS)
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_what_belongs_to_a_tool_is_not_adopted(key: str, where: str) -> None:
    world = a_world()
    words: dict[str, Any] = {where: {key: "x"}}
    theirs(world, **words)
    assert blocked_by(world) == "conflict"


def test_what_has_an_owner_is_not_adopted() -> None:
    world = a_world()
    theirs(world, owners=(Owner("v1", "Pod", "p", "u"),))
    assert blocked_by(world) == "conflict"


@pytest.mark.parametrize("in_tree", [False, True])
@pytest.mark.parametrize("adopt", [Adopt.IDENTICAL, Adopt.ANY])
def test_what_is_itself_a_source_is_neither_adopted_nor_taken_over(adopt: Adopt, in_tree: bool) -> None:
    wanting = replace(a_dialect(a_copy(adopt=adopt)), upstream=(lambda namespace: "") if in_tree else None)
    world = World(Table((wanting, toys.chain(lambda where, words: dict(words)))))
    for name in ("home", "a"):
        world.namespace(name)
    world.put(SOURCE, secret(), annotations={"toy/ask": "yes"})
    theirs(world, annotations={toys.CHAIN: "yes"})
    assert blocked_by(world) == "conflict"


def test_any_takes_over_whatever_is_there() -> None:
    world = a_world(a_dialect(a_copy(adopt=Adopt.ANY)))
    theirs(world, secret("theirs"), owners=(Owner("v1", "Pod", "p", "u"),))
    write = write_of(world)
    assert isinstance(write, Update)
    assert ADOPTED not in write.copy.annotations


def test_what_is_being_deleted_is_waited_for() -> None:
    world = a_world()
    ours(world, secret("old"), finalizers=("somebody/else",))
    world.delete(A)
    assert blocked_by(world) == "conflict"


def test_an_unwanted_copy_is_deleted_by_uid_and_version() -> None:
    world = a_world(a_dialect())
    have = ours(world)
    write = write_of(world)
    assert isinstance(write, Delete)
    assert (write.have.uid, write.have.version) == (have.uid, have.version)


def test_an_unwanted_copy_of_another_kind_and_the_same_name_is_deleted() -> None:
    config = Kind("", "v1", "ConfigMap", "configmaps")
    world = a_world()
    ours(world, ref=at("a", "x", config))
    assert {type(write) for write in plan_of(KEY, world, RULES).writes} == {Create, Delete}


def test_an_adopted_copy_only_loses_our_marks() -> None:
    world = a_world(a_dialect())
    ours(world, annotations={MARK: "home", ADOPTED: "true"})
    assert isinstance(write_of(world), Release)


def test_an_unwanted_copy_that_carries_released_stays() -> None:
    world = a_world(a_dialect())
    ours(world, annotations={MARK: "home", RELEASED: "true"})
    assert is_quiet(world)


def test_where_a_dialect_does_not_prune_copies_stay() -> None:
    world = a_world(a_dialect(want=Want(prune=False)))
    ours(world)
    assert is_quiet(world)


def test_a_paused_source_writes_nothing_and_deletes_nothing() -> None:
    for dialect in (a_dialect(a_copy()), a_dialect()):
        world = a_world(dialect)
        ours(world, secret("old"))
        world.edit(SOURCE, annotations=PAUSING)
        assert blocked_by(world) == "held"


def test_a_paused_namespace_gets_nothing_and_loses_nothing() -> None:
    for dialect in (a_dialect(a_copy()), a_dialect()):
        world = a_world(dialect)
        ours(world, secret("old"))
        world.edit(namespace_ref("a"), annotations={PAUSED: "true"})
        assert blocked_by(world) == "held"


def test_an_ignored_namespace_keeps_its_copies_as_they_are() -> None:
    world = a_world()
    ours(world, secret("old"))
    world.edit(namespace_ref("a"), annotations={IGNORE: "true"})
    assert is_quiet(world)


@pytest.mark.parametrize("why", ["the source is paused", "the namespace is on its way out"])
def test_where_nothing_is_wanted_nothing_is_counted_whatever_else_stands_against_it(why: str) -> None:
    world = a_world()
    world.edit(namespace_ref("a"), annotations={IGNORE: "true"}, deleting=why == "the namespace is on its way out")
    if why == "the source is paused":
        world.edit(KEY.source, annotations={PAUSED: "true"})
    assert plan_of(KEY, world, RULES) == Plan()


def test_a_copy_in_a_namespace_that_is_protected_now_stays() -> None:
    for named, reach in ((False, Reach.NEVER), (True, Reach.NEVER), (False, Reach.NAMED)):
        world = a_world(replace(a_dialect(replace(a_copy(), named=named)), reach=reach))
        ours(world, secret("old"))
        assert plan_of(KEY, world, Rules(protected=("a",))).writes == ()


def test_without_consent_a_copy_goes_by_one_delete() -> None:
    world = a_world(replace(a_dialect(a_copy()), consent=True))
    ours(world)
    assert isinstance(write_of(world), Delete)


def test_without_consent_nothing_is_created_and_with_it_all_is() -> None:
    world = a_world(replace(a_dialect(a_copy()), consent=True))
    assert blocked_by(world) == "not-accepted"
    world.edit(namespace_ref("a"), annotations={ACCEPT: "home"})
    assert isinstance(write_of(world), Create)


def test_without_consent_somebody_elses_object_stays() -> None:
    world = a_world(replace(a_dialect(a_copy()), consent=True))
    theirs(world, annotations={MARK: "home"})
    assert blocked_by(world) == "not-accepted"


def test_a_denied_kind_is_blocked_and_what_is_there_stays() -> None:
    role = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
    world = a_world(a_dialect(replace(a_copy(), ref=at("a", "x", role))))
    ours(world, ref=at("a", "x", role))
    assert blocked_by(world) == "refused"


def test_an_unlisted_kind_yields_no_plan() -> None:
    for kind in (SECRET, NAMESPACE):
        world = a_world(a_dialect())
        ours(world)
        world.unlisted.add(kind)
        assert plan(KEY, world, world.table, RULES) == Plan(ready=False)


LABELLED = Overlay(namespace_ref("a"), {"team": "red"}, {"note": "x"})


def test_an_overlay_is_applied_where_a_value_differs_and_then_right() -> None:
    world = a_world(a_dialect(want=Want(overlays=(LABELLED,))))
    write = write_of(world)
    assert isinstance(write, Apply)
    assert perform(world, write)
    assert is_quiet(world)


def test_an_overlay_with_the_right_values_set_by_others_is_applied_once_to_own_them() -> None:
    world = a_world(a_dialect(want=Want(overlays=(LABELLED,))))
    world.edit(namespace_ref("a"), labels={"team": "red"}, annotations={"note": "x"})
    assert isinstance(write_of(world), Apply)


def test_a_key_that_is_no_longer_laid_over_goes_and_other_peoples_stay() -> None:
    world = a_world(a_dialect(want=Want(overlays=(LABELLED,))))
    world.edit(namespace_ref("a"), labels={"theirs": "1"})
    assert perform(world, write_of(world))
    world.table = Table((a_dialect(want=Want(overlays=(replace(LABELLED, labels={}),))),))
    assert perform(world, write_of(world))
    have = world.objects[namespace_ref("a")]
    assert (dict(have.labels), dict(have.annotations)) == ({"theirs": "1"}, {"note": "x"})
    assert is_quiet(world)


def test_an_overlay_never_creates_and_leaves_what_ends() -> None:
    world = a_world(a_dialect(want=Want(overlays=(replace(LABELLED, ref=namespace_ref("none")), LABELLED))))
    world.terminate("a")
    assert is_quiet(world)


def test_an_overlay_is_held_by_a_pause_of_source_or_target() -> None:
    for ref in (SOURCE, namespace_ref("a")):
        world = a_world(a_dialect(want=Want(overlays=(LABELLED,))))
        world.edit(ref, annotations=PAUSING)
        assert blocked_by(world) == "held"


GUARDED = Want((a_copy(),), guard="toy/guard")


def test_a_guard_comes_first_and_alone() -> None:
    world = a_world(a_dialect(want=GUARDED))
    write = write_of(world)
    assert isinstance(write, Guard)
    assert write.add


def test_with_its_guard_a_source_is_served() -> None:
    world = a_world(a_dialect(want=GUARDED))
    world.edit(SOURCE, finalizers=("toy/guard",))
    assert isinstance(write_of(world), Create)


def test_a_guard_is_released_when_nothing_is_left_to_write() -> None:
    world = a_world(a_dialect(want=Want(guard="toy/guard")))
    ours(world)
    world.edit(SOURCE, finalizers=("toy/guard",), deleting=True)
    assert isinstance(write_of(world), Delete)
    world.delete(A)
    write = write_of(world)
    assert isinstance(write, Guard)
    assert not write.add


def test_a_slice_does_not_release_the_guard_while_a_copy_is_left_elsewhere() -> None:
    world = a_world(a_dialect(want=Want(guard="toy/guard")))
    ours(world)
    world.edit(SOURCE, finalizers=("toy/guard",), deleting=True)
    assert plan_of(KEY.part("b"), world, RULES).writes == ()
    world.delete(A)
    assert isinstance(plan_of(KEY.part("b"), world, RULES).writes[0], Guard)


def test_a_source_deleted_without_its_guard_deletes_nothing() -> None:
    world = a_world(a_dialect(want=Want(guard="toy/guard")))
    ours(world)
    world.edit(SOURCE, finalizers=("somebody/else",), deleting=True)
    assert is_quiet(world)


def test_a_paused_source_gets_no_guard_and_keeps_the_one_it_has() -> None:
    world = a_world(a_dialect(want=GUARDED))
    world.edit(SOURCE, annotations=PAUSING)
    assert blocked_by(world) == "held"
    world = a_world(a_dialect(want=Want(guard="toy/guard")))
    world.edit(SOURCE, annotations=PAUSING, finalizers=("toy/guard",), deleting=True)
    assert is_quiet(world)


def test_a_read_that_is_missing_is_asked_for_and_nothing_else_is_planned() -> None:
    world = a_world(replace(a_dialect(), reads=lambda source, view: ("p", "q")))
    ours(world)
    world.values["p"] = "read"
    assert plan(KEY, world, world.table, RULES) == Plan(ready=False, reads=("q",))


def test_a_released_object_is_met_like_any_other() -> None:
    world = a_world(a_dialect(a_copy(adopt=Adopt.NEVER)))
    ours(world, secret(), annotations={RELEASED: "true"})
    assert blocked_by(world) == "conflict"


def test_no_value_is_shown() -> None:
    world = a_world()
    ours(world, secret("canary"), annotations={MARK: "home", "note": "canary"})
    planned = plan_of(KEY, world, RULES)
    assert len(planned.writes) == 1
    assert "canary" not in repr(planned) + repr(world.objects[A].content.fields)


def test_every_blocked_place_is_still_a_wanted_one() -> None:
    world = a_world()
    theirs(world, secret("theirs"))
    planned = plan_of(KEY, world, RULES)
    assert planned.wanted == (A,)
    assert isinstance(planned.blocked[0], Blocked)
