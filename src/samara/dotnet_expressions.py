""".NET regular expressions that tenants write, for names of namespaces: no pattern takes long, whatever it says.

`parse` reads a pattern into nodes. Most patterns are then given to RE2, which takes linear time; look-around at their
begin and end is asked separately. Any other pattern runs on a small machine that counts its steps, so that the limit
does not depend on the speed or the load of the computer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final, NamedTuple

from samara.regular_expressions import Regexp, RegexpError, compile_regexp

MAX_LENGTH = 1000
"""Characters of one pattern."""
MAX_STEPS = 50_000
"""Steps that the machine takes for one name: less than 100 milliseconds."""
MAX_STEPS_TOGETHER = 150_000
"""Steps for all names that one source is compared with in one plan. The operator does nothing else meanwhile."""
_MAX_PROGRAM = 5_000
"""Instructions of one pattern. Repetitions within repetitions multiply them."""
_MAX_DEPTH = 50
"""Groups within groups."""
_CHARS: Final = frozenset(ascii_lowercase + digits + "-")
"""The characters of a namespace's name. Of every character class only these matter."""
_WORD = frozenset(ascii_lowercase + digits)
_MANY: Final = -1


class PatternError(ValueError):
    """The text is no .NET regular expression, or is one that is not served. The message says why."""


# --- Nodes ------------------------------------------------------------------------------------------------------------


class Chars(NamedTuple):
    """One character of a set."""

    allowed: frozenset[str]


class Anchor(NamedTuple):
    """A position: `^`, `$`, `b` or `B`."""

    kind: str


class Sequence(NamedTuple):
    items: tuple[Node, ...]


class Choice(NamedTuple):
    """The first alternative that leads to a match is taken."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    body: Node
    least: int
    most: int
    lazy: bool


class Group(NamedTuple):
    body: Node
    number: int


class Look(NamedTuple):
    """Looks ahead or behind without moving."""

    body: Node
    ahead: bool
    positive: bool


class Atomic(NamedTuple):
    """A group that is not entered again once it has matched."""

    body: Node


class Back(NamedTuple):
    """What a group has matched."""

    group: str


Node = Chars | Anchor | Sequence | Choice | Repeat | Group | Look | Atomic | Back


# --- Parsing ----------------------------------------------------------------------------------------------------------

_CLASSES: dict[str, frozenset[str]] = {
    "d": frozenset(digits),
    "D": _CHARS - frozenset(digits),
    "w": _WORD,
    "W": _CHARS - _WORD,
    "s": frozenset(),
    "S": _CHARS,
}
_ANCHORS = {"A": "^", "G": "^", "Z": "$", "z": "$", "b": "b", "B": "B"}
_CONTROLS = dict(zip("abefnrtv", "\a\b\x1b\f\n\r\t\v", strict=True))


class _Parser:
    """Reads one pattern. Options that concern only line breaks change nothing, because no name has one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.groups = 0
        self.names: dict[str, int] = {}
        """The groups that a pattern can refer to, by name and by number."""
        self.unnamed: list[int] = []
        self.named: list[int] = []
        self.ignores_case = self.ignores_space = self.is_explicit = False

    def parse(self) -> Node:
        node = self.choice()
        if self.at < len(self.text):
            raise PatternError("too many )")
        for position, group in enumerate((*self.unnamed, *self.named), 1):  # .NET counts those with a name last
            self.names.setdefault(str(position), group)
        if not all(part.group in self.names for part in _parts(node) if isinstance(part, Back)):
            raise PatternError("it refers to a group that it does not have")
        return node

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        found = self.peek(text)
        self.at += len(text) if found else 0
        return found

    def next(self) -> str:
        if self.at >= len(self.text):
            raise PatternError("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str) -> str:
        start, stop = self.at, self.text.find(end, self.at)
        if stop < 0:
            raise PatternError(f"{end} is missing")
        self.at = stop + len(end)
        return self.text[start:stop]

    def choice(self) -> Node:
        options = [self.sequence()]
        while self.take("|"):
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self) -> Node:
        items: list[Node] = []
        while self.at < len(self.text) and not self.peek("|") and not self.peek(")"):
            if self.ignores_space and (self.text[self.at].isspace() or self.peek("#")):
                self.at = len(self.text) if self.peek("#") and "\n" not in self.text[self.at :] else self.at + 1
                continue
            node = self.atom()
            if node is not None:
                items.append(self.quantified(node))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def quantified(self, node: Node) -> Node:
        bounds = self.quantifier()
        if bounds is None:
            return node
        lazy = self.take("?")
        if self.quantifier() is not None:
            raise PatternError("a quantifier follows another one")
        return Repeat(node, *bounds, lazy)

    def quantifier(self) -> tuple[int, int] | None:
        for sign, bounds in (("*", (0, _MANY)), ("+", (1, _MANY)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        if not self.peek("{"):
            return None
        stop = self.text.find("}", self.at)
        first, comma, last = self.text[self.at + 1 : max(stop, self.at)].partition(",")
        if not _is_number(first) or (last and not _is_number(last)):
            return None  # then the brace is an ordinary character
        least, most = int(first), int(last) if last else (_MANY if comma else int(first))
        if least > _MAX_PROGRAM or most > _MAX_PROGRAM or 0 <= most < least:
            raise PatternError("the numbers of a quantifier are in the wrong order, or too large")
        self.at = stop + 1
        return least, most

    def atom(self) -> Node | None:
        char = self.next()
        match char:
            case "(":
                return self.group()
            case "[":
                return Chars(self.cased(self.char_class()))
            case "." | "^" | "$":
                return Chars(_CHARS) if char == "." else Anchor(char)
            case "\\":
                return self.escape()
            case "*" | "+" | "?":
                raise PatternError(f"nothing is before {char}")
            case _:
                return Chars(self.cased(frozenset(char)))

    def cased(self, chars: frozenset[str]) -> frozenset[str]:
        return _CHARS & (chars | {char.lower() for char in chars} if self.ignores_case else chars)

    # groups

    def group(self) -> Node | None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise PatternError(f"groups are nested more than {_MAX_DEPTH} deep")
        options = self.ignores_case, self.ignores_space, self.is_explicit
        node, keeps_options = self.group_body()
        if not keeps_options:
            self.ignores_case, self.ignores_space, self.is_explicit = options
        self.depth -= 1
        return node

    def group_body(self) -> tuple[Node | None, bool]:
        if not self.take("?"):
            return self.closed(None if self.is_explicit else ""), False
        for sign, ahead, positive in (("=", True, True), ("!", True, False), ("<=", False, True), ("<!", False, False)):
            if self.take(sign):
                return Look(self.closed(None), ahead, positive), False
        if self.take(":"):
            return self.closed(None), False
        if self.take(">"):
            return Atomic(self.closed(None)), False
        if self.take("#"):
            self.until(")")
            return None, False
        if self.peek("<") or self.peek("'"):
            return self.closed(self.group_name()), False
        return self.with_options()

    def group_name(self) -> str:
        name = self.until({"<": ">", "'": "'"}[self.next()])
        if "-" in name:
            raise PatternError("balancing groups are not served")
        if not name or not all(char.isalnum() or char == "_" for char in name):
            raise PatternError("the name of a group is not valid")
        return name

    def closed(self, name: str | None) -> Node:
        """The rest of a group. None: it is not captured; empty: it has a number only."""
        number = self.number(name) if name is not None else 0
        body = self.choice()
        if not self.take(")"):
            raise PatternError("a ) is missing")
        return Group(body, number) if number else body

    def number(self, name: str) -> int:
        if name in self.names:
            return self.names[name]
        self.groups += 1
        if name:
            self.names[name] = self.groups
        (self.named if name else self.unnamed).append(self.groups)
        return self.groups

    def with_options(self) -> tuple[Node | None, bool]:
        value = True
        while (sign := self.next()) not in ":)":
            if sign in "+-":
                value = sign == "+"
            elif sign == "i":
                self.ignores_case = value
            elif sign == "x":
                self.ignores_space = value
            elif sign == "n":
                self.is_explicit = value
            elif sign not in "ms":
                raise PatternError("a group begins with ? and something that is not served")
        return (None, True) if sign == ")" else (self.closed(None), False)

    # escapes and classes

    def escape(self) -> Node:
        char = self.next()
        if char in _ANCHORS:
            return Anchor(_ANCHORS[char])
        if char == "k" and (self.peek("<") or self.peek("'")):
            return Back(self.group_name())
        if char in "123456789":
            while self.at < len(self.text) and self.text[self.at] in digits:
                char += self.next()
            return Back(char)
        self.at -= 1
        return Chars(self.cased(self.set_escape()))

    def set_escape(self) -> frozenset[str]:
        char = self.next()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in "pP":
            category = self.until("}")[1:]
            inside = frozenset(char for char in _CHARS if unicodedata.category(char).startswith(category or "?"))
            return inside if char == "p" else _CHARS - inside
        return frozenset(self.one_char(char))

    def one_char(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in "xu":
            code = "".join(self.next() for _ in range(2 if char == "x" else 4))
            if not all(digit in "0123456789abcdefABCDEF" for digit in code):
                raise PatternError(f"\\{char} is not followed by hexadecimal digits")
            return chr(int(code, 16))
        if char == "c":
            return chr(ord(self.next().upper()) & 31)
        if char == "0":
            return "\0"
        if char.isalnum() or char == "_":
            raise PatternError(f"\\{char} has no meaning")
        return char

    def char_class(self) -> frozenset[str]:
        is_negated, chars, first = self.take("^"), set[str](), True
        while first or not self.peek("]"):
            if self.peek("[:") or (self.peek("-[") and not first):
                raise PatternError("a class within a class is not served")
            first = False
            low = self.class_item()
            if self.peek("-") and not self.peek("-]") and not self.peek("-["):
                self.at += 1
                high = self.class_item()
                if len(low) != 1 or len(high) != 1 or min(low) > min(high):
                    raise PatternError("a range in a class is in the wrong order")
                if self.ignores_case:
                    chars.update(char for char in ascii_lowercase if min(low) <= char.upper() <= min(high))
                chars.update(char for char in _CHARS | set(ascii_uppercase) if min(low) <= char <= min(high))
            else:
                chars |= low
        self.at += 1
        found = self.cased(frozenset(chars))
        return _CHARS - found if is_negated else found

    def class_item(self) -> frozenset[str]:
        char = self.next()
        return frozenset(char) if char != "\\" else self.set_escape()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _parts(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Sequence(inner) | Choice(inner):
            for part in inner:
                yield from _parts(part)
        case Repeat(body) | Group(body) | Look(body) | Atomic(body):
            yield from _parts(body)
        case _:
            pass


def _is_regular(node: Node) -> bool:
    """True if RE2 can match it."""
    return not any(isinstance(part, Look | Atomic | Back) for part in _parts(node))


# --- RE2 --------------------------------------------------------------------------------------------------------------


def _in_re2(node: Node) -> str:
    match node:
        case Chars(allowed):
            chars = "".join(sorted(allowed))  # the hyphen comes first
            return f"[{chars}]" if chars else r"[^\x00-\x{10FFFF}]"
        case Anchor(kind):
            return {"^": r"\A", "$": r"\z", "b": r"\b", "B": r"\B"}[kind]
        case Sequence(items):
            return "".join(map(_in_re2, items))
        case Choice(options):
            return f"(?:{'|'.join(map(_in_re2, options))})"
        case Repeat(body, least, most, lazy):
            bounds = f"{{{least},{'' if most == _MANY else most}}}"
            return f"(?:{_in_re2(body)}){bounds}{'?' if lazy else ''}"
        case Group(body):
            return f"(?:{_in_re2(body)})"
        case _:
            raise TypeError("expected a node that RE2 can match")


def _compiled(node: Node, before: str = "", after: str = "") -> Regexp:
    try:
        return compile_regexp(f"{before}(?:{_in_re2(node)}){after}")
    except RegexpError:  # repetitions of repetitions
        raise PatternError("it is too complex") from None


# --- The machine ------------------------------------------------------------------------------------------------------


class Steps:
    """Counts the steps of one plan."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS_TOGETHER

    def restart(self) -> None:
        self.left = MAX_STEPS_TOGETHER


class TooManySteps(Exception):  # noqa: N818 - a limit, no error
    """The machine took more steps than one name or one plan may take."""


_CHAR, _ANCHOR, _SPLIT, _JUMP, _SAVE, _LOOK, _ATOMIC, _BACK, _MARK, _MOVED, _END = range(11)


class _Program:
    """The instructions for a node. A state is an instruction, a position and the registers: the bounds of groups, and
    where a repetition began, so that one that matches nothing ends."""

    def __init__(self, node: Node, names: dict[str, int], groups: int) -> None:
        self.code: list[tuple[int, object, object]] = []
        self.names = names
        self.referred = {names[part.group] for part in _parts(node) if isinstance(part, Back)}
        self.registers = 2 * (groups + 1)
        self.main = self._program(node)

    def _program(self, node: Node) -> int:
        start = len(self.code)
        self._emit(node)
        self._add(_END)
        return start

    def _add(self, operation: int, first: object = None, second: object = None) -> int:
        if len(self.code) >= _MAX_PROGRAM:
            raise PatternError("it is too complex")
        self.code.append((operation, first, second))
        return len(self.code) - 1

    def _emit(self, node: Node) -> None:  # noqa: C901 - one branch for each node
        match node:
            case Chars(allowed):
                self._add(_CHAR, allowed)
            case Anchor(kind):
                self._add(_ANCHOR, kind)
            case Sequence(items):
                for item in items:
                    self._emit(item)
            case Choice(options):
                self._emit_choice(options)
            case Repeat():
                self._emit_repeat(node)
            case Group(body, number) if number not in self.referred:
                self._emit(body)
            case Group(body, number):
                self._add(_SAVE, 2 * number)
                self._emit(body)
                self._add(_SAVE, 2 * number + 1)
            case Look(body) | Atomic(body):
                jump = self._add(_JUMP)
                start = self._program(body)
                self.code[jump] = (_JUMP, len(self.code), None)
                self._add(*((_LOOK, start, node) if isinstance(node, Look) else (_ATOMIC, start)))
            case Back(group):
                self._add(_BACK, self.names[group])

    def _emit_choice(self, options: tuple[Node, ...]) -> None:
        jumps = []
        for option in options[:-1]:
            split = self._add(_SPLIT)
            self._emit(option)
            jumps.append(self._add(_JUMP))
            self.code[split] = (_SPLIT, split + 1, len(self.code))
        self._emit(options[-1])
        for jump in jumps:
            self.code[jump] = (_JUMP, len(self.code), None)

    def _emit_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self._emit(node.body)
        if node.most == _MANY:
            self._emit_endless(node)
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self._add(_SPLIT))
            self._emit(node.body)
        for split in splits:
            self._set_split(split, node.lazy)

    def _emit_endless(self, node: Repeat) -> None:
        split = self._add(_SPLIT)
        if isinstance(node.body, Chars):  # the common case, which always moves on
            self._emit(node.body)
        else:
            register, self.registers = self.registers, self.registers + 1
            self._add(_MARK, register)
            self._emit(node.body)
            self._add(_MOVED, register)
        self._add(_JUMP, split)
        self._set_split(split, node.lazy)

    def _set_split(self, split: int, lazy: bool) -> None:
        ways = (split + 1, len(self.code))
        self.code[split] = (_SPLIT, *(reversed(ways) if lazy else ways))

    def end(self, text: str, steps: Steps) -> int | None:
        """Where the first match at the begin of a text ends. None if there is none."""
        budget = _Budget(min(MAX_STEPS, steps.left))
        try:
            found = self._run(self.main, text, 0, (-1,) * self.registers, budget)
        finally:
            steps.left -= min(MAX_STEPS, steps.left) - max(budget.left, 0)
        return None if found is None else found[0]

    def _run(  # noqa: C901 - one branch for each instruction
        self, start: int, text: str, at: int, registers: tuple[int, ...], budget: _Budget, ends_at: int = -1
    ) -> tuple[int, tuple[int, ...]] | None:
        stack = [(start, at, registers)]
        left = budget.left  # a local variable, because this is the innermost loop
        while stack:
            pc, at, registers = stack.pop()
            while True:
                left -= 1
                if left < 0:
                    budget.left = left
                    raise TooManySteps
                operation, first, second = self.code[pc]
                pc += 1
                if operation == _CHAR:
                    if at >= len(text) or text[at] not in first:  # type: ignore[operator]
                        break
                    at += 1
                elif operation == _SPLIT:
                    stack.append((second, at, registers))  # type: ignore[arg-type]
                    pc = first  # type: ignore[assignment]
                elif operation == _JUMP:
                    pc = first  # type: ignore[assignment]
                elif operation == _END:
                    if ends_at in (-1, at):
                        budget.left = left
                        return at, registers
                    break
                elif operation in (_SAVE, _MARK):
                    left -= len(registers) // 8  # they are copied, and the stack may hold them all
                    registers = _with(registers, first, at)  # type: ignore[arg-type]
                elif operation == _MOVED:
                    if registers[first] == at:  # type: ignore[call-overload]
                        pc += 1  # behind the jump back: a body that matched nothing is not repeated
                else:
                    budget.left = left
                    moved = self._special((operation, first, second), text, at, registers, budget)
                    left = budget.left
                    if moved is None:
                        break
                    at, registers = moved
        budget.left = left
        return None

    def _special(
        self,
        instruction: tuple[int, object, object],
        text: str,
        at: int,
        registers: tuple[int, ...],
        budget: _Budget,
    ) -> tuple[int, tuple[int, ...]] | None:
        operation, first, look = instruction
        if operation == _ANCHOR:
            return (at, registers) if _holds(str(first), text, at) else None
        if operation == _BACK:
            return self._back(int(first), text, at, registers)  # type: ignore[call-overload]
        start = int(first)  # type: ignore[call-overload]
        if operation == _ATOMIC:
            return self._run(start, text, at, registers, budget)
        assert isinstance(look, Look)
        found = None
        for begin in (at,) if look.ahead else range(at, -1, -1):
            found = self._run(start, text, begin, registers, budget, -1 if look.ahead else at)
            if found is not None:
                break
        if (found is not None) is not look.positive:
            return None
        return at, found[1] if found is not None else registers

    @staticmethod
    def _back(group: int, text: str, at: int, registers: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        begin, end = registers[2 * group], registers[2 * group + 1]
        if begin < 0 or end < begin or not text.startswith(text[begin:end], at):
            return None
        return at + end - begin, registers


class _Budget:
    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps


def _with(registers: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*registers[:index], value, *registers[index + 1 :])


def _holds(anchor: str, text: str, at: int) -> bool:
    if anchor in "^$":
        return at == (0 if anchor == "^" else len(text))
    before, after = at > 0 and text[at - 1] in _WORD, at < len(text) and text[at] in _WORD
    return (before != after) is (anchor == "b")


# --- Patterns ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LookRegexp:
    """Look-around at the begin or at the end of a pattern."""

    regexp: Regexp
    positive: bool

    def holds(self, name: str) -> bool:
        return (self.regexp.search(name) is not None) is self.positive


@dataclass(frozen=True, slots=True)
class DotNetPattern:
    """A pattern that covers a name if its *first* match in it is the whole name."""

    text: str
    before: tuple[_LookRegexp, ...]
    """Look-ahead at the begin."""
    first: Regexp | None
    """The rest without the look-around at its end, at the begin of a name. None: only the machine can match it."""
    whole: Regexp | None
    """The same, for the whole name."""
    behind: tuple[_LookRegexp, ...]
    """Look-behind at the end."""
    program: _Program | None
    """The whole pattern, for the machine. None if it is never needed."""

    def covers(self, name: str, steps: Steps) -> bool:
        """Raises `TooManySteps`."""
        if not all(look.holds(name) for look in self.before):
            return False
        if self.first is not None and self.whole is not None:
            match = self.first.search(name)
            if match is not None and match.end() == len(name):
                if all(look.holds(name) for look in self.behind):
                    return True
                if self.program is None:
                    return False
            elif self.program is None or self.whole.search(name) is None:
                return False
        assert self.program is not None
        return self.program.end(name, steps) == len(name)


@lru_cache(maxsize=256)
def parse(text: str) -> DotNetPattern:
    """Raises `PatternError`."""
    if len(text) > MAX_LENGTH:
        raise PatternError(f"it has more than {MAX_LENGTH:,} characters")
    parser = _Parser(text)
    node = parser.parse()
    refers = any(isinstance(part, Back) for part in _parts(node))
    items: list[Node] = list(node.items) if isinstance(node, Sequence) else [node]
    before, items = _leading(items, refers)
    middle, behind = _trailing(items, refers)
    rest = Sequence(tuple(middle))
    is_simple = _is_regular(rest)
    needs_machine = not is_simple or bool(behind)
    return DotNetPattern(
        text,
        tuple(before),
        _compiled(rest, r"\A") if is_simple else None,
        _compiled(rest, r"\A", r"\z") if is_simple else None,
        tuple(behind),
        _Program(node, parser.names, parser.groups) if needs_machine else None,
    )


def _leading(items: list[Node], refers: bool) -> tuple[list[_LookRegexp], list[Node]]:
    """Takes the look-ahead off the begin. It holds or not whatever follows it."""
    looks: list[_LookRegexp] = []
    kept: list[Node] = []
    while items and isinstance(items[0], Look | Anchor):
        item = items[0]
        if isinstance(item, Look):
            if not item.ahead or not _is_regular(item.body) or (refers and _captures(item.body)):
                break
            looks.append(_LookRegexp(_compiled(item.body, r"\A"), item.positive))
        else:
            kept.append(item)
        items = items[1:]
    return looks, kept + items


def _trailing(items: list[Node], refers: bool) -> tuple[list[Node], list[_LookRegexp]]:
    """Takes the look-behind off the end."""
    looks: list[_LookRegexp] = []
    kept: list[Node] = []
    while items and isinstance(items[-1], Look | Anchor):
        item = items[-1]
        if isinstance(item, Look):
            if item.ahead or not _is_regular(item.body) or (refers and _captures(item.body)):
                break
            looks.append(_LookRegexp(_compiled(item.body, after=r"\z"), item.positive))
        else:
            kept.insert(0, item)
        items = items[:-1]
    return items + kept, looks


def _captures(node: Node) -> bool:
    return any(isinstance(part, Group) for part in _parts(node))
