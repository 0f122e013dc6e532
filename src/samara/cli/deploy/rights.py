"""The rights that an installation needs, each with its reason: those of the operator and those of users.

They follow from the settings. A vocabulary that is not served needs none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from samara import crds
from samara.admission.webhooks import NAME as CONFIGURATION
from samara.admission.webhooks import needed_configurations
from samara.assembly import (
    CERTIFICATE,
    HOLDS,
    LEASE_NAME,
    WELL_KNOWN,
    kinds_in,
    named_vocabularies,
    served_source_types,
)
from samara.core.kinds import SERVICE_ACCOUNT
from samara.core.metadata_keys import APP
from samara.core.model import CONFIG_MAP, EVENT, LEASE, NAMESPACE, QUOTA, SECRET, Kind
from samara.core.ownership import ByOwnerReference
from samara.core.source_type import SourceType
from samara.environment import leases_of_originals, workloads_of_originals
from samara.kube.discovery import guess
from samara.kube.queries import CRD, REVIEW_OF_OTHERS
from samara.settings import Settings

GROUP = "rbac.authorization.k8s.io"
NAME = "samara"
WATCH = ("list", "watch")
READ = ("get", *WATCH)
ALL = (*READ, "create", "update", "patch", "delete")
CREATE_REASON = "RBAC cannot limit a create to a name"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role."""

    kind: Kind
    verbs: tuple[str, ...]
    reason: str
    """Printed by `samara rbac --explain`."""
    names: tuple[str, ...] = ()
    """The only objects that the rule allows. Empty: all objects of the kind."""
    subresource: str = ""

    @property
    def resource(self) -> str:
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    def manifest(self) -> Json:
        only = {"resourceNames": list(self.names)} if self.names else {}
        return {"apiGroups": [self.kind.group], "resources": [self.resource], "verbs": list(self.verbs), **only}


def objects(settings: Settings, namespace: str) -> list[Json]:
    """The operator's account with its roles, for an operator in this namespace."""
    own = {"name": NAME, "namespace": namespace}
    subject = {"kind": "ServiceAccount", **own}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(own)},
        _role("ClusterRole", {"name": NAME}, cluster_rules(settings)),
        _binding("ClusterRoleBinding", {"name": NAME}, "ClusterRole", subject),
        _role("Role", own, own_rules(settings)),
        _binding("RoleBinding", own, "Role", subject),
    ]


def _metadata(names: dict[str, str], labels: dict[str, str] | None = None) -> Json:
    return {**names, "labels": {APP: NAME, **(labels or {})}}


def _role(kind: str, names: dict[str, str], rules: Iterable[Rule], labels: dict[str, str] | None = None) -> Json:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": _metadata(names, labels),
        "rules": [rule.manifest() for rule in rules],
    }


def _binding(kind: str, names: dict[str, str], role: str, subject: dict[str, str]) -> Json:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": _metadata(names),
        "roleRef": {"apiGroup": GROUP, "kind": role, "name": NAME},
        "subjects": [subject],
    }


def guessed_source_types(settings: Settings) -> tuple[SourceType, ...]:
    """The source types that the settings serve. Guesses plurals of kinds, because there may be no cluster to ask."""
    return served_source_types(settings, {name: WELL_KNOWN.get(name) or guess(name) for name in kinds_in(settings)})


# the operator, in every namespace


def cluster_rules(settings: Settings) -> list[Rule]:
    """What the operator may do in every namespace. Empty if the settings serve nothing."""
    source_types = guessed_source_types(settings)
    if not source_types:
        return []
    return [
        Rule(NAMESPACE, WATCH, "to know which namespaces there are, which are being deleted, and what they accept"),
        Rule(QUOTA, WATCH, "to retry a copy at once when a full quota has room"),
        *_copy_rules(settings, source_types),
        *(rule for source_type in source_types for rule in _custom_resource_rules(source_type, source_types)),
        *_original_rules(settings),
        *_definition_rules(source_types),
        *_webhook_rules(source_types),
        Rule(
            EVENT,
            ("create", "patch"),
            "to report on a source what happened to its copies, and on a copy why it was changed back",
        ),
    ]


def _copy_rules(settings: Settings, source_types: tuple[SourceType, ...]) -> list[Rule]:
    """Rules for the kinds of sources and copies, except for custom resources."""
    vocabularies = [vocabulary for vocabulary, _ in named_vocabularies(settings)]
    declared = {kind: rights for vocabulary in vocabularies for kind, rights in vocabulary.rights.of_kinds.items()}
    custom = {source_type.resource for source_type in source_types}
    copied = dict.fromkeys(kind for source_type in source_types for kind in source_type.kinds if kind not in custom)
    rules = []
    for kind in copied:
        if kind in declared:
            rules.append(Rule(kind, *declared[kind]))
        else:
            names = _vocabulary_names(source_type for source_type in source_types if kind in source_type.kinds)
            reason = f"sources and copies of {names} can be in any namespace; copies are created, corrected and deleted"
            rules.append(Rule(kind, ALL, reason))
    return rules


def _custom_resource_rules(source_type: SourceType, source_types: tuple[SourceType, ...]) -> list[Rule]:
    """Rules to read custom resources, to write their status, and to patch them if the source type has a finalizer."""
    kind = source_type.resource
    if kind is None:
        return []
    readers = (reader for reader in source_types if reader.resource == kind)
    reason = f"to read the custom resources of {_vocabulary_names(readers)}"
    if source_type.finalizer:
        rules = [Rule(kind, (*READ, "patch"), f"{reason}, and to add and remove the finalizer")]
    else:
        rules = [Rule(kind, READ, reason)]
    if source_type.status is not None:
        rules.append(Rule(kind, ("patch",), "to write their status", subresource="status"))
    if isinstance(source_type.ownership, ByOwnerReference):
        reason = "some clusters require it of clients that set an owner reference to one"
        rules.append(Rule(kind, ("update",), reason, subresource="finalizers"))
    return rules


def _vocabulary_names(source_types: Iterable[SourceType]) -> str:
    return ", ".join(dict.fromkeys(source_type.vocabulary for source_type in source_types))


def _original_rules(settings: Settings) -> list[Rule]:
    """The Lease or the workload of an original may be in any namespace. A Lease is listed by its name."""
    leases = tuple(leases_of_originals(settings).values())
    workloads = dict.fromkeys(kind for original in workloads_of_originals(settings).values() for kind in original.kinds)
    waiting = "to wait while the original of a vocabulary runs; not needed with takeover: true"
    proof = "an account in its namespace has cluster-wide rights"
    rules = [Rule(kind, ("list",), waiting) for kind in workloads]
    if leases:
        holder = f"to find out whether the original can hold that Lease: {proof}"
        rules += [Rule(LEASE, ("list",), waiting, leases), Rule(SERVICE_ACCOUNT, ("list",), holder)]
    if rules:
        rules.append(Rule(REVIEW_OF_OTHERS, ("create",), f"to find out whether an original is there: {proof}"))
    return rules


def _definition_rules(source_types: tuple[SourceType, ...]) -> list[Rule]:
    resources = {source_type.resource: source_type for source_type in source_types if source_type.resource is not None}
    names = crds.needed(resources)
    converted = crds.needed(kind for kind, source_type in resources.items() if source_type.admission is not None)
    reason = "while a CRD is being deleted, the copies of its objects stay"
    rules = []
    if converted:
        more = "; and to write into it which webhook converts its versions"
        rules.append(Rule(CRD, ("get", "patch"), reason + more, converted))
    if read := tuple(name for name in names if name not in converted):
        rules.append(Rule(CRD, ("get",), reason, read))
    return rules


def _webhook_rules(source_types: tuple[SourceType, ...]) -> list[Rule]:
    """The chart creates the configurations, all with one name. The operator writes into them which CA to trust."""
    if not any(source_type.admission is not None for source_type in source_types):
        return []
    rules = []
    for kind in needed_configurations(source_types):
        rules.append(Rule(kind, ("list",), "to find the webhooks that call the operator"))
        rules.append(Rule(kind, ("update",), "to write into them which certificate to trust", (CONFIGURATION,)))
    return [*rules, Rule(NAMESPACE, ("get",), "to read the namespace from the API server before a request is refused")]


# the operator, in its own namespace


def own_rules(settings: Settings) -> list[Rule]:
    """What the operator may do in its own namespace."""
    rules = [
        Rule(LEASE, ("create",), f"its Lease, which decides which replica writes; {CREATE_REASON}"),
        Rule(LEASE, ("get", "update"), "to hold and renew that Lease", (LEASE_NAME,)),
        Rule(CONFIG_MAP, ("create",), f"the ConfigMap with the deletions that are held; {CREATE_REASON}"),
        Rule(CONFIG_MAP, ("get", "update"), "to keep them over a restart, and to read `samara release`", (HOLDS,)),
    ]
    if any(source_type.admission is not None for source_type in guessed_source_types(settings)):
        rules += [
            Rule(SECRET, ("create",), f"the certificate of its webhook; {CREATE_REASON}"),
            Rule(
                SECRET,
                ("get", "watch", "update", "delete"),
                "to share that certificate between replicas, and to renew it",
                (CERTIFICATE,),
            ),
        ]
    return rules


# users


def aggregated_roles(settings: Settings) -> list[Json]:
    """Roles that the API server adds to its own `admin`, `edit` and `view`.

    They are for custom resources that affect only the tree of their own namespace, such as SubNamespaces. Others affect
    more namespaces, so administrators decide who may write them.
    """
    vocabularies = [vocabulary for vocabulary, _ in named_vocabularies(settings)]
    return [role for vocabulary in vocabularies for kind in vocabulary.rights.of_users for role in _user_roles(kind)]


def _user_roles(kind: Kind) -> list[Json]:
    def role(name: str, verbs: tuple[str, ...], *into: str) -> Json:
        rules = (Rule(kind, verbs, ""), Rule(kind, ("get",), "", subresource="status"))
        labels = {f"{GROUP}/aggregate-to-{built_in}": "true" for built_in in into}
        return _role("ClusterRole", {"name": f"{NAME}-{kind.name.lower()}-{name}-role"}, rules, labels)

    return [role("editor", ALL, "admin", "edit"), role("viewer", READ, "view")]
