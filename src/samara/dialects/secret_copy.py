"""Secrets in one home namespace, copied to the namespaces their annotation lists."""

from __future__ import annotations

from collections.abc import Iterable

from samara.core.match import Names, csv_names, label_token, sample, shown
from samara.core.model import NAMESPACE, SECRET, Object, Ref
from samara.core.view import View, is_going
from samara.core.want import Adopt, Copy, Dialect, Fault, Places, Reach, Want

TARGETS = "secret-copy/namespaces"
ORIGIN = "secret-copy/origin"
FROM = "secret-copy/from"

NAME = "secret-copy"


def dialect(
    home: str = "admin",
    on_source_gone: str = "keep",
    adopt: Adopt = Adopt.IDENTICAL,
    managers: frozenset[str] = frozenset(),
) -> Dialect:
    def is_source(obj: Object, view: View) -> bool:
        return obj.ref.kind == SECRET and obj.ref.namespace == home and TARGETS in obj.annotations

    def origin(obj: Object, view: View) -> Ref | None:
        if obj.ref.kind != SECRET or obj.ref.namespace == home:
            return None
        told = obj.annotations.get(ORIGIN)
        return Ref(SECRET, home, obj.ref.name) if told == f"{home}/{obj.ref.name}" else None

    def places(source: Ref, view: View) -> Places:
        return Places(SECRET, source.name)

    def want(source: Ref, view: View) -> Want:
        secret = view.get(source)
        if secret is None or secret.deleting or not is_source(secret, view):
            return Want(prune=on_source_gone == "delete")
        listed = listed_by(secret)
        content = secret.content.pick("type", "data")
        annotations = {ORIGIN: f"{home}/{source.name}"}
        labels = {FROM: label_token(f"{home}-{source.name}")}
        copies = tuple(
            Copy(
                Ref(SECRET, namespace, source.name), content, labels, annotations, adopt=adopt, named=listed is not None
            )
            for namespace in view.namespaces(listed)
            if namespace != home and not (listed is None and is_going(namespace, view))
        )
        return Want(copies, faults=faults(secret))

    def also(obj: Object, view: View) -> Iterable[Ref]:
        if obj.ref.kind != NAMESPACE or obj.ref.name == home:
            return ()
        return tuple(source for source in view.sources(NAME) if _concerns(view.get(source), obj.ref.name))

    return Dialect(
        NAME,
        (SECRET,),
        is_source,
        origin,
        places,
        want,
        marks=frozenset({ORIGIN, FROM}),
        unsaid=frozenset({"immutable"}),
        asks=frozenset({TARGETS}),
        also=also,
        managers=managers,
        reach=Reach.ANYWHERE,
    )


def listed_by(secret: Object) -> Names | None:
    """The names in the annotation; None, every namespace, only where it is empty or blank."""
    asked = secret.annotations[TARGETS]
    return csv_names(asked) if asked.strip() else None


def _concerns(secret: Object | None, namespace: str) -> bool:
    if secret is None:
        return False
    listed = listed_by(secret)
    return listed is None or namespace in listed.members


def faults(secret: Object) -> tuple[Fault, ...]:
    """What a person must put right in the annotation."""
    listed = listed_by(secret)
    if listed is None:
        return ()
    if listed.illegal:
        names = sample(map(shown, listed.illegal))
        return (Fault("Invalid", f"{TARGETS} names what cannot be a namespace: {names}"),)
    if not listed.legal:
        asked = shown(secret.annotations[TARGETS])
        return (Fault("Invalid", f"{TARGETS} is {asked}, which names no namespace; an empty value means every one"),)
    return ()
