"""Tests admission over loopback TLS: answers, changing certificates, registration and its removal."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.admission.scene import (
    CHANGING_HOOKS,
    CRD_NAME,
    CRD_PATH,
    HOOKS,
    MARK,
    PATIENCE,
    SECRET_PATH,
    THING,
    Running,
    Scene,
    a_conversion,
    a_review,
    a_source_type,
    a_thing,
    an_object,
    held,
    marking,
    on_scene,
    spaces,
)
from tests.kube.scripted import hangs, refuses

from samara.admission import server as server_module
from samara.admission.admission import Listener
from samara.admission.certificates import Lifetimes, renew
from samara.admission.registrar import Registrar, Registration
from samara.admission.webhooks import ADMIT, CONVERT, MUTATE, VALIDATING, Endpoint, webhook_conversion
from samara.core.admission import Request
from samara.core.model import NAMESPACE, SECRET, Kind
from samara.core.registry import Registry
from samara.core.view import View
from samara.engine.metrics import Metrics
from samara.kube.cache import Cache
from samara.kube.errors import ConfigError

DAY = timedelta(days=1).total_seconds()
CONFIG, CHANGING = f"{HOOKS}/samara", f"{CHANGING_HOOKS}/samara"
CANARY = "hunter2-is-the-canary"


# answers


def test_one_answer_lists_all_faults() -> None:
    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        status, answer = await running.admits(a_review(an_object(word="bad badly", twin="nowhere")))
        assert status == 200
        assert not answer["allowed"]
        assert answer["uid"] == "the-uid"
        assert answer["status"]["message"] == (
            "toys.dev/word says 'bad'. toys.dev/word says 'badly'. there is no namespace 'nowhere'."
        )

    on_scene(scenario)


def test_a_request_without_faults_is_allowed() -> None:
    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        assert await running.admits(a_review(an_object(word="good"))) == (200, {"uid": "the-uid", "allowed": True})

    on_scene(scenario)


def admissions(metrics: Metrics) -> dict[tuple[str, str], float]:
    """How often admission answered, by kind and result."""
    return {
        (sample.labels["kind"], sample.labels["result"]): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "samara_admission_requests_total"
    }


def test_every_request_is_counted_once_by_kind_and_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "ANSWER_SECONDS", 0.2)

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        metrics = running.deps.metrics
        await running.admits(a_review(an_object(word="good")))
        await running.admits(a_review(an_object(word="bad")))
        await running.admits(a_review(an_object(THING, word="bad"), kind=THING))
        scene.cluster.broken = hangs
        await running.admits(a_review(an_object(twin="nowhere")))
        scene.listed = False
        await running.admits(a_review(an_object()))
        assert admissions(metrics) == {
            ("v1/Secret", "allowed"): 1,
            ("v1/Secret", "refused"): 1,
            ("toys.dev/v1/Thing", "refused"): 1,
            ("v1/Secret", "failed"): 2,
        }
        assert metrics.registry.get_sample_value("samara_admission_seconds_count") == 5
        assert (metrics.registry.get_sample_value("samara_admission_seconds_sum") or 0) > 0.2

    on_scene(scenario)


def test_a_new_object_is_mutated_even_before_the_caches_are_filled() -> None:
    async def scenario(scene: Scene) -> None:
        scene.listed = False
        running = await scene.server(deps=await scene.deps(Registry((marking(), spaces()))))
        step = {"op": "add", "path": "/metadata/annotations", "value": {"toys.dev/word": "x", MARK: "1"}}
        assert await running.mutates(a_review(an_object(THING, word="x"), kind=THING)) == (200, [step])
        assert await running.mutates(a_review(an_object())) == (200, None)

    on_scene(scenario)


def test_a_fault_of_the_change_is_answered_with_forbidden() -> None:
    async def scenario(scene: Scene) -> None:
        running = await scene.server(deps=await scene.deps(Registry((spaces(),))))
        cache = running.deps.view
        assert isinstance(cache, Cache)
        for name, labels in (("top", {}), ("below", {"toys.dev/above": "top"})):
            scene.cluster.write(f"/api/v1/namespaces/{name}", {"metadata": {"name": name, "labels": labels}})
            stored = json.dumps(scene.cluster.objects[f"/api/v1/namespaces/{name}"]).encode()
            cache.put(running.deps.codec.object(NAMESPACE, stored))
        _, answer = await running.admits(a_review(None, {"metadata": {"name": "top"}}, kind=NAMESPACE, name="top"))
        assert (answer["status"]["code"], answer["status"]["reason"]) == (403, "Forbidden")
        assert answer["status"]["message"] == "below it are below"

    on_scene(scenario)


def test_kinds_that_are_not_guarded_are_counted_under_one_label() -> None:
    """The port is open to every pod, so a caller must not be able to create time series."""

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        for number in range(3):
            kind = Kind("made.up", "v1", f"Kind{number}", "kinds")
            await running.admits(a_review(an_object(kind), kind=kind))
            await running.post(ADMIT, b"no review")
            await running.converts(a_conversion("toys.dev/v2", a_thing()))
        assert admissions(running.deps.metrics) == {("other", "allowed"): 3, ("other", "failed"): 3}

    on_scene(scenario)


def test_before_the_caches_are_filled_nothing_is_judged_but_everything_is_converted() -> None:
    async def scenario(scene: Scene) -> None:
        scene.listed = False
        running = await scene.server()
        status, answer = await running.admits(a_review(an_object(word="bad")))
        assert (status, answer) == (503, "not listed yet: v1/Namespace, v1/Secret, v1/ConfigMap")
        status, answer = await running.converts(a_conversion("toys.dev/v2", a_thing(name="x")))
        assert (status, answer["convertedObjects"]) == (200, [a_thing("v2", title="x")])
        scene.listed = True
        assert (await running.admits(a_review(an_object(word="bad"))))[0] == 200

    on_scene(scenario)


@pytest.mark.parametrize("name", ["victim/secrets/db", "victim%2Fsecrets%2Fdb", "../../secrets"])
def test_a_name_in_a_review_never_leads_to_another_path(name: str) -> None:
    """Everybody who reaches the port can send a review."""

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        before = len(scene.script.seen)
        status, answer = await running.admits(a_review(an_object(namespace=name, twin="nowhere")))
        assert (status, name in answer) == (400, False)
        status, answer = await running.admits(a_review(an_object(twin=name)))
        assert (status, answer["allowed"]) == (200, False)
        paths = [request.path for request in scene.script.seen[before:]]
        assert not [path for path in paths if "victim" in path or path.endswith("/secrets")]

    on_scene(scenario)


@pytest.mark.parametrize("path", [ADMIT, MUTATE, CONVERT])
@pytest.mark.parametrize("body", [b"", b"{}", b"hunter2", b"\xff", json.dumps({"request": CANARY}).encode()])
def test_a_body_that_is_no_review_is_a_bad_request(path: str, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        status, answer = await running.post(path, body)
        assert status == 400
        assert "hunter2" not in answer

    on_scene(scenario)
    assert "hunter2" not in caplog.text


def test_a_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_REVIEW_BYTES", 1000)
    monkeypatch.setattr(server_module, "MAX_CONVERSION_BYTES", 2000)

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        assert (await running.post(ADMIT, b" " * 1001))[0] == 413
        assert (await running.post(MUTATE, b" " * 1001))[0] == 413
        assert (await running.post(CONVERT, b" " * 1001))[0] == 400
        assert (await running.post(CONVERT, b" " * 2001))[0] == 413

    on_scene(scenario)


@pytest.mark.parametrize("path", [ADMIT, MUTATE, CONVERT])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
def test_a_compressed_body_is_refused_without_being_decompressed(path: str, encoding: str) -> None:
    """A few KiB can hold many MiB. The API server compresses nothing."""

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        body = gzip.compress(b"{}" * 2**20)
        assert (await running.post(path, body, headers={"Content-Encoding": encoding}))[0] == 415

    on_scene(scenario)


def test_large_requests_are_bounded_together_and_displace_no_ordinary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_BYTES_IN_FLIGHT", 2**20)

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        large = a_conversion("toys.dev/v2", a_thing(name="x" * 2**19))
        assert (await running.converts(large))[0] == 200
        stop = asyncio.Event()
        holding = asyncio.create_task(running.post(CONVERT, trickled(2**20, stop)))
        await scene.until(lambda: running.admission._server._in_flight.left < 2**17)
        assert (await running.converts(large))[0] == 503
        assert (await running.admits(a_review(an_object(word="good"))))[0] == 200
        stop.set()
        assert (await holding)[0] == 400
        assert (await running.converts(large))[0] == 200

    on_scene(scenario)


@asynccontextmanager
async def slow_conversion(running: Running) -> AsyncIterator[asyncio.StreamReader]:
    """A client that has read the head of an answer of 14 MiB, which is more than the sockets hold."""
    body = json.dumps(a_conversion("toys.dev/v2", *[a_thing("v2", title="x" * 2**21)] * 7)).encode()
    trust = ssl.create_default_context(cadata=running.bundle().decode())
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**12)
    slow.connect(("127.0.0.1", running.port))
    reader, writer = await asyncio.open_connection(sock=slow, ssl=trust, server_hostname="127.0.0.1", limit=2**12)
    writer.write(f"POST {CONVERT} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    yield reader
    writer.close()


def test_an_answer_counts_until_its_client_has_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_SEND_SECONDS", PATIENCE)

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        in_flight = running.admission._server._in_flight
        async with slow_conversion(running) as reader:
            assert in_flight.left < 3 * 2**20
            await reader.readexactly(14 * 2**20)
            await scene.until(lambda: in_flight.left == server_module.MAX_BYTES_IN_FLIGHT)

    on_scene(scenario)


def test_a_client_that_does_not_read_its_answer_in_time_gives_its_room_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_module, "_SEND_SECONDS", 0.3)

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        in_flight = running.admission._server._in_flight
        async with slow_conversion(running):
            await scene.until(lambda: in_flight.left == server_module.MAX_BYTES_IN_FLIGHT)

    on_scene(scenario)
    assert "admission.failed" not in caplog.text  # or such clients would fill the log


async def trickled(size: int, stop: asyncio.Event) -> AsyncIterator[bytes]:
    """A body that has arrived except for its end, which follows when `stop` is set."""
    yield b" " * size
    await stop.wait()
    yield b" "


def test_a_body_that_does_not_arrive_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_BODY_SECONDS", 0.1)

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        assert (await running.post(ADMIT, trickled(10, asyncio.Event())))[0] == 408

    on_scene(scenario)


@pytest.mark.parametrize("fault", [refuses(500), refuses(429, "TooManyRequests"), hangs])
def test_an_error_is_left_to_the_failure_policy(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "ANSWER_SECONDS", 0.2)

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        scene.cluster.broken = fault
        async with asyncio.timeout(3):
            status, answer = await running.admits(a_review(an_object(twin="nowhere")))
        assert (status, answer) == (500, "no answer could be found in time")

    on_scene(scenario)


def test_an_exception_in_a_source_type_shows_no_value_of_the_object(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    def breaks(request: Request, view: View) -> tuple[str, ...]:
        raise KeyError(CANARY)

    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((a_source_type("broken", breaks, SECRET),)))
        status, answer = await (await scene.server(deps=deps)).admits(a_review(an_object()))
        assert status == 500
        assert CANARY not in answer

    on_scene(scenario)
    assert CANARY not in logged(caplog)
    assert "KeyError" in logged(caplog)


def test_no_value_of_an_object_is_answered_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    sent = an_object(word="bad", other=CANARY)
    sent["data"] = {"password": base64.b64encode(CANARY.encode()).decode()}
    secret = (CANARY, base64.b64encode(CANARY.encode()).decode())

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        for review in (a_review(sent), a_review(sent, sent), a_review({**sent, "metadata": CANARY})):
            answer = str(await running.admits(review))
            assert not [value for value in secret if value in answer]
        wrong = a_thing(other=CANARY)
        assert CANARY not in str(await running.converts(a_conversion("toys.dev/v2", wrong)))

    on_scene(scenario)
    assert "admission.refused" in logged(caplog)
    assert not [value for value in secret if value in logged(caplog)]


def logged(caplog: pytest.LogCaptureFixture) -> str:
    lines = (f"{record.getMessage()} {record.__dict__.get('fields')} {record.exc_text}" for record in caplog.records)
    return "\n".join((*lines, caplog.text))


def test_the_error_for_a_port_in_use_names_the_flag() -> None:
    async def scenario(scene: Scene) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            made = await scene.admission(Listener(f"127.0.0.1:{taken.getsockname()[1]}"))
            with pytest.raises(ExceptionGroup) as fault:
                await asyncio.wait_for(made.run(), 5)
        assert "--webhook-address" in str(fault.value.exceptions[0])
        assert isinstance(fault.value.exceptions[0], ConfigError)
        assert made.not_ready_reason == "not listening any more"

    on_scene(scenario)


# certificates


def test_a_new_certificate_is_served_without_a_restart_and_open_connections_stay() -> None:
    async def scenario(scene: Scene) -> None:
        scene.clock.ahead = -61 * DAY
        running = await scene.server()
        before, bundle = held(scene.cluster, "tls.crt"), running.bundle()
        assert await shown(running) == before
        trust = ssl.create_default_context(cadata=bundle.decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1, ssl=trust)) as session:
            await asks(session, running)
            scene.clock.ahead = 0
            await scene.until(lambda: held(scene.cluster, "tls.crt") != before)
            await until_shown(running, held(scene.cluster, "tls.crt"))
            assert await asks(session, running) == 200
        assert (await running.post(ADMIT, a_review(an_object()), bundle))[0] == 200

    on_scene(scenario)


async def asks(session: aiohttp.ClientSession, running: Running) -> int:
    async with session.post(f"https://127.0.0.1:{running.port}{ADMIT}", json=a_review(an_object())) as response:
        await response.read()
        return response.status


async def shown(running: Running) -> bytes:
    """The certificate of a new connection, as PEM."""
    trust = ssl.create_default_context(cadata=running.bundle().decode())
    _, writer = await asyncio.open_connection("127.0.0.1", running.port, ssl=trust)
    pem = ssl.DER_cert_to_PEM_cert(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.close()
    return pem.encode()


async def until_shown(running: Running, wanted: bytes) -> None:
    async with asyncio.timeout(8):
        while await shown(running) != wanted:
            continue


def test_a_rotation_of_the_authority_never_breaks_a_handshake() -> None:
    async def scenario(scene: Scene) -> None:
        scene.clock.ahead = -490 * DAY
        running = await scene.server()
        scene.clock.ahead = -20 * DAY
        await scene.until(lambda: CONFIG in scene.cluster.objects)
        old, certificate = running.bundle(), await shown(running)
        scene.clock.ahead = 0
        await scene.until(lambda: running.bundle().count(b"BEGIN") == 2)
        await scene.until(lambda: registered(scene) == {base64.b64encode(running.bundle()).decode()})
        assert await shown(running) == certificate  # the new authority has not signed yet
        for bundle in (old, running.bundle()):
            assert (await running.post(ADMIT, a_review(an_object()), bundle))[0] == 200

    on_scene(scenario)


def registered(scene: Scene) -> set[str]:
    return {hook["clientConfig"].get("caBundle") for hook in scene.cluster.objects[CONFIG]["webhooks"]}


# registration


def a_crd(scene: Scene, **spec: Any) -> None:
    scene.cluster.write(CRD_PATH, {"metadata": {"name": CRD_NAME}, "spec": {"group": "toys.dev", **spec}})


def conversion_of(scene: Scene) -> Any:
    return scene.cluster.objects[CRD_PATH]["spec"].get("conversion")


def leads_to_us(scene: Scene, running: Running) -> bool:
    url = f"https://127.0.0.1:{running.port}{CONVERT}"
    webhook = (conversion_of(scene) or {}).get("webhook") or {}
    bundle = base64.b64encode(running.bundle()).decode()
    return bool(webhook.get("clientConfig") == {"url": url, "caBundle": bundle})


def test_with_a_url_the_operator_registers_its_webhooks_and_removes_them_when_it_stops() -> None:
    async def scenario(scene: Scene) -> None:
        a_crd(scene)
        running = await scene.server(crds=(CRD_NAME, "not.there"))
        await scene.until(lambda: CONFIG in scene.cluster.objects and leads_to_us(scene, running))
        assert registered(scene) == {base64.b64encode(running.bundle()).decode()}
        await running.admission.close()
        await scene.turns(10)
        assert CONFIG not in scene.cluster.objects
        assert conversion_of(scene) == {"strategy": "None"}
        assert scene.cluster.objects[CRD_PATH]["spec"]["group"] == "toys.dev"

    on_scene(scenario)


def test_mutating_webhooks_are_registered_corrected_and_removed_like_validating_ones() -> None:
    async def scenario(scene: Scene) -> None:
        running = await scene.server(deps=await scene.deps(Registry((marking(),))))
        await scene.until(lambda: CONFIG in scene.cluster.objects and CHANGING in scene.cluster.objects)
        bundle = base64.b64encode(running.bundle()).decode()
        (hook,) = scene.cluster.objects[CHANGING]["webhooks"]
        assert hook["clientConfig"] == {"url": f"https://127.0.0.1:{running.port}{MUTATE}", "caBundle": bundle}
        writes = list(scene.cluster.writes)
        await scene.turns(15)
        assert scene.cluster.writes == writes
        scene.cluster.delete(CHANGING)
        await scene.until(lambda: CHANGING in scene.cluster.objects)
        await running.admission.close()
        await scene.turns(10)
        assert not {CONFIG, CHANGING} & scene.cluster.objects.keys()

    on_scene(scenario)


@pytest.mark.parametrize(("namespace", "apart"), [("samara", ["samara"]), ("default", [])])
def test_the_operators_own_namespace_is_excluded_unless_it_is_the_default_namespace(
    namespace: str, apart: list[str]
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.server(deps=replace(await scene.deps(Registry((marking(),))), namespace=namespace))
        await scene.until(lambda: CONFIG in scene.cluster.objects and CHANGING in scene.cluster.objects)
        for path in (CONFIG, CHANGING):
            (hook,) = scene.cluster.objects[path]["webhooks"]
            expressions = hook["namespaceSelector"].get("matchExpressions", [])
            assert [value for expression in expressions for value in expression["values"]] == apart

    on_scene(scenario)


def test_without_mutating_webhooks_their_configuration_is_not_even_read() -> None:
    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        await scene.until(lambda: CONFIG in scene.cluster.objects)
        await running.admission.close()
        assert not [request.path for request in scene.script.seen if request.path.startswith(CHANGING_HOOKS)]

    on_scene(scenario)


def test_a_forbidden_kind_of_configuration_does_not_delay_the_other() -> None:
    async def scenario(scene: Scene) -> None:
        scene.cluster.odd["GET", CONFIG] = refuses(403, "Forbidden")
        await scene.server(deps=await scene.deps(Registry((marking(),))))
        await scene.until(lambda: CHANGING in scene.cluster.objects)
        assert CONFIG not in scene.cluster.objects

    on_scene(scenario)


def test_a_changed_configuration_is_corrected_and_a_correct_one_is_not_written() -> None:
    async def scenario(scene: Scene) -> None:
        a_crd(scene)
        running = await scene.server(crds=(CRD_NAME,))
        await scene.until(lambda: CONFIG in scene.cluster.objects and leads_to_us(scene, running))
        writes = list(scene.cluster.writes)
        await scene.turns(15)
        assert scene.cluster.writes == writes
        a_crd(scene, conversion={"strategy": "None"})
        scene.cluster.write(CONFIG, {"metadata": {"name": "samara"}, "webhooks": []})
        await scene.until(lambda: leads_to_us(scene, running) and scene.cluster.objects[CONFIG]["webhooks"])
        scene.cluster.delete(CONFIG)
        await scene.until(lambda: CONFIG in scene.cluster.objects)

    on_scene(scenario)


def test_a_standby_neither_registers_nor_removes_webhooks() -> None:
    async def scenario(scene: Scene) -> None:
        leader = await scene.server()
        await scene.until(lambda: CONFIG in scene.cluster.objects)
        url = f"https://127.0.0.1:{leader.port}"
        standby = await scene.server(deps=await scene.deps(leads=lambda: False), url=url)
        writes = list(scene.cluster.writes)
        assert (await standby.admits(a_review(an_object(word="bad"))))[1]["allowed"] is False
        await standby.admission.close()
        await scene.turns(10)
        assert scene.cluster.writes == writes

    on_scene(scenario)


def test_nothing_is_registered_before_the_server_can_be_reached() -> None:
    async def scenario(scene: Scene) -> None:
        a_crd(scene)
        bundle = renew(None, ("127.0.0.1",), scene.clock(), Lifetimes()).bundle
        deps = await scene.deps()
        endpoint = Endpoint("samara", "https://127.0.0.1:1")
        registration = Registration(deps.registry, endpoint, (VALIDATING,), (CRD_NAME,), owns_configurations=True)
        registrar = Registrar(deps.client, registration, lambda: bundle, lambda: True, scene.timings())
        scene.start(registrar)
        await scene.until(lambda: [request.path for request in scene.script.seen].count(CONFIG) > 2)
        assert scene.cluster.writes == []

    on_scene(scenario)


def chart(scene: Scene, name: str, config: dict[str, Any], where: str = HOOKS, **more: Any) -> str:
    """Creates a configuration like that of a chart, and returns its path."""
    hooks = [{"name": f"{request}.samara.dev", "clientConfig": dict(config), **more} for request in "ab"]
    scene.cluster.write(f"{where}/{name}", {"metadata": {"name": name}, "webhooks": hooks})
    return f"{where}/{name}"


def test_in_a_cluster_the_bundle_is_written_into_both_kinds_of_configuration() -> None:
    async def scenario(scene: Scene) -> None:
        ours = [
            chart(scene, "ours", Endpoint("samara").client_config(path, b""), where)
            for where, path in ((HOOKS, ADMIT), (CHANGING_HOOKS, MUTATE))
        ]
        running = await scene.server(in_cluster=True, deps=await scene.deps(Registry((marking(),))))
        bundle = base64.b64encode(running.bundle()).decode()

        def trusted() -> set[str]:
            hooks = [hook for path in ours for hook in scene.cluster.objects[path]["webhooks"]]
            return {hook["clientConfig"].get("caBundle") for hook in hooks}

        await scene.until(lambda: trusted() == {bundle})
        kinds = [scene.cluster.objects[path]["kind"] for path in ours]
        assert kinds == ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
        await running.admission.close()
        assert set(ours) <= scene.cluster.objects.keys()

    on_scene(scenario)


def test_in_a_cluster_only_the_bundle_is_written_and_only_into_webhooks_that_call_us() -> None:
    async def scenario(scene: Scene) -> None:
        theirs = chart(scene, "theirs", Endpoint("elsewhere").client_config(ADMIT, b""))
        ours = chart(scene, "ours", Endpoint("samara").client_config(ADMIT, b"old"), timeoutSeconds=7)
        before = json.loads(json.dumps(scene.cluster.objects))
        running = await scene.server(in_cluster=True)
        bundle = base64.b64encode(running.bundle()).decode()
        await scene.until(lambda: scene.cluster.objects[ours]["webhooks"][1]["clientConfig"]["caBundle"] == bundle)
        wanted = before[ours]["webhooks"]
        for hook in wanted:
            hook["clientConfig"]["caBundle"] = bundle
        await running.admission.close()
        assert scene.cluster.objects[ours]["webhooks"] == wanted
        assert scene.cluster.objects[theirs] == before[theirs]
        assert CONFIG not in scene.cluster.objects
        chart(scene, "ours", Endpoint("samara").client_config(ADMIT, b"other"), timeoutSeconds=7)
        await scene.until(lambda: scene.cluster.objects[ours]["webhooks"] == wanted)

    on_scene(scenario)


def test_an_operator_outside_the_cluster_leaves_the_configurations_of_an_installation_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(scene: Scene) -> None:
        chart(scene, "samara", Endpoint("elsewhere").client_config(ADMIT, b"theirs"))
        a_crd(scene, conversion=webhook_conversion(Endpoint("elsewhere").client_config(CONVERT, b"theirs")))
        before = json.loads(json.dumps(scene.cluster.objects))
        running = await scene.server(crds=(CRD_NAME,))
        await scene.until(lambda: logged(caplog).count("calls a Service") == 2)
        await scene.turns(10)
        await running.admission.close()
        assert {path: scene.cluster.objects[path] for path in before} == before

    on_scene(scenario)
    assert logged(caplog).count("calls a Service") == 2


def test_a_patch_of_a_crd_has_only_the_conversion_and_the_resource_version() -> None:
    async def scenario(scene: Scene) -> None:
        a_crd(scene)
        read = scene.cluster.objects[CRD_PATH]["metadata"]["resourceVersion"]
        running = await scene.server(crds=(CRD_NAME,))
        await scene.until(lambda: leads_to_us(scene, running))
        (sent,) = [request for request in scene.script.seen if request.path == CRD_PATH and request.method != "GET"]
        assert (sent.method, sent.headers["Content-Type"]) == ("PATCH", "application/merge-patch+json")
        assert sent.query["fieldManager"] == "samara"
        assert sent.json == {
            "metadata": {"resourceVersion": read},
            "spec": {"conversion": conversion_of(scene)},
        }

    on_scene(scenario)


def test_a_forbidden_configuration_of_another_name_does_not_delay_the_charts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(scene: Scene) -> None:
        config = Endpoint("samara").client_config(ADMIT, b"")
        scene.cluster.odd["PUT", chart(scene, "another", config)] = refuses(403, "Forbidden")
        chart(scene, "samara", config)
        running = await scene.server(in_cluster=True)
        await scene.until(lambda: registered(scene) == {base64.b64encode(running.bundle()).decode()})
        await scene.until(lambda: "webhooks.failed" in logged(caplog))

    on_scene(scenario)


def test_a_failed_registration_does_not_delay_the_others() -> None:
    async def scenario(scene: Scene) -> None:
        a_crd(scene)
        scene.cluster.odd["GET", CONFIG] = refuses(403, "Forbidden")
        running = await scene.server(crds=("broken.toys.dev", CRD_NAME))
        await scene.until(lambda: leads_to_us(scene, running))
        await running.admission.close()
        assert conversion_of(scene) == {"strategy": "None"}

    on_scene(scenario)


def test_conversions_are_removed_at_the_stop_despite_conflicts() -> None:
    async def scenario(scene: Scene) -> None:
        a_crd(scene)
        running = await scene.server(crds=(CRD_NAME,))
        await scene.until(lambda: leads_to_us(scene, running))

        async def once(request: web.Request) -> web.StreamResponse:
            del scene.cluster.odd["PATCH", CRD_PATH]
            return await refuses(409, "Conflict")(request)

        scene.cluster.odd["PATCH", CRD_PATH] = once
        await running.admission.close()
        assert conversion_of(scene) == {"strategy": "None"}

    on_scene(scenario)


def test_registration_succeeds_after_the_api_server_is_back() -> None:
    async def scenario(scene: Scene) -> None:
        scene.cluster.odd["POST", HOOKS] = refuses(500)
        running = await scene.server()
        await scene.until(
            lambda: [request for request in scene.script.seen if (request.method, request.path) == ("POST", HOOKS)]
        )
        assert running.admission.not_ready_reason is None
        del scene.cluster.odd["POST", HOOKS]
        await scene.until(lambda: CONFIG in scene.cluster.objects)

    on_scene(scenario)


def test_a_stop_ends_in_time_even_if_nothing_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samara.admission.registrar._CLOSE_SECONDS", 0.1)

    async def scenario(scene: Scene) -> None:
        running = await scene.server()
        await scene.until(lambda: CONFIG in scene.cluster.objects)
        scene.cluster.broken = hangs
        await asyncio.wait_for(running.admission.close(), 5)

    on_scene(scenario)


def test_the_secret_is_in_the_operators_own_namespace() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.server()
        assert scene.cluster.objects[SECRET_PATH]["metadata"]["namespace"] == "samara"

    on_scene(scenario)
