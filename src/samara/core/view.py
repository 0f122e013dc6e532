"""View: everything that a decision may read. It covers the cluster, or one namespace of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from samara.core.model import NAMESPACE, Content, Key, Kind, Object, Ref, namespace_ref
from samara.core.names import NamespaceNames
from samara.core.queries import Query
from samara.core.trust import ChosenLabel, Trust


class View(Protocol):
    """What a plan may ask. `kube.cache.Cache` answers, and `World` in the tests."""

    @property
    def only_namespace(self) -> str | None:
        """The namespace that this view is limited to. None for the whole cluster."""

    def get(self, ref: Ref) -> Object | None:
        """The object at this address. None if there is none, or if the cache holds only its address."""

    def exists_unread(self, ref: Ref) -> bool:
        """True if an object is at this address that the cache does not hold, or not in full although a source reads it.
        It must be read before a decision."""

    def objects_of(self, kind: Kind) -> Iterable[Object]:
        """Every object of a kind that the cache holds."""

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        """The names of all namespaces in view; or those of a list, whether they exist or not."""

    def namespaces_with_label(self, label: str, value: str) -> Iterable[Object]:
        """The Namespaces in view with this value of a label that a `Hierarchy` names."""

    def sources(self, source_type: str, namespace: str | None = None) -> Iterable[Ref]:
        """Every source of a source type; or those in one namespace, if the type has a `Hierarchy`."""

    def sources_targeting(self, source_type: str, namespace: str) -> Iterable[Ref]:
        """The sources of a type that write into this namespace only, and those with a copy there to delete."""

    def sources_naming(self, source_type: str, namespace: str) -> Iterable[Ref]:
        """The sources of a type that may want a copy in a namespace: they list it, or may want one anywhere.

        Those that exceed the limits of their namespace are left out.
        """

    def trees_of(self, namespace: str) -> Iterable[str]:
        """The trees that a namespace is in: its own name, and the names of all namespaces above it."""

    def chosen_labels(self, namespace: Object, keys: Iterable[str]) -> Mapping[str, ChosenLabel]:
        """Those of these keys that are labels of a Namespace which tenants chose."""

    def trust_in(self, name: str) -> Iterable[Trust]:
        """What gives something to a namespace of this name because of the name: settings, consents, sources."""

    def is_trust_known(self) -> bool:
        """False until every kind whose objects may name a namespace has been listed, or cannot be listed."""

    def excess(self, key: Key) -> str:
        """Why this source is more than the limits of its namespace allow, or an empty text."""

    def copies_of(self, key: Key) -> Iterable[Object]:
        """The objects whose marks name the source of a key; those in one namespace if the key is for that one.

        Of objects that are not removable, a few in each namespace are enough: no write depends on them.
        """

    def claimants(self, ref: Ref) -> Iterable[Key]:
        """The sources that may want a copy at this address."""

    def readers(self, ref: Ref) -> Iterable[Key]:
        """The sources whose desired state is made from the object at this address, directly or through other sources
        that read it and are read themselves."""

    def owner(self, obj: Object) -> Key | None:
        """The source that an object names as its own, of any vocabulary."""

    def has_synced(self, kind: Kind) -> bool:
        """True once the kind has been listed. Before that, a missing object proves nothing."""

    def answer(self, read: Query) -> object:
        """The answer to a query, or `UNREAD`. `core/queries.py` says what each query answers."""

    def is_stored_form_of(self, kind: Kind, sent: Content, stored: Content) -> bool:
        """True if the API server stores `stored` when it is sent `sent`, because admission changes it."""

    def canonical(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        """The fields as the API server would store them, for content that a source type builds itself.

        None if that is unknown: `kinds.py` has no such rule for the kind, or the server would refuse the fields.
        """


def has_copies(view: View, key: Key) -> bool:
    """True if an object in view names the source of this key."""
    return any(True for _ in view.copies_of(key))


class ViewWrapper:
    """A view that passes every question on to another one. A subclass overrides what it answers differently."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def only_namespace(self) -> str | None:
        return self._view.only_namespace

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

    def sources_naming(self, source_type: str, namespace: str) -> Iterable[Ref]:
        return self._view.sources_naming(source_type, namespace)

    def trees_of(self, namespace: str) -> Iterable[str]:
        return self._view.trees_of(namespace)

    def chosen_labels(self, namespace: Object, keys: Iterable[str]) -> Mapping[str, ChosenLabel]:
        return self._view.chosen_labels(namespace, keys)

    def trust_in(self, name: str) -> Iterable[Trust]:
        return self._view.trust_in(name)

    def is_trust_known(self) -> bool:
        return self._view.is_trust_known()

    def excess(self, key: Key) -> str:
        return self._view.excess(key)

    def copies_of(self, key: Key) -> Iterable[Object]:
        return self._view.copies_of(key)

    def claimants(self, ref: Ref) -> Iterable[Key]:
        return self._view.claimants(ref)

    def readers(self, ref: Ref) -> Iterable[Key]:
        return self._view.readers(ref)

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
    """A view of one namespace: lists contain only what is in it. `get` still answers for every address."""

    __slots__ = ("_namespace",)

    def __init__(self, view: View, namespace: str) -> None:
        super().__init__(view)
        self._namespace = namespace

    @property
    def only_namespace(self) -> str | None:
        return self._namespace

    def objects_of(self, kind: Kind) -> Iterable[Object]:
        if kind != NAMESPACE:
            return self._view.objects_of(kind)
        namespace = self._view.get(namespace_ref(self._namespace))
        return () if namespace is None else (namespace,)

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        if listed is not None:
            return (self._namespace,) if self._namespace in listed.members else ()
        return tuple(namespace.ref.name for namespace in self.objects_of(NAMESPACE))

    def namespaces_with_label(self, label: str, value: str) -> Iterable[Object]:
        return tuple(obj for obj in self.objects_of(NAMESPACE) if obj.labels.get(label) == value)

    def copies_of(self, key: Key) -> Iterable[Object]:
        return self._view.copies_of(key.in_namespace(self._namespace))
