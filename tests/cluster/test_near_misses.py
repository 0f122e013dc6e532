"""Near misses on the real server: one Warning on the object, no second one at rest, and its end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.program import samara_inside
from tests.cluster.support.stage import HOME, TARGETS, Stage
from tests.cluster.support.waiting import eventually
from tests.support.json_schema import check

Json = dict[str, Any]
SYNC_TO = "openkruise.io/sync-to"
PROPAGATE = "accurate.cybozu.com/propagate"
SERVED: Json = {
    "vocabularies": {
        "secret-copy": {},
        "sync-to": {"kinds": ["v1/Secret"]},
        "accurate": {"watches": [{"version": "v1", "kind": "Secret"}]},
    }
}
MISSES = [
    ("shop", {"annotations": {TARGETS: "a"}}, "in namespace shop; expected namespace admin"),
    (HOME, {"labels": {TARGETS: "a"}}, "a label; expected an annotation"),
    (HOME, {"annotations": {f"{TARGETS}s": "a"}}, f"an unknown key; expected {TARGETS}"),
    ("shop", {"annotations": {PROPAGATE: "always"}}, '\'always\'; expected "create" or "update"'),
]
HURRIED = "import samara.engine.events as events; events.ABSENT_AFTER = 1.5; import runpy; runpy.run_module({})"
"""An operator that reports after 1.5 s that a listed namespace does not exist."""


def without(metadata: Json) -> Json:
    """The patch that removes these labels or annotations."""
    return {where: dict.fromkeys(keys) for where, keys in metadata.items()}


def count(stage: Stage, namespace: str, reason: str = "Invalid") -> list[int]:
    """How often each Event about the object was said."""
    return [event["count"] for event in stage.events(namespace, reason, "own")]


@pytest.mark.parametrize(("namespace", "metadata", "message"), MISSES, ids=["namespace", "label", "key", "value"])
def test_a_near_miss_is_one_warning_that_is_not_repeated_and_ends_when_it_is_mended(
    stage: Stage, namespace: str, metadata: Json, message: str
) -> None:
    stage.namespace("shop", "a")
    stage.ensure_home()
    stage.foreign(namespace, "own", metadata=metadata)
    stage.operator(config=SERVED)
    event = stage.until_event("Invalid", namespace, "own")
    assert (event["type"], message in event["message"]) == ("Warning", True), event["message"]
    assert event["involvedObject"]["uid"] == stage.api.get(stage.path(namespace, "own"))["metadata"]["uid"]
    stage.annotate(stage.path(namespace, "own"), {"note": "edited"})
    stage.until_seen()
    assert count(stage, namespace) == [1]
    stage.api.patch(stage.path(namespace, "own"), {"metadata": without(metadata)})
    stage.source("later", "a")
    stage.until_event("Copied", HOME, "later")  # sent with or after what the operator had to say of the change
    assert count(stage, namespace) == [1]
    stage.api.patch(stage.path(namespace, "own"), {"metadata": metadata})
    eventually(lambda: count(stage, namespace) == [2])
    assert stage.secret("a", "own") is None


def test_a_request_on_a_copy_is_one_warning_on_the_copy_which_stays_as_it_is(stage: Stage) -> None:
    stage.namespace("shop", "team")
    stage.source("own", "shop")
    stage.operator(config=SERVED)
    stage.until_copied("own", "shop")
    stage.annotate(stage.path("shop", "own"), {SYNC_TO: "cluster"})
    assert "on a copy" in stage.until_event("Invalid", "shop", "own")["message"]
    stage.until_seen()
    assert count(stage, "shop") == [1]
    assert stage.secret("team", "own") is None
    assert stage.has_copy("shop", "own")
    stage.annotate(stage.path("shop", "own"), {SYNC_TO: None})


def test_a_listed_namespace_that_does_not_exist_is_one_warning_until_it_exists(stage: Stage) -> None:
    stage.namespace("shop")
    stage.source("own", "shop,shpo")
    operator = stage.operator(program=("-c", HURRIED.format("'samara.cli.main', run_name='__main__'")))
    stage.until_copied("own", "shop")
    event = stage.until_event("Invalid", HOME, "own")
    assert event["type"] == "Warning"
    assert "no copies in 1 namespace: shpo; no such namespace exists" in event["message"]
    stage.bump("own")
    stage.until_seen()
    assert count(stage, HOME) == [1]
    stage.namespace("shpo")
    stage.until_copied("own", "shpo")
    stage.retarget("own", "shop,shpo,nowhere")
    eventually(lambda: "nowhere" in stage.events(HOME, "Invalid", "own")[0]["message"])
    assert count(stage, HOME) == [2]
    assert operator.running
    stage.retarget("own", "shop,shpo")
    stage.until_seen()


def test_why_answers_what_has_no_effect_on_an_object_and_what_was_meant(stage: Stage) -> None:
    stage.namespace("shop")
    stage.ensure_home()
    stage.foreign("shop", "own", metadata={"annotations": {TARGETS: "a"}, "labels": {"samara.dev/pause": "true"}})
    flags = (f"--kubeconfig={stage.kubeconfig()}", "-n", "shop")
    answer = samara_inside("why", "secret/own", *flags, "-o", "json").json
    assert [(miss["where"], miss["key"], miss["found"]) for miss in answer["nearMisses"]] == [
        ("labels", "samara.dev/pause", "an unknown key"),
        ("annotations", TARGETS, "in namespace shop"),
    ]
    check("why", answer)
    text = samara_inside("why", "secret/own", *flags).out
    assert f"without effect: annotation {TARGETS}" in text
    assert "expected: namespace admin, the home namespace" in text
    stage.foreign("shop", "other")
    assert "nearMisses" not in samara_inside("why", "secret/other", *flags, "-o", "json").json
