"""Namespaces that a source lists count as absent only after a minute."""

from __future__ import annotations

from tests.support.samples import Clock, a_key, numbered

from samara.engine.events import ABSENT_AFTER, AbsentNamespaces

KEY = a_key()


class Absences:
    """The names that did not exist, noted one time after the other."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.absent = AbsentNamespaces(self.clock)

    def after(self, seconds: float, *names: str) -> set[str]:
        """The names that last, if these do not exist now."""
        self.clock.now += seconds
        self.absent.note(KEY, frozenset(names))
        return set(self.absent.lasting(KEY))


def test_a_namespace_that_does_not_exist_lasts_after_a_minute_and_not_before() -> None:
    absences = Absences()
    assert absences.after(0.0, "a", "b") == set()
    assert absences.after(ABSENT_AFTER - 1.0, "a", "b") == set()
    assert absences.after(1.0, "a", "b") == {"a", "b"}


def test_a_namespace_that_appears_within_the_minute_does_not_last() -> None:
    absences = Absences()
    absences.after(0.0, "a", "b")
    absences.after(1.0, "b")
    assert absences.after(ABSENT_AFTER, "a", "b") == {"b"}


def test_a_namespace_that_appears_later_ends_at_once() -> None:
    absences = Absences()
    absences.after(0.0, "a", "b")
    absences.after(ABSENT_AFTER, "a", "b")
    assert absences.after(1.0, "b") == {"b"}
    assert absences.after(1.0) == set()
    assert not absences.absent.is_noted(KEY)


def test_a_name_that_is_added_later_waits_for_a_minute_of_its_own() -> None:
    absences = Absences()
    absences.after(0.0, "a")
    absences.after(ABSENT_AFTER, "a")
    assert absences.after(1.0, "a", "b") == {"a"}
    assert absences.after(ABSENT_AFTER - 1.0, "a", "b") == {"a"}
    assert absences.after(ABSENT_AFTER, "a", "b") == {"a", "b"}


def test_a_source_is_due_until_all_of_its_absent_namespaces_last() -> None:
    absences = Absences()
    absences.after(0.0, *numbered(0, 1000))
    assert absences.absent.due() == []
    absences.clock.now += ABSENT_AFTER
    assert absences.absent.due() == [KEY]
    assert len(absences.after(0.0, *numbered(0, 1000))) == 1000
    absences.clock.now += ABSENT_AFTER
    assert absences.absent.due() == []
    absences.after(0.0, *numbered(0, 1001))
    absences.clock.now += ABSENT_AFTER
    assert absences.absent.due() == [KEY]
