"""Manifests for lint, and the findings in them."""

from __future__ import annotations

from pathlib import Path

from samara.cli.lint import Finding, lint_files
from samara.settings import Settings

CANARY = "CANARY-7c1f"


def annotated(
    *annotations: str,
    kind: str = "Secret",
    version: str = "v1",
    namespace: str = "",
    labels: str = "{}",
    more: str = "",
) -> str:
    """An object with these lines as its annotations. The first is on line 7, or 8 if the manifest has a namespace."""
    where = f"  namespace: {namespace}\n" if namespace else ""
    lines = "\n".join(f"    {annotation}" for annotation in annotations)
    head = f"apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: db\n{where}  labels: {labels}\n  annotations:\n"
    return f"{head}{lines}\n{more}"


def findings_in(folder: Path, text: str, settings: Settings | None = None) -> list[Finding]:
    file = folder / "manifest.yaml"
    file.write_text(text)
    return lint_files((str(file),), settings or Settings()).findings


def only_finding(folder: Path, text: str, settings: Settings | None = None) -> Finding:
    reported = findings_in(folder, text, settings)
    assert len(reported) == 1, reported
    return reported[0]


def line_of(text: str, part: str) -> int:
    """The number of the first line that contains this part."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
