"""`status`, `plan` and `why` for FishySecrets whose secret manager may not be readable from this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.program import Done, samara
from tests.cluster.support.fishy import FINALIZER, Fishy
from tests.cluster.support.fishy import manifest as fishy_manifest
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.stage import Stage
from tests.support.json_schema import check

pytestmark = pytest.mark.oracle_off(
    "O4", reason="it knows the rules of Secret copy only; here each test asserts its own"
)

Json = dict[str, Any]
NOTE = "the secret manager could not be read from here"


def ask(stage: Stage, command: str, *args: str | Path) -> Done:
    file = stage.folder / "inspect.yaml"
    file.write_text(yaml.safe_dump({"vocabularies": {"fishysecret": {}}}))
    done = samara(command, *args, f"--config={file}", f"--kubeconfig={stage.cluster.kubeconfig}")
    assert done.code == 0, done.err
    assert all(line.startswith("samara: ") for line in done.err.splitlines()), "a line of the operator's log"
    return done


def inspected(stage: Stage, command: str, *args: str | Path) -> tuple[Json, list[str]]:
    """The JSON output and the lines on standard error."""
    done = ask(stage, command, *args, "-o", "json")
    check(command, done.json)
    return done.json, done.err.splitlines()


@contextmanager
def out_of_reach(fishy: Fishy) -> Iterator[None]:
    """The folder exists only on the machine of the operator."""
    fishy.folder.go_down()
    try:
        yield
    finally:
        fishy.folder.come_back()


def test_a_missing_optional_path_counts_as_absent(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"password": "app/password"})
    fishy.items("db", {"password": "app/password", "extra": "app/extra"}, optional=("extra",))
    fishy.until("db")
    operator.stop()
    planned, err = inspected(stage, "plan")
    assert (planned["blocked"], planned["summary"]["update"], err) == ([], 0, [])
    (source,) = inspected(stage, "status")[0]["sources"]
    assert (source["right"], source["reasons"]) == (1, [])


def test_a_new_fishysecret_with_an_absent_optional_path_is_planned_without_that_key(fishy: Fishy, stage: Stage) -> None:
    fishy.put("app/password", f"{CANARY}-1")
    fishy.configure()
    paths = {"password": "app/password", "extra": "app/extra"}
    data = [{"secretKeyName": key, "secretPath": path, "optional": key == "extra"} for key, path in paths.items()]
    body = fishy_manifest("db", {"target": {"name": "db", "namespace": "target"}, "data": data})
    file = stage.folder / "new.yaml"
    file.write_text(yaml.safe_dump(body))
    answer, _ = inspected(stage, "plan", "-f", file, "--diff")
    (create,) = [write for write in answer["writes"] if write["verb"] == "create"]
    assert [change["key"] for change in create["diff"] if change["field"] == "data"] == ["password"]


def test_without_access_to_the_manager_the_status_of_the_operator_is_used(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"password": "app/password"}).stop()
    with out_of_reach(fishy):
        answer, err = inspected(stage, "status")
        planned, notes = inspected(stage, "plan")
        concerned = ask(stage, "why", "secret/db", "-n", "target").err.splitlines()
        others = ask(stage, "why", "secret/another", "-n", "target").err
    (source,) = answer["sources"]
    assert (source["wanted"], source["right"], source["blocked"], source["reasons"]) == (1, 1, 0, [])
    assert others == ""
    for lines in (err, notes, concerned):
        (line,) = lines
        assert line.startswith(f"samara: {NOTE}")
    assert (planned["writes"], planned["blocked"]) == ([], [])


def test_a_path_that_the_operator_cannot_read_is_reported_with_its_message(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"password": "app/password"})
    fishy.folder.forbid("app/password")
    message = fishy.until("db", "FetchError")
    operator.stop()
    with out_of_reach(fishy):
        (source,) = inspected(stage, "status")[0]["sources"]
        planned, _ = inspected(stage, "plan")
    assert source["reasons"] == [{"reason": "fetch-error", "count": 1, "sample": [message]}]
    (blocked,) = planned["blocked"]
    assert (blocked["namespace"], blocked["name"], blocked["reason"]) == ("team", "db", "refused")
    assert blocked["message"] == message
    assert planned["writes"] == []


def test_a_path_without_a_value_is_refused_and_not_called_invalid(fishy: Fishy, stage: Stage) -> None:
    fishy.put("app/other", f"{CANARY}-1")
    fishy.configure()
    operator = fishy.serve()
    fishy.ask("db", {"password": "app/password"})
    fishy.until("db", "FetchError")
    operator.stop()
    planned, err = inspected(stage, "plan")
    (blocked,) = planned["blocked"]
    assert (blocked["kind"], blocked["namespace"], blocked["reason"]) == ("v1/Secret", "target", "refused")
    assert "app/password" in blocked["message"]
    assert err == []
    done = ask(stage, "why", "secret/db", "-n", "target")
    assert (done.err, "app/password" in done.out) == ("", True)
    (source,) = inspected(stage, "status")[0]["sources"]
    assert {reason["reason"] for reason in source["reasons"]} == {"refused", "fetch-error"}


def test_a_fishysecret_that_no_operator_has_seen_is_reported_as_unreadable(fishy: Fishy, stage: Stage) -> None:
    fishy.configure()
    fishy.ask("db", {"password": "app/password"}, finalizers=(FINALIZER,))
    with out_of_reach(fishy):
        answer, err = inspected(stage, "status")
        planned, _ = inspected(stage, "plan")
    (source,) = answer["sources"]
    assert source["wanted"] == 1
    (blocked,) = planned["blocked"]
    assert (blocked["kind"], blocked["namespace"], blocked["reason"]) == ("v1/Secret", "target", "refused")
    assert "could not be read from here" in blocked["message"]
    assert len(err) == 1
    stage.api.patch(fishy.path("db"), {"metadata": {"finalizers": None}})


def test_a_fishysecret_without_its_finalizer_is_pending_and_wanted(fishy: Fishy, stage: Stage) -> None:
    fishy.put("app/password", f"{CANARY}-1")
    fishy.configure()
    fishy.ask("db", {"password": "app/password"})
    (source,) = inspected(stage, "status")[0]["sources"]
    assert (source["wanted"], source["pending"], source["right"]) == (1, 1, 0)
    done = ask(stage, "why", "secret/db", "-n", "target", "-o", "json")
    check("why", done.json)
    (answer,) = done.json["answers"]
    assert (done.json["wanted"], answer["wanted"], answer["blocked"]) == (True, True, None)
    assert "the finalizer comes before" in answer["rule"]
