"""What flows along trees, and the faults in them."""

from __future__ import annotations

import time

import pytest
from tests.cli.accurate.test_drawing import KEY, space

from samara.cli.accurate.flows import Landscape, add_flows, landscape
from samara.cli.accurate.space import Space, Thing, read_space
from samara.cli.tree import drawing
from samara.core.model import SECRET


def drawn(land: Landscape, root: str | None = None) -> list[str]:
    return ["".join(text for text, _ in line) for line in drawing(land, root)]


def thing(namespace: str, name: str, mode: str = "", origin: str = "") -> Thing:
    words = {f"{KEY}/propagate": mode, f"{KEY}/from": origin}
    return Thing(namespace, name, {key: value for key, value in words.items() if value})


@pytest.mark.parametrize(
    ("spaces", "name", "told"),
    [
        ([space("a", parent="gone")], "a", "its parent gone does not exist"),
        ([space("a", template="gone")], "a", "its template gone does not exist"),
        ([space("a", parent="p"), space("p")], "a", "its parent p is neither a root nor a sub-namespace"),
        ([space("a", template="t"), space("t")], "a", "its template t is not of the type template"),
        ([space("a", parent="")], "a", f"the label {KEY}/parent is empty: it names no namespace"),
        ([space("a", template="")], "a", f"the label {KEY}/template is empty: it names no namespace"),
        ([space("a", type="tree")], "a", f"the label {KEY}/type says 'tree', which means nothing"),
        ([space("a", parent="a")], "a", "a loop: a → a"),
        ([space("a", parent="c"), space("b", parent="a"), space("c", parent="b")], "b", "a loop: a → c → b → a"),
        (
            [space("r", type="root"), space("a", parent="r", template="t")],
            "a",
            f"a sub-namespace, so the label {KEY}/template is ignored",
        ),
    ],
)  # fmt: skip
def test_a_fault_is_told_where_it_is(spaces: list[Space], name: str, told: str) -> None:
    land = landscape(spaces)
    assert [fault for fault in land.nodes[name].faults if fault.startswith(told)] != []
    assert any(told in line for line in drawn(land))
    assert land.shape() != []


def test_trees_without_faults_have_none() -> None:
    spaces = [
        space("t", type="template"),
        space("r", type="root", template="t"),
        space("a", parent="r"),
        space("b", parent="a"),
        space("plain"),
    ]
    land = landscape(spaces)
    assert [node.faults for node in land.nodes.values()] == [[]] * 4
    assert drawn(land) == [
        "└── t (template)",
        "    └── r (root, instance of t)",
        "        └── a (sub-namespace)",
        "            └── b (sub-namespace)",
    ]


def test_a_loop_is_cut_in_the_nested_form() -> None:
    land = landscape([space("a", parent="b"), space("b", parent="a"), space("c", parent="a")])
    [top] = land.shape()
    assert (top["name"], [each["name"] for each in top["children"]]) == ("a", ["b", "c"])
    assert [each["children"] for each in top["children"]] == [[], []]


def test_copies_are_counted_in_the_namespaces_directly_below() -> None:
    land = landscape([space("r", type="root"), *(space(name, parent="r") for name in "abc"), space("d", parent="a")])
    found = [thing("r", "db", "update"), thing("a", "db", "update", "r"), thing("b", "db"), thing("x", "db", "update")]
    add_flows(land, SECRET, found)
    [flow] = land.nodes["r"].flows
    assert (flow.there, flow.missing, flow.others) == (1, ("c",), ("b",))
    [copy] = land.nodes["a"].flows
    assert (copy.origin, copy.missing) == ("r", ("d",))
    assert "    │   Secret db: update; copies 1 of 3; missing in c; another object in b" in drawn(land)
    assert "    │   │   Secret db: update, from r; copies 0 of 1; missing in d" in drawn(land)


def test_a_copy_from_a_namespace_that_is_upstream_no_more_is_told() -> None:
    land = landscape([space("r", type="root"), space("s", type="root"), space("a", parent="s")])
    add_flows(land, SECRET, [thing("a", "db", "create", "r")])
    assert land.nodes["a"].flows[0].shape()["stale"] is True
    assert "            Secret db: create, from r, which is neither its parent nor its template" in drawn(land)


def test_a_mode_that_means_nothing_is_told() -> None:
    land = landscape([space("r", type="root"), space("a", parent="r")])
    add_flows(land, SECRET, [thing("r", "db", "always\x1b[31m")])
    assert land.nodes["r"].flows[0].shape()["copies"] is None
    [line] = [line for line in drawn(land) if "Secret db" in line]
    assert line.endswith("this mode means nothing, expected create or update")
    assert "\x1b" not in line


def test_a_namespace_that_is_being_deleted_misses_nothing() -> None:
    going = Space("a", {f"{KEY}/parent": "r"}, deleting=True)
    land = landscape([space("r", type="root"), going])
    add_flows(land, SECRET, [thing("r", "db", "update")])
    assert land.nodes["r"].flows[0].missing == ()
    assert "    └── a (sub-namespace, being deleted)" in drawn(land)


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
    node = landscape([read_space(raw)]).nodes["a"]
    assert (node.labels, node.annotations) == (["team"], ["note"])


def test_ten_thousand_namespaces_are_drawn_within_seconds() -> None:
    spaces = [space("r", type="root")]
    spaces += [space(f"n{number}", parent=f"n{number // 10}" if number > 9 else "r") for number in range(1, 10_000)]
    begun = time.process_time()
    land = landscape(spaces)
    add_flows(land, SECRET, [thing(each.name, "db", "update", "r") for each in spaces])
    assert len(drawn(land)) == 20_000
    assert len(land.shape()) == 1
    assert time.process_time() - begun < 3


def test_a_root_is_shown_whatever_it_is() -> None:
    assert drawn(landscape([space("plain")], "plain"), "plain") == ["└── plain (plain)"]
    assert landscape([space("plain")]).nodes == {}
