"""What `samara lint` reports about the annotations of kubernetes-replicator."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.lint.manifests import annotated, findings_in, only_finding

from samara.settings import Settings
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.replicator import NAME, PREFIX, ReplicatorSettings

SETTINGS = Settings(vocabularies={NAME: ReplicatorSettings()})


@pytest.mark.parametrize("key", ["replicate-from", "replicate-form", "replication-allowed"])
def test_a_key_of_the_pull_mode_is_not_taken_for_a_misspelt_one_of_the_push_mode(key: str, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{PREFIX}{key}: team/db"), SETTINGS)
    assert "Samara does not pull" in finding.expected


@pytest.mark.parametrize("key", ["replicate-from", "replication-allowed", "keep-owner-references"])
def test_a_key_of_the_original_is_no_finding_if_the_settings_do_not_name_the_vocabulary(
    key: str, tmp_path: Path
) -> None:
    assert findings_in(tmp_path, annotated(f"{PREFIX}{key}: team/db")) == []


def test_a_misspelt_key_of_the_push_mode_is_reported_with_the_right_one(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, annotated(f"{PREFIX}replicate-too: shop"), SETTINGS)
    assert finding.expected == f"{PREFIX}replicate-to"


def test_a_selector_by_a_label_that_a_pattern_lets_tenants_set_is_reported(tmp_path: Path) -> None:
    accurate = AccurateSettings(config={"subNamespaceLabelKeys": ["*"]})
    settings = Settings(vocabularies={NAME: ReplicatorSettings(), "accurate": accurate})
    text = annotated(f"{PREFIX}replicate-to-matching: stage=live")
    finding = only_finding(tmp_path, text, settings)
    assert (finding.key, "the label stage" in finding.found) == (f"{PREFIX}replicate-to-matching", True)
    assert findings_in(tmp_path, text, SETTINGS) == []
