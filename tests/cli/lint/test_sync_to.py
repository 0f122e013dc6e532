"""What `samara lint` reports about the annotations of sync-to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.lint.manifests import CANARY, annotated, findings_in, only_finding

from samara.settings import CopiedMetadata, Settings, parse
from samara.vocabularies.secret_copy import SecretCopySettings
from samara.vocabularies.sync_to import SyncToSettings

SETTINGS = Settings(vocabularies={"secret-copy": SecretCopySettings(), "sync-to": SyncToSettings()})
FIRST = 7
"""The line of the first annotation of `annotated`."""
ASK = "openkruise.io/sync-to"
LIST = "openkruise.io/sync-to-namespaces"


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
@pytest.mark.parametrize(
    "annotations",
    [
        (f"{ASK}: cluster",),
        (f"{ASK}: namespaces", f'{LIST}: "a;b, c d"'),
        (f"{ASK}: namespace", f"{LIST}: a"),
    ],
)
def test_a_good_source_has_no_findings(kind: str, annotations: tuple[str, ...], tmp_path: Path) -> None:
    assert findings_in(tmp_path, annotated(*annotations, kind=kind), SETTINGS) == []


@pytest.mark.parametrize("value", ["everywhere", "'*'", '""', "Cluster", '"a;b"', "null"])
def test_an_unknown_value_is_reported_with_the_accepted_ones(value: str, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{ASK}: {value}"))
    assert (finding.key, finding.line) == (ASK, FIRST)
    assert '"cluster"' in finding.expected
    assert '"namespaces"' in finding.expected


@pytest.mark.parametrize(("value", "found"), [("true", "a boolean (true)"), ("[a]", "a list")])
def test_a_value_that_is_not_text_is_reported_once(value: str, found: str, tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated(f"{ASK}: {value}")).found == found


def test_a_list_that_is_not_text_is_reported_once(tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated(f"{ASK}: namespaces", f"{LIST}: [a, b]")).found == "a list"


@pytest.mark.parametrize("value", ['""', '" ;, "', "null"])
def test_a_list_that_names_no_namespace_is_reported(value: str, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{ASK}: namespaces", f"{LIST}: {value}"))
    assert (finding.key, finding.line) == (LIST, FIRST + 1)
    assert "names nothing" in finding.found


def test_every_illegal_name_in_a_list_is_reported(tmp_path: Path) -> None:
    reported = findings_in(tmp_path, annotated(f"{ASK}: namespaces", f'{LIST}: "a;Bad_Name;-x"'), SETTINGS)
    assert [(finding.line, finding.found) for finding in reported] == [(FIRST + 1, "'-x'"), (FIRST + 1, "'Bad_Name'")]


def test_a_star_in_a_list_is_reported_with_the_way_to_name_every_namespace(tmp_path: Path) -> None:
    assert f"{ASK}: cluster" in only_finding(tmp_path, annotated(f"{ASK}: namespaces", f'{LIST}: "*"')).expected


def test_a_protected_namespace_in_a_list_is_reported(tmp_path: Path) -> None:
    text = annotated(f"{ASK}: namespaces", f"{LIST}: a;kube-system")
    assert only_finding(tmp_path, text).found == "'kube-system'"
    free = Settings(vocabularies=SETTINGS.vocabularies, protected_namespaces=())
    assert findings_in(tmp_path, text, free) == []


def test_a_list_without_sync_to_is_reported(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{LIST}: a"))
    assert (finding.key, finding.found) == (LIST, f"no {ASK}")
    assert f"{ASK}: namespaces" in finding.expected


def test_sync_to_namespaces_without_a_list_is_reported(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{ASK}: namespaces"))
    assert (finding.key, finding.found) == (ASK, f"no {LIST}")


def test_a_list_beside_sync_to_cluster_is_reported(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{ASK}: cluster", f"{LIST}: a"))
    assert (finding.key, finding.line) == (LIST, FIRST + 1)


def test_the_manifest_of_the_proposal_has_one_finding_with_the_legal_key(tmp_path: Path) -> None:
    finding = only_finding(
        tmp_path, annotated(f'{ASK}: "namespaces"', f'{ASK}/namespaces: "ns-1;ns-2;ns-3"', more="type: generic\n")
    )
    assert (finding.key, finding.line, finding.expected) == (f"{ASK}/namespaces", FIRST + 1, LIST)


@pytest.mark.parametrize("word", [ASK, LIST])
def test_a_request_as_a_label_is_reported(word: str, tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated("x: y", labels=f"{{{word}: cluster}}")).found == "a label"


@pytest.mark.parametrize("annotations", [(f"{ASK}: cluster",), (f"{LIST}: a",), (f"{ASK}: namespaces", f"{LIST}: a")])
def test_a_request_on_a_kind_that_is_not_served_is_reported_once(annotations: tuple[str, ...], tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(*annotations, kind="Service"))
    assert (finding.found, "ConfigMap, Secret" in finding.expected) == ("on a Service", True)


def test_the_kinds_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = parse("vocabularies: {sync-to: {kinds: [v1/Service, v1/ConfigMap]}}", "settings")
    assert findings_in(tmp_path, annotated(f"{ASK}: cluster", kind="Service"), settings) == []
    (finding,) = findings_in(tmp_path, annotated(f"{ASK}: cluster"), settings)
    assert finding.found == "on a Secret"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("openkruise.io/sync-to-namespace", LIST),
        ("openkruise.io/sync", ASK),
        ("openkruise.io/synced-to", ASK),
    ],
)
def test_a_misspelt_key_is_reported_with_the_right_one(key: str, expected: str, tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated(f"{key}: cluster")).expected == expected


def test_other_keys_of_openkruise_are_not_reported(tmp_path: Path) -> None:
    assert findings_in(tmp_path, annotated("openkruise.io/owner: x", "apps.kruise.io/y: z"), SETTINGS) == []


def test_a_mark_written_by_hand_is_reported(tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated("openkruise.io/synced-from: a/db")).found == "a mark written by hand"


@pytest.mark.parametrize("key", ["app.kubernetes.io/managed-by", "argocd.argoproj.io/tracking-id"])
def test_a_key_of_a_source_that_is_not_copied_is_reported(key: str, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{ASK}: cluster", f"{key}: x", kind="ConfigMap"))
    assert (finding.key, finding.found) == (key, "an annotation that does not travel")


def test_a_type_that_is_never_copied_is_reported_on_a_source(tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated(f"{ASK}: cluster", more="type: helm.sh/release.v1\n")).key == "type"
    assert findings_in(tmp_path, annotated("x: y", more="type: helm.sh/release.v1\n"), SETTINGS) == []


def test_the_type_is_not_checked_if_the_list_has_no_effect(tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated(f"{LIST}: a", more="type: helm.sh/release.v1\n")).key == LIST


@pytest.mark.parametrize(
    ("key", "expected"), [("openkruise.io/synced-form", ASK), ("secret-copy/origins", "one of secret-copy/namespaces")]
)
def test_the_suggested_key_is_never_a_mark(key: str, expected: str, tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated(f"{key}: x")).expected == expected


@pytest.mark.parametrize(("key", "found"), [("example.com/pin", "a number"), (ASK, "a number (1234)")])
def test_a_value_that_is_not_text_is_shown_only_for_our_own_keys(key: str, found: str, tmp_path: Path) -> None:
    assert only_finding(tmp_path, annotated(f"{key}: 1234")).found == found


def test_no_value_of_another_key_is_shown(tmp_path: Path) -> None:
    text = annotated(f"{ASK}: cluster", f"openkruise.io/other: [{CANARY}]", more=f"data:\n  a: {CANARY}\n")
    assert CANARY not in str(findings_in(tmp_path, text, SETTINGS))


def test_values_of_a_disabled_vocabulary_are_not_checked(tmp_path: Path) -> None:
    only = Settings(vocabularies={"secret-copy": SecretCopySettings()})
    assert findings_in(tmp_path, annotated(f"{ASK}: everywhere"), only) == []


@pytest.mark.parametrize("annotations", [(f"{ASK}: cluster",), (f"{ASK}: namespaces", f"{LIST}: a")])
def test_the_clusters_own_config_map_is_never_copied(annotations: tuple[str, ...], tmp_path: Path) -> None:
    text = annotated(*annotations, kind="ConfigMap").replace("name: db", "name: kube-root-ca.crt")
    finding = only_finding(tmp_path, text)
    assert (finding.key, finding.line) == (ASK, FIRST)
    assert "is never copied" in finding.found
    assert findings_in(tmp_path, text.replace("kind: ConfigMap", "kind: Secret"), SETTINGS) == []


def test_a_list_of_too_many_names_is_reported_once(tmp_path: Path) -> None:
    names = ";".join(f"N-{number}" for number in range(10_001))
    finding = only_finding(tmp_path, annotated(f"{ASK}: namespaces", f'{LIST}: "{names}"'))
    assert (finding.key, finding.line) == (LIST, FIRST + 1)
    assert finding.found == "10,001 names"


def test_under_strict_tenancy_annotations_are_not_copied_either_unless_the_settings_list_them(tmp_path: Path) -> None:
    text = annotated(f"{ASK}: cluster", "note: n", "docs/url: u")
    listed = CopiedMetadata(annotations=("docs/*",))
    strict = Settings(vocabularies=SETTINGS.vocabularies, tenancy="strict", copied_metadata=listed)
    findings = findings_in(tmp_path, text, strict)
    assert [(finding.key, finding.found) for finding in findings] == [("note", "an annotation that does not travel")]


def test_under_strict_tenancy_every_label_of_a_source_is_reported_as_not_copied(tmp_path: Path) -> None:
    text = annotated(f"{ASK}: cluster", labels="{team: red, helm.sh/chart: db, samara.dev/paused: 'true'}")
    strict = Settings(vocabularies=SETTINGS.vocabularies, tenancy="strict")
    reported = findings_in(tmp_path, text, strict)
    assert [(finding.key, finding.found) for finding in reported] == [
        (key, "a label that does not travel") for key in ("helm.sh/chart", "team")
    ]
    assert [finding.key for finding in findings_in(tmp_path, text, SETTINGS)] == ["helm.sh/chart"]
    assert findings_in(tmp_path, annotated("x: y", labels="{team: red}"), strict) == []


def test_under_strict_tenancy_labels_of_an_administrators_source_are_not_reported(tmp_path: Path) -> None:
    strict = Settings(vocabularies=SETTINGS.vocabularies, tenancy="strict")
    text = annotated('secret-copy/namespaces: ""', labels="{team: red}").replace(
        "  name: db", "  name: db\n  namespace: admin"
    )
    assert findings_in(tmp_path, text, strict) == []
