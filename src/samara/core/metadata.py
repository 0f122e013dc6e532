"""Labels, annotations and owner references: what a copy must have, and what an update keeps."""

from __future__ import annotations

from collections.abc import Mapping

from samara.core.desired import NO_STAMPS, UNAVAILABLE, Overlay, Template
from samara.core.metadata_keys import ADOPTED, CREATED_BY, RELEASED, is_unknown_control_key
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, LABELS, Content, Object, OwnerReference
from samara.core.ownership import Ownership
from samara.core.view import View

Keys = dict[str, str]


def is_in_sync(
    template: Template, live: Object, ownership: Ownership, view: View, source: Object | None = None
) -> bool:
    """True if content, labels, annotations and owner references are as desired, and no stale key of ours is left.

    `source`: a key that the original controller copied from it, and that is not copied today, is not stale.
    """
    return (
        template.content is not UNAVAILABLE
        and (template.matches(live.content) or view.is_stored_form_of(live.ref.kind, template.content, live.content))
        and template.labels.items() <= live.labels.items()
        and template.annotations.items() <= live.annotations.items()
        and all(stamp.is_right(live.annotations.get(key)) for key, stamp in template.stamps.items())
        and owners_after(template, live) == live.owner_references
        and not any(
            _is_stale(owned.where, owned.key, template, live, ownership)
            and not _is_left_by_original(owned.where, owned.key, live, source)
            for owned in live.managed_keys
        )
    )


def with_unmanaged_fields(template: Template, live: Object) -> Template:
    """The template with the live values of the unmanaged fields, if the content is equal apart from them.

    Without them, an update would remove `immutable`, which the API server refuses.
    """
    kept = live.content.pick(*template.unmanaged).fields if template.unmanaged else ()
    if not kept or template.content is UNAVAILABLE or not template.matches(live.content):
        return template
    fields = sorted((*template.content.fields, *kept), key=lambda field: field.name)
    return template._replace(content=Content(tuple(fields)))


def stamped(template: Template, now: str) -> Template:
    """The template for a write at this time: its stamps are annotations like the others."""
    if not template.stamps:
        return template
    stamps = {key: stamp.at(now) for key, stamp in template.stamps.items()}
    return template._replace(annotations={**template.annotations, **stamps}, stamps=NO_STAMPS)


def with_stamps_of(template: Template, live: Object) -> Template:
    """The template for a trial: the stamps of a live object stay, except those that are a reason to write."""
    return template._replace(
        stamps={key: stamp for key, stamp in template.stamps.items() if not stamp.is_right(live.annotations.get(key))},
        annotations={
            **template.annotations,
            **{key: live.annotations[key] for key in template.stamps if key in live.annotations},
        },
    )


def with_adopted_mark(template: Template) -> Template:
    """The template for an object that is adopted: its copy carries the annotation that says so."""
    return template._replace(annotations={**template.annotations, ADOPTED: "true"})


def _is_stale(where: str, key: str, template: Template, live: Object, ownership: Ownership) -> bool:
    """True if we set this label or annotation earlier, and the template no longer has it."""
    desired = template.labels if where == LABELS else template.annotations
    if key in desired or is_unknown_control_key(key):
        return False
    if where == ANNOTATIONS and (key == ADOPTED or key in template.stamps):
        return False
    return live.manages(where, key, ownership.managers)


def _is_left_by_original(where: str, key: str, live: Object, source: Object | None) -> bool:
    """True if the original controller copied this key from the source, and the source has the same value now."""
    if source is None or live.manages(where, key, (FIELD_MANAGER,)):
        return False
    copied, current = (source.labels, live.labels) if where == LABELS else (source.annotations, live.annotations)
    return key in copied and copied[key] == current.get(key)


def merged(where: str, template: Template, live: Object, ownership: Ownership) -> Keys:
    """The labels or annotations of an updated copy: keys of other clients stay, ours are exactly the desired ones."""
    current, desired = (live.labels, template.labels) if where == LABELS else (live.annotations, template.annotations)
    kept = {key: value for key, value in current.items() if not _is_stale(where, key, template, live, ownership)}
    return {**kept, **desired}


def split_foreign_metadata(template: Template, live: Object, ownership: Ownership) -> tuple[Template, dict[str, Keys]]:
    """For a copy that is deleted and created: the template with our keys, and the keys that other clients set.

    The two are sent by separate requests. A key that we sent as ours would count as stale and be removed later. The new
    object is one that we made, even if the old one was adopted.
    """
    after = {where: merged(where, template, live, ownership) for where in (LABELS, ANNOTATIONS)}
    after[ANNOTATIONS].pop(ADOPTED, None)
    foreign = {where: _foreign(where, after[where], template, live, ownership) for where in after}
    labels, annotations = (
        {key: value for key, value in after[where].items() if key not in foreign[where]} for where in after
    )
    return template._replace(labels=labels, annotations=annotations), foreign


def _foreign(where: str, after: Mapping[str, str], template: Template, live: Object, ownership: Ownership) -> Keys:
    desired = template.labels if where == LABELS else template.annotations
    others = after.keys() - desired.keys()
    return {key: after[key] for key in sorted(others) if not live.manages(where, key, ownership.managers)}


def owners_after(template: Template, live: Object) -> tuple[OwnerReference, ...]:
    """The owner references of an updated copy: those of other owners stay, and the desired one is there once.

    A reference that differs from the desired one only in its API version counts as equal.
    """
    desired = template.owner
    if desired is None or any(
        owner._replace(api_version=desired.api_version) == desired for owner in live.owner_references
    ):
        return live.owner_references
    return (*(owner for owner in live.owner_references if owner.uid != desired.uid), desired)


def is_applied(overlay: Overlay, live: Object) -> bool:
    """True if the live object has every value, and managedFields list exactly the desired keys under our manager."""
    desired = {(LABELS, key) for key in overlay.labels} | {(ANNOTATIONS, key) for key in overlay.annotations}
    applied = {(owned.where, owned.key) for owned in live.applied_keys if owned.manager == overlay.manager}
    has_values = (
        overlay.labels.items() <= live.labels.items() and overlay.annotations.items() <= live.annotations.items()
    )
    return has_values and desired == applied


def metadata_after_apply(overlay: Overlay, live: Object) -> tuple[Keys, Keys]:
    """Labels and annotations after a forced server-side apply. Keys that this manager no longer applies are removed."""
    before = {(owned.where, owned.key) for owned in live.applied_keys if owned.manager == overlay.manager}
    labels = {key: value for key, value in live.labels.items() if (LABELS, key) not in before}
    annotations = {key: value for key, value in live.annotations.items() if (ANNOTATIONS, key) not in before}
    return {**labels, **overlay.labels}, {**annotations, **overlay.annotations}


def released(live: Object, ownership: Ownership, request_keys: frozenset[str]) -> tuple[Keys, Keys]:
    """The labels and annotations that an adopted object keeps when it is released."""
    created_by = {CREATED_BY} if live.manages(LABELS, CREATED_BY, ownership.managers) else set()
    labels = {key: value for key, value in live.labels.items() if key not in ownership.marks | created_by}
    requests = {key for key in request_keys if live.manages(ANNOTATIONS, key, ownership.managers)}
    removed = ownership.marks | requests | {ADOPTED}
    annotations = {key: value for key, value in live.annotations.items() if key not in removed}
    return labels, {**annotations, RELEASED: "true"}
