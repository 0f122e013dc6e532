"""Propagation: users annotate an object with `propagate`; Samara copies it down the namespace tree, level by level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from samara.core.desired import UNAVAILABLE, Adopt, Copy, Desired, Fault, Mistake, Mode, Template, not_copied
from samara.core.metadata import is_in_sync
from samara.core.metadata_keys import RELEASED
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, LABELS, NAMESPACE, Key, Kind, Object, Ref, namespace_ref
from samara.core.names import is_namespace_name
from samara.core.ownership import ByMark, is_adopted, is_recorded
from samara.core.queries import UNREAD, OwnerAnnotation, Rejected
from samara.core.source_type import Addresses, Annotated, Copyable, Hierarchy, Names, Policy, Protected, SourceType
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
"""Seconds until a source is planned again that must not take over an object yet. The copy that it waits for may be many
levels above, so that no event plans this source."""
CONTROLLED = '"controller":true'
"""Not a key, but JSON that every object with a controller contains. It stands among the `metadata_keys`, because the
watch parses only objects whose bytes contain one of them."""


@dataclass(frozen=True)
class Propagation:
    """The source type of all watched kinds."""

    config: Config
    kinds: tuple[Kind, ...]
    copyable: Copyable
    adopt: Adopt
    managers: frozenset[str] = frozenset({FIELD_MANAGER})
    generated: bool = False
    """True if `propagate-generated` on a controller makes the objects that it created sources."""
    is_discreet: bool = False
    """True: messages to the author of a source name no namespace below it."""

    @cached_property
    def ownership(self) -> ByMark:
        """The annotation `from` on a copy names the namespace of its source.

        A copy in create mode belongs to its namespace as soon as its source is gone.
        """
        return ByMark(
            frozenset({FROM}),
            self.origin,
            self.managers,
            disowned=lambda obj: not self._is_kept_in_sync(obj),
        )

    @cached_property
    def source_type(self) -> SourceType:
        keys = {PROPAGATE, PROPAGATE_GENERATED, GENERATED, *((CONTROLLED,) if self.generated else ())}
        return SourceType(
            PROPAGATION,
            self.kinds,
            source=Annotated(
                frozenset(keys),
                self.is_source,
                kinds={PROPAGATE: self.kinds},
                ineffective=self.ineffective,
                lint=self.lint,
            ),
            ownership=self.ownership,
            desired=self.desired,
            addresses=lambda source, view: Addresses(source.kind, source.name, below=source.namespace),
            affected_by=self.affected_by,
            policy=Policy(Protected.BY_NAME, any_kind=True),
            hierarchy=Hierarchy(frozenset({PARENT, TEMPLATE}), parent_or_template),
            names=Names(is_discreet=self.is_discreet),
        )

    def ineffective(self, obj: Object) -> Iterator[Mistake]:
        for key in (PROPAGATE, PROPAGATE_GENERATED):
            if obj.annotations.get(key, CREATE) not in MODES:
                yield Mistake(key, f'"{CREATE}" or "{UPDATE}": with any other value the object is not propagated')
        if PROPAGATE_GENERATED in obj.annotations and not self.generated:
            instead = f"the setting vocabularies.{NAME}.propagateGenerated: true"
            expected = f"{PROPAGATE} on the objects themselves, or {instead}"
            yield Mistake(PROPAGATE_GENERATED, expected, "a key that does nothing while that is off")
        if PROPAGATE in obj.annotations and not self.config.watches and self.config != Config():
            expected = f"no such key while the setting vocabularies.{NAME}.watches names no kind"
            yield Mistake(PROPAGATE, expected, "a key that does nothing")

    def lint(self, obj: Object) -> Iterator[Mistake]:
        if PROPAGATE in obj.annotations:
            yield from _excluded(LABELS, obj.labels, self.config.label_excludes)
            yield from _excluded(ANNOTATIONS, obj.annotations, self.config.annotation_excludes)

    def is_source(self, obj: Object, view: View) -> bool:
        """With `generated`, also an object with a controller, whose annotation is not read yet."""
        has_mode = obj.annotations.get(PROPAGATE) in MODES or (self.generated and _owner_query(obj) is not None)
        return obj.ref.kind in self._kinds and has_mode

    def origin(self, obj: Object, view: View) -> Ref | None:
        """The source of a copy in update mode. A copy made in create mode has none: it belongs to its namespace.

        Every user of a namespace can write `from`. A value that cannot be the name of another namespace is ignored.
        """
        namespace = obj.annotations.get(FROM, "") if obj.ref.kind in self._kinds else ""
        if not self._is_kept_in_sync(obj) or namespace == obj.ref.namespace:
            return None
        return Ref(obj.ref.kind, namespace, obj.ref.name) if is_namespace_name(namespace) else None

    def _is_kept_in_sync(self, obj: Object) -> bool:
        """False for an object in create mode, and for one that we made in create mode and its team turned to update."""
        if obj.annotations.get(PROPAGATE) != UPDATE:
            return False
        made = is_recorded(obj, self.ownership)
        return not made or obj.manages(ANNOTATIONS, PROPAGATE, self.ownership.managers)

    def desired(self, source: Ref, view: View) -> Desired:
        """The copies of one source. The first case that applies decides."""
        obj, namespace, reads = view.get(source), view.get(namespace_ref(source.namespace)), self._reads(source, view)

        # A terminating source changes nothing. It counts as deleted when it is gone.
        if obj is not None and obj.deleting:
            return Desired(prune=False, reads=reads)

        # A loop of namespaces has no top, so an original and a copy cannot be distinguished. Nothing is written or
        # deleted.
        if namespace is not None and is_in_loop(namespace, view):
            return Desired(prune=False, reads=reads)

        # The mode of a generated object is an annotation of its controller, which may be unreadable.
        mode = None if obj is None else self._mode_of(obj, view)
        if isinstance(mode, Rejected):
            message = f"the annotations of its owner cannot be read: {mode.message}"
            return Desired(prune=False, faults=(Fault("Refused", message),), reads=reads)

        # Without a source its copies are deleted, unless the source is a copy itself and will be created again.
        if obj is None or mode not in MODES:
            keeps = self._will_be_recreated(source, view) or self._has_generated_copies(source, view)
            return Desired(prune=not keeps, reads=reads)

        # A copy that is about to be deleted is not propagated.
        if namespace is None or self._is_leaving_tree(obj, namespace):
            return Desired(prune=False, reads=reads)

        # One copy in each namespace that inherits from this one.
        below = (Ref(source.kind, child.ref.name, source.name) for child in downstream_of(source.namespace, view))
        copies = tuple(self._copies(obj, below, view))

        # A copy that differs from its own source is repaired before it is propagated.
        if self._is_out_of_sync(obj, view):
            return Desired(tuple(_waiting(copy, obj) for copy in copies), reads=reads)

        # A copy that is about to be deleted or to change its mode takes over no object.
        is_copy = FROM in obj.annotations
        taken_over = {copy.ref for copy in copies if self._takes_over(copy, obj, view)} if is_copy else ()
        if taken_over and self._may_change(obj, view):
            copies = tuple(_waiting(copy, obj) if copy.ref in taken_over else copy for copy in copies)
            return Desired(copies, reads=reads, requeue_after=RECHECK)
        return Desired(copies, reads=reads)

    def affected_by(self, obj: Object, view: View) -> Iterable[Ref]:
        """For a Namespace: the sources that copy into it, and those in every namespace of a loop that it is part of.

        For a copy or a source: the objects of that name in the namespaces below, which may be sources themselves.
        """
        if obj.ref.kind == NAMESPACE:
            return _sources_affected_by_namespace(obj, view)
        if obj.ref.kind not in self._kinds or obj.annotations.keys().isdisjoint((PROPAGATE, FROM)):
            return ()
        below = [namespace.ref.name for namespace in downstream_of(obj.ref.namespace, view)]
        return [Ref(obj.ref.kind, name, obj.ref.name) for name in below if any(downstream_of(name, view))]

    @cached_property
    def _kinds(self) -> frozenset[Kind]:
        return frozenset(self.kinds)

    # The mode of a source: its own annotation, or that of its controller

    def _mode_of(self, obj: Object, view: View) -> object:
        """`create`, `update`, another value that is ignored, or None. `UNREAD` or `Rejected` if the owner is unread."""
        query = _owner_query(obj) if self.generated else None
        return obj.annotations.get(PROPAGATE) if query is None else view.answer(query)

    def _reads(self, source: Ref, view: View) -> tuple[OwnerAnnotation, ...]:
        obj = view.get(source)
        if self.generated and obj is not None and not obj.deleting:
            query = _owner_query(obj)
        else:
            query = self._query_about_generated_copies(source, view)
        return (query,) if query is not None else ()

    def _query_about_generated_copies(self, source: Ref, view: View) -> OwnerAnnotation | None:
        """The read that shows whether copies were made while `generated` was on. None while it is still on."""
        obj = view.get(source)
        if obj is not None:
            query = _owner_query(obj)
        else:
            is_unread = view.exists_unread(source)
            query = OwnerAnnotation(source, source.namespace, PROPAGATE_GENERATED) if is_unread else None
        if query is None or self.generated:
            return None
        return query if has_copies(view, Key(PROPAGATION, source)) else None

    def _has_generated_copies(self, source: Ref, view: View) -> bool:
        """True if the controller of the source has a mode: switching `generated` off deletes no copy.

        Also true until the controller has been read. False if the API server refuses the read: most objects with a
        controller had an annotation of their own, and lose their copies with it.
        """
        query = self._query_about_generated_copies(source, view)
        return query is not None and view.answer(query) in (UNREAD, *MODES)

    # The copies of a source

    def _copies(self, source: Object, addresses: Iterable[Ref], view: View) -> Iterator[Copy]:
        """All copies in one mode share one template, because a source may have thousands of them."""
        labels = self.config.label_excludes.without(self.copyable(LABELS, source.labels)) | {CREATED_BY: NAME}
        copyable = self.copyable(ANNOTATIONS, source.annotations) | {PROPAGATE: str(self._mode_of(source, view))}
        annotations = self.config.annotation_excludes.without(copyable) | {FROM: source.ref.namespace}
        synced = Template(source.content, labels, annotations, Mode.SYNC, self.adopt)
        created = synced._replace(mode=Mode.CREATE_ONLY)
        for ref in addresses:
            yield Copy(ref, synced if self._copy_mode(source, ref, view) is Mode.SYNC else created, by_name=True)

    def _copy_mode(self, source: Object, ref: Ref, view: View) -> Mode:
        """When a source changes to create mode, copies in update mode are written once more, to change their mode.

        So are the copies of another source, after a move. Its adopted objects are left to it: it releases them.
        """
        if self._mode_of(source, view) == UPDATE:
            return Mode.SYNC
        live = view.get(ref)
        origin = self.origin(live, view) if live is not None else None
        is_stale = origin is not None and live is not None and live.known_copy and not is_adopted(live)
        return Mode.SYNC if is_stale or origin == source.ref else Mode.CREATE_ONLY

    # A source that is itself a copy

    def _will_be_recreated(self, ref: Ref, view: View) -> bool:
        """True if a source further up creates or repairs the object at `ref`, so that the copies below it stay."""
        if self.config.annotation_excludes.match(PROPAGATE):
            return False  # copies carry no `propagate`, so no copy is a source
        while (above := _address_above(ref, view)) is not None:  # not recursive: a tree may be deeper than the stack
            obj, source = view.get(ref), view.get(above)
            if obj is not None and not obj.deleting and not self._is_copy(obj, above, view):
                return False
            mode = None if source is None else self._mode_of(source, view)
            if mode is UNREAD or isinstance(mode, Rejected):
                return True  # the mode is not known, so no copy is deleted
            if mode in MODES:
                return obj is None or obj.deleting or mode == UPDATE
            ref = above
        return False

    def _is_out_of_sync(self, obj: Object, view: View) -> bool:
        """True for a copy that differs from its own source in update mode."""
        above = _address_above(obj.ref, view)
        source = view.get(above) if above is not None and self._is_copy(obj, above, view) else None
        if source is None or source.deleting or self._mode_of(source, view) != UPDATE:
            return False
        copies = self._copies(source, (obj.ref,), view)
        return not all(is_in_sync(copy.template, obj, self.ownership, view, source) for copy in copies)

    def _takes_over(self, copy: Copy, source: Object, view: View) -> bool:
        """True if the copy would overwrite an object that is not a copy of this source yet."""
        live = view.get(copy.ref) if copy.template.mode is Mode.SYNC else None
        return live is not None and self.origin(live, view) != source.ref

    def _may_change(self, copy: Object, view: View) -> bool:
        """True if this copy, or one further up, is about to be repaired, to change its mode or to be deleted.

        Such a copy takes over no object: once it is deleted or in create mode, it could not give the object back.
        """
        while (namespace := view.get(namespace_ref(copy.ref.namespace))) is not None:
            if self._is_leaving_tree(copy, namespace):
                return True
            above = _address_above(copy.ref, view)
            if above is None or not self._is_copy(copy, above, view):
                return False
            source = view.get(above)
            if source is None or source.deleting or self._mode_of(source, view) not in MODES:
                return self.origin(copy, view) == above and is_recorded(copy, self.ownership)
            (expected,) = self._copies(source, (copy.ref,), view)
            is_synced = expected.template.mode is Mode.SYNC
            if is_synced and not is_in_sync(expected.template, copy, self.ownership, view, source):
                return True
            copy = source
        return False

    def _is_copy(self, obj: Object, above: Ref, view: View) -> bool:
        """True if a source at `above` may write this object: `from` names it, or we wrote the object.

        We wrote it if managedFields record our `from`, or if we know it as a copy that no source owns. A `from` that
        another client wrote and that names another namespace does not count. An object that another vocabulary took
        over is not repaired from above.
        """
        is_ours = self.origin(obj, view) == above or is_recorded(obj, self.ownership)
        is_ours = is_ours or (obj.known_copy and view.owner(obj) is None)
        return is_ours and RELEASED not in obj.annotations

    def _is_leaving_tree(self, obj: Object, namespace: Object) -> bool:
        """True for a copy of ours in update mode whose namespace has another parent now: it is about to be deleted."""
        is_stale = obj.annotations.get(FROM, "") not in ("", parent_or_template(namespace))
        return (
            is_stale
            and self._is_kept_in_sync(obj)
            and RELEASED not in obj.annotations
            and is_recorded(obj, self.ownership)
        )


def _excluded(where: str, metadata: Iterable[str], patterns: Globs) -> Iterator[Mistake]:
    """The keys that copies lack. Patterns do not exclude Accurate's own keys: every copy has those."""
    for key in metadata:
        if patterns.match(key) and not key.startswith(f"{GROUP}/"):
            yield not_copied(where, key)


def _sources_affected_by_namespace(namespace: Object, view: View) -> list[Ref]:
    looped = [namespace, *affected_namespaces(namespace, view)] if is_in_loop(namespace, view) else []
    names = dict.fromkeys((parent_or_template(namespace), *(member.ref.name for member in looped)))
    return [source for name in names if name for source in view.sources(PROPAGATION, name)]


def _waiting(copy: Copy, source: Object) -> Copy:
    """An existing copy stays as it is, and a missing one waits, until the source itself is repaired."""
    waiting_for = f"{source.ref.path} differs from its own source: Samara repairs it first and then propagates it"
    return copy._replace(template=copy.template._replace(content=UNAVAILABLE, waiting_for=waiting_for))


def _address_above(ref: Ref, view: View) -> Ref | None:
    """The same kind and name in the parent or template. None if the namespace is terminating or has neither."""
    namespace = view.get(namespace_ref(ref.namespace))
    above = parent_or_template(namespace) if namespace is not None and not namespace.deleting else ""
    return Ref(ref.kind, above, ref.name) if above else None


def _owner_query(obj: Object) -> OwnerAnnotation | None:
    """The read that finds the mode of an object on its controller.

    None for an object with its own `propagate`, for a copy, and for one with `generated=false`: with that, the original
    records that the controller has no mode.
    """
    if obj.annotations.get(PROPAGATE) or obj.annotations.get(FROM) or obj.annotations.get(GENERATED) == "false":
        return None
    controller = next((owner for owner in obj.owner_references if owner.controller), None)
    return OwnerAnnotation(controller, obj.ref.namespace, PROPAGATE_GENERATED) if controller is not None else None
