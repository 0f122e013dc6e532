"""Invalid FishySecrets, paths, values and configurations are refused or reported in a condition."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.cli.program import samara
from tests.cluster.support.api import ApiFault
from tests.cluster.support.fishy import (
    SELDOM,
    SETTLED,
    TARGET,
    TEAM,
    Fishy,
    manifest,
)
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
MIB = 1024 * 1024
ITEM = {"secretPath": "a", "secretKeyName": "A"}


def spec(**changes: Any) -> Json:
    return {"target": {"name": "db", "namespace": TARGET}, "data": [ITEM], **changes}


# Refused by the server


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "spec"),
        ({}, "spec"),
        (spec(data=[]), "data"),
        (spec(data=[ITEM, {**ITEM, "secretPath": "b"}]), "secretKeyName"),
        (spec(data=[{**ITEM, "secretPath": ""}]), "secretPath"),
        (spec(target={"name": "", "namespace": TARGET}), "name"),
        (spec(target={"name": "Upper", "namespace": TARGET}), "name"),
        (spec(target={"name": "x" * 254, "namespace": TARGET}), "name"),
        (spec(target={"name": "db", "namespace": "x" * 64}), "namespace"),
        (spec(target={"name": "db", "namespace": "a.b"}), "namespace"),
        (spec(refreshInterval="often"), "refreshInterval"),
        (spec(refreshInterval="0s"), "refreshInterval"),
        (spec(suspend="maybe"), "suspend"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_spec_is_refused_on_write(fishy: Fishy, wrong: Json | None, message: str) -> None:
    with pytest.raises(ApiFault, match=message) as refused:
        fishy.api.create(fishy.path(), manifest("db", wrong))
    assert refused.value.status == 422


def test_unknown_fields_of_the_sample_are_dropped(fishy: Fishy) -> None:
    made = fishy.api.create(fishy.path(), manifest("db", spec(token="t", server="s")))
    assert set(made["spec"]) <= {"target", "data", "refreshInterval", "suspend"}


# Paths


PATHS = ["../outside", "a/../../outside", "a//b", "a/", "%2e%2e/outside", "a?b", "a\\b", "a#b#c", "a#", "/", "a\nb"]


@pytest.mark.parametrize("path", PATHS)
def test_an_illegal_path_is_refused_on_write(fishy: Fishy, path: str) -> None:
    with pytest.raises(ApiFault, match="secretPath") as refused:
        fishy.ask("db", {"A": path})
    assert refused.value.status == 422


def test_a_path_out_of_the_store_is_not_followed(fishy: Fishy, stage: Stage) -> None:
    fishy.folder.forbid("link")
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {"A": "link"})
    assert "link" in fishy.until("db", "FetchError")
    assert fishy.data("db") is None


# Values


def test_fault_50_a_binary_value_arrives_byte_by_byte_and_nothing_in_a_value_is_interpreted(
    fishy: Fishy, stage: Stage
) -> None:
    raw = {"B": bytes(range(256)), "T": b"{{ .Values.x }} ${HOME} %(x)s \x00\n", "E": b""}
    for key, value in raw.items():
        fishy.put(key.lower(), value)
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {key: key.lower() for key in raw})
    fishy.until("db")
    secret = stage.secret(TARGET, "db")
    assert secret is not None
    assert {key: base64.b64decode(value) for key, value in secret["data"].items()} == raw


def test_fault_50_a_value_of_more_than_a_mebibyte_is_refused_and_the_last_good_one_stays(fishy: Fishy) -> None:
    operator = fishy.served({"A": "a"})
    before = fishy.version("db")
    fishy.put("a", b"x" * (MIB + 1))
    assert "1048576" in fishy.until("db", "FetchError").replace(",", "")
    assert fishy.version("db") == before
    fishy.put("a", f"{CANARY}-2")
    fishy.until_data("db", {"A": f"{CANARY}-2"})
    assert operator.running


def test_fault_50_values_that_are_too_large_together_are_reported_and_the_last_good_secret_stays(
    fishy: Fishy, stage: Stage
) -> None:
    fishy.served({"A": "a", "B": "b"})
    before = fishy.version("db")
    fishy.put("b", b"x" * MIB)  # the maximum size of one value
    assert "1,048,576 bytes together" in fishy.until("db", "Invalid")
    assert fishy.version("db") == before
    fishy.put("b", "small")
    fishy.until_data("db", {"A": f"{CANARY}-a", "B": "small"})
    fishy.until("db")


# Targets


def test_a_target_in_a_terminating_namespace_is_reported_and_created_when_the_namespace_is_recreated(
    fishy: Fishy, stage: Stage
) -> None:
    stage.namespace("going")
    stage.api.create(
        "/api/v1/namespaces/going/configmaps", {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    )
    stage.api.delete("/api/v1/namespaces/going")
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    fishy.serve(refreshInterval=SELDOM)
    fishy.ask("db", {"A": "a"}, "going/db")
    assert "going" in fishy.until("db", "NoNamespace")
    stage.api.patch("/api/v1/namespaces/going/configmaps/held", {"metadata": {"finalizers": None}})
    eventually(lambda: stage.api.find("/api/v1/namespaces/going") is None, 60.0)
    stage.namespace("going")
    fishy.until("db")
    assert fishy.data("db", "going") == {"A": f"{CANARY}-1"}


def test_a_fishysecret_whose_target_namespace_is_deleted_can_be_deleted(fishy: Fishy, stage: Stage) -> None:
    stage.namespace("going")
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {"A": "a"}, "going/db")
    fishy.until("db")
    stage.api.delete("/api/v1/namespaces/going")
    eventually(lambda: stage.api.find("/api/v1/namespaces/going") is None, 60.0)
    fishy.until("db", "NoNamespace")
    fishy.let_go("db")
    fishy.until_gone("db")


# Configurations


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("gopher://host:70/x", "gopher"),
        ("fishykeys://secrets.example.com:8090", "in plain text"),
        ("vault+http://vault.example.com:8200/kv", "vault+https"),
        (f"vault+https://user:{CANARY}@127.0.0.1:8200/kv", "credentials"),
        (f"{CANARY}:{CANARY}@127.0.0.1:8090", "credentials"),
        ("file://relative/dir", "absolute"),
        ("file:///proc", "/proc"),
        ("file:///var/run/secrets/x", "/var/run/secrets"),
        ("vault+https://", "host"),
        ("kube://", "namespace"),
        ("http://127.0.0.1:80/", "http"),
        ("\n\n", ""),
    ],
    ids=lambda secret: "",
)
def test_an_invalid_url_is_reported_without_its_credentials(fishy: Fishy, url: str, message: str) -> None:
    fishy.configure(url, token=f"{CANARY}-token")
    operator = fishy.serve(refreshInterval=SELDOM)
    fishy.ask("db", {"A": "a"})
    eventually(lambda: fishy.reason("db"))
    assert fishy.reason("db") == ("ConnectionError" if message else "TokenError")
    assert message in fishy.ready("db")["message"]
    assert CANARY not in fishy.ready("db")["message"]
    assert fishy.data("db") is None
    assert operator.answer("/readyz")[0] == 200  # others are served meanwhile


def test_an_invalid_configuration_deletes_nothing_and_a_corrected_one_recovers(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"}, refreshInterval=SELDOM)
    fishy.configure("gopher://host:70/x")
    fishy.until("db", "ConnectionError")
    assert fishy.data("db") == {"A": f"{CANARY}-a"}
    fishy.configure_exactly({"url": base64.b64encode(b"\xff\xfe").decode()})
    never(lambda: fishy.data("db") != {"A": f"{CANARY}-a"}, SETTLED)
    fishy.configure()
    fishy.until("db")


# Output of the commands


def test_the_commands_name_the_path_that_failed_and_show_no_value(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a", "B": "b"})
    fishy.folder.lose("b")
    fishy.until("db", "FetchError")
    settings = stage.folder / "settings.yaml"
    settings.write_text("vocabularies: {fishysecret: {}}")
    flags = (f"--kubeconfig={stage.cluster.kubeconfig}", f"--config={settings}")
    status = samara("status", *flags, "-A", "-o", "json")
    why = samara("why", "secret/db", *flags, "-n", TARGET)
    plan = samara("plan", *flags, "-A", "--diff")
    for done in (status, why, plan):
        assert done.code == 0, done.err
        assert CANARY not in done.out + done.err
        assert "Traceback" not in done.err
        assert "store." not in done.err  # the log format of the operator is not for terminals
    (source,) = status.json["sources"]
    assert (source["vocabulary"], source["namespace"], source["name"]) == ("fishysecret", TEAM, "db")
    assert f"{TEAM}/db" in why.out
