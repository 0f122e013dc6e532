"""Forests of names as text."""

from __future__ import annotations

from tests.support.trees import namespace

from kubectl_accurate.lists import Forest, template_forest, tree_forest
from samara.cli.inspect.trees import draw_branches


def test_branches_are_drawn_at_every_level_and_names_are_sorted() -> None:
    forest = tree_forest(
        [
            namespace("z", type="root"),
            namespace("y", parent="x"),
            namespace("x", type="root"),
            namespace("w", parent="x"),
        ]
    )
    assert list(forest.lines()) == ["├── x", "│   ├── w", "│   └── y", "└── z"]


def test_lines_below_the_last_branch_have_no_bar() -> None:
    forest = tree_forest([namespace("a", type="root"), namespace("b", parent="a"), namespace("c", parent="b")])
    assert list(forest.lines()) == ["└── a", "    └── b", "        └── c"]


def test_any_namespace_can_be_the_top() -> None:
    forest = tree_forest([namespace("a", type="root"), namespace("b", parent="a"), namespace("c", parent="b")])
    assert list(forest.lines("b")) == ["└── b", "    └── c"]


def test_a_loop_is_drawn_once_and_marked() -> None:
    forest = tree_forest([namespace("a", parent="b"), namespace("b", parent="a")])
    assert list(forest.lines()) == []
    assert list(forest.lines("a")) == ["└── a", "    └── b", "        └── a (loop)"]


def test_an_empty_label_makes_no_branch() -> None:
    assert tree_forest([namespace("a", parent=""), namespace("", type="root")]).children == {}


def test_templates_that_are_instances_are_not_at_the_top() -> None:
    forest = template_forest(
        [namespace("t", type="template"), namespace("u", type="template", template="t"), namespace("i", template="u")]
    )
    assert list(forest.lines()) == ["└── t", "    └── u", "        └── i"]


def test_a_chain_longer_than_the_stack_is_drawn() -> None:
    chain = {str(number): [str(number + 1)] for number in range(5_000)}
    drawn = list(draw_branches(["0"], lambda name: chain.get(name, [])))
    assert len(drawn) == 5_001


def test_details_are_drawn_beside_the_bar_of_the_children() -> None:
    forest = Forest(("a", "b"), {"a": ["c"]})
    prefixes = {
        branch.name: branch.details_prefix
        for branch in draw_branches(forest.tops, lambda name: forest.children.get(name, []))
    }
    assert prefixes == {"a": "│   │   ", "c": "│           ", "b": "        "}
