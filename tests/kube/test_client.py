"""Tests the requests that are sent, the errors for answers, and that no request is sent twice."""

from __future__ import annotations

import asyncio
import json
import ssl
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.scripted import Answer, Script, access, cuts, hangs, refuses, says, serving, streams
from tests.support.world import at

from samara import __version__
from samara.core.model import NAMESPACE, SECRET, Kind, Ref, namespace_ref
from samara.kube import errors
from samara.kube.auth.credentials import Headers
from samara.kube.client import APPLY_PATCH, JSON, MERGE_PATCH, Client, address, collection, unrestricted
from samara.kube.errors import ApiError, Conflict, ServerFault, Unauthorized, Unreachable

TOKEN = "canary-token-4711"
VALUE = "canary-value-4711"
OK = says({"ok": True})
PATH = "/api/v1/namespaces/a/secrets/db"


@dataclass
class Renewed:
    """Credentials that are new after each refusal."""

    forgotten: int = 0

    async def headers(self) -> Headers:
        return [("Authorization", f"Bearer {TOKEN}-{self.forgotten}")]

    def forget(self) -> None:
        self.forgotten += 1


def with_server(
    scenario: Callable[[Client, Script], Awaitable[None]], *answers: Answer, timeout: float = 30.0
) -> Renewed:
    credentials = Renewed()

    async def run() -> None:
        async with (
            serving(*answers) as script,
            Client(access(script, credentials), timeout, may_write=unrestricted) as client,
        ):
            await scenario(client, script)

    asyncio.run(run())
    return credentials


def error_of(
    *answers: Answer, method: str = "GET", body: bytes | None = None, timeout: float = 30.0
) -> errors.SamaraError:
    fault: list[errors.SamaraError] = []

    async def scenario(client: Client, script: Script) -> None:
        with pytest.raises(errors.SamaraError) as raised:
            await client.request(method, PATH, body)
        fault.append(raised.value)

    with_server(scenario, *answers, timeout=timeout)
    return fault[0]


# addresses


def test_paths_are_those_of_the_api() -> None:
    lease = Kind("coordination.k8s.io", "v1", "Lease", "leases")

    assert collection(SECRET) == "/api/v1/secrets"
    assert collection(SECRET, "a") == "/api/v1/namespaces/a/secrets"
    assert collection(lease, "a") == "/apis/coordination.k8s.io/v1/namespaces/a/leases"
    assert collection(NAMESPACE) == "/api/v1/namespaces"
    assert address(at("a", "db")) == "/api/v1/namespaces/a/secrets/db"
    assert address(namespace_ref("a"), "status") == "/api/v1/namespaces/a/status"


# what is sent


def test_every_request_has_our_user_agent_and_refuses_compression() -> None:
    async def scenario(client: Client, script: Script) -> None:
        await client.get(PATH)
        await client.request("PUT", PATH, b"{}", params={"fieldManager": "samara"})
        await client.request("PATCH", PATH, b"{}", content_type=MERGE_PATCH)
        await client.request("PATCH", PATH, b"{}", content_type=APPLY_PATCH)
        async with client.stream(PATH, {"watch": "1"}) as content:
            await content.read()
        for seen in script.seen:
            assert seen.headers["User-Agent"] == f"samara/{__version__}"
            assert seen.headers["Accept-Encoding"] == "identity"
            assert seen.headers["Accept"] == JSON
            assert seen.headers["Authorization"] == f"Bearer {TOKEN}-0"
        types = [seen.headers.get("Content-Type") for seen in script.seen]
        assert types[1:4] == [JSON, MERGE_PATCH, APPLY_PATCH]
        assert [seen.query for seen in script.seen] == [{}, {"fieldManager": "samara"}, {}, {}, {"watch": "1"}]

    with_server(scenario, OK)


@pytest.mark.parametrize("name", ["x HTTP/1.1\r\nHost: k\r\n\r\nPOST /api", "a b", "ä", "a\nb"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_with_other_characters_is_not_sent(method: str, name: str) -> None:
    """A name may come from an annotation of any user, so it must not become a second request."""

    async def scenario(client: Client, script: Script) -> None:
        with pytest.raises(errors.ConfigError, match="expected a path of the API server"):
            await client.request(method, f"/api/v1/namespaces/{name}/events", b"{}")
        assert script.seen == []

    with_server(scenario)


def test_the_body_is_sent_unchanged() -> None:
    async def scenario(client: Client, script: Script) -> None:
        sent = b'{"data":{"k":"' + b"x" * (2**20 - 100) + b'"}}'
        assert json.loads(await client.request("POST", "/api/v1/namespaces/a/secrets", sent)) == {"ok": True}
        assert script.seen[0].body == sent

    with_server(scenario, OK)


def test_a_continue_token_is_sent_unchanged() -> None:
    async def scenario(client: Client, script: Script) -> None:
        token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEi+/=&x=1 é"
        await client.get("/api/v1/secrets", {"limit": "500", "continue": token})
        assert script.seen[0].query == {"limit": "500", "continue": token}

    with_server(scenario, OK)


# errors


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", errors.ApiError),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (413, "RequestEntityTooLarge", errors.ApiError),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooMany),
        (500, "InternalError", errors.ServerFault),
        (503, "ServiceUnavailable", errors.ServerFault),
        (504, "Timeout", errors.ServerFault),
        (302, "", errors.ApiError),
        (418, "", errors.ApiError),
    ],
)
def test_each_status_becomes_its_own_error(status: int, reason: str, kind: type[ApiError]) -> None:
    fault = error_of(refuses(status, reason, "because"))

    assert type(fault) is kind
    assert isinstance(fault, ApiError)
    assert fault.status == status
    assert "because" in str(fault)


def test_a_redirect_is_not_followed() -> None:
    async def scenario(client: Client, script: Script) -> None:
        with pytest.raises(ApiError):
            await client.get(PATH)
        assert len(script.seen) == 1

    with_server(scenario, says(b"", 302, Location="/elsewhere"), OK)


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (says({"message": "slow"}, 429, Retry_After="7"), 7.0),
        (says({"details": {"retryAfterSeconds": 3}}, 503), 3.0),
        (says({"details": {"retryAfterSeconds": 3}}, 503, Retry_After="9"), 9.0),
        (says({}, 429), None),
        (says({}, 429, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (says({}, 429, Retry_After="-1"), None),
        (says({}, 429, Retry_After="soon"), None),
    ],
)
def test_retry_after_is_in_the_error(answer: Answer, wait: float | None) -> None:
    fault = error_of(answer)

    assert isinstance(fault, ApiError)
    assert fault.retry_after == wait


def test_a_terminating_namespace_is_recognised_by_its_cause() -> None:
    cause = {
        "reason": "NamespaceTerminating",
        "message": "namespace a is being terminated",
        "field": "metadata.namespace",
    }
    fault = error_of(refuses(403, "Forbidden", "unable to create", causes=[cause]))

    assert isinstance(fault, errors.Forbidden)
    assert fault.terminating


def test_an_error_that_arrives_in_pieces_is_read_completely() -> None:
    text = json.dumps({"kind": "Status", "reason": "AlreadyExists", "message": "there"}).encode()

    async def in_pieces(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=409, headers={"Content-Length": str(len(text))})
        await response.prepare(request)
        for index in range(0, len(text), 20):
            await response.write(text[index : index + 20])
            await asyncio.sleep(0.002)  # so that each piece is a packet of its own
        return response

    assert type(error_of(in_pieces)) is errors.AlreadyExists


@pytest.mark.parametrize(
    "body", [b"", b"<html>502</html>", b"\xff\xfe", b"[]", b'"x"', b"upstream connect error\nmore"]
)
def test_an_error_without_a_status_is_an_error_too(body: bytes) -> None:
    fault = error_of(says(body, 502))

    assert type(fault) is ServerFault
    assert "\n" not in str(fault)


def test_an_endless_error_body_is_read_only_partly() -> None:
    fault = error_of(says(b"x" * 2**22, 500))

    assert len(str(fault)) < 1000


# no answer


def test_a_server_that_does_not_answer_in_time_is_unreachable() -> None:
    fault = error_of(hangs, timeout=0.1)

    assert type(fault) is Unreachable
    assert str(fault).endswith("timed out")


def test_an_answer_that_stalls_is_unreachable() -> None:
    assert type(error_of(streams(b'{"half":'), timeout=0.1)) is Unreachable


@pytest.mark.parametrize("answer", [cuts, streams(b'{"half":', end="cut")])
def test_a_connection_that_is_cut_is_unreachable(answer: Answer) -> None:
    assert type(error_of(answer)) is Unreachable


def test_a_refused_connection_is_unreachable() -> None:
    async def run() -> None:
        async with serving(OK) as script:
            gone = access(script)
        async with Client(gone, may_write=unrestricted) as client:
            with pytest.raises(Unreachable, match=r"no answer from http://127\.0\.0\.1"):
                await client.get(PATH)

    asyncio.run(run())


def test_a_stream_that_is_cut_is_unreachable() -> None:
    async def scenario(client: Client, script: Script) -> None:
        with pytest.raises(Unreachable):
            async with client.stream(PATH, {"watch": "1"}) as content:
                await content.read()

    with_server(scenario, streams({"type": "ADDED"}, end="cut"))


# no request is repeated


def test_after_a_401_new_credentials_are_tried_once() -> None:
    async def scenario(client: Client, script: Script) -> None:
        assert json.loads(await client.request("POST", PATH, b"{}")) == {"ok": True}
        assert [seen.headers["Authorization"][-1] for seen in script.seen] == ["0", "1"]
        assert [seen.body for seen in script.seen] == [b"{}", b"{}"]

    assert with_server(scenario, refuses(401, "Unauthorized"), OK).forgotten == 1


def test_a_second_401_is_an_error() -> None:
    async def scenario(client: Client, script: Script) -> None:
        with pytest.raises(Unauthorized):
            await client.get(PATH)
        assert len(script.seen) == 2

    with_server(scenario, refuses(401, "Unauthorized"))


def test_a_watch_gets_new_credentials_too() -> None:
    async def scenario(client: Client, script: Script) -> None:
        async with client.stream(PATH, {"watch": "1"}) as content:
            assert await content.read() == b'{"ok": true}'

    with_server(scenario, refuses(401, "Unauthorized"), OK)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "answer", [refuses(409, "Conflict"), refuses(429), refuses(500), refuses(503), refuses(403), hangs, cuts]
)
def test_no_other_request_is_sent_twice(method: str, answer: Answer) -> None:
    async def scenario(client: Client, script: Script) -> None:
        await client.get(PATH)  # so that the connection is one that was used before
        with pytest.raises(errors.SamaraError):
            await client.request(method, PATH, None if method == "GET" else b"{}")
        assert [seen.method for seen in script.seen] in (["GET", method], ["GET"])

    with_server(scenario, OK, answer, OK, timeout=0.2)


# no secrets


@pytest.mark.parametrize(
    "answer",
    [
        refuses(422, "Invalid", f'Secret "db" is invalid: data[k]: Invalid value: "{VALUE}": must be short'),
        refuses(422, "Invalid", "x", causes=[{"message": f'Invalid value: "{VALUE}"', "field": "data"}]),
        refuses(400, "BadRequest", f"json: cannot decode, error found in #10 byte of ...|{VALUE}|..."),
        refuses(401, "Unauthorized", "token eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl is expired"),
        says(json.dumps({"data": {"k": VALUE}}).encode(), 502),
        says(f"<html>{VALUE}</html>".encode(), 502),
        cuts,
        hangs,
    ],
)
def test_no_error_contains_a_secret(answer: Answer) -> None:
    body = json.dumps({"data": {"k": VALUE}}).encode()
    fault: Any = error_of(answer, answer, method="POST", body=body, timeout=0.3)
    shown = [repr(fault), str(fault), repr(fault.__cause__), repr(getattr(fault, "causes", ""))]

    for text in shown:
        assert VALUE not in text
        assert TOKEN not in text
        assert "c2lnbmF0dXJl" not in text


def test_a_conflict_differs_from_an_existing_object() -> None:
    assert not isinstance(error_of(refuses(409, "AlreadyExists")), Conflict)


@pytest.mark.parametrize("through_a_proxy", [False, True])
def test_an_observer_may_send_a_dry_run(through_a_proxy: bool) -> None:
    async def scenario() -> None:
        async with serving(says({})) as script:
            # A request for a plain HTTP server goes to the proxy with the complete URL, so the script can be the proxy.
            given = replace(access(script), proxy=script.url) if through_a_proxy else access(script)
            async with Client(given, may_write=lambda: False) as client:
                await client.get(PATH)
                await client.request("POST", PATH, b"{}", params={"dryRun": "All"})
                with pytest.raises(Unreachable, match="may not write now"):
                    await client.request("POST", PATH, b"{}")
                assert [(seen.method, seen.query) for seen in script.seen] == [("GET", {}), ("POST", {"dryRun": "All"})]

    asyncio.run(scenario())


# Names that any user may have written


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("db", "db"),
        ("system:node", "system:node"),
        ("?watch=1", "%3Fwatch%3D1"),
        ("a#b", "a%23b"),
        ("a b", "a%20b"),
        ("...", "..."),
        ("ä", "%C3%A4"),
    ],
)
def test_a_name_is_one_segment_of_a_path(name: str, sent: str) -> None:
    assert address(at("a", name)) == f"/api/v1/namespaces/a/secrets/{sent}"
    assert collection(SECRET, name) == f"/api/v1/namespaces/{sent}/secrets"


@pytest.mark.parametrize(
    "name", [".", "..", "a/b", "victim/secrets/db", "a%2fb", "%2e%2e", "a\nb", "a\0b", "a\x7fb", "\ud800"]
)
def test_a_name_that_would_be_another_path_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidName, match="expected the name of an object"):
        address(at("a", name))
    with pytest.raises(errors.InvalidName):
        collection(SECRET, name)
    with pytest.raises(errors.InvalidName):
        collection(Kind(name, "v1", "Thing", "things"))
    with pytest.raises(errors.InvalidName):
        collection(Kind("example.com", "v1", "Thing", name))


def test_an_object_without_a_name_has_no_address() -> None:
    with pytest.raises(errors.InvalidName):
        address(at("a", ""))


HOSTILE = st.text(alphabet="ab/%.\\2fF5e#?; \n\0ä", max_size=8) | st.text(max_size=12)


@given(group=HOSTILE, namespace=HOSTILE, name=HOSTILE)
def test_no_name_changes_the_shape_of_a_path(group: str, namespace: str, name: str) -> None:
    """As the API server reads a path: it decodes it, and then splits it at its slashes."""
    kind = Kind(group, "v1", "Secret", "secrets")
    try:
        path = address(Ref(kind, namespace, name))
    except errors.InvalidName:
        assert not all(map(_can_be_a_name, (group or "g", namespace or "n", name)))
        return
    root = ["apis", group] if group else ["api"]
    inside = ["namespaces", namespace] if namespace else []
    assert unquote(path).split("/") == ["", *root, "v1", *inside, "secrets", name]
    assert "%" not in unquote(path)
    assert path.isascii()
    assert path.isprintable()


def _can_be_a_name(text: str) -> bool:
    return text not in ("", ".", "..") and not set("/%") & set(text) and text.isprintable()


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/victim%2Fsecrets%2fdb/configmaps/x",
        "/api/v1/namespaces/a/../b/secrets/x",
        "/api/v1/namespaces/a/%2e%2e/b/secrets/x",
        "/api/v1/namespaces/a/.%2E/b/secrets/x",
        "/api/v1/namespaces/%252e%252e/secrets",
        "/api/v1/namespaces/a/secrets/x%00",
        "/api/v1/namespaces//secrets",
        "/api/v1/secrets?limit=1",
        "/api/v1/secrets/",
        "api/v1/secrets",
        "/api/v1/secrets\r\nHost: other",
    ],
)
def test_a_path_that_decodes_to_another_path_is_never_sent(path: str) -> None:
    async def scenario(client: Client, script: Script) -> None:
        for method in ("GET", "DELETE"):
            with pytest.raises(errors.InvalidName):
                await client.request(method, path)
        with pytest.raises(errors.InvalidName):
            async with client.stream(path, {}):
                raise AssertionError("no watch was opened")
        assert script.seen == []

    with_server(scenario, OK)


# A proxy


async def streamed(client: Client) -> None:
    async with client.stream(PATH, {}):
        raise AssertionError("nothing comes through this proxy")


@pytest.mark.parametrize("a_stream", [True, False])
def test_the_password_of_a_proxy_appears_in_no_error(a_stream: bool) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def run() -> str:
        proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        async with proxy, serving() as script:
            through = f"http://user:{VALUE}@127.0.0.1:{port}"
            given = replace(
                access(script), server="https://127.0.0.1:1", ssl=ssl.create_default_context(), proxy=through
            )
            async with Client(given, may_write=unrestricted) as client:
                with pytest.raises(Unreachable) as caught:
                    await (streamed(client) if a_stream else client.get(PATH))
        return "".join(traceback.format_exception(caught.value))

    text = asyncio.run(run())
    assert "the proxy answered 407 Proxy Authentication Required" in text
    assert VALUE not in text
