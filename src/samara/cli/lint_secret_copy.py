"""What a manifest cannot mean in the words of Secret copy."""

from __future__ import annotations

from collections.abc import Iterator

from samara.cli.lint_nodes import Finding, Manifest, Word
from samara.cli.lint_part import Part, bad_names, bad_type, wrong_kind
from samara.core.model import SECRET
from samara.core.names import parse_csv_names, quoted
from samara.vocabularies.secret_copy import TARGETS


def part(home: str) -> Part:
    def findings(manifest: Manifest) -> Iterator[Finding]:
        word = manifest.annotation(TARGETS)
        if word is None:
            return
        if not _is_secret(manifest):
            yield wrong_kind(manifest, word, "a v1 Secret: nothing else is copied by this key")
            return
        if manifest.namespace != home:
            found = f"in namespace {quoted(manifest.namespace)[1:-1]}" if manifest.namespace else "no namespace"
            expected = f"namespace {home}, the home namespace: elsewhere this key does nothing"
            yield manifest.finding(word.line, word.key, found, expected)
        yield from _list(manifest, word)
        yield from bad_type(manifest)

    def is_source(manifest: Manifest) -> bool:
        return manifest.annotation(TARGETS) is not None and _is_secret(manifest)

    return Part(frozenset({TARGETS}), is_source, findings)


def _is_secret(manifest: Manifest) -> bool:
    return (manifest.api_version, manifest.kind) == (SECRET.api_version, SECRET.name)


def _list(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if word.value is None:
        if word.found == "null":
            yield manifest.finding(word.line, word.key, "null", '"" for every namespace, or a list of names')
        return
    names = parse_csv_names(word.value)
    yield from bad_names(manifest, word, names, '""')
    if word.value.strip() and not names.legal and not names.illegal:
        expected = 'at least one namespace, or "" for every one'
        yield manifest.finding(word.line, word.key, f"{word.found}, which names nothing", expected)
