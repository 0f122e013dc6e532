"""Label selectors: what they match, and every way in which they can be wrong."""

from typing import Any

import pytest

from samara.core.label_selectors import Selector
from samara.core.names import is_dns_subdomain, is_label_key
from samara.core.selectors import parse_selector_json

Json = dict[str, Any]


def selector(selector_json: Json | None) -> Selector:
    made, faults = parse_selector_json(selector_json)
    assert faults == ()
    return made


def one(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


MATCHES: list[tuple[Json | None, dict[str, str], bool]] = [
    ({"matchLabels": {"team": "red"}}, {"team": "red", "more": "x"}, True),
    ({"matchLabels": {"team": "red"}}, {"team": "blue"}, False),
    ({"matchLabels": {"team": "red"}}, {}, False),
    ({"matchLabels": {"team": ""}}, {"team": ""}, True),
    ({"matchLabels": {"team": ""}}, {}, False),
    ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1"}, False),
    (one("team", "In", "red", "blue"), {"team": "blue"}, True),
    (one("team", "In", "red"), {}, False),
    (one("team", "NotIn", "red"), {"team": "red"}, False),
    (one("team", "NotIn", "red"), {"team": "blue"}, True),
    (one("team", "NotIn", "red"), {}, True),
    (one("team", "Exists"), {"team": ""}, True),
    (one("team", "Exists"), {}, False),
    (one("team", "DoesNotExist"), {}, True),
    (one("team", "DoesNotExist"), {"team": "red"}, False),
    ({"matchLabels": {"a": "1"}, **one("b", "Exists")}, {"a": "1"}, False),
    ({"matchLabels": {"a": "1"}, **one("b", "Exists")}, {"a": "1", "b": ""}, True),
    (one("kubernetes.io/metadata.name", "In", "shop"), {"kubernetes.io/metadata.name": "shop"}, True),
]


@pytest.mark.parametrize(("selector_json", "labels", "matched"), MATCHES)
def test_all_requirements_must_hold(selector_json: Json, labels: dict[str, str], matched: bool) -> None:
    assert selector(selector_json).matches(labels) is matched


@pytest.mark.parametrize(
    "selector_json", [None, {}, {"matchLabels": {}}, {"matchLabels": None, "matchExpressions": []}]
)
def test_a_selector_without_requirements_matches_everything(selector_json: Json | None) -> None:
    assert selector(selector_json).requirements == ()
    assert selector(selector_json).matches({})


WRONG: list[tuple[object, str]] = [
    ("team=red", "a mapping was expected, found a text"),
    ({"matchLabel": {"a": "b"}}, "matchLabel: not a part of a selector"),
    ({"matchLabels": ["a"]}, "matchLabels: a mapping was expected, found a list"),
    ({"matchLabels": {"-a": "b"}}, "matchLabels[-a]: a label key was expected, found '-a'"),
    ({"matchLabels": {"a/b/c": "b"}}, "matchLabels[a/b/c]: a label key was expected, found 'a/b/c'"),
    ({"matchLabels": {"a": "b c"}}, "matchLabels[a]: a label value was expected, found 'b c'"),
    ({"matchLabels": {"a": 1}}, "matchLabels[a]: a label value was expected, found a number"),
    ({"matchExpressions": {}}, "matchExpressions: a list was expected, found a mapping"),
    ({"matchExpressions": ["a"]}, "matchExpressions[0]: a mapping was expected, found a text"),
    (
        {"matchExpressions": [{"key": "a", "operator": "Is"}]},
        "matchExpressions[0].operator: one of In, NotIn, Exists, DoesNotExist was expected, found 'Is'",
    ),
    (
        {"matchExpressions": [{"operator": "Exists"}]},
        "matchExpressions[0].key: a label key was expected, found nothing",
    ),
    (one("a", "In"), "matchExpressions[0].values: at least one value was expected with In, found none"),
    (one("a", "NotIn"), "matchExpressions[0].values: at least one value was expected with NotIn, found none"),
    (one("a", "Exists", "b"), "matchExpressions[0].values: no value was expected with Exists, found 1"),
    (one("a", "DoesNotExist", "b"), "matchExpressions[0].values: no value was expected with DoesNotExist, found 1"),
    (one("a", "In", "b", "!"), "matchExpressions[0].values: a label value was expected, found '!'"),
    (
        {"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]},
        "matchExpressions[0].values: a list was expected, found a text",
    ),
    (
        {"matchExpressions": [{"key": "a", "operator": "In", "values": [True]}]},
        "matchExpressions[0].values: a label value was expected, found true or false",
    ),
]


@pytest.mark.parametrize(("selector_json", "message"), WRONG)
def test_a_fault_is_reported_with_its_field_path(selector_json: object, message: str) -> None:
    assert [fault.message for fault in parse_selector_json(selector_json).faults] == [message]


def test_all_faults_are_listed() -> None:
    selector_json = {
        "matchLabels": {"!": "x"},
        "matchExpressions": [{"key": "a", "operator": "Is"}, {"operator": "In"}],
    }
    assert len(parse_selector_json(selector_json).faults) == 4


@pytest.mark.parametrize("key", ["a", "A_b.c-d", "example.com/a", "x" * 63, f"{'x' * 253}/a"])
def test_valid_label_keys_are_accepted(key: str) -> None:
    assert is_label_key(key)


@pytest.mark.parametrize("key", ["", "/", "/a", "a/", "-a", "x" * 64, "Example.com/a", f"{'x' * 254}/a", "a\n"])
def test_invalid_label_keys_are_rejected(key: str) -> None:
    assert not is_label_key(key)


def test_a_dns_subdomain_must_match_completely() -> None:
    assert is_dns_subdomain("a.b-c.0")
    assert not any(map(is_dns_subdomain, ("", "a.", ".a", "a..b", "A", "a_b", "x" * 254, "a\n")))
