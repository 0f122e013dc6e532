"""`samara lint`: manifests that cannot mean what they say, each finding with its line and the correction."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from samara.cli.files import read_texts
from samara.cli.lint.nodes import Finding as Finding
from samara.cli.lint.nodes import parse_manifests
from samara.cli.lint.rules import Linter
from samara.settings import Settings


class Report(NamedTuple):
    """What is wrong in some files."""

    findings: list[Finding]
    unproven: int
    """Objects whose marks were not judged, because managedFields do not show who wrote these."""


def lint_files(files: tuple[str, ...], settings: Settings, namespace: str = "") -> Report:
    """Everything that is wrong in these files. A manifest without a namespace is in `namespace`."""
    linter = Linter(settings)
    findings: set[Finding] = set()
    unproven = 0
    for text in read_texts(files):
        manifests, syntax_findings = parse_manifests(text)
        findings.update(syntax_findings)
        for manifest in manifests:
            findings.update(linter.check(replace(manifest, namespace=manifest.namespace or namespace)))
            unproven += linter.has_unproven_marks(manifest)
    return Report(sorted(findings), unproven)
