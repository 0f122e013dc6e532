"""Compares custom resources with their definitions: the version, unknown fields and values of another type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from samara import crds
from samara.cli.lint.nodes import describe_type, describe_value, line_of, scalar
from samara.core.model import Kind
from samara.core.names import quoted

Schema = Mapping[str, Any]

_TYPES = {
    "object": ("a mapping", ("map",)),
    "array": ("a list", ("seq",)),
    "string": ("text in quotes", ("str",)),
    "boolean": ("true or false", ("bool",)),
    "integer": ("a whole number", ("int",)),
    "number": ("a number", ("int", "float")),
}
"""For each type of a schema: its name in findings, and the YAML tags of its values."""
_SERVER_FIELDS = frozenset({"apiVersion", "kind", "metadata", "status"})
"""Fields of every object that the server checks by rules of its own, or that it writes itself."""


class Misfit(NamedTuple):
    """A value that the server would refuse or drop."""

    path: str
    line: int
    node: yaml.Node
    found: str
    expected: str


class Part(NamedTuple):
    """A value of a manifest, and its schema."""

    path: str
    line: int
    node: yaml.Node
    schema: Schema | None
    """None for a field that is not in the definition."""
    known_fields: tuple[str, ...] = ()
    """The fields that the definition has at this place."""


@lru_cache(maxsize=256)
def _versions(kind: Kind) -> tuple[Schema, ...]:
    """The versions in the definition of a kind. Empty if we do not ship a definition of it."""
    return tuple(version for name in crds.needed([kind]) for version in crds.definition(name)["spec"]["versions"])


def served_versions(kind: Kind) -> tuple[str, ...]:
    """The API versions in which the definition serves a kind."""
    served = tuple(f"{kind.group}/{version['name']}" for version in _versions(kind) if version["served"])
    return served or (kind.api_version,)


def misfits(kind: Kind, api_version: str, root: yaml.MappingNode) -> Iterator[Misfit]:
    """Unknown fields, and values of another type than the definition says."""
    for part in _parts(kind, api_version, root):
        if part.schema is None:
            names = f"{'one of ' if part.known_fields[1:] else ''}{', '.join(part.known_fields)}"
            expected = f"{names}: the server drops any other field"
            yield Misfit(part.path, part.line, part.node, "a field", expected)
        elif not _fits(part.node, part.schema):
            found = describe_type(part.node)
            if found != "a text":  # the content of a text may be a secret, so it is not shown
                found = describe_value(part.node)
            yield Misfit(part.path, part.line, part.node, found, _expected(part.schema))


def embedded(kind: Kind, api_version: str, root: yaml.MappingNode) -> Iterator[yaml.MappingNode]:
    """The objects inside of a custom resource."""
    for _, _, node, schema, _ in _parts(kind, api_version, root):
        if schema and schema.get("x-kubernetes-embedded-resource") and isinstance(node, yaml.MappingNode):
            yield node


def _parts(kind: Kind, api_version: str, root: yaml.MappingNode) -> Iterator[Part]:
    """Every value that the definition describes, and every unknown field.

    A manifest of an unknown version is compared with the first version of the definition.
    """
    versions = {f"{kind.group}/{version['name']}": version["schema"]["openAPIV3Schema"] for version in _versions(kind)}
    schema: Schema = versions.get(api_version) or next(iter(versions.values()), {})
    waiting = [Part("", line_of(root), root, schema)]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += _items(part) if isinstance(part.node, yaml.SequenceNode) else _fields(part)


def _items(part: Part) -> Iterator[Part]:
    items = (part.schema or {}).get("items")
    for number, item in enumerate(part.node.value if items else ()):
        yield Part(f"{part.path}[{number}]", line_of(item), item, items)


def _fields(part: Part) -> Iterator[Part]:
    """The fields of a mapping. Null counts as absent in a field of the definition, but not under a free key."""
    schema = part.schema or {}
    fields: Schema = schema.get("properties") or {}
    values: Schema | None = schema.get("additionalProperties")
    is_closed = fields and not values and not schema.get("x-kubernetes-preserve-unknown-fields")
    known = tuple(name for name in fields if part.path or name not in _SERVER_FIELDS)
    for key, value in part.node.value if isinstance(part.node, yaml.MappingNode) else ():
        name = scalar(key)
        path = f"{part.path}.{quoted(name)[1:-1]}" if part.path else quoted(name)[1:-1]
        if not part.path and name in _SERVER_FIELDS:
            continue
        if name in fields:
            if describe_type(value) != "null":
                yield Part(path, line_of(key), value, fields[name])
        elif values or is_closed:
            yield Part(path, line_of(key), value, values or None, known)


def _fits(node: yaml.Node, schema: Schema) -> bool:
    _, tags = _TYPES.get(schema.get("type", ""), ("", None))
    return tags is None or node.tag.rpartition(":")[2] in tags


def _expected(schema: Schema) -> str:
    values = schema.get("additionalProperties") or {}
    return "a mapping of keys to texts" if values.get("type") == "string" else _TYPES[schema["type"]][0]
