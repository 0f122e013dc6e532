"""The values of one FishySecret: collected from the readings of its paths, and built into the content of a Secret."""

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

MAX_BYTES = 1024 * 1024
"""The size of all values of a Secret together: the limit of the API server."""
MAX_MESSAGES = 5
"""Messages in one condition. A spec with 100 paths may have 100 faults."""


@dataclass(frozen=True, slots=True)
class Values:
    """All values of a Secret. `data` is None if one of them is not known: a Secret is never written in part."""

    data: Mapping[str, bytes] | None = field(default=None, repr=False)
    read_at: str = ""
    """The oldest time at which one of the values was read."""
    faults: tuple[Fault, ...] = ()
    is_read: bool = True
    """False until every path has been read once."""


NOT_READ: Final = Values(is_read=False)


def collect(spec: Spec, interval: float, view: View, is_served: bool) -> Values:
    """The values of a spec, from the readings of its paths.

    `is_served`: the Secret of this spec exists and is reported. It then stays as it is after one "not found" of an
    optional path, until a second one confirms it.
    """
    readings: list[tuple[Item, SecretReading]] = []
    failing: list[SecretReading] = []
    for item in spec.items:
        reading = view.answer(SecretPath(item.path, interval))
        if not isinstance(reading, SecretReading):
            return NOT_READ
        if not (item.optional and reading.is_absent(interval)):
            readings.append((item, reading))
        elif not reading.not_found:  # the key stays left out, but the last read failed: the path may exist by now
            failing.append(reading)
    joined = _joined(readings, failing)
    is_undecided = joined.data is None and not failing and _only_optional_not_found(readings)
    return NOT_READ if is_served and is_undecided else joined


def _only_optional_not_found(readings: Iterable[tuple[Item, SecretReading]]) -> bool:
    """True if there are faults and each is a "not found" of an optional path."""
    faulty = [(item, reading) for item, reading in readings if reading.fault is not None]
    return bool(faulty) and all(item.optional and reading.not_found for item, reading in faulty)


def _joined(readings: Sequence[tuple[Item, SecretReading]], failing: Iterable[SecretReading]) -> Values:
    """`failing`: readings of absent optional paths. The Secret is complete without them; their faults are reported."""
    data: dict[str, bytes] = {}
    times, complete = list[str](), True
    errors = [reading.fault for reading in (*(reading for _, reading in readings), *failing)]
    faults = [Fault(error.reason, error.message) for error in errors if error is not None]
    for item, reading in readings:
        if reading.value is None:
            complete = False
        else:
            data[item.key] = reading.value
            times.append(reading.read_at)
    size = sum(map(len, data.values()))
    if size > MAX_BYTES:
        message = (
            f"spec.data: values of at most {MAX_BYTES:,} bytes together were expected, found {size:,}; use two Secrets"
        )
        return Values(None, "", merged((*faults, Fault("Invalid", message))))
    return Values(data if complete else None, min(times, default=""), merged(faults))


def content(spec: Spec, values: Values, view: View) -> Content | None:
    """The Secret's content in the form that the API server stores. None if a value is not known."""
    if values.data is None:
        return None
    data = {key: base64.b64encode(value).decode() for key, value in values.data.items()}
    return view.canonical(SECRET, {"data": data, "type": spec.type})


def merged(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """One fault for each reason. Its message joins the first messages with that reason."""
    by_reason: dict[str, list[Fault]] = {}
    for fault in dict.fromkeys(faults):
        by_reason.setdefault(fault.reason, []).append(fault)
    return tuple(_joined_fault(several) for several in by_reason.values())


def _joined_fault(several: list[Fault]) -> Fault:
    mistakes = tuple(mistake for fault in several for mistake in fault.mistakes)
    return Fault(several[0].reason, _sentence(several), several[0].field, mistakes)


def _sentence(several: list[Fault]) -> str:
    rest = len(several) - MAX_MESSAGES
    message = "; ".join(fault.message for fault in several[:MAX_MESSAGES])
    return f"{message}; and {rest} more" if rest > 0 else message
