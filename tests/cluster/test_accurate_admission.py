"""Admission of namespace trees by a running operator on the real server: every rule and its message, with kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.definitions import DEFINITIONS
from tests.cluster.support.operators import SHORT, Operator
from tests.cluster.support.stage import SECOND
from tests.cluster.support.trees import (
    DEFINITION,
    FINALIZER,
    GROUP,
    PARENT,
    SETTLED,
    SPACES,
    TEMPLATE,
    TYPE,
    Trees,
    define,
)
from tests.cluster.support.waiting import eventually, never
from tests.kubectl_accurate.plugin import Result, accurate
from tests.support.ports import free_port

from samara_devtools.devcluster import DevclusterError

pytestmark = [
    pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs"),
    pytest.mark.usefixtures("unregistered"),
]

Json = dict[str, Any]
Labels = dict[str, str | None]
HOOKS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/samara" for kind in ("validating", "mutating")
]
CIRCULAR = "circular reference is not permitted"
CHILDREN = "child namespaces exist"
POLICY = {"namingPolicies": [{"root": "^(?P<team>strict)", "match": "^${team}-"}]}


@pytest.fixture
def unregistered(trees: Trees) -> Iterator[None]:
    """Removes the webhooks that a killed operator has left."""
    yield
    for operator in trees.stage.operators:
        operator.kill()
    for path in HOOKS:
        trees.api.gone(path)
    conversion = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    trees.api.patch(f"{DEFINITIONS}/{DEFINITION}", conversion)


def guard(trees: Trees, *flags: str, in_force: bool = True, **more: Any) -> Operator:
    """An operator with admission, started; returns when the server calls it."""
    port = free_port()
    address = (f"--webhook-address=127.0.0.1:{port}", f"--webhook-url=https://127.0.0.1:{port}")
    if in_force:
        trees.root("ready")
    operator = trees.serve(*address, *flags, **more)
    if in_force:
        until_in_force(trees)
    return operator


def until_in_force(trees: Trees) -> None:
    """True once the server calls the webhooks of both configurations and the conversion."""
    eventually(
        lambda: (
            CIRCULAR in refusal_of(trees, "new", {PARENT: "new"})
            and is_converted(trees)
            and finalizers(trees, "ready") == [FINALIZER]
        )
    )


def finalizers(trees: Trees, holder: str) -> list[str] | None:
    """The finalizers of a new SubNamespace, by a dry run; None if it is refused."""
    try:
        made = trees.api.create(trees.path("subnamespaces", holder), a_sub("new", holder), dryRun="All")
    except ApiFault:
        return None
    return list(made["metadata"].get("finalizers", ()))


def is_converted(trees: Trees) -> bool:
    try:
        trees.api.get(trees.path("subnamespaces", "default"))
    except ApiFault:
        return False
    strategy: str = trees.api.get(f"{DEFINITIONS}/{DEFINITION}")["spec"]["conversion"]["strategy"]
    return strategy == "Webhook"


def refusal_of(trees: Trees, name: str, labels: Labels) -> str:
    """The refusal of a dry-run create of a namespace, or an empty text."""
    try:
        trees.api.create(SPACES, {"metadata": {"name": name, "labels": labels}}, dryRun="All")
    except ApiFault as fault:
        return f"{fault.status} {fault}"
    return ""


def refusal(trees: Trees, *args: str, body: Json | None = None) -> str:
    """The error of kubectl in a dry run, or an empty text."""
    try:
        trees.kubectl(*args, "--dry-run=server", input=None if body is None else json.dumps(body))
    except DevclusterError as fault:
        return str(fault)
    return ""


def a_namespace(name: str, **labels: str) -> Json:
    words = {f"{GROUP}/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": words}}


def a_sub(name: str, holder: str, **spec: Json) -> Json:
    meta = {"name": name, "namespace": holder}
    return {"apiVersion": f"{GROUP}/v2", "kind": "SubNamespace", "metadata": meta, "spec": spec}


def relabel(trees: Trees, name: str, labels: Labels) -> str:
    patch = json.dumps({"metadata": {"labels": labels}})
    return refusal(trees, "patch", "namespace", name, "--type=merge", "-p", patch)


def landscape(trees: Trees) -> None:
    """root ─ web ─ deep, an instance of gold, and a namespace outside of trees."""
    trees.root()
    trees.hang("web", "root")
    trees.hang("deep", "web")
    trees.template("gold")
    trees.template("idle")
    trees.space("inst", {TEMPLATE: "gold"})
    trees.space("plain")


# Namespaces


def test_a_namespace_is_validated_when_it_is_created(trees: Trees) -> None:
    landscape(trees)
    guard(trees)
    for labels, message in (
        ({"parent": "new"}, CIRCULAR),
        ({"parent": "root", "template": "gold"}, "a sub-namespace cannot have a template"),
        ({"parent": "root", "type": "template"}, "a sub-namespace cannot be a root or a template"),
        ({"parent": "nowhere"}, "namespace does not exist: nowhere"),
        ({"parent": "plain"}, "plain is not a valid root namespace"),
        ({"parent": "gold"}, "gold is not a valid root namespace"),
        ({"template": "new"}, CIRCULAR),
        ({"template": "nowhere"}, "namespace does not exist: nowhere"),
        ({"template": "root"}, "root is not a valid template namespace"),
        ({"template": "web"}, "web is not a valid template namespace"),
        ({"parent": ""}, f"{PARENT} is empty: name a namespace or remove the label"),
        ({"template": ""}, f"{TEMPLATE} is empty: name a namespace or remove the label"),
    ):
        error = refusal(trees, "create", "-f", "-", body=a_namespace("new", **labels))
        assert error.endswith(f'admission webhook "namespaces.samara.dev" denied the request: {message}'), labels
    for labels in ({"parent": "web"}, {"template": "gold"}, {"type": "root", "template": "gold"}, {"type": "odd"}, {}):
        assert refusal(trees, "create", "-f", "-", body=a_namespace("new", **labels)) == "", labels
    assert refusal_of(trees, "new", {PARENT: "nowhere"}).startswith("403 ")


def test_a_namespace_is_validated_when_its_labels_change(trees: Trees) -> None:
    landscape(trees)
    trees.space("lost", {PARENT: "nowhere"})
    guard(trees)
    under_web = "there are sub-namespaces under web"
    cases: list[tuple[str, Labels, str]] = [
        ("web", {PARENT: "deep"}, CIRCULAR),
        ("root", {PARENT: "deep", TYPE: None}, CIRCULAR),
        ("web", {PARENT: "nowhere"}, "parent namespace does not exist: nowhere"),
        ("lost", {"team": "a"}, "parent namespace does not exist: nowhere"),
        ("root", {TYPE: None}, "there are sub-namespaces under root"),
        ("root", {TYPE: "template"}, "there are sub-namespaces under root"),
        ("gold", {TYPE: None}, "there are namespaces referencing gold"),
        ("web", {PARENT: None}, under_web),
        ("web", {PARENT: None, TEMPLATE: "gold"}, under_web),
        ("inst", {TEMPLATE: "web"}, "web is not a valid template namespace"),
        ("plain", {PARENT: "gold"}, "gold is not a valid root namespace"),
        ("deep", {TYPE: "root"}, "a sub-namespace cannot be a root or a template"),
    ]
    for name, labels, message in cases:
        assert relabel(trees, name, labels).endswith(f"denied the request: {message}"), (name, labels)
    allowed: list[tuple[str, Labels]] = [
        ("web", {PARENT: None, TYPE: "root"}),
        ("deep", {PARENT: None}),
        ("deep", {PARENT: "root"}),
        ("idle", {TYPE: "root"}),
        ("inst", {TEMPLATE: None}),
        ("lost", {PARENT: "root"}),
        ("root", {"team": "a"}),
    ]
    for name, labels in allowed:
        assert relabel(trees, name, labels) == "", (name, labels)


def test_a_namespace_with_children_or_instances_is_not_deleted(trees: Trees) -> None:
    landscape(trees)
    guard(trees)
    for name in ("root", "web", "gold"):
        assert refusal(trees, "delete", "namespace", name).endswith(f"denied the request: {CHILDREN}"), name
    for name in ("deep", "inst", "plain", "idle"):
        assert refusal(trees, "delete", "namespace", name) == "", name


def test_with_cascading_deletion_allowed_trees_can_be_deleted_and_templates_cannot(trees: Trees) -> None:
    landscape(trees)
    trees.ask("web", "root")
    guard(trees, accurate={"allowCascadingDeletion": True})
    for name in ("root", "web"):
        assert refusal(trees, "delete", "namespace", name) == "", name
    assert refusal(trees, "delete", "subnamespace", "web", "-n", "root") == ""
    assert CHILDREN in refusal(trees, "delete", "namespace", "gold")


# SubNamespaces


def test_a_sub_namespace_is_validated_when_it_is_created_and_when_its_spec_changes(trees: Trees) -> None:
    landscape(trees)
    trees.root("strict1")
    trees.space("lost", {PARENT: "nowhere"})
    trees.ask("sub", "root")
    guard(trees, accurate=POLICY)
    trees.until_well("sub", "root")
    denied = 'admission webhook "subnamespaces.accurate.cybozu.com.samara.dev" denied the request: '
    named = "target=sub root=strict1 denied policy - root=^(?P<team>strict) match=^${team}-"
    for holder, name, message in (
        ("plain", "sub", "namespace plain is neither a root nor a sub namespace"),
        ("gold", "sub", "namespace gold is neither a root nor a sub namespace"),
        ("lost", "sub", "namespace nowhere is not found"),
        ("strict1", "sub", f"namespace strict1 is not match naming policies: namespace - {named}"),
        ("root", "kube-sub", "namespace kube-sub is reserved: a sub-namespace cannot have this name"),
        ("web", "default", "namespace default is reserved: a sub-namespace cannot have this name"),
    ):
        assert refusal(trees, "create", "-f", "-", body=a_sub(name, holder)).endswith(denied + message), (holder, name)
    bad: Json = {"labels": {"a b": "c", "d": "e f"}, "annotations": {"g h": "i"}}
    for error in (
        refusal(trees, "create", "-f", "-", body=a_sub("new", "root", **bad)),
        refusal(trees, "apply", "-f", "-", body=a_sub("sub", "root", **bad)),
    ):
        for word in ('spec.labels: Invalid value: "a b"', '"e f"', 'spec.annotations: Invalid value: "g h"'):
            assert word in error
    for holder, name in (("root", "new"), ("web", "new"), ("strict1", "strict-new")):
        assert refusal(trees, "create", "-f", "-", body=a_sub(name, holder, labels={"app": "x"})) == ""
    assert refusal(trees, "apply", "-f", "-", body=a_sub("sub", "root", labels={"app": "x"})) == ""


def test_3_2_the_naming_policy_applies_to_a_new_sub_namespace_and_not_to_namespaces(trees: Trees) -> None:
    trees.root("strict1")
    trees.hang("web", "strict1")
    trees.ask("web", "strict1")
    guard(trees, accurate=POLICY)
    trees.until_well("web", "strict1")
    assert "naming policies" in refusal(trees, "create", "-f", "-", body=a_sub("api", "strict1"))
    assert refusal(trees, "apply", "-f", "-", body=a_sub("web", "strict1", labels={"app": "x"})) == ""
    assert refusal(trees, "create", "-f", "-", body=a_namespace("api", parent="strict1")) == ""


def test_3_2_an_expansion_that_is_not_a_regular_expression_is_an_internal_error(trees: Trees) -> None:
    trees.root("strict1")
    guard(trees, accurate={"namingPolicies": [{"root": "^strict", "match": "("}]})
    error = refusal(trees, "create", "-f", "-", body=a_sub("web", "strict1"))
    assert "(InternalError)" in error
    assert "naming policy root=^strict match=(" in error


def test_the_finalizer_is_added_beside_the_users_own_before_the_operator_has_seen_it(trees: Trees) -> None:
    landscape(trees)
    guard(trees)
    made = trees.ask("one", "root", finalizers=["mine.dev/guard"])
    assert made["metadata"]["finalizers"] == ["mine.dev/guard", FINALIZER]
    made = trees.ask("two", "root")
    assert made["metadata"]["finalizers"] == [FINALIZER]
    trees.until_well("two", "root")
    trees.edit("root", "two", {"metadata": {"finalizers": None}}, "subnamespaces")
    never(lambda: "finalizers" in (trees.sub_namespace("two", "root") or {})["metadata"], SETTLED)


def test_a_sub_namespace_whose_namespace_has_children_is_not_deleted_and_one_in_conflict_is(trees: Trees) -> None:
    landscape(trees)
    trees.root("other")
    for holder in ("root", "other"):
        trees.ask("web", holder)
    trees.ask("none", "root")
    guard(trees)
    eventually(lambda: trees.reason("web", "other") == "Conflict")
    trees.until_well("none", "root")
    assert f"denied the request: {CHILDREN}" in refusal(trees, "delete", "subnamespace", "web", "-n", "root")
    assert refusal(trees, "delete", "subnamespace", "web", "-n", "other") == ""
    assert refusal(trees, "delete", "subnamespace", "none", "-n", "root") == ""


def test_writes_of_the_operator_pass_its_own_admission(trees: Trees) -> None:
    trees.root(team="a")
    guard(trees)
    trees.ask("web", "root", labels={"app": "x"})
    trees.until_well("web", "root")
    trees.ask("deep", "web")
    trees.until_well("deep", "web")
    trees.put("root", "db")
    trees.until_copied("db", "root", "web", "deep")
    trees.kubectl("delete", "subnamespace", "deep", "-n", "web", "--timeout=20s")
    eventually(lambda: trees.there("deep") is None)


# The plugin


def plugin(trees: Trees, *args: str) -> Result:
    return accurate(*args, f"--kubeconfig={trees.stage.cluster.kubeconfig}")


def test_7_the_plugin_prints_what_is_refused_and_changes_nothing(trees: Trees) -> None:
    landscape(trees)
    trees.root("other")
    trees.ask("web", "root")
    guard(trees)
    trees.until_well("web", "root")
    before = {name: trees.labels(name) for name in ("root", "web", "gold", "plain")}
    cases: list[tuple[tuple[str, ...], str]] = [
        (("ns", "set-type", "root", "none"), "there are sub-namespaces under root"),
        (("ns", "set-type", "gold", "root"), "there are namespaces referencing gold"),
        (("ns", "set-type", "web", "root"), "a sub-namespace cannot be a root or a template"),
        (("template", "set", "plain", "root"), "root is not a valid template namespace"),
        (("template", "set", "plain", "nowhere"), "namespace does not exist: nowhere"),
        (("template", "set", "web", "gold"), "a sub-namespace cannot have a template"),
        (("sub", "create", "new", "plain"), "namespace plain is neither a root nor a sub namespace"),
        (("sub", "create", "kube-new", "root"), "namespace kube-new is reserved"),
        (("sub", "delete", "web"), CHILDREN),
        (("sub", "graft", "root", "other"), "there are sub-namespaces under root"),
        (("sub", "graft", "gold", "root"), "there are namespaces referencing gold"),
    ]
    for args, message in cases:
        assert message in plugin(trees, *args).fault, args
    words = ("--labels=app=no good,b=x y", "--annotations=a b=1")
    fault = plugin(trees, "sub", "create", "new", "root", *words).fault
    assert fault.count("spec.labels: Invalid value: …: the value of a label was expected.") == 2
    assert "spec.annotations: Invalid value: …: the key of an annotation was expected." in fault
    assert {name: trees.labels(name) for name in before} == before
    assert [sub["metadata"]["name"] for sub in trees.api.items(trees.path("subnamespaces", "other"))] == []


def test_7_the_plugin_creates_moves_cuts_and_grafts_under_admission(trees: Trees) -> None:
    landscape(trees)
    trees.root("other")
    guard(trees)
    assert (
        plugin(trees, "sub", "create", "new", "root", "--labels=app=x").good == "SubNamespace new is created in root\n"
    )
    eventually(lambda: trees.labels("new").get("app") == "x")
    trees.until_well("new", "root")
    assert plugin(trees, "sub", "move", "new", "other").good.splitlines() == [
        "the parent has changed to other",
        "deleted the original SubNamespace root/new",
        "created SubNamespace other/new",
    ]
    trees.until_well("new", "other")
    eventually(lambda: trees.sub_namespace("new", "root") is None)
    assert trees.labels("new")["app"] == "x"
    assert plugin(trees, "sub", "cut", "new").good == "cut new as a root namespace\n"
    eventually(lambda: trees.sub_namespace("new", "other") is None)
    assert plugin(trees, "template", "set", "new", "gold").good == "set gold as a template of new\n"
    assert plugin(trees, "sub", "graft", "new", "web").good == "grafted new under web\n"
    trees.until_well("new", "web")
    assert {key: trees.labels("new").get(key) for key in (PARENT, TEMPLATE, TYPE)} == {
        PARENT: "web",
        TEMPLATE: None,
        TYPE: None,
    }
    assert plugin(trees, "sub", "delete", "new").good == "deleted SubNamespace web/new\n"
    eventually(lambda: trees.there("new") is None and trees.sub_namespace("new", "web") is None)


# Without a webhook server


def test_without_an_operator_only_writes_to_objects_with_our_labels_fail(trees: Trees) -> None:
    landscape(trees)
    guard(trees).kill()
    assert "failed calling webhook" in refusal_of(trees, "new", {TYPE: "root"})
    assert "failed calling webhook" in relabel(trees, "web", {"team": "a"})
    assert "failed calling webhook" in refusal(trees, "create", "-f", "-", body=a_sub("sub", "root"))
    trees.space("other", {"team": "a"})
    trees.label("other", {"team": "b"})
    trees.label("plain", {"team": "b"})
    trees.put("web", "db")
    trees.kubectl("delete", "namespace", "other", "--wait=false")
    assert trees.there("other") is None


def test_the_operator_removes_its_webhooks_at_the_stop_and_works_without_them(
    trees: Trees,
) -> None:
    landscape(trees)
    operator = guard(trees)
    operator.stop()
    assert [trees.api.find(path) for path in HOOKS] == [None, None]
    assert trees.api.get(f"{DEFINITIONS}/{DEFINITION}")["spec"]["conversion"] == {"strategy": "None"}
    eventually(lambda: refusal_of(trees, "new", {PARENT: "new"}) == "" and finalizers(trees, "root") == [])
    trees.ask("web", "root", finalizers=[FINALIZER])
    trees.api.delete(trees.path("subnamespaces", "root", "web"))
    trees.serve()
    assert CHILDREN in trees.stage.until_event("Refused", "root", "web")["message"]
    never(lambda: trees.there("web") is None, SETTLED)


@pytest.mark.parametrize("end", ["stops", "crashes"])
def test_with_two_replicas_the_other_keeps_validating_when_the_leader_ends(trees: Trees, end: str) -> None:
    landscape(trees)
    first = guard(trees, "--leader-elect", **SHORT)
    second = guard(trees, "--leader-elect", in_force=False, wait="ready", user=SECOND, **SHORT)
    assert (first.leads, second.leads) == (True, False)
    if end == "stops":
        first.stop()
    else:
        first.kill()
    trees.space("other", {"team": "a"})  # at any time
    eventually(lambda: second.leads)
    until_in_force(trees)
    assert f"denied the request: {CHILDREN}" in refusal(trees, "delete", "namespace", "root")
    trees.ask("late", "root")
    trees.until_well("late", "root")


# Old versions


@pytest.fixture
def stored_in_v1(trees: Trees) -> None:
    """A SubNamespace stored in the first version, under the present CRD."""
    definition = trees.api.get(f"{DEFINITIONS}/{DEFINITION}")
    for version in definition["spec"]["versions"]:
        version["served"] = version["storage"] = version["name"] == "v1"
    trees.api.patch(f"{DEFINITIONS}/{DEFINITION}", {"spec": {"versions": definition["spec"]["versions"]}})
    oldest = f"/apis/{GROUP}/v1/namespaces/root/subnamespaces"
    eventually(lambda: trees.api.serves(oldest))
    trees.root()
    trees.hang("web", "root")
    meta = {"name": "web", "finalizers": [FINALIZER]}
    head = {"apiVersion": f"{GROUP}/v1", "kind": "SubNamespace", "metadata": meta}
    trees.api.create(oldest, {**head, "spec": {"labels": {"app": "x"}}, "status": "ok"})
    define(trees.stage.cluster, trees.api)


@pytest.mark.usefixtures("stored_in_v1")
def test_2_2_an_object_stored_in_the_oldest_version_is_converted_served_and_deleted(trees: Trees) -> None:
    guard(trees)
    eventually(lambda: trees.labels("web").get("app") == "x")
    eventually(lambda: (trees.sub_namespace("web", "root") or {}).get("status") == {"observedGeneration": 1})
    trees.api.delete(trees.path("subnamespaces", "root", "web"))
    eventually(lambda: trees.sub_namespace("web", "root") is None and trees.there("web") is None)


@pytest.mark.usefixtures("stored_in_v1")
def test_2_2_an_object_stored_in_the_oldest_version_is_served_and_deleted_without_conversion(trees: Trees) -> None:
    """The server returns the status with its single stored field and accepts no other one."""
    trees.serve()
    eventually(lambda: trees.labels("web").get("app") == "x")
    assert (trees.sub_namespace("web", "root") or {})["status"] == "ok"
    trees.api.delete(trees.path("subnamespaces", "root", "web"))
    eventually(lambda: trees.sub_namespace("web", "root") is None and trees.there("web") is None)
