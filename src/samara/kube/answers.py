"""The part of the cache that holds the answers to queries, and what the API server stored for what we sent."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from weakref import WeakKeyDictionary

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

NO_READINGS: Mapping[str, SecretReading] = MappingProxyType({})
"""For a cluster without a secret manager."""
_MAX_ANSWERS = 1000
_MAX_BYTES = 64 * 2**20
_DIGEST_SIZE = 16
QueryId = str | CrdExists | IsGone | NamespaceIsActive | OwnerAnnotation | tuple[Kind, bytes]
"""Identifies a query: a dry run by its kind and a keyed digest of its body, any other query by itself."""


class Answers:
    """Holds a bounded number of answers: the oldest is dropped first, and the next plan that needs it asks again."""

    def __init__(
        self,
        count_sources: Callable[[], int],
        readings: Mapping[str, SecretReading],
    ) -> None:
        self._count_sources = count_sources
        self._readings = readings
        """By path: the readings of the secret poller, which updates this mapping itself."""
        self._key = secrets.token_bytes(32)
        self._ids: WeakKeyDictionary[DryRunCreate, QueryId] = WeakKeyDictionary()
        """For dry runs in use. All slices of a plan share one query, so a body of a megabyte is digested once."""
        self._answers: dict[QueryId, object] = {}
        self._bytes = 0
        self._admitted: dict[tuple[Kind, Content], set[Content]] = {}
        """By kind and the content we sent: every other content that the API server stored for it."""

    def _id(self, query: Query) -> QueryId:
        assert not isinstance(query, SecretPath), "the secret poller holds these"
        if not isinstance(query, DryRunCreate):
            return query
        query_id = self._ids.get(query)
        if query_id is None:
            digest = hashlib.blake2b(query.body, digest_size=_DIGEST_SIZE, key=self._key).digest()
            query_id = self._ids[query] = (query.kind, digest)
        return query_id

    def value(self, query: Query) -> object:
        """The answer to a query. UNREAD if there is none, or if it was dropped."""
        if isinstance(query, SecretPath):
            return self._readings.get(query.path, UNREAD)
        return self._answers.get(self._id(query), UNREAD)

    def keep(self, query: Query, answer: object) -> None:
        """Keeps an answer. Of a dry run it keeps no body, which may have a megabyte."""
        self.forget(query)
        self._answers[self._id(query)] = answer
        self._bytes += _size(answer)
        while len(self._answers) > 1 and (len(self._answers) > self._max_answers() or self._bytes > _MAX_BYTES):
            self._drop(next(iter(self._answers)))

    def add_readings(self, readings: Mapping[str, SecretReading]) -> None:
        """Adds readings. For commands, which have no secret poller and read each path once."""
        self._readings = {**self._readings, **readings}

    def _max_answers(self) -> int:
        """If this were less than the number of sources, each answer could be dropped before it is used."""
        return _MAX_ANSWERS + self._count_sources()

    def forget(self, query: Query) -> None:
        self._drop(self._id(query))

    def _drop(self, query_id: QueryId) -> None:
        self._bytes -= _size(self._answers.pop(query_id, None))

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
