"""Inherited labels that another tool keeps changing."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.audit import Event
from tests.cluster.support.trees import SPACES, Trees
from tests.cluster.support.waiting import eventually, never

pytestmark = pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs")

Json = dict[str, Any]
REVERSALS = 5
MISSED = 1
"""A change that arrives before the response to our write counts as the event of that write."""
NEW_VALUE = 2
"""A new value is reported at once and reverted once more."""


class Tool(threading.Thread):
    """Keeps setting a label of one namespace to another value, or removing it."""

    def __init__(self, trees: Trees, namespace: str, wanted: str | None) -> None:
        super().__init__(daemon=True)
        self._api = trees.api.as_agent("other-tool/1")
        self._path = f"{SPACES}/{namespace}"
        self._wanted = wanted
        self._over = threading.Event()
        self.edits = 0

    def run(self) -> None:
        patch = {"metadata": {"labels": {"team": self._wanted}}}
        while not self._over.wait(0.02):
            if (self._api.get(self._path)["metadata"].get("labels") or {}).get("team") != self._wanted:
                with contextlib.suppress(ApiFault):
                    self._api.patch(self._path, patch, fieldManager="other-tool")
                    self.edits += 1
        self._api.close()

    def __enter__(self) -> Tool:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.join(10)


@pytest.fixture
def child(trees: Trees) -> str:
    """A namespace that inherits `team: red`."""
    trees.root("root", team="red")
    trees.hang("child", "root")
    trees.hang("other", "root")
    return "child"


def overlays(trees: Trees, namespace: str, mark: int) -> list[Event]:
    return [
        event
        for event in trees.writes(mark)
        if (event.resource, event.verb, event.name, event.code) == ("namespaces", "patch", namespace, 200)
    ]


def is_of_an_earlier_second(trees: Trees, namespace: str) -> bool:
    """managedFields have times in whole seconds, so writers within one second are indistinguishable."""
    made: str = trees.api.get(f"{SPACES}/{namespace}")["metadata"]["creationTimestamp"]
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") > made


@pytest.mark.forest_off(reason="the other tool has the last word in this namespace")
@pytest.mark.parametrize("wanted", ["blue", None], ids=["another value", "no label"])
def test_a_label_that_another_tool_keeps_reverting_is_given_up_and_reported_without_a_hot_loop(
    trees: Trees, child: str, wanted: str | None
) -> None:
    operator = trees.serve()
    eventually(lambda: trees.labels("child").get("team") == "red")
    eventually(lambda: is_of_an_earlier_second(trees, "child"))
    mark = trees.stage.audit.mark()
    with Tool(trees, child, wanted) as tool:
        event = trees.stage.until_event("Fought", "default", about="child")
        who = "other-tool" if wanted else "another client"  # managedFields do not record who removed a field
        assert f"{who} keeps changing the inherited labels and annotations" in event["message"]
        assert event["involvedObject"]["kind"] == "Namespace"
        assert event["type"] == "Warning"
        assert len(overlays(trees, child, mark)) >= REVERSALS
        never(lambda: len(overlays(trees, child, mark)) > REVERSALS + MISSED, 2.0)
        assert tool.edits <= REVERSALS + MISSED + 1
        given_up = trees.stage.audit.mark()
        trees.label("root", {"team": "green"})
        eventually(lambda: trees.labels("other").get("team") == "green")
        eventually(lambda: len(overlays(trees, child, given_up)) in (NEW_VALUE, NEW_VALUE + MISSED))
        eventually(lambda: trees.labels("child").get("team") == wanted)
        assert operator.running


def test_a_label_changed_once_is_restored_and_reported_with_an_event(trees: Trees, child: str) -> None:
    trees.serve()
    eventually(lambda: trees.labels(child).get("team") == "red")
    mark = trees.stage.audit.mark()
    trees.label(child, {"team": "blue"})
    eventually(lambda: trees.labels(child).get("team") == "red")
    event = trees.stage.until_event("Updated", "default", about=child)
    assert "the inherited labels and annotations were restored" in event["message"]
    assert len(overlays(trees, child, mark)) == 1
    assert not trees.stage.events("default", "Fought")
