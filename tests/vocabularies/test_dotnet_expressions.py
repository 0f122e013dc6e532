""".NET regular expressions: what they match, which are refused, and that none takes long."""

from __future__ import annotations

import re
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.dotnet_expressions import MAX_STEPS, MAX_STEPS_TOGETHER, PatternError, Steps, TooManySteps, parse

LONGEST = "a" * 63


def covers(pattern: str, name: str) -> bool:
    return parse(pattern).covers(name, Steps())


@pytest.mark.parametrize(
    ("pattern", "name", "result"),
    [
        ("team", "team", True),
        ("team", "team-2", False),
        ("team-.*", "team-2", True),
        ("^allowed-.*", "allowed-x", True),
        ("a|ab", "ab", False),
        ("ab|a", "ab", True),
        ("ns-*", "ns---", True),
        ("ns-*", "ns-1", False),
        ("(?!kube-).*", "kube-system", False),
        ("(?!kube-).*", "shop", True),
        ("^(?!kube-|default$).*$", "default", False),
        ("^(?!kube-|default$).*$", "default-2", True),
        ("(?=.*-)[a-z-]+", "ab", False),
        (".*(?<!-prod)", "shop-prod", False),
        (".*(?<!-prod)", "shop-dev", True),
        (".*?(?<!-prod)", "shop-dev", False),
        (".*?(?<!-prod)$", "shop-dev", True),
        ("shop-(?!test).*", "shop-test", False),
        ("shop-(?!test).*", "shop-live", True),
        ("(?<=^)shop", "shop", True),
        ("s(?<=s)hop", "shop", True),
        ("[a-c]+", "abd", False),
        ("[^a]+", "bcd", True),
        ("[]a]+", "aa", True),
        ("[.-]+", "--", True),
        (r"[\w-]+", "a-b", True),
        (r"\w+", "a-b", False),
        (r"\d{2}", "12", True),
        (r"\p{L}+\P{L}", "ab1", True),
        (r"\bshop\b-.*\Bt", "shop-test", True),
        (r"\Ashop\z", "shop", True),
        (r"s\x68\u006fp", "shop", True),
        ("(?<x>ab)-\\k<x>", "ab-ab", True),
        ("(?'x'ab)-\\k'x'", "ab-ac", False),
        (r"(ab)-\1", "ab-ab", True),
        (r"(?<x>b)(a)-\1", "ba-a", True),
        (r"(a)?b\1", "b", False),
        ("(?>a+)b", "aab", True),
        ("(?>a+)ab", "aab", False),
        ("(?:a*)*b", "aaab", True),
        ("(?:a|b)??c", "c", True),
        ("TEAM", "team", False),
        ("(?i)TEAM", "team", True),
        ("(?i:T)eam", "team", True),
        ("(?i:T)EAM", "team", False),
        ("(?i)[T-Z]eam", "team", True),
        ("(?#note)team", "team", True),
        ("(?x) te am", "team", True),
        ("a{,3}", "aaa", False),
        ("|a", "a", False),
        ("é", "e", False),
    ],
)
def test_r3_a_pattern_covers_a_name_if_its_first_match_is_the_whole_name(pattern: str, name: str, result: bool) -> None:
    assert covers(pattern, name) is result


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "a**",
        "a++",
        "a{2}{3}",
        "(",
        "a)",
        "[",
        "[z-a]",
        r"[\d-z]",
        "(?<a-b>x)",
        "(?(1)a|b)",
        "[a-z-[aeiou]]",
        "[[:alpha:]]",
        r"\2",
        r"\k<x>",
        r"\y",
        "\\",
        r"\xzz",
        "(?P<x>a)",
        "(?R)",
        "x" * 1001,
        "(" * 60 + ")" * 60,
        "((((a{60}){60}){60}){60})(?!b)",
        "(?:a{2000}b{2000}c{2000})",
    ],
)
def test_what_is_no_pattern_or_is_not_served_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        parse(pattern)


SLOW = ["a*(?!b)(a|aa)+(?!c)b", "(?:(a+)+\\1)+b", ".*.*.*.*.*.*(?!x).*x", "((a|aa)+)+(?<!y)(?!z)b"]


@pytest.mark.parametrize("pattern", SLOW)
def test_r21_no_name_takes_more_steps_than_allowed(pattern: str) -> None:
    steps = Steps()
    with pytest.raises(TooManySteps):
        parse(pattern).covers(LONGEST, steps)
    assert steps.left == MAX_STEPS_TOGETHER - MAX_STEPS
    started = time.thread_time()
    for _ in range(10):
        with pytest.raises(TooManySteps):
            parse(pattern).covers(LONGEST, steps)
    assert time.thread_time() - started < 0.2
    assert steps.left == 0


def test_r21_a_pattern_with_many_groups_takes_little_memory() -> None:
    pattern = f"(?=.*)(?:{'(a?)' * 150})*(?!b)c{''.join(f'(?:{chr(92)}{number})?' for number in range(1, 9))}"
    tracemalloc.start()
    with pytest.raises(TooManySteps):
        parse(pattern).covers(LONGEST, Steps())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 40 * 2**20


def test_the_usual_ways_to_leave_namespaces_out_take_no_step() -> None:
    steps = Steps()
    for pattern in ("(?!kube-).*", "^(?!kube-|default$).*$", ".*(?<!-prod)$", ".*"):
        for number in range(1000):
            parse(pattern).covers(f"team-{number}", steps)
    assert steps.left == MAX_STEPS_TOGETHER


_ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\d", "(?:a|ab)", "(a)", "(?=a)", "(?!b)", "^", "$"])
_ITEMS = st.tuples(_ATOMS, st.sampled_from(["", "", "*", "+", "?", "*?", "+?", "??", "{2}"])).map("".join)
_PATTERNS = st.lists(st.lists(_ITEMS, max_size=5).map("".join), min_size=1, max_size=3).map("|".join)


@given(_PATTERNS, st.text("ab-1", min_size=1, max_size=8))
def test_python_matches_the_same(pattern: str, name: str) -> None:
    """Python's own expressions agree with those of .NET as far as these patterns go."""
    try:
        expected = re.compile(pattern)
    except re.error:
        return
    found = expected.search(name)
    assert covers(pattern, name) is (found is not None and found.span() == (0, len(name)))


@given(_PATTERNS, st.text("ab-1", min_size=1, max_size=8))
def test_the_machine_and_re2_agree(pattern: str, name: str) -> None:
    """A group that is not entered again changes nothing at the begin, but only the machine can match it."""
    assert covers(f"(?>){pattern}" if "|" not in pattern else f"(?>)(?:{pattern})", name) is covers(pattern, name)
