"""Pauses, Events and rights with namespace trees, and other tools that write the same objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.cluster.support.api import ApiFault
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.proxy import Exchange, Seen
from tests.cluster.support.stage import Stage, encoded
from tests.cluster.support.trees import (
    APPLY,
    CONFIG,
    FINALIZER,
    FROM,
    GROUP,
    ORIGINAL,
    PARENT,
    PROPAGATE,
    SETTLED,
    SPACES,
    TYPE,
    Trees,
)
from tests.cluster.support.waiting import eventually, never
from tests.cluster.test_accurate_rules import allow, rooted

pytestmark = pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs")

Json = dict[str, Any]
PAUSED = "samara.dev/paused"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
NO = "not on a Sunday"
VERBS = ("get", "list", "watch", "create", "update", "delete")


# Pauses


def test_a_paused_namespace_is_not_written_while_its_siblings_are_served(trees: Trees) -> None:
    trees.root(team="a")
    for name in ("web", "api"):
        trees.hang(name, "root")
    for name in ("db", "old"):
        trees.put("root", name)
    trees.serve()
    for name in ("web", "api"):
        trees.until_copied("db", "root", name)
        trees.until_copied("old", "root", name)
        eventually(lambda sub=name: trees.labels(sub).get("team") == "a")  # type: ignore[misc]
    trees.note("web", {PAUSED: "true"})
    trees.stage.until_seen()
    trees.label("root", {"team": "b"})
    trees.edit("root", "db", {"data": encoded({"k": "2"})})
    trees.mode("root", "old", None)
    trees.put("root", "new")
    trees.edit("web", "db", {"data": encoded({"k": "mine"})})
    trees.until_copied("db", "root", "api")
    trees.until_copied("new", "root", "api")
    trees.until_gone("old", "api")
    eventually(lambda: trees.labels("api")["team"] == "b")
    never(lambda: trees.labels("web")["team"] != "a" or trees.data("web", "db") != {"k": "mine"}, SETTLED)
    assert trees.get("secrets", "web", "old") is not None
    assert trees.get("secrets", "web", "new") is None
    sources = trees.samara("status", f"--config={trees.settings()}", "-o", "json").json["sources"]
    (db,) = [
        source
        for source in sources
        if (source["kind"], source["namespace"], source["name"]) == ("v1/Secret", "root", "db")
    ]
    assert [(reason["reason"], reason["sample"]) for reason in db["reasons"]] == [("held", ["web"])]
    trees.note("web", {PAUSED: None})
    trees.until_copied("db", "root", "web")
    trees.until_copied("new", "root", "web")
    trees.until_gone("old", "web")
    eventually(lambda: trees.labels("web")["team"] == "b")


def test_a_paused_source_is_not_propagated_and_its_copies_stay(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.serve()
    trees.until_copied("db", "root", "web", "deep")
    trees.edit("root", "db", {"metadata": {"annotations": {PAUSED: "true"}}, "data": encoded({"k": "2"})})
    trees.stage.until_seen()
    trees.hang("late", "root")
    eventually(lambda: trees.labels("late").get("app.kubernetes.io/created-by"))
    trees.api.delete(trees.path("secrets", "web", "db"))
    never(lambda: trees.get("secrets", "late", "db") or trees.get("secrets", "web", "db"), SETTLED)
    trees.edit("root", "db", {"metadata": {"annotations": {PAUSED: None}}})
    trees.until_copied("db", "root", "web", "deep")
    trees.until_copied("db", "root", "late")
    assert PAUSED not in metadata_of(trees.get("secrets", "web", "db") or {})


def test_a_paused_sub_namespace_creates_and_deletes_nothing_until_the_pause_ends(trees: Trees) -> None:
    trees.grow_ready("root", "web")
    pause = {"metadata": {"annotations": {PAUSED: "true"}}}
    trees.edit("root", "web", pause, "subnamespaces")
    trees.api.delete(trees.path("subnamespaces", "root", "web"))
    meta = {"name": "late", "annotations": {PAUSED: "true"}}
    trees.api.create(
        trees.path("subnamespaces", "root"),
        {"apiVersion": f"{GROUP}/v2", "kind": "SubNamespace", "metadata": meta},
    )
    never(lambda: trees.there("web") is None or trees.there("late"), SETTLED)
    for name in ("web", "late"):
        trees.edit("root", name, {"metadata": {"annotations": {PAUSED: None}}}, "subnamespaces")
    eventually(lambda: trees.there("web") is None and trees.sub_namespace("web", "root") is None)
    trees.until_well("late", "root")


def test_a_paused_namespace_is_not_deleted_with_its_sub_namespace_whose_status_reports_it(trees: Trees) -> None:
    trees.grow_ready("root", "web")
    trees.note("web", {PAUSED: "true"})
    trees.stage.until_seen()
    trees.api.delete(trees.path("subnamespaces", "root", "web"))
    eventually(lambda: trees.reason("web", "root") == "Held")
    condition = trees.condition("web", "root", "Stalled")
    assert (condition["type"], PAUSED in condition["message"]) == ("Stalled", True)
    assert trees.there("web") is not None
    trees.note("web", {PAUSED: None})
    eventually(lambda: trees.there("web") is None and trees.sub_namespace("web", "root") is None)


# Events


def test_row_15_the_first_source_of_a_chain_gets_the_events_about_copied_updated_and_deleted_objects(
    trees: Trees, stage: Stage
) -> None:
    rooted(trees, "root", "web", "deep")
    trees.hang("api", "root")
    trees.serve()
    trees.put("root", "db")
    trees.until_copied("db", "root", "web", "deep")
    trees.until_copied("db", "root", "api")
    eventually(lambda: stage.until_event("Copied", "root", "db")["count"] == 3)
    assert event_message(stage, "Copied").startswith("copied in ")
    trees.edit("root", "db", {"data": encoded({"k": "2"})})
    assert event_message(stage, "Updated").startswith("updated in ")
    trees.until_copied("db", "root", "web", "deep")
    trees.mode("root", "db", None)
    trees.until_gone("db", "web", "deep", "api")
    assert event_message(stage, "Removed").startswith("removed in ")
    assert len(stage.events("root", about="db")) == 3, "one of each, with a count"
    assert {event["type"] for event in stage.events("root", about="db")} == {"Normal"}
    assert stage.events("web", about="db") == [], "a tree is reported once, at its root"


def event_message(stage: Stage, reason: str) -> str:
    """The Event on the first source, which names namespaces of its entire tree."""
    message: str = stage.until_event(reason, "root", "db")["message"]
    assert any(name in message for name in ("web", "api", "deep"))
    return message


def test_a_copy_in_a_new_namespace_of_a_chain_is_reported_on_the_first_source(trees: Trees, stage: Stage) -> None:
    rooted(trees, "root", "web")
    trees.put("root", "db")
    trees.serve()
    trees.until_copied("db", "root", "web")
    trees.hang("late", "web")
    trees.until_copied("db", "root", "web", "late")
    eventually(lambda: "late" in stage.until_event("Copied", "root", "db")["message"])
    assert stage.events("web", about="db") == []


def test_a_repaired_copy_gets_an_event_in_its_own_namespace(trees: Trees, stage: Stage) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db")
    trees.serve()
    trees.until_copied("db", "root", "web", "deep")
    trees.edit("deep", "db", {"data": encoded({"k": "mine"})})
    message = stage.until_event("Updated", "deep", "db")["message"]
    assert message.startswith("restored to match Secret web/db")


# Rights


def missing(kinds: dict[str, str], *verbs: str) -> list[str]:
    return [
        f"missing permission to {verb} {kind}, Resource={plural}" for kind, plural in kinds.items() for verb in verbs
    ]


@pytest.mark.parametrize("lacking", [VERBS, ("update",), ("watch", "delete")])
def test_row_30_every_missing_verb_on_a_watched_kind_is_named_and_stops_the_start(
    trees: Trees, stage: Stage, lacking: tuple[str, ...]
) -> None:
    """The operator checks all six verbs and never `patch`."""
    granted = [verb for verb in VERBS if verb not in lacking]
    allow(stage, "", "services", *(granted or ["patch"]))
    operator = trees.serve(accurate={"watches": [{"version": "v1", "kind": "Service"}]}, wait="started")
    assert operator.wait() == 1
    error = missing({"/v1": "services"}, *lacking)
    listed = error[0] if len(error) == 1 else f"[{', '.join(error)}]"
    assert f"when validating RBAC to support configuration: {listed}\n" in operator.log


def test_row_30_all_kinds_are_checked_before_the_start_stops(trees: Trees) -> None:
    watches = [{"version": "v1", "kind": "Service"}, {"group": "apps", "version": "v1", "kind": "Deployment"}]
    operator = trees.serve(accurate={"watches": watches}, wait="started")
    assert operator.wait() == 1
    listed = ", ".join(missing({"/v1": "services", "apps/v1": "deployments"}, *VERBS))
    assert f"when validating RBAC to support configuration: [{listed}]\n" in operator.log


def test_row_30_the_six_verbs_are_enough(trees: Trees, stage: Stage) -> None:
    rooted(trees, "root", "web")
    allow(stage, "", "endpoints", *VERBS)
    trees.serve(accurate={"watches": [{"version": "v1", "kind": "Endpoints"}]})
    collection = "/api/v1/namespaces/{}/endpoints"
    body = {"metadata": {"name": "one", "annotations": {PROPAGATE: "update"}}, "subsets": []}
    stage.api.create(collection.format("root"), body)
    eventually(
        lambda: metadata_of(stage.api.find(f"{collection.format('web')}/one") or {"metadata": {}}).get(FROM) == "root"
    )
    subsets = {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}
    stage.api.patch(f"{collection.format('root')}/one", subsets)
    eventually(lambda: (stage.api.find(f"{collection.format('web')}/one") or {}).get("subsets"))
    stage.api.delete(f"{collection.format('root')}/one")
    eventually(lambda: stage.api.find(f"{collection.format('web')}/one") is None)


# Other writers


def test_4_1_a_key_that_leaves_the_parent_stays_where_another_field_manager_owns_it_too(trees: Trees) -> None:
    trees.root(team="a")
    for name in ("web", "api"):
        trees.hang(name, "root")
    trees.serve()
    for name in ("web", "api"):
        eventually(lambda name=name: trees.labels(name).get("team") == "a")  # type: ignore[misc]
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "labels": {"team": "a"}}}
    trees.api.request("PATCH", f"{SPACES}/web", theirs, query={"fieldManager": "gitops"}, content_type=APPLY)
    mark = trees.stage.audit.mark()
    trees.label("root", {"team": None})
    eventually(lambda: "team" not in trees.labels("api"))
    eventually(lambda: len(trees.sent(mark)) == 2)
    assert trees.labels("web")["team"] == "a"
    assert owners(trees, "web", "team") == {"gitops"}
    never(lambda: len(trees.sent(mark)) > 2, SETTLED)


def owners(trees: Trees, name: str, label: str) -> set[str]:
    managed_fields = (trees.there(name) or {})["metadata"]["managedFields"]
    field = f"f:{label}"
    return {
        entry["manager"]
        for entry in managed_fields
        if field in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
    }


def test_1_3_inherited_keys_are_applied_under_the_originals_field_manager(trees: Trees) -> None:
    trees.root(team="a")
    trees.hang("web", "root")
    trees.serve()
    eventually(lambda: trees.labels("web").get("team") == "a")
    assert owners(trees, "web", "team") == {ORIGINAL}


@contextmanager
def refusing(trees: Trees, operation: str, name: str, probe: Callable[[], object]) -> Iterator[None]:
    """Installs an admission policy that refuses the operation; the probe shows when it is in force."""
    where = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["namespaces"]}
    judged = "oldObject" if operation == "DELETE" else "object"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [where]},
        "validations": [{"expression": f"{judged}.metadata.name != '{name}'", "message": NO}],
    }
    binding = {"policyName": "refusing", "validationActions": ["Deny"]}
    for path, body in ((POLICIES, spec), (BINDINGS, binding)):
        trees.stage.also_remove(f"{path}/refusing")
        trees.api.create(path, {"metadata": {"name": "refusing"}, "spec": body})
    eventually(lambda: is_refused(probe))
    yield
    for path in (BINDINGS, POLICIES):
        trees.api.gone(f"{path}/refusing")
    eventually(lambda: not is_refused(probe))


def is_refused(probe: Callable[[], object]) -> bool:
    try:
        probe()
    except ApiFault as fault:
        return NO in str(fault)
    return False


def test_2_6_while_an_admission_policy_refuses_the_deletion_the_finalizer_stays_and_the_deletion_is_retried(
    trees: Trees, stage: Stage
) -> None:
    trees.grow_ready("root", "web")

    def probe() -> object:
        return trees.api.request("DELETE", f"{SPACES}/web", query={"dryRun": "All"})

    with refusing(trees, "DELETE", "web", probe):
        trees.api.delete(trees.path("subnamespaces", "root", "web"))
        assert NO in stage.until_event("Refused", "root", "web")["message"]
        eventually(lambda: trees.reason("web", "root") == "Refused")
        condition = trees.condition("web", "root", "Stalled")
        assert (condition["type"], NO in condition["message"]) == ("Stalled", True)
        assert FINALIZER in (trees.sub_namespace("web", "root") or {})["metadata"]["finalizers"]
        assert trees.there("web") is not None
    trees.note("web", {"touched": "1"})  # the backoff alone would wait longer
    eventually(lambda: trees.there("web") is None and trees.sub_namespace("web", "root") is None)


def test_2_3_while_an_admission_policy_refuses_the_namespace_the_condition_ready_says_so(
    trees: Trees, stage: Stage
) -> None:
    trees.root()
    trees.serve()

    def probe() -> object:
        return trees.api.create(SPACES, {"metadata": {"name": "web"}}, dryRun="All")

    with refusing(trees, "CREATE", "web", probe):
        trees.ask("web", "root")
        assert NO in stage.until_event("Refused", "root", "web")["message"]
        ready = eventually(lambda: trees.condition("web", "root", "Ready"))
        assert (ready["status"], ready["reason"], NO in ready["message"]) == ("False", "Refused", True)
        assert "observedGeneration" not in trees.status("web", "root")
        assert trees.there("web") is None
    trees.edit("root", "web", {"spec": {"labels": {"app": "x"}}}, "subnamespaces")
    eventually(lambda: trees.labels("web").get("app") == "x")
    trees.until_well("web", "root")


def test_2_6_a_sub_namespace_whose_namespace_is_already_deleted_is_deleted_too(trees: Trees, stage: Stage) -> None:
    """Another client changes the object between our plan and our request."""
    proxy = stage.proxy()
    stage.operator(config={"vocabularies": {"accurate": CONFIG}}, through=proxy)
    trees.root()
    trees.ask("fleeting", "root")
    trees.until_well("fleeting", "root")

    async def overtaken(exchange: Exchange) -> web.StreamResponse:
        stage.forget(*(f"{plural}/fleeting/" for plural in ("configmaps", "serviceaccounts")))
        stage.forget("namespaces/fleeting", exact=True)
        return await exchange.forward()

    def is_deletion(seen: Seen) -> bool:
        return seen.method == "DELETE" and seen.plural == "namespaces"

    rule = proxy.on_request(is_deletion, overtaken, times=1)
    mark = stage.audit.mark()
    trees.api.delete(trees.path("subnamespaces", "root", "fleeting"))
    eventually(lambda: trees.sub_namespace("fleeting", "root") is None)
    assert rule.hits == 1
    deleted = [event for event in trees.writes(mark) if (event.verb, event.resource) == ("delete", "namespaces")]
    assert [answer.code for answer in deleted] == [404]
    assert trees.there("fleeting") is None


def test_2_4_two_sub_namespaces_of_one_name_leave_one_namespace_and_one_conflict(trees: Trees) -> None:
    for name in ("root", "other"):
        trees.root(name)
    trees.ask("web", "root")
    trees.serve()
    trees.until_well("web", "root")
    trees.ask("web", "other")
    eventually(lambda: trees.reason("web", "other") == "Conflict")
    assert trees.labels("web")[PARENT] == "root"
    trees.label("web", {PARENT: "other", TYPE: None})
    trees.until_well("web", "other")
    eventually(lambda: trees.reason("web", "root") == "Conflict")


def test_a_create_copy_that_its_team_turned_to_update_is_neither_overwritten_nor_deleted(trees: Trees) -> None:
    rooted(trees, "root", "web", "deep")
    trees.put("root", "db", "create")
    trees.serve()
    trees.until_copied("db", "root", "web", "deep")
    trees.not_ours.add(("web", "db"))
    theirs = {"metadata": {"annotations": {PROPAGATE: "update"}}, "data": encoded({"k": "mine"})}
    trees.edit("web", "db", theirs)
    trees.until_copied("db", "web", "deep")
    trees.api.delete(trees.path("secrets", "root", "db"))
    never(lambda: trees.data("web", "db") != {"k": "mine"} or trees.data("deep", "db") is None, SETTLED)
