"""The chart renders what `samara manifests` prints, and refuses invalid values."""

from __future__ import annotations

import hashlib
import json
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import chart
from tests.chart.helm import CHART, CHECKSUM, FILE, Helm, comparable, documents, is_hook
from tests.cli.test_rbac import granted_by, grants

from samara import __version__, crds
from samara.cli.deploy.manifests import MARKS_POLICY, Installation, objects
from samara.cli.deploy.rights import cluster_rules, own_rules
from samara.settings import STRUCTS, parse

Json = dict[str, Any]
WATCHES = [
    {"version": "v1", "kind": "Secret"},
    {"group": None, "version": "v1", "kind": "LimitRange"},
    {"group": "networking.k8s.io", "version": "v1", "kind": "NetworkPolicy"},
]
ODD = [
    "v1/Secret",
    "example.com/v1/Gateway",
    "example.com/v1beta1/Proxy",
    "example.com/v1/Mesh",
    "example.com/v2/Alias",
]
TIMES = {
    "resync": 0,
    "sourceGoneAfter": "0",
    "massDelete": {"hold": "forever"},
    "timers": {"lease": "1h30m", "renew": "1m5s500ms", "silence": "90ms"},
}
CASES: dict[str, tuple[Json, Json]] = {
    "the defaults": ({}, {}),
    "one vocabulary without admission": ({"settings": {"vocabularies": {"secret-copy": {}}}}, {}),
    "kinds of the settings": ({"settings": {"vocabularies": {"sync-to": {"kinds": ODD}}}}, {}),
    "kinds that are distributed": ({"settings": {"vocabularies": {"resource-distribution": {"kinds": ODD}}}}, {}),
    "watches of trees": ({"settings": {"vocabularies": {"accurate": {"watches": WATCHES}}}}, {}),
    "a take-over": ({"settings": {"vocabularies": {"accurate": {"takeover": True}}}}, {}),
    "one take-over of two": (
        {"settings": {"vocabularies": {"accurate": {"takeover": True}, "resource-distribution": {}}}},
        {},
    ),
    "an open tenancy": ({"settings": {"tenancy": "open", "massDelete": {"most": 7}}}, {}),
    "times in every form": ({"settings": TIMES}, {}),
    "an address in place of a Service": (
        {"webhook": {"url": "https://127.0.0.1:9443/"}},
        {"webhook_url": "https://127.0.0.1:9443/"},
    ),
    "cert-manager": ({"webhook": {"certManager": True}}, {"cert_manager": True}),
    "only observing": ({"observe": True}, {"observe": True}),
    "without the policy of the marks": ({"marksPolicy": {"enabled": False}}, {"marks_policy": False}),
    "monitoring": ({"monitoring": {"serviceMonitor": True, "prometheusRule": True}}, {"monitoring": True}),
    "another audience of the token for logins": (
        {"settings": {"vocabularies": {"fishysecret": {"tokenAudience": "https://vault.example.com"}}}},
        {},
    ),
    "another image": (
        {"image": {"repository": "images.example.com/samara", "tag": "1.2"}},
        {"image": "images.example.com/samara:1.2"},
    ),
}


def printed(values: Json, more: Json) -> list[Json]:
    """The output of `samara manifests` for the same settings, without the namespace, which helm creates."""
    config = yaml.safe_dump({"tenancy": "strict", **values.get("settings", {})})
    made = objects(Installation(parse(config, "test"), config, "ops", **more))
    return [obj for obj in made if obj["kind"] != "Namespace"]


@pytest.mark.parametrize("case", CASES)
def test_the_chart_and_the_manifests_are_the_same_objects(helm: Helm, case: str) -> None:
    values, more = CASES[case]
    rendered = comparable([obj for obj in helm.template(values) if not is_hook(obj)])
    wanted = comparable(printed(values, more))
    assert rendered.keys() == wanted.keys()
    for key, obj in wanted.items():
        assert rendered[key] == obj, key


@pytest.mark.parametrize("size", range(1, len(STRUCTS) + 1))
def test_any_choice_of_vocabularies_has_the_rights_of_samara_rbac_and_no_others(helm: Helm, size: int) -> None:
    for names in combinations(sorted(STRUCTS), size):
        vocabularies: Json = {name: {} for name in names}
        made = comparable(helm.template({"settings": {"vocabularies": vocabularies}}))
        settings = parse(json.dumps({"vocabularies": vocabularies}), "test")
        assert made["ClusterRole", "samara"]["rules"] == granted_by(cluster_rules(settings)), names
        assert made["Role", "samara"]["rules"] == granted_by(own_rules(settings)), names


def test_the_policy_of_the_marks_is_left_out_on_a_server_that_does_not_have_it(helm: Helm) -> None:
    kinds = [
        {obj["kind"] for obj in documents(helm.run("template", "samara", CHART, f"--kube-version={version}").out)}
        for version in ("1.29.4", "1.30.0-eks-1")
    ]
    assert [MARKS_POLICY in found for found in kinds] == [False, True]


def test_rules_can_be_added(helm: Helm) -> None:
    more = {"apiGroups": ["example.com"], "resources": ["owners"], "verbs": ["get"]}
    made = comparable(helm.template({"rbac": {"extraRules": [more]}}))
    assert ("example.com", "owners", "get", "") in made["ClusterRole", "samara"]["rules"]


def test_the_rendering_that_samara_manifests_prints_is_that_of_the_chart(program: Path) -> None:
    assert not chart.is_stale(chart.rendered(program)), "run make chart"


def test_vocabularies_that_guard_one_kind_share_a_webhook(helm: Helm, tmp_path: Path) -> None:
    """No two of our vocabularies guard the same kind, so one gets a twin with other keys."""
    folder = tmp_path / "chart"
    shutil.copytree(CHART, folder)
    (folder / "values.schema.json").unlink()
    file = folder / "files" / "vocabularies.yaml"
    known = yaml.safe_load(file.read_text())["vocabularies"]
    own = next(vocabulary for vocabulary in known if vocabulary["name"] == "sync-to")
    twin = json.loads(json.dumps(own).replace("openkruise.io/", "toys.dev/")) | {"name": "twin"}
    file.write_text(json.dumps({"vocabularies": [*known, twin]}))
    values = helm.values({"settings": {"vocabularies": {"sync-to": {}, "twin": {"kinds": ["v1/Secret"]}}}})
    done = helm.run("template", "samara", folder, "--values", values)
    assert done.code == 0, done.err
    (made,) = [document for document in documents(done.out) if document["kind"] == "ValidatingWebhookConfiguration"]
    hooks = {hook["name"]: hook for hook in made["webhooks"]}
    assert set(hooks) == {"configmaps.samara.dev", "secrets.samara.dev"}
    parts = [vocabulary["kinds"]["validating"][0]["matchConditions"][0]["expression"] for vocabulary in (own, twin)]
    (condition,) = hooks["secrets.samara.dev"]["matchConditions"]
    assert condition["expression"] == " || ".join(parts)
    (rule,) = hooks["secrets.samara.dev"]["rules"]
    assert (rule["operations"], rule["apiVersions"]) == (["CREATE", "UPDATE"], ["v1"])


def test_helm_lint_passes(helm: Helm) -> None:
    done = helm.run("lint", CHART, "--strict")
    assert done.code == 0, done.out + done.err
    assert "[" not in done.out  # not even advice, such as `[INFO] Chart.yaml: icon is recommended`


def test_the_checksum_annotation_changes_with_the_settings(helm: Helm) -> None:
    seen = set()
    opened: Json = {"settings": {"tenancy": "open"}}
    for values in ({}, opened):
        made = {obj["kind"]: obj for obj in helm.template(values) if not is_hook(obj)}
        checksum_annotation = made["Deployment"]["spec"]["template"]["metadata"]["annotations"][CHECKSUM]
        assert checksum_annotation == hashlib.sha256(made["ConfigMap"]["data"][FILE].encode()).hexdigest()
        seen.add(checksum_annotation)
    assert len(seen) == 2


def test_the_operator_reads_the_settings_of_the_chart(helm: Helm, tmp_path: Path) -> None:
    values: Json = {
        "settings": {"massDelete": None, "vocabularies": {"secret-copy": None, "sync-to": {"kinds": ["v1/Secret"]}}}
    }
    made = {obj["kind"]: obj for obj in helm.template(values) if not is_hook(obj)}
    settings = parse(made["ConfigMap"]["data"][FILE], "the chart")
    assert settings.tenancy == "strict"
    assert settings.mass_delete is None
    assert set(settings.vocabularies) == {"secret-copy", "sync-to"}


def test_no_webhook_is_registered_if_no_operator_would_answer(helm: Helm) -> None:
    alone: Json = {"settings": {"vocabularies": {"secret-copy": {}}}}
    for values in ({"observe": True}, alone):
        kinds = [obj["kind"] for obj in helm.template(values) if not is_hook(obj)]
        assert not [kind for kind in kinds if "Webhook" in kind or kind == "Service"]


def test_only_the_operator_and_the_uninstall_job_get_a_token_that_the_api_server_accepts(helm: Helm) -> None:
    made = helm.template()
    pods = {obj["kind"]: obj["spec"]["template"]["spec"] for obj in made if obj["kind"] in ("Deployment", "Job")}
    assert {kind: spec["automountServiceAccountToken"] for kind, spec in pods.items()} == {
        "Deployment": True,
        "Job": True,
    }
    assert {obj["automountServiceAccountToken"] for obj in made if obj["kind"] == "ServiceAccount"} == {False}
    assert "serviceAccountToken" not in str(pods["Job"].get("volumes", ()))


def test_crds_stay_when_the_chart_is_uninstalled(helm: Helm) -> None:
    crds = [obj for obj in helm.template() if obj["kind"] == "CustomResourceDefinition"]
    assert crds
    assert {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in crds} == {"keep"}


def test_crds_are_those_of_samara_crds_without_the_labels_of_a_release(helm: Helm) -> None:
    """They outlive the release, and several releases may share them. With its labels, those that `samara crds` prints
    would differ from those of the chart, and each upgrade of the chart would change them."""
    made = {obj["metadata"]["name"]: obj for obj in helm.template() if obj["kind"] == "CustomResourceDefinition"}
    assert made == {name: crds.definition(name) for name in made}
    assert [name for name, crd in made.items() if "labels" in crd["metadata"]] == []
    assert made


def test_a_job_runs_samara_uninstall_before_the_chart_is_deleted(helm: Helm) -> None:
    hooks = [obj for obj in helm.template() if is_hook(obj)]
    assert {hook["metadata"]["annotations"]["helm.sh/hook"] for hook in hooks} == {"pre-delete"}
    [job] = [hook for hook in hooks if hook["kind"] == "Job"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["uninstall", "--yes", "--namespace=ops"]
    assert not [obj for obj in helm.template({"uninstall": {"hook": False}}) if is_hook(obj)]


def deployment(objects: list[Json]) -> Json:
    [made] = [obj for obj in objects if obj["kind"] == "Deployment"]
    return made


def test_pods_get_more_variables_volumes_and_annotations(helm: Helm) -> None:
    volume = {"name": "ca", "secret": {"secretName": "vault-ca"}}
    mount = {"name": "ca", "mountPath": "/etc/vault-ca", "readOnly": True}
    variable = {"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}
    values = {
        "extraVolumes": [volume],
        "extraVolumeMounts": [mount],
        "extraEnv": [variable],
        "podAnnotations": {"example.com/team": "platform"},
        "revisionHistoryLimit": 1,
    }
    spec = deployment(helm.template(values))["spec"]
    assert spec["revisionHistoryLimit"] == 1
    assert spec["template"]["metadata"]["annotations"]["example.com/team"] == "platform"
    [container] = spec["template"]["spec"]["containers"]
    assert container["env"] == [variable]
    assert container["volumeMounts"][-1] == mount
    assert spec["template"]["spec"]["volumes"][-1] == volume


def test_a_file_of_the_settings_may_be_on_a_volume(helm: Helm) -> None:
    settings = {"vocabularies": {"accurate": {"configFile": "/etc/accurate/config.yaml"}}}
    for path in ("/etc/accurate", "/etc/accurate/config.yaml"):
        assert helm.template({"settings": settings, "extraVolumeMounts": [{"name": "accurate", "mountPath": path}]})
    elsewhere = [{"name": "accurate", "mountPath": "/etc/accurat"}]
    assert "configFile" in helm.try_template({"settings": settings, "extraVolumeMounts": elsewhere}).err


def test_the_account_gets_annotations_and_the_account_of_the_uninstall_job_none(helm: Helm) -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/samara"}
    accounts = [
        obj for obj in helm.template({"serviceAccount": {"annotations": role}}) if obj["kind"] == "ServiceAccount"
    ]
    assert [obj["metadata"].get("annotations") for obj in accounts if not is_hook(obj)] == [role]
    assert not [obj for obj in accounts if is_hook(obj) and role.keys() & obj["metadata"]["annotations"].keys()]


def test_the_service_monitor_has_labels_and_an_interval(helm: Helm) -> None:
    chosen = {"serviceMonitor": True, "prometheusRule": True, "labels": {"release": "stack"}, "interval": "15s"}
    made = comparable(helm.template({"monitoring": chosen}))
    assert made["ServiceMonitor", "samara"]["spec"]["endpoints"][0]["interval"] == "15s"
    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert made[kind, "samara"]["metadata"]["labels"]["release"] == "stack"
    selected = made["ServiceMonitor", "samara"]["spec"]["selector"]["matchLabels"].items()
    assert selected <= made["Service", "samara-metrics"]["metadata"]["labels"].items()


def test_objects_have_the_recommended_labels(helm: Helm) -> None:
    made = helm.template({"monitoring": {"serviceMonitor": True, "prometheusRule": True}}, release="copies")
    wanted = {
        "app.kubernetes.io/name": "samara",
        "app.kubernetes.io/instance": "copies",
        "app.kubernetes.io/version": __version__,
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"samara-{__version__}",
    }
    labelled = [obj["metadata"] for obj in made if obj["kind"] != "CustomResourceDefinition"]
    labelled.append(deployment(made)["spec"]["template"]["metadata"])
    assert [meta for meta in labelled if not wanted.items() <= meta["labels"].items()] == []


def test_labels_that_change_with_a_release_select_nothing(helm: Helm) -> None:
    made = helm.template({"monitoring": {"serviceMonitor": True}}, release="copies")
    selectors = [obj["spec"].get("selector") or obj["spec"].get("podSelector") for obj in made if "spec" in obj]
    assert not [selector for selector in selectors if "copies" in str(selector) or __version__ in str(selector)]


NAMES: dict[str, tuple[str, Json, str]] = {
    "the default": ("copies", {}, "samara"),
    "the whole name": ("copies", {"fullnameOverride": "syncer"}, "syncer"),
    "a name behind that of the release": ("copies", {"nameOverride": "syncer"}, "copies-syncer"),
    "a name that the release has": ("my-syncer", {"nameOverride": "syncer"}, "my-syncer"),
    "both": ("copies", {"nameOverride": "a", "fullnameOverride": "b"}, "b"),
}
FIXED = {
    *(("Service", "samara-webhook"), ("Issuer", "samara-webhook"), ("Certificate", "samara-webhook")),
    *(("ValidatingWebhookConfiguration", "samara"), ("MutatingWebhookConfiguration", "samara")),
    *(("ValidatingAdmissionPolicy", "samara-marks"), ("ValidatingAdmissionPolicyBinding", "samara-marks")),
}
"""What the program finds by name, and the policy that guards the marks."""


@pytest.mark.parametrize("case", NAMES)
def test_the_objects_have_the_chosen_name(helm: Helm, case: str) -> None:
    release, values, name = NAMES[case]
    more = {"webhook": {"certManager": True}, "monitoring": {"serviceMonitor": True, "prometheusRule": True}}
    made = helm.template({**values, **more}, release=release)
    named = {(obj["kind"], obj["metadata"]["name"]) for obj in made if obj["kind"] != "CustomResourceDefinition"}
    assert named >= FIXED
    aggregated = {(kind, other) for kind, other in named if kind == "ClusterRole" and "subnamespace" in other}
    others = {other for _, other in named - FIXED - aggregated}
    assert others == {name, f"{name}-metrics", f"{name}-lease", f"{name}-uninstall"}


def test_references_lead_to_the_chosen_name(helm: Helm) -> None:
    made = helm.template({"fullnameOverride": "syncer"})
    names = {(obj["kind"], obj["metadata"]["name"]) for obj in made}
    pod, job = (obj["spec"]["template"]["spec"] for obj in made if obj["kind"] in ("Deployment", "Job"))
    settings = next(volume["configMap"]["name"] for volume in pod["volumes"] if volume["name"] == "settings")
    assert names >= {("ServiceAccount", pod["serviceAccountName"]), ("ServiceAccount", job["serviceAccountName"])}
    assert names >= {("PriorityClass", pod["priorityClassName"]), ("ConfigMap", settings)}
    for obj in made:
        if "roleRef" in obj:
            assert (obj["roleRef"]["kind"], obj["roleRef"]["name"]) in names
            assert [(subject["kind"], subject["name"]) in names for subject in obj["subjects"]] == [True]
        if obj["kind"] == "FlowSchema":
            [rule] = obj["spec"]["rules"]
            assert ("ServiceAccount", rule["subjects"][0]["serviceAccount"]["name"]) in names
            assert obj["spec"]["priorityLevelConfiguration"]["name"] in ("syncer", "leader-election")
    [role] = [obj for obj in made if obj["kind"] == "Role" and is_hook(obj)]
    assert ("apps", "deployments", "patch", "syncer") in grants(role["rules"])


def network_policy(helm: Helm, **values: Any) -> Json:
    made = comparable(helm.template({"networkPolicy": values}))
    spec: Json = made["NetworkPolicy", "samara"]["spec"]
    return spec


def peers(spec: Json, port: int) -> list[Json] | None:
    """Who may connect to a port. None: everyone."""
    [rule] = [rule for rule in spec["ingress"] if {"port": port, "protocol": "TCP"} in rule["ports"]]
    admitted: list[Json] | None = rule.get("from")
    return admitted


def test_the_network_policy_admits_only_the_named_peers_and_api_servers(helm: Helm) -> None:
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    servers = [{"ipBlock": {"cidr": cidr}} for cidr in ("192.0.2.10/32", "2001:db8::10/128")]
    cidrs = [server["ipBlock"]["cidr"] for server in servers]
    both = network_policy(helm, ingress={"from": [prometheus]}, apiServer=cidrs)
    assert (peers(both, 8080), peers(both, 9443)) == ([prometheus], [*servers, prometheus])
    [of_api_servers] = [rule for rule in both["egress"] if {"port": 6443, "protocol": "TCP"} in rule["ports"]]
    assert of_api_servers["to"] == servers
    metrics = network_policy(helm, ingress={"from": [prometheus]})
    assert (peers(metrics, 8080), peers(metrics, 9443)) == ([prometheus], None)
    neither = network_policy(helm)
    assert (peers(neither, 8080), peers(neither, 9443)) == (None, None)
    assert not [rule for rule in neither["egress"] if "to" in rule]


def test_the_notes_say_if_every_pod_may_connect_to_the_webhook(helm: Helm) -> None:
    warning = "Every pod may connect to the webhook port 9443: networkPolicy.apiServer is empty."
    for policy, is_open in (({}, True), ({"apiServer": ["192.0.2.10/32"]}, False), ({"enabled": False}, False)):
        notes = helm.notes({"networkPolicy": policy})
        assert "samara status" in notes
        assert (warning in notes) == is_open


def test_rules_for_outgoing_connections_can_be_added(helm: Helm) -> None:
    vault = {"to": [{"ipBlock": {"cidr": "192.0.2.20/32"}}], "ports": [{"port": 8200, "protocol": "TCP"}]}
    assert network_policy(helm, egress=[vault])["egress"][-1] == vault


REFUSED: dict[str, tuple[Json, str]] = {
    "an unknown value": ({"replica": 3}, "replica"),
    "an unknown setting": ({"settings": {"tenacy": "open"}}, "tenacy"),
    "an unknown vocabulary": ({"settings": {"vocabularies": {"secretcopy": {}}}}, "secretcopy"),
    "a key with an old name": (
        {"settings": {"dialects": {"sync-to": {}}}},
        "settings.dialects: unknown key, it is called 'vocabularies' now",
    ),
    "a key with an old name and no value": ({"settings": {"dialects": {}}}, "it is called 'vocabularies' now"),
    "no vocabulary": ({"settings": {"vocabularies": {}}}, "vocabularies"),
    "a word that is none of the choices": ({"settings": {"tenancy": "closed"}}, "tenancy"),
    "a number that is too small": ({"replicas": 0}, "replicas"),
    "an address without https": ({"webhook": {"url": "http://127.0.0.1"}}, "url"),
    "an address and cert-manager": ({"webhook": {"url": "https://127.0.0.1", "certManager": True}}, "leave one out"),
    "cert-manager without a webhook": ({"observe": True, "webhook": {"certManager": True}}, "leave one out"),
    "an address of an API server that is no CIDR": ({"networkPolicy": {"apiServer": ["192.0.2.10"]}}, "apiServer"),
    "a tag and a digest": ({"image": {"tag": "1", "digest": "sha256:" + "0" * 64}}, "found both"),
    "a file that no pod has": ({"settings": {"vocabularies": {"accurate": {"configFile": "/x"}}}}, "configFile"),
    "overwriting tenants": ({"settings": {"conflicts": "overwrite"}}, "tenancy is strict"),
    "a kind that is never copied": (
        {"settings": {"vocabularies": {"sync-to": {"kinds": ["rbac.authorization.k8s.io/v1/Role"]}}}},
        "found rbac.authorization.k8s.io/v1/Role",
    ),
    "a core kind that is never copied": (
        {"settings": {"vocabularies": {"sync-to": {"kinds": ["v1/Secret", "v1/ServiceAccount"]}}}},
        "found v1/ServiceAccount",
    ),
    "a kind that asks for copies": (
        {"settings": {"vocabularies": {"resource-distribution": {"kinds": ["fishykeys.2v.pm/v1alpha1/FishySecret"]}}}},
        "never copied",
    ),
    "a kind without its version": ({"settings": {"vocabularies": {"sync-to": {"kinds": ["Secret"]}}}}, "/kinds/0"),
    "a watch without its version": (
        {"settings": {"vocabularies": {"accurate": {"watches": [{"kind": "Secret"}]}}}},
        "/watches/0",
    ),
    "a watched kind that is never propagated": (
        {"settings": {"vocabularies": {"accurate": {"watches": [{"version": "v1", "kind": "Namespace"}]}}}},
        "accurate.watches",
    ),
    "a watch that is no mapping": ({"settings": {"vocabularies": {"accurate": {"watches": ["Secret"]}}}}, "/watches/0"),
    "a token that the API server accepts": (
        {"settings": {"vocabularies": {"fishysecret": {"tokenAudience": "https://kubernetes.default.svc"}}}},
        "tokenAudience",
    ),
    "a number that needs its unit": ({"settings": {"resync": 10}}, "resync"),
    "a duration that is none": ({"settings": {"sourceGoneAfter": "soon"}}, "sourceGoneAfter"),
    "no time at all": ({"settings": {"timers": {"lease": "0s"}}}, "lease"),
    "a kind in two versions": (
        {"settings": {"vocabularies": {"sync-to": {"kinds": ["example.com/v1/Thing", "example.com/v2/Thing"]}}}},
        "two versions",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_values_are_refused_by_name(helm: Helm, case: str) -> None:
    values, word = REFUSED[case]
    done = helm.try_template(values)
    assert done.code != 0
    assert word in done.err
    assert done.out == ""
