"""What admission says to a distribution that somebody wants to store: all of its faults in one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from samara.core.kinds import row
from samara.core.match import shown
from samara.core.model import Content
from samara.core.reads import Rejected, Trial
from samara.core.select import is_dns_subdomain
from samara.vocabularies.resource_distribution.asked import Asked
from samara.vocabularies.resource_distribution.spec import RESOURCE

Answer = Callable[[Trial], object]


def refusals(name: str, new: Asked, old: Asked | None, content: object, answer: Answer) -> tuple[str, ...]:
    """`content` is what the copies would hold, where that can be said; `answer` is what the server says to a trial."""
    return (
        *_named(name),
        *(fault.message for fault in (*new.faults, *new.slips)),
        *_changed(new, old),
        *_denied(new, content),
        *_tried(new, answer),
    )


def _named(name: str) -> Iterator[str]:
    """Without a name the server will make one."""
    if name and not is_dns_subdomain(name):
        yield f"metadata.name: a DNS subdomain was expected, found {shown(name)}"


def _changed(new: Asked, old: Asked | None) -> Iterator[str]:
    if old is None or old.resource is None or new.resource is None or not is_dns_subdomain(old.resource.name):
        return  # what cannot have been copied may be corrected
    both = zip(("apiVersion", "kind", "metadata.name"), old.resource.identity, new.resource.identity, strict=True)
    for what, was, now in both:
        if was != now:
            yield f"{RESOURCE}.{what} cannot be changed: {shown(was)} was expected, found {shown(now)}"


def _denied(new: Asked, content: object) -> Iterator[str]:
    if new.order is not None and isinstance(content, Content):
        why = row(new.order.kind).denied(content)
        if why is not None:
            yield f"{RESOURCE}: {why}"


def _tried(new: Asked, answer: Answer) -> Iterator[str]:
    """What is not answered yet is no fault: whoever performs the trials asks again."""
    found = answer(new.order.trial) if new.order is not None else None
    if isinstance(found, Rejected):
        yield f"{RESOURCE}: the server would not take it: {found.message}"
