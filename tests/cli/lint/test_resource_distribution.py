"""What `samara lint` reports about a ResourceDistribution."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.lint.manifests import CANARY, findings_in, line_of, only_finding
from tests.cli.program import samara_inside

from samara.cli.lint import Finding
from samara.core.model import KindName
from samara.settings import Settings, parse
from samara.vocabularies.resource_distribution import ResourceDistributionSettings
from samara.vocabularies.secret_copy import SecretCopySettings

SETTINGS = Settings(
    vocabularies={"secret-copy": SecretCopySettings(), "resource-distribution": ResourceDistributionSettings()}
)
ALL = "    allNamespaces: true"
RESOURCE = f"""    apiVersion: v1
    kind: Secret
    metadata:
      name: db
    stringData:
      password: {CANARY}"""


def a_distribution(targets: str = ALL, resource: str = RESOURCE, version: str = "apps.kruise.io/v1beta1") -> str:
    head = f"apiVersion: {version}\nkind: ResourceDistribution\nmetadata:\n  name: dist\nspec:\n"
    return f"{head}  targets:\n{targets}\n  resource:\n{resource}\n"


def finding_in(folder: Path, text: str, settings: Settings = SETTINGS) -> tuple[int, str, str, str]:
    """The line, the key, what was found and what was expected, of the only finding."""
    finding = only_finding(folder, text, settings)
    assert CANARY not in str(finding)
    return finding[1:]


def names(which: str, *entries: str) -> str:
    lines = "\n".join(f"      - name: {entry}" for entry in entries)
    return f"    {which}:\n      list:\n{lines}"


@pytest.mark.parametrize("version", ["apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"])
@pytest.mark.parametrize(
    "targets",
    [
        ALL,
        names("includedNamespaces", "a", "b") + "\n" + names("excludedNamespaces", "c"),
        "    namespaceLabelSelector:\n      matchLabels: {team: red}",
        "    namespaceSelector:\n      matchLabels: {team: red}",
        "    namespaceLabelSelector:\n      matchExpressions:\n      - {key: team, operator: In, values: [red]}",
    ],
)
def test_a_good_distribution_has_no_findings(version: str, targets: str, tmp_path: Path) -> None:
    assert findings_in(tmp_path, a_distribution(targets, version=version), SETTINGS) == []


def test_another_version_is_reported_with_the_served_ones(tmp_path: Path) -> None:
    line, key, found, expected = finding_in(tmp_path, a_distribution(version="apps.kruise.io/v1"))
    assert (line, key, found) == (1, "apiVersion", "'apps.kruise.io/v1'")
    assert expected.startswith("apps.kruise.io/v1beta1 or apps.kruise.io/v1alpha1:")


def test_the_same_kind_of_another_group_is_not_checked(tmp_path: Path) -> None:
    assert findings_in(tmp_path, a_distribution("    {}", version="example.com/v1"), SETTINGS) == []


@pytest.mark.parametrize("kind", ["Deployment", "Secrets"])
def test_a_kind_that_is_not_served_is_reported_with_the_served_ones(kind: str, tmp_path: Path) -> None:
    text = a_distribution(resource=RESOURCE.replace("kind: Secret", f"kind: {kind}"))
    line, key, found, expected = finding_in(tmp_path, text)
    assert (line, key, found) == (line_of(text, f"kind: {kind}"), "spec.resource.kind", f"'v1/{kind}'")
    assert expected.startswith("one of v1/ConfigMap, v1/Secret")
    assert "vocabularies.resource-distribution.kinds" in expected


def test_an_api_version_that_the_kind_does_not_have_is_reported(tmp_path: Path) -> None:
    text = a_distribution(resource=RESOURCE.replace("apiVersion: v1", "apiVersion: v2"))
    assert finding_in(tmp_path, text)[:3] == (line_of(text, "kind: Secret"), "spec.resource.kind", "'v2/Secret'")


def test_the_kinds_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = parse("vocabularies: {resource-distribution: {kinds: [v1/ConfigMap]}}", "settings")
    assert finding_in(tmp_path, a_distribution(), settings)[2] == "'v1/Secret'"


def test_a_type_that_is_never_copied_is_reported(tmp_path: Path) -> None:
    text = a_distribution(resource=RESOURCE + "\n    type: helm.sh/release.v1")
    line, key, found, _ = finding_in(tmp_path, text)
    assert (line, key, found) == (line_of(text, "type:"), "spec.resource.type", "'helm.sh/release.v1'")


@pytest.mark.parametrize("missing", ["apiVersion", "kind"])
def test_an_incomplete_resource_is_reported(missing: str, tmp_path: Path) -> None:
    resource = "\n".join(line for line in RESOURCE.splitlines() if missing not in line)
    line, key, found, _ = finding_in(tmp_path, a_distribution(resource=resource))
    assert (key, found) == (f"spec.resource.{missing}", "nothing")
    assert line == line_of(a_distribution(resource=resource), "  resource:")


def test_a_missing_resource_is_reported(tmp_path: Path) -> None:
    head = "apiVersion: apps.kruise.io/v1beta1\nkind: ResourceDistribution\nmetadata: {name: d}\n"
    text = f"{head}spec:\n  targets:\n{ALL}\n"
    assert finding_in(tmp_path, text)[:3] == (4, "spec.resource", "nothing")


def test_without_a_spec_resource_and_targets_are_reported_as_missing(tmp_path: Path) -> None:
    text = "apiVersion: apps.kruise.io/v1beta1\nkind: ResourceDistribution\nmetadata: {name: d}\n"
    assert {finding.key for finding in findings_in(tmp_path, text, SETTINGS)} == {"spec.resource", "spec.targets"}


def test_an_illegal_name_of_the_resource_is_reported(tmp_path: Path) -> None:
    text = a_distribution(resource=RESOURCE.replace("name: db", "name: Bad_Name"))
    line, key, found, expected = finding_in(tmp_path, text)
    assert (line, key, found) == (line_of(text, "Bad_Name"), "spec.resource.metadata.name", "'Bad_Name'")
    assert expected == "a DNS subdomain"


def test_a_namespace_in_the_resource_is_reported(tmp_path: Path) -> None:
    text = a_distribution(resource=RESOURCE.replace("name: db", "name: db\n      namespace: shop"))
    line, key, found, expected = finding_in(tmp_path, text)
    assert (line, key, found) == (line_of(text, "shop"), "spec.resource.metadata.namespace", "'shop'")
    assert "spec.targets" in expected


@pytest.mark.parametrize(("where", "a"), [("labels", "a label"), ("annotations", "an annotation")])
@pytest.mark.parametrize("key", ["kubectl.kubernetes.io/restartedAt", "samara.dev/paused", "secret-copy/namespaces"])
def test_a_key_that_is_never_copied_is_reported_in_the_resource(where: str, a: str, key: str, tmp_path: Path) -> None:
    text = a_distribution(resource=RESOURCE.replace("name: db", f'name: db\n      {where}:\n        {key}: "x"'))
    line, reported_key, found, _ = finding_in(tmp_path, text)
    assert (line, reported_key, found) == (line_of(text, key), key, f"{a} that is not copied")


@pytest.mark.parametrize("key", ["app.kubernetes.io/managed-by", "argocd.argoproj.io/tracking-id", "helm.sh/chart"])
def test_keys_of_other_tools_in_the_resource_are_not_reported(key: str, tmp_path: Path) -> None:
    """The author of a distribution wrote them on purpose."""
    text = a_distribution(resource=RESOURCE.replace("name: db", f"name: db\n      labels:\n        {key}: x"))
    assert findings_in(tmp_path, text, SETTINGS) == []


def test_keys_of_the_distribution_itself_are_not_reported(tmp_path: Path) -> None:
    text = a_distribution().replace("  name: dist", "  name: dist\n  labels: {helm.sh/chart: x}")
    assert findings_in(tmp_path, text, SETTINGS) == []


@pytest.mark.parametrize(
    ("word", "found"),
    [
        (f"bad/key/{'x' * 3}: {CANARY}", "2 slashes in a key"),
        (f"tier: {CANARY}/y", "a value that a label cannot have"),
    ],
)
def test_an_illegal_label_of_the_resource_is_reported_without_its_value(word: str, found: str, tmp_path: Path) -> None:
    text = a_distribution(resource=RESOURCE.replace("name: db", f"name: db\n      labels:\n        {word}"))
    assert finding_in(tmp_path, text)[:3] == (line_of(text, word), word.partition(":")[0], found)


def test_a_denied_kind_is_reported_even_if_the_settings_list_it(tmp_path: Path) -> None:
    kinds = (KindName("rbac.authorization.k8s.io", "v1", "Role"), KindName("", "v1", "Secret"))
    settings = Settings(vocabularies={"resource-distribution": ResourceDistributionSettings(kinds=kinds)})
    role = RESOURCE.replace("apiVersion: v1", "apiVersion: rbac.authorization.k8s.io/v1").replace("Secret", "Role")
    _, key, found, expected = finding_in(tmp_path, a_distribution(resource=role), settings)
    assert (key, found) == ("spec.resource.kind", "'rbac.authorization.k8s.io/v1/Role'")
    assert expected.startswith("one of v1/Secret:")


def test_a_label_that_is_not_text_is_reported_without_its_value(tmp_path: Path) -> None:
    text = a_distribution(resource=RESOURCE.replace("name: db", "name: db\n      labels:\n        tier: 4711"))
    line, key, _, _ = finding_in(tmp_path, text)
    assert (line, key) == (line_of(text, "labels:"), "spec.resource.metadata.labels")
    assert "4711" not in str(findings_in(tmp_path, text, SETTINGS))


@pytest.mark.parametrize("name", ["Bad_Name", "-x", f"a{'b' * 253}"])
def test_an_illegal_name_of_the_distribution_is_reported(name: str, tmp_path: Path) -> None:
    line, key, _, expected = finding_in(tmp_path, a_distribution().replace("  name: dist", f"  name: {name}"))
    assert (line, key, expected) == (4, "metadata.name", "a DNS subdomain")


@pytest.mark.parametrize("named", ["  generateName: dist-", "  name: dist.example.com"])
def test_a_generated_or_legal_name_is_not_reported(named: str, tmp_path: Path) -> None:
    assert findings_in(tmp_path, a_distribution().replace("  name: dist", named), SETTINGS) == []


def test_a_label_that_is_not_text_does_not_hide_other_findings_in_the_resource(tmp_path: Path) -> None:
    resource = RESOURCE.replace("name: db", "name: db\n      labels: {tier: 4711}").replace("stringData:", "data:")
    resource = resource.replace(CANARY, f"'{CANARY}!'")
    text = a_distribution(resource=f"{resource}\n    type: helm.sh/release.v1")
    assert {finding.key for finding in findings_in(tmp_path, text, SETTINGS)} == {
        "spec.resource.metadata.labels",
        "spec.resource.type",
        "spec.resource",
    }


def test_data_that_the_server_would_refuse_is_reported(tmp_path: Path) -> None:
    resource = RESOURCE.replace("stringData:", "data:").replace(CANARY, f"'{CANARY}!'")
    line, key, _, expected = finding_in(tmp_path, a_distribution(resource=resource))
    assert (line, key) == (line_of(a_distribution(), "  resource:"), "spec.resource")
    assert "base64" in expected


def test_every_illegal_name_in_a_list_is_reported_on_its_line(tmp_path: Path) -> None:
    text = a_distribution(names("includedNamespaces", "a", "Bad_Name", "-x"))
    reported = findings_in(tmp_path, text, SETTINGS)
    key = "spec.targets.includedNamespaces"
    assert [(finding.line, finding.key, finding.found) for finding in reported] == [
        (line_of(text, "Bad_Name"), key, "'Bad_Name'"),
        (line_of(text, "name: -x"), key, "'-x'"),
    ]


def test_a_star_in_a_list_is_reported_with_the_way_to_name_every_namespace(tmp_path: Path) -> None:
    assert "allNamespaces: true" in finding_in(tmp_path, a_distribution(names("includedNamespaces", '"*"')))[3]


def test_a_name_in_both_lists_is_reported_where_it_is_excluded(tmp_path: Path) -> None:
    text = a_distribution(names("includedNamespaces", "a", "b") + "\n" + names("excludedNamespaces", "c", "b"))
    line, key, found, expected = finding_in(tmp_path, text)
    assert (key, found) == ("spec.targets.excludedNamespaces", "'b', which is in includedNamespaces, too")
    assert text.splitlines()[line - 1].endswith("name: b")
    assert line > line_of(text, "excludedNamespaces")
    assert "one of the lists" in expected


@pytest.mark.parametrize(
    ("selector", "part", "key"),
    [
        ("{matchLabels: {team: 7}}", "matchLabels", "matchLabels[team]"),
        ("{matchLabels: {'bad key': red}}", "matchLabels", "matchLabels[bad key]"),
        ("{matchExpressions: [{key: team, operator: Near}]}", "matchExpressions", "matchExpressions[0].operator"),
        ("{matchExpressions: [{key: team, operator: In}]}", "matchExpressions", "matchExpressions[0].values"),
        ("{matchLabel: {team: red}}", "matchLabel", "matchLabel"),
    ],
)
def test_an_invalid_selector_is_reported(selector: str, part: str, key: str, tmp_path: Path) -> None:
    text = a_distribution(f"    namespaceLabelSelector: {selector}")
    reported = [finding for finding in findings_in(tmp_path, text, SETTINGS) if finding.key != "spec.targets"]
    assert [(finding.line, finding.key) for finding in reported] == [
        (line_of(text, part), f"spec.targets.namespaceLabelSelector.{key}")
    ]


def test_a_selector_that_is_not_a_mapping_is_reported(tmp_path: Path) -> None:
    line, key, found, expected = finding_in(tmp_path, a_distribution("    namespaceLabelSelector: team=red"))
    assert (line, key) == (7, "spec.targets.namespaceLabelSelector")
    assert (found, expected) == ("a text", "a mapping")


@pytest.mark.parametrize(
    "targets",
    ["    namespaceLabelSelector: {}", "    includedNamespaces: {list: []}", "    allNamespaces: false"],
)
def test_targets_that_select_nothing_are_reported(targets: str, tmp_path: Path) -> None:
    line, key, found, expected = finding_in(tmp_path, a_distribution(targets))
    assert (line, key, found) == (6, "spec.targets", "targets that select nothing")
    assert "allNamespaces: true" in expected


@pytest.mark.parametrize("targets", ["    {}", "    {  # nobody yet\n    }"])
def test_empty_targets_are_not_reported(targets: str, tmp_path: Path) -> None:
    assert findings_in(tmp_path, a_distribution(targets), SETTINGS) == []


def test_targets_with_only_exclusions_are_reported(tmp_path: Path) -> None:
    assert finding_in(tmp_path, a_distribution(names("excludedNamespaces", "a")))[1] == "spec.targets"


@pytest.mark.parametrize(
    ("targets", "key", "expected"),
    [
        ("    allNamespaces: all", "spec.targets.allNamespaces", "true or false"),
        ("    allNamespaces: true\n    includedNamespaces: [a]", "spec.targets.includedNamespaces", "a mapping"),
        (
            "    allNamespaces: true\n    includedNamespaces: {list: [a]}",
            "spec.targets.includedNamespaces.list[0]",
            "a mapping",
        ),
        (
            "    allNamespaces: true\n    includedNamespaces: {list: a}",
            "spec.targets.includedNamespaces.list",
            "a list",
        ),
    ],
)
def test_a_value_of_another_type_is_reported(targets: str, key: str, expected: str, tmp_path: Path) -> None:
    reported = [
        finding for finding in findings_in(tmp_path, a_distribution(targets), SETTINGS) if finding.key != "spec.targets"
    ]
    assert [(finding.key, finding.expected) for finding in reported] == [(key, expected)]


def test_a_resource_that_contains_itself_is_reported(tmp_path: Path) -> None:
    text = a_distribution(resource="    &loop\n    apiVersion: v1\n    kind: Secret\n    again: *loop")
    assert finding_in(tmp_path, text)[1] == "spec"


@pytest.mark.parametrize("value", ["!!timestamp x", "!!bool x", "!!int x"])
def test_a_value_that_contradicts_its_yaml_tag_is_reported(value: str, tmp_path: Path) -> None:
    assert finding_in(tmp_path, a_distribution(resource=f"{RESOURCE}\n    again: {value}"))[1] == "spec"


def test_all_faults_of_a_distribution_are_reported_at_once(tmp_path: Path) -> None:
    resource = RESOURCE.replace("name: db", "name: Bad\n      namespace: shop\n      labels: {samara.dev/x: y}")
    targets = names("includedNamespaces", "a", '"*"') + "\n" + names("excludedNamespaces", "a")
    text = a_distribution(targets, resource.replace("kind: Secret", "kind: Role"), "apps.kruise.io/v2")
    assert {finding.key for finding in findings_in(tmp_path, text, SETTINGS)} == {
        "apiVersion",
        "spec.resource.kind",
        "spec.resource.metadata.name",
        "spec.resource.metadata.namespace",
        "samara.dev/x",
        "spec.targets.includedNamespaces",
        "spec.targets.excludedNamespaces",
    }


def test_a_disabled_vocabulary_reports_nothing(tmp_path: Path) -> None:
    assert (
        findings_in(
            tmp_path,
            a_distribution("    allNamespaces: false"),
            Settings(vocabularies={"secret-copy": SecretCopySettings()}),
        )
        == []
    )


def test_the_distributions_of_a_list_are_checked(tmp_path: Path) -> None:
    inner = "\n".join(f"  {line}" for line in a_distribution("    allNamespaces: false").splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n- {inner[2:]}\n"
    assert finding_in(tmp_path, text)[:2] == (9, "spec.targets")


def test_the_command_exits_1_and_prints_every_field_of_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(a_distribution("    allNamespaces: false"))
    done = samara_inside("lint", str(file), "-o", "json")
    assert done.code == 1, done
    (finding,) = json.loads(done.out)["findings"]
    assert list(finding) == list(Finding._fields)
    assert (finding["file"], finding["line"], finding["key"]) == (str(file), 6, "spec.targets")


@pytest.mark.parametrize(
    ("targets", "key"),
    [
        (f"{ALL}\n    excludeNamespaces: {{list: [{{name: prod}}]}}", "spec.targets.excludeNamespaces"),
        (f"{ALL}\n    excludedNamespaces: {{lists: [{{name: prod}}]}}", "spec.targets.excludedNamespaces.lists"),
        ("    includedNamespaces: {list: [{name: a, label: b}]}", "spec.targets.includedNamespaces.list[0].label"),
    ],
)
def test_a_misspelt_field_is_reported_because_the_server_drops_it(targets: str, key: str, tmp_path: Path) -> None:
    line, reported_key, found, expected = finding_in(tmp_path, a_distribution(targets))
    assert (reported_key, found, "the server drops any other field" in expected) == (key, "a field", True)
    assert line == line_of(a_distribution(targets), key.rpartition(".")[2])


BY_STAGE = "    namespaceLabelSelector:\n      matchLabels:\n        stage: live"


@pytest.mark.parametrize(("keys", "is_reported"), [("['*']", True), ("['*', stage]", False), ("[team]", False)])
def test_a_selector_by_a_label_that_a_pattern_lets_tenants_set_is_reported(
    tmp_path: Path, keys: str, is_reported: bool
) -> None:
    settings = parse(
        f"vocabularies: {{resource-distribution: {{}}, accurate: {{subNamespaceLabelKeys: {keys}}}}}", "test"
    )
    text = a_distribution(BY_STAGE)
    if not is_reported:
        assert findings_in(tmp_path, text, settings) == []
        return
    setting = "vocabularies.accurate.subNamespaceLabelKeys"
    assert finding_in(tmp_path, text, settings) == (
        line_of(text, "targets:"),
        "spec.targets",
        "a selector by the label stage, which a pattern lets tenants choose",
        f"a label that no tenant chooses, or the key stage in full in the setting {setting}",
    )
