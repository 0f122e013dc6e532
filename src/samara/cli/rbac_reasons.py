"""`samara rbac --explain`: each rule, and why it is needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from samara.cli.output import emit
from samara.core.want import Dialect

Rule = dict[str, list[str]]

ELSEWHERE = {
    ("namespaces", "list"): "to know which namespaces there are, which are being deleted, and what they accept",
    ("namespaces", "create"): "SubNamespaces make and delete namespaces, and namespaces of a tree inherit labels",
    ("namespaces", "get"): "before admission refuses anybody, the namespace is read once more, as it is now",
    ("resourcequotas", "list"): "to try a copy again at once when a full quota has room",
    ("events", "create"): "to say on a source what became of its copies, and on a copy why it was put back",
    ("leases", "list"): "to wait while the original of a vocabulary is at work; takeover: true makes it needless",
    (
        "customresourcedefinitions",
        "get",
    ): "while a definition is being deleted, nothing that its objects made is deleted",
    **{
        (configurations, verb): reason
        for configurations in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
        for verb, reason in (
            ("list", "to find the webhooks that lead to it"),
            ("update", "to write into them whose certificate to trust, and nothing else"),
        )
    },
}
"""In every namespace, by resource and first verb."""
AT_HOME = {
    ("leases", "create"): "its own Lease, which elects who writes; a create cannot be limited to a name",
    ("leases", "get"): "to hold and renew that Lease",
    ("configmaps", "create"): "where the brake writes down what it holds; a create cannot be limited to a name",
    ("configmaps", "get"): "to keep that list over a restart, and to hear `samara release`",
    ("secrets", "create"): "the certificate of its webhook; a create cannot be limited to a name",
    ("secrets", "get"): "to share that certificate between replicas, and to renew it",
}
"""In the operator's own namespace."""
CONVERTING = "; and to write into it who converts between its versions"
SUBRESOURCES = {
    "status": "to write their status",
    "finalizers": "some clusters let nobody name an owner whose finalizers they may not set",
}


def explain(made: list[dict[str, Any]], dialects: tuple[Dialect, ...], form: str) -> None:
    """Prints the rules of the roles among the objects, each with its reason."""
    rows = [
        (each["kind"], rule, why(rule, dialects, each["kind"] == "Role"))
        for each in made
        for rule in each.get("rules", ())
    ]
    emit(
        lambda: {"rules": [{"role": role, **rule, "why": reason} for role, rule, reason in rows]},
        form,
        lambda: _show(rows),
    )


def _show(rows: list[tuple[str, Rule, str]]) -> None:
    for role, title in (("ClusterRole", "In every namespace"), ("Role", "In its own namespace")):
        click.echo(f"{title}:\n")
        for of, rule, reason in rows:
            if of == role:
                click.echo(f"  {_what(rule)}\n      {reason}\n")


def _what(rule: Rule) -> str:
    [group], [resource] = rule["apiGroups"], rule["resources"]
    of = f" of {group}" if group else ""
    only = f", only {', '.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
    return f"{', '.join(rule['verbs'])}: {resource}{of}{only}"


def why(rule: Rule, dialects: tuple[Dialect, ...], at_home: bool) -> str:
    """The reason for one rule; what is copied and what asks for copies is known from the vocabularies."""
    [resource], verb = rule["resources"], rule["verbs"][0]
    known = (AT_HOME if at_home else ELSEWHERE).get((resource, verb))
    if known is not None:
        return known + (CONVERTING if "patch" in rule["verbs"] and resource == "customresourcedefinitions" else "")
    plural, _, subresource = resource.partition("/")
    if subresource:
        return SUBRESOURCES[subresource]
    asking = _titles(each for each in dialects if plural in {kind.plural for kind in each.asking})
    if asking:
        more = "; the finalizer is put on and taken off" if "patch" in rule["verbs"] else ""
        return f"what people write for {asking} is read{more}"
    copied = _titles(each for each in dialects if plural in {kind.plural for kind in each.kinds})
    assert copied, f"nobody knows why {resource} is needed"
    return f"sources and copies of {copied} may be anywhere; copies are made, put right and deleted"


def _titles(dialects: Iterable[Dialect]) -> str:
    return ", ".join(dict.fromkeys(dialect.title for dialect in dialects))
