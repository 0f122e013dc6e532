"""The comparison of installed CRDs with the shipped ones."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest
import yaml
from tests.kube.scripted import Answer, access, refuses, says, serving

from samara import crds
from samara.environment import missing_fields, warn_of_outdated_crds
from samara.kube.client import Client, unrestricted
from samara.settings import parse

FISHY = "fishysecrets.fishykeys.2v.pm"
Json = dict[str, Any]


def ours(name: str = FISHY) -> Json:
    crd: Json = yaml.safe_load(crds.text(name))
    return crd


def without(*path: str) -> Json:
    """Our CRD without one field, as an older version had it."""
    older = deepcopy(ours())
    for version in older["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        for step in path[:-1]:
            schema = schema["items"] if step == "[]" else schema["properties"][step]
        del schema["properties"][path[-1]]
    return older


@pytest.mark.parametrize("name", crds.shipped())
def test_the_shipped_crd_lacks_no_field(name: str) -> None:
    assert missing_fields(ours(name), ours(name)) == []


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        (("spec", "refreshInterval"), "v1alpha1 spec.refreshInterval"),
        (("spec", "data", "[]", "optional"), "v1alpha1 spec.data[].optional"),
        (("status", "lastSyncedTime"), "v1alpha1 status.lastSyncedTime"),
    ],
)
def test_a_missing_field_is_named(path: tuple[str, ...], missing: str) -> None:
    assert missing_fields(without(*path), ours()) == [missing]


def test_a_crd_that_preserves_unknown_fields_lacks_no_field() -> None:
    loose = ours()
    for version in loose["spec"]["versions"]:
        keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"]["openAPIV3Schema"]["properties"] = {"spec": keeps, "status": keeps}
    assert missing_fields(loose, ours()) == []


@pytest.mark.parametrize("version", [{"name": "v1alpha1"}, {"name": "v1alpha1", "schema": {}}, {"name": "v0"}])
def test_a_crd_without_a_schema_is_not_compared(version: Json) -> None:
    assert missing_fields({"spec": {"versions": [version]}}, ours()) == []


def warnings(caplog: pytest.LogCaptureFixture, answer: Answer) -> list[str]:
    async def run() -> None:
        async with serving(answer) as script, Client(access(script), may_write=unrestricted) as client:
            await warn_of_outdated_crds(client, parse("vocabularies: {fishysecret: {}, secret-copy: {}}", "test"))
            assert [seen.path.rpartition("/")[2] for seen in script.seen] == [FISHY]

    asyncio.run(run())
    return [f"{record.message} {getattr(record, 'fields', '')}" for record in caplog.records]


def test_the_warning_about_an_older_crd_gives_advice(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = warnings(caplog, says(without("spec", "refreshInterval")))
    assert line.startswith("definition.older")
    assert "spec.refreshInterval" in line
    assert "samara crds" in line


@pytest.mark.parametrize("answer", [says(ours()), refuses(404, "NotFound"), refuses(403, "Forbidden")])
def test_there_is_no_warning_for_an_equal_missing_or_unreadable_crd(
    caplog: pytest.LogCaptureFixture, answer: Answer
) -> None:
    assert warnings(caplog, answer) == []
