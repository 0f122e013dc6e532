"""Defects 1–9 of the original operator in ownership, which Samara does not have; each name has its number."""

from __future__ import annotations

import itertools
import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.audit import until_recorded
from tests.cluster.support.fishy import (
    CONFIG,
    FINALIZER,
    OWNER_NAME,
    OWNER_NAMESPACE,
    SELDOM,
    SETTLED,
    TARGET,
    TEAM,
    Fishy,
    marks,
)
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.scripted_vault import TOKEN, Vault
from tests.cluster.support.stage import OWN, Stage, encoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
THEIRS = "example.com/held"
SYNC_TO = "openkruise.io/sync-to"
LONG = "a-name-of-many-words-" * 12 + "z"
"""A name of the maximum length, 253 characters."""


def test_defect_01_a_foreign_secret_is_never_overwritten_and_the_conflict_ends_when_it_is_deleted(
    fishy: Fishy, stage: Stage
) -> None:
    stage.foreign(TARGET, "db", {"A": f"{CANARY}-theirs", "mine": "1"})
    before = fishy.version("db")
    fishy.put("a", f"{CANARY}-ours")
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {"A": "a"})
    assert f"{TARGET}/db" in fishy.until("db", "Conflict")
    stage.until_event("Conflict", TEAM, "db")
    assert fishy.version("db") == before
    stage.api.delete(stage.path(TARGET, "db"))
    fishy.until("db")
    assert fishy.data("db") == {"A": f"{CANARY}-ours"}


@pytest.mark.parametrize("labels", [{}, marks("db")], ids=["unmarked", "forged"])
def test_defect_02_a_foreign_secret_is_never_deleted(fishy: Fishy, stage: Stage, labels: dict[str, str]) -> None:
    stage.foreign(TARGET, "db", metadata={"labels": labels})
    if not labels:
        fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {"A": "a"})  # with forged labels the path has no value, so that nothing is written
    fishy.until("db", "FetchError" if labels else "Conflict")
    before = fishy.version("db")
    fishy.let_go("db")
    fishy.until_gone("db")
    assert fishy.version("db") == before


def test_defect_03_a_changed_target_writes_the_new_secret_before_it_deletes_the_old_one(
    fishy: Fishy, stage: Stage
) -> None:
    fishy.served({"A": "a"}, refreshInterval=SELDOM)
    mark = stage.audit.mark()
    fishy.change("db", target={"name": "moved", "namespace": TARGET})
    eventually(lambda: stage.secret(TARGET, "db") is None)
    assert fishy.data("moved") == {"A": f"{CANARY}-a"}
    sent = until_recorded(lambda: fishy.sent(mark), 2)
    assert sent == [f"create secrets {TARGET}/moved", f"delete secrets {TARGET}/db"]
    fishy.until("db")


def test_defect_03_while_the_new_target_is_occupied_the_old_secret_stays(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"})
    stage.foreign(TARGET, "moved")
    fishy.change("db", target={"name": "moved", "namespace": TARGET})
    fishy.until("db", "Conflict")
    never(lambda: stage.secret(TARGET, "db") is None, SETTLED)
    stage.api.delete(stage.path(TARGET, "moved"))
    eventually(lambda: stage.secret(TARGET, "db") is None)
    assert fishy.data("moved") == {"A": f"{CANARY}-a"}


OURS = [f"{OWN}/{CONFIG}", f"{OWN}/samara-webhook-tls"]


@pytest.mark.parametrize("target", ["kube-system/db", *OURS])
def test_defect_04_a_target_in_a_protected_namespace_or_of_the_operator_is_refused(
    fishy: Fishy, stage: Stage, target: str
) -> None:
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    fishy.serve()
    mark = stage.audit.mark()
    fishy.ask("db", {"A": "a"}, target)
    fishy.until("db", "Refused")
    fishy.let_go("db")
    fishy.until_gone("db")
    assert [write for write in fishy.sent(mark) if " secrets " in write] == []
    assert stage.secret(OWN, CONFIG) is not None


@pytest.mark.parametrize("target", OURS)
def test_defect_04_sync_to_refuses_an_object_of_the_operator_too(fishy: Fishy, stage: Stage, target: str) -> None:
    namespace, name = target.split("/")
    fishy.serve(vocabularies={"sync-to": {}})
    annotations = {SYNC_TO: "namespaces", f"{SYNC_TO}-namespaces": f"{namespace};{TARGET}"}
    stage.foreign(TEAM, name, {"url": "file:///elsewhere"}, metadata={"annotations": annotations})
    assert "belongs to the operator" in stage.until_event("Refused", TEAM, name)["message"]
    eventually(lambda: stage.secret(TARGET, name))
    assert stage.secret(namespace, name) is None


def test_defect_04_a_secret_of_a_type_that_grants_rights_is_never_created(fishy: Fishy) -> None:
    for kind in ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"):
        name = kind.partition("/")[0].replace(".", "-")
        with pytest.raises(ApiFault, match="never written"):
            fishy.ask(name, {"A": "a"}, of={"type": kind})


def test_defect_05_the_older_of_two_with_the_same_target_wins_and_the_other_reports_a_conflict(
    fishy: Fishy, stage: Stage
) -> None:
    operator = fishy.served({"A": "a"}, "older", refreshInterval=SELDOM)
    fishy.put("b", f"{CANARY}-b")
    eventually(lambda: int(time.time()) > _created(fishy.get("older")))  # ages have no more than seconds
    fishy.ask("younger", {"B": "b"}, f"{TARGET}/older")
    assert f"{TEAM}/older" in fishy.until("younger", "Conflict")
    mark = stage.audit.mark()
    never(lambda: fishy.sent(mark), SETTLED)
    operator.stop()
    operator.start().synced()
    fishy.until("younger", "Conflict")
    assert fishy.data("older") == {"A": f"{CANARY}-a"}
    fishy.let_go("younger")
    fishy.until_gone("younger")
    assert fishy.data("older") == {"A": f"{CANARY}-a"}


def test_defect_05_an_older_fishysecret_that_gets_the_target_of_another_wins_and_the_other_reports_a_conflict(
    fishy: Fishy, stage: Stage
) -> None:
    fishy.served({"A": "a"}, "older", refreshInterval=SELDOM)
    fishy.put("b", f"{CANARY}-b")
    eventually(lambda: int(time.time()) > _created(fishy.get("older")))
    fishy.ask("younger", {"B": "b"})
    fishy.until("younger")
    before = stage.secret(TARGET, "younger")
    fishy.change("older", target={"name": "younger"})
    assert f"{TEAM}/older" in fishy.until("younger", "Conflict")
    fishy.until_data("younger", {"A": f"{CANARY}-a"})
    after = stage.secret(TARGET, "younger")
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] == after["metadata"]["uid"]  # it was never deleted
    eventually(lambda: stage.secret(TARGET, "older") is None)


def test_defect_05_when_the_older_is_deleted_the_other_gets_the_target(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"}, "older", refreshInterval=SELDOM)
    fishy.put("b", f"{CANARY}-b")
    eventually(lambda: int(time.time()) > _created(fishy.get("older")))
    fishy.ask("younger", {"B": "b"}, f"{TARGET}/older")
    fishy.until("younger", "Conflict")
    fishy.let_go("older")
    fishy.until_data("older", {"B": f"{CANARY}-b"})
    fishy.until("younger")
    fishy.until_gone("older")
    secret = stage.secret(TARGET, "older")
    assert secret is not None
    assert metadata_of(secret, "labels") == marks("younger")


def test_defect_06_names_of_253_characters_work(fishy: Fishy, stage: Stage) -> None:
    assert len(LONG) == 253
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    operator = fishy.serve(lastSynced="change")
    fishy.ask(LONG, {"A": "a"})
    fishy.until(LONG)
    secret = stage.secret(TARGET, LONG)
    assert secret is not None
    labels = metadata_of(secret, "labels")
    assert (len(labels[OWNER_NAME]) <= 63, labels[OWNER_NAMESPACE]) == (True, TEAM)
    assert metadata_of(secret)[OWNER_NAME] == LONG
    operator.stop()
    mark = stage.audit.mark()
    operator.start().synced()
    assert fishy.sent(mark) == []
    fishy.let_go(LONG)
    fishy.until_gone(LONG)
    assert stage.secret(TARGET, LONG) is None


def test_defect_07_stripped_labels_are_restored(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"}, refreshInterval=SELDOM)
    mark = stage.audit.mark()
    gone = {OWNER_NAME: None, OWNER_NAMESPACE: None}
    stage.api.patch(stage.path(TARGET, "db"), {"metadata": {"labels": gone}, "data": encoded({"A": "edited"})})
    fishy.until_data("db", {"A": f"{CANARY}-a"})
    secret = stage.secret(TARGET, "db")
    assert secret is not None
    assert metadata_of(secret, "labels") == marks("db")
    assert until_recorded(lambda: fishy.sent(mark), 1) == [f"update secrets {TARGET}/db"]


@pytest.mark.oracle_off("O4", reason="what carries both labels where it is wanted counts as ours, whoever made it")
def test_defect_07_a_changed_type_is_repaired(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval=SELDOM)
    operator.stop()
    stage.api.delete(stage.path(TARGET, "db"))
    stage.foreign(TARGET, "db", {"A": "x"}, metadata={"labels": marks("db")}, type="example.com/odd")
    operator.start().synced()
    eventually(lambda: (stage.secret(TARGET, "db") or {}).get("type") == "Opaque")
    assert fishy.data("db") == {"A": f"{CANARY}-a"}


def test_defect_08_our_own_status_updates_cause_no_read_even_of_a_slow_manager(fishy: Fishy, stage: Stage) -> None:
    with Vault({"app": {"A": f"{CANARY}-1"}}, slow=1.2) as vault:
        fishy.configure(vault.url, token=TOKEN)
        fishy.serve(refreshInterval=SELDOM)
        fishy.ask("db", {"A": "app#A"})
        fishy.until("db")
        mark, reads = stage.audit.mark(), vault.count()
        never(lambda: fishy.writes(mark), 2.5)
        assert vault.count() == reads == 1


def test_defect_08_the_last_synced_time_is_written_once_per_interval(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval="2s")
    mark, began = fishy.stage.audit.mark(), fishy.calls(operator)
    eventually(lambda: fishy.calls(operator) >= began + 4)
    assert 2 <= len(fishy.reports(mark)) <= 5
    assert fishy.sent(mark) == []


def test_defect_08_with_an_interval_of_one_second_the_status_is_still_written_every_five(
    fishy: Fishy, stage: Stage
) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval=SELDOM)
    mark, began = fishy.stage.audit.mark(), fishy.calls(operator)
    fishy.change("db", refreshInterval="1s")
    reports = until_recorded(lambda: fishy.reports(mark), 3)  # the first status is of the new generation
    times = [datetime.fromisoformat(event.request["status"]["lastSyncedTime"]) for event in reports]
    assert all(after - before >= timedelta(seconds=5) for before, after in itertools.pairwise(times))
    assert fishy.calls(operator) >= began + 4
    fishy.put("a", f"{CANARY}-2")
    fishy.until_data("db", {"A": f"{CANARY}-2"})


def test_a_last_synced_time_in_the_future_is_corrected(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"})
    future = {"status": {"lastSyncedTime": "2100-01-01T00:00:00Z"}}
    fishy.api.patch(f"{fishy.path('db')}/status", future)
    eventually(lambda: fishy.status("db")["lastSyncedTime"] < "2100")


def test_an_event_has_the_message_of_the_condition(fishy: Fishy, stage: Stage) -> None:
    stage.foreign(TARGET, "taken", {"A": "theirs"})
    fishy.served({"A": "a"}, refreshInterval=SELDOM)
    fishy.ask("taken", {"A": "a"})
    fishy.ask("none", {"A": "nowhere"})
    for name, reason in (("taken", "Conflict"), ("none", "FetchError")):
        advice = fishy.until(name, reason).rpartition("; ")[2]
        assert advice
        assert stage.until_event(reason, TEAM, name)["message"].endswith(f"; {advice}")


def test_defect_09_without_our_finalizer_a_deletion_deletes_nothing(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval=SELDOM, lastSynced="change")
    operator.stop()  # otherwise it would add its finalizer again first
    fishy.api.patch(fishy.path("db"), {"metadata": {"finalizers": [THEIRS]}})
    fishy.let_go("db")
    mark = stage.audit.mark()
    operator.start().synced()
    never(lambda: fishy.sent(mark), SETTLED)
    assert fishy.data("db") == {"A": f"{CANARY}-a"}
    fishysecret = fishy.get("db")
    assert fishysecret is not None
    assert FINALIZER not in fishysecret["metadata"]["finalizers"]


def _created(fishysecret: Json | None) -> float:
    assert fishysecret is not None
    return datetime.fromisoformat(fishysecret["metadata"]["creationTimestamp"]).timestamp()
