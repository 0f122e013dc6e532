"""The three versions of a SubNamespace. The newest is the hub: every conversion goes through it.

The oldest has one word for a status. What the newest says in its status travels through it in two annotations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from samara.core.admission import ConversionError
from samara.vocabularies.accurate.labels import GROUP

V1, V2_ALPHA_1, V2 = (f"{GROUP}/{version}" for version in ("v1", "v2alpha1", "v2"))
OBSERVED = f"internal.{GROUP}/observed-generation"
CONDITIONS = f"internal.{GROUP}/conditions"
STALLED = "Stalled"
OK, CONFLICT = "ok", "conflict"
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_MOST = 2**63
_TEXTS = ("type", "status", "reason", "message", "lastTransitionTime")
Json = dict[str, Any]


def convert(obj: Mapping[str, Any], desired: str) -> Json:
    """The same object in the desired apiVersion. Raises where a version is not known or an annotation is odd."""
    have = str(obj.get("apiVersion", ""))
    for version in (have, desired):
        if version not in (V1, V2_ALPHA_1, V2):
            raise ConversionError(f"{V1}, {V2_ALPHA_1} or {V2} was expected, found {version}")
    if have == desired:
        return dict(obj)
    hub = _from_v1(obj) if have == V1 else dict(obj)
    made = _to_v1(hub) if desired == V1 else hub
    return {**made, "apiVersion": desired}


def _to_v1(hub: Mapping[str, Any]) -> Json:
    status = hub.get("status") or {}
    observed, conditions = status.get("observedGeneration") or 0, status.get("conditions") or []
    kept = {
        **({OBSERVED: str(observed)} if observed else {}),
        **({CONDITIONS: json.dumps(conditions, separators=(",", ":"), ensure_ascii=False)} if conditions else {}),
    }
    word = _word(observed, conditions, _metadata(hub).get("generation") or 0)
    return _with_annotations(hub, kept) | ({"status": word} if word else {})


def _word(observed: int, conditions: list[Json], generation: int) -> str:
    """The one word of the oldest version, or none."""
    if any(each.get("type") == STALLED and each.get("status") == "True" for each in conditions):
        return CONFLICT
    return OK if observed and observed == generation and not conditions else ""


def _from_v1(obj: Mapping[str, Any]) -> Json:
    """Its own word for the status is dropped: it can be made again."""
    annotations = _metadata(obj).get("annotations") or {}
    observed = _observed(annotations[OBSERVED]) if OBSERVED in annotations else 0
    conditions = _conditions(annotations[CONDITIONS]) if CONDITIONS in annotations else []
    status = {
        **({"observedGeneration": observed} if observed else {}),
        **({"conditions": conditions} if conditions else {}),
    }
    return _with_annotations(obj, {}) | ({"status": status} if status else {})


def _observed(text: object) -> int:
    found = int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else _MOST
    if not -_MOST <= found < _MOST:
        raise ConversionError(f"the annotation {OBSERVED} must hold a whole number of 64 bits, and does not")
    return found


def _conditions(text: object) -> list[Json]:
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        found = text
    if found is None:
        return []
    if not isinstance(found, list) or not all(map(_is_condition, found)):
        raise ConversionError(f"the annotation {CONDITIONS} must hold a JSON list of conditions, and does not")
    return found


def _is_condition(found: object) -> bool:
    """True if every field of a condition has its type. The API server refuses a condition that lacks a field."""
    if not isinstance(found, dict):
        return False
    numbered = found.get("observedGeneration", 0)
    texts = (found.get(name, "") for name in _TEXTS)
    return type(numbered) is int and all(isinstance(text, str) for text in texts)


def _with_annotations(obj: Mapping[str, Any], kept: Mapping[str, str]) -> Json:
    """The object without a status and with just these annotations of ours; where none result there is no map."""
    metadata = _metadata(obj)
    own = metadata.get("annotations") or {}
    annotations = {key: value for key, value in own.items() if key not in (OBSERVED, CONDITIONS)} | dict(kept)
    bare = {key: value for key, value in metadata.items() if key != "annotations"}
    rest = {key: value for key, value in obj.items() if key != "status"}
    return {**rest, "metadata": {**bare, **({"annotations": annotations} if annotations else {})}}


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = obj.get("metadata") or {}
    return found
