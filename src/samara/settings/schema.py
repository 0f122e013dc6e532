"""The words in which settings are declared: types, and fields that carry key, default and description."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from samara.settings.faults import scalar

T = TypeVar("T")


class UnfitError(ValueError):
    """A value its type does not accept; the message, if any, is a hint."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar: `read` returns the parsed value or raises UnfitError, `show` gives the YAML of a parsed value.

    `form` is what it accepts in the manual's few words, `expects` in those of an error. `pattern`, where there is one,
    is what a text must match as a whole, for those who check it without us.
    """

    form: str
    expects: str
    read: Callable[[object], object]
    show: Callable[[Any], str] = scalar
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping read into a dataclass whose fields were declared by `setting`."""

    into: type[Any]

    @property
    def form(self) -> str:
        return f"{{{', '.join(keys_of(self.into))}}}"

    @property
    def expects(self) -> str:
        return f"a mapping with {', '.join(keys_of(self.into))}"


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Leaf | Record
    least: int = 0

    @property
    def form(self) -> str:
        return f"[{self.item.form}, …]"

    @property
    def expects(self) -> str:
        return f"a list{' that is not empty' if self.least else ''}, each item {self.item.expects}"


@dataclass(frozen=True, slots=True)
class Nullable:
    inner: Leaf | ListOf | Record

    @property
    def form(self) -> str:
        return f"{self.inner.form} | null"

    @property
    def expects(self) -> str:
        return f"{self.inner.expects}, or null"


@dataclass(frozen=True, slots=True)
class AsGiven:
    """Several keys of the mapping, each a list, kept unread under one field."""

    keys: tuple[str, ...]
    form: str = "list"
    expects: str = "a list or null"


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """The mapping of vocabulary names to their own settings."""

    form: str = "{name: settings}"
    expects: str = "a mapping that names at least one vocabulary (leave it out for all)"


Type = Leaf | Record | ListOf | Nullable | AsGiven | Vocabularies


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared field of a settings dataclass."""

    attribute: str
    type: Type
    about: str
    required: bool

    @property
    def key(self) -> str:
        first, *rest = self.attribute.split("_")
        return first + "".join(word.capitalize() for word in rest)

    @property
    def keys(self) -> tuple[str, ...]:
        return self.type.keys if isinstance(self.type, AsGiven) else (self.key,)


def setting(default: T, type: Type, about: str, *, required: bool = False) -> T:
    """Declares a field: its default, its type and its line in the manual; the YAML key is its name in camelCase."""
    # A factory, because dataclasses refuse unhashable defaults such as a read-only mapping.
    declared: T = field(default_factory=lambda: default, metadata={"type": type, "about": about, "required": required})
    return declared


def settings_of(record: type[Any]) -> tuple[Setting, ...]:
    return tuple(Setting(each.name, **each.metadata) for each in fields(record))


def keys_of(record: type[Any]) -> tuple[str, ...]:
    return tuple(key for each in settings_of(record) for key in each.keys)
