"""What is at the address of a desired copy, and whose it is."""

from __future__ import annotations

from enum import Enum
from typing import Final

from samara.core.context import PlanContext
from samara.core.desired import Adopt, Copy, Mode, Template
from samara.core.model import Key, Object
from samara.core.ownership import (
    is_adopted,
    is_made_by_samara,
    is_marked_by_samara,
    is_operators_own,
    is_recorded,
    is_released,
)
from samara.core.policy import Refusal, no_writes_at, refusal, revocation
from samara.core.queries import Query, deletion_queries
from samara.core.view import NamespaceView


class Unknown(Enum):
    UNKNOWN = "not computed yet"


UNKNOWN: Final = Unknown.UNKNOWN


class Occupant(Enum):
    """Whose object is at the address of a desired copy."""

    OURS = "this source's copy, or one that Samara made and no other source holds"
    PREDECESSOR = "a copy of an earlier source of the same name"
    REPLACEABLE = "a copy of a source that comes after this one, and that an update cannot hand over"
    OF_ANOTHER_SOURCE = "a copy of another source, and an update cannot hand it over"
    PULLING = "an object that requests its own content from another one, such as a target of a pull mode"
    SOURCE = "an object that is itself a source"
    FOREIGN = "any other object, such as one that Samara did not make, or a copy that was released"


class Target:
    """One desired copy, its namespace, and the live object at its address, as the rules read them.

    The holder, the winner and the occupant are computed on first use, because most copies do not need them.
    """

    __slots__ = (
        "_fill",
        "_holder",
        "_occupant",
        "_winner",
        "copy",
        "ctx",
        "live",
        "namespace",
        "ref",
        "refusal",
        "template",
    )

    def __init__(self, ctx: PlanContext, copy: Copy) -> None:
        self.ctx = ctx
        self.copy = copy
        self.ref = ref = copy.ref
        self.template: Template = copy.template
        self.namespace = namespace = ctx.namespace_of(ref)
        self.live: Object | None = ctx.view.get(ref)
        self.refusal: Refusal | None = None
        if namespace is not None or not ref.kind.namespaced:
            self.refusal = refusal(copy, ctx.key.source, namespace, ctx.source_type.policy, ctx.cluster, ctx.view)
        self._fill: Key | Unknown | None = UNKNOWN
        self._holder: Key | Unknown | None = UNKNOWN
        self._winner: Key | Unknown | None = UNKNOWN
        self._occupant: Occupant | None = None

    @property
    def has_no_namespace(self) -> bool:
        return self.namespace is None and self.ref.kind.namespaced

    @property
    def paused_here(self) -> str:
        """Why nothing may be written at this address, or an empty text."""
        return no_writes_at(self.ref, self.ctx.view)

    @property
    def fill(self) -> Key | None:
        """The key of the live object, if it asks to be filled and is not the source of this plan itself."""
        if self._fill is UNKNOWN:
            fill = None if self.live is None else self.ctx.registry.fill(self.live, self.ctx.view)
            self._fill = None if fill == self.ctx.key else fill
        return self._fill

    @property
    def is_filled_from_here(self) -> bool:
        """True if the live object asks to be filled from this source, and the source lets it."""
        ctx, live, fill = self.ctx, self.live, self.fill
        if live is None or fill is None or ctx.key.source not in ctx.registry.inputs(fill, live):
            return False
        desired = ctx.registry[fill.source_type].desired(fill.source, ctx.full_view)
        return any(copy.ref == live.ref for copy in desired.copies)

    @property
    def holder(self) -> Key | None:
        """The source that the live object names as its own, of any vocabulary."""
        if self._holder is UNKNOWN:
            self._holder = None if self.live is None else self.ctx.registry.owner(self.live, self.ctx.view)
        return self._holder

    @property
    def winner(self) -> Key | None:
        """Another source that comes before this one and wants this address, or keeps its copy here."""
        if self._winner is UNKNOWN and self.ctx.source_type.is_fill:
            self._winner = None  # no rank takes an object from the person who made it
        if self._winner is UNKNOWN:
            self._winner = self.holder if self._is_kept_by_holder() else self._first_rival()
        return self._winner

    def shown(self, other: Key | None) -> str:
        """Another source, for a message to the author of this one."""
        source = self.ctx.key.source
        is_hidden = self.ctx.source_type.names.is_discreet
        is_own = other is not None and other.source.namespace == source.namespace
        return str(other) if is_own or not is_hidden else "a source of another namespace"

    @property
    def winner_shown(self) -> str:
        return self.shown(self.winner)

    @property
    def holder_shown(self) -> str:
        return self.shown(self.holder)

    @property
    def pull_key(self) -> str:
        """The annotation by which the live object requests its own content, or an empty text."""
        return "" if self.live is None else self.ctx.registry.pull_key(self.live)

    @property
    def queries(self) -> tuple[Query, ...]:
        """What must be true before the object is taken from a custom resource that is being deleted or is missing."""
        live, holder = self.live, self.holder
        if live is None or holder is None or holder == self.ctx.key or not self._is_made_for(holder, live):
            return ()
        if holder.source.kind != self.ctx.registry[holder.source_type].resource:
            return ()
        return deletion_queries(holder.source, self.ctx.view.get(holder.source))

    @property
    def occupant(self) -> Occupant:
        """Whose object is there. The address must not be empty."""
        if self._occupant is None:
            self._occupant = self._classify()
        return self._occupant

    @property
    def is_own_copy(self) -> bool:
        """True for a copy that names this source, and for one that Samara made and that names no source any more.

        `Occupant.OURS` is also a copy of another source that one update would take over.
        """
        return self.occupant is Occupant.OURS and (self.holder is None or self._names_this_source())

    def _first_rival(self) -> Key | None:
        ctx, live = self.ctx, self.live
        rivals = ctx.rivals(self.ref)
        if not rivals:
            return None
        own = ctx.precedence(ctx.key)
        marked = live is not None and ctx.ownership.source_of(live, ctx.view) == ctx.key.source
        for rival in rivals:
            if ctx.precedence(rival) >= own:
                break
            if ctx.registry[rival.source_type].is_fill:
                continue  # the live object itself, which `fill` names
            if ctx.is_paused(rival) and self.holder != rival:
                continue
            copies = ctx.desired_by(rival, self.ref)
            if any(not marked or copy.template.mode is Mode.SYNC for copy in copies):
                return rival  # a create-only rival does not take over a copy that this source already has
        return None

    def _is_kept_by_holder(self) -> bool:
        """True if a paused source holds the copy, or an earlier one that does not prune now, for example because its
        list has a typo."""
        ctx, live, holder = self.ctx, self.live, self.holder
        if live is None or holder is None or holder == ctx.key:
            return False
        is_paused = ctx.is_paused(holder)
        if ctx.is_before(holder) and not is_paused:
            return False
        source, source_type = ctx.view.get(holder.source), ctx.registry[holder.source_type]
        if source is None or holder not in ctx.registry.sources(source, ctx.view):
            return False
        if not is_recorded(live, source_type.ownership):
            return False
        if revocation(live.ref, holder.source, self.namespace, source_type.policy, ctx.cluster, ctx.view):
            return False
        return is_paused or not source_type.desired(holder.source, NamespaceView(ctx.view, live.ref.namespace)).prune

    def _classify(self) -> Occupant:
        """The first line that applies decides. docs/concepts/ownership.md shows this as a table."""
        ctx, live, holder = self.ctx, self.live, self.holder
        assert live is not None
        if self._names_this_source():
            return Occupant.OURS
        if holder == ctx.key:
            return Occupant.PREDECESSOR
        if self.pull_key and (holder is None or not self._is_made_for(holder, live)):
            return Occupant.PULLING
        if ctx.ownership.transferable and self._was_made_by_us(live) and self._is_free(live):
            return Occupant.OURS
        if holder is not None and not ctx.can_transfer(holder) and self._is_made_for(holder, live):
            replaceable = ctx.is_before(holder) and not is_adopted(live) and not ctx.is_paused(holder)
            return Occupant.REPLACEABLE if replaceable else Occupant.OF_ANOTHER_SOURCE
        is_claim_false = holder is None or not ctx.registry.is_believed(live, holder, ctx.full_view)
        if is_claim_false and self._is_source(live):
            return Occupant.SOURCE
        return Occupant.FOREIGN

    def _names_this_source(self) -> bool:
        ctx = self.ctx
        return self.live is not None and ctx.ownership.is_copy_of(self.live, ctx.key.source, ctx.source, ctx.view)

    def _was_made_by_us(self, live: Object) -> bool:
        """True if Samara made it for this source or for its holder. A released object is not a copy any more."""
        holder = self.holder
        made = is_made_by_samara(live, self.ctx.ownership) or (holder is not None and self._is_made_for(holder, live))
        return made and not is_released(live) and not is_operators_own(live)

    def _is_free(self, live: Object) -> bool:
        """True if no source has a right to a copy that we made."""
        ctx, holder = self.ctx, self.holder
        if holder is None:
            by_reference = [type_.ownership for type_ in ctx.registry.source_types if not type_.ownership.transferable]
            lost_reference = any(is_recorded(live, ownership) for ownership in by_reference)
            return not lost_reference and not self._is_disowned(live)
        if is_adopted(live) or not ctx.registry[holder.source_type].ownership.transferable:
            return False
        return not self._is_left_to_original(holder, live)

    def _is_disowned(self, live: Object) -> bool:
        """True if the copy was created once by another vocabulary, whose source is gone: its namespace owns it."""
        claiming = {key.source_type for key in self.ctx.view.claimants(live.ref)} | {self.ctx.key.source_type}
        return any(
            source_type.ownership.is_disowned(live)
            for source_type in self.ctx.registry.source_types
            if source_type.name not in claiming
        )

    def _is_left_to_original(self, holder: Key, live: Object) -> bool:
        """True for a copy of a higher vocabulary that does not prune, and that only the original controller has made.

        The original may still serve it. A copy that Samara itself made and that stays when its source is gone goes to
        the next source.
        """
        ctx, source_type = self.ctx, self.ctx.registry[holder.source_type]
        if is_marked_by_samara(live, source_type.ownership) or holder in ctx.view.claimants(live.ref):
            return False
        is_higher = ctx.registry.rank(holder.source_type) < ctx.registry.rank(ctx.key.source_type)
        return is_higher and not source_type.desired(holder.source, ctx.view).prune

    def _is_made_for(self, holder: Key, live: Object) -> bool:
        return is_recorded(live, self.ctx.registry[holder.source_type].ownership) and not is_released(live)

    def _is_source(self, live: Object) -> bool:
        """A source further up a chain may overwrite the next one; any other source is left alone."""
        hierarchy = self.ctx.source_type.hierarchy
        chained = hierarchy is not None and hierarchy.parent is not None and self.template.adopt is Adopt.ANY
        keys = self.ctx.registry.sources(live, self.ctx.view)
        return any(not chained or key.source_type != self.ctx.key.source_type for key in keys)
