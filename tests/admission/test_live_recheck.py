"""Tests the live reads between a vocabulary's refusal and the answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.admission.scene import (
    ABOVE,
    NAMESPACES,
    Scene,
    a_review,
    a_source_type,
    admitting,
    an_object,
    forbidden,
    on_scene,
    spaces,
)
from tests.kube.scripted import refuses, says
from tests.support.samples import a_namespace

from samara.admission.admission import AdmissionDeps
from samara.admission.live_recheck import ROUNDS, Validator
from samara.admission.review import guarded_kinds, read_review
from samara.core.admission import Request
from samara.core.metadata_keys import ACCEPT
from samara.core.model import NAMESPACE, SECRET, Ref, namespace_ref
from samara.core.queries import DryRunCreate, Rejected
from samara.core.registry import Registry
from samara.core.view import View
from samara.kube.cache import Cache
from samara.kube.errors import ServerFault

TRIALS = "/api/v1/namespaces/samara/secrets"


async def judged(deps: AdmissionDeps, sent: Any, **more: Any) -> tuple[str, ...]:
    review = read_review(json.dumps(a_review(sent, **more)).encode(), guarded_kinds(deps.registry), deps.codec)
    assert review.request is not None
    assert review.guarded is not None
    validator = Validator(deps.view, deps.client, deps.codec, deps.namespace)
    return await validator.faults(review.request, review.guarded.admissions)


def cached(deps: AdmissionDeps, *names: str, **labels: str) -> Cache:
    cache = deps.view
    assert isinstance(cache, Cache)
    for name in names:
        cache.put(replace(a_namespace(name), labels=labels))
    return cache


def exists(scene: Scene, name: str, **labels: str) -> None:
    scene.cluster.write(f"{NAMESPACES}/{name}", {"metadata": {"name": name, "labels": labels}})


def reads(scene: Scene) -> list[str]:
    return [request.path for request in scene.script.seen if request.method == "GET"]


def test_an_allowed_request_reads_nothing_live() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps()
        cached(deps, "twin")
        assert await judged(deps, an_object(twin="twin", word="good")) == ()
        assert scene.script.seen == []

    on_scene(scenario)


def test_a_stale_cache_does_not_refuse_a_request() -> None:
    async def scenario(scene: Scene) -> None:
        exists(scene, "twin")
        assert await judged(await scene.deps(), an_object(twin="twin")) == ()
        assert reads(scene) == [f"{NAMESPACES}/twin"]

    on_scene(scenario)


def test_a_refusal_stands_if_the_api_server_confirms_it() -> None:
    async def scenario(scene: Scene) -> None:
        assert await judged(await scene.deps(), an_object(twin="twin")) == ("there is no namespace 'twin'.",)
        assert reads(scene) == [f"{NAMESPACES}/twin"]

    on_scene(scenario)


def test_faults_of_all_source_types_are_merged_without_duplicates() -> None:
    async def scenario(scene: Scene) -> None:
        faults = await judged(await scene.deps(), an_object(twin="twin", word="bad good bad worse badly"))
        assert faults == ("toys.dev/word says 'bad'", "toys.dev/word says 'badly'", "there is no namespace 'twin'.")

    on_scene(scenario)


def test_the_cached_object_decides_if_reading_is_forbidden() -> None:
    async def scenario(scene: Scene) -> None:
        scene.cluster.broken = forbidden()
        deps = await scene.deps()
        assert await judged(deps, an_object(twin="twin")) == ("there is no namespace 'twin'.",)
        cached(deps, "other")
        assert await judged(deps, an_object(twin="other", word="bad")) == ("toys.dev/word says 'bad'",)

    on_scene(scenario)


def test_an_unreachable_api_server_raises_and_does_not_refuse() -> None:
    async def scenario(scene: Scene) -> None:
        scene.cluster.broken = refuses(500)
        with pytest.raises(ServerFault):
            await judged(await scene.deps(), an_object(twin="twin"))

    on_scene(scenario)


def test_a_list_contains_objects_that_were_read_live() -> None:
    def crowded(request: Request, view: View) -> tuple[str, ...]:
        view.get(namespace_ref("gone")), view.get(namespace_ref("new"))
        names = sorted(obj.ref.name for obj in view.objects_of(NAMESPACE))
        assert names == sorted(view.namespaces())
        return (" ".join(names),)

    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((a_source_type("crowded", crowded, SECRET),)))
        cached(deps, "gone", "stays")
        exists(scene, "new")
        assert await judged(deps, an_object()) == ("new stays",)

    on_scene(scenario)


def test_objects_looked_up_in_later_rounds_are_read_too_within_a_limit() -> None:
    def endless(request: Request, view: View) -> tuple[str, ...]:
        number = 0
        while view.get(namespace_ref(f"n{number}")) is not None:
            number += 1
        return (f"n{number} is missing",)

    async def scenario(scene: Scene) -> None:
        for number in range(9):
            exists(scene, f"n{number}")
        faults = await judged(await scene.deps(Registry((a_source_type("endless", endless, SECRET),))), an_object())
        assert faults == (f"n{ROUNDS} is missing",)

    on_scene(scenario)


# namespaces by their labels

BELOW = {ABOVE: "top"}
TOP = {"old": {"metadata": {"name": "top"}}, "kind": NAMESPACE, "name": "top"}


def test_a_child_namespace_that_only_the_cache_has_does_not_refuse() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((spaces(),)))
        cached(deps, "moved", "gone", **BELOW)
        exists(scene, "moved", **{ABOVE: "elsewhere"})
        assert await judged(deps, None, **TOP) == ()
        (request,) = scene.script.seen
        assert (request.path, request.query) == (NAMESPACES, {"labelSelector": f"{ABOVE}=top", "limit": "2"})

    on_scene(scenario)


def test_child_namespaces_of_the_api_server_refuse_and_are_named() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((spaces(),)))
        cached(deps, "gone", "stays", **BELOW)
        exists(scene, "stays", **BELOW)
        exists(scene, "new", **BELOW)
        assert await judged(deps, None, **TOP) == ("below it are new, stays",)
        assert reads(scene) == [NAMESPACES]

    on_scene(scenario)


def test_only_as_many_child_namespaces_are_read_as_a_refusal_needs() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((spaces(),)))
        cached(deps, "below", **BELOW)
        for number in range(1000):
            exists(scene, f"n{number:03}", **BELOW)
        assert await judged(deps, None, **TOP) == ("below it are n000, n001",)

    on_scene(scenario)


def test_without_cached_children_nothing_is_read() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((spaces(),)))
        cached(deps, "other", **{ABOVE: "elsewhere"})
        assert await judged(deps, None, **TOP) == ()
        assert scene.script.seen == []

    on_scene(scenario)


def test_the_cache_decides_about_labels_if_listing_is_forbidden() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((spaces(),)))
        cached(deps, "below", **BELOW)
        scene.cluster.broken = forbidden()
        assert await judged(deps, None, **TOP) == ("below it are below",)

    on_scene(scenario)


def test_a_failed_list_raises_and_does_not_refuse() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((spaces(),)))
        cached(deps, "below", **BELOW)
        scene.cluster.broken = refuses(500)
        with pytest.raises(ServerFault):
            await judged(deps, None, **TOP)

    on_scene(scenario)


def test_a_namespace_read_by_name_counts_for_its_labels_too() -> None:
    def crowded(request: Request, view: View) -> tuple[str, ...]:
        view.get(namespace_ref("moved")), view.get(namespace_ref("new"))
        return (" ".join(sorted(namespace.ref.name for namespace in view.namespaces_with_label(ABOVE, "top"))),)

    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((admitting(spaces(), validate=crowded),)))
        cached(deps, "moved", "stays", **BELOW)
        exists(scene, "moved", **{ABOVE: "elsewhere"})
        exists(scene, "new", **BELOW)
        scene.cluster.odd["GET", NAMESPACES] = forbidden()
        assert await judged(deps, None, **TOP) == ("new stays",)

    on_scene(scenario)


def test_an_impossible_label_value_is_not_listed() -> None:
    def odd(request: Request, view: View) -> tuple[str, ...]:
        return "always", *(namespace.ref.name for namespace in view.namespaces_with_label(ABOVE, "not a value"))

    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((admitting(spaces(), validate=odd),)))
        assert await judged(deps, None, **TOP) == ("always",)
        assert scene.script.seen == []

    on_scene(scenario)


def test_a_source_type_judges_only_its_own_operations() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((admitting(spaces(), operations=("CREATE",)),)))
        cached(deps, "below", **BELOW)
        exists(scene, "below", **BELOW)
        assert await judged(deps, None, **TOP) == ()

    on_scene(scenario)


# trials


def test_a_dry_run_is_performed_and_stores_nothing() -> None:
    async def scenario(scene: Scene) -> None:
        scene.cluster.odd["POST", TRIALS] = says(an_object())
        assert await judged(await scene.deps(), an_object(trial='{"data":{}}')) == ()
        (sent,) = scene.script.seen
        assert (sent.method, sent.path, sent.query["dryRun"]) == ("POST", TRIALS, "All")
        assert sent.json["metadata"] == {"generateName": "samara-trial-", "namespace": "samara"}

    on_scene(scenario)


def test_a_source_type_judges_again_after_its_dry_run() -> None:
    def patient(request: Request, view: View) -> tuple[str, ...]:
        result = view.answer(DryRunCreate(SECRET, b"{}"))
        return (result.message,) if isinstance(result, Rejected) else ()

    async def scenario(scene: Scene) -> None:
        scene.cluster.odd["POST", TRIALS] = refuses(422, "Invalid", "not like this")
        (fault,) = await judged(await scene.deps(Registry((a_source_type("patient", patient, SECRET),))), an_object())
        assert "not like this" in fault

    on_scene(scenario)


def test_a_rejected_dry_run_refuses_with_the_api_servers_reason_and_no_value() -> None:
    async def scenario(scene: Scene) -> None:
        message = 'data[a b]: Invalid value: "hunter2": not a valid key'
        scene.cluster.odd["POST", TRIALS] = refuses(422, "Invalid", message)
        (fault,) = await judged(await scene.deps(), an_object(trial="{}"))
        assert "not a valid key" in fault
        assert "hunter2" not in fault
        assert len(scene.script.seen) == 1

    on_scene(scenario)


@pytest.mark.parametrize(
    ("status", "reason", "message", "is_about_object"),
    [
        (422, "Invalid", "data: not like this", True),
        (403, "Forbidden", "exceeded quota: gold", False),
        (422, "Invalid", 'ValidatingAdmissionPolicy "gold" denied request: no', False),
        (400, "BadRequest", 'admission webhook "gold" denied the request: no', False),
    ],
)
def test_a_rejection_says_whether_it_is_about_the_object_alone(
    status: int, reason: str, message: str, is_about_object: bool
) -> None:
    answers: list[object] = []

    def notes(request: Request, view: View) -> tuple[str, ...]:
        answers.append(view.answer(DryRunCreate(SECRET, b"{}")))
        return ()

    async def scenario(scene: Scene) -> None:
        scene.cluster.odd["POST", TRIALS] = refuses(status, reason, message)
        await judged(await scene.deps(Registry((a_source_type("notes", notes, SECRET),))), an_object())

    on_scene(scenario)
    rejected = answers[-1]
    assert isinstance(rejected, Rejected)
    assert rejected.is_about_object == is_about_object


def test_other_tasks_run_between_two_reviews_that_arrive_together() -> None:
    turn, judged_at = 0, list[int]()

    def slow(request: Request, view: View) -> tuple[str, ...]:
        judged_at.append(turn)
        return ()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((a_source_type("slow", slow, SECRET),)))
        review = read_review(json.dumps(a_review(an_object())).encode(), guarded_kinds(deps.registry), deps.codec)
        assert review.request is not None
        assert review.guarded is not None
        validator = Validator(deps.view, deps.client, deps.codec, deps.namespace)
        counting = asyncio.create_task(count_turns())
        await asyncio.gather(*(validator.faults(review.request, review.guarded.admissions) for _ in range(10)))
        counting.cancel()

    on_scene(scenario)
    assert len(set(judged_at)) == len(judged_at) == 10


def test_a_dry_run_that_failed_before_is_repeated_before_a_refusal() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps()
        cached(deps).answers.keep(DryRunCreate(SECRET, b"{}"), Rejected("quota exceeded"))
        scene.cluster.odd["POST", TRIALS] = says(an_object())
        assert await judged(deps, an_object(trial="{}")) == ()

    on_scene(scenario)


def test_a_dry_run_that_succeeded_before_is_not_repeated() -> None:
    async def scenario(scene: Scene) -> None:
        deps = await scene.deps()
        cached(deps).answers.keep(DryRunCreate(SECRET, b"{}"), deps.codec.content({}))
        assert await judged(deps, an_object(trial="{}")) == ()
        assert scene.script.seen == []

    on_scene(scenario)


def test_a_dry_run_without_an_answer_raises_and_does_not_refuse() -> None:
    async def scenario(scene: Scene) -> None:
        scene.cluster.broken = refuses(503)
        with pytest.raises(ServerFault):
            await judged(await scene.deps(), an_object(trial="{}"))

    on_scene(scenario)


# names that are trusted


def test_trust_that_only_the_cache_has_does_not_refuse() -> None:
    def untrusted(request: Request, view: View) -> tuple[str, ...]:
        trusts = (trust for trust in view.trust_in("payments") if isinstance(trust.by, Ref))
        return tuple(str(trust.by) for trust in trusts if isinstance(trust.by, Ref) and trust.holds(view.get(trust.by)))

    async def scenario(scene: Scene) -> None:
        deps = await scene.deps(Registry((a_source_type("trust", untrusted, SECRET),)))
        cache = cached(deps)
        for name in ("withdrew", "accepts", "silent"):
            cache.put(replace(a_namespace(name), annotations={ACCEPT: "payments"} if name != "silent" else {}))
        scene.cluster.write(f"{NAMESPACES}/withdrew", {"metadata": {"name": "withdrew"}})
        meta = {"name": "accepts", "annotations": {ACCEPT: "payments"}}
        scene.cluster.write(f"{NAMESPACES}/accepts", {"metadata": meta})
        assert await judged(deps, an_object()) == ("Namespace accepts",)
        assert sorted(reads(scene)) == [f"{NAMESPACES}/accepts", f"{NAMESPACES}/withdrew"]

    on_scene(scenario)
