"""Guarantees of the operator, its control annotations and settings, and its Events, metrics and logs."""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from typing import Any

import pytest
from tests.cluster.support.audit import until_recorded
from tests.cluster.support.faults import answered
from tests.cluster.support.oracles import Judge, metadata_of
from tests.cluster.support.stage import OWN_THINGS, READ_SECRETS, WRITE_SECRETS, Stage, encoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
SETTLED = 0.5


def config(**own: Any) -> Json:
    return {"vocabularies": {"secret-copy": own}}


# §4.1


def test_guarantee_1_a_copy_is_written_by_exactly_one_request_and_an_in_sync_cluster_gets_none(
    stage: Stage, judge: Judge
) -> None:
    stage.expect.quiet = 5.0
    names = [f"t{number}" for number in range(20)]
    stage.namespace(*names)
    stage.source("db", ",".join(names))
    first = stage.operator()
    stage.until_copied("db", *names)
    assert [event.verb for event in stage.audit.writes()] == ["create"] * 20
    mark = stage.audit.mark()
    stage.bump("db")
    stage.until_copied("db", *names)
    assert [event.verb for event in until_recorded(lambda: stage.audit.writes(mark), 20)] == ["update"] * 20
    reads = [event for event in stage.audit.ours(mark) if event.verb == "get" and event.resource == "secrets"]
    assert not reads, "no read per copy"
    first.stop()
    mark = stage.audit.mark()
    stage.operator(config={"resync": "1s"})
    judge.o2(3.0)
    assert not stage.audit.writes(mark), "a restart in sync makes no write"


# §4.2


def test_guarantee_2_bystanders_pasted_restored_and_forged_objects_are_never_changed_or_deleted(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b", "c", "d", "e")
    forged = {"annotations": {"secret-copy/origin": "admin/db"}, "labels": {"secret-copy/from": "admin-db"}}
    bystanders = [
        stage.foreign("b", "db"),
        stage.foreign("c", "db", metadata=forged),
        stage.foreign("d", "ghost", metadata={"annotations": {"secret-copy/origin": "admin/ghost"}}),
        stage.foreign("e", "other", metadata={"annotations": {"secret-copy/origin": "admin/db"}}),
        stage.foreign("a", "bystander"),
    ]
    stage.source("db", "a,b")
    operator = stage.operator(config=config(onSourceGone="delete"))
    stage.until_copied("db", "a")
    stage.api.delete(stage.path("admin", "db"))
    stage.until_gone("a", "db")
    operator.stop()
    stage.operator(config=config(onSourceGone="delete"))
    for mine in bystanders:
        meta = mine["metadata"]
        assert stage.secret(meta["namespace"], meta["name"]) == mine


# §4.4


def test_guarantee_4_changes_during_a_downtime_are_applied_at_the_start(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    own = config(onSourceGone="delete")
    stage.namespace("a", "b", "c", "d", "e")
    for name in ("changed", "moved", "gone", "edited", "lost", "stripped"):
        stage.source(name, "a,b")
    stage.source("all", "")
    stage.operator(config=own).stop()
    stage.until_copied("all", "a", "b")
    stage.bump("changed")
    stage.retarget("moved", "b,c")
    stage.api.delete(stage.path("admin", "gone"))
    stage.api.patch(stage.path("a", "edited"), {"data": encoded({"n": "0"})})
    stage.api.delete(stage.path("a", "lost"))
    stage.api.patch(stage.path("a", "stripped"), {"metadata": {"annotations": None, "labels": None}})
    stage.source("new", "d")
    stage.namespace("f")
    stage.api.delete("/api/v1/namespaces/e")
    stage.operator(config=own)
    stage.until_copied("changed", "a", "b")
    stage.until_copied("moved", "b", "c")
    stage.until_gone("a", "moved")
    stage.until_gone("a", "gone")
    stage.until_gone("b", "gone")
    for name in ("edited", "lost", "stripped"):
        stage.until_copied(name, "a")
    stage.until_copied("new", "d")
    stage.until_copied("all", "f")


# §4.5


def test_guarantee_5_two_running_operators_without_election_do_no_harm(stage: Stage) -> None:
    stage.expect.quiet = 5.0
    names = [f"t{number}" for number in range(10)]
    stage.namespace(*names)
    stage.operator(wait="ready", config={"massDelete": None})
    stage.operator(wait="ready", config={"massDelete": None})
    stage.source("db", "")
    stage.source("other", ",".join(names[:5]))
    for number in range(10):
        stage.bump("db")
        stage.api.gone(stage.path(names[number], "db"))
        stage.retarget("other", ",".join(names[number % 5 : number % 5 + 3]))
    stage.namespace("late")
    stage.until_copied("db", *names, "late")


# §4.6


def test_guarantee_6_a_list_that_fails_at_start_deletes_nothing(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator(config=config(onSourceGone="delete")).stop()
    proxy = stage.proxy()
    rule = proxy.on_request(
        lambda seen: seen.lists and seen.plural == "secrets", answered(500, "InternalError"), times=3
    )
    mark = stage.audit.mark()
    operator = stage.operator(through=proxy, config=config(onSourceGone="delete"), wait="started")
    eventually(lambda: rule.hits == 3)
    operator.synced()
    assert not stage.audit.writes(mark)


@pytest.mark.oracle_off("O1", reason="the copies of the old home are orphans that the new settings do not know")
@pytest.mark.oracle_off("O5", reason="the copies of the old home are no longer counted as wanted")
@pytest.mark.parametrize(
    "changed",
    [
        {"vocabularies": {"secret-copy": {"home": "vault", "onSourceGone": "delete"}}},
        {"vocabularies": {"secret-copy": {"onSourceGone": "delete"}}, "protectedNamespaces": ["a", "kube-*"]},
    ],
)
def test_guarantee_6_a_change_of_settings_deletes_nothing(stage: Stage, changed: Json) -> None:
    stage.namespace("a", "b", "vault")
    stage.source("db", "a,b")
    stage.operator(config=config(onSourceGone="delete")).stop()
    mark = stage.audit.mark()
    stage.operator(config=changed)
    never(lambda: stage.audit.writes(mark), 1.0)
    assert stage.secret("a", "db") is not None


# Control annotations and settings


def test_an_ignored_namespace_is_not_a_target_of_all_and_its_copies_stay(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.namespace("never", samara_ignore="true")
    stage.source("db", "")
    stage.operator()
    stage.until_copied("db", "a", "b")
    assert stage.secret("never", "db") is None
    stage.annotate("/api/v1/namespaces/b", {"samara.dev/ignore": "true"})
    stage.until_seen()
    before = stage.secret("b", "db")
    stage.bump("db")
    stage.until_copied("db", "a")
    assert stage.secret("b", "db") == before
    stage.annotate("/api/v1/namespaces/b", {"samara.dev/ignore": None})
    stage.annotate("/api/v1/namespaces/never", {"samara.dev/ignore": None})
    stage.until_copied("db", "b", "never")


def test_an_ignored_namespace_that_is_named_is_served(stage: Stage) -> None:
    stage.namespace("b", samara_ignore="true")
    stage.source("db", "b")
    stage.operator()
    stage.until_copied("db", "b")


@pytest.mark.parametrize("what", ["source", "namespace"])
def test_paused_stops_all_writes_including_deletes_until_it_is_unset(stage: Stage, what: str) -> None:
    stage.namespace("a", "b", "c")
    stage.source("db", "a,b")
    stage.operator()
    stage.until_copied("db", "a", "b")
    paths = [stage.path("admin", "db")] if what == "source" else ["/api/v1/namespaces/a", "/api/v1/namespaces/c"]
    for path in paths:
        stage.annotate(path, {"samara.dev/paused": "true"})
    stage.until_seen()
    mark = stage.audit.mark()
    stage.bump("db")
    stage.retarget("db", "b,c")
    stage.api.patch(stage.path("a", "db"), {"data": encoded({"n": "0"})})
    if what == "namespace":
        stage.until_copied("db", "b")
    never(lambda: [event for event in stage.audit.writes(mark) if event.namespace in "ac"], SETTLED)
    for path in paths:
        stage.annotate(path, {"samara.dev/paused": None})
    stage.until_copied("db", "b", "c")
    stage.until_gone("a", "db")


def test_protected_namespaces_are_targets_of_secret_copy(stage: Stage) -> None:
    stage.namespace("guarded")
    stage.source("all", "")
    stage.source("named", "kube-system,guarded")
    stage.operator(config={"protectedNamespaces": ["guarded", "kube-*"]})
    stage.until_copied("all", "kube-system", "guarded")
    stage.until_copied("named", "kube-system", "guarded")


def test_a_source_recreated_within_sourcegoneafter_does_not_flap_its_copies(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator(config={**config(onSourceGone="delete"), "sourceGoneAfter": "3s"})
    stage.until_copied("db", "a", "b")
    mark = stage.audit.mark()
    stage.api.delete(stage.path("admin", "db"))
    never(lambda: stage.audit.writes(mark), SETTLED)
    stage.source("db", "a,b")
    stage.until_copied("db", "a", "b")
    assert [event.verb for event in until_recorded(lambda: stage.audit.writes(mark), 2)] == ["update", "update"]


@pytest.mark.oracle_off("O1", reason="an operator that only observes makes no copy")
@pytest.mark.oracle_off("O5", reason="what it would write is pending for ever")
def test_observe_plans_and_counts_and_writes_nothing_but_its_lease(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.foreign("b", "db")
    stage.source("db", "a,b")
    operator = stage.operator("--observe", "--leader-elect", wait="ready")
    eventually(lambda: operator.copies("pending") == 1 and operator.copies("blocked") == 1)
    stage.bump("db")
    eventually(lambda: operator.copies("pending") == 1)
    operator.stop()
    written = {event.resource for event in stage.audit.ours() if event.mutating}
    assert written == {"leases"}


def test_writes_per_second_is_a_cap_and_is_reached(stage: Stage) -> None:
    names = [f"t{number:03}" for number in range(120)]
    stage.namespace(*names)
    stage.source("first", ",".join(names[:20]))
    stage.operator(config={"writes": {"perSecond": 60}})  # and its connections are open
    mark = stage.audit.mark()
    stage.source("db", ",".join(names))
    sent = sorted(event.received for event in until_recorded(lambda: stage.audit.writes(mark), 120))
    assert len(sent) == 120
    assert sent[-1] - sent[0] > 1.5, "more than the cap"
    fastest = max(bisect_right(sent, start + 1.0) - number for number, start in enumerate(sent))
    assert fastest >= 30, "in no second as many as half of what is allowed"


# Events, metrics and log


def test_events_are_merged_one_per_source_and_reason_with_a_count_and_a_sample(stage: Stage) -> None:
    names = [f"t{number:02}" for number in range(12)]
    stage.namespace(*names)
    stage.source("db", ",".join(names))
    stage.operator()
    stage.until_copied("db", *names)

    def total() -> bool:
        return [event["count"] for event in stage.events(reason="Copied", about="db")] == [12]

    eventually(total)
    assert not any(stage.events(name) for name in names), "never one per copy"
    stage.retarget("db", ",".join(names[:10]))
    removed = stage.until_event("Removed", about="db")
    assert removed["type"] == "Normal"
    assert (removed["source"]["component"], removed["reportingComponent"]) == ("samara", "samara")


def test_every_documented_metric_exists_and_no_label_grows_with_the_cluster(stage: Stage) -> None:
    stage.namespace("namespace-in-no-label", "b")
    stage.foreign("b", "source-in-no-label")
    stage.source("source-in-no-label", "namespace-in-no-label,b")
    operator = stage.operator()
    stage.until_copied("source-in-no-label", "namespace-in-no-label")
    metrics = operator.metrics()
    families = {name.partition("{")[0] for name in metrics}
    assert {
        "samara_copies",
        "samara_sources",
        "samara_writes_total",
        "samara_write_seconds_bucket",
        "samara_plan_seconds_bucket",
        "samara_queue_depth",
        "samara_oldest_pending_seconds",
        "samara_watch_last_event_seconds",
        "samara_orphans",
        "samara_leader",
        "samara_synced",
        "samara_mass_delete_held",
    } <= families
    assert metrics['samara_writes_total{result="done",verb="create",vocabulary="secret-copy"}'] == 1
    assert not [name for name in metrics if "in-no-label" in name]


def test_readyz_syncz_and_healthz_answer_in_json(stage: Stage) -> None:
    operator = stage.operator()
    for path in ("/readyz", "/syncz", "/healthz"):
        status, body = operator.answer(path)
        assert (status, json.loads(body)["ok"]) == (200, True)


@pytest.mark.oracle_off("O1", reason="without the right to list namespaces nothing can be planned")
@pytest.mark.oracle_off("O5", reason="nothing is planned")
def test_a_kind_that_cannot_be_listed_is_named_under_waiting_and_served_once_it_can(stage: Stage) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [*READ_SECRETS, *WRITE_SECRETS, *OWN_THINGS]
    subject = [{"kind": "User", "name": "half", "apiGroup": "rbac.authorization.k8s.io"}]
    reference = {"kind": "ClusterRole", "name": "half", "apiGroup": "rbac.authorization.k8s.io"}
    stage.api.create(f"{rbac}/clusterroles", {"metadata": {"name": "half"}, "rules": rules})
    stage.also_remove(f"{rbac}/clusterroles/half")
    binding = {"metadata": {"name": "half"}, "roleRef": reference, "subjects": subject}
    stage.api.create(f"{rbac}/clusterrolebindings", binding)
    stage.also_remove(f"{rbac}/clusterrolebindings/half")
    stage.namespace("a")
    stage.source("db", "a")
    operator = stage.operator(kubeconfig=stage.kubeconfig("half"), wait="ready")
    waiting = json.loads(operator.answer("/readyz")[1])["waiting"]
    assert "v1/Namespace" in waiting
    assert operator.metrics()['samara_kind_waiting{kind="v1/Namespace"}'] == 1
    more = [{"apiGroups": [""], "resources": ["namespaces", "resourcequotas"], "verbs": ["list", "watch"]}]
    stage.api.patch(f"{rbac}/clusterroles/half", {"rules": [*rules, *more]})
    stage.until_copied("db", "a", deadline=45)


def test_no_value_of_a_secret_appears_anywhere_at_log_level_debug(stage: Stage) -> None:
    """Copies with canaries are created, updated, refused, in conflict, recreated, held and removed."""
    canaries = [f"canary-{word}-7f3a9" for word in ("one", "two", "three", "key")]
    forms = [form for canary in canaries for form in (canary, base64.b64encode(canary.encode()).decode()[:-4])]
    names = [f"t{number}" for number in range(8)]
    stage.namespace(*names, "full", "taken")
    stage.api.create(
        "/api/v1/namespaces/full/resourcequotas",
        {"metadata": {"name": "none"}, "spec": {"hard": {"count/secrets": "0"}}},
    )
    eventually(lambda: (stage.api.get("/api/v1/namespaces/full/resourcequotas/none").get("status") or {}).get("hard"))
    stage.expect.blocked.add(("full", "db"))
    stage.foreign("taken", "db", {"password": canaries[3]})
    stage.source("db", ",".join([*names, "full", "taken"]), {"password": canaries[0]})
    operator = stage.operator("--log-level=debug", "--log-format=json")
    stage.until_copied("db", *names)
    stage.bump("db", password=canaries[1])
    stage.api.patch(stage.path("t1", "db"), {"data": encoded({"password": canaries[2]})})
    stage.until_copied("db", *names)
    stage.until_event("Refused", about="db")
    stage.until_event("Conflict", about="db")
    stage.api.delete(stage.path("admin", "db"))
    data = {"username": canaries[0], "password": canaries[1]}
    stage.source("db", ",".join(names), data, type="kubernetes.io/basic-auth")
    stage.until_copied("db", *names)
    stage.retarget("db", names[0])
    stage.expect.kept = {(name, "db") for name in names[1:]}
    stage.until_event("Held", about="db")
    texts = [
        operator.log,
        *(operator.answer(path)[1].decode() for path in ("/metrics", "/readyz", "/syncz", "/healthz")),
    ]
    texts += [json.dumps(event) for event in stage.api.items("/api/v1/events")]
    texts += [json.dumps(config_map) for config_map in stage.api.items("/api/v1/configmaps")]
    texts += [json.dumps(lease) for lease in stage.api.items("/apis/coordination.k8s.io/v1/leases")]
    assert not [form for form in forms for text in texts if form in text]
    copies = [secret for secret in stage.api.items("/api/v1/secrets") if secret["metadata"]["namespace"] in names]
    assert not [form for form in forms for copy in copies if form in json.dumps(copy["metadata"])]
    assert len(operator.log.splitlines()) > 20
    assert all(metadata_of(copy) for copy in copies)
