"""The context of one plan, and the order in which sources get an address that several of them want."""

from __future__ import annotations

from dataclasses import dataclass

from samara.core import kinds
from samara.core.desired import UNAVAILABLE, Copy, Mode
from samara.core.metadata import with_unmanaged_fields
from samara.core.model import Key, Object, Ref, namespace_ref
from samara.core.ownership import Ownership
from samara.core.policy import ClusterPolicy, paused_by, refusal
from samara.core.queries import UNREAD
from samara.core.registry import Registry
from samara.core.source_type import SourceType
from samara.core.view import NamespaceView, View


@dataclass(frozen=True, slots=True)
class PlanContext:
    """One source, its type and the cluster around it."""

    key: Key
    source_type: SourceType
    source: Object | None
    view: View
    """What this plan covers: the cluster, or one namespace of it."""
    full_view: View
    registry: Registry
    cluster: ClusterPolicy

    @property
    def paused(self) -> str:
        """Why nothing is written for this source now, or an empty text. It may change between two chunks."""
        return "" if self.source is None else paused_by(self.source, self.source_type, self.full_view)

    @property
    def ownership(self) -> Ownership:
        return self.source_type.ownership

    def namespace_of(self, ref: Ref) -> Object | None:
        return self.view.get(namespace_ref(ref.namespace)) if ref.kind.namespaced else None

    def can_transfer(self, other: Key) -> bool:
        """True if one update can hand a copy from one of the two sources to the other."""
        return self.ownership.transferable and self.registry[other.source_type].ownership.transferable

    def is_before(self, other: Key) -> bool:
        """True if this source gets an address that both want. A missing source is judged by its rank alone."""
        if self.view.get(other.source) is None:
            return self.registry.rank(self.key.source_type) < self.registry.rank(other.source_type)
        return self.precedence(self.key) < self.precedence(other)

    def precedence(self, key: Key) -> tuple[int, str, str, str, str]:
        """Lower rank, then older source, then namespace and name: the same after any order of events."""
        source = self.view.get(key.source)
        created = source.created if source is not None else ""
        return self.registry.rank(key.source_type), created, key.source.namespace, key.source.name, key.source_type

    def rivals(self, ref: Ref) -> list[Key]:
        """The other sources that may write this address, in order of precedence."""
        others = [key for key in self.view.claimants(ref) if key != self.key]
        return sorted(others, key=self.precedence) if len(others) > 1 else others

    def desired_by(self, rival: Key, ref: Ref) -> list[Copy]:
        """The copies that another source wants at this address and may write there."""
        source_type, namespace = self.registry[rival.source_type], self.namespace_of(ref)
        source = self.view.get(rival.source)
        if source is not None and rival not in self.registry.sources(source, self.full_view):
            return []  # a copy of another source
        if ref.kind.namespaced and namespace is None:
            return []
        copies = source_type.desired(rival.source, NamespaceView(self.view, ref.namespace)).copies
        return [
            copy
            for copy in copies
            if copy.ref == ref
            and refusal(copy, rival.source, namespace, source_type.policy, self.cluster, self.view) is None
        ]

    def is_paused(self, other: Key) -> bool:
        """True if another source is paused. It keeps the copies that it has, and claims no other address."""
        source = self.view.get(other.source)
        return source is not None and bool(paused_by(source, self.registry[other.source_type], self.full_view))

    def has_heir(self, live: Object) -> bool:
        """True if the next source in line takes this copy over as it is, so that it need not be deleted."""
        for rival in self.rivals(live.ref):
            copies = () if self.is_paused(rival) else self.desired_by(rival, live.ref)
            if copies:
                return (
                    self.view.get(rival.source) is not None
                    and self.can_transfer(rival)
                    and (self._is_preparing(rival, live.ref) or all(self._takes_over(copy, live) for copy in copies))
                )
        return False

    def _is_preparing(self, rival: Key, ref: Ref) -> bool:
        """True until the rival has set its finalizer and read the content of its copy. The copy is kept meanwhile."""
        source = self.view.get(rival.source)
        desired = self.registry[rival.source_type].desired(rival.source, NamespaceView(self.view, ref.namespace))
        is_new = source is not None and desired.finalizer not in (None, *source.finalizers)
        return is_new or any(self.view.answer(query) is UNREAD for query in desired.reads)

    def _takes_over(self, copy: Copy, live: Object) -> bool:
        """False if the rival could never update the copy. The copy would then stay without a source that owns it."""
        template = with_unmanaged_fields(copy.template, live)
        if template.mode is not Mode.SYNC:
            return False
        if template.content is UNAVAILABLE:
            return bool(template.waiting_for)
        return self.cluster.recreate or not kinds.must_recreate(live.ref.kind, live.content, template.content)
