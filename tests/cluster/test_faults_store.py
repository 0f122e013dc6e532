"""Row 19 of the fault catalogue: etcd has no space left and refuses all writes until an administrator frees some."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.support.api import in_parallel
from tests.cluster.support.operators import LEASE as LASTS
from tests.cluster.support.operators import SHORT, Operator
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually, never

from samara_devtools.devcluster import Devcluster, DevclusterOptions
from samara_devtools.devcluster.errors import DevclusterError

Json = dict[str, Any]
MIB = 2**20
QUOTA = 32 * MIB
FILLER = b"/filler/"
BEGINNING, RESTING = 80, 8
"""Writes in the first six seconds, and in four more. If each of forty copies waited for itself alone it would be tried
five times in the first, and once in the others."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Devcluster]:
    """A control plane whose etcd is soon full."""
    small = (f"--quota-backend-bytes={QUOTA}",)
    with Devcluster(DevclusterOptions(audit_secret_bodies=True, audit_bodies=True, etcd_args=small)) as running:
        yield running


def coded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def alarms(cluster: Devcluster) -> list[Json]:
    return list(cluster.etcd_call("/v3/maintenance/alarm", {"action": "GET"}).get("alarms") or ())


@contextlib.contextmanager
def full(cluster: Devcluster) -> Iterator[None]:
    """Fills etcd within this context. Afterwards frees the space as the etcd manual says."""
    try:
        fill(cluster)
        assert [alarm["alarm"] for alarm in alarms(cluster)] == ["NOSPACE"]
        yield
    finally:
        make_room(cluster)
        assert not alarms(cluster)


def fill(cluster: Devcluster) -> None:
    """Writes blocks beside the keys of the API server until etcd refuses one."""
    block = coded(b"x" * MIB)
    with contextlib.suppress(DevclusterError):
        for number in range(QUOTA // MIB):
            cluster.etcd_call("/v3/kv/put", {"key": coded(FILLER + b"%03d" % number), "value": block})


def make_room(cluster: Devcluster) -> None:
    end = FILLER[:-1] + bytes([FILLER[-1] + 1])
    cluster.etcd_call("/v3/kv/deleterange", {"key": coded(FILLER), "range_end": coded(end)})
    cluster.compact()
    cluster.etcd_call("/v3/maintenance/defragment", {})
    for alarm in alarms(cluster):
        cluster.etcd_call("/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})


def waiting(operator: Operator) -> Json:
    status, body = operator.answer("/readyz")
    assert status == 200, body
    answer: Json = json.loads(body)["waiting"]
    return answer


def test_fault_19_while_the_store_is_full_writes_pause_and_are_made_up_later(stage: Stage) -> None:
    names = [f"t{number:02}" for number in range(40)]
    stage.namespace(*names)
    stage.source("db", "")
    operator = stage.operator()
    stage.until_copied("db", *names)
    with full(stage.cluster):
        mark = stage.audit.mark()
        in_parallel(lambda name: stage.api.delete(stage.path(name, "db")), names)  # etcd still accepts deletes
        eventually(lambda: "writes" in waiting(operator))
        assert "database space exceeded" in waiting(operator)["writes"]
        assert "defragmented" in waiting(operator)["writes"]
        never(lambda: len(stage.audit.writes(mark)) > BEGINNING, 6.0)
        later = stage.audit.mark()
        never(lambda: len(stage.audit.writes(later)) > RESTING, 4.0)
        assert operator.answer("/healthz")[0] == 200, "a restart would not help"
        assert operator.copies("pending") == 40, "what waits is not called right, and not refused either"
        assert operator.metrics()['samara_writes_total{result="failed",verb="create",vocabulary="secret-copy"}'] > 0
        assert operator.log.count("database space exceeded") == 1, "logged once, however many writes fail"
    stage.until_copied("db", *names, deadline=30)
    eventually(lambda: "writes" not in waiting(operator))
    assert "writes.resumed" in operator.log


def test_fault_19_a_leader_that_cannot_renew_ends_and_the_next_leads_once_the_store_accepts_writes(
    stage: Stage,
) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    leader = stage.operator("--leader-elect", config=SHORT)
    stage.until_copied("db", "a")
    with full(stage.cluster):
        assert leader.wait() != 0
        assert "database space exceeded" in leader.log
        stage.api.delete(stage.path("a", "db"))
        mark = stage.audit.mark()
        following = stage.operator("--leader-elect", config=SHORT, wait="ready")
        never(lambda: following.leads or not following.running, LASTS + 1.0)
        assert following.log.count("lease.failed") == 1, "logged once, and retried all the time"
        assert not stage.audit.writes(mark)
    eventually(lambda: following.leads)
    stage.until_copied("db", "a")
