"""kubectl's JSONPath templates, for `-o jsonpath=…`: `{range .sources[*]}{.name}{"\\n"}{end}`.

No I/O. A template is parsed once, and a mistake in it is an error before anything is read. What kubectl prints for a
template, this prints too. Beyond kubectl, `[*]` accepts an object, a filter compares each value of a path that has
several, and `null` is a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from samara.cli.output import printable
from samara.kube.errors import SamaraError

Json = Any

EXAMPLE = "{.sources[*].name}"
_NAME = re.compile(r"(?:\\.|[^\\\s.,\[\]{}()$@'\"=!<>&|~?*])+")
_ESCAPED = re.compile(r"\\(.)")
_LONE_DOT = re.compile(r"\.(?=[\s})\[])")
"""The current value itself, or its brackets: `{.}` or `{.['a']}`."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_SLICE = re.compile(r"(-?\d+)?(?:(:)(-?\d+)?(?::(-?\d+)?)?)?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_WORD = re.compile(r"[a-z]+\b")
_SPACE = re.compile(r"\s*")
_WORDS = {"true": True, "false": False, "null": None}


class TemplateError(SamaraError):
    """A template that cannot be parsed, or that does not fit the answer."""


# a parsed template


@dataclass(frozen=True, slots=True)
class Field:
    name: str


@dataclass(frozen=True, slots=True)
class Index:
    number: int


@dataclass(frozen=True, slots=True)
class Slice:
    start: int | None
    stop: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Children:
    """Every value of a list or of an object."""


@dataclass(frozen=True, slots=True)
class Descendants:
    """The value itself, and every value below it."""


@dataclass(frozen=True, slots=True)
class Union:
    alternatives: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    left: Operand
    operator: str = ""
    """Empty if the filter asks only whether the left side exists."""
    right: Operand | None = None


Step = Field | Index | Slice | Children | Descendants | Union | Filter


@dataclass(frozen=True, slots=True)
class Path:
    """The steps from the current value, which is the whole answer outside of a range. `$` and `@` both mean it."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | float | bool | None


Operand = Path | Literal


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Range:
    """Its parts are printed for every value of its path."""

    path: Path
    parts: tuple[Part, ...]


Part = Text | Path | Range


@dataclass(frozen=True, slots=True)
class Template:
    parts: tuple[Part, ...]

    def render(self, answer: Json) -> str:
        """Raises `TemplateError` if the template does not fit the answer, such as an index beyond a list."""
        return "".join(_render(self.parts, answer))


def parse_template(text: str) -> Template:
    """Raises `TemplateError` if the text is no template."""
    return _Parser(text).template()


# evaluation


def _render(parts: Sequence[Part], current: Json) -> Iterator[str]:
    for part in parts:
        match part:
            case Text():
                yield part.text
            case Path():
                yield " ".join(map(_as_text, _select(part.steps, [current])))
            case Range():
                for value in _select(part.path.steps, [current]):
                    yield from _render(part.parts, value)


def _as_text(value: Json) -> str:
    """Texts as they are, without control characters. Everything else as JSON."""
    if isinstance(value, str):
        return printable(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _select(steps: Iterable[Step], values: list[Json]) -> list[Json]:
    for step in steps:
        if isinstance(step, Union):
            values = [value for path in step.alternatives for value in _select(path.steps, values)]
        else:
            values = [value for parent in values for value in _below(step, parent)]
    return values


def _below(step: Field | Index | Slice | Children | Descendants | Filter, parent: Json) -> Iterable[Json]:
    """The values to which one step leads. A field that does not exist leads to none, as in kubectl."""
    match step:
        case Field(name):
            return [parent[name]] if isinstance(parent, dict) and name in parent else []
        case Index(number):
            return [_item(parent, number)]
        case Slice(start, stop, step_size):
            return _list(parent)[start:stop:step_size]
        case Children():
            return _children(parent)
        case Descendants():
            return _descendants(parent)
        case Filter():
            return [child for child in _children(parent) if _holds(step, child)]


def _item(parent: Json, number: int) -> Json:
    items = _list(parent)
    if not -len(items) <= number < len(items):
        raise TemplateError(f"[{number}]: expected a longer list, found one of {len(items)}")
    return items[number]


def _list(value: Json) -> Sequence[Json]:
    if not isinstance(value, list | tuple):
        raise TemplateError(f"[…]: expected a list, found {_type(value)}")
    return value


def _children(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _descendants(value: Json) -> Iterator[Json]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        waiting += reversed(_children(value))


def _holds(condition: Filter, child: Json) -> bool:
    """True if one of the values on the left compares with one on the right. A list that is too short has none."""
    left = _values(condition.left, child)
    if condition.right is None:
        return bool(left)
    right = _values(condition.right, child)
    return any(_compares(one, condition.operator, other) for one in left for other in right)


def _values(operand: Operand, child: Json) -> list[Json]:
    if isinstance(operand, Literal):
        return [operand.value]
    steps = (
        Slice(step.number, step.number + 1 or None, None) if isinstance(step, Index) else step for step in operand.steps
    )
    return _select(steps, [child])


def _compares(left: Json, operator: str, right: Json) -> bool:
    if operator in ("==", "!=") and (left is None or right is None):
        return (left is right) is (operator == "==")
    types = _type(left), _type(right)
    if types[0] != types[1] or types[0] not in ("a number", "a text", "true or false"):
        raise TemplateError(f"{operator}: expected two numbers or two texts, found {types[0]} and {types[1]}")
    match operator:
        case "==":
            return bool(left == right)
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def _type(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


# parsing


class _Parser:
    """Reads a template from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def template(self) -> Template:
        """Ranges that are open at the end are closed there, as in kubectl."""
        if "{" not in self._text:
            raise TemplateError(f"expected paths in braces such as {EXAMPLE}, found {self._text!r}")
        open_ranges: list[tuple[Path, list[Part]]] = []
        parts: list[Part] = []
        while self._at < len(self._text):
            if not self._take("{"):
                parts.append(self._literal())
                continue
            self._space()
            match self._word():
                case "range":
                    open_ranges.append((self._path(), parts))
                    parts = []
                case "end":
                    if not open_ranges:
                        raise self._mistake("a range before its end", "{end}")
                    parts = self._closed(open_ranges, parts)
                case _:
                    parts.append(self._action())
            self._expect("}", "at the end of an expression")
        while open_ranges:
            parts = self._closed(open_ranges, parts)
        return Template(tuple(parts))

    @staticmethod
    def _closed(open_ranges: list[tuple[Path, list[Part]]], parts: list[Part]) -> list[Part]:
        path, before = open_ranges.pop()
        return [*before, Range(path, tuple(parts))]

    def _literal(self) -> Text:
        end = self._text.find("{", self._at)
        start, self._at = self._at, len(self._text) if end < 0 else end
        return Text(self._text[start : self._at])

    def _word(self) -> str:
        """`range` or `end`, if that is next."""
        word = _WORD.match(self._text, self._at)
        if word is None or word[0] not in ("range", "end"):
            return ""
        self._at = word.end()
        return word[0]

    def _action(self) -> Text | Path:
        quoted = self._quoted()
        return self._path() if quoted is None else Text(_unquoted(quoted))

    def _path(self) -> Path:
        self._space()
        has_root = self._take("$") or self._take("@")
        if not has_root and self._peek() not in ("", ".", "[", "}"):
            raise self._mistake("a path that begins with . or [, a text in quotes, range or end")
        if _LONE_DOT.match(self._text, self._at):
            self._at += 1
        steps: list[Step] = []
        while step := self._step():
            steps += step
        return Path(tuple(steps))

    def _step(self) -> list[Step]:
        """The next part of a path. Empty at the end of the path."""
        if self._take(".."):
            return [Descendants()] if self._peek() == "[" else [Descendants(), self._name_or_all("..")]
        if self._take("."):
            return [self._name_or_all(".")]
        if self._take("["):
            return self._subscript()
        return []

    def _name_or_all(self, before: str) -> Field | Children:
        if self._take("*"):
            return Children()
        name = _NAME.match(self._text, self._at)
        if name is None:
            raise self._mistake(f"a name or * after {before}")
        self._at = name.end()
        return Field(_ESCAPED.sub(r"\1", name[0]))

    def _subscript(self) -> list[Step]:
        self._space()
        if self._take("*"):
            steps: list[Step] = [Children()]
        elif self._take("?"):
            steps = [self._filter()]
        else:
            alternatives = [self._item()]
            while self._take(","):
                alternatives.append(self._item())
            steps = list(alternatives[0].steps) if len(alternatives) == 1 else [Union(tuple(alternatives))]
        self._expect("]", "at the end of a subscript")
        return steps

    def _item(self) -> Path:
        """One name, index or slice in brackets."""
        self._space()
        quoted = self._quoted()
        if quoted is not None:
            return Path(tuple(_Parser(f".{quoted[1:-1]}").names()))
        numbers = _SLICE.match(self._text, self._at)
        if numbers is None or not numbers[0]:
            raise self._mistake("*, an index, a slice such as 0:2, a name in quotes or a filter ?(…)")
        start, colon, stop, step = numbers.groups()
        if step is not None and int(step) < 1:
            raise self._mistake("a step of 1 or more", step)
        self._at = numbers.end()
        self._space()
        if not colon:
            return Path((Index(int(start)),))
        return Path((Slice(*(None if number is None else int(number) for number in (start, stop, step))),))

    def names(self) -> list[Step]:
        """The steps of a name in quotes. A dot separates two names unless a backslash is in front of it."""
        steps: list[Step] = []
        while step := self._step():
            steps += step
        if self._at < len(self._text):
            raise self._mistake("a name in quotes")
        return steps

    def _filter(self) -> Filter:
        self._expect("(", "after ?")
        left = self._operand()
        operator = _OPERATOR.match(self._text, self._at)
        if operator is None:
            condition = Filter(left)
        else:
            self._at = operator.end()
            condition = Filter(left, operator[0], self._operand())
        self._expect(")", "after one comparison with ==, !=, <, <=, > or >=")
        self._space()
        return condition

    def _operand(self) -> Operand:
        self._space()
        quoted, number, word = self._quoted(), _NUMBER.match(self._text, self._at), _WORD.match(self._text, self._at)
        operand: Operand
        if quoted is not None:
            operand = Literal(_unquoted(quoted))
        elif number is not None:
            self._at, operand = number.end(), Literal(float(number[0]) if "." in number[0] else int(number[0]))
        elif word is not None and word[0] in _WORDS:
            self._at, operand = word.end(), Literal(_WORDS[word[0]])
        else:
            operand = self._path()
        self._space()
        return operand

    # characters

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        is_next = self._text.startswith(text, self._at)
        self._at += len(text) * is_next
        return is_next

    def _space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space is not None else self._at

    def _quoted(self) -> str | None:
        quoted = _QUOTED.match(self._text, self._at)
        if quoted is None:
            return None
        self._at = quoted.end()
        self._space()
        return quoted[0]

    def _expect(self, text: str, where: str) -> None:
        self._space()
        if not self._take(text):
            raise self._mistake(f"{text} {where}")

    def _mistake(self, expected: str, found: str = "") -> TemplateError:
        rest = self._text[self._at : self._at + 20]
        return TemplateError(f"expected {expected}, found {found or repr(rest) if rest or found else 'the end'}")


def _unquoted(quoted: str) -> str:
    """The text between quotes, with the escapes of JSON, and with single quotes that are escaped."""
    inner = quoted[1:-1].replace("\\'", "'")
    if quoted[0] == "'":
        inner = re.sub(r'(?<!\\)"', r"\"", inner)
    try:
        text: str = json.loads(f'"{inner}"', strict=False)
    except ValueError:
        raise TemplateError(f'expected only escapes such as \\n, \\t, \\" and \\\\ in quotes, found {quoted}') from None
    return text
