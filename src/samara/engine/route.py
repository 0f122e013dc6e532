"""Whose work a change is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from samara.core.allow import is_paused
from samara.core.model import NAMESPACE, Key, Object
from samara.core.reads import Definition
from samara.core.travel import ACCEPT
from samara.core.view import has_copies
from samara.engine.desk import Desk
from samara.kube.cache import Change

_WISH = attrgetter(
    *("uid", "generation", "content", "labels", "annotations", "finalizers", "owners", "deleting"),
    *("ours", "applied", "made"),
)
"""All of an object that a plan may rest on; not its status."""
_WORDS = attrgetter("labels", "annotations")


def told_only(change: Change, desk: Desk) -> list[Key]:
    """The sources of which a change says no more than what is told of them: our own status write, mostly."""
    old, new = change.old, change.new
    if old is None or new is None or new.status is None or _WISH(old) != _WISH(new):
        return []
    return [key for key in desk.table.sources(new, desk.cache) if desk.table[key.dialect].report is not None]


def concerned(change: Change, desk: Desk) -> Iterator[Key]:
    """The keys that may have to be planned because of a change.

    A change of a source ends its own waits; a change of a custom resource ends the waits of every key that it concerns.
    So does a change of a Namespace's labels or annotations for the Namespaces that inherit them.
    """
    table, cache = desk.table, desk.cache
    if change.new is None or change.new.deleting:
        cache.answers.forget(Definition(change.ref.kind))  # perhaps it goes, and this is how we learn of it
    yield from change.rivals
    seen = [obj for obj in (change.old, change.new) if obj is not None]
    asks = change.ref.kind != NAMESPACE and change.ref.kind in table.always_read
    inherited = change.ref.kind == NAMESPACE and len(seen) == 2 and _WORDS(seen[0]) != _WORDS(seen[1])
    for obj in seen:
        for key in table.keys(obj, cache):
            if asks or key.source == change.ref or (inherited and key.source.kind == NAMESPACE):
                desk.waits.free_source(key.source)
            yield key
    if not seen:
        once = (Key(dialect.name, change.ref) for dialect in table.dialects)
        yield from (key for key in once if has_copies(cache, key))  # it was a source before
        for claim in cache.claims(change.ref):
            yield table.cut(claim, change.ref.namespace)
    if change.ref.kind == NAMESPACE and len({_word_of_its_own(obj) for obj in seen}) == 2:
        # Also sources that do not target it now.
        slices = (key.part(change.ref.name) for key in cache.marked_sources())
        yield from (key for key in slices if has_copies(cache, key))
        yield from _resting_with(change.ref.name, desk)


def _word_of_its_own(namespace: Object) -> tuple[bool, str]:
    """What a Namespace says of all that is in it, whether or not a source names it now."""
    return is_paused(namespace), namespace.annotations.get(ACCEPT, "")


def _resting_with(namespace: str, desk: Desk) -> Iterable[Key]:
    """The custom resources in a Namespace: nothing is written for them while it is paused."""
    for dialect in desk.table.dialects:
        found = desk.cache.sources(dialect.name) if dialect.asking else ()
        yield from (Key(dialect.name, source) for source in found if source.namespace == namespace)


def onward(change: Change, desk: Desk) -> Iterable[Key]:
    """The next hop of a chain when our own write has made a change: from what is there now, and from what it was."""
    if told_only(change, desk):
        return ()
    old, new = change.old, change.new
    same = old is not None and new is not None and (old.labels, old.annotations) == (new.labels, new.annotations)
    seen = [obj for obj in (None if same else old, new) if obj is not None]
    return dict.fromkeys(key for obj in seen for key in desk.table.onward(obj, desk.cache))


def orphans(dialect: str, desk: Desk) -> int:
    """Marked copies whose source is no source any more; a Namespace is none: it belongs to those who live in it."""
    sources = set(desk.cache.sources(dialect))
    keys = [key for key in desk.cache.marked_sources() if key.dialect == dialect and key.source not in sources]
    return sum(copy.ref.kind.namespaced for key in keys for copy in desk.cache.copies_of(key))
