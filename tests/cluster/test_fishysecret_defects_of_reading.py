"""Defects 10–17 of the original in reading and reporting, which Samara does not have; each name has its number."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault, in_parallel
from tests.cluster.support.fishy import CONFIG, SELDOM, TARGET, Fishy
from tests.cluster.support.fishy_folder import CANARY, Folder
from tests.cluster.support.operators import STARTED
from tests.cluster.support.scripted_vault import TOKEN, Vault
from tests.cluster.support.stage import OWN, Stage
from tests.cluster.support.waiting import eventually

Json = dict[str, Any]
THEIRS = "example.com/held"
LONG = "a-name-of-many-words-" * 12 + "z"
"""A name of the maximum length, 253 characters."""


def test_defect_10_plain_text_goes_to_loopback_only(fishy: Fishy) -> None:
    fishy.configure("fishykeys.example.com:8090", token=f"{CANARY}-token")
    operator = fishy.serve()
    fishy.ask("db", {"A": "/a"})
    assert "in plain text" in fishy.until("db", "ConnectionError")
    assert not [name for name in operator.metrics() if name.startswith("samara_provider_calls_total{")]


def test_defect_11_many_slow_keys_are_read_and_each_path_once_for_all_readers(fishy: Fishy) -> None:
    documents = {f"app-{number}": {"value": f"{CANARY}-{number}"} for number in range(40)}
    items = {f"K{number}": f"app-{number}#value" for number in range(40)}
    with Vault(documents, slow=1.2) as vault:
        fishy.configure(vault.url, token=TOKEN)
        fishy.serve(refreshInterval=SELDOM)
        in_parallel(lambda number: fishy.ask(f"db-{number}", items), range(10))
        for number in range(10):
            fishy.until(f"db-{number}", deadline=30.0)
        assert sorted(document for _, document in vault.requests) == sorted(documents)
        assert 1 < vault.most <= 8
        assert fishy.data("db-9") == {key: f"{CANARY}-{key[1:]}" for key in items}


def test_many_fishysecrets_with_a_short_interval_do_not_delay_those_of_another_namespace(
    fishy: Fishy, stage: Stage
) -> None:
    """Their namespace needs thirty reads a second and gets thirteen: four at a time, 0.3 s each."""
    stage.namespace("other")
    documents = {f"app-{number}": {"value": f"{CANARY}-{number}"} for number in range(31)}
    with Vault(documents, slow=0.3) as vault:
        fishy.configure(vault.url, token=TOKEN)
        fishy.serve(refreshInterval="1s")
        in_parallel(lambda number: fishy.ask(f"db-{number}", {"K": f"app-{number}#value"}), range(30))
        eventually(lambda: len(vault.requests) > 20)
        began = time.monotonic()
        fishy.ask("db", {"K": "app-30#value"}, target="other/db", namespace="other")
        fishy.until("db", namespace="other", deadline=5.0)
        (first, *_) = times(vault, "app-30")
        assert first - began < 1.5
        assert fishy.data("db", "other") == {"K": f"{CANARY}-30"}
        vault.slow = 0.0
        for number in range(30):
            fishy.until(f"db-{number}")


def times(vault: Vault, document: str) -> list[float]:
    """The times of the requests for a document."""
    return [at for at, path in vault.requests if path == document]


def test_defect_12_a_forbidden_path_is_read_with_backoff_and_delays_no_other(fishy: Fishy) -> None:
    with Vault({"fine": {"A": f"{CANARY}-1"}, "not": {"A": f"{CANARY}-2"}}, codes={"not": 403}) as vault:
        fishy.configure(vault.url, token=TOKEN)
        fishy.serve()
        fishy.ask("fine", {"A": "fine#A"})
        fishy.ask("not", {"A": "not#A"})
        fishy.until("fine")
        assert "not" in fishy.until("not", "FetchError")
        began = vault.count("fine")
        eventually(lambda: vault.count("fine") >= began + 8)
        assert vault.count("not") <= 5  # after 1, 2, 4 and 8 seconds
        vault.codes = {}
        tried = times(vault, "not")
        fishy.change("not", suspend=False)
        fishy.until("not")
        again = times(vault, "not")[len(tried)]
        assert again - tried[-1] < 0.9 * 2.0 ** (len(tried) - 1), "by itself it would wait longer"
        vault.documents["fine"] = {"A": f"{CANARY}-3"}
        fishy.until_data("fine", {"A": f"{CANARY}-3"})


@pytest.mark.parametrize("key", ["", "a b", "ä", "a/b", "x" * 254, ".."])
def test_defect_13_an_illegal_key_is_refused_on_write(fishy: Fishy, key: str) -> None:
    with pytest.raises(ApiFault, match="secretKeyName") as refused:
        fishy.ask("db", {key: "a"})
    assert refused.value.status == 422


def test_defect_14_a_changed_configuration_is_noticed_at_once(fishy: Fishy, stage: Stage) -> None:
    fishy.served({"A": "a"}, refreshInterval=SELDOM)
    other = Folder(stage.folder / "other")
    other.put("a", f"{CANARY}-other")
    fishy.configure(other.url)
    fishy.until_data("db", {"A": f"{CANARY}-other"})
    stage.api.delete(stage.path(OWN, CONFIG))
    fishy.until("db", "TokenError")
    assert fishy.data("db") == {"A": f"{CANARY}-other"}


def test_defect_15_unrelated_secrets_take_no_memory(fishy: Fishy, stage: Stage) -> None:
    operator = fishy.served({"A": "a"}, refreshInterval=SELDOM, program=STARTED)
    operator.stop()
    operator.start().synced()
    alone = operator.memory()
    operator.stop()
    large = "x" * 500_000
    in_parallel(lambda number: stage.foreign("default", f"large-{number}", {"k": large}), range(100))
    operator.start().synced()
    assert operator.memory() - alone < 25_000_000  # of 50 MB, half as much again when encoded


def test_defect_16_a_missing_target_namespace_is_reported_and_waited_for(fishy: Fishy, stage: Stage) -> None:
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    fishy.serve(refreshInterval=SELDOM)
    fishy.ask("db", {"A": "a"}, "later/db")
    assert "later" in fishy.until("db", "NoNamespace")
    stage.namespace("later")
    fishy.until("db")
    assert fishy.data("db", "later") == {"A": f"{CANARY}-1"}


def test_defect_17_an_optional_key_is_omitted_once_it_is_confirmed_absent_and_added_when_it_exists(
    fishy: Fishy,
) -> None:
    fishy.served({"A": "a", "B": "b"})
    fishy.items("db", {"A": "a", "B": "b"}, optional=("B",))
    fishy.folder.lose("b")
    fishy.until_data("db", {"A": f"{CANARY}-a"})
    fishy.until("db")
    fishy.put("b", f"{CANARY}-2")
    fishy.until_data("db", {"A": f"{CANARY}-a", "B": f"{CANARY}-2"})


def test_defect_17_a_long_interval_of_one_reader_does_not_delay_the_omission_of_a_key_for_another(
    fishy: Fishy, stage: Stage
) -> None:
    stage.namespace("elsewhere")
    fishy.put("a", f"{CANARY}-a")
    fishy.configure()
    operator = fishy.serve()
    fishy.ask("patient", {"B": "b"}, namespace="elsewhere", refreshInterval="999999h")
    fishy.until("patient", "FetchError", namespace="elsewhere")
    needed, other = {"secretKeyName": "A", "secretPath": "a"}, {"secretKeyName": "B", "secretPath": "b"}
    fishy.ask("db", {}, data=[needed, {**other, "optional": True}])
    fishy.until("db")
    assert fishy.data("db") == {"A": f"{CANARY}-a"}
    before = fishy.calls(operator, "absent")
    eventually(lambda: fishy.calls(operator, "absent") >= before + 6)  # once a second, without backoff
    fishy.put("b", f"{CANARY}-b")
    fishy.until_data("db", {"A": f"{CANARY}-a", "B": f"{CANARY}-b"})


def test_defect_17_the_type_can_be_chosen_and_changed(fishy: Fishy, stage: Stage) -> None:
    fishy.put("user", "somebody")
    fishy.put("pass", f"{CANARY}-1")
    fishy.configure()
    fishy.serve()
    fishy.ask("db", {"username": "user", "password": "pass"}, of={"type": "kubernetes.io/basic-auth"})
    fishy.until("db")
    assert (stage.secret(TARGET, "db") or {})["type"] == "kubernetes.io/basic-auth"
    fishy.change("db", target={"type": "Opaque"})
    eventually(lambda: (stage.secret(TARGET, "db") or {}).get("type") == "Opaque")
