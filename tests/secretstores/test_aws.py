"""AWS Secrets Manager: paths, configuration, and answers that a real server does not give on request."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvloop
from botocore.exceptions import ClientError, NoCredentialsError, ProfileNotFound
from tests.kube import pki
from tests.secretstores.contexts import CONTEXT

from samara.secretstores.aws import SecretsManager, _error, open_aws
from samara.secretstores.base import (
    MAX_VALUE,
    Forbidden,
    Location,
    NotFound,
    StoreConfigError,
    StoreError,
    Unauthenticated,
    Unavailable,
    Unusable,
)
from samara.secretstores.registry import open_store

pytestmark = pytest.mark.heavy

CANARY = "canary-c07e"
KEYS = {"access-key-id": b"AKIDCONFIG", "secret-access-key": b"secret\n"}
HANG, RESET = b"hang", b"reset"


# a scripted server


@dataclass(frozen=True)
class Request:
    key: str
    """The id of the access key that signed."""
    name: str
    path: str


@dataclass
class Script:
    """Answers by requested name. `HANG` never answers and `RESET` breaks the connection."""

    answer: Callable[[Request], bytes | Awaitable[bytes]]
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await _request(reader)
                self.requests.append(request)
                answer = self.answer(request)
                content = answer if isinstance(answer, bytes) else await answer
                if content == HANG:
                    await reader.read()
                if content in (HANG, RESET):
                    return
                writer.write(content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"(?i)^content-length: (\d+)", head, re.M)
    body = await reader.readexactly(int(length[1])) if length else b""
    key = re.search(r"Credential=([^/]+)/", head)
    return Request(key[1] if key else "", json.loads(body)["SecretId"] if body else "", head.split()[1])


@asynccontextmanager
async def scripted(answer: Callable[[Request], bytes | Awaitable[bytes]]) -> AsyncIterator[Script]:
    script = Script(answer)
    there = await asyncio.start_server(script.serve, "127.0.0.1")
    script.url = f"http://127.0.0.1:{there.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        there.close()


def http(body: bytes | object, status: int = 200, **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/x-amz-json-1.1\r\n{extra}"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def error(code: str, status: int = 400, **headers: str) -> bytes:
    return http({"__type": f"com.amazonaws.secretsmanager#{code}", "Message": CANARY}, status, **headers)


def value(text: str) -> bytes:
    return http({"ARN": "arn:x", "Name": "n", "VersionId": "v", "SecretString": text})


Scenario = Callable[[SecretsManager, Script], Awaitable[object]]


def play(
    answer: Callable[[Request], bytes | Awaitable[bytes]], scenario: Scenario, config: Mapping[str, bytes] = KEYS
) -> object:
    """Runs a test on the event loop that the program uses."""

    async def main() -> object:
        async with scripted(answer) as script, asyncio.timeout(30):
            store = open_aws(urlsplit(f"aws-sm://eu-west-1?endpoint={script.url}"), config)
            try:
                return await scenario(store, script)
            finally:
                await store.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def read(store: SecretsManager, script: Script) -> bytes:
    return (await store.read("db")).value("")


def outcomes(answers: Mapping[str, bytes]) -> dict[str, bytes | StoreError]:
    """The results of reading each name with one store from a server with these answers."""

    async def scenario(store: SecretsManager, script: Script) -> dict[str, bytes | StoreError]:
        return {name: await outcome(store, name) for name in answers}

    results = play(lambda request: answers[request.name], scenario)
    assert isinstance(results, dict)
    for result in results.values():
        if isinstance(result, StoreError):
            assert CANARY not in str(result)
            assert result.__context__ is None or result.__suppress_context__
    return results


async def outcome(store: SecretsManager, name: str) -> bytes | StoreError:
    try:
        return (await store.read(name)).value("")
    except StoreError as error:
        return error


# paths


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("db", Location("db")),
        ("/app/db", Location("/app/db")),
        ("app/db#user", Location("app/db", "user")),
        ("a+b=c.d@e_f-g#json.field", Location("a+b=c.d@e_f-g", "json.field")),
        ("db#a/b", Location("db", "a/b")),
    ],
)
def test_a_path_is_a_name_and_a_field(path: str, location: Location) -> None:
    assert SecretsManager("eu-west-1", None, None).locate(path) == location


@pytest.mark.parametrize(
    "path",
    [
        "arn:aws:secretsmanager:eu-west-1:1:secret:db",
        "a b",
        "a:b",
        "ä",
        "x" * 513,
        "",
        "a//b",
        "../a",
        "a#b#c",
        "a#",
        "a%20b",
    ],
)
def test_an_impossible_name_is_never_requested(path: str) -> None:
    with pytest.raises(Unusable):
        SecretsManager("eu-west-1", None, None).locate(path)


def test_the_error_for_an_arn_names_it_as_one() -> None:
    with pytest.raises(Unusable, match="found an ARN"):
        SecretsManager("eu-west-1", None, None).locate("arn:aws:secretsmanager:eu-west-1:1:secret:db")


# the configuration


def fault(url: str, **config: bytes) -> StoreConfigError:
    with pytest.raises(StoreConfigError) as caught:
        asyncio.run(open_store({"url": url.encode(), **config}, CONTEXT))
    assert CANARY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "url",
    [
        "aws-sm://",
        "aws-sm://Paris",
        "aws-sm://eu-west-1.attacker.example",
        "aws-sm://eu-west-1:443",
        "aws-sm://eu-west-1/path",
        "aws-sm://eu-west-1?region=x",
        "aws-sm://eu-west-1?endpoint=",
        "aws-sm://eu-west-1?endpoint=ftp://127.0.0.1",
        "aws-sm://eu-west-1?endpoint=https://u:p@host",
        "aws-sm://eu-west-1?endpoint=https://host/path",
        "aws-sm://eu-west-1?endpoint=http://somewhere.example",
        "aws-sm://eu-west-1?endpoint=http://10.0.0.1:4566",
    ],
)
def test_a_url_that_is_no_region_or_no_safe_endpoint_is_refused(url: str) -> None:
    assert fault(url).reason == "ConnectionError"


@pytest.mark.parametrize(
    "url",
    [
        "aws-sm://eu-west-1",
        "aws-sm://us-gov-west-1",
        "aws-sm://ap-southeast-2/",
        "aws-sm://eu-west-1?endpoint=http://127.0.0.1:4566/",
        "aws-sm://eu-west-1?endpoint=http://[::1]:4566",
        "aws-sm://eu-west-1?endpoint=https://vpce-1.secretsmanager.eu-west-1.vpce.amazonaws.com",
    ],
)
def test_a_store_opens_without_a_request(url: str) -> None:
    async def main() -> str:
        store = await open_store({"url": url.encode()}, CONTEXT)
        await store.close()
        return store.scheme

    assert asyncio.run(main()) == "aws-sm"


@pytest.mark.parametrize("missing", KEYS)
def test_half_a_credential_is_refused_and_never_completed_from_the_environment(missing: str) -> None:
    fault_ = fault("aws-sm://eu-west-1", **{key: value for key, value in KEYS.items() if key != missing})
    assert fault_.reason == "TokenError"
    assert missing in str(fault_)


def test_a_session_token_alone_is_refused() -> None:
    assert fault("aws-sm://eu-west-1", **{"session-token": CANARY.encode()}).reason == "TokenError"


def test_a_credential_of_several_lines_is_refused_without_showing_it() -> None:
    fault_ = fault("aws-sm://eu-west-1", **{**KEYS, "secret-access-key": f"{CANARY}\nx".encode()})
    assert fault_.reason == "TokenError"


# answers


CODES: Mapping[str, type[StoreError]] = {
    "ResourceNotFoundException": NotFound,
    "AccessDeniedException": Forbidden,
    "DecryptionFailure": Forbidden,
    "InvalidRequestException": Forbidden,
    "SomethingNewException": Forbidden,
    "InvalidParameterException": Unusable,
    "ValidationException": Unusable,
    "ThrottlingException": Unavailable,
    "LimitExceededException": Unavailable,
    "InternalServiceError": Unavailable,
    "ExpiredTokenException": Unauthenticated,
    "UnrecognizedClientException": Unauthenticated,
    "InvalidSignatureException": Unauthenticated,
    "MissingAuthenticationTokenException": Unauthenticated,
}


def test_each_error_code_has_one_error_without_the_message_of_aws() -> None:
    results = outcomes({code: error(code) for code in CODES})
    assert {code: type(result) for code, result in results.items()} == CODES


def test_a_failing_server_is_an_outage_for_every_code() -> None:
    bodies = (b"", f"<html>{CANARY}</html>".encode(), b'{"__type": "canary-c07e"}')
    answers = {f"{status}-{n}": http(body, status) for status in (429, 500, 502, 503) for n, body in enumerate(bodies)}
    assert {type(result) for result in outcomes(answers).values()} == {Unavailable}


def test_retry_after_is_used_if_it_is_a_number_of_seconds() -> None:
    odd = ("Wed, 21 Oct 2026 07:28:00 GMT", "-1", "nan", "9" * 30, "1e9")
    times = {"good": "17", **{f"odd{n}": when for n, when in enumerate(odd)}}
    results = outcomes({name: error("ThrottlingException", 429, Retry_After=when) for name, when in times.items()})
    waits = {name: result.retry_after for name, result in results.items() if isinstance(result, Unavailable)}
    assert waits == {"good": 17.0, **{f"odd{n}": None for n in range(len(odd))}}


def test_a_malformed_answer_gives_no_value() -> None:
    bodies = {
        "text": CANARY.encode(),
        "list": b"[]",
        "null": b"null",
        "string": f'"{CANARY}"'.encode(),
        "binary": b"\xff\xfe",
        "deep": b"[" * 100_000,
        "base64": f'{{"SecretBinary": "{CANARY}!"}}'.encode(),
        "cut": b'{"SecretString": ',
        "empty": b"",
    }
    results = outcomes({name: http(body) for name, body in bodies.items()})
    assert {name for name, result in results.items() if not isinstance(result, Unavailable | Unusable)} == set()


def test_an_answer_without_a_value_is_unusable_and_not_absent() -> None:
    bodies: tuple[object, ...] = ({}, {"SecretString": None}, {"SecretString": 5}, {"SecretString": {"a": CANARY}})
    results = outcomes({str(n): http(body) for n, body in enumerate(bodies)})
    assert {type(result) for result in results.values()} == {Unusable}


def test_a_value_is_not_changed() -> None:
    texts = ("", "a\0b", "{{ .Values.x }} ${HOME} `id`", "ü" * 1000, "x" * MAX_VALUE)
    results = outcomes({str(n): value(text) for n, text in enumerate(texts)})
    assert list(results.values()) == [text.encode() for text in texts]


def test_a_value_that_is_too_large_is_unusable() -> None:
    assert isinstance(outcomes({"db": value("x" * 5 * MAX_VALUE)})["db"], Unusable)


def test_the_error_without_credentials_says_where_to_put_them() -> None:
    async def scenario(store: SecretsManager, script: Script) -> None:
        with pytest.raises(Unauthenticated, match="access-key-id"):
            await read(store, script)
        assert script.requests == []

    play(lambda _: value(CANARY), scenario, config={})


def test_a_role_that_may_not_be_assumed_is_unauthenticated_and_not_forbidden() -> None:
    answer = {"Error": {"Code": "AccessDenied", "Message": CANARY}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    taking = _error(ClientError(answer, "AssumeRoleWithWebIdentity"), "db", "eu-west-1")
    reading = _error(ClientError(answer, "GetSecretValue"), "db", "eu-west-1")
    assert (type(taking), type(reading)) == (Unauthenticated, Forbidden)
    for cause in (NoCredentialsError(), ProfileNotFound(profile=CANARY)):
        fault_ = _error(cause, "db", "eu-west-1")
        assert isinstance(fault_, Unauthenticated)
        assert CANARY not in str(fault_)


# outages


def test_a_broken_connection_is_an_outage_and_not_retried() -> None:
    async def scenario(store: SecretsManager, script: Script) -> int:
        with pytest.raises(Unavailable):
            await read(store, script)
        return len(script.requests)

    assert play(lambda _: RESET, scenario) == 1
    assert play(lambda _: error("ThrottlingException"), scenario) == 1


def test_a_refused_connection_is_an_outage() -> None:
    async def main() -> None:
        there = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1")
        port = there.sockets[0].getsockname()[1]
        there.close()
        for scheme in ("http", "https"):
            store = open_aws(urlsplit(f"aws-sm://eu-west-1?endpoint={scheme}://127.0.0.1:{port}"), KEYS)
            with pytest.raises(Unavailable):
                await store.read("db")
            await store.close()

    asyncio.run(main())


def test_an_endpoint_without_a_trusted_certificate_is_an_outage_that_says_so(tmp_path: Path) -> None:
    pair = pki.server(pki.authority(), "127.0.0.1")
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "pair.pem")

    async def main() -> None:
        script = Script(lambda _: value(CANARY))
        there = await asyncio.start_server(script.serve, "127.0.0.1", ssl=tls)
        port = there.sockets[0].getsockname()[1]
        store = open_aws(urlsplit(f"aws-sm://eu-west-1?endpoint=https://127.0.0.1:{port}"), KEYS)
        with pytest.raises(Unavailable, match="certificate"):
            await store.read("db")
        assert script.requests == []
        await store.close()
        there.close()

    asyncio.run(main())


def test_a_slow_read_ends_at_the_callers_deadline_and_the_next_one_succeeds() -> None:
    answers = iter([value("warm"), HANG, value("x")])

    async def scenario(store: SecretsManager, script: Script) -> bytes:
        await read(store, script)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await read(store, script)
        return await read(store, script)

    assert play(lambda _: next(answers), scenario) == b"x"


def test_closing_the_store_during_a_read_is_an_outage_and_opens_no_connection() -> None:
    async def main(store: SecretsManager, script: Script) -> None:
        await read(store, script)
        reading = asyncio.ensure_future(store.read("slow"))
        await under_way.wait()
        await store.close()
        for pending in (reading, store.read("db")):
            with pytest.raises(Unavailable):
                await pending
        assert [request.name for request in script.requests] == ["db", "slow"]

    under_way = asyncio.Event()

    def answer(request: Request) -> bytes:
        if request.name == "slow":
            under_way.set()
            return HANG
        return value("x")

    play(answer, main)


# credentials


def keep(path: Path, key: str) -> None:
    path.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n")


def only(key: str) -> Callable[[Request], bytes]:
    """A server that knows one access key."""
    return lambda request: value(request.key) if request.key == key else error("UnrecognizedClientException")


def test_credentials_of_the_configuration_are_used_before_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert play(lambda request: value(request.key), read) == b"AKIDCONFIG"
    assert play(lambda request: value(request.key), read, config={}) == b"AKIDENVIRONMENT"


def test_renewed_credentials_are_loaded_after_the_first_refusal(tmp_path: Path) -> None:
    async def scenario(store: SecretsManager, script: Script) -> list[str]:
        keep(tmp_path / "credentials", "AKIDOLD")
        with pytest.raises(Unauthenticated):
            await read(store, script)
        keep(tmp_path / "credentials", "AKIDNEW")
        assert await read(store, script) == b"AKIDNEW"
        return [request.key for request in script.requests]

    # A read is tried with the present credentials, and once more after loading them again.
    assert play(only("AKIDNEW"), scenario, config={}) == ["AKIDOLD", "AKIDOLD", "AKIDOLD", "AKIDNEW"]


def test_credentials_of_the_configuration_are_not_tried_twice() -> None:
    async def scenario(store: SecretsManager, script: Script) -> int:
        with pytest.raises(Unauthenticated):
            await read(store, script)
        return len(script.requests)

    assert play(only("AKIDNEW"), scenario) == 1


def test_a_read_during_a_renewal_of_credentials_is_repeated(tmp_path: Path) -> None:
    keep(tmp_path / "credentials", "AKIDOLD")
    both = asyncio.Barrier(2)

    async def answer(request: Request) -> bytes:
        if request.key == "AKIDNEW":
            return value(request.name)
        await both.wait()
        keep(tmp_path / "credentials", "AKIDNEW")
        return HANG if request.name == "slow" else error("ExpiredTokenException")

    async def scenario(store: SecretsManager, script: Script) -> list[bytes]:
        return [request.value("") for request in await asyncio.gather(store.read("slow"), store.read("fast"))]

    assert play(answer, scenario, config={}) == [b"slow", b"fast"]


def test_the_credentials_of_a_pod_identity_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of a pod identity of EKS: an address on this machine, and a file with a token."""
    (tmp_path / "token").write_text("pod")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    given = {
        "AccessKeyId": "AKIDPOD",
        "SecretAccessKey": "s",
        "Token": "t",
        "Expiration": "2999-01-01T00:00:00Z",
    }

    async def scenario(store: SecretsManager, script: Script) -> bytes:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{script.url}/v1/credentials")
        return await read(store, script)

    def answer(request: Request) -> bytes:
        return http(given) if request.path == "/v1/credentials" else value(request.key)

    assert play(answer, scenario, config={}) == b"AKIDPOD"


# the environment


def test_no_variable_or_file_redirects_a_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Requests that fetch credentials are not redirected either. They use the same session."""
    (tmp_path / "config").write_text("[default]\nendpoint_url = http://127.0.0.1:1\n")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SECRETS_MANAGER", "AWS_ENDPOINT_URL_STS"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def main() -> str:
        store = open_aws(urlsplit("aws-sm://eu-west-1"), KEYS)
        client = await store._get_client("db")
        await store.close()
        return str(client.meta.endpoint_url)  # type: ignore[attr-defined]

    assert asyncio.run(main()) == "https://secretsmanager.eu-west-1.amazonaws.com"


def test_a_local_endpoint_is_never_reached_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert play(lambda _: value("x"), read) == b"x"


# what is told


def test_no_log_or_repr_shows_a_value_or_credential(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("botocore", "aiobotocore"):
        logging.getLogger(name).setLevel(logging.NOTSET)

    async def scenario(store: SecretsManager, script: Script) -> str:
        return repr((store, store._keys, await store.read("db")))

    config = {"access-key-id": b"AKID", "secret-access-key": b"hush-d81a", "session-token": b"hush-77fe"}
    shown = str(play(lambda _: value(CANARY), scenario, config)) + caplog.text
    for hidden in (CANARY, "hush-d81a", "hush-77fe"):
        assert hidden not in shown
