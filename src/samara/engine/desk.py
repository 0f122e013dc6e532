"""Everything the engine works with, in one value."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from samara.core.allow import Rules
from samara.core.model import QUOTA, Key
from samara.core.table import Table
from samara.engine.apply import Applier
from samara.engine.crash import CrashPoints
from samara.engine.holds import Holds
from samara.engine.limiter import ConcurrencyLimiter
from samara.engine.metrics import Metrics
from samara.engine.news import News
from samara.engine.outbox import Outbox
from samara.engine.queue import Queue
from samara.engine.retry import Waits
from samara.engine.tell import Teller
from samara.kube.cache import Cache
from samara.kube.client import Client
from samara.kube.codec import Codec
from samara.secretstores.poller import SecretPoller
from samara.settings import Settings
from samara.vocabularies import brake_of


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
    limiter: ConcurrencyLimiter
    waits: Waits
    holds: Holds
    applier: Applier
    news: News
    metrics: Metrics
    clock: Callable[[], float]
    home: str
    """The operator's own namespace."""
    resync: float
    gone_after: float
    stores: SecretPoller | None = None
    """What reads the secret manager, where a vocabulary that needs it is served."""

    def keys(self) -> Iterator[Key]:
        """Every source there is, and every one that a copy names."""
        for dialect in self.table.dialects:
            yield from (Key(dialect.name, source) for source in self.cache.sources(dialect.name))
        yield from self.cache.marked_sources()

    def is_planned(self, vocabulary: str) -> bool:
        """True where all sources of a vocabulary are planned: it is served, and its kinds are known."""
        dialects = [each for each in self.table.dialects if each.title == vocabulary]
        return all(each.served and all(map(self.cache.known, each.kinds)) for each in dialects)


def desk_of(settings: Settings, client: Client, table: Table, rules: Rules, home: str, *, silent: bool) -> Desk:
    """The parts as the settings say; `silent` where nothing may be told to the cluster."""
    clock = time.monotonic
    codec = Codec(table.managers)
    cache = Cache(table, besides=(QUOTA,), built=codec.content)
    limiter = ConcurrencyLimiter(settings.writes.in_flight, settings.writes.per_second, clock)
    return Desk(
        client=client,
        codec=codec,
        cache=cache,
        table=table,
        rules=rules,
        queue=Queue(clock),
        outbox=Outbox(clock, lambda: max(1, limiter.limit // 2)),
        limiter=limiter,
        waits=Waits(settings.timers.backoff_most, clock),
        holds=Holds(brake_of(settings), settings.mass_delete.hold if settings.mass_delete else 0.0, clock),
        applier=Applier(client, codec, cache, table, CrashPoints()),
        news=News(Teller(client, clock, silent=silent), cache),
        metrics=Metrics(),
        clock=clock,
        home=home,
        resync=settings.resync,
        gone_after=settings.source_gone_after,
    )
