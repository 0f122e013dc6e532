"""The plugin on a real API server, one command at a time. No operator runs: the plugin speaks to the server only."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.program import samara
from tests.cluster.support.api import ApiFault
from tests.cluster.support.audit import lines_of
from tests.cluster.support.definitions import define, defined, undefine
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually
from tests.kubectl_accurate.plugin import Result, accurate

from samara import crds
from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
KEY = "accurate.cybozu.com"
DEFINITION = f"subnamespaces.{KEY}"
TYPE, PARENT, TEMPLATE = f"{KEY}/type", f"{KEY}/parent", f"{KEY}/template"
PROPAGATE, FROM = f"{KEY}/propagate", f"{KEY}/from"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SPACES = "/api/v1/namespaces"

pytestmark = pytest.mark.oracle_off("O4", reason="no operator runs")


class Trees:
    """Namespaces by their labels, SubNamespaces, and the plugin as the administrator."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.api = stage.api

    def __call__(self, *args: str | Path, user: str = "") -> Result:
        file = self.stage.kubeconfig(user) if user else self.stage.cluster.kubeconfig
        return accurate(*args, f"--kubeconfig={file}")

    def space(self, name: str, **labels: str) -> None:
        words = {f"{KEY}/{key}": value for key, value in labels.items()}
        self.api.create(SPACES, {"metadata": {"name": name, "labels": words}})

    def sub(self, name: str, parent: str, **spec: Json) -> Json:
        """A sub-namespace as an operator has made it, with its SubNamespace."""
        self.space(name, parent=parent)
        return self.ask(name, parent, **spec)

    def ask(self, name: str, parent: str, **spec: Json) -> Json:
        meta = {"name": name, "finalizers": [f"{KEY}/finalizer"]}
        body = {"apiVersion": f"{KEY}/v2", "kind": "SubNamespace", "metadata": meta, "spec": spec}
        return self.api.create(subs(parent), body)

    def labels(self, name: str) -> dict[str, str]:
        """The labels of the vocabulary, by their keys without the prefix."""
        labels = self.api.get(f"{SPACES}/{name}")["metadata"].get("labels") or {}
        return {key.removeprefix(f"{KEY}/"): value for key, value in labels.items() if key.startswith(f"{KEY}/")}

    def sub_namespaces(self) -> dict[str, Json]:
        """Every SubNamespace that is not under deletion, by address."""
        subs_of_cluster = self.api.items(f"/apis/{KEY}/v2/subnamespaces")
        return {
            f"{sub['metadata']['namespace']}/{sub['metadata']['name']}": sub
            for sub in subs_of_cluster
            if "deletionTimestamp" not in sub["metadata"]
        }

    def writes(self) -> list[str]:
        """The writes of the plugin, in order."""
        return [
            f"{event.verb} {event.resource} {event.namespace or event.name}"
            for event in self.stage.audit.events()
            if event.agent.startswith("kubectl-accurate/")
            and event.mutating
            and not event.dry_run
            and event.resource != "selfsubjectaccessreviews"
        ]


def subs(namespace: str) -> str:
    return f"/apis/{KEY}/v2/namespaces/{namespace}/subnamespaces"


@pytest.fixture(scope="module", autouse=True)
def _definition(cluster: Devcluster) -> Iterator[None]:
    with defined(cluster, crds.text(DEFINITION)):
        yield


@pytest.fixture
def trees(stage: Stage) -> Trees:
    return Trees(stage)


@pytest.fixture
def forest(trees: Trees) -> Trees:
    """Two trees: r ─ a ─ b, and s."""
    trees.space("r", type="root")
    trees.space("s", type="root")
    trees.sub("a", "r", labels={"team": "x"}, annotations={"note": "y"})
    trees.sub("b", "a")
    trees.space("plain")
    return trees


# list


def test_list_draws_every_root_sorted_with_branches_at_the_top_too(forest: Trees) -> None:
    forest.space("c", parent="r")
    drawn = "├── r\n│   ├── a\n│   │   └── b\n│   └── c\n└── s\n"
    assert forest("list").good == drawn
    assert forest("ls").good == drawn
    assert forest("sub", "list").good == drawn


def test_list_of_one_namespace_draws_what_is_below_it(forest: Trees) -> None:
    assert forest("list", "a").good == "└── a\n    └── b\n"
    assert forest("sub", "list", "plain").good == "└── plain\n"


def test_list_of_an_unknown_namespace_is_an_error(forest: Trees) -> None:
    assert forest("list", "nobody").fault.startswith("namespace nobody not found")


# namespace


def test_describe_shows_type_children_parent_and_template(forest: Trees) -> None:
    forest.space("t", type="template")
    forest.space("i", template="t")
    assert described(forest, "r") == "Name: r\nType: root\n# of children: 1\n"
    assert described(forest, "t") == "Name: t\nType: template\n# of instances: 1\n"
    assert described(forest, "a") == "Name: a\nType: none\nParent: r\n"
    assert described(forest, "i") == "Name: i\nType: none\nTemplate: t\n"
    assert described(forest, "plain") == "Name: plain\nType: none\n"


def described(trees: Trees, name: str) -> str:
    done = trees("namespace", "describe", name)
    assert done.code == 0, done.err
    return done.out


def originals_config(stage: Stage, namespace: str, text: str) -> None:
    stage.namespace(namespace)
    meta = {"name": "accurate-config"}
    stage.api.create(f"{SPACES}/{namespace}/configmaps", {"metadata": meta, "data": {"config.yaml": text}})
    pod = {
        "metadata": {"labels": {"app": "accurate"}},
        "spec": {
            "containers": [{"name": "manager", "image": "none"}],
            "volumes": [{"name": "config", "configMap": {"name": "accurate-config"}}],
        },
    }
    body = {
        "metadata": {"name": "accurate-controller-manager"},
        "spec": {"selector": {"matchLabels": {"app": "accurate"}}, "template": pod},
    }
    stage.api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", body)
    stage.also_remove(f"/apis/apps/v1/namespaces/{namespace}/deployments/accurate-controller-manager")
    stage.also_remove(f"{SPACES}/{namespace}/configmaps/accurate-config")


WATCHES = "watches: [{version: v1, kind: Secret}, {group: rbac.authorization.k8s.io, version: v1, kind: Role}]\n"
TABLE = """
Resources:
Kind     Name     From     Mode
-------- -------- -------- --------
Secret   db       r        update
Secret   once              create
"""


def objects(trees: Trees) -> None:
    trees.stage.foreign("a", "db", metadata={"annotations": {PROPAGATE: "update", FROM: "r"}})
    trees.stage.foreign("a", "once", metadata={"annotations": {PROPAGATE: "create"}})
    trees.stage.foreign("a", "mine")


@pytest.mark.parametrize("namespace", ["accurate", "elsewhere"])
def test_describe_reads_the_watched_kinds_from_the_original(forest: Trees, namespace: str) -> None:
    originals_config(forest.stage, namespace, f"{WATCHES}labelKeys: [team]\nnewerKey: true\n")
    objects(forest)
    assert forest("ns", "describe", "a", f"--accurate-namespace={namespace}").good.endswith(TABLE)


def test_describe_reads_the_watched_kinds_from_our_settings_where_there_is_no_original(forest: Trees) -> None:
    forest.stage.namespace("ours")
    labels = {"app.kubernetes.io/name": "samara"}
    body = {
        "metadata": {"name": "settings", "labels": labels},
        "data": {"config.yaml": f"vocabularies: {{accurate: {{{inner()}}}}}"},
    }
    forest.api.create(f"{SPACES}/ours/configmaps", body)
    forest.stage.also_remove(f"{SPACES}/ours/configmaps/settings")
    objects(forest)
    done = forest("ns", "describe", "a")
    assert done.code == 0
    assert done.out.endswith(TABLE)
    assert "ConfigMap ours/settings" in done.err


def test_describe_reads_the_watched_kinds_from_the_file_that_is_given(forest: Trees, tmp_path: Path) -> None:
    originals_config(forest.stage, "accurate", "watches: [{version: v1, kind: ConfigMap}]")
    file = tmp_path / "settings.yaml"
    file.write_text(f"vocabularies: {{accurate: {{{inner()}}}}}")
    objects(forest)
    assert forest("ns", "describe", "a", f"--config={file}").good.endswith(TABLE)


def inner() -> str:
    return WATCHES.strip()


def test_a_kind_that_cannot_be_listed_is_reported_and_skipped(forest: Trees) -> None:
    originals_config(forest.stage, "accurate", "watches: [{version: v1, kind: Nonsense}, {version: v1, kind: Secret}]")
    objects(forest)
    done = forest("ns", "describe", "a")
    assert (done.code, done.out[-len(TABLE) :]) == (0, TABLE)
    assert "Nonsense" in done.err


def test_describe_of_an_unknown_namespace_is_an_error(forest: Trees) -> None:
    assert forest("ns", "describe", "nobody").fault.startswith("namespace nobody not found")


def test_set_type_sets_and_removes_the_label(forest: Trees) -> None:
    assert forest("ns", "set-type", "plain", "root").good == "success\n"
    assert forest.labels("plain") == {"type": "root"}
    assert forest("ns", "set-type", "plain", "root").good == "nothing to do\n"
    assert forest("ns", "set-type", "plain", "template").good == "success\n"
    assert forest.labels("plain") == {"type": "template"}
    assert forest("namespace", "set-type", "plain", "none").good == "success\n"
    assert forest.labels("plain") == {}
    assert forest("ns", "set-type", "plain", "none").good == "nothing to do\n"
    assert forest("ns", "set-type", "plain", "tree").fault.startswith("invalid type: tree")


# template


def test_the_list_of_templates_starts_with_those_that_are_not_instances(trees: Trees) -> None:
    trees.space("t", type="template")
    trees.space("u", type="template", template="t")
    trees.space("i", template="u")
    trees.space("j", template="t")
    trees.space("v", type="template")
    assert trees("template", "list").good == "├── t\n│   ├── j\n│   └── u\n│       └── i\n└── v\n"
    assert trees("template", "ls", "u").good == "└── u\n    └── i\n"
    assert trees("template", "list", "nobody").fault.startswith("namespace nobody not found")


def test_template_set_and_unset(trees: Trees) -> None:
    trees.space("t", type="template")
    trees.space("i")
    assert trees("template", "set", "i", "t").good == "set t as a template of i\n"
    assert trees.labels("i") == {"template": "t"}
    assert trees("template", "unset", "i").good == "unset template for i\n"
    assert trees.labels("i") == {}
    assert trees("template", "unset", "i").good == ""


# sub create, sub delete


def test_sub_create_creates_a_sub_namespace_with_its_labels_and_annotations(forest: Trees) -> None:
    done = forest("sub", "create", "new", "r", "--labels", "a=b,c=d", "--labels=e=f", "--annotations", '"x=1,2",y=')
    assert done.good == "SubNamespace new is created in r\n"
    spec = forest.sub_namespaces()["r/new"]["spec"]
    assert spec == {"labels": {"a": "b", "c": "d", "e": "f"}, "annotations": {"x": "1,2", "y": ""}}


def test_sub_create_refuses_a_namespace_that_exists(forest: Trees) -> None:
    assert forest("sub", "create", "plain", "r").fault.startswith("namespace plain already exists")
    assert "r/plain" not in forest.sub_namespaces()
    assert forest("sub", "create", "new", "nobody").fault.startswith("namespace nobody not found")


def test_sub_delete_deletes_the_subnamespace_in_the_parent(forest: Trees) -> None:
    assert forest("sub", "delete", "b").good == "deleted SubNamespace a/b\n"
    assert "a/b" not in forest.sub_namespaces()
    assert forest("sub", "delete", "plain").fault.startswith("plain is not a sub-namespace")
    forest.space("c", parent="r")
    assert forest("sub", "delete", "c").fault.startswith("SubNamespace r/c not found")


# sub move


def test_move_gives_the_namespace_and_its_spec_to_the_new_parent(forest: Trees) -> None:
    done = forest("sub", "move", "a", "s")
    assert done.good == "the parent has changed to s\ndeleted the original SubNamespace r/a\ncreated SubNamespace s/a\n"
    assert forest.labels("a") == {"parent": "s"}
    assert set(forest.sub_namespaces()) == {"s/a", "a/b"}
    assert forest.sub_namespaces()["s/a"]["spec"] == {"labels": {"team": "x"}, "annotations": {"note": "y"}}
    assert forest.labels("b") == {"parent": "a"}


def test_a_move_writes_in_an_order_that_loses_nothing(forest: Trees) -> None:
    forest("sub", "move", "a", "s")
    assert forest.writes() == ["create subnamespaces s", "patch namespaces a", "delete subnamespaces r"]


def test_move_to_the_same_parent_changes_nothing(forest: Trees) -> None:
    assert forest("sub", "move", "a", "r").good == "parent is not changed\n"
    assert forest.writes() == []


def test_move_can_leave_the_original(forest: Trees) -> None:
    done = forest("sub", "move", "a", "s", "--leave-original")
    assert done.good == "the parent has changed to s\ncreated SubNamespace s/a\n"
    assert set(forest.sub_namespaces()) == {"r/a", "s/a", "a/b"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("plain", "s"), "plain is not a sub-namespace"),
        (("nobody", "s"), "namespace nobody not found"),
        (("a", "nobody"), "namespace nobody not found"),
        (("a", "plain"), "namespace plain is neither a root nor a sub namespace"),
        (("a", "a"), "circular reference is not permitted"),
        (("a", "b"), "circular reference is not permitted"),
    ],
)
def test_an_impossible_move_is_refused_before_anything_is_written(
    forest: Trees, args: tuple[str, str], message: str
) -> None:
    assert forest("sub", "move", *args).fault.startswith(message)
    assert forest.writes() == []


def test_a_move_without_the_original_subnamespace_is_refused_before_anything_is_written(forest: Trees) -> None:
    forest.space("c", parent="r")
    assert forest("sub", "move", "c", "s").fault.startswith("SubNamespace r/c not found")
    assert forest.writes() == []


def test_a_move_of_a_terminating_namespace_is_refused(forest: Trees) -> None:
    forest.api.delete(f"{subs('a')}/b")
    assert forest("sub", "move", "b", "s").fault.startswith("SubNamespace a/b is being deleted")
    assert forest.writes() == []


def test_a_move_uses_an_equal_existing_subnamespace_and_refuses_a_different_one(forest: Trees) -> None:
    forest.ask("b", "s")
    forest.ask("a", "s", labels={"team": "other"})
    assert forest("sub", "move", "b", "s").good.endswith("SubNamespace s/b was there\n")
    assert forest("sub", "move", "a", "s").fault.startswith("SubNamespace s/a exists already")
    assert forest.labels("a") == {"parent": "r"}


def rights(trees: Trees, name: str, rules: list[Json], namespace: str = "") -> None:
    path = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    kind = "Role" if namespace else "ClusterRole"
    subjects = [{"kind": "User", "name": "mover", "apiGroup": "rbac.authorization.k8s.io"}]
    ref = {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    trees.api.create(f"{path}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
    trees.api.create(f"{path}/{kind.lower()}bindings", body)
    if not namespace:
        trees.stage.also_remove(f"{path}/clusterroles/{name}")
        trees.stage.also_remove(f"{path}/clusterrolebindings/{name}")


def rule(resource: str, *verbs: str) -> Json:
    return {"apiGroups": ["", KEY], "resources": [resource], "verbs": list(verbs)}


def test_without_the_right_to_delete_the_original_nothing_is_moved(forest: Trees) -> None:
    rights(forest, "mover", [rule("namespaces", "get", "patch"), rule("subnamespaces", "get", "create")])
    fault = forest("sub", "move", "a", "s", user="mover").fault
    assert fault.startswith("expected the right to delete SubNamespace r/a")
    assert forest.writes() == []
    assert forest("sub", "cut", "a", user="mover").fault.startswith("expected the right to delete SubNamespace r/a")
    assert forest.writes() == []
    assert forest("sub", "move", "a", "s", "--leave-original", user="mover").code == 0


def test_without_the_right_to_change_namespaces_nothing_is_moved_or_grafted(forest: Trees) -> None:
    rights(forest, "mover", [rule("namespaces", "get"), rule("subnamespaces", "get", "create", "delete")])
    for args in (("move", "a", "s"), ("graft", "plain", "s"), ("cut", "a")):
        assert "403" in forest("sub", *args, user="mover").fault
    assert [write for write in forest.writes() if not write.startswith("patch")] == []
    assert forest.labels("a") == {"parent": "r"}


Probe = Callable[[], object]
Deny = Callable[[str, str, str, Probe], None]


@pytest.fixture
def deny(forest: Trees) -> Iterator[Deny]:
    """Installs an admission policy with this expression; the probe shows when it is in force."""
    probes: list[Probe] = []

    def put(resource: str, operation: str, expression: str, probe: Probe) -> None:
        group = "" if resource == "namespaces" else KEY
        where = {"apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource]}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [where]},
            "validations": [{"expression": expression, "message": "the policy says no"}],
        }
        forest.api.create(POLICIES, {"metadata": {"name": "deny"}, "spec": spec})
        binding = {"policyName": "deny", "validationActions": ["Deny"]}
        forest.api.create(BINDINGS, {"metadata": {"name": "deny"}, "spec": binding})
        probes.append(probe)
        eventually(lambda: is_denied(probe))

    yield put
    forest.api.gone(f"{BINDINGS}/deny")
    forest.api.gone(f"{POLICIES}/deny")
    for probe in probes:
        eventually(lambda probe=probe: not is_denied(probe))  # type: ignore[misc]


def is_denied(probe: Probe) -> bool:
    try:
        probe()
    except ApiFault as fault:
        return "the policy says no" in str(fault)
    return False


def test_a_move_whose_label_would_be_refused_writes_nothing(forest: Trees, deny: Deny) -> None:
    forest.space("probe")
    deny("namespaces", "UPDATE", f"object.metadata.?labels[?'{PARENT}'].orValue('') != 's'", lambda: labelled(forest))
    assert "the policy says no" in forest("sub", "move", "a", "s").fault
    assert "the policy says no" in forest("sub", "graft", "plain", "s").fault
    assert forest.writes() == []


def labelled(trees: Trees) -> Json:
    return trees.api.patch(f"{SPACES}/probe", {"metadata": {"labels": {PARENT: "s"}}})


@pytest.mark.parametrize("args", [("move", "a", "s"), ("graft", "plain", "s")])
def test_a_move_whose_label_the_server_refuses_is_undone_and_reported(
    forest: Trees, deny: Deny, args: tuple[str, ...]
) -> None:
    before = forest.labels(args[1])
    forest.space("probe")
    # The dry run passes, and the real request does not.
    expression = f"request.dryRun || object.metadata.?labels[?'{PARENT}'].orValue('') != 's'"
    deny("namespaces", "UPDATE", expression, lambda: labelled(forest))
    fault = forest("sub", *args).fault
    assert "the policy says no" in fault
    assert f"undone: SubNamespace s/{args[1]} was deleted again" in fault
    assert forest.labels(args[1]) == before
    assert set(forest.sub_namespaces()) == {"r/a", "a/b"}


def test_a_subnamespace_that_is_refused_leaves_the_namespace_as_it_was(forest: Trees, deny: Deny) -> None:
    deny("subnamespaces", "CREATE", "false", lambda: forest.ask("probe", "s"))
    for args in (("move", "a", "s"), ("graft", "plain", "s")):
        fault = forest("sub", *args).fault
        assert "the policy says no" in fault
        assert fault.endswith("nothing was changed")
    assert [write for write in forest.writes() if not write.startswith("create")] == []


def test_an_original_that_cannot_be_deleted_is_reported_and_the_rest_is_done(forest: Trees, deny: Deny) -> None:
    forest.ask("probe", "s")
    deny("subnamespaces", "DELETE", "false", lambda: forest.api.delete(f"{subs('s')}/probe"))
    done = forest("sub", "move", "a", "s")
    assert (done.code, done.out) == (1, "the parent has changed to s\ncreated SubNamespace s/a\n")
    assert "SubNamespace r/a could not be deleted" in done.fault
    assert "kubectl delete subnamespaces a -n r" in done.fault
    assert forest.labels("a") == {"parent": "s"}


# sub graft, sub cut


def test_graft_turns_a_namespace_into_a_sub_namespace(forest: Trees) -> None:
    forest.space("t", type="template")
    forest.space("i", template="t", type="root")
    assert forest("sub", "graft", "i", "a").good == "grafted i under a\n"
    assert forest.labels("i") == {"parent": "a"}
    assert forest.sub_namespaces()["a/i"].get("spec") == {}
    assert forest.writes() == ["create subnamespaces a", "patch namespaces i"]


def test_graft_uses_the_subnamespace_that_waits_in_conflict(forest: Trees) -> None:
    forest.ask("plain", "s", labels={"team": "z"})
    assert forest("sub", "graft", "plain", "s").good == "grafted plain under s\n"
    assert forest.sub_namespaces()["s/plain"]["spec"] == {"labels": {"team": "z"}}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("a", "s"), "a is a sub-namespace of r already"),
        (("nobody", "s"), "namespace nobody not found"),
        (("plain", "nobody"), "namespace nobody not found"),
        (("plain", "default"), "namespace default is neither a root nor a sub namespace"),
        (("r", "b"), "circular reference is not permitted"),
        (("r", "r"), "circular reference is not permitted"),
    ],
)
def test_an_impossible_graft_is_refused_before_anything_is_written(
    forest: Trees, args: tuple[str, str], message: str
) -> None:
    assert forest("sub", "graft", *args).fault.startswith(message)
    assert forest.writes() == []


def test_cut_makes_a_root_and_deletes_the_subnamespace_after_the_label(forest: Trees) -> None:
    assert forest("sub", "cut", "a").good == "cut a as a root namespace\n"
    assert forest.labels("a") == {"type": "root"}
    assert set(forest.sub_namespaces()) == {"a/b"}
    assert forest.writes() == ["patch namespaces a", "delete subnamespaces r"]


def test_cut_needs_a_sub_namespace_and_no_subnamespace(forest: Trees) -> None:
    forest.space("c", parent="r")
    assert forest("sub", "cut", "c").good == "cut c as a root namespace\n"
    assert forest("sub", "cut", "plain").fault.startswith("plain is not a sub-namespace")


# with an operator at work


@pytest.mark.oracle_off("O2", reason="the operator may still be at work when the last command is done")
def test_a_running_operator_neither_deletes_nor_creates_a_namespace_during_moves(
    forest: Trees,
) -> None:
    stage = forest.stage
    rules = {"subNamespaceLabelKeys": ["team"], "watches": [{"version": "v1", "kind": "Secret"}]}
    stage.operator(config={"vocabularies": {"accurate": rules}}, kubeconfig=stage.cluster.kubeconfig)
    before = {name: forest.api.get(f"{SPACES}/{name}")["metadata"]["uid"] for name in ("a", "b", "plain")}
    eventually(lambda: forest.api.get(f"{SPACES}/a")["metadata"]["labels"].get("team") == "x")
    for args in (
        ("move", "a", "s"),
        ("move", "b", "r"),
        ("move", "a", "b"),
        ("graft", "plain", "a"),
        ("move", "b", "s"),
    ):
        assert forest("sub", *args).code == 0
        eventually(lambda: forest.api.get(f"{SPACES}/a")["metadata"]["labels"].get("team") == "x")
    assert forest("sub", "cut", "b").code == 0
    eventually(lambda: settled(forest) == {"b/a", "a/plain"})
    assert {name: forest.api.get(f"{SPACES}/{name}")["metadata"]["uid"] for name in before} == before
    acts = {(event.verb, event.name) for event in stage.audit.ours() if event.resource == "namespaces"}
    assert not {act for act in acts if act[0] in ("create", "delete")}


def settled(trees: Trees) -> set[str]:
    """The SubNamespaces that the operator has reconciled without a problem."""
    subs_of_cluster = trees.api.items(f"/apis/{KEY}/v2/subnamespaces")
    return {
        f"{sub['metadata']['namespace']}/{sub['metadata']['name']}"
        for sub in subs_of_cluster
        if (sub.get("status") or {}).get("observedGeneration") and is_ready(sub["status"])
    }


def is_ready(status: Json) -> bool:
    return [(condition["type"], condition["status"]) for condition in status.get("conditions") or ()] == [
        ("Ready", "True")
    ]


# flags


def test_kubectls_flags_count_before_and_after_the_command(forest: Trees) -> None:
    file = f"--kubeconfig={forest.stage.cluster.kubeconfig}"
    for args in ((file, "sub", "list", "s"), ("sub", file, "list", "s"), ("sub", "list", file, "s"), ("ls", "s", file)):
        assert accurate(*args).good == "└── s\n"
    assert accurate(file, "ls", "s").good == "└── s\n"


def test_the_flags_as_as_group_context_cluster_and_user_are_obeyed(forest: Trees) -> None:
    assert "403" in forest("list", "--as=nobody").fault
    assert forest("list", "s", "--as=nobody", "--as-group=system:masters").good == "└── s\n"
    assert "no context 'other'" in forest("list", "--context", "other").fault
    assert "'other'" in forest("list", "--cluster", "other").fault
    assert "'other'" in forest("list", "--user", "other").fault
    assert forest("list", "s", "-n", "whatever", "--request-timeout=5").good == "└── s\n"


def test_server_token_and_authority_can_be_given_without_a_kubeconfig(forest: Trees, tmp_path: Path) -> None:
    forest.api.create(f"{SPACES}/s/serviceaccounts", {"metadata": {"name": "teller"}})
    rights(forest, "mover", [rule("namespaces", "list")])
    forest.api.patch(
        f"{RBAC}/clusterrolebindings/mover",
        {"subjects": [{"kind": "ServiceAccount", "name": "teller", "namespace": "s"}]},
    )
    token = forest.stage.cluster.service_account_token("s", "teller")
    flags = ("-s", forest.stage.cluster.url, "--token", token)
    assert accurate("list", "s", *flags, "--insecure-skip-tls-verify").good == "└── s\n"
    assert accurate("list", "s", *flags, "--insecure-skip-tls-verify=true").good == "└── s\n"
    config = yaml.safe_load(forest.stage.cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = tmp_path / "ca.pem"
    authority.write_bytes(base64.b64decode(config["certificate-authority-data"]))
    assert accurate("list", "s", *flags, f"--certificate-authority={authority}").good == "└── s\n"
    assert "no answer" in accurate("list", "s", *flags).fault
    # A token on the command line overrides the user of the kubeconfig.
    assert "403" in forest("ns", "describe", "s", "--token", token).fault
    assert "401" in forest("list", "--token", "wrong").fault


def test_without_the_definition_the_error_names_what_to_install(trees: Trees) -> None:
    trees.space("r", type="root")
    undefine(trees.stage.cluster, trees.api, DEFINITION)
    try:
        eventually(lambda: not trees.api.serves(subs("default")))
        assert "samara crds" in trees("sub", "create", "new", "r").fault
    finally:
        define(trees.stage.cluster, trees.api, crds.text(DEFINITION))


# samara tree


def tree(trees: Trees, *args: str, config: Path | None = None) -> Json:
    flags = [f"--config={config}"] if config else []
    done = samara("tree", *args, f"--kubeconfig={trees.stage.cluster.kubeconfig}", *flags, "-o", "json")
    assert done.code == 0, done.err
    answer: Json = json.loads(done.out)
    return answer


def test_tree_shows_what_is_inherited_and_where_copies_are_missing(forest: Trees, tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(f"vocabularies: {{accurate: {{{inner()}}}}}\n")
    applied = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"team": "x"}}}
    forest.api.request(
        "PATCH",
        f"{SPACES}/a",
        applied,
        query={"fieldManager": "accurate-controller", "force": "true"},
        content_type="application/apply-patch+yaml",
    )
    canary = "c4nary"
    forest.stage.foreign("r", "db", {"password": canary}, metadata={"annotations": {PROPAGATE: "update"}})
    forest.stage.foreign("a", "db", {"password": canary}, metadata={"annotations": {PROPAGATE: "update", FROM: "r"}})
    mark = forest.stage.audit.mark()
    [r, s] = tree(forest, config=config)["trees"]
    assert (r["name"], r["role"], s["name"], s["children"]) == ("r", "root", "s", [])
    [a] = r["children"]
    assert a["labels"] == ["team"]
    assert r["objects"] == [
        {"kind": "v1/Secret", "name": "db", "mode": "update", "from": None, "stale": False,
         "copies": {"there": 1, "missing": [], "others": []}}
    ]  # fmt: skip
    assert a["objects"][0]["copies"] == {"there": 0, "missing": ["b"], "others": []}
    read = [event for event in forest.stage.audit.since(mark) if event.resource == "secrets"]
    assert [event.verb for event in read] == ["list"]
    answers = [line for line in lines_of(forest.stage.cluster.audit_log) if is_list_of_secrets(line)]
    assert "PartialObjectMetadataList" in answers[-1]
    assert base64.b64encode(canary.encode()).decode() not in answers[-1]
    [b] = tree(forest, "b", config=config)["trees"]
    assert (b["name"], b["faults"]) == ("b", [])


def test_tree_reads_the_propagated_kinds_from_the_original_where_the_settings_name_none(forest: Trees) -> None:
    originals_config(forest.stage, "accurate", f"{WATCHES}newerKey: true\n")
    forest.stage.foreign("r", "db", metadata={"annotations": {PROPAGATE: "update"}})
    [r, _] = tree(forest)["trees"]
    assert [(obj["kind"], obj["name"]) for obj in r["objects"]] == [("v1/Secret", "db")]


def is_list_of_secrets(line: str) -> bool:
    event = json.loads(line)
    return event["verb"] == "list" and (event.get("objectRef") or {}).get("resource") == "secrets"


def test_tree_shows_faults_next_to_their_namespace(forest: Trees, tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(f"vocabularies: {{accurate: {{{inner()}}}}}\n")
    forest.space("lost", parent="gone")
    forest.stage.foreign("r", "db", metadata={"annotations": {PROPAGATE: "update"}})
    done = samara("tree", f"--kubeconfig={forest.stage.cluster.kubeconfig}", f"--config={config}")
    assert done.out == (
        "├── lost (sub-namespace)\n"
        "│       ! its parent gone does not exist\n"
        "├── r (root)\n"
        "│   │   Secret db: update; copies 0 of 1; missing in a\n"
        "│   └── a (sub-namespace)\n"
        "│       └── b (sub-namespace)\n"
        "└── s (root)\n"
    )
