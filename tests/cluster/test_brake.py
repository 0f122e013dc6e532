"""The brake against mass deletion, and row 44 of the fault catalogue as far as a selector can cause it.

The limits in these tests: more than 5 deletes and more than 30 % of the copies of a source.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli import program
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import OWN, Stage
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
KEY = "secret-copy/Secret/admin/db"
EIGHT = tuple(f"t{number}" for number in range(8))
HOLDS = f"/api/v1/namespaces/{OWN}/configmaps/samara-holds"


def held(stage: Stage) -> dict[str, Json]:
    """The content of the ConfigMap, by key."""
    holds = stage.api.find(HOLDS) or {}
    return {entry["key"]: entry for entry in map(json.loads, (holds.get("data") or {}).values())}


def filled(stage: Stage, config: Json | None = None) -> None:
    """One source with a copy in each of eight namespaces, and an operator that made them."""
    stage.namespace(*EIGHT)
    stage.source("db", ",".join(EIGHT))
    stage.operator(config=config)
    stage.until_copied("db", *EIGHT)


def everything_is_there(stage: Stage) -> bool:
    return all(stage.secret(namespace, "db") is not None for namespace in EIGHT)


def is_released(stage: Stage, namespace: str) -> bool:
    return metadata_of(stage.secret(namespace, "db") or {"metadata": {}}).get("samara.dev/released") == "true"


def brake(**changes: Any) -> Json:
    return {"massDelete": changes}


def samara(stage: Stage, *words: str) -> str:
    """A command of the program, as an administrator would type it."""
    everywhere = ("-A",) if words[0] in ("status", "plan") else ()  # else -n would select the objects
    done = program.samara(*words, f"--kubeconfig={stage.cluster.kubeconfig}", "-n", OWN, *everywhere)
    assert done.code == 0, done.err
    return done.out


def shrink(stage: Stage) -> None:
    """Seven of eight copies are no longer wanted, which is over the limit of the brake."""
    stage.retarget("db", EIGHT[0])
    stage.expect.kept = {(namespace, "db") for namespace in EIGHT[1:]}
    eventually(lambda: held(stage).get(KEY, {}).get("count") == 7)


def test_too_many_deletes_are_held_and_reported_everywhere(stage: Stage) -> None:
    filled(stage)
    mark = stage.audit.mark()
    shrink(stage)
    operator = stage.operators[0]
    assert operator.metrics()["samara_mass_delete_held"] == 7
    event = stage.until_event("Held", about="db")
    assert f"`samara release {KEY}`" in event["message"]
    assert held(stage)[KEY]["until"] == "forever"
    assert "`samara release KEY`" in samara(stage, "status")
    assert not stage.audit.writes(mark), "nothing is deleted while it is held"


def test_a_few_deletes_are_not_held(stage: Stage) -> None:
    filled(stage)
    stage.retarget("db", ",".join(EIGHT[:4]))
    for namespace in EIGHT[4:]:
        stage.until_gone(namespace, "db")
    assert not held(stage)


def test_deletes_are_counted_across_plans(stage: Stage) -> None:
    """Four go, then three more: the sum is over the limit, so the three are held."""
    filled(stage)
    stage.retarget("db", ",".join(EIGHT[:4]))
    for namespace in EIGHT[4:]:
        stage.until_gone(namespace, "db")
    stage.retarget("db", EIGHT[0])
    stage.expect.kept = {(namespace, "db") for namespace in EIGHT[1:4]}
    eventually(lambda: held(stage).get(KEY, {}).get("count") == 3)
    assert all(stage.secret(namespace, "db") for namespace in EIGHT[:4])


def test_creates_and_updates_continue_while_removals_are_held(stage: Stage) -> None:
    filled(stage)
    shrink(stage)
    stage.namespace("new")
    stage.source("other", "new")
    stage.retarget("db", f"{EIGHT[0]},new")
    stage.bump("db")
    stage.until_copied("db", EIGHT[0], "new")
    stage.until_copied("other", "new")
    assert everything_is_there(stage)


def test_restoring_the_selector_ends_the_hold_with_nothing_lost(stage: Stage) -> None:
    filled(stage)
    uids = {namespace: (stage.secret(namespace, "db") or {})["metadata"]["uid"] for namespace in EIGHT}
    shrink(stage)
    stage.expect.kept = set()
    stage.retarget("db", ",".join(EIGHT))
    eventually(lambda: not held(stage))
    assert {namespace: (stage.secret(namespace, "db") or {})["metadata"]["uid"] for namespace in EIGHT} == uids
    assert stage.operators[0].metrics()["samara_mass_delete_held"] == 0


def test_restoring_a_deleted_source_ends_the_hold_with_nothing_lost(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    filled(stage, {"vocabularies": {"secret-copy": {"onSourceGone": "delete"}}})
    stage.api.delete(stage.path("admin", "db"))
    eventually(lambda: held(stage).get(KEY, {}).get("count") == 8)
    event = stage.until_event("Held", namespace="default", about="admin")
    assert event["involvedObject"]["kind"] == "Namespace", "the source is gone, so its namespace is told"
    assert everything_is_there(stage)
    stage.source("db", ",".join(EIGHT))
    stage.until_copied("db", *EIGHT)
    eventually(lambda: not held(stage))
    assert not [event for event in stage.audit.writes() if event.verb == "delete"]


def test_a_release_executes_the_held_removals(stage: Stage) -> None:
    filled(stage)
    shrink(stage)
    stage.expect.kept = set()
    assert KEY in samara(stage, "status")
    samara(stage, "release", KEY)
    for namespace in EIGHT[1:]:
        stage.until_gone(namespace, "db")
    assert stage.has_copy(EIGHT[0], "db")
    eventually(lambda: not held(stage))


def test_a_release_applies_only_to_the_removals_held_at_that_time(stage: Stage) -> None:
    """The hold is released while the operator is down, and the last name is removed from the list meanwhile."""
    filled(stage)
    shrink(stage)
    stage.operators[0].kill()
    samara(stage, "release", KEY)
    stage.retarget("db", ",")
    stage.expect.kept = {(namespace, "db") for namespace in EIGHT}
    stage.operator()
    eventually(lambda: held(stage).get(KEY, {}).get("count") == 8)
    assert everything_is_there(stage)


def test_discard_keeps_the_copies_as_orphans(stage: Stage) -> None:
    filled(stage)
    shrink(stage)
    samara(stage, "release", "--discard", KEY)
    eventually(lambda: not held(stage))
    assert everything_is_there(stage)
    eventually(lambda: all(is_released(stage, namespace) for namespace in EIGHT[1:]))
    stage.bump("db")
    stage.until_copied("db", EIGHT[0])
    assert everything_is_there(stage)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_holds_again_and_deletes_nothing(stage: Stage, how: str) -> None:
    filled(stage)
    shrink(stage)
    stage.operators[0].stop() if how == "stopped" else stage.operators[0].kill()
    mark = stage.audit.mark()
    again = stage.operator()
    eventually(lambda: again.metrics()["samara_mass_delete_held"] == 7)
    assert KEY in held(stage)
    never(lambda: stage.audit.writes(mark), 1.0)


def test_a_restart_starts_the_hold_time_again_and_never_shortens_it(stage: Stage) -> None:
    """The removals are held for 4 s. The operator is down for that time and still waits 4 s after its start."""
    filled(stage, brake(hold="4s"))
    shrink(stage)
    until = held(stage)[KEY]["until"]
    stage.operators[0].kill()
    again = stage.operator(config=brake(hold="4s"))
    eventually(lambda: held(stage).get(KEY, {}).get("until", until) > until)
    assert again.metrics()["samara_mass_delete_held"] == 7
    stage.expect.kept = set()
    stage.until_gone(EIGHT[7], "db")


def test_the_removals_continue_after_the_hold_time(stage: Stage) -> None:
    filled(stage, brake(hold="4s"))
    shrink(stage)
    assert everything_is_there(stage)
    stage.expect.kept = set()
    for namespace in EIGHT[1:]:
        stage.until_gone(namespace, "db")
    eventually(lambda: not held(stage))


def test_held_removals_wait_for_the_release_by_default(stage: Stage) -> None:
    filled(stage)
    shrink(stage)
    assert held(stage)[KEY]["until"] == "forever"
    never(lambda: not everything_is_there(stage), 2.0)
    stage.expect.kept = set()
    samara(stage, "release", KEY)
    stage.until_gone(EIGHT[7], "db")


def test_the_sum_over_all_sources_of_a_namespace_is_braked_too(stage: Stage) -> None:
    """Eight sources with one copy each: none alone is over the limit, together they are."""
    stage.namespace("a")
    names = [f"s{number}" for number in range(8)]
    for name in names:
        stage.source(name, "a")
    operator = stage.operator()
    for name in names:
        stage.until_copied(name, "a")
    for name in names:
        stage.retarget(name, ",")
    eventually(lambda: operator.metrics()["samara_mass_delete_held"] == 3)
    kept = {key.rpartition("/")[2] for key in eventually(lambda: held(stage) if len(held(stage)) == 3 else {})}
    stage.expect.kept = {("a", name) for name in kept}
    assert all(stage.secret("a", name) is not None for name in kept)


def test_copies_in_terminating_namespaces_do_not_count(stage: Stage) -> None:
    """Eight namespaces terminate and one copy is no longer wanted: nothing is held."""
    filled(stage)
    stage.namespace("a", "b")
    stage.source("other", ",".join(("a", "b", *EIGHT)))
    stage.until_copied("other", "a", "b", *EIGHT)
    for namespace in EIGHT:
        stage.api.delete(f"/api/v1/namespaces/{namespace}")
        stage.api.gone(f"/api/v1/namespaces/{namespace}/secrets")
    stage.retarget("other", "a")
    stage.until_gone("b", "other")
    assert not held(stage)


def test_marks_that_are_not_ours_never_count_and_are_never_held(stage: Stage) -> None:
    stage.namespace(*EIGHT, "a", "b")
    for namespace in EIGHT:
        stage.foreign(namespace, "db", metadata={"annotations": {"secret-copy/origin": "admin/db"}})
    stage.source("db", "a,b")
    stage.operator()
    stage.until_copied("db", "a", "b")
    stage.retarget("db", "a")
    stage.until_gone("b", "db")
    assert not held(stage)
    assert everything_is_there(stage)


def test_forged_copies_neither_hold_the_deletions_of_others_nor_fill_the_list(stage: Stage) -> None:
    """A tenant forges copies of another tenant's sources in its own namespace, as the field manager `samara`."""
    stage.expect.overwrite = True  # managedFields say that we made the forgeries, so they are deleted
    stage.namespace(*EIGHT, "team", "mine")
    stage.operator(config={"vocabularies": {"sync-to": {"kinds": ["v1/Secret"]}}})
    asked = {"openkruise.io/sync-to": "namespaces", "openkruise.io/sync-to-namespaces": ";".join(EIGHT)}
    stage.foreign("team", "db", metadata={"annotations": asked})
    for name in EIGHT:
        eventually(lambda where=name: stage.secret(where, "db") is not None)  # type: ignore[misc]
    forged = [f"forged-{number}" for number in range(20)]
    for name in forged:
        body = {"metadata": {"name": name, "annotations": {"openkruise.io/synced-from": f"team/{name}"}}}
        stage.api.create("/api/v1/namespaces/mine/secrets", body, fieldManager="samara")
    for name in forged:
        stage.until_gone("mine", name)
    assert not held(stage)
    stage.annotate(stage.path("team", "db"), {"openkruise.io/sync-to-namespaces": ";".join(EIGHT[4:])})
    for name in EIGHT[:4]:
        stage.until_gone(name, "db")
    assert not held(stage)


def test_massdelete_null_switches_the_brake_off(stage: Stage) -> None:
    filled(stage, {"massDelete": None})
    stage.retarget("db", EIGHT[0])
    for namespace in EIGHT[1:]:
        stage.until_gone(namespace, "db")
    assert not held(stage)
