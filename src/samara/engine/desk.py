"""Everything the engine works with, in one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samara.core.allow import Rules
from samara.core.table import Table
from samara.engine.apply import Applier
from samara.engine.holds import Holds
from samara.engine.meter import Meter
from samara.engine.news import News
from samara.engine.outbox import Outbox
from samara.engine.queue import Queue
from samara.engine.retry import Waits
from samara.engine.window import Window
from samara.kube.cache import Cache
from samara.kube.client import Client
from samara.kube.codec import Codec


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts; the engine is what moves between them."""

    client: Client
    codec: Codec
    cache: Cache
    table: Table
    rules: Rules
    queue: Queue
    outbox: Outbox
    window: Window
    waits: Waits
    holds: Holds
    applier: Applier
    news: News
    meter: Meter
    clock: Callable[[], float]
    home: str
    """The operator's own namespace."""
    resync: float
    gone_after: float
