"""Decides when the status of a source is written: once a second while its writes go on, and once at their end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from samara.core.copy_counts import CopyCounts
from samara.core.model import Key
from samara.core.policy import paused_by
from samara.core.registry import Registry
from samara.core.status import status_to_write
from samara.core.writes import WriteStatus
from samara.engine.limits import MAX_REPAIRS, WINDOW
from samara.engine.process import utc_timestamp
from samara.kube.cache import Cache

EVERY = 1.0
"""Seconds between two status writes of a source while its writes go on."""
BATCH = 0.02
"""Results that arrive within this time share one status write."""


class StatusReporter:
    """Owns the set of stale statuses, and yields the writes of those that are due. It sends nothing itself."""

    def __init__(
        self,
        cache: Cache,
        registry: Registry,
        all_counts: Mapping[Key, CopyCounts],
        clock: Callable[[], float],
        now: Callable[[], str] = utc_timestamp,
    ) -> None:
        self._cache = cache
        self._registry = registry
        self._counts = all_counts
        self._clock = clock
        self._now = now
        self.stale: set[Key] = set()
        self._check_at = 0.0
        """When to check next which stale statuses are due."""
        self._ready: deque[Key] = deque()
        """Statuses that are due and that `due` has not yielded yet."""
        self._since: dict[Key, float] = {}
        """When the writes under way began, or when their status was last written."""
        self._contests: dict[Key, deque[float]] = {}

    def mark_stale(self, key: Key) -> None:
        """Notes that the counts of a source may have changed, so that its status must be computed again."""
        if self._registry[key.source_type].status is None:
            return
        if not self.stale:
            self._check_at = self._clock() + BATCH
        if key.all_namespaces not in self.stale:
            self.stale.add(key.all_namespaces)
            self._since.setdefault(key.all_namespaces, self._clock())

    def note_foreign_write(self, key: Key) -> None:
        """Corrects a status that another client wrote: five times in ten minutes at most, and then with the next plan.

        Two versions of this program may word a status differently and would otherwise overwrite each other forever.
        """
        now, times = self._clock(), self._contests.setdefault(key.all_namespaces, deque(maxlen=MAX_REPAIRS))
        if len(times) < MAX_REPAIRS or now - times[0] > WINDOW:
            times.append(now)
            self.mark_stale(key)

    def due(self, is_busy: Callable[[Key], bool]) -> Iterator[WriteStatus]:
        """The status writes to send now. A caller may stop after its time slice and continue with the next call.

        `is_busy`: True while writes of a source are planned, waiting or in flight.
        """
        now = self._clock()
        if not self._ready and now >= self._check_at:
            self._ready.extend(key for key in self.stale if not is_busy(key) or self._has_waited(key, now))
            self._check_at = now + BATCH
        while self._ready:
            key = self._ready.popleft()
            self.stale.discard(key)
            if not is_busy(key):
                self._since.pop(key, None)
            report = self.take_report(key)
            if report is not None:
                yield report

    def next_due(self) -> float | None:
        """Seconds until `due` may yield something; None if no status is stale."""
        return max(0.0, self._check_at - self._clock()) if self.stale else None

    def _has_waited(self, key: Key, now: float) -> bool:
        return now - self._since.get(key, now) >= EVERY

    def take_report(self, key: Key) -> WriteStatus | None:
        """Builds the status write of a source; None if its status is right. Restarts the second until the next one."""
        source, counts = self._cache.get(key.source), self._counts.get(key)
        source_type = self._registry[key.source_type]
        if source is None or counts is None or paused_by(source, source_type, self._cache):
            self._since.pop(key, None)
            self._contests.pop(key, None)
            return None
        if key in self._since:
            self._since[key] = self._clock()
        # The source may have changed after the plan that made these counts: report the generation of that plan.
        counted = replace(source, generation=counts.generation(source))
        status = status_to_write(source_type.status, counted, self._cache, counts, self._now())
        return None if status is None else WriteStatus(key, source.ref, source, status)
