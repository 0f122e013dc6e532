"""Asks the vocabularies whether a change is valid.

Before it refuses a change, it reads from the API server every object that they looked up in the cache, and asks again.
Otherwise a cache that lags could refuse a valid change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from samara import log
from samara.core.admission import Request
from samara.core.model import NAMESPACE, Kind, Object, Ref
from samara.core.names import NamespaceNames, is_label_value
from samara.core.queries import UNREAD, DryRunCreate, Query
from samara.core.source_type import Admission
from samara.core.view import View, ViewWrapper
from samara.kube.client import Client, collection
from samara.kube.codec import Codec
from samara.kube.errors import Forbidden, InvalidName
from samara.kube.queries import dry_run_create, read_object

ROUNDS = 8
"""How often the vocabularies are asked about one request at most. Each time they may look up more objects, such as the
next ancestor of a namespace."""
NAMESPACES_PER_LABEL = 2
"""How many namespaces are read for a label. One is enough to refuse, unless it is the namespace of the request."""
T = TypeVar("T")
Label = tuple[str, str]
"""Key and value."""


@dataclass(frozen=True, slots=True)
class Validator:
    """Finds the faults of a request."""

    view: View
    client: Client
    codec: Codec
    namespace: str
    """Dry runs create objects in the operator's own namespace."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False)

    async def in_turn(self, decide: Callable[[], T]) -> T:
        """Calls a function that takes long for a large review. If many reviews arrive together, other tasks run between
        two such calls."""
        async with self._turn:
            await asyncio.sleep(0)
            return decide()

    async def faults(self, request: Request, admissions: Iterable[Admission]) -> tuple[str, ...]:
        """The faults that all vocabularies find, without duplicates. Raises if the API server does not answer."""
        validating = tuple(admission for admission in admissions if request.operation in admission.operations)
        view = RecordingView(self.view)
        faults = await self._validate(request, validating, view)
        for _ in range(ROUNDS):
            reads = list(self._live_reads(view)) if faults else []
            if not reads:
                break
            await asyncio.gather(*reads)
            faults = await self._validate(request, validating, view)
        return faults

    async def _validate(
        self, request: Request, admissions: tuple[Admission, ...], view: RecordingView
    ) -> tuple[str, ...]:
        """Asks all vocabularies once. Sends every dry run that their answer needs first."""
        for _ in range(ROUNDS):
            faults = await self.in_turn(
                lambda: [fault for admission in admissions for fault in admission.validate(request, view)]
            )
            unanswered = view.unanswered()
            if not unanswered:
                break
            await asyncio.gather(*(self._dry_run(query, view) for query in unanswered))
        return tuple(dict.fromkeys(faults))

    def _live_reads(self, view: RecordingView) -> Iterator[Coroutine[None, None, None]]:
        """Reads for everything that was looked up and not yet read, even if the cache has no object at that address."""
        yield from [self._read(ref, view) for ref in view.unread_refs()]
        yield from [self._list(label, view) for label in view.unread_labels()]
        yield from [self._dry_run(query, view) for query in view.unsent_dry_runs()]

    async def _read(self, ref: Ref, view: RecordingView) -> None:
        try:
            view.record_object(ref, await read_object(self.client, self.codec, ref))
        except InvalidName:  # a label can name anything; no object has an impossible name
            view.record_object(ref, None)
        except Forbidden:  # some kinds may be watched but not read
            view.keep_cached(ref)
            log.debug("admission.not-read", at=ref)

    async def _list(self, label: Label, view: RecordingView) -> None:
        if not is_label_value(label[1]):  # no namespace has a label with an impossible value
            view.record_namespaces(label, ())
            return
        try:
            query = {"labelSelector": "=".join(label), "limit": str(NAMESPACES_PER_LABEL)}
            raw = await self.client.get(collection(NAMESPACE), query)
        except Forbidden:
            view.keep_cached_namespaces(label)
            log.debug("admission.not-listed", label=label[0])
            return
        view.record_namespaces(label, [self.codec.object(NAMESPACE, item) for item in _items(raw).items or ()])

    async def _dry_run(self, query: DryRunCreate, view: RecordingView) -> None:
        view.record_dry_run(query, await dry_run_create(self.client, self.codec, self.namespace, query))


class RecordingView(ViewWrapper):
    """A view for one request. It records lookups, and prefers objects that were read live since."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        # what was looked up so far
        self._refs: set[Ref] = set()
        self._labels: set[Label] = set()
        self._dry_runs: set[DryRunCreate] = set()
        # what the API server answered
        self._read: set[Ref] = set()
        """Objects that the API server was asked for, even if we may not read them."""
        self._live: dict[Ref, Object | None] = {}
        self._listed: dict[Label, bool] = {}
        """Labels that the API server was asked about. True if `_live` has the namespaces with the label, False if we
        may not list them."""
        self._dry_run_results: dict[DryRunCreate, object] = {}

    # the view

    def get(self, ref: Ref) -> Object | None:
        self._refs.add(ref)
        return self._live[ref] if ref in self._live else self._view.get(ref)

    def exists_unread(self, ref: Ref) -> bool:
        self._refs.add(ref)
        return ref not in self._live and self._view.exists_unread(ref)

    def objects_of(self, kind: Kind) -> Iterable[Object]:
        live = [obj for ref, obj in self._live.items() if ref.kind == kind and obj is not None]
        return [*(obj for obj in self._view.objects_of(kind) if obj.ref not in self._live), *live]

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        if listed is not None:
            return self._view.namespaces(listed)
        return [obj.ref.name for obj in self.objects_of(NAMESPACE)]

    def namespaces_with_label(self, label: str, value: str) -> Iterable[Object]:
        self._labels.add((label, value))
        namespaces = [obj for obj in self._live.values() if obj is not None and obj.ref.kind == NAMESPACE]
        live = [obj for obj in namespaces if obj.labels.get(label) == value]
        if self._listed.get((label, value)):
            return live
        return [*(obj for obj in self._view.namespaces_with_label(label, value) if obj.ref not in self._live), *live]

    def answer(self, read: Query) -> object:
        if not isinstance(read, DryRunCreate):
            return self._view.answer(read)
        self._dry_runs.add(read)
        return self._dry_run_results[read] if read in self._dry_run_results else self._view.answer(read)

    # lookups to read live

    def unread_refs(self) -> set[Ref]:
        return self._refs - self._read

    def unread_labels(self) -> set[Label]:
        return self._labels - self._listed.keys()

    def unsent_dry_runs(self) -> set[DryRunCreate]:
        return self._dry_runs - self._dry_run_results.keys()

    def unanswered(self) -> list[DryRunCreate]:
        """Dry runs without a result, not even a cached one."""
        return [query for query in self._dry_runs if self.answer(query) is UNREAD]

    # results of live reads

    def record_object(self, ref: Ref, obj: Object | None) -> None:
        self._read.add(ref)
        self._live[ref] = obj

    def keep_cached(self, ref: Ref) -> None:
        """The cached object is used from now on: we may not read the live one."""
        self._read.add(ref)

    def record_namespaces(self, label: Label, namespaces: Iterable[Object]) -> None:
        self._live |= {namespace.ref: namespace for namespace in namespaces}
        self._listed[label] = True

    def keep_cached_namespaces(self, label: Label) -> None:
        """The cached namespaces with this label are used from now on: we may not list the live ones."""
        self._listed[label] = False

    def record_dry_run(self, query: DryRunCreate, result: object) -> None:
        self._dry_run_results[query] = result


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None


_items = msgspec.json.Decoder(_List).decode
