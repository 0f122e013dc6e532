"""Ten thousand copies, sources and namespaces fit on a screen; `--all` lists each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from tests.support.trees import namespace, obj
from tests.support.world import at, secret

from samara.assembly import registry_of
from samara.cli.commands import orphans, plan, status, tree
from samara.cli.inspect.orphan_scan import Orphan
from samara.cli.inspect.outcome import Outcome
from samara.cli.inspect.trees import add_propagations, build_forest
from samara.cli.output import folded
from samara.cli.session import Picture
from samara.core.desired import Copy, Reason, Template
from samara.core.model import SECRET, Key, Object, Ref
from samara.core.writes import Blocked, Create, Step
from samara.kube.snapshot import Snapshot
from samara.settings import Settings
from samara.vocabularies import secret_copy

MANY = 10_000
SCREEN = 50
TABLE = registry_of(Settings())
SEEN = Picture(Snapshot.__new__(Snapshot), TABLE, {})


def names(count: int = MANY) -> list[str]:
    return [f"n{number:05}" for number in range(count)]


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_items_are_grouped_by_the_first_way_that_gives_few_enough_rows() -> None:
    ways = (lambda item: item, lambda item: item % 7, lambda item: item % 2)
    assert len(folded(range(5), *ways, most=6)) == 5
    assert len(folded(range(50), *ways, most=7)) == 7
    assert len(folded(range(50), *ways, most=6)) == 2
    assert len(folded(range(50), *ways, most=1)) == 2


def creates(sources: int) -> Outcome:
    """Each of the sources wants some of the copies, or the one source all of them."""
    found = []
    for number, name in enumerate(names()):
        ref = at(name, "db")
        create = Create(Key("secret-copy", at("admin", f"s{number % sources}")), ref, Copy(ref, Template(secret())))
        found.append(Step(ref, create, "missing"))
    return Outcome(tuple(found))


@pytest.mark.parametrize("sources", [1, 30, MANY])
def test_a_plan_of_ten_thousand_copies_fits_and_counts_them(sources: int, capsys: pytest.CaptureFixture[str]) -> None:
    plan._show(SEEN, creates(sources), [], False)
    told = lines(capsys)
    assert len(told) <= SCREEN
    assert told[-1] == "10,000 to create."
    assert sum(int(line.split()[1].replace(",", "")) for line in told[1:-1]) == MANY


def test_all_of_a_plan_lists_each(capsys: pytest.CaptureFixture[str]) -> None:
    plan._show(SEEN, creates(MANY), [], True)
    assert len(lines(capsys)) == MANY + 2


def a_blocked(key: Key, ref: Ref, reason: Reason, message: str) -> Step:
    return Step(ref, Blocked(key, ref, reason, message), reason)


def blocked(sources: int) -> Outcome:
    found = []
    for number, name in enumerate(names()):
        key = Key("secret-copy", at("admin", f"s{number % sources}"))
        found.append(a_blocked(key, at(name, "db"), "no-namespace", f"namespace {name} does not exist yet"))
    return Outcome(tuple(found))


@pytest.mark.parametrize("sources", [1, MANY])
def test_places_that_are_blocked_for_one_reason_share_a_row_and_its_words(
    sources: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plan._show(SEEN, blocked(sources), [], False)
    told = lines(capsys)
    assert told[1].startswith("no-namespace  10,000")
    assert "namespace … does not exist yet" in told[1]
    assert told[-1].startswith("  no-namespace: create the namespace")


def test_different_messages_are_different_rows(capsys: pytest.CaptureFixture[str]) -> None:
    key = Key("secret-copy", at("admin", "db"))
    both = (a_blocked(key, at("a", "db"), "conflict", "one"), a_blocked(key, at("b", "db"), "conflict", "two"))
    plan._show(SEEN, Outcome(both), [], False)
    assert [line.split()[-1] for line in lines(capsys)[1:3]] == ["one", "two"]


def sources(count: int) -> dict[str, Any]:
    """One in a hundred is blocked somewhere."""
    found = []
    for number, name in enumerate(names(count)):
        why = [] if number % 100 else [{"reason": "conflict", "count": 2, "sample": [name, "x"]}]
        right = {"wanted": 5, "right": 3 if why else 5, "pending": 0, "blocked": 2 if why else 0}
        place = {"vocabulary": "sync-to", "kind": "v1/Secret", "namespace": name, "name": "db"}
        found.append({**place, **right, "reasons": why})
    return {"sources": found, "held": []}


def test_a_status_of_ten_thousand_sources_fits_and_what_is_wrong_stands_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status._show(sources(MANY), False)
    told = lines(capsys)
    assert len(told) <= SCREEN
    wrong, right = told[1:3]
    assert "conflict (200): " in wrong
    assert wrong.split()[6:11] == ["97", "more", "500", "300", "0"]
    assert right.split()[6:11] == ["9897", "more", "49,500", "49,500", "0"]


def held(many: int, until: Callable[[int], str]) -> list[dict[str, Any]]:
    since = "2030-01-01T12:00:00Z"
    keys = [f"secret-copy/Secret/{'admin' if number % 2 else 'vault'}/db-{number:05}" for number in range(many)]
    return [{"key": key, "count": 60, "since": since, "until": until(number)} for number, key in enumerate(keys)]


@pytest.mark.parametrize("spread", [1, 60], ids=["at one time", "one after the other"])
def test_a_thousand_held_sources_fit(spread: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = held(1000, lambda number: f"2030-01-01T12:10:{number // 2 % spread:02}Z")
    status._show({"sources": [], "held": found}, False)
    told = capsys.readouterr()
    rows = [line for line in told.out.splitlines() if line.startswith("secret-copy/")]
    assert len(rows) == 2
    assert all("30,000" in row and "and 497 more" in row and "2030-01-01T12:10:00Z" in row for row in rows)
    assert all(("to 2030-01-01T12:10:59Z" in row) == (spread > 1) for row in rows)
    assert "1,000 held sets are shown in 2 rows; --all lists each" in told.err


def test_what_is_held_has_a_row_for_each_where_it_is_little_or_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for many, each in ((30, False), (1000, True)):
        status._show({"sources": [], "held": held(many, lambda number: "forever")}, each)
        told = capsys.readouterr()
        assert told.out.count("secret-copy/Secret/") == many
        assert told.err == ""


def test_a_status_of_few_sources_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    status._show(sources(30), False)
    assert len([line for line in lines(capsys) if line.startswith("sync-to")]) == 30
    status._show(sources(MANY), True)
    assert len([line for line in lines(capsys) if line.startswith("sync-to")]) == MANY


@pytest.mark.parametrize(("origins", "rows"), [(1, 1), (20, 20), (MANY, 1)])
def test_ten_thousand_orphans_fit(origins: int, rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    source_type = TABLE[secret_copy.NAME]
    found = [
        Orphan(Object(at(name, "db"), "u", 1), source_type, Key(source_type.name, source), source.path, True)
        for name, source in zip(names(), cycle(at("admin", f"s{number}") for number in range(origins)))
    ]
    orphans._show(found, False)
    told = lines(capsys)
    assert len(told) == rows + 1
    assert sum(int(line.split()[1].replace(",", "")) for line in told[1:]) == MANY
    orphans._show(found, True)
    assert len(lines(capsys)) == MANY + 1


def test_a_tree_of_ten_thousand_fits_and_shows_what_is_wrong() -> None:
    namespaces = [namespace("root", type="root"), *(namespace(name, parent="root") for name in names())]
    namespaces.append(namespace("under", parent="n09000"))
    forest = build_forest(namespaces)
    copies = [obj(name, "db", "update", "root") for name in names()]
    add_propagations(forest, SECRET, [obj("root", "db", "update"), *copies, obj("under", "x", "odd")])
    drawn = ["".join(text for text, _ in line) for line in tree.drawing(forest, None, each=False)]
    assert len(drawn) <= SCREEN
    assert any("under" in line for line in drawn)
    assert "    └── … and 9,995 more; --all shows them" in drawn
    assert len(list(tree.drawing(forest, None, each=True))) > MANY


def test_many_objects_of_one_namespace_are_folded_in_a_large_tree_only() -> None:
    for count, folds in ((100, ["    │   … and 45 more objects; --all lists each"]), (2, [])):
        forest = build_forest(
            [namespace("root", type="root"), *(namespace(name, parent="root") for name in names(count))]
        )
        add_propagations(forest, SECRET, [obj("root", f"s{number}", "update") for number in range(50)])
        drawn = ["".join(text for text, _ in line) for line in tree.drawing(forest, None, each=False)]
        assert [line for line in drawn if "more objects" in line] == folds
