"""Unknown fields and values of another type in a custom resource, according to the shipped CRDs."""

from __future__ import annotations

import pytest
import yaml

from samara.cli.lint.definitions import embedded, misfits, served_versions
from samara.core.model import Kind
from samara.vocabularies import VOCABULARIES
from samara.vocabularies.fishysecret import FISHY_SECRET
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION

KINDS = [kind for vocabulary in VOCABULARIES for kind in vocabulary.custom_resources]


def misfits_in(text: str, api_version: str = FISHY_SECRET.api_version) -> list[tuple[str, int, str, str]]:
    reported = misfits(FISHY_SECRET, api_version, yaml.compose(text))
    return sorted((misfit.path, misfit.line, misfit.found, misfit.expected) for misfit in reported)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_custom_resource_has_a_definition_with_its_version(kind: Kind) -> None:
    assert kind.api_version in served_versions(kind)


def test_a_field_that_the_definition_does_not_have_is_reported_on_every_level() -> None:
    reason = "the server drops any other field"
    text = "kind: FishySecret\nspce: {}\nspec:\n  target:\n    nmae: a\n  data:\n  - path: /a\n"
    assert misfits_in(text) == [
        ("spce", 2, "a field", f"spec: {reason}"),
        ("spec.data[0].path", 7, "a field", f"one of secretPath, secretKeyName, optional: {reason}"),
        ("spec.target.nmae", 5, "a field", f"one of name, namespace, type: {reason}"),
    ]


@pytest.mark.parametrize(
    ("spec", "path", "found", "expected"),
    [
        ("[a]", "spec", "a list", "a mapping"),
        ("{data: {a: b}}", "spec.data", "a mapping", "a list"),
        ("{target: {name: 7}}", "spec.target.name", "a number (7)", "text in quotes"),
        ("{suspend: 'yes'}", "spec.suspend", "a text", "true or false"),
        ("{data: [a]}", "spec.data[0]", "a text", "a mapping"),
    ],
)
def test_a_value_of_another_type_is_reported(spec: str, path: str, found: str, expected: str) -> None:
    assert misfits_in(f"spec: {spec}\n") == [(path, 1, found, expected)]


def test_a_field_that_is_null_counts_as_absent() -> None:
    assert misfits_in("spec: {target: null, suspend: ~}\n") == []


def test_metadata_and_status_are_not_checked() -> None:
    assert misfits_in("metadata: {x: y}\nstatus: {z: 1}\nspec: {}\n") == []


def test_a_manifest_of_an_unknown_version_is_checked_against_the_known_one() -> None:
    assert [path for path, *_ in misfits_in("spec: {x: 1}\n", "fishykeys.2v.pm/v9")] == ["spec.x"]


def test_an_embedded_object_may_have_any_field_and_is_returned() -> None:
    root = yaml.compose("spec: {resource: {kind: Secret, anything: [1]}, targets: {}}\n")
    version = RESOURCE_DISTRIBUTION.api_version
    assert list(misfits(RESOURCE_DISTRIBUTION, version, root)) == []
    [node] = embedded(RESOURCE_DISTRIBUTION, version, root)
    assert [key.value for key, _ in node.value] == ["kind", "anything"]


def test_without_a_definition_only_the_version_is_checked() -> None:
    other = Kind("example.com", "v2", "Other", "others")
    assert served_versions(other) == ("example.com/v2",)
    assert list(misfits(other, "example.com/v1", yaml.compose("spec: {x: 1}\n"))) == []
