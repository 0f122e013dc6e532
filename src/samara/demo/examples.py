"""Finds the example manifests: inside an installed package, or in the checkout."""

from __future__ import annotations

from pathlib import Path

from samara.kube.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[1]


def folder(vocabulary: str, package: Path = _PACKAGE) -> Path:
    """The folder of one vocabulary's examples. A wheel carries them; a checkout has them beside `src`."""
    for base in (package, package.parents[1]):
        found = base / "examples" / vocabulary
        if found.is_dir():
            return found
    raise ConfigError(f"the examples of {vocabulary} are not part of this installation")
