"""What `samara lint` reports about the annotations of config-syncer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.lint.manifests import annotated, findings_in, only_finding

from samara.settings import Settings
from samara.vocabularies.config_syncer import CONTEXTS, NAME, SYNC, ConfigSyncerSettings

SETTINGS = Settings(vocabularies={NAME: ConfigSyncerSettings()})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"false"', "no such key for no copies"),
        ('"True"', "no such key for no copies"),
        ("stage in", "a label key"),
        ("a,,b", "a condition before and after every comma"),
    ],
)
def test_a_value_that_means_something_else_is_reported(value: str, expected: str, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{SYNC}: {value}"), SETTINGS)
    assert (finding.key, expected in finding.expected) == (SYNC, True)


@pytest.mark.parametrize("value", ['""', '"true"', "stage=live", '"stage in (a, b),!c"'])
def test_a_value_that_selects_namespaces_is_right(value: str, tmp_path: Path) -> None:
    assert findings_in(tmp_path, annotated(f"{SYNC}: {value}"), SETTINGS) == []


@pytest.mark.parametrize("beside", [(), (f'{SYNC}: ""',)])
def test_r13_copies_in_other_clusters_are_reported(beside: tuple[str, ...], tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(*beside, f"{CONTEXTS}: east"), SETTINGS)
    assert (finding.key, "other clusters" in finding.found) == (CONTEXTS, True)


def test_r9_a_source_outside_of_the_source_namespace_is_reported(tmp_path: Path) -> None:
    settings = Settings(vocabularies={NAME: ConfigSyncerSettings(source_namespace="platform")})
    finding = only_finding(tmp_path, annotated(f'{SYNC}: ""', namespace="team"), settings)
    assert "sourceNamespace" in finding.expected
    assert findings_in(tmp_path, annotated(f'{SYNC}: ""', namespace="platform"), settings) == []


def test_a1_unless_the_settings_name_it_nothing_is_reported(tmp_path: Path) -> None:
    assert findings_in(tmp_path, annotated(f"{SYNC}: stage in", f"{CONTEXTS}: east")) == []
