"""How settings are put into words: faults, and the one error that carries them all."""

import json
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

LONGEST = 60
HUGE = 10**18
_PLAIN = re.compile(r"[A-Za-z][-A-Za-z0-9_./]*")
# Words that YAML 1.1 reads as something other than text.
_SPOKEN_FOR = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


class SettingsError(Exception):
    """Settings that cannot be used; the message has one line per fault."""

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        self.faults = tuple(f"{name}: {fault}" for fault in faults)
        super().__init__("\n".join(self.faults))


def located(path: str, text: str) -> str:
    """The fault with the path of its key; the document itself has no path."""
    return f"{path}: {text}" if path else text


def mismatch(path: str, raw: object, expected: str) -> str:
    return located(path, f"found {found(raw)}, expected {expected}")


def unknown_key(path: str, key: object, accepted: Iterable[str], new_name: str = "") -> str:
    """`new_name` is set if the key is the old name of a setting."""
    name = key if isinstance(key, str) and _PLAIN.fullmatch(key) and len(key) <= LONGEST else found(key)
    near = get_close_matches(key, list(accepted), n=1) if isinstance(key, str) else []
    hint = f", did you mean '{near[0]}'?" if near else ";"
    if new_name:
        hint = f", it is called '{new_name}' now;"
    return located(f"{path}.{name}" if path else name, f"unknown key{hint} accepted: {', '.join(accepted)}")


def found(raw: object) -> str:
    """A YAML value on one line, as a person would name it."""
    if raw is None:
        return "null"
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return repr(raw if len(raw) <= LONGEST else raw[:LONGEST] + "…")
    if isinstance(raw, int | float):
        return _number(raw)
    if isinstance(raw, list):
        return "a list" if raw else "an empty list"
    return "a mapping" if raw else "an empty mapping"


def _number(raw: int | float) -> str:
    # Python refuses to print integers of more than 4,300 digits, which YAML can hold as hexadecimal.
    return "a huge number" if isinstance(raw, int) and abs(raw) > HUGE else str(raw)


def scalar(value: object) -> str:
    """A scalar as YAML that reads back as the same value."""
    return value if isinstance(value, str) and _is_plain(value) else json.dumps(value)


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None and text.lower() not in _SPOKEN_FOR
