"""What all stores share: values that are not shown, texts of the configuration, hosts that are this machine."""

import pytest

from samara.backends.base import (
    MOST,
    Absent,
    ConfigFault,
    Fields,
    KubeSecret,
    Spot,
    Unfit,
    Whole,
    is_loopback,
    taken_apart,
    text_of,
)

CANARY = b"canary-value-4711"


@pytest.mark.parametrize("holder", [Whole(CANARY), Fields({"a": CANARY}), KubeSecret("Opaque", {"a": CANARY})])
def test_no_value_is_shown(holder: object) -> None:
    assert "canary" not in repr(holder)


def test_a_value_has_at_most_a_mebibyte() -> None:
    assert Whole(b"x" * MOST).value("") == b"x" * MOST
    with pytest.raises(Unfit, match="1048576"):
        Whole(b"x" * (MOST + 1)).value("")
    with pytest.raises(Unfit):
        Fields({"a": b"x" * (MOST + 1)}).value("a")


def test_a_field_that_is_not_there_is_absent() -> None:
    with pytest.raises(Absent, match="'b'"):
        Fields({"a": b""}).value("b")


def test_an_empty_value_is_a_value() -> None:
    assert Fields({"a": b""}).value("a") == b""


def test_a_path_is_taken_apart_at_its_mark() -> None:
    assert taken_apart("/app/db#user") == Spot("app/db", "user")
    assert taken_apart("app/db") == Spot("app/db", "")


@pytest.mark.parametrize("path", ["", "a//b", "../a", "a%2fb", "a#b#c"])
def test_an_illegal_path_is_taken_apart_by_no_store(path: str) -> None:
    with pytest.raises(Unfit):
        taken_apart(path)


def test_a_text_loses_the_newline_of_its_editor() -> None:
    assert text_of({"token": b"abc\n"}, "token") == "abc"
    assert text_of({}, "token") == ""


@pytest.mark.parametrize("text", [b"a\nb", b"a\0", b"\xff\xfe", "ü".encode()])
def test_a_text_that_is_no_line_of_plain_text_is_refused_unseen(text: bytes) -> None:
    with pytest.raises(ConfigFault, match="key token") as caught:
        text_of({"token": text}, "token")
    assert caught.value.reason == "TokenError"
    assert "b'" not in str(caught.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_is_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example.com", "10.0.0.1", "0.0.0.0", "vault", "::ffff:10.0.0.1"])
def test_every_other_host_is_elsewhere(host: str) -> None:
    assert not is_loopback(host)
