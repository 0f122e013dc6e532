"""Checks one manifest: illegal and misspelt keys, illegal values, marks by hand, and what its vocabulary refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

from samara.assembly import WELL_KNOWN, named_vocabularies, registry_of
from samara.cli.lint.definitions import embedded, misfits, served_versions
from samara.cli.lint.keys_file import faulty_keys
from samara.cli.lint.nodes import Entry, Finding, Manifest, as_json, describe_type, locate, manifest_of
from samara.cli.lint.observed import FIELDS, hides_managers, observed_object, written_by_people
from samara.core.desired import Mistake, not_copied
from samara.core.kinds import NEVER_COPIED_TYPES
from samara.core.metadata_keys import ACCEPT, IGNORE, NOT_COPIED_BY_DEFAULT, PAUSED, RELEASED
from samara.core.model import Content, Field, Kind, KindName, Object, Ref
from samara.core.names import (
    LABEL_LENGTH,
    LABEL_VALUE_FORM,
    is_dns_subdomain,
    is_label_value,
    matches_any_glob,
    quoted,
)
from samara.core.near_misses import NEVER_BY_HAND, NearMissRules
from samara.core.source_type import Annotated, ChosenLabels, CustomResource, SourceType
from samara.core.view import View
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Cache
from samara.kube.client import PRESERVED_WRITES
from samara.kube.codec import Codec
from samara.settings import Settings
from samara.vocabularies import VOCABULARIES

_KEY_FORM = "name or prefix/name: name of up to 63 letters, digits, - _ . and prefix a DNS name of up to 253"
_CONTROL_KEYS = frozenset({ACCEPT, IGNORE, PAUSED, RELEASED})
_KUBECTL_KEYS = "kubectl.kubernetes.io/*"
_SIMILARITY = 0.9
"""At least this for a key that is probably misspelt, as `difflib` measures it."""


class Linter:
    """The rules for one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        kinds = _named_kinds(settings)
        registry = self._registry = registry_of(settings, kinds, vocabularies=VOCABULARIES)
        self._kinds_in_settings = {
            vocabulary.name: {kinds[name] for name in vocabulary.kinds(own) if name in kinds}
            for vocabulary, own in named_vocabularies(settings, VOCABULARIES)
        }
        """By vocabulary."""
        self._codec = Codec(registry.managers | {PRESERVED_WRITES["fieldManager"]})
        self._near_misses = NearMissRules(registry)
        self._served = [source_type for source_type in registry.source_types if source_type.enabled]
        request_keys = frozenset().union(*(source_type.source.metadata_keys for source_type in registry.source_types))
        marks = frozenset().union(*(source_type.ownership.marks for source_type in registry.source_types))
        # A mark of one source type can be a key that people write for another: a namespace can name its parent itself.
        self._marks = marks - request_keys | NEVER_BY_HAND
        self._known_keys = registry.metadata_keys | _CONTROL_KEYS | NEVER_BY_HAND
        self._writable_keys = sorted(key for key in self._known_keys - self._marks if _prefix(key))
        """Those that people may write, as suggestions for misspelt ones."""
        self._our_prefixes = {_prefix(key) for key in self._known_keys if _prefix(key)}
        self._shared_prefixes = frozenset().union(*(vocabulary.shared_prefixes for vocabulary in VOCABULARIES))
        """Other programs have keys with these prefixes, too."""
        self._unserved_keys = {
            key: expected if vocabulary.name in settings.vocabularies else ""
            for vocabulary in VOCABULARIES
            for key, expected in vocabulary.unserved_keys.items()
        }
        """Empty if the settings do not name the vocabulary: then the original may well serve the key."""
        patterns, more = (_KUBECTL_KEYS, *NOT_COPIED_BY_DEFAULT), settings.never_copied
        self._not_copied = {"label": (*patterns, *more.labels), "annotation": (*patterns, *more.annotations)}
        """Patterns of the keys that copies do not get."""

    def check(self, manifest: Manifest) -> Iterator[Finding]:
        """Everything that is wrong with a manifest, apart from what a server or an operator has added to it."""
        kind = self._kind(manifest)
        observed = observed_object(manifest, kind, self._codec)
        manifest = written_by_people(manifest, observed)
        reported = set[Entry]()
        for entry in manifest.metadata:
            findings = list(self._illegal_key(manifest, entry)) or list(
                self._metadata_findings(manifest, entry, observed)
            )
            if findings:
                reported.add(entry)
            yield from findings
        yield from faulty_keys(manifest, self._settings)
        for source_type in self._served:
            source = source_type.source
            if isinstance(source, Annotated):
                yield from self._annotated_findings(manifest, observed, source_type, source, reported)
            elif source.kind == kind:
                yield from self._custom_resource_findings(manifest, source_type, source)

    def has_unproven_marks(self, manifest: Manifest) -> bool:
        """True for an object of a cluster with marks, if managedFields do not show who wrote these."""
        return hides_managers(manifest) and any(entry.key in self._marks for entry in manifest.metadata)

    def _kind(self, manifest: Manifest) -> Kind:
        """The kind under which the operator watches the object.

        The version need not be the same, because the server converts it. The core group has no other version.
        """
        version = manifest.api_version.rpartition("/")[2]
        for kind in self._registry.kinds:
            if (kind.group, kind.name) == (manifest.group, manifest.kind) and (kind.group or kind.version == version):
                return kind
        name = quoted(manifest.kind)[1:-1]  # without control characters, because findings show it
        return Kind(manifest.group, version, name, name.lower())

    # Labels and annotations

    def _illegal_key(self, manifest: Manifest, entry: Entry) -> Iterator[Finding]:
        """A key for which the server refuses the object. It allows upper case in the prefix of an annotation key."""
        fault = _key_fault(entry.key if entry.where == "label" else entry.key.lower())
        if fault is not None:
            yield manifest.finding(entry.line, entry.key, fault, self._similar_key(entry.key) or _KEY_FORM)

    def _similar_key(self, key: str) -> str:
        """The key of ours that an illegal key was probably meant to be, or an empty text."""
        is_ours = key.partition("/")[0] in self._our_prefixes
        return next(iter(get_close_matches(key, self._writable_keys, 1, _SIMILARITY)), "") if is_ours else ""

    def _metadata_findings(self, manifest: Manifest, entry: Entry, observed: Object) -> Iterator[Finding]:
        yield from self._value_findings(manifest, entry, observed)
        if entry.key in self._marks:
            if hides_managers(manifest):
                return  # nearly always Samara wrote it: `has_unproven_marks` counts these objects
            expected = "no such key: Samara writes this mark on the copies it makes"
            yield manifest.finding(entry.line, entry.key, "a mark written by hand", expected)
        elif (miss := self._near_misses.of_key(FIELDS[entry.where], entry.key)) is not None:
            yield manifest.finding(entry.line, entry.key, miss.found, miss.expected)
        elif entry.key not in self._known_keys and (expected := self._correction(entry.key)):
            yield manifest.finding(entry.line, entry.key, "an unknown key", expected)

    def _correction(self, key: str) -> str:
        """What to write in place of an unknown key. Empty if the key may belong to another program."""
        prefix, _, name = key.rpartition("/")
        keys = [known for known in self._writable_keys if _prefix(known) == prefix]
        candidates = (*keys, *(known for known in self._unserved_keys if _prefix(known) == prefix))
        similar = get_close_matches(name, [known.rpartition("/")[2] for known in candidates], 1)
        if similar:
            intended = f"{prefix}/{similar[0]}"
            return self._unserved_keys.get(intended, intended)
        if prefix not in self._our_prefixes - self._shared_prefixes:
            return ""
        return f"one of {', '.join(keys)}" if keys else "no such key: only Samara writes keys with this prefix"

    def _value_findings(self, manifest: Manifest, entry: Entry, observed: Object) -> Iterator[Finding]:
        is_null_allowed = entry.where == "annotation" and entry.key not in _CONTROL_KEYS
        if entry.value is None and not (is_null_allowed and entry.description == "null"):
            yield manifest.finding(entry.line, entry.key, self._describe_no_text(entry), "text in quotes")
        elif findings := list(_label_value_findings(manifest, entry)):
            yield from findings
        elif entry.key in _CONTROL_KEYS and entry.value is not None:
            where, view = FIELDS[entry.where], self._view_of(observed)
            mistake = self._near_misses.control_mistake(observed, where, entry.key, entry.value, view)
            if mistake is not None:
                yield manifest.finding(entry.line, entry.key, mistake.found, mistake.expected)

    def _describe_no_text(self, entry: Entry) -> str:
        """A value that is not a text. Under a key that is not ours only its type, since the value may be a secret."""
        is_ours = entry.key in self._known_keys or _prefix(entry.key) in self._our_prefixes - self._shared_prefixes
        return entry.description if is_ours else entry.description.partition(" (")[0]

    # Annotated objects

    def _annotated_findings(
        self,
        manifest: Manifest,
        observed: Object,
        source_type: SourceType,
        source: Annotated,
        reported: AbstractSet[Entry],
    ) -> Iterator[Finding]:
        """What is wrong with the keys of one source type. `reported` are the entries that have a finding already."""
        kind, entries = observed.ref.kind, self._entries_for(source, manifest)
        if not entries:
            return
        for key in sorted(entries):
            expected = self._expected_kind(source_type, source, key, kind)
            if expected:  # one finding, however many keys are on this object
                found = f"on a {kind.name}"
                yield manifest.finding(entries[key].line, entries[key].key, found, expected)
                return
        view = self._view_of(observed)
        on_copy = self._near_misses.request_on_copy(observed, source_type, source, entries.keys(), view)
        if on_copy is not None:
            yield self._finding_in_metadata(manifest, entries, on_copy)
            return
        obj = self._object(manifest, kind, source, entries)
        refused = {key for key, entry in entries.items() if entry.value is None and not _is_null_annotation(entry)}
        mistakes = [mistake for mistake in self._mistakes(source_type, obj) if mistake.field not in refused]
        yield from (self._finding_in_metadata(manifest, entries, mistake) for mistake in mistakes)
        for key in entries.keys() - refused - {mistake.field for mistake in mistakes}:
            if entries[key].value is None:
                yield manifest.finding(entries[key].line, entries[key].key, "null", 'text in quotes, if only ""')
        if source_type.ownership.marks and source_type.is_source(obj, self._view_of(obj)):
            yield from self._not_copied_findings(manifest, reported)

    def _entries_for(self, source: Annotated, manifest: Manifest) -> dict[str, Entry]:
        """The labels and annotations that a source type reads, by key.

        If the object has one of its keys, an illegal key counts as the key that it was probably meant to be, so that
        this key is not reported as missing.
        """
        entries = [entry for entry in manifest.metadata if (entry.where == "label") == (entry.key in source.labels)]
        legal = {entry.key: entry for entry in entries if entry.key in source.metadata_keys}
        if not legal:
            return {}
        illegal = {self._similar_key(entry.key): entry for entry in entries if _key_fault(entry.key) is not None}
        return {**{key: entry for key, entry in illegal.items() if key in source.metadata_keys}, **legal}

    def _expected_kind(self, source_type: SourceType, source: Annotated, key: str, kind: Kind) -> str:
        """The kinds on which a key has an effect, if this kind is none of them. Otherwise an empty text."""
        expected = self._near_misses.wrong_kind(source, key, kind)
        kinds = source.kinds.get(key, ())
        is_setting = bool(kinds) and self._kinds_in_settings.get(source_type.vocabulary, set()).issuperset(kinds)
        hint = f" (see the settings of vocabularies.{source_type.vocabulary})" if expected and is_setting else ""
        return f"{expected}{hint}"

    def _object(self, manifest: Manifest, kind: Kind, source: Annotated, entries: Mapping[str, Entry]) -> Object:
        """The object as the server reads it: an annotation that is null is an empty text."""
        texts = {
            where: {
                entry.key: entry.value
                for entry in manifest.metadata
                if entry.where == where and entry.value is not None
            }
            for where in FIELDS
        }
        for key, entry in entries.items():
            texts["label" if key in source.labels else "annotation"][key] = entry.value or ""
        ref = Ref(kind, manifest.namespace if kind.namespaced else "", _name(manifest))
        return Object(ref, "", 1, labels=texts["label"], annotations=texts["annotation"])

    def _not_copied_findings(self, manifest: Manifest, reported: AbstractSet[Entry]) -> Iterator[Finding]:
        """Labels, annotations and types of Secrets that are never copied. Our own keys are not reported."""
        for entry in manifest.metadata:
            is_ours = entry.key in self._known_keys or entry in reported
            if not is_ours and matches_any_glob(self._not_copied[entry.where], entry.key):
                mistake = not_copied(FIELDS[entry.where], entry.key)
                yield manifest.finding(entry.line, entry.key, mistake.found, mistake.expected)
        type_ = manifest.type
        if type_ is not None and type_.value in NEVER_COPIED_TYPES:
            expected = "another type: Secrets of this type are never copied"
            yield manifest.finding(type_.line, "type", quoted(type_.value), expected)

    # Custom resources

    def _custom_resource_findings(
        self, manifest: Manifest, source_type: SourceType, source: CustomResource
    ) -> Iterator[Finding]:
        served = served_versions(source.kind)
        if manifest.api_version not in served:
            expected = f"{' or '.join(served)}: no other version is served"
            line = locate(manifest.root, "apiVersion").line
            yield manifest.finding(line, "apiVersion", quoted(manifest.api_version), expected)
        node = locate(manifest.root, "spec").node
        spec = as_json(node) if node is not None else None
        if node is not None and spec is None:
            line, found = locate(manifest.root, "spec").line, "a value that JSON does not have"
            yield manifest.finding(line, "spec", found, "values that can be written as JSON")
            return
        content = Content((Field("spec", spec, spec),)) if spec is not None else Content()
        namespace = manifest.namespace if source.kind.namespaced else ""
        obj = Object(Ref(source.kind, namespace, _name(manifest)), "", 1, content)
        mistakes = list(self._mistakes(source_type, obj))
        yield from (self._finding_in_field(manifest, mistake) for mistake in mistakes)
        fields = {mistake.field for mistake in mistakes}
        if _name(manifest) and not is_dns_subdomain(_name(manifest)) and "metadata.name" not in fields:
            yield self._finding_in_field(manifest, Mistake("metadata.name", "a DNS subdomain", quoted(_name(manifest))))
        nodes = {id(locate(manifest.root, field).node) for field in fields}
        for misfit in misfits(source.kind, manifest.api_version, manifest.root):
            if id(misfit.node) not in nodes:  # the vocabulary has a better message
                yield manifest.finding(misfit.line, misfit.path, misfit.found, misfit.expected)
        for root in embedded(source.kind, manifest.api_version, manifest.root):
            for entry in manifest_of(manifest.file, root).metadata:
                yield from list(self._illegal_key(manifest, entry)) or list(_label_value_findings(manifest, entry))

    # Mistakes that the vocabularies find

    def _mistakes(self, source_type: SourceType, obj: Object) -> Iterator[Mistake]:
        """The mistakes that the source type's own lint finds, and those behind the faults of the desired state.

        A fault without a field concerns the cluster and not the manifest. A fault without mistakes is shown with its
        message, unless the lint has found a mistake in the same field.
        """
        own = [*_ineffective(source_type, obj), *source_type.source.lint(obj)]
        yield from own
        view = self._view_of(obj)
        is_source = source_type.is_source(obj, view)
        if is_source and source_type.selected_labels is not None:
            for field, key in source_type.selected_labels(obj):
                yield from (
                    _chosen(field, key, chosen) for chosen in self._registry.chosen_labels if chosen.admits(key)
                )
        faults = source_type.desired(obj.ref, view).faults if is_source else ()
        for fault in faults:
            yield from fault.mistakes
            if fault.field and not fault.mistakes and not any(_is_in(mistake.field, fault.field) for mistake in own):
                yield Mistake(fault.field, "a value that can be served", fault.message)

    def _view_of(self, obj: Object) -> View:
        """A cluster with only this object in it."""
        cache = Cache(self._registry, build_content=self._codec.content, readings=NO_READINGS)
        if obj.ref.kind in self._registry.kinds:
            cache.put(obj)
        return cache

    def _finding_in_metadata(self, manifest: Manifest, entries: Mapping[str, Entry], mistake: Mistake) -> Finding:
        entry = entries.get(mistake.field)
        if entry is None or mistake.at:
            return self._finding_in_field(manifest, mistake)
        return manifest.finding(entry.line, mistake.field, mistake.found or entry.description, mistake.expected)

    def _finding_in_field(self, manifest: Manifest, mistake: Mistake) -> Finding:
        place = locate(manifest.root, mistake.at or mistake.field)
        found = mistake.found or describe_type(place.node)
        return manifest.finding(place.line, mistake.field, found, mistake.expected)


def _named_kinds(settings: Settings) -> dict[KindName, Kind]:
    """The kinds that the settings name, without those for which the operator does not start.

    The plural of a kind that is not well known is a guess, because only a cluster can tell.
    """
    kinds: dict[KindName, Kind] = {}
    for vocabulary, own in named_vocabularies(settings, VOCABULARIES):
        for name in vocabulary.kinds(own):
            kind = WELL_KNOWN.get(name) or Kind(name.group, name.version, name.kind, name.kind.lower())
            if vocabulary.rights.refused_kind(vocabulary.name, (kind,)) is None:
                kinds[name] = kind
    return kinds


def _chosen(field: str, key: str, chosen: ChosenLabels) -> Mistake:
    expected = f"a label that no tenant chooses, or the key {key} in full in the setting {chosen.setting}"
    return Mistake(field, expected, f"a selector by the label {key}, which a pattern lets tenants choose")


def _ineffective(source_type: SourceType, obj: Object) -> Iterable[Mistake]:
    return source_type.source.ineffective(obj) if isinstance(source_type.source, Annotated) else ()


def _name(manifest: Manifest) -> str:
    return (manifest.name.value or "") if manifest.name is not None else ""


def _is_in(field: str, outer: str) -> bool:
    return field == outer or field.startswith((f"{outer}.", f"{outer}["))


def _is_null_annotation(entry: Entry) -> bool:
    """True for null, which the server reads as an empty text. It refuses a null label and any other type."""
    return entry.where == "annotation" and entry.description == "null"


def _prefix(key: str) -> str:
    return key.rpartition("/")[0]


def _label_value_findings(manifest: Manifest, entry: Entry) -> Iterator[Finding]:
    if entry.where == "label" and entry.value and not is_label_value(entry.value):
        yield manifest.finding(entry.line, entry.key, "a value that a label cannot have", LABEL_VALUE_FORM)


def _key_fault(key: str) -> str | None:
    """Why the server refuses a label or annotation key. None if it is legal."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return f"{key.count('/')} slashes in a key"
    if slash and not is_dns_subdomain(prefix):
        return "a prefix that is no DNS name of up to 253 characters"
    if len(name) > LABEL_LENGTH:
        return f"a name of {len(name)} characters"
    return None if is_label_value(name) else "a name with characters that a key cannot have"
