"""The two versions of a distribution, which differ in one name: what a condition calls its namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LISTED = {"v1alpha1": "failedNamespace", "v1beta1": "failedNamespaces"}


def convert(obj: Mapping[str, Any], desired: str) -> dict[str, Any]:
    """The same object in the desired apiVersion; what is not known stays as it is."""
    made = {**obj, "apiVersion": desired}
    status = obj.get("status")
    name = LISTED.get(desired.rpartition("/")[2])
    if name is None or not isinstance(status, Mapping) or not isinstance(status.get("conditions"), list):
        return made
    return {**made, "status": {**status, "conditions": [_renamed(each, name) for each in status["conditions"]]}}


def _renamed(condition: object, name: str) -> object:
    if not isinstance(condition, Mapping):
        return condition
    return {name if key in LISTED.values() else key: value for key, value in condition.items()}
