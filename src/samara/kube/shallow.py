"""JSON that is nested deeper than a decoder goes, made readable: what lies too deep is cut out and leaves a sign.

How deep a decoder goes depends on the interpreter: without this, one such object would end the watch of its kind.
"""

from __future__ import annotations

import re
import secrets

MOST = 64
"""Levels that stay. What is read of an object that is nothing to us lies much higher."""
_SIGN = b'"cut-%s"' % secrets.token_hex(16).encode()
"""Stands where something was cut out; nobody outside of this process can write it."""
_CUT = re.compile(re.escape(_SIGN))
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)
_DEEPER, _HIGHER = frozenset(b"[{"), frozenset(b"]}")


def shallow(raw: bytes) -> bytes:
    """The same JSON without what is nested deeper than `MOST` levels."""
    kept, depth, start = list[bytes](), 0, 0
    for token in _TOKEN.finditer(raw):
        sign = raw[token.start()]
        if sign in _DEEPER:
            depth += 1
            if depth == MOST + 1:
                kept += (raw[start : token.start()], _SIGN)
        elif sign in _HIGHER:
            if depth == MOST + 1:
                start = token.end()
            depth -= 1
    return b"".join((*kept, raw[start:])) if depth <= MOST else b""


def is_cut(raw: bytes) -> bool:
    """True where something was cut out here."""
    return _CUT.search(raw) is not None
