"""The resource FishySecret, its finalizer, and the labels that name the owner of a Secret."""

from __future__ import annotations

from collections.abc import Mapping

from samara.core.model import SECRET, Kind, Object, Ref
from samara.core.names import is_dns_subdomain, is_label_value, is_namespace_name, to_label_value

NAME = "fishysecret"
GROUP = "fishykeys.2v.pm"
FISHY_SECRET = Kind(GROUP, "v1alpha1", "FishySecret", "fishysecrets")
FINALIZER = f"{GROUP}/finalizer"
OWNER_NAME = f"{GROUP}/owner-name"
"""As a label: the owner's name, or a token if a label cannot hold the name. The annotation then holds the name."""
OWNER_NAMESPACE = f"{GROUP}/owner-namespace"
CONFIG = "fishysecret-config"
"""The Secret with the address of the secret manager and the credentials for it."""


def labels_of(owner: Ref) -> Mapping[str, str]:
    return {OWNER_NAME: to_label_value(owner.name), OWNER_NAMESPACE: owner.namespace}


def annotations_of(owner: Ref) -> Mapping[str, str]:
    """Set only for a name that a label cannot hold, so that Secrets of the original need no write."""
    return {} if is_label_value(owner.name) else {OWNER_NAME: owner.name}


def owner_of(obj: Object) -> Ref | None:
    """The FishySecret that a Secret's labels name. None if a label is missing or is not a possible name."""
    token, namespace = obj.labels.get(OWNER_NAME, ""), obj.labels.get(OWNER_NAMESPACE, "")
    if obj.ref.kind != SECRET or not is_namespace_name(namespace):
        return None
    annotated = obj.annotations.get(OWNER_NAME, token)
    name = annotated if to_label_value(annotated) == token else token  # another client's annotation frees no Secret
    return Ref(FISHY_SECRET, namespace, name) if is_dns_subdomain(name) and to_label_value(name) == token else None
