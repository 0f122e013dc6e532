"""Rows 11, 12, 23, 30 and 42 of the fault catalogue: kinds that come and go, admission, sizes, flapping labels."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.support.api import Api, ApiFault
from tests.cluster.support.audit import Event, until_recorded
from tests.cluster.support.definitions import DEFINITIONS, defined
from tests.cluster.support.granting import granted
from tests.cluster.support.hooks import CANARY, SAYS, Webhook
from tests.cluster.support.operators import LEASE as LASTS
from tests.cluster.support.operators import SHORT, STARTED, Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.proxy import Stream
from tests.cluster.support.stage import SECOND, USER, Stage
from tests.cluster.support.waiting import eventually, never

from samara import crds
from samara.app import STANDSTILL
from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.oracle_off("O4", reason="it knows Secrets only; here each test counts its own writes")

Json = dict[str, Any]
ASK, LIST, FROM = "openkruise.io/sync-to", "openkruise.io/sync-to-namespaces", "openkruise.io/synced-from"
DISTRIBUTION = "resourcedistributions.apps.kruise.io"
DISTRIBUTIONS = "/apis/apps.kruise.io/v1beta1/resourcedistributions"
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
LATE, GONE, UNSERVED, DOWN = (f"{name}.faults.example.com" for name in ("late", "gone", "unserved", "down"))
RESOURCES = {
    "": ["configmaps", "services"],
    "networking.k8s.io": ["networkpolicies"],
    "apps.kruise.io": ["resourcedistributions", "resourcedistributions/status"],
    "apiextensions.k8s.io": ["customresourcedefinitions"],
    **{group: ["widgets"] for group in (LATE, GONE, UNSERVED, DOWN)},
}
CONFIG_MAPS, SERVICES, POLICIES = "configmaps", "services", "networkpolicies"
APIS = {CONFIG_MAPS: "/api/v1", SERVICES: "/api/v1", POLICIES: "/apis/networking.k8s.io/v1"}
MIB = 2**20
BLOCKED = 'samara_copies{state="blocked",vocabulary="sync-to"}'
HOT = 10
"""More tries than this in a few seconds would be a hot loop."""


@pytest.fixture(scope="module", autouse=True)
def _rights(cluster: Devcluster) -> Iterator[None]:
    """Grants the users of the operator the rights for the kinds of these tests."""
    rules = [{"apiGroups": [group], "resources": names, "verbs": VERBS} for group, names in RESOURCES.items()]
    with granted(cluster, "fault-kinds", rules, USER, SECOND):
        yield


@pytest.fixture(scope="module")
def distribution(cluster: Devcluster) -> Iterator[None]:
    with defined(cluster, crds.text(DISTRIBUTION)):
        yield


def is_served(api: Api, path: str) -> bool:
    """Retries while the server does not serve the new kind yet."""
    try:
        api.get(path)
    except ApiFault as fault:
        if fault.status not in (404, 429):
            raise
        return False
    return True


class Scene:
    """Sources in the namespace `team` that request copies in `a` and `b`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.api = stage.api
        stage.namespace("team", "a", "b")

    def path(self, plural: str, namespace: str, name: str = "") -> str:
        api = APIS.get(plural) or f"/apis/{plural}/v1"
        what = plural if plural in APIS else "widgets"
        return f"{api}/namespaces/{namespace}/{what}{f'/{name}' if name else ''}"

    def make(self, plural: str, name: str, body: Json, **annotations: str) -> Json:
        """Creates a source, and registers its copies for removal: the stage removes only Secrets."""
        for namespace in ("team", "a", "b"):
            self.stage.also_remove(self.path(plural, namespace, name))
        all_annotations = {ASK: "namespaces", LIST: "a;b", **annotations}
        return self.api.create(
            self.path(plural, "team"), {"metadata": {"name": name, "annotations": all_annotations}, **body}
        )

    def find(self, plural: str, namespace: str, name: str) -> Json | None:
        return self.api.find(self.path(plural, namespace, name))

    def has(self, plural: str, name: str, field: str, value: object, *namespaces: str) -> bool:
        """True if all copies have the mark and this content."""
        copies = [self.find(plural, namespace, name) for namespace in namespaces or ("a", "b")]
        return all(copy is not None and copy.get(field) == value and FROM in metadata_of(copy) for copy in copies)

    def until_there(self, name: str) -> None:
        eventually(lambda: all(self.find(CONFIG_MAPS, namespace, name) is not None for namespace in ("a", "b")))

    def until(self, plural: str, name: str, field: str, value: object, *namespaces: str) -> None:
        eventually(lambda: self.has(plural, name, field, value, *namespaces), 30.0)

    def operator(self, *kinds: str, **config: Any) -> Operator:
        own = {"kinds": ["v1/ConfigMap", *kinds]}
        return self.stage.operator(config={"vocabularies": {"sync-to": own}, **config})

    def writes(self, mark: int = 0, dry: bool = False) -> list[Event]:
        """The operator's writes to sources and copies of any kind."""
        theirs = ("events", "leases")
        return [
            event
            for event in self.stage.audit.ours(mark)
            if event.mutating and event.resource not in theirs and event.name != "samara-holds" and event.dry_run == dry
        ]

    def wrote(self, mark: int = 0) -> dict[str, list[str]]:
        """The verbs of the writes, by namespace."""
        verbs: dict[str, list[str]] = {}
        for event in self.writes(mark):
            verbs.setdefault(event.namespace, []).append(event.verb)
        return verbs


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return Scene(stage)


def define(scene: Scene, group: str) -> None:
    """Widgets of a group, in two versions; returns once they are served."""
    loose = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v2", "schema": loose} for name in ("v1", "v2")]
    named = {"kind": "Widget", "plural": "widgets"}
    spec = {"group": group, "scope": "Namespaced", "names": named, "versions": versions}
    scene.stage.also_remove(f"{DEFINITIONS}/widgets.{group}")
    scene.api.create(DEFINITIONS, {"metadata": {"name": f"widgets.{group}"}, "spec": spec})
    eventually(lambda: is_served(scene.api, scene.path(group, "team")))


def a_widget(size: int, version: str) -> Json:
    return {"apiVersion": f"{version}/v1", "kind": "Widget", "spec": {"size": size}}


def until_waiting(operator: Operator, kind: str) -> None:
    eventually(lambda: kind in operator.waiting())


def until_served(operator: Operator, kind: str) -> None:
    eventually(lambda: kind not in operator.waiting())


# 11


def test_fault_11_a_kind_created_after_the_start_is_served_then_and_the_others_all_the_time(scene: Scene) -> None:
    operator = scene.operator(f"{LATE}/v1/Widget", **SHORT)
    assert f"{LATE}/v1/Widget" in operator.waiting()
    scene.make(CONFIG_MAPS, "early", {"data": {"n": "1"}})
    scene.until(CONFIG_MAPS, "early", "data", {"n": "1"})
    define(scene, LATE)
    scene.make(LATE, "w", a_widget(1, LATE))
    scene.until(LATE, "w", "spec", {"size": 1})
    until_served(operator, f"{LATE}/v1/Widget")
    until_recorded(scene.writes, 4)
    assert scene.wrote() == {"a": ["create"] * 2, "b": ["create"] * 2}, "starting again writes nothing twice"
    never(lambda: not operator.running, STANDSTILL * LASTS + 1.0)  # the restart closed the earlier listeners


def test_fault_11_a_kind_deleted_while_watched_waits_until_it_is_back_while_the_others_are_served(scene: Scene) -> None:
    define(scene, GONE)
    scene.make(GONE, "w", a_widget(1, GONE))
    scene.make(CONFIG_MAPS, "other", {"data": {"n": "1"}})
    operator = scene.operator(f"{GONE}/v1/Widget")
    scene.until(GONE, "w", "spec", {"size": 1})
    mark = scene.stage.audit.mark()
    scene.api.delete(f"{DEFINITIONS}/widgets.{GONE}")
    until_waiting(operator, f"{GONE}/v1/Widget")
    scene.api.patch(scene.path(CONFIG_MAPS, "team", "other"), {"data": {"n": "2"}})
    scene.until(CONFIG_MAPS, "other", "data", {"n": "2"})
    assert len([event for event in scene.writes(mark) if event.resource == "widgets"]) <= HOT
    eventually(lambda: scene.api.find(f"{DEFINITIONS}/widgets.{GONE}") is None)
    define(scene, GONE)
    scene.make(GONE, "w", a_widget(2, GONE))
    scene.until(GONE, "w", "spec", {"size": 2})
    until_served(operator, f"{GONE}/v1/Widget")


def test_fault_11_a_version_that_is_no_longer_served_deletes_nothing_and_is_reconciled_later(scene: Scene) -> None:
    define(scene, UNSERVED)
    scene.make(UNSERVED, "w", a_widget(1, UNSERVED))
    operator = scene.operator(f"{UNSERVED}/v1/Widget")
    scene.until(UNSERVED, "w", "spec", {"size": 1})
    mark = scene.stage.audit.mark()
    serve(scene, UNSERVED, "v1", served=False)
    until_waiting(operator, f"{UNSERVED}/v1/Widget")
    stored = f"/apis/{UNSERVED}/v2/namespaces/team/widgets/w"
    scene.api.patch(stored, {"spec": {"size": 2}})
    copies = [f"/apis/{UNSERVED}/v2/namespaces/{namespace}/widgets/w" for namespace in ("a", "b")]
    assert [scene.api.get(copy)["spec"] for copy in copies] == [{"size": 1}] * 2, "what cannot be seen stays"
    scene.make(CONFIG_MAPS, "other", {"data": {"n": "1"}})
    scene.until(CONFIG_MAPS, "other", "data", {"n": "1"})
    serve(scene, UNSERVED, "v1", served=True)
    scene.until(UNSERVED, "w", "spec", {"size": 2})
    assert "delete" not in [event.verb for event in scene.writes(mark)]


def serve(scene: Scene, group: str, version: str, *, served: bool) -> None:
    path = f"{DEFINITIONS}/widgets.{group}"
    live = scene.api.get(path)
    for entry in live["spec"]["versions"]:
        entry["served"] = served or entry["name"] != version
    scene.api.patch(path, {"spec": {"versions": live["spec"]["versions"]}})


# 12


def test_fault_12_an_aggregated_api_that_is_down_waits_and_leaves_the_others_alone(scene: Scene) -> None:
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {
        "group": DOWN,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "service": {"namespace": "default", "name": "nowhere"},
        "insecureSkipTLSVerify": True,
    }
    scene.stage.also_remove(f"{services}/v1.{DOWN}")
    scene.api.create(services, {"metadata": {"name": f"v1.{DOWN}"}, "spec": spec})
    eventually(lambda: _is_down(scene.api.get(f"{services}/v1.{DOWN}")))
    scene.make(CONFIG_MAPS, "x", {"data": {"n": "1"}})
    operator = scene.operator(f"{DOWN}/v1/Widget", "networking.k8s.io/v1/NetworkPolicy")
    assert "503" in operator.waiting()[f"{DOWN}/v1/Widget"]
    scene.make(POLICIES, "deny", {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})
    scene.until(CONFIG_MAPS, "x", "data", {"n": "1"})
    scene.until(POLICIES, "deny", "spec", {"podSelector": {}, "policyTypes": ["Ingress"]})


def _is_down(service: Json) -> bool:
    conditions = (service.get("status") or {}).get("conditions") or ()
    return any((condition["type"], condition["status"]) == ("Available", "False") for condition in conditions)


# 23


def test_fault_23_a_webhook_that_changes_our_copies_is_not_fought_even_after_a_restart(
    scene: Scene, tmp_path: Path
) -> None:
    with Webhook(scene.stage, tmp_path, "changes"):
        operator = scene.operator(resync="1s")
        scene.make(CONFIG_MAPS, "x", {"data": {"n": "1"}})
        scene.until(CONFIG_MAPS, "x", "data", {"n": "1", "injected": "by admission"}, "a")
        scene.until(CONFIG_MAPS, "x", "data", {"n": "1"}, "b")
        never(lambda: len(scene.wrote()["a"]) > 1, 2.0)
        mark = scene.stage.audit.mark()
        operator.stop()
        scene.operator(resync="1s")
        never(lambda: scene.wrote(mark), 2.0)
        assert len(scene.writes(mark, dry=True)) <= 1, "asked once, and remembered"
        scene.api.patch(scene.path(CONFIG_MAPS, "team", "x"), {"data": {"n": "2"}})
        scene.until(CONFIG_MAPS, "x", "data", {"n": "2", "injected": "by admission"}, "a")
        scene.until(CONFIG_MAPS, "x", "data", {"n": "2"}, "b")
        eventually(lambda: scene.wrote(mark) == {"a": ["update"], "b": ["update"]})
        never(lambda: scene.wrote(mark) != {"a": ["update"], "b": ["update"]}, 1.0)
        scene.api.patch(scene.path(CONFIG_MAPS, "a", "x"), {"data": {"n": "edited"}})
        scene.until(CONFIG_MAPS, "x", "data", {"n": "2", "injected": "by admission"}, "a")


@pytest.mark.parametrize("what", ["down", "slow", "rejects", "breaks"])
def test_fault_23_a_webhook_that_is_down_slow_or_refuses_degrades_only_its_own_namespace(
    scene: Scene, tmp_path: Path, what: str
) -> None:
    with Webhook(scene.stage, tmp_path, what) as webhook:
        operator = scene.operator()
        scene.make(CONFIG_MAPS, "x", {"data": {"n": "1"}})
        scene.until(CONFIG_MAPS, "x", "data", {"n": "1"}, "b")
        eventually(lambda: "a" in scene.wrote())
        message = scene.stage.until_event("Refused", "team", "x")["message"]
        assert SAYS[what] in message
        assert message.endswith("in 1 namespace: a")
        eventually(lambda: operator.metrics()[BLOCKED] == 1)
        never(lambda: len(scene.wrote()["a"]) > HOT, 1.5)
        scene.api.patch(scene.path(CONFIG_MAPS, "team", "x"), {"data": {"n": "2"}})
        scene.until(CONFIG_MAPS, "x", "data", {"n": "2"}, "b")
        webhook.remove()
        scene.until(CONFIG_MAPS, "x", "data", {"n": "2"}, "a")
        eventually(lambda: operator.metrics()[BLOCKED] == 0)
        assert CANARY not in operator.log


# 30


def test_fault_30_an_object_of_the_maximum_size_is_copied_unchanged(
    stage: Stage, measured: Callable[[str, float], None]
) -> None:
    stage.namespace("a", "b")
    operator = stage.operator(program=STARTED)
    before = operator.memory_peak()
    stage.source("brim", "a,b", {"value": "x" * (MIB - 1)})
    stage.source("empty", "a,b")
    stage.api.patch(stage.path("admin", "empty"), {"data": None})
    stage.source("many", "a,b", {f"key-{number:05}": "" for number in range(10_000)})
    stage.source("odd", "a,b", {"text": "ключ — 鍵 — 🗝", "quoted": '"\\ \u2028 <&>'}, labels={"l": "1"})
    for name in ("brim", "empty", "many", "odd"):
        stage.until_copied(name, "a", "b")
    assert stage.data("a", "odd") == stage.data("admin", "odd")
    grown = (operator.memory_peak() - before) / MIB
    measured("the operator's memory grew at most by, in MiB", grown)
    assert grown < 40


def test_fault_30_a_copy_that_would_be_too_large_is_reported_and_delays_no_other(scene: Scene) -> None:
    """The mark of a copy can be longer than the request of its source, so full annotations do not fit."""
    most, brim = 256 * 1024, f"brim-{'x' * 60}"
    annotations = {ASK: "namespaces", LIST: "a;b"}
    left = most - sum(len(key) + len(value) for key, value in annotations.items()) - len("note")
    operator = scene.operator()
    scene.make(CONFIG_MAPS, brim, {"data": {"n": "1"}}, note="x" * left)
    message = scene.stage.until_event("Refused", "team", brim)["message"]
    assert str(most) in message
    scene.make(CONFIG_MAPS, "fits", {"data": {"n": "1"}}, note="x" * (left - 100))
    scene.make(CONFIG_MAPS, "bare", {})
    scene.make(CONFIG_MAPS, "raw", {"binaryData": {"raw": base64.b64encode(bytes(range(256))).decode()}})
    scene.until(CONFIG_MAPS, "fits", "data", {"n": "1"})
    scene.until(CONFIG_MAPS, "bare", "data", None)
    scene.until(CONFIG_MAPS, "raw", "binaryData", {"raw": base64.b64encode(bytes(range(256))).decode()})
    assert scene.find(CONFIG_MAPS, "a", brim) is None
    assert operator.metrics()['samara_copies{state="blocked",vocabulary="sync-to"}'] == 2


@pytest.mark.usefixtures("distribution")
def test_fault_30_an_embedded_object_that_the_server_refuses_is_reported_in_a_condition(scene: Scene) -> None:
    scene.stage.operator(config={"vocabularies": {"resource-distribution": {}}})
    distribute(scene, "huge", a_map("huge", {"key": "x" * (MIB + 1)}), {"includedNamespaces": listed("a", "b")})
    eventually(lambda: (problem(scene, "huge", "CreateResourceFailed") or {}).get("failedNamespaces") == ["a", "b"])
    condition = problem(scene, "huge", "CreateResourceFailed")
    assert condition is not None
    assert (condition["reason"], condition["failedNamespaces"]) == ("Refused", ["a", "b"])
    distribute(scene, "small", a_map("small", {"key": "x"}), {"includedNamespaces": listed("a", "b")})
    eventually(lambda: scene.find(CONFIG_MAPS, "b", "small") is not None)


@pytest.mark.usefixtures("distribution")
def test_fault_44_a_distribution_missing_from_the_first_list_is_read_before_its_copies_are_deleted(
    scene: Scene,
) -> None:
    config: Json = {"vocabularies": {"resource-distribution": {}}}
    operator = scene.stage.operator(config=config)
    distribute(scene, "there", a_map("there", {"key": "one"}), {"includedNamespaces": listed("a", "b")})
    scene.until_there("there")
    operator.stop()
    proxy = scene.stage.proxy()
    lacking = proxy.on_event(lambda seen, event: seen.plural == "resourcedistributions" and seen.lists, only_its_end)
    operator = scene.stage.operator(through=proxy, config=config)
    eventually(lambda: lacking.hits)
    mark = scene.stage.audit.mark()
    scene.api.patch(scene.path(CONFIG_MAPS, "a", "there"), {"data": {"key": "drifted"}})
    eventually(lambda: (scene.find(CONFIG_MAPS, "a", "there") or {})["data"] == {"key": "one"})
    written = until_recorded(lambda: [event for event in scene.writes(mark) if event.resource == CONFIG_MAPS], 1)
    assert [event.verb for event in written] == ["update"]


async def only_its_end(stream: Stream, line: bytes) -> list[bytes]:
    """A list without its objects."""
    return [] if json.loads(line)["type"] == "ADDED" else [line]


def a_map(name: str, data: Mapping[str, str]) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(data)}


def listed(*names: str) -> Json:
    return {"list": [{"name": name} for name in names]}


def distribute(scene: Scene, name: str, resource: Json, targets: Json) -> None:
    scene.stage.also_remove(f"{DISTRIBUTIONS}/{name}")
    for namespace in ("a", "b"):
        scene.stage.also_remove(scene.path(CONFIG_MAPS, namespace, name))
    spec = {"resource": resource, "targets": targets}
    head = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution"}
    scene.api.create(DISTRIBUTIONS, {**head, "metadata": {"name": name}, "spec": spec})


def problem(scene: Scene, name: str, kind: str) -> Json | None:
    """The condition of this type if it is true, else None."""
    status = scene.api.get(f"{DISTRIBUTIONS}/{name}").get("status") or {}
    return next(
        (
            condition
            for condition in status.get("conditions") or ()
            if (condition["type"], condition["status"]) == (kind, "True")
        ),
        None,
    )


# 42


@pytest.mark.usefixtures("distribution")
def test_fault_42_a_flapping_label_does_not_create_and_delete_copies_repeatedly(scene: Scene) -> None:
    scene.stage.operator(config={"vocabularies": {"resource-distribution": {}}})
    label(scene, "a", "red")
    targets = {"namespaceLabelSelector": {"matchLabels": {"team": "red"}}}
    distribute(scene, "flap", a_map("flap", {"key": "one"}), targets)
    eventually(lambda: scene.find(CONFIG_MAPS, "a", "flap") is not None)
    for _ in range(2):  # two removals may be intended
        label(scene, "a", "blue")
        eventually(lambda: scene.find(CONFIG_MAPS, "a", "flap") is None)
        label(scene, "a", "red")
        first = eventually(lambda: scene.find(CONFIG_MAPS, "a", "flap"))
    mark = scene.stage.audit.mark()
    for _ in range(10):
        for team in ("blue", "red"):
            label(scene, "a", team)
            eventually(lambda now=team: desired(scene, "flap") == (now == "red"))  # type: ignore[misc]
    last = scene.find(CONFIG_MAPS, "a", "flap")
    assert last is not None
    assert first is not None
    assert last["metadata"]["uid"] == first["metadata"]["uid"]
    assert [event for event in scene.writes(mark) if event.resource == CONFIG_MAPS] == []


def label(scene: Scene, namespace: str, team: str) -> None:
    scene.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"team": team}}})


def desired(scene: Scene, name: str) -> int:
    return int((scene.api.get(f"{DISTRIBUTIONS}/{name}").get("status") or {}).get("desired", -1))


# Kinds in which the server sets fields of its own


def test_a_service_and_a_network_policy_are_copied_and_never_written_again(scene: Scene) -> None:
    kinds = ("v1/Service", "networking.k8s.io/v1/NetworkPolicy")
    port = {"name": "web", "port": 80, "protocol": "TCP", "targetPort": 8080}
    policy = {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]}
    scene.make(SERVICES, "web", {"spec": {"selector": {"app": "web"}, "ports": [port]}})
    scene.make(SERVICES, "open", {"spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [port]}})
    scene.make(SERVICES, "none", {"spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [port]}})
    scene.make(POLICIES, "web", {"spec": policy})
    operator = scene.operator(*kinds, resync="1s")
    scene.until(POLICIES, "web", "spec", policy)
    eventually(lambda: len(addresses(scene, "web")) == 3)
    eventually(lambda: len(addresses(scene, "open")) == 3)
    eventually(lambda: addresses(scene, "none") == {"None"})
    mark = scene.stage.audit.mark()
    never(lambda: scene.wrote(mark), 2.5)
    operator.stop()
    scene.operator(*kinds, resync="1s")
    never(lambda: scene.writes(mark), 1.5)
    before = addresses(scene, "web")
    scene.api.patch(scene.path(SERVICES, "team", "web"), {"spec": {"ports": [{**port, "targetPort": 9090}]}})
    eventually(lambda: targets(scene, "web") == {9090})
    assert addresses(scene, "web") == before, "each keeps the address that the server gave it"
    until_recorded(lambda: scene.writes(mark), 2)
    assert scene.wrote(mark) == {"a": ["update"], "b": ["update"]}


def services(scene: Scene, name: str) -> list[Json]:
    live_or_none = [scene.find(SERVICES, namespace, name) for namespace in ("team", "a", "b")]
    return [service for service in live_or_none if service is not None]


def addresses(scene: Scene, name: str) -> set[str]:
    live_services = services(scene, name)
    return {service["spec"]["clusterIP"] for service in live_services} if len(live_services) == 3 else set()


def targets(scene: Scene, name: str) -> set[int]:
    return {service["spec"]["ports"][0]["targetPort"] for service in services(scene, name)}
