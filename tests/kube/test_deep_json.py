"""Tests the truncation of JSON that is nested too deep."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.kube.codec import MAX_DEPTH, is_truncated, truncate_deep_json

TEXTS = st.text() | st.sampled_from(["[", '{"', '"]', "\\", '\\"{', "}]}"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=30,
)


def nested(levels: int, core: Any = 7, key: str = "a") -> Any:
    for _ in range(levels):
        core = {key: core}
    return core


def depth(document: Any) -> int:
    if isinstance(document, dict | list):
        return 1 + max(map(depth, document.values() if isinstance(document, dict) else document), default=0)
    return 0


@given(JSON)
def test_json_that_is_not_deep_is_unchanged(document: Any) -> None:
    raw = json.dumps(document, ensure_ascii=False).encode()
    assert truncate_deep_json(raw) == raw
    assert not is_truncated(truncate_deep_json(raw))


@given(JSON, st.integers(MAX_DEPTH - 1, MAX_DEPTH + 40), JSON)
def test_a_deep_part_is_cut_and_the_rest_is_kept(core: Any, levels: int, beside: Any) -> None:
    made = truncate_deep_json(json.dumps({"deep": nested(levels, core), "beside": beside}).encode())
    document = json.loads(made)
    assert document["beside"] == beside
    assert depth(document) <= MAX_DEPTH
    assert is_truncated(made) == (1 + levels + depth(core) > MAX_DEPTH)


def test_every_deep_part_is_cut() -> None:
    made = truncate_deep_json(json.dumps([nested(MAX_DEPTH + 1), 1, nested(MAX_DEPTH + 1), {"x": nested(3)}]).encode())
    document = json.loads(made)
    assert (len(document), document[1], document[3]) == (4, 1, {"x": nested(3)})
    assert depth(document) == MAX_DEPTH


@pytest.mark.parametrize("end", [0, 1, 5000, 9999])
def test_unterminated_json_stays_malformed(end: int) -> None:
    raw = b"[" * 10_000 + b"]" * end
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(truncate_deep_json(raw))
