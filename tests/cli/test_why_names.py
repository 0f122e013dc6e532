"""How people name what they ask about."""

from __future__ import annotations

import pytest
from tests.support.toys import full_registry
from tests.support.world import at

from samara.cli.commands.why import named
from samara.core.model import CONFIG_MAP


@pytest.mark.parametrize("word", ["cm", "configmap", "ConfigMaps", "v1/ConfigMap"])
def test_a_kind_is_known_by_its_names_and_as_kubectl_shortens_it(word: str) -> None:
    assert named(f"{word}/ca", "team", full_registry()) == at("team", "ca")._replace(kind=CONFIG_MAP)
