"""The errors that users can act on, as one tree.

SamaraError              a command prints one line and exits 1
├── ConfigError          kubeconfig or flags are wrong, or settings that do not fit the cluster
│   └── InvalidName      no object can have this name, so no request is sent
├── ApiError             the API server answered with an error Status
│   ├── Unauthorized     401
│   ├── Forbidden        403
│   ├── NotFound         404
│   ├── Conflict         409, the resource version is old
│   ├── AlreadyExists    409, an object of this name exists
│   ├── Gone             410, the resourceVersion is too old to continue from
│   ├── Invalid          422
│   ├── TooMany          429
│   └── ServerFault      5xx
├── Unreachable          no answer: refused, reset, timeout, TLS, a failing exec plugin
│   └── WatchTimeout     a watch received nothing for too long (`kube/reflector.py`)
├── _NotStreamedError    the server does not stream lists: they are read in pages (`kube/reflector.py`)
├── LeaseLostError       another replica may lead, so the process ends (`app.py`)
└── DemoError            the demo cannot go on (`demo/stage.py`)

Outside of it, since their packages must not import this one:
SettingsError            settings that cannot be used; the command line prints it likewise (`settings/reader.py`)
StoreError               a read of a secret manager failed; it is retried and reported (`secretstores/base.py`)
"""

# ruff: noqa: N818 - the API server uses these names: `except NotFound`
from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

MAX_MESSAGE = 500
MAX_WAIT = 60.0
"""Seconds. A longer Retry-After is cut to this, because the API server may recover much earlier."""
_MAX_READ = 65_536

# The API server quotes rejected values with Go's %q, so an unescaped quote ends the value. The end of anything else
# (a struct, or a value that a webhook quoted) cannot be trusted, so the rest is dropped.
_VALUE = re.compile(
    r'\b((?:Invalid|Unsupported|Duplicate) value:|(?:Not found|Too long|Too many|Internal error):(?=\s*"))'
    r'\s*(?:"(?:[^"\\]|\\.)*"(?=: |\]?\Z)|.*)',
    re.DOTALL,
)
# Older API servers answer malformed JSON with a part of the request body. The message of a failing webhook may quote
# the object, and has no end that can be trusted.
_BODY = re.compile(r"(error found in #\d+ byte of|bigger context|an error on the server(?= \()).*", re.DOTALL)
# The message of a decoder names the character at which it failed, and that is part of a value.
_CHARACTER = re.compile(r"(invalid character) '(?:\\.+?|.)'", re.DOTALL)
_JWT = re.compile(r"\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?")


class SamaraError(Exception):
    """An error that the user can act on."""


class ConfigError(SamaraError):
    """The kubeconfig or the flags are wrong, or the settings do not fit the cluster."""


class InvalidName(ConfigError):
    """No object can have this name. It would change the path of the request, so none is sent."""


class Unreachable(SamaraError):
    """No answer: refused, reset, timeout or TLS. A later attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of a Status's details.causes, without values."""

    reason: str
    field: str
    message: str


class ApiError(SamaraError):
    """The API server answered with an error Status."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        causes: tuple[Cause, ...] = (),
    ) -> None:
        super().__init__(status, reason, message, retry_after, causes)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes

    def __str__(self) -> str:
        return f"the API server answered {self.status} {self.reason}: {self.message}"

    @property
    def denied(self) -> bool:
        """True if a webhook or a policy refused the request. It may answer with any status."""
        return "denied the request" in self.message or "denied request" in self.message


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: the credentials are known and may not do this."""

    @property
    def terminating(self) -> bool:
        """True if the namespace is being deleted, so that nothing can be created in it."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)


class NotFound(ApiError):
    """404: there is no such object, or no such kind."""


class Conflict(ApiError):
    """409: the object changed after the write was planned."""


class AlreadyExists(ApiError):
    """409: an object of this name is already there."""


class Gone(ApiError):
    """410: the resourceVersion is too old; list again."""


class Invalid(ApiError):
    """422: the object is invalid."""


class TooMany(ApiError):
    """429: slow down."""


class ServerFault(ApiError):
    """5xx: the API server failed, perhaps only for a moment."""

    @property
    def full(self) -> bool:
        """True if etcd is full. Until space is freed, it accepts deletes only."""
        return "database space exceeded" in self.message


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooMany,
}


class _Cause(msgspec.Struct, frozen=True):
    reason: str | None = None
    field: str | None = None
    message: str | None = None


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: tuple[_Cause, ...] | None = None
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct, frozen=True):
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


def from_status(status: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """The error for an HTTP status and its body, which may be anything. The error holds no value of an object."""
    answer = _parse(body)
    details = answer.details or _Details()
    reason = answer.reason or _phrase(status)
    return _class_of(status, reason)(
        status,
        reason,
        redact(answer.message or "") or "no explanation was given",
        retry_after if retry_after is not None else details.retry_after_seconds or None,
        tuple(
            Cause(cause.reason or "", cause.field or "", redact(cause.message or "")) for cause in details.causes or ()
        ),
    )


def redact(text: str) -> str:
    """Removes rejected values, request bodies and tokens, and cuts the text to one line of limited length."""
    text = _VALUE.sub(r"\1 …", text[:_MAX_READ])
    text = _CHARACTER.sub(r"\1 …", _BODY.sub(r"\1 …", text))
    text = " ".join(_JWT.sub("…", text).split())
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def _class_of(status: int, reason: str) -> type[ApiError]:
    if status == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExists
    if 500 <= status < 600:
        return ServerFault
    return _BY_STATUS.get(status, ApiError)


def _parse(body: bytes) -> _Status:
    try:
        return msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Status(message=_plain(body))


def _plain(body: bytes) -> str:
    """The first line of the answer of a proxy. JSON and HTML are dropped, since they may echo the request."""
    text = body[:_MAX_READ].decode("utf-8", "replace").strip()
    if not text or text[0] in '<{["':
        return "the answer is not a Kubernetes Status; is there a proxy in front of the API server?"
    return text.splitlines()[0]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.replace(" ", "")
    except ValueError:
        return "Unknown"
