"""Log lines of `event key=value …`, or JSON. Fields are names, counts and times; never a value of a Secret."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_logger = logging.getLogger("samara")
_logger.addHandler(logging.NullHandler())  # commands print their messages themselves; only `run` configures logging


def debug(event: str, **fields: object) -> None:
    _logger.debug(event, extra={"fields": fields})


def info(event: str, **fields: object) -> None:
    """A change in the cluster or in the operator's state."""
    _logger.info(event, extra={"fields": fields})


def warning(event: str, **fields: object) -> None:
    """Something that a person should look at."""
    _logger.warning(event, extra={"fields": fields})


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        fields_text = " ".join(f"{key}={_quoted(value)}" for key, value in fields.items())
        event = " ".join(record.getMessage().split())  # a library's warning may have several lines
        line = f"{_time(record)} {record.levelname.lower():7} {event}"
        return f"{line} {fields_text}" if fields_text else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {key: _plain(value) for key, value in getattr(record, "fields", {}).items()}
        return json.dumps(
            {"time": _time(record), "level": record.levelname.lower(), "event": record.getMessage(), **fields}
        )


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float) or value is None else str(value)


def _quoted(value: object) -> str:
    text = str(_plain(value))
    return text if text and text.isprintable() and not set(' "=') & set(text) else json.dumps(text)


def configure(form: str = "text", level: str = "info") -> None:
    """Sends our lines, and the warnings of libraries, to stderr."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(level=logging.WARNING, handlers=[stream], force=True)
    _logger.setLevel(level.upper())
