"""How much the sources of one namespace may ask for, if tenants can write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from samara.core.model import Key, Object

LIMIT_EXCEEDED = "LimitExceeded"
"""The reason of the fault of a source that exceeds a limit."""


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The setting `limits`."""

    listed_names: int = 10_000
    """Names of namespaces that one source lists."""
    listed_names_per_namespace: int = 100_000
    """The same for all sources of one namespace."""
    source_bytes_per_namespace: int = 16 * 1024 * 1024

    def allow_source(self, names: int) -> bool:
        """True if one source may list this many names."""
        return names <= self.listed_names

    def allow(self, names: int, size: int) -> bool:
        """True if the sources of one namespace may list this many names and hold this many bytes."""
        return names <= self.listed_names_per_namespace and size <= self.source_bytes_per_namespace


class SourceSize(NamedTuple):
    """What counts of one source."""

    created: str
    names: int
    size: int


def size_of(source: Object, names: int) -> SourceSize:
    """The size of a source with this many listed names: the bytes of its content, its labels and its annotations."""
    content = sum(len(field.raw) for field in source.content.fields if field.raw is not None)
    metadata_size = sum(
        len(key) + len(value) for metadata in (source.labels, source.annotations) for key, value in metadata.items()
    )
    return SourceSize(source.created, names, content + metadata_size)


def excess(sizes: Mapping[Key, SourceSize], limits: SourceLimits) -> dict[Key, str]:
    """The sources of one namespace that exceed the limits, each with a message. Older ones come first.

    A source with too many names of its own takes nothing from the others.
    """
    too_long = f"the source lists more than {limits.listed_names:,} names (setting limits.listedNames)"
    most_names, most_bytes = (
        f"{limits.listed_names_per_namespace:,} names",
        f"{limits.source_bytes_per_namespace:,} bytes",
    )
    too_many_names = _message("list", most_names, "listedNamesPerNamespace")
    too_many_bytes = _message("hold", most_bytes, "sourceBytesPerNamespace")
    refused: dict[Key, str] = {}
    names = size = 0
    for key, source in sorted(sizes.items(), key=lambda item: (item[1].created, item[0])):
        if not limits.allow_source(source.names):
            refused[key] = too_long
        elif names + source.names > limits.listed_names_per_namespace:
            refused[key] = too_many_names
        elif size + source.size > limits.source_bytes_per_namespace:
            refused[key] = too_many_bytes
        else:
            names, size = names + source.names, size + source.size
    return refused


def _message(verb: str, most: str, setting: str) -> str:
    more = f"the sources of this namespace {verb} more than {most} together"
    return f"{more} (setting limits.{setting}); older sources come first"
