"""Asks the vocabularies about a change, and reads from the API server whatever a refusal rests on before it stands.

Otherwise a cache that lags would refuse a change that is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from samara import log
from samara.core.admission import Request
from samara.core.model import NAMESPACE, Kind, Object, Ref
from samara.core.names import NamespaceNames, is_label_value
from samara.core.queries import UNREAD, DryRunCreate, Query
from samara.core.source_type import Admission
from samara.core.view import View, ViewWrapper
from samara.kube.client import Client, address, collection
from samara.kube.codec import Codec
from samara.kube.errors import Forbidden, NotFound
from samara.kube.queries import dry_run_create

ROUNDS = 8
"""Answers to one request: each may look up something new, such as the next ancestor of a namespace."""
NAMESPACES_PER_LABEL = 2
"""Namespaces that are read for a label. One is enough to refuse, unless it is the namespace itself."""
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

    async def faults(self, request: Request, admissions: Iterable[Admission]) -> tuple[str, ...]:
        """The faults that all vocabularies find, without duplicates. Raises if the API server does not answer."""
        judges = tuple(admission for admission in admissions if request.operation in admission.operations)
        view = RecordingView(self.view)
        faults = await self._judge(request, judges, view)
        for _ in range(ROUNDS):
            reads = list(self._live_reads(view)) if faults else []
            if not reads:
                break
            await asyncio.gather(*reads)
            faults = await self._judge(request, judges, view)
        return faults

    async def _judge(self, request: Request, admissions: tuple[Admission, ...], view: RecordingView) -> tuple[str, ...]:
        """One answer of all vocabularies. Every dry run that it needs is performed first."""
        for _ in range(ROUNDS):
            faults = [fault for admission in admissions for fault in admission.validate(request, view)]
            unanswered = view.unanswered()
            if not unanswered:
                break
            await asyncio.gather(*(self._dry_run(trial, view) for trial in unanswered))
        return tuple(dict.fromkeys(faults))

    def _live_reads(self, view: RecordingView) -> Iterator[Coroutine[None, None, None]]:
        """For everything that was looked up and is not read yet, also if the cache has nothing there."""
        yield from [self._read(ref, view) for ref in view.looked_up - view.read]
        yield from [self._list(label, view) for label in view.labels - view.listed.keys()]
        yield from [self._dry_run(trial, view) for trial in view.trials - view.answers.keys()]

    async def _read(self, ref: Ref, view: RecordingView) -> None:
        view.read.add(ref)
        try:
            view.live[ref] = self.codec.object(ref.kind, await self.client.get(address(ref)))
        except NotFound:
            view.live[ref] = None
        except Forbidden:  # some kinds may be watched but not read: the cached object has to do
            log.debug("admission.not-read", at=ref)

    async def _list(self, label: Label, view: RecordingView) -> None:
        view.listed[label] = not is_label_value(label[1])  # no namespace has a label with an impossible value
        if view.listed[label]:
            return
        try:
            query = {"labelSelector": "=".join(label), "limit": str(NAMESPACES_PER_LABEL)}
            raw = await self.client.get(collection(NAMESPACE), query)
        except Forbidden:
            log.debug("admission.not-listed", label=label[0])
            return
        namespaces = (self.codec.object(NAMESPACE, item) for item in _items(raw).items or ())
        view.live |= {namespace.ref: namespace for namespace in namespaces}
        view.listed[label] = True

    async def _dry_run(self, trial: DryRunCreate, view: RecordingView) -> None:
        view.answers[trial] = await dry_run_create(self.client, self.codec, self.namespace, trial)


class RecordingView(ViewWrapper):
    """A view for one request: records what is looked up, and prefers what was read live since."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.looked_up: set[Ref] = set()
        self.trials: set[DryRunCreate] = set()
        self.labels: set[Label] = set()
        self.read: set[Ref] = set()
        """Objects that the API server was asked for, also if we may not read them."""
        self.live: dict[Ref, Object | None] = {}
        self.listed: dict[Label, bool] = {}
        """Labels that the API server was asked about. True if `live` has namespaces with the label, if any have it."""
        self.answers: dict[DryRunCreate, object] = {}

    def get(self, ref: Ref) -> Object | None:
        self.looked_up.add(ref)
        return self.live[ref] if ref in self.live else self._view.get(ref)

    def exists_unread(self, ref: Ref) -> bool:
        self.looked_up.add(ref)
        return ref not in self.live and self._view.exists_unread(ref)

    def objects_of(self, kind: Kind) -> Iterable[Object]:
        live = [obj for ref, obj in self.live.items() if ref.kind == kind and obj is not None]
        return [*(obj for obj in self._view.objects_of(kind) if obj.ref not in self.live), *live]

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        if listed is not None:
            return self._view.namespaces(listed)
        return [obj.ref.name for obj in self.objects_of(NAMESPACE)]

    def namespaces_with_label(self, label: str, value: str) -> Iterable[Object]:
        self.labels.add((label, value))
        namespaces = [obj for obj in self.live.values() if obj is not None and obj.ref.kind == NAMESPACE]
        live = [obj for obj in namespaces if obj.labels.get(label) == value]
        if self.listed.get((label, value)):
            return live
        return [*(obj for obj in self._view.namespaces_with_label(label, value) if obj.ref not in self.live), *live]

    def answer(self, read: Query) -> object:
        if not isinstance(read, DryRunCreate):
            return self._view.answer(read)
        self.trials.add(read)
        return self.answers[read] if read in self.answers else self._view.answer(read)

    def unanswered(self) -> list[DryRunCreate]:
        return [trial for trial in self.trials if self.answer(trial) is UNREAD]


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None


_items = msgspec.json.Decoder(_List).decode
