"""FishySecrets that an older CRD accepted and that the present one would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.definitions import DEFINITIONS, undefine
from tests.cluster.support.fishy import DEFINITION, FINALIZER, TARGET, Fishy, define, manifest
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually
from tests.cluster.test_fishysecret_bad_input import ITEM, PATHS, spec

Json = dict[str, Any]
STORED = [
    {"target": {"name": "db"}},
    spec(data=[]),
    spec(data=[ITEM, ITEM]),
    spec(data=[{**ITEM, "secretKeyName": "a b"}]),
]


@pytest.fixture
def loose(fishy: Fishy, stage: Stage) -> Iterator[None]:
    """A CRD that validates nothing, as an older one may."""
    live = stage.api.get(f"{DEFINITIONS}/{DEFINITION}")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    live["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    stage.api.patch(f"{DEFINITIONS}/{DEFINITION}", {"spec": {"versions": live["spec"]["versions"]}})

    def is_loose() -> bool:
        with suppress(ApiFault):
            return bool(stage.api.create(fishy.path(), manifest("probe", None), dryRun="All"))
        return False

    eventually(is_loose)
    yield
    stage.end_processes()
    undefine(stage.cluster, stage.api, DEFINITION)
    define(stage.cluster, stage.api)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "spec"),
        ({"target": {}, "data": []}, "spec.target.name"),
        (spec(data=[]), "spec.data"),
        (spec(data=[ITEM, ITEM]), "secretKeyName"),
        (spec(data=[{**ITEM, "secretKeyName": "a b"}]), "secretKeyName"),
        *((spec(data=[ITEM, {"secretKeyName": "B", "secretPath": path}]), "secretPath") for path in PATHS),
        (spec(target={"name": "Upper", "namespace": TARGET}), "spec.target.name"),
        (spec(refreshInterval="0s"), "refreshInterval"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_object_that_an_older_definition_accepted_is_reported_and_not_read(
    fishy: Fishy, loose: None, wrong: Json | None, message: str
) -> None:
    fishy.put("a", f"{CANARY}-1")
    fishy.configure()
    operator = fishy.serve()
    fishy.api.create(fishy.path(), manifest("db", wrong))
    assert message in fishy.until("db", "Invalid")
    assert fishy.data("db") is None
    assert not [name for name in operator.metrics() if name.startswith("samara_provider_calls_total{")]
    fishy.let_go("db")
    fishy.until_gone("db")


@pytest.mark.parametrize("stored", STORED, ids=lambda value: "")
def test_an_object_that_the_present_definition_would_refuse_is_reported_and_can_be_deleted(
    fishy: Fishy, stage: Stage, loose: None, stored: Json
) -> None:
    fishy.api.create(fishy.path(), manifest("db", stored, finalizers=(FINALIZER,)))
    define(stage.cluster, stage.api)

    def is_strict() -> bool:
        with suppress(ApiFault):
            return not fishy.api.create(fishy.path(), manifest("probe", None), dryRun="All")
        return True

    eventually(is_strict)
    fishy.configure()
    fishy.serve()
    fishy.until("db", "Invalid")
    fishy.let_go("db")
    fishy.until_gone("db")
