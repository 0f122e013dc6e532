"""How a namespace changes its place: everything is checked first, and what fails half-way is undone.

An operator may be at work meanwhile. A SubNamespace whose namespace has another parent is in conflict, and does
nothing; a SubNamespace that is deleted takes its namespace along only if that one names it as the parent. So the new
SubNamespace is made first, in conflict; then one write gives the namespace its new parent; then the old one, in
conflict by now, is deleted. There is no moment at which anything would be deleted or made anew, and none at which
the labels that a SubNamespace asks for are missing. What is most likely to be refused comes first, when nothing that
matters has been changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from samara.cli.accurate.desk import Desk, Spec, Sub, is_uncertain
from samara.cli.accurate.space import Space
from samara.dialects.accurate.words import PARENT, ROOT, TEMPLATE, TYPE
from samara.kube.errors import Conflict, SamaraError

UNCHANGED = "nothing was changed"


class Placed(NamedTuple):
    """The new SubNamespace, and whether we have made it."""

    sub: Sub
    made: bool


async def move(desk: Desk, name: str, new: str, leave_original: bool) -> tuple[list[str], SamaraError | None]:
    """What was done, and the fault of a deletion that failed after all the rest."""
    space = await sub_namespace(desk, name)
    old = space.labels[PARENT]
    if old == new:
        return ["parent is not changed"], None
    await check_parent(desk, name, new)
    original = await _original(desk, old, name)
    there = await _there(desk, new, name)
    if there is not None and there.spec != original.spec:
        raise SamaraError(
            f"SubNamespace {there} exists already and asks for other labels or annotations than {original}; "
            f"{UNCHANGED}; delete it (`kubectl delete subnamespaces {name} -n {new}`) or make it the same"
        )
    if not leave_original:
        await _check_right(desk, original, "; or keep it with --leave-original")
    labels = {PARENT: new}
    await desk.rehearse(space, labels)
    placed = Placed(there, made=False) if there else await _made(desk, new, name, original.spec)
    await _relabel_or_undo(desk, space, labels, placed)
    done = [f"the parent has changed to {new}"]
    fault = None if leave_original else await _deleted(desk, original)
    if fault is None and not leave_original:
        done.append(f"deleted the original SubNamespace {original}")
    done.append(f"created SubNamespace {placed.sub}" if placed.made else f"SubNamespace {placed.sub} was there")
    return done, fault


async def graft(desk: Desk, name: str, parent: str) -> None:
    space = await _steady(desk, name)
    if space.labels.get(PARENT):
        raise SamaraError(f"{name} is a sub-namespace of {space.labels[PARENT]} already; to move it: `sub move`")
    await check_parent(desk, name, parent)
    there = await _there(desk, parent, name)
    labels = {TYPE: None, TEMPLATE: None, PARENT: parent}
    await desk.rehearse(space, labels)
    placed = Placed(there, made=False) if there else await _made(desk, parent, name, Spec())
    await _relabel_or_undo(desk, space, labels, placed)


async def cut(desk: Desk, name: str) -> SamaraError | None:
    """Labels first: a SubNamespace that is deleted before would take the namespace along."""
    space = await sub_namespace(desk, name)
    original = await desk.sub(space.labels[PARENT], name)
    if original is not None:
        await _check_right(desk, original)
    await desk.relabel(space, {PARENT: None, TYPE: ROOT})
    return None if original is None else await _deleted(desk, original)


# checks


async def _steady(desk: Desk, name: str) -> Space:
    space = await desk.space(name)
    if space.deleting:
        raise SamaraError(f"namespace {name} is being deleted; {UNCHANGED}")
    return space


async def sub_namespace(desk: Desk, name: str) -> Space:
    space = await _steady(desk, name)
    if not space.labels.get(PARENT):
        raise SamaraError(f"{name} is not a sub-namespace: expected the label {PARENT}, found none; {UNCHANGED}")
    return space


async def check_parent(desk: Desk, name: str, parent: str) -> None:
    """The new parent is there, may have children, and does not lie below the namespace."""
    above = await _steady(desk, parent)
    if above.labels.get(TYPE) != ROOT and not above.labels.get(PARENT):
        raise SamaraError(f"namespace {parent} is neither a root nor a sub namespace; {UNCHANGED}")
    seen = {parent}
    while True:
        if above.name == name:
            raise SamaraError(f"circular reference is not permitted: {parent} lies in the tree of {name}; {UNCHANGED}")
        higher = above.labels.get(PARENT)
        if not higher or higher in seen:
            return
        seen.add(higher)
        found = await desk.find_space(higher)
        if found is None:
            raise SamaraError(f"parent namespace does not exist: {higher}, the parent of {above.name}; {UNCHANGED}")
        above = found


async def _original(desk: Desk, old: str, name: str) -> Sub:
    found = await desk.sub(old, name)
    if found is None:
        raise SamaraError(
            f"SubNamespace {old}/{name} not found: expected the one that {name} was made by; {UNCHANGED}; "
            f"create one of this name in {old}, or use `sub cut {name}` and then `sub graft`"
        )
    if found.deleting:
        raise SamaraError(f"SubNamespace {found} is being deleted, and {name} with it; {UNCHANGED}")
    return found


async def _there(desk: Desk, parent: str, name: str) -> Sub | None:
    """A SubNamespace that waits in conflict for just this change is used as it is."""
    found = await desk.sub(parent, name)
    if found is not None and found.deleting:
        raise SamaraError(f"SubNamespace {found} is being deleted; {UNCHANGED}; try again when it is gone")
    return found


async def _check_right(desk: Desk, original: Sub, otherwise: str = "") -> None:
    if not await desk.may_delete_sub(original.namespace, original.name):
        raise SamaraError(
            f"expected the right to delete SubNamespace {original}, found none; {UNCHANGED}; ask for it{otherwise}"
        )


# steps


async def _made(desk: Desk, parent: str, name: str, spec: Spec) -> Placed:
    try:
        return Placed(await desk.create_sub(parent, name, spec), made=True)
    except SamaraError as fault:
        if not is_uncertain(fault):
            raise SamaraError(f"SubNamespace {parent}/{name} could not be created: {fault}; {UNCHANGED}") from fault
        raise SamaraError(
            f"whether SubNamespace {parent}/{name} was created is not known: {fault}; "
            f"namespace {name} was not changed; run the command again"
        ) from fault


async def _relabel_or_undo(desk: Desk, space: Space, labels: Mapping[str, str | None], placed: Placed) -> None:
    try:
        await desk.relabel(space, labels)
    except SamaraError as fault:
        await _undo(desk, space, placed, fault)


async def _undo(desk: Desk, space: Space, placed: Placed, fault: SamaraError) -> None:
    """Takes the new SubNamespace away again, but only where the namespace is known not to be its own."""
    name, parent = space.name, placed.sub.namespace
    try:
        now = await desk.find_space(name)
    except SamaraError:
        raise _unknown(name, placed, fault) from fault
    if now is not None and now.labels.get(PARENT) == parent:
        if now.uid == space.uid:
            return  # the answer was lost, the write was not
        raise SamaraError(
            f"namespace {name} was deleted meanwhile; SubNamespace {placed.sub} stays, and has made it anew"
        )
    if is_uncertain(fault):
        raise _unknown(name, placed, fault) from fault
    failed = f"the parent of {name} could not be changed: {fault}"
    if not placed.made:
        raise SamaraError(f"{failed}; {UNCHANGED}") from fault
    try:
        await desk.delete_sub(placed.sub)
    except SamaraError as second:
        raise SamaraError(
            f"{failed}; not undone: SubNamespace {placed.sub} stays, in conflict ({second}); "
            f"delete it: `kubectl delete subnamespaces {name} -n {parent}`"
        ) from fault
    raise SamaraError(f"{failed}; undone: SubNamespace {placed.sub} was deleted again") from fault


def _unknown(name: str, placed: Placed, fault: SamaraError) -> SamaraError:
    """A write that may still arrive must not meet a SubNamespace under deletion."""
    return SamaraError(
        f"whether the parent of {name} was changed is not known: {fault}; not undone: SubNamespace {placed.sub} stays, "
        "for deleting it could take the namespace along; run the command again"
    )


async def _deleted(desk: Desk, original: Sub) -> SamaraError | None:
    """Deletes what stands in conflict by now; the fault, if there is one."""
    try:
        await desk.delete_sub(original)
    except Conflict:
        return None  # this one is gone; another of its name is somebody else's wish
    except SamaraError as fault:
        # Not undone: to put the old parent back while the old SubNamespace may be under deletion would cost the
        # namespace, and a SubNamespace in conflict costs nothing.
        return SamaraError(
            f"SubNamespace {original} could not be deleted: {fault}; the rest is done, and it is in conflict, where "
            f"it does nothing; delete it: `kubectl delete subnamespaces {original.name} -n {original.namespace}`"
        )
    return None
