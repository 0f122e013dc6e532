"""`samara manifests` prints the whole installation, with as few rights as possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.program import samara

from samara import __version__
from samara.cli.deploy.manifests import Installation, objects
from samara.cli.deploy.rights import objects as rights
from samara.secretstores.vault import LOGIN_TOKEN
from samara.settings import Settings, parse

pytestmark = pytest.mark.heavy

Json = dict[str, Any]


def made(config: str = "tenancy: strict\n", **more: Any) -> dict[str, Json]:
    """By kind, or by kind and name where there are several."""
    printed_objects = objects(Installation(parse(config, "test"), config, "ops", **more))
    return {obj["kind"]: obj for obj in printed_objects} | {
        f"{obj['kind']}/{obj['metadata']['name']}": obj for obj in printed_objects
    }


def pod(**more: Any) -> Json:
    spec: Json = made(**more)["Deployment"]["spec"]["template"]["spec"]
    return spec


def test_yaml_and_json_print_the_same_objects() -> None:
    printed = list(yaml.safe_load_all(samara("manifests", "-n", "ops").out))
    assert printed == samara("manifests", "-n", "ops", "-o", "json").json["items"]
    assert [obj["kind"] for obj in printed][:2] == ["Namespace", "CustomResourceDefinition"]


def test_without_settings_tenancy_is_strict_and_a_note_says_so() -> None:
    done = samara("manifests")
    assert "tenancy: strict" in done.err
    [config] = [obj for obj in yaml.safe_load_all(done.out) if obj["kind"] == "ConfigMap"]
    assert config["data"] == {"config.yaml": "tenancy: strict\n"}
    assert config["metadata"]["labels"] == {"app.kubernetes.io/name": "samara"}


def test_settings_are_installed_as_they_were_written(tmp_path: Path) -> None:
    text = "# mine\nvocabularies:\n  secret-copy:\n    home: vault\n"
    (tmp_path / "mine.yaml").write_text(text)
    done = samara("manifests", f"--config={tmp_path / 'mine.yaml'}")
    by_kind = {obj["kind"]: obj for obj in yaml.safe_load_all(done.out)}
    assert by_kind["ConfigMap"]["data"]["config.yaml"] == text
    assert "CustomResourceDefinition" not in by_kind
    assert "ValidatingWebhookConfiguration" not in by_kind
    assert "Service" not in by_kind


def test_the_output_has_no_yaml_anchors() -> None:
    assert "&id" not in samara("manifests").out


def test_the_rights_are_those_of_samara_rbac_and_only_the_pods_get_a_token() -> None:
    printed_objects = objects(Installation(Settings(), "", "ops"))
    account = {**rights(Settings(), "ops")[0], "automountServiceAccountToken": False}
    for obj in (account, *rights(Settings(), "ops")[1:]):
        assert obj in printed_objects
    assert pod()["automountServiceAccountToken"] is True


AGGREGATED = "rbac.authorization.k8s.io/aggregate-to-"
GROUP = ["accurate.cybozu.com"]
READ = ["get", "list", "watch"]
STATUS = {"apiGroups": GROUP, "resources": ["subnamespaces/status"], "verbs": ["get"]}


def role(name: str, verbs: list[str], *into: str) -> Json:
    labels = {"app.kubernetes.io/name": "samara", **{f"{AGGREGATED}{role}": "true" for role in into}}
    rules = [{"apiGroups": GROUP, "resources": ["subnamespaces"], "verbs": verbs}, STATUS]
    meta = {"name": f"samara-subnamespace-{name}-role", "labels": labels}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}


@pytest.mark.parametrize("config", ["tenancy: strict", "vocabularies: {accurate: {}, sync-to: {}}"])
def test_aggregated_roles_are_for_sub_namespaces_only(
    config: str,
) -> None:
    roles = [obj for obj in objects(Installation(parse(config, "test"), config, "ops")) if AGGREGATED in str(obj)]
    assert roles == [
        role("editor", [*READ, "create", "update", "patch", "delete"], "admin", "edit"),
        role("viewer", READ, "view"),
    ]


def test_without_accurate_there_are_no_aggregated_roles() -> None:
    config = "vocabularies: {secret-copy: {}, sync-to: {}, resource-distribution: {}, fishysecret: {}}"
    roles = objects(Installation(parse(config, "test"), config, "ops"))
    assert [obj["metadata"]["name"] for obj in roles if obj["kind"] == "ClusterRole"] == ["samara"]


def test_the_pods_meet_pod_security_restricted() -> None:
    spec = pod()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "hostNetwork" not in spec
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert {next(iter(volume.keys() - {"name"})) for volume in spec["volumes"]} == {
        "configMap",
        "emptyDir",
        "projected",
    }
    assert made()["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_login_at_the_secret_manager_gets_a_token_with_an_audience_of_its_own() -> None:
    """With the default audience, whoever receives the token could use it against the API server."""
    for config, audience in (
        ("tenancy: strict", "vault"),
        ("vocabularies: {fishysecret: {tokenAudience: bao}}", "bao"),
    ):
        spec = pod(config=config)
        [volume] = [volume for volume in spec["volumes"] if "projected" in volume]
        [source] = volume["projected"]["sources"]
        assert source["serviceAccountToken"]["audience"] == audience
        [mount] = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == volume["name"]]
        assert Path(mount["mountPath"], source["serviceAccountToken"]["path"]) == LOGIN_TOKEN
        assert mount["readOnly"] is True


def test_without_a_secret_manager_the_pods_have_no_token_for_logins() -> None:
    spec = pod(config="vocabularies: {secret-copy: {}}")
    assert "login" not in str(spec["volumes"]) + str(spec["containers"][0]["volumeMounts"])


def test_two_replicas_elect_a_leader_are_spread_and_are_not_evicted_together() -> None:
    by_kind = made()
    assert by_kind["Deployment"]["spec"]["replicas"] == 2
    assert "--leader-elect" in pod()["containers"][0]["args"]
    assert pod()["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert by_kind["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_every_selector_matches_the_pods_and_every_named_port_exists() -> None:
    by_kind = made(monitoring=True)
    labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in pod()["containers"][0]["ports"]}
    assert ports == {"http": 8080, "webhook": 9443}
    selectors = [
        by_kind["Deployment"]["spec"]["selector"]["matchLabels"],
        by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        *(by_kind[f"Service/{name}"]["spec"]["selector"] for name in ("samara-webhook", "samara-metrics")),
    ]
    assert all(selector.items() <= labels for selector in selectors)
    [port] = by_kind["Service/samara-webhook"]["spec"]["ports"]
    assert (port["port"], ports[port["targetPort"]]) == (443, 9443)
    chosen = by_kind["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
    assert chosen <= by_kind["Service/samara-metrics"]["metadata"]["labels"].items()
    assert not chosen <= by_kind["Service/samara-webhook"]["metadata"]["labels"].items()


def test_webhooks_call_the_service_without_a_bundle_and_exclude_the_operators_namespace() -> None:
    by_kind = made()
    for kind, path in (("Validating", "/admit"), ("Mutating", "/mutate")):
        config = by_kind[f"{kind}WebhookConfiguration"]
        assert config["metadata"]["labels"] == {"app.kubernetes.io/name": "samara"}
        for hook in config["webhooks"]:
            service = {"name": "samara-webhook", "namespace": "ops", "path": path, "port": 443}
            assert hook["clientConfig"] == {"service": service}
            [apart] = hook["namespaceSelector"]["matchExpressions"]
            assert apart == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["ops"]}


def test_a_webhook_url_replaces_the_service() -> None:
    by_kind = made(webhook_url="https://127.0.0.1:9443")
    assert "Service" not in by_kind
    hooks = by_kind["ValidatingWebhookConfiguration"]["webhooks"]
    assert {hook["clientConfig"]["url"] for hook in hooks} == {"https://127.0.0.1:9443/admit"}
    assert "--webhook-url=https://127.0.0.1:9443" in pod(webhook_url="https://127.0.0.1:9443")["containers"][0]["args"]


def test_an_observing_operator_has_no_webhooks() -> None:
    by_kind = made(observe=True)
    assert "--observe" in pod(observe=True)["containers"][0]["args"]
    assert not [kind for kind in by_kind if "Webhook" in kind or kind.startswith("Service/")]


def test_cert_manager_issues_the_certificate_for_the_name_of_the_service() -> None:
    certificate = made(cert_manager=True)["Certificate"]["spec"]
    assert certificate["secretName"] == "samara-webhook-tls"
    assert "samara-webhook.ops.svc" in certificate["dnsNames"]


def test_the_default_image_is_of_this_version() -> None:
    assert pod()["containers"][0]["image"] == f"samara:{__version__}"
    printed = samara("manifests", "--image", "images.example.com/s:1", "-o", "json").json["items"]
    [deployment] = [obj for obj in printed if obj["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "images.example.com/s:1"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--cert-manager", "--webhook-url=https://127.0.0.1"), "--webhook-url"),
        (("--cert-manager", "--observe"), "--observe"),
        (("--webhook-url=http://127.0.0.1",), "https"),
    ],
)
def test_contradictory_flags_are_reported_in_one_line(flags: tuple[str, ...], expected: str) -> None:
    assert expected in samara("manifests", *flags).fault


def test_settings_that_name_a_local_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "original.yaml").write_text("labelKeys: [team]\n")
    settings = {"vocabularies": {"accurate": {"configFile": str(tmp_path / "original.yaml")}}}
    (tmp_path / "mine.yaml").write_text(json.dumps(settings))
    assert "configFile" in samara("manifests", f"--config={tmp_path / 'mine.yaml'}").fault
