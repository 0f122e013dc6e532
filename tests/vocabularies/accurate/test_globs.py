"""Patterns of keys match as Go's `path.Match` does, and admit no reserved key."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.vocabularies.accurate.globs import Globs, Keys, malformed, matches

MATCHING = [
    ("", ""),
    ("team", "team"),
    ("*", "team"),
    ("*", ""),
    ("**", "team"),
    ("*m", "team"),
    ("t*", "t"),
    ("t*m", "team"),
    ("*.glob/*", "foo.glob/a"),
    ("*kubernetes.io/*", "kubernetes.io/x"),
    ("*kubernetes.io/*", "app.kubernetes.io/name"),
    ("example.com/*", "example.com/"),
    ("a*b*c*/d", "axbxcxx/d"),
    ("*aab", "aaab"),
    ("*a*ab", "aaaab"),
    ("t?am", "team"),
    ("?", "é"),
    ("[a-z]eam", "team"),
    ("[^a-s]eam", "team"),
    ("[st]eam", "team"),
    ("[a-cs-u]eam", "team"),
    ("[^a]b", "/b"),
    ("a[/]b", "a/b"),
    ("[*]", "*"),
    ("[?]", "?"),
    ("[[]", "["),
    ("[^^]", "a"),
    ("[a^]", "^"),
    (r"\*", "*"),
    (r"\a", "a"),
    (r"\[a]", "[a]"),
    (r"[\]]", "]"),
    (r"[\-]", "-"),
    (r"[a\-z]", "-"),
    (r"[\a-\c]", "b"),
    (r"[\^a]", "^"),
    ("a]", "a]"),
    ("a-b", "a-b"),
    ("[^z-a]", "x"),
    ("[é-ü]", "ö"),
    ("a\nb", "a\nb"),
    ("a?b", "a\nb"),
]
FAILING = [
    ("team", "teams"),
    ("team", "a.team"),
    ("", "team"),
    ("team", "Team"),
    ("[a-z]", "A"),
    ("*", "example.com/team"),
    ("**", "example.com/team"),
    ("*", "/"),
    ("?", "/"),
    ("?", ""),
    ("?", "ab"),
    ("a?b", "a/b"),
    ("a*b", "a/b"),
    ("*.glob/*", "do.not.match/glob.patten"),
    ("*/*", "team"),
    ("example.com/*", "example.com/a/b"),
    ("example.com", "example.com/a"),
    ("a*b*c*/d", "axbxc/x/d"),
    ("a*b", "abc"),
    ("[a-z]eam", "2eam"),
    ("[^a-z]eam", "team"),
    (r"[a\-z]", "b"),
    ("[z-a]", "m"),
    (r"\*", "a"),
    # The text after a star matches at its first position only.
    ("*[^a]/*", "x//"),
    ("é", "e"),
]
MALFORMED = [
    "[",
    "a[",
    "[]",
    "[]a]",
    "[a",
    "[a-",
    "[a-]",
    "[-]",
    "[-a]",
    "[a-b-c]",
    "[^]",
    "[^",
    "[^]a]",
    "\\",
    "a\\",
    "[\\",
    "[a\\",
    "[a-\\",
    "team[",
    "a*[",
    "*[]*",
    "x/y[b-",
]


@pytest.mark.parametrize(("pattern", "key"), MATCHING)
def test_a_pattern_matches_the_whole_key(pattern: str, key: str) -> None:
    assert matches(pattern, key)
    assert not malformed(pattern)


@pytest.mark.parametrize(("pattern", "key"), FAILING)
def test_a_pattern_does_not_match_another_key(pattern: str, key: str) -> None:
    assert not matches(pattern, key)
    assert not malformed(pattern)


@pytest.mark.parametrize("pattern", MALFORMED)
def test_a_malformed_pattern_is_recognised_and_matches_no_key(pattern: str) -> None:
    assert malformed(pattern)
    assert not any(matches(pattern, key) for key in (pattern, "", "a", "team", "zzz"))


@given(st.text("ab/*?[]^-\\", max_size=12), st.text("ab/]^-", max_size=12))
def test_no_pattern_raises(pattern: str, key: str) -> None:
    assert not (malformed(pattern) and matches(pattern, key))


@given(st.text(max_size=20))
def test_a_text_without_wildcards_matches_only_itself(text: str) -> None:
    literal = "".join(char for char in text if char not in "*?[\\")
    assert matches(literal, literal)
    assert not matches(literal, literal + "x")


@given(st.text("ab.", max_size=8), st.text("ab.", max_size=8), st.text("ab./", max_size=8))
def test_a_star_matches_any_run_without_a_slash(before: str, after: str, run: str) -> None:
    assert matches(f"{before}*{after}", before + run + after) == ("/" not in run)


@pytest.mark.timeout(20)
def test_many_stars_do_not_make_a_match_slow() -> None:
    assert not matches("*a" * 60 + "*b", "a" * 2000)
    assert not matches("*a*" * 60 + "/b", "a" * 2000 + "/c")


@pytest.mark.parametrize(
    "key",
    ["accurate.cybozu.com/type", "accurate.cybozu.com/x", "samara.dev/ignore", "kubectl.kubernetes.io/restartedAt"],
)
def test_no_pattern_admits_a_key_of_our_own(key: str) -> None:
    patterns = ("*.cybozu.com/*", "*.dev/*", "*/*", "[as]*/*", key)
    assert Globs(patterns).match(key)
    assert not Keys(patterns).admits(key)


@pytest.mark.parametrize(
    "key", ["accurate.cybozu.community/x", "x.accurate.cybozu.com/y", "samara.devil/x", "samara.dev"]
)
def test_a_key_that_only_looks_like_our_own_is_admitted(key: str) -> None:
    assert Keys(("*/*", "*")).admits(key)


@pytest.mark.parametrize("key", ["pod-security.kubernetes.io/enforce", "kubernetes.io/metadata.name"])
def test_a_security_key_is_admitted_only_if_it_is_listed_literally(key: str) -> None:
    wild = ("*kubernetes.io/*", "*/*", f"{key[:-1]}?", f"[{key[0]}]{key[1:]}", f"\\{key}")
    assert all(matches(pattern, key) for pattern in wild)
    assert not Keys(wild).admits(key)
    assert Keys((*wild, key)).admits(key)
    assert Keys((key,)).admits(key)


@pytest.mark.parametrize("key", ["kubernetes.io/metadata.names", "kubernetes.io/x", "app.kubernetes.io/name"])
def test_other_keys_of_kubernetes_are_admitted_by_any_pattern(key: str) -> None:
    assert Keys(("*kubernetes.io/*",)).admits(key)


def test_a_security_key_with_a_wildcard_in_it_is_no_literal() -> None:
    assert not Keys(("pod-security.kubernetes.io/*",)).admits("pod-security.kubernetes.io/*")


def test_any_pattern_of_a_list_admits_a_key_and_an_empty_list_none() -> None:
    keys = Keys(("team", "*.example.com/*"))
    assert [key for key in ("team", "a.example.com/b", "example.com/b", "teams") if keys.admits(key)] == [
        "team",
        "a.example.com/b",
    ]
    assert not Keys().admits("team")
    assert not Keys().admits("")


def test_admitted_keeps_the_metadata_whose_keys_are_admitted() -> None:
    metadata = {"team": "a", "accurate.cybozu.com/type": "root", "owner": "b"}
    assert Keys(("team", "*/*")).admitted(metadata) == {"team": "a"}


def test_exclude_patterns_have_no_reserved_keys() -> None:
    metadata = {"team": "a", "accurate.cybozu.com/propagate": "update", "pod-security.kubernetes.io/enforce": "x"}
    assert Globs(("accurate.cybozu.com/*", "*kubernetes.io/*")).without(metadata) == {"team": "a"}
    assert Globs().without(metadata) == metadata


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "accurate-config.md"
ROWS = re.findall(r"^\| `([^`]+)` \| (`.+?) \| (`.+?) \|$", PAGE.read_text().partition("## Naming")[0], re.MULTILINE)


@pytest.mark.parametrize(("pattern", "yes", "no"), ROWS, ids=lambda cell: str(cell))
def test_the_examples_of_patterns_in_the_docs_are_true(pattern: str, yes: str, no: str) -> None:
    assert all(matches(pattern, key) for key in re.findall("`([^`]+)`", yes))
    assert not any(matches(pattern, key) for key in re.findall("`([^`]+)`", no))


def test_the_docs_show_valid_and_malformed_patterns() -> None:
    assert len(ROWS) == 11
    (listed,) = re.findall(r"^These are malformed .*$", PAGE.read_text(), re.MULTILINE)
    shown = re.findall("`([^`]+)`", listed)
    assert len(shown) == 7
    assert all(map(malformed, shown))
