"""What admission is made of and shares with the rest of the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from samara.admission.certificates import Terms
from samara.admission.configuration import SERVICE
from samara.core.model import Kind
from samara.core.table import Table
from samara.core.view import View
from samara.engine.meter import Meter
from samara.kube.client import Client
from samara.kube.codec import Codec


@dataclass(frozen=True, slots=True)
class Parts:
    """The client is admission's own: a standby answers, too, and for that it reads and tries by dry runs."""

    client: Client
    codec: Codec
    view: View
    table: Table
    home: str
    """The operator's own namespace."""
    is_leading: Callable[[], bool]
    listed: Callable[[Kind], bool]
    """True where a kind has been listed, or never will be."""
    meter: Meter = field(default_factory=Meter)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the server listens and how it is found."""

    address: str = ":9443"
    url: str | None = None
    in_cluster: bool = False
    """True where the chart owns the webhook configurations: nothing is registered or removed."""
    service: str = SERVICE


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Times:
    """When things happen; durations in seconds."""

    terms: Terms = field(default_factory=Terms)
    now: Callable[[], datetime] = utc_now
    turn: float = 1.0
    """How soon a change is seen."""
    recheck: float = 10.0
    """How often it is looked whether what we wrote is still there."""
