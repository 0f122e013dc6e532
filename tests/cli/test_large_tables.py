"""Ten thousand copies, sources and namespaces fit on a screen. `--all` lists each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from tests.support.trees import namespace, obj
from tests.support.world import at, secret

from samara.assembly import registry_of
from samara.cli.commands import orphans, plan, status, tree
from samara.cli.filters import Filter
from samara.cli.formats import DEFAULT_LAYOUT, TABLE, Form, Layout, layout_of
from samara.cli.inspect.cluster_plans import ClusterPlans
from samara.cli.inspect.forecast import PlannedWrites
from samara.cli.inspect.orphan_scan import SOURCE_GONE, Orphan
from samara.cli.inspect.trees import add_propagations, build_forest
from samara.cli.output import folded
from samara.core.desired import Copy, Reason, Template
from samara.core.model import SECRET, Key, Object, Ref
from samara.core.writes import Blocked, Create, Step
from samara.kube.snapshot import Snapshot
from samara.settings import Settings
from samara.vocabularies import secret_copy

MANY = 10_000
SCREEN = 50
EVERY_ROW = Layout(has_every_row=True)
REGISTRY = registry_of(Settings())
CLUSTER = ClusterPlans(Snapshot.__new__(Snapshot), REGISTRY, {})


def names(count: int = MANY) -> list[str]:
    return [f"n{number:05}" for number in range(count)]


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_items_are_grouped_by_the_first_grouping_with_few_enough_rows() -> None:
    groupings = (lambda item: item, lambda item: item % 7, lambda item: item % 2)
    assert len(folded(range(5), *groupings, most=6)) == 5
    assert len(folded(range(50), *groupings, most=7)) == 7
    assert len(folded(range(50), *groupings, most=6)) == 2
    assert len(folded(range(50), *groupings, most=1)) == 2


def creates(sources: int) -> PlannedWrites:
    """Copies that several sources share equally, or of one source."""
    steps = []
    for number, name in enumerate(names()):
        ref = at(name, "db")
        create = Create(Key("secret-copy", at("admin", f"s{number % sources}")), ref, Copy(ref, Template(secret())))
        steps.append(Step(ref, create, "missing"))
    return PlannedWrites(tuple(steps))


@pytest.mark.parametrize("sources", [1, 30, MANY])
def test_plan_of_ten_thousand_copies_fits_and_counts_them(sources: int, capsys: pytest.CaptureFixture[str]) -> None:
    plan._show(CLUSTER, creates(sources), [], DEFAULT_LAYOUT)
    shown = lines(capsys)
    assert len(shown) <= SCREEN
    assert shown[0] == "10,000 to create."
    assert sum(int(line.split()[1].replace(",", "")) for line in shown[2:]) == MANY


def test_plan_with_all_lists_each_object(capsys: pytest.CaptureFixture[str]) -> None:
    plan._show(CLUSTER, creates(MANY), [], EVERY_ROW)
    assert len(lines(capsys)) == MANY + 2


def a_blocked(key: Key, ref: Ref, reason: Reason, message: str) -> Step:
    return Step(ref, Blocked(key, ref, reason, message), reason)


def blocked(sources: int) -> PlannedWrites:
    steps = []
    for number, name in enumerate(names()):
        key = Key("secret-copy", at("admin", f"s{number % sources}"))
        steps.append(a_blocked(key, at(name, "db"), "no-namespace", f"namespace {name} does not exist yet"))
    return PlannedWrites(tuple(steps))


@pytest.mark.parametrize("sources", [1, MANY])
def test_copies_blocked_for_one_reason_share_a_row_and_a_message(
    sources: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plan._show(CLUSTER, blocked(sources), [], DEFAULT_LAYOUT)
    shown = lines(capsys)
    assert shown[2].startswith("no-namespace  10,000")
    assert "namespace … does not exist yet" in shown[2]
    assert shown[-1].startswith("  no-namespace: create the namespace")


def test_different_messages_are_different_rows(capsys: pytest.CaptureFixture[str]) -> None:
    key = Key("secret-copy", at("admin", "db"))
    both = (a_blocked(key, at("a", "db"), "conflict", "one"), a_blocked(key, at("b", "db"), "conflict", "two"))
    plan._show(CLUSTER, PlannedWrites(both), [], DEFAULT_LAYOUT)
    assert [line.split()[-1] for line in lines(capsys)[2:4]] == ["one", "two"]


def sources(count: int) -> dict[str, Any]:
    """One in a hundred is blocked somewhere."""
    steps = []
    for number, name in enumerate(names(count)):
        reasons = [] if number % 100 else [{"reason": "conflict", "count": 2, "sample": [name, "x"]}]
        right = {"wanted": 5, "right": 3 if reasons else 5, "pending": 0, "blocked": 2 if reasons else 0}
        address = {"vocabulary": "sync-to", "kind": "v1/Secret", "namespace": name, "name": "db"}
        steps.append({**address, **right, "reasons": reasons})
    return {"sources": steps, "held": []}


def test_status_of_ten_thousand_sources_fits_and_shows_faulty_ones_in_a_row_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status._show(sources(MANY), DEFAULT_LAYOUT)
    shown = lines(capsys)
    assert len(shown) <= SCREEN
    wrong, right = shown[2:4]
    assert "conflict (200): " in wrong
    assert wrong.split()[6:11] == ["97", "more", "500", "300", "0"]
    assert right.split()[6:11] == ["9897", "more", "49,500", "49,500", "0"]


def held(many: int, until: Callable[[int], str]) -> list[dict[str, Any]]:
    since = "2030-01-01T12:00:00Z"
    keys = [f"secret-copy/Secret/{'admin' if number % 2 else 'vault'}/db-{number:05}" for number in range(many)]
    return [{"key": key, "count": 60, "since": since, "until": until(number)} for number, key in enumerate(keys)]


@pytest.mark.parametrize("spread", [1, 60], ids=["at one time", "one after the other"])
def test_thousand_held_sources_fit(spread: int, capsys: pytest.CaptureFixture[str]) -> None:
    entries = held(1000, lambda number: f"2030-01-01T12:10:{number // 2 % spread:02}Z")
    status._show({"sources": [], "held": entries}, DEFAULT_LAYOUT)
    printed = capsys.readouterr()
    rows = [line for line in printed.out.splitlines() if line.startswith("secret-copy/")]
    assert len(rows) == 2
    assert all("30,000" in row and "and 497 more" in row and "2030-01-01T12:10:00Z" in row for row in rows)
    assert all(("to 2030-01-01T12:10:59Z" in row) == (spread > 1) for row in rows)
    assert "1,000 held sets are shown in 2 rows; --all lists each" in printed.err


def test_held_sources_have_a_row_each_if_they_are_few_or_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    for many, layout in ((30, DEFAULT_LAYOUT), (1000, EVERY_ROW)):
        status._show({"sources": [], "held": held(many, lambda number: "forever")}, layout)
        printed = capsys.readouterr()
        assert printed.out.count("secret-copy/Secret/") == many
        assert printed.err == ""


def test_status_of_few_sources_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    status._show(sources(30), DEFAULT_LAYOUT)
    assert len([line for line in lines(capsys) if line.startswith("sync-to")]) == 30
    status._show(sources(MANY), EVERY_ROW)
    assert len([line for line in lines(capsys) if line.startswith("sync-to")]) == MANY


NO_HEADERS = layout_of(Form(TABLE), show_all=False, no_headers=True)


def a_source(name: str, pending: int = 0, blocked: int = 0, reasons: int = 0) -> dict[str, Any]:
    address = {"vocabulary": "sync-to", "kind": "apps/v1/Thing", "namespace": "a", "name": name}
    listed = [{"reason": "held", "count": 0, "sample": ["source"]}] * reasons
    return {**address, "wanted": 3, "right": 3 - pending - blocked, "pending": pending, "blocked": blocked} | {
        "reasons": listed
    }


STATUS = {
    "sources": [
        a_source("right"),
        a_source("waits", pending=1),
        a_source("blocked", blocked=2, reasons=1),
        a_source("paused", reasons=1),
    ],
    "held": [{"key": "sync-to/Thing/a/gone", "count": 2, "since": "then", "until": "forever"}],
}


def test_status_begins_with_counts_and_with_the_sources_that_have_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    status._show(STATUS, DEFAULT_LAYOUT)
    shown = lines(capsys)
    counts, problems = shown[0].split("; ", 1)
    assert counts == "4 sources, 12 copies wanted: 9 right, 1 pending, 2 blocked"
    assert problems == "2 sources with a problem; 1 set of removals held."
    assert [line.split()[2] for line in shown[2:6]] == ["a/blocked", "a/paused", "a/waits", "a/right"]


def test_status_in_sync_counts_only_what_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    status._show({"sources": [a_source("db")], "held": []}, DEFAULT_LAYOUT)
    assert lines(capsys)[0] == "1 source, 3 copies wanted: 3 right."


def test_status_without_headers_has_nothing_but_a_row_for_each_source_and_each_held_set(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status._show(STATUS, NO_HEADERS)
    shown = lines(capsys)
    assert [line.split()[0] for line in shown if line] == ["sync-to"] * 4 + ["sync-to/Thing/a/gone"]
    status._show({"sources": [], "held": []}, NO_HEADERS)
    assert lines(capsys) == []


def test_a_wide_status_names_group_and_version_of_a_kind(capsys: pytest.CaptureFixture[str]) -> None:
    for layout, kind in ((DEFAULT_LAYOUT, "Thing"), (Layout(is_wide=True), "apps/v1/Thing")):
        status._show({"sources": [a_source("db")], "held": []}, layout)
        assert lines(capsys)[2].split()[1] == kind


def test_an_empty_list_names_the_namespace_in_which_it_looked(capsys: pytest.CaptureFixture[str]) -> None:
    status._show({"sources": [], "held": []}, DEFAULT_LAYOUT, Filter("shop").where)
    orphans._show([], DEFAULT_LAYOUT, Filter().where)
    assert lines(capsys) == ["No sources in namespace shop.", "No orphans."]


def test_plan_shows_counts_then_what_is_blocked_then_the_writes(capsys: pytest.CaptureFixture[str]) -> None:
    both = PlannedWrites((*creates(1).steps[:2], *blocked(1).steps[:1]))
    plan._show(CLUSTER, both, [], DEFAULT_LAYOUT)
    shown = lines(capsys)
    assert shown[0] == "2 to create; 1 blocked."
    assert [line.split()[0] for line in shown[1:6] if line] == ["BLOCKED", "no-namespace", "VERB", "create"]


def test_plan_without_headers_has_nothing_but_a_row_for_each_object(capsys: pytest.CaptureFixture[str]) -> None:
    both = PlannedWrites((*creates(1).steps[:2], *blocked(1).steps[:1]))
    plan._show(CLUSTER, both, [], NO_HEADERS)
    assert [line.split()[0] for line in lines(capsys) if line] == ["no-namespace", "create", "create"]
    plan._show(CLUSTER, PlannedWrites(), [], NO_HEADERS)
    assert lines(capsys) == []


def test_a_wide_plan_names_the_rule_that_decided(capsys: pytest.CaptureFixture[str]) -> None:
    plan._show(CLUSTER, creates(1), [], Layout(is_wide=True))
    header, row = lines(capsys)[1:]
    assert header.split() == ["VERB", "OBJECTS", "WHERE", "VOCABULARY", "SOURCE", "RULE", "WHY"]
    assert row.startswith("create  10,000   v1/Secret ")
    assert "  missing  wanted here and absent" in row


@pytest.mark.parametrize(("origins", "rows"), [(1, 1), (20, 20), (MANY, 1)])
def test_ten_thousand_orphans_fit(origins: int, rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    source_type = REGISTRY[secret_copy.NAME]
    listed = [
        Orphan(
            Object(at(name, "db"), "u", 1), source_type, Key(source_type.name, source), source.path, True, SOURCE_GONE
        )
        for name, source in zip(names(), cycle(at("admin", f"s{number}") for number in range(origins)))
    ]
    orphans._show(listed, DEFAULT_LAYOUT)
    shown = lines(capsys)
    assert shown[0] == "10,000 orphans: 10,000 source-gone."
    assert len(shown) == rows + 2
    assert sum(int(line.split()[1].replace(",", "")) for line in shown[2:]) == MANY
    orphans._show(listed, EVERY_ROW)
    assert len(lines(capsys)) == MANY + 2


def test_tree_of_ten_thousand_namespaces_fits_and_shows_what_is_wrong() -> None:
    namespaces = [namespace("root", type="root"), *(namespace(name, parent="root") for name in names())]
    namespaces.append(namespace("under", parent="n09000"))
    forest = build_forest(namespaces)
    copies = [obj(name, "db", "update", "root") for name in names()]
    add_propagations(forest, SECRET, [obj("root", "db", "update"), *copies, obj("under", "x", "odd")])
    drawn = ["".join(text for text, _ in line) for line in tree.draw(forest, None, show_all=False)]
    assert len(drawn) <= SCREEN
    assert any("under" in line for line in drawn)
    assert "    └── … and 9,995 more; --all shows them" in drawn
    assert len(list(tree.draw(forest, None, show_all=True))) > MANY


def test_many_objects_of_one_namespace_are_folded_in_a_large_tree_only() -> None:
    for count, folds in ((100, ["    │   … and 45 more objects; --all lists each"]), (2, [])):
        forest = build_forest(
            [namespace("root", type="root"), *(namespace(name, parent="root") for name in names(count))]
        )
        add_propagations(forest, SECRET, [obj("root", f"s{number}", "update") for number in range(50)])
        drawn = ["".join(text for text, _ in line) for line in tree.draw(forest, None, show_all=False)]
        assert [line for line in drawn if "more objects" in line] == folds
