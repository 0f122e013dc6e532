"""Converts a distribution between its two versions, which differ in the name of one field of the conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELD_NAMES = {"v1alpha1": "failedNamespace", "v1beta1": "failedNamespaces"}


def convert(obj: Mapping[str, Any], desired: str) -> dict[str, Any]:
    """The object in the desired apiVersion. Fields and versions that are not known stay as they are."""
    converted = {**obj, "apiVersion": desired}
    status = obj.get("status")
    name = FIELD_NAMES.get(desired.rpartition("/")[2])
    if name is None or not isinstance(status, Mapping) or not isinstance(status.get("conditions"), list):
        return converted
    conditions = [_renamed(condition, name) for condition in status["conditions"]]
    return {**converted, "status": {**status, "conditions": conditions}}


def _renamed(condition: object, name: str) -> object:
    if not isinstance(condition, Mapping):
        return condition
    return {name if key in FIELD_NAMES.values() else key: value for key, value in condition.items()}
