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
from tests.cli.test_rbac import granted_by

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
    """No two of ours do, so one of them gets a twin with keys of its own."""
    folder = tmp_path / "chart"
    shutil.copytree(CHART, folder)
    (folder / "values.schema.json").unlink()
    file = folder / "files" / "vocabularies.yaml"
    known = yaml.safe_load(file.read_text())["vocabularies"]
    own = next(each for each in known if each["name"] == "sync-to")
    twin = json.loads(json.dumps(own).replace("openkruise.io/", "toys.dev/")) | {"name": "twin"}
    file.write_text(json.dumps({"vocabularies": [*known, twin]}))
    values = helm.values({"settings": {"vocabularies": {"sync-to": {}, "twin": {"kinds": ["v1/Secret"]}}}})
    done = helm.run("template", "samara", folder, "--values", values)
    assert done.code == 0, done.err
    (made,) = [document for document in documents(done.out) if document["kind"] == "ValidatingWebhookConfiguration"]
    hooks = {hook["name"]: hook for hook in made["webhooks"]}
    assert set(hooks) == {"configmaps.samara.dev", "secrets.samara.dev"}
    parts = [each["kinds"]["validating"][0]["matchConditions"][0]["expression"] for each in (own, twin)]
    (condition,) = hooks["secrets.samara.dev"]["matchConditions"]
    assert condition["expression"] == " || ".join(parts)
    (rule,) = hooks["secrets.samara.dev"]["rules"]
    assert (rule["operations"], rule["apiVersions"]) == (["CREATE", "UPDATE"], ["v1"])


def test_helm_lint_passes(helm: Helm) -> None:
    done = helm.run("lint", CHART, "--strict")
    assert done.code == 0, done.out + done.err


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


def test_crds_stay_when_the_chart_is_uninstalled(helm: Helm) -> None:
    crds = [obj for obj in helm.template() if obj["kind"] == "CustomResourceDefinition"]
    assert crds
    assert {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in crds} == {"keep"}


def test_a_job_runs_samara_uninstall_before_the_chart_is_deleted(helm: Helm) -> None:
    hooks = [obj for obj in helm.template() if is_hook(obj)]
    assert {hook["metadata"]["annotations"]["helm.sh/hook"] for hook in hooks} == {"pre-delete"}
    [job] = [hook for hook in hooks if hook["kind"] == "Job"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["uninstall", "--yes", "--namespace=ops"]
    assert not [obj for obj in helm.template({"uninstall": {"hook": False}}) if is_hook(obj)]


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
