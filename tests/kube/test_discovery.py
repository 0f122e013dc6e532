"""Discovery of the kinds that the server has."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from tests.kube.scripted import access, serving

from samara.core.model import SECRET, Kind, KindName
from samara.kube.client import Client, unrestricted
from samara.kube.discovery import Discovered, discover, explain, guess, listable
from samara.kube.errors import Forbidden, NotFound, SamaraError

POLICY = KindName("networking.k8s.io", "v1", "NetworkPolicy")
NODE = KindName("", "v1", "Node")
GONE = KindName("gone.example.com", "v1", "Thing")
KNOWN = {KindName("", "v1", "Secret"): SECRET}
SERVED = {
    "/api/v1": [{"name": "nodes", "kind": "Node", "namespaced": False}],
    "/apis/networking.k8s.io/v1": [
        {"name": "networkpolicies/status", "kind": "NetworkPolicy", "namespaced": True},
        {"name": "networkpolicies", "kind": "NetworkPolicy", "namespaced": True},
    ],
}


def discovered(*names: KindName, broken: str = "") -> tuple[Discovered, list[str]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == broken:
            return web.json_response({"message": "the aggregated server is away"}, status=503)
        if request.path not in SERVED:
            return web.json_response({"message": "no such path"}, status=404)
        return web.json_response({"kind": "APIResourceList", "resources": SERVED[request.path]})

    async def run() -> tuple[Discovered, list[str]]:
        async with serving(answer) as script, Client(access(script), may_write=unrestricted) as client:
            return await discover(client, names, KNOWN), [seen.path for seen in script.seen]

    return asyncio.run(run())


def test_a_kind_is_found_with_its_plural_and_its_scope_and_not_by_a_subresource() -> None:
    result, _ = discovered(POLICY, NODE)
    assert result.kinds == {
        POLICY: Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
        NODE: Kind("", "v1", "Node", "nodes", namespaced=False),
    }
    assert result.missing == {}


WIDGET = Kind("toys.dev", "v2", "Widget", "widgets")
MISSING = NotFound(404, "NotFound", "no such thing")
GROUP = {"/apis/toys.dev": {"versions": [{"version": "v1"}, {"version": "v3"}]}}
VERSIONS = {
    "/apis/toys.dev/v1": {"resources": [{"name": "widgets", "kind": "Widget"}]},
    "/apis/toys.dev/v3": {"resources": [{"name": "others", "kind": "Other"}]},
}


@pytest.mark.parametrize(
    ("served", "kind", "fault", "others"),
    [
        ({**GROUP, **VERSIONS}, WIDGET, MISSING, "it has Widget only in v1, and v2 is needed"),
        ({**GROUP, "/apis/toys.dev/v1": {}, "/apis/toys.dev/v3": {}}, WIDGET, MISSING, ""),
        (GROUP, WIDGET, MISSING, ""),
        ({}, WIDGET, MISSING, ""),
        ({**GROUP, **VERSIONS}, WIDGET, Forbidden(403, "Forbidden", "no"), ""),
        ({}, SECRET, MISSING, ""),
    ],
    ids=["other versions", "other kinds", "versions that do not answer", "no group", "forbidden", "built in"],
)
def test_the_message_lists_other_versions_of_a_kind(
    served: dict[str, object], kind: Kind, fault: SamaraError, others: str
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        is_served = request.path in served
        return web.json_response(served.get(request.path, {"message": "no"}), status=200 if is_served else 404)

    async def run() -> str:
        async with serving(answer) as script, Client(access(script), may_write=unrestricted) as client:
            return await explain(client, kind, fault)

    message = asyncio.run(run())
    assert message.startswith(str(fault))
    assert (others in message and "samara crds" in message) if others else message == str(fault)


def test_known_kinds_are_not_requested() -> None:
    result, requested = discovered(*KNOWN)
    assert (result.kinds, requested) == (KNOWN, [])


def test_a_missing_kind_is_reported_and_the_others_are_found() -> None:
    result, _ = discovered(GONE, POLICY, KindName("", "v1", "Nothing"))
    assert list(result.kinds) == [POLICY]
    assert result.missing == {
        GONE: "the server has no API /apis/gone.example.com/v1",
        KindName("", "v1", "Nothing"): "the server has no kind Nothing in /api/v1",
    }


def test_fault_12_a_group_that_does_not_answer_does_not_affect_the_others() -> None:
    result, _ = discovered(GONE, POLICY, broken="/apis/gone.example.com/v1")
    assert list(result.kinds) == [POLICY]
    assert "away" in result.missing[GONE]


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Ingress", "ingresses"),
        ("Role", "roles"),
        ("Patch", "patches"),
    ],
)
def test_without_a_server_the_plural_follows_english_grammar(kind: str, plural: str) -> None:
    assert guess(KindName("", "v1", kind)).plural == plural


# All that can be listed

READ = ["get", "list"]
ALL = {
    "/apis": {
        "groups": [
            {"name": "toys.dev", "preferredVersion": {"version": "v2"}, "versions": [{"version": "v1"}]},
            {"name": "away.dev", "preferredVersion": {"version": "v1"}},
        ]
    },
    "/api/v1": {
        "resources": [
            {"name": "nodes", "kind": "Node", "verbs": READ},
            {"name": "secrets", "kind": "Secret", "namespaced": True, "verbs": READ},
            {"name": "bindings", "kind": "Binding", "namespaced": True, "verbs": ["create"]},
        ]
    },
    "/apis/toys.dev/v2": {
        "resources": [
            {"name": "widgets", "kind": "Widget", "namespaced": True, "verbs": READ},
            {"name": "widgets/status", "kind": "Widget", "namespaced": True, "verbs": READ},
        ]
    },
}


def test_all_listable_kinds_are_found_in_preferred_versions_and_missing_apis_are_named() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path not in ALL:
            return web.json_response({"message": "the aggregated server is away"}, status=503)
        return web.json_response(ALL[request.path])

    async def run() -> tuple[list[Kind], list[str]]:
        async with serving(answer) as script, Client(access(script), may_write=unrestricted) as client:
            return await listable(client)

    kinds, silent = asyncio.run(run())
    assert kinds == [SECRET, WIDGET]
    (away,) = silent
    assert away.startswith("/apis/away.dev/v1: ")
    assert "the aggregated server is away" in away
