"""Conditions keep the time of their last transition."""

from samara.core.status import condition, with_transition_times

READY = condition("Ready", True, "Synced", "2 of 2", 3)


def test_a_new_condition_gets_the_current_time() -> None:
    assert with_transition_times([READY], [], "now") == [{**READY, "lastTransitionTime": "now"}]


def test_a_condition_with_the_same_status_keeps_its_time_and_gets_the_new_message() -> None:
    before = [{**condition("Ready", True, "Old", "1 of 1", 2), "lastTransitionTime": "then"}]
    assert with_transition_times([READY], before, "now") == [{**READY, "lastTransitionTime": "then"}]


def test_a_condition_with_a_changed_status_gets_a_new_time() -> None:
    before = [{**condition("Ready", False, "Synced", "2 of 2", 3), "lastTransitionTime": "then"}]
    assert with_transition_times([READY], before, "now")[0]["lastTransitionTime"] == "now"


def test_conditions_are_matched_by_type() -> None:
    before = [{**condition("Other", True, "Synced", "2 of 2", 3), "lastTransitionTime": "then"}]
    assert with_transition_times([READY], before, "now")[0]["lastTransitionTime"] == "now"


def test_a_condition_without_a_transition_time_gets_one() -> None:
    assert with_transition_times([READY], [dict(READY)], "now")[0]["lastTransitionTime"] == "now"
