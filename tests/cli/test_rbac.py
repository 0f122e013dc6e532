"""`samara rbac` prints the rights that the operator needs, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Shell
from tests.cli.program import samara, samara_inside
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually

from samara.cli.deploy.rights import Rule, cluster_rules, objects, own_rules
from samara.core.model import SECRET
from samara.settings import Settings, parse
from samara.vocabularies.accurate.config import VERBS
from samara_devtools.devcluster import DevclusterError

Grant = tuple[str, str, str, str]
FULL = {"get", "list", "watch", "create", "update", "patch", "delete"}
RULE_12: set[Grant] = {
    *(("", kind, verb, "") for kind in ("namespaces", "resourcequotas") for verb in ("list", "watch")),
    *(("", SECRET.plural, verb, "") for verb in FULL),
    *(("", "events", verb, "") for verb in ("create", "patch")),
}
WEBHOOKS: set[Grant] = {
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "list", ""),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "update", "samara"),
    ("", "namespaces", "get", ""),
}
OWN: set[Grant] = {
    ("coordination.k8s.io", "leases", "create", ""),
    *(("coordination.k8s.io", "leases", verb, "samara") for verb in ("get", "update")),
    ("", "configmaps", "create", ""),
    *(("", "configmaps", verb, "samara-holds") for verb in ("get", "update")),
}
ORIGINAL: set[Grant] = {
    ("", "serviceaccounts", "list", ""),
    ("authorization.k8s.io", "subjectaccessreviews", "create", ""),
}


def grants(rules: list[dict[str, list[str]]]) -> set[Grant]:
    return {
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def granted_by(rules: list[Rule]) -> set[Grant]:
    return grants([rule.manifest() for rule in rules])


def rules(vocabularies: str) -> set[Grant]:
    return granted_by(cluster_rules(parse(f"vocabularies: {vocabularies}", "test")))


def test_secret_copy_needs_the_rights_of_its_specification_and_no_others() -> None:
    assert rules("{secret-copy: {}}") == RULE_12
    assert granted_by(own_rules(parse("vocabularies: {secret-copy: {}}", "test"))) == OWN


def test_sync_to_needs_the_kinds_of_its_settings() -> None:
    config_maps = {("", "configmaps", verb, "") for verb in FULL}
    assert rules("{sync-to: {}}") == RULE_12 | config_maps | WEBHOOKS
    policies = {("networking.k8s.io", "networkpolicies", verb, "") for verb in FULL}
    more = "{sync-to: {kinds: [v1/Secret, networking.k8s.io/v1/NetworkPolicy]}}"
    assert rules(more) == RULE_12 | policies | WEBHOOKS


def test_admission_needs_its_own_certificate_and_no_other_secret_of_its_namespace() -> None:
    certificate = {("", "secrets", verb, "samara-webhook-tls") for verb in ("get", "watch", "update", "delete")}
    assert granted_by(own_rules(Settings())) == OWN | certificate | {("", "secrets", "create", "")}


def test_distributions_are_read_and_reported_on_and_never_changed() -> None:
    group, plural = "apps.kruise.io", "resourcedistributions"
    reads = {(group, plural, verb, "") for verb in ("get", "list", "watch")}
    reports = {(group, f"{plural}/status", "patch", ""), (group, f"{plural}/finalizers", "update", "")}
    more = {*reads, *reports, *(("", "configmaps", verb, "") for verb in FULL)}
    crd = {
        ("apiextensions.k8s.io", "customresourcedefinitions", verb, f"{plural}.{group}") for verb in ("get", "patch")
    }
    original = {*ORIGINAL, ("coordination.k8s.io", "leases", "list", "kruise-manager")}
    assert rules("{resource-distribution: {}}") == RULE_12 | more | crd | WEBHOOKS | original
    assert rules("{resource-distribution: {takeover: true}}") == RULE_12 | more | crd | WEBHOOKS


def test_the_rights_checked_at_the_start_are_all_printed() -> None:
    printed = rules("{accurate: {watches: [{version: v1, kind: LimitRange}]}}")
    assert {verb for _, resource, verb, _ in printed if resource == "limitranges"} >= set(VERBS)


def test_fishysecrets_are_read_and_reported_on_and_get_a_finalizer() -> None:
    group, plural = "fishykeys.2v.pm", "fishysecrets"
    reads = {(group, plural, verb, "") for verb in ("get", "list", "watch", "patch")}
    reports = {(group, f"{plural}/status", "patch", "")}
    crd = {("apiextensions.k8s.io", "customresourcedefinitions", "get", f"{plural}.{group}")}
    original = {*ORIGINAL, ("coordination.k8s.io", "leases", "list", "dd9fe84d.2v.pm")}
    assert rules("{fishysecret: {}}") == RULE_12 | reads | reports | crd | original
    assert rules("{fishysecret: {takeover: true}}") == RULE_12 | reads | reports | crd
    assert granted_by(own_rules(parse("vocabularies: {fishysecret: {}}", "test"))) == OWN


def test_only_the_leases_of_originals_are_listed() -> None:
    leases = {
        name for group, resource, _, name in rules("{resource-distribution: {}, accurate: {}}") if resource == "leases"
    }
    assert leases == {"kruise-manager", "accurate"}


def test_a_vocabulary_that_is_not_served_needs_no_rights() -> None:
    assert cluster_rules(Settings(vocabularies={})) == []


def test_no_rule_has_a_wildcard() -> None:
    assert "*" not in samara_inside("rbac").out


def test_yaml_and_json_print_the_same_objects_for_the_requested_namespace() -> None:
    printed = list(yaml.safe_load_all(samara_inside("rbac", "-n", "ops").out))
    assert printed == samara_inside("rbac", "-n", "ops", "-o", "json").json["items"] == objects(Settings(), "ops")
    assert [obj["kind"] for obj in printed] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]


@pytest.fixture
def token(stage: Stage, shell: Shell) -> Iterator[Path]:
    """A kubeconfig with a token of the account that the printed manifests make."""
    stage.namespace("samara-system")
    only = stage.folder / "secret-copy.yaml"
    only.write_text("vocabularies: {secret-copy: {}}")
    manifests = samara("rbac", "-n", "samara-system", f"--config={only}").out
    # The roles of the fixture have the same names and are bound to another user.
    stage.cluster.kubectl("delete", "clusterrole,clusterrolebinding", "samara", "--ignore-not-found")
    stage.cluster.kubectl("apply", "-f", "-", input=manifests)
    yield stage.cluster.kubeconfig_with_token(stage.cluster.service_account_token("samara-system", "samara"))
    stage.cluster.kubectl("delete", "-f", "-", input=manifests)


@pytest.mark.cluster
def test_the_printed_rights_are_enough_for_all_operations(stage: Stage, shell: Shell, token: Path) -> None:
    names = [f"n{number}" for number in range(8)]
    stage.namespace(*names)
    stage.source("db", ",".join(names), {"username": "u", "password": "p"})
    operator = stage.operator("-n", "samara-system", "--leader-elect", kubeconfig=token)
    stage.until_copied("db", *names)  # create
    stage.bump("db")
    stage.until_copied("db", *names)  # update
    stage.api.delete(stage.path("admin", "db"))
    stage.source("db", ",".join(names), {"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")
    stage.until_copied("db", *names)  # recreate
    stage.retarget("db", ",".join(names[1:]))
    stage.until_gone("n0", "db")  # delete
    stage.retarget("db", "n1")
    held = "/api/v1/namespaces/samara-system/configmaps/samara-holds"
    eventually(lambda: (stage.api.find(held) or {}).get("data"))  # hold
    assert shell("release", "secret-copy/Secret/admin/db", "-n", "samara-system").code == 0
    for name in names[2:]:
        stage.until_gone(name, "db")
    stage.foreign("n0", "db", {"mine": "1"})
    stage.retarget("db", "n0,n1")
    for reason in ("Copied", "Updated", "Removed", "Held", "Conflict"):
        stage.until_event(reason)
    lease = stage.api.find("/apis/coordination.k8s.io/v1/namespaces/samara-system/leases/samara")
    assert lease is not None
    assert lease["spec"]["holderIdentity"]
    operator.stop()
    assert not re.search(r"\b403\b", operator.log)  # in a time it is followed by a Z
    assert "forbidden" not in operator.log.lower()


@pytest.mark.cluster
def test_the_printed_account_has_no_other_rights(stage: Stage, token: Path) -> None:
    def may(*args: str) -> bool:
        try:
            return "yes" in stage.cluster.kubectl("auth", "can-i", *args, kubeconfig=token)
        except DevclusterError:  # kubectl exits 1 for `no`
            return False

    assert may("list", "secrets", "--all-namespaces")
    for refused in (
        ("create", "pods"),
        ("delete", "namespaces"),
        ("get", "configmaps/other", "-n", "samara-system"),
        ("update", "leases.coordination.k8s.io/other", "-n", "samara-system"),
        ("get", "configmaps", "-n", "default"),
        ("deletecollection", "secrets"),
    ):
        assert not may(*refused), refused
