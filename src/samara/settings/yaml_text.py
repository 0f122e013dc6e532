"""Reads YAML text strictly (one document, no duplicate key, plain values only), and formats values for messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from yaml.reader import ReaderError

from samara.setting_types import PLAIN

LONGEST = 60
"""Characters of a value that a message repeats."""
HUGE = 10**18
"""Messages do not repeat integers beyond this."""


class SettingsError(Exception):
    """Settings that cannot be used. The message has one line per fault."""

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        self.faults = tuple(f"{name}: {fault}" for fault in faults)
        super().__init__("\n".join(self.faults))


def located(path: str, text: str) -> str:
    """A fault with the path of its key. The document itself has no path."""
    return f"{path}: {text}" if path else text


def is_plain_key(text: str) -> bool:
    """True if a message can show the key without quotes."""
    return PLAIN.fullmatch(text) is not None and len(text) <= LONGEST


def quoted(raw: object) -> str:
    """A YAML value on one line for a message. Lists and mappings are named, not shown."""
    if raw is None:
        return "null"
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return repr(raw if len(raw) <= LONGEST else raw[:LONGEST] + "…")
    if isinstance(raw, int | float):
        # Python refuses to print integers of more than 4,300 digits, which YAML can hold as hexadecimal.
        return "a huge number" if isinstance(raw, int) and abs(raw) > HUGE else str(raw)
    if isinstance(raw, list):
        return "a list" if raw else "an empty list"
    return "a mapping" if raw else "an empty mapping"


_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset(_PREFIX + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge"))


_NUMBERS = {
    f"{_PREFIX}int": re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)$"),
    f"{_PREFIX}float": re.compile(
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?$|[-+]?\.(?:inf|nan)$"
    ),
}


class _Loader(yaml.SafeLoader):
    """YAML without dates, sets and binaries, so that a text that looks like a date stays text.

    Only decimal numbers as people read them are numbers: YAML 1.1 reads `1:30` as ninety and `010` as eight.
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
            problem = f"{quoted(node.value)} is not {node.tag.replace(_PREFIX, '!!')}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def read_text(text: str, name: str) -> object:
    """The document as plain values; None if it is empty."""
    try:
        return _document(text, name)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SettingsError(name, [f"line {line}: a character that YAML does not allow"]) from error
    except yaml.MarkedYAMLError as error:
        raise SettingsError(name, [_message_of(error)]) from error
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
        # Before construction, where merging `<<` makes legal duplicates.
        faults = list(_duplicates(node))
        if faults:
            raise SettingsError(name, faults)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _message_of(error: yaml.MarkedYAMLError) -> str:
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
                yield f"line {line}: duplicate key {quoted(key.value)}, first on line {first[key.tag, key.value]}"
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
