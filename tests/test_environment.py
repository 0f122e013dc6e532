"""What the operator discovers before it starts to serve."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.kube.scripted import Answer, access, refuses, says, serving
from tests.support.samples import Clock

from samara.environment import Environment, LeaseObservations, discover_environment, leases_of_originals
from samara.kube.client import Client, unrestricted
from samara.kube.errors import ConfigError
from samara.settings import parse

DISTRIBUTE = "vocabularies: {resource-distribution: {}}"
POLICIES = "vocabularies: {sync-to: {kinds: [v1/Secret, networking.k8s.io/v1/NetworkPolicy]}}"


HOUR = 3600.0


def lease(age: float, holder: str = "kruise", version: int = 1, **more: Any) -> dict[str, Any]:
    renewed = datetime.now(UTC) - timedelta(seconds=age)
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed.isoformat()}
    meta = {"name": "kruise-manager", "namespace": "kruise-system", "resourceVersion": str(version)}
    return {"items": [{"metadata": meta, "spec": {**spec, **more}}]}


def discovered(settings: str, *answers: Answer) -> tuple[Environment, list[tuple[str, dict[str, str]]]]:
    async def run() -> tuple[Environment, list[tuple[str, dict[str, str]]]]:
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            environment = await discover_environment(client, parse(settings, "test"))
            return environment, [(seen.path, seen.query) for seen in script.seen]

    return asyncio.run(run())


def test_a_live_lease_of_the_original_makes_the_vocabulary_wait() -> None:
    environment, requests = discovered(DISTRIBUTE, says(lease(age=3)))
    assert environment.waiting["resource-distribution"].startswith("original running")
    assert requests == [("/apis/coordination.k8s.io/v1/leases", {"fieldSelector": "metadata.name=kruise-manager"})]


@pytest.mark.parametrize(
    "answer",
    [
        says({"items": []}),
        says(lease(age=3 * HOUR)),
        says(lease(age=3, holder="")),
        says(lease(age=3, renewTime="soon")),
        says(lease(age=3, renewTime="9999-12-31T23:59:59.000000Z")),
        says(lease(age=-3 * HOUR)),
        refuses(403, "Forbidden"),
    ],
    ids=["none", "old", "released", "odd", "beyond all time", "from tomorrow", "unreadable"],
)
def test_without_a_live_lease_the_vocabulary_is_served(answer: Answer) -> None:
    environment, _ = discovered(DISTRIBUTE, answer)
    assert environment.waiting == {}


@pytest.mark.parametrize("age", [120.0, HOUR, -HOUR], ids=["a while", "an hour ago", "in an hour"])
def test_fault_36_a_lease_is_live_until_it_has_not_changed_for_twice_its_duration(age: float) -> None:
    """Either clock may be wrong, so only the time between two reads of the Lease counts."""

    async def run() -> None:
        answers = [says(lease(age, version=version)) for version in (1, 2, 3, 3, 3)]
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            settings, now = parse(DISTRIBUTE, "test"), Environment(leases=LeaseObservations(clock := Clock()))
            for _ in range(4):
                now = await discover_environment(client, settings, now)
                assert now.waiting["resource-distribution"].startswith("original running")
                clock.now += 29.0
            clock.now += 2.0
            assert (await discover_environment(client, settings, now)).waiting == {}

    asyncio.run(run())


def test_an_unreachable_server_makes_the_vocabulary_wait() -> None:
    environment, _ = discovered(DISTRIBUTE, refuses(500, "InternalError", "etcd is away"))
    assert "not known" in environment.waiting["resource-distribution"]


def test_with_takeover_no_lease_is_read() -> None:
    environment, requests = discovered("vocabularies: {resource-distribution: {takeover: true}}", says(lease(age=3)))
    assert (environment.waiting, requests) == ({}, [])


def test_a_kind_that_the_server_does_not_have_waits_and_the_others_are_served() -> None:
    environment, _ = discovered(POLICIES, refuses(404, "NotFound"))
    assert list(environment.waiting) == ["networking.k8s.io/v1/NetworkPolicy"]
    assert [kind.name for kind in environment.kinds.values()] == ["Secret"]


def test_the_error_for_a_cluster_scoped_kind_names_the_path_of_its_key() -> None:
    nodes = {"name": "nodes", "kind": "Node", "namespaced": False}
    with pytest.raises(
        ConfigError, match=r"vocabularies\.sync-to\.kinds: found v1/Node, expected kinds that may be copied"
    ):
        discovered("vocabularies: {secret-copy: {}, sync-to: {kinds: [v1/Node]}}", says({"resources": [nodes]}))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (Environment(missing={"v1/Odd": "the server answered 503"}, originals={"accurate": "not known: 503"}), True),
        (Environment(missing={"v1/Odd": "no such kind"}), False),
        (Environment(missing={"v1/Other": "no such kind"}, originals={"accurate": "original running"}), False),
        (Environment({}, {"v1/Odd": "no such kind"}, {"accurate": "original running"}), False),
    ],
    ids=["other words", "no original", "another kind", "no kinds"],
)
def test_an_environment_differs_only_by_served_and_waiting_parts(other: Environment, same: bool) -> None:
    now = Environment(missing={"v1/Odd": "no such kind"}, originals={"accurate": "original running"})
    assert (now.serves_same_as(other), other.serves_same_as(now)) == (same, same)


def test_each_original_has_its_lease() -> None:
    assert leases_of_originals(parse("{}", "test")) == {
        "resource-distribution": "kruise-manager",
        "accurate": "accurate",
        "fishysecret": "dd9fe84d.2v.pm",
    }
