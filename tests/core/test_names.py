"""Lists of names, tokens for labels, and globs."""

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.core.names import (
    is_label_value,
    is_namespace_name,
    matches_any_glob,
    parse_csv_names,
    quoted,
    sample,
    to_label_value,
)

LISTS = [
    ("a,b", ("a", "b"), ()),
    (" a , b ", ("a", "b"), ()),
    ("a,,b,", ("a", "b"), ()),
    ("b,a,b", ("b", "a"), ()),
    ('"a","b"', ("a", "b"), ()),
    ('"a", "b"', ("a", "b"), ()),
    ('" a "', ("a",), ()),
    ("a,b\n", ("a", "b"), ()),
    ("a,\n  b,\n  c", ("a", "b", "c"), ()),
    ("a\nb", (), ("a b",)),
    ('"a,b"', (), ("a,b",)),
    ('"a', ("a",), ()),
    ("", (), ()),
    (",", (), ()),
    (" , ,", (), ()),
    ('""', (), ()),
    ("Bad_Name,a", ("a",), ("Bad_Name",)),
    ("a.b,-a,a-,*", (), ("a.b", "-a", "a-", "*")),
    ("é", (), ("é",)),
    ("a" * 63, ("a" * 63,), ()),
    ("a" * 64, (), ("a" * 64,)),
    ("0,1-2", ("0", "1-2"), ()),
    ("a\tb", (), ("a\tb",)),
    ("../kube-system,a/b", (), ("../kube-system", "a/b")),
]


@pytest.mark.parametrize(("text", "legal", "illegal"), LISTS)
def test_a_list_is_one_csv_record(text: str, legal: tuple[str, ...], illegal: tuple[str, ...]) -> None:
    names = parse_csv_names(text)
    assert (names.legal, names.illegal) == (legal, illegal)
    assert names.members == set(legal)


def test_an_overlong_item_is_illegal_and_not_an_error() -> None:
    assert parse_csv_names("a" * 200_000).legal == ()
    assert parse_csv_names(f"a, {'b' * 200_000}, c").legal == ("a", "c")


@given(st.text(alphabet='ab,"\n\r -_Z\x00\u2028'))
def test_no_list_yields_an_illegal_name_or_an_error(text: str) -> None:
    names = parse_csv_names(text)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) for name in names.legal)
    assert len(set(names.legal)) == len(names.legal)


@given(st.lists(st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True)))
def test_a_list_of_good_names_gives_them_all_in_their_order(names: list[str]) -> None:
    assert parse_csv_names(" ,".join(names)).legal == tuple(dict.fromkeys(names))


def test_a_namespace_name_must_match_completely() -> None:
    assert is_namespace_name("kube-system")
    assert not is_namespace_name("a\n")
    assert not is_namespace_name("")


def test_a_legal_label_value_is_unchanged() -> None:
    assert to_label_value("admin-db") == "admin-db"
    assert to_label_value("a" * 63) == "a" * 63


@pytest.mark.parametrize("text", ["a/b", "a" * 64, "-a", "a.", "___", "é", "admin-" + "x" * 253, "a" * 52 + "." * 20])
def test_text_that_is_no_label_value_becomes_a_legal_one(text: str) -> None:
    token = to_label_value(text)
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", token)
    assert is_label_value(token)


def test_long_names_that_differ_only_at_the_end_get_different_label_values() -> None:
    assert to_label_value("x" * 100 + "a") != to_label_value("x" * 100 + "b")


@given(st.text(max_size=300))
def test_every_label_value_is_legal(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", to_label_value(text))


GLOBS = [
    ("kube-*", "kube-system", True),
    ("kube-*", "kube-", True),
    ("kube-*", "my-kube-x", False),
    ("*", "anything", True),
    ("a?c", "abc", True),
    ("a?c", "ac", False),
    ("a.c", "abc", False),
    ("*.fluxcd.io/*", "kustomize.toolkit.fluxcd.io/name", True),
    ("*.fluxcd.io/*", "fluxcd.io/name", False),
    ("[a]", "a", False),
    ("", "a", False),
    ("a", "a\n", False),
]


@pytest.mark.parametrize(("pattern", "text", "matches"), GLOBS)
def test_a_glob_matches_only_the_complete_text(pattern: str, text: str, matches: bool) -> None:
    assert matches_any_glob((pattern,), text) is matches


def test_no_pattern_matches_nothing_and_several_match_any() -> None:
    assert not matches_any_glob((), "a")
    assert matches_any_glob(("b", "a"), "a")


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_a_glob_matches_like_fnmatch(pattern: str, text: str) -> None:
    assert matches_any_glob((pattern,), text) is fnmatchcase(text, pattern)


def test_matching_a_glob_takes_no_exponential_time() -> None:
    text = "/a" * 500
    assert not matches_any_glob(("/*/*/*/*/*/*/shared",), text)
    assert matches_any_glob(("/*/*/*/*/*/*/shared",), f"{text}/shared")


def test_user_input_is_quoted_and_truncated() -> None:
    assert quoted("a") == "'a'"
    assert len(quoted("x" * 500)) < 90


def test_a_sample_counts_the_omitted_items() -> None:
    assert sample(["b", "a"]) == "a, b"
    assert sample(["d", "c", "b", "a", "e"]) == "a, b, c and 2 more"
