"""Tests the error tree: the error for each Status, and values that no message may contain."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.kube import errors
from samara.kube.errors import from_status

CANARY = "c4n4ry-s3cret"


def status(message: str = "no", reason: str = "", **details: Any) -> bytes:
    body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "details": details}
    return json.dumps(body).encode()


def everything(error: errors.ApiError) -> str:
    return f"{error} {error!r} {error.args} {error.causes}"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.ApiError),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "", errors.Conflict),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooMany),
        (500, "InternalError", errors.ServerFault),
        (504, "Timeout", errors.ServerFault),
    ],
)
def test_each_status_has_its_own_error(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    error = from_status(code, status(reason=reason), None)

    assert type(error) is kind
    assert error.status == code
    assert isinstance(error, errors.SamaraError)


def test_the_message_names_the_status_and_the_reason() -> None:
    error = from_status(404, status('secrets "a" not found', "NotFound"), None)

    assert str(error) == 'the API server answered 404 NotFound: secrets "a" not found'


def test_the_docstring_shows_the_tree_of_errors() -> None:
    tree = [errors.SamaraError]
    for kind in tree:
        tree += kind.__subclasses__()

    assert errors.__doc__
    for kind in tree:
        if kind.__module__ == errors.__name__:  # other modules add subclasses
            assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'"x"',
        b'{"message": 3}',
        b'{"message": "\xff"}',
        b'{"details": {"causes": 1}}',
    ],
)
def test_the_http_status_decides_if_the_body_is_no_status(body: bytes) -> None:
    error = from_status(503, body, None)

    assert type(error) is errors.ServerFault
    assert error.reason == "ServiceUnavailable"
    assert error.message


def test_the_first_line_of_plain_text_is_kept() -> None:
    error = from_status(400, b"Client sent an HTTP request to an HTTPS server.\nmore\n", None)

    assert error.message == "Client sent an HTTP request to an HTTPS server."


@pytest.mark.parametrize("body", [b"<html>%s</html>", b'{"data": {"a": "%s"', b'["%s"', b'"%s"'])
def test_a_body_that_may_echo_the_request_is_dropped(body: bytes) -> None:
    assert CANARY not in everything(from_status(502, body % CANARY.encode(), None))


def test_a_status_unknown_to_http_is_an_api_error() -> None:
    assert from_status(499, b"", None).reason == "Unknown"


def test_a_long_message_is_cut() -> None:
    error = from_status(500, status("x " * 5000), None)

    assert len(error.message) == errors.MAX_MESSAGE
    assert error.message.endswith("…")


def test_a_message_is_one_line() -> None:
    assert from_status(500, status("a\nb\tc"), None).message == "a b c"


def test_the_retry_after_header_outranks_the_body() -> None:
    assert from_status(429, status(retryAfterSeconds=7), 2.5).retry_after == 2.5
    assert from_status(429, status(retryAfterSeconds=7), None).retry_after == 7
    assert from_status(429, status(), None).retry_after is None


def test_a_namespace_that_is_terminating_is_recognised() -> None:
    causes = [{"reason": "NamespaceTerminating", "message": "namespace a is being terminated", "field": "metadata"}]

    ending = from_status(403, status(causes=causes), None)
    refused = from_status(403, status(), None)

    assert isinstance(ending, errors.Forbidden)
    assert ending.terminating
    assert ending.causes == (errors.Cause("NamespaceTerminating", "metadata", "namespace a is being terminated"),)
    assert isinstance(refused, errors.Forbidden)
    assert not refused.terminating


def test_an_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(from_status(404, status("m", "NotFound"), 1.0)))

    assert (type(error), error.message, error.retry_after) == (errors.NotFound, "m", 1.0)


@pytest.mark.parametrize(
    "message",
    [
        f'Secret "a" is invalid: data[k]: Invalid value: "{CANARY}": must be short',
        f'Secret "a" is invalid: data[k]: Invalid value: "\\"{CANARY}\\": x {CANARY}": must be short',
        f'Secret "a" is invalid: data[k]: Invalid value: "x\\\\": must be short, Invalid value: "{CANARY}": y',
        f'Secret "a" is invalid: type: Unsupported value: "{CANARY}": supported values: "A", "B"',
        f'Secret "a" is invalid: x: Duplicate value: "{CANARY}"',
        f'Secret "a" is invalid: [x: Duplicate value: "{CANARY}", y: Invalid value: "{CANARY}": must be y]',
        f'Secret "a" is invalid: x: Not found: "{CANARY}"',
        f'Secret "a" is invalid: x: Too long: "{CANARY}": at most 3',
        f'Secret "a" is invalid: data: Invalid value: {{"k":"{CANARY}"}}: must be y',
        f'Secret "a" is invalid: data: Invalid value: map[string]string{{"k": "{CANARY}"}}: must be y',
        f'Secret "a" is invalid: data: Invalid value: core.Secret{{Data: "x": {CANARY}}}',
        f'webhook denied: Invalid value: "p"{CANARY}": no',
        f'webhook denied: Invalid value: "{CANARY}',
        f"webhook denied: Invalid value: {CANARY}",
        f"webhook denied: Invalid value:\n'{CANARY}'\n",
        f"Secret is bad: error found in #10 byte of ...|{CANARY}|..., bigger context ...|{CANARY}|",
        f'failed to call webhook: an error on the server ("no ("){CANARY}") has prevented the request from succeeding',
        "token eyJhbGciOi.c4n4ry-s3cret.c4n4ry-s3cret is bad",
    ],
)
def test_no_error_contains_a_value(message: str) -> None:
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": "data[k]"}]

    error = from_status(422, status(message, "Invalid", causes=causes), None)

    assert CANARY not in everything(error)
    assert "…" in error.message


@given(st.text())
def test_any_quoted_value_is_dropped(value: str) -> None:
    marked = f"{CANARY}{value}{CANARY}"
    # Go's %q escapes what JSON escapes, so JSON quotes as the server does.
    error = from_status(422, status(f"data[k]: Invalid value: {json.dumps(marked)}: must be short"), None)

    assert error.message == "data[k]: Invalid value: …: must be short"


def test_text_after_a_dropped_value_is_kept() -> None:
    two = 'x: [a: Invalid value: "1": must be y, b: Unsupported value: "2": supported values: "A", "B"]'

    assert from_status(422, status(two), None).message == (
        'x: [a: Invalid value: …: must be y, b: Unsupported value: …: supported values: "A", "B"]'
    )


@pytest.mark.parametrize("character", ["'Z'", "'\\''", "'\"'", "'\\n'", "'\\u00ff'", "'é'"])
def test_the_character_at_which_a_decoder_failed_is_dropped(character: str) -> None:
    message = (
        f'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character {character} looking'
    )
    assert errors.redact(message).endswith("invalid character … looking")
