"""What the filters of `status` and `orphans` let through."""

from __future__ import annotations

import pytest

from samara.cli.filters import Filter


@pytest.mark.parametrize(
    ("chosen", "admits"),
    [
        (Filter(), True),
        (Filter("shop"), True),
        (Filter("billing"), False),
        (Filter(vocabularies=("sync-to", "secret-copy")), True),
        (Filter(vocabularies=("sync-to",)), False),
        (Filter(reasons=("conflict", "held")), True),
        (Filter(reasons=("held",)), False),
        (Filter("shop", ("secret-copy",), ("held",)), False),
    ],
)
def test_every_kind_of_filter_must_let_it_through(chosen: Filter, admits: bool) -> None:
    assert chosen.admits("secret-copy", "shop", ["conflict", "invalid"]) is admits
