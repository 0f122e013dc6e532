"""The custom resource definitions that the vocabularies need, one file each, as `samara crds` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import yaml

from samara.core.model import Kind

SUFFIX = ".yaml"
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


@cache
def short_names(kind: Kind) -> tuple[str, ...]:
    """The short names of a custom resource, as kubectl accepts them. Empty if its definition is not shipped."""
    specs = [yaml.load(text(name), Loader=_Loader)["spec"] for name in needed((kind,))]  # noqa: S506 - it is a safe one
    return tuple(name for spec in specs for name in spec["names"].get("shortNames") or ())
