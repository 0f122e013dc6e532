"""What no manifest can mean, whatever its vocabulary: illegal keys and values, marks by hand, misspelt words."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from samara.assembly import registry_of, reserved
from samara.cli import lint_accurate, lint_fishysecret, lint_resource_distribution, lint_secret_copy, lint_sync_to
from samara.cli.lint_nodes import Finding, Manifest, Word
from samara.cli.lint_part import Part, stays_behind, wrong_kind
from samara.core.metadata_keys import ACCEPT, ADOPTED, IGNORE, NOT_COPIED_BY_DEFAULT, PAUSED, RELEASED
from samara.core.model import NAMESPACE
from samara.core.names import LABEL_LENGTH, is_label_value, matches_any_glob, quoted, sample
from samara.core.policy import invalid_consent_items
from samara.core.selectors import is_dns_subdomain
from samara.core.vocabulary import VocabularySettings
from samara.settings import Settings
from samara.vocabularies import sync_to
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.fishysecret import FishySecretSettings
from samara.vocabularies.resource_distribution import ResourceDistributionSettings
from samara.vocabularies.secret_copy import SecretCopySettings
from samara.vocabularies.sync_to import SyncToSettings

KEY_FORM = "name or prefix/name: name of up to 63 letters, digits, - _ . and prefix a DNS name of up to 253"
INSTEAD = {lint_sync_to.PROPOSED: sync_to.SYNC_TO_NAMESPACES}
"""Keys that people have seen written and that no API server stores, and what to write."""
ACCEPTED = "a namespace, namespace:Kind/name or *, with commas between"
CONTROLS = frozenset({ACCEPT, IGNORE, PAUSED, RELEASED})
NEVER_BY_HAND = frozenset({ADOPTED})
SHARED = frozenset({"openkruise.io", "kruise.io"})
"""Prefixes of projects that have more words than those we read: only what is nearly one of ours is misspelt."""
STAYS = "kubectl.kubernetes.io/*"


def part_of(own: VocabularySettings, settings: Settings) -> Part:
    """A vocabulary's own part of the rules; a new one is one line here."""
    match own:
        case SecretCopySettings(home=home):
            return lint_secret_copy.part(home)
        case SyncToSettings(kinds=kinds):
            return lint_sync_to.part(kinds, settings.protected_namespaces, settings.tenancy != "strict")
        case ResourceDistributionSettings(kinds=kinds):
            registry = registry_of(settings)
            return lint_resource_distribution.part(
                kinds, lambda where, words: registry.copyable(where, words, by_default=())
            )
        case AccurateSettings():
            return lint_accurate.part(own, reserved(settings, ""))
        case FishySecretSettings():
            return lint_fishysecret.part(own, settings)
        case _:
            raise AssertionError(f"lint has no part for {own}")


class Lint:
    """The rules for one set of settings."""

    def __init__(self, settings: Settings) -> None:
        registry = registry_of(settings)
        self._parts = [part_of(own, settings) for own in settings.vocabularies.values()]
        asks = frozenset().union(*(source_type.source.metadata_keys for source_type in registry.source_types))
        # What one vocabulary writes as its mark another may let people write: a namespace can name its parent itself.
        marks = frozenset().union(*(source_type.ownership.marks for source_type in registry.source_types))
        self._marks = marks - asks | NEVER_BY_HAND
        self._known = registry.metadata_keys | CONTROLS | NEVER_BY_HAND
        self._spoken = sorted(self._known - self._marks)
        self._ours = {_prefix(word) for word in self._known} - SHARED
        self._asks = frozenset().union(*(part.asks for part in self._parts))
        stays = (STAYS, *NOT_COPIED_BY_DEFAULT)
        self._stays = {"label": (*stays, *registry.never_labels), "annotation": (*stays, *registry.never_annotations)}

    def all(self, manifest: Manifest) -> Iterator[Finding]:
        for word in manifest.words:
            yield from list(_key(manifest, word)) or list(self._word(manifest, word))
        for part in self._parts:
            yield from part.findings(manifest)
            inner = part.embedded(manifest)
            for word in inner.words if inner is not None else ():
                yield from list(_key(manifest, word)) or list(_label_value(manifest, word))
        asked = [part for part in self._parts if part.is_source(manifest)]
        if asked:
            yield from self._stays_behind(manifest, all(part.carries_labels for part in asked))

    def _word(self, manifest: Manifest, word: Word) -> Iterator[Finding]:
        yield from self._value(manifest, word)
        if word.key in self._marks:
            expected = "no such key: Samara writes this mark on the copies it makes"
            yield manifest.finding(word.line, word.key, "a mark written by hand", expected)
        elif word.key in self._asks and word.where == "label":
            yield manifest.finding(word.line, word.key, "a label", "an annotation: a label of this key does nothing")
        elif word.key not in self._known and (expected := self._meant(word.key)):
            yield manifest.finding(word.line, word.key, "a key that means nothing", expected)

    def _meant(self, key: str) -> str:
        """The word that a misspelt one should be; nothing where it need not be one of ours."""
        prefix, _, name = key.rpartition("/")
        spoken = [word for word in self._spoken if _prefix(word) == prefix]
        near = get_close_matches(name, [word.rpartition("/")[2] for word in spoken], 1)
        if near:
            return f"{prefix}/{near[0]}"
        if prefix not in self._ours:
            return ""
        return f"one of {', '.join(spoken)}" if spoken else "no such key: people say nothing by keys of this prefix"

    def _value(self, manifest: Manifest, word: Word) -> Iterator[Finding]:
        if word.value is None and (word.where == "label" or word.found != "null" or word.key in CONTROLS):
            yield manifest.finding(word.line, word.key, self._unquoted(word), "text in quotes")
        elif found := list(_label_value(manifest, word)):
            yield from found
        elif word.key == ACCEPT:
            yield from _consent(manifest, word)
        elif word.key == IGNORE and manifest.kind != NAMESPACE.name:
            yield wrong_kind(manifest, word, "a Namespace: on anything else it does nothing")
        elif word.key in (IGNORE, PAUSED) and word.value not in ("true", "false", None):
            yield manifest.finding(word.line, word.key, word.found, '"true"; anything else is as if it were absent')

    def _unquoted(self, word: Word) -> str:
        """Of a key that is none of ours the value is not shown: it can be anything."""
        ours = word.key in self._known or _prefix(word.key) in self._ours
        return word.found if ours else word.found.partition(" (")[0]

    def _stays_behind(self, manifest: Manifest, carries_labels: bool) -> Iterator[Finding]:
        """Our own words are nowhere expected to travel."""
        for word in manifest.words:
            left = word.where == "label" and not carries_labels and word.key not in self._known
            if left or matches_any_glob(self._stays[word.where], word.key):
                yield stays_behind(manifest, word)


def _prefix(key: str) -> str:
    return key.rpartition("/")[0]


def _label_value(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if word.where == "label" and word.value and not is_label_value(word.value):
        expected = "a label value: up to 63 letters, digits, - _ ., no slash"
        yield manifest.finding(word.line, word.key, "a value that a label cannot have", expected)


def _consent(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if (manifest.kind, word.where) != (NAMESPACE.name, "annotation"):
        yield manifest.finding(
            word.line, word.key, f"a {word.where} of a {manifest.kind}", "an annotation of a Namespace"
        )
    elif items := invalid_consent_items(word.value or ""):
        yield manifest.finding(word.line, word.key, sample(map(quoted, items)), ACCEPTED)


def _key(manifest: Manifest, word: Word) -> Iterator[Finding]:
    """The server refuses an object with an illegal key as a whole; those of annotations it judges in lower case."""
    found = _illegal(word.key if word.where == "label" else word.key.lower())
    if found is not None:
        expected = INSTEAD.get(word.key, KEY_FORM)
        yield manifest.finding(word.line, word.key, found, expected)


def _illegal(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return f"{key.count('/')} slashes in a key"
    if slash and not is_dns_subdomain(prefix):
        return "a prefix that is no DNS name of up to 253 characters"
    if len(name) > LABEL_LENGTH:
        return f"a name of {len(name)} characters"
    return None if is_label_value(name) else "a name with characters that a key cannot have"
