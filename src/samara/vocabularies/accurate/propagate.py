"""Objects that say `propagate` are copied to the namespaces below theirs, and from each of those to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from samara.core.desired import UNAVAILABLE, Adopt, Copy, Desired, Fault, Mistake, Mode, Template, not_copied
from samara.core.metadata import is_in_sync
from samara.core.metadata_keys import RELEASED
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, LABELS, NAMESPACE, Key, Kind, Object, Ref, namespace_ref
from samara.core.names import is_namespace_name
from samara.core.ownership import ByMark, is_recorded
from samara.core.queries import UNREAD, OwnerAnnotation, Rejected
from samara.core.source_type import Addresses, Annotated, Copyable, Hierarchy, Policy, Protected, SourceType
from samara.core.view import View, has_copies
from samara.vocabularies.accurate.config import Config
from samara.vocabularies.accurate.globs import Globs
from samara.vocabularies.accurate.labels import (
    CREATE,
    CREATED_BY,
    FROM,
    GENERATED,
    GROUP,
    NAME,
    PARENT,
    PROPAGATE,
    PROPAGATE_GENERATED,
    TEMPLATE,
    UPDATE,
    affected_namespaces,
    downstream_of,
    is_in_loop,
    parent_or_template,
)

PROPAGATION = NAME
MODES = (CREATE, UPDATE)
RECHECK = 60.0
"""Seconds after which a source is planned again that waits for a copy more than one step above it."""
CONTROLLED = '"controller":true'
"""No key, but what makes an object worth parsing that a controller has made."""


@dataclass(frozen=True)
class Propagation:
    """What the sources of all watched kinds want, as the settings have it."""

    config: Config
    kinds: tuple[Kind, ...]
    copyable: Copyable
    adopt: Adopt
    managers: frozenset[str] = frozenset({FIELD_MANAGER})
    generated: bool = False
    """True where what a controller has made counts as its owner says."""

    @cached_property
    def ownership(self) -> ByMark:
        """A copy names the parent namespace. One that was only created belongs to its namespace."""
        return ByMark(
            frozenset({FROM}),
            self.origin,
            self.managers,
            disowned=lambda obj: obj.annotations.get(PROPAGATE) != UPDATE,
        )

    @cached_property
    def source_type(self) -> SourceType:
        keys = {PROPAGATE, PROPAGATE_GENERATED, GENERATED, *((CONTROLLED,) if self.generated else ())}
        return SourceType(
            PROPAGATION,
            self.kinds,
            source=Annotated(frozenset(keys), self.is_source, kinds={PROPAGATE: self.kinds}, lint=self.lint),
            ownership=self.ownership,
            desired=self.desired,
            addresses=lambda source, view: Addresses(source.kind, source.name, below=source.namespace),
            affected_by=self.also,
            policy=Policy(Protected.BY_NAME, any_kind=True),
            hierarchy=Hierarchy(frozenset({PARENT, TEMPLATE}), parent_or_template),
        )

    def lint(self, obj: Object) -> Iterator[Mistake]:
        for key in (PROPAGATE, PROPAGATE_GENERATED):
            if obj.annotations.get(key, CREATE) not in MODES:
                yield Mistake(key, f'"{CREATE}" or "{UPDATE}": with any other value the object is not passed on')
        if PROPAGATE_GENERATED in obj.annotations and not self.generated:
            instead = f"the setting vocabularies.{NAME}.propagateGenerated: true"
            expected = f"{PROPAGATE} on the objects themselves, or {instead}"
            yield Mistake(PROPAGATE_GENERATED, expected, "a key that does nothing while that is off")
        if PROPAGATE in obj.annotations:
            if self.config != Config() and not self.config.watches:
                expected = f"no such key while the setting vocabularies.{NAME}.watches names no kind"
                yield Mistake(PROPAGATE, expected, "a key that does nothing")
            yield from _excluded(LABELS, obj.labels, self.config.label_excludes)
            yield from _excluded(ANNOTATIONS, obj.annotations, self.config.annotation_excludes)

    def desired(self, source: Ref, view: View) -> Desired:
        return replace(self.want(source, view), reads=self.reads(source, view))

    @cached_property
    def _served(self) -> frozenset[Kind]:
        return frozenset(self.kinds)

    def is_source(self, obj: Object, view: View) -> bool:
        """With `generated` also what a controller has made, whose owner has still to be asked."""
        asks = obj.annotations.get(PROPAGATE) in MODES or (self.generated and _asked_of_owner(obj) is not None)
        return obj.ref.kind in self._served and asks

    def origin(self, obj: Object, view: View) -> Ref | None:
        """A copy that is only created is its namespace's own from then on, whatever `from` says.

        Anybody can write `from`: what cannot be the name of another namespace is no mark.
        """
        above = obj.annotations.get(FROM, "") if obj.ref.kind in self._served else ""
        kept_equal = obj.annotations.get(PROPAGATE) == UPDATE and above != obj.ref.namespace
        return Ref(obj.ref.kind, above, obj.ref.name) if kept_equal and is_namespace_name(above) else None

    def reads(self, source: Ref, view: View) -> tuple[OwnerAnnotation, ...]:
        have = view.get(source)
        asked = self._asked_before(source, view)
        if self.generated and have is not None and not have.deleting:
            asked = _asked_of_owner(have)
        return (asked,) if asked is not None else ()

    def also(self, obj: Object, view: View) -> Iterable[Ref]:
        """The sources of a Namespace's upstream, and of a loop that it closes or opens; what is passed on of a copy."""
        if obj.ref.kind == NAMESPACE:
            return _in_upstream(obj, view)
        if obj.ref.kind not in self._served or obj.annotations.keys().isdisjoint((PROPAGATE, FROM)):
            return ()
        below = [each.ref.name for each in downstream_of(obj.ref.namespace, view)]
        return [Ref(obj.ref.kind, each, obj.ref.name) for each in below if any(downstream_of(each, view))]

    def want(self, source: Ref, view: View) -> Desired:
        have, namespace = view.get(source), view.get(namespace_ref(source.namespace))
        if (have is not None and have.deleting) or (namespace is not None and is_in_loop(namespace, view)):
            return Desired(prune=False)  # what is being deleted is there until it is gone
        said = None if have is None else self._said(have, view)
        if isinstance(said, Rejected):
            return Desired(
                prune=False, faults=(Fault("Refused", f"what its owner says cannot be read: {said.message}"),)
            )
        if have is None or said not in MODES:
            return Desired(prune=not self._comes_back(source, view) and not self._was_generated(source, view))
        if namespace is None or self._is_left_over(have, namespace):
            return Desired(prune=False)
        below = (Ref(source.kind, each.ref.name, source.name) for each in downstream_of(source.namespace, view))
        copies = tuple(self._copies(have, below, view))
        if self._is_astray(have, view):
            return Desired(tuple(_waiting(copy, have) for copy in copies))
        taken = {copy.ref for copy in copies if self._takes_over(copy, have, view)} if FROM in have.annotations else ()
        if not taken or not self._may_change(have, view):
            return Desired(copies)
        careful = tuple(_waiting(copy, have) if copy.ref in taken else copy for copy in copies)
        return Desired(careful, requeue_after=RECHECK)

    def _said(self, obj: Object, view: View) -> object:
        """The mode of a source: its own word, or else its owner's where that counts."""
        asked = _asked_of_owner(obj) if self.generated else None
        return obj.annotations.get(PROPAGATE) if asked is None else view.answer(asked)

    def _asked_before(self, source: Ref, view: View) -> OwnerAnnotation | None:
        """Whom the copies of a silent source may come from: `generated` may have been on when they were made."""
        have = view.get(source)
        if have is not None:
            asked = _asked_of_owner(have)
        else:
            asked = (
                OwnerAnnotation(source, source.namespace, PROPAGATE_GENERATED) if view.exists_unread(source) else None
            )
        if asked is None or self.generated:
            return None
        return asked if has_copies(view, Key(PROPAGATION, source)) else None

    def _was_generated(self, source: Ref, view: View) -> bool:
        """True where copies stay that the setting has made: that it is off now takes nothing away.

        What is not read yet takes nothing away either. An owner that may not be read does not count: most objects with
        a controller have asked for their copies themselves, and lose them with that word.
        """
        asked = self._asked_before(source, view)
        return asked is not None and view.answer(asked) in (UNREAD, *MODES)

    def _copies(self, source: Object, places: Iterable[Ref], view: View) -> Iterator[Copy]:
        """What one source says is the same everywhere, and is made once for five thousand namespaces."""
        labels = self.config.label_excludes.without(self.copyable(LABELS, source.labels)) | {CREATED_BY: NAME}
        said = self.copyable(ANNOTATIONS, source.annotations) | {PROPAGATE: str(self._said(source, view))}
        annotations = self.config.annotation_excludes.without(said) | {FROM: source.ref.namespace}
        sync = Template(source.content, labels, annotations, Mode.SYNC, self.adopt)
        once = sync._replace(mode=Mode.CREATE_ONLY)
        for ref in places:
            yield Copy(ref, sync if self._mode(source, ref, view) is Mode.SYNC else once, by_name=True)

    def _mode(self, source: Object, ref: Ref, view: View) -> Mode:
        """A copy that was kept equal and is now only created is written once more, and then left alone."""
        if self._said(source, view) == UPDATE:
            return Mode.SYNC
        there = view.get(ref)
        kept_for = self.origin(there, view) if there is not None else None
        is_stale = kept_for is not None and there is not None and there.known_copy
        return Mode.SYNC if is_stale or kept_for == source.ref else Mode.CREATE_ONLY

    def _comes_back(self, ref: Ref, view: View) -> bool:
        """True where a copy is gone, or is no source any more, that its own source puts right: the next ones stay."""
        if self.config.annotation_excludes.match(PROPAGATE):
            return False  # no copy is a source here
        while (above := _above(ref, view)) is not None:  # a tree may be deeper than Python's stack
            have, found = view.get(ref), view.get(above)
            if have is not None and not have.deleting and not self._is_copy(have, above, view):
                return False
            said = None if found is None else self._said(found, view)
            if said is UNREAD or isinstance(said, Rejected):
                return True  # what is not known takes nothing away
            if said in MODES:
                return have is None or have.deleting or said == UPDATE
            ref = above
        return False

    def _is_astray(self, have: Object, view: View) -> bool:
        """True for a copy that is not as its own source is: it is put right first, and passed on then."""
        above = _above(have.ref, view)
        found = view.get(above) if above is not None and self._is_copy(have, above, view) else None
        if found is None or found.deleting or self._said(found, view) != UPDATE:
            return False
        return not all(
            is_in_sync(copy.template, have, self.ownership, view) for copy in self._copies(found, (have.ref,), view)
        )

    def _takes_over(self, copy: Copy, source: Object, view: View) -> bool:
        """True if an object is there that does not follow this source yet, and the copy would overwrite it."""
        live = view.get(copy.ref) if copy.template.mode is Mode.SYNC else None
        return live is not None and self.origin(live, view) != source.ref

    def _may_change(self, copy: Object, view: View) -> bool:
        """True if this copy, or one further up, is about to be corrected, to change its mode or to be deleted.

        Then it takes over no other object: when it is deleted or only created, it could not give that object back.
        """
        while (namespace := view.get(namespace_ref(copy.ref.namespace))) is not None:
            if self._is_left_over(copy, namespace):
                return True
            above = _above(copy.ref, view)
            if above is None or not self._is_copy(copy, above, view):
                return False
            found = view.get(above)
            if found is None or found.deleting or self._said(found, view) not in MODES:
                return self.origin(copy, view) == above and is_recorded(copy, self.ownership)
            (expected,) = self._copies(found, (copy.ref,), view)
            if expected.template.mode is Mode.SYNC and not is_in_sync(expected.template, copy, self.ownership, view):
                return True
            copy = found
        return False

    def _is_copy(self, have: Object, above: Ref, view: View) -> bool:
        """True where a source above may write over an object: it is its copy, or we made it and nobody has it.

        What another vocabulary has taken over is not put right from above, and nothing is passed on from there. Nor is
        what somebody has made: a `from` that names another place says nothing of this one.
        """
        named = self.origin(have, view) == above or is_recorded(have, self.ownership)
        ours = named or (have.known_copy and view.owner(have) is None)
        return ours and RELEASED not in have.annotations

    def _is_left_over(self, have: Object, namespace: Object) -> bool:
        """True for a copy of ours whose namespace hangs elsewhere now: it is about to go, and hands nothing on."""
        stale = have.annotations.get(FROM, "") not in ("", parent_or_template(namespace))
        kept_equal = have.annotations.get(PROPAGATE) == UPDATE
        return stale and kept_equal and RELEASED not in have.annotations and is_recorded(have, self.ownership)


def _excluded(where: str, metadata: Iterable[str], patterns: Globs) -> Iterator[Mistake]:
    """The keys of the tree itself are set on every copy, whatever the configuration excludes."""
    for key in metadata:
        if patterns.match(key) and not key.startswith(f"{GROUP}/"):
            yield not_copied(where, key)


def _in_upstream(namespace: Object, view: View) -> list[Ref]:
    looped = [namespace, *affected_namespaces(namespace, view)] if is_in_loop(namespace, view) else []
    homes = dict.fromkeys((parent_or_template(namespace), *(each.ref.name for each in looped)))
    return [source for home in homes if home for source in view.sources(PROPAGATION, home)]


def _waiting(copy: Copy, source: Object) -> Copy:
    """What is below a copy that is not right itself stays as it is; what is not there yet waits."""
    awaits = f"{source.ref.path} is not as its own source is: it is put right first, and passed on then"
    return copy._replace(template=copy.template._replace(content=UNAVAILABLE, waiting_for=awaits))


def _above(ref: Ref, view: View) -> Ref | None:
    """The place from which this one gets its copy."""
    namespace = view.get(namespace_ref(ref.namespace))
    above = parent_or_template(namespace) if namespace is not None and not namespace.deleting else ""
    return Ref(ref.kind, above, ref.name) if above else None


def _asked_of_owner(obj: Object) -> OwnerAnnotation | None:
    """The question for an object that says nothing itself; one that was asked in vain before says so."""
    said = obj.annotations.get(PROPAGATE) or obj.annotations.get(FROM)
    if said or obj.annotations.get(GENERATED) == "false":
        return None
    owner = next((each for each in obj.owner_references if each.controller), None)
    return OwnerAnnotation(owner, obj.ref.namespace, PROPAGATE_GENERATED) if owner is not None else None
