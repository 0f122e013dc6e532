"""What a manifest cannot mean: illegal keys and values, bad lists, marks by hand, keys that will not travel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from samara.app import table_of
from samara.cli.lint_nodes import Finding, Manifest, Word
from samara.core.kinds import NEVER_COPIED_TYPES
from samara.core.match import any_glob, csv_names, is_label_value, shown
from samara.core.model import SECRET
from samara.core.travel import ACCEPT, ADOPTED, IGNORE, NOT_BY_DEFAULT, PAUSED, RELEASED
from samara.dialects import secret_copy
from samara.settings import SecretCopy, Settings

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX = 253
KEY_FORM = "name or prefix/name: name of up to 63 letters, digits, - _ . and prefix a DNS name of up to 253"
INSTEAD = {"openkruise.io/sync-to/namespaces": "openkruise.io/sync-to-namespaces"}
"""Keys that people have seen written and that no API server stores, and what to write."""
CONTROLS = frozenset({ACCEPT, IGNORE, PAUSED, RELEASED})
OURS = ("secret-copy/", "samara.dev/")
"""Prefixes under which every key is a word of ours."""
FOR_ALL = frozenset({"*", "all", "ALL", "All"})
NEVER_BY_HAND = frozenset({ADOPTED})
STAYS = "kubectl.kubernetes.io/*"


class Lint:
    """The rules for one set of settings."""

    def __init__(self, settings: Settings) -> None:
        own = settings.dialects.get(secret_copy.NAME)
        table = table_of(settings)
        self._home = own.home if isinstance(own, SecretCopy) else None
        self._marks = frozenset().union(*(dialect.marks for dialect in table.dialects)) | NEVER_BY_HAND
        self._known = sorted(table.words | CONTROLS | NEVER_BY_HAND)
        self._stays = (STAYS, *NOT_BY_DEFAULT, *table.never_labels, *table.never_annotations)

    def all(self, manifest: Manifest) -> Iterator[Finding]:
        for word in manifest.words:
            legal = list(_key(manifest, word)) or list(self._word(manifest, word))
            yield from legal
        asked = [word for word in manifest.words if word.key == secret_copy.TARGETS and word.where == "annotation"]
        if asked and self._home is not None:
            yield from self._source(manifest, asked[0])

    def _word(self, manifest: Manifest, word: Word) -> Iterator[Finding]:
        yield from _value(manifest, word)
        if word.key in self._marks:
            expected = "no such key: Samara writes this mark on the copies it makes"
            yield manifest.finding(word.line, word.key, "a mark written by hand", expected)
        elif word.key.startswith(OURS) and word.key not in self._known:
            near = get_close_matches(word.key, self._known, 1)
            expected = near[0] if near else f"one of {', '.join(self._known)}"
            yield manifest.finding(word.line, word.key, "a key that means nothing", expected)
        elif word.key == secret_copy.TARGETS and word.where == "label":
            yield manifest.finding(word.line, word.key, "a label", "an annotation: a label of this key does nothing")

    def _source(self, manifest: Manifest, word: Word) -> Iterator[Finding]:
        """A Secret that asks for copies."""
        if (manifest.api_version, manifest.kind) != (SECRET.api_version, SECRET.name):
            found = f"on a {shown(manifest.kind)[1:-1]}"
            yield manifest.finding(word.line, word.key, found, "a v1 Secret: nothing else is copied by this key")
            return
        if manifest.namespace != self._home:
            found = f"in namespace {shown(manifest.namespace)[1:-1]}" if manifest.namespace else "no namespace"
            expected = f"namespace {self._home}, the home namespace: elsewhere this key does nothing"
            yield manifest.finding(word.line, word.key, found, expected)
        yield from _list(manifest, word)
        yield from _type(manifest)
        yield from self._stays_behind(manifest)

    def _stays_behind(self, manifest: Manifest) -> Iterator[Finding]:
        for word in manifest.words:
            if any_glob(self._stays, word.key):
                found, expected = f"{_a(word.where)} that does not travel", "to be on the source only; copies lack it"
                yield manifest.finding(word.line, word.key, found, expected)


def _a(where: str) -> str:
    return f"{'an' if where[0] == 'a' else 'a'} {where}"


def _key(manifest: Manifest, word: Word) -> Iterator[Finding]:
    """The server refuses an object with an illegal key as a whole."""
    found = _illegal(word.key)
    if found is not None:
        expected = INSTEAD.get(word.key, KEY_FORM)
        yield manifest.finding(word.line, word.key, found, expected)


def _illegal(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return f"{key.count('/')} slashes in a key"
    if slash and (len(prefix) > _LONGEST_PREFIX or _PREFIX.fullmatch(prefix) is None):
        return f"a prefix that is no DNS name of up to {_LONGEST_PREFIX} characters"
    if len(name) > 63:
        return f"a name of {len(name)} characters"
    return None if _NAME.fullmatch(name) else "a name with characters that a key cannot have"


def _value(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if word.value is None and (word.where == "label" or word.found != "null" or word.key in CONTROLS):
        yield manifest.finding(word.line, word.key, _unquoted(word), "text in quotes")
    elif word.where == "label" and word.value and not is_label_value(word.value):
        expected = "a label value: up to 63 letters, digits, - _ ., no slash"
        yield manifest.finding(word.line, word.key, "a value that a label cannot have", expected)
    elif word.key in (IGNORE, PAUSED) and word.value not in ("true", "false", None):
        yield manifest.finding(word.line, word.key, word.found, '"true"; anything else is as if it were absent')


def _unquoted(word: Word) -> str:
    """Of a key that is none of ours the value is not shown: it can be anything."""
    return word.found if word.key.startswith(OURS) else word.found.partition(" (")[0]


def _list(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if word.value is None:
        if word.found == "null":
            yield manifest.finding(word.line, word.key, "null", '"" for every namespace, or a list of names')
        return
    names = csv_names(word.value)
    for name in names.illegal:
        every = '; for every namespace write ""' if name in FOR_ALL else ""
        expected = f"a namespace name: up to 63 lower-case letters, digits and -{every}"
        yield manifest.finding(word.line, word.key, shown(name), expected)
    if word.value.strip() and not names.legal and not names.illegal:
        expected = 'at least one namespace, or "" for every one'
        yield manifest.finding(word.line, word.key, f"{word.found}, which names nothing", expected)


def _type(manifest: Manifest) -> Iterator[Finding]:
    word = manifest.type
    if word is not None and word.value is not None and f'"{word.value}"'.encode() in NEVER_COPIED_TYPES:
        expected = "another type: Secrets of this type are never copied"
        yield manifest.finding(word.line, "type", shown(word.value), expected)
