"""Shared parts of the stores: hidden values, texts of the configuration, loopback addresses."""

import pytest

from samara.secretstores.base import (
    MAX_VALUE,
    KubeSecret,
    Location,
    NamedValues,
    NotFound,
    SingleValue,
    StoreConfigError,
    StoreError,
    Unusable,
    config_text,
    is_loopback,
    split_path,
)

CANARY = b"canary-value-4711"


@pytest.mark.parametrize(
    "holder", [SingleValue(CANARY), NamedValues({"a": CANARY}), KubeSecret("Opaque", {"a": CANARY})]
)
def test_no_repr_shows_a_value(holder: object) -> None:
    assert "canary" not in repr(holder)


def test_a_value_is_at_most_a_mebibyte() -> None:
    assert SingleValue(b"x" * MAX_VALUE).value("") == b"x" * MAX_VALUE
    with pytest.raises(Unusable, match="1048576"):
        SingleValue(b"x" * (MAX_VALUE + 1)).value("")
    with pytest.raises(Unusable):
        NamedValues({"a": b"x" * (MAX_VALUE + 1)}).value("a")


def test_a_missing_field_is_absent() -> None:
    with pytest.raises(NotFound, match="'b'"):
        NamedValues({"a": b""}).value("b")


def test_an_empty_value_is_a_value() -> None:
    assert NamedValues({"a": b""}).value("a") == b""


def test_a_path_is_split_at_its_hash() -> None:
    assert split_path("/app/db#user") == Location("app/db", "user")
    assert split_path("app/db") == Location("app/db", "")


@pytest.mark.parametrize("path", ["", "a//b", "../a", "a%2fb", "a#b#c"])
def test_an_illegal_path_is_refused_by_every_store(path: str) -> None:
    with pytest.raises(Unusable):
        split_path(path)


def test_surrounding_whitespace_of_a_text_is_removed() -> None:
    assert config_text({"token": b"abc\n"}, "token") == "abc"
    assert config_text({}, "token") == ""


@pytest.mark.parametrize("text", [b"a\nb", b"a\0", b"\xff\xfe", "ü".encode()])
def test_a_text_that_is_not_one_plain_line_is_refused_without_showing_it(text: bytes) -> None:
    with pytest.raises(StoreConfigError, match="key token") as caught:
        config_text({"token": text}, "token")
    assert caught.value.reason == "TokenError"
    assert "b'" not in str(caught.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_addresses_are_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example.com", "10.0.0.1", "0.0.0.0", "vault", "::ffff:10.0.0.1"])
def test_every_other_host_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_the_metric_keeps_its_labels_for_failed_reads() -> None:
    labels = {error.result for error in StoreError.__subclasses__()}
    assert labels == {"unavailable", "unauthenticated", "denied", "absent", "unfit"}
