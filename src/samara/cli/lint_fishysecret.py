"""What a FishySecret cannot mean: its spec is read by the vocabulary itself, and each fault gets its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from samara.cli.lint_nodes import Finding, Manifest, as_json, spot
from samara.cli.lint_part import Part, dropped
from samara.core.desired import Fault
from samara.core.names import matches_any_glob, quoted
from samara.settings import Settings
from samara.vocabularies.fishysecret import FISHY_SECRET, NAME, FishySecretSettings, may_read
from samara.vocabularies.fishysecret.spec import Spec, read

A_PATH = "a path such as /app/db/password: no empty segment, no . or .. as one, at most one #, and no % ? or \\"
FIELDS = {
    "spec": ("target", "data", "refreshInterval", "suspend"),
    "spec.target": ("name", "namespace", "type"),
    "spec.data[]": ("secretPath", "secretKeyName", "optional"),
}
_EXPECTED = re.compile(r"(.*?),? was expected, found (.*)", re.DOTALL)


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
            yield self._at("apiVersion", quoted(self.manifest.api_version), FISHY_SECRET.api_version)
        node = spot(self.manifest.root, "spec").node
        spec = read(None if node is None else as_json(node))
        for fault in spec.faults:
            yield self._fault(fault)
        yield from dropped(self.manifest, FIELDS)
        yield from self._forbidden(spec)

    def _at(self, path: str, found: str, expected: str) -> Finding:
        return self.manifest.finding(spot(self.manifest.root, path).line, path, found, expected)

    def _fault(self, fault: Fault) -> Finding:
        """What the vocabulary says itself, taken apart: where, what was expected, what was found."""
        path, _, told = fault.message.partition(": ")
        said = _EXPECTED.fullmatch(told)
        if said is not None:
            return self._at(path, said[2], said[1])
        if fault.reason == "Refused":
            return self._at(path, told.partition(";")[0], "another type")
        return self._at(path, told, A_PATH)

    def _forbidden(self, spec: Spec) -> Iterator[Finding]:
        """What the settings do not let it do."""
        if spec.target is not None and matches_any_glob(self.protected, spec.target.namespace):
            expected = "a namespace that is not protected (setting protectedNamespaces)"
            yield self._at("spec.target.namespace", quoted(spec.target.namespace), expected)
        home = self.manifest.namespace
        for number, item in enumerate(spec.items if home and not spec.faults else ()):
            if not self.may_read(home, item.path):
                expected = f"a path that FishySecrets of namespace {home} may read (setting vocabularies.{NAME}.paths)"
                yield self._at(f"spec.data[{number}].secretPath", quoted(item.path), expected)
