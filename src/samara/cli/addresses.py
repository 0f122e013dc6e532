"""Objects as users name them, like kubectl's: `secret/db`, `secret db other`, `secret,cm ca`. And `v1/Secret/db`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from samara import crds
from samara.cli.suggestions import did_you_mean
from samara.core.model import Kind, Ref
from samara.core.registry import Registry
from samara.kube.discovery import Served

FORMS = "KIND NAME... | KIND/NAME..."
BUILT_IN_SHORT_NAMES = {
    "configmaps": "cm",
    "limitranges": "limits",
    "namespaces": "ns",
    "networkpolicies": "netpol",
    "persistentvolumeclaims": "pvc",
    "resourcequotas": "quota",
    "serviceaccounts": "sa",
    "services": "svc",
}
"""The short names that kubectl accepts. Those of custom resources are in their definitions."""
_is_api_version = re.compile(r"(?:[^/]+/)?v\d+(?:(?:alpha|beta)\d+)?").fullmatch


class NamedObject(NamedTuple):
    """The kind and the name of an object, as the user wrote them."""

    kind: str
    name: str


def split_words(words: Sequence[str]) -> list[NamedObject]:
    """Splits the words into kinds and names. Raises a usage error if they have neither of the two forms of kubectl."""
    if is_kind(words[0]):
        return list(_names_of_kind(*words))
    return [named for word in words for named in _kind_and_name(word)]


def is_kind(word: str) -> bool:
    """True for the first word of the form `KIND NAME`. A kind may have its API version before it: `v1/Secret`."""
    before, slash, _ = word.rpartition("/")
    return not slash or _is_api_version(before) is not None


def _names_of_kind(kind: str, *names: str) -> Iterator[NamedObject]:
    if not names:
        raise click.UsageError(f"expected a kind and a name, such as secret/db or secret db, found {kind!r}")
    for name in names:
        if not name or "/" in name:
            raise click.UsageError(f"expected names after the kind {kind}, found {name!r}")
    for one_kind in _split_kinds(kind):
        yield from (NamedObject(one_kind, name) for name in names)


def _kind_and_name(word: str) -> Iterator[NamedObject]:
    kind, slash, name = word.rpartition("/")
    if not (kind and slash and name):
        raise click.UsageError(f"expected KIND/NAME for each object, such as secret/db, found {word!r}")
    yield from (NamedObject(one_kind, name) for one_kind in _split_kinds(kind))


def _split_kinds(text: str) -> list[str]:
    kinds = text.split(",")
    if not all(kinds):
        raise click.UsageError(f"expected kinds with commas between them, such as secret,configmap, found {text!r}")
    return kinds


def parse_refs(
    named: Sequence[NamedObject], namespace: str, registry: Registry, served: Sequence[Served] = ()
) -> list[Ref]:
    """The addresses in a namespace. Raises a usage error for a kind that no vocabulary of the registry uses, unless it
    is in `served`."""
    of_cluster = {name: entry.kind for entry in reversed(served) for name in names_of(*entry[:2])}
    kinds = of_cluster | _kinds_by_name(registry)
    return [_ref(entry, namespace, kinds, registry) for entry in named]


def uses_all(registry: Registry, named: Sequence[NamedObject]) -> bool:
    """True if the vocabularies of a registry use the kinds of all these objects."""
    kinds = _kinds_by_name(registry)
    return all(entry.kind.lower() in kinds for entry in named)


def _kinds_by_name(registry: Registry) -> dict[str, Kind]:
    return {name: kind for kind in reversed(registry.kinds) for name in names_of(kind)}


def _ref(named: NamedObject, namespace: str, kinds: Mapping[str, Kind], registry: Registry) -> Ref:
    kind = kinds.get(named.kind.lower())
    if kind is None:
        used = [kind.name.lower() for kind in registry.kinds]
        expected = f"expected a kind that a vocabulary uses ({', '.join(used)})"
        known = dict.fromkeys((*used, *(kind.name.lower() for kind in kinds.values())))
        raise click.UsageError(f"{expected}, found {named.kind!r}{did_you_mean(named.kind, known)}")
    return Ref(kind, namespace if kind.namespaced else "", named.name)


def names_of(kind: Kind, served_short_names: Sequence[str] = ()) -> Iterator[str]:
    """Every name of a kind that kubectl accepts, and the one that Samara prints, in lower case."""
    short_names = (*crds.short_names(kind), BUILT_IN_SHORT_NAMES.get(kind.plural), *served_short_names)
    for name in filter(None, (kind.name.lower(), kind.plural, *short_names)):
        yield name
        yield f"{name}.{kind.version}.{kind.group}"
        if kind.group:
            yield f"{name}.{kind.group}"
    yield str(kind).lower()
