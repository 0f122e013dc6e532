"""Naming policies: which names a SubNamespace may have under which root."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from samara.regular_expressions import RegexpError
from samara.vocabularies.accurate.naming import BadExpansion, NamingPolicy, Policies


def refusal(root: str, match: str, name: str, under: str) -> NamingPolicy | None:
    return Policies.of([{"root": root, "match": match}]).refusal(name, under)


def expanded(root: str, match: str, under: str) -> str | None:
    return NamingPolicy(root, match).expanded(under)


def test_without_policies_every_name_is_allowed() -> None:
    assert Policies().refusal("anything", "root") is None
    assert Policies.of([]) == Policies()


def test_a_policy_for_another_root_denies_nothing() -> None:
    assert refusal("^team-", "^never$", "a", "shop") is None


def test_the_refusal_of_a_name_is_the_policy_that_denies_it() -> None:
    assert refusal("^team-", "^team-", "shop", "team-a") == NamingPolicy("^team-", "^team-")
    assert refusal("^team-", "^team-", "team-a-dev", "team-a") is None


def test_the_root_is_searched_and_not_matched_as_a_whole() -> None:
    assert refusal("eam", "^x", "a", "team-a") is not None
    assert refusal("^eam", "^x", "a", "team-a") is None


def test_the_name_is_searched_and_not_matched_as_a_whole() -> None:
    assert refusal("^", "ev", "a-dev-1", "team") is None
    assert refusal("^", "^ev$", "a-dev-1", "team") is not None


def test_groups_of_the_root_are_expanded_in_the_match() -> None:
    policy = (r"^app-(?P<team>\w+)$", "^app-${team}-.+")
    assert refusal(*policy, "app-shop-dev", "app-shop") is None
    assert refusal(*policy, "app-bank-dev", "app-shop") == NamingPolicy(*policy)


def test_all_applicable_policies_must_pass_and_the_first_that_fails_is_reported() -> None:
    policies = Policies.of(
        [
            {"root": "^other$", "match": "^never$"},
            {"root": "^team$", "match": "^team-"},
            {"root": "^t", "match": "-dev$"},
            {"root": "t", "match": "x"},
        ]
    )
    assert policies.refusal("team-x", "team") == NamingPolicy("^t", "-dev$")
    assert policies.refusal("x", "team") == NamingPolicy("^team$", "^team-")
    assert policies.refusal("team-dev", "team") == NamingPolicy("t", "x")
    assert policies.refusal("xx-dev", "toast") is None
    assert policies.refusal("x-dev", "toast") == NamingPolicy("t", "x"), "two matches in the root, two expansions"


@pytest.mark.parametrize(
    ("root", "match", "name", "roots", "is_reserved"),
    [
        ("^(.+)$", "^$1-", "shop-x", ["shop", "team"], True),
        ("^(.+)$", "^$1-", "other-x", ["shop", "team"], False),
        ("^(.+)$", "^$1-", "shop-a-x", ["shop", "shop-a"], False),
        ("^shop$", "^shop-", "shop-x", ["shop", "team"], True),
        ("^team$", "^shop-", "shop-x", ["shop", "team"], False),
        (".*", "^shop-", "shop-x", ["shop"], False),
        ("", "", "shop-x", ["shop"], False),
        ("^s", "^shop-", "shop-x", ["shop", "team"], True),
        ("^s", "^shop-", "shop-x", ["shop", "sales"], False),
        ("^(shop|bad)$", "^$1-|shop-[(]", "shop-x", ["shop"], True),
        ("^shop$", "(", "shop-x", ["shop"], False),
    ],
)
def test_a_name_is_reserved_for_a_root_if_the_policies_give_it_to_that_root_alone(
    root: str, match: str, name: str, roots: list[str], is_reserved: bool
) -> None:
    assert Policies.of([{"root": root, "match": match}]).reserves(name, "shop", roots) is is_reserved


def test_without_a_policy_no_name_is_reserved() -> None:
    assert not Policies().reserves("shop-x", "shop", [])


def test_every_policy_of_a_root_must_allow_a_reserved_name() -> None:
    policies = Policies.of([{"root": "^shop$", "match": "^shop-"}, {"root": "p$", "match": "-dev$"}])
    assert policies.reserves("shop-dev", "shop", ["shop"])
    assert not policies.reserves("shop-x", "shop", ["shop"])


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("$app", "shop"),
        ("${app}", "shop"),
        ("$1", "shop"),
        ("${1}", "shop"),
        ("$0", "shop-eu"),
        ("${app}s", "shops"),
        # The longest name counts, and an unknown group is empty.
        ("$apps", ""),
        ("$1x", ""),
        ("$app_x-", "-"),
        ("$none", ""),
        ("$3", ""),
        (f"${'9' * 5000}", ""),
        ("$01", ""),
        # A group that took no part in the match is empty.
        ("<$2>", "<>"),
        ("<$part>", "<>"),
        # A dollar that begins no name stays.
        ("$$app", "$app"),
        ("$$$app", "$shop"),
        ("$", "$"),
        ("a$", "a$"),
        ("$-x", "$-x"),
        ("^a$|b", "^a$|b"),
        ("${app", "${app"),
        ("${}", "${}"),
        ("${a-b}", "${a-b}"),
        ("$${app}", "${app}"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_a_template_is_expanded_as_go_does(template: str, expected: str) -> None:
    assert expanded(r"^(?P<app>[a-z]+)(?P<part>x)?-eu$", template, "shop-eu") == expected


def test_a_number_too_long_to_count_groups_is_a_name() -> None:
    assert expanded("(?P<1234567890>a)", "<$1234567890>", "a") == "<a>"
    assert expanded("(?P<123456789>a)", "<$123456789>", "a") == "<>"


@pytest.mark.parametrize(
    ("root", "under", "expected"),
    [
        ("[a-z]", "a-b", "<a><b>"),
        ("aa", "aaaa", "<aa><aa>"),
        ("aa", "aaa", "<aa>"),
        # An empty match at the end of another match does not count.
        ("a*", "baaac", "<><aaa><>"),
        ("a*", "baaa", "<><aaa>"),
        ("x*", "ab", "<><><>"),
        # An anchor matches at the ends of the name, not where the last match ended.
        ("^a", "aaa", "<a>"),
        (r"\ba", "aa-a", "<a><a>"),
        ("b", "aaa", None),
    ],
)
def test_every_match_in_the_root_adds_an_expansion(root: str, under: str, expected: str | None) -> None:
    assert expanded(root, "<$0>", under) == expected


@pytest.mark.parametrize("root", ["(", "[z-a]", "a**", "*", "(?=a)", r"(a)\1", "a{1001}", "\\", "\ud800"])
def test_a_root_that_is_no_regular_expression_of_re2_is_reported(root: str) -> None:
    with pytest.raises(RegexpError, match=r"^error parsing regexp: ."):
        Policies.of([{"root": root, "match": ""}])


def test_the_message_of_the_engine_is_part_of_the_error() -> None:
    with pytest.raises(RegexpError) as error:
        Policies.of([{"root": "a(b", "match": ""}])
    assert str(error.value) == "error parsing regexp: missing ): a(b"


def test_a_match_is_compiled_only_when_a_root_matches() -> None:
    policies = Policies.of([{"root": "^team$", "match": "("}])
    assert policies.refusal("a", "other") is None
    with pytest.raises(BadExpansion) as error:
        policies.refusal("a", "team")
    assert str(error.value) == (
        "naming policy root=^team$ match=( gives (, expected a regular expression: error parsing regexp: missing ): ("
    )


def test_an_expansion_can_be_malformed_although_the_template_is_not() -> None:
    assert refusal("(?P<n>a+)", "x{$n}", "x{aa}", "aa") is None
    with pytest.raises(BadExpansion):
        refusal("(?P<n>[(]?)team", "${n}x", "x", "(team")


def test_root_and_match_of_a_policy_are_optional() -> None:
    assert Policies.of([{}]).policies == (NamingPolicy("", ""),)
    assert Policies.of([{"match": "^x"}]).refusal("y", "any") == NamingPolicy("", "^x")


@pytest.mark.timeout(20)
def test_no_policy_makes_a_name_expensive() -> None:
    assert refusal("^(a+)+$", "^($1)+$", "a" * 62 + "b", "a" * 62 + "b") is None
    assert refusal("^", "^(a|aa)+$", "a" * 62 + "b", "root") is not None


def test_the_engine_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RegexpError):
        Policies.of([{"root": "(unclosed", "match": ""}])
    assert capfd.readouterr() == ("", "")


def test_the_engine_is_not_loaded_without_a_policy() -> None:
    script = (
        "import sys; from samara.vocabularies.accurate.naming import Policies; "
        "Policies.of([]).refusal('a', 'b'); print('re2' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "accurate-config.md"
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| (`.+?) \| (.*)\|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("root", "match", "under", "allowed", "refused"), ROWS)
def test_the_examples_of_policies_in_the_docs_are_true(
    root: str, match: str, under: str, allowed: str, refused: str
) -> None:
    policies = Policies.of([{"root": root, "match": match}])
    assert all(policies.refusal(name, under) is None for name in re.findall("`([^`]+)`", allowed))
    assert all(policies.refusal(name, under) for name in re.findall("`([^`]+)`", refused))


def test_the_docs_show_policies() -> None:
    assert len(ROWS) == 4
