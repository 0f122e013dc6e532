"""What a ResourceDistribution cannot mean: its spec is read by the vocabulary itself, and each fault gets its line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from samara.cli.lint_nodes import Finding, Manifest, as_json, held_in, kind_of, spot
from samara.cli.lint_part import FOR_ALL, Part, dropped, kind_named
from samara.core.desired import Fault
from samara.core.kinds import NEVER_COPIED_TYPES, is_denied, row
from samara.core.match import shown
from samara.core.model import ANNOTATIONS, LABELS, Kind, KindName
from samara.core.select import is_dns_subdomain
from samara.core.source_type import Copyable
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION
from samara.vocabularies.resource_distribution.asked import unfit
from samara.vocabularies.resource_distribution.convert import LISTED
from samara.vocabularies.resource_distribution.spec import (
    EXCLUDED,
    INCLUDED,
    RESOURCE,
    SELECTORS,
    TARGETS,
    Resource,
    Targets,
    read,
)

VERSIONS = tuple(f"{RESOURCE_DISTRIBUTION.group}/{version}" for version in sorted(LISTED, reverse=True))
SETTING = "no other kind is distributed (setting vocabularies.resource-distribution.kinds)"
NOTHING = "allNamespaces: true, names in includedNamespaces, or a namespaceLabelSelector that is not empty"
FIELDS = {
    "spec": ("resource", "targets"),
    TARGETS: ("allNamespaces", INCLUDED, EXCLUDED, *SELECTORS),
    f"{TARGETS}.{INCLUDED}": ("list",),
    f"{TARGETS}.{EXCLUDED}": ("list",),
    f"{TARGETS}.{INCLUDED}.list[]": ("name",),
    f"{TARGETS}.{EXCLUDED}.list[]": ("name",),
}
"""Of a selector the vocabulary tells itself what it does not know."""
A_NAME = "a namespace name: up to 63 lower-case letters, digits and -"


def part(kinds: tuple[KindName, ...], bare: Copyable) -> Part:
    """`bare` is what leaves behind the words that never travel, and no others."""
    served = {(kind.api_version, kind.name): kind for kind in map(kind_named, kinds)}

    def findings(manifest: Manifest) -> Iterator[Finding]:
        if _is_distribution(manifest):
            yield from _Distribution(manifest, served, bare).findings()

    # What is written on a distribution itself is nowhere expected to travel.
    return Part(frozenset(), lambda manifest: False, findings, embedded)


def embedded(manifest: Manifest) -> Manifest | None:
    """The object that a distribution holds."""
    held = spot(manifest.root, RESOURCE).node
    return held_in(manifest, held) if _is_distribution(manifest) and isinstance(held, yaml.MappingNode) else None


def _is_distribution(manifest: Manifest) -> bool:
    group = manifest.api_version.rpartition("/")[0]
    return (group, manifest.kind) == (RESOURCE_DISTRIBUTION.group, RESOURCE_DISTRIBUTION.name)


class _Distribution(NamedTuple):
    """One distribution of a file."""

    manifest: Manifest
    served: dict[tuple[str, str], Kind]
    bare: Copyable

    def findings(self) -> Iterator[Finding]:
        if self.manifest.api_version not in VERSIONS:
            yield self._at("apiVersion", shown(self.manifest.api_version), " or ".join(VERSIONS))
        yield from self._own_name()
        raw = as_json(spot(self.manifest.root, "spec").node)
        if raw is None:
            yield self._at("spec", "a value that JSON does not have", "values that can be written as JSON")
            return
        spec = read(raw)
        yield from self._faults(spec.faults)
        yield from dropped(self.manifest, FIELDS)
        yield from self._targets(spec.targets, spec.faults)
        held = embedded(self.manifest)
        if held is not None:
            yield from self._resource(held)

    def _at(self, path: str, found: str, expected: str) -> Finding:
        return self.manifest.finding(spot(self.manifest.root, path).line, path, found, expected)

    def _own_name(self) -> Iterator[Finding]:
        """Without a name the server will make one."""
        name = self.manifest.name
        if name is not None and name.value and not is_dns_subdomain(name.value):
            yield self._at("metadata.name", name.found, "a DNS subdomain")

    def _faults(self, faults: tuple[Fault, ...]) -> Iterator[Finding]:
        for mistake in (mistake for fault in faults for mistake in fault.mistakes):
            if mistake.field != f"{RESOURCE}.kind" or mistake.found == "nothing":  # of a wrong kind `_resource` tells
                found = mistake.found or kind_of(spot(self.manifest.root, mistake.field).node)
                yield self._at(mistake.field, found, mistake.expected)

    def _targets(self, targets: Targets, faults: tuple[Fault, ...]) -> Iterator[Finding]:
        for which, listed in ((INCLUDED, targets.included), (EXCLUDED, targets.excluded)):
            entries = any(fault.field.startswith(f"{TARGETS}.{which}.list[") for fault in faults)
            for name in listed.illegal:
                if not name and entries:
                    continue  # that the entry is no mapping has been said
                every = "; for every namespace write allNamespaces: true" if name in FOR_ALL else ""
                yield self._name(which, name, shown(name), f"{A_NAME}{every}")
        for name in targets.included.members & targets.excluded.members:
            found = f"{shown(name)}, which is in {INCLUDED}, too"
            yield self._name(EXCLUDED, name, found, "the name in one of the lists: what is excluded gets no copy")
        written = spot(self.manifest.root, TARGETS).node
        if isinstance(written, yaml.MappingNode) and not written.value:
            return  # nothing is what `{}` says
        asked = (targets.everywhere, targets.included.legal, targets.included.illegal, targets.selectors)
        if not any(asked) and not any(each.field.startswith(TARGETS) for each in faults):
            yield self._at(TARGETS, "targets that select nothing", NOTHING)

    def _name(self, which: str, name: str, found: str, expected: str) -> Finding:
        """A name of a list, on the line of its entry."""
        path = f"{TARGETS}.{which}"
        entries = spot(self.manifest.root, f"{path}.list").node
        many = len(entries.value) if isinstance(entries, yaml.SequenceNode) else 0
        spots = [spot(self.manifest.root, f"{path}.list[{number}].name") for number in range(many)]
        lines = [each.line for each in spots if each.node is not None and str(each.node.value or "") == name]
        return self.manifest.finding(min(lines, default=spot(self.manifest.root, path).line), path, found, expected)

    def _resource(self, held: Manifest) -> Iterator[Finding]:
        """What can be said of an object that is not complete is said."""
        kind = self.served.get((held.api_version, held.kind))
        if held.api_version and held.kind and (kind is None or is_denied(kind)):
            known = ", ".join(sorted(str(each) for each in self.served.values() if not is_denied(each)))
            found = shown(f"{held.api_version}/{held.kind}")
            yield self._at(f"{RESOURCE}.kind", found, f"one of {known}: {SETTING}")
        elif kind is not None:
            yield from self._content(held, kind)
        if held.namespace:
            expected = f"no namespace: {TARGETS} says where copies go"
            yield self._at(f"{RESOURCE}.metadata.namespace", shown(held.namespace), expected)
        for word in held.words:
            a, where = ("a label", LABELS) if word.where == "label" else ("an annotation", ANNOTATIONS)
            if not self.bare(where, {word.key: ""}):
                expected = "no such key here: copies lack it"
                yield self.manifest.finding(word.line, word.key, f"{a} that does not travel", expected)

    def _content(self, held: Manifest, kind: Kind) -> Iterator[Finding]:
        resource = _without_metadata(held)
        if resource is None:
            return
        type_ = resource.fields.get("type")
        if isinstance(type_, str) and type_ in NEVER_COPIED_TYPES:
            expected = "another type: Secrets of this type are never copied"
            yield self._at(f"{RESOURCE}.type", shown(type_), expected)
        normal = row(kind).normal
        if normal is not None and normal(resource.fields) is None:
            yield self._at(RESOURCE, "fields that the server does not take", unfit(kind))


def _without_metadata(held: Manifest) -> Resource | None:
    """What is wrong with a label or a name hides nothing of what is wrong with the rest."""
    root = held.root
    rest = [(key, value) for key, value in root.value if key.value != "metadata"]
    raw = as_json(yaml.MappingNode(root.tag, rest, root.start_mark, root.end_mark))
    return read(b'{"resource": %b}' % raw).resource if raw is not None else None
