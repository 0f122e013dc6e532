"""Rows 45–48 of the fault catalogue, and the effects of starts, takeovers and a deleted definition on FishySecrets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.cli.program import samara
from tests.cluster.support.audit import until_recorded
from tests.cluster.support.definitions import DEFINITIONS, undefine
from tests.cluster.support.fishy import (
    DEFINITION,
    FINALIZER,
    GROUP,
    SELDOM,
    SETTLED,
    TARGET,
    TEAM,
    Fishy,
    define,
    manifest,
    marks,
)
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.originals import installed
from tests.cluster.support.scripted_vault import TOKEN, Vault
from tests.cluster.support.stage import OWN, Stage, decoded, encoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
ORIGINAL = "manager/v0.0.0 (linux/amd64)"
"""The user agent of the original. Its first part is the field manager."""
MANAGER = "manager"


# Rows 45–48


def test_fault_45_while_the_manager_is_unavailable_the_secret_stays_and_a_deleted_one_is_restored_from_memory(
    fishy: Fishy, stage: Stage
) -> None:
    operator = fishy.served({"A": "a", "B": "b"})
    before = fishy.version("db")
    fishy.folder.go_down()
    message = fishy.until("db", "FetchError")
    assert str(fishy.folder.path) in message
    assert fishy.version("db") == before
    assert stage.until_event("FetchError", TEAM, "db")
    stage.api.delete(stage.path(TARGET, "db"))
    fishy.until_data("db", {"A": f"{CANARY}-a", "B": f"{CANARY}-b"})
    assert fishy.reason("db") == "FetchError"
    fishy.folder.come_back()
    fishy.put("a", f"{CANARY}-2")
    fishy.until_data("db", {"A": f"{CANARY}-2", "B": f"{CANARY}-b"})
    fishy.until("db")
    assert operator.running


def test_fault_45_after_a_start_without_the_manager_the_secret_stays_as_it_is(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"})
    operator.stop()
    fishy.folder.go_down()
    before = fishy.version("db")
    operator.start().synced()
    fishy.until("db", "FetchError")
    fishy.ask("new", {"A": "a"})
    fishy.until("new", "FetchError")
    assert (fishy.version("db"), fishy.data("new")) == (before, None)
    fishy.let_go("new")
    fishy.until_gone("new")  # a failing read does not prevent the deletion
    fishy.folder.come_back()
    fishy.until("db")


@pytest.mark.parametrize("code", [429, 503])
def test_fault_45_an_overloaded_manager_gets_no_requests_from_any_fishysecret(fishy: Fishy, code: int) -> None:
    documents = {f"app-{number}": {"A": f"{CANARY}-{number}"} for number in range(20)}
    with Vault(documents) as vault:
        fishy.configure(vault.url, token=TOKEN)
        operator = fishy.serve()
        for name in documents:
            fishy.ask(name, {"A": f"{name}#A"})
        for name in documents:
            fishy.until(name)
        vault.retry_after, vault.codes = "3", {"": code}
        eventually(lambda: fishy.calls(operator, "unavailable", "vault"))
        eventually(lambda: all(fishy.reason(name) == "FetchError" for name in documents))
        mark = vault.count()
        never(lambda: vault.count() > mark + 1, 2.0)  # a single request probes whether the overload is over
        vault.codes = {}
        for name in documents:
            fishy.until(name)
            assert fishy.data(name) == {"A": f"{CANARY}-{name.removeprefix('app-')}"}


def test_fault_46_not_found_and_forbidden_and_an_empty_value_delete_nothing(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a", "B": "b"})
    before = fishy.version("db")
    fishy.folder.lose("b")
    not_found = fishy.until("db", "FetchError")
    fishy.folder.forbid("b")
    eventually(lambda: fishy.ready("db").get("message") != not_found)
    assert fishy.reason("db") == "FetchError"
    never(lambda: fishy.version("db") != before, 2.5)
    fishy.folder.allow("b", "")
    fishy.until_data("db", {"A": f"{CANARY}-a", "B": ""})


def test_fault_46_forbidden_and_an_outage_do_not_count_as_absence_even_for_an_optional_key(fishy: Fishy) -> None:
    fishy.served({"A": "a", "B": "b"})
    fishy.items("db", {"A": "a", "B": "b"}, optional=("B",))
    fishy.until("db")
    fishy.folder.forbid("b")
    fishy.until("db", "FetchError")
    never(lambda: fishy.data("db") != {"A": f"{CANARY}-a", "B": f"{CANARY}-b"}, 3.0)
    fishy.folder.go_down()
    never(lambda: fishy.data("db") != {"A": f"{CANARY}-a", "B": f"{CANARY}-b"}, 3.0)


def test_fault_47_nothing_is_written_from_a_partial_answer(fishy: Fishy, stage: Stage) -> None:
    for path in ("a", "b", "c"):
        fishy.put(path, f"{CANARY}-{path}")
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {name.upper(): name for name in "abcde"})
    message = fishy.until("db", "FetchError")
    assert "cannot read 'd' " in message or "cannot read 'e' " in message
    never(lambda: fishy.data("db") is not None, SETTLED)
    fishy.put("d", f"{CANARY}-d")
    fishy.put("e", f"{CANARY}-e")
    fishy.until_data("db", {name.upper(): f"{CANARY}-{name}" for name in "abcde"})
    sent = until_recorded(lambda: [write for write in fishy.sent() if " secrets " in write], 1)
    assert sent == [f"create secrets {TARGET}/db"]


def test_fault_48_all_fields_of_a_document_come_from_the_same_read(fishy: Fishy, stage: Stage) -> None:
    def document(number: int) -> dict[str, str]:
        return {"user": f"{CANARY}-user-{number}", "pass": f"{CANARY}-pass-{number}"}

    with Vault({"app": document(0)}) as vault:
        fishy.configure(vault.url, token=TOKEN)
        fishy.serve()
        fishy.ask("db", {"user": "app#user", "pass": "app#pass"})
        fishy.until("db")
        for number in range(1, 300):
            vault.documents["app"] = document(number)
            data = fishy.data("db") or {}
            assert data.get("user", "").rpartition("-")[2] == data.get("pass", "").rpartition("-")[2]
        fishy.until_data("db", document(299))
        written = [event.response for event in fishy.writes() if event.resource == "secrets"]
        numbers = [{value.rpartition("-")[2] for value in _texts(write)} for write in written]
        assert all(len(versions) == 1 for versions in numbers)


def test_fault_49_a_new_token_is_used_at_once_and_an_expired_one_deletes_nothing(fishy: Fishy) -> None:
    with Vault({"app": {"A": f"{CANARY}-1"}}) as vault:
        fishy.configure(vault.url, token=TOKEN)
        fishy.serve()
        fishy.ask("db", {"A": "app#A"})
        fishy.until("db")
        vault.token, vault.documents["app"] = f"{TOKEN}-next", {"A": f"{CANARY}-2"}
        fishy.until("db", "FetchError")
        assert fishy.data("db") == {"A": f"{CANARY}-1"}
        fishy.configure(vault.url, token=f"{TOKEN}-next")
        fishy.until_data("db", {"A": f"{CANARY}-2"})
        fishy.until("db")


# Starts


def test_a_restart_within_the_interval_writes_nothing_at_all(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval=SELDOM)
    fishy.ask("lost", {"A": "nowhere"})
    fishy.until("lost", "FetchError")
    operator.stop()
    mark = stage.audit.mark()
    operator.start().synced()
    eventually(lambda: fishy.calls(operator) >= 1)
    eventually(lambda: fishy.calls(operator, "absent") >= 1)
    never(lambda: [str(event) for event in fishy.writes(mark)], 1.0)


# Taking over


def original(fishy: Fishy, name: str, data: dict[str, str]) -> None:
    """A FishySecret and its Secret as the original leaves them."""
    api = fishy.api.as_agent(ORIGINAL)
    items = [{"secretKeyName": key, "secretPath": key.lower()} for key in data]
    spec = {"target": {"name": name, "namespace": TARGET}, "data": items}
    api.create(fishy.path(), manifest(name, spec, finalizers=(FINALIZER,)))
    meta = {"name": name, "labels": marks(name)}
    api.create(f"/api/v1/namespaces/{TARGET}/secrets", {"metadata": meta, "type": "Opaque", "data": encoded(data)})
    api.close()


@pytest.mark.oracle_off("O4", reason="it knows nothing of objects that the settings say are ours")
def test_a_takeover_from_the_original_writes_no_secret_and_later_changes_are_served(fishy: Fishy, stage: Stage) -> None:
    original(fishy, "db", {"A": f"{CANARY}-a"})
    fishy.put("a", f"{CANARY}-a")
    fishy.configure()
    before = fishy.version("db")
    settings = stage.folder / "settings.yaml"
    settings.write_text(f"vocabularies: {{fishysecret: {{managers: [{MANAGER}]}}}}")
    plan = samara("plan", f"--kubeconfig={stage.cluster.kubeconfig}", f"--config={settings}", "-o", "json")
    assert {verb for verb, count in plan.json["summary"].items() if count} <= {"report"}
    fishy.serve(managers=[MANAGER])
    fishy.until("db")
    assert fishy.version("db") == before
    assert fishy.sent() == []
    fishy.put("a", f"{CANARY}-2")
    fishy.until_data("db", {"A": f"{CANARY}-2"})
    fishy.let_go("db")
    fishy.until_gone("db")
    assert stage.secret(TARGET, "db") is None


def test_without_the_originals_field_manager_its_secrets_are_kept_in_sync_and_deleted_only_if_written_since(
    fishy: Fishy, stage: Stage
) -> None:
    original(fishy, "db", {"A": f"{CANARY}-a"})
    fishy.put("a", f"{CANARY}-a")
    fishy.configure()
    fishy.serve()
    fishy.until("db")
    before = fishy.version("db")
    fishy.let_go("db")
    fishy.until_gone("db")
    assert fishy.version("db") == before


def test_while_the_original_runs_nothing_is_served(fishy: Fishy, stage: Stage) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    stage.also_remove(f"{leases}/dd9fe84d.2v.pm")
    renewed = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "original", "leaseDurationSeconds": 60, "renewTime": renewed}
    fishy.api.create(leases, {"metadata": {"name": "dd9fe84d.2v.pm"}, "spec": spec})
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    with installed(stage, "default", GROUP, "fishysecrets"):
        operator = fishy.serve()
        fishy.ask("db", {"A": "a"})
        never(fishy.sent, SETTLED)
        assert b"original running" in operator.answer("/readyz")[1]
        operator.stop()
        fishy.serve(takeover=True)
        fishy.until("db")


# The definition


def test_a_deleted_definition_deletes_no_secret_and_a_restored_one_is_served_again(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"})
    before = fishy.version("db")
    mark = stage.audit.mark()
    stage.api.delete(f"{DEFINITIONS}/{DEFINITION}")
    try:
        eventually(lambda: stage.api.find(f"{DEFINITIONS}/{DEFINITION}") is None, 60.0)
        never(lambda: [write for write in fishy.sent(mark) if " secrets " in write], 2.0)
    finally:
        undefine(
            stage.cluster, stage.api, DEFINITION
        )  # while the old CRD terminates, the new object would be deleted with it
        define(stage.cluster, stage.api)
    assert fishy.version("db") == before
    fishy.ask("db", {"A": "a"})
    fishy.until("db", deadline=60.0)
    assert fishy.version("db") == before


def test_a_deleted_definition_hands_no_secret_to_another_fishysecret(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"})
    fishy.put("b", "of the second")
    fishy.ask("later", {"B": "b"}, "target/db")
    fishy.until("later", "Conflict")
    before = fishy.version("db")
    stage.api.delete(f"{DEFINITIONS}/{DEFINITION}")
    try:
        eventually(lambda: stage.api.find(f"{DEFINITIONS}/{DEFINITION}") is None, 60.0)
        never(lambda: fishy.version("db") != before, 2.0)
    finally:
        undefine(stage.cluster, stage.api, DEFINITION)
        define(stage.cluster, stage.api)


def test_a_secret_whose_owner_was_deleted_without_its_finalizer_stays_and_is_listed(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"})
    operator.pause()  # otherwise it might add its finalizer again first
    fishy.api.patch(fishy.path("db"), {"metadata": {"finalizers": None}})
    fishy.let_go("db")
    fishy.until_gone("db")
    operator.resume()
    eventually(lambda: operator.metrics().get('samara_orphans{vocabulary="fishysecret"}') == 1.0)
    secret = stage.secret(TARGET, "db")
    assert secret is not None
    assert metadata_of(secret, "labels") == marks("db")
    assert stage.secret(OWN, "fishysecret-config") is not None


def _texts(secret: Json) -> list[str]:
    return list(decoded(secret).values())
