"""Tests the figures about another client's writes."""

import pytest

from samara_devtools.bench.audit import Counts, Entry
from samara_devtools.bench.bystander import Bystander, ClientRuns, latencies_during
from samara_devtools.bench.figures import Burst, Cpu


def entry(user: str, began: float, ended: float, *, resource: str = "secrets", verb: str = "update") -> Entry:
    return Entry(user, "agent", verb, resource, "", "a", "x", 200, began, ended)


def beside(per_second: int) -> ClientRuns:
    return ClientRuns([Burst(per_second, 1.0, Counts(), Cpu(0, 0, 0))])


def test_only_writes_that_begin_during_the_fan_out_count() -> None:
    entries = [
        entry("writer", 0.0, 0.5, resource="leases"),
        entry("other", 0.9, 1.1, resource="configmaps"),
        entry("writer", 1.0, 1.5),
        entry("other", 1.2, 1.25, resource="configmaps"),
        entry("other", 1.3, 1.9, resource="configmaps", verb="get"),
        entry("other", 1.9, 2.4, resource="configmaps"),
        entry("writer", 1.6, 2.0),
        entry("other", 2.1, 2.2, resource="configmaps"),
    ]
    assert latencies_during(entries, "other", "writer") == pytest.approx([50.0, 500.0])


def test_without_a_fan_out_nothing_counts() -> None:
    assert latencies_during([entry("other", 1.0, 2.0)], "other", "writer") == []


@pytest.mark.parametrize(
    ("ours", "equal"),
    [(900, 8), (1000, 8), (1100, 16), (1500, 32), (9000, 32)],
)
def test_the_bare_client_to_compare_with_is_the_slowest_that_reaches_our_rate(ours: int, equal: int) -> None:
    bare = {8: beside(1000), 16: beside(1200), 32: beside(1450)}
    assert Bystander(beside(ours), bare).equally_fast == equal
