"""What the contract suite takes from `examples/<vocabulary>/`: how sources ask for copies, and labels of namespaces.

So a new vocabulary is in the worlds of the contract suite as soon as it has examples. The namespaces of the examples
become those of the worlds, in the order in which the manifests name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml
from tests.support.pages import MANIFESTS

from samara.core.registry import Registry
from samara.core.source_type import Annotated

Json = dict[str, Any]


class Examples(NamedTuple):
    asks: tuple[dict[str, str], ...] = ()
    """The annotations of each source, with namespaces of the worlds in place of those of the example."""
    labels: tuple[dict[str, str], ...] = ()
    """The labels of each namespace."""


def examples_of(vocabulary: str, registry: Registry, namespaces: Sequence[str]) -> Examples:
    found = [source_type for source_type in registry.source_types if source_type.vocabulary == vocabulary]
    keys = {key for each in found if isinstance(each.source, Annotated) for key in each.source.metadata_keys}
    shown = list(_objects(vocabulary))
    spaces = {str(each["metadata"]["name"]): each["metadata"] for each in shown if each["kind"] == "Namespace"}
    renamed = {name: namespaces[number % len(namespaces)] for number, name in enumerate(spaces)}
    annotations = [each["metadata"].get("annotations") or {} for each in shown]
    asks = [{key: _renamed(value, renamed) for key, value in each.items() if key in keys} for each in annotations]
    return Examples(tuple(filter(None, asks)), tuple(dict(each.get("labels") or {}) for each in spaces.values()))


def _objects(vocabulary: str) -> Iterator[Json]:
    for path in MANIFESTS:
        if path.parent.name == vocabulary:
            yield from (document for document in yaml.safe_load_all(path.read_text()) if document)


def _renamed(text: str, names: dict[str, str]) -> str:
    """Whole names only: `shop` is not a part of `shop-dev`."""
    return re.sub(r"[-a-z0-9]+", lambda match: names.get(match[0], match[0]), text)
