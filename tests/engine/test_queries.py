"""Queries that the fetcher answers: dry runs, definitions, namespaces, absent objects and owners."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from tests.kube.scripted import Answer, Seen, access, cuts, refuses, says, serving
from tests.support.samples import a_cache, a_key
from tests.support.world import at

from samara.core.model import SECRET, Content, Key, Kind, OwnerReference
from samara.core.queries import (
    UNREAD,
    CrdExists,
    DryRunCreate,
    IsGone,
    NamespaceIsActive,
    OwnerAnnotation,
    Query,
    Rejected,
)
from samara.engine.fetcher import Fetcher
from samara.engine.messages import Fetched
from samara.kube.client import OUR_WRITES, Client, unrestricted
from samara.kube.codec import Codec, encode

QUEUE = Kind("toys.dev", "v1", "Queue", "queues")
TRIAL = DryRunCreate(
    QUEUE, b'{"apiVersion":"toys.dev/v1","kind":"Queue","metadata":{"labels":{"l":"1"}},"spec":{"depth":1}}'
)
OTHER = DryRunCreate(QUEUE, b'{"apiVersion":"toys.dev/v1","kind":"Queue","metadata":{},"spec":{"depth":2}}')
STORED = {
    "metadata": {"name": "samara-trial-x", "namespace": "operator", "uid": "u"},
    "spec": {"depth": 1, "mode": "plain"},
}

STORES = says(encode(STORED))
"""As the server serializes it, because contents are compared byte by byte."""


@dataclass
class Reads:
    """The outcome of some queries: the requests, the answers in the cache, and the keys to plan again, with delays."""

    seen: list[Seen] = field(default_factory=list)
    values: dict[Query, object] = field(default_factory=dict)
    again: list[tuple[Key, float]] = field(default_factory=list)
    stored: Content = field(default_factory=Content)

    def post(self, message: Fetched) -> None:
        self.again += [(key, message.delay) for key in message.keys]


def fetch_all(*answers: Answer, by: tuple[tuple[Key, Query], ...] = ((a_key(), TRIAL),), times: int = 1) -> Reads:
    """Runs all queries concurrently, `times` times one after the other."""

    async def run() -> Reads:
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            reads, codec, cache = Reads(), Codec(frozenset()), a_cache()
            fetcher = Fetcher(client, codec, cache, "operator", reads.post)
            for _ in range(times):
                async with asyncio.TaskGroup() as group:
                    for key, trial in by:
                        fetcher.ask((trial,), key)
                    fetcher.start_waiting(group)
                    assert fetcher.pending == len({trial for _, trial in by})
                assert fetcher.pending == 0
            reads.seen, reads.stored = script.seen, codec.content({"spec": STORED["spec"]})
            reads.values = {trial: cache.answer(trial) for _, trial in by}
            return reads

    return asyncio.run(run())


def test_a_dry_run_is_a_create_in_our_own_namespace_that_stores_nothing() -> None:
    (seen,) = fetch_all(STORES).seen

    assert (seen.method, seen.path) == ("POST", "/apis/toys.dev/v1/namespaces/operator/queues")
    assert seen.query == {**OUR_WRITES, "dryRun": "All"}
    named = {"generateName": "samara-trial-", "namespace": "operator", "labels": {"l": "1"}}
    assert seen.json == {"apiVersion": "toys.dev/v1", "kind": "Queue", "metadata": named, "spec": {"depth": 1}}


def test_a_dry_run_with_a_name_that_exists_is_repeated_with_a_generated_one() -> None:
    named = DryRunCreate(
        QUEUE, b'{"apiVersion":"toys.dev/v1","kind":"Queue","metadata":{"name":"q"},"spec":{"depth":1}}'
    )

    reads = fetch_all(refuses(409, "AlreadyExists"), STORES, by=((a_key(), named),))

    first, second = (seen.json["metadata"] for seen in reads.seen)
    assert first == {"name": "q", "generateName": "samara-trial-", "namespace": "operator"}
    assert second == {"generateName": "samara-trial-", "namespace": "operator"}
    assert reads.values == {named: reads.stored}


def test_a_dry_run_yields_the_stored_form_and_plans_its_keys_at_once() -> None:
    reads = fetch_all(STORES)

    assert reads.values == {TRIAL: reads.stored}
    assert reads.again == [(a_key(), 0.0)]


@pytest.mark.parametrize(
    "refusal",
    [
        refuses(422, "Invalid", "depth must not be negative"),
        refuses(403, "Forbidden", "depth must not be negative"),
        refuses(400, "BadRequest", "depth must not be negative"),
    ],
)
def test_a_refused_dry_run_is_kept_as_an_answer(refusal: Answer) -> None:
    reads = fetch_all(refusal)

    (value,) = reads.values.values()
    assert isinstance(value, Rejected)
    assert "depth must not be negative" in value.message
    assert reads.again == [(a_key(), 0.0)]


@pytest.mark.parametrize(
    "failure",
    [
        refuses(500, "InternalError"),
        refuses(503, "ServiceUnavailable"),
        refuses(429, "TooManyRequests", retryAfterSeconds=1),
        refuses(401, "Unauthorized"),
        refuses(404, "NotFound"),
        cuts,
        says(b"<html>no API server</html>"),
        says({"metadata": "odd"}),
    ],
)
def test_a_failed_dry_run_is_repeated_later(failure: Answer) -> None:
    reads = fetch_all(failure)

    assert reads.values == {TRIAL: UNREAD}
    assert reads.again == [(a_key(), 5.0)]


def test_after_a_failure_the_next_key_gets_an_answer() -> None:
    reads = fetch_all(refuses(500), STORES, times=2)

    assert reads.values == {TRIAL: reads.stored}
    assert reads.again == [(a_key(), 5.0), (a_key(), 0.0)]


def test_keys_with_the_same_query_share_one_request() -> None:
    one, two, part = a_key("one"), a_key("two"), a_key("two").in_namespace("a")
    reads = fetch_all(STORES, by=((one, TRIAL), (two, TRIAL), (part, TRIAL), (two, TRIAL)))

    assert len(reads.seen) == 1
    assert sorted(reads.again, key=str) == sorted([(one, 0.0), (two, 0.0), (part, 0.0)], key=str)


def test_of_two_concurrent_queries_one_can_fail_alone() -> None:
    reads = fetch_all(refuses(500), STORES, by=((a_key("one"), TRIAL), (a_key("two"), OTHER)))

    assert sorted(map(str, (delay for _, delay in reads.again))) == ["0.0", "5.0"]
    assert sorted(value is UNREAD for value in reads.values.values()) == [False, True]


def test_the_content_of_a_dry_run_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    fetch_all(refuses(500, "InternalError"), by=((a_key(), DryRunCreate(QUEUE, b'{"spec":{"depth":"canary-7f3a9"}}')),))

    captured = capsys.readouterr()
    assert "canary-7f3a9" not in captured.out + captured.err
    assert "canary-7f3a9" not in repr(DryRunCreate(QUEUE, b"canary-7f3a9"))


# Does a definition exist?


DEFINITION = CrdExists(QUEUE)
BY_DEFINITION = ((a_key(), DEFINITION),)


def definition(**meta: str) -> Answer:
    return says({"kind": "CustomResourceDefinition", "metadata": {"name": "queues.toys.dev", "uid": "u", **meta}})


def test_a_definition_is_read_from_the_server_by_its_name() -> None:
    reads = fetch_all(definition(), by=BY_DEFINITION)

    (seen,) = reads.seen
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.toys.dev"
    assert (seen.method, seen.path, seen.query) == ("GET", path, {})
    assert reads.values == {DEFINITION: True}
    assert reads.again == [(a_key(), 0.0)]


@pytest.mark.parametrize("answer", [definition(deletionTimestamp="2026-11-15T00:00:00Z"), refuses(404, "NotFound")])
def test_a_terminating_or_missing_crd_does_not_exist(answer: Answer) -> None:
    reads = fetch_all(answer, by=BY_DEFINITION)

    assert reads.values == {DEFINITION: False}
    assert reads.again == [(a_key(), 0.0)]


@pytest.mark.parametrize(
    "failure", [refuses(500, "InternalError"), refuses(403, "Forbidden"), cuts, says(b"no JSON"), says({"odd": 1})]
)
def test_a_failed_read_of_a_definition_is_repeated_later(failure: Answer) -> None:
    reads = fetch_all(failure, by=BY_DEFINITION)

    assert reads.values == {DEFINITION: UNREAD}
    assert reads.again == [(a_key(), 5.0)]


# Is a Namespace active?

TOP = NamespaceIsActive("top")


@pytest.mark.parametrize(
    ("items", "active"),
    [
        ([{"metadata": {"name": "top"}}], True),
        ([{"metadata": {"name": "top", "deletionTimestamp": "2026-11-15T00:00:00Z"}}], False),
        ([], False),
        (None, False),
    ],
    ids=["active", "terminating", "gone", "gone, with null instead of a list"],
)
def test_whether_a_namespace_is_active_is_read_with_a_list(items: object, active: bool) -> None:
    reads = fetch_all(says({"kind": "NamespaceList", "items": items}), by=((a_key(), TOP),))

    (seen,) = reads.seen
    assert (seen.method, seen.path, seen.query) == ("GET", "/api/v1/namespaces", {"fieldSelector": "metadata.name=top"})
    assert reads.values == {TOP: active}
    assert reads.again == [(a_key(), 0.0)]


# Is an object gone?

GONE = IsGone(at("a", "x"))


@pytest.mark.parametrize(("unproven_for", "answers"), [(0.0, [True]), (0.05, [False, True])], ids=["now", "in a while"])
def test_an_absent_object_counts_as_gone_only_when_absence_proves_something(
    unproven_for: float, answers: list[bool]
) -> None:
    async def run() -> list[object]:
        async with (
            serving(*[refuses(404, "NotFound")] * 2) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            cache, gone = a_cache(), asyncio.Event()
            answered: list[object] = []
            loop = asyncio.get_running_loop()
            cache.stores[SECRET].absence_unproven_until = loop.time() + unproven_for

            def planned_again(message: Fetched) -> None:
                assert (set(message.keys), message.delay) == ({a_key()}, 0.0)
                value = cache.answer(GONE)
                if value is UNREAD:
                    fetcher.ask((GONE,), a_key())
                    fetcher.start_waiting(group)
                else:
                    answered.append(value)
                if value is True:
                    gone.set()

            fetcher = Fetcher(client, Codec(frozenset()), cache, "operator", planned_again)
            async with asyncio.TaskGroup() as group:
                fetcher.ask((GONE,), a_key())
                fetcher.start_waiting(group)
                await gone.wait()
            assert loop.time() >= cache.stores[SECRET].absence_unproven_until
            return answered

    assert asyncio.run(run()) == answers


# Which annotation has the owner of an object?

SAYS = "toys.dev/says"
ITSELF = OwnerAnnotation(at("a", "x", QUEUE), "a", SAYS)
BY_ITS_OWNER = ((a_key(), ITSELF),)
MAKER = {"apiVersion": "toys.dev/v1", "kind": "Maker", "name": "m", "uid": "u-m", "controller": True}
SERVES = says({"resources": [{"name": "makers", "kind": "Maker", "namespaced": True, "verbs": ["get"]}]})


def thing(uid: str = "u", **meta: object) -> Answer:
    return says({"kind": "PartialObjectMetadata", "metadata": {"uid": uid, **meta}})


def test_the_owner_of_an_uncached_object_is_looked_up_and_then_read() -> None:
    reads = fetch_all(thing(ownerReferences=[MAKER]), SERVES, thing("u-m", annotations={SAYS: "so"}), by=BY_ITS_OWNER)

    home = "/apis/toys.dev/v1"
    here = f"{home}/namespaces/a"
    assert [seen.path for seen in reads.seen] == [f"{here}/queues/x", home, f"{here}/makers/m"]
    assert reads.values == {ITSELF: "so"}
    assert reads.again == [(a_key(), 0.0)]


@pytest.mark.parametrize(
    "answer",
    [
        refuses(404, "NotFound"),
        thing(),
        thing(ownerReferences=[]),
        thing(ownerReferences=[{**MAKER, "controller": False}]),
    ],
    ids=["gone", "none", "empty", "no controller"],
)
def test_a_missing_object_or_one_without_controller_has_no_owner_annotation(answer: Answer) -> None:
    reads = fetch_all(answer, by=BY_ITS_OWNER)

    assert (len(reads.seen), reads.values) == (1, {ITSELF: ""})


HOSTILE = ["victim/secrets/db", "victim%2Fsecrets%2Fdb", "..", "a\r\nHost: b", ""]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_owner_reference_is_no_owner_and_no_other_path_is_read(name: str) -> None:
    """Users write the references of their objects."""
    by_name = OwnerAnnotation(OwnerReference("toys.dev/v1", "Maker", name, "u-m"), "a", SAYS)
    by_version = OwnerAnnotation(OwnerReference(f"{name}/v1/x", "Maker", "m", "u-m"), "a", SAYS)

    assert [seen.path for seen in fetch_all(SERVES, by=((a_key(), by_name),)).seen] == ["/apis/toys.dev/v1"]
    reads = fetch_all(SERVES, by=((a_key(), by_version),))
    assert (reads.seen, reads.values) == ([], {by_version: ""})


# For how long an answer is valid


@pytest.mark.parametrize(
    ("read", "answer", "later"),
    [
        (DEFINITION, definition(), UNREAD),
        (TOP, says({"items": [{"metadata": {"name": "top"}}]}), UNREAD),
        (ITSELF, thing(), UNREAD),
        (OwnerAnnotation(OwnerReference("toys.dev/v1", "Other", "m", "u-m"), "a", SAYS), SERVES, ""),
    ],
    ids=["a definition", "a namespace", "an owner that had to be found", "an owner"],
)
def test_a_short_lived_answer_expires_soon(
    read: Query, answer: Answer, later: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("samara.engine.fetcher._VALID_FOR", 0.0)

    async def run() -> object:
        async with serving(answer) as script, Client(access(script), may_write=unrestricted) as client:
            cache = a_cache()
            async with asyncio.TaskGroup() as group:
                fetcher = Fetcher(client, Codec(frozenset()), cache, "operator", Reads().post)
                fetcher.ask((read,), a_key())
                fetcher.start_waiting(group)
            for _ in range(3):
                await asyncio.sleep(0)  # lets the loop run the timer that drops the answer
            return cache.answer(read)

    assert asyncio.run(run()) == later
