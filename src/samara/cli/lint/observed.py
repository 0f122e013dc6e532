"""Manifests that were read from a cluster: what a server or an operator has added to them is not checked."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from samara.cli.lint.nodes import Manifest, as_json, locate, scalar
from samara.core.model import ANNOTATIONS, EVENT, LABELS, Kind, Object, Ref
from samara.kube.codec import MALFORMED, Codec, encode

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
FIELDS = {"label": LABELS, "annotation": ANNOTATIONS}
"""The field of the metadata for each `Entry.where`."""


def is_observed(manifest: Manifest) -> bool:
    """True for an object as `kubectl get -o yaml` prints it. Only a server gives it a uid."""
    return bool(scalar(locate(manifest.root, "metadata.uid").node))


def hides_managers(manifest: Manifest) -> bool:
    """True for an object of a cluster without managedFields, as kubectl prints it by default."""
    return is_observed(manifest) and locate(manifest.root, "metadata.managedFields").node is None


def written_by_people(manifest: Manifest, observed: Object) -> Manifest:
    """The manifest without the labels and annotations that people have not written.

    managedFields tell which our managers wrote. The last applied configuration is kubectl's, and Events are written by
    programs only.
    """
    if manifest.kind == EVENT.name and is_observed(manifest):
        return replace(manifest, metadata=())
    added = {(managed.where, managed.key) for managed in observed.managed_keys}
    if is_observed(manifest):
        added.add((ANNOTATIONS, LAST_APPLIED))
    kept = (entry for entry in manifest.metadata if (FIELDS[entry.where], entry.key) not in added)
    return replace(manifest, metadata=tuple(kept))


def observed_object(manifest: Manifest, kind: Kind, codec: Codec) -> Object:
    """The object without its content, as the operator sees it. Malformed managedFields or owners prove nothing."""
    owners = {name: locate(manifest.root, f"metadata.{name}").node for name in ("managedFields", "ownerReferences")}
    as_written = {name: msgspec.Raw(as_json(node) or b"null") for name, node in owners.items() if node is not None}
    texts = {
        field: {
            entry.key: entry.value for entry in manifest.metadata if entry.where == where and entry.value is not None
        }
        for where, field in FIELDS.items()
    }
    own = {
        "name": (manifest.name.value if manifest.name is not None else None) or "",
        "namespace": manifest.namespace if kind.namespaced else "",
        "creationTimestamp": scalar(locate(manifest.root, "metadata.creationTimestamp").node),
    }
    try:
        return codec.object(kind, encode({"metadata": own | texts | as_written}))
    except MALFORMED:
        ref = Ref(kind, own["namespace"], own["name"])
        return Object(ref, "", 1, labels=texts[LABELS], annotations=texts[ANNOTATIONS])
