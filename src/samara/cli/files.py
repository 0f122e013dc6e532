"""Reads the manifests named on the command line: files, folders with YAML and JSON, or standard input."""

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
MERGE_TAG = "tag:yaml.org,2002:merge"
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError)
"""What PyYAML raises for invalid text. It raises the last two for a value that does not fit its explicit tag."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_QUOTED = re.compile(r"'[^']{2,}'|\"[^\"]{2,}\"")


class Text(NamedTuple):
    """The content of one file, and the name that messages use for it."""

    name: str
    text: str
    not_utf8_at: int | None = None
    """The offset of the first byte that is not UTF-8, or None. The text ends before it."""

    def line(self, position: int) -> int:
        """The number of the line at an offset."""
        return self.text.count("\n", 0, position) + 1


def read_texts(names: Iterable[str]) -> Iterator[Text]:
    """Reads files, the files in folders, and standard input for `-`."""
    for name in names:
        if name == STDIN:
            yield _decode(sys.stdin.buffer.read(), "<stdin>")
            continue
        for path in _paths(Path(name)):
            yield _read(path)


def _paths(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file())
    if not files:
        raise ConfigError(f"{path}: expected files that end in {', '.join(sorted(ENDINGS))}, found none in this folder")
    return files


def _read(path: Path) -> Text:
    try:
        return _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: expected a readable file, found: {error.strerror}") from error


def _decode(raw: bytes, name: str) -> Text:
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return Text(name, raw.decode())
    except UnicodeDecodeError as error:
        return Text(name, raw[: error.start].decode(), error.start)


class SyntaxProblem(NamedTuple):
    """Where and why a text is not YAML."""

    line: int
    problem: str


def locate_syntax_error(error: Exception, text: str) -> SyntaxProblem:
    """The line and the message of an error of PyYAML. Drops what PyYAML quotes, since the text may be a Secret."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        problem = " ".join(part for part in (error.context, error.problem) if part).replace(r"character '\t'", TAB)
        return SyntaxProblem(mark.line + 1 if mark else 1, _QUOTED.sub("…", problem))
    if isinstance(error, yaml.reader.ReaderError):
        return SyntaxProblem(Text("", text).line(error.position), "a character that YAML does not allow")
    return SyntaxProblem(1, "nested too deeply" if isinstance(error, RecursionError) else "a value that cannot be read")


def documents(source: Text) -> list[Any]:
    """The documents of one file as plain values. The items of a List count as documents."""
    if source.not_utf8_at is not None:
        raise ConfigError(f"{source.name}: expected UTF-8 text, found another encoding at byte {source.not_utf8_at}")
    try:
        loaded = _load(source.text)
    except NOT_YAML as error:
        line, problem = locate_syntax_error(error, source.text)
        # Without the cause: PyYAML quotes the line, which may hold a password.
        raise ConfigError(f"{source.name}: line {line}: expected YAML, found: {problem}") from None
    try:
        values = [_as_json(document) for document in loaded if document is not None]
    except (TypeError, ValueError, RecursionError):
        raise ConfigError(
            f"{source.name}: expected values that JSON has, found another, or one that holds itself"
        ) from None
    return [item for document in values for item in _expand_lists(document)]


def _load(text: str) -> list[Any]:
    nodes = json_nodes(text)
    if nodes is None:
        return list(yaml.load_all(text, Loader=_ValueLoader))
    return [_ValueLoader("").construct_document(node) for node in nodes]


def _as_json(document: Any) -> Any:
    """The value as JSON would transport it: keys become text, and recursive values are refused."""
    return json.loads(json.dumps(document))


def _expand_lists(document: Any) -> Iterator[Any]:
    """The document itself, or the items of a List. Lists may be nested."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict) and is_list(value.get("kind")) and isinstance(value.get("items"), list):
            waiting += [_with_kind(item, value) for item in reversed(value["items"])]
        else:
            yield value


def is_list(kind: object) -> bool:
    return isinstance(kind, str) and kind.endswith(LIST)


def _with_kind(item: Any, enclosing: dict[str, Any]) -> Any:
    """Adds the kind, which the items of a typed list such as SecretList may leave out."""
    kind = enclosing["kind"].removesuffix(LIST)
    if not isinstance(item, dict) or item.get("kind") or item.get("apiVersion") or not kind:
        return item
    return {"apiVersion": enclosing.get("apiVersion"), "kind": kind, **item}


class ManifestLoader(yaml.SafeLoader):
    """Reads like kubectl: refuses a lone surrogate, and keeps the last of several equal keys of a merge."""

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if _SURROGATE.search(node.value):
            raise yaml.composer.ComposerError(None, None, "found half a character", node.start_mark)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        has_merge = any(key.tag == MERGE_TAG for key, _ in node.value)
        super().flatten_mapping(node)
        if has_merge:  # PyYAML puts the mapping's own keys last, so they win
            by_key = {
                key.value if isinstance(key, yaml.ScalarNode) else id(key): (key, value) for key, value in node.value
            }
            node.value = list(by_key.values())


class _ValueLoader(ManifestLoader):
    """Reads values like the API server: a date is a text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and form are PyYAML's
        first: [(tag, regexp) for tag, regexp in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
