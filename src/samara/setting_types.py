"""The types of settings, with the values they accept and their descriptions in messages and the manual.

A setting is a field of a `Struct`; its key in YAML is its name in camelCase:

    home: Annotated[NamespaceName, about("the namespace whose Secrets are copied")] = "admin"

msgspec checks choices, booleans and numbers. A `Leaf` in the annotation reads a text that has a form of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from samara.core.kinds import is_refused
from samara.core.model import CONFIG_MAP, SECRET, Kind, KindName, ObjectName
from samara.core.names import is_label_value, is_namespace_name
from samara.core.vocabulary import Conflicts, CrossNamespace

FOREVER = "forever"
DURATION = "a duration such as 90s, 5m, 1h30m or 500ms"
KINDS_NEVER_COPIED = "kinds that grant rights, hold state of the cluster or request copies are never copied"

PLAIN = re.compile(r"[A-Za-z][-A-Za-z0-9_./]*")
"""Matches text that needs no quotes in YAML, unless it is one of `_SPECIAL`."""
_SPECIAL = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""YAML 1.1 reads these as something other than text."""


class Struct(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A mapping in the settings. Every field without a default must be given."""


class UnfitError(ValueError):
    """A value that a Leaf does not accept. The message, if there is one, is a hint for the user."""


# The shapes of values. The manual shows `form`, messages show `expects`.


def scalar(value: object) -> str:
    """A scalar as YAML that reads back as the same value."""
    is_plain = isinstance(value, str) and PLAIN.fullmatch(value) is not None and value.lower() not in _SPECIAL
    return str(value) if is_plain else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value, and how it is read from YAML."""

    form: str
    expects: str
    parse: Callable[[object], Any]
    """Returns the value of the setting, or raises UnfitError or msgspec.ValidationError."""
    show: Callable[[Any], str] = scalar
    """The YAML of a value."""
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "string"}, hash=False)
    """JSON Schema, for tools that check settings without the program; it may accept more than `parse`.

    Not in the hash: before Python 3.13, `FilePath | None` hashes what `Annotated` holds, and a mapping has no hash."""


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with the fields of a struct."""

    struct: type[Struct]

    @property
    def form(self) -> str:
        return f"{{{', '.join(keys_of(self.struct))}}}"

    @property
    def expects(self) -> str:
        return f"a mapping with {', '.join(keys_of(self.struct))}"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list whose items all have one shape."""

    item: Leaf | Record
    min_length: int

    @property
    def form(self) -> str:
        return f"[{self.item.form}, …]"

    @property
    def expects(self) -> str:
        return f"a list{' that is not empty' if self.min_length else ''}, each item {self.item.expects}"


@dataclass(frozen=True, slots=True)
class Nullable:
    """A value of another shape, or null."""

    inner: Leaf | ListOf | Record

    @property
    def form(self) -> str:
        return f"{self.inner.form} | null"

    @property
    def expects(self) -> str:
        return f"{self.inner.expects}, or null"


@dataclass(frozen=True, slots=True)
class Inline:
    """Several keys of the mapping itself, each a list or null. The field holds the given ones without checking them.

    A file can hold these keys instead. The reader puts its content into the field, so both are checked alike.
    """

    keys: tuple[str, ...]
    file: str
    """The attribute of the setting that names the file."""
    unreadable: str = ""
    """The beginning of the message about a file that does not hold such keys."""
    form: str = "list"
    expects: str = "a list or null"
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By key: what it holds, for a message about the file."""


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping from names to structs with at least one entry."""

    structs: Callable[[], Mapping[str, type[Struct]]]
    form: str
    expects: str


Shape = Leaf | Record | ListOf | Nullable | Inline | Named


class Setting(NamedTuple):
    """A field of a Struct."""

    attribute: str
    key: str
    shape: Shape
    about: str
    required: bool

    @property
    def keys(self) -> tuple[str, ...]:
        return self.shape.keys if isinstance(self.shape, Inline) else (self.key,)


def about(text: str, *, min_length: int | None = None) -> msgspec.Meta:
    """Describes a setting for the manual. `min_length` is the least length of a list."""
    return msgspec.Meta(description=text, min_length=min_length)


@cache
def settings_of(struct: type[Struct]) -> tuple[Setting, ...]:
    """The fields of a struct."""
    return tuple(
        Setting(field.name, field.encode_name, shape_of(field.type), _description(field.type), field.required)
        for field in msgspec.structs.fields(struct)
    )


def keys_of(struct: type[Struct]) -> tuple[str, ...]:
    """The keys that a mapping with the fields of this struct may have in YAML."""
    return tuple(key for setting in settings_of(struct) for key in setting.keys)


def _description(annotation: Any) -> str:
    descriptions = [meta.description for meta in _metadata(annotation) if isinstance(meta, msgspec.Meta)]
    return next(filter(None, descriptions), "")


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__metadata__", ())


def shape_of(annotation: Any) -> Any:
    """The shape that belongs to the type of a field."""
    metadata = _metadata(annotation)
    plain = annotation.__origin__ if metadata else annotation
    for item in metadata:
        if isinstance(item, Leaf | Inline | Named):
            return item
    if get_origin(plain) in (Union, UnionType):
        [inner] = (item for item in get_args(plain) if item is not NoneType)
        return Nullable(shape_of(inner))
    if get_origin(plain) is tuple:
        min_length = next((item.min_length for item in metadata if item.min_length), 0)
        return ListOf(shape_of(get_args(plain)[0]), min_length)
    if isinstance(plain, type) and issubclass(plain, Struct):
        return Record(plain)
    return _leaf(annotation, plain, metadata)


def _leaf(annotation: Any, plain: Any, metadata: tuple[msgspec.Meta, ...]) -> Leaf:
    """The leaf for a type that msgspec checks."""
    parse = partial(msgspec.convert, type=annotation)
    schema = {key: value for key, value in msgspec.json.schema(annotation).items() if key != "description"}
    if get_origin(plain) is Literal:
        choices = get_args(plain)
        return Leaf(" | ".join(choices), " or ".join(choices), parse, schema={"enum": list(choices)})
    if plain is bool:
        return Leaf("true | false", "true or false", parse, schema=schema)
    noun = {int: "a whole number", float: "a number"}[plain]
    low, high = (next((getattr(meta, end) for meta in metadata), None) for end in ("ge", "le"))
    show = scalar if plain is int else "{:g}".format
    if high is None:
        return Leaf(f">= {low}", f"{noun} of at least {low}", parse, show, schema)
    return Leaf(f"{low}..{high}", f"{noun} from {low} to {high}", parse, show, schema)


# The types.


def _matching(pattern: str, form: str, expects: str) -> Leaf:
    return _text(lambda raw: re.fullmatch(pattern, raw) is not None, form, expects)


def _text(accepts: Callable[[str], bool], form: str, expects: str) -> Leaf:
    def parse(raw: object) -> object:
        if not isinstance(raw, str) or not accepts(raw):
            raise UnfitError
        return raw

    return Leaf(form, expects, parse)


_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_KEY = r"[-A-Za-z0-9_.*?]"
_KIND = rf"(?:({_LABEL}(?:\.{_LABEL})*)/)?([a-z](?:[-a-z0-9]{{0,61}}[a-z0-9])?)/([A-Z][A-Za-z0-9]{{0,62}})"

_NAME = r"[a-z0-9][-a-z0-9.]{0,252}"


def _parse_kind(raw: object) -> KindName:
    match = re.fullmatch(_KIND, raw) if isinstance(raw, str) else None
    if match is None:
        raise UnfitError
    name = KindName(*match.groups(default=""))
    if is_refused(Kind(*name, plural="")):
        raise UnfitError(KINDS_NEVER_COPIED)
    return name


def _parse_object(raw: object) -> ObjectName:
    match = re.fullmatch(f"{_KIND}/({_NAME})", raw) if isinstance(raw, str) else None
    if match is None:
        raise UnfitError
    group, version, kind, name = match.groups(default="")
    return ObjectName(KindName(group, version, kind), name)


API_SERVER_AUDIENCE = "kubernetes.default.svc"
"""Part of the usual audience of the API server. It accepts tokens with that audience."""
_AUDIENCE = "[!-~]{1,253}"


def _parse_audience(raw: object) -> str:
    if not isinstance(raw, str) or re.fullmatch(_AUDIENCE, raw) is None or API_SERVER_AUDIENCE in raw:
        raise UnfitError
    return raw


# At most nine digits in each part, so that a float holds every sum exactly. No look-ahead, since some JSON Schema
# engines lack it.
_DURATION = "(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?(?:([0-9]{1,9})ms)?"
_UNITS = (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def parse_duration(text: str) -> float | None:
    """Seconds, or None if the text is not a duration such as `90s`, `5m`, `1h30m` or `500ms`."""
    if text == "0":
        return 0.0
    match = re.fullmatch(_DURATION, text)
    if not text or match is None:
        return None
    milliseconds = sum(int(part) * unit for part, (_, unit) in zip(match.groups(default="0"), _UNITS, strict=True))
    return milliseconds / 1000


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads as the same duration, to the millisecond."""
    if math.isinf(seconds):
        return FOREVER
    milliseconds = round(seconds * 1000)
    text = ""
    for name, unit in _UNITS:
        count, milliseconds = divmod(milliseconds, unit)
        text += f"{count}{name}" if count else ""
    return text or "0"


def _duration(*, zero: bool = False, forever: bool = False) -> Leaf:
    def parse(raw: object) -> float:
        if forever and raw == FOREVER:
            return math.inf
        is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
        if is_number and raw != 0:
            raise UnfitError("a number needs its unit")
        seconds = 0.0 if is_number else parse_duration(raw) if isinstance(raw, str) else None
        if seconds is None or (seconds == 0 and not zero):
            raise UnfitError
        return seconds

    others = (["0"] if zero else []) + ([FOREVER] if forever else [])
    expects = DURATION + ("" if zero else ", more than 0") + "".join(f", or {other}" for other in others)
    return Leaf(" | ".join(["duration", *others]), expects, parse, format_duration, _duration_schema(zero, forever))


def _duration_schema(zero: bool, forever: bool) -> dict[str, object]:
    """Accepts a text of at least one part. Unless zero is accepted, one digit must not be 0."""
    parts: dict[str, object] = {"type": "string", "minLength": 1, "pattern": f"^{_DURATION}$"}
    if zero:
        return {"anyOf": [parts, {"enum": ["0", 0]}]}
    above_zero = {**parts, "allOf": [{"pattern": "[1-9]"}]}
    return {"anyOf": [above_zero, {"const": FOREVER}]} if forever else above_zero


NamespaceName = Annotated[
    str, _text(is_namespace_name, "name", "a namespace name (at most 63 of a-z, 0-9 and '-', no '-' at the ends)")
]
LabelValue = Annotated[
    str,
    _text(
        lambda text: not text or is_label_value(text),
        "text",
        'a label value (at most 63 of A-Z, a-z, 0-9, - _ .) or ""',
    ),
]
NamespaceGlob = Annotated[
    str, _matching(r"[-a-z0-9*?]{1,63}", "glob", "a namespace name or glob (a-z, 0-9, '-', '*' and '?')")
]
NamespaceGlobOrTree = Annotated[
    str,
    _matching(
        rf"[-a-z0-9*?]{{1,63}}|tree:{_LABEL}",
        "glob",
        "a namespace name, a glob (a-z, 0-9, '-', '*' and '?'), or tree:<namespace> for it and all below it",
    ),
]
KeyGlob = Annotated[
    str, _matching(f"{_KEY}{{1,253}}(?:/{_KEY}{{1,63}})?", "glob", "a key such as example.com/team, or a glob of keys")
]
"""Of labels or annotations."""
PathGlob = Annotated[str, _matching(r"[!-~]{1,1024}", "glob", "a path or glob without spaces")]
Audience = Annotated[
    str,
    Leaf(
        "text",
        "an audience without spaces such as vault, and not that of the API server",
        _parse_audience,
        schema={"type": "string", "pattern": f"^{_AUDIENCE}$", "not": {"pattern": re.escape(API_SERVER_AUDIENCE)}},
    ),
]
FILE = _matching(r"[^\0]+", "file", "the path of a file")
FilePath = Annotated[str, FILE]
FieldManager = Annotated[
    str, _matching(r"[ -~]{1,128}", "name", "the name of a field manager (1 to 128 printable characters)")
]
CopiedKind = Annotated[
    KindName,
    Leaf(
        "kind",
        "a kind such as v1/Secret or apps/v1/Deployment",
        _parse_kind,
        str,
        {"type": "string", "pattern": f"^{_KIND}$"},
    ),
]
"""A kind whose objects are copied. The reader refuses the custom resources that ask for copies as well."""
CopiedObject = Annotated[
    ObjectName,
    Leaf(
        "object",
        "a kind and a name such as v1/ConfigMap/company-ca",
        _parse_object,
        str,
        {"type": "string", "pattern": f"^{_KIND}/{_NAME}$"},
    ),
]
"""The objects of one kind and name, in every namespace."""
Duration = Annotated[float, _duration()]
"""In seconds, and more than 0."""
DurationOrZero = Annotated[float, _duration(zero=True)]
Limit = Annotated[int, msgspec.Meta(ge=1)]
DurationOrForever = Annotated[float, _duration(forever=True)]


_SIZE_UNITS = {"": 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


def _parse_size(raw: object) -> int:
    match = re.fullmatch(r"([0-9]{1,12})(|Ki|Mi|Gi)", str(raw)) if type(raw) in (str, int) else None
    if match is None or not int(match[1]):
        raise UnfitError
    return int(match[1]) * _SIZE_UNITS[match[2]]


def format_size(size: int) -> str:
    """The shortest text that is read as the same size."""
    unit = next(unit for unit in ("Gi", "Mi", "Ki", "") if size % _SIZE_UNITS[unit] == 0)
    return f"{size // _SIZE_UNITS[unit]}{unit}"


Size = Annotated[
    int,
    Leaf(
        "size",
        "a number of bytes such as 16Mi, 512Ki or 4096, more than 0",
        _parse_size,
        format_size,
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": "^0*[1-9][0-9]*(Ki|Mi|Gi)?$"},
            ]
        },
    ),
]
"""In bytes."""


# Settings that mean the same in every vocabulary that has them.
Takeover = Annotated[bool, about("serve even if the original controller runs in this cluster")]
Managers = Annotated[tuple[FieldManager, ...], about("field managers of the original; their marks count as Samara's")]
OwnConflicts = Annotated[Conflicts | None, about("null: as the general `conflicts` says")]
OwnCrossNamespace = Annotated[
    CrossNamespace | None,
    about(
        "consent: a target namespace must accept copies; null: allow with tenancy open, consent with strict; "
        "a value here overrides tenancy"
    ),
]
SECRETS_AND_CONFIG_MAPS = tuple(KindName(kind.group, kind.version, kind.name) for kind in (SECRET, CONFIG_MAP))
