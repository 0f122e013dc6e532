"""Near misses: labels and annotations that nearly request something and have no effect, each with the correction.

`samara lint`, `samara why` and the operator's Events all ask these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple

from samara.core.desired import Mistake
from samara.core.metadata_keys import ADOPTED, CONTROL_KEYS, NAMED, PAUSED
from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE, Kind, Object
from samara.core.names import quoted
from samara.core.policy import control_mistake
from samara.core.registry import Registry
from samara.core.source_type import Annotated, SourceType
from samara.core.view import View

MOST_EDITS = 2
"""A key is a misspelt one of ours if at most so many characters are missing, superfluous or wrong."""
NEVER_BY_HAND = frozenset({ADOPTED, NAMED})
"""The control keys that no person writes."""
MOST_KEYS = 64
"""Of the labels of an object, and of its annotations, so many are compared. Clients can write any number."""
MOST_MISSES = 10
"""Of one object. More are not kept."""
_CACHED_KEYS = 4096


class NearMiss(NamedTuple):
    """A label or an annotation without effect, and what its author probably meant."""

    where: str
    """`LABELS` or `ANNOTATIONS`."""
    key: str
    found: str
    expected: str

    @property
    def message(self) -> str:
        return f"{self.key}: {self.found}; expected {self.expected}"


class _Keys(NamedTuple):
    """The keys that a label or an annotation is compared with."""

    labels: frozenset[str]
    annotations: frozenset[str]
    writable: tuple[str, ...]
    """Those that people may write, with the control keys. A key without a prefix is left out."""
    known: frozenset[str]
    """Those that are no misspelt ones."""


class NearMissRules:
    """Finds near misses of the vocabularies that are served.

    Keys of the others are no near misses: their original controllers may read them.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._served = [
            (source_type, source_type.source)
            for source_type in registry.source_types
            if source_type.enabled and isinstance(source_type.source, Annotated)
        ]
        sources = [source for _, source in self._served]
        labels = frozenset[str]().union(*(source.labels for source in sources))
        annotations = frozenset[str]().union(*(source.metadata_keys - source.labels for source in sources))
        writable = sorted({key for key in labels | annotations if "/" in key} | (CONTROL_KEYS - NEVER_BY_HAND))
        known = registry.metadata_keys | CONTROL_KEYS | registry.keys_of_others
        self._requests = labels | annotations | CONTROL_KEYS
        self.of_key = lru_cache(_CACHED_KEYS)(partial(_of_key, _Keys(labels, annotations, tuple(writable), known)))
        """Takes `LABELS` or `ANNOTATIONS`, and a key. The near miss that follows from these alone, or None."""

    def of_object(self, obj: Object, view: View) -> tuple[NearMiss, ...]:
        """Every near miss of an object, each key once. The first rule that applies to a key decides:

        it is misspelt; it is a label in place of an annotation or the reverse; it is on the wrong kind; it is on a
        copy; its vocabulary says that it has no effect there or with this value.
        """
        if obj.deleting or not self._may_miss(obj):
            return ()
        misses: dict[tuple[str, str], NearMiss] = {}
        for miss in self._all(obj, view):
            misses.setdefault((miss.where, miss.key), miss)
            if len(misses) == MOST_MISSES:
                break
        return tuple(misses.values())

    def wrong_kind(self, source: Annotated, key: str, kind: Kind) -> str:
        """What was expected in place of this kind. Empty if the key has an effect on it.

        If the settings name no kind at all, only the kinds that are never copied are wrong.
        """
        kinds = source.kinds.get(key, (kind,))
        if kind in kinds:
            return ""
        if not kinds:
            is_never_copied = kind in self._registry.always_cached
            return f"another kind: a {kind.name} is never copied" if is_never_copied else ""
        names = ", ".join(sorted(kind.name for kind in kinds))
        expected = f"one of {names}" if kinds[1:] else f"the kind {names}"
        return f"{expected}: on any other kind this {'label' if key in source.labels else 'key'} does nothing"

    def request_on_copy(
        self, obj: Object, source_type: SourceType, source: Annotated, keys: AbstractSet[str], view: View
    ) -> Mistake | None:
        """The first request among these keys, if the object is a copy that cannot be a source of this type."""
        requests = source.kinds.keys() & keys
        if not requests or not self._registry.is_mere_copy(obj, source_type, view):
            return None
        return Mistake(min(requests), "its source: a copy requests no copies itself", "on a copy")

    def control_mistake(self, obj: Object, where: str, key: str, value: str, view: View) -> Mistake | None:
        """What is wrong with a control key. A copy cannot be paused, unless it is itself a source, as in a tree."""
        is_namespace = obj.ref.kind == NAMESPACE
        if key == PAUSED and value != "false" and not is_namespace and self._registry.is_only_a_copy(obj, view):
            return Mistake(key, "its source or its Namespace: a copy cannot be paused", "on a copy")
        return control_mistake(obj.ref.kind.name, is_namespace, where, key, value)

    def may_miss(self, where: str, keys: Iterable[str]) -> bool:
        """False for the labels or annotations of most objects: none is a key of ours that people write, or resembles
        one."""
        return any(key in self._requests or self.of_key(where, key) is not None for key in islice(keys, MOST_KEYS))

    def _may_miss(self, obj: Object) -> bool:
        return self.may_miss(LABELS, obj.labels) or self.may_miss(ANNOTATIONS, obj.annotations)

    def _all(self, obj: Object, view: View) -> Iterator[NearMiss]:
        for where, metadata in ((LABELS, obj.labels), (ANNOTATIONS, obj.annotations)):
            for key, value in islice(metadata.items(), MOST_KEYS):
                if (miss := self.of_key(where, key)) is not None:
                    yield miss
                if key not in CONTROL_KEYS or (key == PAUSED and self._is_source(obj, view)):
                    continue  # the plan of a source reports its pause
                if (mistake := self.control_mistake(obj, where, key, value, view)) is not None:
                    yield NearMiss(where, key, mistake.found, mistake.expected)
        for source_type, source in self._served:
            keys = source.metadata_keys & obj.annotations.keys() - source.labels | source.labels & obj.labels.keys()
            if keys:
                yield from self._without_effect(obj, source_type, source, keys, view)

    def _is_source(self, obj: Object, view: View) -> bool:
        """True for a source that can be paused. The pause of a Namespace has another meaning."""
        return obj.ref.kind != NAMESPACE and next(self._registry.sources(obj, view), None) is not None

    def _without_effect(
        self, obj: Object, source_type: SourceType, source: Annotated, keys: AbstractSet[str], view: View
    ) -> Iterator[NearMiss]:
        """The keys of one source type on an object that is no source of it."""
        for key in sorted(keys):
            if expected := self.wrong_kind(source, key, obj.ref.kind):
                yield NearMiss(_where(source, key), key, f"on a {obj.ref.kind.name}", expected)
                return  # one is enough, however many keys are on this object
        on_copy = self.request_on_copy(obj, source_type, source, keys, view)
        for mistake in source.ineffective(obj) if on_copy is None else (on_copy,):
            yield _of_mistake(obj, source, mistake)


def _of_key(keys: _Keys, where: str, key: str) -> NearMiss | None:
    if key not in keys.known:
        meant = nearest(key, keys.writable)
        return NearMiss(where, key, "an unknown key", meant) if meant else None
    if where == LABELS and key in keys.annotations - keys.labels:
        return NearMiss(where, key, "a label", "an annotation: a label of this key does nothing")
    if where == ANNOTATIONS and key in keys.labels - keys.annotations:
        return NearMiss(where, key, "an annotation", "a label: an annotation of this key does nothing")
    return None


def _of_mistake(obj: Object, source: Annotated, mistake: Mistake) -> NearMiss:
    key = mistake.field
    found = mistake.found or quoted(_metadata(obj, source, key).get(key, ""))
    return NearMiss(_where(source, key), key, found, mistake.expected)


def _where(source: Annotated, key: str) -> str:
    return LABELS if key in source.labels else ANNOTATIONS


def _metadata(obj: Object, source: Annotated, key: str) -> Mapping[str, str]:
    return obj.labels if key in source.labels else obj.annotations


def nearest(key: str, candidates: Iterable[str]) -> str:
    """The candidate with the fewest edits to this key, if that are at most `MOST_EDITS`; otherwise an empty text."""
    distances = ((edits(key, candidate), candidate) for candidate in candidates)
    distance, meant = min(distances, default=(MOST_EDITS + 1, ""))
    return meant if distance <= MOST_EDITS else ""


def edits(one: str, other: str, most: int = MOST_EDITS) -> int:
    """How many characters must be added, removed or replaced to turn one text into the other.

    More than `most` are not counted: then it is some larger number.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    pairs = enumerate(zip(one, other, strict=False))
    differs = next((position for position, (left, right) in pairs if left != right), None)
    if differs is None:
        return abs(len(one) - len(other))
    if most == 0:
        return 1
    one, other = one[differs:], other[differs:]
    return 1 + min(
        edits(one[1:], other[1:], most - 1), edits(one[1:], other, most - 1), edits(one, other[1:], most - 1)
    )
