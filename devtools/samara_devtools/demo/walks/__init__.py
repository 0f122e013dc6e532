"""The walks of the demo. The module of a walk has the name of its vocabulary with `_` for `-`, and a class `Walk`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from samara.vocabularies import VOCABULARIES
from samara_devtools.demo.steps import Steps


def walks() -> dict[str, type[Steps]]:
    """The walk of each vocabulary that has one, by its name and in order of rank."""
    modules = {vocabulary.name: f"{__name__}.{vocabulary.name.replace('-', '_')}" for vocabulary in VOCABULARIES}
    return {name: import_module(module).Walk for name, module in modules.items() if find_spec(module) is not None}
