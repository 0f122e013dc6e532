"""Counters and histograms of the engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.engine.metrics import BUCKETS, Metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@given(st.lists(st.floats(0, 100), max_size=50))
def test_a_duration_counts_in_each_bucket_whose_edge_it_does_not_exceed(durations: list[float]) -> None:
    metrics = Metrics()
    for seconds in durations:
        metrics.observe_plan(seconds)

    for edge in BUCKETS:
        below = sum(seconds <= edge for seconds in durations)
        assert value(metrics, "samara_plan_seconds_bucket", le=str(edge)) == below
    assert value(metrics, "samara_plan_seconds_bucket", le="+Inf") == len(durations)
    assert value(metrics, "samara_plan_seconds_sum") == pytest.approx(sum(durations))


def test_admissions_are_counted_by_kind_and_result() -> None:
    metrics = Metrics()
    for result in ("allowed", "allowed", "failed"):
        metrics.count_admission("v1/Secret", result, 0.01)

    assert value(metrics, "samara_admission_requests_total", kind="v1/Secret", result="allowed") == 2
    assert value(metrics, "samara_admission_requests_total", kind="v1/Secret", result="failed") == 1
    assert value(metrics, "samara_admission_seconds_count") == 3


def test_writes_are_counted_by_vocabulary_verb_and_result() -> None:
    metrics = Metrics()
    for result in ("done", "done", "refused"):
        metrics.count_write("secret-copy", "create", result, 0.01)

    counted = {"vocabulary": "secret-copy", "verb": "create"}
    assert value(metrics, "samara_writes_total", **counted, result="done") == 2
    assert value(metrics, "samara_writes_total", **counted, result="refused") == 1
    assert value(metrics, "samara_write_seconds_count") == 3


def test_two_processes_in_one_interpreter_count_apart() -> None:
    """Tests start several operators. A shared registry would refuse the second one."""
    one, two = Metrics(), Metrics()
    one.count_provider_call("store", "done")

    assert value(one, "samara_provider_calls_total", store="store", result="done") == 1
    assert value(two, "samara_provider_calls_total", store="store", result="done") is None
