"""Parses JSON into PyYAML's nodes. PyYAML cannot do that itself, as it refuses some JSON that kubectl accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]|[^\s,:"\[\]{}]+')
_SPACE = re.compile(r"[ \t\r\n]*")
_TAG = "tag:yaml.org,2002:"
_TYPES_OF_WORDS = {"true": "bool", "false": "bool", "null": "null"}

Token = tuple[str, yaml.Mark]


def json_nodes(text: str) -> list[yaml.Node] | None:
    """The documents of a JSON text, with their lines. None if the text is not JSON, and so must be read as YAML."""
    start = _skip_space(text, 0)
    if not text.startswith("{", start) or not _is_json(text, start):
        return None
    tokens = _tokens(text)
    return [_node(token, tokens) for token in tokens]


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match is not None else position


def _is_json(text: str, position: int) -> bool:
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    try:
        while position < len(text):
            position = _skip_space(text, decoder.raw_decode(text, position)[1])
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(word: str) -> None:
    raise ValueError("NaN and the infinities are Python's, not JSON's")


def _tokens(text: str) -> Iterator[Token]:
    line = position = 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        yield match[0], yaml.Mark("", position, line, 0, None, 0)


def _node(token: Token, tokens: Iterator[Token]) -> yaml.Node:
    """The node that begins with a token. The text is known to be JSON, so commas and colons can be ignored."""
    text, mark = token
    if text not in ("{", "["):
        return _scalar(text, mark)
    children: list[yaml.Node] = []
    # A generator would use the C stack at each level, which is too small for a manifest that is nested 10,000 deep.
    while (child := next(tokens))[0] not in ("}", "]"):
        children.append(_node(child, tokens))
    if text == "[":
        return yaml.SequenceNode(f"{_TAG}seq", children, mark, mark)
    return yaml.MappingNode(f"{_TAG}map", list(zip(children[::2], children[1::2], strict=True)), mark, mark)


def _scalar(text: str, mark: yaml.Mark) -> yaml.ScalarNode:
    if text.startswith('"'):
        return yaml.ScalarNode(f"{_TAG}str", _replace_lone_surrogates(json.loads(text)), mark, mark, style='"')
    name = _TYPES_OF_WORDS.get(text) or ("int" if text.lstrip("-").isdecimal() else "float")
    return yaml.ScalarNode(_TAG + name, text, mark, mark)


def _replace_lone_surrogates(text: str) -> str:
    """Puts U+FFFD in place of half of a surrogate pair, as the API server and kubectl do."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
