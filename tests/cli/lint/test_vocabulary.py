"""What `samara lint` reports for a vocabulary without code for lint: everything follows from its source type."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.cli.lint.manifests import annotated, findings_in

from samara import assembly
from samara.cli.lint import Finding, rules
from samara.core.annotated import AnnotatedObjects, CopyRequest
from samara.core.desired import Fault, Mistake, Template
from samara.core.model import CONFIG_MAP, KindName, Object, ObjectName
from samara.core.names import parse_csv_names
from samara.core.selectors import NamespaceSelector
from samara.core.source_type import SourceType
from samara.core.vocabulary import BuildContext, Conflicts, CrossNamespace, Vocabulary
from samara.setting_types import Managers, Struct, Takeover
from samara.settings import Settings
from samara.settings.model import Limits, NeverCopied
from samara.vocabularies import VOCABULARIES

TO, FROM = "toy.cert-manager.io/copy-to", "toy.cert-manager.io/copied-from"
"""Under a prefix that is never copied by default. Keys of a vocabulary are not reported for that."""


class ToySettings(Struct, frozen=True):
    kinds: tuple[KindName, ...] = (KindName("", "v1", "ConfigMap"),)
    conflicts: ClassVar[Conflicts | None] = None
    cross_namespace: ClassVar[CrossNamespace | None] = None
    takeover: Takeover = False
    managers: Managers = ()


def build(settings: ToySettings, context: BuildContext) -> tuple[SourceType, ...]:
    def request(obj: Object) -> CopyRequest:
        names = parse_csv_names(obj.annotations[TO])
        faults = [Fault("Invalid", f"{TO} names what cannot be a namespace", TO)] if names.illegal else []
        return CopyRequest(NamespaceSelector(names), tuple(faults))

    return (
        AnnotatedObjects(
            "toy",
            context.kinds,
            annotations=frozenset({TO}),
            marks=frozenset({FROM}),
            is_source=lambda obj: TO in obj.annotations,
            source_of=lambda obj: None,
            request=request,
            template=lambda obj: Template(obj.content),
            lint=lambda obj: (
                [Mistake("note", "no note", at="metadata.annotations.note")] if "note" in obj.annotations else []
            ),
        ).source_type(),
    )


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Vocabulary("toy", ToySettings, build, frozenset({TO, FROM}), is_written_by_tenants=True)
    monkeypatch.setattr(rules, "VOCABULARIES", (*VOCABULARIES, own))


def toy_findings(
    folder: Path, *annotations: str, kind: str = CONFIG_MAP.name, labels: str = "{}", **settings: Any
) -> list[Finding]:
    text = annotated(*annotations, kind=kind, labels=labels)
    return findings_in(folder, text, Settings(vocabularies={"toy": ToySettings()}, **settings))


def test_a_good_source_has_no_findings(tmp_path: Path) -> None:
    assert toy_findings(tmp_path, f"{TO}: a,b") == []


def test_a_fault_of_the_desired_state_is_reported_on_the_line_of_its_field(tmp_path: Path) -> None:
    [finding] = toy_findings(tmp_path, "x: y", f"{TO}: Bad_Name")
    assert (finding.line, finding.key, finding.found) == (8, TO, f"{TO} names what cannot be a namespace")


def test_the_own_findings_of_a_vocabulary_are_reported_too(tmp_path: Path) -> None:
    note, fault = toy_findings(tmp_path, "note: x", f"{TO}: Bad_Name")
    assert (note.line, note.key, note.found, note.expected) == (7, "note", "a text", "no note")
    assert (fault.line, fault.key) == (8, TO)


def test_an_object_that_belongs_to_the_cluster_is_reported(tmp_path: Path) -> None:
    own = NeverCopied(objects=(ObjectName(KindName("", "v1", "ConfigMap"), "db"),))
    [finding] = toy_findings(tmp_path, f"{TO}: a", never_copied=own)
    assert (finding.line, finding.key, finding.expected) == (7, TO, f"no {TO} on it")
    assert "never copied" in finding.found


def test_a_list_that_is_too_long_is_the_only_finding(tmp_path: Path) -> None:
    [finding] = toy_findings(tmp_path, f"{TO}: a,b,Bad_Name", "note: x", limits=Limits(listed_names=2))
    assert (finding.line, finding.key, finding.found) == (7, TO, "3 names")
    assert "setting limits.listedNames" in finding.expected


def test_a_key_on_a_kind_that_is_not_copied_is_reported(tmp_path: Path) -> None:
    [finding] = toy_findings(tmp_path, f"{TO}: a", kind="Secret")
    assert (finding.line, finding.key, finding.found) == (7, TO, "on a Secret")
    assert "ConfigMap" in finding.expected
    assert "vocabularies.toy" in finding.expected


def test_a_key_as_a_label_is_reported(tmp_path: Path) -> None:
    [finding] = toy_findings(tmp_path, "x: y", labels=f"{{{TO}: a}}")
    assert (finding.line, finding.key, finding.found) == (5, TO, "a label")


def test_a_key_with_a_null_value_is_reported(tmp_path: Path) -> None:
    [finding] = toy_findings(tmp_path, f"{TO}:")
    assert (finding.line, finding.key, finding.found) == (7, TO, "null")


def test_a_misspelt_key_and_a_mark_written_by_hand_are_reported(tmp_path: Path) -> None:
    misspelt, mark = toy_findings(tmp_path, "toy.cert-manager.io/copy-two: a", f"{FROM}: a/x")
    assert (misspelt.line, misspelt.expected) == (7, TO)
    assert (mark.line, mark.found) == (8, "a mark written by hand")


def test_an_illegal_key_is_reported_with_the_legal_one(tmp_path: Path) -> None:
    [finding] = toy_findings(tmp_path, "toy.cert-manager.io/copy/to: a")
    assert finding.expected == TO


def test_an_annotation_that_is_never_copied_is_reported_on_a_source(tmp_path: Path) -> None:
    [finding] = toy_findings(tmp_path, f"{TO}: a", "helm.sh/chart: x")
    assert (finding.line, finding.key, finding.found) == (8, "helm.sh/chart", "an annotation that is not copied")


def test_lint_names_no_vocabulary() -> None:
    folder = Path(assembly.__file__).parent / "cli" / "lint"
    names = [vocabulary.name for vocabulary in VOCABULARIES]
    modules = [name.replace("-", "_") for name in names]
    for file in folder.glob("*.py"):
        code = file.read_text()
        assert [module for module in modules if f"vocabularies.{module}" in code] == [], file
