"""The custom resource definitions that the vocabularies need, one file each, as `samara crds` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from samara.core.model import Kind

SUFFIX = ".yaml"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def shipped() -> tuple[str, ...]:
    """The names of all definitions: the plural of the kind, a dot, and its group."""
    file_names = (file.name for file in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in file_names if name.endswith(SUFFIX)))


def needed(kinds: Iterable[Kind]) -> tuple[str, ...]:
    """The names of the shipped definitions that define one of these kinds."""
    names = {f"{kind.plural}.{kind.group}" for kind in kinds}
    return tuple(name for name in shipped() if name in names)


def text(name: str) -> str:
    """One definition, as YAML."""
    return (files(__name__) / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def definition(name: str) -> dict[str, Any]:
    """One definition, parsed."""
    parsed: dict[str, Any] = yaml.load(text(name), Loader=_Loader)  # noqa: S506 - one of the two safe loaders
    return parsed


@lru_cache(maxsize=256)
def short_names(kind: Kind) -> tuple[str, ...]:
    """The short names of a custom resource, as kubectl accepts them. Empty if its definition is not shipped."""
    specs = [definition(name)["spec"] for name in needed((kind,))]
    return tuple(short_name for spec in specs for short_name in spec["names"].get("shortNames") or ())
