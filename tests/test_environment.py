"""What the operator discovers before it starts to serve."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.kube.scripted import Answer, access, gated, refuses, says, serving
from tests.support.samples import Clock

import samara.environment as environment_module
from samara.core.model import CRON_JOB
from samara.environment import (
    Environment,
    LeaseObservations,
    discover_environment,
    leases_of_originals,
    workloads_of_originals,
)
from samara.kube.client import Client, unrestricted
from samara.kube.errors import ConfigError
from samara.kube.workloads import Workload, workloads
from samara.settings import parse

DISTRIBUTE = "vocabularies: {resource-distribution: {}}"
POLICIES = "vocabularies: {sync-to: {kinds: [v1/Secret, networking.k8s.io/v1/NetworkPolicy]}}"


HOUR = 3600.0
ACCOUNTS = "/api/v1/namespaces/kruise-system/serviceaccounts"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


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


def accounts(*names: str) -> Answer:
    return says({"items": [{"metadata": {"name": name}} for name in names]})


def may(is_allowed: bool) -> Answer:
    return says({"status": {"allowed": is_allowed}})


INSTALLED = (accounts("default", "writer"), may(False), may(True))
"""What the server answers about the namespace of an original that an administrator installed."""


def test_a_live_lease_of_the_original_makes_the_vocabulary_wait() -> None:
    environment, requests = discovered(DISTRIBUTE, says(lease(age=3)), *INSTALLED)
    assert environment.waiting == {
        "resource-distribution": "original running (Lease kruise-manager); it must stop first, or set takeover: true"
    }
    assert requests[0] == ("/apis/coordination.k8s.io/v1/leases", {"fieldSelector": "metadata.name=kruise-manager"})
    assert [path for path, _ in requests[1:]] == [ACCOUNTS, REVIEWS, REVIEWS]


def test_the_accounts_of_the_namespace_are_asked_about_the_custom_resource_in_every_namespace() -> None:
    async def run() -> list[Any]:
        async with (
            serving(says(lease(age=3)), *INSTALLED) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            await discover_environment(client, parse(DISTRIBUTE, "test"))
            return [seen.json["spec"] for seen in script.seen if seen.path == REVIEWS]

    specs = asyncio.run(run())
    assert [spec["user"] for spec in specs] == [
        "system:serviceaccount:kruise-system:default",
        "system:serviceaccount:kruise-system:writer",
    ]
    assert specs[1]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:kruise-system",
        "system:authenticated",
    ]
    wanted = {"verb": "update", "group": "apps.kruise.io", "resource": "resourcedistributions", "namespace": ""}
    assert wanted.items() <= specs[1]["resourceAttributes"].items()


def test_accounts_that_the_holder_or_the_lease_names_are_asked_about_first_and_then_the_oldest() -> None:
    """In a namespace with many accounts, such as kube-system, the one of the original may be the last by its name."""

    def account(name: str, age: int) -> dict[str, Any]:
        return {"metadata": {"name": name, "creationTimestamp": f"2026-01-{28 - age:02}T00:00:00Z"}}

    others = [account(f"a-{number:02}", number % 25) for number in range(100)]
    named = [account("kruise", 1), account("manager-of-kruise", 2)]

    async def run() -> tuple[list[str], dict[str, str]]:
        held = says(lease(age=3, holder="manager-of-kruise-7d9f-x_0d1e"))
        answers = (held, says({"items": [*others, *named]}), *[may(False)] * 20)
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            await discover_environment(client, parse(DISTRIBUTE, "test"))
            listing = next(seen.query for seen in script.seen if seen.path == ACCOUNTS)
            users = [seen.json["spec"]["user"] for seen in script.seen if seen.path == REVIEWS]
            return [user.rpartition(":")[2] for user in users], listing

    asked, listing = asyncio.run(run())
    assert asked[:2] == ["manager-of-kruise", "kruise"]
    assert asked[2:8] == ["a-24", "a-49", "a-74", "a-99", "a-23", "a-48"]
    assert len(asked) == 20
    assert listing == {"limit": "500"}


@pytest.mark.parametrize(
    "answers", [(accounts(),), (accounts("default", "mine"), may(False), may(False))], ids=["no account", "no rights"]
)
def test_a_lease_in_a_namespace_where_no_original_can_run_is_not_believed(
    answers: tuple[Answer, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Everybody with `edit` in a namespace can write a Lease there."""
    environment, _ = discovered(DISTRIBUTE, says(lease(age=3)), *answers)
    assert environment.waiting == {}
    assert [(record.message, getattr(record, "fields", {})["lease"]) for record in caplog.records] == [
        ("original.not-believed", "kruise-system/kruise-manager")
    ]


def leases_in(*namespaces: str) -> dict[str, Any]:
    """Leases that are held, in the order of their creation."""
    items = []
    for number, namespace in enumerate(namespaces):
        (item,) = lease(age=3)["items"]
        created = f"2026-01-01T00:{number:02}:00Z"
        items.append({**item, "metadata": {**item["metadata"], "namespace": namespace, "creationTimestamp": created}})
    return {"items": items[::-1]}


async def installed_in_kruise_system(request: web.Request) -> web.StreamResponse:
    """Each namespace has one account, and only that of kruise-system has the rights of an original."""
    if request.path != REVIEWS:
        return await accounts("manager")(request)
    return await may((await request.json())["spec"]["user"] == "system:serviceaccount:kruise-system:manager")(request)


@pytest.mark.parametrize("namespaces", [("tenant", "kruise-system"), ("kruise-system", *map(str, range(50)))])
def test_of_several_leases_one_that_is_proven_makes_the_vocabulary_wait(namespaces: tuple[str, ...]) -> None:
    environment, requests = discovered(DISTRIBUTE, says(leases_in(*namespaces)), installed_in_kruise_system)
    assert environment.waiting["resource-distribution"].startswith("original running")
    assert len([path for path, _ in requests if path.endswith("serviceaccounts")]) == min(len(namespaces), 20)


def test_the_namespaces_of_several_leases_are_asked_about_at_once() -> None:
    """Tenants can write Leases in all of their namespaces, and the operator starts only when the last is answered."""

    async def run() -> Environment:
        gated_answer = gated(installed_in_kruise_system)
        async with (
            serving(says(leases_in("a", "b", "c")), gated_answer) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            discovering = asyncio.create_task(discover_environment(client, parse(DISTRIBUTE, "test")))
            await script.until(lambda: len(script.seen) == 4)
            script.gate.set()
            return await discovering

    assert asyncio.run(run()).waiting == {}


def test_a_server_that_fails_once_does_not_make_the_vocabulary_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_module, "RETRY_AFTER", (0.0, 0.0))
    answers = (refuses(500, "InternalError", "no"), accounts("a"), refuses(429, "TooManyRequests"), accounts("a"))
    environment, _ = discovered(DISTRIBUTE, says(lease(age=3)), *answers, may(False))
    assert environment.waiting == {}


def test_a_server_that_keeps_failing_makes_the_vocabulary_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_module, "RETRY_AFTER", (0.0, 0.0))
    environment, requests = discovered(DISTRIBUTE, says(lease(age=3)), refuses(500, "InternalError", "no"))
    assert "it is not known whether the original holds it" in environment.waiting["resource-distribution"]
    assert len(requests) == 1 + 3


@pytest.mark.parametrize(
    "answers", [(refuses(403, "Forbidden", "no"),), (accounts("a"), refuses(403, "Forbidden", "no"))]
)
def test_without_the_right_to_ask_a_held_lease_makes_the_vocabulary_wait(answers: tuple[Answer, ...]) -> None:
    environment, _ = discovered(DISTRIBUTE, says(lease(age=3)), *answers)
    assert "it is not known whether the original holds it" in environment.waiting["resource-distribution"]


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
        answers = [
            answer
            for version in (1, 2, 3, 3)
            for answer in (says(lease(age, version=version)), accounts("a"), may(True))
        ]
        answers.append(says(lease(age, version=3)))
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


# Originals that hold no Lease

CONFIG_SYNCER = "vocabularies: {config-syncer: {}}"
DEPLOYMENTS = "/apis/apps/v1/deployments"


def a_deployment(image: str = "ghcr.io/appscode/config-syncer:v0.15", **more: Any) -> dict[str, Any]:
    namespace, replicas = more.get("namespace", "kubed"), more.get("replicas", 1)
    pods = {"containers": [{"image": "proxy"}, {"image": image}], "serviceAccountName": "kubed"}
    return {
        "metadata": {"name": "kubed", "namespace": namespace, "creationTimestamp": more.get("created")},
        "spec": {"template": {"spec": pods}, **({} if replicas is None else {"replicas": replicas})},
        "status": {"replicas": more["left"]} if "left" in more else {},
    }


def deployments(*items: dict[str, Any], more: str = "") -> Answer:
    return says({"metadata": {"continue": more}, "items": list(items)})


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ({}, True),
        ({"image": "kubed"}, True),
        ({"image": "registry.example.com:5000/mirror/kubed@sha256:abc"}, True),
        ({"replicas": None}, True),
        ({"replicas": 0}, False),
        ({"replicas": 0, "left": 1}, True),
        ({"image": "config-syncer/other"}, False),
        ({"image": "my-kubed:v1"}, False),
    ],
)
def test_a8_a_running_workload_with_the_image_of_the_original_makes_the_vocabulary_wait(
    given: dict[str, Any], runs: bool
) -> None:
    environment, requests = discovered(CONFIG_SYNCER, deployments(a_deployment(**given)), may(True))
    expected = "original running (Deployment kubed/kubed); it must stop first, or set takeover: true"
    assert environment.waiting == ({"config-syncer": expected} if runs else {})
    assert [path for path, _ in requests] == [DEPLOYMENTS, *([REVIEWS] if runs else [])]


def test_a8_the_account_of_the_workload_is_asked_about_the_kinds_in_every_namespace() -> None:
    async def run() -> list[Any]:
        answers = (deployments(a_deployment()), may(False), may(True))
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            await discover_environment(client, parse(CONFIG_SYNCER, "test"))
            return [seen.json["spec"] for seen in script.seen if seen.path == REVIEWS]

    specs = asyncio.run(run())
    assert {spec["user"] for spec in specs} == {"system:serviceaccount:kubed:kubed"}
    assert [spec["resourceAttributes"]["resource"] for spec in specs] == ["secrets", "configmaps"]
    assert {(spec["resourceAttributes"]["verb"], spec["resourceAttributes"]["namespace"]) for spec in specs} == {
        ("update", "")
    }


def test_a8_a_workload_of_a_tenant_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    environment, _ = discovered(CONFIG_SYNCER, deployments(a_deployment(namespace="tenant")), may(False), may(False))
    assert environment.waiting == {}
    assert [record.message for record in caplog.records] == ["original.not-believed"]


def test_a8_workloads_of_tenants_do_not_hide_the_original() -> None:
    async def reviews(request: web.Request) -> web.StreamResponse:
        return await may((await request.json())["spec"]["user"] == "system:serviceaccount:kubed:kubed")(request)

    tenants = [a_deployment(namespace=f"tenant-{number}", created="2026-02-01T00:00:00Z") for number in range(150)]
    original = a_deployment(created="2026-01-01T00:00:00Z")
    pages = deployments(*tenants, more="next"), deployments(original)
    environment, requests = discovered(CONFIG_SYNCER, *pages, *[reviews] * 300)
    assert "original running" in environment.waiting["config-syncer"]
    assert requests[1] == (DEPLOYMENTS, {"limit": "500", "continue": "next"})


def test_a8_where_workloads_may_not_be_listed_the_operator_says_so_once_and_does_not_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> list[Environment]:
        async with (
            serving(refuses(403, "Forbidden", "no"), refuses(403, "Forbidden", "no")) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            first = await discover_environment(client, parse(CONFIG_SYNCER, "test"))
            return [first, await discover_environment(client, parse(CONFIG_SYNCER, "test"), first)]

    assert [environment.waiting for environment in asyncio.run(run())] == [{}, {}]
    assert [record.message for record in caplog.records] == ["original.not-looked-for"]


@pytest.mark.parametrize(
    "answers",
    [(refuses(500, "InternalError"),), (deployments(a_deployment()), refuses(403, "Forbidden"))],
    ids=["no list", "no review"],
)
def test_a8_without_an_answer_the_vocabulary_waits(
    answers: tuple[Answer, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment_module, "RETRY_AFTER", (0.0, 0.0))
    environment, _ = discovered(CONFIG_SYNCER, *answers)
    assert "not known" in environment.waiting["config-syncer"]


def test_a8_with_takeover_no_workload_is_listed() -> None:
    environment, requests = discovered("vocabularies: {config-syncer: {takeover: true}}", deployments(a_deployment()))
    assert (environment.waiting, requests) == ({}, [])


@pytest.mark.parametrize(("suspend", "runs"), [(False, True), (None, True), (True, False)])
def test_a8_a_cron_job_runs_unless_it_is_suspended(suspend: bool | None, runs: bool) -> None:
    pods = {"spec": {"containers": [{"image": "emberstack/kubernetes-reflector:9"}]}}
    given = {} if suspend is None else {"suspend": suspend}
    spec = {**given, "jobTemplate": {"spec": {"template": pods}}}
    job = {"metadata": {"name": "r", "namespace": "r"}, "spec": spec}

    async def run() -> list[Workload]:
        async with (
            serving(says({"items": [job]})) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            return [workload async for workload in workloads(client, CRON_JOB)]

    (workload,) = asyncio.run(run())
    images = frozenset({"kubernetes-reflector"})
    assert (workload.is_running, workload.images, workload.account) == (runs, images, "default")


def test_a8_each_original_has_its_image() -> None:
    named = parse("vocabularies: {config-syncer: {}, replicator: {}, secret-copy: {}}", "test")
    assert {name: set(original.images) for name, original in workloads_of_originals(named).items()} == {
        "replicator": {"kubernetes-replicator"},
        "config-syncer": {"config-syncer", "kubed"},
    }
