"""Signals, the lease and the standby: specs/operator.md §1."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from tests.cluster.faults import delayed
from tests.cluster.operators import Operator
from tests.cluster.proxy import Seen
from tests.cluster.stage import OWN, Stage
from tests.cluster.waiting import eventually

Json = dict[str, Any]
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/samara"


def copy_is_posted(seen: Seen) -> bool:
    return seen.method == "POST" and seen.plural == "secrets" and "dryRun" not in seen.query


def holder(stage: Stage) -> str:
    return str(((stage.api.find(LEASE) or {}).get("spec") or {}).get("holderIdentity") or "")


def pair(stage: Stage, config: Json | None = None) -> tuple[Operator, Operator]:
    """A leader and a warm standby."""
    leader = stage.operator("--leader-elect", config=config)
    eventually(lambda: leader.leads)
    standby = stage.operator("--leader-elect", config=config, wait="ready")
    assert not standby.leads
    return leader, standby


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_with_exit_code_0_and_the_lease_is_released(stage: Stage, number: signal.Signals) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    operator = stage.operator("--leader-elect")
    stage.until_copied("db", "a")
    assert holder(stage)
    operator.signal(number)
    assert operator.wait() == 0
    assert holder(stage) == ""


def test_a_running_write_may_end_after_the_signal_and_no_other_begins(stage: Stage) -> None:
    proxy = stage.proxy()
    proxy.on_request(copy_is_posted, delayed(1.0))
    stage.namespace("a", "b", "c", "d")
    operator = stage.operator(through=proxy, config={"writes": {"inFlight": 1}})
    stage.source("db", "a,b,c,d")
    eventually(lambda: proxy.requests(copy_is_posted))
    operator.stop()
    assert len(proxy.requests(copy_is_posted)) == 1
    assert len([each for each in "abcd" if stage.has_copy(each, "db")]) == 1
    stage.operator()


def test_what_was_done_last_is_told_before_it_ends(stage: Stage) -> None:
    stage.namespace("a")
    operator = stage.operator()
    stage.source("db", "a")
    stage.until_copied("db", "a")
    operator.stop()
    assert [each["reason"] for each in stage.events()] == ["Copied"]


def test_a_second_signal_ends_it_at_once(stage: Stage) -> None:
    proxy = stage.proxy()
    proxy.on_request(copy_is_posted, delayed(8.0))
    stage.namespace("a")
    operator = stage.operator(through=proxy)
    stage.source("db", "a")
    eventually(lambda: proxy.requests(copy_is_posted))
    operator.signal(signal.SIGTERM)
    eventually(lambda: "stopping" in operator.log)
    began = time.monotonic()
    operator.signal(signal.SIGTERM)
    assert operator.wait() != 0
    assert time.monotonic() - began < 2.0
    stage.operator()


def test_a_warm_standby_takes_over_within_2_seconds_of_sigterm(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    leader, standby = pair(stage, {"timers": {"lease": "15s", "renew": "10s"}})
    stage.until_copied("db", "a")
    began = time.monotonic()
    leader.signal(signal.SIGTERM)
    eventually(lambda: standby.leads, deadline=5.0)
    assert time.monotonic() - began < 2.0
    assert leader.wait() == 0
    stage.bump("db")
    stage.until_copied("db", "a")


def test_a_standby_takes_over_within_the_lease_time_after_sigkill(stage: Stage) -> None:
    """The tests' lease is 3 s; the specification's 20 s are for one of 15 s."""
    stage.namespace("a")
    stage.source("db", "a")
    leader, standby = pair(stage)
    stage.until_copied("db", "a")
    leader.kill()
    began = time.monotonic()
    stage.bump("db")
    eventually(lambda: standby.leads, deadline=8.0)
    assert time.monotonic() - began < 3 * 20 / 15 + 1
    stage.until_copied("db", "a")


def test_a_standby_writes_nothing_and_is_as_ready_as_the_leader(stage: Stage) -> None:
    stage.namespace("a", "b")
    leader, standby = pair(stage)
    stage.source("db", "a,b")
    stage.until_copied("db", "a", "b")
    assert standby.answer("/readyz")[0] == leader.answer("/readyz")[0] == 200
    assert not [name for name in standby.metrics() if name.startswith("samara_writes_total")]
    assert len(stage.audit.writes()) == 2
