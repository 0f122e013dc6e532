"""A takeover from the original: its objects are in sync, and all later changes are served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.originals import installed
from tests.cluster.support.stage import Stage, encoded
from tests.cluster.support.trees import (
    APPLY,
    CREATED_BY,
    FINALIZER,
    FROM,
    GROUP,
    ORIGINAL,
    PARENT,
    PROPAGATE,
    SETTLED,
    SPACES,
    TEMPLATE,
    TYPE,
    Trees,
    content,
)
from tests.cluster.support.waiting import eventually, never

pytestmark = pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs")

Json = dict[str, Any]
TREE = ("root", "web", "deep")


class Original:
    """Writes as the original does: plain creates under its program's name, later changes by forced applies."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self.api = trees.api.as_agent(f"{ORIGINAL}/v0.0.0 (linux/amd64)")

    def make(self, name: str, parent: str) -> None:
        """A namespace for a SubNamespace."""
        labels = {CREATED_BY: "accurate", PARENT: parent}
        self.api.create(SPACES, {"metadata": {"name": name, "labels": labels}})

    def apply_inherited(self, name: str, labels: Json, annotations: Json | None = None) -> None:
        """The inherited labels and annotations of a namespace."""
        meta = {"name": name, "labels": labels, "annotations": annotations or {}}
        self._apply(f"{SPACES}/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})

    def report(self, name: str, holder: str, status: Json) -> None:
        body = {"apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": {"name": name}}
        self._apply(f"{self.trees.path('subnamespaces', holder, name)}/status", {**body, "status": status})

    def copy(self, name: str, above: str, below: str, plural: str = "secrets") -> None:
        """The first copy."""
        self.api.create(self.trees.path(plural, below), self._copied(name, above, plural))

    def copy_again(self, name: str, above: str, below: str, plural: str = "secrets") -> None:
        """The copy after a change of its source."""
        self._apply(self.trees.path(plural, below, name), self._copied(name, above, plural))

    def _copied(self, name: str, above: str, plural: str) -> Json:
        source = self.trees.get(plural, above, name) or {}
        kept = {
            where: {key: value for key, value in metadata_of(source, where).items() if "kubernetes.io/" not in key}
            for where in ("labels", "annotations")
        }
        meta = {
            "name": name,
            "labels": {**kept["labels"], CREATED_BY: "accurate"},
            "annotations": {**kept["annotations"], FROM: above},
        }
        head = {"apiVersion": source["apiVersion"], "kind": source["kind"]}
        return {**head, "metadata": meta, **content(source)}

    def _apply(self, path: str, body: Json) -> None:
        self.api.request("PATCH", path, body, query={"fieldManager": ORIGINAL, "force": "true"}, content_type=APPLY)


READY = ["patch subnamespaces/status root/web", "patch subnamespaces/status web/deep"]
"""The original reports no condition on a SubNamespace in sync."""


@pytest.fixture
def original(trees: Trees) -> Iterator[Original]:
    made = Original(trees)
    yield made
    made.api.close()


@pytest.fixture
def settled(trees: Trees, original: Original) -> None:
    """A tree, a template and their objects, as the original leaves them."""
    trees.space("root", {TYPE: "root", "team": "a"}, {"note": "hi"})
    for above, name in (("root", "web"), ("web", "deep")):
        trees.ask(name, above, finalizers=[FINALIZER], labels={"app": name})
        original.make(name, above)
        inherited = {CREATED_BY: "accurate", PARENT: above, "team": "a", "app": name}
        original.apply_inherited(name, inherited, {"note": "hi"})
        original.report(name, above, {"observedGeneration": 1})
    trees.space("gold", {TYPE: "template", "team": "g"})
    trees.space("inst", {TEMPLATE: "gold"})
    original.apply_inherited("inst", {"team": "g"})
    trees.put("root", "db", labels={"l": "1", "app.kubernetes.io/name": "x"}, data=encoded({"k": "1", "old": "1"}))
    trees.put("root", "seed", "create")
    trees.put("root", "settings", plural="configmaps")
    trees.put("gold", "db")
    for above, below in (("root", "web"), ("web", "deep"), ("gold", "inst")):
        original.copy("db", above, below)
    for above, below in (("root", "web"), ("web", "deep")):
        original.copy("seed", above, below)
        original.copy("settings", above, below, "configmaps")
    trees.edit("root", "settings", {"data": {"k": "2"}}, "configmaps")
    for above, below in (("root", "web"), ("web", "deep")):
        original.copy_again("settings", above, below, "configmaps")


@pytest.mark.usefixtures("settled")
def test_taking_over_writes_nothing_and_then_removals_reach_every_depth(trees: Trees) -> None:
    managers = {entry["manager"] for entry in (trees.get("secrets", "deep", "db") or {})["metadata"]["managedFields"]}
    assert managers == {ORIGINAL}
    trees.serve(massDelete=None)
    never(lambda: trees.sent(), SETTLED)
    trees.label("root", {"team": None})
    trees.note("root", {"note": None})
    for name, above in (("web", "root"), ("deep", "web")):
        wanted = {CREATED_BY: "accurate", PARENT: above, "app": name}
        eventually(lambda name=name, now=wanted: trees.labels(name) == now)  # type: ignore[misc]
    eventually(lambda: metadata_of(trees.there("deep") or {}) == {})
    trees.edit("root", "db", {"data": {"old": None}, "metadata": {"labels": {"l": None}}})
    trees.until_copied("db", *TREE)
    live = trees.get("secrets", "deep", "db") or {}
    assert (live["data"], metadata_of(live, "labels")) == (encoded({"k": "1"}), {CREATED_BY: "accurate"})
    trees.edit("root", "settings", {"data": {"k": None, "new": "1"}}, "configmaps")
    trees.until_copied("settings", *TREE, plural="configmaps")
    trees.label("gold", {"team": None})
    eventually(lambda: trees.labels("inst") == {TEMPLATE: "gold"})
    for name in ("db", "seed"):
        trees.api.delete(trees.path("secrets", "root", name))
    trees.until_gone("db", "web", "deep")
    assert all(trees.get("secrets", name, "seed") for name in ("web", "deep"))


@pytest.mark.usefixtures("settled")
def test_the_takeover_removes_a_key_that_the_original_left_on_copies(trees: Trees) -> None:
    trees.edit("root", "db", {"data": {"old": None}})
    trees.serve()
    trees.until_copied("db", *TREE)
    assert trees.data("deep", "db") == {"k": "1"}
    assert trees.sent() == ["update secrets deep/db", "update secrets web/db"]


def test_copies_of_the_original_in_a_cut_namespace_are_deleted_and_a_pasted_one_stays_and_is_listed(
    trees: Trees, original: Original
) -> None:
    trees.root()
    trees.hang("web", "root")
    trees.put("root", "db")
    original.copy("db", "root", "web")
    trees.space("plain")
    original.copy("db", "root", "plain")
    meta = {"name": "pasted", "annotations": {PROPAGATE: "update", FROM: "root"}}
    trees.stage.foreign("plain", "pasted", metadata=meta)
    trees.not_ours.add(("plain", "pasted"))
    trees.label("web", {PARENT: None})
    trees.serve()
    trees.until_gone("db", "web", "plain")
    never(lambda: trees.get("secrets", "plain", "pasted") is None, SETTLED)
    (orphan,) = trees.samara("orphans", f"--config={trees.settings()}", "-o", "json").json["orphans"]
    assert (orphan["namespace"], orphan["name"], orphan["origin"], orphan["ours"]) == (
        "plain",
        "pasted",
        "root/pasted",
        False,
    )


def test_a_conflict_and_a_moved_sub_namespace_stay_as_the_original_left_them(trees: Trees, original: Original) -> None:
    trees.root()
    trees.root("other")
    trees.hang("web", "other")
    original.apply_inherited("web", {CREATED_BY: "accurate", PARENT: "other"})
    trees.ask("web", "root", finalizers=[FINALIZER])
    stalled = {
        "type": "Stalled",
        "status": "True",
        "reason": "Conflict",
        "message": "Conflicting namespace already exists",
        "observedGeneration": 1,
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }
    original.report("web", "root", {"observedGeneration": 1, "conditions": [stalled]})
    trees.serve()
    never(lambda: trees.sent(), SETTLED)
    assert trees.status("web", "root")["conditions"] == [stalled]


def a_held_lease(stage: Stage, namespace: str) -> None:
    """A Lease as the original holds it. Most users may write one in their namespaces."""
    lease = {
        "metadata": {"name": "accurate"},
        "spec": {
            "holderIdentity": "accurate-0",
            "leaseDurationSeconds": 15,
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        },
    }
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    stage.api.create(leases, lease)
    stage.also_remove(f"{leases}/accurate")


def test_while_the_original_runs_the_vocabulary_waits_unless_takeover_is_set(trees: Trees, stage: Stage) -> None:
    trees.root(team="a")
    trees.hang("web", "root")
    a_held_lease(stage, "admin")
    with installed(stage, "admin", GROUP, "subnamespaces"):
        operator = trees.serve()
        assert "original running" in json.loads(operator.answer("/readyz")[1])["waiting"]["accurate"]
        never(lambda: trees.sent(), SETTLED)
        operator.stop()
        trees.serve(accurate={"takeover": True})
        eventually(lambda: trees.labels("web").get("team") == "a")


def test_a_lease_that_anybody_can_write_makes_no_vocabulary_wait(trees: Trees, stage: Stage) -> None:
    trees.root(team="a")
    trees.hang("web", "root")
    a_held_lease(stage, "web")
    stage.api.create("/api/v1/namespaces/web/serviceaccounts", {"metadata": {"name": "mine"}})
    operator = trees.serve()
    eventually(lambda: trees.labels("web").get("team") == "a")
    assert "accurate" not in json.loads(operator.answer("/readyz")[1])["waiting"]
    assert "original.not-believed" in operator.log


@pytest.mark.parametrize("managers", [[], ["another-controller"]])
def test_with_any_managers_setting_our_overlays_are_recognised_and_our_namespaces_deleted(
    trees: Trees, managers: list[str]
) -> None:
    trees.root("root", team="a")
    operator = trees.serve(accurate={"managers": managers})
    trees.ask("web", "root")
    eventually(lambda: trees.labels("web").get("team") == "a")
    trees.until_well("web", "root")
    operator.stop()
    mark = trees.stage.audit.mark()
    trees.serve(accurate={"managers": managers})
    assert trees.writes(mark) == []
    trees.api.delete(trees.path("subnamespaces", "root", "web"))
    eventually(lambda: trees.api.find(f"{SPACES}/web") is None, 30.0)
