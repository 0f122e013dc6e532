"""What `samara lint` reports about manifests and the configuration of Accurate."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.lint.manifests import CANARY, annotated, findings_in, only_finding

from samara.cli.lint import Finding
from samara.settings import Settings, parse

KEY = "accurate.cybozu.com"
PROPAGATE, FROM = f"{KEY}/propagate", f"{KEY}/from"
TYPE, PARENT, TEMPLATE = f"{KEY}/type", f"{KEY}/parent", f"{KEY}/template"
SETTINGS = parse(
    """
vocabularies:
  accurate:
    labelKeys: [team]
    subNamespaceLabelKeys: [stage, "*.example.com/*", pod-security.kubernetes.io/enforce]
    subNamespaceAnnotationKeys: [note]
    watches:
      - {version: v1, kind: Secret}
      - {group: rbac.authorization.k8s.io, version: v1, kind: Role}
    propagateLabelKeyExcludes: ["*kubernetes.io/*"]
    propagateAnnotationKeyExcludes: [internal/*]
""",
    "settings",
)
FIRST = 7
"""The line of the first annotation of `annotated`."""
LABEL = 6
"""The line of the first label of `namespace`."""
SPEC = 8
"""The line of the first key in the spec of `sub`."""


def namespace(*labels: str, where: str = "labels", kind: str = "Namespace") -> str:
    lines = "\n".join(f"    {label}" for label in labels)
    return f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: shop\n  {where}:\n{lines}\n"


def sub(*entries: str, field: str = "labels", version: str = "v2", name: str = "shop-dev") -> str:
    lines = "\n".join(f"    {entry}" for entry in entries)
    head = f"apiVersion: {KEY}/{version}\nkind: SubNamespace\nmetadata:\n  name: {name}\n  namespace: shop\n"
    return f"{head}spec:\n  {field}:\n{lines}\n"


def finding_in(folder: Path, text: str, settings: Settings = SETTINGS) -> Finding:
    return only_finding(folder, text, settings)


@pytest.mark.parametrize(
    "text",
    [
        annotated(f"{PROPAGATE}: update"),
        annotated(f"{PROPAGATE}: create", kind="Role", version="rbac.authorization.k8s.io/v1"),
        namespace(f"{TYPE}: root"),
        namespace(f"{TYPE}: template", f"{TEMPLATE}: baseline"),
        namespace(f"{TYPE}: root", f"{TEMPLATE}: baseline"),
        namespace(f"{PARENT}: acme"),
        sub("stage: dev", "a.example.com/x: ''", "pod-security.kubernetes.io/enforce: baseline"),
        sub("note: anything at all", field="annotations"),
    ],
)
@pytest.mark.parametrize("settings", [SETTINGS, Settings()])
def test_good_manifests_have_no_findings(text: str, settings: Settings, tmp_path: Path) -> None:
    assert findings_in(tmp_path, text, settings) == []


@pytest.mark.parametrize("value", ["sync", "Update", '""', "null", '"update "'])
def test_an_unknown_mode_is_reported_with_the_two_modes(value: str, tmp_path: Path) -> None:
    finding = finding_in(tmp_path, annotated(f"{PROPAGATE}: {value}"))
    assert (finding.key, finding.line) == (PROPAGATE, FIRST)
    assert '"create" or "update"' in finding.expected


def test_a_mode_that_is_not_text_is_reported_once(tmp_path: Path) -> None:
    assert finding_in(tmp_path, annotated(f"{PROPAGATE}: true")).found == "a boolean (true)"


def test_a_mode_as_a_label_is_reported(tmp_path: Path) -> None:
    assert finding_in(tmp_path, namespace(f"{PROPAGATE}: update", kind="Secret")).found == "a label"


def test_a_kind_that_is_not_watched_is_reported(tmp_path: Path) -> None:
    finding = finding_in(tmp_path, annotated(f"{PROPAGATE}: update", kind="ConfigMap"))
    assert (finding.line, finding.found) == (FIRST, "on a ConfigMap")
    assert finding.expected.startswith("one of Role, Secret:")


def test_a_watched_kind_of_another_group_is_another_kind(tmp_path: Path) -> None:
    assert finding_in(tmp_path, annotated(f"{PROPAGATE}: update", version="example.com/v1")).found == "on a Secret"


def test_without_settings_for_the_vocabulary_kinds_and_keys_are_not_checked(tmp_path: Path) -> None:
    assert findings_in(tmp_path, annotated(f"{PROPAGATE}: update", kind="ConfigMap"), Settings()) == []
    assert findings_in(tmp_path, sub("anything: goes"), Settings()) == []


@pytest.mark.parametrize(("kind", "version"), [("Namespace", "v1"), ("SubNamespace", f"{KEY}/v2")])
def test_propagate_on_a_namespace_or_sub_namespace_is_reported(kind: str, version: str, tmp_path: Path) -> None:
    finding = finding_in(tmp_path, annotated(f"{PROPAGATE}: update", kind=kind, version=version), Settings())
    assert (finding.key, finding.found) == (PROPAGATE, f"on a {kind}")


def test_a_from_annotation_written_by_hand_is_reported(tmp_path: Path) -> None:
    finding = finding_in(tmp_path, annotated(f"{PROPAGATE}: update", f"{FROM}: acme"))
    assert (finding.key, finding.line, finding.found) == (FROM, FIRST + 1, "a mark written by hand")


def test_each_key_that_is_not_copied_is_reported_once(tmp_path: Path) -> None:
    text = annotated(
        f"{PROPAGATE}: update",
        "internal/note: x",
        "argocd.argoproj.io/sync-wave: '1'",
        "stays: fine",
        labels="{app.kubernetes.io/name: x, app.kubernetes.io/instance: y, team: z}",
    )
    reported = findings_in(tmp_path, text, SETTINGS)
    assert {finding.key for finding in reported} == {
        "internal/note",
        "argocd.argoproj.io/sync-wave",
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
    }
    assert len(reported) == 4
    assert {finding.found for finding in reported} == {
        "a label that is not copied",
        "an annotation that is not copied",
    }


def test_a_secret_type_that_is_never_copied_is_reported(tmp_path: Path) -> None:
    text = annotated(f"{PROPAGATE}: update", more="type: kubernetes.io/service-account-token\n")
    assert finding_in(tmp_path, text).key == "type"


def test_propagate_generated_is_reported_unless_the_settings_allow_it(tmp_path: Path) -> None:
    text = annotated(f"{KEY}/propagate-generated: update", kind="Certificate", version="example.com/v1")
    assert "propagateGenerated: true" in finding_in(tmp_path, text).expected
    opened = parse("vocabularies: {accurate: {propagateGenerated: true}}", "settings")
    assert findings_in(tmp_path, text, opened) == []
    assert '"create" or "update"' in finding_in(tmp_path, text.replace(": update", ": yes-please"), opened).expected


@pytest.mark.parametrize("value", ["Root", "sub", '""'])
def test_an_unknown_type_is_reported_with_the_two_types(value: str, tmp_path: Path) -> None:
    finding = finding_in(tmp_path, namespace(f"{TYPE}: {value}"))
    assert (finding.key, finding.line) == (TYPE, LABEL)
    assert '"root" or "template"' in finding.expected


@pytest.mark.parametrize("key", [PARENT, TEMPLATE])
def test_an_empty_name_of_a_parent_or_template_is_reported(key: str, tmp_path: Path) -> None:
    finding = finding_in(tmp_path, namespace(f'{key}: ""'))
    assert (finding.key, finding.line, finding.found) == (key, LABEL, "''")
    assert "or no such label" in finding.expected


@pytest.mark.parametrize("key", [PARENT, TEMPLATE])
def test_an_impossible_parent_or_template_and_the_own_name_are_reported(key: str, tmp_path: Path) -> None:
    assert finding_in(tmp_path, namespace(f"{key}: Shop_1")).expected.startswith("a namespace name:")
    assert finding_in(tmp_path, namespace(f"{key}: shop")).found == "'shop', its own name"


@pytest.mark.parametrize("other", [f"{TEMPLATE}: baseline", f"{TYPE}: root", f"{TYPE}: template"])
def test_a_template_or_type_beside_a_parent_is_reported_at_its_label(other: str, tmp_path: Path) -> None:
    finding = finding_in(tmp_path, namespace(f"{PARENT}: acme", other))
    assert (finding.line, finding.found) == (LABEL + 1, f"beside {PARENT}")


def test_a_type_label_on_another_kind_or_as_an_annotation_is_reported(tmp_path: Path) -> None:
    assert finding_in(tmp_path, namespace(f"{TYPE}: root", kind="Secret")).found == "on a Secret"
    assert finding_in(tmp_path, namespace(f"{TYPE}: root", where="annotations")).found == "an annotation"


def test_a_misspelt_key_is_reported_with_the_right_one(tmp_path: Path) -> None:
    assert finding_in(tmp_path, annotated(f"{KEY}/propogate: update")).expected == PROPAGATE
    assert finding_in(tmp_path, namespace(f"{KEY}/parrent: acme")).expected == PARENT


@pytest.mark.parametrize("version", ["v1", "v2alpha1", "v3"])
def test_a_version_that_is_not_served_is_reported(version: str, tmp_path: Path) -> None:
    finding = finding_in(tmp_path, sub("stage: dev", version=version))
    assert (finding.key, finding.line, finding.found) == ("apiVersion", 1, f"'{KEY}/{version}'")
    assert finding.expected.startswith(f"{KEY}/v2:")


@pytest.mark.parametrize(
    ("word", "key", "expected"),
    [
        ("-bad: x", "spec.labels.-bad", "the key of a label"),
        ("a/b/c: x", "spec.labels.a/b/c", "the key of a label"),
        ("stage: not a value", "spec.labels.stage", "a label value"),
        ("stage: 1", "spec.labels.stage", "text in quotes"),
        ("stage: null", "spec.labels.stage", "text in quotes"),
    ],
)
def test_a_label_that_the_namespace_cannot_have_is_reported(word: str, key: str, expected: str, tmp_path: Path) -> None:
    finding = finding_in(tmp_path, sub("team.example.com/a: b", word))
    assert (finding.key, finding.line) == (key, SPEC + 1)
    assert finding.expected.startswith(expected)


def test_an_annotation_may_have_any_text_but_no_illegal_key(tmp_path: Path) -> None:
    assert finding_in(tmp_path, sub("not/a/key: x", field="annotations")).expected == "the key of an annotation"
    assert finding_in(tmp_path, sub("note: [a]", field="annotations")).found == "a list"


@pytest.mark.parametrize(
    ("spec", "key", "found"),
    [
        ("{label: {app: x}}", "spec.label", "a field"),
        ("{labels: [app]}", "spec.labels", "a list"),
        ("{annotations: app=x}", "spec.annotations", "a text"),
        ("[app]", "spec", "a list"),
    ],
)
def test_2_1_a_spec_of_another_shape_is_reported(spec: str, key: str, found: str, tmp_path: Path) -> None:
    head = sub("app: x").partition("spec:")[0]
    finding = finding_in(tmp_path, f"{head}spec: {spec}\n", Settings())
    assert (finding.key, finding.line, finding.found) == (key, 6, found)


@pytest.mark.parametrize("spec", ["", "spec:\n", "spec: {}\n", "spec: {labels: null, annotations: {}}\n"])
def test_2_1_an_empty_spec_has_no_findings(spec: str, tmp_path: Path) -> None:
    assert findings_in(tmp_path, sub("app: x").partition("spec:")[0] + spec, Settings()) == []


@pytest.mark.parametrize(("field", "setting"), [("labels", "Label"), ("annotations", "Annotation")])
def test_a_key_that_no_pattern_allows_is_reported(field: str, setting: str, tmp_path: Path) -> None:
    finding = finding_in(tmp_path, sub("elsewhere: x", field=field))
    assert (finding.key, finding.line) == (f"spec.{field}.elsewhere", SPEC)
    assert f"subNamespace{setting}Keys" in finding.expected


def test_a_security_key_must_be_listed_literally(tmp_path: Path) -> None:
    open_to_all = parse('vocabularies: {accurate: {subNamespaceLabelKeys: ["*/*"]}}', "settings")
    assert findings_in(tmp_path, sub("team.example.com/a: b"), open_to_all) == []
    assert finding_in(tmp_path, sub("pod-security.kubernetes.io/enforce: privileged"), open_to_all).line == SPEC


@pytest.mark.parametrize("key", [TYPE, "samara.dev/ignore"])
def test_keys_of_the_tree_are_never_allowed(key: str, tmp_path: Path) -> None:
    assert "never reach a namespace" in finding_in(tmp_path, sub(f"{key}: root"), Settings()).expected


@pytest.mark.parametrize("name", ["default", "kube-own", "kube-system", "admin"])
def test_a_reserved_name_is_reported(name: str, tmp_path: Path) -> None:
    finding = finding_in(
        tmp_path, sub("stage: dev", name=name), parse("{vocabularies: {accurate: {}, secret-copy: {}}}", "settings")
    )
    assert (finding.key, finding.line, finding.found) == ("metadata.name", 4, f"'{name}'")
    assert "reserved" in finding.expected


def test_a_name_that_no_namespace_can_have_is_reported(tmp_path: Path) -> None:
    assert finding_in(tmp_path, sub("stage: dev", name="a.b")).expected.startswith("a namespace name:")


def test_no_finding_shows_a_value_of_a_secret(tmp_path: Path) -> None:
    text = annotated(f"{PROPAGATE}: sync", f"{FROM}: x", more=f"stringData: {{a: {CANARY}}}\n")
    reported = findings_in(tmp_path, text, SETTINGS)
    assert len(reported) == 2
    assert CANARY not in str(reported)


def test_keys_of_the_tree_may_be_excluded_without_a_finding(tmp_path: Path) -> None:
    watches = "watches: [{version: v1, kind: Secret}]"
    excludes = f'propagateAnnotationKeyExcludes: ["{KEY}/*"]'
    own = parse(f"vocabularies: {{accurate: {{{watches}, {excludes}}}}}", "settings")
    assert findings_in(tmp_path, annotated(f"{PROPAGATE}: update"), own) == []


def test_the_prefix_of_an_annotation_may_have_capitals_and_that_of_a_label_may_not(tmp_path: Path) -> None:
    assert findings_in(tmp_path, sub("Example.COM/note: x", field="annotations"), Settings()) == []
    assert finding_in(tmp_path, sub("Example.COM/note: x"), Settings()).expected == "the key of a label"


# The original's configuration file

CONFIG = """labelKeys: [team]
annotationKeys: []
subNamespaceLabelKeys: ["*.example.com/*"]
subNamespaceAnnotationKeys: null
watches: [{version: v1, kind: Secret}]
propagateLabelKeyExcludes: ["*kubernetes.io/*"]
propagateAnnotationKeyExcludes: [accurate.cybozu.com/x]
namingPolicies: [{root: "^app-", match: "("}]
"""


@pytest.mark.parametrize(
    "text", [CONFIG, "kind: Secret\nlabelKeys: ['[']\n", "vocabularies: {}\n", "image: x\n", "- a\n"]
)
def test_3_a_valid_configuration_and_other_documents_have_no_findings(text: str, tmp_path: Path) -> None:
    assert findings_in(tmp_path, text, Settings()) == []


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("labelKeys", "['[']", "malformed pattern for labelKeys [: syntax error in pattern"),
        ("annotationKeys", f"[{KEY}/x]", f"misconfigured annotationKey: {KEY}/x is not allowed"),
        ("subNamespaceLabelKeys", f"[{KEY}/x]", f"misconfigured subNamespaceLabelKey: {KEY}/x is not allowed"),
        ("watches", "[{version: v1, kind: Namespace}]", "/v1, Kind=Namespace is not namespace-scoped"),
        ("propagateLabelKeyExcludes", "['a\\']", "malformed pattern for propagateLabelKeyExcludes a\\: syntax error"),
        ("namingPolicies", '[{root: "("}]', "invalid naming policy: error parsing regexp: "),
    ],
)
def test_3_3_what_would_stop_the_start_is_reported_on_its_line_in_the_originals_words(
    key: str, value: str, fault: str, tmp_path: Path
) -> None:
    finding = finding_in(tmp_path, f"# ours\n{key}: {value}\n", Settings())
    assert (finding.key, finding.line) == (key, 2)
    assert finding.found.startswith(f"invalid configurations: {fault}")
    assert finding.expected.startswith("a list of ")


def test_3_3_an_unknown_key_is_reported_with_the_nearest_known_one(tmp_path: Path) -> None:
    reported = findings_in(tmp_path, "labelKey: [team]\nextra: 1\nwatches: Secret\n", Settings())
    unknown = (
        'unable to load the configuration file: error unmarshaling JSON: while decoding JSON: json: unknown field "{}"'
    )
    assert [(finding.key, finding.line) for finding in reported] == [("labelKey", 1), ("extra", 2), ("watches", 3)]
    assert [finding.found for finding in reported[:2]] == [unknown.format("labelKey"), unknown.format("extra")]
    assert reported[0].expected == "labelKeys"
    assert reported[1].expected.startswith("one of labelKeys, annotationKeys")
    assert reported[2].found == "unable to load the configuration file: watches: expected a list, found text"


def test_with_generated_objects_a_key_without_a_prefix_is_not_reported(tmp_path: Path) -> None:
    opened = parse("vocabularies: {accurate: {propagateGenerated: true}}", "settings")
    assert findings_in(tmp_path, namespace("team: red", kind="Secret"), opened) == []


def test_propagate_is_reported_if_no_kind_is_watched(tmp_path: Path) -> None:
    own = parse("vocabularies: {accurate: {labelKeys: [team]}}", "settings")
    finding = finding_in(tmp_path, annotated(f"{PROPAGATE}: update"), own)
    assert (finding.key, finding.line, finding.found) == (PROPAGATE, FIRST, "a key that does nothing")
