"""Manifests are applied to a snapshot, or left out of it with a note."""

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

REGISTRY = registry_of(Settings())
HELD = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "ResourceDistribution",
    "metadata": {"name": "held"},
    "spec": {"resource": {}, "targets": {}},
}
HELD_REF = Ref(RESOURCE_DISTRIBUTION, "", "held")
ADMIN = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "admin"}}
DB = Ref(SECRET, "admin", "db")


def overlaid(
    *bodies: dict[str, Any], unserved: tuple[Kind, ...] = (), unlisted: dict[Kind, str] | None = None
) -> tuple[Snapshot, list[str]]:
    """An empty cluster with these manifests applied, and the notes."""
    notes: list[str] = []

    async def apply() -> Snapshot:
        async with (
            serving(refuses(404, "NotFound")) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            snapshot = Snapshot(
                client, Codec(REGISTRY.managers), a_plain_cache(REGISTRY), "operator", unread, unlisted=unlisted or {}
            )
            for kind in REGISTRY.kinds:
                if kind not in unserved:
                    snapshot.cache.finish_list(kind, set())
            text = "\n".join(map(json.dumps, bodies))
            await overlay_manifests(snapshot, [Text("m.json", text)], "default", notes.append)
            return snapshot

    return asyncio.run(apply()), notes


def test_custom_resource_is_applied_if_its_definition_is_installed() -> None:
    snapshot, notes = overlaid(HELD)
    assert (snapshot.cache.get(HELD_REF) is not None, notes) == (True, [])


def test_custom_resource_without_its_definition_is_left_out_with_a_note() -> None:
    snapshot, notes = overlaid(HELD, unserved=(RESOURCE_DISTRIBUTION,))
    assert snapshot.cache.get(HELD_REF) is None
    (line,) = notes
    assert line.startswith("m.json: ResourceDistribution held is left out: ")
    assert "expected a server that serves apps.kruise.io/v1beta1/ResourceDistribution" in line
    assert "samara crds" in line


def test_manifest_of_a_kind_that_may_not_be_read_is_left_out_with_the_servers_reason() -> None:
    why = "the API server answered 403 Forbidden: no"
    snapshot, notes = overlaid(HELD, unserved=(RESOURCE_DISTRIBUTION,), unlisted={RESOURCE_DISTRIBUTION: why})
    assert snapshot.cache.get(HELD_REF) is None
    assert notes == [f"m.json: ResourceDistribution held is left out: {why}"]


@pytest.mark.parametrize("finalizers", [[1], [None], "x", {"a": "b"}])
def test_finalizers_that_are_no_names_are_refused_in_one_line(finalizers: object) -> None:
    meta = {"name": "held", "finalizers": finalizers}
    with pytest.raises(ConfigError, match=r"^m\.json: .*metadata\.finalizers: expected a list of names"):
        overlaid({**HELD, "metadata": meta})


@pytest.mark.parametrize("text", ["M Q==", "MQ==\t", " MQ==", "MQ==\x0b", "MQ=", "ä"])
def test_data_that_the_server_does_not_accept_as_base64_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^m\.json: .*data\.one: expected base64, found something else$"):
        overlaid(ADMIN, a_secret("a", one=text))


def test_line_breaks_in_base64_are_left_out() -> None:
    snapshot, _ = overlaid(ADMIN, a_secret("a", one="M\r\nQ=\n=\n"))
    applied = snapshot.cache.get(DB)
    assert applied is not None
    data = applied.content.get("data")
    assert data is not None
    assert data.raw == b'{"one":"MQ=="}'


# One object, given twice


def a_secret(targets: str, secret_type: str = "Opaque", **data: str) -> dict[str, Any]:
    meta = {"name": "db", "namespace": "admin", "annotations": {"secret-copy/namespaces": targets}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": secret_type, "data": data}


def test_last_manifest_of_an_object_wins() -> None:
    snapshot, notes = overlaid(ADMIN, a_secret("a", one="MQ==", both="MQ=="), a_secret("b", both="Mg==", two="Mg=="))
    applied = snapshot.cache.get(DB)
    assert applied is not None
    assert applied.annotations["secret-copy/namespaces"] == "b"
    data = applied.content.get("data")
    assert data is not None
    assert data.raw is not None
    assert json.loads(data.raw) == {"both": "Mg==", "two": "Mg=="}  # `one` was applied before, and is not now
    assert notes == []


def test_second_manifest_cannot_change_the_type_of_a_secret() -> None:
    snapshot, (notes,) = overlaid(ADMIN, a_secret("a"), a_secret("b", "toys.dev/other"))
    applied = snapshot.cache.get(DB)
    assert applied is not None
    assert applied.annotations["secret-copy/namespaces"] == "a"
    assert "a type cannot be changed" in notes


def test_last_manifest_of_a_custom_resource_gives_its_spec() -> None:
    snapshot, _ = overlaid(HELD, {**HELD, "spec": {"resource": {}, "targets": {"allNamespaces": True}}})
    applied = snapshot.cache.get(HELD_REF)
    assert applied is not None
    assert applied.generation == 2
    spec = applied.content.get("spec")
    assert spec is not None
    assert b"allNamespaces" in (spec.raw or b"")
