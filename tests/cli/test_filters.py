"""What the flags -n, -A, -l, --vocabulary and --reason let through, and wrong values of -o and -l."""

from __future__ import annotations

import pytest
from tests.cli.program import samara_inside
from tests.support.world import at

from samara.cli.commands.status import _is_held_chosen
from samara.cli.filters import Filter, filter_of, namespace_of
from samara.cli.options import Cluster
from samara.core.label_selectors import Selector
from samara.core.model import namespace_ref
from samara.core.selectors import parse_selector


def selector(text: str) -> Selector:
    parsed = parse_selector(text)
    assert parsed.faults == ()
    return parsed.selector


@pytest.mark.parametrize(
    ("chosen", "admits"),
    [
        (Filter(), True),
        (Filter("shop"), True),
        (Filter("billing"), False),
        (Filter(vocabularies=("sync-to", "secret-copy")), True),
        (Filter(vocabularies=("sync-to",)), False),
        (Filter(reasons=("conflict", "held")), True),
        (Filter(reasons=("held",)), False),
        (Filter("shop", ("secret-copy",), ("held",)), False),
        (Filter(selector=selector("team=pay,!old")), True),
        (Filter(selector=selector("team!=pay")), False),
        (Filter("billing", selector=selector("team")), False),
    ],
)
def test_every_kind_of_filter_must_let_it_through(chosen: Filter, admits: bool) -> None:
    assert chosen.admits("secret-copy", "shop", ["conflict", "invalid"], {"team": "pay"}) is admits


def test_an_object_without_labels_matches_only_selectors_that_ask_for_none() -> None:
    assert Filter(selector=selector("!team")).admits("secret-copy", "shop", [])
    assert not Filter(selector=selector("team")).admits("secret-copy", "shop", [])


def cluster(namespace: str | None) -> Cluster:
    return Cluster(None, None, namespace, None, 1.0)


def test_all_namespaces_wins_over_a_namespace_which_then_is_that_of_the_operator() -> None:
    everywhere = filter_of(cluster("ops"), True, Selector())
    assert (everywhere.namespace, everywhere.operator_namespace) == (None, "ops")
    one = filter_of(cluster("ops"), False, Selector())
    assert (one.namespace, one.operator_namespace) == ("ops", None)


@pytest.mark.parametrize("namespace", [None, ""])
def test_without_a_namespace_nothing_is_left_out(namespace: str | None) -> None:
    assert filter_of(cluster(namespace), False, Selector()) == Filter()


def test_a_namespace_is_in_itself() -> None:
    assert namespace_of(namespace_ref("shop")) == "shop"
    assert namespace_of(at("shop", "db")) == "shop"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("status", "-l", "team=no/slash"), "a label value was expected, found 'no/slash'"),
        (("status", "-l", "team in x"), "a label key was expected, found 'team in x'"),
        (("plan", "-o", "wider"), "expected one of table, wide, json, yaml, name, jsonpath=, found 'wider'"),
        (("why", "secret/db", "-o", "name"), "expected one of table, json, yaml, jsonpath=, found 'name'"),
        (("status", "-o", "jsonpath"), "expected one of table, wide, json, yaml, name, jsonpath=, found 'jsonpath'"),
        (("status", "-o", "jsonpath={.x"), "jsonpath: expected } at the end of an expression, found the end"),
        (("tree", "acme", "-A"), "--all-namespaces: expected no ROOT beside it, found 'acme'"),
    ],
)
def test_a_wrong_value_is_wrong_usage_before_anything_is_read(args: tuple[str, ...], message: str) -> None:
    done = samara_inside(*args)
    assert done.code == 2
    assert message in done.err


FINDING = "apiVersion: v1\nkind: Secret\nmetadata: {name: x, annotations: {secret-copy/namespaces: Bad_Name}}\n"


@pytest.mark.parametrize("flag", ["-o=", "-o ", "-o", "--output=", "--output "])
def test_a_value_is_given_in_every_way_that_kubectl_accepts(flag: str) -> None:
    args = [word for word in f"{flag}jsonpath={{.findings[0].line}}".split(" ") if word]
    done = samara_inside("lint", "-", *args, stdin=FINDING)
    assert (done.code, done.out) == (1, "3")


@pytest.mark.parametrize(
    ("key", "chosen", "is_shown"),
    [
        ("sync-to/Secret/shop/db", Filter("shop"), True),
        ("sync-to/Secret/shop/db", Filter("ops"), False),
        ("sync-to/Secret/shop/db", Filter(vocabularies=("accurate",)), False),
        ("sync-to/Secret/shop/db", Filter(reasons=("held",)), True),
        ("sync-to/Secret/shop/db", Filter(reasons=("conflict",)), False),
        ("sync-to/Secret/shop/db", Filter(selector=selector("team=pay")), True),
        ("sync-to/Secret/shop/gone", Filter(selector=selector("team=pay")), False),
        ("accurate/Namespace/-/shop", Filter("shop"), True),
        ("resource-distribution/ResourceDistribution/-/shop", Filter("shop"), False),
        ("not of this form", Filter("ops"), True),
    ],
)
def test_held_deletions_are_filtered_by_their_source(key: str, chosen: Filter, is_shown: bool) -> None:
    labels = {"sync-to/Secret/shop/db": {"team": "pay"}}
    assert _is_held_chosen({"key": key, "count": 1}, labels, chosen) is is_shown
