"""The rule for one address: what a wanted copy, an unwanted one or an overlay needs."""

from __future__ import annotations

from dataclasses import replace

from samara.core import kinds
from samara.core.allow import Refusal, allow, is_paused, standstill, unwelcome
from samara.core.case import Case
from samara.core.claims import has_heir, precedes, takes_over, winner
from samara.core.compare import as_it_lies, has_content, is_marked_by_us, is_owned, is_right
from samara.core.match import any_glob
from samara.core.model import ANNOTATIONS, LABELS, MANAGER, Key, Object, Ref
from samara.core.travel import ADOPTED, APP, GITOPS, PAUSED, RELEASED
from samara.core.want import KEEP, Adopt, Copy, Mode, Overlay
from samara.core.write import Apply, Blocked, Create, Delete, Look, Recreate, Release, Update, Write

EARLIER = "it was made for an earlier source of this name; the garbage collector takes it, or we do after a while"


def place(case: Case, copy: Copy) -> Write | Look | Blocked | Refusal | None:
    """What one wanted copy needs. A refusal that spares the namespace comes back as it is."""
    namespace = case.home(copy.ref)
    absent = copy.ref.kind.namespaced and namespace is None
    refusal = None if absent else allow(copy, case.key.source, namespace, case.dialect, case.rules)
    if refusal is not None and refusal.spared:
        return refusal  # nothing is wanted there, so nothing can stand against it
    obstacle = _obstacle(case, copy.ref, namespace)
    if obstacle is not None:
        return obstacle
    if refusal is not None:
        return _refused(case, copy, refusal)
    have = case.view.get(copy.ref)
    rival = winner(case, copy, have)
    if rival is not None:
        return Blocked(case.key, copy.ref, "conflict", f"{rival} has this place")
    if have is not None:
        return _settle(case, copy, have)
    if case.view.taken(copy.ref):
        return Look(copy.ref)
    if copy.content is KEEP:
        return Blocked(case.key, copy.ref, "conflict", copy.awaits) if copy.awaits else _unknown(case, copy.ref)
    return Create(case.key, copy.ref, copy)


def _obstacle(case: Case, ref: Ref, namespace: Object | None) -> Blocked | None:
    """What keeps every write away, whatever the copy is like."""
    if case.standstill:
        return Blocked(case.key, ref, "held", case.standstill)
    if ref.kind.namespaced and (namespace is None or namespace.deleting):
        found = "does not exist yet" if namespace is None else "is being deleted"
        return Blocked(case.key, ref, "no-namespace", f"namespace {ref.namespace} {found}")
    return None


def _unknown(case: Case, ref: Ref) -> Blocked:
    return Blocked(case.key, ref, "invalid", "what should be here is not known, or the server would not take it")


def _refused(case: Case, copy: Copy, refusal: Refusal) -> Write | Blocked:
    have = case.view.get(copy.ref)
    if have is not None and case.dialect.origin(have, case.view) == case.key.source:
        gone = _withdrawn(case, have, refusal)
        if gone is not None:
            return gone
    return Blocked(case.key, copy.ref, refusal.reason, refusal.message)


def _withdrawn(case: Case, have: Object, refusal: Refusal) -> Write | Blocked | None:
    """What is there goes where the refusal takes back a consent."""
    gone = drop(case, have) if refusal.withdraw else None
    return replace(gone, why=refusal.message, withdrawn=True) if isinstance(gone, Delete) else gone


def leave(case: Case, have: Object) -> Write | Blocked | None:
    """What a copy needs that is to go, but not yet: nothing, while its namespace accepts it."""
    refusal = unwelcome(have.ref, case.key.source, case.home(have.ref), case.dialect, case.rules)
    return _withdrawn(case, have, refusal) if refusal is not None else None


def _settle(case: Case, copy: Copy, have: Object) -> Write | Blocked | None:
    """What is there already: ours and right, ours and wrong, or somebody else's."""
    if have.deleting:
        return Blocked(case.key, copy.ref, "conflict", "the object there is being deleted and waits for its finalizers")
    if case.dialect.by_owner and copy.content is KEEP and not is_ours(case, have):
        return Blocked(case.key, copy.ref, "conflict", "an object of this name is there that is not ours")
    if copy.mode is Mode.SEED or copy.content is KEEP:
        return None
    if not is_ours(case, have):
        return _left_over(case, have) or _replace(case, copy, have) or _meet(case, copy, have)
    if is_right(copy, have, case.dialect, case.view):
        return None
    return _correct(case, copy, have, "differs from its source")


def is_ours(case: Case, have: Object) -> bool:
    """At a wanted place a right mark makes an object ours, and so does the server's record of who made it."""
    if case.dialect.by_owner:
        return is_owned(have, case.source)
    if case.dialect.origin(have, case.view) == case.key.source:
        return True
    made = have.made or is_marked_by_us(have, case.dialect)
    if not made or RELEASED in have.annotations or have.labels.get(APP, "").startswith(MANAGER):
        return False
    owner = case.table.owner(have, case.view)
    if owner is None:
        return not _is_orphaned(case, have) and not _is_given_away(case, have)
    if ADOPTED in have.annotations:
        return False  # people made it: the next source meets it as the first did
    return not (case.table[owner.dialect].by_owner or _is_kept(case, owner, have))


def _is_orphaned(case: Case, have: Object) -> bool:
    """True for a copy whose owner reference somebody took away: it is nobody's then."""
    return any(each.by_owner and is_marked_by_us(have, each) for each in case.table.dialects)


def _is_given_away(case: Case, have: Object) -> bool:
    """True for what was only created, once its source is gone: to other vocabularies it is its namespace's own."""
    claims = {key.dialect for key in case.view.claims(have.ref)}
    others = (each for each in case.table.dialects if each.name not in (case.key.dialect, *claims))
    return any(each.given_away(have) and not have.annotations.keys().isdisjoint(each.marks) for each in others)


def _is_kept(case: Case, owner: Key, have: Object) -> bool:
    """True for a copy that outlives its source on purpose: who ranks below that source has no right to it."""
    dialect = case.table[owner.dialect]
    gone = owner not in case.view.claims(have.ref)
    return gone and dialect.rank < case.dialect.rank and not dialect.want(owner.source, case.view).prune


def _left_over(case: Case, have: Object) -> Write | Blocked | None:
    """What an earlier source of this very name has made goes, and then the place is free."""
    if case.dialect.by_owner and case.table.owner(have, case.view) == case.key:
        return drop(case, have)
    return None


def _replace(case: Case, copy: Copy, have: Object) -> Recreate | None:
    """A copy of ours that cannot change hands, of a source that comes after this one: the new one takes its place.

    It goes only once the server would take the new one; so the source that loses never deletes anything itself.
    """
    holder = case.table.owner(have, case.view)
    if holder is None or holder == case.key or takes_over(case, holder) or not precedes(case, holder):
        return None
    source = case.view.get(holder.source)
    rests = source is not None and standstill(source, case.table[holder.dialect], case.whole)
    if ADOPTED in have.annotations or not _is_made_for(case, holder, have) or rests:
        return None
    return Recreate(case.key, copy.ref, copy, have, f"taken over from {holder}")


def _is_made_for(case: Case, holder: Key, have: Object) -> bool:
    return is_marked_by_us(have, case.table[holder.dialect]) and RELEASED not in have.annotations


def _meet(case: Case, copy: Copy, have: Object) -> Write | Blocked:
    """An object that is not ours: adopted, taken over or left alone."""
    holder = case.table.owner(have, case.view)
    if holder is None and _stays_a_source(case, copy, have):
        return Blocked(case.key, copy.ref, "conflict", "the object of this name there is itself a source")
    if holder is not None and not takes_over(case, holder) and _is_made_for(case, holder, have):
        return Blocked(case.key, copy.ref, "conflict", f"the object there was made for {holder}")
    referred = holder is not None and case.table[holder.dialect].by_owner  # it goes by that, whoever writes it
    if copy.adopt is not Adopt.NEVER and has_content(have, copy, case.dialect) and _is_free(have):
        adopted = adopting(as_it_lies(copy, have, case.dialect))
        return Update(case.key, copy.ref, adopted, have, "an identical object is there: adopted")
    if copy.adopt is Adopt.ANY and not referred:
        return _correct(case, copy, have, "somebody else's object, taken over as the settings say")
    return Blocked(case.key, copy.ref, "conflict", "an object of this name is there that is not ours")


def _stays_a_source(case: Case, copy: Copy, have: Object) -> bool:
    """What is itself a source stays its people's, but for one further up its own chain that takes what is there."""
    in_chain = copy.adopt is Adopt.ANY and case.dialect.upstream is not None
    return any(not in_chain or key.dialect != case.key.dialect for key in case.table.sources(have, case.view))


def _is_free(have: Object) -> bool:
    return not have.owners and not any(any_glob(GITOPS, key) for key in (*have.labels, *have.annotations))


def adopting(copy: Copy) -> Copy:
    return replace(copy, annotations={**copy.annotations, ADOPTED: "true"})


def _correct(case: Case, copy: Copy, have: Object, why: str) -> Write | Blocked:
    copy = as_it_lies(copy, have, case.dialect)
    assert copy.content is not KEEP
    if not kinds.must_recreate(copy.ref.kind, have.content, copy.content):
        return Update(case.key, copy.ref, copy, have, why)
    if case.rules.recreate:
        return Recreate(case.key, copy.ref, copy, have)
    return Blocked(case.key, copy.ref, "refused", "an immutable field differs and the setting recreate says refuse")


def drop(case: Case, have: Object) -> Write | Blocked | None:
    """What an unwanted copy needs: nothing, if it goes by itself or if the mark on it proves nothing."""
    namespace = case.home(have.ref)
    lost = have.ref.kind.namespaced and (namespace is None or namespace.deleting)
    if have.deleting or lost or RELEASED in have.annotations:
        return None
    if not (case.dialect.proven or is_marked_by_us(have, case.dialect)):
        return None
    late = case.dialect.by_owner and case.source is not None and not is_owned(have, case.source)
    if late and case.source is not None and have.created > case.source.created:
        return None  # what was made after this source is none of an earlier one: it is we who are behind
    held_by = (namespace, None if have.ref.kind.namespaced else have)
    if case.standstill or any(is_paused(each) for each in held_by if each is not None):
        return Blocked(case.key, have.ref, "held", f"its source or its namespace is paused ({PAUSED})")
    if ADOPTED in have.annotations:
        return Release(case.key, have.ref, have)
    if have.made and has_heir(case, have):
        return None
    return Delete(case.key, have.ref, have, why=EARLIER, late=True) if late else Delete(case.key, have.ref, have)


def lay(case: Case, overlay: Overlay) -> Write | Blocked | None:
    """An overlay is right when its keys have their values and the applied set holds exactly them."""
    have = case.view.get(overlay.ref)
    if have is None or have.deleting:
        return None
    wanted = {(LABELS, key) for key in overlay.labels} | {(ANNOTATIONS, key) for key in overlay.annotations}
    applied = {(owned.where, owned.key) for owned in have.applied if owned.manager == overlay.manager}
    valued = overlay.labels.items() <= have.labels.items() and overlay.annotations.items() <= have.annotations.items()
    if valued and wanted == applied:
        return None
    if case.standstill or any(is_paused(each) for each in (have, case.home(have.ref)) if each is not None):
        return Blocked(case.key, overlay.ref, "held", f"it, its source or its namespace is paused ({PAUSED})")
    return Apply(case.key, overlay.ref, overlay, have)
