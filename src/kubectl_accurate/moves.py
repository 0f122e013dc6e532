"""Moves a namespace within the trees. Everything is checked first, and a change that fails half-way is undone.

An operator may run meanwhile, so the order of the requests matters. Two of its rules make a safe order possible:
a SubNamespace whose namespace has another parent is in conflict, and the operator ignores it; and deleting a
SubNamespace deletes its namespace only if that namespace names it as the parent. So a move

1. creates the new SubNamespace, which is in conflict for now,
2. gives the namespace its new parent in one write,
3. deletes the old SubNamespace, which is in conflict by now.

At no point would the operator delete or create a namespace, or drop the labels that a SubNamespace gives. The request
that is most likely to be refused comes first, while nothing that matters has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kubectl_accurate.client import ApiClient, Spec, SubNamespace, is_uncertain
from samara.cli.inspect.namespaces import Namespace
from samara.kube.errors import Conflict, SamaraError
from samara.vocabularies.accurate.labels import PARENT, ROOT, TEMPLATE, TYPE

UNCHANGED = "nothing was changed"


class NewSub(NamedTuple):
    """The SubNamespace in the new parent."""

    sub: SubNamespace
    is_new: bool
    """False if it existed before."""


async def move(api: ApiClient, name: str, new: str, leave_original: bool) -> tuple[list[str], SamaraError | None]:
    """Gives a sub-namespace a new parent.

    Returns lines that say what was done, and the error if only the deletion of the original failed.
    """
    namespace = await _get_sub_namespace(api, name)
    old = namespace.labels[PARENT]
    if old == new:
        return ["parent is not changed"], None
    await _check_parent(api, name, new)
    original = await _get_original(api, old, name)
    existing = await _find_existing(api, new, name)
    if existing is not None and existing.spec != original.spec:
        raise SamaraError(
            f"SubNamespace {existing} exists already and asks for other labels or annotations than {original}; "
            f"{UNCHANGED}; delete it (`kubectl delete subnamespaces {name} -n {new}`) or make it the same"
        )
    if not leave_original:
        await _check_right(api, original, "; or keep it with --leave-original")
    labels = {PARENT: new}
    await api.check_relabel(namespace, labels)
    new_sub = NewSub(existing, is_new=False) if existing else await _create(api, new, name, original.spec)
    await _relabel_or_undo(api, namespace, labels, new_sub)
    done = [f"the parent has changed to {new}"]
    error = None if leave_original else await _delete_original(api, original)
    if error is None and not leave_original:
        done.append(f"deleted the original SubNamespace {original}")
    done.append(f"created SubNamespace {new_sub.sub}" if new_sub.is_new else f"SubNamespace {new_sub.sub} was there")
    return done, error


async def graft(api: ApiClient, name: str, parent: str) -> None:
    """Makes any namespace a sub-namespace of `parent`."""
    namespace = await _get_live_namespace(api, name)
    if namespace.labels.get(PARENT):
        raise SamaraError(f"{name} is a sub-namespace of {namespace.labels[PARENT]} already; to move it: `sub move`")
    await _check_parent(api, name, parent)
    existing = await _find_existing(api, parent, name)
    labels = {TYPE: None, TEMPLATE: None, PARENT: parent}
    await api.check_relabel(namespace, labels)
    new_sub = NewSub(existing, is_new=False) if existing else await _create(api, parent, name, Spec())
    await _relabel_or_undo(api, namespace, labels, new_sub)


async def cut(api: ApiClient, name: str) -> SamaraError | None:
    """Makes a sub-namespace a root.

    The labels change first: deleting the SubNamespace before would delete the namespace too. Returns the error if only
    that deletion failed.
    """
    namespace = await _get_sub_namespace(api, name)
    original = await api.find_sub_namespace(namespace.labels[PARENT], name)
    if original is not None:
        await _check_right(api, original)
    await api.relabel(namespace, {PARENT: None, TYPE: ROOT})
    return None if original is None else await _delete_original(api, original)


# checks


async def _get_live_namespace(api: ApiClient, name: str) -> Namespace:
    """The namespace. Raises if it does not exist or is being deleted."""
    namespace = await api.get_namespace(name)
    if namespace.is_terminating:
        raise SamaraError(f"namespace {name} is being deleted; {UNCHANGED}")
    return namespace


async def _get_sub_namespace(api: ApiClient, name: str) -> Namespace:
    """The namespace. Raises unless it has a parent and is not being deleted."""
    namespace = await _get_live_namespace(api, name)
    if not namespace.labels.get(PARENT):
        raise SamaraError(f"{name} is not a sub-namespace: expected the label {PARENT}, found none; {UNCHANGED}")
    return namespace


async def _check_parent(api: ApiClient, name: str, parent: str) -> None:
    """Raises unless the new parent exists, may have children, and does not lie below the namespace."""
    above = await _get_live_namespace(api, parent)
    if above.labels.get(TYPE) != ROOT and not above.labels.get(PARENT):
        raise SamaraError(f"namespace {parent} is neither a root nor a sub namespace; {UNCHANGED}")
    visited = {parent}
    while True:
        if above.name == name:
            raise SamaraError(f"circular reference is not permitted: {parent} is in the tree of {name}; {UNCHANGED}")
        higher = above.labels.get(PARENT)
        if not higher or higher in visited:
            return
        visited.add(higher)
        next_above = await api.find_namespace(higher)
        if next_above is None:
            raise SamaraError(f"parent namespace does not exist: {higher}, the parent of {above.name}; {UNCHANGED}")
        above = next_above


async def _get_original(api: ApiClient, old: str, name: str) -> SubNamespace:
    original = await api.find_sub_namespace(old, name)
    if original is None:
        raise SamaraError(
            f"SubNamespace {old}/{name} not found: expected the one that created {name}; {UNCHANGED}; "
            f"create one of this name in {old}, or use `sub cut {name}` and then `sub graft`"
        )
    if original.is_terminating:
        raise SamaraError(f"SubNamespace {original} is being deleted, and {name} with it; {UNCHANGED}")
    return original


async def _find_existing(api: ApiClient, parent: str, name: str) -> SubNamespace | None:
    """A SubNamespace that is in the new parent already, in conflict until the namespace moves there."""
    existing = await api.find_sub_namespace(parent, name)
    if existing is not None and existing.is_terminating:
        raise SamaraError(f"SubNamespace {existing} is being deleted; {UNCHANGED}; try again when it is gone")
    return existing


async def _check_right(api: ApiClient, original: SubNamespace, otherwise: str = "") -> None:
    """Raises unless we may delete the SubNamespace. `otherwise` is what a user without the right can do instead."""
    if not await api.may_delete_sub_namespace(original.namespace, original.name):
        raise SamaraError(
            f"expected the right to delete SubNamespace {original}, found none; {UNCHANGED}; ask for it{otherwise}"
        )


# steps


async def _create(api: ApiClient, parent: str, name: str, spec: Spec) -> NewSub:
    try:
        return NewSub(await api.create_sub_namespace(parent, name, spec), is_new=True)
    except SamaraError as error:
        if not is_uncertain(error):
            raise SamaraError(f"SubNamespace {parent}/{name} could not be created: {error}; {UNCHANGED}") from error
        raise SamaraError(
            f"it is not known whether SubNamespace {parent}/{name} was created: {error}; "
            f"namespace {name} was not changed; run the command again"
        ) from error


async def _relabel_or_undo(
    api: ApiClient, namespace: Namespace, labels: Mapping[str, str | None], new_sub: NewSub
) -> None:
    try:
        await api.relabel(namespace, labels)
    except SamaraError as error:
        await _undo(api, namespace, new_sub, error)


async def _undo(api: ApiClient, namespace: Namespace, new_sub: NewSub, error: SamaraError) -> None:
    """Deletes the SubNamespace that we created, if it is certain that the namespace was not moved.

    Returns normally if the write has succeeded after all. Raises otherwise, and says what was undone.
    """
    name, parent = namespace.name, new_sub.sub.namespace
    try:
        now = await api.find_namespace(name)
    except SamaraError:
        raise _unknown_outcome(name, new_sub, error) from error
    if now is not None and now.labels.get(PARENT) == parent:
        if now.uid == namespace.uid:
            return  # the write succeeded, and only its answer was lost
        raise SamaraError(f"namespace {name} was deleted meanwhile; SubNamespace {new_sub.sub} stays, and recreated it")
    if is_uncertain(error):
        raise _unknown_outcome(name, new_sub, error) from error
    failed = f"the parent of {name} could not be changed: {error}"
    if not new_sub.is_new:
        raise SamaraError(f"{failed}; {UNCHANGED}") from error
    try:
        await api.delete_sub_namespace(new_sub.sub)
    except SamaraError as second:
        raise SamaraError(
            f"{failed}; not undone: SubNamespace {new_sub.sub} stays, in conflict ({second}); "
            f"delete it: `kubectl delete subnamespaces {name} -n {parent}`"
        ) from error
    raise SamaraError(f"{failed}; undone: SubNamespace {new_sub.sub} was deleted again") from error


def _unknown_outcome(name: str, new_sub: NewSub, error: SamaraError) -> SamaraError:
    """The SubNamespace stays: if the write still arrives, a SubNamespace under deletion would delete the namespace."""
    return SamaraError(
        f"it is not known whether the parent of {name} was changed: {error}; not undone: SubNamespace {new_sub.sub} "
        "stays, because deleting it could delete the namespace too; run the command again"
    )


async def _delete_original(api: ApiClient, original: SubNamespace) -> SamaraError | None:
    """Deletes the old SubNamespace, which is in conflict by now. Returns the error if that fails."""
    try:
        await api.delete_sub_namespace(original)
    except Conflict:
        return None  # this one is gone; a new one of the same name was created by another client on purpose
    except SamaraError as error:
        # Not undone: if the old SubNamespace is being deleted after all, a namespace that names its old parent again
        # would be deleted with it. A SubNamespace in conflict does no harm.
        return SamaraError(
            f"SubNamespace {original} could not be deleted: {error}; the rest is done, and it is in conflict, where "
            f"it does nothing; delete it: `kubectl delete subnamespaces {original.name} -n {original.namespace}`"
        )
    return None
