"""Trees as text."""

from __future__ import annotations

from samara.cli.accurate.drawing import Forest, lines, templates, trees
from samara.cli.accurate.space import Space

KEY = "accurate.cybozu.com"


def space(name: str, **labels: str) -> Space:
    return Space(name, {f"{KEY}/{key}": value for key, value in labels.items()})


def test_branches_are_drawn_at_every_level_and_names_are_sorted() -> None:
    found = trees([space("z", type="root"), space("y", parent="x"), space("x", type="root"), space("w", parent="x")])
    assert list(found.drawn()) == ["├── x", "│   ├── w", "│   └── y", "└── z"]


def test_what_lies_below_the_last_branch_has_no_bar_beside_it() -> None:
    found = trees([space("a", type="root"), space("b", parent="a"), space("c", parent="b")])
    assert list(found.drawn()) == ["└── a", "    └── b", "        └── c"]


def test_any_namespace_can_be_the_top() -> None:
    found = trees([space("a", type="root"), space("b", parent="a"), space("c", parent="b")])
    assert list(found.drawn("b")) == ["└── b", "    └── c"]


def test_a_loop_is_drawn_once_and_told() -> None:
    found = trees([space("a", parent="b"), space("b", parent="a")])
    assert list(found.drawn()) == []
    assert list(found.drawn("a")) == ["└── a", "    └── b", "        └── a (loop)"]


def test_an_empty_label_makes_no_branch() -> None:
    assert trees([space("a", parent=""), space("", type="root")]).children == {}


def test_templates_that_are_instances_are_no_tops() -> None:
    found = templates(
        [space("t", type="template"), space("u", type="template", template="t"), space("i", template="u")]
    )
    assert list(found.drawn()) == ["└── t", "    └── u", "        └── i"]


def test_a_chain_longer_than_the_stack_is_drawn() -> None:
    chain = {str(number): [str(number + 1)] for number in range(5_000)}
    drawn = list(lines(["0"], lambda name: chain.get(name, [])))
    assert len(drawn) == 5_001


def test_details_stand_beside_the_bar_of_the_children() -> None:
    forest = Forest(("a", "b"), {"a": ["c"]})
    found = {line.name: line.below for line in lines(forest.tops, lambda name: forest.children.get(name, []))}
    assert found == {"a": "│   │   ", "c": "│           ", "b": "        "}
