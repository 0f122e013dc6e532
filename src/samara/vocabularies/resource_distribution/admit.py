"""Validates a ResourceDistribution at admission, and returns all of its faults in one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from samara.core.kinds import rules_for
from samara.core.model import Content
from samara.core.names import is_dns_subdomain, quoted
from samara.core.queries import DryRunCreate, Rejected
from samara.vocabularies.resource_distribution.spec import RESOURCE
from samara.vocabularies.resource_distribution.spec_cache import ParsedSpec

Answer = Callable[[DryRunCreate], object]


def refusals(name: str, new: ParsedSpec, old: ParsedSpec | None, content: object, answer: Answer) -> tuple[str, ...]:
    """`content` is what the copies would hold, where that can be said; `answer` is what the server says to a trial."""
    return (
        *_named(name),
        *(fault.message for fault in (*new.faults, *new.warnings)),
        *_changed(new, old),
        *_denied(new, content),
        *_tried(new, answer),
    )


def _named(name: str) -> Iterator[str]:
    """Without a name the server will make one."""
    if name and not is_dns_subdomain(name):
        yield f"metadata.name: a DNS subdomain was expected, found {quoted(name)}"


def _changed(new: ParsedSpec, old: ParsedSpec | None) -> Iterator[str]:
    if old is None or old.resource is None or new.resource is None or not is_dns_subdomain(old.resource.name):
        return  # what cannot have been copied may be corrected
    both = zip(("apiVersion", "kind", "metadata.name"), old.resource.identity, new.resource.identity, strict=True)
    for what, was, now in both:
        if was != now:
            yield f"{RESOURCE}.{what} cannot be changed: {quoted(was)} was expected, found {quoted(now)}"


def _denied(new: ParsedSpec, content: object) -> Iterator[str]:
    if new.order is not None and isinstance(content, Content):
        why = rules_for(new.order.kind).refusal(content)
        if why is not None:
            yield f"{RESOURCE}: {why}"


def _tried(new: ParsedSpec, answer: Answer) -> Iterator[str]:
    """A dry run without an answer is no fault: the review performs it and calls again."""
    found = answer(new.order.trial) if new.order is not None else None
    if isinstance(found, Rejected):
        yield f"{RESOURCE}: the server would not take it: {found.message}"
