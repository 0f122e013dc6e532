"""One vocabulary's part of a lint, and the findings that such parts have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import yaml

from samara.assembly import WELL_KNOWN
from samara.cli.lint_nodes import Finding, Manifest, Word, spot
from samara.core.kinds import NEVER_COPIED_TYPES
from samara.core.model import Kind, KindName
from samara.core.names import NamespaceNames, quoted

FOR_ALL = frozenset({"*", "all", "ALL", "All"})
NAMESPACE_NAME = "a namespace name: up to 63 lower-case letters, digits and -"


class Part(NamedTuple):
    """What one vocabulary finds in a manifest, under one set of settings."""

    asks: frozenset[str]
    """Keys that are read as annotations; as labels they do nothing."""
    is_source: Callable[[Manifest], bool]
    """True where the manifest asks for copies, rightly or not: what stays behind is then worth saying."""
    findings: Callable[[Manifest], Iterator[Finding]]
    embedded: Callable[[Manifest], Manifest | None] = lambda manifest: None
    """An object inside of the manifest, whose keys must be legal, too."""
    carries_labels: bool = True
    """False where copies have none of the source's labels."""


def kind_named(name: KindName) -> Kind:
    """Of a kind that only a cluster knows it is enough that it can be written."""
    return WELL_KNOWN.get(name) or Kind(name.group, name.version, name.kind, name.kind.lower())


def wrong_kind(manifest: Manifest, word: Word, expected: str) -> Finding:
    return manifest.finding(word.line, word.key, f"on a {quoted(manifest.kind)[1:-1]}", expected)


def bad_names(manifest: Manifest, word: Word, names: NamespaceNames, for_all: str) -> Iterator[Finding]:
    """The illegal names of a list; whoever means every namespace is told how that is written."""
    for name in names.illegal:
        every = f"; for every namespace write {for_all}" if name in FOR_ALL else ""
        expected = f"{NAMESPACE_NAME}{every}"
        yield manifest.finding(word.line, word.key, quoted(name), expected)


def bad_type(manifest: Manifest) -> Iterator[Finding]:
    word = manifest.type
    if word is not None and word.value in NEVER_COPIED_TYPES:
        expected = "another type: Secrets of this type are never copied"
        yield manifest.finding(word.line, "type", quoted(word.value), expected)


def dropped(manifest: Manifest, fields: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """Fields that the server drops without a word, by the path of what they stand in; `[]` is every entry of a list."""
    for form, known in fields.items():
        for path in _paths(manifest, form):
            node = spot(manifest.root, path).node
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if str(key.value) not in known:
                    expected = f"{'one of ' if known[1:] else ''}{', '.join(known)}: the server drops any other field"
                    name = f"{path}.{quoted(str(key.value))[1:-1]}"
                    yield manifest.finding(key.start_mark.line + 1, name, "a field", expected)


def _paths(manifest: Manifest, form: str) -> list[str]:
    above, every, _ = form.partition("[]")
    entries = spot(manifest.root, above).node if every else None
    many = len(entries.value) if isinstance(entries, yaml.SequenceNode) else 0
    return [f"{above}[{number}]" for number in range(many)] if every else [form]


def stays_behind(manifest: Manifest, word: Word) -> Finding:
    article = "an" if word.where[0] == "a" else "a"
    found, expected = f"{article} {word.where} that does not travel", "to be on the source only; copies lack it"
    return manifest.finding(word.line, word.key, found, expected)
