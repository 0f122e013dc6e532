"""The answers of FishyKeys' gRPC server. Our stand-in gives them, and so must the real one.

SAMARA_TEST_FISHYKEYS_ADDR (host:port) and SAMARA_TEST_FISHYKEYS_TOKEN (an operator token) point these at a real server.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import grpc
import pytest
from tests.secretstores.fishykeys_server import USER, FishyKeysServer

from samara.secretstores.proto.fishykeys_pb2 import (
    OperatorGetSecretValueRequest,
    OperatorGetSecretValueResponse,
)

ADDRESS, TOKEN = os.environ.get("SAMARA_TEST_FISHYKEYS_ADDR"), os.environ.get("SAMARA_TEST_FISHYKEYS_TOKEN", "")
NOWHERE = "/samara-test/there-is-no-such-secret"
PATH, VALUE = "/app/db/password", "click me!"


@dataclass(frozen=True)
class Line:
    """A plain client without checks."""

    channel: grpc.Channel
    token: str

    def ask(self, encoded: str, *tokens: str) -> OperatorGetSecretValueResponse:
        call = self.channel.unary_unary(
            "/secrets.Secrets/OperatorGetSecretValue",
            request_serializer=OperatorGetSecretValueRequest.SerializeToString,
            response_deserializer=OperatorGetSecretValueResponse.FromString,
        )
        given = tuple(("authorization", token) for token in tokens)
        answer: OperatorGetSecretValueResponse = call(
            OperatorGetSecretValueRequest(path=encoded), metadata=given, timeout=5
        )
        return answer

    def code(self, encoded: str, *tokens: str) -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError) as caught:
            self.ask(encoded, *tokens)
        return cast("grpc.Call", caught.value).code()


@pytest.fixture
def server() -> Iterator[FishyKeysServer]:
    with FishyKeysServer() as made:
        made.put(PATH, VALUE)
        yield made


@pytest.fixture
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    """A client of the real server if there is one, else of the stand-in."""
    if ADDRESS is not None:
        with grpc.insecure_channel(ADDRESS) as channel:
            yield Line(channel, TOKEN)
        return
    server: FishyKeysServer = request.getfixturevalue("server")
    with grpc.insecure_channel(server.start()) as channel:
        yield Line(channel, server.token())


@pytest.fixture
def own(server: FishyKeysServer) -> Iterator[Line]:
    """A client of the stand-in, for states that a test cannot cause in a real server."""
    with grpc.insecure_channel(server.start()) as channel:
        yield Line(channel, server.token())


def encoded(path: str) -> str:
    return base64.b64encode(path.encode()).decode()


def test_a_request_without_authorization_is_unauthenticated(line: Line) -> None:
    assert line.code(encoded(NOWHERE)) is grpc.StatusCode.UNAUTHENTICATED


def test_two_authorizations_are_an_invalid_argument(line: Line) -> None:
    assert line.code(encoded(NOWHERE), line.token, line.token) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", "Bearer a.b.c"])
def test_a_malformed_token_is_unauthenticated(line: Line, token: str) -> None:
    assert line.code(encoded(NOWHERE), token) is grpc.StatusCode.UNAUTHENTICATED


def test_a_path_that_is_not_encoded_is_an_invalid_argument(line: Line) -> None:
    assert line.code("/app/db!", line.token) is grpc.StatusCode.INVALID_ARGUMENT


def test_a_missing_secret_is_forbidden(line: Line) -> None:
    assert line.code(encoded(NOWHERE), line.token) is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("prefix", ["", "Bearer "])
def test_a_value_comes_with_its_path_decoded(own: Line, prefix: str) -> None:
    answer = own.ask(encoded(PATH), prefix + own.token)
    assert (answer.value, answer.path) == (VALUE, PATH)


def test_an_expired_token_is_unauthenticated(own: Line, server: FishyKeysServer) -> None:
    assert own.code(encoded(PATH), server.token(lives=-1)) is grpc.StatusCode.UNAUTHENTICATED


def test_a_token_signed_with_another_key_is_unauthenticated(own: Line, server: FishyKeysServer) -> None:
    server.rotate_key()
    assert own.code(encoded(PATH), own.token) is grpc.StatusCode.UNAUTHENTICATED


def test_a_locked_server_reports_the_lock_to_every_request_with_a_token(own: Line, server: FishyKeysServer) -> None:
    server.locked = True
    assert own.code(encoded(PATH), own.token) is grpc.StatusCode.FAILED_PRECONDITION
    assert own.code(encoded(PATH), "nonsense") is grpc.StatusCode.FAILED_PRECONDITION
    assert own.code(encoded(PATH)) is grpc.StatusCode.UNAUTHENTICATED


def test_a_secret_of_another_user_is_forbidden(own: Line, server: FishyKeysServer) -> None:
    server.put(PATH, VALUE, "somebody-else")
    assert own.code(encoded(PATH), own.token) is grpc.StatusCode.PERMISSION_DENIED
    server.put(PATH, VALUE, "somebody-else", USER)
    assert own.ask(encoded(PATH), own.token).value == VALUE


def test_a_test_can_set_the_status_of_a_failure(own: Line, server: FishyKeysServer) -> None:
    server.failing[PATH] = grpc.StatusCode.NOT_FOUND, "secret_not_found"
    assert own.code(encoded(PATH), own.token) is grpc.StatusCode.NOT_FOUND


def test_a_slow_server_answers_when_its_gate_is_opened(own: Line, server: FishyKeysServer) -> None:
    server.gate.clear()
    call = own.channel.unary_unary(
        "/secrets.Secrets/OperatorGetSecretValue",
        request_serializer=OperatorGetSecretValueRequest.SerializeToString,
        response_deserializer=OperatorGetSecretValueResponse.FromString,
    )
    waiting = call.future(OperatorGetSecretValueRequest(path=encoded(PATH)), metadata=(("authorization", own.token),))
    assert not waiting.done()
    server.gate.set()
    assert waiting.result(5).value == VALUE
