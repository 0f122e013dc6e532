"""A SubNamespace makes a namespace of its name below its own, and takes it away again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from samara.core.model import NAMESPACE, Content, Object, Ref, namespace_ref
from samara.core.status import condition, status_of
from samara.core.tally import Tally
from samara.core.view import View
from samara.core.want import KEEP, Adopt, Barred, Copy, Dialect, Places, Reach, Want
from samara.dialects.accurate.words import (
    APPLIER,
    CREATED_BY,
    FINALIZER,
    NAME,
    PARENT,
    SUB_NAMESPACE,
    children_of,
    is_root,
    parent_of,
)

SUB = f"{NAME}:sub"
CONFLICT = "Conflicting namespace already exists"


def dialect(cascading: bool, is_reserved: Callable[[str], bool], managers: frozenset[str]) -> Dialect:
    def is_source(obj: Object, view: View) -> bool:
        return obj.ref.kind == SUB_NAMESPACE

    def origin(obj: Object, view: View) -> Ref | None:
        """Every sub-namespace has one place where its SubNamespace is, or would be."""
        parent = parent_of(obj) if obj.ref.kind == NAMESPACE else ""
        return Ref(SUB_NAMESPACE, parent, obj.ref.name) if parent else None

    def want(source: Ref, view: View) -> Want:
        obj, there = view.get(source), view.get(namespace_ref(source.name))
        if obj is None:
            return Want(prune=False)  # a sub-namespace without its SubNamespace stays, and so does all below it
        if obj.deleting:
            return _ending(source, there, view)
        asked = replace(_living(source, there, view), prune=False)
        return replace(asked, guard=FINALIZER) if _is_new(obj) or FINALIZER in obj.finalizers else asked

    def _living(source: Ref, there: Object | None, view: View) -> Want:
        ref = namespace_ref(source.name)
        if there is not None and parent_of(there) == source.namespace:
            return Want((Copy(ref, KEEP),))
        if is_reserved(source.name):
            return Want(barred=(Barred(ref, "refused", _reserved(source.name)),))
        if there is not None:
            return Want(barred=(Barred(ref, "conflict", CONFLICT),))
        holder = view.get(namespace_ref(source.namespace))
        if holder is None or holder.deleting or not (is_root(holder) or parent_of(holder)):
            message = f"namespace {source.namespace} is neither a root nor a sub namespace"
            return Want(barred=(Barred(ref, "refused", message),))
        labels = {CREATED_BY: NAME, PARENT: source.namespace}
        return Want((Copy(ref, Content(), labels, adopt=Adopt.NEVER, named=True),))

    def _ending(source: Ref, there: Object | None, view: View) -> Want:
        """The namespace goes if it hangs where the SubNamespace is, and nothing hangs on it.

        Who deletes a namespace has not asked for those below it, unless that is allowed: then the SubNamespaces in it
        just end. What has a reserved name was not made here, and is not deleted here.
        """
        holder = view.get(namespace_ref(source.namespace))
        if is_reserved(source.name) or (not cascading and (holder is None or holder.deleting)):
            return Want(prune=False, guard=FINALIZER)
        ours = there is not None and not there.deleting and parent_of(there) == source.namespace
        if ours and not cascading and any(True for _ in children_of(source.name, view)):
            barred = Barred(namespace_ref(source.name), "refused", "child namespaces exist")
            return Want(prune=False, guard=FINALIZER, barred=(barred,))
        return Want(guard=FINALIZER)

    def also(obj: Object, view: View) -> Iterable[Ref]:
        """What waits for a Namespace: the SubNamespaces in it, and its parent's, which may not go while it is there."""
        if obj.ref.kind != NAMESPACE:
            return ()
        parent = view.get(namespace_ref(parent_of(obj))) if parent_of(obj) else None
        above = origin(parent, view) if parent is not None else None
        return (*view.sources(SUB, obj.ref.name), *((above,) if above is not None else ()))

    def report(obj: Object, view: View, tally: Tally) -> Mapping[str, object]:
        there = view.get(namespace_ref(obj.ref.name))
        if obj.deleting or (there is None and not is_reserved(obj.ref.name)):
            return {}  # nothing has come of it yet
        if _is_new(obj) and FINALIZER not in obj.finalizers:
            return {}  # once a status is there the finalizer is not added any more
        if there is not None and parent_of(there) == obj.ref.namespace:
            return {"observedGeneration": obj.generation}
        if is_reserved(obj.ref.name):
            return _stalled(obj, "Reserved", _reserved(obj.ref.name))
        return _stalled(obj, "Conflict", CONFLICT)

    return Dialect(
        SUB,
        (SUB_NAMESPACE, NAMESPACE),
        is_source,
        origin,
        lambda source, view: Places(NAMESPACE, source.name),
        want,
        marks=frozenset({PARENT}),
        asks=frozenset(),
        also=also,
        report=report,
        reporter=APPLIER,
        managers=managers,
        rank=2,
        reach=Reach.NAMED,
        asking=(SUB_NAMESPACE,),
        relations=frozenset({PARENT}),
        whole=True,
        gone_after=0.0,
    )


def _is_new(obj: Object) -> bool:
    return "observedGeneration" not in status_of(obj)


def _reserved(name: str) -> str:
    return f"The name {name} is reserved"


def _stalled(obj: Object, reason: str, message: str) -> Mapping[str, object]:
    generation = obj.generation
    return {
        "observedGeneration": generation,
        "conditions": [condition("Stalled", True, reason, message, generation)],
    }
