"""The part of the cache that holds answers to queries, and how admission plugins change our writes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from weakref import WeakKeyDictionary

from samara.core.kinds import rules_for
from samara.core.model import Content, Kind
from samara.core.queries import (
    UNREAD,
    CrdExists,
    DryRunCreate,
    IsGone,
    NamespaceIsActive,
    OwnerAnnotation,
    Query,
    SecretPath,
    SecretReading,
)

Build = Callable[[Mapping[str, object]], Content]
"""Builds content from fields, as `Codec.content` does."""
NO_READINGS: Mapping[str, SecretReading] = MappingProxyType({})
"""For a cluster without a secret manager."""
_MAX_ANSWERS = 1000
_MAX_BYTES = 64 * 2**20
_DIGEST_SIZE = 16
QueryId = str | CrdExists | IsGone | NamespaceIsActive | OwnerAnnotation | tuple[Kind, bytes]
"""Identifies a query: a dry run by its kind and a keyed digest of its body, any other query by itself."""


class Answers:
    """Holds a bounded number of answers. If an answer was dropped, the next plan asks again."""

    def __init__(
        self,
        built: Build,
        sources: Callable[[], int],
        readings: Mapping[str, SecretReading],
    ) -> None:
        self._built = built
        self._sources = sources
        """The number of sources. With fewer answers than sources, each answer could be dropped before it is used."""
        self._readings = readings
        """By path: the readings of the secret poller, which updates this mapping itself."""
        self._key = secrets.token_bytes(32)
        self._ids: WeakKeyDictionary[DryRunCreate, QueryId] = WeakKeyDictionary()
        """For dry runs in use. All slices of a plan share one query, so a body of a megabyte is digested once."""
        self._answers: dict[QueryId, object] = {}
        self._bytes = 0
        self._admitted: dict[tuple[Kind, Content], set[Content]] = {}

    def _id(self, read: Query) -> QueryId:
        assert not isinstance(read, SecretPath), "the secret poller holds these"
        if not isinstance(read, DryRunCreate):
            return read
        query_id = self._ids.get(read)
        if query_id is None:
            digest = hashlib.blake2b(read.body, digest_size=_DIGEST_SIZE, key=self._key).digest()
            query_id = self._ids[read] = (read.kind, digest)
        return query_id

    def value(self, read: Query) -> object:
        if isinstance(read, SecretPath):
            return self._readings.get(read.path, UNREAD)
        query_id = self._id(read)
        answer = self._answers.pop(query_id, UNREAD)
        if answer is not UNREAD:
            self._answers[query_id] = answer  # moved to the end, so that the least recently used is dropped first
        return answer

    def keep(self, read: Query, answer: object) -> None:
        """Keeps an answer, but not the body of a dry run, which may have a megabyte."""
        self.forget(read)
        self._answers[self._id(read)] = answer
        self._bytes += _size(answer)
        while len(self._answers) > 1 and (len(self._answers) > self._max_answers() or self._bytes > _MAX_BYTES):
            self._drop(next(iter(self._answers)))

    def add_readings(self, readings: Mapping[str, SecretReading]) -> None:
        """For commands, which have no secret poller and read each path once."""
        self._readings = {**self._readings, **readings}

    def _max_answers(self) -> int:
        return _MAX_ANSWERS + self._sources()

    def forget(self, read: Query) -> None:
        self._drop(self._id(read))

    def _drop(self, query_id: QueryId) -> None:
        self._bytes -= _size(self._answers.pop(query_id, None))

    def content(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        """The fields as the API server stores them. None if it would not store them, or if no rule is known."""
        normal = rules_for(kind).canonical
        stored = normal(fields) if normal is not None else None
        return None if stored is None else self._built(stored)

    def is_admitted_form(self, kind: Kind, sent: Content, stored: Content) -> bool:
        """True if the API server has once stored this content for what we sent: a webhook changed it, for example."""
        return stored in self._admitted.get((kind, sent), ())

    def record_admitted(self, kind: Kind, sent: Content, stored: Content) -> None:
        """Remembers what the API server stored for what we sent."""
        if sent != stored:
            self._admitted.setdefault((kind, sent.digests_only()), set()).add(stored.digests_only())
            while len(self._admitted) > _MAX_ANSWERS:
                del self._admitted[next(iter(self._admitted))]  # the oldest


def _size(answer: object) -> int:
    return sum(len(field.raw or b"") for field in answer.fields) if isinstance(answer, Content) else 0
