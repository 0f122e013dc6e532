"""Asks the server what an annotation of an object's owner says; nothing else of the owner is read."""

from __future__ import annotations

import msgspec

from samara.core.want import Rejected, Word
from samara.kube.client import METADATA, Client, collection
from samara.kube.discovery import kinds_of
from samara.kube.errors import Forbidden, NotFound


class _Metadata(msgspec.Struct):
    uid: str
    annotations: dict[str, str] | None = None


class _Owner(msgspec.Struct):
    metadata: _Metadata


_owner = msgspec.json.Decoder(_Owner).decode


async def word_of(client: Client, asked: Word) -> str | Rejected:
    """Empty where the owner is gone, is another one by now, or says nothing; rejected where we may not read it."""
    owner = asked.owner
    try:
        kind = (await kinds_of(client, owner.api_version)).get(owner.kind)
        if kind is None:
            return ""
        home = collection(kind, asked.namespace if kind.namespaced else "")
        found = _owner(await client.get(f"{home}/{owner.name}", accept=METADATA)).metadata
    except NotFound:
        return ""
    except Forbidden as fault:
        return Rejected(str(fault))
    return (found.annotations or {}).get(asked.annotation, "") if found.uid == owner.uid else ""
