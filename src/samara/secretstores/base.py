"""What all secret stores share: locations, contents, and the ways in which a read can fail."""

# ruff: noqa: N818 - named for what happened, as in `kube.errors`

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import ClassVar, Literal, NamedTuple, Protocol

import msgspec

from samara.core.model import Ref
from samara.core.names import quoted
from samara.core.queries import FIELD_SEPARATOR, path_fault

MAX_VALUE = 1024 * 1024
"""Bytes of one value. The API server accepts no larger Secret."""
_NOT_JSON = (msgspec.MsgspecError, UnicodeError, RecursionError)


class StoreError(Exception):
    """A read has failed. The message says what was expected, what was found and what to do; it never holds a value."""

    result: ClassVar[str]
    """The label of this outcome in the metric `samara_provider_calls_total`."""


class Unavailable(StoreError):
    """The store does not answer, or cannot answer now. For a while, none of its documents is read."""

    result = "unavailable"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unauthenticated(StoreError):
    """The store does not accept our credentials: they are wrong, expired or revoked."""

    result = "unauthenticated"


class Forbidden(StoreError):
    """The store does not let us read this document. Some stores also answer this for a document that does not exist."""

    result = "denied"


class NotFound(StoreError):
    """The document does not exist, or lacks this field."""

    result = "absent"


class Unusable(StoreError):
    """The store cannot have such a path, or its content cannot be a value of a Secret."""

    result = "unfit"


class StoreConfigError(Exception):
    """No store can be opened from the configuration. `reason` becomes the reason of the condition."""

    def __init__(self, reason: Literal["TokenError", "ConnectionError"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


def bad_url(message: str) -> StoreConfigError:
    return StoreConfigError("ConnectionError", f"the url: {message}")


def bad_ca() -> StoreConfigError:
    message = "the configuration's key ca.crt: expected certificates in PEM, found none that can be read"
    return StoreConfigError("ConnectionError", message)


def config_text(config: Mapping[str, bytes], key: str) -> str:
    """One line of the configuration without surrounding whitespace. Empty if the key is missing."""
    text = config.get(key, b"").decode("utf-8", "replace").strip()
    if not text.isascii() or not text.isprintable():
        message = f"the configuration's key {key}: expected one line of plain text, found something else"
        raise StoreConfigError("TokenError", message)
    return text


def is_loopback(host: str) -> bool:
    """True if traffic to the host cannot leave this machine, even with a wrong answer from DNS."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Location(NamedTuple):
    """Where a value is. A store reads documents; one document may hold the values of many locations."""

    document: str
    field: str = ""


def check_path(path: str) -> None:
    """Raises `Unusable` for a path that no store accepts."""
    fault = path_fault(path)
    if fault is not None:
        raise Unusable(f"the path {quoted(path)} {fault}")


def split_path(path: str) -> Location:
    """The document and the field after its `#`, without the leading slash of the document. Raises `Unusable`."""
    check_path(path)
    document, _, field = path.partition(FIELD_SEPARATOR)
    return Location(document.removeprefix("/"), field)


class Content(Protocol):
    """The answer to one read. All of its values were read at the same time."""

    def value(self, field: str) -> bytes:
        """The value of this field. Raises `NotFound` or `Unusable`."""


@dataclass(frozen=True, slots=True)
class SingleValue:
    """Content that is one value."""

    content: bytes = field(repr=False)

    def value(self, field: str) -> bytes:
        return check_size(self.content)


@dataclass(frozen=True, slots=True)
class NamedValues:
    """Content with one value for each name, as in a Secret."""

    values: Mapping[str, bytes] = field(repr=False)

    def value(self, field: str) -> bytes:
        if field not in self.values:
            raise NotFound(f"the document has no field {field!r}")
        return check_size(self.values[field])


@dataclass(frozen=True, slots=True)
class JsonObject:
    """Content that is a JSON object."""

    fields: Mapping[str, msgspec.Raw] = field(repr=False)

    def value(self, field: str) -> bytes:
        """A string becomes its text. Any other value becomes JSON without spaces, with numbers as the store wrote
        them."""
        if field not in self.fields:
            raise NotFound(f"there is no field {quoted(field)}")
        raw = bytes(self.fields[field]).strip()
        try:
            value = msgspec.json.decode(raw).encode() if raw[:1] == b'"' else _compact(raw)
        except _NOT_JSON:
            raise Unusable(f"the field {quoted(field)} is not text") from None
        return check_size(value)


@dataclass(frozen=True, slots=True)
class TextOrJson:
    """Content that is one value. A location with a field reads it as a JSON object."""

    content: bytes = field(repr=False)

    def value(self, field: str) -> bytes:
        """A field is the key of exactly this name or, if there is none, a path through nested objects: `db.port`."""
        if not field:
            return check_size(self.content)
        entries = _json_entries(self.content)
        if entries is None:
            raise Unusable(
                f"expected a JSON object with the field {quoted(field)}, found other content; "
                f"leave out {FIELD_SEPARATOR}…"
            )
        *outer, last = (field,) if field in entries else field.split(".")
        for name in outer:
            entries = (_json_entries(entries[name]) if name in entries else None) or {}
        if last not in entries:
            raise NotFound(f"there is no field {quoted(field)}")
        return JsonObject(entries).value(last)


def _json_entries(content: bytes | msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    try:
        return msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except _NOT_JSON:
        return None


def _compact(raw: bytes) -> bytes:
    compact = msgspec.json.format(raw, indent=-1)
    compact.decode()  # msgspec does not check that the strings are UTF-8 here
    return compact


def check_size(value: bytes) -> bytes:
    """Returns the value. Raises `Unusable` if a Secret cannot hold it."""
    if len(value) > MAX_VALUE:
        raise Unusable(f"a value of at most {MAX_VALUE} bytes was expected, found more")
    return value


@dataclass(frozen=True, slots=True)
class KubeSecret:
    """The type and the data of a Secret in this cluster."""

    type: str
    data: Mapping[str, bytes] = field(repr=False)


ReadSecret = Callable[[str, str], Awaitable[KubeSecret]]
"""Reads the Secret of this namespace and name from the API server once. Raises a `StoreError`."""


class StoreContext(NamedTuple):
    """What a store gets besides the content of its configuration."""

    read_secret: ReadSecret
    config: Ref
    """The Secret that holds the configuration."""
    own_namespace: str
    """The operator's own."""


class Store(Protocol):
    """One connection to one secret manager, reused for every read."""

    @property
    def scheme(self) -> str:
        """The name of the store in metrics: `fishykeys`, `vault`, `aws-sm`, `kube` or `file`."""

    def locate(self, path: str) -> Location:
        """Parses a path without any I/O. Raises `Unusable`."""

    async def read(self, document: str) -> Content:
        """Reads a document once. The caller sets the deadline. Raises a `StoreError`."""

    async def close(self) -> None:
        """Closes the connection."""
