"""AbsentNamespaces: the namespaces that sources list and that have not existed for a minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samara.core.model import Key
from samara.core.names import PackedNames

REPORT_AFTER = 60.0
"""Seconds. People often create a source shortly before its namespaces, which is no mistake."""
_NONE = PackedNames()


@dataclass(frozen=True, slots=True)
class _Check:
    """Which of the namespaces that one source lists did not exist at a check."""

    at: float
    absent: PackedNames
    lasting: PackedNames
    """Those that did not exist at the check before it either."""
    is_settled: bool
    """True if these are all that do not exist now, so that no further check is needed."""


class AbsentNamespaces:
    """Compares two checks that are `REPORT_AFTER` apart. So no name needs a time of its own: a list may be long."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._checks: dict[Key, _Check] = {}

    def note(self, key: Key, absent: frozenset[str]) -> None:
        """Records which namespaces a source lists that do not exist now."""
        last, now = self._checks.get(key), self._clock()
        if not absent:
            self._checks.pop(key, None)
        elif last is None:
            self._checks[key] = _Check(now, PackedNames(absent), _NONE, is_settled=False)
        elif now - last.at < REPORT_AFTER:
            lasting = absent.intersection(last.lasting)
            still = PackedNames(absent.intersection(last.absent))
            self._checks[key] = _Check(last.at, still, PackedNames(lasting), lasting == absent)
        else:
            lasting = absent.intersection(last.absent)
            self._checks[key] = _Check(now, PackedNames(absent), PackedNames(lasting), lasting == absent)

    def due(self) -> list[Key]:
        """The sources whose absent namespaces are to be noted again now."""
        now = self._clock()
        return [key for key, check in self._checks.items() if not check.is_settled and now - check.at >= REPORT_AFTER]

    def is_noted(self, key: Key) -> bool:
        """True if a source lists a namespace that does not exist."""
        return key in self._checks

    def lasting(self, key: Key) -> frozenset[str]:
        """The namespaces that have not existed for `REPORT_AFTER` seconds at least."""
        return frozenset(self._checks[key].lasting) if key in self._checks else frozenset()
