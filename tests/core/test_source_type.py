"""The size of what a vocabulary has to know: a SourceType that grows asks for a value of its own."""

from __future__ import annotations

from dataclasses import fields

from samara.core.source_type import SourceType

MOST = 15


def test_a_source_type_has_at_most_fifteen_attributes() -> None:
    names = [field.name for field in fields(SourceType)]
    assert len(names) <= MOST, "put what belongs together into one value, as Names, Policy and Hierarchy do"
