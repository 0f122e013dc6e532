"""Whose an object is, where people and several vocabularies meet at one address, on the real server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import Stage, encoded
from tests.cluster.support.waiting import eventually

Json = dict[str, Any]
SYNC_TO = "openkruise.io/sync-to"
SYNCED_FROM = "openkruise.io/synced-from"
ORIGIN = "secret-copy/origin"
ADOPTED = "samara.dev/adopted"
SERVED: Json = {"vocabularies": {"secret-copy": {}, "sync-to": {"kinds": ["v1/Secret"]}}}


@pytest.fixture(autouse=True)
def _several_vocabularies(stage: Stage) -> None:
    stage.expect.home = "nobody"  # the oracles know Secret copy alone


def sync(stage: Stage, namespace: str = "team", name: str = "db", **data: str) -> None:
    """A source of sync-to, for the namespace `a`."""
    asked = {SYNC_TO: "namespaces", f"{SYNC_TO}-namespaces": "a"}
    stage.foreign(namespace, name, data or None, metadata={"annotations": asked})


def notes(stage: Stage, namespace: str, name: str = "db") -> dict[str, str]:
    live = stage.secret(namespace, name)
    return {} if live is None else dict(metadata_of(live))


def test_a_copy_that_outlived_its_source_becomes_the_copy_of_the_next_source_and_goes_with_it(stage: Stage) -> None:
    stage.namespace("team", "a")
    stage.source("db", "a")
    sync(stage)
    stage.operator(config=SERVED)
    eventually(lambda: notes(stage, "a").get(ORIGIN) == "admin/db")
    stage.api.delete(stage.path("admin", "db"))
    eventually(lambda: notes(stage, "a").get(SYNCED_FROM) == "team/db")
    assert {ADOPTED, ORIGIN}.isdisjoint(notes(stage, "a"))
    stage.api.delete(stage.path("team", "db"))
    stage.until_gone("a", "db")


@pytest.mark.parametrize("mark", [{ORIGIN: "admin/db"}, {SYNCED_FROM: "elsewhere/db"}], ids=["other", "own"])
def test_a_mark_pasted_onto_a_source_does_not_switch_it_off_and_is_reported(stage: Stage, mark: dict[str, str]) -> None:
    stage.namespace("team", "a")
    sync(stage)
    stage.operator(config=SERVED)
    eventually(lambda: notes(stage, "a").get(SYNCED_FROM) == "team/db")
    stage.annotate(stage.path("team", "db"), mark)
    assert "remove the marks" in stage.until_event("Invalid", "team", "db")["message"]
    stage.api.patch(stage.path("team", "db"), {"data": encoded({"new": "value"})})
    eventually(lambda: stage.data("a", "db") == stage.data("team", "db"))
    stage.annotate(stage.path("team", "db"), dict.fromkeys(mark))


def test_an_unknown_value_of_paused_pauses_and_is_reported_and_one_of_ignore_only_is_reported(stage: Stage) -> None:
    stage.namespace("team", "a")
    stage.annotate("/api/v1/namespaces/a", {"samara.dev/ignore": "yes"})
    sync(stage)
    stage.annotate(stage.path("team", "db"), {"samara.dev/paused": "yes"})
    stage.operator(config=SERVED)
    assert "it pauses" in stage.until_event("Invalid", "team", "db")["message"]
    assert "it is as if it were absent" in stage.until_event("Invalid", "default", "a")["message"]
    assert stage.secret("a", "db") is None
    stage.annotate(stage.path("team", "db"), {"samara.dev/paused": "false"})
    eventually(lambda: notes(stage, "a").get(SYNCED_FROM) == "team/db")


def test_an_identical_object_is_a_conflict_under_strict_tenancy(stage: Stage) -> None:
    stage.namespace("team", "a")
    stage.annotate("/api/v1/namespaces/a", {"samara.dev/accept-from": "team"})
    theirs = stage.foreign("a", "db", {"k": "v"})
    sync(stage, k="v")
    stage.operator(config={**SERVED, "tenancy": "strict"})
    assert "that is not ours" in stage.until_event("Conflict", "team", "db")["message"]
    assert stage.secret("a", "db") == theirs
