"""Near misses on the real server: one Warning on the object, no second one at rest, and its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.cli.program import samara_inside
from tests.cluster.support.definitions import defined
from tests.cluster.support.granting import granted
from tests.cluster.support.stage import HOME, TARGETS, USER, Stage
from tests.cluster.support.waiting import eventually
from tests.support.json_schema import check

from samara import crds
from samara.cli.deploy.rights import cluster_rules
from samara.settings import parse
from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
SYNC_TO = "openkruise.io/sync-to"
PROPAGATE = "accurate.cybozu.com/propagate"
PARENT = "accurate.cybozu.com/parent"
STRIP_LABELS = "replicator.v1.mittwald.de/strip-labels"
PAUSE = "samara.dev/pause"
"""A misspelt key."""
SERVED: Json = {
    "vocabularies": {
        "secret-copy": {},
        "sync-to": {"kinds": ["v1/Secret"]},
        "accurate": {"watches": [{"version": "v1", "kind": "Secret"}]},
    }
}
ALL_SERVED: Json = {
    "vocabularies": {**SERVED["vocabularies"], "replicator": {}, "resource-distribution": {}, "fishysecret": {}}
}
HURRIED = "import samara.engine.events as events; events.ABSENT_AFTER = 1.5; import runpy; runpy.run_module({})"
"""An operator that reports after 1.5 s that a listed namespace does not exist."""


class Missed(NamedTuple):
    """An object with a near miss."""

    resource: str
    namespace: str
    """Empty for an object outside of namespaces."""
    metadata: Json
    """The labels or annotations that have no effect."""
    message: str
    """A part of the message of the Event."""
    spec: Mapping[str, Json] = MappingProxyType({})

    @property
    def path(self) -> str:
        version, _ = KINDS[self.resource]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{root}/namespaces/{self.namespace}/{self.resource}" if self.namespace else f"{root}/{self.resource}"

    @property
    def key(self) -> str:
        ((key, _),) = next(iter(self.metadata.values())).items()
        return str(key)

    def manifest(self, name: str) -> Json:
        version, kind = KINDS[self.resource]
        where = {"namespace": self.namespace} if self.namespace else {}
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, **self.metadata}, **self.spec}


KINDS = {
    "namespaces": ("v1", "Namespace"),
    "secrets": ("v1", "Secret"),
    "configmaps": ("v1", "ConfigMap"),
    "fishysecrets": ("fishykeys.2v.pm/v1alpha1", "FishySecret"),
    "subnamespaces": ("accurate.cybozu.com/v2", "SubNamespace"),
    "resourcedistributions": ("apps.kruise.io/v1beta1", "ResourceDistribution"),
}
UNKNOWN_PAUSE = f"{PAUSE}: an unknown key; expected samara.dev/paused"
FISHY: Json = {"target": {"name": "x", "namespace": "shop"}, "data": [{"secretPath": "/a", "secretKeyName": "A"}]}
CONTENT: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}
TO_A: Json = {"includedNamespaces": {"list": [{"name": "a"}]}}
MISSES = {
    "secret-copy-namespace": Missed(
        "secrets", "shop", {"annotations": {TARGETS: "a"}}, "in namespace shop; expected namespace admin"
    ),
    "secret-copy-kind": Missed(
        "configmaps", HOME, {"annotations": {TARGETS: "a"}}, "on a ConfigMap; expected the kind Secret"
    ),
    "secret-copy-label": Missed("secrets", HOME, {"labels": {TARGETS: "a"}}, "a label; expected an annotation"),
    "secret-copy-key": Missed(
        "secrets", HOME, {"annotations": {f"{TARGETS}s": "a"}}, f"an unknown key; expected {TARGETS}"
    ),
    "secret-copy-prefix": Missed(
        "secrets", HOME, {"annotations": {"secretcopy/namespace": "a"}}, f"an unknown key; expected {TARGETS}"
    ),
    "sync-to-kind": Missed("configmaps", "shop", {"annotations": {SYNC_TO: "cluster"}}, "expected the kind Secret"),
    "sync-to-label": Missed("secrets", "shop", {"labels": {SYNC_TO: "cluster"}}, "a label; expected an annotation"),
    "sync-to-prefix": Missed(
        "secrets", "shop", {"annotations": {"openkruise.oi/sync-to": "cluster"}}, f"an unknown key; expected {SYNC_TO}"
    ),
    "sync-to-value": Missed("secrets", "shop", {"annotations": {f"{SYNC_TO}-namespaces": "a"}}, f"no {SYNC_TO}"),
    "accurate-kind": Missed("configmaps", "shop", {"annotations": {PROPAGATE: "update"}}, "expected the kind Secret"),
    "accurate-value": Missed(
        "secrets", "shop", {"annotations": {PROPAGATE: "always"}}, '\'always\'; expected "create" or "update"'
    ),
    "accurate-tree": Missed(
        "secrets", "shop", {"labels": {PARENT: "acme"}}, "on a Secret; expected the kind Namespace"
    ),
    "accurate-annotation": Missed(
        "namespaces", "", {"annotations": {PARENT: "shop"}}, "an annotation; expected a label"
    ),
    "replicator-value": Missed(
        "secrets", "shop", {"annotations": {STRIP_LABELS: "true"}}, "no request for copies; expected"
    ),
    "pause-value": Missed("secrets", "shop", {"annotations": {"samara.dev/paused": "yes"}}, "'yes'; expected"),
    "pause-of-namespace": Missed("namespaces", "", {"labels": {PAUSE: "true"}}, UNKNOWN_PAUSE),
    "pause-of-fishysecret": Missed(
        "fishysecrets", "shop", {"annotations": {PAUSE: "true"}}, UNKNOWN_PAUSE, {"spec": FISHY}
    ),
    "pause-of-subnamespace": Missed("subnamespaces", "acme", {"annotations": {PAUSE: "true"}}, UNKNOWN_PAUSE),
    "pause-of-distribution": Missed(
        "resourcedistributions",
        "",
        {"annotations": {PAUSE: "true"}},
        UNKNOWN_PAUSE,
        {"spec": {"resource": CONTENT, "targets": TO_A}},
    ),
}
"""By the name of the object."""


@pytest.fixture
def every_vocabulary(cluster: Devcluster) -> Iterator[None]:
    """The definitions of all custom resources, and exactly the rights that `samara rbac` prints."""
    rules = [rule.manifest() for rule in cluster_rules(parse(json.dumps(ALL_SERVED), "settings"))]
    with ExitStack() as stack:
        for name in crds.shipped():
            stack.enter_context(defined(cluster, crds.text(name)))
        stack.enter_context(granted(cluster, "near-misses", rules, USER))
        yield


def without(metadata: Json) -> Json:
    """The patch that removes these labels or annotations."""
    return {where: dict.fromkeys(keys) for where, keys in metadata.items()}


def warnings(stage: Stage) -> dict[str, list[int]]:
    """How often each Event about a near miss was said, by the name of the object."""
    said: dict[str, list[int]] = {}
    for namespace in ("default", "shop", "acme", HOME):
        for event in stage.events(namespace, "Invalid"):
            name = event["involvedObject"]["name"]
            if name in MISSES and MISSES[name].message in event["message"]:
                assert (event["type"], bool(event["involvedObject"]["uid"])) == ("Warning", True)
                said.setdefault(name, []).append(event["count"])
    return said


@pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only")
def test_every_near_miss_is_one_warning_that_is_not_repeated_and_ends_when_it_is_mended(
    every_vocabulary: None, stage: Stage
) -> None:
    stage.namespace("shop", "a")
    stage.ensure_home()
    stage.api.create(
        "/api/v1/namespaces", {"metadata": {"name": "acme", "labels": {"accurate.cybozu.com/type": "root"}}}
    )
    for name, missed in MISSES.items():
        stage.api.create(missed.path, missed.manifest(name))
    stage.operator(config=ALL_SERVED)
    once, twice = ({name: [count] for name in MISSES} for count in (1, 2))
    eventually(lambda: set(warnings(stage)) == set(MISSES))
    for name, missed in MISSES.items():
        stage.annotate(f"{missed.path}/{name}", {"note": "edited"})
    stage.until_seen()
    assert warnings(stage) == once
    for name, missed in MISSES.items():
        stage.api.patch(f"{missed.path}/{name}", {"metadata": without(missed.metadata)})
    stage.source("later", "a")
    stage.until_event("Copied", HOME, "later")  # sent with or after what the operator had to say of the changes
    assert warnings(stage) == once
    for name, missed in MISSES.items():
        stage.api.patch(f"{missed.path}/{name}", {"metadata": missed.metadata})
    eventually(lambda: warnings(stage) == twice)
    assert [
        copy for copy in stage.api.items("/api/v1/namespaces/a/secrets") if copy["metadata"]["name"] in MISSES
    ] == []
    settings = stage.folder / "settings.yaml"
    settings.write_text(json.dumps(ALL_SERVED))
    for namespace in dict.fromkeys(missed.namespace for missed in MISSES.values()):
        names = [name for name, missed in MISSES.items() if missed.namespace == namespace]
        assert asked_why(stage, settings, namespace, names) == {name: [MISSES[name].key] for name in names}
    manifests = "---\n".join(f"{json.dumps(missed.manifest(name))}\n" for name, missed in MISSES.items())
    found = samara_inside("lint", "-", f"--config={settings}", "-o", "json", stdin=manifests).json["findings"]
    assert sorted(finding["key"] for finding in found) == sorted(missed.key for missed in MISSES.values())
    for name, missed in MISSES.items():
        stage.api.patch(f"{missed.path}/{name}", {"metadata": without(missed.metadata)})


def asked_why(stage: Stage, settings: Path, namespace: str, names: list[str]) -> dict[str, list[str]]:
    """The keys of the near misses that `samara why` finds on these objects of one namespace."""
    objects = (f"{MISSES[name].resource}/{name}" for name in names)
    flags = (f"--kubeconfig={stage.kubeconfig()}", f"--config={settings}", "-n", namespace or "default")
    done = samara_inside("why", *objects, *flags, "-o", "json")
    assert done.code == 0, done.err
    answers = done.json.get("items", [done.json])
    return {answer["object"]["name"]: [miss["key"] for miss in answer["nearMisses"]] for answer in answers}


ASKED = {SYNC_TO: "cluster", "samara.dev/paused": "true"}
"""What people add to a copy."""


def count(stage: Stage, namespace: str) -> list[int]:
    """How often each Event about the object `own` was said."""
    return [event["count"] for event in stage.events(namespace, "Invalid", "own")]


def test_a_request_and_a_pause_of_a_copy_are_one_warning_on_the_copy_which_stays_as_it_is(stage: Stage) -> None:
    stage.namespace("shop", "team")
    stage.source("own", "shop")
    stage.operator(config=SERVED)
    stage.until_copied("own", "shop")
    stage.annotate(stage.path("shop", "own"), ASKED)
    message = stage.until_event("Invalid", "shop", "own")["message"]
    assert f"{SYNC_TO}: on a copy" in message
    assert "samara.dev/paused: on a copy" in message
    stage.until_seen()
    assert count(stage, "shop") == [1]
    assert stage.secret("team", "own") is None
    assert stage.has_copy("shop", "own")
    why = samara_inside("why", "secret/own", f"--kubeconfig={stage.kubeconfig()}", "-n", "shop", "-o", "json").json
    assert {miss["key"]: miss["found"] for miss in why["nearMisses"]} == dict.fromkeys(ASKED, "on a copy")
    stage.annotate(stage.path("shop", "own"), dict.fromkeys(ASKED))


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
