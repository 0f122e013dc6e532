"""`samara why`: why an object is, or is not, in a namespace. The answer comes from the same plan function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import click

from samara.cli.advice import ADVICE
from samara.cli.inspect.namespace_only import Local, local_answer
from samara.cli.inspect.orphan_scan import has_parents
from samara.cli.inspect.outcome import Outcome, awaiting, outcome, place
from samara.cli.inspect.reported import as_told
from samara.cli.inspect.secret_values import is_unread
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, output_flag, wait_for
from samara.cli.output import emit, note
from samara.cli.session import Picture, Session, picture, session, snapshot
from samara.core.desired import Copy, Desired
from samara.core.model import Key, Kind, Object, Ref, namespace_ref
from samara.core.plan import prepare
from samara.core.policy import refusal
from samara.core.registry import Registry
from samara.core.writes import Blocked, Delete, Plan, Release, SetFinalizer, Write
from samara.engine.apply import verb
from samara.kube.errors import Forbidden
from samara.kube.snapshot import Snapshot


class Answer(NamedTuple):
    """What one source has to do with the place."""

    vocabulary: str
    source: str
    wanted: bool | None
    rule: str
    """A sentence: what asks for the copy, and what happens next."""
    decision: str | None = None
    """The name of the rule that decided. None if no rule concerns this address, or if the sources could not be read."""
    blocked: dict[str, str] | None = None


SHORT = {
    "configmaps": "cm",
    "fishysecrets": "fishy",
    "limitranges": "limits",
    "namespaces": "ns",
    "networkpolicies": "netpol",
    "persistentvolumeclaims": "pvc",
    "resourcedistributions": "distributor",
    "resourcequotas": "quota",
    "serviceaccounts": "sa",
    "services": "svc",
}
"""What people type for a kind, as kubectl takes it."""


@click.command("why", cls=Command)
@click.argument("what", metavar="KIND/NAME")
@config_flag
@output_flag()
@kubectl_flags
def command(cluster: Cluster, what: str, config: str | None, output: str) -> None:
    """Why this object is, or is not, in this namespace (-n): which source, which rule, what blocks it.

    Where its sources may not be read, the answer comes from the copy's marks and Events.
    """
    if "/" not in what.strip("/"):
        raise click.UsageError(f"expected KIND/NAME such as secret/db, found {what!r}")
    shape = wait_for(_why(cluster, config, what))
    emit(lambda: shape, output, lambda: _show(shape))


async def _why(cluster: Cluster, config: str | None, what: str) -> dict[str, Any]:
    where = cluster.access().namespace
    async with session(cluster.anywhere, config) as at:
        ref = named(what, where, at.registry)
        try:
            unread: list[str] = []
            shot = await snapshot(at, unread.append)
        except Forbidden as fault:
            return _locally(ref, await local_answer(at.client, at.registry, ref, str(fault)))
        if ref.kind in shot.unknown:
            return _locally(ref, await local_answer(at.client, at.registry, ref, _hidden(shot, ref)))
        await shot.read_all([ref] if shot.cache.exists_unread(ref) else [])
        return await _answered(at, await as_told(at, await picture(at, shot)), ref, unread)


def _hidden(shot: Snapshot, ref: Ref) -> str:
    """Why some sources that may want a place could not be listed; nothing where all could."""
    source_types = (each for each in shot.cache.registry.source_types if ref.kind in each.kinds)
    resources = (each.resource for each in source_types if each.resource is not None)
    return "; ".join(shot.unknown[kind] for kind in dict.fromkeys((ref.kind, *resources)) if kind in shot.unknown)


def named(what: str, namespace: str, registry: Registry) -> Ref:
    """The address that a person wrote as KIND/NAME: `secret/db`, `Secrets/db`, `v1/Secret/db`, `cm/ca`."""
    word, _, name = what.rpartition("/")
    kind = next((kind for kind in registry.kinds if word.lower() in _words(kind)), None)
    if kind is None:
        kinds = ", ".join(kind.name.lower() for kind in registry.kinds)
        raise click.UsageError(f"expected a kind that a vocabulary looks at ({kinds}), found {word!r}")
    return Ref(kind, namespace if kind.namespaced else "", name)


def _words(kind: Kind) -> set[str]:
    group = f".{kind.group}" if kind.group else ""
    words = (kind.name, kind.plural, str(kind), f"{kind.plural}{group}", SHORT.get(kind.plural, kind.plural))
    return {each.lower() for each in words}


async def _answered(at: Session, seen: Picture, ref: Ref, unread: list[str]) -> dict[str, Any]:
    cache = seen.shot.cache
    there = await seen.shot.read(ref)
    keys = [*cache.claimants(ref)]
    owner = None if there is None else seen.registry.owner(there, cache)
    if owner is not None and owner not in keys and owner.source.kind not in seen.shot.unknown:
        keys.append(owner)
    for text in unread if any(is_unread(key, cache, seen.registry) for key in keys) else ():
        at.say(text)
    found = outcome(seen, await at.brake())
    answers = [_answer(at, seen, key, ref, found) for key in keys]
    hidden = _hidden(seen.shot, ref)
    if hidden and not any(answer.wanted for answer in answers):
        return _locally(ref, await local_answer(at.client, at.registry, ref, hidden), answers)
    return _shape(ref, there is not None, answers)


def _stop(blocked: Iterable[Blocked], key: Key, ref: Ref, seen: Picture) -> Blocked | None:
    """What stands against a place: where that is nothing, or only that nothing is known, the source's own fault.

    A source that asks for one object only has no fault that does not concern it.
    """
    own = [each for each in blocked if each.key == key]
    here = next((each for each in own if each.ref == ref), None)
    source = next((each for each in own if each.ref == key.source), None)
    explained = here.reason == "invalid" if here is not None else not seen.registry[key.source_type].per_namespace
    return source if source is not None and explained else here


def _shape(ref: Ref, present: bool | None, answers: list[Answer]) -> dict[str, Any]:
    return {
        "object": place(ref),
        "present": present,
        "wanted": any(answer.wanted for answer in answers),
        "answers": [answer._asdict() for answer in answers],
    }


def _answer(at: Session, seen: Picture, key: Key, ref: Ref, found: Outcome) -> Answer:
    plan = seen.plans.get(key, Plan())
    source = seen.shot.cache.get(key.source)
    blocked = _stop(found.blocked, key, ref, seen)
    stop = None if blocked is None else {"reason": blocked.reason, "message": blocked.message}
    waits = ref in awaiting(seen, key, plan, at.rules)
    write = next((each for each in plan.writes if each.ref == ref or waits), None)
    decision = _decision(plan, found, ref, blocked, waits)
    told = Answer(seen.title(key), key.source.path, waits or ref in plan.desired, "", decision, stop)
    if key.source == ref:
        return told._replace(rule=f"it is itself a source, with {len(plan.desired)} copies wanted elsewhere")
    if source is None:
        return told._replace(rule=f"{_cause(key, source, seen)}; {_fate(write, stop)}")
    if stop is not None and not seen.registry[key.source_type].per_namespace:
        return told._replace(wanted=True, rule=f"{key.source} asks for it; {_fate(write, stop)}")
    copies = [copy for copy in _want(at, seen, key, ref).copies if copy.ref == ref]
    cause = _cause(key, source, seen)
    if spared := _spared(at, seen, key, copies):
        return told._replace(rule=f"{cause} selects among all, and {spared}; {_fate(write, stop)}")
    if has_parents(seen.registry[key.source_type]):
        return told._replace(rule=_flow(cause, key, ref, told.wanted, _fate(write, stop)))
    return told._replace(rule=_rule(cause, ref, told.wanted, any(copy.by_name for copy in copies), _fate(write, stop)))


def _decision(plan: Plan, found: Outcome, ref: Ref, blocked: Blocked | None, waits: bool) -> str | None:
    """The rule that decided about the address. Only if there is none: what is wrong with the source itself."""
    rules = [step.rule for step in plan.steps if step.ref == ref or (waits and isinstance(step.outcome, SetFinalizer))]
    faults = [step.rule for step in found.steps if step.outcome is blocked] if blocked is not None else []
    return next(iter((*rules, *faults)), None)


def _want(at: Session, seen: Picture, key: Key, ref: Ref) -> Desired:
    prepared = prepare(seen.registry.part(key, ref.namespace), seen.shot.cache, seen.registry, at.rules)
    return Desired() if isinstance(prepared, Plan) else prepared[1]


def _spared(at: Session, seen: Picture, key: Key, copies: list[Copy]) -> str:
    """Why a namespace is not meant although all are: it is protected, or wants nothing."""
    cache, source_type = seen.shot.cache, seen.registry[key.source_type]
    homes = [(copy, cache.get(namespace_ref(copy.ref.namespace))) for copy in copies]
    policy = source_type.policy
    refusals = (refusal(copy, key.source, home, policy, at.rules) for copy, home in homes if home is not None)
    return next((each.message for each in refusals if each is not None and each.excludes), "")


def _cause(key: Key, source: Object | None, seen: Picture) -> str:
    if source is None:
        still = seen.shot.cache.exists_unread(key.source)
        return f"its mark names {key.source}, which {'asks for no copies any more' if still else 'is gone'}"
    metadata_keys = seen.registry[key.source_type].source.metadata_keys
    asks = sorted(metadata_keys.intersection((*source.annotations, *source.labels)))
    return f"{', '.join(asks)} on {key.source}" if asks else str(key.source)


def _flow(cause: str, key: Key, ref: Ref, wanted: bool | None, fate: str) -> str:
    """Along a tree neither the namespace is named nor are all of them meant."""
    reaches = "reaches" if wanted else "does not reach"
    return f"{cause} {reaches} namespace {ref.namespace}: it goes to what hangs on {key.source.namespace}; {fate}"


def _rule(cause: str, ref: Ref, wanted: bool | None, named: bool, fate: str) -> str:
    if not ref.kind.namespaced:
        return f"{cause} {'asks' if wanted else 'does not ask'} for {ref}; {fate}"
    if not wanted:
        return f"{cause} does not ask for a copy in namespace {ref.namespace}; {fate}"
    how = f"names namespace {ref.namespace}" if named else f"selects namespace {ref.namespace} among all"
    return f"{cause} {how}; {fate}"


def _fate(write: Write | None, blocked: dict[str, str] | None) -> str:
    """What happens to the place next."""
    if blocked is not None:
        return "blocked"
    if write is None:
        return "nothing needs to be written"
    if isinstance(write, Delete | Release):
        return f"to be removed: {write.why}"
    return f"to {verb(write)}: {write.why}"


def _locally(ref: Ref, found: Local, known: Sequence[Answer] = ()) -> dict[str, Any]:
    """The answer to somebody who may not read all sources: of those that are known, from the marks, and what is not."""
    told_of = {(answer.vocabulary, answer.source) for answer in known}
    marks = [Answer(each.vocabulary, each.origin, None, each.rule) for each in found.marks]
    answers = [*known, *(each for each in marks if (each.vocabulary, each.source) not in told_of)]
    for each in found.unread:
        note(f"could not be read: {each}")
    told = {**_shape(ref, found.present, answers), "wanted": None}
    return {**told, "events": list(found.events), "unread": list(found.unread)}


def _show(shape: dict[str, Any]) -> None:
    at = shape["object"]
    there = {True: "is there", False: "is not there", None: "may be there (it could not be read)"}[shape["present"]]
    wanted = {True: "it is wanted", False: "no source wants it", None: "who wants it could not be read"}
    where = f" in namespace {at['namespace']}" if at["namespace"] else ""
    click.echo(f"{at['kind']} {at['name']}{where} {there}; {wanted[shape['wanted']]}.")
    for answer in shape["answers"]:
        click.echo(f"  {answer['vocabulary']} from {answer['source']}: {answer['rule']}")
        if answer["decision"]:
            click.echo(f"    decided by: {answer['decision']}")
        if answer["blocked"]:
            click.echo(f"    blocked ({answer['blocked']['reason']}): {answer['blocked']['message']}")
            click.echo(f"    what to do: {ADVICE[answer['blocked']['reason']]}")
    for event in shape.get("events", ()):
        click.echo(f"  Event {event}")
