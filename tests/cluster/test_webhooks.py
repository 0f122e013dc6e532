"""Webhooks on a real API server: refusals, requests without a webhook server, and conversion."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.admission.scene import CRD_NAME, CRD_PATH, HOOKS, THING, TWIN, WORD, Clock, a_converter, a_source_type, quiet
from tests.admission.scene import a_registry as toys
from tests.cluster.support.api import ApiFault
from tests.cluster.support.definitions import defined
from tests.cluster.support.stage import OWN, Stage
from tests.cluster.support.waiting import eventually
from tests.support.ports import free_port
from tests.support.toys import a_sync_to
from tests.support.transports import until_closed

from samara.admission.admission import Admission, AdmissionDeps, Listener
from samara.admission.certificates import Timings
from samara.admission.webhooks import ADMIT, Endpoint, webhook_configuration
from samara.core.admission import Request
from samara.core.model import CONFIG_MAP, NAMESPACE, SECRET
from samara.core.queries import DryRunCreate, Rejected
from samara.core.registry import Registry
from samara.core.view import View
from samara.engine.metrics import Metrics
from samara.kube.answers import NO_READINGS
from samara.kube.auth import load
from samara.kube.cache import Cache
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec
from samara.vocabularies.accurate.convert import convert
from samara_devtools.devcluster import DevclusterError

CONFIG = f"{HOOKS}/samara"
TLS = f"/api/v1/namespaces/{OWN}/secrets/samara-webhook-tls"
THINGS = "/apis/toys.dev/v1/namespaces/a/things"
DAY, HOUR = timedelta(days=1).total_seconds(), timedelta(hours=1).total_seconds()
SYNC_TO = "openkruise.io/sync-to"
Json = dict[str, Any]

pytestmark = pytest.mark.oracle_off("O4", reason="registering is what is tested, and it writes no copy")

CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CRD_NAME},
    "spec": {
        "group": "toys.dev",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
            for name in ("v1", "v2")
        ],
    },
}


def storable(request: Request, view: View) -> tuple[str, ...]:
    """The spec must be the data of a Secret that the server would take."""
    spec = request.new.content.get("spec") if request.new is not None else None
    data = json.loads(spec.raw or b"{}") if spec is not None else {}
    if "data" not in data:
        return ()
    answer = view.answer(
        DryRunCreate(SECRET, json.dumps({"apiVersion": "v1", "kind": "Secret", "data": data["data"]}).encode())
    )
    return (f"the API server refuses it: {answer.message}",) if isinstance(answer, Rejected) else ()


def a_registry() -> Registry:
    named = {source_type.name: source_type for source_type in toys().source_types}
    real = a_sync_to((SECRET, CONFIG_MAP), lambda where, words: dict(words))
    return Registry((named["twinned"], named["things"], a_source_type("storable", storable, THING), real))


USER = "samara-webhooks"
HOOK_RIGHTS = ["get", "list", "create", "update", "delete"]
EVERYWHERE = [
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "verbs": HOOK_RIGHTS,
    },
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": [CRD_NAME],
        "verbs": ["get", "patch"],
    },
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
]
AT_HOME = [
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["samara-webhook-tls"],
        "verbs": ["get", "watch", "update", "delete"],
    },
]
"""The rights of admission: its own Secret, and dry-run creates in the operator's namespace."""


@pytest.fixture(autouse=True)
def rights(stage: Stage) -> None:
    group = "rbac.authorization.k8s.io"
    root = f"/apis/{group}/v1"
    subjects = [{"kind": "User", "name": USER, "apiGroup": group}]
    for kind, where, rules in (("ClusterRole", root, EVERYWHERE), ("Role", f"{root}/namespaces/{OWN}", AT_HOME)):
        plural = kind.lower()
        ref = {"kind": kind, "name": USER, "apiGroup": group}
        stage.api.create(f"{where}/{plural}s", {"metadata": {"name": USER}, "rules": rules})
        stage.api.create(
            f"{where}/{plural}bindings", {"metadata": {"name": USER}, "roleRef": ref, "subjects": subjects}
        )
        stage.also_remove(f"{where}/{plural}s/{USER}")
        stage.also_remove(f"{where}/{plural}bindings/{USER}")


class Webhooks:
    """An admission server in its own thread. Its cache contains only the objects that a test puts there."""

    def __init__(
        self,
        stage: Stage,
        *,
        port: int | None = None,
        in_cluster: bool = False,
        leads: bool = True,
        registry: Registry | None = None,
        crds: tuple[str, ...] = (CRD_NAME,),
    ) -> None:
        self.stage = stage
        self._registry = registry or a_registry()
        self._crds = crds
        self._codec = Codec(self._registry.managers)
        self._cache = Cache(self._registry, build_content=self._codec.content, readings=NO_READINGS)
        for kind in self._registry.kinds:  # as if every list had been empty: a cache that is far behind
            self._cache.finish_list(kind, set())
        self.port = port or free_port()
        self.clock = Clock()
        self._listener = Listener(f"127.0.0.1:{self.port}", f"https://127.0.0.1:{self.port}", in_cluster)
        self._leads = leads
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._main(),), daemon=True)
        self.admission: Admission | None = None
        self.fault: BaseException | None = None

    def start(self) -> Webhooks:
        self._thread.start()
        eventually(lambda: self.fault or (self.admission is not None and self.admission.not_ready_reason is None))
        assert self.fault is None, self.fault
        return self

    def sees(self, *namespaces: str) -> None:
        """Puts the present namespaces into its cache."""

        async def put() -> None:
            for name in namespaces:
                live = self.stage.api.get(f"/api/v1/namespaces/{name}")
                self._cache.put(self._codec.object(NAMESPACE, json.dumps(live).encode()))

        self._in_loop(put())

    def close(self) -> None:
        """Removes the webhooks, as the operator does first after a signal."""
        assert self.admission is not None
        self._in_loop(self.admission.close())

    def kill(self) -> None:
        """Ends without removing the webhooks."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(10)
            assert not self._thread.is_alive(), "the admission did not end"
            self._loop.close()

    def _in_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _main(self) -> None:
        access = load(str(self.stage.kubeconfig(USER)), None, OWN, None, {}, Path("/"))
        timings = Timings(now=self.clock, interval=0.05, recheck_interval=0.2)
        async with Client(access, 10.0, may_write=unrestricted) as client:
            deps = AdmissionDeps(
                client, self._codec, self._cache, self._registry, OWN, lambda: self._leads, lambda kind: True, Metrics()
            )
            converters = {"toys.dev/Thing": a_converter, "accurate.cybozu.com/SubNamespace": convert}
            self.admission = Admission(
                deps,
                self._listener,
                converters=converters,
                crds=self._crds,
                timings=timings,
            )
            running = asyncio.create_task(self.admission.run())
            ended = asyncio.create_task(self._over.wait())
            await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                self.fault = running.exception()
            async with quiet(self.admission):
                for task in (running, ended):
                    task.cancel()
                await asyncio.gather(running, ended, return_exceptions=True)
        await until_closed()  # TLS connections send a close notification before they close


@pytest.fixture
def crd(stage: Stage) -> Iterator[None]:
    """The CRD of a custom resource with two versions."""
    with defined(stage.cluster, json.dumps(CRD)):
        yield


def served(stage: Stage, version: str) -> bool:
    try:
        stage.api.items(f"/apis/toys.dev/{version}/things")
    except ApiFault:
        return False
    return True


@pytest.fixture
def hooks(stage: Stage, crd: None) -> Iterator[Webhooks]:
    """A registered admission, which is removed afterwards."""
    stage.namespace("a")
    with registered(stage) as running:
        yield running


@contextmanager
def registered(stage: Stage, **more: Any) -> Iterator[Webhooks]:
    running = Webhooks(stage, **more)
    try:
        running.start()
        eventually(lambda: is_in_force(stage))
        yield running
    finally:
        try:
            running.kill()
        finally:
            stage.api.gone(CONFIG)


def is_in_force(stage: Stage) -> bool:
    """True once the server calls the webhook, shortly after the configuration was stored."""
    if stage.api.find(CONFIG) is None or conversion(stage)["strategy"] != "Webhook":
        return False
    if not (served(stage, "v1") and served(stage, "v2")):  # the server recreates the storage after a change of the CRD
        return False
    return bool(refused(stage, lambda: a_secret(stage, {SYNC_TO: "everywhere"}, dryRun="All")))


def conversion(stage: Stage) -> Json:
    strategy: Json = (stage.api.find(CRD_PATH) or {"spec": {"conversion": {"strategy": "None"}}})["spec"]["conversion"]
    return strategy


def a_secret(stage: Stage, annotations: Json, name: str = "db", namespace: str = "a", **query: str) -> Json:
    meta = {"generateName": name} if name.endswith("-") else {"name": name}
    body = {"metadata": {**meta, "annotations": annotations}, "stringData": {"key": "hunter2"}}
    return stage.api.create(f"/api/v1/namespaces/{namespace}/secrets", body, **query)


def a_thing(stage: Stage, version: str = "v1", name: str = "one", word: str = "", **spec: Any) -> Json:
    meta = {"name": name, "annotations": {WORD: word} if word else {}}
    body = {"apiVersion": f"toys.dev/{version}", "kind": "Thing", "metadata": meta, "spec": spec}
    return stage.api.create(THINGS.replace("v1", version), body)


def refused(stage: Stage, request: Callable[[], Any]) -> str:
    """The message of the refusal, or an empty text."""
    try:
        request()
    except ApiFault as fault:
        return f"{fault.status} {fault.body.get('reason')} {fault.body.get('message')}"
    return ""


def test_an_invalid_value_is_refused_with_the_key_the_value_and_the_accepted_values(
    stage: Stage, hooks: Webhooks
) -> None:
    refusal = refused(stage, lambda: a_secret(stage, {SYNC_TO: "everywhere"}))
    assert refusal.startswith('422 Invalid admission webhook "secrets.samara.dev" denied the request: ')
    assert f"{SYNC_TO} is 'everywhere'; accepted are 'cluster' and 'namespaces'" in refusal
    assert stage.secret("a", "db") is None
    a_secret(stage, {SYNC_TO: "cluster"})


def test_kubectl_shows_the_same_message(stage: Stage, hooks: Webhooks) -> None:
    meta = {"name": "db", "namespace": "a", "annotations": {SYNC_TO: "everywhere"}}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    with pytest.raises(DevclusterError, match=r"accepted are 'cluster' and 'namespaces'"):
        stage.cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))


def test_one_refusal_lists_the_faults_of_all_vocabularies(stage: Stage, hooks: Webhooks) -> None:
    refusal = refused(stage, lambda: a_secret(stage, {SYNC_TO: "everywhere", TWIN: "nowhere"}))
    assert SYNC_TO in refusal
    assert "there is no namespace 'nowhere'" in refusal


def test_an_object_with_a_generated_name_is_validated_too(stage: Stage, hooks: Webhooks) -> None:
    assert a_secret(stage, {SYNC_TO: "cluster"}, "db-")["metadata"]["name"].startswith("db-")
    assert SYNC_TO in refused(stage, lambda: a_secret(stage, {SYNC_TO: "everywhere"}, "db-"))


def test_a_change_that_adds_a_fault_is_refused_and_one_that_removes_the_annotation_is_not(
    stage: Stage, hooks: Webhooks
) -> None:
    a_secret(stage, {SYNC_TO: "cluster"})
    path = stage.path("a", "db")
    assert "422" in refused(stage, lambda: stage.annotate(path, {SYNC_TO: "everywhere"}))
    stage.annotate(path, {SYNC_TO: None})


def test_an_empty_cache_refuses_no_object(stage: Stage, hooks: Webhooks) -> None:
    stage.namespace("twin")
    a_secret(stage, {TWIN: "twin"})


def test_a_dry_run_asks_the_server_and_stores_nothing(stage: Stage, hooks: Webhooks) -> None:
    refusal = refused(stage, lambda: a_thing(stage, data={"a b": "aHVudGVyMg=="}))
    assert "the API server refuses it" in refusal
    assert "aHVudGVyMg" not in refusal
    a_thing(stage, data={"ab": "aHVudGVyMg=="})
    names = [secret["metadata"]["name"] for secret in stage.api.items(f"/api/v1/namespaces/{OWN}/secrets")]
    assert names == ["samara-webhook-tls"]


def test_without_a_webhook_server_only_our_custom_resources_cannot_be_written(stage: Stage, hooks: Webhooks) -> None:
    hooks.kill()
    a_secret(stage, {}, "plain")
    a_secret(stage, {SYNC_TO: "everywhere"}, "worded")
    assert "failed calling webhook" in refused(stage, lambda: a_thing(stage))


def test_without_a_webhook_server_a_terminating_custom_resource_can_be_finished(stage: Stage, hooks: Webhooks) -> None:
    a_thing(stage)
    path = f"{THINGS}/one"
    stage.api.patch(path, {"metadata": {"finalizers": ["toys.dev/guard"]}})
    stage.api.delete(path)
    hooks.kill()
    stage.api.patch(path, {"metadata": {"finalizers": []}})
    assert stage.api.find(path) is None


def test_a_custom_resource_is_readable_and_validated_in_both_versions(stage: Stage, hooks: Webhooks) -> None:
    a_thing(stage, "v2", title="x")
    assert stage.api.get(f"{THINGS}/one")["spec"] == {"name": "x"}
    assert stage.api.get(f"{THINGS.replace('v1', 'v2')}/one")["spec"] == {"title": "x"}
    refusal = refused(stage, lambda: a_thing(stage, "v2", "two", "bad", title="x"))
    assert "toys.dev/word says 'bad'" in refusal


def test_a_registered_webhook_is_not_written_again_and_is_restored_when_changed(stage: Stage, hooks: Webhooks) -> None:
    before = {path: stage.api.get(path)["metadata"]["resourceVersion"] for path in (CONFIG, TLS)}
    generation = stage.api.get(CRD_PATH)["metadata"]["generation"]  # only the server may write its status
    looked = len(stage.audit.events())
    eventually(lambda: len(stage.audit.events()) > looked + 12)
    assert {path: stage.api.get(path)["metadata"]["resourceVersion"] for path in before} == before
    assert stage.api.get(CRD_PATH)["metadata"]["generation"] == generation
    stage.api.patch(CRD_PATH, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    stage.api.gone(CONFIG)
    eventually(lambda: is_in_force(stage))


def test_at_the_stop_the_webhook_and_the_conversion_are_removed(stage: Stage, hooks: Webhooks) -> None:
    hooks.close()
    assert stage.api.find(CONFIG) is None
    assert conversion(stage) == {"strategy": "None"}
    hooks.kill()
    a_thing(stage)
    eventually(lambda: served(stage, "v2"))


def test_a_rotation_of_all_certificates_causes_no_refused_call(stage: Stage, crd: None) -> None:
    stage.namespace("a")
    running = Webhooks(stage)
    running.clock.ahead = -490 * DAY
    running.start()
    running.clock.ahead = -20 * DAY
    try:
        eventually(lambda: is_in_force(stage))
        first = stage.api.get(TLS)["data"]
        running.clock.ahead = -2 * HOUR
        eventually(lambda: pems(stage.api.get(TLS)["data"]["ca.crt"]) == 2)
        assert all_refused(stage)
        bundle = stage.api.get(TLS)["data"]["ca.crt"]
        eventually(lambda: stage.api.get(CONFIG)["webhooks"][0]["clientConfig"]["caBundle"] == bundle)
        running.clock.ahead = 0
        eventually(lambda: stage.api.get(TLS)["data"]["tls.crt"] != first["tls.crt"])
        assert all_refused(stage)
        running.kill()  # all connections are closed too, so new ones get the new certificate
        running = Webhooks(stage, port=running.port).start()
        assert all_refused(stage)
        assert stage.api.get(TLS)["data"]["ca.key"] != first["ca.key"]
    finally:
        try:
            running.kill()
        finally:
            stage.api.gone(CONFIG)


def all_refused(stage: Stage) -> bool:
    return all(refused(stage, lambda: a_secret(stage, {SYNC_TO: "everywhere"})) for _ in range(20))


def pems(text: str) -> int:
    return base64.b64decode(text).count(b"BEGIN CERTIFICATE")


def test_in_a_cluster_only_the_bundle_of_the_charts_configuration_is_written(stage: Stage, crd: None) -> None:
    stage.namespace("a")
    port = free_port()
    endpoint = Endpoint(OWN, f"https://127.0.0.1:{port}")
    made = webhook_configuration(a_registry(), endpoint.client_config(ADMIT, b""), (OWN,))
    before = stage.api.create(HOOKS, made)
    with registered(stage, port=port, in_cluster=True) as running:
        a_secret(stage, {SYNC_TO: "everywhere"}, namespace=OWN, dryRun="All")  # the webhooks exclude our own namespace
        after = stage.api.get(CONFIG)
        bundle = stage.api.get(TLS)["data"]["ca.crt"]
        assert {hook["clientConfig"].pop("caBundle") for hook in after["webhooks"]} == {bundle}
        assert after["webhooks"] == before["webhooks"]
        assert set(owned(after)) == {"cluster-tests", "samara"}
        running.close()
        assert stage.api.find(CONFIG) is not None


def owned(obj: Json) -> list[str]:
    return [entry["manager"] for entry in obj["metadata"]["managedFields"]]


def test_a_second_replica_serves_the_leaders_certificate_and_writes_nothing(stage: Stage, hooks: Webhooks) -> None:
    before = stage.api.get(TLS)["metadata"]["resourceVersion"]
    standby = Webhooks(stage, leads=False).start()
    standby.close()
    standby.kill()
    assert stage.api.get(TLS)["metadata"]["resourceVersion"] == before
    assert is_in_force(stage)
