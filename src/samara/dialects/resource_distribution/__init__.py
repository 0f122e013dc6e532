"""OpenKruise's ResourceDistribution: an object in a cluster-scoped resource, copied to the namespaces it targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from samara.core.admit import Request
from samara.core.model import NAMESPACE, Content, Field, Kind, Object, Owner, Ref
from samara.core.reads import Rejected, Trial
from samara.core.tally import Tally
from samara.core.view import View
from samara.core.want import KEEP, Adopt, Bare, Copy, Dialect, Fault, Keep, Places, Reach, Want
from samara.dialects.resource_distribution.admit import refusals
from samara.dialects.resource_distribution.asked import FROM as FROM
from samara.dialects.resource_distribution.asked import HASHCODE as HASHCODE
from samara.dialects.resource_distribution.asked import Asked, Order, Orders
from samara.dialects.resource_distribution.convert import convert as convert
from samara.dialects.resource_distribution.status import TYPES, status

NAME = "resource-distribution"
RESOURCE_DISTRIBUTION = Kind(
    "apps.kruise.io", "v1beta1", "ResourceDistribution", "resourcedistributions", namespaced=False
)
GONE_AFTER = 30.0
"""For so long the copies of a distribution that is gone are left to the garbage collector."""
_NO_SPEC = Field("spec", b"", None)
_NO_KIND = Kind("", "v1", "Unknown", "unknown")
"""Of a resource that cannot be read."""


def dialect(kinds: tuple[Kind, ...], bare: Bare, managers: frozenset[str] = frozenset()) -> Dialect:
    orders = Orders(kinds, bare)

    def is_source(obj: Object, view: View) -> bool:
        return obj.ref.kind == RESOURCE_DISTRIBUTION

    def origin(obj: Object, view: View) -> Ref | None:
        owner = next((owner for owner in obj.owners if _is_distribution(owner)), None)
        return Ref(RESOURCE_DISTRIBUTION, "", owner.name) if owner is not None and obj.ref.kind in kinds else None

    def asked_by(source: Ref, view: View) -> Asked | None:
        obj = view.get(source)
        return None if obj is None or obj.deleting else orders.asked(_spec(obj))

    def places(source: Ref, view: View) -> Places | None:
        asked = asked_by(source, view)
        return (
            Places(asked.order.kind, asked.order.resource.name) if asked and asked.order and not asked.faults else None
        )

    def reads(source: Ref, view: View) -> tuple[Trial, ...]:
        asked = asked_by(source, view)
        return asked.order.reads if asked and asked.order and not asked.faults else ()

    def want(source: Ref, view: View) -> Want:
        obj = view.get(source)
        if obj is None:
            return Want()
        if obj.deleting:
            return Want(prune=False)  # the garbage collector takes them, or leaves them where somebody said orphan
        asked = orders.asked(_spec(obj))
        if asked.order is None or asked.faults:
            return Want(tuple(_missed(obj, asked, view)), prune=False, faults=asked.faults)
        content = orders.content(_spec(obj), asked.order, view)
        copies = tuple(_copies(obj, asked, asked.order, content if isinstance(content, Content) else KEEP, view))
        if isinstance(content, Content):
            return Want(copies, prune=not asked.targets.is_mistyped, faults=asked.slips)
        return Want(copies, prune=False, faults=(*_rejected(content), *asked.slips))

    def also(obj: Object, view: View) -> Iterable[Ref]:
        if obj.ref.kind != NAMESPACE:
            return ()
        asking = ((source, asked_by(source, view)) for source in view.sources(NAME))
        return tuple(source for source, asked in asking if asked and asked.targets.reach(obj.ref.name, obj.labels))

    def report(obj: Object, view: View, tally: Tally) -> Mapping[str, object]:
        if obj.deleting:
            return {}  # nothing is done for it any more, so there is nothing to tell
        asked = orders.asked(_spec(obj))
        faults = asked.faults or _rejected(asked.order and orders.content(_spec(obj), asked.order, view))
        return status(obj.generation, tally, faults, lambda ref: view.get(ref) is not None or view.taken(ref))

    def admit(request: Request, view: View) -> tuple[str, ...]:
        new, old = request.new, request.old
        if new is None or new.deleting or (old is not None and _spec(old) == _spec(new)):
            return ()  # who only labels it, or lets it go, is not told about its spec
        asked = orders.asked(_spec(new))
        before = orders.asked(_spec(old)) if old is not None else None
        content = asked.order and orders.content(_spec(new), asked.order, view)
        return refusals(new.ref.name, asked, before, content, view.value)

    return Dialect(
        NAME,
        (*kinds, RESOURCE_DISTRIBUTION),
        is_source,
        origin,
        places,
        want,
        marks=frozenset({FROM, HASHCODE}),
        asks=frozenset(),
        also=also,
        reads=reads,
        report=report,
        conditions=frozenset(TYPES),
        admit=admit,
        guarded=(RESOURCE_DISTRIBUTION,),
        asking=(RESOURCE_DISTRIBUTION,),
        managers=managers,
        rank=1,
        reach=Reach.NAMED,
        by_owner=True,
        explicit=True,
        gone_after=GONE_AFTER,
    )


def _copies(obj: Object, asked: Asked, order: Order, content: Content | Keep, view: View) -> Iterable[Copy]:
    annotations = {**order.annotations, FROM: obj.ref.name}
    owner = _owner(obj)
    for namespace, named in asked.targets.within(view):
        ref = Ref(order.kind, namespace, order.resource.name)
        yield Copy(ref, content, order.labels, annotations, adopt=Adopt.NEVER, named=named, owner=owner)


def _missed(obj: Object, asked: Asked, view: View) -> Iterable[Copy]:
    """The places of a resource that cannot be served: nothing is done there, and the status counts them."""
    kind, name = _NO_KIND, obj.ref.name
    if asked.resource is not None:
        group, _, version = asked.resource.api_version.rpartition("/")
        kind, name = Kind(group, version, asked.resource.kind, ""), asked.resource.name or name
    for namespace, named in asked.targets.within(view) if asked.is_aimed else ():
        yield Copy(Ref(kind, namespace, name), KEEP, adopt=Adopt.NEVER, named=named)


def _owner(obj: Object) -> Owner:
    kind = RESOURCE_DISTRIBUTION
    return Owner(kind.api_version, kind.name, obj.ref.name, obj.uid, controller=True, block_owner_deletion=True)


def _is_distribution(owner: Owner) -> bool:
    """True for the controller reference to a distribution, of whichever version."""
    group = owner.api_version.partition("/")[0]
    return bool(owner.controller) and (group, owner.kind) == (RESOURCE_DISTRIBUTION.group, RESOURCE_DISTRIBUTION.name)


def _spec(obj: Object) -> Field:
    return obj.content.get("spec") or _NO_SPEC


def _rejected(content: object) -> tuple[Fault, ...]:
    return (Fault("Invalid", f"spec.resource: {content.message}"),) if isinstance(content, Rejected) else ()
