"""What is known of the values that one FishySecret asks for."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from samara.core.desired import Fault
from samara.core.model import SECRET, Content
from samara.core.queries import SecretPath, SecretReading
from samara.core.view import View
from samara.vocabularies.fishysecret.spec import Item, Spec

MOST = 1024 * 1024
"""Bytes of all values of a Secret together; the server takes no more."""
TOLD = 5
"""Messages that one condition holds; a list of 500 paths may have as many."""


@dataclass(frozen=True, slots=True)
class Values:
    """All values of a Secret, or None where one of them is not known: nothing is written in part."""

    data: Mapping[str, bytes] | None = field(default=None, repr=False)
    read_at: str = ""
    """When the oldest of them was last seen to be so."""
    faults: tuple[Fault, ...] = ()
    read: bool = True
    """False while there is a path that nobody has read yet."""


UNREAD: Final = Values(read=False)


def collect(spec: Spec, every: float, view: View, served: bool) -> Values:
    """`served` is whether this spec has its Secret: then an optional path that is not found once is no news yet."""
    readings: list[tuple[Item, SecretReading]] = []
    failing: list[SecretReading] = []
    for item in spec.items:
        found = view.answer(SecretPath(item.path, every))
        if not isinstance(found, SecretReading):
            return UNREAD
        if not (item.optional and found.is_absent(every)):
            readings.append((item, found))
        elif not found.not_found:  # left out as before, but it may be there by now: nobody could look
            failing.append(found)
    joined = _joined(readings, failing)
    return UNREAD if served and joined.data is None and not failing and _are_doubts(readings) else joined


def _are_doubts(readings: Iterable[tuple[Item, SecretReading]]) -> bool:
    """True where nothing is wrong but that the manager has said once that an optional path leads nowhere."""
    faulty = [(item, found) for item, found in readings if found.fault is not None]
    return bool(faulty) and all(item.optional and found.not_found for item, found in faulty)


def _joined(readings: Sequence[tuple[Item, SecretReading]], failing: Iterable[SecretReading]) -> Values:
    """`failing` are paths without which the Secret is complete; what is wrong with them is told all the same."""
    data: dict[str, bytes] = {}
    times, complete = list[str](), True
    wrong = [found.fault for found in (*(found for _, found in readings), *failing) if found.fault is not None]
    faults = [Fault(each.reason, each.message) for each in wrong]
    for item, found in readings:
        if found.value is None:
            complete = False
        else:
            data[item.key] = found.value
            times.append(found.read_at)
    size = sum(map(len, data.values()))
    if size > MOST:
        told = f"spec.data: values of at most {MOST:,} bytes together were expected, found {size:,}; use two Secrets"
        return Values(None, "", merged((*faults, Fault("Invalid", told))))
    return Values(data if complete else None, min(times, default=""), merged(faults))


def content(spec: Spec, values: Values, view: View) -> Content | None:
    """The Secret's content as the server would store it; None where it is not known."""
    if values.data is None:
        return None
    data = {key: base64.b64encode(value).decode() for key, value in values.data.items()}
    return view.canonical(SECRET, {"data": data, "type": spec.type})


def merged(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """One fault for each reason, which says all that there is to say of it, up to a limit."""
    by_reason: dict[str, list[Fault]] = {}
    for fault in dict.fromkeys(faults):
        by_reason.setdefault(fault.reason, []).append(fault)
    return tuple(_joined_fault(several) for several in by_reason.values())


def _joined_fault(several: list[Fault]) -> Fault:
    mistakes = tuple(mistake for fault in several for mistake in fault.mistakes)
    return Fault(several[0].reason, _sentence(several), several[0].field, mistakes)


def _sentence(several: list[Fault]) -> str:
    rest = len(several) - TOLD
    told = "; ".join(fault.message for fault in several[:TOLD])
    return f"{told}; and {rest} more" if rest > 0 else told
