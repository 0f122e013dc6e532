"""`samara lint`: finds mistakes in manifests, with line and correction."""

from __future__ import annotations

from dataclasses import replace

from samara.cli.files import read_texts
from samara.cli.lint.nodes import Finding as Finding
from samara.cli.lint.nodes import parse_manifests
from samara.cli.lint.rules import Linter
from samara.settings import Settings


def lint_files(files: tuple[str, ...], settings: Settings, namespace: str = "") -> list[Finding]:
    """Everything that is wrong in these files. A manifest without a namespace is in `namespace`."""
    linter = Linter(settings)
    findings: set[Finding] = set()
    for text in read_texts(files):
        manifests, syntax_findings = parse_manifests(text)
        findings.update(syntax_findings)
        for manifest in manifests:
            findings.update(linter.check(replace(manifest, namespace=manifest.namespace or namespace)))
    return sorted(findings)
