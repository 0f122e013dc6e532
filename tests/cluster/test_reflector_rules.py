"""The rules of reflector on a real server, by their numbers in the specification, each where the server matters."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.cluster.support.audit import Event
from tests.cluster.support.operators import Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import USER, Stage, decoded, encoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
PREFIX = "reflector.v1.k8s.emberstack.com/"
ALLOWED, AUTO = f"{PREFIX}reflection-allowed", f"{PREFIX}reflection-auto-enabled"
ALLOWED_NAMES, ALLOWED_SELECTOR = f"{ALLOWED}-namespaces", f"{ALLOWED}-namespaces-selector"
AUTO_NAMES, AUTO_SELECTOR = f"{PREFIX}reflection-auto-namespaces", f"{PREFIX}reflection-auto-namespaces-selector"
REFLECTS, AUTO_REFLECTS = f"{PREFIX}reflects", f"{PREFIX}auto-reflects"
VERSION, AT = f"{PREFIX}reflected-version", f"{PREFIX}reflected-at"
ON = {ALLOWED: "true", AUTO: "true"}
ORIGINAL = "kubernetes-csharp"
SETTLED = 0.5
"""For how many seconds a test watches for something that must not happen."""
PLACEHOLDER = {"placeholder": "x"}


class Scene:
    """A stage with a source `team/db`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def path(self, namespace: str, name: str = "db") -> str:
        return self.stage.path(namespace, name)

    def make(
        self,
        namespace: str = "team",
        name: str = "db",
        annotations: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
        manager: str = "",
        **fields: Any,
    ) -> Json:
        body = {
            "metadata": {"name": name, "annotations": dict(annotations or {}), **fields.pop("metadata", {})},
            "type": "Opaque",
            "data": encoded(data if data is not None else {"key": "1"}),
            **fields,
        }
        query = f"?fieldManager={manager}" if manager else ""
        return self.stage.api.create(f"/api/v1/namespaces/{namespace}/secrets{query}", body)

    def pull(self, namespace: str, name: str, source: str, **more: Any) -> Json:
        marks = {REFLECTS: source, **more.pop("annotations", {})}
        return self.make(namespace, name, marks, more.pop("data", PLACEHOLDER), **more)

    def annotate(self, annotations: Mapping[str, str | None], namespace: str = "team", name: str = "db") -> None:
        self.stage.annotate(self.path(namespace, name), annotations)

    def edit(self, data: Mapping[str, str | None], namespace: str = "team", name: str = "db") -> None:
        values = {key: None if value is None else encoded({key: value})[key] for key, value in data.items()}
        self.stage.api.patch(self.path(namespace, name), {"data": values})

    def label(self, namespace: str, labels: Mapping[str, str | None]) -> None:
        self.stage.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": dict(labels)}})

    def get(self, namespace: str, name: str = "db") -> Json | None:
        return self.stage.secret(namespace, name)

    def data(self, namespace: str, name: str = "db") -> dict[str, str] | None:
        found = self.get(namespace, name)
        return None if found is None else decoded(found)

    def marks(self, namespace: str, name: str = "db") -> dict[str, str]:
        found = self.get(namespace, name)
        assert found is not None
        return metadata_of(found)

    def until(self, namespace: str, name: str = "db", **data: str) -> None:
        eventually(lambda: self.data(namespace, name) == data)

    def until_gone(self, namespace: str, name: str = "db") -> None:
        self.stage.until_gone(namespace, name)

    def operator(self, config: Mapping[str, Any] | None = None, **own: Any) -> Operator:
        served = {"vocabularies": {"reflector": own, "secret-copy": {}}, "sourceGoneAfter": "0s"}
        return self.stage.operator(config={**served, **(config or {})})

    def original(self, namespace: str, name: str = "db", auto: bool = True, **data: str) -> Json:
        """A mirror as the original writes it: a create by its field manager, with four annotations."""
        marks = {
            AUTO_REFLECTS: str(auto),
            REFLECTS: "team/db",
            VERSION: "1234",
            AT: "2026-08-01T10:00:00.1234567+00:00",
        }
        return self.make(namespace, name, marks, data or None, manager=ORIGINAL)

    def writes(self, mark: int) -> list[Event]:
        """The writes of the operator to Secrets since then, and a little longer."""
        time.sleep(SETTLED)
        events = [event for event in self.stage.audit.writes(mark) if event.resource == "secrets"]
        return [event for event in events if event.user == USER and not event.dry_run]


@pytest.fixture
def scene(stage: Stage) -> Scene:
    stage.namespace("team", "shop", "shop-test", "billing")
    return Scene(stage)


def test_r1_to_r6_mirrors_follow_their_source_and_the_namespaces(scene: Scene) -> None:
    scene.make(
        annotations=ON
        | {AUTO_NAMES: "(?!shop-|admin).*", AUTO_SELECTOR: "pull in (yes)", ALLOWED_NAMES: "(?!kube-|default).*"},
        metadata={"labels": {"app": "db"}},
    )
    scene.operator()
    for name in ("shop", "billing"):
        scene.until(name, key="1")
    never(lambda: scene.get("shop-test") or scene.get("admin"), SETTLED)
    mirror = scene.get("shop")
    source = scene.get("team")
    assert mirror is not None
    assert source is not None
    assert set(metadata_of(mirror)) == {REFLECTS, AUTO_REFLECTS, VERSION, AT}
    assert mirror["metadata"].get("labels") is None
    assert (metadata_of(mirror)[REFLECTS], metadata_of(mirror)[AUTO_REFLECTS]) == ("team/db", "True")
    assert metadata_of(mirror)[VERSION] == source["metadata"]["resourceVersion"]
    scene.label("shop-test", {"pull": "yes"})
    scene.until("shop-test", key="1")
    scene.stage.namespace("new")
    scene.until("new", key="1")
    scene.edit({"key": None, "other": "2"})
    scene.edit({"added": "x"}, "billing")
    for name in ("shop", "billing", "shop-test", "new"):
        scene.until(name, other="2")
    scene.label("shop-test", {"pull": None})
    scene.until_gone("shop-test")
    scene.annotate({AUTO: "false"})
    scene.until_gone("shop")
    scene.annotate({AUTO: "true"})
    scene.until("shop", other="2")
    scene.stage.api.delete(scene.path("team"))
    for name in ("shop", "billing", "new"):
        scene.until_gone(name)


def test_r6_what_happened_while_samara_was_down_is_made_up_for(scene: Scene) -> None:
    scene.make(annotations=ON | {AUTO_NAMES: "shop, billing"})
    first = scene.operator()
    scene.until("shop", key="1")
    scene.until("billing", key="1")
    first.stop()
    scene.annotate({AUTO_NAMES: "billing"})
    second = scene.operator()
    scene.until_gone("shop")
    second.stop()
    scene.stage.api.delete(scene.path("team"))
    scene.operator()
    scene.until_gone("billing")


def test_r7_a_mirror_that_a_person_made_under_the_same_name_stays(scene: Scene) -> None:
    scene.pull("shop", "db", "team/db")
    scene.pull("billing", "db", "team/other")
    scene.make(annotations=ON | {AUTO_NAMES: "shop.*|billing"})
    scene.operator()
    scene.until("shop", key="1")
    assert scene.marks("shop")[AUTO_REFLECTS] == "False"
    scene.stage.until_event("Conflict", "team", "db")
    assert scene.data("billing") == PLACEHOLDER
    uid = scene.get("shop")["metadata"]["uid"]  # type: ignore[index]
    scene.stage.api.delete(scene.path("team"))
    never(lambda: scene.get("shop") is None or scene.get("billing") is None, SETTLED)
    assert scene.get("shop")["metadata"]["uid"] == uid  # type: ignore[index]


def test_r8_a_changed_type_recreates_the_mirror(scene: Scene) -> None:
    scene.make(annotations=ON | {AUTO_NAMES: "shop"})
    scene.operator()
    scene.until("shop", key="1")
    scene.stage.api.delete(scene.path("team"))
    scene.make(annotations=ON | {AUTO_NAMES: "shop"}, type="example/two")
    eventually(lambda: (scene.get("shop") or {}).get("type") == "example/two")


def test_r10_to_r14_a_mirror_is_filled_and_stays_its_makers_object(scene: Scene) -> None:
    scene.make(annotations={ALLOWED: "true", ALLOWED_SELECTOR: "pull=yes"})
    made = scene.pull(
        "shop", "mine", "team/db", annotations={"mine": "1"}, metadata={"labels": {"a": "b"}}, type="example/mine"
    )
    scene.operator()
    scene.stage.until_event("NotAccepted", "shop", "mine")
    assert scene.data("shop", "mine") == PLACEHOLDER
    mark = scene.stage.audit.mark()
    scene.label("shop", {"pull": "yes"})
    scene.until("shop", "mine", key="1")
    assert len(scene.writes(mark)) == 1
    filled = scene.get("shop", "mine")
    source = scene.get("team")
    assert filled is not None
    assert source is not None
    assert (filled["metadata"]["uid"], filled["type"]) == (made["metadata"]["uid"], "example/mine")
    assert filled["metadata"]["labels"] == {"a": "b"}
    assert set(metadata_of(filled)) == {REFLECTS, "mine", AUTO_REFLECTS, VERSION, AT}
    assert metadata_of(filled)[AUTO_REFLECTS] == "False"
    assert metadata_of(filled)[VERSION] == source["metadata"]["resourceVersion"]
    scene.edit({"key": None, "placeholder": "again"}, "shop", "mine")
    scene.until("shop", "mine", key="1")
    mark = scene.stage.audit.mark()
    scene.annotate({VERSION: ""}, "shop", "mine")
    assert scene.writes(mark) == []
    scene.label("shop", {"pull": None})
    scene.stage.until_event("NotAccepted", "shop", "mine")
    scene.edit({"key": "2"})
    never(lambda: scene.data("shop", "mine") != {"key": "1"}, SETTLED)
    scene.annotate({ALLOWED_SELECTOR: None})
    scene.until("shop", "mine", key="2")
    scene.stage.api.delete(scene.path("team"))
    never(lambda: scene.data("shop", "mine") != {"key": "2"}, SETTLED)
    scene.make(annotations={ALLOWED: "true"}, data={"key": "3"})
    scene.until("shop", "mine", key="3")


def test_r15_another_source_an_illegal_one_and_none(scene: Scene) -> None:
    scene.make(annotations={ALLOWED: "true"})
    scene.make("billing", "b", {ALLOWED: "true"}, {"b": "1"})
    scene.pull("shop", "mine", "team/db")
    scene.operator()
    scene.until("shop", "mine", key="1")
    scene.annotate({REFLECTS: "billing/b"}, "shop", "mine")
    scene.until("shop", "mine", b="1")
    scene.annotate({REFLECTS: "shop/mine"}, "shop", "mine")
    assert REFLECTS in scene.stage.until_event("Invalid", "shop", "mine")["message"]
    scene.annotate({REFLECTS: None}, "shop", "mine")
    scene.edit({"b": "2"}, "billing", "b")
    never(lambda: scene.data("shop", "mine") != {"b": "1"}, SETTLED)


def test_r16_a_change_runs_along_a_chain_and_a_circle_fills_nobody(scene: Scene) -> None:
    scene.make(annotations={ALLOWED: "true"})
    names = [f"m{number}" for number in range(8)]
    for source, name in zip(["team/db", *(f"shop/{name}" for name in names)], names, strict=False):
        scene.pull("shop", name, source, annotations={ALLOWED: "true"})
    scene.pull("billing", "x", "billing/y", annotations={ALLOWED: "true"})
    scene.pull("billing", "y", "billing/x", annotations={ALLOWED: "true"}, data={"y": "1"})
    scene.operator()
    scene.until("shop", "m7", key="1")
    for name in ("x", "y"):
        scene.stage.until_event("Invalid", "billing", name)
    assert (scene.data("billing", "x"), scene.data("billing", "y")) == (PLACEHOLDER, {"y": "1"})
    mark = scene.stage.audit.mark()
    scene.edit({"key": "2"})
    scene.until("shop", "m7", key="2")
    assert len(scene.writes(mark)) == len(names)


def test_r17_releases_of_helm_are_neither_sources_nor_mirrors(scene: Scene) -> None:
    scene.make(annotations=ON, type="helm.sh/release.v1")
    scene.make("team", "other", {ALLOWED: "true"})
    scene.pull("shop", "mine", "team/db")
    scene.pull("shop", "release", "team/other", type="helm.sh/release.v1")
    scene.operator()
    scene.stage.until_event("Refused", "shop", "mine")
    never(lambda: scene.get("billing"), SETTLED)
    assert scene.data("shop", "release") == PLACEHOLDER


@pytest.mark.oracle_off("O4", reason="mirrors that the original made count as ours, which the oracle does not know")
def test_r18_taking_over_writes_nothing_and_removes_what_lost_its_source(scene: Scene) -> None:
    scene.make(annotations=ON)
    for name in ("shop", "shop-test", "billing", "admin"):
        scene.original(name)
    scene.original("default")
    scene.original("shop", "mine", auto=False)
    scene.make("billing", "lost", {AUTO_REFLECTS: "True", REFLECTS: "team/lost"}, manager=ORIGINAL)
    scene.make("billing", "pasted", {AUTO_REFLECTS: "True", REFLECTS: "team/pasted"}, manager="kubectl")
    mark = scene.stage.audit.mark()
    scene.operator()
    scene.until_gone("billing", "lost")
    assert [(event.verb, event.name) for event in scene.writes(mark)] == [("delete", "lost")]
    assert scene.get("billing", "pasted") is not None


@pytest.mark.oracle_off("O4", reason="the oracle knows adopted objects by the marks of secret copy only")
def test_r19_a_foreign_object_is_never_overwritten(scene: Scene) -> None:
    scene.make("shop", "db", data={"theirs": "1"})
    scene.make("billing", "db")
    scene.make(annotations=ON | {AUTO_SELECTOR: "pull=yes"})
    scene.operator()
    scene.label("shop", {"pull": "yes"})
    scene.label("billing", {"pull": "yes"})
    scene.stage.until_event("Conflict", "team", "db")
    eventually(lambda: "samara.dev/adopted" in scene.marks("billing"))
    assert scene.data("shop") == {"theirs": "1"}
    scene.label("billing", {"pull": None})
    eventually(lambda: REFLECTS not in scene.marks("billing"))
    assert not {AUTO_REFLECTS, VERSION, AT}.intersection(scene.marks("billing"))


def test_r20_and_r21_faults_are_reported_and_delay_nobody(scene: Scene) -> None:
    long = "a" * 63
    scene.stage.namespace(long)
    scene.make(annotations=ON | {AUTO_NAMES: "shop, billing"})
    operator = scene.operator()
    scene.until("shop", key="1")
    scene.annotate({AUTO_NAMES: "*, billing"})
    assert AUTO_NAMES in scene.stage.until_event("Invalid", "team", "db")["message"]
    never(lambda: scene.get("shop") is None, SETTLED)
    slow = ",".join(f"(?=(a|aa)+$)(a|aa)+(?!b)c{number}" for number in range(30))
    scene.make("team", "other", ON | {AUTO_NAMES: "shop"})
    scene.until("shop", "other", key="1")
    scene.make("team", "slow", ON | {AUTO_NAMES: f"{slow}, shop"})
    started = time.monotonic()
    scene.edit({"key": "2"}, "team", "other")
    scene.until("shop", "other", key="2")
    assert time.monotonic() - started < 2.0
    scene.until("shop", "slow", key="1")
    assert AUTO_NAMES in scene.stage.until_event("Invalid", "team", "slow")["message"]
    assert operator.running


def test_r22_and_r23_consent_and_protected_namespaces(scene: Scene) -> None:
    scene.make(annotations=ON | {AUTO_NAMES: "shop, kube-system"})
    scene.pull("billing", "mine", "team/db")
    scene.operator(crossNamespace="consent")
    scene.stage.until_event("NotAccepted", "team", "db")
    scene.stage.until_event("Refused", "team", "db")
    scene.until("billing", "mine", key="1")
    assert scene.get("shop") is None
    scene.stage.annotate("/api/v1/namespaces/shop", {"samara.dev/accept-from": "team"})
    scene.until("shop", key="1")


def test_a3_mirrors_carry_the_marks_that_the_original_reads(scene: Scene) -> None:
    """The original keeps a mirror if `reflects` names its source, and skips one whose version is that of the source."""
    scene.make(annotations=ON | {AUTO_NAMES: "shop"})
    scene.pull("billing", "mine", "team/db")
    scene.operator()
    scene.until("shop", key="1")
    scene.until("billing", "mine", key="1")
    source = scene.get("team")
    assert source is not None
    for namespace, name in (("shop", "db"), ("billing", "mine")):
        marks = scene.marks(namespace, name)
        assert marks[REFLECTS] == "team/db"
        assert marks[VERSION] == source["metadata"]["resourceVersion"]
        assert marks[AT].endswith("Z")


def test_a12_an_immutable_mirror_is_refused_and_stays(scene: Scene) -> None:
    scene.make(annotations={ALLOWED: "true"})
    made = scene.pull("shop", "mine", "team/db", immutable=True)
    scene.pull("billing", "tls", "team/db", type="kubernetes.io/tls", data={"tls.crt": "", "tls.key": ""})
    scene.operator()
    scene.stage.until_event("Refused", "shop", "mine")
    scene.stage.until_event("Refused", "billing", "tls")
    found = scene.get("shop", "mine")
    assert found is not None
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a13_no_other_source_takes_the_place_of_a_filled_object(scene: Scene) -> None:
    scene.make(annotations={ALLOWED: "true"})
    scene.pull("shop", "mine", "team/db")
    scene.operator()
    scene.until("shop", "mine", key="1")
    scene.stage.source("mine", "shop")
    scene.stage.expect.blocked.add(("shop", "mine"))
    scene.stage.until_event("Conflict", "admin", "mine")
    assert scene.data("shop", "mine") == {"key": "1"}


def test_a_source_without_any_key_is_read_once_and_then_watched(scene: Scene) -> None:
    """Nothing but the mirror says that this object matters. A permission that comes later fills the mirror at once."""
    scene.make()
    scene.operator()
    scene.stage.until_seen()
    mark = scene.stage.audit.mark()
    scene.pull("shop", "mine", "team/db")
    scene.stage.until_event("NotAccepted", "shop", "mine")
    scene.annotate({ALLOWED: "true"})
    scene.until("shop", "mine", key="1")
    scene.edit({"key": "2"})
    scene.until("shop", "mine", key="2")
    reads = [
        event
        for event in scene.stage.audit.since(mark)
        if event.user == USER and event.verb in ("get", "list") and event.resource == "secrets"
    ]
    assert [(event.namespace, event.name) for event in reads] == [("team", "db")]
