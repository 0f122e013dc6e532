"""Manifests laid over a snapshot: what is left out of it, and what is said of that."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.kube.scripted import access, refuses, serving
from tests.support.caches import a_plain_cache, unread

from samara.assembly import registry_of
from samara.cli.files import Text
from samara.cli.inspect.overlay import overlay_manifests
from samara.core.model import SECRET, Kind, Ref
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec
from samara.kube.errors import ConfigError
from samara.kube.snapshot import Snapshot
from samara.settings import Settings
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION

TABLE = registry_of(Settings())
HELD = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "ResourceDistribution",
    "metadata": {"name": "held"},
    "spec": {"resource": {}, "targets": {}},
}
PLACE = Ref(RESOURCE_DISTRIBUTION, "", "held")
NAMESPACED = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "admin"}}
TWICE = Ref(SECRET, "admin", "db")


def laid(
    *bodies: dict[str, Any], unserved: tuple[Kind, ...] = (), unknown: dict[Kind, str] | None = None
) -> tuple[Snapshot, list[str]]:
    """An empty cluster with these manifests over it, and what a person was told."""
    told: list[str] = []

    async def shot() -> Snapshot:
        async with (
            serving(refuses(404, "NotFound")) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            seen = Snapshot(
                client, Codec(TABLE.managers), a_plain_cache(TABLE), "operator", unread, unknown=unknown or {}
            )
            for kind in TABLE.kinds:
                if kind not in unserved:
                    seen.cache.finish_list(kind, set())
            text = "\n".join(map(json.dumps, bodies))
            await overlay_manifests(seen, [Text("m.json", text)], "default", told.append)
            return seen

    return asyncio.run(shot()), told


def test_a_custom_resource_is_laid_over_where_its_definition_is_installed() -> None:
    seen, told = laid(HELD)
    assert (seen.cache.get(PLACE) is not None, told) == (True, [])


def test_one_whose_definition_is_not_installed_is_left_out_and_that_is_said() -> None:
    seen, told = laid(HELD, unserved=(RESOURCE_DISTRIBUTION,))
    assert seen.cache.get(PLACE) is None
    (line,) = told
    assert line.startswith("m.json: ResourceDistribution held is left out: ")
    assert "expected a server that serves apps.kruise.io/v1beta1/ResourceDistribution" in line
    assert "samara crds" in line


def test_one_whose_kind_may_not_be_read_is_left_out_with_the_servers_reason() -> None:
    why = "the API server answered 403 Forbidden: no"
    seen, told = laid(HELD, unserved=(RESOURCE_DISTRIBUTION,), unknown={RESOURCE_DISTRIBUTION: why})
    assert seen.cache.get(PLACE) is None
    assert told == [f"m.json: ResourceDistribution held is left out: {why}"]


@pytest.mark.parametrize("finalizers", [[1], [None], "x", {"a": "b"}])
def test_finalizers_that_are_no_names_are_one_line(finalizers: object) -> None:
    meta = {"name": "held", "finalizers": finalizers}
    with pytest.raises(ConfigError, match=r"^m\.json: .*metadata\.finalizers: expected a list of names"):
        laid({**HELD, "metadata": meta})


@pytest.mark.parametrize("text", ["M Q==", "MQ==\t", " MQ==", "MQ==\x0b", "MQ=", "ä"])
def test_what_is_no_base64_to_the_server_is_none_to_a_plan(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^m\.json: .*data\.one: expected base64, found something else$"):
        laid(NAMESPACED, a_secret("a", one=text))


def test_line_breaks_in_base64_are_left_out() -> None:
    seen, _ = laid(NAMESPACED, a_secret("a", one="M\r\nQ=\n=\n"))
    held = seen.cache.get(TWICE)
    assert held is not None
    data = held.content.get("data")
    assert data is not None
    assert data.raw == b'{"one":"MQ=="}'


# One object, given twice


def a_secret(targets: str, secret_type: str = "Opaque", **data: str) -> dict[str, Any]:
    meta = {"name": "db", "namespace": "admin", "annotations": {"secret-copy/namespaces": targets}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": secret_type, "data": data}


def test_of_an_object_that_is_given_twice_the_last_manifest_stays() -> None:
    seen, told = laid(NAMESPACED, a_secret("a", one="MQ==", both="MQ=="), a_secret("b", both="Mg==", two="Mg=="))
    held = seen.cache.get(TWICE)
    assert held is not None
    assert held.annotations["secret-copy/namespaces"] == "b"
    data = held.content.get("data")
    assert data is not None
    assert data.raw is not None
    assert json.loads(data.raw) == {"both": "Mg==", "two": "Mg=="}  # `one` was applied before, and is not now
    assert told == []


def test_a_type_that_a_second_manifest_would_change_is_refused_as_one_of_the_cluster_is() -> None:
    seen, (told,) = laid(NAMESPACED, a_secret("a"), a_secret("b", "toys.dev/other"))
    held = seen.cache.get(TWICE)
    assert held is not None
    assert held.annotations["secret-copy/namespaces"] == "a"
    assert "a type cannot be changed" in told


def test_a_custom_resource_that_is_given_twice_has_the_last_spec() -> None:
    seen, _ = laid(HELD, {**HELD, "spec": {"resource": {}, "targets": {"allNamespaces": True}}})
    held = seen.cache.get(PLACE)
    assert held is not None
    assert held.generation == 2
    spec = held.content.get("spec")
    assert spec is not None
    assert b"allNamespaces" in (spec.raw or b"")
