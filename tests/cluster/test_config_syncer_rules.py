"""The rules of config-syncer on a real server, by their numbers, with copies as the original writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.cli.program import samara
from tests.cluster.support.api import Api
from tests.cluster.support.granting import granted
from tests.cluster.support.operators import Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.originals import installed
from tests.cluster.support.stage import SECOND, USER, Stage, encoded
from tests.cluster.support.waiting import eventually, never

from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only")

Json = dict[str, Any]
PREFIX = "kubed.appscode.com/"
SYNC, CONTEXTS, ORIGIN = f"{PREFIX}sync", f"{PREFIX}sync-contexts", f"{PREFIX}origin"
NAME, NAMESPACE, CLUSTER = f"{ORIGIN}.name", f"{ORIGIN}.namespace", f"{ORIGIN}.cluster"
ACCEPT = "samara.dev/accept-from"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SETTLED = 0.5
"""For how many seconds a test watches for something that must not happen."""
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
RIGHTS = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": VERBS},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]
LIVE = "stage=live"


@pytest.fixture(scope="module", autouse=True)
def _rights(cluster: Devcluster) -> Iterator[None]:
    with granted(cluster, "config-syncer", RIGHTS, USER, SECOND):
        yield


class Scene:
    """A stage with the namespaces `team` and, labelled `stage=live`, `a` and `b`. The default source is `team/db`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.original = stage.api.as_agent("kubed/v0.13.2 (linux/amd64) kubernetes/0000000")
        stage.expect.home = "nobody"  # the oracles know only Secret copy
        stage.namespace("team", "a", "b")
        self.label("a", stage="live")
        self.label("b", stage="live")

    def label(self, namespace: str, **labels: str | None) -> None:
        self.stage.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})

    def path(self, namespace: str, name: str = "db", plural: str = "secrets") -> str:
        return f"/api/v1/namespaces/{namespace}/{plural}/{name}"

    def get(self, namespace: str, name: str = "db", plural: str = "secrets") -> Json | None:
        return self.stage.api.find(self.path(namespace, name, plural))

    def source(self, value: str = LIVE, name: str = "db", namespace: str = "team", **more: Any) -> Json:
        annotations = {SYNC: value, **more.pop("annotations", {})}
        meta = {"name": name, "annotations": annotations, "labels": more.pop("labels", {})}
        plural = more.pop("plural", "secrets")
        data: Json = {"data": encoded({"k": "1"}) if plural == "secrets" else {"k": "1"}}
        return self.stage.api.create(f"/api/v1/namespaces/{namespace}/{plural}", {"metadata": meta, **data, **more})

    def edit(self, namespace: str, body: Json, name: str = "db", plural: str = "secrets") -> Json:
        return self.stage.api.patch(self.path(namespace, name, plural), body)

    def copied(self, source: Json, cluster: str = "") -> Json:
        """What the original would write for a source that it got from a watch, which has no kind and apiVersion."""
        meta = source["metadata"]
        origin = {key: meta[key] for key in ("namespace", "name", "uid", "resourceVersion")}
        annotations = {key: text for key, text in metadata_of(source).items() if key not in (SYNC, CONTEXTS)}
        marks = {NAME: meta["name"], NAMESPACE: meta["namespace"], CLUSTER: cluster}
        kept: Json = {field: source[field] for field in ("type", "data", "binaryData") if field in source}
        given: Json = {
            "name": meta["name"],
            "labels": {**metadata_of(source, "labels"), **marks},
            "annotations": {**annotations, ORIGIN: json.dumps(origin, separators=(",", ":"))},
        }
        return {"metadata": given, **kept}

    def leave(self, source: Json, *namespaces: str, by: Api | None = None, cluster: str = "") -> None:
        """The copies of the original's hand."""
        plural = "configmaps" if "type" not in source else "secrets"
        for namespace in namespaces:
            path = f"/api/v1/namespaces/{namespace}/{plural}"
            (by or self.original).create(path, self.copied(source, cluster))

    def operator(self, config: Mapping[str, Any] | None = None, wait: str = "synced", **own: Any) -> Operator:
        given = {"vocabularies": {"config-syncer": own}, **(config or {})}
        return self.stage.operator(config=given, wait=wait)

    def orphans(self, **own: Any) -> list[str]:
        """The orphans that `samara orphans` lists, and whether it may delete them."""
        file = self.stage.folder / "settings.yaml"
        file.write_text(json.dumps({"vocabularies": {"config-syncer": own}}))
        kubeconfig = f"--kubeconfig={self.stage.cluster.kubeconfig}"
        listed = samara("orphans", f"--config={file}", "-o", "json", kubeconfig).json["orphans"]
        return [f"{orphan['namespace']}/{orphan['name']} {orphan['ours']}" for orphan in listed]

    def is_copy(self, namespace: str, name: str = "db", plural: str = "secrets") -> bool:
        """True if the copy has the content of its source and the three labels by which the original finds it."""
        actual, wanted = self.get(namespace, name, plural), self.get("team", name, plural)
        if actual is None or wanted is None:
            return False
        marks = {NAME: name, NAMESPACE: "team"}
        fields = ("type", "data", "binaryData")
        return [actual.get(field) for field in fields] == [wanted.get(field) for field in fields] and (
            marks.items() <= metadata_of(actual, "labels").items() and ORIGIN in metadata_of(actual)
        )

    def until_copied(self, *namespaces: str, name: str = "db", plural: str = "secrets") -> None:
        for namespace in namespaces:
            eventually(lambda where=namespace: self.is_copy(where, name, plural))  # type: ignore[misc]

    def until_gone(self, *namespaces: str, name: str = "db", plural: str = "secrets") -> None:
        for namespace in namespaces:
            eventually(lambda where=namespace: self.get(where, name, plural) is None)  # type: ignore[misc]

    def writes(self, mark: int = 0) -> list[str]:
        """The writes of the operator to sources, copies and Namespaces."""
        return [
            f"{event.verb} {event.resource} {event.namespace}/{event.name}"
            for event in self.stage.audit.ours(mark)
            if event.mutating
            and event.resource in ("secrets", "configmaps", "namespaces")
            and event.name != "samara-holds"
            and not event.dry_run
        ]


@pytest.fixture
def scene(stage: Stage) -> Iterator[Scene]:
    made = Scene(stage)
    yield made
    made.original.close()


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
def test_r1_to_r7_the_life_of_a_source(scene: Scene, plural: str) -> None:
    binary = {"binaryData": encoded({"b": "1"})} if plural == "configmaps" else {"type": "example.com/t"}
    scene.source("stage", plural=plural, labels={"app": "x", "helm.sh/chart": "y"}, immutable=False, **binary)
    scene.operator()
    scene.until_copied("a", "b", plural=plural)
    copy = scene.get("a", plural=plural) or {}
    assert metadata_of(copy, "labels") == {"app": "x", NAME: "db", NAMESPACE: "team", CLUSTER: ""}  # R4
    assert set(metadata_of(copy)) == {ORIGIN}
    assert "immutable" not in copy
    assert "ownerReferences" not in copy["metadata"]
    scene.stage.api.create("/api/v1/namespaces", {"metadata": {"name": "c", "labels": {"stage": "x"}}})  # R3
    scene.until_copied("c", plural=plural)
    scene.label("c", stage=None)  # R2, D2
    scene.until_gone("c", plural=plural)
    data = encoded({"new": "2"}) if plural == "secrets" else {"new": "2"}
    scene.edit("team", {"data": {"k": None, **data}, "metadata": {"labels": {"app": None}}}, plural=plural)  # R5
    scene.until_copied("a", "b", plural=plural)
    eventually(lambda: "app" not in metadata_of(scene.get("b", plural=plural) or {}, "labels"))
    scene.edit("a", {"data": {"added": data["new"]}, "metadata": {"labels": {NAME: None}}}, plural=plural)  # R7, D3
    scene.stage.api.delete(scene.path("b", plural=plural))
    scene.until_copied("a", "b", plural=plural)
    scene.edit("team", {"metadata": {"annotations": {SYNC: "stage=x"}}}, plural=plural)  # R6
    scene.until_gone("a", "b", plural=plural)
    scene.edit("team", {"metadata": {"annotations": {SYNC: LIVE}}}, plural=plural)
    scene.until_copied("a", "b", plural=plural)
    scene.stage.api.delete(scene.path("team", plural=plural))
    scene.until_gone("a", "b", plural=plural)


def test_r1_an_empty_value_is_every_namespace_but_the_protected_ones(scene: Scene) -> None:
    scene.source("")
    scene.source("true", "other")
    scene.operator()
    for name in ("db", "other"):
        scene.until_copied("a", "b", "default", name=name)
    protected = ("kube-system", "kube-public", "kube-node-lease")
    never(lambda: any(scene.get(namespace) for namespace in protected), SETTLED)


def test_r6_what_changes_while_the_operator_is_down_is_made_up(scene: Scene) -> None:
    scene.source()
    scene.source(name="gone")
    scene.operator().stop()
    scene.until_copied("a", "b")
    scene.until_copied("a", "b", name="gone")
    scene.label("b", stage=None)
    scene.stage.api.delete(scene.path("team", "gone"))
    scene.operator()
    scene.until_gone("b")
    scene.until_gone("a", "b", name="gone")
    scene.until_copied("a")


def test_r7_a_changed_type_means_recreate(scene: Scene) -> None:
    scene.source(type="example.com/old")
    scene.operator()
    scene.until_copied("a", "b")
    uid = (scene.get("a") or {})["metadata"]["uid"]
    scene.stage.api.delete(scene.path("team"))
    scene.source(type="example.com/new")
    scene.until_copied("a", "b")
    assert (scene.get("a") or {})["metadata"]["uid"] != uid


def test_r8_to_r14_who_is_no_source_and_what_is_left_alone(scene: Scene) -> None:
    stage, long_name = scene.stage, "long-" * 20 + "name"
    stage.foreign("a", "taken", {"theirs": "1"})  # R10, D1
    east = scene.source("stage=none", "shared")
    scene.leave(east, "a", cluster="east")  # R11, D7
    from_east = scene.get("a", "shared")
    for name in ("taken", "shared", long_name):
        if name != "shared":
            scene.source(name=name)
    scene.edit("team", {"metadata": {"annotations": {SYNC: LIVE}}, "data": encoded({"k": "2"})}, name="shared")
    scene.source(annotations={CONTEXTS: "east"})  # R13, D6
    scene.source("stage in", "faulty")  # R12
    operator = scene.operator()
    scene.until_copied("a", "b")
    scene.until_copied("b", name="taken")
    scene.until_copied("b", name="shared")
    eventually(lambda: scene.get("a", long_name) and scene.get("b", long_name))  # R14, D5
    assert len(metadata_of(scene.get("a", long_name) or {}, "labels")[NAME]) <= 63
    assert CONTEXTS in str(stage.until_event("Invalid", "team", "db")["message"])
    assert "stage in" in str(stage.until_event("Invalid", "team", "faulty")["message"])
    for name in ("taken", "shared"):
        stage.until_event("Conflict", "team", name)
    scene.edit("b", {"metadata": {"annotations": {SYNC: ""}}})  # R8, D11
    never(lambda: scene.get("default") or scene.get("a", "faulty"), SETTLED)
    assert stage.data("a", "taken") == {"theirs": "1"}
    assert scene.get("a", "shared") == from_east
    scene.edit("team", {"metadata": {"annotations": {SYNC: "a,,b"}}})  # R12, D8
    never(lambda: scene.get("a") is None, SETTLED)
    stage.api.delete(scene.path("a", "taken"))
    scene.until_copied("a", name="taken")  # R10: healed
    stage.api.delete(scene.path("team", long_name))
    scene.until_gone("a", "b", name=long_name)
    stage.api.delete(scene.path("team", "shared"))
    scene.until_gone("b", name="shared")
    assert scene.get("a", "shared") == from_east
    assert scene.orphans() == []
    assert operator.running


def test_r9_r10_d12_the_source_namespace_and_overwrite(scene: Scene) -> None:
    scene.stage.foreign("a", "taken", {"theirs": "1"})
    scene.source(name="taken")
    scene.source(name="elsewhere", namespace="b")
    scene.operator(sourceNamespace="team", conflicts="overwrite")
    scene.until_copied("a", "b", name="taken")
    scene.stage.api.create("/api/v1/namespaces", {"metadata": {"name": "c", "labels": {"stage": "live"}}})
    scene.until_copied("c", name="taken")
    never(lambda: scene.get("a", "elsewhere") or scene.get("c", "elsewhere"), SETTLED)


def test_r15_r16_a2_a6_taking_over_writes_nothing_and_then_serves_every_change(scene: Scene) -> None:
    behind = {"argocd.argoproj.io/instance": "x", "app": "db"}
    source = scene.source(labels=behind, annotations={LAST_APPLIED: "{}", "note": "1"})
    roots = scene.source(name="roots", plural="configmaps", binaryData=encoded({"b": "1"}))
    gone = scene.source(name="gone")
    scene.leave(source, "a", "b")
    scene.leave(roots, "a", "b")
    scene.leave(gone, "a", "b", "default")
    scene.stage.api.delete(scene.path("team", "gone"))
    forged = scene.source("stage=none", "forged")
    scene.leave(forged, "a", by=scene.stage.api)
    scene.stage.api.patch(scene.path("team", "forged"), {"metadata": {"annotations": {SYNC: None}}})
    scene.stage.api.patch(
        scene.path("team"), {"metadata": {"annotations": {"later": "1"}}}
    )  # an older version is no reason
    scene.original.patch(scene.path("a"), {"metadata": {"annotations": {"later": "1"}}})
    scene.original.patch(scene.path("b"), {"metadata": {"annotations": {"later": "1"}}})
    assert (scene.get("a") or {})["metadata"]["managedFields"][0]["manager"] == "kubed"
    mark = scene.stage.audit.mark()
    scene.operator({"massDelete": None})
    scene.until_gone("a", "b", "default", name="gone")  # R16
    never(lambda: scene.get("a", "forged") is None, SETTLED)
    assert scene.orphans() == ["a/forged False"]
    assert sorted(scene.writes(mark)) == [f"delete secrets {namespace}/gone" for namespace in ("a", "b", "default")]
    scene.edit("team", {"data": encoded({"k": "2"})})
    scene.until_copied("a", "b")
    labels = metadata_of(scene.get("a") or {}, "labels")
    assert labels == {"app": "db", NAME: "db", NAMESPACE: "team", CLUSTER: ""}
    assert set(metadata_of(scene.get("a") or {})) == {"note", "later", ORIGIN}
    origin = json.loads(metadata_of(scene.get("a") or {})[ORIGIN])
    assert origin["resourceVersion"] == (scene.get("team") or {})["metadata"]["resourceVersion"]
    scene.label("b", stage=None)
    scene.until_gone("b")
    scene.until_gone("b", name="roots", plural="configmaps")


def test_r17_a7_d9_consent_that_was_never_given_and_protected_namespaces(scene: Scene) -> None:
    stage = scene.stage
    source = scene.source("")
    scene.leave(source, "a", "kube-public")
    stage.annotate("/api/v1/namespaces/b", {ACCEPT: "team"})
    left = {namespace: scene.get(namespace) for namespace in ("a", "kube-public")}
    scene.operator(crossNamespace="consent")
    scene.until_copied("b")
    stage.until_event("NotAccepted", "team", "db")
    assert scene.orphans(crossNamespace="consent") == ["kube-public/db True"]
    scene.edit("team", {"data": encoded({"k": "2"})})
    scene.until_copied("b")
    stage.annotate("/api/v1/namespaces/b", {ACCEPT: None})
    scene.until_gone("b")
    stage.api.delete(scene.path("team"))
    never(lambda: [namespace for namespace in left if scene.get(namespace) != left[namespace]], 1.5)


def test_a3_the_original_finds_every_copy_and_rewriting_them_is_no_reason_for_a_write(scene: Scene) -> None:
    source = scene.source(labels={"app": "x"})
    scene.operator(clusterName="west").stop()
    selector = f"{NAME}=db,{NAMESPACE}=team,{CLUSTER}=west"
    found = scene.stage.api.items("/api/v1/secrets", labelSelector=selector)
    assert {copy["metadata"]["namespace"] for copy in found} == {"a", "b"}
    wanted = scene.copied(source, "west")
    for copy in found:  # the original patches a copy until it is as it would write it
        path = scene.path(copy["metadata"]["namespace"])
        before = scene.original.patch(path, wanted)
        after = scene.original.patch(path, wanted)
        assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    mark = scene.stage.audit.mark()
    scene.operator(clusterName="west")
    never(lambda: scene.writes(mark), SETTLED)


def deployment(name: str, account: str, replicas: int = 1) -> Json:
    pods = {"serviceAccountName": account, "containers": [{"name": "c", "image": "ghcr.io/appscode/kubed:v0.13"}]}
    template = {"metadata": {"labels": {"app": name}}, "spec": pods}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def test_a8_the_vocabulary_waits_for_the_original_and_begins_by_itself(scene: Scene) -> None:
    stage = scene.stage
    stage.namespace("kubed")
    deployments = {name: f"/apis/apps/v1/namespaces/{name}/deployments" for name in ("kubed", "b")}
    for path in deployments.values():
        stage.also_remove(f"{path}/kubed")
    scene.source()
    stage.api.create(deployments["b"], deployment("kubed", "default"))  # a tenant's
    with installed(stage, "kubed", "", "secrets"):
        stage.api.create(deployments["kubed"], deployment("kubed", "an-original"))
        operator = scene.operator(wait="ready")
        assert "original running" in operator.waiting()["config-syncer"]
        never(lambda: scene.writes(), 1.5)
        status, _ = operator.answer("/readyz")
        assert status == 200
        scale = {"spec": {"replicas": 0}}
        stage.api.patch(f"{deployments['kubed']}/kubed", scale)
        path = f"{deployments['kubed']}/kubed/status"
        stage.api.patch(path, {"status": {"replicas": 0}})
        eventually(lambda: scene.is_copy("a"), 40.0)
    assert "original.not-believed" in operator.log


def test_a8_takeover_does_not_wait(scene: Scene) -> None:
    stage = scene.stage
    path = "/apis/apps/v1/namespaces/b/deployments"
    stage.also_remove(f"{path}/kubed")
    scene.source()
    with installed(stage, "b", "", "secrets"):
        stage.api.create(path, deployment("kubed", "an-original"))
        scene.operator(takeover=True)
        scene.until_copied("a", "b")
