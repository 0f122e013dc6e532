"""Converts a SubNamespace between its three versions. Every conversion goes through the newest, which is the hub.

In the oldest version the status is one word. Two annotations keep the status of the newest version there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from samara.core.admission import ConversionError
from samara.vocabularies.accurate.labels import GROUP
from samara.vocabularies.accurate.sub import READY, STALLED

V1, V2_ALPHA_1, V2 = (f"{GROUP}/{version}" for version in ("v1", "v2alpha1", "v2"))
OBSERVED = f"internal.{GROUP}/observed-generation"
STORED_CONDITIONS = f"internal.{GROUP}/conditions"
OK, IN_CONFLICT = "ok", "conflict"
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_INT64_LIMIT = 2**63
_TEXTS = ("type", "status", "reason", "message", "lastTransitionTime")
Json = dict[str, Any]


def convert(obj: Mapping[str, Any], desired: str) -> Json:
    """The same object in the desired apiVersion. Raises ConversionError for an unknown version or a bad annotation."""
    current = str(obj.get("apiVersion", ""))
    for version in (current, desired):
        if version not in (V1, V2_ALPHA_1, V2):
            raise ConversionError(f"{V1}, {V2_ALPHA_1} or {V2} was expected, found {version}")
    if current == desired:
        return dict(obj)
    hub = _from_v1(obj) if current == V1 else dict(obj)
    converted = _to_v1(hub) if desired == V1 else hub
    return {**converted, "apiVersion": desired}


def _to_v1(hub: Mapping[str, Any]) -> Json:
    status = hub.get("status") or {}
    observed, conditions = status.get("observedGeneration") or 0, status.get("conditions") or []
    annotations = {
        **({OBSERVED: str(observed)} if observed else {}),
        **(
            {STORED_CONDITIONS: json.dumps(conditions, separators=(",", ":"), ensure_ascii=False)} if conditions else {}
        ),
    }
    status_v1 = _status_v1(observed, conditions, _metadata(hub).get("generation") or 0)
    return _with_annotations(hub, annotations) | ({"status": status_v1} if status_v1 else {})


def _status_v1(observed: int, conditions: list[Json], generation: int) -> str:
    """The status in the oldest version: a word, or an empty text if there is none yet."""
    if any(condition.get("type") == STALLED and condition.get("status") == "True" for condition in conditions):
        return IN_CONFLICT
    is_well = all(condition.get("type") == READY and condition.get("status") == "True" for condition in conditions)
    return OK if observed and observed == generation and is_well else ""


def _from_v1(obj: Mapping[str, Any]) -> Json:
    """The word of the oldest version is dropped, because the annotations hold the complete status."""
    annotations = _metadata(obj).get("annotations") or {}
    observed = _observed(annotations[OBSERVED]) if OBSERVED in annotations else 0
    conditions = _conditions(annotations[STORED_CONDITIONS]) if STORED_CONDITIONS in annotations else []
    status = {
        **({"observedGeneration": observed} if observed else {}),
        **({"conditions": conditions} if conditions else {}),
    }
    return _with_annotations(obj, {}) | ({"status": status} if status else {})


def _observed(text: object) -> int:
    number = int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else _INT64_LIMIT
    if not -_INT64_LIMIT <= number < _INT64_LIMIT:
        raise ConversionError(f"the annotation {OBSERVED} must hold a whole number of 64 bits, and does not")
    return number


def _conditions(text: object) -> list[Json]:
    try:
        conditions = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        conditions = text
    if conditions is None:
        return []
    if not isinstance(conditions, list) or not all(map(_is_condition, conditions)):
        raise ConversionError(f"the annotation {STORED_CONDITIONS} must hold a JSON list of conditions, and does not")
    return conditions


def _is_condition(condition: object) -> bool:
    """True if every field of a condition has its type. The API server refuses a condition that lacks a field."""
    if not isinstance(condition, dict):
        return False
    observed = condition.get("observedGeneration", 0)
    texts = (condition.get(name, "") for name in _TEXTS)
    return type(observed) is int and all(isinstance(text, str) for text in texts)


def _with_annotations(obj: Mapping[str, Any], ours: Mapping[str, str]) -> Json:
    """The object without a status. Of our two annotations it has those in `ours`."""
    metadata = _metadata(obj)
    old = metadata.get("annotations") or {}
    annotations = {key: value for key, value in old.items() if key not in (OBSERVED, STORED_CONDITIONS)} | dict(ours)
    other_metadata = {key: value for key, value in metadata.items() if key != "annotations"}
    other_fields = {key: value for key, value in obj.items() if key != "status"}
    return {**other_fields, "metadata": {**other_metadata, **({"annotations": annotations} if annotations else {})}}


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata: Mapping[str, Any] = obj.get("metadata") or {}
    return metadata
