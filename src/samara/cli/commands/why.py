"""`samara why`: why an object is, or is not, in a namespace. The answer comes from the operator's own plan function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import click

from samara.cli import completion
from samara.cli.addresses import FORMS, NamedObject, parse_refs, split_words
from samara.cli.advice import ADVICE
from samara.cli.formats import Form, output_flag
from samara.cli.inspect.cluster_plans import ClusterPlans, plan_cluster, plan_one_address, take_snapshot
from samara.cli.inspect.forecast import PlannedWrites, address_as_json, first_writes, waiting_for_finalizer
from samara.cli.inspect.names import note_similar_names
from samara.cli.inspect.namespace_only import read_local_answer
from samara.cli.inspect.namespace_state import desired_in_namespace, exclusion, incoming, sources_in
from samara.cli.inspect.reported import is_unread, merge_reported
from samara.cli.inspect.source_state import made_by, reason_text, sampled
from samara.cli.options import Cluster, Command, config_flag, kubectl_flags, wait_for
from samara.cli.output import MAX_ROWS, emit, note, print_line
from samara.cli.session import Session, open_session
from samara.core.model import LABELS, NAMESPACE, Key, Object, Ref
from samara.core.names import sample
from samara.core.near_misses import NearMiss
from samara.core.source_type import has_parents
from samara.core.writes import Blocked, Delete, Plan, Release, SetFinalizer, Write, verb
from samara.kube.errors import Forbidden
from samara.kube.snapshot import Snapshot

Json = dict[str, Any]


class Answer(NamedTuple):
    """How one source concerns the object. The fields are those of the JSON."""

    vocabulary: str
    source: str
    wanted: bool | None
    rule: str
    """A sentence: why the source wants the object or does not, and what happens next."""
    decision: str | None = None
    """The name of the rule that decided. None if no rule concerns this address, or if the sources could not be read."""
    blocked: dict[str, str] | None = None


@click.command(
    "why",
    cls=Command,
    namespace="The namespace of the objects. Default: that of the context.",
    examples={
        "Why has namespace reports no copy of this Secret?": "samara why secret/orders-database -n reports",
        "The same for two Secrets": "samara why secret orders-database registry-pull -n reports",
        "What do sources put into namespace reports?": "samara why namespace/reports",
    },
)
@click.argument("words", metavar=f"({FORMS})", nargs=-1, required=True, shell_complete=completion.objects)
@config_flag
@output_flag()
@kubectl_flags
def command(cluster: Cluster, words: tuple[str, ...], config: str | None, output: Form) -> None:
    """Show why an object is, or is not, in a namespace: which source asks for it, which rule decided, what blocks it.

    For a source it shows what this makes, and for a Namespace what sources put into it.

    If you may not read the sources, the answer comes from the marks and the Events of the copy.

    For several objects, -o json and -o yaml print a list in the field `items`, with one answer for each object.
    """
    answers = wait_for(_why(cluster, config, split_words(words)))
    emit(lambda: answers[0] if len(answers) == 1 else {"items": answers}, output, lambda: _show_all(answers))


async def _why(cluster: Cluster, config: str | None, objects: Sequence[NamedObject]) -> list[Json]:
    namespace = cluster.access().namespace
    async with open_session(cluster.without_namespace, config) as session:
        refs = parse_refs(objects, namespace, session.registry)
        answers = {ref: await _answer_from_its_sources(session, ref) for ref in dict.fromkeys(refs)}
        others = [ref for ref, answer in answers.items() if answer is None]
        from_cluster = await _answers_from_cluster(session, others) if others else {}
        for ref, answer in (answers | from_cluster).items():
            if answer is not None and answer["present"] is False and not answer["answers"]:
                await note_similar_names(session.client, ref)
        return [answers[ref] or from_cluster[ref] for ref in refs]


async def _answer_from_its_sources(session: Session, ref: Ref) -> Json | None:
    """The answer from the sources of one address. None if the whole cluster must be read."""
    unread_notes: list[str] = []
    plans = await plan_one_address(session, ref, unread_notes.append)
    if plans is None:
        return None
    return await _answer_from_plans(session, await _with_reported(session, plans), ref, unread_notes)


async def _answers_from_cluster(session: Session, refs: Sequence[Ref]) -> dict[Ref, Json]:
    """The answers from one plan of the whole cluster, or from the namespace if the sources may not be read."""
    unread_notes: list[str] = []
    try:
        snapshot = await take_snapshot(session, note_unread=unread_notes.append)
    except Forbidden as fault:
        return {ref: await _answer_from_namespace(session, ref, str(fault)) for ref in refs}
    unlisted = {ref: _unlisted_sources(snapshot, ref) for ref in refs if ref.kind in snapshot.unlisted}
    answers = {ref: await _answer_from_namespace(session, ref, fault) for ref, fault in unlisted.items()}
    listed = [ref for ref in refs if ref not in unlisted]
    if listed:
        await snapshot.read_all(ref for ref in listed if snapshot.cache.exists_unread(ref))
        plans = await _with_reported(session, await plan_cluster(session, snapshot))
        answers |= {ref: await _answer_from_plans(session, plans, ref, unread_notes) for ref in listed}
    return answers


async def _with_reported(session: Session, plans: ClusterPlans) -> ClusterPlans:
    return replace(plans, plans=await merge_reported(session, plans.plans))


def _unlisted_sources(snapshot: Snapshot, ref: Ref) -> str:
    """Why some sources that may want the object could not be listed. Empty if all could."""
    source_types = (
        source_type for source_type in snapshot.cache.registry.source_types if ref.kind in source_type.kinds
    )
    resources = (source_type.resource for source_type in source_types if source_type.resource is not None)
    kinds = dict.fromkeys((ref.kind, *resources))
    return "; ".join(snapshot.unlisted[kind] for kind in kinds if kind in snapshot.unlisted)


async def _answer_from_plans(session: Session, cluster: ClusterPlans, ref: Ref, unread_notes: list[str]) -> Json:
    cache = cluster.snapshot.cache
    live = await cluster.snapshot.read(ref)
    keys = sorted(cache.claimants(ref), key=lambda key: (cluster.registry.rank(key.source_type), key))
    owner = None if live is None else cluster.registry.owner(live, cache)
    if owner is not None and owner not in keys and owner.source.kind not in cluster.snapshot.unlisted:
        keys.append(owner)
    if any(is_unread(key, cache, cluster.registry) for key in keys):
        for text in unread_notes:
            session.note_once(text)
    planned = first_writes(cluster, await session.mass_delete_guard())
    answers = [_answer(session, cluster, key, ref, planned) for key in keys]
    unlisted = _unlisted_sources(cluster.snapshot, ref)
    if unlisted and not any(answer.wanted for answer in answers):
        return await _answer_from_namespace(session, ref, unlisted, answers)
    return {**_as_json(ref, live is not None, answers), **_more(session, cluster, ref, live)}


def _more(session: Session, cluster: ClusterPlans, ref: Ref, live: Object | None) -> Json:
    """What a source makes, what comes into a Namespace, and the labels and annotations of the object without effect."""
    makes, cache = made_by(session, cluster, ref), cluster.snapshot.cache
    more: Json = {"makes": makes} if makes else {}
    more |= _near_misses(cache.near_miss_rules.of_object(live, cache) if live is not None else ())
    if ref.kind == NAMESPACE:
        more["incoming"] = [entry._asdict() for entry in incoming(session, cluster, ref.name)]
        more["sources"] = sources_in(cluster, ref.name)
    return more


def _near_misses(misses: Sequence[NearMiss]) -> Json:
    return {"nearMisses": [miss._asdict() for miss in misses]} if misses else {}


async def _answer_from_namespace(session: Session, ref: Ref, fault: str, from_plans: Sequence[Answer] = ()) -> Json:
    """The answer for users who may not read all sources. `fault` is why these could not be read.

    It has the answers from plans, then those from marks, the Events, and what could not be read.
    """
    local = await read_local_answer(session.client, session.registry, ref, fault)
    answered = {(answer.vocabulary, answer.source) for answer in from_plans}
    from_marks = [Answer(mark.vocabulary, mark.origin, None, mark.rule) for mark in local.marks]
    answers = [*from_plans, *(answer for answer in from_marks if (answer.vocabulary, answer.source) not in answered)]
    for unread in local.unread:
        note(f"could not be read: {unread}")
    as_json = {**_as_json(ref, local.is_present, answers), "wanted": None, **_near_misses(local.near_misses)}
    return {**as_json, "events": list(local.events), "unread": list(local.unread)}


def _answer(session: Session, cluster: ClusterPlans, key: Key, ref: Ref, planned: PlannedWrites) -> Answer:
    plan = cluster.plans.get(key, Plan())
    source_type, source = cluster.registry[key.source_type], cluster.snapshot.cache.get(key.source)
    blocked = _find_blocked(planned.blocked, key, ref, cluster)
    blocked_json = None if blocked is None else {"reason": blocked.reason, "message": blocked.message}
    is_waiting = ref in waiting_for_finalizer(cluster, key, plan, session.policy)
    write = next((write for write in plan.writes if write.ref == ref or is_waiting), None)
    decision = _decision(plan, planned, ref, blocked, is_waiting)
    is_wanted = is_waiting or ref in plan.desired
    answer = Answer(cluster.vocabulary(key), key.source.path, is_wanted, "", decision, blocked_json)
    if key.source == ref:
        return answer._replace(rule=f"it is itself a source, with {len(plan.desired)} copies wanted elsewhere")
    next_step = _next_step(write, blocked)
    cause = _cause(key, source, cluster)
    if source is None:
        return answer._replace(rule=f"{cause}; {next_step}")
    if blocked is not None and not source_type.per_namespace:
        return answer._replace(wanted=True, rule=f"{key.source} asks for it; {next_step}")
    copies = [copy for copy in desired_in_namespace(session, cluster, key, ref.namespace).copies if copy.ref == ref]
    if excluded := exclusion(session, cluster, key, copies):
        return answer._replace(rule=f"{cause} selects among all, and {excluded}; {next_step}")
    if has_parents(source_type):
        return answer._replace(rule=_tree_rule(cause, key, ref, is_wanted, next_step))
    is_named = any(copy.by_name for copy in copies)
    return answer._replace(rule=_target_rule(cause, ref, is_wanted, is_named, next_step))


def _find_blocked(blocked: Iterable[Blocked], key: Key, ref: Ref, cluster: ClusterPlans) -> Blocked | None:
    """What blocks the object: the fault of its source if that is why its content is missing, else what is in its way.

    If a source asks for one object only, every fault of the source concerns that object.
    """
    of_key = [outcome for outcome in blocked if outcome.key == key]
    of_copy = next((outcome for outcome in of_key if outcome.ref == ref), None)
    of_source = next((outcome for outcome in of_key if outcome.ref == key.source), None)
    is_explained = (
        of_copy.reason == "invalid" if of_copy is not None else not cluster.registry[key.source_type].per_namespace
    )
    return of_source if of_source is not None and is_explained else of_copy


def _decision(plan: Plan, planned: PlannedWrites, ref: Ref, blocked: Blocked | None, is_waiting: bool) -> str | None:
    """The rule that decided about the address, else what stands for a rule where the source itself is at fault."""
    for step in plan.steps:
        if step.ref == ref or (is_waiting and isinstance(step.outcome, SetFinalizer)):
            return step.rule
    return next((step.rule for step in planned.steps if blocked is not None and step.outcome is blocked), None)


def _cause(key: Key, source: Object | None, cluster: ClusterPlans) -> str:
    """The beginning of the sentence: the labels and annotations of the source that request copies."""
    if source is None:
        exists = cluster.snapshot.cache.exists_unread(key.source)
        return f"its mark names {key.source}, which {'asks for no copies any more' if exists else 'is gone'}"
    metadata_keys = cluster.registry[key.source_type].source.metadata_keys
    requests = sorted(metadata_keys.intersection((*source.annotations, *source.labels)))
    return f"{', '.join(requests)} on {key.source}" if requests else str(key.source)


def _tree_rule(cause: str, key: Key, ref: Ref, is_wanted: bool, next_step: str) -> str:
    """The sentence for a tree, whose source neither names namespaces nor selects among all."""
    reaches = "reaches" if is_wanted else "does not reach"
    where = f"the namespaces below {key.source.namespace}"
    return f"{cause} {reaches} namespace {ref.namespace}: it goes to {where}; {next_step}"


def _target_rule(cause: str, ref: Ref, is_wanted: bool, is_named: bool, next_step: str) -> str:
    if not ref.kind.namespaced:
        return f"{cause} {'asks' if is_wanted else 'does not ask'} for {ref}; {next_step}"
    if not is_wanted:
        return f"{cause} does not ask for a copy in namespace {ref.namespace}; {next_step}"
    how = f"names namespace {ref.namespace}" if is_named else f"selects namespace {ref.namespace} among all"
    return f"{cause} {how}; {next_step}"


def _next_step(write: Write | None, blocked: Blocked | None) -> str:
    """The end of the sentence: what happens next."""
    if blocked is not None:
        return "blocked"
    if write is None:
        return "nothing needs to be written"
    if isinstance(write, Delete | Release):
        return f"to be removed: {write.why}"
    return f"to {verb(write)}: {write.why}"


# JSON and text


def _as_json(ref: Ref, present: bool | None, answers: list[Answer]) -> Json:
    return {
        "object": address_as_json(ref),
        "present": present,
        "wanted": any(answer.wanted for answer in answers),
        "answers": [answer._asdict() for answer in answers],
    }


def _show_all(answers: Sequence[Json]) -> None:
    """The answers with an empty line between them."""
    for number, answer in enumerate(answers):
        if number:
            click.echo()
        _show(answer)


def _show(answer: Json) -> None:
    ref = answer["object"]
    present = {True: "is there", False: "is not there", None: "may be there (it could not be read)"}[answer["present"]]
    wanted = {True: "it is wanted", False: "no source wants it", None: "its sources could not be read"}
    if answer.get("makes"):
        wanted = {True: "it is wanted, and is itself a source", False: "it is a source", None: wanted[None]}
    where = f" in namespace {ref['namespace']}" if ref["namespace"] else ""
    print_line(f"{ref['kind']} {ref['name']}{where} {present}; {wanted[answer['wanted']]}.")
    for source in answer["answers"]:
        print_line(f"  {source['vocabulary']} from {source['source']}: {source['rule']}")
        if source["decision"]:
            print_line(f"    decided by: {source['decision']}")
        if source["blocked"]:
            print_line(f"    blocked ({source['blocked']['reason']}): {source['blocked']['message']}")
            print_line(f"    what to do: {ADVICE[source['blocked']['reason']]}")
    _show_near_misses(answer.get("nearMisses", ()))
    for makes in answer.get("makes", ()):
        _show_makes(makes)
    if "incoming" in answer:
        _show_incoming(answer["incoming"], answer["sources"])
    for event in answer.get("events", ()):
        print_line(f"  Event {event}")


def _show_near_misses(misses: Sequence[dict[str, str]]) -> None:
    for miss in misses:
        print_line(f"  without effect: {'label' if miss['where'] == LABELS else 'annotation'} {miss['key']}")
        print_line(f"    found: {miss['found']}")
        print_line(f"    expected: {miss['expected']}")


def _show_makes(makes: Json) -> None:
    counts = ", ".join(f"{makes[name]:,} {name}" for name in ("wanted", "right", "pending", "blocked"))
    copies = f"makes {sampled(makes['sample'], makes['wanted'])}" if makes["sample"] else "makes nothing"
    print_line(f"  {makes['vocabulary']} {copies}: {counts}")
    for reason in makes["reasons"]:
        print_line(f"    {reason_text(reason)}")
        print_line(f"    what to do: {ADVICE[reason['reason']]}")


def _show_incoming(entries: Sequence[Json], sources: Sequence[dict[str, str]]) -> None:
    """One line for each object that comes into a Namespace, problems first, and one line for the sources in it."""
    for entry in entries[:MAX_ROWS]:
        state = f"blocked ({entry['reason']})" if entry["reason"] else entry["state"].replace("-", " ")
        kind = entry["kind"].rpartition("/")[2]
        come_from = f"{entry['vocabulary']} from {entry['source']}"
        print_line(f"  {state}: {kind} {entry['name']}, {come_from}: {entry['message']}")
    if len(entries) > MAX_ROWS:
        print_line(f"  and {len(entries) - MAX_ROWS:,} more objects; -o json lists all")
    if not entries:
        print_line("  No source puts anything into it.")
    if sources:
        names = (f"{entry['vocabulary']} {entry['source']}" for entry in sources)
        print_line(f"  Sources in it: {sample(names)}")
