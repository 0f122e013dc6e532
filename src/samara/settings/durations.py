"""Durations as people write them: `90s`, `5m`, `1h30m`, `500ms`."""

import math
import re

FORM = "a duration such as 90s, 5m, 1h30m or 500ms"
FOREVER = "forever"
# Nine digits a part keep every sum exact in a float. Without look-ahead, which not every engine has.
PATTERN = "(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?(?:([0-9]{1,9})ms)?"
_PARTS = re.compile(PATTERN)
_UNITS = (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def parse_duration(text: str) -> float | None:
    """Seconds, or None where the text is not a duration."""
    if text == "0":
        return 0.0
    match = _PARTS.fullmatch(text)
    if not text or match is None:
        return None
    milliseconds = sum(int(part) * each for part, (_, each) in zip(match.groups(default="0"), _UNITS, strict=True))
    return milliseconds / 1000


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads as the same duration, to the millisecond."""
    if math.isinf(seconds):
        return FOREVER
    rest = round(seconds * 1000)
    text = ""
    for unit, each in _UNITS:
        count, rest = divmod(rest, each)
        text += f"{count}{unit}" if count else ""
    return text or "0"
