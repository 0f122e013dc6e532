"""Webhooks of namespace trees on a real API server: refusals, defaults, and requests that never depend on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.admission.scene import CHANGING_HOOKS, HOOKS
from tests.cluster.support.api import ApiFault
from tests.cluster.support.definitions import DEFINITIONS, defined
from tests.cluster.support.stage import OWN, Stage
from tests.cluster.support.waiting import eventually
from tests.cluster.test_webhooks import AT_HOME, HOOK_RIGHTS, TLS, USER, Webhooks, refused
from tests.support.ports import free_port

from samara import crds
from samara.admission.webhooks import ADMIT, MUTATE, MUTATING, Endpoint, webhook_configuration
from samara.core.registry import Registry
from samara.vocabularies.accurate import Options, source_types
from samara.vocabularies.accurate.config import Config
from samara.vocabularies.accurate.labels import FINALIZER, PARENT, ROLES, SUB_NAMESPACE, TEMPLATE, TYPE
from samara_devtools.devcluster import DevclusterError

NAMESPACES = "/api/v1/namespaces"
CRD_NAME = "subnamespaces.accurate.cybozu.com"
CRD_PATH = f"{DEFINITIONS}/{CRD_NAME}"
CONFIG, CHANGING = f"{HOOKS}/samara", f"{CHANGING_HOOKS}/samara"
Json = dict[str, Any]

pytestmark = pytest.mark.oracle_off("O4", reason="registering is what is tested, and it writes no copy")


def a_registry() -> Registry:
    terms = Options(is_reserved=lambda name: name.startswith("kube-"))
    return Registry(source_types(Config(), (), lambda where, words: dict(words), terms))


EVERYWHERE = [
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
        "verbs": HOOK_RIGHTS,
    },
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": [CRD_NAME],
        "verbs": ["get", "patch"],
    },
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]},
]


@pytest.fixture(autouse=True)
def rights(stage: Stage) -> None:
    group = "rbac.authorization.k8s.io"
    root = f"/apis/{group}/v1"
    subjects = [{"kind": "User", "name": USER, "apiGroup": group}]
    for kind, where, rules in (("ClusterRole", root, EVERYWHERE), ("Role", f"{root}/namespaces/{OWN}", AT_HOME)):
        plural = kind.lower()
        ref = {"kind": kind, "name": USER, "apiGroup": group}
        stage.api.create(f"{where}/{plural}s", {"metadata": {"name": USER}, "rules": rules})
        bound = {"metadata": {"name": USER}, "roleRef": ref, "subjects": subjects}
        stage.api.create(f"{where}/{plural}bindings", bound)
        stage.also_remove(f"{where}/{plural}s/{USER}")
        stage.also_remove(f"{where}/{plural}bindings/{USER}")


@pytest.fixture
def crd(stage: Stage) -> Iterator[None]:
    with defined(stage.cluster, crds.text(CRD_NAME)):
        yield


def is_served(stage: Stage) -> bool:
    return stage.api.serves("/apis/accurate.cybozu.com/v2/subnamespaces")


@pytest.fixture
def hooks(stage: Stage, crd: None) -> Iterator[Webhooks]:
    """A registered admission, which is removed afterwards."""
    a_namespace(stage, "ready", {TYPE: "root"})
    running = Webhooks(stage, registry=a_registry(), crds=(CRD_NAME,))
    try:
        running.start()
        eventually(lambda: is_in_force(stage))
        yield running
    finally:
        try:
            running.kill()
        finally:
            stage.api.gone(CONFIG)
            stage.api.gone(CHANGING)


def is_in_force(stage: Stage) -> bool:
    """True once the server calls the webhooks, shortly after their configuration was stored."""
    if stage.api.find(CONFIG) is None or stage.api.find(CHANGING) is None:
        return False
    converted = stage.api.get(CRD_PATH)["spec"]["conversion"]["strategy"] == "Webhook"
    if not converted or not is_served(stage):  # the server recreates the storage after a change of the CRD
        return False
    if not refused(stage, lambda: a_namespace(stage, "new", {PARENT: "new"}, dryRun="All")):
        return False
    made: list[Json] = []
    refused(stage, lambda: made.append(stage.api.create(subs("ready"), sub_body("new"), dryRun="All")))
    return bool(made) and "finalizers" in made[0]["metadata"]


def a_namespace(stage: Stage, name: str, labels: Json | None = None, **query: str) -> Json:
    return stage.api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels or {}}}, **query)


def label(stage: Stage, name: str, labels: Json) -> Json:
    return stage.api.patch(f"{NAMESPACES}/{name}", {"metadata": {"labels": labels}})


def subs(namespace: str) -> str:
    return f"/apis/accurate.cybozu.com/v2/namespaces/{namespace}/subnamespaces"


def sub_body(name: str, spec: Json | None = None, **meta: Any) -> Json:
    head = {"apiVersion": SUB_NAMESPACE.api_version, "kind": SUB_NAMESPACE.name}
    return {**head, "metadata": {"name": name, **meta}, "spec": spec or {}}


def is_ending(stage: Stage, path: str) -> bool:
    live = stage.api.find(path)
    return live is None or "deletionTimestamp" in live["metadata"]


# refusals and defaults


def test_namespaces_are_validated_when_created_changed_and_deleted(stage: Stage, hooks: Webhooks) -> None:
    a_namespace(stage, "top", {TYPE: "root"})
    a_namespace(stage, "below", {PARENT: "top"})
    hooks.sees("top", "below")
    refusal = refused(stage, lambda: a_namespace(stage, "lost", {PARENT: "nowhere"}))
    assert refusal.startswith('403 Forbidden admission webhook "namespaces.samara.dev" denied the request: ')
    assert "namespace does not exist: nowhere" in refusal
    assert "there are sub-namespaces under top" in refused(stage, lambda: label(stage, "top", {TYPE: None}))
    refusal = refused(stage, lambda: stage.api.delete(f"{NAMESPACES}/top"))
    assert refusal.startswith("403 Forbidden")
    assert "child namespaces exist" in refusal
    assert not is_ending(stage, f"{NAMESPACES}/top")
    label(stage, "below", {PARENT: None})  # which the cache does not know yet
    label(stage, "top", {TYPE: None})


def test_a_deep_tree_that_no_cache_has_seen_is_read_to_its_top(stage: Stage, hooks: Webhooks) -> None:
    a_namespace(stage, "n0", {TYPE: "root"})
    for number in range(1, 7):
        a_namespace(stage, f"n{number}", {PARENT: f"n{number - 1}"})
    label(stage, "n6", {"note": "new"})
    stage.api.create(subs("n6"), sub_body("deep"))
    assert "circular" in refused(stage, lambda: label(stage, "n1", {PARENT: "n6"}))


def test_a_sub_namespace_is_validated_and_gets_the_finalizer_beside_the_users_own(
    stage: Stage, hooks: Webhooks
) -> None:
    a_namespace(stage, "top", {TYPE: "root"})
    a_namespace(stage, "plain")
    made = stage.api.create(subs("top"), sub_body("one"))
    assert made["metadata"]["finalizers"] == [FINALIZER]
    made = stage.api.create(subs("top"), sub_body("two", finalizers=["mine.dev/guard"]))
    assert made["metadata"]["finalizers"] == ["mine.dev/guard", FINALIZER]
    refusal = refused(stage, lambda: stage.api.create(subs("plain"), sub_body("three")))
    assert refusal.startswith('403 Forbidden admission webhook "subnamespaces.accurate.cybozu.com.samara.dev" denied')
    assert "namespace plain is neither a root nor a sub namespace" in refusal
    assert "reserved" in refused(stage, lambda: stage.api.create(subs("top"), sub_body("kube-three")))
    bad = {"spec": {"labels": {"a b": "c"}}}
    assert 'spec.labels: Invalid value: "a b"' in refused(stage, lambda: stage.api.patch(f"{subs('top')}/one", bad))
    a_namespace(stage, "one", {PARENT: "top"})
    a_namespace(stage, "child", {PARENT: "one"})
    hooks.sees("one", "child")
    assert "child namespaces exist" in refused(stage, lambda: stage.api.delete(f"{subs('top')}/one"))


def test_removing_the_finalizer_is_allowed_and_it_is_not_added_again(stage: Stage, hooks: Webhooks) -> None:
    a_namespace(stage, "top", {TYPE: "root"})
    stage.api.create(subs("top"), sub_body("one"))
    changed = stage.api.patch(f"{subs('top')}/one", {"metadata": {"finalizers": None}})
    assert "finalizers" not in changed["metadata"]


def test_kubectl_explains_what_a_sub_namespace_is(stage: Stage, hooks: Webhooks) -> None:
    assert "They override inherited ones" in stage.explained("subnamespaces.spec.labels", "accurate.cybozu.com/v2")
    meta = {"name": "lost", "labels": {PARENT: "nowhere"}}
    manifest = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    with pytest.raises(DevclusterError, match="namespace does not exist: nowhere"):
        stage.cluster.kubectl("apply", "-f", "-", input=manifest)


# requests that do not depend on them


def test_without_a_webhook_server_a_namespace_without_our_labels_can_be_written(stage: Stage, hooks: Webhooks) -> None:
    hooks.kill()
    a_namespace(stage, "plain", {"team": "a"})
    label(stage, "plain", {"team": "b", "app.kubernetes.io/created-by": "accurate"})
    words = {"annotations": {TYPE: "root", PARENT: "plain"}}
    stage.api.patch(f"{NAMESPACES}/plain", {"metadata": words})  # an annotation is no label
    stage.api.delete(f"{NAMESPACES}/plain")
    assert is_ending(stage, f"{NAMESPACES}/plain")


@pytest.mark.parametrize("word", ROLES)
def test_without_a_webhook_server_a_namespace_that_has_gains_or_loses_our_label_cannot_be_written(
    stage: Stage, hooks: Webhooks, word: str
) -> None:
    stage.namespace("plain")
    value = {TYPE: "root", TEMPLATE: "t", PARENT: "p"}[word]
    a_namespace(stage, "t", {TYPE: "template"})
    a_namespace(stage, "p", {TYPE: "root"})
    a_namespace(stage, "worded", {word: value})
    hooks.kill()
    requests: list[Callable[[], Any]] = [
        lambda: a_namespace(stage, "new", {word: value}),
        lambda: label(stage, "plain", {word: value}),
        lambda: label(stage, "worded", {"team": "a"}),
        lambda: label(stage, "worded", {word: None}),
        lambda: stage.api.delete(f"{NAMESPACES}/worded"),
    ]
    for request in requests:
        assert 'failed calling webhook "namespaces.samara.dev"' in refused(stage, request)


def test_without_a_webhook_server_a_terminating_object_can_be_finished(stage: Stage, hooks: Webhooks) -> None:
    a_namespace(stage, "top", {TYPE: "root"})
    stage.api.create(subs("top"), sub_body("one"))
    stage.api.delete(f"{subs('top')}/one")
    stage.api.patch(f"{NAMESPACES}/top", {"metadata": {"finalizers": ["mine.dev/guard"]}})
    stage.api.delete(f"{NAMESPACES}/top")
    hooks.kill()
    stage.api.patch(f"{subs('top')}/one", {"metadata": {"finalizers": []}})
    assert stage.api.find(f"{subs('top')}/one") is None
    stage.api.patch(f"{NAMESPACES}/top", {"metadata": {"finalizers": []}})
    stage.api.delete(f"{NAMESPACES}/top")


def test_without_a_webhook_server_the_operators_own_namespace_can_be_changed(stage: Stage, crd: None) -> None:
    endpoint = Endpoint(OWN, f"https://127.0.0.1:{free_port()}")
    stage.namespace("team")
    for path, where, kind in ((ADMIT, HOOKS, None), (MUTATE, CHANGING_HOOKS, MUTATING)):
        chosen = {} if kind is None else {"kind": kind}
        stage.api.create(
            where, webhook_configuration(a_registry(), endpoint.client_config(path, b""), ("own",), **chosen)
        )
        stage.also_remove(f"{where}/samara")
    eventually(lambda: "failed calling" in refused(stage, lambda: label(stage, "team", {TYPE: "root"})))
    a_namespace(stage, "own", {TYPE: "root"})
    label(stage, "own", {TYPE: None})
    label(stage, "own", {TYPE: "root"})
    stage.api.delete(f"{NAMESPACES}/own")
    assert is_ending(stage, f"{NAMESPACES}/own")


# versions


def of_version(version: str, name: str = "") -> str:
    return f"/apis/accurate.cybozu.com/{version}/namespaces/top/subnamespaces" + (f"/{name}" if name else "")


def serve_every_version(stage: Stage) -> None:
    """The CRD of an earlier release does the same."""
    definition = stage.api.get(CRD_PATH)
    for version in definition["spec"]["versions"]:
        version["served"] = True
    stage.api.patch(CRD_PATH, {"spec": {"versions": definition["spec"]["versions"]}})
    eventually(lambda: all(is_answered(stage, of_version(version)) for version in ("v1", "v2alpha1", "v2")))


def is_answered(stage: Stage, path: str) -> bool:
    try:
        stage.api.items(path)
    except ApiFault:
        return False
    return True


SPEC = {"labels": {"app": "x"}, "annotations": {"foo": "bar"}}
STALLED = {
    "type": "Stalled",
    "status": "True",
    "reason": "Conflict",
    "message": "Conflicting namespace already exists",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}
OBSERVED, CONDITIONS = (f"internal.accurate.cybozu.com/{suffix}" for suffix in ("observed-generation", "conditions"))


@pytest.mark.parametrize("version", ["v1", "v2alpha1"])
def test_2_2_an_object_applied_in_an_old_version_is_stored_in_the_new_one(
    stage: Stage, hooks: Webhooks, version: str
) -> None:
    a_namespace(stage, "top", {TYPE: "root"})
    serve_every_version(stage)
    body = {**sub_body("one", SPEC, namespace="top"), "apiVersion": f"accurate.cybozu.com/{version}"}
    stage.cluster.kubectl("api-resources", "--api-group=accurate.cybozu.com")  # the cache of kubectl may be older
    stage.cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
    made = stage.api.get(of_version("v2", "one"))
    assert (made["apiVersion"], made["spec"]) == ("accurate.cybozu.com/v2", SPEC)
    assert made["metadata"]["finalizers"] == [FINALIZER]
    assert "status" not in made
    stage.cluster.kubectl("apply", "-f", "-", input=json.dumps({**body, "spec": {"labels": {"app": "y"}}}))
    assert stage.api.get(of_version("v2", "one"))["spec"] == {"labels": {"app": "y"}}
    assert stage.api.get(of_version(version, "one"))["spec"] == {"labels": {"app": "y"}}


def test_2_2_a_status_is_readable_in_every_version_and_survives_a_write_in_the_oldest(
    stage: Stage, hooks: Webhooks
) -> None:
    a_namespace(stage, "top", {TYPE: "root"})
    serve_every_version(stage)
    stage.api.create(of_version("v2"), sub_body("one", SPEC))
    assert "status" not in stage.api.get(of_version("v1", "one"))
    stage.api.patch(f"{of_version('v2', 'one')}/status", {"status": {"observedGeneration": 1}})
    oldest = stage.api.get(of_version("v1", "one"))
    assert (oldest["status"], oldest["metadata"]["annotations"]) == ("ok", {OBSERVED: "1"})
    status = {"observedGeneration": 1, "conditions": [STALLED]}
    stage.api.patch(f"{of_version('v2', 'one')}/status", {"status": status})
    oldest = stage.api.get(of_version("v1", "one"))
    assert oldest["status"] == "conflict"
    assert json.loads(oldest["metadata"]["annotations"][CONDITIONS]) == [STALLED]
    assert stage.api.get(of_version("v2alpha1", "one"))["status"] == status
    stage.api.patch(of_version("v1", "one"), {"metadata": {"labels": {"note": "new"}}})
    now = stage.api.get(of_version("v2", "one"))
    assert (now["status"], now["metadata"]["labels"]) == (status, {"note": "new"})
    assert "annotations" not in now["metadata"]


def test_2_2_an_annotation_that_cannot_be_read_is_refused_by_its_name(stage: Stage, hooks: Webhooks) -> None:
    a_namespace(stage, "top", {TYPE: "root"})
    serve_every_version(stage)
    stage.api.create(of_version("v1"), {**sub_body("one"), "apiVersion": "accurate.cybozu.com/v1"})
    for key in (OBSERVED, CONDITIONS):
        bad = {"metadata": {"annotations": {key: "hunter2"}}}
        refusal = refused(stage, lambda bad=bad: stage.api.patch(of_version("v1", "one"), bad))  # type: ignore[misc]
        assert key in refusal
        assert "hunter2" not in refusal


# registration


def test_both_configurations_and_the_conversion_are_kept_and_removed_together(stage: Stage, hooks: Webhooks) -> None:
    before = {path: stage.api.get(path)["metadata"]["resourceVersion"] for path in (CONFIG, CHANGING, TLS)}
    looked = len(stage.audit.events())
    eventually(lambda: len(stage.audit.events()) > looked + 12)
    assert {path: stage.api.get(path)["metadata"]["resourceVersion"] for path in before} == before
    eventually(lambda: stage.api.get(CRD_PATH)["spec"]["conversion"]["strategy"] == "Webhook")
    hooks.close()
    assert stage.api.find(CONFIG) is None
    assert stage.api.find(CHANGING) is None
    assert stage.api.get(CRD_PATH)["spec"]["conversion"] == {"strategy": "None"}
