"""`samara crds` prints the CRDs that the settings need. The two versions of a CRD agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tests.cli.program import samara_inside

from samara import crds
from samara.cli.deploy.manifests import definitions
from samara.settings import Settings
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION, ResourceDistributionSettings
from samara.vocabularies.resource_distribution.status import MAX_LISTED, TYPES
from samara.vocabularies.secret_copy import SecretCopySettings

NAME = "resourcedistributions.apps.kruise.io"
Json = dict[str, Any]


def definition() -> Json:
    definition_json: Json = yaml.safe_load(crds.text(NAME))
    return definition_json


def schemas() -> dict[str, Json]:
    return {version["name"]: version["schema"]["openAPIV3Schema"] for version in definition()["spec"]["versions"]}


def test_only_the_definitions_that_the_settings_need_are_printed() -> None:
    assert definitions(Settings(vocabularies={"resource-distribution": ResourceDistributionSettings()})) == [
        crds.text(NAME)
    ]
    assert definitions(Settings(vocabularies={"secret-copy": SecretCopySettings()})) == []


def test_yaml_and_json_print_the_same_definitions(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("vocabularies: {resource-distribution: {}}")
    printed = list(yaml.safe_load_all(samara_inside("crds", "--config", file).out))
    assert printed == samara_inside("crds", "--config", file, "-o", "json").json["items"] == [definition()]


def test_settings_without_a_custom_resource_get_a_note_and_no_output(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("vocabularies: {secret-copy: {}}")
    done = samara_inside("crds", "--config", file)
    assert (done.code, done.out) == (0, "")
    assert "need no custom resource" in done.err


def test_a_definition_is_named_by_its_kind_and_defines_it() -> None:
    made, kind = definition(), RESOURCE_DISTRIBUTION
    assert made["metadata"]["name"] == f"{kind.plural}.{kind.group}" == NAME
    assert made["spec"]["names"]["kind"] == kind.name
    assert made["spec"]["names"]["shortNames"] == ["distributor"]
    assert made["spec"]["scope"] == "Cluster"


def test_every_shipped_definition_is_kept_by_helm_and_has_no_conversion() -> None:
    for name in crds.shipped():
        made = yaml.safe_load(crds.text(name))
        assert made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert "conversion" not in made["spec"]


def test_both_versions_are_served_and_the_newer_is_stored() -> None:
    versions = {
        version["name"]: (version["served"], version["storage"]) for version in definition()["spec"]["versions"]
    }
    assert versions == {"v1beta1": (True, True), "v1alpha1": (True, False)}
    assert RESOURCE_DISTRIBUTION.version == "v1beta1"


def test_the_versions_differ_in_the_name_of_a_conditions_list_and_in_nothing_else() -> None:
    beta, alpha = crds.text(NAME).split("    - name: v1alpha1\n")
    beta = beta.split("    - name: v1beta1\n")[1]
    assert beta.replace("storage: true", "storage: false").replace("failedNamespaces:", "failedNamespace:") == alpha


def test_columns_are_total_succeed_and_failed() -> None:
    for version in definition()["spec"]["versions"]:
        columns = {column["name"]: column["jsonPath"] for column in version["additionalPrinterColumns"]}
        assert columns == {
            "TOTAL": ".status.desired",
            "SUCCEED": ".status.succeeded",
            "FAILED": ".status.failed",
        }
        assert version["subresources"] == {"status": {}}


def test_the_embedded_resource_keeps_unknown_fields() -> None:
    for schema in schemas().values():
        resource = schema["properties"]["spec"]["properties"]["resource"]
        assert resource["x-kubernetes-preserve-unknown-fields"]
        assert resource["x-kubernetes-embedded-resource"]


def test_numbers_have_the_sizes_of_the_original() -> None:
    for schema in schemas().values():
        status = schema["properties"]["status"]["properties"]
        formats = {name: status[name].get("format") for name in status if status[name]["type"] == "integer"}
        assert formats == {"desired": "int32", "succeeded": "int32", "failed": "int32", "observedGeneration": "int64"}


def test_every_field_is_described_for_kubectl_explain() -> None:
    for schema in schemas().values():
        assert list(undescribed(schema, "", top=True)) == []


def undescribed(schema: Json, at: str, top: bool = False) -> list[str]:
    own = [] if top or schema.get("description") else [at]
    below = [
        path for name, field in schema.get("properties", {}).items() for path in undescribed(field, f"{at}.{name}")
    ]
    items = schema.get("items", {}).get("properties", {})
    return [
        path
        for path in (*own, *below, *(f for name, item in items.items() for f in undescribed(item, f"{at}[].{name}")))
        if path not in (".apiVersion", ".kind", ".metadata")
    ]


def test_descriptions_match_what_the_program_does() -> None:
    text = crds.text(NAME)
    assert f"more than {MAX_LISTED}, a last entry" in text
    description = schemas()["v1beta1"]["properties"]["status"]["properties"]["conditions"]["description"]
    assert [description.index(kind) for kind in TYPES] == sorted(description.index(kind) for kind in TYPES)
