"""The line of the field that a path names."""

from __future__ import annotations

import pytest
import yaml

from samara.cli.lint.nodes import describe_type, locate

TEXT = """spec:
  labels:
    example.com/a: x
    example.com/a.b: y
    plain: z
  list:
  - name: first
  - name: second
    "odd key": v
  empty: []
"""


@pytest.mark.parametrize(
    ("path", "line", "value"),
    [
        ("spec", 1, None),
        ("spec.labels.example.com/a", 3, "x"),
        ("spec.labels.example.com/a.b", 4, "y"),
        ("spec.labels[example.com/a.b]", 4, "y"),
        ("spec.labels.plain", 5, "z"),
        ("spec.list[1]", 8, None),
        ("spec.list[1].name", 8, "second"),
        ("spec.list[1][odd key]", 9, "v"),
    ],
)
def test_a_path_leads_to_the_line_of_its_key(path: str, line: int, value: str | None) -> None:
    place = locate(yaml.compose(TEXT), path)
    assert place.line == line
    assert place.node is not None
    assert value is None or place.node.value == value


@pytest.mark.parametrize(
    ("path", "line"),
    [("spec.labels.other", 2), ("spec.list[2].name", 6), ("spec.list.name", 6), ("spec.empty[0]", 10), ("status.x", 1)],
)
def test_a_missing_field_leads_to_the_line_of_its_nearest_ancestor(path: str, line: int) -> None:
    place = locate(yaml.compose(TEXT), path)
    assert (place.line, describe_type(place.node)) == (line, "nothing")


def test_a_mapping_that_contains_itself_does_not_loop() -> None:
    assert locate(yaml.compose('&a\n"": *a\n'), "[x].y").node is None
