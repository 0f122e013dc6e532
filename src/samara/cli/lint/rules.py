"""What no manifest can mean: illegal keys and values, marks by hand, misspelt keys, and what its vocabulary refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from samara.assembly import WELL_KNOWN, named_vocabularies, registry_of
from samara.cli.lint.definitions import embedded, misfits, served_versions
from samara.cli.lint.keys_file import faulty_keys
from samara.cli.lint.nodes import Finding, Manifest, Word, as_json, held_in, kind_of, spot
from samara.core.desired import Mistake, not_copied
from samara.core.kinds import NEVER_COPIED_TYPES
from samara.core.metadata_keys import ACCEPT, ADOPTED, IGNORE, NOT_COPIED_BY_DEFAULT, PAUSED, RELEASED
from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE, Content, Field, Kind, KindName, Object, Ref
from samara.core.names import LABEL_LENGTH, LABEL_VALUE, is_label_value, matches_any_glob, quoted, sample
from samara.core.policy import invalid_consent_items
from samara.core.selectors import is_dns_subdomain
from samara.core.source_type import Annotated, CustomResource, SourceType
from samara.core.view import View
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Cache
from samara.kube.codec import Codec
from samara.settings import Settings
from samara.vocabularies import VOCABULARIES

KEY_FORM = "name or prefix/name: name of up to 63 letters, digits, - _ . and prefix a DNS name of up to 253"
ACCEPTED = "a namespace, namespace:Kind/name or *, with commas between"
CONTROLS = frozenset({ACCEPT, IGNORE, PAUSED, RELEASED})
NEVER_BY_HAND = frozenset({ADOPTED})
STAYS = "kubectl.kubernetes.io/*"
_NEARLY = 0.9
_WHERE = {"label": LABELS, "annotation": ANNOTATIONS}


class Lint:
    """The rules for one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        kinds = _kinds(settings)
        registry = self._registry = registry_of(settings, kinds, vocabularies=VOCABULARIES)
        self._chosen = {
            vocabulary.name: {kinds[name] for name in vocabulary.kinds(own) if name in kinds}
            for vocabulary, own in named_vocabularies(settings)
        }
        """By vocabulary: the kinds that its settings name."""
        self._codec = Codec(registry.managers)
        self._served = [source_type for source_type in registry.source_types if source_type.enabled]
        asks = frozenset().union(*(source_type.source.metadata_keys for source_type in registry.source_types))
        # What one vocabulary writes as its mark another may let people write: a namespace can name its parent itself.
        marks = frozenset().union(*(source_type.ownership.marks for source_type in registry.source_types))
        self._marks = marks - asks | NEVER_BY_HAND
        self._known = registry.metadata_keys | CONTROLS | NEVER_BY_HAND
        self._spoken = sorted(key for key in self._known - self._marks if _prefix(key))
        self._ours = {_prefix(key) for key in self._known if _prefix(key)}
        self._shared = frozenset().union(*(vocabulary.shared_prefixes for vocabulary in VOCABULARIES))
        sources = [source_type.source for source_type in self._served]
        annotated = [source for source in sources if isinstance(source, Annotated)]
        self._labels = frozenset().union(*(source.labels for source in annotated))
        self._annotations = frozenset().union(*(source.metadata_keys - source.labels for source in annotated))
        stays = (STAYS, *NOT_COPIED_BY_DEFAULT)
        never = settings.never_copied
        self._stays = {"label": (*stays, *never.labels), "annotation": (*stays, *never.annotations)}

    def all(self, manifest: Manifest) -> Iterator[Finding]:
        for word in manifest.words:
            yield from list(self._key(manifest, word)) or list(self._word(manifest, word))
        yield from faulty_keys(manifest, self._settings)
        kind = self._kind(manifest)
        for source_type in self._served:
            source = source_type.source
            if isinstance(source, Annotated):
                yield from self._annotated(manifest, kind, source_type, source)
            elif source.kind == kind:
                yield from self._custom_resource(manifest, source_type, source)

    def _kind(self, manifest: Manifest) -> Kind:
        """The server converts an object to the version that is watched. In the core group there is only one."""
        version = manifest.api_version.rpartition("/")[2]
        for kind in self._registry.kinds:
            if (kind.group, kind.name) == (manifest.group, manifest.kind) and (kind.group or kind.version == version):
                return kind
        return Kind(manifest.group, version, manifest.kind, manifest.kind.lower())

    # Labels and annotations

    def _key(self, manifest: Manifest, word: Word) -> Iterator[Finding]:
        """The server refuses an object with an illegal key as a whole; those of annotations it judges in lower case."""
        found = _illegal(word.key if word.where == "label" else word.key.lower())
        if found is not None:
            yield manifest.finding(word.line, word.key, found, self._nearly(word.key) or KEY_FORM)

    def _nearly(self, key: str) -> str:
        """The key of ours that an illegal one should be, or an empty text."""
        is_ours = key.partition("/")[0] in self._ours
        return next(iter(get_close_matches(key, self._spoken, 1, _NEARLY)), "") if is_ours else ""

    def _word(self, manifest: Manifest, word: Word) -> Iterator[Finding]:
        yield from self._value(manifest, word)
        if word.key in self._marks:
            expected = "no such key: Samara writes this mark on the copies it makes"
            yield manifest.finding(word.line, word.key, "a mark written by hand", expected)
        elif word.key in self._annotations - self._labels and word.where == "label":
            yield manifest.finding(word.line, word.key, "a label", "an annotation: a label of this key does nothing")
        elif word.key in self._labels - self._annotations and word.where == "annotation":
            yield manifest.finding(
                word.line, word.key, "an annotation", "a label: an annotation of this key does nothing"
            )
        elif word.key not in self._known and (expected := self._meant(word.key)):
            yield manifest.finding(word.line, word.key, "a key that means nothing", expected)

    def _meant(self, key: str) -> str:
        """The word that a misspelt one should be; nothing where it need not be one of ours."""
        prefix, _, name = key.rpartition("/")
        spoken = [word for word in self._spoken if _prefix(word) == prefix]
        near = get_close_matches(name, [word.rpartition("/")[2] for word in spoken], 1)
        if near:
            return f"{prefix}/{near[0]}"
        if prefix not in self._ours - self._shared:
            return ""
        return f"one of {', '.join(spoken)}" if spoken else "no such key: people say nothing by keys of this prefix"

    def _value(self, manifest: Manifest, word: Word) -> Iterator[Finding]:
        if word.value is None and (word.where == "label" or word.found != "null" or word.key in CONTROLS):
            yield manifest.finding(word.line, word.key, self._unquoted(word), "text in quotes")
        elif wrong := list(_label_value(manifest, word)):
            yield from wrong
        elif word.key == ACCEPT:
            yield from _consent(manifest, word)
        elif word.key == IGNORE and manifest.kind != NAMESPACE.name:
            found = f"on a {quoted(manifest.kind)[1:-1]}"
            yield manifest.finding(word.line, word.key, found, "a Namespace: on anything else it does nothing")
        elif word.key in (IGNORE, PAUSED) and word.value not in ("true", "false", None):
            yield manifest.finding(word.line, word.key, word.found, '"true"; anything else is as if it were absent')

    def _unquoted(self, word: Word) -> str:
        """Of a key that is none of ours the value is not shown: it can be anything."""
        ours = word.key in self._known or _prefix(word.key) in self._ours - self._shared
        return word.found if ours else word.found.partition(" (")[0]

    # Annotated objects

    def _annotated(
        self, manifest: Manifest, kind: Kind, source_type: SourceType, source: Annotated
    ) -> Iterator[Finding]:
        words = self._read_by(source, manifest)
        if not words:
            return
        for key in sorted(words):
            expected = self._misplaced(source_type, source, key, kind)
            if expected:  # one finding, however many keys are on this object
                found = f"on a {quoted(manifest.kind)[1:-1]}"
                yield manifest.finding(words[key].line, words[key].key, found, expected)
                return
        obj = self._object(manifest, kind, source, words)
        unread = {key for key, word in words.items() if word.value is None and not _is_null_annotation(word)}
        mistakes = [mistake for mistake in self._mistakes(source_type, obj) if mistake.field not in unread]
        yield from (self._at_word(manifest, words, mistake) for mistake in mistakes)
        for key in words.keys() - unread - {mistake.field for mistake in mistakes}:
            if words[key].value is None:
                yield manifest.finding(words[key].line, words[key].key, "null", 'text in quotes, if only ""')
        if source_type.ownership.marks and source_type.is_source(obj, self._alone(obj)):
            yield from self._left_behind(manifest)

    def _read_by(self, source: Annotated, manifest: Manifest) -> dict[str, Word]:
        """By key. Beside a legal key an illegal one counts as the one that it nearly is, which then is not missing."""
        words = [word for word in manifest.words if (word.where == "label") == (word.key in source.labels)]
        found = {word.key: word for word in words if word.key in source.metadata_keys}
        meant = {self._nearly(word.key): word for word in words if _illegal(word.key) is not None} if found else {}
        return {**{key: word for key, word in meant.items() if key in source.metadata_keys}, **found}

    def _misplaced(self, source_type: SourceType, source: Annotated, key: str, kind: Kind) -> str:
        """What should stand in place of an object on which a key has no effect, or an empty text."""
        kinds = source.kinds.get(key, (kind,))
        if kind in kinds:
            return ""
        if not kinds:
            never = kind in self._registry.always_cached
            return f"another kind: a {kind.name} is never copied" if never else ""
        what = "label" if key in source.labels else "key"
        names = ", ".join(sorted(kind.name for kind in kinds))
        among = f"one of {names}" if kinds[1:] else f"the kind {names}"
        is_chosen = self._chosen.get(source_type.vocabulary, set()).issuperset(kinds)
        hint = f" (see the settings of vocabularies.{source_type.vocabulary})" if is_chosen else ""
        return f"{among}: on any other kind this {what} does nothing{hint}"

    def _object(self, manifest: Manifest, kind: Kind, source: Annotated, words: Mapping[str, Word]) -> Object:
        """As the server reads it: an annotation that is null is an empty text."""
        given = {
            where: {word.key: word.value for word in manifest.words if word.where == where and word.value is not None}
            for where in _WHERE
        }
        for key, word in words.items():
            given["label" if key in source.labels else "annotation"][key] = word.value or ""
        ref = Ref(kind, manifest.namespace if kind.namespaced else "", _name(manifest))
        return Object(ref, "", 1, labels=given["label"], annotations=given["annotation"])

    def _left_behind(self, manifest: Manifest) -> Iterator[Finding]:
        """Keys and contents that are never copied. Our own keys are nowhere expected to travel."""
        for word in manifest.words:
            if word.key not in self._known and matches_any_glob(self._stays[word.where], word.key):
                mistake = not_copied(_WHERE[word.where], word.key)
                yield manifest.finding(word.line, word.key, mistake.found, mistake.expected)
        type_ = manifest.type
        if type_ is not None and type_.value in NEVER_COPIED_TYPES:
            expected = "another type: Secrets of this type are never copied"
            yield manifest.finding(type_.line, "type", quoted(type_.value), expected)

    # Custom resources

    def _custom_resource(
        self, manifest: Manifest, source_type: SourceType, source: CustomResource
    ) -> Iterator[Finding]:
        served = served_versions(source.kind)
        if manifest.api_version not in served:
            expected = f"{' or '.join(served)}: no other version is served"
            line = spot(manifest.root, "apiVersion").line
            yield manifest.finding(line, "apiVersion", quoted(manifest.api_version), expected)
        node = spot(manifest.root, "spec").node
        spec = as_json(node) if node is not None else None
        if node is not None and spec is None:
            line, found = spot(manifest.root, "spec").line, "a value that JSON does not have"
            yield manifest.finding(line, "spec", found, "values that can be written as JSON")
            return
        content = Content((Field("spec", spec, spec),)) if spec is not None else Content()
        namespace = manifest.namespace if source.kind.namespaced else ""
        obj = Object(Ref(source.kind, namespace, _name(manifest)), "", 1, content)
        mistakes = list(self._mistakes(source_type, obj))
        yield from (self._at(manifest, mistake) for mistake in mistakes)
        fields = {mistake.field for mistake in mistakes}
        if _name(manifest) and not is_dns_subdomain(_name(manifest)) and "metadata.name" not in fields:
            yield self._at(manifest, Mistake("metadata.name", "a DNS subdomain", quoted(_name(manifest))))
        nodes = {id(spot(manifest.root, field).node) for field in fields}
        for misfit in misfits(source.kind, manifest.api_version, manifest.root):
            if id(misfit.node) not in nodes:  # the vocabulary says it better
                yield manifest.finding(misfit.line, misfit.path, misfit.found, misfit.expected)
        for root in embedded(source.kind, manifest.api_version, manifest.root):
            for word in held_in(manifest, root).words:
                yield from list(self._key(manifest, word)) or list(_label_value(manifest, word))

    # What the vocabularies say

    def _mistakes(self, source_type: SourceType, obj: Object) -> Iterator[Mistake]:
        """The faults of the desired state, and what the source type has to add.

        A fault without a field is one of the cluster. One that does not say what to correct is shown as it is, unless
        the source type has found a mistake in the same field.
        """
        own = list(source_type.source.lint(obj))
        yield from own
        alone = self._alone(obj)
        faults = source_type.desired(obj.ref, alone).faults if source_type.is_source(obj, alone) else ()
        for fault in faults:
            yield from fault.mistakes
            if fault.field and not fault.mistakes and not any(_is_in(mistake.field, fault.field) for mistake in own):
                yield Mistake(fault.field, "a value that can be served", fault.message)

    def _alone(self, obj: Object) -> View:
        """A cluster with nothing in it but this object."""
        cache = Cache(self._registry, build_content=self._codec.content, readings=NO_READINGS)
        if obj.ref.kind in self._registry.kinds:
            cache.put(obj)
        return cache

    def _at_word(self, manifest: Manifest, words: Mapping[str, Word], mistake: Mistake) -> Finding:
        word = words.get(mistake.field)
        if word is None or mistake.at:
            return self._at(manifest, mistake)
        return manifest.finding(word.line, mistake.field, mistake.found or word.found, mistake.expected)

    def _at(self, manifest: Manifest, mistake: Mistake) -> Finding:
        place = spot(manifest.root, mistake.at or mistake.field)
        found = mistake.found or kind_of(place.node)
        return manifest.finding(place.line, mistake.field, found, mistake.expected)


def _kinds(settings: Settings) -> dict[KindName, Kind]:
    """The kinds that the settings name, less those that stop the start. Only a cluster knows more of them."""
    found: dict[KindName, Kind] = {}
    for vocabulary, own in named_vocabularies(settings):
        for name in vocabulary.kinds(own):
            kind = WELL_KNOWN.get(name) or Kind(name.group, name.version, name.kind, name.kind.lower())
            if vocabulary.refused_kind(vocabulary.name, (kind,)) is None:
                found[name] = kind
    return found


def _name(manifest: Manifest) -> str:
    return (manifest.name.value or "") if manifest.name is not None else ""


def _is_in(field: str, outer: str) -> bool:
    return field == outer or field.startswith((f"{outer}.", f"{outer}["))


def _is_null_annotation(word: Word) -> bool:
    """The server takes it for an empty text. Other values that are no text, and a label that is null, it refuses."""
    return word.where == "annotation" and word.found == "null"


def _prefix(key: str) -> str:
    return key.rpartition("/")[0]


def _label_value(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if word.where == "label" and word.value and not is_label_value(word.value):
        yield manifest.finding(word.line, word.key, "a value that a label cannot have", LABEL_VALUE)


def _consent(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if (manifest.kind, word.where) != (NAMESPACE.name, "annotation"):
        yield manifest.finding(
            word.line, word.key, f"a {word.where} of a {manifest.kind}", "an annotation of a Namespace"
        )
    elif items := invalid_consent_items(word.value or ""):
        yield manifest.finding(word.line, word.key, sample(map(quoted, items)), ACCEPTED)


def _illegal(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return f"{key.count('/')} slashes in a key"
    if slash and not is_dns_subdomain(prefix):
        return "a prefix that is no DNS name of up to 253 characters"
    if len(name) > LABEL_LENGTH:
        return f"a name of {len(name)} characters"
    return None if is_label_value(name) else "a name with characters that a key cannot have"
