"""Tests the fields and values of JSON documents."""

import pytest

from samara.secretstores.base import MAX_VALUE, NotFound, TextOrJson, Unusable

CANARY = "canary-81ce"
DOCUMENT = (
    b'{"user": "app_user", "db.host": "exact", "db": {"host": "nested", "port": 5432, "tls": {"on": true}},'
    b' "ratio": 1.10, "big": 12345678901234567890123, "huge": 1e400,'
    b' "list": [1, "two", {"three" : 3}], "empty": "", "nothing": null,'
    b' "text": "\\u00fc\\n\\"quoted\\"", "object": {"b" : 1, "a": {"c":  "d"}}}'
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user", "app_user"),
        ("db.host", "exact"),
        ("db.port", "5432"),
        ("db.tls.on", "true"),
        ("db.tls", '{"on":true}'),
        ("ratio", "1.10"),
        ("big", "12345678901234567890123"),
        ("huge", "1e400"),
        ("list", '[1,"two",{"three":3}]'),
        ("empty", ""),
        ("nothing", "null"),
        ("text", 'ü\n"quoted"'),
        ("object", '{"b":1,"a":{"c":"d"}}'),
    ],
)
def test_a_field_is_the_exact_key_or_else_a_path_with_dots(field: str, value: str) -> None:
    assert TextOrJson(DOCUMENT).value(field) == value.encode()


def test_without_a_field_the_document_is_the_value() -> None:
    assert TextOrJson(DOCUMENT).value("") == DOCUMENT
    assert TextOrJson(b"\x00\xff").value("") == b"\x00\xff"


@pytest.mark.parametrize("field", ["nope", "db.nope", "user.more", "list.0", "db.", ".db", "db..host", "nothing.more"])
def test_a_missing_field_is_absent(field: str) -> None:
    with pytest.raises(NotFound, match="no field"):
        TextOrJson(DOCUMENT).value(field)


@pytest.mark.parametrize(
    "content",
    [
        CANARY.encode(),
        b'"canary-81ce"',
        b'["canary-81ce"]',
        b'{"user": "canary-81ce"',
        b"\xff\x00",
        b"",
        b"[" * 100_000,
        b'{"user": canary-81ce}',
    ],
)
def test_a_field_of_content_that_is_no_object_is_unusable(content: bytes) -> None:
    with pytest.raises(Unusable) as caught:
        TextOrJson(content).value("user")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "value", [rb'"\ud800"', rb'{"a": "\q"}', b"[" * 200_000 + b"]" * 200_000, b'"\xff"', b'["\xff"]']
)
def test_a_field_that_cannot_be_text_is_unusable(value: bytes) -> None:
    with pytest.raises(Unusable):
        TextOrJson(b'{"user": ' + value + b"}").value("user")


def test_a_value_that_is_too_large_is_unusable() -> None:
    content = TextOrJson(b'{"user": "' + b"x" * (MAX_VALUE + 1) + b'", "small": "s"}')
    for field in ("", "user"):
        with pytest.raises(Unusable, match=str(MAX_VALUE)):
            content.value(field)
    assert content.value("small") == b"s"


def test_no_repr_shows_a_value() -> None:
    assert CANARY not in repr(TextOrJson(CANARY.encode()))
