"""Which kinds the server has: their plural names, and whether they live in namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from samara.core.model import Kind
from samara.kube.client import Client, segment
from samara.kube.errors import NotFound, SamaraError
from samara.settings import KindName


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False
    verbs: list[str] = []


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    name: str = ""
    versions: list[_Version] | None = None
    preferredVersion: _Version | None = None


class _Groups(msgspec.Struct):
    groups: list[_Group] | None = None


_resources = msgspec.json.Decoder(_Resources).decode
_group = msgspec.json.Decoder(_Group).decode
_groups = msgspec.json.Decoder(_Groups).decode


@dataclass(slots=True)
class Found:
    """What discovery said. One group that does not answer leaves the others alone."""

    kinds: dict[KindName, Kind] = field(default_factory=dict)
    missing: dict[KindName, str] = field(default_factory=dict)
    """Kinds that cannot be served now, and why."""


async def discover(client: Client, names: Iterable[KindName], known: Mapping[KindName, Kind]) -> Found:
    """Finds each kind; those that are known already are not asked for."""
    found = Found({name: known[name] for name in names if name in known})
    asked = sorted(name for name in names if name not in known)
    for (group, version), several in groupby(asked, key=lambda name: (name.group, name.version)):
        wanted = list(several)
        try:
            served = await _served(client, group, version)
        except NotFound:
            found.missing.update({name: f"the server has no API {_path(group, version)}" for name in wanted})
        except (SamaraError, msgspec.DecodeError) as fault:
            found.missing.update({name: str(fault) for name in wanted})
        else:
            _sort_out(found, wanted, served)
    return found


async def kinds_of(client: Client, api_version: str) -> dict[str, Kind]:
    """The kinds of one version of an API, by name."""
    group, _, version = api_version.rpartition("/")
    return await _served(client, group, version)


async def listable(client: Client) -> tuple[list[Kind], list[str]]:
    """Every kind in namespaces that can be listed, in the version that its group prefers; and what did not answer."""
    groups = _groups(await client.get("/apis")).groups or ()
    preferred = [(each.name, each.preferredVersion.version) for each in groups if each.preferredVersion is not None]
    kinds: list[Kind] = []
    silent: list[str] = []
    for group, version in (("", "v1"), *preferred):
        try:
            listed = _resources(await client.get(_path(group, version))).resources or ()
        except (SamaraError, msgspec.DecodeError) as fault:
            silent.append(f"{_path(group, version)}: {fault}")
            continue
        plain = (each for each in listed if each.namespaced and "/" not in each.name and "list" in each.verbs)
        kinds += (Kind(group, version, each.kind, each.name) for each in plain)
    return kinds, silent


async def explained(client: Client, kind: Kind, fault: SamaraError) -> str:
    """A fault in words; where the server has a kind in other versions only, with what to do about it."""
    others = await _other_versions(client, kind) if isinstance(fault, NotFound) and kind.group else []
    if not others:
        return str(fault)
    return (
        f"{fault}; it has {kind.name} only in {', '.join(others)}, and {kind.version} is needed: "
        "install a definition that serves it (`samara crds` prints ours)"
    )


async def _other_versions(client: Client, kind: Kind) -> list[str]:
    try:
        versions = _group(await client.get(f"/apis/{segment(kind.group)}")).versions or ()
        return [each.version for each in versions if kind.name in await _served(client, kind.group, each.version)]
    except (SamaraError, msgspec.DecodeError):
        return []


async def _served(client: Client, group: str, version: str) -> dict[str, Kind]:
    listed = _resources(await client.get(_path(group, version))).resources or ()
    plain = [each for each in listed if "/" not in each.name]
    return {each.kind: Kind(group, version, each.kind, each.name, each.namespaced) for each in plain}


def _sort_out(found: Found, wanted: Iterable[KindName], served: Mapping[str, Kind]) -> None:
    for name in wanted:
        if name.kind in served:
            found.kinds[name] = served[name.kind]
        else:
            found.missing[name] = f"the server has no kind {name.kind} in {_path(name.group, name.version)}"


def _path(group: str, version: str) -> str:
    return f"/apis/{segment(group)}/{segment(version)}" if group else f"/api/{segment(version)}"


def guess(name: KindName) -> Kind:
    """What a kind is most likely called, where no server can be asked."""
    low = name.kind.lower()
    if low.endswith("y") and low[-2:-1] not in tuple("aeiou"):
        plural = f"{low[:-1]}ies"
    elif low.endswith(("s", "x", "ch", "sh")):
        plural = f"{low}es"
    else:
        plural = f"{low}s"
    return Kind(name.group, name.version, name.kind, plural)
