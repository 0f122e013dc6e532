"""An in-memory cluster for tests. Users change it through `World`; `server.py` performs our own writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samara.core.kinds import rules_for
from samara.core.model import (
    ANNOTATIONS,
    FIELD_MANAGER,
    LABELS,
    NAMESPACE,
    SECRET,
    Content,
    Field,
    Key,
    Kind,
    ManagedKey,
    Object,
    Ref,
    namespace_ref,
)
from samara.core.names import NamespaceNames
from samara.core.queries import (
    UNREAD,
    CrdExists,
    DryRunCreate,
    IsGone,
    NamespaceIsActive,
    Query,
    ReadError,
    Rejected,
    SecretPath,
    SecretReading,
)
from samara.core.registry import Registry
from samara.core.source_limits import excess, size_of
from samara.core.source_type import Addresses
from samara.core.trust import ChosenLabel, Trust

Words = Mapping[str, str]
EMPTYING = "emptying"
"""A finalizer on a terminating Namespace that still has objects."""
NOT_FOUND = SecretReading(fault=ReadError("FetchError", "the store has nothing at this path"))


def a_field(name: str, value: object) -> Field:
    raw = json.dumps(value, sort_keys=True).encode()
    return Field(name, hashlib.blake2b(raw, digest_size=16).digest(), raw)


def content(**fields: object) -> Content:
    return Content(tuple(a_field(name, fields[name]) for name in sorted(fields)))


def secret(value: str = "one", kind: str = "Opaque", **more: object) -> Content:
    return content(data={"key": value}, type=kind, **more)


def config_map(value: str = "one", **more: object) -> Content:
    return content(data={"key": value}, **more)


def at(namespace: str, name: str, kind: Kind = SECRET) -> Ref:
    return Ref(kind, namespace, name)


@dataclass(repr=False)
class World:
    """All objects, the part of them that the cache holds, and the state outside the cluster."""

    registry: Registry
    objects: dict[Ref, Object] = field(default_factory=dict)
    fetched: set[Ref] = field(default_factory=set)
    """The addresses of unrelated objects that the cache holds because a plan asked for them."""
    unlisted: set[Kind] = field(default_factory=set)
    """The kinds that the cache has not listed yet."""
    revoked: set[Kind] = field(default_factory=set)
    """The kinds whose definitions are being deleted or were deleted."""
    outside: dict[Query, object] = field(default_factory=dict)
    """The state outside the cluster, such as the values of a secret manager."""
    values: dict[Query, object] = field(default_factory=dict)
    """The answers that the cache holds."""
    version: int = 0
    mutated: str = ""
    """If not empty, admission changes copies that contain this text."""
    stored: dict[tuple[Kind, Content], Content] = field(default_factory=dict)
    """The stored form of content that was sent."""
    _source_keys: list[Key] | None = None

    # The view that a plan reads. The cache holds an unrelated object only after it was fetched.

    def _holds(self, obj: Object) -> bool:
        if not obj.ref.kind.namespaced or obj.ref.kind in self.registry.always_cached or obj.ref in self.fetched:
            return True
        return not self.registry.metadata_keys.isdisjoint((*obj.labels, *obj.annotations)) or self._is_owned(obj)

    def _is_owned(self, obj: Object) -> bool:
        """True if an owner reference names a source. Only objects with managedFields of ours are parsed for it."""
        return obj.known_copy and bool(obj.owner_references) and self.registry.owner(obj, self) is not None

    def get(self, ref: Ref) -> Object | None:
        return None if self.exists_unread(ref) else self.objects.get(ref)

    def exists_unread(self, ref: Ref) -> bool:
        return ref in self.objects and not self._holds(self.objects[ref])

    def objects_of(self, kind: Kind) -> list[Object]:
        return [obj for obj in self.held() if obj.ref.kind == kind]

    def held(self) -> list[Object]:
        return [obj for obj in self.objects.values() if self._holds(obj)]

    def namespaces(self, listed: NamespaceNames | None = None) -> Iterable[str]:
        return listed.legal if listed is not None else [namespace.ref.name for namespace in self.objects_of(NAMESPACE)]

    def source_keys(self) -> list[Key]:
        """Every source."""
        possible = dict.fromkeys(key.source for key in self.possible_source_keys())
        return [key for ref in possible for key in self.registry.sources(self.objects[ref], self)]

    def possible_source_keys(self) -> list[Key]:
        """Every object that may be a source, scanned once per change."""
        if self._source_keys is None:
            self._source_keys = [key for obj in self.held() for key in self.registry.possible_sources(obj, self)]
        return self._source_keys

    def namespaces_with_label(self, label: str, value: str) -> list[Object]:
        return [namespace for namespace in self.objects_of(NAMESPACE) if namespace.labels.get(label) == value]

    def sources(self, source_type: str, namespace: str | None = None) -> list[Ref]:
        refs = [key.source for key in self.possible_source_keys() if key.source_type == source_type]
        return [ref for ref in refs if namespace in (None, ref.namespace)]

    def sources_targeting(self, source_type: str, namespace: str) -> list[Ref]:
        claims = {ref: self.registry[source_type].addresses(ref, self) for ref in self.sources(source_type)}
        return [
            ref
            for ref, claim in claims.items()
            if (claim is not None and claim.within == namespace) or self.copies_of(Key(source_type, ref, namespace))
        ]

    only_namespace: None = None

    def sources_naming(self, source_type: str, namespace: str) -> list[Ref]:
        listed = {
            ref: self.registry[source_type].names.listed_by(self.objects[ref]) for ref in self.sources(source_type)
        }
        naming = [ref for ref, found in listed.items() if found.elsewhere or namespace in found.names]
        return [ref for ref in naming if not self.excess(Key(source_type, ref))]

    def trees_of(self, namespace: str) -> Iterable[str]:
        return self.registry.trees_of(namespace, self)

    def chosen_labels(self, namespace: Object, keys: Iterable[str]) -> Mapping[str, ChosenLabel]:
        return self.registry.chosen_labels_on(namespace, keys, self)

    def trust_in(self, name: str) -> Iterable[Trust]:
        return self.registry.trust_in(name, self, [namespace.ref for namespace in self.objects_of(NAMESPACE)])

    def is_trust_known(self) -> bool:
        return all(map(self.has_synced, self.registry.kinds_that_name))

    def excess(self, key: Key) -> str:
        limits = self.registry[key.source_type].policy.limits
        if limits is None:
            return ""
        near = {
            other: size_of(self.objects[other.source], self.registry[other.source_type].names.listed_by(obj).total)
            for other in self.possible_source_keys()
            if other.source.namespace == key.source.namespace
            and self.registry[other.source_type].policy.limits is not None
            and not (obj := self.objects[other.source]).deleting
        }
        return excess(near, limits).get(key, "")

    def copies_of(self, key: Key) -> list[Object]:
        in_scope = [obj for obj in self.held() if key.namespace in (None, obj.ref.namespace)]
        return [obj for obj in in_scope if self.registry.owner(obj, self) == key.all_namespaces]

    def claimants(self, ref: Ref) -> list[Key]:
        namespace = self.get(namespace_ref(ref.namespace))
        above = ("",) if namespace is None else ("", *self.registry.parents(namespace))
        claims = {Addresses(ref.kind, ref.name, below) for below in above}
        claims.add(Addresses(ref.kind, ref.name, within=ref.namespace))
        return [
            key
            for key in self.possible_source_keys()
            if self.registry[key.source_type].addresses(key.source, self) in claims
        ]

    def readers(self, ref: Ref) -> list[Key]:
        """The sources that read this address, and those that read one of these sources in turn."""
        found: dict[Key, None] = {}
        waiting, seen = [ref], {ref}
        while waiting:
            read = waiting.pop()
            direct = [key for key in self.possible_source_keys() if read in self.inputs_of(key)]
            found.update(dict.fromkeys(direct))
            waiting += [key.source for key in direct if key.source not in seen]
            seen.update(key.source for key in direct)
        return list(found)

    def inputs_of(self, key: Key) -> tuple[Ref, ...]:
        return tuple(self.registry.inputs(key, self.objects[key.source]))

    def owner(self, obj: Object) -> Key | None:
        return self.registry.owner(obj, self)

    def is_claimed(self, ref: Ref) -> bool:
        """True if a source may write this kind and name in any namespace."""
        claims = (self.registry[key.source_type].addresses(key.source, self) for key in self.possible_source_keys())
        return any(claim is not None and claim.target == (ref.kind, ref.name) for claim in claims)

    def sources_overlapping(self, addresses: Addresses) -> list[Key]:
        """The sources whose addresses may overlap with these. Those of another branch of a tree do not."""
        others = (
            (key, self.registry[key.source_type].addresses(key.source, self)) for key in self.possible_source_keys()
        )
        same_target = [(key, claim) for key, claim in others if claim is not None and claim.target == addresses.target]
        return [
            key
            for key, claim in same_target
            if _may_overlap(claim.below, addresses.below) and _may_overlap(claim.within, addresses.within)
        ]

    def has_synced(self, kind: Kind) -> bool:
        return kind not in self.unlisted

    def answer(self, read: Query) -> object:
        return self._answer(read) if isinstance(read, NamespaceIsActive) else self.values.get(_known_by(read), UNREAD)

    def is_stored_form_of(self, kind: Kind, sent: Content, stored: Content) -> bool:
        return self.stored.get((kind, sent)) == stored

    def canonical(self, kind: Kind, fields: Mapping[str, object]) -> Content | None:
        normal = rules_for(kind).canonical
        stored = normal(fields) if normal is not None else None
        return None if stored is None else content(**stored)

    def read(self, reads: Iterable[Query]) -> None:
        """Answers the queries from outside the cluster or with a dry run."""
        self.values.update({_known_by(query): self._answer(query) for query in reads})

    def _answer(self, read: Query) -> object:
        if isinstance(read, CrdExists):
            return read.kind not in self.revoked
        if isinstance(read, IsGone):
            return read.ref not in self.objects
        if isinstance(read, NamespaceIsActive) and read not in self.outside:
            namespace = self.objects.get(namespace_ref(read.name))
            return namespace is not None and not namespace.deleting
        if isinstance(read, SecretPath):
            return self.outside.get(_known_by(read), NOT_FOUND)
        return self.outside[read] if read in self.outside else _answer(read)

    def fetch(self, refs: Iterable[Ref]) -> None:
        """Puts these objects into the cache, as a single read does."""
        self.fetched.update(refs)
        self._source_keys = None

    # Changes by users, or `by` a field manager of ours. They update the managed fields.

    def put(self, ref: Ref, body: Content | None = None, by: str = "", **more: Any) -> Object:
        self.version += 1
        self.store(
            Object(
                ref,
                f"u{self.version}",
                self.version,
                known_copy=by == FIELD_MANAGER,
                created=more.pop("created", "2026"),
            )
        )
        return self.edit(ref, by=by, content=body or Content(), **more)

    def edit(self, ref: Ref, by: str = "", **changes: Any) -> Object:
        before = self.objects[ref]
        self.version += 1
        after = replace(before, resource_version=self.version, **changes)
        changed = {ManagedKey(by, where, key) for (where, key), _ in _metadata_of(after) - _metadata_of(before)}
        ours = _kept(before.managed_keys, before, after) | (changed if by else set())
        return self.store(replace(after, managed_keys=ours, applied_keys=_kept(before.applied_keys, before, after)))

    def delete(self, ref: Ref) -> None:
        """Deletes an object. A Namespace disappears after all objects in it."""
        inside = [inner for inner, obj in self.objects.items() if ref.kind == NAMESPACE and inner.namespace == ref.name]
        if inside:
            self.edit(ref, finalizers=(*self.objects[ref].finalizers, EMPTYING))
        self.edit(ref, deleting=True)
        for inner in inside:
            self.delete(inner)

    def paste(self, ref: Ref, namespace: str) -> Object:
        """`kubectl get -o yaml | kubectl apply -n other`: copies the marks, but not the managed fields."""
        original = self.objects[ref]
        pasted = ref._replace(namespace=namespace)
        return self.put(pasted, original.content, labels=original.labels, annotations=original.annotations)

    def strip(self, ref: Ref) -> Object:
        """Removes every mark."""
        marked, keys = self.objects[ref], self.registry.metadata_keys
        labels, annotations = (
            {key: metadata[key] for key in metadata if key not in keys}
            for metadata in (marked.labels, marked.annotations)
        )
        return self.edit(ref, labels=labels, annotations=annotations)

    def namespace(self, name: str, labels: Words | None = None, annotations: Words | None = None) -> Object:
        return self.put(namespace_ref(name), labels=labels or {}, annotations=annotations or {})

    def terminate(self, name: str) -> None:
        self.edit(namespace_ref(name), finalizers=("kubernetes",), deleting=True)

    def store(self, obj: Object) -> Object:
        self._source_keys = None
        if obj.deleting and not obj.finalizers:
            del self.objects[obj.ref]
            self._empty(namespace_ref(obj.ref.namespace))
        else:
            self.objects[obj.ref] = obj
        return obj

    def _empty(self, ref: Ref) -> None:
        namespace = self.objects.get(ref)
        if (
            namespace is not None
            and EMPTYING in namespace.finalizers
            and all(other.namespace != ref.name for other in self.objects)
        ):
            self.edit(ref, finalizers=tuple(finalizer for finalizer in namespace.finalizers if finalizer != EMPTYING))

    # Snapshots and comparison.

    def snapshot(self) -> World:
        """A snapshot as a cache would see it now. It shares the reads."""
        return replace(self, objects=dict(self.objects), _source_keys=None)

    def catch_up(self, world: World) -> None:
        self.objects, self._source_keys = dict(world.objects), None

    def __repr__(self) -> str:
        return "\n".join(_line(obj) for obj in self.objects.values())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def state(self) -> dict[Ref, tuple[object, ...]]:
        """The state as users see it, without uids and versions."""
        return {ref: _shown(obj) for ref, obj in self.objects.items()}


def path(text: str) -> SecretPath:
    """A path of the secret manager, independent of the interval of its readers."""
    return SecretPath(text, 0.0)


def _known_by(read: Query) -> Query:
    return path(read.path) if isinstance(read, SecretPath) else read


def _may_overlap(one: str, other: str) -> bool:
    return not (one and other) or one == other


def _answer(read: Query) -> Content | Rejected | None:
    """The answer to a dry run: the server adds a default and refuses negative sizes."""
    spec = json.loads(read.body).get("spec") or {} if isinstance(read, DryRunCreate) else None
    if spec is None:
        return None
    return Rejected("a size below zero") if spec.get("size", 0) < 0 else content(spec={"mode": "plain", **spec})


def _shown(obj: Object) -> tuple[object, ...]:
    status = obj.status and obj.status.raw
    return (
        obj.content,
        dict(obj.labels),
        dict(obj.annotations),
        obj.owner_references,
        set(obj.finalizers),
        obj.deleting,
        status,
    )


def _line(obj: Object) -> str:
    """One object in a line, for the report of a failing example."""
    flags = f"{'made ' * obj.known_copy}{'deleting ' * obj.deleting}{' '.join(obj.finalizers)}"
    raw = " ".join(f"{part.name}={part.raw!r}" for part in obj.content.fields)
    ours = sorted(owned.key for owned in obj.managed_keys)
    return f"{obj.ref} {dict(obj.labels)} {dict(obj.annotations)} {raw} {flags} ours={ours}"


def _metadata_of(obj: Object) -> set[tuple[tuple[str, str], str]]:
    labels = {((LABELS, key), value) for key, value in obj.labels.items()}
    return labels | {((ANNOTATIONS, key), value) for key, value in obj.annotations.items()}


def _kept(owned: frozenset[ManagedKey], before: Object, after: Object) -> frozenset[ManagedKey]:
    same = {key for key, _ in _metadata_of(after) & _metadata_of(before)}
    return frozenset(managed_key for managed_key in owned if (managed_key.where, managed_key.key) in same)
