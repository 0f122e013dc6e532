"""What a FishySecret cannot mean: its spec is read by the vocabulary itself, and each fault gets its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from samara.cli.lint_nodes import Finding, Manifest, as_json, spot
from samara.cli.lint_part import Part, dropped
from samara.core.match import any_glob, shown
from samara.settings import Settings
from samara.vocabularies.fishysecret import FISHY_SECRET, NAME, FishySecretSettings, may_read
from samara.vocabularies.fishysecret.spec import Spec, read

FIELDS = {
    "spec": ("target", "data", "refreshInterval", "suspend"),
    "spec.target": ("name", "namespace", "type"),
    "spec.data[]": ("secretPath", "secretKeyName", "optional"),
}


def part(own: FishySecretSettings, settings: Settings) -> Part:
    allowed, protected = may_read(own.paths, settings.tenancy == "strict"), settings.protected_namespaces

    def findings(manifest: Manifest) -> Iterator[Finding]:
        group = manifest.api_version.rpartition("/")[0]
        if (group, manifest.kind) == (FISHY_SECRET.group, FISHY_SECRET.name):
            yield from _FishySecret(manifest, allowed, protected).findings()

    return Part(frozenset(), lambda manifest: False, findings)


class _FishySecret(NamedTuple):
    """One FishySecret of a file."""

    manifest: Manifest
    may_read: Callable[[str, str], bool]
    protected: tuple[str, ...]

    def findings(self) -> Iterator[Finding]:
        if self.manifest.api_version != FISHY_SECRET.api_version:
            yield self._at("apiVersion", shown(self.manifest.api_version), FISHY_SECRET.api_version)
        node = spot(self.manifest.root, "spec").node
        spec = read(None if node is None else as_json(node))
        for fault in spec.faults:
            for mistake in fault.mistakes:
                yield self._at(mistake.field, mistake.found, mistake.expected)
        yield from dropped(self.manifest, FIELDS)
        yield from self._forbidden(spec)

    def _at(self, path: str, found: str, expected: str) -> Finding:
        return self.manifest.finding(spot(self.manifest.root, path).line, path, found, expected)

    def _forbidden(self, spec: Spec) -> Iterator[Finding]:
        """What the settings do not let it do."""
        if spec.target is not None and any_glob(self.protected, spec.target.namespace):
            expected = "a namespace that is not protected (setting protectedNamespaces)"
            yield self._at("spec.target.namespace", shown(spec.target.namespace), expected)
        home = self.manifest.namespace
        for number, item in enumerate(spec.items if home and not spec.faults else ()):
            if not self.may_read(home, item.path):
                expected = f"a path that FishySecrets of namespace {home} may read (setting vocabularies.{NAME}.paths)"
                yield self._at(f"spec.data[{number}].secretPath", shown(item.path), expected)
