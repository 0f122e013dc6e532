"""Strict reading of YAML text: one document, no key twice, plain values only."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.reader import ReaderError

from samara.settings.faults import SettingsError, found

_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset(_PREFIX + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge"))


_NUMBERS = {
    f"{_PREFIX}int": re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)$"),
    f"{_PREFIX}float": re.compile(
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?$|[-+]?\.(?:inf|nan)$"
    ),
}


class _Loader(yaml.SafeLoader):
    """YAML without dates, sets and binaries: where the schema wants text, a date-like text stays text.

    A number is what people read: to YAML 1.1 `1:30` is ninety, and `010` is eight.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and form are PyYAML's
        first: [(tag, _NUMBERS.get(tag, regexp)) for tag, regexp in rules if tag in _TAGS]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012
        tag: construct for tag, construct in yaml.SafeLoader.yaml_constructors.items() if tag is None or tag in _TAGS
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError) as error:
            # PyYAML lets these through for a tag that its value does not fit, such as `!!int x`.
            problem = f"{found(node.value)} is not {node.tag.replace(_PREFIX, '!!')}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def read_text(text: str, name: str) -> object:
    """The document as plain values, None where it is empty."""
    try:
        return _document(text, name)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SettingsError(name, [f"line {line}: a character that YAML does not allow"]) from error
    except yaml.MarkedYAMLError as error:
        raise SettingsError(name, [_located(error)]) from error
    except RecursionError as error:
        raise SettingsError(name, ["nested too deeply"]) from error
    except (ValueError, OverflowError) as error:
        # PyYAML's scanner converts numbers in escapes and directives unchecked, and gives no line.
        raise SettingsError(name, ["not legal YAML: a number in an escape or a directive is out of range"]) from error


def _document(text: str, name: str) -> object:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        # Before construction, because there merging `<<` makes legal duplicates.
        faults = list(_duplicates(node))
        if faults:
            raise SettingsError(name, faults)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _located(error: yaml.MarkedYAMLError) -> str:
    if "single document" in (error.context or ""):
        return f"line {_line(error.problem_mark)}: found a second document, expected only one"
    within = f" {error.context}" if error.context else ""
    return f"line {_line(error.problem_mark or error.context_mark)}: not legal YAML:{within} {error.problem}"


def _line(mark: Any) -> int:
    return int(mark.line) + 1 if mark else 1


def _duplicates(root: yaml.Node) -> Iterator[str]:
    for node in _mappings(root):
        first: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line = _line(key.start_mark)
            if (key.tag, key.value) in first:
                yield f"line {line}: duplicate key {found(key.value)}, first on line {first[key.tag, key.value]}"
            else:
                first[key.tag, key.value] = line


def _mappings(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # an alias; it may even contain itself
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            waiting.extend(value for _, value in reversed(node.value))
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(reversed(node.value))
