"""A file that holds keys of a vocabulary's settings, such as the configuration file of an original controller."""

import json
from pathlib import Path
from typing import Any

from samara.core.vocabulary import SettingError
from samara.setting_types import Inline
from samara.settings.yaml_text import SettingsError, quoted, read_text


def content_of(path: str) -> bytes:
    """The content of a file. Raises SettingError with the original's message, which people search for."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"failed to read {path}: {_as_in_go(error)}") from error
    except ValueError as error:  # a path that no file can have
        raise SettingError(f"failed to read {path}: invalid argument") from error


def read_keys(content: bytes, keys: Inline) -> dict[str, object]:
    """The keys in a YAML or JSON document, unchecked. An empty file holds none. Raises SettingError."""
    try:
        document = _document(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SettingError(f"{keys.unreadable}not UTF-8 text: {error.reason} at byte {error.start}") from error
    except SettingsError as error:
        raise SettingError(keys.unreadable + error.faults[0].removeprefix(": ")) from error
    if document is not None and not isinstance(document, dict):
        raise SettingError(f"{keys.unreadable}found {quoted(document)}, expected a mapping with {', '.join(keys.keys)}")
    return document or {}


def _document(text: str) -> object:
    document = _json(text)
    return read_text(text, "") if document is None else document


def _json(text: str) -> object:
    """The document if it is JSON. JSON may be indented by tabs, which PyYAML refuses."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        return None  # the YAML reader reports the fault


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError
    return mapping


def _as_in_go(error: OSError) -> str:
    """The text of an error as the original, written in Go, prints it."""
    text = error.strerror or "input/output error"
    return text[:1].lower() + text[1:]
