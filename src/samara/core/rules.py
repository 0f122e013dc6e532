"""The rules that decide what is written at one address. In each table, the first rule that applies decides.

`samara why` prints the rule's name. docs/concepts/how-it-decides.md is generated from the docstrings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from samara.core import kinds
from samara.core.context import PlanContext
from samara.core.desired import UNAVAILABLE, Adopt, Copy, Mode, Overlay, Reason
from samara.core.metadata import is_applied, is_in_sync, with_adopted_mark, with_unmanaged_fields
from samara.core.metadata_keys import GITOPS
from samara.core.model import Object
from samara.core.names import matches_any_glob
from samara.core.occupant import Occupant, Target
from samara.core.ownership import is_adopted, is_made_by_samara, is_released, is_written_by_samara
from samara.core.policy import Refusal, is_closed, no_writes_at, revocation
from samara.core.queries import UNREAD
from samara.core.writes import Apply, AskFirst, Blocked, Create, Delete, Outcome, ReadFirst, Recreate, Release, Update

T = TypeVar("T")


class Rule(NamedTuple, Generic[T]):
    """If `when` is true, `then` says what is written. The docstrings of both are the documentation."""

    name: str
    when: Callable[[T], bool]
    then: Callable[[T], Outcome]


def block(reason: Reason, message: str) -> Callable[[Target], Outcome]:
    """A result that writes nothing. In the message, `{t}` is the target."""

    def blocked(target: Target) -> Outcome:
        return Blocked(target.ctx.key, target.ref, reason, message.format(t=target))

    blocked.__doc__ = f"nothing is written: `{reason}`"
    return blocked


def leave(target: object) -> Outcome:
    """nothing is written"""
    return None


# --- Rules for a desired copy: conditions -----------------------------------------------------------------------------


def excluded(target: Target) -> bool:
    """the namespace is protected or has `samara.dev/ignore`, and the source does not list it by name"""
    return target.refusal is not None and target.refusal.excludes


def paused(target: Target) -> bool:
    """the source is paused, or it is a custom resource in a paused namespace"""
    return bool(target.ctx.paused)


def namespace_missing(target: Target) -> bool:
    """the namespace does not exist"""
    return target.has_no_namespace


def namespace_terminating(target: Target) -> bool:
    """the namespace is being deleted"""
    return target.namespace is not None and target.namespace.deleting


def namespace_paused(target: Target) -> bool:
    """the namespace is paused"""
    # An existing Namespace is never changed for a copy, so a pause of the copy itself matters only for its removal.
    return target.ref.kind.namespaced and bool(target.paused_here)


def refused(target: Target) -> bool:
    """the kind, type of Secret or namespace is refused, or the consent of the namespace is missing"""
    return target.refusal is not None


def filled_from_here(target: Target) -> bool:
    """the object there requests its content from this very source, which allows it"""
    return target.is_filled_from_here


def immutable_fill(target: Target) -> bool:
    """the object requests its content, and the API server lets no client change it"""
    live, content = target.live, target.template.content
    if not target.ctx.source_type.is_fill or live is None or content is UNAVAILABLE:
        return False
    return kinds.must_recreate(target.ref.kind, live.content, content)


def outranked(target: Target) -> bool:
    """another source comes first, or keeps the copy that it has here"""
    return target.winner is not None


def not_read_yet(target: Target) -> bool:
    """there is an object of which the cache holds only the address"""
    return target.live is None and target.ctx.view.exists_unread(target.ref)


def deleting(target: Target) -> bool:
    """the object there is being deleted"""
    return target.live is not None and target.live.deleting


def created_once(target: Target) -> bool:
    """the copy is only created, and an object is there"""
    return target.live is not None and target.template.mode is Mode.CREATE_ONLY


def content_unavailable(target: Target) -> bool:
    """the content cannot be read now: a secret manager is down, or the source itself is not in sync"""
    return target.template.content is UNAVAILABLE


def missing(target: Target) -> bool:
    """there is no object"""
    return target.live is None


def in_sync(target: Target) -> bool:
    """a copy of ours that is as desired"""
    if target.live is None or target.occupant is not Occupant.OURS:
        return False
    return is_in_sync(target.template, target.live, target.ctx.ownership, target.ctx.view, target.ctx.source)


def holder_unconfirmed(target: Target) -> bool:
    """a copy of a custom resource that is being deleted or is missing, and the API server has not confirmed yet that it
    was deleted on purpose"""
    return any(target.ctx.view.answer(query) is UNREAD for query in target.queries)


def deleted_with_crd(target: Target) -> bool:
    """a copy of a custom resource that is deleted together with its CRD, or that only a list has missed"""
    return not all(map(target.ctx.view.answer, target.queries))


def occupied_by(occupant: Occupant) -> Callable[[Target], bool]:
    def check(target: Target) -> bool:
        return target.occupant is occupant

    check.__doc__ = occupant.value
    return check


is_ours = occupied_by(Occupant.OURS)
is_predecessors = occupied_by(Occupant.PREDECESSOR)
is_replaceable = occupied_by(Occupant.REPLACEABLE)
is_of_another_source = occupied_by(Occupant.OF_ANOTHER_SOURCE)
is_pulling = occupied_by(Occupant.PULLING)
is_source = occupied_by(Occupant.SOURCE)


def identical(target: Target) -> bool:
    """an object of another client that is equal, has no owner and belongs to no GitOps tool or Helm release"""
    live, template = target.live, target.template  # the occupant is FOREIGN: the rules above take every other one
    if live is None or template.adopt is Adopt.NEVER or not template.matches(live.content):
        return False
    return not live.owner_references and not any(
        matches_any_glob(GITOPS, key) for key in (*live.labels, *live.annotations)
    )


def may_overwrite(target: Target) -> bool:
    """an object of another client, and the setting `conflicts` is `overwrite`"""
    if target.template.adopt is not Adopt.ANY:  # the occupant is FOREIGN: the rules above take every other one
        return False
    # An object with an owner reference is garbage collected with its owner, whichever client updates it.
    holder = target.holder
    return holder is None or target.ctx.registry[holder.source_type].ownership.transferable


def otherwise(target: object) -> bool:
    """anything else"""
    return True


# --- Rules for a desired copy: results --------------------------------------------------------------------------------


def refuse_or_revoke(target: Target) -> Outcome:
    """nothing is written: `refused` or `not-accepted`; a copy whose namespace withdrew consent is deleted"""
    refusal, live, ctx = target.refusal, target.live, target.ctx
    assert refusal is not None
    if refusal.revokes and live is not None and ctx.ownership.source_of(live, ctx.view) == ctx.key.source:
        removal = decide_unwanted(ctx, live, revoked=refusal)[0]
        if removal is not None:
            return removal
    return Blocked(ctx.key, target.ref, refusal.reason, refusal.message)


def read_first(target: Target) -> Outcome:
    """the object is read, and the source is planned again"""
    return ReadFirst(target.ref)


def ask_first(target: Target) -> Outcome:
    """the API server is asked, and the source is planned again"""
    return AskFirst(target.ref, target.queries)


def keep_live_copy(target: Target) -> Outcome:
    """a copy of this source stays as it is, any other object is a `conflict`, and no copy is created"""
    if target.live is not None:
        return None if target.is_own_copy else block_foreign(target)
    if target.template.waiting_for:
        return Blocked(target.ctx.key, target.ref, "conflict", target.template.waiting_for)
    message = "the content is not known yet, or the API server refuses it"
    return Blocked(target.ctx.key, target.ref, "invalid", message)


def create(target: Target) -> Outcome:
    """the copy is created"""
    return Create(target.ctx.key, target.ref, target.copy)


def correct(target: Target, why: str = "differs from its source") -> Outcome:
    """one update makes it equal; if an immutable field differs, it is deleted and created"""
    live, ctx = target.live, target.ctx
    assert live is not None
    template = with_unmanaged_fields(target.template, live)
    assert template.content is not UNAVAILABLE
    copy = target.copy._replace(template=template)
    if not kinds.must_recreate(target.ref.kind, live.content, template.content):
        return Update(ctx.key, target.ref, copy, live, why)
    if ctx.cluster.recreate:
        return Recreate(ctx.key, target.ref, copy, live)
    message = "an immutable field differs, and the setting `recreate` is `refuse`"
    return Blocked(ctx.key, target.ref, "refused", message)


def delete_predecessor(target: Target) -> Outcome:
    """the garbage collector deletes it, or Samara does after a while; then the copy is created"""
    assert target.live is not None
    removal = decide_unwanted(target.ctx, target.live)[0]
    return block_foreign(target) if removal is None else removal


def replace_copy(target: Target) -> Outcome:
    """it is deleted and created for this source, after a dry run"""
    assert target.live is not None
    return Recreate(target.ctx.key, target.ref, target.copy, target.live, f"taken over from {target.holder}")


def adopt(target: Target) -> Outcome:
    """it is adopted: it gets our marks, and loses only them when it is no longer desired"""
    assert target.live is not None
    copy = target.copy._replace(template=with_adopted_mark(with_unmanaged_fields(target.template, target.live)))
    return Update(target.ctx.key, target.ref, copy, target.live, "an identical object exists: adopted")


def overwrite(target: Target) -> Outcome:
    """it is overwritten"""
    return correct(target, "an object of another client, overwritten because `conflicts` is `overwrite`")


block_foreign = block("conflict", "an object of this name exists that is not a copy of this source")

RULES: tuple[Rule[Target], ...] = (
    # May this source write at this address?
    Rule("excluded", excluded, leave),
    Rule("paused", paused, block("held", "{t.ctx.paused}")),
    Rule("no-namespace", namespace_missing, block("no-namespace", "namespace {t.ref.namespace} does not exist yet")),
    Rule("terminating", namespace_terminating, block("no-namespace", "namespace {t.ref.namespace} is being deleted")),
    Rule("namespace-paused", namespace_paused, block("held", "{t.paused_here}")),
    Rule("refused", refused, refuse_or_revoke),
    Rule("filled-from-here", filled_from_here, leave),
    Rule("outranked", outranked, block("conflict", "{t.winner_shown} has this address")),
    # Is the live object known, and may it be changed now?
    Rule("not-read-yet", not_read_yet, read_first),
    Rule("deleting", deleting, block("conflict", "the object there is being deleted and waits for its finalizers")),
    Rule("create-only", created_once, leave),
    Rule("content-unavailable", content_unavailable, keep_live_copy),
    # Nothing is there, or a copy of ours.
    Rule("missing", missing, create),
    Rule("in-sync", in_sync, leave),
    # The deletion of a CRD changes no copy.
    Rule("holder-unconfirmed", holder_unconfirmed, ask_first),
    Rule(
        "crd-deleted",
        deleted_with_crd,
        block("conflict", "the object there was made for {t.holder_shown}, whose CRD is being deleted"),
    ),
    Rule(
        "immutable-fill",
        immutable_fill,
        block("refused", "the object is immutable, and it is not deleted, because it is not a copy"),
    ),
    Rule("drifted", is_ours, correct),
    # A copy that Samara made for another source.
    Rule("predecessor", is_predecessors, delete_predecessor),
    Rule("replaceable", is_replaceable, replace_copy),
    Rule("other-source", is_of_another_source, block("conflict", "the object there was made for {t.holder_shown}")),
    # An object that is not a copy. Samara would fight with the controller that fills it.
    Rule("pulls", is_pulling, block("conflict", "the object there has {t.pull_key}: it requests its own content")),
    # Any other object. `identical` and `overwrite` meet only Occupant.FOREIGN, because the rules above them take every
    # other occupant.
    Rule("is-a-source", is_source, block("conflict", "the object of this name there is itself a source")),
    Rule("identical", identical, adopt),
    Rule("overwrite", may_overwrite, overwrite),
    Rule("foreign", otherwise, block_foreign),
)


def decide(ctx: PlanContext, copy: Copy) -> tuple[Outcome, str]:
    """The outcome for one desired copy, and the name of the rule that decided it."""
    return _first(RULES, Target(ctx, copy))


def _first(rules: tuple[Rule[T], ...], subject: T) -> tuple[Outcome, str]:
    for name, when, then in rules:
        if when(subject):
            return then(subject), name
    raise AssertionError("the last rule always applies")


# --- Rules for an existing copy that is not desired -------------------------------------------------------------------


class Unwanted:
    """A live copy that names this source and is not in its desired state."""

    def __init__(self, ctx: PlanContext, live: Object, prune: bool, revoked: Refusal | None) -> None:
        self.ctx = ctx
        self.live = live
        self.prune = prune
        self.revoked = revoked
        self.namespace = ctx.namespace_of(live.ref)

    @cached_property
    def is_predecessors(self) -> bool:
        """True if it is a copy of an earlier source of the same name, by an owner reference with another uid."""
        ctx = self.ctx
        return ctx.source is not None and not ctx.ownership.is_copy_of(self.live, ctx.key.source, ctx.source, ctx.view)

    @property
    def held(self) -> str:
        """Why it is not removed now, or an empty text."""
        return self.ctx.paused or no_writes_at(self.live.ref, self.ctx.view)


def kept(copy: Unwanted) -> bool:
    """the source does not prune now, and the namespace did not withdraw its consent"""
    return not copy.prune and copy.revoked is None


def disappearing(copy: Unwanted) -> bool:
    """the copy or its namespace is being deleted"""
    namespace_disappears = copy.live.ref.kind.namespaced and (copy.namespace is None or copy.namespace.deleting)
    return copy.live.deleting or namespace_disappears


def released(copy: Unwanted) -> bool:
    """it has `samara.dev/released`"""
    return is_released(copy.live)


def unproven(copy: Unwanted) -> bool:
    """managedFields do not say that we set its mark: it was pasted, restored or forged"""
    return not copy.ctx.ownership.is_proven(copy.live)


def left_by_original(copy: Unwanted) -> bool:
    """only the original controller wrote it, and its namespace is protected or has not accepted the source"""
    ctx, live = copy.ctx, copy.live
    if is_written_by_samara(live, ctx.ownership):
        return False
    return is_closed(live.ref, ctx.key.source, copy.namespace, ctx.source_type.policy, ctx.cluster, ctx.view)


def newer_than_source(copy: Unwanted) -> bool:
    """its owner reference has another uid, but it is newer than the source: our cache is stale"""
    source = copy.ctx.source
    return copy.is_predecessors and source is not None and copy.live.created > source.created


def removal_paused(copy: Unwanted) -> bool:
    """the source, the namespace or the Namespace that would be deleted is paused"""
    return bool(copy.held)


def hold_removal(copy: Unwanted) -> Outcome:
    """it stays: `held`"""
    return Blocked(copy.ctx.key, copy.live.ref, "held", copy.held)


def adopted(copy: Unwanted) -> bool:
    """it was adopted"""
    return is_adopted(copy.live)


def release(copy: Unwanted) -> Outcome:
    """only our marks are removed"""
    return Release(copy.ctx.key, copy.live.ref, copy.live)


def handed_over(copy: Unwanted) -> bool:
    """the next source in line takes it over as it is"""
    return is_made_by_samara(copy.live, copy.ctx.ownership) and copy.ctx.has_heir(copy.live)


def delete(copy: Unwanted) -> Outcome:
    """it is deleted by uid and version; a copy of an earlier source of the same name only if the garbage collector
    has not deleted it for a while"""
    key, live = copy.ctx.key, copy.live
    if copy.revoked is not None:
        return Delete(key, live.ref, live, why=copy.revoked.message, revoked=True)
    if copy.is_predecessors:
        collector = "the garbage collector deletes it, or Samara does after a while"
        why = f"it was made for an earlier source of this name; {collector}"
        return Delete(key, live.ref, live, why=why, delayed=True)
    return Delete(key, live.ref, live)


UNWANTED_RULES: tuple[Rule[Unwanted], ...] = (
    Rule("kept", kept, leave),
    Rule("disappearing", disappearing, leave),
    Rule("released", released, leave),
    Rule("unproven", unproven, leave),
    Rule("left-by-original", left_by_original, leave),
    Rule("newer-than-source", newer_than_source, leave),
    Rule("paused", removal_paused, hold_removal),
    Rule("adopted", adopted, release),
    Rule("handed-over", handed_over, leave),
    Rule("not-desired", otherwise, delete),
)


def decide_unwanted(
    ctx: PlanContext, live: Object, prune: bool = True, revoked: Refusal | None = None
) -> tuple[Outcome, str]:
    """The outcome for an existing copy that its source does not want, and the name of the rule that decided it."""
    if revoked is None and not prune:
        policy, namespace = ctx.source_type.policy, ctx.namespace_of(live.ref)
        revoked = revocation(live.ref, ctx.key.source, namespace, policy, ctx.cluster, ctx.view)
    return _first(UNWANTED_RULES, Unwanted(ctx, live, prune, revoked))


# --- Rules for an overlay ---------------------------------------------------------------------------------------------


class OverlayTarget:
    """Labels and annotations that a source applies to an object that is not a copy, and that object."""

    def __init__(self, ctx: PlanContext, overlay: Overlay) -> None:
        self.ctx = ctx
        self.overlay = overlay
        self.live = ctx.view.get(overlay.ref)

    @property
    def held(self) -> str:
        """Why nothing is applied now, or an empty text."""
        return self.ctx.paused or no_writes_at(self.overlay.ref, self.ctx.view)


def nothing_to_label(target: OverlayTarget) -> bool:
    """there is no object"""
    return target.live is None


def is_disappearing(target: OverlayTarget) -> bool:
    """the object is being deleted"""
    return target.live is not None and target.live.deleting


def has_overlay(target: OverlayTarget) -> bool:
    """the object has all of the labels and annotations"""
    return target.live is not None and is_applied(target.overlay, target.live)


def overlay_paused(target: OverlayTarget) -> bool:
    """the source, the object or its namespace is paused"""
    return bool(target.held)


def hold_overlay(target: OverlayTarget) -> Outcome:
    """nothing is written: `held`"""
    return Blocked(target.ctx.key, target.overlay.ref, "held", target.held)


def apply_overlay(target: OverlayTarget) -> Outcome:
    """they are applied"""
    assert target.live is not None
    return Apply(target.ctx.key, target.overlay.ref, target.overlay, target.live)


OVERLAY_RULES: tuple[Rule[OverlayTarget], ...] = (
    Rule("missing", nothing_to_label, leave),
    Rule("disappearing", is_disappearing, leave),
    Rule("in-sync", has_overlay, leave),
    Rule("paused", overlay_paused, hold_overlay),
    Rule("drifted", otherwise, apply_overlay),
)


def decide_overlay(ctx: PlanContext, overlay: Overlay) -> tuple[Outcome, str]:
    """The outcome for an overlay, and the name of the rule that decided it."""
    return _first(OVERLAY_RULES, OverlayTarget(ctx, overlay))


TABLES: tuple[tuple[Rule[Any], ...], ...] = (RULES, UNWANTED_RULES, OVERLAY_RULES)
NAMES = tuple(dict.fromkeys(rule.name for rules in TABLES for rule in rules))
"""The names of the rules of all tables."""


# --- Documentation ----------------------------------------------------------------------------------------------------


def table(rules: tuple[Rule[T], ...]) -> Iterator[str]:
    """The rules as a Markdown table, for docs/concepts/how-it-decides.md."""
    yield "| rule | when | then |"
    yield "| --- | --- | --- |"
    for name, when, then in rules:
        yield f"| `{name}` | {_line(when)} | {_line(then)} |"


def _line(function: Callable[..., object]) -> str:
    return " ".join((function.__doc__ or "").split())
