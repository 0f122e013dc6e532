"""Compares two forecasts, without and with manifests: what the manifests change, and what would be written anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from samara.cli.inspect.forecast import Anyway, PlannedWrites
from samara.core.desired import Template, Unavailable
from samara.core.writes import Apply, Blocked, Create, Recreate, SetFinalizer, Step, Update, Write, WriteStatus, verb


def caused_by_manifests(before: PlannedWrites, after: PlannedWrites) -> PlannedWrites:
    """The steps of `after` that are not in `before`, and the number of those that are in both or no longer in `after`.

    The two may come from different snapshots. A write is the same if it does the same to the same object for the same
    source, whatever version the object has.
    """
    remaining = Counter(map(_effect, before.steps))
    new: list[Step] = []
    same: list[Step] = []
    for step in after.steps:
        effect = _effect(step)
        if remaining[effect]:
            remaining[effect] -= 1
            same.append(step)
        else:
            new.append(step)
    blocked = sum(isinstance(step.outcome, Blocked) for step in same)
    touched = {step.ref for step in new if isinstance(step.outcome, Write)}
    undone = {step.ref for step in before.steps if remaining[_effect(step)] and isinstance(step.outcome, Write)}
    return PlannedWrites(tuple(new), Anyway(len(same) - blocked, blocked, len(undone - touched)))


def _effect(step: Step) -> Hashable:
    """What a step does, in values that can be compared between two snapshots."""
    outcome = step.outcome
    if isinstance(outcome, Blocked):
        return "blocked", outcome.key, outcome.ref, outcome.reason, outcome.message
    if isinstance(outcome, Write):
        return verb(outcome), outcome.key, outcome.ref, outcome.why, _payload(outcome)
    return step.ref, step.rule


def _payload(write: Write) -> Hashable:
    """What the write sends. Digests of content differ between two snapshots, so its bytes are compared."""
    match write:
        case Create() | Update() | Recreate():
            return _template(write.copy.template)
        case Apply():
            return _sorted(write.overlay.labels), _sorted(write.overlay.annotations)
        case SetFinalizer():
            return write.finalizer, write.add
        case WriteStatus():
            return repr(_without_times(write.status))
        case _:
            return None


def _template(template: Template) -> Hashable:
    content = template.content
    fields = () if isinstance(content, Unavailable) else tuple((field.name, field.raw) for field in content.fields)
    return fields, _sorted(template.labels), _sorted(template.annotations), template.mode


def _sorted(metadata: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(metadata.items()))


def _without_times(value: object) -> object:
    """A status without the times in it, which are those of the forecast."""
    if isinstance(value, Mapping):
        return {name: _without_times(part) for name, part in value.items() if not str(name).endswith("Time")}
    if isinstance(value, list | tuple):
        return [_without_times(part) for part in value]
    return value
