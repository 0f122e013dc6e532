"""What is sent for each write, in which order, and what each error means for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.engine.parts import Clock, a_copy, a_desk, a_key, create
from tests.kube.scripted import Answer, Seen, access, cuts, refuses, says, serving
from tests.world import secret

from samara.core.model import MANAGER, Owned
from samara.core.travel import ADOPTED
from samara.core.want import Copy
from samara.core.write import Create, Delete, Recreate, Release, Spare, Update, Write
from samara.engine.apply import Outcome, Result
from samara.engine.desk import Desk
from samara.kube.client import AS_US, Client
from samara.kube.errors import Unreachable

STORED = {"metadata": {"name": "db", "namespace": "a", "uid": "new", "resourceVersion": "50"}, "type": "Opaque"}
GONE = says({"kind": "Status", "status": "Success"})


def performed(write: Write, *answers: Answer, first: int = 0) -> tuple[Result, list[Seen], Desk]:
    """Performs a write on a desk whose cache holds a copy; the watch has told of versions up to `first`."""

    async def run() -> tuple[Result, list[Seen], Desk]:
        async with serving(*answers) as script, Client(access(script)) as client:
            desk = a_desk(Clock(), client=client)
            if not isinstance(write, Create):
                desk.cache.put(write.have)
            desk.cache.stores[write.ref.kind].version = first
            return await desk.applier.perform(write), script.seen, desk

    return asyncio.run(run())


HAVE = a_copy("a", version=40, content=secret("old"), finalizers=("theirs/guard",))
NEW = Copy(HAVE.ref, secret("new"), {"l": "1"}, dict(HAVE.annotations))


def test_a_create_is_one_post_that_can_run_over_nobody() -> None:
    result, (seen,), _ = performed(create("a"), says(STORED))

    assert (result.outcome, result.version) == (Outcome.DONE, 50)
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/a/secrets")
    assert seen.query == AS_US
    assert "resourceVersion" not in seen.json["metadata"]


def test_an_update_replaces_exactly_on_the_condition_of_its_version() -> None:
    theirs = replace(HAVE, labels={"theirs": "kept"})
    result, (seen,), _ = performed(Update(a_key(), HAVE.ref, NEW, theirs, "differs"), says(STORED))

    assert result.outcome is Outcome.DONE
    assert (seen.method, seen.query) == ("PUT", AS_US)
    meta = seen.json["metadata"]
    assert (meta["uid"], meta["resourceVersion"]) == (HAVE.uid, "40")
    assert meta["labels"] == {"theirs": "kept", "l": "1"}
    assert meta["finalizers"] == ["theirs/guard"]
    assert seen.json["data"] == {"key": "new"}


def test_a_delete_names_uid_and_version_and_leaves_a_tombstone() -> None:
    result, (seen,), desk = performed(Delete(a_key(), HAVE.ref, HAVE), GONE)

    assert (result.outcome, result.version) == (Outcome.DONE, None)
    assert seen.method == "DELETE"
    assert seen.json["preconditions"] == {"uid": HAVE.uid, "resourceVersion": "40"}
    assert desk.cache.put(replace(HAVE, version=99)) is None


def test_a_delete_that_a_finalizer_holds_back_is_seen_as_such() -> None:
    held = {**STORED, "kind": "Secret", "metadata": {**STORED["metadata"], "deletionTimestamp": "2026-11-15T10:00:00Z"}}  # type: ignore[dict-item]
    result, _, desk = performed(Delete(a_key(), HAVE.ref, HAVE), says(held))

    assert result.outcome is Outcome.DONE
    assert desk.cache.put(replace(HAVE, version=99)) is not None


def test_what_is_gone_already_counts_as_deleted() -> None:
    result, _, desk = performed(Delete(a_key(), HAVE.ref, HAVE), refuses(404, "NotFound"))

    assert result.outcome is Outcome.DONE
    assert desk.cache.get(HAVE.ref) is None


def test_a_recreate_asks_first_and_deletes_then() -> None:
    there = refuses(409, "AlreadyExists")
    result, seen, _ = performed(Recreate(a_key(), HAVE.ref, NEW, HAVE), there, GONE, says(STORED))

    assert result.outcome is Outcome.DONE
    assert [each.method for each in seen] == ["POST", "DELETE", "POST"]
    assert [each.query.get("dryRun") for each in seen] == ["All", None, None]


@pytest.mark.parametrize("refusal", [refuses(403, "Forbidden"), refuses(422, "Invalid"), refuses(500), cuts])
def test_a_recreate_that_would_be_refused_deletes_nothing(refusal: Answer) -> None:
    result, seen, desk = performed(Recreate(a_key(), HAVE.ref, NEW, HAVE), refusal, GONE)

    assert result.outcome is not Outcome.DONE
    assert [each.method for each in seen] == ["POST"]
    found = desk.cache.get(HAVE.ref)
    assert found is not None
    assert found.version == HAVE.version


def test_a_recreated_copy_keeps_what_others_wrote_on_it_and_that_it_was_adopted() -> None:
    ours = HAVE.ours | {Owned(MANAGER, "labels", "stale")}
    annotations = {**HAVE.annotations, ADOPTED: "true", "note": "theirs"}
    had = replace(HAVE, labels={"team": "red", "stale": "ours"}, annotations=annotations, ours=ours)
    there = refuses(409, "AlreadyExists")
    _, (asked, _, made), _ = performed(Recreate(a_key(), had.ref, NEW, had), there, GONE, says(STORED))

    for seen in (asked, made):
        assert seen.json["metadata"]["labels"] == {"team": "red", "l": "1"}
        assert seen.json["metadata"]["annotations"] == annotations
        assert seen.json["data"] == {"key": "new"}


def test_what_is_given_back_loses_our_marks_and_its_content_is_not_sent() -> None:
    theirs = replace(HAVE, labels={"team": "red"}, annotations={**HAVE.annotations, ADOPTED: "true", "note": "x"})
    result, (seen,), _ = performed(Release(a_key(), HAVE.ref, theirs), says(STORED))

    assert result.outcome is Outcome.DONE
    assert (seen.method, seen.headers["Content-Type"]) == ("PATCH", "application/merge-patch+json")
    assert seen.query == AS_US
    gone = dict.fromkeys((*HAVE.annotations, ADOPTED))
    assert seen.json == {
        "metadata": {
            "labels": {},
            "annotations": {**gone, "samara.dev/released": "true"},
            "uid": HAVE.uid,
            "resourceVersion": "40",
        }
    }


def test_what_is_spared_says_so_and_keeps_its_marks_and_its_content() -> None:
    _, (seen,), _ = performed(Spare(a_key(), HAVE.ref, HAVE), says(STORED))

    said = {"labels": {}, "annotations": {"samara.dev/released": "true"}}
    assert seen.json == {"metadata": {**said, "uid": HAVE.uid, "resourceVersion": "40"}}


def test_whether_it_may_write_is_asked_before_every_single_request() -> None:
    """A recreate is three requests: a leader whose time ends after the first one deletes nothing."""

    async def run() -> None:
        async with serving(refuses(409, "AlreadyExists"), GONE) as script, Client(access(script)) as client:
            desk = a_desk(Clock(), client=client)
            desk.cache.put(HAVE)
            client.may_write = lambda: not script.seen
            result = await desk.applier.perform(Recreate(a_key(), HAVE.ref, NEW, HAVE))
            assert (result.outcome, result.sure) == (Outcome.FAILED, False)
            assert [each.method for each in script.seen] == ["POST"]

    asyncio.run(run())


def test_who_may_not_write_may_read() -> None:
    async def run() -> None:
        async with serving(says(STORED)) as script, Client(access(script)) as client:
            client.may_write = lambda: False
            with pytest.raises(Unreachable, match="may not write"):
                await client.request("DELETE", "/x")
            assert script.seen == []
            await client.get("/x")
            assert [each.method for each in script.seen] == ["GET"]

    asyncio.run(run())


def test_an_answer_that_the_watch_is_past_is_not_taken() -> None:
    _, _, desk = performed(create("a"), says(STORED), first=50)

    assert desk.cache.get(create("a").ref) is None
    assert not desk.cache.taken(create("a").ref)


@pytest.mark.parametrize(
    ("answer", "outcome", "overloaded", "sure"),
    [
        (refuses(409, "Conflict"), Outcome.STALE, False, False),
        (refuses(409, "AlreadyExists"), Outcome.STALE, False, False),
        (refuses(404, "NotFound"), Outcome.STALE, False, False),
        (refuses(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]), Outcome.STALE, False, False),
        (refuses(403, "Forbidden"), Outcome.REFUSED, False, True),
        (refuses(422, "Invalid"), Outcome.REFUSED, False, True),
        (refuses(400, "BadRequest"), Outcome.REFUSED, False, True),
        (refuses(413), Outcome.REFUSED, False, True),
        (refuses(429, retryAfterSeconds=3), Outcome.FAILED, True, True),
        (refuses(500), Outcome.FAILED, False, False),
        (refuses(503, "ServiceUnavailable"), Outcome.FAILED, True, False),
        (refuses(504), Outcome.FAILED, True, False),
        (cuts, Outcome.FAILED, True, False),
        (refuses(401, "Unauthorized"), Outcome.FAILED, False, False),
    ],
)
def test_each_error_has_its_meaning(answer: Answer, outcome: Outcome, overloaded: bool, sure: bool) -> None:
    result, _, _ = performed(create("a"), answer)

    assert (result.outcome, result.overloaded, result.sure) == (outcome, overloaded, sure)
    assert result.retry_after == (3.0 if outcome is Outcome.FAILED and sure else None)
