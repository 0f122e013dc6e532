"""How a write went, and what an error means for it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from samara.kube.cache import Change
from samara.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    SamaraError,
    ServerFault,
    TooMany,
    Unreachable,
)


class Outcome(Enum):
    DONE = "done"
    STALE = "stale"
    """The place was not as planned: read it again and plan again."""
    REFUSED = "refused"
    """The server will not have it: a person must act; tried again seldom."""
    FAILED = "failed"
    """The server could not, or nobody knows whether it did: tried again soon."""


class Result(NamedTuple):
    outcome: Outcome
    message: str = ""
    retry_after: float | None = None
    overloaded: bool = False
    known_state: bool = True
    """False where nobody knows what is at the address now: it must be read before it is planned again."""
    server_fault: bool = False
    """True where the server says that it could not do it: a webhook that fails, mostly."""
    storage_full: bool = False
    """True where the server has no room to store anything: that is nobody's fault but the cluster's."""
    version: int | None = None
    """The version that the write made; None for a delete."""
    already_right: bool = False
    """True where a dry run has shown that nothing needs to be written."""
    changes: tuple[Change, ...] = ()
    """What the answers changed in the cache, in order: a recreate has two."""


def classify(fault: SamaraError) -> Result:
    """What an error means for the write that met it."""
    match fault:
        case ApiError(denied=True):  # by admission, under whichever status it has chosen
            return Result(Outcome.REFUSED, str(fault))
        case Conflict() | AlreadyExists() | NotFound() | Forbidden(terminating=True):
            return Result(Outcome.STALE, str(fault), known_state=False)
        case Forbidden() | Invalid() | ApiError(status=400 | 405 | 406 | 413 | 415):
            return Result(Outcome.REFUSED, str(fault))
        case TooMany(retry_after=wait):
            return Result(Outcome.FAILED, str(fault), wait, overloaded=True)
        case ServerFault(full=True):  # refused as a whole, so nothing has changed
            return Result(Outcome.FAILED, str(fault), overloaded=True, storage_full=True)
        case ServerFault(status=status, retry_after=wait):  # a 500 may be one namespace's webhook
            return Result(
                Outcome.FAILED, str(fault), wait, overloaded=status in (503, 504), known_state=False, server_fault=True
            )
        case _:
            return Result(Outcome.FAILED, str(fault), overloaded=isinstance(fault, Unreachable), known_state=False)
