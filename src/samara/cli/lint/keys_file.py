"""Checks files with keys of a vocabulary's settings, such as the configuration file of the original Accurate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import yaml

from samara.assembly import named_vocabularies
from samara.cli.lint.nodes import Finding, Manifest, as_json, line_of
from samara.core.vocabulary import SettingError, Vocabulary
from samara.setting_types import Inline, Struct, settings_of
from samara.settings import Settings

_SIMILARITY = 0.8
"""At least this for a key that is probably misspelt, as `difflib` measures it."""


def faulty_keys(manifest: Manifest, settings: Settings) -> Iterator[Finding]:
    """The faults in a file of which at least one key looks like a key of a vocabulary's settings.

    Each key is checked by itself, because a check ends at its first fault, and each finding needs the line of its key.
    """
    if manifest.kind:  # an object, not such a file
        return
    keys = [(key, node) for key, node in manifest.root.value if isinstance(key, yaml.ScalarNode)]
    for vocabulary, _ in named_vocabularies(settings):
        struct: type[Struct] = vocabulary.settings
        for setting in settings_of(struct):
            shape = setting.shape
            if isinstance(shape, Inline) and any(_similar_key(key.value, shape) for key, _ in keys):
                yield from _check_keys(manifest, keys, vocabulary, setting.attribute, shape)


def _check_keys(
    manifest: Manifest, keys: list[tuple[Any, yaml.Node]], vocabulary: Vocabulary[Any], attribute: str, shape: Inline
) -> Iterator[Finding]:
    for key, node in keys:
        raw = as_json(node)
        value = json.loads(raw) if raw is not None else None
        try:
            vocabulary.check(vocabulary.settings(**{attribute: {key.value: value}}))
        except SettingError as fault:
            expected = shape.hints.get(key.value) or _similar_key(key.value, shape) or f"one of {', '.join(shape.keys)}"
            yield manifest.finding(line_of(key), key.value, str(fault), expected)


def _similar_key(key: str, shape: Inline) -> str:
    """The key that was probably meant, or an empty text."""
    return next(iter(get_close_matches(key, shape.keys, 1, _SIMILARITY)), "")
