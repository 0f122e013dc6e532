"""Reads from outside the cache that a plan needs first: what would the server make of an object, does a kind stand?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from samara import log
from samara.core.case import Case
from samara.core.model import Key, Ref
from samara.core.plan import prepare
from samara.core.reads import Absence, Definition, Read, Rejected, SecretPath, Standing, Trial, Word
from samara.core.want import Want
from samara.core.write import Plan
from samara.engine.desk import Desk
from samara.kube.codec import MALFORMED
from samara.kube.definition import is_absent, is_standing, stands
from samara.kube.errors import SamaraError
from samara.kube.owner_word import word_of
from samara.kube.trial import tried

_AFTER_FAILURE = 5.0
_AFTER_NO = 60.0
_STANDS_FOR = 2.0
"""So long it counts that a definition stands: less than the copies of a source that vanished stay at least."""


class Reader:
    """One read per question, however many keys ask it; then those keys are planned again."""

    def __init__(self, desk: Desk, again: Callable[[Key, float], None]) -> None:
        self._desk = desk
        self._again = again
        self._asked: dict[Read, set[Key]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def reading(self) -> int:
        stores = self._desk.stores
        return len(self._asked) + (stores.readings.pending if stores is not None else 0)

    def begin(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def prepared(self, key: Key) -> tuple[Case, Want] | None:
        """What a key wants; None where something must be known first. It is planned again when it is."""
        desk = self._desk
        if desk.stores is not None and key.dialect in desk.stores.source_types:
            reads = desk.table[key.dialect].reads(key.source, desk.cache)
            source = desk.cache.get(key.source)
            edition = (source.uid, source.generation) if source is not None else None
            desk.stores.subscribe(key.whole, [read for read in reads if isinstance(read, SecretPath)], edition)
        prepared = prepare(key, desk.cache, desk.table, desk.rules)
        if not isinstance(prepared, Plan):
            return prepared
        self.start(prepared.reads, key)
        return None  # a kind is not listed yet, and its list queues everything anew; or a read does

    def start(self, reads: Iterable[Read], key: Key) -> None:
        for read in reads:
            if isinstance(read, SecretPath):
                continue  # the store knows who asks, and tells
            if read not in self._asked:
                assert self._group is not None
                self._group.create_task(self._read(read))
            self._asked.setdefault(read, set()).add(key)

    async def _read(self, read: Read) -> None:
        failed = 0.0
        try:
            answer = await self._answer(read)
            self._desk.cache.answers.keep(read, answer)
            # A quota or a rule of admission refused it, or it came too early: it may be another answer later.
            later = _AFTER_NO if isinstance(answer, Rejected) else self._doubted_for(read)
            if later:
                asyncio.get_running_loop().call_later(later, self._doubt, read, tuple(self._asked[read]))
            if _is_of_the_moment(read):
                asyncio.get_running_loop().call_later(_STANDS_FOR, self._desk.cache.answers.forget, read)
        except (SamaraError, *MALFORMED) as fault:
            log.warning("read.failed", what=_what(read), fault=fault, again_in=f"{_AFTER_FAILURE:g}s")
            failed = _AFTER_FAILURE
        for key in self._asked.pop(read):
            self._again(key, failed)

    def _doubt(self, read: Read, keys: tuple[Key, ...]) -> None:
        self._desk.cache.answers.forget(read)
        for key in keys:
            self._again(key, 0.0)

    def _doubted_for(self, read: Read) -> float:
        """For how many seconds more it proves nothing that an object is missing."""
        if not isinstance(read, Absence):
            return 0.0
        until = self._desk.cache.stores[read.ref.kind].absence_unproven_until
        return max(0.0, until - asyncio.get_running_loop().time())

    async def _answer(self, read: Read) -> object:
        if isinstance(read, Definition):
            return await stands(self._desk.client, read)
        if isinstance(read, Absence):
            absent = await is_absent(self._desk.client, self._desk.codec, self._desk.cache, read)
            return absent and not self._doubted_for(read)
        if isinstance(read, Standing):
            return await is_standing(self._desk.client, read)
        if isinstance(read, Word):
            return await word_of(self._desk.client, read)
        assert isinstance(read, Trial), "no vocabulary of this build reads from a secret manager"
        return await tried(self._desk.client, self._desk.codec, self._desk.home, read)


def _is_of_the_moment(read: Read) -> bool:
    """True where whoever asks later asks about something else: an object of the same name may have another owner."""
    return isinstance(read, Definition | Absence | Standing) or (isinstance(read, Word) and isinstance(read.owner, Ref))


def _what(read: Read) -> str:
    match read:
        case str() | SecretPath():
            return "a path of the secret manager"
        case Definition(kind=kind):
            return f"the definition of {kind}"
        case Absence(ref=ref):
            return str(ref)
        case Standing(name=name):
            return f"Namespace {name}"
        case Word(owner=owner, namespace=namespace):
            return f"{owner.kind} {namespace}/{owner.name}"
        case Trial(kind=kind):
            return f"a trial of {kind}"
