"""Which namespaces a source is copied to, and label selectors as kubectl writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from tests.support.world import World

from samara.core.label_selectors import Requirement, Selector
from samara.core.names import NamespaceNames
from samara.core.registry import Registry
from samara.core.selectors import EVERY_NAMESPACE, NO_NAMESPACES, NamespaceSelector, parse_selector
from samara.core.view import NamespaceView

RED = Selector((Requirement("team", "In", frozenset({"red"})),))


def a_world() -> World:
    world = World(Registry(()))
    for name, team in (("a", "red"), ("ab", "blue"), ("b", "red"), ("c", "blue")):
        world.namespace(name, {"team": team})
    return world


def named(*names: str) -> NamespaceNames:
    return NamespaceNames.of(names)


SELECTORS = [
    (NO_NAMESPACES, {}),
    (EVERY_NAMESPACE, {"a": False, "ab": False, "b": False, "c": False}),
    (NamespaceSelector(named("b", "zz")), {"b": True, "zz": True}),
    (NamespaceSelector(patterns=(re.compile("a.?"),)), {"a": False, "ab": False}),
    (NamespaceSelector(patterns=(re.compile("a"), re.compile("c|zz"))), {"a": False, "c": False}),
    (NamespaceSelector(selectors=(RED,)), {"a": False, "b": False}),
    (NamespaceSelector(named("b"), selectors=(RED,)), {"b": True, "a": False}),
    (
        NamespaceSelector(named("c", "zz"), everywhere=True),
        {"c": True, "zz": True, "a": False, "ab": False, "b": False},
    ),
    (NamespaceSelector(everywhere=True, excluded=frozenset({"a", "zz"})), {"ab": False, "b": False, "c": False}),
    (NamespaceSelector(named("a", "b"), excluded=frozenset({"b"})), {"a": True}),
    (NamespaceSelector(selectors=(RED,), excluded=frozenset({"a"})), {"b": False}),
    (NamespaceSelector(patterns=(re.compile("a+"),), excluded=frozenset({"a"})), {}),
]


@pytest.mark.parametrize(("selector", "selected"), SELECTORS)
def test_the_namespaces_are_the_union_minus_the_excluded_ones(
    selector: NamespaceSelector, selected: Mapping[str, bool]
) -> None:
    assert dict(selector.namespaces(a_world())) == selected


@pytest.mark.parametrize(("selector", "selected"), SELECTORS)
def test_a_namespace_is_selected_if_and_only_if_it_is_listed(
    selector: NamespaceSelector, selected: Mapping[str, bool]
) -> None:
    world = a_world()
    world.namespace("zz")
    assert {obj.ref.name for obj in world.objects.values() if selector.selects(obj.ref.name, obj.labels)} == set(
        dict(selector.namespaces(world))
    )


@pytest.mark.parametrize(("selector", "selected"), SELECTORS)
def test_a_view_of_one_namespace_selects_only_that_namespace(
    selector: NamespaceSelector, selected: Mapping[str, bool]
) -> None:
    world = a_world()
    for name in ("a", "ab", "b", "c", "zz"):
        seen = list(selector.namespaces(NamespaceView(world, name)))
        assert seen == ([(name, selected[name])] if name in selected else [])


def test_no_namespace_is_listed_twice() -> None:
    selector = NamespaceSelector(named("a", "b"), True, (re.compile(".*"),), (RED,))
    names = [name for name, _ in selector.namespaces(a_world())]
    assert sorted(names) == ["a", "ab", "b", "c"]


@pytest.mark.parametrize("terminating", [False, True])
def test_a_terminating_namespace_is_a_target_only_by_name_or_if_the_selector_includes_it(terminating: bool) -> None:
    world = a_world()
    world.terminate("a")
    by_name = NamespaceSelector(named("a"), terminating=terminating)
    assert dict(by_name.namespaces(world)) == {"a": True}
    for selector in (
        NamespaceSelector(everywhere=True, terminating=terminating),
        NamespaceSelector(patterns=(re.compile(".*"),), terminating=terminating),
        NamespaceSelector(selectors=(RED,), terminating=terminating),
    ):
        assert ("a" in dict(selector.namespaces(world))) is terminating


def test_a_pattern_must_match_the_complete_name() -> None:
    selector = NamespaceSelector(patterns=(re.compile("a"),))
    assert selector.selects("a", {})
    assert not selector.selects("ab", {})
    assert not selector.selects("ba", {})


def test_one_of_several_selectors_must_match_with_all_its_requirements() -> None:
    both = Selector((*RED.requirements, Requirement("tier", "Exists")))
    selector = NamespaceSelector(selectors=(both, Selector((Requirement("open", "Exists"),))))
    assert not selector.selects("a", {"team": "red"})
    assert selector.selects("a", {"team": "red", "tier": "1"})
    assert selector.selects("a", {"open": ""})


PARSED = [
    ("", ()),
    (" ", ()),
    ("a=b", (Requirement("a", "In", frozenset({"b"})),)),
    ("a==b", (Requirement("a", "In", frozenset({"b"})),)),
    (" a = b ", (Requirement("a", "In", frozenset({"b"})),)),
    ("a=", (Requirement("a", "In", frozenset({""})),)),
    ("a!=b", (Requirement("a", "NotIn", frozenset({"b"})),)),
    ("a", (Requirement("a", "Exists"),)),
    ("!a", (Requirement("a", "DoesNotExist"),)),
    ("! a", (Requirement("a", "DoesNotExist"),)),
    ("a in (b, c)", (Requirement("a", "In", frozenset({"b", "c"})),)),
    ("a in (b)", (Requirement("a", "In", frozenset({"b"})),)),
    ("a notin (b,c)", (Requirement("a", "NotIn", frozenset({"b", "c"})),)),
    ("a notin(b)", (Requirement("a", "NotIn", frozenset({"b"})),)),
    ("a>1", (Requirement("a", "Gt", frozenset({"1"})),)),
    ("a < 10", (Requirement("a", "Lt", frozenset({"10"})),)),
    (
        "example.com/a=b,c!=d,e,!f,g in (h,i)",
        (
            Requirement("example.com/a", "In", frozenset({"b"})),
            Requirement("c", "NotIn", frozenset({"d"})),
            Requirement("e", "Exists"),
            Requirement("f", "DoesNotExist"),
            Requirement("g", "In", frozenset({"h", "i"})),
        ),
    ),
]


@pytest.mark.parametrize(("text", "requirements"), PARSED)
def test_a_selector_is_read_as_kubectl_writes_it(text: str, requirements: tuple[Requirement, ...]) -> None:
    parsed = parse_selector(text)
    assert (parsed.selector.requirements, parsed.faults) == (requirements, ())


@pytest.mark.parametrize(
    "text",
    [
        *("a b", "a=b c", "a=b=c", "a===b", "=b", "!", "!!a", "!a=b", "-a", "a=-b", "Not_A_Prefix/x=y"),
        *("a in b", "a in (b", "a in (b,c", "a in b,c)", "a in (b)c", "a in (b) c", "a in (b))", "(a", "a in ((b))"),
        *(",", " , ", "a,", ",a", "a,,b", "a in (b),"),
        *("a>b", "a>", ">1", "a>1 2", "a>=1", "a>1<2", "a>-1", "!a>1", "a>1=b"),
    ],
)
def test_an_invalid_selector_is_a_fault(text: str) -> None:
    assert parse_selector(text).faults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a, b c", "a label key was expected, found 'b c'"),
        ("a in (b, c d)", "a label value was expected, found 'c d'"),
        ("a > high", "an integer was expected, found 'high'"),
    ],
)
def test_a_fault_quotes_what_the_author_of_the_annotation_wrote(text: str, message: str) -> None:
    (fault,) = parse_selector(text).faults
    assert fault.message == message
    below = fault.below("example.com/to")
    assert (below.field, below.message) == ("example.com/to", f"example.com/to: {message}")
    assert [mistake.field for mistake in below.mistakes] == ["example.com/to"]


@pytest.mark.parametrize(
    ("text", "matched"),
    [("a>1", {"2", "10", "0003"}), ("a<10", {"1", "2", "0003"}), ("a>999", set()), ("a<1", set())],
)
def test_numbers_are_compared_as_numbers_and_other_labels_do_not_match(text: str, matched: set[str]) -> None:
    selector = parse_selector(text).selector
    values = ("1", "2", "10", "0003", "high", "", "1.5", "9" * 30)
    assert {value for value in values if selector.matches({"a": value})} == matched
    assert not selector.matches({})
