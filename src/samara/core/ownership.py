"""Ownership: how a copy names its source, and how much such a claim counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from samara.core.metadata_keys import ADOPTED, APP, RELEASED
from samara.core.model import FIELD_MANAGER, Kind, Object, Ref
from samara.core.view import View


class Ownership(Protocol):
    """How the copies of one source type name their source.

    A mark or an owner reference is only a claim, because any client can write it. managedFields prove which client
    wrote it.
    """

    @property
    def marks(self) -> frozenset[str]:
        """The label and annotation keys that mark a copy."""

    @property
    def proofs(self) -> frozenset[str]:
        """Those of the marks whose field manager proves who made a copy. Empty: all of them."""

    @property
    def managers(self) -> frozenset[str]:
        """The field managers that count as Samara: its own, and those of the controller that it replaces."""

    @property
    def transferable(self) -> bool:
        """True if one update can hand a copy to another source. A copy owned by reference is deleted and created."""

    @property
    def copies_may_be_sources(self) -> bool:
        """True if a copy may be annotated as a source of another vocabulary."""

    def source_of(self, obj: Object, view: View) -> Ref | None:
        """The source that an object names. None for an object without a mark or an owner reference: the registry
        does not ask about those."""

    def is_copy_of(self, obj: Object, ref: Ref, source: Object | None, view: View) -> bool:
        """True if an object at a desired address belongs to this source."""

    def is_proven(self, obj: Object) -> bool:
        """True if Samara may delete the object. `is_copy_of` alone does not allow that."""

    def is_remembered(self, obj: Object) -> bool:
        """True if an object stays a copy of ours when another client removes its marks."""

    def is_disowned(self, obj: Object) -> bool:
        """True if a marked object belongs to its namespace as soon as its source is gone."""


def is_recorded(obj: Object, ownership: Ownership) -> bool:
    """True if managedFields say that one of our managers set a mark on this object."""
    proofs = ownership.proofs or ownership.marks
    return any(owned.key in proofs and owned.manager in ownership.managers for owned in obj.managed_keys)


def is_marked_by_samara(obj: Object, ownership: Ownership) -> bool:
    """True if managedFields say that Samara itself, and not the original controller, set a mark on this object."""
    proofs = ownership.proofs or ownership.marks
    return any(owned.key in proofs and owned.manager == FIELD_MANAGER for owned in obj.managed_keys)


def is_written_by_samara(obj: Object, ownership: Ownership) -> bool:
    """True if Samara itself has written this object, whichever client made it."""
    return obj.written or is_marked_by_samara(obj, ownership)


def is_made_by_samara(obj: Object, ownership: Ownership) -> bool:
    """True if this uid was seen as a copy before, or managedFields record a mark of this ownership."""
    return obj.known_copy or is_recorded(obj, ownership)


@dataclass(frozen=True, slots=True)
class ByMark:
    """A label or an annotation on the copy names its source."""

    marks: frozenset[str]
    read_mark: Callable[[Object, View], Ref | None]
    """The source that the marks of an object name."""
    managers: frozenset[str] = frozenset({FIELD_MANAGER})
    trusted: bool = False
    """True if the mark counts whichever client set it, because only administrators can set it."""
    proofs: frozenset[str] = frozenset()
    disowned: Callable[[Object], bool] = lambda obj: False
    """True if a marked object belongs to its namespace as soon as its source is gone."""
    copies_may_be_sources: bool = False
    transferable: bool = True

    def source_of(self, obj: Object, view: View) -> Ref | None:
        return self.read_mark(obj, view)

    def is_copy_of(self, obj: Object, ref: Ref, source: Object | None, view: View) -> bool:
        return self.read_mark(obj, view) == ref

    def is_proven(self, obj: Object) -> bool:
        return self.trusted or is_recorded(obj, self)

    def is_remembered(self, obj: Object) -> bool:
        return obj.known_copy if self.trusted else is_recorded(obj, self)

    def is_disowned(self, obj: Object) -> bool:
        return self.disowned(obj) and not obj.annotations.keys().isdisjoint(self.marks)


@dataclass(frozen=True, slots=True)
class ByOwnerReference:
    """A controller reference names the source, and its uid must match. The garbage collector deletes the copies."""

    kind: Kind
    copied: frozenset[Kind]
    marks: frozenset[str]
    managers: frozenset[str] = frozenset({FIELD_MANAGER})
    proofs: frozenset[str] = frozenset()
    copies_may_be_sources: bool = False
    transferable: bool = False

    def source_of(self, obj: Object, view: View) -> Ref | None:
        if not obj.owner_references or obj.ref.kind not in self.copied:
            return None
        for owner in obj.owner_references:
            group = owner.api_version.partition("/")[0]
            if owner.controller and (group, owner.kind) == (self.kind.group, self.kind.name):
                return Ref(self.kind, "", owner.name)
        return None

    def is_copy_of(self, obj: Object, ref: Ref, source: Object | None, view: View) -> bool:
        return source is not None and any(owner.uid == source.uid for owner in obj.owner_references)

    def is_proven(self, obj: Object) -> bool:
        return is_recorded(obj, self)

    def is_remembered(self, obj: Object) -> bool:
        return obj.known_copy

    def is_disowned(self, obj: Object) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ByItself:
    """The source is its own and only copy: it asks to be filled from another object. It belongs to the person who made
    it, so it is never created, deleted or recreated, and no key on it is ours to remove."""

    marks: frozenset[str]
    """The annotations that a write adds."""
    managers: frozenset[str] = frozenset()
    proofs: frozenset[str] = frozenset()
    copies_may_be_sources: bool = True
    transferable: bool = True

    def source_of(self, obj: Object, view: View) -> Ref | None:
        return None

    def is_copy_of(self, obj: Object, ref: Ref, source: Object | None, view: View) -> bool:
        return obj.ref == ref

    def is_proven(self, obj: Object) -> bool:
        return False

    def is_remembered(self, obj: Object) -> bool:
        return False

    def is_disowned(self, obj: Object) -> bool:
        return False


def is_adopted(obj: Object) -> bool:
    """True if the object existed before it became a copy: it is released, never deleted."""
    return ADOPTED in obj.annotations


def is_released(obj: Object) -> bool:
    """True if the object was a copy and stays as it is until a person removes the annotation."""
    return RELEASED in obj.annotations


def is_removable(obj: Object, ownership: Ownership) -> bool:
    """True if an unwanted object with marks may be deleted or released. The rules `released` and `unproven` leave every
    other one as it is, whatever its source wants."""
    return ownership.is_proven(obj) and not is_released(obj)


def is_operators_own(obj: Object) -> bool:
    """True for the operator's own objects, such as its ConfigMap of held deletions. They are never copies."""
    return obj.labels.get(APP, "").startswith(FIELD_MANAGER)
