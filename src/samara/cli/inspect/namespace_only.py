"""What can be said of a copy whose sources may not be read: its marks, and the Events of its namespace."""

from __future__ import annotations

from typing import Any, NamedTuple

from samara.core.compare import is_marked_by_us
from samara.core.model import EVENT, Object, Ref
from samara.core.table import Table
from samara.core.want import Dialect
from samara.kube.cache import Cache
from samara.kube.client import Client, address, collection
from samara.kube.codec import Codec, decode
from samara.kube.errors import Forbidden, NotFound

_MOST = 20


class Mark(NamedTuple):
    dialect: str
    origin: str
    rule: str


class Local(NamedTuple):
    """None where something could not be read."""

    present: bool | None
    marks: tuple[Mark, ...]
    events: tuple[str, ...]
    unread: tuple[str, ...]


async def local_answer(client: Client, table: Table, ref: Ref, fault: str) -> Local:
    """`fault` says why the sources, or some of them, could not be read."""
    unread = [f"the sources, and who wants this place ({fault})"]
    present: bool | None = None
    marks: tuple[Mark, ...] = ()
    try:
        have = await _read(client, table, ref)
        present, marks = have is not None, _marks(have, table)
    except Forbidden as refused:
        unread.append(f"the object itself ({refused})")
    events: tuple[str, ...] = ()
    try:
        events = await _events(client, ref)
    except Forbidden as refused:
        unread.append(f"the Events of the namespace ({refused})")
    return Local(present, marks, events, tuple(unread))


async def _read(client: Client, table: Table, ref: Ref) -> Object | None:
    try:
        return Codec(table.managers).object(ref.kind, await client.get(address(ref)))
    except NotFound:
        return None


def _marks(have: Object | None, table: Table) -> tuple[Mark, ...]:
    if have is None:
        return ()
    owner = table.owner(have, Cache(table))
    found = []
    for dialect in table.dialects:
        origin = marked_origin(have, dialect)
        if origin is None:
            continue
        if owner is not None and owner.dialect == dialect.name:
            by = "we set them" if is_marked_by_us(have, dialect) else "somebody else set them"
            found.append(Mark(dialect.title, owner.source.path, f"its marks name {owner.source} as its source; {by}"))
        else:
            found.append(
                Mark(dialect.title, origin, "it carries marks that do not make it a copy under these settings")
            )
    return tuple(found)


def marked_origin(have: Object, dialect: Dialect) -> str | None:
    """What the marks on an object say, in their own words; None where it carries none of this dialect."""
    told = [words[mark] for words in (have.annotations, have.labels) for mark in sorted(dialect.marks) if mark in words]
    return told[0] if told else None


async def _events(client: Client, ref: Ref) -> tuple[str, ...]:
    if not ref.namespace:
        return ()
    chosen = f"involvedObject.name={ref.name},involvedObject.kind={ref.kind.name}"
    items: list[dict[str, Any]] = decode(
        await client.get(collection(EVENT, ref.namespace), {"fieldSelector": chosen, "limit": "500"})
    )["items"]
    ours = [item for item in items if (item.get("source") or {}).get("component") == "samara"]
    ours.sort(key=lambda item: item.get("lastTimestamp") or "")
    return tuple(f"{item.get('reason', '')}: {item.get('message', '')}" for item in ours[-_MOST:])
