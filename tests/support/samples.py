"""A clock that a test moves, and keys, objects, writes and caches that need few arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.support.caches import a_plain_cache
from tests.support.world import at, secret

from samara.core.desired import Copy, Template
from samara.core.model import FIELD_MANAGER, Key, ManagedKey, Object, Ref, namespace_ref
from samara.core.registry import Registry
from samara.core.writes import Create, Delete, Release
from samara.kube.auth import Access
from samara.kube.auth.credentials import Fixed
from samara.kube.cache import Cache
from samara.vocabularies import secret_copy
from samara.vocabularies.secret_copy import ORIGIN, TARGETS

HOME = "admin"


@dataclass
class Clock:
    """Time that passes only when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def a_key(name: str = "db", namespace: str = HOME, source_type: str = "secret-copy") -> Key:
    return Key(source_type, at(namespace, name))


def create(namespace: str, key: Key | None = None, name: str = "", value: str = "one") -> Create:
    key = key or a_key()
    ref = at(namespace, name or key.source.name)
    return Create(key, ref, Copy(ref, Template(secret(value))))


def an_object(ref: Ref, version: int = 1, **more: Any) -> Object:
    return Object(ref, more.pop("uid", f"uid of {ref.path}"), version, **more)


def a_copy(namespace: str, name: str = "db", version: int = 1, **more: Any) -> Object:
    """A Secret that carries our mark, as the server records it."""
    ours = frozenset({ManagedKey(FIELD_MANAGER, "annotations", ORIGIN)})
    annotations = {ORIGIN: f"{HOME}/{name}"}
    return an_object(at(namespace, name), version, annotations=annotations, managed_keys=ours, known_copy=True, **more)


def a_source(name: str = "db", targets: str = "", version: int = 1, **more: Any) -> Object:
    return an_object(at(HOME, name), version, annotations={TARGETS: targets}, content=secret("one"), **more)


def delete(namespace: str, key: Key | None = None) -> Delete:
    key = key or a_key()
    live = a_copy(namespace, key.source.name)
    return Delete(key, live.ref, live)


def deletes(names: Iterable[str], key: Key | None = None) -> list[Delete]:
    return [delete(name, key) for name in names]


def release(namespace: str) -> Release:
    live = a_copy(namespace)
    return Release(a_key(), live.ref, live)


def numbered(first: int, last: int) -> list[str]:
    return [f"ns-{number:05}" for number in range(first, last)]


def an_access(server: str = "http://127.0.0.1:1", **more: Any) -> Access:
    given = {"credentials": Fixed(), "context": "test", **more}
    return Access(server, "samara", None, None, None, **given)


def a_registry(**more: Any) -> Registry:
    return Registry((secret_copy.source_type(HOME, **more),))


def a_cache(registry: Registry | None = None, **more: Any) -> Cache:
    """A cache in which every kind is listed, and empty."""
    registry = registry or a_registry(on_source_gone="delete")
    cache = a_plain_cache(registry, **more)
    for store in cache.stores.values():
        store.listed = True
    return cache


def a_namespace(name: str, version: int = 1, **more: Any) -> Object:
    return an_object(namespace_ref(name), version, **more)
