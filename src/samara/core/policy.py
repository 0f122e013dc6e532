"""What is not allowed: `refusal` alone decides whether a source may have a copy at an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from samara.core import kinds
from samara.core.desired import UNAVAILABLE, Copy, Fault, Mistake, Reason, Template
from samara.core.metadata_keys import ACCEPT, IGNORE, PAUSED
from samara.core.model import ANNOTATIONS, NAMESPACE, Object, ObjectName, Ref, namespace_ref
from samara.core.names import is_namespace_name, matches_any_glob, quoted, sample
from samara.core.source_type import Policy, Protected, SourceType
from samara.core.trust import root_in
from samara.core.view import View

BOOLEANS = ("true", "false")
CONSENT_FORM = "a namespace, namespace:Kind/name, tree:namespace or *, with commas between"


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """What the administrator has set for all vocabularies."""

    protected: tuple[str, ...] = ()
    recreate: bool = True
    reserved: tuple[str, ...] = ()
    """Globs of names that no Namespace made by Samara may have, besides the protected ones."""
    operators_own: frozenset[Ref] = frozenset()
    """The operator's own objects. No source of a vocabulary that tenants can write may have a copy there."""
    kept_by_cluster: tuple[ObjectName, ...] = kinds.KEPT_BY_CLUSTER
    """Objects that are the same in every namespace. They are never copies."""


class Refusal(NamedTuple):
    """Why a copy may not be written."""

    reason: Reason
    message: str
    revokes: bool = False
    """True if an existing copy must be deleted: the namespace withdrew its consent."""
    excludes: bool = False
    """True if the namespace is not a target at all: nothing is desired there, and nothing is touched."""


def refusal(
    copy: Copy, source: Ref, namespace: Object | None, policy: Policy, cluster: ClusterPolicy, view: View
) -> Refusal | None:
    """Why this copy may not be written, or None. The first reason counts."""
    if namespace is None:  # the copy is cluster-scoped
        return None if copy.template.content is UNAVAILABLE else _reserved(copy.ref, cluster)
    return (
        _protected(copy, policy, cluster)
        or _ignored(copy, namespace)
        or _kind(copy, policy)
        or _kept_by_cluster(copy, cluster)
        or _operators_own(copy, policy, cluster)
        or _content(copy)
        or _chosen_labels(copy, namespace, view)
        or _consent(copy, source, namespace, policy, view)
    )


_NO_CONTENT = Template(UNAVAILABLE)


def revocation(
    ref: Ref, source: Ref, namespace: Object | None, policy: Policy, cluster: ClusterPolicy, view: View
) -> Refusal | None:
    """Why an existing copy must be deleted whatever its source wants: the namespace no longer accepts it. Or None."""
    refused = refusal(Copy(ref, _NO_CONTENT, by_name=True), source, namespace, policy, cluster, view)
    return refused if refused is not None and refused.revokes else None


def is_closed(
    ref: Ref, source: Ref, namespace: Object | None, policy: Policy, cluster: ClusterPolicy, view: View
) -> bool:
    """True if Samara may write nothing for this source into a namespace: it is protected, or does not accept it.

    What the original controller left there stays as it is, also when the source wants it no more.
    """
    if namespace is None:
        return False
    copy = Copy(ref, _NO_CONTENT)
    return bool(_protected(copy, policy, cluster) or _consent(copy, source, namespace, policy, view))


def paused_by(source: Object, source_type: SourceType, view: View) -> str:
    """Why nothing is written for a source, or an empty text.

    A custom resource is also paused with its namespace, because its finalizer and status would be writes there.
    """
    if is_paused(source):
        return f"the source is paused ({PAUSED})"
    resource = source_type.resource
    if resource is None or source.ref.kind != resource or not resource.namespaced:
        return ""
    paused = no_writes_at(source.ref, view)
    return f"namespace {source.ref.namespace} of the source is paused ({PAUSED})" if paused else ""


def no_writes_at(ref: Ref, view: View) -> str:
    """Why nothing may be written at an address, or an empty text: its namespace is paused, or the Namespace itself.

    Copies, deletions, overlays, finalizers, statuses and Events all ask this function. `refusal` is about copies only.
    """
    container = view.get(namespace_ref(ref.namespace) if ref.kind.namespaced else ref)
    if container is None or not is_paused(container):
        return ""
    return f"namespace {container.ref.name} is paused ({PAUSED})"


def is_paused(obj: Object) -> bool:
    """True if people have paused this object. `paused_by` and `no_writes_at` say what follows from it.

    Any value but `false` pauses: a misspelt value must not fail to stop us.
    """
    has_key = PAUSED in obj.annotations or PAUSED in obj.labels  # asked first: nearly no object has it
    return has_key and any(value != "false" for value in _values(obj, PAUSED))


def is_ignored(namespace: Object) -> bool:
    """True if people have excluded this Namespace from all targets that are not named."""
    return "true" in _values(namespace, IGNORE)


def pause_faults(source: Object) -> tuple[Fault, ...]:
    """The values of `PAUSED` on a source that are neither `true` nor `false`."""
    faulty = [value for value in dict.fromkeys(_values(source, PAUSED)) if value not in BOOLEANS]
    expected = _expected_boolean(PAUSED)
    return tuple(Fault("Invalid", f"{PAUSED}: {quoted(value)}; expected {expected}", PAUSED) for value in faulty)


def control_mistake(kind: str, is_namespace: bool, where: str, key: str, value: str) -> Mistake | None:
    """What is wrong with a control key on an object: it has no effect there, or no meaning with this value."""
    if key == ACCEPT:
        if not is_namespace or where != ANNOTATIONS:
            found = f"{'an annotation' if where == ANNOTATIONS else 'a label'} of a {kind}"
            return Mistake(key, "an annotation of a Namespace", found)
        items = invalid_consent_items(value)
        return Mistake(key, CONSENT_FORM, sample(map(quoted, items))) if items else None
    if key == IGNORE and not is_namespace:
        return Mistake(key, "a Namespace: on anything else it does nothing", f"on a {kind}")
    if key in (IGNORE, PAUSED) and value not in BOOLEANS:
        return Mistake(key, _expected_boolean(key), quoted(value))
    return None


def _expected_boolean(key: str) -> str:
    effect = "it pauses" if key == PAUSED else "it has no effect"
    return f'"true" or "false": with any other value {effect}'


def _values(obj: Object, key: str) -> tuple[str, ...]:
    """People may set a control key as an annotation or as a label. Both count."""
    return tuple(metadata[key] for metadata in (obj.annotations, obj.labels) if key in metadata)


def _excluded(why: str) -> Refusal:
    return Refusal("refused", f"{why}: a target only if the source lists it by name", excludes=True)


def _reserved(ref: Ref, cluster: ClusterPolicy) -> Refusal | None:
    if ref.kind != NAMESPACE:
        return Refusal(
            "refused",
            f"{ref.kind} is cluster-scoped, and Namespaces are the only cluster-scoped objects that Samara creates",
        )
    return Refusal("refused", f"the name {ref.name} is reserved") if is_reserved(ref.name, cluster) else None


def is_reserved(name: str, cluster: ClusterPolicy) -> bool:
    """True for a name that no Namespace made by Samara may have."""
    return matches_any_glob((*cluster.protected, *cluster.reserved), name)


def _protected(copy: Copy, policy: Policy, cluster: ClusterPolicy) -> Refusal | None:
    if policy.protected is Protected.ALLOW or not matches_any_glob(cluster.protected, copy.ref.namespace):
        return None
    if copy.by_name and policy.protected is Protected.BY_NAME:
        return None
    why = f"namespace {copy.ref.namespace} is protected (setting protectedNamespaces)"
    return Refusal("refused", why) if copy.by_name else _excluded(why)


def _ignored(copy: Copy, namespace: Object) -> Refusal | None:
    if copy.by_name or not is_ignored(namespace):
        return None
    return _excluded(f"namespace {namespace.ref.name} has {IGNORE}")


def _kind(copy: Copy, policy: Policy) -> Refusal | None:
    if policy.any_kind or not kinds.is_refused(copy.ref.kind):
        return None
    return Refusal("refused", f"objects of kind {copy.ref.kind} are never copied")


def _kept_by_cluster(copy: Copy, cluster: ClusterPolicy) -> Refusal | None:
    if not kinds.is_kept_by_cluster(copy.ref.kind, copy.ref.name, cluster.kept_by_cluster):
        return None
    return Refusal("refused", kept_by_cluster_message(copy.ref))


def kept_by_cluster_message(ref: Ref) -> str:
    return f"the {ref.kind.name} {ref.name} is kept in every namespace by the cluster itself, so it is never copied"


def _operators_own(copy: Copy, policy: Policy, cluster: ClusterPolicy) -> Refusal | None:
    if policy.protected is not Protected.REFUSE or copy.ref not in cluster.operators_own:
        return None
    why = "the object of this name there belongs to the operator"
    return Refusal("refused", why) if copy.by_name else _excluded(why)


def _content(copy: Copy) -> Refusal | None:
    content = copy.template.content
    why = None if content is UNAVAILABLE else kinds.rules_for(copy.ref.kind).refusal(content)
    return None if why is None else Refusal("refused", why)


def _chosen_labels(copy: Copy, namespace: Object, view: View) -> Refusal | None:
    """Refuses a namespace that is selected only by labels that its tenants chose, or only because they chose another
    value than the inherited one. A label that keeps it from being selected counts, even if a tenant chose it."""
    if not copy.selectors:
        return None
    chosen = view.chosen_labels(namespace, frozenset().union(*(selector.keys for selector in copy.selectors)))
    if not chosen:
        return None
    inherited = {key: label.trusted for key, label in chosen.items() if label.trusted is not None}
    trusted = {key: value for key, value in namespace.labels.items() if key not in chosen} | inherited
    if any(one.matches(namespace.labels) and one.matches(trusted) for one in copy.selectors):
        return None
    settings = ", ".join(sorted({label.setting for label in chosen.values()}))
    why = f"only labels that tenants chose select the namespace ({sample(chosen)})"
    return Refusal(
        "refused", f"{why}; an administrator can allow these keys by writing them in full (setting {settings})"
    )


def _consent(copy: Copy, source: Ref, namespace: Object, policy: Policy, view: View) -> Refusal | None:
    if not policy.needs_consent or source.namespace == copy.ref.namespace:
        return None
    if accepts(namespace.annotations.get(ACCEPT, ""), source, view):
        return None
    expected = f"namespace {namespace.ref.name} does not accept {source.path}: {ACCEPT} must name {source.namespace}"
    return Refusal("not-accepted", expected, revokes=True)


def accepts(consent: str, source: Ref, view: View) -> bool:
    """True if a list of `<namespace>`, `<namespace>:<kind>/<name>`, `tree:<namespace>` or `*` names this source."""
    names, items = {source.namespace, f"{source.namespace}:{source.kind.name}/{source.name}", "*"}, _items(consent)
    if not names.isdisjoint(items):
        return True
    trees = {root for item in items if (root := root_in(item))}
    return bool(trees) and not trees.isdisjoint(view.trees_of(source.namespace))


def consented_names(consent: str) -> frozenset[str]:
    """The names of the namespaces from which such a list accepts something. `*` accepts every one and names none."""
    return frozenset(root_in(item) or item.partition(":")[0] for item in _items(consent)) - {"*"}


def invalid_consent_items(consent: str) -> list[str]:
    """The items of such a list that can name no source, because no namespace, kind or object can have this name."""
    return [item for item in _items(consent) if item != "*" and not _can_name_source(item)]


def _items(consent: str) -> list[str]:
    return [item.strip() for item in consent.split(",") if item.strip()]


def _can_name_source(item: str) -> bool:
    if root := root_in(item):
        return is_namespace_name(root)
    namespace, colon, source = item.partition(":")
    kind, slash, name = source.partition("/")
    is_source = kind.isalnum() and kind[:1].isupper() and bool(slash and name) and "/" not in name
    return is_namespace_name(namespace) and (is_source or not colon)
