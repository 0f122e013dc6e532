"""Rows 31–35 and 37 of the fault catalogue: the operator is killed, suspended, duplicated, blocked, or starts large."""

from __future__ import annotations

import base64
import json
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.cluster.support.faults import delayed, late, stalled
from tests.cluster.support.operators import SHORT, STARTED, Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.proxy import Proxy, Seen
from tests.cluster.support.stage import OWN, SECOND, Stage, decoded, encoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/samara"
DELETES: Json = {
    "vocabularies": {"secret-copy": {"onSourceGone": "delete"}},
    "massDelete": None,
    "sourceGoneAfter": "0",
}
ONE_BY_ONE: Json = {**DELETES, "writes": {"inFlight": 1}}
CRASHED = 137


# 31


def before_the_crash(stage: Stage) -> None:
    """Copies in all states, and a change for each while no operator runs: eight writes are due."""
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b", "c")
    mine = {"username": "u", "password": "p"}
    for name, targets in (("changed", "a"), ("moved", "a"), ("gone", "a"), ("typed", "a"), ("edited", "a")):
        stage.source(name, targets, mine)
    adopted = stage.source("adopted", "b", mine)
    stage.foreign("b", "adopted", decoded(adopted))
    stage.operator(config=DELETES).stop()
    stage.bump("changed")  # update
    stage.retarget("moved", "c")  # delete and create
    stage.api.delete(stage.path("admin", "gone"))  # delete
    stage.api.delete(stage.path("admin", "typed"))
    stage.source("typed", "a", mine, type="kubernetes.io/basic-auth")  # recreate
    stage.api.patch(stage.path("a", "edited"), {"data": encoded({"n": "0"})})  # update
    stage.retarget("adopted", ",")  # release
    stage.source("new", "b")  # create


def end_state(stage: Stage) -> dict[str, Any]:
    """The state that O3 compares: every Secret outside the home namespace, without fields that differ between runs."""
    return {
        f"{secret['metadata']['namespace']}/{secret['metadata']['name']}": (
            secret["type"],
            sorted(decoded(secret)),
            metadata_of(secret),
            metadata_of(secret, "labels"),
        )
        for secret in stage.api.items("/api/v1/secrets")
        if secret["metadata"]["namespace"] != "admin"
    }


AFTER = {
    "a/changed": ("Opaque", "admin/changed"),
    "c/moved": ("Opaque", "admin/moved"),
    "a/typed": ("kubernetes.io/basic-auth", "admin/typed"),
    "a/edited": ("Opaque", "admin/edited"),
    "b/new": ("Opaque", "admin/new"),
    "b/adopted": ("Opaque", None),
}
"""The end of the scenario without a fault: O3."""


def is_as_without_the_fault(stage: Stage) -> bool:
    state = {
        address: (type_, marks.get("secret-copy/origin")) for address, (type_, _, marks, _) in end_state(stage).items()
    }
    return state == AFTER


def test_fault_31_the_scenario_of_the_sweep_has_eight_writes(stage: Stage) -> None:
    before_the_crash(stage)
    mark = stage.audit.mark()
    stage.operator(config=ONE_BY_ONE)
    eventually(lambda: is_as_without_the_fault(stage))
    verbs = sorted(event.verb for event in stage.audit.writes(mark))
    expected = ["create"] * 3 + ["delete"] * 3 + ["patch"] + ["update"] * 2
    assert verbs == expected, "nine requests: the recreate takes two"


@pytest.mark.parametrize(
    "point",
    [
        *(f"before-write:{number}" for number in range(1, 9)),
        *(f"after-write:{number}" for number in range(1, 9)),
        "within-recreate:1",
    ],
)
def test_fault_31_a_crash_at_every_pair_of_writes_leaves_nothing_wrong(stage: Stage, point: str) -> None:
    before_the_crash(stage)
    crashed = stage.operator(config=ONE_BY_ONE, env={"SAMARA_CRASH_AT": point}, wait="started")
    assert crashed.wait() == CRASHED
    assert not is_as_without_the_fault(stage) or point == "after-write:8"
    stage.operator(config=ONE_BY_ONE)
    eventually(lambda: is_as_without_the_fault(stage))


def test_fault_31_sigkill_in_the_middle_of_a_fan_out_loses_nothing(stage: Stage) -> None:
    """Kills an operator with sixteen writes in flight, three times in a row."""
    names = [f"t{number:02}" for number in range(60)]
    stage.namespace(*names)
    stage.source("db", "")
    for least in (5, 20, 40):
        mark = stage.audit.mark()
        running = stage.operator(wait="started")
        eventually(lambda start=mark, many=least: len(stage.audit.writes(start)) >= many, every=0.001)  # type: ignore[misc]
        running.kill()
        stage.bump("db")
    stage.operator()


# 32


def test_fault_32_sigkill_during_the_startup_list(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator().stop()
    stage.bump("db")
    proxy = stage.proxy()
    rule = proxy.on_event(lambda seen, event: seen.plural == "secrets", late(30), times=1, skip=1)
    mark = stage.audit.mark()
    killed = stage.operator(through=proxy, wait="started")
    eventually(lambda: rule.hits)
    eventually(lambda: killed.answer("/readyz")[0] == 503)
    killed.kill()
    assert not stage.audit.writes(mark), "half a list is no list"
    stage.operator()


def is_copy(seen: Seen) -> bool:
    return seen.writes and seen.plural == "secrets"


def test_fault_32_sigkill_during_the_shutdown(stage: Stage) -> None:
    stage.namespace("a", "b", "c")
    proxy = stage.proxy()
    proxy.on_request(is_copy, stalled)
    killed = stage.operator(through=proxy)
    stage.source("db", "a,b,c")
    eventually(lambda: proxy.requests(is_copy))
    killed.signal(signal.SIGTERM)
    eventually(lambda: "stopping" in killed.log)
    killed.kill()
    stage.bump("db")
    stage.operator()


def test_fault_32_sigkill_during_the_release_of_the_lease(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = stage.proxy()
    killed = stage.operator("--leader-elect", config=SHORT, through=proxy)
    stage.until_copied("db", "a")
    rule = proxy.on_request(
        lambda seen: seen.plural == "leases" and b'"holderIdentity":""' in seen.body.replace(b" ", b""), stalled
    )
    killed.signal(signal.SIGTERM)
    eventually(lambda: rule.hits)
    killed.kill()
    stage.bump("db")
    following = stage.operator("--leader-elect", config=SHORT, wait="ready")
    eventually(lambda: following.leads)
    stage.until_copied("db", "a")


# 33


def pair(stage: Stage, proxy: Proxy, config: Json | None = None) -> tuple[Operator, Operator]:
    """A leader behind the proxy, and a standby with another user. The Lease is short."""
    lasting = {**SHORT, **(config or {})}
    leader = stage.operator("--leader-elect", through=proxy, config=lasting)
    eventually(lambda: leader.leads)
    standby = stage.operator("--leader-elect", kubeconfig=stage.kubeconfig(SECOND), config=lasting, wait="ready")
    return leader, standby


def test_fault_33_a_leader_that_was_suspended_beyond_its_lease_makes_no_stale_write_and_ends(stage: Stage) -> None:
    """The leader is stopped during a fan-out, with planned updates and some in flight."""
    names = [f"t{number:02}" for number in range(40)]
    stage.namespace(*names)
    stage.source("db", "")
    proxy = stage.proxy()
    leader, standby = pair(stage, proxy, {"writes": {"inFlight": 4}})
    stage.until_copied("db", *names)
    slow = proxy.on_request(is_copy, delayed(0.3))
    stage.bump("db")
    eventually(lambda: slow.hits >= 4)
    proxy.freeze("secrets")  # after SIGCONT its cache is stale too: only its own clock prevents writes
    leader.pause()
    eventually(lambda: standby.leads)
    stage.bump("db")
    stage.api.delete(stage.path(names[39], "db"))
    stage.until_copied("db", *names)
    proxy.rules = []  # its requests pass again; its watch stays frozen
    woken = time.monotonic()
    leader.resume()
    assert leader.wait() != 0, "the old leader ends; it does not limp on"
    sent = proxy.requests(lambda seen: is_copy(seen) and seen.at >= woken)
    assert not sent, "after its deadline nothing is even sent: a create could not be conditional"
    assert standby.leads


# 34


def test_fault_34_a_deleted_lease_is_recreated_by_the_leader(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    leader, standby = pair(stage, stage.proxy())
    stage.api.delete(LEASE)
    eventually(lambda: stage.api.find(LEASE))
    eventually(lambda: leader.leads != standby.leads)
    stage.bump("db")
    stage.until_copied("db", "a")
    never(lambda: leader.leads and standby.leads, 1.0)


def test_fault_34_a_lease_that_another_holder_has_taken_ends_the_leader_at_once(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    leader = stage.operator("--leader-elect")
    stage.until_copied("db", "a")
    stage.api.patch(LEASE, {"spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 2}})
    assert leader.wait() not in (0, None)
    mark = stage.audit.mark()
    stage.bump("db")
    following = stage.operator("--leader-elect", wait="ready")
    assert not [event for event in stage.audit.writes(mark) if not following.leads]
    eventually(lambda: following.leads)
    stage.until_copied("db", "a")


def test_fault_34_when_only_renewals_hang_the_leader_ends_before_another_writes(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    proxy = stage.proxy()
    leader, standby = pair(stage, proxy)
    stage.until_copied("db", "a", "b")
    proxy.on_request(lambda seen: seen.plural == "leases", stalled)
    began = time.monotonic()
    while leader.running:  # its source keeps changing, so that it would write if it could
        stage.bump("db")
        assert time.monotonic() - began < 20, "the leader did not end"
    assert leader.exit_code not in (0, None)
    eventually(lambda: standby.leads)
    stage.until_copied("db", "a", "b")
    by_leader = [event.answered for event in stage.audit.writes() if event.user != SECOND]
    by_standby = [event.received for event in stage.audit.writes() if event.user == SECOND]
    assert by_standby
    assert max(by_leader) < min(by_standby), "at most one writer"


# 35


def test_fault_35_a_blocked_event_loop_is_ended_by_the_watchdog_and_a_standby_takes_over(stage: Stage) -> None:
    stage.namespace("a", "b")
    blocked = stage.operator("--leader-elect", config=SHORT, env={"SAMARA_BLOCK_AT": "after-write:1"})
    standby = stage.operator("--leader-elect", kubeconfig=stage.kubeconfig(SECOND), config=SHORT, wait="ready")
    eventually(lambda: blocked.leads)
    stage.source("db", "a,b")
    eventually(lambda: standby.leads)
    stage.until_copied("db", "a", "b")
    assert blocked.wait(40) == 70
    assert "stood still" in blocked.log


# 37


def unrelated(stage: Stage, many: int, size: int) -> None:
    """Unrelated Secrets, written directly to etcd, because the API server would take minutes."""
    value = base64.b64encode(b"x" * size).decode()
    names = [f"unrelated-{number:06}" for number in range(many)]
    for first in range(0, many, 100):
        operations = [{"requestPut": stored(name, value)} for name in names[first : first + 100]]
        stage.cluster.etcd_call("/v3/kv/txn", {"success": operations})


def stored(name: str, value: str) -> Json:
    meta = {
        "name": name,
        "namespace": "bulk",
        "uid": f"00000000-0000-4000-8000-{int(name[-6:]):012d}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": {"v": value}}
    key = f"/registry/secrets/bulk/{name}".encode()
    return {"key": base64.b64encode(key).decode(), "value": base64.b64encode(json.dumps(secret).encode()).decode()}


def test_fault_37_a_start_among_many_large_unrelated_objects_streams_them_and_keeps_its_memory(
    stage: Stage, measured: Callable[[str, float], None]
) -> None:
    """8,000 Secrets of 10 KiB: more than 100 MB on the wire."""
    stage.namespace("bulk", "a")
    stage.source("db", "a")
    first = stage.operator(program=STARTED)
    alone = first.memory_peak()
    first.stop()
    unrelated(stage, 8000, 10_000)
    second = stage.operator(program=STARTED)
    assert f"passed={8000}" in second.log
    grown = second.memory_peak() - alone
    measured("growth of the peak in MiB among 8,000 Secrets of 10 KiB:", grown / 2**20)
    assert grown < 24 * 2**20, f"the peak grew by {grown / 2**20:.1f} MiB"
    stage.bump("db")
    stage.until_copied("db", "a")
    stage.forget("secrets/bulk/")  # the oracles would list all these Secrets repeatedly
    eventually(lambda: not stage.api.items("/api/v1/namespaces/bulk/secrets", limit="1"))
