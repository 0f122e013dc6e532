"""A server older than those that stream lists, as Kubernetes 1.30: it refuses the request or ignores its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from tests.cli.program import samara
from tests.cluster.support.faults import answered, body
from tests.cluster.support.operators import Operator
from tests.cluster.support.proxy import Exchange, Proxy, Seen
from tests.cluster.support.stage import Stage

from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
REFUSED = (
    'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch '
    "unless the WatchList feature gate is enabled"
)
"""The message of Kubernetes since 1.27 if the feature is off."""
STREAMING = ("sendInitialEvents", "resourceVersionMatch")
VERSION = b'{"major": "1", "minor": "30", "gitVersion": "v1.30.14", "platform": "linux/amd64"}'
SHORT = "--watch-seconds=5"
"""A server sends a bookmark shortly before it ends a watch, and otherwise about once a minute."""


def streams(seen: Seen) -> bool:
    return "sendInitialEvents" in seen.query


def in_pages(seen: Seen) -> bool:
    return seen.lists and "limit" in seen.query


async def unaware(exchange: Exchange) -> web.StreamResponse:
    """Removes the parameters that an older server does not know."""
    known = {key: value for key, value in exchange.seen.query.items() if key not in STREAMING}
    return await Exchange(exchange.proxy, exchange.request, replace(exchange.seen, query=known)).forward()


def as_old(stage: Stage) -> Proxy:
    """A proxy that makes the server look older to the operator."""
    proxy = stage.proxy()
    proxy.on_request(lambda seen: seen.path == "/version", body(VERSION))
    return proxy


def lives(stage: Stage, proxy: Proxy, operator: Operator) -> None:
    """Checks new, changed and deleted sources, and changes that were missed while the watch was down."""
    stage.until_copied("db", "a", "b")
    stage.bump("db")
    stage.until_copied("db", "a", "b")
    forgotten = proxy.on_request(
        lambda seen: seen.plural == "secrets" and seen.watch and not streams(seen), answered(410, "Expired"), times=1
    )
    stage.expect.on_source_gone = "delete"
    stage.source("gone", "a")
    stage.until_copied("gone", "a")
    proxy.freeze("secrets")
    stage.api.delete(stage.path("admin", "gone"))
    stage.bump("db")
    proxy.cut("secrets")
    proxy.thaw("secrets")
    stage.until_copied("db", "a", "b")
    stage.until_gone("a", "gone")
    assert forgotten.hits == 1
    assert operator.running


@pytest.fixture
def unstreamed(cluster: Devcluster) -> Iterator[str]:
    """A real server that does not stream lists."""
    url = cluster.start_second_apiserver(apiserver_args=("--feature-gates=WatchList=false",))
    yield url
    for name in [name for name in cluster.pids if name.startswith("kube-apiserver-")]:
        cluster.stop_process(name)


def begun(stage: Stage, proxy: Proxy, *flags: str) -> Operator:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    return stage.operator(*flags, config={"vocabularies": {"secret-copy": {"onSourceGone": "delete"}}}, through=proxy)


def test_a_server_that_refuses_to_stream_lists_is_listed_in_pages(stage: Stage, unstreamed: str) -> None:
    proxy = as_old(stage)
    proxy.upstream = unstreamed
    operator = begun(stage, proxy)
    assert operator.log.count("this server does not stream lists") == 3
    assert " warning " not in operator.log, "that is no fault"
    lives(stage, proxy, operator)
    streamed = [seen.plural for seen in proxy.requests(streams)]
    assert sorted(streamed) == ["namespaces", "resourcequotas", "secrets"], "each kind asks once, and then knows"


def test_a_refusal_with_the_message_of_1_30_is_understood(stage: Stage) -> None:
    proxy = as_old(stage)
    refused = proxy.on_request(streams, answered(422, "Invalid", REFUSED))
    operator = begun(stage, proxy)
    lives(stage, proxy, operator)
    assert refused.hits == 3


def test_a_server_that_ignores_the_request_to_stream_is_detected(stage: Stage, unstreamed: str) -> None:
    """By a bookmark that does not end a list or, for a kind without events, by the end of the watch."""
    proxy = as_old(stage)
    proxy.upstream = unstreamed
    passed_over = proxy.on_request(streams, unaware)
    operator = begun(stage, proxy, SHORT)
    lives(stage, proxy, operator)
    assert passed_over.hits == 3
    assert proxy.requests(in_pages)


def test_the_commands_work_on_an_older_server_and_print_its_version(stage: Stage, unstreamed: str) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    proxy = as_old(stage)
    proxy.upstream = unstreamed
    chosen, settings = f"--kubeconfig={proxy.kubeconfig()}", stage.folder / "settings.yaml"
    settings.write_text("vocabularies: {secret-copy: {}}")
    assert "v1.30.14" in samara("version", chosen).out
    assert samara("plan", chosen, f"--config={settings}", "-o", "json").json["summary"]["create"] == 1
    stage.operator(through=proxy)
    stage.until_copied("db", "a")
