"""Copies of deleted distributions on a control plane without a garbage collector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster.support.definitions import DEFINITIONS, define
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually, never
from tests.cluster.test_resource_distribution_rules import (
    DEFINITION,
    DISTRIBUTIONS,
    FROM,
    HASHCODE,
    Distributor,
    definition,
    included,
    serve,
)

from samara import crds
from samara_devtools.devcluster import Devcluster, DevclusterOptions

pytestmark = [
    pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; here each test asserts its own"),
    pytest.mark.verify,  # we wait half a minute for the garbage collector
]
__all__ = ["definition"]
LATE = 30.0
"""Seconds before the operator deletes copies that the garbage collector has not deleted."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Devcluster]:
    with Devcluster(DevclusterOptions(audit_secret_bodies=True, controllers=False)) as running:
        yield running


@pytest.fixture
def distributor(stage: Stage) -> Distributor:
    return Distributor(stage)


def forged(stage: Stage, namespace: str, name: str, uid: str) -> None:
    """Creates a foreign Secret with the marks of a copy of a distribution."""
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "name": name, "uid": uid}
    marks = {FROM: name, HASHCODE: "0"}
    meta = {"annotations": marks, "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}]}
    stage.foreign(namespace, name, metadata=meta)


def test_after_half_a_minute_we_delete_our_copies_of_a_deleted_distribution_and_no_forged_ones(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a", "b")
    uid = distributor.create("db", included("a"))["metadata"]["uid"]
    old = distributor.create("again", included("a"))["metadata"]["uid"]
    serve(stage)
    distributor.until("db", "a")
    distributor.until("again", "a")
    forged(stage, "b", "db", uid)
    forged(stage, "b", "again", old)
    mark = stage.audit.mark()
    distributor.delete("db")
    distributor.delete("again")
    distributor.create("again", included("a"))
    distributor.until_condition("again", "ConflictOccurred", "Conflict", ["a"])
    never(lambda: stage.audit.writes(mark), LATE - 10.0)
    distributor.until_gone("db", "a", deadline=LATE)
    distributor.until_counted("again", 1, 1)
    (owner,) = (distributor.copy("a", "again") or {})["metadata"]["ownerReferences"]
    assert owner["uid"] == distributor.get("again")["metadata"]["uid"] != old
    assert distributor.condition("again", "ConflictOccurred")["status"] == "False"
    assert sorted((event.verb, event.address) for event in stage.audit.writes(mark)) == [
        ("create", ("a", "again")),
        ("delete", ("a", "again")),
        ("delete", ("a", "db")),
    ]
    assert [stage.data("b", name) for name in ("db", "again")] == [{"mine": "1"}] * 2


def test_while_its_definition_is_being_deleted_no_copies_of_a_distribution_are_deleted(
    stage: Stage, distributor: Distributor
) -> None:
    stage.namespace("a")
    distributor.create("db", included("a"))
    distributor.create("held", included("a"))
    stage.api.patch(f"{DISTRIBUTIONS}/held", {"metadata": {"finalizers": ["example.com/waits"]}})
    operator = serve(stage)
    distributor.until("db", "a")
    distributor.until("held", "a")
    mark = stage.audit.mark()
    stage.api.delete(f"{DEFINITIONS}/{DEFINITION}")
    eventually(lambda: stage.api.find(f"{DISTRIBUTIONS}/db") is None)
    never(lambda: stage.audit.writes(mark), LATE + 3.0)
    assert "deletionTimestamp" in stage.api.get(f"{DEFINITIONS}/{DEFINITION}")["metadata"]
    reads = [event for event in stage.audit.ours(mark) if event.resource == "customresourcedefinitions"]
    assert [event.name for event in reads if event.verb == "get"]
    stage.api.patch(f"{DISTRIBUTIONS}/held", {"metadata": {"finalizers": None}})
    eventually(lambda: stage.api.find(f"{DEFINITIONS}/{DEFINITION}") is None)
    assert distributor.copy("a", "db")
    assert distributor.copy("a", "held")
    assert operator.running
    define(stage.cluster, stage.api, crds.text(DEFINITION))
