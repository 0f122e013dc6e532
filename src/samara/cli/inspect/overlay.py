"""Applies manifests to a snapshot, like `kubectl apply` to a cluster, for `samara plan -f`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from samara.admission.webhooks import LABEL, MUTATING
from samara.cli.files import Text, documents
from samara.core import model as kinds
from samara.core.admission import PatchOperation, Request
from samara.core.kinds import canonical_base64
from samara.core.model import NAMESPACE, SECRET, Kind, Object, Ref, namespace_ref
from samara.core.registry import Registry
from samara.core.simulate import NAME_LABEL, invented_uid
from samara.kube.client import Client, address, collection
from samara.kube.codec import decode
from samara.kube.errors import ConfigError, Forbidden, NotFound
from samara.kube.snapshot import Snapshot

_NOT_SPEC = frozenset({"apiVersion", "kind", "metadata", "status"})
_FINALIZERS = "/metadata/finalizers"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file, and its address in the cluster."""

    file: str
    ref: Ref
    body: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.file}: {self.ref}"


@dataclass(frozen=True, slots=True)
class _Existing:
    """The object that a manifest is applied to. Its body is empty if there is none."""

    body: dict[str, Any]
    last_applied: Mapping[str, Any]
    """The manifest that was applied last."""
    is_new: bool
    """True if the cluster has no such object."""


async def overlay_manifests(snapshot: Snapshot, files: Iterable[Text], namespace: str, warn: Warn) -> None:
    """Puts the manifests into the snapshot's cache, Namespaces first.

    If an object is given twice, the second manifest is applied to the result of the first.
    """
    served = {(kind.group, kind.name): kind for kind in snapshot.cache.registry.kinds}
    manifests = [manifest for file in files for manifest in _manifests(file, served, namespace, warn)]
    objects: list[Object] = []
    applied: dict[Ref, _Existing] = {}
    plurals = await _mutated_plurals(snapshot.client) if manifests else frozenset()
    for manifest in sorted(manifests, key=lambda manifest: manifest.ref.kind != NAMESPACE):
        obj = await _apply(snapshot, manifest, applied, plurals, warn)
        if obj is not None:
            snapshot.cache.put(obj)
            objects.append(obj)
    # Once more, because the cache skips objects that concern no source, and a later manifest may be their source.
    for obj in objects:
        snapshot.cache.put(obj)


def _manifests(file: Text, served: Mapping[tuple[str, str], Kind], namespace: str, warn: Warn) -> Iterable[Manifest]:
    for body in documents(file):
        if not isinstance(body, dict) or not body.get("kind") or not body.get("apiVersion"):
            raise ConfigError(f"{file.name}: expected objects with apiVersion and kind, found something else")
        group = str(body["apiVersion"]).rpartition("/")[0]  # the version does not matter, as the server converts
        kind = served.get((group, str(body["kind"])))
        meta = body.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        if kind is None:
            warn(f"{file.name}: {body['apiVersion']}/{body['kind']} is ignored: no vocabulary uses this kind")
        elif not isinstance(meta, dict) or not isinstance(name, str):
            raise ConfigError(f"{file.name}: expected metadata.name of a {kind.name}, found none")
        else:
            own_namespace = str(meta.get("namespace") or namespace) if kind.namespaced else ""
            yield Manifest(file.name, Ref(kind, own_namespace, name), body)


async def _apply(
    snapshot: Snapshot, manifest: Manifest, applied: dict[Ref, _Existing], plurals: frozenset[str], warn: Warn
) -> Object | None:
    """The object as it is after a manifest is applied. None, with a warning, if it cannot be applied."""
    ref = manifest.ref
    if not snapshot.cache.has_synced(ref.kind):
        warn(f"{manifest} is left out: {snapshot.unlisted.get(ref.kind) or _unserved(ref.kind)}")
        return None
    if ref.kind.namespaced and snapshot.cache.get(namespace_ref(ref.namespace)) is None:
        warn(f"{manifest} is ignored: namespace {ref.namespace} does not exist, and the manifests do not make it")
        return None
    existing = applied.get(ref) or await _read_existing(snapshot, ref)
    body = _merge(manifest, existing)
    if existing.body and ref.kind == SECRET and body["type"] != existing.body.get("type"):
        warn(f"{manifest} is ignored: its type differs from that of the object there, and a type cannot be changed")
        return None
    applied[ref] = _Existing(body, manifest.body, existing.is_new)
    obj = snapshot.codec.object(ref.kind, msgspec.json.encode(body, order="sorted"))
    return _with_our_defaults(obj, snapshot.cache.registry, plurals) if existing.is_new else obj


async def _read_existing(snapshot: Snapshot, ref: Ref) -> _Existing:
    try:
        live = decode(await snapshot.client.get(address(ref)))
    except NotFound:
        return _Existing({}, {}, is_new=True)
    return _Existing(live, _last_applied(live), is_new=False)


def _unserved(kind: Kind) -> str:
    """The message about a kind that the server does not serve."""
    return f"expected a server that serves {kind}, found none; `samara crds` prints the CRD to install"


def _merge(manifest: Manifest, existing: _Existing) -> dict[str, Any]:
    """The object after a three-way merge, which drops keys of the last applied manifest that the new one lacks."""
    live, last = existing.body, existing.last_applied
    meta, last_meta = manifest.body["metadata"], last.get("metadata") or {}
    old_meta = live.get("metadata") or _new_metadata(manifest)
    merged = {
        name: _three_way(
            old_meta.get(name), last_meta.get(name), _strings(manifest, f"metadata.{name}", meta.get(name))
        )
        for name in ("labels", "annotations")
    }
    version = str(int(old_meta["resourceVersion"]) + 1)
    body: dict[str, Any] = {**live, "metadata": {**old_meta, **merged, "resourceVersion": version}}
    match manifest.ref.kind:
        case kinds.SECRET:
            data = _three_way(live.get("data"), last.get("data"), _secret_data(manifest))
            body |= {"type": manifest.body.get("type") or live.get("type") or "Opaque", "data": data}
        case kinds.CONFIG_MAP:
            for name in ("data", "binaryData"):
                new = _strings(manifest, name, manifest.body.get(name))
                body[name] = _three_way(live.get(name), last.get(name), new)
        case kinds.NAMESPACE:
            body["metadata"]["labels"] = {**merged["labels"], NAME_LABEL: manifest.ref.name}
            return body
        case _:
            spec = {name: value for name, value in manifest.body.items() if name not in _NOT_SPEC}
            if not live or any(live.get(name) != value for name, value in spec.items()):
                body["metadata"]["generation"] = int(old_meta.get("generation") or 0) + 1
            return body | spec
    if manifest.body.get("immutable") is not None:
        body["immutable"] = bool(manifest.body["immutable"])
    return {name: value for name, value in body.items() if value or name not in ("data", "binaryData")}


def _new_metadata(manifest: Manifest) -> dict[str, Any]:
    """The metadata of a new object, without its labels and annotations."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kind, namespace, name = manifest.ref
    in_namespace = {"namespace": namespace} if kind.namespaced else {}
    names = manifest.body["metadata"].get("finalizers") or []
    if not isinstance(names, list) or not all(isinstance(finalizer, str) for finalizer in names):
        raise ConfigError(f"{manifest}: metadata.finalizers: expected a list of names, found something else")
    finalizers = {"finalizers": names} if names else {}
    from_server = {"uid": invented_uid(manifest.ref), "resourceVersion": "0", "creationTimestamp": now}
    return {"name": name, **in_namespace, **finalizers, **from_server}


def _last_applied(live: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest in the annotation of kubectl. Empty if there is none."""
    annotation = ((live.get("metadata") or {}).get("annotations") or {}).get(_LAST_APPLIED, "{}")
    try:
        last = json.loads(annotation)
    except ValueError:
        return {}
    return last if isinstance(last, dict) else {}


def _three_way(live: Any, last: Any, new: Mapping[str, str]) -> dict[str, str]:
    dropped = set(last or {}) - set(new)
    return {**{key: value for key, value in (live or {}).items() if key not in dropped}, **new}


def _strings(manifest: Manifest, path: str, value: Any) -> dict[str, str]:
    """A mapping of texts. Null counts as an empty mapping, and as an empty text. Raises for any other type."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{manifest}: {path}: expected a mapping, found a {type(value).__name__}")
    for key, text in value.items():
        if text is not None and not isinstance(text, str):
            raise ConfigError(f"{manifest}: {path}.{key}: expected text in quotes, found a {type(text).__name__}")
    return {str(key): text or "" for key, text in value.items()}


def _secret_data(manifest: Manifest) -> dict[str, str]:
    """The data of a Secret as the server stores it: in canonical base64, with stringData merged in."""
    encoded = _strings(manifest, "data", manifest.body.get("data"))
    plain = _strings(manifest, "stringData", manifest.body.get("stringData"))
    for key, text in encoded.items():
        try:
            encoded[key] = canonical_base64(text)
        except ValueError:
            raise ConfigError(f"{manifest}: data.{key}: expected base64, found something else") from None
    return encoded | {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}


# our own webhooks


async def _mutated_plurals(client: Client) -> frozenset[str]:
    """The plural names of kinds that our webhooks in this cluster change. Empty if they may not be read."""
    try:
        raw = await client.get(collection(MUTATING), {"labelSelector": "=".join(LABEL)})
    except (Forbidden, NotFound):
        return frozenset()
    webhooks = [webhook for item in decode(raw).get("items") or () for webhook in item.get("webhooks") or ()]
    rules = [rule for webhook in webhooks for rule in webhook.get("rules") or ()]
    return frozenset(plural for rule in rules for plural in rule.get("resources") or ())


def _with_our_defaults(obj: Object, registry: Registry, plurals: frozenset[str]) -> Object:
    """A new object after our webhooks, which add a finalizer and change nothing else."""
    for operation in _default_patch(obj, registry) if obj.ref.kind.plural in plurals else ():
        if operation.path == _FINALIZERS and isinstance(operation.value, list):
            obj = replace(obj, finalizers=tuple(operation.value))
    return obj


def _default_patch(obj: Object, registry: Registry) -> list[PatchOperation]:
    admissions = [source_type.admission for source_type in registry.source_types if source_type.admission is not None]
    defaults = [
        admission.default
        for admission in admissions
        if admission.default is not None and obj.ref.kind in admission.kinds
    ]
    return [operation for default in defaults for operation in default(Request("CREATE", obj, None))]
