"""JSON as the nodes that PyYAML makes of YAML: not all that kubectl takes as JSON is YAML to PyYAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]|[^\s,:"\[\]{}]+')
_SPACE = re.compile(r"[ \t\r\n]*")
_TAG = "tag:yaml.org,2002:"
_WORDS = {"true": "bool", "false": "bool", "null": "null"}

Token = tuple[str, yaml.Mark]


def json_nodes(text: str) -> list[yaml.Node] | None:
    """The documents of a text of JSON, with their lines; None where it must be read as YAML."""
    begin = _after_space(text, 0)
    if not text.startswith("{", begin) or not _is_json(text, begin):
        return None
    tokens = _tokens(text)
    return [_node(token, tokens) for token in tokens]


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def _is_json(text: str, at: int) -> bool:
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refused)
    try:
        while at < len(text):
            at = _after_space(text, decoder.raw_decode(text, at)[1])
    except (ValueError, RecursionError):
        return False
    return True


def _refused(word: str) -> None:
    raise ValueError("NaN and the infinities are Python's, not JSON's")


def _tokens(text: str) -> Iterator[Token]:
    line = at = 0
    for match in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        yield match[0], yaml.Mark("", at, line, 0, None, 0)


def _node(token: Token, tokens: Iterator[Token]) -> yaml.Node:
    """Of a text that is known to be JSON: its commas and colons say no more than the order does."""
    text, mark = token
    if text not in ("{", "["):
        return _scalar(text, mark)
    inside: list[yaml.Node] = []
    # No generator: nested ones take the stack that C has, and a manifest may be nested 10,000 deep.
    while (inner := next(tokens))[0] not in ("}", "]"):
        inside.append(_node(inner, tokens))
    if text == "[":
        return yaml.SequenceNode(f"{_TAG}seq", inside, mark, mark)
    return yaml.MappingNode(f"{_TAG}map", list(zip(inside[::2], inside[1::2], strict=True)), mark, mark)


def _scalar(text: str, mark: yaml.Mark) -> yaml.ScalarNode:
    if text.startswith('"'):
        return yaml.ScalarNode(f"{_TAG}str", _whole(json.loads(text)), mark, mark, style='"')
    name = _WORDS.get(text) or ("int" if text.lstrip("-").isdecimal() else "float")
    return yaml.ScalarNode(_TAG + name, text, mark, mark)


def _whole(text: str) -> str:
    """With a sign for half a character, as the API server and kubectl read it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
