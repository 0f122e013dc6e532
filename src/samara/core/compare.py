"""Is a copy right, and which labels and annotations would a right one carry?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from samara.core.model import ANNOTATIONS, LABELS, Content, Object, Owner
from samara.core.travel import ADOPTED, CREATED_BY, RELEASED, is_of_another_version
from samara.core.view import View
from samara.core.want import KEEP, Copy, Dialect, Overlay


def is_right(copy: Copy, have: Object, dialect: Dialect, view: View) -> bool:
    """True where content is equal, every wanted key has its value, and no key of ours is left over."""
    return (
        copy.content is not KEEP
        and (has_content(have, copy, dialect) or view.stands_for(copy.ref.kind, copy.content, have.content))
        and copy.labels.items() <= have.labels.items()
        and copy.annotations.items() <= have.annotations.items()
        and owners_with(copy, have) == have.owners
        and not any(_is_stale(owned.where, owned.key, copy, have, dialect) for owned in have.ours)
    )


def has_content(have: Object, copy: Copy, dialect: Dialect) -> bool:
    """True where an object holds what a copy would, but for what its vocabulary says nothing about."""
    return copy.content == have.content or (
        bool(dialect.unsaid) and copy.content == have.content.without(*dialect.unsaid)
    )


def as_it_lies(copy: Copy, have: Object, dialect: Dialect) -> Copy:
    """A copy with what its vocabulary says nothing about as it is there: some of that can never be taken back."""
    kept = have.content.pick(*dialect.unsaid).fields
    if copy.content is KEEP or not kept or not has_content(have, copy, dialect):
        return copy
    fields = sorted((*copy.content.fields, *kept), key=lambda each: each.name)
    return replace(copy, content=Content(tuple(fields)))


def _is_stale(where: str, key: str, copy: Copy, have: Object, dialect: Dialect) -> bool:
    wanted = copy.labels if where == LABELS else copy.annotations
    if key in wanted or (key == ADOPTED and where == ANNOTATIONS) or is_of_another_version(key):
        return False
    return have.owns(where, key, dialect.all_managers)


def merged(where: str, copy: Copy, have: Object, dialect: Dialect) -> dict[str, str]:
    """The labels or annotations of a corrected copy: foreign keys stay, ours are exactly the wanted ones."""
    there, wanted = (have.labels, copy.labels) if where == LABELS else (have.annotations, copy.annotations)
    kept = {key: value for key, value in there.items() if not _is_stale(where, key, copy, have, dialect)}
    return {**kept, **wanted}


def parted(copy: Copy, have: Object, dialect: Dialect) -> tuple[Copy, dict[str, dict[str, str]]]:
    """A copy that is made anew, with all words of ours that stay; and apart what others wrote on the old one.

    What we send as ourselves is ours by the server's record, and would be taken away as left over.
    """
    words = {where: merged(where, copy, have, dialect) for where in (LABELS, ANNOTATIONS)}
    theirs = {where: _of_others(where, words[where], copy, have, dialect) for where in words}
    labels, annotations = (
        {key: words[where][key] for key in words[where] if key not in theirs[where]} for where in words
    )
    return replace(copy, labels=labels, annotations=annotations), theirs


def _of_others(where: str, words: Mapping[str, str], copy: Copy, have: Object, dialect: Dialect) -> dict[str, str]:
    wanted = copy.labels if where == LABELS else copy.annotations
    left = words.keys() - wanted.keys() - {ADOPTED}
    return {key: words[key] for key in sorted(left) if not have.owns(where, key, dialect.all_managers)}


def owners_with(copy: Copy, have: Object) -> tuple[Owner, ...]:
    """The owner references of a corrected copy: one of ours per uid, in whichever version it names its owner."""
    wanted = copy.owner
    if wanted is None or any(each._replace(api_version=wanted.api_version) == wanted for each in have.owners):
        return have.owners
    return (*(each for each in have.owners if each.uid != wanted.uid), wanted)


def overlaid(overlay: Overlay, have: Object) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations after an apply with force: what this manager applied before and does not now, goes."""
    before = {(each.where, each.key) for each in have.applied if each.manager == overlay.manager}
    labels = {key: value for key, value in have.labels.items() if (LABELS, key) not in before}
    annotations = {key: value for key, value in have.annotations.items() if (ANNOTATIONS, key) not in before}
    return {**labels, **overlay.labels}, {**annotations, **overlay.annotations}


def released(have: Object, dialect: Dialect) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of an object that is given back to its people."""
    made = {CREATED_BY} if have.owns(LABELS, CREATED_BY, dialect.all_managers) else set()
    labels = {key: value for key, value in have.labels.items() if key not in dialect.marks | made}
    asked = {key for key in dialect.asks if have.owns(ANNOTATIONS, key, dialect.all_managers)}
    gone = dialect.marks | asked | {ADOPTED}
    annotations = {key: value for key, value in have.annotations.items() if key not in gone}
    return labels, {**annotations, RELEASED: "true"}


def is_owned(have: Object, source: Object | None) -> bool:
    """True where an owner reference names this source by its uid."""
    return source is not None and any(owner.uid == source.uid for owner in have.owners)


def is_marked_by_us(have: Object, dialect: Dialect) -> bool:
    """A mark is a claim, not a proof, and so is an owner reference: the server's record says that we set a mark."""
    return any(owned.key in dialect.marks and owned.manager in dialect.all_managers for owned in have.ours)
