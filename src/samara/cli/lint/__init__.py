"""`samara lint`: manifests that cannot mean what they say, each finding with its line and the correction."""

from __future__ import annotations

from dataclasses import replace

from samara.cli.files import texts
from samara.cli.lint.nodes import Finding as Finding
from samara.cli.lint.nodes import manifests
from samara.cli.lint.rules import Lint
from samara.settings import Settings


def findings(files: tuple[str, ...], settings: Settings, namespace: str = "") -> list[Finding]:
    """`namespace` is where a manifest goes that names none, as with kubectl's flag."""
    lint = Lint(settings)
    found: list[Finding] = []
    for text in texts(files):
        read, faults = manifests(text)
        found += faults
        placed = (replace(manifest, namespace=manifest.namespace or namespace) for manifest in read)
        found += [finding for manifest in placed for finding in lint.all(manifest)]
    return sorted(set(found))
