"""The CRD of FishySecret refuses what the vocabulary refuses, and describes its fields."""

from __future__ import annotations

from typing import Any

import pytest
import re2
import yaml
from tests.cli.test_crds import undescribed
from tests.core.test_queries import ILLEGAL, LEGAL

from samara import crds
from samara.cli.deploy.manifests import definitions
from samara.core.kinds import NEVER_COPIED_TYPES
from samara.settings import Settings
from samara.vocabularies.fishysecret import FISHY_SECRET, FishySecretSettings
from samara.vocabularies.fishysecret.spec import MAX_ITEMS, MAX_PATH_LENGTH, is_key

NAME = "fishysecrets.fishykeys.2v.pm"
Json = dict[str, Any]


def definition() -> Json:
    definition: Json = yaml.safe_load(crds.text(NAME))
    return definition


def version() -> Json:
    (only,) = definition()["spec"]["versions"]
    only_version: Json = only
    return only_version


def schema() -> Json:
    root: Json = version()["schema"]["openAPIV3Schema"]
    return root


def spec() -> Json:
    fields: Json = schema()["properties"]["spec"]
    return fields


def item() -> Json:
    fields: Json = spec()["properties"]["data"]["items"]["properties"]
    return fields


def test_definition_of_fishysecret_is_printed_if_the_settings_need_it() -> None:
    assert definitions(Settings(vocabularies={"fishysecret": FishySecretSettings()})) == [crds.text(NAME)]


def test_definition_of_fishysecret_is_named_by_its_kind_and_has_a_short_name() -> None:
    made, kind = definition(), FISHY_SECRET
    assert made["metadata"]["name"] == f"{kind.plural}.{kind.group}" == NAME
    assert made["spec"]["names"]["kind"] == kind.name
    assert made["spec"]["names"]["shortNames"] == ["fishy"]
    assert made["spec"]["scope"] == "Namespaced"
    assert version()["name"] == kind.version


def test_4_the_status_is_a_subresource() -> None:
    assert version()["subresources"] == {"status": {}}


def test_25_columns_are_ready_reason_target_last_sync_and_age() -> None:
    columns = [column["name"] for column in version()["additionalPrinterColumns"]]
    assert columns == ["READY", "REASON", "TARGET", "LAST SYNC", "AGE"]


def test_3_spec_target_data_path_and_key_are_required() -> None:
    assert schema()["required"] == ["spec"]
    assert spec()["required"] == ["target", "data"]
    assert spec()["properties"]["target"]["required"] == ["name", "namespace"]
    assert spec()["properties"]["data"]["items"]["required"] == ["secretPath", "secretKeyName"]


def test_26_every_field_is_described_for_kubectl_explain() -> None:
    assert undescribed(schema(), "", top=True) == []


def test_limits_are_those_of_the_vocabulary() -> None:
    data = spec()["properties"]["data"]
    assert (data["minItems"], data["maxItems"], data["x-kubernetes-list-map-keys"]) == (1, MAX_ITEMS, ["secretKeyName"])
    assert item()["secretPath"]["maxLength"] == MAX_PATH_LENGTH
    (rule,) = spec()["properties"]["target"]["properties"]["type"]["x-kubernetes-validations"]
    assert all(f"'{secret_type}'" in rule["rule"] for secret_type in NEVER_COPIED_TYPES)


def accepts(field: Json, text: str) -> bool:
    """Validates a text as the server does: its length, its pattern, and the CEL rule about dots."""
    rules = [validation["rule"] for validation in field.get("x-kubernetes-validations", ())]
    dots = any("[.][.]?" in rule for rule in rules) and re2.search(r"(^|[/#])[.][.]?([/#]|$)", text)
    return (
        field["minLength"] <= len(text) <= field["maxLength"] and bool(re2.search(field["pattern"], text)) and not dots
    )


@pytest.mark.parametrize("path", LEGAL)
def test_schema_accepts_a_legal_path(path: str) -> None:
    assert accepts(item()["secretPath"], path)


@pytest.mark.parametrize("path", [path for path, _ in ILLEGAL if path != "a\ud800"])
def test_schema_rejects_any_other_path(path: str) -> None:
    assert not accepts(item()["secretPath"], path)


@pytest.mark.parametrize(
    "key", ["a", "DB_PASS", "tls.crt", ".a", ".", "..", "..a", "", "a b", "ü", "a/b", "-", "x" * 254]
)
def test_schema_accepts_the_keys_that_the_vocabulary_accepts(key: str) -> None:
    assert accepts(item()["secretKeyName"], key) == is_key(key)


@pytest.mark.parametrize(
    ("text", "legal"), [("5m", True), ("1h30m", True), ("", False), ("5", False), ("500ms", False)]
)
def test_an_interval_is_a_duration(text: str, legal: bool) -> None:
    assert accepts(spec()["properties"]["refreshInterval"], text) == legal
