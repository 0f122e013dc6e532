"""The manifests that a person names: files, folders walked for YAML and JSON, or standard input."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from samara.cli.json_nodes import json_nodes
from samara.kube.errors import ConfigError

ENDINGS = frozenset({".yaml", ".yml", ".json"})
STDIN = "-"
LIST = "List"
TAB = "a tab"
MERGE = "tag:yaml.org,2002:merge"
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError)
"""What PyYAML raises for a text that it cannot read; the last two for a value that is not of its explicit tag."""
_HALF = re.compile("[\ud800-\udfff]")
_QUOTED = re.compile(r"'[^']{2,}'|\"[^\"]{2,}\"")


class Text(NamedTuple):
    """One file's content, by the name that messages use."""

    name: str
    text: str
    not_utf8_at: int | None = None
    """Where it is in another encoding, as a byte of it; the text is what stands before."""

    def line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1


def texts(names: Iterable[str]) -> Iterator[Text]:
    for name in names:
        if name == STDIN:
            yield _decoded(sys.stdin.buffer.read(), "<stdin>")
            continue
        for path in _paths(Path(name)):
            yield _read(path)


def _paths(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.rglob("*") if each.suffix in ENDINGS and each.is_file())
    if not found:
        raise ConfigError(f"{path}: expected files that end in {', '.join(sorted(ENDINGS))}, found none in this folder")
    return found


def _read(path: Path) -> Text:
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: expected a readable file, found: {error.strerror}") from error


def _decoded(raw: bytes, name: str) -> Text:
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return Text(name, raw.decode())
    except UnicodeDecodeError as error:
        return Text(name, raw[: error.start].decode(), error.start)


class Syntax(NamedTuple):
    line: int
    problem: str


def syntax(error: Exception, text: str) -> Syntax:
    """Where a text is not YAML, in words without any of the text: it may be a Secret's."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        problem = " ".join(part for part in (error.context, error.problem) if part).replace(r"character '\t'", TAB)
        return Syntax(mark.line + 1 if mark else 1, _QUOTED.sub("…", problem))
    if isinstance(error, yaml.reader.ReaderError):
        return Syntax(Text("", text).line(error.position), "a character that YAML does not allow")
    return Syntax(1, "nested too deeply" if isinstance(error, RecursionError) else "a value that cannot be read")


def documents(source: Text) -> list[Any]:
    """The documents of one file as plain values; the items of a list are documents too."""
    if source.not_utf8_at is not None:
        at = source.not_utf8_at
        raise ConfigError(f"{source.name}: expected UTF-8 text, found another encoding at byte {at}")
    try:
        loaded = _loaded(source.text)
    except NOT_YAML as error:
        found = syntax(error, source.text)
        # Without the cause: PyYAML's message quotes the line, and the line may hold a password.
        raise ConfigError(f"{source.name}: line {found.line}: expected YAML, found: {found.problem}") from None
    try:
        sent = [_sent(document) for document in loaded if document is not None]
    except (TypeError, ValueError, RecursionError):
        raise ConfigError(
            f"{source.name}: expected values that JSON has, found another, or one that holds itself"
        ) from None
    return [item for document in sent for item in _objects(document)]


def _loaded(text: str) -> list[Any]:
    nodes = json_nodes(text)
    if nodes is None:
        return list(yaml.load_all(text, Loader=_Plain))
    return [_Plain("").construct_document(node) for node in nodes]


def _sent(document: Any) -> Any:
    """As a server would get it: a key is text, and a value has an end."""
    return json.loads(json.dumps(document))


def _objects(document: Any) -> Iterator[Any]:
    """The document, or in place of a list its items; a list may hold lists."""
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict) and is_list(each.get("kind")) and isinstance(each.get("items"), list):
            waiting += [_item(item, each) for item in reversed(each["items"])]
        else:
            yield each


def is_list(kind: object) -> bool:
    return isinstance(kind, str) and kind.endswith(LIST)


def _item(item: Any, held_by: dict[str, Any]) -> Any:
    """With the kind that a list of one kind need not repeat."""
    kind = held_by["kind"].removesuffix(LIST)
    if not isinstance(item, dict) or item.get("kind") or item.get("apiVersion") or not kind:
        return item
    return {"apiVersion": held_by.get("apiVersion"), "kind": kind, **item}


class ManifestLoader(yaml.SafeLoader):
    """Refuses half a character, as kubectl does: it could not even be shown. What is merged in twice is there once."""

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if _HALF.search(node.value):
            raise yaml.composer.ComposerError(None, None, "found half a character", node.start_mark)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        merges = any(key.tag == MERGE for key, _ in node.value)
        super().flatten_mapping(node)
        if merges:  # what a mapping says itself comes last, and wins
            last = {
                key.value if isinstance(key, yaml.ScalarNode) else id(key): (key, value) for key, value in node.value
            }
            node.value = list(last.values())


class _Plain(ManifestLoader):
    """YAML as the API server reads it: a date is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and form are PyYAML's
        first: [(tag, regexp) for tag, regexp in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
