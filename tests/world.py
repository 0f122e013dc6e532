"""An in-memory cluster for tests: it reads by scanning, and writes by the rules of a real API server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from samara.core.compare import merged, owners_with, released
from samara.core.match import Names
from samara.core.model import (
    ANNOTATIONS,
    LABELS,
    MANAGER,
    NAMESPACE,
    SECRET,
    Content,
    Field,
    Key,
    Kind,
    Object,
    Owned,
    Ref,
    namespace_ref,
)
from samara.core.table import Table
from samara.core.want import KEEP, UNREAD, Copy, Overlay, Places
from samara.core.write import Apply, Create, Delete, Guard, Recreate, Release, Report, Update, Write

Words = Mapping[str, str]


def a_field(name: str, value: object) -> Field:
    raw = json.dumps(value, sort_keys=True).encode()
    return Field(name, hashlib.blake2b(raw, digest_size=16).digest(), raw)


def content(**fields: object) -> Content:
    return Content(tuple(a_field(name, fields[name]) for name in sorted(fields)))


def secret(value: str = "one", kind: str = "Opaque", **more: object) -> Content:
    return content(data={"key": value}, type=kind, **more)


def at(namespace: str, name: str, kind: Kind = SECRET) -> Ref:
    return Ref(kind, namespace, name)


@dataclass
class World:
    """Everything that exists, what of it is held, and what lies outside the cluster."""

    table: Table
    objects: dict[Ref, Object] = field(default_factory=dict)
    looked: set[Ref] = field(default_factory=set)
    unlisted: set[Kind] = field(default_factory=set)
    outside: dict[str, object] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    version: int = 0
    _asking: list[Key] | None = None

    # What a plan may read. An unrelated Secret is not held until it has been looked at.

    def _holds(self, obj: Object) -> bool:
        words = self.table.words
        return (
            obj.ref.kind != SECRET or obj.ref in self.looked or any(w in words for w in (*obj.labels, *obj.annotations))
        )

    def get(self, ref: Ref) -> Object | None:
        return None if self.taken(ref) else self.objects.get(ref)

    def taken(self, ref: Ref) -> bool:
        return ref in self.objects and not self._holds(self.objects[ref])

    def all(self, kind: Kind) -> list[Object]:
        return [obj for obj in self.held() if obj.ref.kind == kind]

    def held(self) -> list[Object]:
        return [obj for obj in self.objects.values() if self._holds(obj)]

    def namespaces(self, listed: Names | None = None) -> Iterable[str]:
        return listed.legal if listed is not None else [each.ref.name for each in self.all(NAMESPACE)]

    def asking(self) -> list[Key]:
        if self._asking is None:
            self._asking = [key for obj in self.held() for key in self.table.sources(obj, self)]
        return self._asking

    def sources(self, dialect: str) -> list[Ref]:
        return [key.source for key in self.asking() if key.dialect == dialect]

    def copies_of(self, key: Key) -> list[Object]:
        origin = self.table[key.dialect].origin
        near = [obj for obj in self.held() if key.slice in (None, obj.ref.namespace)]
        return [obj for obj in near if origin(obj, self) == key.source]

    def claims(self, kind: Kind, name: str) -> list[Key]:
        return [k for k in self.asking() if self.table[k.dialect].places(k.source, self) == Places(kind, name)]

    def known(self, kind: Kind) -> bool:
        return kind not in self.unlisted

    def value(self, path: str) -> object:
        return self.values.get(path, UNREAD)

    # What the API server does with a write.

    def write(self, write: Write) -> bool:
        """Performs a write of ours; False where the server refuses it."""
        if isinstance(write, Create):
            return self._create(write.copy)
        have = self.objects.get(write.ref)
        if have is None or (have.uid, have.version) != (write.have.uid, write.have.version):
            return False
        dialect = self.table[write.key.dialect]
        match write:
            case Update(copy=copy):
                labels, annotations = (merged(where, copy, have, dialect) for where in (LABELS, ANNOTATIONS))
                return self._replace(have, copy, labels, annotations)
            case Recreate(copy=copy):
                self.delete(have.ref)
                return self._create(copy)
            case Delete():
                self.delete(have.ref)
            case Release():
                labels, annotations = released(have, dialect)
                self.edit(have.ref, by=MANAGER, labels=labels, annotations=annotations)
            case Apply(overlay=overlay):
                self._apply(have, overlay)
            case Guard(finalizer=ours, add=add):
                rest = tuple(each for each in have.finalizers if each != ours)
                self.edit(have.ref, finalizers=(*rest, ours) if add else rest)
            case Report(status=status):
                self.edit(have.ref, status=a_field("status", status))
            case _:
                assert_never(write)
        return True

    def _create(self, copy: Copy) -> bool:
        namespace = self.objects.get(namespace_ref(copy.ref.namespace))
        if copy.ref in self.objects or namespace is None or namespace.deleting or copy.content is KEEP:
            return False
        self.put(copy.ref, copy.content, MANAGER, labels=copy.labels, annotations=copy.annotations)
        return True

    def _replace(self, have: Object, copy: Copy, labels: Words, annotations: Words) -> bool:
        if copy.content is KEEP or self._is_immutable(have, copy.content):
            return False
        words: dict[str, Any] = {"labels": labels, "annotations": annotations, "owners": owners_with(copy, have)}
        self.edit(have.ref, by=MANAGER, content=copy.content, made=True, **words)
        return True

    @staticmethod
    def _is_immutable(have: Object, sent: Content) -> bool:
        frozen = have.content.get("immutable") is not None and have.content != sent
        return have.ref.kind == SECRET and (frozen or have.content.get("type") != sent.get("type"))

    def _apply(self, have: Object, overlay: Overlay) -> None:
        before = {owned for owned in have.applied if owned.manager == overlay.manager}
        words = {LABELS: dict(have.labels), ANNOTATIONS: dict(have.annotations)}
        for owned in before:
            words[owned.where].pop(owned.key, None)
        words[LABELS].update(overlay.labels)
        words[ANNOTATIONS].update(overlay.annotations)
        self.edit(have.ref, labels=words[LABELS], annotations=words[ANNOTATIONS])
        keys = [(LABELS, key) for key in overlay.labels] + [(ANNOTATIONS, key) for key in overlay.annotations]
        applied = have.applied - before | {Owned(overlay.manager, *each) for each in keys}
        self._store(replace(self.objects[have.ref], applied=applied))

    # What people do, or `by` a field manager of ours: the server's record follows.

    def put(self, ref: Ref, has: Content | None = None, by: str = "", **more: Any) -> Object:
        self.version += 1
        bare = Object(ref, f"u{self.version}", self.version, made=by == MANAGER, created=more.pop("created", "2026"))
        self._store(bare)
        return self.edit(ref, by=by, content=has or Content(), **more)

    def edit(self, ref: Ref, by: str = "", **changes: Any) -> Object:
        have = self.objects[ref]
        self.version += 1
        after = replace(have, version=self.version, **changes)
        ours = _kept(have.ours, have, after)
        if by:
            ours |= {Owned(by, where, key) for where, key in _changed(have, after)}
        return self._store(replace(after, ours=ours, applied=_kept(have.applied, have, after)))

    def delete(self, ref: Ref) -> None:
        if self.objects[ref].finalizers:
            self.edit(ref, deleting=True)
            return
        gone = self.objects.pop(ref)
        self._asking = None
        if gone.ref.kind == NAMESPACE:
            self.objects = {each: obj for each, obj in self.objects.items() if each.namespace != ref.name}

    def paste(self, ref: Ref, namespace: str) -> Object:
        """`kubectl get -o yaml | kubectl apply -n other`: the marks come along, the server's record does not."""
        have = self.objects[ref]
        words: dict[str, Any] = {"labels": have.labels, "annotations": have.annotations}
        return self.put(ref._replace(namespace=namespace), have.content, **words)

    def strip(self, ref: Ref) -> Object:
        have, words = self.objects[ref], self.table.words
        labels, annotations = (
            {k: v for k, v in each.items() if k not in words} for each in (have.labels, have.annotations)
        )
        return self.edit(ref, labels=labels, annotations=annotations)

    def namespace(self, name: str, labels: Words | None = None, **annotations: str) -> Object:
        told = {key.replace("__", ".dev/").replace("_", "-"): value for key, value in annotations.items()}
        return self.put(namespace_ref(name), labels=labels or {}, annotations=told)

    def terminate(self, name: str) -> None:
        self.edit(namespace_ref(name), finalizers=("kubernetes",), deleting=True)

    def look(self, refs: Iterable[Ref]) -> None:
        self.looked.update(refs)
        self._asking = None

    def seen(self) -> World:
        """What a cache knows at this moment; it shares what was looked at and read."""
        return replace(self, objects=dict(self.objects), _asking=None)

    def catch_up(self, world: World) -> None:
        self.objects, self._asking = dict(world.objects), None

    def state(self) -> dict[Ref, tuple[object, ...]]:
        return {ref: _shown(obj) for ref, obj in self.objects.items()}

    def _store(self, obj: Object) -> Object:
        self._asking = None
        if obj.deleting and not obj.finalizers:
            del self.objects[obj.ref]
        else:
            self.objects[obj.ref] = obj
        return obj


def _shown(obj: Object) -> tuple[object, ...]:
    status = obj.status and obj.status.raw
    return obj.content, dict(obj.labels), dict(obj.annotations), obj.owners, set(obj.finalizers), obj.deleting, status


def _words(obj: Object) -> dict[tuple[str, str], str]:
    labels = {(LABELS, key): value for key, value in obj.labels.items()}
    return labels | {(ANNOTATIONS, key): value for key, value in obj.annotations.items()}


def _changed(before: Object, after: Object) -> set[tuple[str, str]]:
    return {(where, key) for (where, key), _ in _words(after).items() - _words(before).items()}


def _kept(owned: frozenset[Owned], before: Object, after: Object) -> frozenset[Owned]:
    same = _words(after).items() & _words(before).items()
    return frozenset(each for each in owned if any(key == (each.where, each.key) for key, _ in same))
