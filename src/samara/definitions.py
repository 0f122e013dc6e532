"""Are the definitions that are installed as new as ours? The server drops a field that its definition does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from samara import crds, log
from samara.core.match import sample
from samara.core.model import Ref
from samara.kube.client import Client, address
from samara.kube.codec import MALFORMED, decode
from samara.kube.definition import CRD
from samara.kube.errors import SamaraError
from samara.settings import Settings
from samara.vocabularies import served

Json = dict[str, Any]
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


async def tell_of_older(client: Client, settings: Settings) -> None:
    """Whoever uses a field that an installed definition does not have is not told by the server: so we tell."""
    for name in crds.needed(kind for dialect in served(settings) for kind in dialect.asking):
        try:
            there = decode(await client.get(address(Ref(CRD, "", name))))
        except (SamaraError, *MALFORMED):
            continue  # not there, or not to be read: its watch says so
        missing = fields_missing(there, yaml.load(crds.text(name), _Loader))  # noqa: S506 - the safe one
        if missing:
            log.warning(
                "definition.older",
                name=name,
                lacks=sample(missing),
                then="the server drops these fields; apply what `samara crds` prints",
            )


def fields_missing(there: Json, ours: Json) -> list[str]:
    """The fields of our definition that an installed one does not know, in the versions that both have."""
    have = _schemas(there)
    return [
        f"{version} {path}"
        for version, schema in _schemas(ours).items()
        if version in have
        for path in _missing(have[version], schema, "")
        if path.startswith(("spec", "status"))
    ]


def _schemas(definition: Json) -> dict[str, Json]:
    found = {each["name"]: (each.get("schema") or {}).get("openAPIV3Schema") for each in definition["spec"]["versions"]}
    return {version: schema for version, schema in found.items() if schema}


def _missing(there: Json, ours: Json, path: str) -> Iterator[str]:
    if there.get("x-kubernetes-preserve-unknown-fields"):
        return
    have = there.get("properties") or {}
    for name, field in (ours.get("properties") or {}).items():
        where = f"{path}.{name}".lstrip(".")
        if name in have:
            yield from _missing(have[name], field, where)
        else:
            yield where
    if "items" in ours:
        yield from _missing(there.get("items") or {}, ours["items"], f"{path}[]")
