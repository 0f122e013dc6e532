"""The requests of each write, in their order, and the result of each error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.kube.scripted import Answer, Seen, access, cuts, refuses, says, serving
from tests.support import toys
from tests.support.samples import a_cache, a_copy, a_key, an_object, create
from tests.support.world import content, secret

from samara.core.desired import NO_STAMPS, Copy, Stamp, Template
from samara.core.kinds import SERVICE_ACCOUNT
from samara.core.metadata_keys import ADOPTED
from samara.core.model import FIELD_MANAGER, SECRET, Content, ManagedKey, Ref
from samara.core.registry import Registry
from samara.core.writes import Create, Delete, KeepAsOrphan, Recreate, Release, Update, Write
from samara.engine.process import FaultPoints
from samara.engine.writer import Applier, Ending, Result
from samara.kube.cache import Cache
from samara.kube.client import OUR_WRITES, Client, unrestricted
from samara.kube.codec import Codec, encode
from samara.kube.errors import Unreachable
from samara.vocabularies.secret_copy import ORIGIN

STORED = {"metadata": {"name": "db", "namespace": "a", "uid": "new", "resourceVersion": "50"}, "type": "Opaque"}
GONE = says({"kind": "Status", "status": "Success"})


def an_applier(client: Client, registry: Registry | None = None) -> Applier:
    cache = a_cache(registry)
    return Applier(client, Codec(cache.registry.managers), cache, cache.registry, FaultPoints(), now=lambda: "then")


def performed(write: Write, *answers: Answer, first: int = 0) -> tuple[Result, list[Seen], Cache]:
    """Performs a write of an object in the cache; the watch has reported versions up to `first`."""

    async def run() -> tuple[Result, list[Seen], Cache]:
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            applier = an_applier(client)
            if not isinstance(write, Create):
                applier.cache.put(write.live)
            applier.cache.stores[write.ref.kind].version = first
            return await applier.perform(write, verify=False), script.seen, applier.cache

    return asyncio.run(run())


HAVE = a_copy("a", version=40, content=secret("old"), finalizers=("theirs/guard",))
NEW = Copy(HAVE.ref, Template(secret("new"), {"l": "1"}, dict(HAVE.annotations)))


def test_a_create_is_one_post_that_overwrites_nothing() -> None:
    result, (seen,), _ = performed(create("a"), says(STORED))

    assert (result.ending, result.version) == (Ending.DONE, 50)
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/a/secrets")
    assert seen.query == OUR_WRITES
    assert "resourceVersion" not in seen.json["metadata"]


def test_an_update_requires_the_planned_version() -> None:
    theirs = replace(HAVE, labels={"theirs": "kept"})
    result, (seen,), _ = performed(Update(a_key(), HAVE.ref, NEW, theirs, "differs"), says(STORED))

    assert result.ending is Ending.DONE
    assert (seen.method, seen.query) == ("PUT", OUR_WRITES)
    meta = seen.json["metadata"]
    assert (meta["uid"], meta["resourceVersion"]) == (HAVE.uid, "40")
    assert meta["labels"] == {"theirs": "kept", "l": "1"}
    assert meta["finalizers"] == ["theirs/guard"]
    assert seen.json["data"] == {"key": "new"}


STAMPED = NEW._replace(template=NEW.template._replace(stamps={"at": Stamp(str), "version": Stamp("8")}))


@pytest.mark.parametrize(
    "write",
    [
        Create(a_key(), HAVE.ref, STAMPED),
        Update(a_key(), HAVE.ref, STAMPED, replace(HAVE, annotations={**HAVE.annotations, "version": "7"}), "differs"),
        Recreate(a_key(), HAVE.ref, STAMPED, HAVE),
    ],
)
def test_a2_a_write_records_its_time_and_the_version_of_its_source(write: Create | Update | Recreate) -> None:
    answers = [says(STORED), GONE, says(STORED)] if isinstance(write, Recreate) else [says(STORED)]
    result, seen, _ = performed(write, *answers)
    assert result.ending is Ending.DONE
    assert seen[-1].json["metadata"]["annotations"] == {**HAVE.annotations, "at": "then", "version": "8"}


ACCOUNTS = Registry((toys.propagation(SERVICE_ACCOUNT),))


def an_account(**fields: Any) -> dict[str, Any]:
    meta = {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "40", "labels": {"new": "1"}}
    return {"metadata": meta, **fields}


def replaced(read: dict[str, Any]) -> tuple[Result, list[Seen]]:
    """Replaces a copy of a ServiceAccount that has these fields now."""
    have = an_object(Ref(SERVICE_ACCOUNT, "a", "web"), 40, uid="u")
    copy = Copy(have.ref, Template(content(imagePullSecrets=[{"name": "registry"}])))

    async def run() -> tuple[Result, list[Seen]]:
        async with serving(says(read), says(read)) as script, Client(access(script), may_write=unrestricted) as client:
            applier = an_applier(client, ACCOUNTS)
            applier.cache.put(have)
            write = Update(a_key(source_type="accurate"), have.ref, copy, have, "differs")
            return await applier.perform(write, verify=False), script.seen

    return asyncio.run(run())


def test_a_replaced_service_account_keeps_what_controllers_gave_it() -> None:
    given = {"name": "web-dockercfg-x7k2p"}
    result, (read, seen) = replaced(an_account(secrets=[given], imagePullSecrets=[given, {"name": "stale"}]))

    assert result.ending is Ending.DONE
    assert (read.method, seen.method, seen.path) == ("GET", "PUT", read.path)
    assert seen.json["metadata"]["resourceVersion"] == "40"
    assert (seen.json["secrets"], seen.json["imagePullSecrets"]) == ([given], [{"name": "registry"}, given])


def test_a_replaced_service_account_gets_no_fields_that_it_lacked() -> None:
    _, (_, seen) = replaced(an_account())

    assert "secrets" not in seen.json
    assert seen.json["imagePullSecrets"] == [{"name": "registry"}]


def test_a_delete_names_uid_and_version_and_leaves_a_tombstone() -> None:
    result, (seen,), cache = performed(Delete(a_key(), HAVE.ref, HAVE), GONE)

    assert (result.ending, result.version) == (Ending.DONE, None)
    assert seen.method == "DELETE"
    assert seen.json["preconditions"] == {"uid": HAVE.uid, "resourceVersion": "40"}
    assert cache.put(replace(HAVE, resource_version=99)) is None


def test_a_delete_delayed_by_a_finalizer_leaves_a_terminating_object() -> None:
    held = {**STORED, "kind": "Secret", "metadata": {**STORED["metadata"], "deletionTimestamp": "2026-11-15T10:00:00Z"}}  # type: ignore[dict-item]
    result, _, cache = performed(Delete(a_key(), HAVE.ref, HAVE), says(held))

    assert result.ending is Ending.DONE
    assert cache.put(replace(HAVE, resource_version=99)) is not None


def test_deleting_a_missing_object_succeeds() -> None:
    result, _, cache = performed(Delete(a_key(), HAVE.ref, HAVE), refuses(404, "NotFound"))

    assert result.ending is Ending.DONE
    assert cache.get(HAVE.ref) is None


def test_a_recreate_deletes_only_after_a_dry_run_of_the_create() -> None:
    there = refuses(409, "AlreadyExists")
    result, seen, _ = performed(Recreate(a_key(), HAVE.ref, NEW, HAVE), there, GONE, says(STORED))

    assert result.ending is Ending.DONE
    assert [request.method for request in seen] == ["POST", "DELETE", "POST"]
    assert [request.query.get("dryRun") for request in seen] == ["All", None, None]


@pytest.mark.parametrize("refusal", [refuses(403, "Forbidden"), refuses(422, "Invalid"), refuses(500), cuts])
def test_a_recreate_that_would_be_refused_deletes_nothing(refusal: Answer) -> None:
    result, seen, cache = performed(Recreate(a_key(), HAVE.ref, NEW, HAVE), refusal, GONE)

    assert result.ending is not Ending.DONE
    assert [request.method for request in seen] == ["POST"]
    cached = cache.get(HAVE.ref)
    assert cached is not None
    assert cached.resource_version == HAVE.resource_version


def test_a_recreated_copy_keeps_foreign_metadata_and_is_no_longer_adopted() -> None:
    ours = HAVE.managed_keys | {ManagedKey(FIELD_MANAGER, "labels", "stale")}
    annotations = {**HAVE.annotations, ADOPTED: "true", "note": "theirs"}
    had = replace(HAVE, labels={"team": "red", "stale": "ours"}, annotations=annotations, managed_keys=ours)
    there = refuses(409, "AlreadyExists")
    sent = performed(Recreate(a_key(), had.ref, NEW, had), there, GONE, says(STORED), says(STORED))
    dry_run, _, made, handed_on = sent[1]

    for seen in (dry_run, made):
        assert seen.json["metadata"]["labels"] == {"l": "1"}
        assert seen.json["metadata"]["annotations"] == HAVE.annotations
        assert seen.json["data"] == {"key": "new"}
    assert (handed_on.method, handed_on.query["fieldManager"]) == ("PATCH", "samara-for-others")
    assert handed_on.json["metadata"].items() >= {"labels": {"team": "red"}, "annotations": {"note": "theirs"}}.items()
    assert handed_on.json["metadata"].keys() == {"labels", "annotations", "uid", "resourceVersion"}


def test_a_recreated_copy_is_right_even_if_foreign_metadata_is_lost() -> None:
    had = replace(HAVE, labels={"team": "red"})
    there, refused = refuses(409, "AlreadyExists"), refuses(403, "Forbidden")
    result, seen, _ = performed(Recreate(a_key(), had.ref, NEW, had), there, GONE, says(STORED), refused)

    assert (result.ending, seen[-1].method, result.version) == (Ending.DONE, "PATCH", 50)


def test_a_released_copy_loses_our_marks_and_its_content_is_not_sent() -> None:
    theirs = replace(HAVE, labels={"team": "red"}, annotations={**HAVE.annotations, ADOPTED: "true", "note": "x"})
    result, (seen,), _ = performed(Release(a_key(), HAVE.ref, theirs), says(STORED))

    assert result.ending is Ending.DONE
    assert (seen.method, seen.headers["Content-Type"]) == ("PATCH", "application/merge-patch+json")
    assert seen.query == OUR_WRITES
    gone = dict.fromkeys((*HAVE.annotations, ADOPTED))
    assert seen.json == {
        "metadata": {
            "labels": {},
            "annotations": {**gone, "samara.dev/released": "true"},
            "uid": HAVE.uid,
            "resourceVersion": "40",
        }
    }


def test_an_orphan_is_annotated_and_keeps_its_marks_and_content() -> None:
    _, (seen,), _ = performed(KeepAsOrphan(a_key(), HAVE.ref, HAVE), says(STORED))

    removed_marks = {"labels": {}, "annotations": {"samara.dev/released": "true"}}
    assert seen.json == {"metadata": {**removed_marks, "uid": HAVE.uid, "resourceVersion": "40"}}


def test_the_right_to_write_is_checked_before_every_request() -> None:
    """A recreate is three requests. A leader whose Lease expires after the first one deletes nothing."""

    async def run() -> None:
        async with serving(refuses(409, "AlreadyExists"), GONE) as script:
            async with Client(access(script), may_write=lambda: not script.seen) as client:
                applier = an_applier(client)
                applier.cache.put(HAVE)
                result = await applier.perform(Recreate(a_key(), HAVE.ref, NEW, HAVE), verify=False)
            assert (result.ending, result.known_state) == (Ending.FAILED, False)
            assert [request.method for request in script.seen] == ["POST"]

    asyncio.run(run())


def test_a_client_that_may_not_write_may_read() -> None:
    async def run() -> None:
        async with serving(says(STORED)) as script, Client(access(script), may_write=lambda: False) as client:
            with pytest.raises(Unreachable, match="may not write"):
                await client.request("DELETE", "/x")
            assert script.seen == []
            await client.get("/x")
            assert [request.method for request in script.seen] == ["GET"]

    asyncio.run(run())


def test_an_answer_older_than_the_watch_is_ignored() -> None:
    _, _, cache = performed(create("a"), says(STORED), first=50)

    assert cache.get(create("a").ref) is None
    assert not cache.exists_unread(create("a").ref)


@pytest.mark.parametrize(
    ("answer", "ending", "overloaded", "sure"),
    [
        (refuses(409, "Conflict"), Ending.STALE, False, False),
        (refuses(409, "AlreadyExists"), Ending.STALE, False, False),
        (refuses(404, "NotFound"), Ending.STALE, False, False),
        (refuses(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]), Ending.STALE, False, False),
        (refuses(403, "Forbidden"), Ending.REFUSED, False, True),
        (refuses(422, "Invalid"), Ending.REFUSED, False, True),
        (refuses(400, "BadRequest"), Ending.REFUSED, False, True),
        (refuses(413), Ending.REFUSED, False, True),
        (refuses(429, retryAfterSeconds=3), Ending.FAILED, True, True),
        (refuses(500), Ending.FAILED, False, False),
        (refuses(503, "ServiceUnavailable"), Ending.FAILED, True, False),
        (refuses(504), Ending.FAILED, True, False),
        (cuts, Ending.FAILED, True, False),
        (refuses(401, "Unauthorized"), Ending.FAILED, False, False),
    ],
)
def test_each_error_is_classified(answer: Answer, ending: Ending, overloaded: bool, sure: bool) -> None:
    result, _, _ = performed(create("a"), answer)

    assert (result.ending, result.overloaded, result.known_state) == (ending, overloaded, sure)
    assert result.retry_after == (3.0 if ending is Ending.FAILED and sure else None)


# What admission makes of a copy. Contents come from the applier's own codec: digests of two codecs never agree.

Json = dict[str, Any]
SENT, MUTATED, MUTATED_ANEW = {"key": "b25l"}, {"injected": "eA==", "key": "b25l"}, {"injected": "eQ==", "key": "b25l"}


def stored(
    data: Json, version: int = 40, namespace: str = "a", by: str = FIELD_MANAGER, last: str = "", **meta: Any
) -> Json:
    """A copy as the API server returns it. `by` created it; `last` is the last editor, if there is another one."""
    marks: Json = {"f:metadata": {"f:annotations": {f"f:{ORIGIN}": {}}}}
    fields = [{"manager": by, "operation": "Update", "time": "2026-11-15T10:00:00Z", "fieldsV1": marks}]
    if last:
        fields.append({"manager": last, "operation": "Update", "time": "2026-11-15T11:00:00Z", "fieldsV1": {}})
    named = {"name": "db", "namespace": namespace, "uid": f"u-{namespace}", "resourceVersion": str(version)}
    annotations = {ORIGIN: "admin/db", **meta.pop("annotations", {})}
    all_metadata = {
        **named,
        "creationTimestamp": "2026-11-15T10:00:00Z",
        "annotations": annotations,
        "managedFields": fields,
    }
    return {"kind": "Secret", "metadata": {**all_metadata, **meta}, "data": data, "type": "Opaque"}


def answers(*args: Any, **more: Any) -> Answer:
    """As the server serializes it, because contents are compared byte by byte."""
    return says(encode(stored(*args, **more)))


class SentUpdates:
    """Updates with the content SENT: their results, their requests, and the stored forms that the cache has learned."""

    def __init__(self, applier: Applier, results: list[Result], seen: list[Seen]) -> None:
        self.applier = applier
        self.results = results
        self.requests = [(request.method, request.query.get("dryRun")) for request in seen]
        self.annotations = [request.json["metadata"].get("annotations") for request in seen]

    def content(self, data: Json) -> Content:
        return self.applier.codec.content({"data": data, "type": "Opaque"})

    def knows(self, data: Json) -> bool:
        """True if the cache knows that the server stores SENT as this."""
        return self.applier.cache.is_stored_form_of(SECRET, self.content(SENT), self.content(data))


def updated(
    have: Iterable[Json], *replies: Answer, new: Iterable[bool] = (True,), stamps: Mapping[str, Stamp] = NO_STAMPS
) -> SentUpdates:
    """Sends updates of the stored object one after the other; `new`: whether each is sent before the first sync."""

    async def run() -> SentUpdates:
        async with serving(*replies) as script, Client(access(script), may_write=unrestricted) as client:
            applier = an_applier(client)
            results = []
            for stored_object, is_new in zip(have, new, strict=True):
                there = applier.codec.object(SECRET, encode(stored_object))
                applier.cache.put(there)
                content = applier.codec.content({"data": SENT, "type": "Opaque"})
                copy = Copy(there.ref, Template(content, {}, {ORIGIN: "admin/db"}, stamps=stamps))
                update = Update(a_key(), there.ref, copy, there, "differs")
                results.append(await applier.perform(update, verify=is_new))
            return SentUpdates(applier, results, script.seen)

    return asyncio.run(run())


DRY, REAL = ("PUT", "All"), ("PUT", None)


def test_a_copy_changed_by_admission_counts_as_right() -> None:
    sent = updated([stored({"key": "b2xk"})], answers(MUTATED, 41), new=[False])

    assert sent.requests == [REAL]
    assert sent.knows(MUTATED)
    assert not sent.knows(MUTATED_ANEW)


def test_a_new_copy_changed_by_admission_counts_as_right() -> None:
    async def run() -> None:
        async with serving(answers(MUTATED, 41)) as script, Client(access(script), may_write=unrestricted) as client:
            applier = an_applier(client)
            sent = SentUpdates(applier, [], [])
            write = create("a")
            copy = Copy(write.ref, Template(sent.content(SENT)))
            await applier.perform(replace(write, copy=copy), verify=False)
            assert sent.knows(MUTATED)

    asyncio.run(run())


def test_an_outdated_answer_does_not_record_an_admitted_form() -> None:
    """The watch reported a later version, so the cache does not hold the answer."""

    async def run() -> None:
        async with serving(answers(MUTATED, 41)) as script, Client(access(script), may_write=unrestricted) as client:
            applier = an_applier(client)
            sent = SentUpdates(applier, [], [])
            applier.cache.put(applier.codec.object(SECRET, encode(stored(MUTATED_ANEW, 42))))
            applier.cache.stores[SECRET].version = 42
            write = create("a")
            copy = Copy(write.ref, Template(sent.content(SENT)))
            await applier.perform(replace(write, copy=copy), verify=False)
            assert not sent.knows(MUTATED)
            assert not sent.knows(MUTATED_ANEW)

    asyncio.run(run())


def test_after_a_restart_a_copy_changed_by_admission_is_dry_run_and_not_written() -> None:
    sent = updated([stored(MUTATED)], answers(MUTATED))

    assert sent.requests == [DRY]
    assert sent.results == [Result(Ending.DONE, version=40, already_right=True)]
    assert sent.knows(MUTATED)


def test_a2_after_a_restart_a_copy_changed_by_admission_is_not_written_for_its_stamps() -> None:
    sent = updated([stored(MUTATED)], answers(MUTATED), stamps={"at": Stamp(str)})

    assert (sent.requests, sent.annotations) == ([DRY], [{ORIGIN: "admin/db"}])
    assert sent.results == [Result(Ending.DONE, version=40, already_right=True)]


def test_after_a_restart_a_wrong_copy_is_dry_run_and_then_written() -> None:
    sent = updated([stored({"key": "b2xk"})], answers(MUTATED), answers(MUTATED, 41))

    assert sent.requests == [DRY, REAL]
    assert [(result.ending, result.version) for result in sent.results] == [(Ending.DONE, 41)]
    assert sent.knows(MUTATED)


@pytest.mark.parametrize("words", [{"labels": {"stale": "ours"}}, {"annotations": {"stale": "ours"}}])
def test_a_copy_whose_labels_or_annotations_would_change_is_written(words: Json) -> None:
    sent = updated([stored(MUTATED, **words)], answers(MUTATED), answers(MUTATED, 41))

    assert sent.requests == [DRY, REAL]


def test_content_stored_as_sent_is_not_dry_run_again() -> None:
    """Ten thousand drifted copies cost ten thousand writes and one dry run."""
    old = [stored({"key": "b2xk"}, namespace=namespace) for namespace in ("a", "b", "c")]
    sent = updated(old, *(answers(SENT, 41, namespace) for namespace in ("a", "a", "b", "c")), new=[True, True, True])

    assert sent.requests == [DRY, REAL, REAL, REAL]


def test_content_that_admission_changes_is_dry_run_for_every_copy() -> None:
    """A webhook may apply to one namespace only."""
    there = [stored(MUTATED, namespace=namespace) for namespace in ("a", "b")]
    sent = updated(there, *(answers(MUTATED, namespace=namespace) for namespace in ("a", "b")), new=[True, True])

    assert sent.requests == [DRY, DRY]


@pytest.mark.parametrize("who", [{"last": "kubectl-edit"}, {"by": "other-tool"}], ids=["edited", "made"])
def test_a_copy_that_another_client_wrote_last_is_written_without_a_dry_run(who: Json) -> None:
    sent = updated([stored(MUTATED, **who)], answers(SENT, 41))

    assert sent.requests == [REAL]


def test_after_the_first_sync_nothing_is_dry_run() -> None:
    sent = updated([stored({"key": "b2xk"})], answers(SENT, 41), new=[False])

    assert sent.requests == [REAL]


@pytest.mark.parametrize("refusal", [refuses(409, "Conflict"), refuses(422, "Invalid"), refuses(500), cuts])
def test_a_failed_dry_run_writes_nothing(refusal: Answer) -> None:
    sent = updated([stored(MUTATED)], refusal, answers(SENT, 41))

    assert sent.requests == [DRY]
    assert sent.results[0].ending is not Ending.DONE
    assert not sent.knows(MUTATED)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"{}",
        b'{"metadata":{"name":"db","resourceVersion":"5"},"data":' + b"[" * 60_000 + b"]" * 60_000 + b"}",
    ],
)
def test_an_unreadable_answer_leaves_the_state_unknown(answer: bytes) -> None:
    result, _, _ = performed(create("a"), says(answer))

    assert (result.ending, result.known_state) == (Ending.FAILED, False)
