"""Parts of `kube` without a secret manager and without a display of progress."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from samara.core.model import Kind
from samara.core.queries import ReadError, SecretPath, SecretReading
from samara.core.registry import Registry
from samara.kube.answers import NO_READINGS, Answers
from samara.kube.cache import Cache
from samara.kube.codec import Codec


def a_plain_cache(registry: Registry, *extra_kinds: Kind, **more: Any) -> Cache:
    """A cache for a cluster without a secret manager."""
    parts = {"build_content": Codec(registry.managers).content, "readings": NO_READINGS}
    return Cache(registry, extra_kinds, **{**parts, **more})


def some_answers(sources: int = 0, readings: Mapping[str, SecretReading] = NO_READINGS) -> Answers:
    return Answers(lambda: sources, readings)


async def unread(paths: Collection[SecretPath]) -> dict[str, SecretReading]:
    """For a snapshot that does not read the secret manager."""
    fault = ReadError("TokenError", "the secret manager has not been asked")
    return {path.path: SecretReading(fault=fault) for path in paths}


def unseen(kind: Kind, count: int) -> None:
    """For a list whose progress is not shown."""
