"""What is wrong with a configuration file of Accurate, key by key: it has no kind, and is known by its keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches

import yaml

from samara.cli.lint_nodes import Finding, Manifest, as_json
from samara.core.vocabulary import SettingError
from samara.vocabularies.accurate.config import KEYS, read
from samara.vocabularies.accurate.labels import GROUP

_NEARLY = 0.8
_PATTERNS = f"a list of patterns of keys, none under {GROUP}/"
_EXPECTED = {
    **dict.fromkeys(KEYS[:4], _PATTERNS),
    "watches": "a list of {group, version, kind}, of kinds that have a namespace",
    **dict.fromkeys(KEYS[5:7], "a list of patterns of keys"),
    "namingPolicies": "a list of {root, match}, each root a regular expression of RE2",
}


def findings(manifest: Manifest) -> Iterator[Finding]:
    """Every key by itself, so that all that is wrong is told at once, and each on its line."""
    keys = [(key, node) for key, node in manifest.root.value if isinstance(key, yaml.ScalarNode)]
    if manifest.kind or not any(_near(key.value) for key, _ in keys):
        return
    for key, node in keys:
        fault = _fault(key.value, node)
        if fault is not None:
            expected = _EXPECTED.get(key.value) or _near(key.value) or f"one of {', '.join(KEYS)}"
            yield manifest.finding(key.start_mark.line + 1, key.value, fault, expected)


def _near(key: str) -> str:
    """The key that is meant, or nothing."""
    return next(iter(get_close_matches(key, KEYS, 1, _NEARLY)), "")


def _fault(key: str, node: yaml.Node) -> str | None:
    """What the program says that reads the file, at its start."""
    raw = as_json(node)
    try:
        read({key: json.loads(raw) if raw is not None else None})
    except SettingError as fault:
        return str(fault)
    return None
