"""Which kinds are copied down trees, according to the settings and to the original's configuration."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support import toys

from kubectl_accurate.commands import columns
from samara.assembly import kinds_in_trees
from samara.cli.inspect.tree_kinds import kinds_in_file
from samara.core.model import KindName
from samara.kube.errors import SamaraError
from samara.settings import Settings, parse
from samara.vocabularies import VOCABULARIES, accurate

MAPS = KindName("", "v1", "ConfigMap")
ROLES = KindName("rbac.authorization.k8s.io", "v1", "Role")


def kinds_of(text: str) -> tuple[KindName, ...]:
    return kinds_in_file(text, "ConfigMap x", accurate.ORIGINAL_CONFIG, accurate.CONFIG_KEYS)


def test_the_kinds_of_vocabularies_without_a_tree_are_not_copied_down_trees() -> None:
    watches = "watches: [{group: rbac.authorization.k8s.io, version: v1, kind: Role}]"
    assert kinds_in_trees(parse(f"vocabularies: {{sync-to: {{}}, accurate: {{{watches}}}}}", "test")) == (ROLES,)
    assert kinds_in_trees(parse("vocabularies: {sync-to: {}}", "test")) == ()


def test_the_kinds_of_any_vocabulary_with_a_tree_are_copied_down_trees() -> None:
    chains, others = replace(toys.CHAINS, kinds=lambda own: (MAPS,)), replace(toys.TEAMS, kinds=lambda own: (ROLES,))
    named = {vocabulary.name: toys.ToySettings() for vocabulary in (chains, others)}
    assert kinds_in_trees(Settings(vocabularies=named), (*VOCABULARIES, chains, others)) == (MAPS,)


def test_only_the_watches_of_the_originals_file_are_read() -> None:
    text = "watches: [{version: v1, kind: Secret}, {group: apps, version: v1, kind: Deployment}]\nsomething: new\n"
    assert kinds_of(text) == (KindName("", "v1", "Secret"), KindName("apps", "v1", "Deployment"))
    assert kinds_of("") == ()
    assert kinds_of("labelKeys: [team]\n") == ()


@pytest.mark.parametrize("text", ["watches: 3", "watches: [{kind: 3}]", "[", "- a"])
def test_unreadable_file_is_one_line_that_names_it(text: str) -> None:
    with pytest.raises(SamaraError, match=r"^ConfigMap x: ") as fault:
        kinds_of(text)
    assert "\n" not in str(fault.value)


def test_columns_begin_at_the_same_place() -> None:
    assert columns([("Kind", "Name"), ("Secret", "")]) == ["Kind   Name", "Secret "]
