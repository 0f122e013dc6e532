"""What was learnt besides the objects themselves: values read, contents built, and what admission makes of a write."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from weakref import WeakKeyDictionary

from samara.core.kinds import row
from samara.core.model import Content, Kind
from samara.core.reads import UNREAD, Absence, Definition, Read, Reading, SecretPath, Standing, Trial, Word

Build = Callable[[Mapping[str, object]], Content]
"""Makes content of fields, as `Codec.content` does."""
NO_READINGS: Mapping[str, Reading] = MappingProxyType({})
_REMEMBERED = 1000
_MOST_BYTES = 64 * 2**20
_DIGEST_SIZE = 16
Name = str | Definition | Absence | Standing | Word | tuple[Kind, bytes]
"""What a read is known by: a trial by its kind and a keyed digest of its body, anything else by itself."""


class Answers:
    """A part of the cache; each memory is bounded, and what was forgotten is asked for again."""

    def __init__(
        self, built: Build | None, askers: Callable[[], int] = lambda: 0, readings: Mapping[str, Reading] = NO_READINGS
    ) -> None:
        self._built = built
        self._askers = askers
        """How many there are who may ask: were fewer answers kept, each of them would ask again and again."""
        self.readings = readings
        """By path: what the secret manager holds. Whoever reads it keeps this up to date."""
        self._key = secrets.token_bytes(32)
        self._names: WeakKeyDictionary[Trial, Name] = WeakKeyDictionary()
        """Of trials that somebody holds: ten thousand slices must not digest the same megabyte ten thousand times."""
        self._values: dict[Name, object] = {}
        self._bytes = 0
        self._stored: dict[tuple[Kind, Content], set[Content]] = {}

    def _name(self, read: Read) -> Name:
        assert not isinstance(read, SecretPath), "a reading is not kept here"
        if not isinstance(read, Trial):
            return read
        name = self._names.get(read)
        if name is None:
            digest = hashlib.blake2b(read.body, digest_size=_DIGEST_SIZE, key=self._key).digest()
            name = self._names[read] = (read.kind, digest)
        return name

    def value(self, read: Read) -> object:
        if isinstance(read, SecretPath):
            return self.readings.get(read.path, UNREAD)
        name = self._name(read)
        found = self._values.pop(name, UNREAD)
        if found is not UNREAD:
            self._values[name] = found  # the last that goes
        return found

    def keep(self, read: Read, answer: object) -> None:
        """Of a trial only the answer is kept: its body may be a megabyte, and whoever asks has it."""
        self.forget(read)
        self._values[self._name(read)] = answer
        self._bytes += _size(answer)
        while len(self._values) > 1 and (len(self._values) > self._most() or self._bytes > _MOST_BYTES):
            self._drop(next(iter(self._values)))

    def _most(self) -> int:
        return _REMEMBERED + self._askers()

    def forget(self, read: Read) -> None:
        self._drop(self._name(read))

    def _drop(self, name: Name) -> None:
        self._bytes -= _size(self._values.pop(name, None))

    def content(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        normal = row(kind).normal
        found = normal(fields) if normal is not None else None
        return None if found is None or self._built is None else self._built(found)

    def stands_for(self, kind: Kind, sent: Content, stored: Content) -> bool:
        return stored in self._stored.get((kind, sent), ())

    def stored(self, kind: Kind, sent: Content, found: Content) -> None:
        """Remembers what the server made of something that we sent."""
        if sent != found:
            self._stored.setdefault((kind, sent.sealed()), set()).add(found.sealed())
            _limit(self._stored)


def _limit(memory: dict[tuple[Kind, Content], set[Content]]) -> None:
    """The oldest goes first."""
    while len(memory) > _REMEMBERED:
        del memory[next(iter(memory))]


def _size(answer: object) -> int:
    return sum(len(each.raw or b"") for each in answer.fields) if isinstance(answer, Content) else 0
