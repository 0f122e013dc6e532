"""A forecast leaves the cache as the operator leaves a real cluster."""

from __future__ import annotations

import asyncio

import pytest
from tests.cluster.support.stage import Stage
from tests.support.world import at

from samara.assembly import WELL_KNOWN
from samara.cli.inspect.cluster_plans import plan_cluster
from samara.cli.inspect.forecast import forecast
from samara.cli.session import Session
from samara.core.model import Object
from samara.kube.auth import load
from samara.kube.client import Client, unrestricted
from samara.settings import parse

pytestmark = pytest.mark.cluster

NAMESPACES = ("a", "b", "c", "d")


def visible(obj: Object | None) -> tuple[object, ...] | None:
    """Without uid, version and creation time, which the API server chooses."""
    if obj is None:
        return None
    content = {field.name: field.raw for field in obj.content.fields}
    return content, dict(obj.labels), dict(obj.annotations), obj.managed_keys, obj.owner_references, obj.known_copy


async def copies(stage: Stage, *, of_forecast: bool = False) -> dict[str, tuple[object, ...] | None]:
    """The copies of `db` by namespace: in the cluster, or as a forecast expects them."""
    access = load(str(stage.cluster.kubeconfig), None, None, None, {}, stage.folder)
    async with Client(access, may_write=unrestricted) as client:
        session = Session(client, access, parse("vocabularies: {secret-copy: {}}", "test"), None, WELL_KNOWN)
        cluster = await plan_cluster(session)
        if of_forecast:
            await forecast(session, cluster)
        return {namespace: visible(cluster.snapshot.cache.get(at(namespace, "db"))) for namespace in NAMESPACES}


def test_forecast_expects_the_objects_that_the_operator_writes(stage: Stage) -> None:
    stage.namespace(*NAMESPACES)
    stage.source("db", "a,b")
    operator = stage.operator()
    stage.until_copied("db", "a", "b")
    operator.stop()
    stage.api.patch(stage.path("a", "db"), {"metadata": {"labels": {"theirs": "1"}}})  # updated, and keeps the label
    stage.bump("db")
    changed = stage.api.get(stage.path("admin", "db"))
    stage.api.create("/api/v1/namespaces/d/secrets", {"metadata": {"name": "db"}, "data": changed["data"]})  # adopted
    stage.retarget("db", "a,c,d")  # deleted in b, created in c
    expected = asyncio.run(copies(stage, of_forecast=True))
    stage.operator()
    stage.until_copied("db", "a", "c", "d")
    stage.until_gone("b", "db")
    assert asyncio.run(copies(stage)) == expected
    assert [namespace for namespace, copy in expected.items() if copy is not None] == ["a", "c", "d"]
