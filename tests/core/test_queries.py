"""Which paths are legal, and so may be read from a secret manager."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.core.queries import path_fault

LEGAL = [
    "/app/db/username",
    "app/db/username",
    "db",
    "app/db#password",
    "app/db#nested.field",
    "app/db#a/b",
    "name/tls.crt",
    "..data/key",
    "a b/ü",
    "a:b@c+d=e&f;g,h~",
    "...",
    ".hidden",
]
ILLEGAL = [
    ("", "nothing"),
    ("/", "nothing"),
    ("#field", "nothing"),
    ("/#field", "nothing"),
    ("a//b", "empty segment"),
    ("//a", "empty segment"),
    ("a/", "empty segment"),
    ("/a/", "empty segment"),
    ("a/#b", "empty segment"),
    ("a#/b", "empty segment"),
    ("a#b/", "empty segment"),
    ("./a", "segment ."),
    ("a/./b", "segment ."),
    ("..", "segment .."),
    ("/../a", "segment .."),
    ("a/..", "segment .."),
    ("a/..#b", "segment .."),
    ("a#../b", "segment .."),
    ("a#..", "segment .."),
    ("a%2fb", "%"),
    ("a%", "%"),
    ("a?version=1", "?"),
    ("a\\b", "\\"),
    ("..\\a", "\\"),
    ("a#b#c", "more than one #"),
    ("a##", "more than one #"),
    ("a#", "field"),
    ("a\0b", "control"),
    ("a\nb", "control"),
    ("a\x7f", "control"),
    ("a\x85", "control"),
    ("a\u2028b", "control"),
    ("a\ud800", "control"),
]


@pytest.mark.parametrize("path", LEGAL)
def test_a_plain_path_is_legal(path: str) -> None:
    assert path_fault(path) is None


@pytest.mark.parametrize(("path", "word"), ILLEGAL)
def test_a_path_that_could_mean_another_is_refused(path: str, word: str) -> None:
    fault = path_fault(path)
    assert fault is not None
    assert word in fault


@given(st.text(alphabet="ab./#%?\\\n ", max_size=12))
def test_a_legal_path_stays_below_where_it_starts(path: str) -> None:
    if path_fault(path) is None:
        document = path.partition("#")[0].removeprefix("/")
        assert all(segment not in ("", ".", "..") for segment in document.split("/"))
        assert not set(path) & set("%?\\\n")
        assert path.count("#") <= 1
