"""How many writes may be in flight: more while the server stays healthy, fewer at once when it does not."""

from __future__ import annotations

from collections.abc import Callable

from samara.kube.errors import MOST_WAIT

_START = 8.0
_SLOW = 2.0
"""Seconds for one write at which the window stops growing."""
_LONGEST_PAUSE = 5.0
_TOGETHER = 0.5
_RECENT = 10.0
"""Two namespaces that fail within this time point at the server."""


class Window:
    """Grows by one per round trip, halves on a refusal for load, and waits as long as the server says."""

    def __init__(self, most: int, per_second: float, clock: Callable[[], float]) -> None:
        self._most = float(most)
        self._gap = 1.0 / per_second if per_second > 0 else 0.0
        self._clock = clock
        self._size = min(_START, self._most)
        self._closed_until = 0.0
        self._halved_at = float("-inf")
        self._bad_in_a_row = 0
        self._blamed = ("", float("-inf"))
        self._next_slot = 0.0

    @property
    def size(self) -> int:
        return int(self._size)

    def wait(self) -> float:
        """How long until one more write may be sent, as far as time is concerned."""
        return max(0.0, self._closed_until - self._clock(), self._next_slot - self._clock())

    def sent(self) -> None:
        if self._gap:
            self._next_slot = max(self._next_slot, self._clock()) + self._gap

    def good(self, took: float) -> None:
        self._bad_in_a_row = 0
        if took < _SLOW:
            self._size = min(self._most, self._size + 1.0 / self._size)

    def bad(self, namespace: str, retry_after: float | None) -> None:
        """The server is overloaded or gone: all wait a little. Answers to what was sent together count once.

        One namespace alone is no sign of that: its quota or a webhook can answer so, and must delay no other.
        """
        now = self._clock()
        before, self._blamed = self._blamed, (namespace, now)
        if before[0] == namespace or now - before[1] > _RECENT:
            return
        if now - self._halved_at >= _TOGETHER:
            self._halved_at = now
            self._bad_in_a_row += 1
            self._size = max(1.0, self._size / 2)
        pause = min(0.05 * 2.0 ** min(self._bad_in_a_row, 20), _LONGEST_PAUSE)
        if retry_after is not None:
            pause = min(retry_after, MOST_WAIT)
        self._closed_until = max(self._closed_until, now + pause)
