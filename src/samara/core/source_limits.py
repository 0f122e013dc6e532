"""How much the sources of one namespace may ask for, if tenants can write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from samara.core.admission import Request
from samara.core.desired import Desired, Fault, Mistake, mismatch
from samara.core.model import Key, Object, Ref
from samara.core.source_type import SourceType
from samara.core.view import View

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
        """True if one source may list so many names."""
        return names <= self.listed_names

    def allow(self, names: int, size: int) -> bool:
        """True if the sources of one namespace may list so many names and hold so many bytes."""
        return names <= self.listed_names_per_namespace and size <= self.source_bytes_per_namespace


class SourceSize(NamedTuple):
    """What counts of one source."""

    created: str
    names: int
    size: int


def size_of(source: Object, names: int) -> SourceSize:
    """The size of a source with so many listed names: the bytes of its content, its labels and its annotations."""
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


def too_many_names(obj: Object, source_type: SourceType, limits: SourceLimits) -> Fault | None:
    """The fault of a source that lists more names than one source may. None if it does not."""
    listed = source_type.names.listed_by(obj)
    if limits.allow_source(listed.total):
        return None
    note = f"; {listed.note}" if listed.note else ""
    expected = f"a list of at most {limits.listed_names:,} names (setting limits.listedNames{note})"
    return mismatch(listed.field, expected, f"{listed.total:,} names")._replace(reason=LIMIT_EXCEEDED)


def limited(source_type: SourceType, limits: SourceLimits) -> SourceType:
    """The same source type, of which a source that exceeds the limits keeps its copies and gets no others.

    The webhook refuses a source that lists too many names, and lint reports nothing else about its list.
    """

    def desired(source: Ref, view: View) -> Desired:
        message = view.excess(Key(source_type.name, source))
        if not message:
            return source_type.desired(source, view)
        obj = view.get(source)
        fault = None if obj is None else too_many_names(obj, source_type, limits)
        return Desired(prune=False, faults=(fault or Fault(LIMIT_EXCEEDED, message),))

    def validate(request: Request, view: View) -> tuple[str, ...]:
        new, old = request.new, request.old
        if new is not None and (old is None or source_type.names.listed_by(old) != source_type.names.listed_by(new)):
            fault = too_many_names(new, source_type, limits)
            if fault is not None:
                return (fault.message,)
        return () if admission is None else admission.validate(request, view)

    def lint(obj: Object) -> Iterable[Mistake]:
        return source_type.source.lint(obj) if too_many_names(obj, source_type, limits) is None else ()

    admission = source_type.admission
    return replace(
        source_type,
        source=replace(source_type.source, lint=lint),
        desired=desired,
        admission=None if admission is None else replace(admission, validate=validate),
        policy=source_type.policy._replace(limits=limits),
    )
