"""Users read and write a distribution in two versions; the conversion webhook renames one field of its conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LISTED = {"v1alpha1": "failedNamespace", "v1beta1": "failedNamespaces"}


def convert(obj: Mapping[str, Any], desired: str) -> dict[str, Any]:
    """The object in the desired apiVersion. Fields and versions that are not known stay as they are."""
    converted = {**obj, "apiVersion": desired}
    status = obj.get("status")
    name = LISTED.get(desired.rpartition("/")[2])
    if name is None or not isinstance(status, Mapping) or not isinstance(status.get("conditions"), list):
        return converted
    conditions = [_renamed(condition, name) for condition in status["conditions"]]
    return {**converted, "status": {**status, "conditions": conditions}}


def _renamed(condition: object, name: str) -> object:
    if not isinstance(condition, Mapping):
        return condition
    return {name if key in LISTED.values() else key: value for key, value in condition.items()}
