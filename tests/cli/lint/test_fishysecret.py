"""What `samara lint` reports about a FishySecret."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.lint.manifests import findings_in, line_of, only_finding

from samara.settings import Settings, parse

SETTINGS = parse("vocabularies: {fishysecret: {}}", "test")
GOOD = """apiVersion: fishykeys.2v.pm/v1alpha1
kind: FishySecret
metadata:
  name: fishysecret-db
  namespace: default
spec:
  target:
    name: test-secret
    namespace: target-namespace
  data:
    - secretPath: /app/db/username
      secretKeyName: DB_USER
    - secretPath: /app/db/password
      secretKeyName: DB_PASS
"""


def test_the_sample_of_the_post_has_no_findings(tmp_path: Path) -> None:
    assert findings_in(tmp_path, GOOD, SETTINGS) == []


def test_a_manifest_with_every_optional_field_has_no_findings(tmp_path: Path) -> None:
    text = GOOD.replace("  target:\n", "  refreshInterval: 90s\n  suspend: true\n  target:\n    type: example.com/db\n")
    assert findings_in(tmp_path, f"{text}      optional: true\n", SETTINGS) == []


def test_the_same_kind_of_another_group_is_not_checked(tmp_path: Path) -> None:
    assert (
        findings_in(tmp_path, GOOD.replace("fishykeys.2v.pm/v1alpha1", "example.com/v1") + "  x: 1\n", SETTINGS) == []
    )


@pytest.mark.parametrize(
    ("good", "bad", "key", "found"),
    [
        ("v1alpha1", "v1", "apiVersion", "'fishykeys.2v.pm/v1'"),
        ("test-secret", "Test_Secret", "spec.target.name", "'Test_Secret'"),
        ("target-namespace", "a.b", "spec.target.namespace", "'a.b'"),
        ("target-namespace", "kube-system", "spec.target.namespace", "'kube-system'"),
        ("    name: test-secret\n", "    name: x\n    kind: Secret\n", "spec.target.kind", "a field"),
        ("/app/db/username", "/app//username", "spec.data[0].secretPath", "'/app//username' has an empty segment"),
        ("/app/db/username", "7", "spec.data[0].secretPath", "something else"),
        ("DB_USER", "DB USER", "spec.data[0].secretKeyName", "'DB USER'"),
        ("DB_PASS", "DB_USER", "spec.data", "several of 'DB_USER'"),
        ("spec:\n", "spec:\n  server: localhost:8090\n", "spec.server", "a field"),
        ("spec:\n", "spec:\n  refreshInterval: 5\n", "spec.refreshInterval", "something else"),
        (
            "target:\n",
            "target:\n    type: helm.sh/release.v1\n",
            "spec.target.type",
            "Secrets of type helm.sh/release.v1",
        ),
    ],
)
def test_a_finding_has_the_line_the_field_and_what_to_write(
    good: str, bad: str, key: str, found: str, tmp_path: Path
) -> None:
    text = GOOD.replace(good, bad)
    _, line, reported_key, what, expected = only_finding(tmp_path, text, SETTINGS)
    assert reported_key == key
    assert what.startswith(found)
    assert expected
    assert line == line_of(text, "  data:" if key == "spec.data" else bad.splitlines()[-1])


def test_a_missing_spec_is_reported(tmp_path: Path) -> None:
    _, _, key, found, expected = only_finding(tmp_path, GOOD.partition("spec:")[0], SETTINGS)
    assert (key, found, expected) == ("spec", "nothing", "a mapping")


def test_a_path_that_the_settings_do_not_allow_is_reported(tmp_path: Path) -> None:
    rule = "{namespaces: [default], allow: [/app/db/username]}"
    settings: Settings = parse(f"vocabularies: {{fishysecret: {{paths: [{rule}]}}}}", "test")
    _, line, key, found, expected = only_finding(tmp_path, GOOD, settings)
    assert (line, key, found) == (line_of(GOOD, "password"), "spec.data[1].secretPath", "'/app/db/password'")
    assert "vocabularies.fishysecret.paths" in expected


def test_an_unknown_key_under_our_prefix_is_reported(tmp_path: Path) -> None:
    text = GOOD.replace("  namespace: default\n", "  namespace: default\n  labels:\n    fishykeys.2v.pm/tier: x\n")
    _, _, key, found, _ = only_finding(tmp_path, text, SETTINGS)
    assert (key, found) == ("fishykeys.2v.pm/tier", "an unknown key")


@pytest.mark.parametrize(("namespaces", "count"), [("tree:shop", 0), ("tree:default", 0), ("shop", 2)])
def test_a_path_is_not_judged_if_only_the_cluster_knows_the_tree_of_the_namespace(
    tmp_path: Path, namespaces: str, count: int
) -> None:
    settings = parse(
        f"vocabularies: {{fishysecret: {{paths: [{{namespaces: ['{namespaces}'], allow: ['*']}}]}}}}", "test"
    )
    assert len(findings_in(tmp_path, GOOD, settings)) == count
