"""The words of FishySecrets: the resource, its finalizer, and the labels that say whose a Secret is."""

from __future__ import annotations

from collections.abc import Mapping

from samara.core.model import SECRET, Kind, Object, Ref
from samara.core.names import is_label_value, is_namespace_name, to_label_value
from samara.core.selectors import is_dns_subdomain

NAME = "fishysecret"
GROUP = "fishykeys.2v.pm"
FISHY_SECRET = Kind(GROUP, "v1alpha1", "FishySecret", "fishysecrets")
FINALIZER = f"{GROUP}/finalizer"
OWNER_NAME = f"{GROUP}/owner-name"
"""As a label a token for the owner's name; as an annotation the name itself, where a label cannot hold it."""
OWNER_NAMESPACE = f"{GROUP}/owner-namespace"
CONFIG = "fishysecret-config"
"""The Secret that says where the secret manager is, and who we are to it."""


def labels_of(owner: Ref) -> Mapping[str, str]:
    return {OWNER_NAME: to_label_value(owner.name), OWNER_NAMESPACE: owner.namespace}


def annotations_of(owner: Ref) -> Mapping[str, str]:
    """Only a name that a label cannot hold needs one: what the original has made is right as it is."""
    return {} if is_label_value(owner.name) else {OWNER_NAME: owner.name}


def owner_of(obj: Object) -> Ref | None:
    """The FishySecret that a Secret's labels name; both are needed, and they must be possible."""
    token, namespace = obj.labels.get(OWNER_NAME, ""), obj.labels.get(OWNER_NAMESPACE, "")
    if obj.ref.kind != SECRET or not is_namespace_name(namespace):
        return None
    told = obj.annotations.get(OWNER_NAME, token)
    name = told if to_label_value(told) == token else token  # a word that somebody added frees no Secret
    return Ref(FISHY_SECRET, namespace, name) if is_dns_subdomain(name) and to_label_value(name) == token else None
