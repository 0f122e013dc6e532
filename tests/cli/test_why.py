"""How users name the kind of an object."""

from __future__ import annotations

import pytest
from tests.support.toys import full_registry
from tests.support.world import at

from samara.cli.commands.why import parse_ref
from samara.core.model import CONFIG_MAP, Kind
from samara.vocabularies.fishysecret import FISHY_SECRET
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION


@pytest.mark.parametrize("kind", ["cm", "configmap", "ConfigMaps", "v1/ConfigMap"])
def test_kind_is_known_by_its_names_and_by_its_short_name(kind: str) -> None:
    assert parse_ref(f"{kind}/ca", "team", full_registry()) == at("team", "ca")._replace(kind=CONFIG_MAP)


@pytest.mark.parametrize(("short", "kind"), [("fishy", FISHY_SECRET), ("distributor", RESOURCE_DISTRIBUTION)])
def test_custom_resource_is_known_by_the_short_name_in_its_definition(short: str, kind: Kind) -> None:
    assert parse_ref(f"{short}/db", "team", full_registry()).kind == kind
