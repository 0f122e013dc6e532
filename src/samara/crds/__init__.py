"""The custom resource definitions that the vocabularies need, one file each, as `samara crds` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from samara.core.model import Kind

SUFFIX = ".yaml"


def shipped() -> tuple[str, ...]:
    """The names of all definitions: the plural of the kind, a dot, and its group."""
    return tuple(
        sorted(each.name.removesuffix(SUFFIX) for each in files(__name__).iterdir() if each.name.endswith(SUFFIX))
    )


def needed(kinds: Iterable[Kind]) -> tuple[str, ...]:
    """Those of the shipped definitions that define one of these kinds."""
    wanted = {f"{kind.plural}.{kind.group}" for kind in kinds}
    return tuple(name for name in shipped() if name in wanted)


def text(name: str) -> str:
    """One definition, as YAML."""
    return (files(__name__) / f"{name}{SUFFIX}").read_text(encoding="utf-8")
