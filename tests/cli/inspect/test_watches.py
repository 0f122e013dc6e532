"""The original's configuration, as far as the plugin reads it."""

from __future__ import annotations

import pytest

from kubectl_accurate.commands import columns
from samara.cli.inspect.watches import parse_watches
from samara.core.model import KindName
from samara.kube.errors import SamaraError


def test_only_the_watches_of_the_originals_file_are_read() -> None:
    text = "watches: [{version: v1, kind: Secret}, {group: apps, version: v1, kind: Deployment}]\nsomething: new\n"
    assert parse_watches(text, "ConfigMap x") == (KindName("", "v1", "Secret"), KindName("apps", "v1", "Deployment"))
    assert parse_watches("", "ConfigMap x") == ()
    assert parse_watches("labelKeys: [team]\n", "ConfigMap x") == ()


@pytest.mark.parametrize("text", ["watches: 3", "watches: [{kind: 3}]", "[", "- a"])
def test_unreadable_file_is_one_line_that_names_it(text: str) -> None:
    with pytest.raises(SamaraError, match=r"^ConfigMap x: ") as fault:
        parse_watches(text, "ConfigMap x")
    assert "\n" not in str(fault.value)


def test_columns_begin_at_the_same_place() -> None:
    assert columns([("Kind", "Name"), ("Secret", "")]) == ["Kind   Name", "Secret "]
