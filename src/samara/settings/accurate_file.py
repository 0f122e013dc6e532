"""The file of the original that the settings of Accurate may name: YAML or JSON, taken unchanged."""

import json
from pathlib import Path
from typing import Any

from samara.dialects.accurate.config import KEYS, UNREADABLE, BadConfigError
from samara.settings.faults import SettingsError, found
from samara.settings.text import read_text


def content_of(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadConfigError(f"failed to read {path}: {_as_go_says(error)}") from error
    except ValueError as error:  # a path that no file can have
        raise BadConfigError(f"failed to read {path}: invalid argument") from error


def read_document(content: bytes) -> dict[str, object]:
    """What the file says, unchecked, and nothing where it is empty; raises BadConfigError."""
    try:
        document = _document(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadConfigError(f"{UNREADABLE}not UTF-8 text: {error.reason} at byte {error.start}") from error
    except SettingsError as error:
        raise BadConfigError(UNREADABLE + error.faults[0].removeprefix(": ")) from error
    if document is not None and not isinstance(document, dict):
        raise BadConfigError(f"{UNREADABLE}found {found(document)}, expected a mapping with {', '.join(KEYS)}")
    return document or {}


def _document(text: str) -> object:
    document = _json(text)
    return read_text(text, "") if document is None else document


def _json(text: str) -> object:
    """The document if it is JSON, which may be indented by tabs, as YAML for PyYAML may not."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError):
        return None  # the reader of YAML says what is wrong


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError
    return made


def _as_go_says(error: OSError) -> str:
    text = error.strerror or "input/output error"
    return text[:1].lower() + text[1:]
