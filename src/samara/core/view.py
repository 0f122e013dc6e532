"""What a decision may read: the cluster as it is known, whole or through one namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from samara.core.model import NAMESPACE, Content, Key, Kind, Object, Ref, namespace_ref
from samara.core.names import NamespaceNames
from samara.core.queries import Query


class View(Protocol):
    """The reads of a plan. The cache implements them, and so does the tests' world."""

    def get(self, ref: Ref) -> Object | None:
        """The object at this address, if it is held."""

    def exists_unread(self, ref: Ref) -> bool:
        """True where something is at this address that is not held: it must be looked at first."""

    def objects_of(self, kind: Kind) -> Iterable[Object]:
        """Every held object of a kind."""

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        """The names of the namespaces in sight: all that exist, or those of a list, existing or not."""

    def namespaces_with_label(self, label: str, value: str) -> Iterable[Object]:
        """The Namespaces in sight with this value of a label that a `Hierarchy` names."""

    def sources(self, source_type: str, namespace: str | None = None) -> Iterable[Ref]:
        """Every source of a source type, or those of one namespace if the type has a `Hierarchy`."""

    def sources_targeting(self, source_type: str, namespace: str) -> Iterable[Ref]:
        """The sources of a type that write into this one namespace only, and those with a copy there to give up."""

    def copies_of(self, key: Key) -> Iterable[Object]:
        """The held objects whose marks name this key's source, in the key's slice where it has one."""

    def claimants(self, ref: Ref) -> Iterable[Key]:
        """The sources that may write this place."""

    def owner(self, obj: Object) -> Key | None:
        """The source that an object names as its own, of any vocabulary."""

    def has_synced(self, kind: Kind) -> bool:
        """True once the kind has been listed: before that, absence means nothing."""

    def answer(self, read: Query) -> object:
        """What a read from outside the cache has brought, or `UNREAD`.

        A trial brings a `Content` or `Rejected`, and the question for a definition whether it stands.
        """

    def is_stored_form_of(self, kind: Kind, sent: Content, stored: Content) -> bool:
        """True where the server is known to store the one when it is sent the other: admission changes it."""

    def canonical(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        """Content that a source type has built, in the form in which the server would store it.

        None where that cannot be said: the kind has no such row in `kinds`, or the server would not take the fields.
        """


OwnerOf = Callable[[Object, View], Key | None]
"""`Registry.owner`: whose copy an object is, over all vocabularies."""


def is_terminating(namespace: str, view: View) -> bool:
    """True for a namespace that is being deleted: whoever asks for every one means every one that stays."""
    have = view.get(namespace_ref(namespace))
    return have is not None and have.deleting


def has_copies(view: View, key: Key) -> bool:
    """True where anything in sight says that it is a copy of this key's source."""
    return any(True for _ in view.copies_of(key))


class ViewWrapper:
    """A view that answers as the one behind it; whoever looks differently at something says only that."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, ref: Ref) -> Object | None:
        return self._view.get(ref)

    def exists_unread(self, ref: Ref) -> bool:
        return self._view.exists_unread(ref)

    def objects_of(self, kind: Kind) -> Iterable[Object]:
        return self._view.objects_of(kind)

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        return self._view.namespaces(listed)

    def namespaces_with_label(self, label: str, value: str) -> Iterable[Object]:
        return self._view.namespaces_with_label(label, value)

    def sources(self, source_type: str, namespace: str | None = None) -> Iterable[Ref]:
        return self._view.sources(source_type, namespace)

    def sources_targeting(self, source_type: str, namespace: str) -> Iterable[Ref]:
        return self._view.sources_targeting(source_type, namespace)

    def copies_of(self, key: Key) -> Iterable[Object]:
        return self._view.copies_of(key)

    def claimants(self, ref: Ref) -> Iterable[Key]:
        return self._view.claimants(ref)

    def owner(self, obj: Object) -> Key | None:
        return self._view.owner(obj)

    def has_synced(self, kind: Kind) -> bool:
        return self._view.has_synced(kind)

    def answer(self, read: Query) -> object:
        return self._view.answer(read)

    def is_stored_form_of(self, kind: Kind, sent: Content, stored: Content) -> bool:
        return self._view.is_stored_form_of(kind, sent, stored)

    def canonical(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        return self._view.canonical(kind, fields)


class NamespaceView(ViewWrapper):
    """A view through one namespace: the same questions, answered for that slice. `get` is never narrowed."""

    __slots__ = ("_namespace",)

    def __init__(self, view: View, namespace: str) -> None:
        super().__init__(view)
        self._namespace = namespace

    def objects_of(self, kind: Kind) -> Iterable[Object]:
        if kind != NAMESPACE:
            return self._view.objects_of(kind)
        only = self._view.get(namespace_ref(self._namespace))
        return () if only is None else (only,)

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        if listed is not None:
            return (self._namespace,) if self._namespace in listed.members else ()
        return tuple(each.ref.name for each in self.objects_of(NAMESPACE))

    def namespaces_with_label(self, label: str, value: str) -> Iterable[Object]:
        return tuple(each for each in self.objects_of(NAMESPACE) if each.labels.get(label) == value)

    def copies_of(self, key: Key) -> Iterable[Object]:
        return self._view.copies_of(key.in_namespace(self._namespace))
