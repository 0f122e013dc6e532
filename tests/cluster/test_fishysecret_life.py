"""Promises 18–27 of the post about FishySecrets, and the additions of Samara: consent, paths, chains."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.support.faults import answered
from tests.cluster.support.fishy import EVERY, FINALIZER, GROUP, OWNER_NAME, SELDOM, SETTLED, TARGET, TEAM, Fishy, marks
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.proxy import Seen
from tests.cluster.support.stage import HOME, SECOND, TARGETS, Stage, encoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
ACCEPT = "samara.dev/accept-from"
PAUSED = "samara.dev/paused"
SYNC_TO = "openkruise.io/sync-to"


# Living


def test_promise_18_a_value_changed_in_the_manager_reaches_the_secret_without_an_event(
    fishy: Fishy, stage: Stage
) -> None:
    fishy.served({"n": "number"}, refreshInterval=EVERY)
    for _ in range(3):
        number = stage.rising()
        fishy.put("number", number)
        fishy.until_data("db", {"n": number})


def test_promise_18_a_fishysecret_may_set_a_shorter_interval(fishy: Fishy) -> None:
    fishy.put("a", "one")
    fishy.configure()
    fishy.serve(refreshInterval=SELDOM)
    fishy.ask("db", {"A": "a"}, refreshInterval="1s")
    fishy.until("db")
    fishy.put("a", "two")
    fishy.until_data("db", {"A": "two"})


def test_promise_19_a_deleted_secret_is_recreated_within_seconds(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"}, refreshInterval=SELDOM)
    stage.api.delete(stage.path(TARGET, "db"))
    fishy.until_data("db", {"A": f"{CANARY}-a"})
    secret = stage.secret(TARGET, "db")
    assert secret is not None
    assert metadata_of(secret, "labels") == marks("db")


@pytest.mark.parametrize("edit", [{"A": "edited"}, {"B": "added"}, {"A": None}], ids=str)
def test_promise_20_an_edited_secret_is_restored_with_one_request(
    fishy: Fishy, stage: Stage, edit: dict[str, str | None]
) -> None:
    fishy.served({"A": "a"}, refreshInterval=SELDOM)
    mark = stage.audit.mark()
    data = {key: None if value is None else encoded({key: value})[key] for key, value in edit.items()}
    stage.api.patch(stage.path(TARGET, "db"), {"data": data})
    eventually(lambda: fishy.sent(mark))
    fishy.until_data("db", {"A": f"{CANARY}-a"})
    assert fishy.sent(mark) == [f"update secrets {TARGET}/db"]


def test_promise_21_a_secret_without_both_labels_is_ignored(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"}, refreshInterval=SELDOM, lastSynced="change")
    mark = stage.audit.mark()
    for name, labels in (("none", {}), ("one", {OWNER_NAME: "db"}), ("both", marks("db"))):
        stage.foreign(TARGET, name, metadata={"labels": labels})
        stage.api.patch(stage.path(TARGET, name), {"data": encoded({"mine": "2"})})
    never(lambda: [str(event) for event in fishy.writes(mark)], SETTLED)
    for name in ("none", "one", "both"):
        assert fishy.data(name) == {"mine": "2"}


def test_promise_22_repeated_events_change_nothing(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval=SELDOM, lastSynced="change")
    mark, calls = stage.audit.mark(), fishy.calls(operator)
    for number in range(20):
        fishy.api.patch(fishy.path("db"), {"metadata": {"annotations": {"note": str(number)}}})
        stage.annotate(stage.path(TARGET, "db"), {"note": str(number)})
    never(lambda: [str(event) for event in fishy.writes(mark)], SETTLED)
    assert fishy.calls(operator) == calls


def test_promise_23_every_fishysecret_is_reconciled_at_the_start(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"}, "one")
    operator.stop()
    fishy.ask("two", {"A": "a"})
    fishy.put("a", f"{CANARY}-2")
    fishy.ask("three", {"A": "a"}, finalizers=(FINALIZER,))
    fishy.let_go("three")
    operator.start().synced()
    for name in ("one", "two"):
        fishy.until_data(name, {"A": f"{CANARY}-2"})
    fishy.until_gone("three")


def test_promise_24_only_deleting_its_owner_deletes_the_secret(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"})
    fishy.kubectl("delete", "secret", "db", "-n", TARGET)
    fishy.until_data("db", {"A": f"{CANARY}-a"})
    fishy.kubectl("delete", "fishysecret", "db", "-n", TEAM, "--timeout=20s")
    eventually(lambda: stage.secret(TARGET, "db") is None)


# Output for users


def test_promise_25_kubectl_shows_the_status(fishy: Fishy) -> None:
    fishy.served({"A": "a"})
    fishy.kubectl("api-resources", f"--api-group={GROUP}")  # the cache of kubectl may be older
    head, line = fishy.kubectl("get", "fishysecret", "-n", TEAM).strip().splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "TARGET", "LAST", "SYNC", "AGE"]
    assert line.split()[:3] == ["db", "True", "SecretSynced"]
    assert "db" in line.split()[3]
    assert fishy.kubectl("get", "fishy", "-n", TEAM, "-o", "name").strip() == f"fishysecret.{GROUP}/db"
    described = fishy.kubectl("describe", "fishysecret", "db", "-n", TEAM)
    assert "Secret successfully synced" in described
    fishy.kubectl("wait", "fishysecret/db", "-n", TEAM, "--for=condition=Ready", "--timeout=10s")


def test_promise_26_kubectl_explains_every_field(fishy: Fishy, stage: Stage) -> None:
    fields = ("target.name", "target.namespace", "target.type", "data.secretPath", "data.secretKeyName")
    more = ("data.optional", "refreshInterval", "suspend")
    for path in ("", "spec", *(f"spec.{field}" for field in (*fields, *more)), "status.lastSyncedTime"):
        explanation = stage.explained(f"fishysecret.{path}".rstrip("."), f"{GROUP}/v1alpha1")
        description = explanation.partition("DESCRIPTION:")[2].partition("FIELDS:")[0].strip()
        assert len(description) > 20, path
        assert "<empty>" not in description, path


def test_promise_27_two_operators_elect_a_leader_and_the_other_takes_over(fishy: Fishy, stage: Stage) -> None:
    fishy.put("number", stage.rising())
    fishy.configure()
    first = fishy.serve("--leader-elect")
    second = fishy.serve("--leader-elect", user=SECOND, wait="ready")
    fishy.ask("db", {"n": "number"})
    fishy.until("db")
    assert (first.leads, second.leads) == (True, False)
    assert {event.user for event in fishy.writes()} == {"samara"}
    assert fishy.calls(second) == 0
    first.stop()
    number = stage.rising()
    fishy.put("number", number)
    fishy.until_data("db", {"n": number})
    assert second.leads


# Consent and paths


def test_with_consent_a_target_namespace_is_written_only_if_it_accepts(fishy: Fishy, stage: Stage) -> None:
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    fishy.serve(crossNamespace="consent")
    fishy.ask("here", {"A": "a"}, f"{TEAM}/here")
    fishy.ask("db", {"A": "a"})
    fishy.until("here")
    message = fishy.until("db", "NotAccepted")
    assert ACCEPT in message
    assert fishy.data("db") is None
    stage.annotate(f"/api/v1/namespaces/{TARGET}", {ACCEPT: TEAM})
    fishy.until("db")
    assert fishy.data("db") == {"A": f"{CANARY}-1"}
    stage.annotate(f"/api/v1/namespaces/{TARGET}", {ACCEPT: "others"})
    fishy.until("db", "NotAccepted")
    eventually(lambda: stage.secret(TARGET, "db") is None)


def test_a_paused_namespace_holds_the_fishysecrets_in_it_until_the_pause_ends(fishy: Fishy, stage: Stage) -> None:
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    fishy.serve(refreshInterval=EVERY)
    fishy.ask("db", {"A": "a"})
    fishy.until("db")
    stage.annotate(f"/api/v1/namespaces/{TEAM}", {PAUSED: "true"})
    stage.until_seen()
    mark = stage.audit.mark()
    fishy.ask("late", {"A": "a"})
    fishy.let_go("db")
    fishy.put("a", f"{CANARY}-2")
    never(lambda: fishy.writes(mark), SETTLED)
    assert fishy.data("db") == {"A": f"{CANARY}-1"}
    stage.annotate(f"/api/v1/namespaces/{TEAM}", {PAUSED: None})
    fishy.until_data("late", {"A": f"{CANARY}-2"})
    fishy.until_gone("db")
    eventually(lambda: fishy.data("db") is None)


def test_under_strict_tenancy_only_paths_that_a_rule_allows_are_read(fishy: Fishy, stage: Stage) -> None:
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    operator = fishy.serve(tenancy="strict")
    stage.annotate(f"/api/v1/namespaces/{TARGET}", {ACCEPT: "*"})
    fishy.ask("db", {"A": "a"})
    assert "paths" in fishy.until("db", "PathNotAllowed")
    assert fishy.data("db") is None
    assert not [name for name in operator.metrics() if name.startswith("samara_provider_calls_total{")]


def test_a_path_rule_allows_some_namespaces_some_paths_and_no_other_path_is_read(fishy: Fishy, stage: Stage) -> None:
    stage.namespace("other")
    fishy.put("team/a", f"{CANARY}-a")
    fishy.put("team/deep/b", f"{CANARY}-b")
    fishy.put("root", f"{CANARY}-root")
    fishy.configure()
    operator = fishy.serve(paths=[{"namespaces": ["team*"], "allow": ["/team/*"]}], refreshInterval=SELDOM)
    fishy.ask("fine", {"A": "/team/a", "B": "/team/deep/b"})
    fishy.until("fine")
    calls = fishy.calls(operator)
    fishy.ask("mixed", {"A": "/team/a", "R": "root"})
    fishy.ask("bare", {"A": "team/a"})  # some secret managers would read another path
    fishy.ask("stranger", {"A": "/team/a"}, namespace="other")
    assert "root" in fishy.until("mixed", "PathNotAllowed")
    fishy.until("bare", "PathNotAllowed")
    fishy.until("stranger", "PathNotAllowed", "other")
    assert [fishy.data(name) for name in ("mixed", "bare", "stranger")] == [None] * 3
    assert fishy.calls(operator) == calls
    fishy.items("fine", {"R": "root"})
    fishy.until("fine", "PathNotAllowed")
    assert fishy.data("fine") == {"A": f"{CANARY}-a", "B": f"{CANARY}-b"}


# Chains


def test_a_secret_of_a_fishysecret_can_be_a_source_of_sync_to(fishy: Fishy, stage: Stage) -> None:
    stage.namespace("far")
    fishy.served({"A": "a"}, vocabularies={"sync-to": {}})
    wanted = {SYNC_TO: "namespaces", f"{SYNC_TO}-namespaces": "far"}
    stage.annotate(stage.path(TARGET, "db"), wanted)
    fishy.until_data("db", {"A": f"{CANARY}-a"}, "far")
    secret = stage.secret("far", "db")
    assert secret is not None
    assert not marks("db").items() & metadata_of(secret, "labels").items()
    fishy.put("a", f"{CANARY}-2")
    fishy.until_data("db", {"A": f"{CANARY}-2"}, "far")
    source = stage.secret(TARGET, "db")
    assert source is not None
    assert metadata_of(source) == wanted
    fishy.let_go("db")
    eventually(lambda: not any(stage.secret(namespace, "db") for namespace in (TARGET, "far")))


@pytest.mark.oracle_off("O4", reason="the source of the copies is itself written here, in their home")
def test_a_secret_of_a_fishysecret_can_be_a_source_of_secret_copy(fishy: Fishy, stage: Stage) -> None:
    stage.namespace("far")
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {"A": "a"}, f"{HOME}/db")
    fishy.until("db")
    stage.annotate(stage.path(HOME, "db"), {TARGETS: "far"})
    stage.until_copied("db", "far")
    fishy.put("a", f"{CANARY}-2")
    fishy.until_data("db", {"A": f"{CANARY}-2"}, "far")


def test_a_suspended_fishysecret_writes_nothing_until_it_is_resumed(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"})
    fishy.change("db", suspend=True)
    fishy.until("db", "Suspended")
    mark = stage.audit.mark()
    fishy.put("a", f"{CANARY}-2")
    stage.api.delete(stage.path(TARGET, "db"))
    never(lambda: fishy.sent(mark), 1.5)
    assert operator.running
    fishy.change("db", suspend=False)
    fishy.until_data("db", {"A": f"{CANARY}-2"})


def test_promise_9_a_secret_that_cannot_be_deleted_is_reported_and_its_fishysecret_stays_until_it_is_deleted(
    fishy: Fishy, stage: Stage
) -> None:
    def goes(seen: Seen) -> bool:
        return seen.method == "DELETE" and seen.namespace == TARGET

    proxy = stage.proxy()
    proxy.on_request(goes, answered(403, "Forbidden"))
    fishy.served({"A": "a"}, refreshInterval=SELDOM, through=proxy)
    fishy.let_go("db")
    fishy.until("db", "Refused")
    assert fishy.ready("db")["message"].startswith(f"Secret {TARGET}/db should be deleted, but is not: ")
    stage.api.delete(stage.path(TARGET, "db"))
    fishy.until_gone("db")
