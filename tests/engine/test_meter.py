"""Counters for the metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.engine.meter import BUCKETS, Histogram, Meter


@given(st.lists(st.floats(0, 100), max_size=50))
def test_each_duration_is_counted_in_the_first_bucket_that_holds_it(seconds: list[float]) -> None:
    histogram = Histogram()
    for each in seconds:
        histogram.observe(each)

    edges = (*BUCKETS, float("inf"))
    below = [sum(each <= edge for each in seconds) for edge in edges]
    assert [sum(histogram.counts[: index + 1]) for index in range(len(edges))] == below
    assert histogram.total == pytest.approx(sum(seconds))


def test_admissions_are_counted_by_kind_and_result() -> None:
    meter = Meter()
    for result in ("allowed", "allowed", "failed"):
        meter.admitted("v1/Secret", result, 0.01)

    assert meter.admissions == {("v1/Secret", "allowed"): 2, ("v1/Secret", "failed"): 1}
    assert sum(meter.admission_seconds.counts) == 3


def test_writes_are_counted_by_vocabulary_verb_and_result() -> None:
    meter = Meter()
    for result in ("done", "done", "refused"):
        meter.wrote("secret-copy", "create", result, 0.01)

    assert meter.writes == {("secret-copy", "create", "done"): 2, ("secret-copy", "create", "refused"): 1}
    assert sum(meter.write_seconds.counts) == 3
