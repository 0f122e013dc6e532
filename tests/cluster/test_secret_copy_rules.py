"""The rules of Secret copy on a real server. The number in a name is that of the rule in the specification."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.audit import until_recorded
from tests.cluster.support.oracles import Judge, metadata_of
from tests.cluster.support.stage import FROM, ORIGIN, TARGETS, Stage, decoded, encoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
SETTLED = 0.5
"""For how many seconds a test watches for something that must not happen."""


def config(**own: Any) -> Json:
    return {"vocabularies": {"secret-copy": own}}


# 1. Sources are Secrets in the home namespace that carry `secret-copy/namespaces`


def test_rule_01_a_secret_of_the_home_namespace_without_the_annotation_is_ignored(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("plain", targets=None)
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    assert stage.secret("a", "plain") is None


def test_rule_01_an_annotated_secret_outside_the_home_namespace_is_ignored(stage: Stage) -> None:
    stage.namespace("a", "other")
    stage.foreign("other", "db", metadata={"annotations": {TARGETS: "a"}})
    stage.operator()
    assert stage.secret("a", "db") is None


def test_rule_01_a_secret_becomes_a_source_when_the_annotation_is_added(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", targets=None)
    stage.operator()
    stage.retarget("db", "a")
    stage.until_copied("db", "a")


def test_rule_01_the_home_namespace_is_a_setting(stage: Stage) -> None:
    stage.expect.home = "vault"
    stage.namespace("a")
    stage.source("mine", "a", home="vault")
    stage.source("not-mine", "a")
    stage.operator(config=config(home="vault"))
    eventually(lambda: stage.has_copy("a", "mine", home="vault"))
    assert stage.secret("a", "not-mine") is None


# 2. The list is one CSV record


@pytest.mark.parametrize("targets", [" a , b ", "a,b,,a", '"a","b"', '"a", b', "admin,a,b", "b,\ta,"])
def test_rule_02_spaces_are_trimmed_empty_items_dropped_duplicates_merged_quotes_accepted_home_skipped(
    stage: Stage, targets: str
) -> None:
    stage.namespace("a", "b", "c")
    stage.source("db", targets)
    stage.operator()
    stage.until_copied("db", "a", "b")
    assert stage.secret("c", "db") is None
    creates = [event for event in stage.audit.writes() if event.verb == "create"]
    assert sorted(event.namespace for event in creates) == ["a", "b"]


@pytest.mark.parametrize("targets", ["", "  "])
def test_rule_02_an_empty_or_blank_value_means_every_namespace_but_home(stage: Stage, targets: str) -> None:
    stage.namespace("a", "b")
    stage.source("db", targets)
    stage.operator()
    stage.until_copied("db", "a", "b", "default", "kube-system", "kube-public", "kube-node-lease")


@pytest.mark.parametrize("targets", [",", "Bad_Name", " , ,"])
def test_rule_02_a_value_that_yields_no_legal_name_means_none_and_is_reported(stage: Stage, targets: str) -> None:
    stage.namespace("a")
    stage.source("db", targets)
    stage.operator()
    event = stage.until_event("Invalid", about="db")
    assert TARGETS in event["message"]
    assert event["involvedObject"]["kind"] == "Secret"
    assert stage.secret("a", "db") is None
    assert not stage.audit.writes()


def test_rule_02_an_illegal_namespace_name_is_reported_and_the_ten_others_are_served(stage: Stage) -> None:
    good = [f"good-{number}" for number in range(10)]
    stage.namespace(*good)
    stage.source("db", ",".join([*good[:5], "No/Name", *good[5:]]))
    stage.operator()
    stage.until_copied("db", *good)
    assert "No/Name" in stage.until_event("Invalid", about="db")["message"]


# 3. A copy has the same name, type and data, the marks, and nothing else


def test_rule_03_no_other_metadata_of_the_source_is_copied(stage: Stage) -> None:
    stage.namespace("a")
    owner = stage.api.create("/api/v1/namespaces/admin/configmaps", {"metadata": {"name": "owner"}})["metadata"]["uid"]
    source = stage.source(
        "tls",
        None,
        {"tls.crt": "c", "tls.key": "k"},
        type="kubernetes.io/tls",
        labels={"app.kubernetes.io/instance": "argo", "team": "x"},
        annotations={
            "kubectl.kubernetes.io/last-applied-configuration": '{"data":{}}',
            "argocd.argoproj.io/tracking-id": "t",
            "note": "n",
        },
        immutable=True,
    )
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
    stage.api.patch(
        stage.path("admin", "tls"), {"metadata": {"ownerReferences": [reference], "annotations": {TARGETS: "a"}}}
    )
    stage.operator()
    stage.until_copied("tls", "a")
    copy = stage.secret("a", "tls")
    assert copy is not None
    assert (copy["type"], copy["data"]) == ("kubernetes.io/tls", source["data"])
    assert metadata_of(copy) == {ORIGIN: "admin/tls"}
    assert metadata_of(copy, "labels") == {FROM: "admin-tls"}
    assert "ownerReferences" not in copy["metadata"]
    assert "immutable" not in copy
    stage.api.delete("/api/v1/namespaces/admin/configmaps/owner", {"propagationPolicy": "Orphan"})


def test_rule_03_a_name_of_253_characters_gets_a_legal_label_that_ends_in_a_digest(stage: Stage) -> None:
    stage.namespace("a")
    names = ["x" * 253, "x" * 252 + "y", "dots.in." + "n" * 60]
    for name in names:
        stage.source(name, "a")
    stage.operator()
    stage.until_copied(names[0], "a")
    stage.until_copied(names[1], "a")
    stage.until_copied(names[2], "a")
    tokens = [metadata_of(stage.secret("a", name) or {}, "labels")[FROM] for name in names]
    assert len(set(tokens)) == 3
    assert all(re.fullmatch(r"admin-[-.a-z0-9]+-[0-9a-f]{10}", token) and len(token) <= 63 for token in tokens)
    selected = stage.api.items("/api/v1/secrets", labelSelector=f"{FROM}={tokens[0]}")
    assert [item["metadata"]["name"] for item in selected] == [names[0]]


def test_rule_03_a_source_without_data_and_one_with_binary_data_are_copied_exactly(stage: Stage) -> None:
    stage.namespace("a")
    stage.ensure_home()
    for name, data in (("empty", {}), ("binary", {"b": "AP/+/w==", "z": ""})):
        body = {"metadata": {"name": name, "annotations": {TARGETS: "a"}}, "data": data}
        stage.api.create("/api/v1/namespaces/admin/secrets", body)
    stage.operator()
    stage.until_copied("empty", "a")
    stage.until_copied("binary", "a")


# 4. A copy that differs is updated; one that is equal causes no write


@pytest.mark.parametrize(
    "edit",
    [
        {"data": encoded({"n": "0"})},
        {"data": encoded({"more": "0"})},
        {"data": None},
        {"metadata": {"annotations": {ORIGIN: None}}},
        {"metadata": {"annotations": {ORIGIN: "admin/other"}}},
        {"metadata": {"labels": {FROM: None}}},
        {"metadata": {"labels": {FROM: "elsewhere"}}},
        {"metadata": {"annotations": {ORIGIN: None}, "labels": {FROM: None}}, "data": encoded({"n": "0"})},
    ],
)
def test_rule_04_a_copy_that_differs_in_data_or_marks_is_repaired_with_one_request(stage: Stage, edit: Json) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    mark = stage.audit.mark()
    stage.api.patch(stage.path("a", "db"), edit)
    eventually(lambda: stage.has_copy("a", "db") and stage.audit.writes(mark))
    assert [event.verb for event in stage.audit.writes(mark)] == ["update"]


def test_rule_04_labels_and_annotations_of_others_on_a_copy_stay_and_cause_no_write(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    mark = stage.audit.mark()
    stage.api.patch(stage.path("a", "db"), {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}})
    never(lambda: stage.audit.writes(mark), SETTLED)
    stage.bump("db")
    stage.until_copied("db", "a")
    copy = stage.secret("a", "db")
    assert copy is not None
    assert (metadata_of(copy)["note"], metadata_of(copy, "labels")["team"]) == ("y", "x")


def test_rule_04_a_key_removed_from_the_source_is_removed_from_every_copy(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b", {"old": "1"})
    stage.operator()
    stage.until_copied("db", "a", "b")
    stage.api.patch(stage.path("admin", "db"), {"data": {"old": None}})
    eventually(lambda: all("old" not in (stage.data(namespace, "db") or {"old": ""}) for namespace in "ab"))


def test_rule_04_a_changed_type_means_delete_by_uid_and_create(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b", {"username": "u", "password": "p"})
    stage.operator()
    stage.until_copied("db", "a", "b")
    mark = stage.audit.mark()
    before = {namespace: (stage.secret(namespace, "db") or {})["metadata"]["uid"] for namespace in "ab"}
    stage.api.delete(stage.path("admin", "db"))
    stage.source("db", "a,b", {"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")
    stage.until_copied("db", "a", "b")
    sent = until_recorded(lambda: stage.audit.writes(mark), 4)
    for namespace in "ab":
        writes = [event for event in sent if event.namespace == namespace]
        assert [event.verb for event in writes] == ["delete", "create"]
        assert writes[0].request["preconditions"]["uid"] == before[namespace]


def test_rule_04_a_copy_in_sync_causes_no_write_at_the_start_at_a_resync_or_when_its_source_is_touched(
    stage: Stage, judge: Judge
) -> None:
    stage.expect.quiet = 5.0
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    first = stage.operator()
    stage.until_copied("db", "a", "b")
    first.stop()
    mark = stage.audit.mark()
    stage.operator()
    stage.annotate(stage.path("admin", "db"), {"note": "nothing that travels"})
    stage.annotate("/api/v1/namespaces/a", {"note": "nothing that matters"})
    judge.o2(5.0)
    assert not stage.audit.writes(mark)


# 5. Stale copies are deleted, only those whose origin mark was set by us


def test_rule_05_a_copy_in_a_namespace_no_longer_wanted_is_deleted(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator()
    stage.until_copied("db", "a", "b")
    stage.retarget("db", "a")
    stage.until_gone("b", "db")
    assert stage.has_copy("a", "db")


def test_rule_05_a_namespace_that_is_repeatedly_removed_from_the_list_loses_its_copy_at_once_each_time(
    stage: Stage,
) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator()
    for _ in range(3):
        stage.until_copied("db", "a", "b")
        stage.retarget("db", "a")
        stage.until_gone("b", "db")
        stage.retarget("db", "a,b")
    stage.until_copied("db", "a", "b")


def test_rule_05_a_pasted_copy_in_an_unwanted_namespace_is_never_deleted(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    copy = stage.secret("a", "db") or {}
    pasted = {"labels": metadata_of(copy, "labels"), "annotations": metadata_of(copy)}
    uid = stage.foreign("b", "db", metadata=pasted)["metadata"]["uid"]
    stage.bump("db")
    stage.until_copied("db", "a")
    never(lambda: (stage.secret("b", "db") or {}).get("metadata", {}).get("uid") != uid, SETTLED)


def test_rule_05_a_copy_restored_from_a_backup_with_our_field_managers_record_is_never_deleted(stage: Stage) -> None:
    """A restore recreates the object: our managedFields entries that are older than the object prove nothing."""
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    first = stage.operator()
    stage.until_copied("db", "a", "b")
    first.stop()
    saved = stage.secret("b", "db") or {}
    stage.retarget("db", "a")
    stage.api.delete(stage.path("b", "db"))
    record = [{**entry, "time": "2001-01-01T00:00:00Z"} for entry in saved["metadata"]["managedFields"]]
    kept = {key: saved["metadata"][key] for key in ("name", "labels", "annotations")}
    stage.api.create(
        "/api/v1/namespaces/b/secrets",
        {"metadata": {**kept, "managedFields": record}, "type": saved["type"], "data": saved["data"]},
    )
    mark = stage.audit.mark()
    stage.operator()
    assert not stage.audit.writes(mark)
    assert stage.secret("b", "db") is not None


# 6. A new namespace gets its copies at once


def test_rule_06_a_new_namespace_gets_every_source_for_all_and_every_source_that_names_it_at_once(stage: Stage) -> None:
    stage.source("all-1", "")
    stage.source("all-2", "")
    stage.source("named", "late,later")
    stage.source("elsewhere", "other")
    operator = stage.operator()
    assert operator.copies("blocked") == 3  # late, later and other are waited for
    stage.namespace("late")
    for name in ("all-1", "all-2", "named"):
        stage.until_copied(name, "late")
    assert stage.secret("late", "elsewhere") is None
    assert not [event for event in stage.events() if event["type"] == "Warning"], "a missing namespace is no error"


def test_rule_06_terminating_namespaces_are_left_alone(stage: Stage) -> None:
    stage.namespace("a", "ending")
    stage.api.patch("/api/v1/namespaces/ending", {"metadata": {"finalizers": ["tests.samara.dev/wait"]}})
    stage.operator()
    stage.api.delete("/api/v1/namespaces/ending")
    stage.until_seen()
    mark = stage.audit.mark()
    stage.source("db", "")
    stage.until_copied("db", "a")
    assert not [event for event in stage.audit.writes(mark) if event.namespace == "ending"]
    stage.api.patch("/api/v1/namespaces/ending", {"metadata": {"finalizers": None}})


# 7. A copy that a user edits or deletes is restored at once


def test_rule_07_an_edited_copy_is_repaired_at_once(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    stage.api.patch(stage.path("a", "db"), {"data": encoded({"n": "0"})})
    stage.until_copied("db", "a")
    event = stage.until_event("Updated", namespace="a", about="db")
    assert "cluster-tests" in event["message"], "the person who changed it finds out"


def test_rule_07_a_deleted_copy_is_recreated_at_once(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    stage.api.delete(stage.path("a", "db"))
    stage.until_copied("db", "a")


# 8. Source deleted, or annotation removed


@pytest.mark.parametrize("how", ["deleted", "annotation removed"])
def test_rule_08_by_default_the_copies_stay_and_are_counted_as_orphans(stage: Stage, how: str) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    operator = stage.operator()
    stage.until_copied("db", "a", "b")
    stage.api.delete(stage.path("admin", "db")) if how == "deleted" else stage.retarget("db", None)
    eventually(lambda: operator.metrics()['samara_orphans{vocabulary="secret-copy"}'] == 2)
    never(lambda: stage.secret("a", "db") is None or stage.secret("b", "db") is None, 1.0)


@pytest.mark.parametrize("how", ["deleted", "annotation removed"])
def test_rule_08_on_source_gone_delete_removes_the_copies(stage: Stage, how: str) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator(config=config(onSourceGone="delete"))
    stage.until_copied("db", "a", "b")
    stage.api.delete(stage.path("admin", "db")) if how == "deleted" else stage.retarget("db", None)
    stage.until_gone("a", "db")
    stage.until_gone("b", "db")


@pytest.mark.parametrize("how", ["deleted", "annotation removed"])
def test_rule_08_on_source_gone_delete_removes_the_copies_of_a_source_deleted_during_a_downtime(
    stage: Stage, how: str
) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator(config=config(onSourceGone="delete")).stop()
    stage.until_copied("db", "a", "b")
    stage.api.delete(stage.path("admin", "db")) if how == "deleted" else stage.retarget("db", None)
    stage.operator(config=config(onSourceGone="delete"))
    stage.until_gone("a", "db")
    stage.until_gone("b", "db")


# 9. An object of that name that is not ours


def test_rule_09_an_identical_object_is_adopted_and_loses_only_the_marks_when_no_longer_wanted(stage: Stage) -> None:
    stage.namespace("a", "b")
    source = stage.source("db", "a,b")
    mine = stage.foreign("b", "db", decoded(source), metadata={"labels": {"team": "x"}})
    stage.operator()
    stage.until_copied("db", "a", "b")
    adopted = stage.secret("b", "db") or {}
    assert metadata_of(adopted)["samara.dev/adopted"] == "true"
    assert metadata_of(adopted, "labels") == {"team": "x", FROM: "admin-db"}
    stage.retarget("db", "a")
    eventually(lambda: ORIGIN not in metadata_of(stage.secret("b", "db") or {"metadata": {}}))
    left = stage.secret("b", "db") or {}
    assert left["metadata"]["uid"] == mine["metadata"]["uid"]
    assert (left["data"], metadata_of(left, "labels")) == (mine["data"], {"team": "x"})
    assert metadata_of(left) == {"samara.dev/released": "true"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"app.kubernetes.io/managed-by": "Helm"}},
        {"annotations": {"meta.helm.sh/release-name": "r"}},
        {"annotations": {"argocd.argoproj.io/tracking-id": "t"}},
        "owner",
    ],
)
def test_rule_09_an_identical_object_with_owners_or_gitops_keys_is_not_adopted(
    stage: Stage, metadata: Json | str
) -> None:
    stage.namespace("a", "b")
    if isinstance(metadata, str):
        path = "/api/v1/namespaces/b/configmaps"
        uid = stage.api.create(path, {"metadata": {"name": "owner"}})["metadata"]["uid"]
        metadata = {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]}
    source = stage.source("db", "a,b")
    mine = stage.foreign("b", "db", decoded(source), metadata=metadata)
    stage.operator()
    stage.until_copied("db", "a")
    stage.until_event("Conflict", about="db")
    assert (stage.secret("b", "db") or {})["metadata"]["resourceVersion"] == mine["metadata"]["resourceVersion"]


def test_rule_09_a_different_object_is_left_alone_and_reported_on_the_source(stage: Stage) -> None:
    stage.namespace("a", "b")
    mine = stage.foreign("b", "db")
    stage.source("db", "a,b")
    operator = stage.operator()
    stage.until_copied("db", "a")
    event = stage.until_event("Conflict", about="db")
    assert "b" in event["message"].split()
    assert operator.copies("blocked") == 1
    stage.bump("db")
    stage.until_copied("db", "a")
    assert stage.secret("b", "db") == mine


def test_rule_09_the_copy_is_created_at_once_when_the_foreign_object_is_deleted(stage: Stage) -> None:
    stage.namespace("b")
    stage.foreign("b", "db")
    stage.source("db", "b")
    operator = stage.operator()
    eventually(lambda: operator.copies("blocked") == 1)
    stage.api.delete(stage.path("b", "db"))
    stage.until_copied("db", "b")


def test_rule_09_a_foreign_object_that_becomes_identical_is_adopted(stage: Stage) -> None:
    stage.namespace("b")
    stage.foreign("b", "db")
    source = stage.source("db", "b")
    operator = stage.operator()
    eventually(lambda: operator.copies("blocked") == 1)
    stage.api.patch(stage.path("b", "db"), {"data": {"mine": None, **source["data"]}})
    stage.until_copied("db", "b")
    assert metadata_of(stage.secret("b", "db") or {})["samara.dev/adopted"] == "true"


@pytest.mark.parametrize("conflicts", ["refuse", "overwrite"])
def test_rule_09_an_identical_object_that_is_immutable_is_adopted_and_stays_so(stage: Stage, conflicts: str) -> None:
    stage.namespace("b")
    source = stage.source("db", "b")
    body = {"type": source["type"], "data": source["data"], "immutable": True}
    stage.api.create("/api/v1/namespaces/b/secrets", {"metadata": {"name": "db"}, **body})
    stage.operator(config={"conflicts": conflicts})
    adopted = eventually(lambda: metadata_of(stage.secret("b", "db") or {}).get("samara.dev/adopted"))
    assert adopted == "true"
    assert (stage.secret("b", "db") or {})["immutable"] is True
    stage.retarget("db", ",")
    eventually(lambda: "secret-copy/origin" not in metadata_of(stage.secret("b", "db") or {}))
    assert (stage.secret("b", "db") or {})["data"] == source["data"]


def test_rule_09_a_foreign_object_that_appears_while_the_operator_runs_is_left_alone(stage: Stage) -> None:
    """The source names a namespace that does not exist yet; another client creates the object first."""
    stage.source("db", "b")
    operator = stage.operator()
    stage.expect.blocked.add(("b", "db"))
    operator.pause()
    stage.namespace("b")
    mine = stage.foreign("b", "db")
    operator.resume()
    stage.until_event("Conflict", about="db")
    assert stage.secret("b", "db") == mine


@pytest.mark.parametrize("where", [{"conflicts": "overwrite"}, config(conflicts="overwrite")])
def test_rule_09_conflicts_overwrite_updates_a_different_object(stage: Stage, where: Json) -> None:
    stage.expect.overwrite = True
    stage.namespace("a", "b")
    stage.foreign("b", "db")
    stage.source("db", "a,b")
    stage.operator(config=where)
    stage.until_copied("db", "a", "b")


# 10. Types that are never copied


@pytest.mark.parametrize(
    "type_", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"]
)
def test_rule_10_tokens_and_helm_releases_are_never_copied_but_reported(stage: Stage, type_: str) -> None:
    stage.namespace("a")
    annotations = {"kubernetes.io/service-account.name": "default"} if "account" in type_ else {}
    stage.source("secret", "a", type=type_, annotations=annotations)
    stage.source("db", "a")
    operator = stage.operator()
    stage.until_copied("db", "a")
    event = stage.until_event("Refused", about="secret")
    assert type_ in event["message"]
    assert operator.copies("blocked") == 1
    assert stage.secret("a", "secret") is None


# 11. A periodic full re-check


def test_rule_11_the_periodic_re_check_of_an_in_sync_cluster_makes_no_write_and_no_list(stage: Stage) -> None:
    stage.expect.quiet = 3.0
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    operator = stage.operator(config={"resync": "200ms"})
    stage.until_copied("db", "a", "b")
    mark = stage.audit.mark()
    planned = operator.metrics()["samara_plan_seconds_count"]
    eventually(lambda: operator.metrics()["samara_plan_seconds_count"] >= planned + 5)
    assert not [event for event in stage.audit.ours(mark) if event.resource == "secrets"]


# 12. RBAC


def test_rule_12_the_rights_of_the_rule_are_enough_and_no_others_are_used(stage: Stage) -> None:
    """Every operator of these tests runs with exactly these rights (`stage.prepare`); none is refused anything."""
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b")
    stage.foreign("b", "db")
    stage.source("db", "")
    stage.source("gone", "a,b")
    operator = stage.operator("--leader-elect", config=config(onSourceGone="delete"))
    stage.until_copied("db", "a")
    stage.api.delete(stage.path("a", "db"))
    stage.until_copied("db", "a")
    stage.bump("db")
    stage.until_copied("db", "a")
    stage.api.delete(stage.path("admin", "gone"))
    stage.until_gone("a", "gone")
    stage.until_gone("b", "gone")
    stage.until_event("Conflict", about="db")
    operator.stop()
    used = {(event.resource, event.verb) for event in stage.audit.ours()}
    assert not [str(event) for event in stage.audit.ours() if event.code in (401, 403)]
    assert used <= {
        *(("namespaces", verb) for verb in ("list", "watch")),
        *(("resourcequotas", verb) for verb in ("list", "watch")),
        *(("secrets", verb) for verb in ("get", "list", "watch", "create", "update", "patch", "delete")),
        *(("leases", verb) for verb in ("get", "create", "update")),
        *(("configmaps", verb) for verb in ("get", "create", "update")),
        *(("events", verb) for verb in ("create", "patch")),
    }
    with pytest.raises(ApiFault):
        stage.api.get("/api/v1/namespaces/a/secrets/gone")
