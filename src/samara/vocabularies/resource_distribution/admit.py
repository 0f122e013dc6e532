"""Validates a ResourceDistribution for the admission webhook. One answer lists all faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from samara.core.kinds import rules_for
from samara.core.model import Content
from samara.core.names import is_dns_subdomain, quoted
from samara.core.queries import DryRunCreate, Rejected
from samara.vocabularies.resource_distribution.spec import RESOURCE
from samara.vocabularies.resource_distribution.spec_cache import ParsedSpec

Answer = Callable[[DryRunCreate], object]
_HIDDEN = "a policy or a quota refuses it (the operator's namespace has the details: try it there)"


def refusals(
    name: str, new: ParsedSpec, old: ParsedSpec | None, content: object, answer: Answer, *, is_strict: bool
) -> tuple[str, ...]:
    """The messages about a new or changed distribution.

    `content`: that of the copies, if it is known. `answer`: the answer to a dry run, if there is one. `is_strict`: any
    pod that reaches the webhook may read the messages, so they quote no quota and no policy.
    """
    return (
        *_name_faults(name),
        *(fault.message for fault in (*new.faults, *new.warnings)),
        *_identity_faults(new, old),
        *_content_faults(new, content),
        *_dry_run_faults(new, answer, is_strict),
    )


def _name_faults(name: str) -> Iterator[str]:
    """The name may be empty: the API server generates one then."""
    if name and not is_dns_subdomain(name):
        yield f"metadata.name: a DNS subdomain was expected, found {quoted(name)}"


def _identity_faults(new: ParsedSpec, old: ParsedSpec | None) -> Iterator[str]:
    if old is None or old.resource is None or new.resource is None or not is_dns_subdomain(old.resource.name):
        return  # an object that cannot have been copied may be corrected
    values = zip(("apiVersion", "kind", "metadata.name"), old.resource.identity, new.resource.identity, strict=True)
    for field, before, after in values:
        if before != after:
            yield f"{RESOURCE}.{field} cannot be changed: {quoted(before)} was expected, found {quoted(after)}"


def _content_faults(new: ParsedSpec, content: object) -> Iterator[str]:
    if new.embedded is not None and isinstance(content, Content):
        why = rules_for(new.embedded.kind).refusal(content)
        if why is not None:
            yield f"{RESOURCE}: {why}"


def _dry_run_faults(new: ParsedSpec, answer: Answer, is_strict: bool) -> Iterator[str]:
    """None if the dry run has no answer yet: the webhook performs it and asks again."""
    stored = answer(new.embedded.dry_run) if new.embedded is not None else None
    if isinstance(stored, Rejected):
        is_hidden = is_strict and not stored.is_about_object
        yield f"{RESOURCE}: the server would not take it: {_HIDDEN if is_hidden else stored.message}"
