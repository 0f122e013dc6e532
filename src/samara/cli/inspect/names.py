"""The names of objects, to complete words and to find a name that is misspelt. No content of an object is requested."""

from __future__ import annotations

from typing import Any

import msgspec

from samara.cli.output import note
from samara.cli.suggestions import did_you_mean, unknown_namespace
from samara.core.model import NAMESPACE, Kind, Ref
from samara.kube.client import JSON, Client, collection
from samara.kube.codec import MALFORMED
from samara.kube.errors import SamaraError

_TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
_WITHOUT_METADATA = {"includeObject": "None"}


class _Column(msgspec.Struct):
    format: str = ""


class _Row(msgspec.Struct):
    cells: list[Any]


class _Table(msgspec.Struct):
    columns: list[_Column] = msgspec.field(name="columnDefinitions")
    rows: list[_Row]


_decode = msgspec.json.Decoder(_Table).decode


async def list_names(client: Client, kind: Kind, namespace: str = "") -> list[str]:
    """The names in the table that `kubectl get` would print, in one namespace or in all."""
    path = collection(kind, namespace)
    try:
        table = _decode(await client.get(path, _WITHOUT_METADATA, _TABLE))
        column = [column.format for column in table.columns].index("name")
        return [str(row.cells[column]) for row in table.rows]
    except (*MALFORMED, IndexError):
        raise SamaraError(f"the list {path} was answered with something that is no table") from None


async def note_similar_names(client: Client, ref: Ref) -> None:
    """Notes that the namespace of an object does not exist, or else which names in it are like that of the object.

    Says nothing if the names may not be read.
    """
    namespaces = await _names_if_readable(client, NAMESPACE)
    if ref.namespace and namespaces and ref.namespace not in namespaces:
        note(unknown_namespace(ref.namespace, namespaces))
        return
    similar = did_you_mean(ref.name, await _names_if_readable(client, ref.kind, ref.namespace))
    if similar:
        note(f"there is no {ref}{similar}")


async def _names_if_readable(client: Client, kind: Kind, namespace: str = "") -> list[str]:
    try:
        return await list_names(client, kind, namespace)
    except SamaraError:
        return []
