"""Manifests as YAML nodes, so that everything found in one has a line. Values of a Secret are never looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from samara.cli.files import LIST, MERGE, NOT_YAML, TAB, ManifestLoader, Text, is_list, syntax
from samara.cli.json_nodes import json_nodes
from samara.core.names import quoted

_STRING = "tag:yaml.org,2002:str"
_NAMES = {"bool": "a boolean", "int": "a number", "float": "a number", "null": "null", "timestamp": "a date"}


class Finding(NamedTuple):
    """One thing that a person should correct."""

    file: str
    line: int
    key: str
    found: str
    expected: str


class Word(NamedTuple):
    """A label or annotation as it was written; the value is None where it is no text."""

    where: str
    key: str
    value: str | None
    found: str
    line: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file: the parts that a lint looks at."""

    file: str
    line: int
    api_version: str
    kind: str
    namespace: str
    type: Word | None
    words: tuple[Word, ...]
    root: yaml.MappingNode = field(repr=False)
    name: Word | None = None

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def finding(self, line: int, key: str, found: str, expected: str) -> Finding:
        return Finding(self.file, line, key, found, expected)


def manifests(text: Text) -> tuple[list[Manifest], list[Finding]]:
    """The objects of a file, and what is wrong with it as YAML, or as a manifest of whichever kind."""
    if text.not_utf8_at is not None:
        return [], [Finding(text.name, text.line(text.not_utf8_at), "", "another encoding", "UTF-8 text")]
    roots: list[yaml.Node] = []
    faults: list[Finding] = []
    try:
        # One by one: what stands before a syntax error is looked at too.
        for root in json_nodes(text.text) or yaml.compose_all(text.text, Loader=ManifestLoader):
            roots.append(root)  # noqa: PERF402
    except NOT_YAML as error:
        faults.append(_illegal(text, error))
    for root in roots:
        mappings = list(_mappings(root))
        faults += [fault for node in mappings for fault in _twice(text.name, node)]
        faults += _merge(text, mappings)
    items = [item for root in roots for item in _objects(root)]
    faults += [fault for item in items for fault in _shape(text.name, item)]
    return [_manifest(text.name, item) for item in items if _is_whole(item)], faults


def _illegal(text: Text, error: Exception) -> Finding:
    found = syntax(error, text.text)
    expected = "legal YAML" if TAB not in found.problem else "spaces: YAML is not indented by tabs"
    return Finding(text.name, found.line, "", f"not legal YAML: {found.problem}", expected)


def _merge(text: Text, mappings: list[yaml.MappingNode]) -> Iterator[Finding]:
    """Puts what each mapping merges in (`<<`) into it, with the lines on which it is written."""
    loader = ManifestLoader("")
    for node in mappings:
        try:
            loader.flatten_mapping(node)
        except NOT_YAML as error:
            yield _illegal(text, error)


def _objects(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    """The object, or in place of a list its items; a list may hold lists."""
    waiting, seen = [(root, root)], set()
    while waiting:
        node, item = waiting.pop()
        items = _child(item, "items")
        if is_list(scalar(_child(item, "kind"))) and isinstance(items, yaml.SequenceNode):
            waiting += [(each, _item(each, item)) for each in reversed(items.value)] if id(node) not in seen else []
            seen.add(id(node))  # an alias; it may even contain itself
        elif isinstance(item, yaml.MappingNode):
            yield item


def _is_whole(item: yaml.MappingNode) -> bool:
    """True for a Kubernetes object, and for a file of another format, with neither kind nor metadata."""
    return bool(scalar(_child(item, "kind")) or not _child(item, "metadata"))


def _shape(file: str, item: yaml.MappingNode) -> Iterator[Finding]:
    """What the server would not take for an object, and what would hide our words from it."""
    kind, meta = spot(item, "kind"), spot(item, "metadata")
    if not _child(item, "apiVersion") or meta.node is None:
        return  # a file of another format
    if not scalar(kind.node):
        yield Finding(file, kind.line, "kind", kind_of(kind.node), "the kind of the object, as Secret")
    texts = "a mapping of keys to texts"
    for path, expected in (("metadata", "a mapping"), ("metadata.labels", texts), ("metadata.annotations", texts)):
        at = spot(item, path)
        if at.node is not None and not isinstance(at.node, yaml.MappingNode) and kind_of(at.node) != "null":
            yield Finding(file, at.line, path, kind_of(at.node), expected)


def _item(item: yaml.Node, held_by: yaml.Node) -> yaml.Node:
    """With the kind that a list of one kind need not repeat."""
    kind, version = _child(held_by, "kind"), _child(held_by, "apiVersion")
    name = scalar(kind).removesuffix(LIST)
    if not isinstance(item, yaml.MappingNode) or _child(item, "kind") or _child(item, "apiVersion") or not name:
        return item
    given = [(_text("kind", item), _text(name, item)), (_text("apiVersion", item), _text(scalar(version), item))]
    return yaml.MappingNode(item.tag, [*given, *item.value], item.start_mark, item.end_mark)


def _text(value: str, where: yaml.Node) -> yaml.ScalarNode:
    return yaml.ScalarNode(_STRING, value, where.start_mark, where.end_mark)


def _manifest(file: str, root: yaml.MappingNode) -> Manifest:
    meta = _child(root, "metadata")
    return Manifest(
        file,
        line_of(root),
        scalar(_child(root, "apiVersion")),
        scalar(_child(root, "kind")),
        scalar(_child(meta, "namespace")),
        _field(root, "type"),
        (*_words("label", _child(meta, "labels")), *_words("annotation", _child(meta, "annotations"))),
        root,
        _field(meta, "name"),
    )


def held_in(manifest: Manifest, root: yaml.MappingNode) -> Manifest:
    """An object inside of another one."""
    return _manifest(manifest.file, root)


def _field(node: yaml.Node | None, name: str) -> Word | None:
    return next((word for word in _words(name, node) if word.key == name), None)


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if scalar(key) == name), None)


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def scalar(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


class Spot(NamedTuple):
    """Where a field stands, or where the nearest one above it stands that is there."""

    line: int
    node: yaml.Node | None
    """None where the field itself is not there."""


def spot(root: yaml.Node, path: str) -> Spot:
    """Follows a path such as `spec.list[0].name`.

    A key may hold dots and slashes, and may stand in brackets: of several keys that fit, the longest is meant.
    """
    node, line = root, line_of(root)
    while path:
        step = _step(node, path)
        if step is None:
            return Spot(line, None)
        marked, node, path = step
        line = line_of(marked)
    return Spot(line, node)


def _step(node: yaml.Node, path: str) -> tuple[yaml.Node, yaml.Node, str] | None:
    """The node that has the line, the one below it, and the rest of the path."""
    if isinstance(node, yaml.SequenceNode):
        number, _, rest = path.removeprefix("[").partition("]")
        if not number.isdecimal() or int(number) >= len(node.value):
            return None
        item = node.value[int(number)]
        return item, item, rest.removeprefix(".")
    fitting: list[tuple[str, yaml.Node, yaml.Node]] = []
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        name = f"[{scalar(key)}]" if path.startswith("[") else scalar(key)
        if path == name or (name and path.startswith((f"{name}.", f"{name}["))):
            fitting.append((name, key, value))
    if not fitting:
        return None
    name, marked, found = max(fitting, key=lambda each: len(each[0]))
    return marked, found, path[len(name) :].removeprefix(".")


def kind_of(node: yaml.Node | None) -> str:
    """What stands there, without saying it."""
    if not isinstance(node, yaml.ScalarNode):
        return "nothing" if node is None else "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    return "a text" if node.tag == _STRING else _NAMES.get(node.tag.rpartition(":")[2], "something else")


def as_json(node: yaml.Node | None) -> bytes | None:
    """A node as the API server would get it; None where it cannot be told."""
    if node is None:
        return b"{}"
    try:
        return json.dumps(yaml.SafeLoader("").construct_document(node), default=str).encode()
    except (*NOT_YAML, TypeError):
        return None


def _words(where: str, node: yaml.Node | None) -> Iterator[Word]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        text = scalar(value) if value.tag == _STRING else None
        yield Word(where, scalar(key), text, shown_node(value), line_of(key))


def shown_node(node: yaml.Node) -> str:
    """What stands there: a text is quoted, a number or a boolean follows its type."""
    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    if node.tag == _STRING:
        return quoted(node.value)
    name = _NAMES.get(node.tag.rpartition(":")[2], "something else")
    return name if name == "null" else f"{name} ({quoted(node.value)[1:-1]})"


def _mappings(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # an alias; it may even contain itself
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]
            yield node


def _twice(file: str, node: yaml.MappingNode) -> Iterator[Finding]:
    """A key twice in one mapping: YAML takes the last, the API server refuses it."""
    first: dict[str, int] = {}
    for key, _ in node.value:
        name, line = scalar(key), line_of(key)
        if name and key.tag != MERGE and name in first:
            yield Finding(file, line, name, f"the same key as on line {first[name]}", "every key once")
        first.setdefault(name, line)
