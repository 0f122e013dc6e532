"""Asks the server what an annotation of an object's owner says; nothing else of the owner is read."""

from __future__ import annotations

import msgspec

from samara.core.model import Owner, Ref
from samara.core.reads import Rejected, Word
from samara.kube.client import METADATA, Client, address
from samara.kube.discovery import kinds_of
from samara.kube.errors import Forbidden, NotFound


class _Reference(msgspec.Struct):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class _Metadata(msgspec.Struct):
    uid: str
    annotations: dict[str, str] | None = None
    ownerReferences: list[_Reference] | None = None


class _Found(msgspec.Struct):
    metadata: _Metadata


_found = msgspec.json.Decoder(_Found).decode


async def word_of(client: Client, asked: Word) -> str | Rejected:
    """Empty where the owner is gone, is another one by now, or says nothing; rejected where we may not read it."""
    try:
        owner = await _controller(client, asked.owner) if isinstance(asked.owner, Ref) else asked.owner
        if owner is None:
            return ""
        kind = (await kinds_of(client, owner.api_version)).get(owner.kind)
        if kind is None:
            return ""
        where = Ref(kind, asked.namespace if kind.namespaced else "", owner.name)
        found = _found(await client.get(address(where), accept=METADATA)).metadata
    except NotFound:
        return ""
    except Forbidden as fault:
        return Rejected(str(fault))
    return (found.annotations or {}).get(asked.annotation, "") if found.uid == owner.uid else ""


async def _controller(client: Client, ref: Ref) -> Owner | None:
    found = _found(await client.get(address(ref), accept=METADATA)).metadata
    control = (each for each in found.ownerReferences or () if each.controller)
    return next((Owner(each.apiVersion, each.kind, each.name, each.uid) for each in control), None)
