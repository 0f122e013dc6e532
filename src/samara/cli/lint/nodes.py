"""Parses manifests into YAML nodes, so that every finding has a line. The values of a Secret are never read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from samara.cli.files import LIST, MERGE_TAG, NOT_YAML, TAB, ManifestLoader, Text, is_list, locate_syntax_error
from samara.cli.json_nodes import json_nodes
from samara.core.names import quoted

_STRING_TAG = "tag:yaml.org,2002:str"
_TYPE_NAMES = {"bool": "a boolean", "int": "a number", "float": "a number", "null": "null", "timestamp": "a date"}


class Finding(NamedTuple):
    """One thing that a person should correct."""

    file: str
    line: int
    key: str
    found: str
    expected: str


class Entry(NamedTuple):
    """A label, an annotation or another text of a manifest, as it is written there."""

    where: str
    """`label`, `annotation`, or the name of the field."""
    key: str
    value: str | None
    """None if the value is not a text."""
    description: str
    """The value as findings show it."""
    line: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file: the parts that the rules look at."""

    file: str
    line: int
    api_version: str
    kind: str
    namespace: str
    type: Entry | None
    metadata: tuple[Entry, ...]
    """Its labels and annotations."""
    root: yaml.MappingNode = field(repr=False)
    name: Entry | None = None

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def finding(self, line: int, key: str, found: str, expected: str) -> Finding:
        return Finding(self.file, line, key, found, expected)


def parse_manifests(text: Text) -> tuple[list[Manifest], list[Finding]]:
    """The objects of a file, and what is wrong with them as YAML, or as objects of any kind."""
    if text.not_utf8_at is not None:
        return [], [Finding(text.name, text.line(text.not_utf8_at), "", "another encoding", "UTF-8 text")]
    roots: list[yaml.Node] = []
    findings: list[Finding] = []
    try:
        # One by one, so that the documents in front of a syntax error are checked too.
        for root in json_nodes(text.text) or yaml.compose_all(text.text, Loader=ManifestLoader):
            roots.append(root)  # noqa: PERF402
    except NOT_YAML as error:
        findings.append(_syntax_finding(text, error))
    for root in roots:
        mappings = list(_mappings(root))
        findings += [finding for mapping in mappings for finding in _duplicate_keys(text.name, mapping)]
        findings += _flatten_merges(text, mappings)
    objects = [node for root in roots for node in _expand_lists(root)]
    findings += [finding for node in objects for finding in _malformed_fields(text.name, node)]
    return [manifest_of(text.name, node) for node in objects if _has_kind_or_no_metadata(node)], findings


def _syntax_finding(text: Text, error: Exception) -> Finding:
    line, problem = locate_syntax_error(error, text.text)
    expected = "legal YAML" if TAB not in problem else "spaces: YAML is not indented by tabs"
    return Finding(text.name, line, "", f"not legal YAML: {problem}", expected)


def _flatten_merges(text: Text, mappings: list[yaml.MappingNode]) -> Iterator[Finding]:
    """Adds the keys that a mapping merges in (`<<`) to it. They keep the lines on which they are written."""
    loader = ManifestLoader("")
    for mapping in mappings:
        try:
            loader.flatten_mapping(mapping)
        except NOT_YAML as error:
            yield _syntax_finding(text, error)


def _expand_lists(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    """The object itself, or the items of a List. Lists may be nested."""
    waiting, expanded = [(root, root)], set()
    while waiting:
        written, node = waiting.pop()
        items = _child(node, "items")
        if is_list(scalar(_child(node, "kind"))) and isinstance(items, yaml.SequenceNode):
            if id(written) not in expanded:  # an alias may name a list again, even inside of itself
                waiting += [(item, _with_kind(item, node)) for item in reversed(items.value)]
            expanded.add(id(written))
        elif isinstance(node, yaml.MappingNode):
            yield node


def _has_kind_or_no_metadata(node: yaml.MappingNode) -> bool:
    """True for a Kubernetes object, and for a file of another format, which has neither a kind nor metadata."""
    return bool(scalar(_child(node, "kind")) or not _child(node, "metadata"))


def _malformed_fields(file: str, node: yaml.MappingNode) -> Iterator[Finding]:
    """Fields that every object has, if the server would refuse their type."""
    kind, metadata = locate(node, "kind"), locate(node, "metadata")
    if not _child(node, "apiVersion") or metadata.node is None:
        return  # a file of another format
    if not scalar(kind.node):
        yield Finding(file, kind.line, "kind", describe_type(kind.node), "the kind of the object, such as Secret")
    texts = "a mapping of keys to texts"
    for path, expected in (("metadata", "a mapping"), ("metadata.labels", texts), ("metadata.annotations", texts)):
        located = locate(node, path)
        actual = describe_type(located.node)
        if located.node is not None and not isinstance(located.node, yaml.MappingNode) and actual != "null":
            yield Finding(file, located.line, path, actual, expected)


def _with_kind(item: yaml.Node, enclosing: yaml.Node) -> yaml.Node:
    """Adds the kind, which the items of a typed list such as SecretList may leave out."""
    kind, version = _child(enclosing, "kind"), _child(enclosing, "apiVersion")
    name = scalar(kind).removesuffix(LIST)
    if not isinstance(item, yaml.MappingNode) or _child(item, "kind") or _child(item, "apiVersion") or not name:
        return item
    added = [
        (_text_node("kind", item), _text_node(name, item)),
        (_text_node("apiVersion", item), _text_node(scalar(version), item)),
    ]
    return yaml.MappingNode(item.tag, [*added, *item.value], item.start_mark, item.end_mark)


def _text_node(text: str, place: yaml.Node) -> yaml.ScalarNode:
    return yaml.ScalarNode(_STRING_TAG, text, place.start_mark, place.end_mark)


def manifest_of(file: str, root: yaml.MappingNode) -> Manifest:
    """The manifest that a mapping is, at the top of a file or inside of another object."""
    metadata = _child(root, "metadata")
    labels, annotations = _child(metadata, "labels"), _child(metadata, "annotations")
    return Manifest(
        file,
        line_of(root),
        scalar(_child(root, "apiVersion")),
        scalar(_child(root, "kind")),
        scalar(_child(metadata, "namespace")),
        _entry(root, "type"),
        (*_entries("label", labels), *_entries("annotation", annotations)),
        root,
        _entry(metadata, "name"),
    )


def _entry(node: yaml.Node | None, name: str) -> Entry | None:
    return next((entry for entry in _entries(name, node) if entry.key == name), None)


def _entries(where: str, node: yaml.Node | None) -> Iterator[Entry]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        text = scalar(value) if value.tag == _STRING_TAG else None
        yield Entry(where, scalar(key), text, describe_value(value), line_of(key))


def _mappings(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    """Every mapping in a document, once."""
    waiting, visited = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in visited:  # an alias may name a node again, even inside of itself
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]
            yield node


def _duplicate_keys(file: str, mapping: yaml.MappingNode) -> Iterator[Finding]:
    """Keys that are twice in one mapping: YAML takes the last one, the API server refuses the object."""
    first_lines: dict[str, int] = {}
    for key, _ in mapping.value:
        name, line = scalar(key), line_of(key)
        if name and key.tag != MERGE_TAG and name in first_lines:
            yield Finding(file, line, name, f"the same key as on line {first_lines[name]}", "every key once")
        first_lines.setdefault(name, line)


# nodes


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if scalar(key) == name), None)


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def scalar(node: yaml.Node | None) -> str:
    """The text of a scalar. Empty for any other node."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


class Location(NamedTuple):
    """The place of a field. If it is absent, that of the nearest field above it."""

    line: int
    node: yaml.Node | None
    """None if the field is absent."""


def locate(root: yaml.Node, path: str) -> Location:
    """Follows a path such as `spec.list[0].name`.

    A key may contain dots and slashes, and may be in brackets. If several keys fit, the longest one is taken.
    """
    node, line = root, line_of(root)
    while path:
        step = _step(node, path)
        if step is None:
            return Location(line, None)
        key, node, path = step
        line = line_of(key)
    return Location(line, node)


def _step(node: yaml.Node, path: str) -> tuple[yaml.Node, yaml.Node, str] | None:
    """The key or item that a path begins with, the node below it, and the rest of the path. None if it is absent."""
    if isinstance(node, yaml.SequenceNode):
        number, _, rest = path.removeprefix("[").partition("]")
        if not number.isdecimal() or int(number) >= len(node.value):
            return None
        item = node.value[int(number)]
        return item, item, rest.removeprefix(".")
    matches: list[tuple[str, yaml.Node, yaml.Node]] = []
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        name = f"[{scalar(key)}]" if path.startswith("[") else scalar(key)
        if path == name or (name and path.startswith((f"{name}.", f"{name}["))):
            matches.append((name, key, value))
    if not matches:
        return None
    name, key, value = max(matches, key=lambda match: len(match[0]))
    return key, value, path[len(name) :].removeprefix(".")


def describe_type(node: yaml.Node | None) -> str:
    """The type of a node as findings show it, without its value."""
    if not isinstance(node, yaml.ScalarNode):
        return "nothing" if node is None else "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    return "a text" if node.tag == _STRING_TAG else _type_name(node)


def describe_value(node: yaml.Node) -> str:
    """The value of a node as findings show it: a text in quotes, a number or a boolean behind its type."""
    if not isinstance(node, yaml.ScalarNode):
        return describe_type(node)
    if node.tag == _STRING_TAG:
        return quoted(node.value)
    type_name = _type_name(node)
    return type_name if type_name == "null" else f"{type_name} ({quoted(node.value)[1:-1]})"


def _type_name(node: yaml.ScalarNode) -> str:
    return _TYPE_NAMES.get(node.tag.rpartition(":")[2], "something else")


def as_json(node: yaml.Node | None) -> bytes | None:
    """A node as JSON, as the API server would get it. None if JSON has no such value."""
    if node is None:
        return b"{}"
    try:
        return json.dumps(yaml.SafeLoader("").construct_document(node), default=str).encode()
    except (*NOT_YAML, TypeError):
        return None
