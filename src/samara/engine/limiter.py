"""Decides how many writes may be in flight: as few as reach the full rate, and half as many after an overload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from samara.kube.errors import MAX_WAIT

_START = 16
"""The first limit."""
_MAX_GRADIENT = 0.9
"""Latency may grow by this power of the limit. A steeper growth means that the limit is past the knee: at 1.0 the rate
would not grow (Little's law)."""
_ROUND_TRIPS = 8
"""The length of a sample, in answers per write in flight."""
_MIN_ANSWERS = 32
"""The least length of a sample, in answers."""
_FASTEST_SHARE = 0.9
"""This part of a sample counts, the fastest: one namespace with a slow webhook must not change the limit for all."""
_SATURATED_SHARE = 0.9
"""A sample counts if this part of its writes filled the limit. With less work in flight it would show nothing."""
_REST = 6
"""Samples at the knee before the limit is tried above or below it again."""
_MAX_PAUSE = 5.0
"""The longest pause in seconds after an overload, if the server does not say how long to wait."""
_SAME_OVERLOAD = 0.5
"""Refusals within this many seconds are answers to writes that were sent together, and halve the limit once."""
_RECENT = 10.0
"""If two namespaces fail within this many seconds, the server is overloaded."""


@dataclass(slots=True)
class _Sample:
    """The latencies of writes that were sent at one limit."""

    limit: int
    ignored: int
    """Answers still to come to writes that were sent at another limit."""
    latencies: list[float] = field(default_factory=list)
    saturated: int = 0
    """Writes that filled the limit when they were sent."""

    def note_sent(self, in_flight: int) -> None:
        self.saturated += in_flight >= self.limit

    def note_answer(self, seconds: float) -> None:
        if self.ignored:
            self.ignored -= 1
            self.saturated = 0
        else:
            self.latencies.append(seconds)

    @property
    def is_complete(self) -> bool:
        return len(self.latencies) >= max(_MIN_ANSWERS, _ROUND_TRIPS * self.limit)

    @property
    def is_saturated(self) -> bool:
        return self.saturated >= _SATURATED_SHARE * len(self.latencies)

    def latency(self) -> float:
        fastest = sorted(self.latencies)[: round(_FASTEST_SHARE * len(self.latencies))]
        return sum(fastest) / len(fastest)


class ConcurrencyLimiter:
    """Finds the smallest limit at which the API server writes at its full rate.

    It compares the latency of writes at two limits that are tried one right after the other: the present one, and twice
    or half as many. It never compares with an earlier time, so a server that becomes slower for good does not look
    overloaded.

    Rejected: a limit that keeps latency near its minimum. One write at a time takes 1.7 ms on two cores; a limit at
    which it takes twice as long gives up a third of the rate. Also rejected: a slow average as the reference. It
    follows the queue that the limit itself causes, so the limit drifts to its ceiling.
    """

    def __init__(self, ceiling: int, per_second: float, clock: Callable[[], float]) -> None:
        self._ceiling = ceiling
        self._gap = 1.0 / per_second if per_second > 0 else 0.0
        self._clock = clock
        self._base = min(_START, ceiling)
        """The limit that is kept unless another one proves better."""
        self._base_latency = 0.0
        self._sample = _Sample(self._base, ignored=0)
        self._direction: Literal[1, -1] = 1
        self._rest = 0
        self._closed_until = 0.0
        self._halved_at = float("-inf")
        self._overloads_in_a_row = 0
        self._last_refusal = ("", float("-inf"))
        self._next_slot = 0.0

    @property
    def limit(self) -> int:
        return self._sample.limit

    def wait(self) -> float:
        """Seconds until one more write may be sent, whatever the limit."""
        return max(0.0, self._closed_until - self._clock(), self._next_slot - self._clock())

    def note_sent(self, in_flight: int) -> None:
        """Notes that a write is sent; `in_flight` counts it."""
        self._sample.note_sent(in_flight)
        if self._gap:
            self._next_slot = max(self._next_slot, self._clock()) + self._gap

    def note_answer(self, seconds: float) -> None:
        """Notes an answer that shows no overload, whether or not the write was accepted."""
        self._overloads_in_a_row = 0
        self._sample.note_answer(seconds)
        if self._sample.is_complete:
            if self._sample.is_saturated:
                self._evaluate(self._sample.latency())
            else:
                self._try(self._base)

    def note_overload(self, namespace: str, retry_after: float | None) -> None:
        """Notes that the server refused a write for load, or did not answer: all writes wait, and the limit halves.

        One namespace alone is not a sign of overload. Its quota or a webhook can cause the same answers, and must not
        delay the others.
        """
        now = self._clock()
        last, self._last_refusal = self._last_refusal, (namespace, now)
        if last[0] == namespace or now - last[1] > _RECENT:
            return
        if now - self._halved_at >= _SAME_OVERLOAD:
            self._halved_at = now
            self._overloads_in_a_row += 1
            self._direction = 1
            self._rest = _REST if self.limit > self._base else 0  # a trial that failed; otherwise try to recover soon
            self._base = max(1, self.limit // 2)
        self._try(self._base)
        pause = min(0.05 * 2.0 ** min(self._overloads_in_a_row, 20), _MAX_PAUSE)
        if retry_after is not None:
            pause = min(retry_after, MAX_WAIT)
        self._closed_until = max(self._closed_until, now + pause)

    def _evaluate(self, latency: float) -> None:
        """Ends a sample. A trial that proved better becomes the base, and the next one goes on in its direction."""
        tried = self.limit
        if tried == self._base:
            self._base_latency = latency
            self._rest = max(0, self._rest - 1)
        elif self._is_better(tried, latency):
            self._base, self._base_latency = tried, latency
        else:
            self._turn_around()
        self._try(self._base if self._rest > 0 else self._next_trial())

    def _is_better(self, tried: int, latency: float) -> bool:
        """True if the higher of both limits brings a higher rate and was tried, or brings none and was not."""
        (low, fast), (high, slow) = sorted(((self._base, self._base_latency), (tried, latency)))
        higher_pays: bool = slow <= fast * (high / low) ** _MAX_GRADIENT
        return higher_pays == (tried == high)

    def _next_trial(self) -> int:
        trial = self._base * 2 if self._direction > 0 else self._base // 2
        trial = max(1, min(self._ceiling, trial))
        if trial == self._base:
            self._turn_around()
        return trial

    def _turn_around(self) -> None:
        self._direction = -1 if self._direction > 0 else 1
        self._rest = _REST

    def _try(self, limit: int) -> None:
        """Begins a sample. Writes in flight were sent at the limit of the last one, which may have been changed."""
        changed = limit != self.limit
        self._sample = _Sample(limit, ignored=max(limit, self.limit) if changed else self._sample.ignored)
