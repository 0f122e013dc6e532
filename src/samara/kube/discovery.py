"""Discovery: which kinds the API server serves, their plural names, and whether they are namespaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import msgspec

from samara.core.model import Kind, KindName
from samara.kube.client import Client, segment
from samara.kube.errors import NotFound, SamaraError


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False
    verbs: list[str] = []
    shortNames: list[str] = []


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
class Discovered:
    """The result of discovery. If one group does not answer, the others are still there."""

    kinds: dict[KindName, Kind] = field(default_factory=dict)
    missing: dict[KindName, str] = field(default_factory=dict)
    """Kinds that are not served now, and why."""


async def discover(client: Client, names: Iterable[KindName], known: Mapping[KindName, Kind]) -> Discovered:
    """Finds kinds by name. Those in `known` are not requested again."""
    result = Discovered({name: known[name] for name in names if name in known})
    unknown = sorted(name for name in names if name not in known)
    for (group, version), names_of_version in groupby(unknown, key=lambda name: (name.group, name.version)):
        wanted = list(names_of_version)
        try:
            served = await _served(client, group, version)
        except NotFound:
            result.missing.update({name: f"the server has no API {_path(group, version)}" for name in wanted})
        except (SamaraError, msgspec.DecodeError) as fault:
            result.missing.update({name: str(fault) for name in wanted})
        else:
            _match(result, wanted, served)
    return result


async def kinds_of(client: Client, api_version: str) -> dict[str, Kind]:
    """The kinds of one API version, by name."""
    group, _, version = api_version.rpartition("/")
    return await _served(client, group, version)


class Served(NamedTuple):
    """A kind that the API server serves."""

    kind: Kind
    short_names: tuple[str, ...]
    verbs: frozenset[str]


async def served_kinds(client: Client) -> tuple[list[Served], list[str]]:
    """Every kind, in the preferred version of its group. The second list says which API versions did not answer, and
    why."""
    groups = _groups(await client.get("/apis")).groups or ()
    preferred = [(group.name, group.preferredVersion.version) for group in groups if group.preferredVersion is not None]
    served: list[Served] = []
    failed: list[str] = []
    for group, version in (("", "v1"), *preferred):
        try:
            resources = _resources(await client.get(_path(group, version))).resources or ()
        except (SamaraError, msgspec.DecodeError) as fault:
            failed.append(f"{_path(group, version)}: {fault}")
            continue
        for resource in resources:
            if not _is_subresource(resource):
                kind = Kind(group, version, resource.kind, resource.name, resource.namespaced)
                served.append(Served(kind, tuple(resource.shortNames), frozenset(resource.verbs)))
    return served, failed


async def listable(client: Client) -> tuple[list[Kind], list[str]]:
    """The same for the namespaced kinds that can be listed."""
    served, failed = await served_kinds(client)
    return [entry.kind for entry in served if entry.kind.namespaced and "list" in entry.verbs], failed


async def explain(client: Client, kind: Kind, fault: SamaraError) -> str:
    """The message of the error. If the API server serves the kind in other versions only, it says so, with advice."""
    others = await _other_versions(client, kind) if isinstance(fault, NotFound) and kind.group else []
    if not others:
        return str(fault)
    return (
        f"{fault}; it has {kind.name} only in {', '.join(others)}, and {kind.version} is needed: "
        "install a CRD that serves it (`samara crds` prints ours)"
    )


async def _other_versions(client: Client, kind: Kind) -> list[str]:
    try:
        versions = _group(await client.get(f"/apis/{segment(kind.group)}")).versions or ()
        return [other.version for other in versions if kind.name in await _served(client, kind.group, other.version)]
    except (SamaraError, msgspec.DecodeError):
        return []


async def _served(client: Client, group: str, version: str) -> dict[str, Kind]:
    resources = _resources(await client.get(_path(group, version))).resources or ()
    return {
        resource.kind: Kind(group, version, resource.kind, resource.name, resource.namespaced)
        for resource in resources
        if not _is_subresource(resource)
    }


def _is_subresource(resource: _Resource) -> bool:
    return "/" in resource.name


def _match(result: Discovered, wanted: Iterable[KindName], served: Mapping[str, Kind]) -> None:
    for name in wanted:
        if name.kind in served:
            result.kinds[name] = served[name.kind]
        else:
            result.missing[name] = f"the server has no kind {name.kind} in {_path(name.group, name.version)}"


def _path(group: str, version: str) -> str:
    return f"/apis/{segment(group)}/{segment(version)}" if group else f"/api/{segment(version)}"


def guess(name: KindName) -> Kind:
    """The kind with its most likely plural. For commands that talk to no API server."""
    singular = name.kind.lower()
    if singular.endswith("y") and singular[-2:-1] not in tuple("aeiou"):
        plural = f"{singular[:-1]}ies"
    elif singular.endswith(("s", "x", "ch", "sh")):
        plural = f"{singular}es"
    else:
        plural = f"{singular}s"
    return Kind(name.group, name.version, name.kind, plural)
