"""Row 36 of the fault catalogue: the wall clock jumps or runs too fast; all timers use monotonic clocks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.cluster.support.audit import Event, until_recorded
from tests.cluster.support.clocks import Clock
from tests.cluster.support.fishy import Fishy
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.operators import LEASE as LASTS
from tests.cluster.support.operators import SHORT
from tests.cluster.support.stage import OWN, SECOND, USER, Stage
from tests.cluster.support.trees import Trees
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/samara"
HOUR = 3600.0
MINUTE = 60.0
Clocks = Callable[..., Clock]


@pytest.fixture
def clocks(stage: Stage) -> Clocks:
    """Makes clocks that show different times."""

    def made(offset: float = 0.0, rate: float = 1.0) -> Clock:
        return Clock(stage.folder / f"clock-{len(list(stage.folder.glob('clock-*')))}", offset, rate)

    return made


def stamp_is_off_by(stage: Stage) -> float:
    """The difference between the renewTime of the Lease and the real time."""
    renewed = datetime.fromisoformat(stage.api.get(LEASE)["spec"]["renewTime"])
    return (renewed - datetime.now(UTC)).total_seconds()


def renewals(stage: Stage, user: str) -> list[Event]:
    """The successful writes to the Lease."""
    written = [event for event in stage.audit.ours() if event.resource == "leases" and event.mutating and event.done]
    return [event for event in written if event.user == user]


@pytest.mark.parametrize(
    ("leading", "waiting"),
    [((HOUR, 1.0), (-HOUR, 1.0)), ((-HOUR, 1.0), (HOUR, 1.0)), ((0.0, 10.0), (0.0, 1.0)), ((0.0, 1.0), (0.0, 10.0))],
    ids=["the leader's is ahead", "the standby's is ahead", "the leader's is fast", "the standby's is fast"],
)
def test_fault_36_clocks_that_differ_jump_or_run_too_fast_do_not_change_the_leader(
    stage: Stage, clocks: Clocks, leading: tuple[float, float], waiting: tuple[float, float]
) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    one, two = clocks(*leading), clocks(*waiting)
    leader = stage.operator("--leader-elect", config=SHORT, program=one.program)
    eventually(lambda: leader.leads)
    if leading[0]:
        assert abs(stamp_is_off_by(stage) - leading[0]) < MINUTE, "this clock is not wrong"
    second = stage.kubeconfig(SECOND)
    standby = stage.operator("--leader-elect", config=SHORT, program=two.program, kubeconfig=second, wait="ready")
    never(lambda: standby.leads or not leader.leads, LASTS + 0.5)
    one.set(-leading[0], leading[1])
    two.set(-waiting[0], waiting[1])
    never(lambda: standby.leads or not leader.leads, LASTS + 0.5)
    stage.bump("db")
    stage.until_copied("db", "a")
    leader.kill()
    eventually(lambda: standby.leads)
    taken = until_recorded(lambda: renewals(stage, SECOND), 1)[0]
    assert taken.received - renewals(stage, USER)[-1].received > LASTS, "the lease was not over"
    stage.bump("db")
    stage.until_copied("db", "a")
    assert [event.code for event in stage.audit.ours() if event.resource == "leases" and event.code >= 500] == []


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_fault_36_a_hold_of_the_brake_has_its_full_length_for_any_wall_clock(
    stage: Stage, clocks: Clocks, jump: float
) -> None:
    names = [f"t{number}" for number in range(10)]
    stage.namespace(*names)
    stage.source("db", ",".join(names))
    clock = clocks()
    operator = stage.operator(config={"massDelete": {"hold": "4s"}}, program=clock.program)
    stage.until_copied("db", *names)
    mark = stage.audit.mark()
    started = time.time()
    stage.retarget("db", ",")
    eventually(lambda: operator.metrics()["samara_mass_delete_held"] == 10, every=0.01)
    clock.set(jump)
    eventually(lambda: not any(stage.secret(name, "db") for name in names))  # not an hour later
    removed = until_recorded(lambda: stage.audit.writes(mark), 10)
    assert all(event.received - started >= 4.0 for event in removed), "sooner than it says"


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_fault_36_an_operator_that_starts_with_a_wrong_clock_writes_nothing_until_a_write_is_due(
    stage: Stage, clocks: Clocks, jump: float
) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    stage.operator().stop()
    mark = stage.audit.mark()
    stage.operator(program=clocks(jump).program)
    never(lambda: stage.audit.writes(mark), 1.0)
    stage.bump("db")
    stage.until_copied("db", "a", "b")
    assert [event.verb for event in until_recorded(lambda: stage.audit.writes(mark), 2)] == ["update"] * 2
    event = stage.until_event("Updated", about="db")
    assert abs(datetime.fromisoformat(event["lastTimestamp"]).timestamp() - time.time() - jump) < MINUTE


def test_fault_36_a_secret_manager_is_read_and_reported_at_its_interval_for_any_wall_clock(
    fishy: Fishy, stage: Stage, clocks: Clocks
) -> None:
    clock = clocks()
    fishy.served({"A": "a"}, program=clock.program)
    mark, began = stage.audit.mark(), time.monotonic()
    for number, (offset, rate) in enumerate([(-HOUR, 1.0), (HOUR, 1.0), (0.0, 10.0), (-HOUR, 1.0)]):
        clock.set(offset, rate)
        fishy.put("a", f"{CANARY}-{number}")
        fishy.until_data("db", {"A": f"{CANARY}-{number}"})
    passed = time.monotonic() - began
    fishy.until("db")
    changes = 2 * 4  # each writes the Secret, and its status
    assert len(fishy.writes(mark)) <= changes + passed / 0.9 + 1, "once per refresh, as ever"


class Renewing(threading.Thread):
    """The original controller, which renews its Lease with a right clock."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(daemon=True)
        self._api = stage.api.as_agent("accurate-controller/v0")
        self._over = threading.Event()
        leases = "/apis/coordination.k8s.io/v1/namespaces/admin/leases"
        self._path = f"{leases}/accurate"
        self._api.create(leases, {"metadata": {"name": "accurate"}, "spec": self._spec()})
        stage.also_remove(self._path)

    @staticmethod
    def _spec() -> Json:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {"holderIdentity": "accurate-0", "leaseDurationSeconds": 2, "renewTime": now}

    def run(self) -> None:
        while not self._over.wait(0.5):
            self._api.patch(self._path, {"spec": self._spec()})
        self._api.close()

    def __enter__(self) -> Renewing:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.join(10)


@pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs")
@pytest.mark.parametrize("off", [HOUR, -HOUR])
def test_fault_36_an_operator_with_a_wrong_clock_sees_that_the_original_runs_and_that_it_ended(
    trees: Trees, stage: Stage, clocks: Clocks, off: float
) -> None:
    trees.root(team="a")
    trees.hang("web", "root")
    with Renewing(stage):
        operator = trees.serve(program=clocks(off).program)

        def served() -> bool:
            status, body = operator.answer("/readyz")  # no answer during a restart
            return status == 200 and "accurate" not in json.loads(body)["waiting"]

        never(lambda: served() or trees.sent(), 7.0)
    eventually(served, deadline=30)
    eventually(lambda: trees.labels("web").get("team") == "a")
