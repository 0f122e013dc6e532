"""What every secret manager is to us: a store of documents, and the ways in which reading one can fail."""

# ruff: noqa: N818 - named for what happened, as in `kube.errors`

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, NamedTuple, Protocol

from samara.core.match import shown
from samara.core.paths import MARK, fault_of

MOST = 1024 * 1024
"""Bytes of a value; a Secret as a whole holds no more."""


class StoreError(Exception):
    """Reading has failed. The text is for people: what was expected, what was found, what to do; never a value."""


class Unavailable(StoreError):
    """The manager does not answer, or not now: nobody asks it anything for a while."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unauthenticated(StoreError):
    """The manager does not know us any more: our credentials are wrong, old or used up."""


class Denied(StoreError):
    """The manager will not show this document to us; some say so of what is not there, too."""


class Absent(StoreError):
    """The manager says that there is no such document, or the document that it has no such field."""


class Unfit(StoreError):
    """The path cannot be meant, or what is there cannot be a value of a Secret."""


class ConfigFault(Exception):
    """The configuration does not make a store; `reason` is the condition's."""

    def __init__(self, reason: Literal["TokenError", "ConnectionError"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


def wrong_url(message: str) -> ConfigFault:
    return ConfigFault("ConnectionError", f"the url: {message}")


def wrong_authorities() -> ConfigFault:
    fault = "the configuration's key ca.crt: expected certificates in PEM, found none that can be read"
    return ConfigFault("ConnectionError", fault)


def text_of(config: Mapping[str, bytes], key: str) -> str:
    """One line of the configuration, without the newline that editors add; empty where the key is missing."""
    text = config.get(key, b"").decode("utf-8", "replace").strip()
    if not text.isascii() or not text.isprintable():
        raise ConfigFault("TokenError", f"the configuration's key {key}: expected one line of plain text, found other")
    return text


def is_loopback(host: str) -> bool:
    """True where what is sent does not leave the machine, whatever a name server says."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Spot(NamedTuple):
    """Where a value is: in which document, and where in it. Documents are read, spots are asked for."""

    document: str
    field: str = ""


def must_be_legal(path: str) -> None:
    """Raises `Unfit` for a path that no manager is ever asked for."""
    fault = fault_of(path)
    if fault is not None:
        raise Unfit(f"the path {shown(path)} {fault}")


def taken_apart(path: str) -> Spot:
    """The document and the field after its `#`, both as written but for a leading slash; raises `Unfit`."""
    must_be_legal(path)
    document, _, field = path.partition(MARK)
    return Spot(document.removeprefix("/"), field)


class Document(Protocol):
    """What one read has brought; all values of one document are of one moment."""

    def value(self, field: str) -> bytes:
        """What is at this field; raises `Absent` or `Unfit`."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A document that is one value."""

    content: bytes = field(repr=False)

    def value(self, field: str) -> bytes:
        return bounded(self.content)


@dataclass(frozen=True, slots=True)
class Fields:
    """A document of named values."""

    values: Mapping[str, bytes] = field(repr=False)

    def value(self, field: str) -> bytes:
        if field not in self.values:
            raise Absent(f"the document has no field {field!r}")
        return bounded(self.values[field])


def bounded(value: bytes) -> bytes:
    if len(value) > MOST:
        raise Unfit(f"a value of at most {MOST} bytes was expected, found more")
    return value


@dataclass(frozen=True, slots=True)
class KubeSecret:
    """A Secret of this cluster, as far as it can be a document."""

    type: str
    data: Mapping[str, bytes] = field(repr=False)


ReadSecret = Callable[[str, str], Awaitable[KubeSecret]]
"""Reads the Secret of this namespace and name from the API server, once; raises a `StoreError`."""


class Store(Protocol):
    """One connection to one secret manager, reused for every read."""

    @property
    def scheme(self) -> str:
        """What the store is called in metrics: `fishykeys`, `vault`, `aws-sm`, `kube` or `file`."""

    def spot(self, path: str) -> Spot:
        """Takes a legal path apart, without asking anybody; raises `Unfit`."""

    async def read(self, document: str) -> Document:
        """Asks the manager once; whoever calls sets the deadline. Raises a `StoreError`."""

    async def close(self) -> None:
        """Lets the connection go."""
