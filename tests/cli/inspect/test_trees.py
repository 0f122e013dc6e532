"""What is propagated along trees, and the faults in them."""

from __future__ import annotations

import time

import msgspec
import pytest
from tests.support.trees import KEY, namespace, obj

from samara.cli.commands.tree import draw, show
from samara.cli.inspect.namespaces import Namespace, decode_namespace
from samara.cli.inspect.trees import Forest, add_propagations, build_forest, with_labels
from samara.core.model import SECRET
from samara.core.selectors import parse_selector


def drawn(forest: Forest, root: str | None = None) -> list[str]:
    return ["".join(text for text, _ in line) for line in draw(forest, root)]


@pytest.mark.parametrize(
    ("namespaces", "name", "fault_text"),
    [
        ([namespace("a", parent="gone")], "a", "its parent gone does not exist"),
        ([namespace("a", template="gone")], "a", "its template gone does not exist"),
        ([namespace("a", parent="p"), namespace("p")], "a", "its parent p is neither a root nor a sub-namespace"),
        ([namespace("a", template="t"), namespace("t")], "a", "its template t is not of the type template"),
        ([namespace("a", parent="")], "a", f"the label {KEY}/parent is empty: it names no namespace"),
        ([namespace("a", template="")], "a", f"the label {KEY}/template is empty: it names no namespace"),
        ([namespace("a", type="tree")], "a", f"the label {KEY}/type says 'tree', which means nothing"),
        ([namespace("a", parent="a")], "a", "a loop: a → a"),
        (
            [namespace("a", parent="c"), namespace("b", parent="a"), namespace("c", parent="b")],
            "b",
            "a loop: a → c → b → a",
        ),
        (
            [namespace("r", type="root"), namespace("a", parent="r", template="t")],
            "a",
            f"a sub-namespace, so the label {KEY}/template is ignored",
        ),
    ],
)
def test_fault_is_shown_at_its_namespace(namespaces: list[Namespace], name: str, fault_text: str) -> None:
    forest = build_forest(namespaces)
    assert [fault for fault in forest.nodes[name].faults if fault.startswith(fault_text)] != []
    assert any(fault_text in line for line in drawn(forest))
    assert forest.as_json() != []


def test_trees_without_faults_have_none() -> None:
    namespaces = [
        namespace("t", type="template"),
        namespace("r", type="root", template="t"),
        namespace("a", parent="r"),
        namespace("b", parent="a"),
        namespace("plain"),
    ]
    forest = build_forest(namespaces)
    assert [node.faults for node in forest.nodes.values()] == [[]] * 4
    assert drawn(forest) == [
        "└── t (template)",
        "    └── r (root, instance of t)",
        "        └── a (sub-namespace)",
        "            └── b (sub-namespace)",
    ]


def test_a_loop_is_cut_in_the_nested_form() -> None:
    forest = build_forest([namespace("a", parent="b"), namespace("b", parent="a"), namespace("c", parent="a")])
    [top] = forest.as_json()
    assert (top["name"], [child["name"] for child in top["children"]]) == ("a", ["b", "c"])
    assert [child["children"] for child in top["children"]] == [[], []]


def test_copies_are_counted_in_the_namespaces_directly_below() -> None:
    forest = build_forest(
        [namespace("r", type="root"), *(namespace(name, parent="r") for name in "abc"), namespace("d", parent="a")]
    )
    objects = [obj("r", "db", "update"), obj("a", "db", "update", "r"), obj("b", "db"), obj("x", "db", "update")]
    add_propagations(forest, SECRET, objects)
    [propagation] = forest.nodes["r"].propagations
    assert (propagation.present, propagation.missing, propagation.occupied) == (1, ("c",), ("b",))
    [copy] = forest.nodes["a"].propagations
    assert (copy.origin, copy.missing) == ("r", ("d",))
    assert "    │   Secret db: update; copies 1 of 3; missing in c; another object in b" in drawn(forest)
    assert "    │   │   Secret db: update, from r; copies 0 of 1; missing in d" in drawn(forest)


def test_copy_from_a_namespace_that_is_no_longer_upstream_is_shown() -> None:
    forest = build_forest([namespace("r", type="root"), namespace("s", type="root"), namespace("a", parent="s")])
    add_propagations(forest, SECRET, [obj("a", "db", "create", "r")])
    assert forest.nodes["a"].propagations[0].as_json()["stale"] is True
    assert "            Secret db: create, from r, which is neither its parent nor its template" in drawn(forest)


def test_unknown_mode_is_shown() -> None:
    forest = build_forest([namespace("r", type="root"), namespace("a", parent="r")])
    add_propagations(forest, SECRET, [obj("r", "db", "always\x1b[31m")])
    assert forest.nodes["r"].propagations[0].as_json()["copies"] is None
    [line] = [line for line in drawn(forest) if "Secret db" in line]
    assert line.endswith("this mode means nothing, expected create or update")
    assert "\x1b" not in line


def test_terminating_namespace_has_no_missing_copies() -> None:
    going = Namespace("a", {f"{KEY}/parent": "r"}, is_terminating=True)
    forest = build_forest([namespace("r", type="root"), going])
    add_propagations(forest, SECRET, [obj("r", "db", "update")])
    assert forest.nodes["r"].propagations[0].missing == ()
    assert "    └── a (sub-namespace, being deleted)" in drawn(forest)


def test_inherited_keys_are_those_that_the_appliers_record_holds() -> None:
    raw = (
        b'{"metadata": {"name": "a", "labels": {"accurate.cybozu.com/parent": "r"}, "managedFields": ['
        b'{"manager": "accurate-controller", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels":'
        b' {".": {}, "f:team": {}, "f:accurate.cybozu.com/parent": {}, "f:app.kubernetes.io/created-by": {}},'
        b' "f:annotations": {"f:note": {}}}}},'
        b'{"manager": "accurate-controller", "operation": "Update",'
        b' "fieldsV1": {"f:metadata": {"f:labels": {"f:x": {}}}}},'
        b'{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:y": {}}}}}]}}'
    )
    node = build_forest([decode_namespace(raw)]).nodes["a"]
    assert (node.labels, node.annotations) == (["team"], ["note"])


def test_ten_thousand_namespaces_are_drawn_within_seconds() -> None:
    namespaces = [namespace("r", type="root")]
    namespaces += [
        namespace(f"n{number}", parent=f"n{number // 10}" if number > 9 else "r") for number in range(1, 10_000)
    ]
    begun = time.process_time()
    forest = build_forest(namespaces)
    add_propagations(forest, SECRET, [obj(member.name, "db", "update", "r") for member in namespaces])
    assert len(drawn(forest)) == 20_000
    assert len(forest.as_json()) == 1
    assert time.process_time() - begun < 3


def test_requested_root_is_shown_even_outside_of_any_tree() -> None:
    assert drawn(build_forest([namespace("plain")], "plain"), "plain") == ["└── plain (plain)"]
    assert build_forest([namespace("plain")]).nodes == {}


def labelled(name: str, parent: str, **labels: str) -> Namespace:
    made = namespace(name, parent=parent)
    return msgspec.structs.replace(made, labels={**made.labels, **labels})


def selected(selector: str) -> Forest:
    namespaces = [
        namespace("r", type="root"),
        labelled("a", "r", team="pay"),
        labelled("b", "a"),
        labelled("c", "r"),
        labelled("d", "c", team="pay"),
        namespace("s", type="root"),
    ]
    return with_labels(build_forest(namespaces), parse_selector(selector).selector)


def test_a_selector_keeps_namespaces_with_the_labels_and_those_above_them() -> None:
    assert drawn(selected("team=pay")) == [
        "└── r (root)",
        "    ├── a (sub-namespace)",
        "    └── c (sub-namespace)",
        "        └── d (sub-namespace)",
    ]
    assert selected("team=pay").names() == ["r", "a", "c", "d"]
    assert selected("").names() == ["r", "a", "b", "c", "d", "s"]
    assert selected("team=pay").names("c") == ["c", "d"]


def test_a_selector_that_matches_nothing_leaves_no_tree(capsys: pytest.CaptureFixture[str]) -> None:
    forest = selected("team=x")
    for root in (None, "r"):
        assert (forest.as_json(root), forest.names(root)) == ([], [])
        show(forest, root)
    assert capsys.readouterr().out == "No trees and no templates.\n" * 2


def test_namespaces_of_a_loop_are_named_once() -> None:
    forest = build_forest([namespace("a", parent="b"), namespace("b", parent="a"), namespace("c", parent="a")])
    assert forest.names() == ["a", "b", "c"]
    assert with_labels(forest, parse_selector(f"{KEY}/parent=a").selector).names() == ["a", "b", "c"]
