"""Manifests that were read from a cluster: what a server or an operator has added to them is not checked."""

from __future__ import annotations

from dataclasses import replace

from samara.cli.lint.nodes import Manifest, as_json, locate, scalar
from samara.core.model import ANNOTATIONS, EVENT, LABELS, Kind
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


def written_by_people(manifest: Manifest, codec: Codec) -> Manifest:
    """The manifest without the labels and annotations that people have not written.

    managedFields tell which the managers of `codec` wrote. The last applied configuration is kubectl's, and Events are
    written by programs only.
    """
    if manifest.kind == EVENT.name and is_observed(manifest):
        return replace(manifest, metadata=())
    added = _managed_keys(manifest, codec)
    if is_observed(manifest):
        added.add((ANNOTATIONS, LAST_APPLIED))
    kept = (entry for entry in manifest.metadata if (FIELDS[entry.where], entry.key) not in added)
    return replace(manifest, metadata=tuple(kept))


def _managed_keys(manifest: Manifest, codec: Codec) -> set[tuple[str, str]]:
    """The field and the key of each label and annotation that managedFields attribute to a manager of the codec."""
    created = scalar(locate(manifest.root, "metadata.creationTimestamp").node)
    node = locate(manifest.root, "metadata.managedFields").node
    managed_fields = as_json(node) if node is not None else None
    if managed_fields is None:
        return set()
    # Without labels and annotations, whose values are not needed.
    metadata = b'{"name":"","creationTimestamp":%s,"managedFields":%s}' % (encode(created), managed_fields)
    kind = Kind(manifest.group, manifest.api_version, manifest.kind, manifest.kind)
    try:
        observed = codec.object(kind, b'{"metadata":%s}' % metadata)
    except MALFORMED:
        return set()
    return {(managed.where, managed.key) for managed in observed.managed_keys}
