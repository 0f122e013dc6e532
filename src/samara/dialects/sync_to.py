"""Objects that say by an annotation to which namespaces they are copied: to all, or to those of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from samara.core.admit import Request
from samara.core.match import NOWHERE, Names, is_namespace_name, label_token, sample, shown
from samara.core.model import ANNOTATIONS, CONFIG_MAP, LABELS, NAMESPACE, Kind, Object, Ref
from samara.core.view import View, is_going
from samara.core.want import Adopt, Bare, Copy, Dialect, Fault, Places, Want

ASK = "openkruise.io/sync-to"
LIST = "openkruise.io/sync-to-namespaces"
FROM = "openkruise.io/synced-from"
"""The mark: as an annotation it names the source, as a label it holds a token for it."""

CLUSTER = "cluster"
LISTED = ("namespaces", "namespace")
"""The proposal's text says the second, its examples the first."""

NAME = "sync-to"
RANK = 4
MOST = 10_000
"""Names in one list: a tenant's annotation must not fill our memory."""
CLUSTERS_OWN = Places(CONFIG_MAP, "kube-root-ca.crt")
"""Kubernetes keeps this one in every namespace: identical at first, it would be adopted, and then be a tenant's."""
_SEPARATORS = re.compile(r"[;,\s]+")


def dialect(
    kinds: tuple[Kind, ...],
    bare: Bare,
    adopt: Adopt = Adopt.IDENTICAL,
    consent: bool = False,
    carry_labels: bool = True,
    managers: frozenset[str] = frozenset(),
) -> Dialect:
    def is_source(obj: Object, view: View) -> bool:
        return ASK in obj.annotations and obj.ref.kind in kinds and origin(obj, view) is None

    def origin(obj: Object, view: View) -> Ref | None:
        namespace, _, name = obj.annotations.get(FROM, "").partition("/")
        told = name == obj.ref.name and namespace != obj.ref.namespace and is_namespace_name(namespace)
        return Ref(obj.ref.kind, namespace, name) if told and obj.ref.kind in kinds else None

    def places(source: Ref, view: View) -> Places:
        return Places(source.kind, source.name)

    def want(source: Ref, view: View) -> Want:
        obj = view.get(source)
        if obj is None or obj.deleting or not is_source(obj, view):
            return Want()
        asked = asked_by(obj)
        carried = bare(LABELS, obj.labels) if carry_labels else {}
        labels = {**carried, FROM: label_token(f"{source.namespace}-{source.name}")}
        annotations = {**bare(ANNOTATIONS, obj.annotations), FROM: source.path}
        copies = tuple(
            Copy(
                source._replace(namespace=namespace),
                obj.content,
                labels,
                annotations,
                adopt=adopt,
                named=asked.names is not None,
            )
            for namespace in view.namespaces(asked.names)
            if namespace != source.namespace and not (asked.names is None and is_going(namespace, view))
        )
        # Whoever has mistyped a name has not asked for a copy to be deleted.
        return Want(copies, prune=not asked.faults, faults=asked.faults)

    def also(obj: Object, view: View) -> Iterable[Ref]:
        if obj.ref.kind != NAMESPACE:
            return ()
        return tuple(source for source in view.sources(NAME) if _concerns(view.get(source), obj.ref.name))

    def admit(request: Request, view: View) -> tuple[str, ...]:
        new, old = request.new, request.old
        if new is None or not is_source(new, view):
            return ()
        if old is not None and _words(old) == _words(new):
            return ()  # what was stored before must not stop a change of something else
        return tuple(fault.message for fault in asked_by(new).faults)

    return Dialect(
        NAME,
        kinds,
        is_source,
        origin,
        places,
        want,
        marks=frozenset({FROM}),
        asks=frozenset({ASK, LIST}),
        also=also,
        admit=admit,
        guarded=kinds,
        managers=managers,
        rank=RANK,
        consent=consent,
    )


class Asked(NamedTuple):
    """What a source's annotations say: where to, None for every namespace, and what is wrong with them."""

    names: Names | None
    faults: tuple[Fault, ...] = ()


def asked_by(obj: Object) -> Asked:
    if (obj.ref.kind, obj.ref.name) == CLUSTERS_OWN.spot:
        told = f"the ConfigMap {obj.ref.name} is the cluster's own in every namespace and is never copied"
        return Asked(NOWHERE, (Fault("Refused", told),))
    return _asked(obj.annotations[ASK], obj.annotations.get(LIST, ""))


@lru_cache(maxsize=64)
def _asked(value: str, text: str) -> Asked:
    """Remembered, since every namespace asks; only a few, since a tenant's list can be long."""
    if value.strip() == CLUSTER:
        return Asked(None)
    if value.strip() not in LISTED:
        accepted = f"accepted are {CLUSTER!r} and {LISTED[0]!r}; to end the copying remove the key"
        return Asked(NOWHERE, (Fault("Invalid", f"{ASK} is {shown(value)}; {accepted}"),))
    names = listed_names(text)
    if len(names.legal) + len(names.illegal) > MOST:
        told = f"{LIST} has more than {MOST:,} names; {CLUSTER!r} means every namespace"
        return Asked(NOWHERE, (Fault("Invalid", told),))
    return Asked(names, tuple(_faults(names, text)))


def listed_names(text: str) -> Names:
    """Names between semicolons, commas and white space; duplicates merged."""
    return Names.of(filter(None, _SEPARATORS.split(text)))


def _faults(names: Names, text: str) -> Iterable[Fault]:
    form = "accepted are names of namespaces, as in 'ns-1;ns-2'"
    if names.illegal:
        found = sample(map(shown, names.illegal))
        yield Fault("Invalid", f"{LIST} names what cannot be a namespace: {found}; {form}")
    elif not names.legal:
        yield Fault("Invalid", f"{LIST} is {shown(text)}, which names no namespace; {form}")


def _concerns(obj: Object | None, namespace: str) -> bool:
    if obj is None or obj.ref.namespace == namespace:
        return False
    if namespace not in obj.annotations.get(LIST, ""):  # said without reading the list
        return obj.annotations[ASK].strip() == CLUSTER
    names = asked_by(obj).names
    return names is None or namespace in names.members


def _words(obj: Object) -> tuple[str | None, str | None]:
    return obj.annotations.get(ASK), obj.annotations.get(LIST)
