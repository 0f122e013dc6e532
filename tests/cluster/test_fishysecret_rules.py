"""Promises 1–17 of the post about FishySecrets on the real server; each name has its number."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.cli.lint.test_fishysecret import GOOD as SAMPLE
from tests.cluster.support.api import ApiFault
from tests.cluster.support.audit import Event, until_recorded
from tests.cluster.support.faults import answered
from tests.cluster.support.fishy import FINALIZER, SELDOM, SETTLED, TARGET, TEAM, Fishy, manifest, marks, short
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.proxy import Seen
from tests.cluster.support.stage import OWN, Stage, encoded
from tests.cluster.support.waiting import eventually, never
from tests.support.ports import free_port

Json = dict[str, Any]


def is_report(seen: Seen) -> bool:
    return seen.writes and seen.path.endswith("/status")


def is_delete(seen: Seen) -> bool:
    return seen.method == "DELETE" and seen.plural == "secrets"


def of_secrets(events: list[Event]) -> list[str]:
    return [short(event) for event in events if event.resource == "secrets"]


# Creating


def test_promise_01_a_new_fishysecret_creates_an_opaque_secret_with_one_key_per_item(
    fishy: Fishy, stage: Stage
) -> None:
    fishy.put("app/user", "somebody")
    fishy.put("app/pass", f"{CANARY}-1")
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {"USER": "app/user", "PASS": "/app/pass"}, "target/credentials")
    fishy.until("db")
    secret = stage.secret(TARGET, "credentials")
    assert secret is not None
    assert (secret["type"], secret["data"]) == ("Opaque", encoded({"USER": "somebody", "PASS": f"{CANARY}-1"}))


def test_promise_02_the_sample_of_the_post_creates_its_two_keys(fishy: Fishy, stage: Stage) -> None:
    stage.namespace("target-namespace")
    fishy.put("/app/db/username", "app_user")
    fishy.put("/app/db/password", "click me!")
    fishy.configure()
    fishy.serve()
    fishy.kubectl("apply", "-f", "-", input=SAMPLE)
    fishy.until("fishysecret-db", namespace="default")
    assert fishy.data("test-secret", "target-namespace") == {"DB_USER": "app_user", "DB_PASS": "click me!"}


@pytest.mark.parametrize("path", ["target", "target/name", "target/namespace", "data", "data/0/secretPath"])
def test_promise_03_a_manifest_that_lacks_a_field_is_rejected(fishy: Fishy, path: str) -> None:
    spec = {"target": {"name": "db", "namespace": TARGET}, "data": [{"secretPath": "a", "secretKeyName": "A"}]}
    assert fishy.api.create(fishy.path(), manifest("whole", spec))
    held: Any = spec
    *above, last = path.split("/")
    for step in above:
        held = held[int(step)] if isinstance(held, list) else held[step]
    del held[last]
    with pytest.raises(ApiFault) as refused:
        fishy.api.create(fishy.path(), manifest("lacking", spec))
    assert refused.value.status == 422
    assert last in str(refused.value)


def test_promise_03_an_item_without_a_key_name_is_rejected(fishy: Fishy) -> None:
    with pytest.raises(ApiFault, match="secretKeyName"):
        fishy.ask("db", {}, data=[{"secretPath": "a"}])


def test_promise_04_the_status_cannot_be_edited_through_the_main_resource(fishy: Fishy) -> None:
    fishy.served({"A": "a"}, lastSynced="change")
    before = fishy.status("db")
    forged = {"conditions": [], "lastSyncedTime": "2001-01-01T00:00:00Z"}
    fishy.api.patch(fishy.path("db"), {"status": forged})
    assert fishy.status("db") == before


def test_promise_05_the_finalizer_is_added_first_and_in_its_own_request(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"})
    first, second, *_ = fishy.writes()
    assert [short(first), short(second)] == [f"patch fishysecrets {TEAM}/db", f"create secrets {TARGET}/db"]
    assert first.subresource == ""
    assert set(first.request) - {"apiVersion", "kind"} == {"metadata"}
    assert first.answered <= second.received
    fishysecret = fishy.get("db")
    assert fishysecret is not None
    assert fishysecret["metadata"]["finalizers"] == [FINALIZER]
    assert operator.running


def test_promise_06_an_already_deleted_fishysecret_is_no_error(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval=SELDOM)
    mark = stage.audit.mark()
    operator.pause()
    fishy.ask("late", {"A": "a"})
    fishy.let_go("late")
    operator.resume()
    fishy.ask("next", {"A": "a"})
    fishy.until("next")
    assert [short(event) for event in fishy.writes(mark) if event.name == "late" and event.done] == []
    assert not [line for line in operator.log.splitlines() if "Traceback" in line or " error " in line.lower()]


# Deleting


def test_promise_07_a_deletion_deletes_the_secret_then_removes_the_finalizer_and_syncs_nothing(
    fishy: Fishy, stage: Stage
) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval=SELDOM)
    operator.pause()
    mark = stage.audit.mark()
    stage.api.patch(stage.path(TARGET, "db"), {"data": encoded({"A": "edited"})})
    fishy.let_go("db")
    operator.resume()
    fishy.until_gone("db")

    def written() -> list[Event]:
        """A delete planned before the edit is refused and planned again."""
        sent = [event for event in fishy.writes(mark) if event.subresource != "status" and event.verb != "update"]
        return [request for request in sent if not request.overtaken]

    deleted, released = until_recorded(written, 2)
    assert [short(deleted), short(released)] == [f"delete secrets {TARGET}/db", f"patch fishysecrets {TEAM}/db"]
    assert set(deleted.request["preconditions"]) == {"uid", "resourceVersion"}
    assert stage.secret(TARGET, "db") is None


def test_promise_07_a_fishysecret_deleted_right_after_its_creation_deletes_its_secret_too(
    fishy: Fishy, stage: Stage
) -> None:
    fishy.served({"A": "a"})
    for _ in range(2):
        fishy.let_go("db")
        fishy.until_gone("db")
        assert stage.secret(TARGET, "db") is None
        fishy.ask("db", {"A": "a"})
        fishy.until("db")


def test_promise_08_a_secret_deleted_by_hand_does_not_block_the_deletion(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"})
    operator.pause()
    stage.api.delete(stage.path(TARGET, "db"))
    fishy.let_go("db")
    operator.resume()
    fishy.until_gone("db")
    assert stage.secret(TARGET, "db") is None


def test_promise_09_while_the_secret_cannot_be_deleted_the_finalizer_stays(fishy: Fishy, stage: Stage) -> None:
    proxy = stage.proxy()
    fishy.served({"A": "a"}, through=proxy)
    refused = proxy.on_request(is_delete, answered(403, "Forbidden"))
    fishy.let_go("db")
    eventually(lambda: refused.hits)
    never(lambda: fishy.get("db") is None, SETTLED)
    fishysecret = fishy.get("db")
    assert fishysecret is not None
    assert fishysecret["metadata"]["finalizers"] == [FINALIZER]
    proxy.clear()
    fishy.until_gone("db")
    assert stage.secret(TARGET, "db") is None


# Failing


@pytest.mark.parametrize("config", [None, {}, {"token": "t"}, {"url": ""}, {"url": "127.0.0.1:{port}"}], ids=str)
def test_promise_10_without_url_or_token_it_is_a_token_error_until_they_exist(
    fishy: Fishy, config: dict[str, str] | None
) -> None:
    fishy.put("a", f"{CANARY}-1")
    if config is not None:
        fishy.configure_exactly(encoded({key: text.format(port=free_port()) for key, text in config.items()}))
    fishy.serve()
    fishy.ask("db", {"A": "a"})
    message = fishy.until("db", "TokenError")
    assert "fishysecret-config" in message
    assert OWN in message
    assert fishy.data("db") is None
    fishy.configure()
    fishy.until("db")


def test_promise_11_one_unreadable_path_leaves_the_secret_unchanged_and_is_retried(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a", "B": "b"})
    before = fishy.version("db")
    fishy.folder.lose("b")
    assert "cannot read 'b' from the file store" in fishy.until("db", "FetchError")
    fishy.put("a", f"{CANARY}-2")
    calls = fishy.calls(operator)
    eventually(lambda: fishy.calls(operator) >= calls + 3)
    assert fishy.version("db") == before
    stage.until_event("FetchError", TEAM, "db")
    fishy.put("b", f"{CANARY}-3")
    fishy.until_data("db", {"A": f"{CANARY}-2", "B": f"{CANARY}-3"})
    fishy.until("db")


def test_promise_12_a_failure_is_reported_unchanged_even_if_the_first_status_updates_fail(
    fishy: Fishy, stage: Stage
) -> None:
    proxy = stage.proxy()
    fishy.served({"A": "a"}, through=proxy)
    broken = proxy.on_request(is_report, answered(500, "InternalError"))
    fishy.folder.lose("a")
    stage.until_event("FetchError", TEAM, "db")
    eventually(lambda: broken.hits)
    proxy.clear()
    assert "a" in fishy.until("db", "FetchError")
    assert fishy.data("db") == {"A": f"{CANARY}-a"}


# Syncing


def test_promise_13_the_secret_carries_both_owner_labels_and_nothing_else(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"})
    secret = stage.secret(TARGET, "db")
    assert secret is not None
    assert metadata_of(secret, "labels") == marks("db")
    assert metadata_of(secret) == {}
    assert "ownerReferences" not in secret["metadata"]


def test_promise_14_unchanged_data_cause_no_write_at_a_refresh_or_at_a_restart(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a", "B": "b"}, lastSynced="change")
    mark, calls = stage.audit.mark(), fishy.calls(operator)
    eventually(lambda: fishy.calls(operator) >= calls + 4)
    operator.stop()
    operator.start().synced()
    eventually(lambda: fishy.calls(operator) >= 4)
    assert [short(event) for event in fishy.writes(mark)] == []


def test_promise_15_changed_data_replace_the_data_of_the_secret_completely(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a", "B": "b"}, refreshInterval=SELDOM)
    operator.stop()
    stage.api.patch(stage.path(TARGET, "db"), {"data": encoded({"A": "edited", "C": "added"}) | {"B": None}})
    mark = stage.audit.mark()
    operator.start().synced()
    fishy.until_data("db", {"A": f"{CANARY}-a", "B": f"{CANARY}-b"})
    assert until_recorded(lambda: of_secrets(fishy.writes(mark)), 1) == [f"update secrets {TARGET}/db"]
    fishy.items("db", {"B": "b"})
    fishy.until_data("db", {"B": f"{CANARY}-b"})


def test_promise_16_success_is_reported_with_its_time(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"})
    (created,) = [event for event in fishy.writes() if event.resource == "secrets"]
    status = fishy.status("db")
    ready = status["conditions"][0]
    condition = {key: ready[key] for key in ("type", "status", "reason", "message", "observedGeneration")}
    assert condition == {
        "type": "Ready",
        "status": "True",
        "reason": "SecretSynced",
        "message": "Secret successfully synced",
        "observedGeneration": 1,
    }
    synced = yaml.safe_load(status["lastSyncedTime"])
    assert abs(synced.timestamp() - created.answered) < 5.0
    fishy.items("db", {"B": "a"})
    fishy.until_data("db", {"B": f"{CANARY}-a"})
    fishy.until("db")
    assert fishy.ready("db")["lastTransitionTime"] == ready["lastTransitionTime"]


def test_promise_17_a_failed_status_update_of_a_success_is_retried(fishy: Fishy, stage: Stage) -> None:
    proxy = stage.proxy()
    broken = proxy.on_request(is_report, answered(500, "InternalError"), times=2)
    fishy.served({"A": "a"}, through=proxy, refreshInterval=SELDOM)
    assert broken.hits == 2
