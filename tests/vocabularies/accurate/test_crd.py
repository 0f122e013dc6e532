"""The CRD of SubNamespace: three versions, of which only the newest is served and stored."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from samara import crds
from samara.vocabularies.accurate.labels import SUB_NAMESPACE

NAME = "subnamespaces.accurate.cybozu.com"
Json = dict[str, Any]


def definition() -> Json:
    document: Json = yaml.safe_load(crds.text(NAME))
    return document


def versions() -> dict[str, Json]:
    return {version["name"]: version for version in definition()["spec"]["versions"]}


def schema(version: str) -> Json:
    document: Json = versions()[version]["schema"]["openAPIV3Schema"]
    return document


def test_the_crd_is_found_by_its_kind() -> None:
    assert crds.needed((SUB_NAMESPACE,)) == (NAME,)
    assert definition()["metadata"]["name"] == NAME


def test_the_crd_is_namespaced_and_has_neither_short_names_nor_categories() -> None:
    spec = definition()["spec"]
    assert (spec["group"], spec["scope"]) == ("accurate.cybozu.com", "Namespaced")
    assert spec["names"] == {
        "kind": "SubNamespace",
        "listKind": "SubNamespaceList",
        "plural": "subnamespaces",
        "singular": "subnamespace",
    }


def test_only_the_newest_version_is_served_and_stored() -> None:
    flags = {
        name: (version["served"], version["storage"], "subresources" in version) for name, version in versions().items()
    }
    assert flags == {"v1": (False, False, False), "v2alpha1": (False, False, True), "v2": (True, True, True)}
    assert {name for name, version in versions().items() if version.get("deprecated")} == {"v1", "v2alpha1"}
    assert SUB_NAMESPACE.version == "v2"


def test_no_version_has_printer_columns() -> None:
    assert not [version for version in versions().values() if "additionalPrinterColumns" in version]


@pytest.mark.parametrize("version", ["v1", "v2alpha1", "v2"])
def test_the_spec_is_two_optional_maps_of_texts(version: str) -> None:
    spec = schema(version)["properties"]["spec"]
    assert "required" not in schema(version)
    assert "required" not in spec
    assert set(spec["properties"]) == {"labels", "annotations"}
    for field in spec["properties"].values():
        assert field["additionalProperties"] == {"type": "string"}


def test_the_status_of_v1_is_one_word() -> None:
    status = schema("v1")["properties"]["status"]
    assert (status["type"], status["enum"]) == ("string", ["ok", "conflict"])


def test_v2alpha1_and_v2_have_the_same_schema() -> None:
    assert schema("v2alpha1") == schema("v2")


def test_conditions_are_standard_conditions_keyed_by_type() -> None:
    status = schema("v2")["properties"]["status"]["properties"]
    assert (status["observedGeneration"]["type"], status["observedGeneration"]["format"]) == ("integer", "int64")
    conditions = status["conditions"]
    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])
    assert set(conditions["items"]["required"]) == {"lastTransitionTime", "message", "reason", "status", "type"}
    assert conditions["items"]["properties"]["status"]["enum"] == ["True", "False", "Unknown"]


@pytest.mark.parametrize("version", ["v1", "v2alpha1", "v2"])
def test_every_field_is_described_for_kubectl_explain(version: str) -> None:
    assert undescribed(schema(version), "") == []


def undescribed(found: Json, at: str) -> list[str]:
    own = [] if found.get("description") or at in (".apiVersion", ".kind", ".metadata") else [at or "the kind itself"]
    below = {**found.get("properties", {}), **found.get("items", {}).get("properties", {})}
    return own + [path for name, field in below.items() for path in undescribed(field, f"{at}.{name}")]
