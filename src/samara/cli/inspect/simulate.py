"""Puts what a write leaves behind into the cache of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from samara.core.model import Key
from samara.core.simulate import simulate_write
from samara.core.writes import Recreate, Write
from samara.kube.cache import Cache, Change


def lay(cache: Cache, write: Write, now: str) -> Iterator[Key]:
    """Puts what a write leaves behind into a cache; returns the keys that have to be planned again for it."""
    after = simulate_write(write, cache.registry[write.key.source_type], now)
    if after is None or isinstance(write, Recreate):
        yield from _woken(cache.remove(write.ref), cache)
    if after is not None:
        yield from _woken(cache.put(after), cache)


def _woken(change: Change | None, cache: Cache) -> Iterator[Key]:
    if change is None:
        return
    yield from (key.all_namespaces for key in change.rivals)
    for obj in (change.old, change.new):
        if obj is not None:
            yield from (key.all_namespaces for key in cache.registry.keys_to_reconcile(obj, cache))
