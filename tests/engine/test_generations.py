"""Which generation a status is of, and that writing one is no news to us."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.parts import HOME, a_key, a_source, create, numbered
from tests.engine.test_loop import MANY, an_engine
from tests.world import a_field, at, secret

from samara.core.model import Object
from samara.core.table import Table
from samara.core.tally import Tally
from samara.core.write import Report
from samara.dialects import secret_copy
from samara.engine.loop import Engine
from samara.engine.outcome import Outcome, Result


def reported(obj: Object, view: object, tally: Tally) -> dict[str, object]:
    return {"observedGeneration": obj.generation, "wanted": tally.wanted}


TABLE = Table((replace(secret_copy.dialect(HOME), report=reported),))


def a_status(engine: Engine) -> dict[str, object]:
    """What would be reported now."""
    engine._reports.write(a_key())
    found = dict[str, object]()
    while (write := engine.desk.outbox.take()) is not None:
        engine.desk.outbox.done(write)
        if isinstance(write, Report):
            assert write.have is engine.desk.cache.get(write.ref), "conditional on what is there"
            found = dict(write.status)
    return found


def begun(targets: str, *namespaces: str) -> Engine:
    """An engine that has planned the first generation."""
    source = a_source(targets=targets, generation=1)
    engine = an_engine(source, namespaces=list(namespaces), table=TABLE)
    engine._plan(a_key())
    while engine._grow():
        pass
    return engine


# the generation


def test_a_status_is_of_the_generation_that_was_planned() -> None:
    assert a_status(begun("a", "a", "b")) == {"observedGeneration": 1, "wanted": 1}


def test_before_a_new_generation_is_planned_the_status_is_of_the_old_one() -> None:
    engine = begun("a", "a", "b")
    engine.desk.cache.put(a_source(targets="a,b", version=2, generation=2))
    assert a_status(engine) == {"observedGeneration": 1, "wanted": 1}
    engine._plan(a_key())
    assert a_status(engine) == {"observedGeneration": 2, "wanted": 2}


def test_a_slice_of_a_new_generation_does_not_make_the_status_new() -> None:
    engine = begun("a", "a", "b")
    engine.desk.cache.put(a_source(targets="a,b", version=2, generation=2))
    engine._plan(a_key().part("b"))
    assert a_status(engine)["observedGeneration"] == 1


def test_a_large_plan_makes_the_status_new_at_its_end() -> None:
    names = numbered(0, MANY)
    engine = begun("", *names)
    engine.desk.cache.put(a_source(version=2, generation=2))
    engine._plan(a_key())
    engine._grow()
    assert a_status(engine)["observedGeneration"] == 1
    while engine._grow():
        pass
    assert a_status(engine)["observedGeneration"] == 2


def test_a_first_large_plan_is_of_no_generation_before_its_end() -> None:
    """Else whoever waits for it would take the first part for the whole."""
    engine = an_engine(a_source(generation=3), namespaces=numbered(0, MANY), table=TABLE)
    engine._plan(a_key())
    engine._grow()
    assert a_status(engine)["observedGeneration"] == 0
    while engine._grow():
        pass
    assert a_status(engine) == {"observedGeneration": 3, "wanted": MANY}


def test_a_source_that_was_made_anew_has_no_part_in_the_counts_of_the_old_one() -> None:
    engine = begun("a", "a")
    engine.desk.cache.put(a_source(targets="", version=2, generation=1, uid="another"))
    assert a_status(engine)["observedGeneration"] == 0


def test_a_plan_that_is_small_again_ends_the_large_one() -> None:
    engine = an_engine(a_source(generation=1), namespaces=numbered(0, MANY), table=TABLE)
    engine._plan(a_key())
    engine._grow()
    engine.desk.cache.put(a_source(targets=numbered(0, 1)[0], version=2, generation=2))
    engine._plan(a_key())
    assert not engine._growing
    assert a_status(engine) == {"observedGeneration": 2, "wanted": 1}


# our own status writes


def with_status(engine: Engine, **more: Any) -> Object:
    """The source as it is after its status was written."""
    now = engine.desk.cache.get(at(HOME, "db"))
    assert now is not None
    given = {"version": now.version + 1, "status": a_field("status", {"wanted": 7}), "editor": "samara", **more}
    return replace(now, **given)


def queued(engine: Engine) -> bool:
    return engine.desk.queue.take() is not None


def test_the_answer_to_a_status_write_causes_no_plan() -> None:
    engine = begun("a", "a")
    engine._answered(engine.desk.cache.put(with_status(engine)))
    assert not queued(engine)


def test_a_status_that_the_watch_tells_of_causes_no_plan_but_is_looked_at() -> None:
    """Somebody else may have written it."""
    engine = begun("a", "a")
    engine._reports._due.clear()
    change = engine.desk.cache.put(with_status(engine))
    assert change is not None
    engine.changed([change])
    assert not queued(engine)
    assert engine._reports.due == 1


@pytest.mark.parametrize(
    "more",
    [
        {"generation": 2},
        {"content": secret("two")},
        {"labels": {"l": "new"}},
        {"annotations": {secret_copy.TARGETS: "b"}},
        {"finalizers": ("g",)},
        {"deleting": True},
        {"uid": "another"},
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_whatever_else_changes_is_planned(more: dict[str, Any], watched: bool) -> None:
    engine = begun("a", "a")
    change = engine.desk.cache.put(with_status(engine, **more))
    assert change is not None
    if watched:
        engine.changed([change])
    else:
        engine._answered(change)
    assert queued(engine)


def test_a_new_status_frees_nothing_that_was_refused() -> None:
    engine = begun("a", "a")
    engine.desk.waits.note(create("a"), Result(Outcome.REFUSED, "quota"))
    change = engine.desk.cache.put(with_status(engine))
    assert change is not None
    engine.changed([change])
    assert engine.desk.waits.of(create("a")) is not None
