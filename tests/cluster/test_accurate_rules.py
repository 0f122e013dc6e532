"""Namespace trees on the real server: what namespaces inherit and what is propagated; each name quotes its rule."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.audit import Event, until_recorded
from tests.cluster.support.definitions import DEFINITIONS
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import OWN, Stage, encoded
from tests.cluster.support.trees import (
    CONFIG,
    CREATED_BY,
    FROM,
    GROUP,
    PARENT,
    PROPAGATE,
    SETTLED,
    TEMPLATE,
    TYPE,
    Trees,
    short,
)
from tests.cluster.support.waiting import eventually, never

pytestmark = pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs")

Json = dict[str, Any]
SIX = ("root", "s1", "s2", "s3", "s4", "s5")
BRANCH = {PARENT: "root", CREATED_BY: "accurate"}
HOP = 1.0
"""The maximum pause between the answer to a write and the next hop, with a margin for a busy machine."""


def rooted(trees: Trees, *names: str) -> None:
    """A root and a chain of sub-namespaces below it, by their labels alone."""
    trees.root(names[0])
    for above, name in pairwise(names):
        trees.hang(name, above)


def modes(trees: Trees, name: str, *namespaces: str) -> set[str | None]:
    return {
        metadata_of(trees.get("secrets", namespace, name) or {"metadata": {}}).get(PROPAGATE)
        for namespace in namespaces
    }


def in_order(events: list[Event]) -> list[str]:
    return [short(event) for event in sorted(events, key=lambda event: event.received)]


def waits(events: list[Event]) -> list[float]:
    """The pauses between a response and the next request along a chain."""
    ordered = sorted(events, key=lambda event: event.received)
    return [after.received - before.answered for before, after in pairwise(ordered)]


# Inherited labels and annotations


def test_labels_and_annotations_whose_keys_are_listed_are_inherited_changed_and_removed_at_every_depth(
    trees: Trees,
) -> None:
    trees.serve()
    rooted(trees, "root", "mid", "leaf")
    trees.kubectl("label", "namespace", "root", "team=a", "x.glob/y=1", "other=x")
    trees.kubectl("annotate", "namespace", "root", "note=hi", "foo=x")
    wanted = {CREATED_BY: "accurate", "team": "a", "x.glob/y": "1"}
    for name, parent in (("mid", "root"), ("leaf", "mid")):
        eventually(lambda name=name, parent=parent: trees.labels(name) == {**wanted, PARENT: parent})  # type: ignore[misc]
        eventually(lambda name=name: metadata_of(trees.there(name) or {}) == {"note": "hi"})  # type: ignore[misc]
    trees.kubectl("label", "namespace", "root", "team=b", "x.glob/y-", "--overwrite")
    eventually(lambda: trees.labels("leaf") == {CREATED_BY: "accurate", PARENT: "mid", "team": "b"})
    trees.note("root", {"note": None})
    eventually(lambda: metadata_of(trees.there("leaf") or {}) == {})


def test_a_key_edited_or_deleted_on_the_child_is_restored_and_an_unlisted_key_is_never_changed(
    trees: Trees,
) -> None:
    trees.serve()
    trees.root(team="a")
    trees.hang("web", "root")
    eventually(lambda: trees.labels("web") == {**BRANCH, "team": "a"})
    trees.kubectl("label", "namespace", "web", "team=mine", "other=mine", "--overwrite")
    eventually(lambda: trees.labels("web") == {**BRANCH, "team": "a", "other": "mine"})
    trees.kubectl("label", "namespace", "web", "team-")
    eventually(lambda: trees.labels("web") == {**BRANCH, "team": "a", "other": "mine"})


def test_a_new_parent_replaces_the_inherited_keys_and_after_a_cut_they_stay(trees: Trees) -> None:
    trees.serve()
    trees.space("root", {TYPE: "root", "team": "a", "old.glob/x": "1"})
    trees.space("other", {TYPE: "root", "team": "b"})
    trees.hang("web", "root")
    eventually(lambda: trees.labels("web") == {**BRANCH, "team": "a", "old.glob/x": "1"})
    trees.label("web", {PARENT: "other"})
    moved = {CREATED_BY: "accurate", "team": "b"}
    eventually(lambda: trees.labels("web") == {**moved, PARENT: "other"})
    mark = trees.stage.audit.mark()
    trees.label("web", {PARENT: None, TYPE: "root"})
    trees.label("other", {"team": "c"})
    never(lambda: trees.sent(mark), SETTLED)
    assert trees.labels("web") == {**moved, TYPE: "root"}


def test_an_instance_inherits_from_its_template_without_being_marked_and_switches_and_keeps_after_the_end(
    trees: Trees,
) -> None:
    trees.serve()
    trees.template("gold", team="a", **{"old.glob/x": "1"})
    trees.template("tin", team="b")
    trees.space("web", {TEMPLATE: "gold"})
    eventually(lambda: trees.labels("web") == {TEMPLATE: "gold", "team": "a", "old.glob/x": "1"})
    trees.label("web", {TEMPLATE: "tin"})
    eventually(lambda: trees.labels("web") == {TEMPLATE: "tin", "team": "b"})
    trees.label("web", {TEMPLATE: None})
    mark = trees.stage.audit.mark()
    trees.label("tin", {"team": "c"})
    never(lambda: trees.sent(mark), SETTLED)
    assert trees.labels("web") == {"team": "b"}


def test_a_template_of_a_template_and_a_root_that_is_an_instance_propagate_what_they_inherit(trees: Trees) -> None:
    trees.serve()
    trees.template("base", team="a")
    trees.space("gold", {TYPE: "template", TEMPLATE: "base", "own.glob/x": "1"})
    trees.space("root", {TYPE: "root", TEMPLATE: "gold"})
    trees.hang("web", "root")
    trees.put("base", "db")
    eventually(lambda: trees.labels("web") == {**BRANCH, "team": "a", "own.glob/x": "1"})
    trees.until_copied("db", "base", "gold", "root", "web")
    trees.label("base", {"team": None})
    eventually(lambda: trees.labels("web") == {**BRANCH, "own.glob/x": "1"})


# One change, six namespaces


def test_one_change_of_a_label_costs_one_request_per_namespace_below_and_no_hop_waits_for_more_than_the_one_before(
    trees: Trees, stage: Stage
) -> None:
    trees.serve()
    rooted(trees, *SIX)
    trees.hang("aside", "root")
    for name in (*SIX[1:], "aside"):
        eventually(lambda name=name: trees.labels(name).get(CREATED_BY))  # type: ignore[misc]
    mark = stage.audit.mark()
    trees.label("root", {"team": "a"})
    eventually(lambda: trees.labels("s5").get("team") == "a")
    never(lambda: len(trees.sent(mark)) > 6, SETTLED)
    assert trees.sent(mark) == sorted(f"patch namespaces {name}" for name in (*SIX[1:], "aside"))
    chain = [event for event in trees.writes(mark) if event.name != "aside"]
    assert in_order(chain) == [f"patch namespaces {name}" for name in SIX[1:]]
    assert max(waits(chain)) < HOP
    mark = stage.audit.mark()
    trees.label("root", {"other": "x"})
    trees.label("s5", {"other": "x"})
    never(lambda: trees.sent(mark), SETTLED)


def test_one_change_of_a_secret_costs_one_request_per_copy_and_no_hop_waits_for_more_than_the_one_before(
    trees: Trees, stage: Stage
) -> None:
    rooted(trees, *SIX)
    trees.put("root", "db")
    trees.put("root", "still")
    trees.serve()
    trees.until_copied("db", *SIX)
    trees.until_copied("still", *SIX)
    mark = stage.audit.mark()
    trees.edit("root", "db", {"data": encoded({"k": "2"})})
    trees.until_copied("db", *SIX)
    never(lambda: len(trees.sent(mark)) > 5, SETTLED)
    assert in_order(trees.writes(mark)) == [f"update secrets {name}/db" for name in SIX[1:]]
    assert max(waits(trees.writes(mark))) < HOP


def test_a_new_secret_needs_one_create_per_namespace_of_a_chain_of_six_and_its_deletion_one_delete_each(
    trees: Trees, stage: Stage
) -> None:
    rooted(trees, *SIX)
    trees.serve(massDelete=None)
    mark = stage.audit.mark()
    trees.put("root", "db")
    trees.until_copied("db", *SIX)
    made = until_recorded(lambda: trees.writes(mark), 5)
    assert in_order(made) == [f"create secrets {name}/db" for name in SIX[1:]]
    assert max(waits(made)) < HOP
    mark = stage.audit.mark()
    trees.api.delete(trees.path("secrets", "root", "db"))
    trees.until_gone("db", *SIX)
    taken = until_recorded(lambda: trees.writes(mark), 5)
    assert in_order(taken) == [f"delete secrets {name}/db" for name in SIX[1:]]
    assert max(waits(taken)) < HOP


# Copies


def test_a_copy_has_the_content_and_the_copyable_metadata_and_names_its_source(trees: Trees) -> None:
    trees.serve()
    rooted(trees, "root", "web", "deep")
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": {"k": "1"}, "immutable": False}
    labels = {"l": "1", "app.kubernetes.io/name": "x"}
    annotations = {PROPAGATE: "update", "a": "1", "x.kubernetes.io/y": "1"}
    meta = {"name": "db", "namespace": "root", "labels": labels, "annotations": annotations}
    trees.kubectl("apply", "-f", "-", input=json.dumps({**secret, "metadata": meta}))
    trees.until_copied("db", "root", "web", "deep")
    live = trees.get("secrets", "deep", "db") or {}
    assert (live["data"], live["type"]) == (encoded({"k": "1"}), "Opaque")
    assert metadata_of(live, "labels") == {"l": "1", CREATED_BY: "accurate"}
    assert metadata_of(live) == {PROPAGATE: "update", FROM: "web", "a": "1"}
    assert not {"ownerReferences", "finalizers"} & live["metadata"].keys()


def test_3_1_excluding_our_own_keys_strips_propagate_and_the_copy_still_follows_its_source(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.serve(accurate={"propagateAnnotationKeyExcludes": ["accurate.cybozu.com/*"]})
    trees.until_copied("db", "root", "web")
    live = trees.get("secrets", "web", "db") or {}
    assert metadata_of(live) == {FROM: "root"}
    assert metadata_of(live, "labels") == {CREATED_BY: "accurate"}
    trees.edit("web", "db", {"data": encoded({"k": "x"})})
    eventually(lambda: trees.data("web", "db") == {"k": "1"})
    trees.edit("root", "db", {"data": encoded({"k": "2"})})
    eventually(lambda: trees.data("web", "db") == {"k": "2"})
    trees.kubectl("delete", "secret", "db", "-n", "web")
    trees.until_copied("db", "root", "web")
    assert trees.get("secrets", "deep", "db") is None  # an object without `propagate` is not a source


RIGHT = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}
SOMEBODY = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
KINDS: list[tuple[str, Json, Json]] = [
    ("secrets", {"data": encoded({"k": "1"})}, {"data": encoded({"k": "2"})}),
    ("configmaps", {"data": {"k": "1"}}, {"data": {"k": "2"}}),
    ("resourcequotas", {"spec": {"hard": {"pods": "1"}}}, {"spec": {"hard": {"pods": "2"}}}),
    ("roles", {"rules": [RIGHT]}, {"rules": [{**RIGHT, "verbs": ["list"]}]}),
    ("rolebindings", {"roleRef": ROLE, "subjects": [SOMEBODY]}, {"subjects": [{**SOMEBODY, "name": "bob"}]}),
    ("networkpolicies", {"spec": {"podSelector": {}}}, {"spec": {"podSelector": {"matchLabels": {"app": "x"}}}}),
]


def test_all_watched_kinds_are_copied_changed_and_removed_along_the_tree(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    for plural, body, _ in KINDS:
        trees.put("root", "one", plural=plural, **body)
    trees.serve(massDelete=None)
    for plural, _, change in KINDS:
        trees.until_copied("one", "root", "web", "deep", plural=plural)
        trees.edit("root", "one", change, plural)
    for plural, _, change in KINDS:
        trees.until_copied("one", "root", "web", "deep", plural=plural)
        field = next(iter(change))
        assert (trees.get(plural, "deep", "one") or {})[field] == (trees.get(plural, "root", "one") or {})[field]
    for plural, *_ in KINDS:
        trees.api.delete(trees.path(plural, "root", "one"))
    for plural, *_ in KINDS:
        trees.until_gone("one", "web", "deep", plural=plural)


def test_a_key_removed_from_an_update_source_is_removed_from_every_copy(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db", labels={"l": "1"}, data=encoded({"k": "1", "gone": "1"}))
    trees.serve()
    trees.until_copied("db", "root", "web", "deep")
    trees.kubectl("label", "secret", "db", "-n", "root", "l-")
    trees.edit("root", "db", {"data": {"gone": None}})
    trees.until_copied("db", "root", "web", "deep")
    assert trees.data("deep", "db") == {"k": "1"}
    eventually(lambda: metadata_of(trees.get("secrets", "deep", "db") or {}, "labels") == {CREATED_BY: "accurate"})


CREDENTIALS = {"username": "u", "password": "p"}
FIXED: list[tuple[str, Json, Json]] = [
    ("configmaps", {"data": {"k": "1"}, "immutable": True}, {"data": {"k": "2"}, "immutable": True}),
    ("secrets", {"stringData": CREDENTIALS}, {"stringData": CREDENTIALS, "type": "kubernetes.io/basic-auth"}),
    ("rolebindings", {"roleRef": ROLE}, {"roleRef": {**ROLE, "name": "two"}}),
]


@pytest.mark.parametrize(("plural", "before", "after"), FIXED)
def test_an_immutable_difference_recreates_every_copy(
    trees: Trees, stage: Stage, plural: str, before: Json, after: Json
) -> None:
    rooted(trees, "root", "web", "deep")
    for name in ("one", "two"):
        trees.put("root", name, plural="roles", rules=[RIGHT])
    trees.put("root", "it", plural=plural, **before)
    trees.serve()
    trees.until_copied("it", "root", "web", "deep", plural=plural)
    trees.until_copied("two", "root", "web", "deep", plural="roles")
    mark = stage.audit.mark()
    trees.api.delete(trees.path(plural, "root", "it"))
    trees.put("root", "it", plural=plural, **after)
    trees.until_copied("it", "root", "web", "deep", plural=plural)
    wanted = [f"{verb} {plural} {at}/it" for at in ("web", "deep") for verb in ("delete", "create")]
    assert in_order(until_recorded(lambda: trees.writes(mark), len(wanted))) == wanted


# Modes and repairs


@pytest.mark.parametrize("patch", [{"data": encoded({"k": "x"})}, {"data": encoded({"more": "x"})}])
def test_an_edited_update_copy_is_repaired_and_the_edit_does_not_propagate(
    trees: Trees, stage: Stage, patch: Json
) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.serve()
    trees.until_copied("db", "root", "web", "deep")
    mark = stage.audit.mark()
    trees.edit("web", "db", patch)
    eventually(lambda: trees.data("web", "db") == {"k": "1"})
    never(lambda: len(trees.sent(mark)) > 1, SETTLED)
    assert trees.sent(mark) == ["update secrets web/db"]
    assert trees.data("deep", "db") == {"k": "1"}


def test_a_deleted_copy_of_either_mode_is_recreated_and_copies_below_it_stay(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.put("root", "seed", "create")
    trees.serve()
    for name in ("db", "seed"):
        trees.until_copied(name, "root", "web", "deep")
    before = {name: (trees.get("secrets", "deep", name) or {})["metadata"]["uid"] for name in ("db", "seed")}
    for name in before:
        trees.kubectl("delete", "secret", name, "-n", "web")
        trees.until_copied(name, "root", "web", "deep")
    assert {name: (trees.get("secrets", "deep", name) or {})["metadata"]["uid"] for name in before} == before


def test_a_mode_changed_on_a_copy_is_restored(trees: Trees) -> None:
    rooted(trees, "root", "web")
    trees.put("root", "db")
    trees.serve()
    trees.until_copied("db", "root", "web")
    trees.mode("web", "db", "create")
    eventually(lambda: metadata_of(trees.get("secrets", "web", "db") or {})[PROPAGATE] == "update")


@pytest.mark.parametrize("stripped", [(FROM,), (PROPAGATE,), (FROM, PROPAGATE)])
def test_5_4_an_update_copy_without_its_marks_is_taken_over_again(trees: Trees, stripped: tuple[str, ...]) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.serve()
    trees.until_copied("db", "root", "web", "deep")
    trees.edit("web", "db", {"metadata": {"annotations": dict.fromkeys(stripped)}})
    eventually(lambda: metadata_of(trees.get("secrets", "web", "db") or {}) == {FROM: "root", PROPAGATE: "update"})
    trees.until_copied("db", "root", "web", "deep")


def test_5_4_a_create_copy_without_from_is_a_source_of_its_own(trees: Trees) -> None:
    rooted(trees, "root", "web")
    trees.put("root", "seed", "create")
    trees.serve()
    trees.until_copied("seed", "root", "web")
    trees.edit("web", "seed", {"metadata": {"annotations": {FROM: None}}, "data": encoded({"k": "mine"})})
    mark = trees.stage.audit.mark()
    trees.edit("root", "seed", {"data": encoded({"k": "2"})})
    trees.stage.until_seen()
    trees.hang("deep", "web")
    trees.until_copied("seed", "web", "deep")
    assert (trees.data("web", "seed"), trees.data("deep", "seed")) == ({"k": "mine"}, {"k": "mine"})
    assert "update secrets web/seed" not in trees.sent(mark)


def test_a_create_copy_belongs_to_its_namespace_and_stays_when_its_source_is_deleted(
    trees: Trees,
) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "seed", "create")
    trees.hang("early", "root")
    trees.put("early", "seed", None, data=encoded({"mine": "1"}))
    trees.serve()
    trees.until_copied("seed", "root", "web", "deep")
    trees.edit("web", "seed", {"data": encoded({"k": "mine"})})
    trees.edit("root", "seed", {"data": encoded({"k": "2"})})
    mark = trees.stage.audit.mark()
    trees.api.delete(trees.path("secrets", "root", "seed"))
    never(lambda: trees.sent(mark), SETTLED)
    data = [trees.data(name, "seed") for name in ("web", "deep", "early")]
    assert data == [{"k": "mine"}, {"k": "1"}, {"mine": "1"}]


def test_a_change_from_create_to_update_overwrites_copies_and_the_reverse_leaves_them_in_the_new_mode(
    trees: Trees,
) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db", "create")
    trees.serve()
    trees.until_copied("db", "root", "web", "deep")
    trees.edit("web", "db", {"data": encoded({"k": "mine"})})
    trees.mode("root", "db", "update")
    trees.until_copied("db", "root", "web", "deep")
    trees.mode("root", "db", "create")
    eventually(lambda: modes(trees, "db", "web", "deep") == {"create"})
    trees.api.delete(trees.path("secrets", "root", "db"))
    never(lambda: not all(trees.get("secrets", name, "db") for name in ("web", "deep")), SETTLED)


def test_removing_propagate_deletes_update_copies_at_once_and_keeps_create_copies(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.put("root", "seed", "create")
    trees.serve()
    for name in ("db", "seed"):
        trees.until_copied(name, "root", "web", "deep")
        trees.kubectl("annotate", "secret", name, "-n", "root", f"{PROPAGATE}-")
    trees.until_gone("db", "web", "deep")
    assert trees.get("secrets", "root", "db") is not None
    assert all(trees.get("secrets", name, "seed") for name in ("web", "deep"))


def test_an_unknown_mode_is_never_propagated(trees: Trees) -> None:
    rooted(trees, "root", "web")
    trees.put("root", "db", "always")
    trees.put("root", "right")
    trees.serve()
    trees.until_copied("right", "root", "web")
    assert trees.get("secrets", "web", "db") is None


# Moves


def test_a_moved_sub_tree_gets_the_copies_of_its_new_parent_and_keeps_only_create_copies_of_the_old(
    trees: Trees,
) -> None:
    rooted(trees, "root", "web", "deep")
    trees.root("other")
    for namespace in ("root", "other"):
        trees.put(namespace, f"db-{namespace}")
        trees.put(namespace, f"seed-{namespace}", "create")
        trees.put(namespace, "both", data=encoded({"of": namespace}))
    trees.serve()
    trees.until_copied("seed-root", "root", "web", "deep")
    trees.until_copied("both", "root", "web", "deep")
    trees.label("web", {PARENT: "other"})
    for name in ("db-other", "seed-other", "both"):
        trees.until_copied(name, "other", "web", "deep")
    trees.until_gone("db-root", "web", "deep")
    assert trees.data("deep", "both") == {"of": "other"}
    assert all(trees.get("secrets", name, "seed-root") for name in ("web", "deep"))


@pytest.mark.parametrize("labels", [{PARENT: None, TYPE: "root"}, {PARENT: None}])
def test_a_cut_deletes_update_copies_and_keeps_create_copies_which_propagate_below_a_new_root(
    trees: Trees, labels: dict[str, str | None]
) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.put("root", "seed", "create")
    trees.serve()
    for name in ("db", "seed"):
        trees.until_copied(name, "root", "web", "deep")
    trees.label("web", labels)
    trees.until_gone("db", "web", "deep")
    trees.api.delete(trees.path("secrets", "deep", "seed"))
    trees.until_copied("seed", "web", "deep")


def test_an_instance_gets_copies_of_its_template_and_loses_them_when_it_changes_or_leaves_it(trees: Trees) -> None:
    trees.template("gold")
    trees.template("tin")
    trees.space("web", {TEMPLATE: "gold"})
    for template in ("gold", "tin"):
        trees.put(template, f"db-{template}")
        trees.put(template, f"seed-{template}", "create")
    trees.serve()
    trees.until_copied("db-gold", "gold", "web")
    trees.until_copied("seed-gold", "gold", "web")
    trees.label("web", {TEMPLATE: "tin"})
    trees.until_copied("db-tin", "tin", "web")
    trees.until_copied("seed-tin", "tin", "web")
    trees.until_gone("db-gold", "web")
    trees.label("web", {TEMPLATE: None})
    trees.until_gone("db-tin", "web")
    assert all(trees.get("secrets", "web", name) for name in ("seed-gold", "seed-tin"))


def test_one_terminating_namespace_delays_none_of_its_siblings(trees: Trees) -> None:
    trees.root()
    names = [f"web{number}" for number in range(6)]
    for name in names:
        trees.hang(name, "root")
    trees.api.patch("/api/v1/namespaces/web2", {"metadata": {"finalizers": ["mine.dev/guard"]}})
    trees.api.delete("/api/v1/namespaces/web2")
    trees.serve()
    trees.put("root", "db")
    for name in names:
        if name != "web2":
            trees.until_copied("db", "root", name)
    trees.api.patch("/api/v1/namespaces/web2", {"metadata": {"finalizers": None}})


def test_the_brake_holds_the_copies_of_a_source_that_vanished_and_those_below_them(trees: Trees, stage: Stage) -> None:
    names = [f"web{number}" for number in range(8)]
    trees.root()
    for name in names:
        trees.hang(name, "root")
        trees.hang(f"{name}-deep", name)
    trees.put("root", "db")
    trees.serve()
    for name in names:
        trees.until_copied("db", "root", name, f"{name}-deep")
    mark = stage.audit.mark()
    trees.api.delete(trees.path("secrets", "root", "db"))
    assert "samara release accurate/Secret/root/db" in stage.until_event("Held", OWN, "root")["message"]
    assert [write for write in trees.sent(mark) if "samara-holds" not in write] == []
    trees.put("root", "db", data=encoded({"k": "2"}))
    for name in names:
        trees.until_copied("db", "root", name, f"{name}-deep")


# Start, restart, downtime


def test_a_restart_and_a_resync_of_a_cluster_in_sync_write_nothing(trees: Trees, stage: Stage) -> None:
    trees.grow_ready("root", "web", "deep", resync="1s")
    trees.label("root", {"team": "a"})
    for plural, body, _ in KINDS:
        trees.put("root", "one", plural=plural, **body)
    trees.put("root", "seed", "create")
    for plural, *_ in KINDS:
        trees.until_copied("one", "root", "web", "deep", plural=plural)
    trees.until_copied("seed", "root", "web", "deep")
    eventually(lambda: trees.labels("deep").get("team") == "a")
    mark = stage.audit.mark()
    never(lambda: trees.sent(mark), 2.0)
    operator = stage.operators[0]
    operator.stop()
    operator.start().synced()
    never(lambda: trees.sent(mark), SETTLED)


def test_changes_during_a_downtime_are_applied_at_the_start(trees: Trees, stage: Stage) -> None:
    operator = trees.grow_ready("root", "web", "deep", massDelete=None)
    trees.root("other", team="o")
    trees.label("root", {"team": "a"})
    for name in ("changed", "gone", "unasked"):
        trees.put("root", name)
        trees.until_copied(name, "root", "web", "deep")
    eventually(lambda: trees.labels("deep").get("team") == "a")
    operator.stop()
    trees.label("root", {"team": None, "new.glob/x": "1"})
    trees.edit("root", "changed", {"data": encoded({"k": "2"})})
    trees.edit("deep", "changed", {"data": encoded({"k": "mine"})})
    trees.api.delete(trees.path("secrets", "root", "gone"))
    trees.mode("root", "unasked", None)
    trees.put("root", "fresh")
    trees.ask("late", "root", labels={"app": "x"})
    trees.hang("moved", "root")
    trees.label("moved", {PARENT: "other"})
    operator.start().synced()
    for name in ("changed", "fresh"):
        trees.until_copied(name, "root", "web", "deep")
    trees.until_gone("gone", "web", "deep")
    trees.until_gone("unasked", "web", "deep")
    wanted = {CREATED_BY: "accurate", "new.glob/x": "1"}
    eventually(lambda: trees.labels("deep") == {**wanted, PARENT: "web"})
    eventually(lambda: trees.labels("late") == {**wanted, PARENT: "root", "app": "x"})
    eventually(lambda: trees.labels("moved").get("team") == "o")


# Missing kinds and missing rights


def test_a_watched_kind_that_the_server_does_not_know_is_reported_and_served_once_it_exists(
    trees: Trees, stage: Stage
) -> None:
    toys: Json = {
        "metadata": {"name": "things.toys.dev"},
        "spec": {
            "group": "toys.dev",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    allow(stage, "toys.dev", "things")
    rooted(trees, "root", "web")
    trees.put("root", "db")
    watches = [*CONFIG["watches"], {"group": "toys.dev", "version": "v1", "kind": "Thing"}]
    operator = trees.serve(accurate={"watches": watches})
    trees.until_copied("db", "root", "web")
    answer = json.loads(operator.answer("/readyz")[1])
    assert "toys.dev/v1/Thing" in json.dumps(answer["waiting"])
    stage.also_remove(f"{DEFINITIONS}/things.toys.dev")
    stage.api.create(DEFINITIONS, toys)
    things = "/apis/toys.dev/v1/namespaces/{}/things"
    thing = {"apiVersion": "toys.dev/v1", "kind": "Thing", "spec": {"k": "1"}}
    meta = {"name": "one", "annotations": {PROPAGATE: "update"}}

    def is_made() -> bool:
        try:
            stage.api.create(things.format("root"), {**thing, "metadata": meta})
        except ApiFault:  # not served yet
            return False
        return True

    eventually(is_made)
    copy = eventually(lambda: stage.api.find(f"{things.format('web')}/one"), 60.0) or {}
    assert (copy["spec"], metadata_of(copy)[FROM]) == ({"k": "1"}, "root")
    stage.api.delete(f"{things.format('root')}/one")
    eventually(lambda: stage.api.find(f"{things.format('web')}/one") is None)


def allow(stage: Stage, group: str, plural: str, *verbs: str, names: tuple[str, ...] = ()) -> None:
    """Gives the operator's user rights on one more kind: all that it needs, or only these verbs on these objects."""
    rbac, name = "rbac.authorization.k8s.io", f"more-{plural}"
    needed = ("get", "list", "watch", "create", "update", "delete")
    rule = {"apiGroups": [group], "resources": [plural], "verbs": verbs or needed, "resourceNames": names}
    root = f"/apis/{rbac}/v1"
    subject = {"kind": "User", "name": "samara", "apiGroup": rbac}
    ref = {"kind": "ClusterRole", "name": name, "apiGroup": rbac}
    stage.api.create(f"{root}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    stage.api.create(f"{root}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]})
    stage.also_remove(f"{root}/clusterroles/{name}")
    stage.also_remove(f"{root}/clusterrolebindings/{name}")


def test_an_escalation_that_the_server_refuses_is_reported_and_all_others_are_served(
    trees: Trees, stage: Stage
) -> None:
    power = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}
    rooted(trees, "root", "web", "deep")
    trees.put("root", "mighty", plural="roles", rules=[power])
    trees.put("root", "mild", plural="roles", rules=[RIGHT])
    trees.put("root", "db")
    trees.not_ours.update({("web", "mighty"), ("deep", "mighty")})
    operator = trees.serve(wait="ready")
    trees.until_copied("mild", "root", "web", "deep", plural="roles")
    trees.until_copied("db", "root", "web", "deep")
    message = stage.until_event("Refused", "root", "mighty")["message"]
    assert "attempting to grant RBAC permissions not currently held" in message
    assert trees.get("roles", "web", "mighty") is None
    assert operator.metrics()['samara_copies{state="blocked",vocabulary="accurate"}'] == 1
    trees.edit("root", "mighty", {"rules": [RIGHT]}, "roles")
    trees.until_copied("mighty", "root", "web", "deep", plural="roles")


def test_with_bind_on_one_role_its_bindings_travel_without_the_rights_that_it_grants(
    trees: Trees, stage: Stage
) -> None:
    """As the page on Accurate advises, instead of the rights of `admin`."""
    for name in ("travels", "stays"):
        power = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}
        stage.api.create(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": name}, "rules": [power]}
        )
        stage.also_remove(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")
    allow(stage, "rbac.authorization.k8s.io", "clusterroles", "bind", names=("travels",))
    rooted(trees, "root", "web", "deep")
    for name in ("travels", "stays"):
        ref = {**ROLE, "kind": "ClusterRole", "name": name}
        trees.put("root", name, plural="rolebindings", roleRef=ref, subjects=[SOMEBODY])
    trees.not_ours.update({("web", "stays"), ("deep", "stays")})
    trees.serve(wait="ready")
    trees.until_copied("travels", "root", "web", "deep", plural="rolebindings")
    message = stage.until_event("Refused", "root", "stays")["message"]
    assert "attempting to grant RBAC permissions not currently held" in message
    assert trees.get("rolebindings", "web", "stays") is None


# Invalid values


def test_loops_missing_parents_and_empty_labels_are_reported_and_affect_no_other_namespace(
    trees: Trees, stage: Stage
) -> None:
    rooted(trees, "root", "web")
    trees.space("a", {PARENT: "b", "team": "a"})
    trees.space("b", {PARENT: "c"})
    trees.space("c", {PARENT: "a"})
    trees.space("self", {PARENT: "self", "team": "x"})
    trees.hang("lost", "nowhere")
    trees.space("empty", {PARENT: "", TEMPLATE: ""})
    trees.space("lone", {TEMPLATE: "nowhere"})
    spaces = ("a", "b", "c", "self", "lost", "empty", "lone")
    for name in spaces:
        trees.put(name, f"of-{name}")
    trees.put("root", "right")
    before = {name: (trees.there(name) or {})["metadata"]["resourceVersion"] for name in spaces}
    trees.serve()
    trees.until_copied("right", "root", "web")
    for name in ("a", "b", "c", "self"):
        message = stage.until_event("Invalid", OWN, name)["message"]
        assert "circular reference is not permitted" in message
    for name in ("lost", "lone"):
        assert "parent namespace does not exist: nowhere" in stage.until_event("Invalid", OWN, name)["message"]
    assert {name: (trees.there(name) or {})["metadata"]["resourceVersion"] for name in spaces} == before
    assert not [write for write in trees.sent() if "/of-" in write]
    trees.root("nowhere", team="n")
    eventually(lambda: trees.labels("lost").get("team") == "n")
    trees.label("c", {PARENT: "root"})
    trees.until_copied("of-c", "c", "b", "a")


def test_a_template_that_is_a_sub_namespace_works_as_in_the_original(trees: Trees) -> None:
    rooted(trees, "root", "web")
    trees.space("inst", {TEMPLATE: "web"})
    trees.put("root", "db")
    trees.label("root", {"team": "a"})
    trees.serve()
    trees.until_copied("db", "root", "web", "inst")
    eventually(lambda: trees.labels("inst").get("team") == "a")


@pytest.mark.forest_off(reason="forged marks are what is tested")
def test_a_forged_from_annotation_copies_nothing(trees: Trees, stage: Stage) -> None:
    rooted(trees, "root", "web")
    trees.put("root", "db", data=encoded({"k": "secret"}))
    trees.space("stranger")
    trees.root("tenant")
    trees.hang("below", "tenant")
    for namespace in ("stranger", "tenant", "below"):
        meta = {"name": "db", "annotations": {FROM: "root", PROPAGATE: "update"}}
        stage.foreign(namespace, "db", {"mine": namespace}, metadata=meta)
    trees.serve()
    trees.until_copied("db", "root", "web")
    trees.edit("root", "db", {"data": encoded({"k": "2"})})
    trees.until_copied("db", "root", "web")
    never(lambda: [write for write in trees.sent() if " web/" not in write and " namespaces " not in write], SETTLED)
    assert [trees.data(namespace, "db") for namespace in ("stranger", "tenant")] == [
        {"mine": "stranger"},
        {"mine": "tenant"},
    ]
    assert trees.data("below", "db") == {"mine": "below"}
    orphans = trees.samara("orphans", f"--config={trees.settings()}", "-o", "json").json["orphans"]
    listed = {(orphan["namespace"], orphan["ours"]) for orphan in orphans if orphan["name"] == "db"}
    assert ("stranger", False) in listed


@pytest.mark.parametrize("mode", ["update", "create"])
def test_a_foreign_object_of_the_same_name_is_left_alone_and_reported_in_update_mode(
    trees: Trees, stage: Stage, mode: str
) -> None:
    rooted(trees, "root", "web", "deep")
    trees.hang("other", "root")
    trees.put("root", "db", mode)
    before = stage.foreign("web", "db")
    trees.not_ours.update({("web", "db"), ("deep", "db")})
    trees.serve()
    trees.until_copied("db", "root", "other")
    if mode == "update":
        assert "that is not a copy of this source" in stage.until_event("Conflict", "root", "db")["message"]
    live = trees.get("secrets", "web", "db") or {}
    assert live["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    trees.api.delete(trees.path("secrets", "root", "db"))
    eventually(lambda: (trees.get("secrets", "other", "db") is None) == (mode == "update"))
    assert trees.data("web", "db") == {"mine": "1"}


def test_an_identical_object_is_adopted_and_released_and_overwrite_takes_over_an_existing_one(
    trees: Trees, stage: Stage
) -> None:
    rooted(trees, "root", "web")
    trees.put("root", "same")
    trees.put("web", "same", None)
    trees.serve()
    trees.until_copied("same", "root", "web")
    trees.api.delete(trees.path("secrets", "root", "same"))
    eventually(lambda: FROM not in metadata_of(trees.get("secrets", "web", "same") or {}))
    assert trees.data("web", "same") == {"k": "1"}
    stage.operators[0].stop()
    stage.foreign("web", "db")
    trees.put("root", "db")
    trees.serve(accurate={"conflicts": "overwrite"})
    trees.until_copied("db", "root", "web")


def test_row_3_copies_of_an_adopted_object_are_deleted_when_it_is_released(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "same")
    trees.put("web", "same", None)
    trees.serve()
    trees.until_copied("same", "root", "web", "deep")
    trees.mode("root", "same", None)
    eventually(lambda: FROM not in metadata_of(trees.get("secrets", "web", "same") or {}))
    trees.until_gone("same", "deep")
    assert trees.data("web", "same") == {"k": "1"}


def test_a_source_of_the_same_name_in_a_child_stays_when_the_source_in_the_parent_is_deleted(
    trees: Trees, stage: Stage
) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.put("web", "db", data=encoded({"mine": "1"}))
    trees.not_ours.add(("web", "db"))
    trees.serve()
    trees.until_copied("db", "web", "deep")
    assert stage.until_event("Conflict", "root", "db")
    trees.api.delete(trees.path("secrets", "root", "db"))
    never(lambda: trees.data("web", "db") != {"mine": "1"}, SETTLED)
    trees.until_copied("db", "web", "deep")


def test_row_3_overwrite_takes_over_a_childs_own_source_of_the_same_name(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.put("web", "db", data=encoded({"mine": "1"}))
    trees.serve(accurate={"conflicts": "overwrite"})
    trees.until_copied("db", "root", "web", "deep")
    trees.not_ours.add(("web", "db"))  # its team wrote `update` on it, so it stays
    trees.api.delete(trees.path("secrets", "root", "db"))
    never(lambda: trees.get("secrets", "web", "db") is None or trees.get("secrets", "deep", "db") is None, SETTLED)


def generated(trees: Trees, stage: Stage, name: str, says: str, **annotations: str) -> None:
    """A Secret that a controller created for a ConfigMap with or without annotations."""
    noted = {"metadata": {"annotations": {f"{GROUP}/propagate-generated": says}}} if says else {}
    owner = trees.put("root", name, None, "configmaps")
    trees.edit("root", name, noted, "configmaps")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"]}
    meta = {"name": name, "ownerReferences": [{**reference, "controller": True}], "annotations": annotations}
    stage.api.create(trees.path("secrets", "root"), {"metadata": meta, "data": encoded({"key": "one"})})


@pytest.mark.forest_off(reason="what is passed on because of its owner does not say so itself")
def test_row_27_with_propagate_generated_an_owned_object_is_propagated_as_its_owner_requests(
    trees: Trees, stage: Stage
) -> None:
    """The operator does not annotate the object, and honours propagate-generated=false on it."""
    rooted(trees, "root", "s1")
    generated(trees, stage, "asks", "update")
    generated(trees, stage, "silent", "")
    generated(trees, stage, "denied", "update", **{f"{GROUP}/generated": "false"})
    before = trees.get("secrets", "root", "asks")
    trees.serve(accurate={"propagateGenerated": True})
    trees.until_copied("asks", "root", "s1")
    assert trees.get("secrets", "root", "asks") == before
    trees.edit("root", "asks", {"data": encoded({"key": "two"})})
    eventually(lambda: trees.data("s1", "asks") == {"key": "two"})
    assert trees.get("secrets", "s1", "silent") is None
    assert trees.get("secrets", "s1", "denied") is None


@pytest.mark.forest_off(reason="what is passed on because of its owner does not say so itself")
def test_operator_2_switching_propagate_generated_off_deletes_nothing_and_removing_propagate_deletes_copies(
    trees: Trees, stage: Stage
) -> None:
    rooted(trees, "root", "s1")
    generated(trees, stage, "asks", "update")
    generated(trees, stage, "silent", "", **{f"{GROUP}/propagate": "update"})
    operator = trees.serve(accurate={"propagateGenerated": True})
    trees.until_copied("asks", "root", "s1")
    trees.until_copied("silent", "root", "s1")
    operator.stop()
    mark = stage.audit.mark()
    trees.serve()
    trees.edit("root", "silent", {"metadata": {"annotations": {f"{GROUP}/propagate": None}}})
    eventually(lambda: trees.get("secrets", "s1", "silent") is None)
    never(lambda: trees.get("secrets", "s1", "asks") is None, SETTLED)
    deleted = [event.name for event in trees.writes(mark) if event.verb == "delete"]
    assert deleted == ["silent"]
    trees.api.delete(trees.path("secrets", "root", "asks"))
    eventually(lambda: trees.get("secrets", "s1", "asks") is None)


def test_row_27_without_propagate_generated_the_annotation_of_an_owner_has_no_effect(
    trees: Trees, stage: Stage
) -> None:
    rooted(trees, "root", "s1")
    generated(trees, stage, "asks", "update")
    trees.serve()
    never(lambda: trees.get("secrets", "s1", "asks") is not None, SETTLED)
