"""A file that holds keys of a vocabulary's settings, such as the configuration file of the original Accurate."""

import json
from pathlib import Path
from typing import Any

from samara.core.vocabulary import SettingError
from samara.setting_types import Inline
from samara.settings.yaml_text import SettingsError, quoted, read_text


def content_of(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"failed to read {path}: {_as_go_says(error)}") from error
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
        return json.loads(text, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError):
        return None  # the YAML reader reports the fault


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError
    return made


def _as_go_says(error: OSError) -> str:
    text = error.strerror or "input/output error"
    return text[:1].lower() + text[1:]
