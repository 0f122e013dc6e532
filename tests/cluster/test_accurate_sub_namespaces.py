"""SubNamespaces on the real server: the namespaces they create, delete and leave alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cluster.support.audit import Event, due_again, until_recorded
from tests.cluster.support.definitions import DEFINITIONS, undefine
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import OWN, Stage
from tests.cluster.support.trees import (
    CONFIG,
    CREATED_BY,
    DEFINITION,
    FINALIZER,
    GROUP,
    PARENT,
    SETTLED,
    SPACES,
    TYPE,
    Trees,
    define,
    short,
)
from tests.cluster.support.waiting import eventually, never

pytestmark = pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs")

Json = dict[str, Any]
ENDED = "namespaces"
HOLDS = f"/api/v1/namespaces/{OWN}/configmaps/samara-holds"
THEIRS = "mine.dev/guard"


def manifest(name: str, holder: str, **spec: Json) -> str:
    meta = {"name": name, "namespace": holder}
    return json.dumps({"apiVersion": f"{GROUP}/v2", "kind": "SubNamespace", "metadata": meta, "spec": spec})


def patches(trees: Trees, name: str) -> list[Event]:
    """The patches of a namespace that the operator tried."""
    return [event for event in trees.writes() if short(event) == f"patch namespaces {name}"]


def deletions(trees: Trees, mark: int) -> list[str]:
    """The namespaces that the operator has deleted since."""
    return [event.name for event in trees.writes(mark) if (event.verb, event.resource) == ("delete", "namespaces")]


def let_go(trees: Trees, name: str, holder: str) -> None:
    trees.api.delete(trees.path("subnamespaces", holder, name))


# Creation


def is_well(status: Json, generation: int = 1, others: tuple[str, ...] = ()) -> bool:
    """True if the status describes this generation, and Ready is its only condition besides those of others."""
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    wanted = {"Ready": "True", **dict.fromkeys(others, "True")}
    return status.get("observedGeneration") == generation and conditions == wanted


def test_a_sub_namespace_creates_its_namespace_and_is_current_for_kstatus(trees: Trees) -> None:
    trees.root()
    trees.serve()
    trees.kubectl("apply", "-f", "-", input=manifest("web", "root"))
    trees.until_well("web", "root")
    assert trees.labels("web") == {PARENT: "root", CREATED_BY: "accurate"}
    sub = trees.sub_namespace("web", "root") or {}
    assert is_well(sub["status"])
    assert sub["metadata"]["finalizers"] == [FINALIZER]
    trees.kubectl("wait", "subnamespace/web", "-n", "root", "--for=jsonpath={.status.observedGeneration}=1")
    trees.kubectl("wait", "subnamespace/web", "-n", "root", "--for=condition=Ready")
    head, line = trees.kubectl("get", "subnamespaces", "-n", "root").strip().splitlines()
    assert (head.split(), line.split()[0]) == (["NAME", "AGE"], "web")


def test_kubectl_explains_every_field(trees: Trees) -> None:
    def explained(path: str) -> str:
        return trees.stage.explained(path, f"{GROUP}/v2")

    assert "describes a namespace of the same name below the namespace that it is in" in explained("subnamespace")
    assert "They override inherited ones" in explained("subnamespaces.spec.labels")
    assert "They override inherited ones" in explained("subnamespaces.spec.annotations")
    assert "The observed state" in explained("subnamespaces.status")


def test_labels_and_annotations_of_a_sub_namespace_are_applied_if_the_settings_allow_their_keys(trees: Trees) -> None:
    trees.space("root", {TYPE: "root", "team": "a"}, {"note": "hi"})
    trees.serve()
    spec = {"labels": {"app": "web", "team": "b", "odd": "x"}, "annotations": {"foo": "bar", "odd": "x"}}
    trees.kubectl("apply", "-f", "-", input=manifest("web", "root", **spec))
    wanted = {PARENT: "root", CREATED_BY: "accurate", "app": "web", "team": "b"}
    eventually(lambda: trees.labels("web") == wanted)
    assert metadata_of(trees.there("web") or {}) == {"foo": "bar", "note": "hi"}
    trees.ask("deep", "web")
    eventually(lambda: trees.labels("deep") == {PARENT: "web", CREATED_BY: "accurate", "team": "b"})
    trees.kubectl("apply", "-f", "-", input=manifest("web", "root", labels={"app": "api"}))
    eventually(lambda: trees.labels("web") == {**wanted, "app": "api", "team": "a"})
    eventually(lambda: trees.labels("deep")["team"] == "a")
    assert metadata_of(trees.there("web") or {}) == {"note": "hi"}
    eventually(lambda: is_well(trees.status("web", "root"), 2))


def test_globs_never_match_keys_of_accurate_or_pod_security_and_a_literal_key_allows_the_latter(
    trees: Trees,
) -> None:
    level = "pod-security.kubernetes.io/enforce"
    trees.root()
    trees.serve(accurate={"subNamespaceLabelKeys": ["*", "*/*", "pod-security.kubernetes.io/warn"]})
    labels = {"any": "1", TYPE: "root", level: "privileged", "pod-security.kubernetes.io/warn": "baseline"}
    trees.ask("web", "root", labels=labels)
    wanted = {PARENT: "root", CREATED_BY: "accurate", "any": "1", "pod-security.kubernetes.io/warn": "baseline"}
    eventually(lambda: trees.labels("web") == wanted)


def test_a_label_that_the_server_refuses_is_reported_and_retried_when_it_changes(
    trees: Trees,
) -> None:
    trees.root()
    trees.serve(timers={"backoffMost": "15m"})
    trees.ask("a.b", "root")
    trees.ask("odd", "root", labels={"app": "a b"})
    trees.ask("web", "root", labels={"app": "x"})
    trees.api.create(
        trees.path("subnamespaces", "root"),
        {"apiVersion": f"{GROUP}/v2", "kind": "SubNamespace", "metadata": {"name": "bare"}},
    )
    eventually(lambda: trees.labels("web").get("app") == "x")
    trees.until_well("bare", "root")
    assert "a.b" in trees.stage.until_event("Refused", "root", "a.b")["message"]
    assert "a valid label must be" in trees.stage.until_event("Refused", OWN, "odd")["message"]
    status = trees.status("a.b", "root")
    [condition] = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "False", "Refused")
    assert "a.b" in condition["message"]
    assert "observedGeneration" not in status
    tried = until_recorded(lambda: patches(trees, "odd"), 3)
    trees.edit("root", "odd", {"spec": {"labels": {"app": "fine"}}}, "subnamespaces")
    eventually(lambda: trees.labels("odd").get("app") == "fine")
    patched = until_recorded(lambda: [event for event in patches(trees, "odd") if event.done], 1)
    assert patched[-1].received < due_again(tried), "by itself it would wait longer"
    let_go(trees, "a.b", "root")
    eventually(lambda: trees.sub_namespace("a.b", "root") is None)


# Conflicts


def test_an_existing_namespace_is_a_conflict_and_never_adopted(trees: Trees) -> None:
    trees.root()
    before = trees.space("taken", {"team": "theirs"})
    trees.serve()
    trees.ask("taken", "root")
    eventually(lambda: trees.reason("taken", "root") == "Conflict")
    status = trees.status("taken", "root")
    ready, condition = (trees.condition("taken", "root", type_) for type_ in ("Ready", "Stalled"))
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "Conflict")
    assert status["observedGeneration"] == condition.pop("observedGeneration") == 1
    assert condition.pop("lastTransitionTime")
    message = "Conflicting namespace already exists"
    assert condition == {"type": "Stalled", "status": "True", "reason": "Conflict", "message": message}
    now = trees.there("taken") or {}
    assert now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert message in trees.stage.until_event("Conflict", "root", "taken")["message"]


def test_conditions_of_others_stay_while_ours_are_added_and_removed(trees: Trees) -> None:
    trees.grow_ready("root", "web")
    theirs = {
        "type": "Audited",
        "status": "True",
        "reason": "Seen",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    path = f"{trees.path('subnamespaces', 'root', 'web')}/status"
    trees.api.patch(path, {"status": {"conditions": [theirs]}})
    mark = trees.stage.audit.mark()

    def reports() -> list[Event]:
        """Status updates except those refused because they were planned before the other condition arrived."""
        return [event for event in trees.writes(mark) if event.subresource == "status" and not event.overtaken]

    trees.label("web", {PARENT: None, TYPE: "root"})
    eventually(lambda: trees.reason("web", "root") in ("SeenConflict", "ConflictSeen"))
    trees.label("web", {PARENT: "root", TYPE: None})
    eventually(lambda: is_well(trees.status("web", "root"), others=("Audited",)))
    assert theirs in trees.status("web", "root")["conditions"]
    expected = ["patch subnamespaces/status root/web"] * 2
    assert [short(event) for event in until_recorded(reports, 2)] == expected
    trees.stage.operators[0].stop()
    trees.stage.operators[0].start().synced()
    assert [short(event) for event in reports()] == expected


def test_a_conflict_ends_when_the_namespace_gets_the_parent_label_and_starts_when_it_loses_it(trees: Trees) -> None:
    trees.root()
    trees.space("taken")
    trees.serve()
    trees.ask("taken", "root")
    eventually(lambda: trees.reason("taken", "root") == "Conflict")
    trees.label("taken", {PARENT: "root"})
    trees.until_well("taken", "root")
    trees.label("taken", {PARENT: None, TYPE: "root"})
    eventually(lambda: trees.reason("taken", "root") == "Conflict")


def test_a_namespace_deleted_by_hand_is_recreated_and_a_conflict_ends_when_the_other_namespace_is_deleted(
    trees: Trees,
) -> None:
    trees.grow_ready("root", "web")
    trees.space("taken")
    trees.ask("taken", "root")
    eventually(lambda: trees.reason("taken", "root") == "Conflict")
    before = (trees.there("web") or {})["metadata"]["uid"]
    trees.kubectl("delete", "namespace", "web", "taken", "--wait=false")
    eventually(lambda: (trees.there("web") or {"metadata": {"uid": before}})["metadata"]["uid"] != before, 30.0)
    eventually(lambda: trees.labels("taken").get(PARENT) == "root", 30.0)
    for name in ("web", "taken"):
        trees.until_well(name, "root")


@pytest.mark.parametrize("name", ["default", "kube-web", "kube-system", "admin"])
def test_reserved_names_are_refused_with_a_reason_and_nothing_is_written(trees: Trees, name: str) -> None:
    trees.root(team="a")
    trees.serve(vocabularies={"accurate": CONFIG, "secret-copy": {}})
    mark = trees.stage.audit.mark()
    trees.ask(name, "root", labels={"app": "web"})
    eventually(lambda: trees.reason(name, "root") == "Reserved")
    let_go(trees, name, "root")
    eventually(lambda: trees.sub_namespace(name, "root") is None)
    assert [write for write in trees.sent(mark) if " namespaces " in write] == []


@pytest.mark.parametrize("held", ["plain", "template"])
def test_a_sub_namespace_outside_of_a_tree_creates_nothing_until_its_namespace_is_a_root(
    trees: Trees, held: str
) -> None:
    trees.space("plain", {TYPE: "template"} if held == "template" else {})
    trees.serve()
    trees.ask("web", "plain")
    message = trees.stage.until_event("Refused", "plain", "web")["message"]
    assert "namespace plain is neither a root nor a sub namespace" in message
    assert trees.there("web") is None
    trees.label("plain", {TYPE: "root"})
    trees.until_well("web", "plain")


# Deletion


def test_deleting_a_sub_namespace_deletes_its_namespace_by_uid_and_version_before_the_finalizer_is_removed(
    trees: Trees,
) -> None:
    trees.grow_ready("root", "web")
    trees.api.patch(f"{SPACES}/web", {"metadata": {"finalizers": [THEIRS]}})
    mark = trees.stage.audit.mark()
    trees.kubectl("delete", "subnamespace", "web", "-n", "root", "--timeout=60s")
    assert "deletionTimestamp" in trees.api.get(f"{SPACES}/web")["metadata"], "it does not wait for its end"
    trees.api.patch(f"{SPACES}/web", {"metadata": {"finalizers": None}})
    deleted, released = until_recorded(lambda: trees.writes(mark), 2)
    assert [short(deleted), short(released)] == ["delete namespaces web", "patch subnamespaces root/web"]


def test_2_6_a_namespace_whose_labels_the_server_refuses_is_deleted_at_once(trees: Trees) -> None:
    trees.root()
    trees.serve(timers={"backoffMost": "15m"})
    trees.ask("odd", "root", labels={"app": "a b"})
    assert "a valid label must be" in trees.stage.until_event("Refused", OWN, "odd")["message"]
    eventually(lambda: len(patches(trees, "odd")) >= 4, 30.0)  # the next retry is minutes away
    tried = patches(trees, "odd")
    mark = trees.stage.audit.mark()
    let_go(trees, "odd", "root")
    eventually(lambda: trees.there("odd") is None and trees.sub_namespace("odd", "root") is None)
    deleted = until_recorded(lambda: [event for event in trees.writes(mark) if event.verb == "delete"], 1)
    assert deleted[0].received < due_again(tried)


def test_2_6_a_namespace_whose_parent_label_a_user_set_is_deleted_with_its_sub_namespace(trees: Trees) -> None:
    trees.root()
    trees.space("odd")
    trees.serve()
    trees.ask("odd", "root", labels={"app": "a b"})
    eventually(lambda: trees.reason("odd", "root") == "Conflict")
    trees.label("odd", {PARENT: "root"})
    trees.until_well("odd", "root")
    trees.stage.until_event("Refused", OWN, "odd")
    let_go(trees, "odd", "root")
    eventually(lambda: trees.there("odd") is None and trees.sub_namespace("odd", "root") is None)


def test_a_sub_namespace_whose_namespace_is_missing_or_terminating_is_deleted_at_once(trees: Trees) -> None:
    trees.grow_ready("root", "web")
    operator = trees.stage.operators[0]
    trees.api.patch(f"{SPACES}/web", {"metadata": {"finalizers": [THEIRS]}})
    operator.stop()
    trees.ask("never", "root", finalizers=[FINALIZER])
    for name in ("web", "never"):
        let_go(trees, name, "root")
    trees.api.delete(f"{SPACES}/web")
    mark = trees.stage.audit.mark()
    operator.start().synced()
    eventually(lambda: not trees.api.items(trees.path("subnamespaces", "root")))
    assert deletions(trees, mark) == []
    assert trees.api.find(f"{SPACES}/web") is not None


@pytest.mark.parametrize("labels", [{PARENT: "other"}, {PARENT: None, TYPE: "root"}, {PARENT: None}])
def test_a_namespace_that_was_moved_or_cut_is_left_alone(trees: Trees, labels: dict[str, str | None]) -> None:
    trees.grow_ready("root", "web")
    trees.root("other")
    trees.label("web", labels)
    eventually(lambda: trees.reason("web", "root") == "Conflict")
    mark = trees.stage.audit.mark()
    let_go(trees, "web", "root")
    eventually(lambda: trees.sub_namespace("web", "root") is None)
    assert deletions(trees, mark) == []
    assert trees.there("web") is not None


def test_a_sub_namespace_in_conflict_leaves_the_namespace_of_the_other_alone(trees: Trees) -> None:
    trees.root()
    trees.space("taken")
    trees.serve()
    trees.ask("taken", "root")
    eventually(lambda: trees.reason("taken", "root") == "Conflict")
    let_go(trees, "taken", "root")
    eventually(lambda: trees.sub_namespace("taken", "root") is None)
    assert trees.there("taken") is not None


def test_without_admission_a_namespace_with_children_stays_until_the_last_child_is_deleted(trees: Trees) -> None:
    trees.grow_ready("root", "web", "deep")
    let_go(trees, "web", "root")
    assert "child namespaces exist" in trees.stage.until_event("Refused", "root", "web")["message"]
    eventually(lambda: trees.reason("web", "root") == "ChildrenExist")
    never(lambda: trees.there("web") is None, SETTLED)
    let_go(trees, "deep", "web")
    eventually(lambda: trees.there("deep") is None and trees.there("web") is None, 30.0)
    eventually(lambda: trees.sub_namespace("web", "root") is None, 30.0)


def test_with_cascading_deletion_the_tree_is_deleted_and_a_namespace_without_its_sub_namespace_stays(
    trees: Trees,
) -> None:
    trees.grow_ready("root", "web", "deep", accurate={"allowCascadingDeletion": True})
    trees.hang("bare", "web")
    let_go(trees, "web", "root")
    eventually(lambda: not any(map(trees.there, ("web", "deep"))), 30.0)
    eventually(lambda: trees.api.find(f"{SPACES}/web") is None, 60.0)
    assert trees.there("bare") is not None
    assert "parent namespace does not exist: web" in trees.stage.until_event("Invalid", OWN, "bare")["message"]


# Finalizers


def test_finalizers_of_others_are_kept(trees: Trees) -> None:
    trees.root()
    trees.serve()
    trees.ask("web", "root", finalizers=[THEIRS])
    trees.until_well("web", "root")
    assert (trees.sub_namespace("web", "root") or {})["metadata"]["finalizers"] == [THEIRS, FINALIZER]
    let_go(trees, "web", "root")
    eventually(lambda: (trees.sub_namespace("web", "root") or {})["metadata"]["finalizers"] == [THEIRS])
    eventually(lambda: trees.there("web") is None)


def test_a_removed_finalizer_is_not_added_again_and_the_namespace_then_stays(trees: Trees) -> None:
    trees.grow_ready("root", "web")
    operator = trees.stage.operators[0]
    trees.edit("root", "web", {"metadata": {"finalizers": None}}, "subnamespaces")
    trees.edit("root", "web", {"spec": {"labels": {"app": "web"}}}, "subnamespaces")
    eventually(lambda: trees.labels("web").get("app") == "web")
    operator.stop()
    operator.start().synced()
    assert "finalizers" not in (trees.sub_namespace("web", "root") or {})["metadata"]
    mark = trees.stage.audit.mark()
    let_go(trees, "web", "root")
    eventually(lambda: "app" not in trees.labels("web"))
    never(lambda: deletions(trees, mark), SETTLED)
    assert trees.there("web") is not None


def test_under_deletion_with_only_a_foreign_finalizer_nothing_is_deleted(trees: Trees) -> None:
    trees.grow_ready("root", "web")
    trees.edit("root", "web", {"metadata": {"finalizers": [THEIRS]}}, "subnamespaces")
    mark = trees.stage.audit.mark()
    let_go(trees, "web", "root")
    never(lambda: trees.sent(mark), SETTLED)
    assert trees.there("web") is not None


# Mass deletion


def held(stage: Stage) -> dict[str, Json]:
    holds = (stage.api.find(HOLDS) or {}).get("data") or {}
    return {
        entry["key"]: entry
        for name, entry in ((entry_name, json.loads(holds[entry_name])) for entry_name in holds)
        if name != ENDED
    }


def test_the_fourth_deleted_namespace_within_ten_minutes_is_held_until_it_is_released(
    trees: Trees, stage: Stage
) -> None:
    names = [f"web{number}" for number in range(4)]
    trees.root()
    for name in names:
        trees.ask(name, "root")
    operator = trees.serve(massDelete={"hold": "1s"})
    for name in names:
        trees.until_well(name, "root")
    for name in names[:3]:
        let_go(trees, name, "root")
        eventually(lambda name=name: trees.there(name) is None)  # type: ignore[misc]
    let_go(trees, "web3", "root")
    (key,) = eventually(lambda: list(held(stage)))
    assert key == "accurate/SubNamespace/root/web3"
    assert f"samara release {key}" in stage.until_event("Held", "root", "web3")["message"]
    eventually(lambda: trees.reason("web3", "root") == "Held")
    condition = trees.condition("web3", "root", "Stalled")
    assert f"`samara release {key}`" in condition["message"]
    never(lambda: trees.there("web3") is None, 1.5)
    assert FINALIZER in (trees.sub_namespace("web3", "root") or {})["metadata"]["finalizers"]
    operator.stop()
    operator.start().synced()
    never(lambda: trees.there("web3") is None, SETTLED)
    (held_set,) = trees.samara("status", f"--config={trees.settings()}", "-o", "json").json["held"]
    assert (held_set["key"], held_set["count"]) == (key, 1)
    assert trees.samara("release", key).code == 0
    eventually(lambda: trees.there("web3") is None and trees.sub_namespace("web3", "root") is None)


def test_namespaces_that_were_deleted_before_a_restart_count_after_it(trees: Trees, stage: Stage) -> None:
    names = [f"web{number}" for number in range(4)]
    trees.root()
    for name in names:
        trees.ask(name, "root")
    operator = trees.serve()
    for name in names:
        trees.until_well(name, "root")
    for name in names[:3]:
        let_go(trees, name, "root")
        eventually(lambda name=name: trees.there(name) is None)  # type: ignore[misc]
    operator.kill()
    operator.start().synced()
    let_go(trees, "web3", "root")
    eventually(lambda: list(held(stage)) == ["accurate/SubNamespace/root/web3"])
    never(lambda: trees.there("web3") is None, SETTLED)


def test_held_deletions_in_one_tree_hold_none_in_another_also_after_a_restart(trees: Trees, stage: Stage) -> None:
    names = [f"web{number}" for number in range(4)]
    trees.root()
    trees.root("other")
    for name in names:
        trees.ask(name, "root")
    trees.ask("shop", "other")
    operator = trees.serve()
    for name, root in (*((name, "root") for name in names), ("shop", "other")):
        trees.until_well(name, root)
    for name in names[:3]:
        let_go(trees, name, "root")
        eventually(lambda each=name: trees.there(each) is None)  # type: ignore[misc]
    operator.kill()
    operator.start().synced()
    let_go(trees, "web3", "root")
    eventually(lambda: list(held(stage)) == ["accurate/SubNamespace/root/web3"])
    let_go(trees, "shop", "other")
    eventually(lambda: trees.there("shop") is None)
    assert list(held(stage)) == ["accurate/SubNamespace/root/web3"]


def test_a_discarded_deletion_keeps_the_namespace_in_its_tree_for_a_new_sub_namespace(
    trees: Trees, stage: Stage
) -> None:
    trees.root()
    trees.ask("web", "root")
    operator = trees.serve(massDelete={"namespaces": 0})
    trees.until_well("web", "root")
    let_go(trees, "web", "root")
    (key,) = eventually(lambda: list(held(stage)))
    before = (trees.there("web") or {})["metadata"]
    assert trees.samara("release", key, "--discard").code == 0
    eventually(lambda: trees.sub_namespace("web", "root") is None)
    after = (trees.there("web") or {})["metadata"]
    assert (after["labels"], after.get("annotations")) == (before["labels"], before.get("annotations"))
    operator.stop()
    trees.serve()
    trees.ask("web", "root")
    trees.until_well("web", "root")
    let_go(trees, "web", "root")
    eventually(lambda: trees.there("web") is None and trees.sub_namespace("web", "root") is None)


def test_a_deleted_definition_deletes_no_namespace_and_a_restored_one_is_served_again(
    trees: Trees, stage: Stage
) -> None:
    names = [f"web{number}" for number in range(2)]
    trees.root()
    for name in names:
        trees.ask(name, "root", labels={"app": "mine"})
    trees.serve()
    for name in names:
        trees.until_well(name, "root")
        eventually(lambda name=name: trees.labels(name).get("app") == "mine")  # type: ignore[misc]
    mark = stage.audit.mark()
    stage.api.delete(f"{DEFINITIONS}/{DEFINITION}")
    try:
        eventually(lambda: stage.api.find(f"{DEFINITIONS}/{DEFINITION}") is None, 60.0)
        never(lambda: deletions(trees, mark), SETTLED)
        assert [trees.labels(name).get("app") for name in names] == ["mine", "mine"]  # the labels are unchanged
    finally:
        undefine(
            stage.cluster, stage.api, DEFINITION
        )  # while the old CRD terminates, the new object would be deleted with it
        define(stage.cluster, stage.api)
    first, *others = names
    trees.ask(first, "root", labels={"app": "mine"})
    trees.until_well(first, "root")  # this shows that the operator has seen the new CRD
    never(lambda: [name for name in names if trees.labels(name).get("app") != "mine"], SETTLED)
    for name in others:
        trees.ask(name, "root", labels={"app": "mine"})
        trees.until_well(name, "root")
