"""Which marked copies are orphans, also if a definition or a right is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest
from tests.support.caches import a_plain_cache, unread
from tests.support.samples import an_access
from tests.support.world import content, secret

from samara.assembly import WELL_KNOWN
from samara.cli.commands.orphans import _without_missing_definitions, _without_unread, find_orphans
from samara.cli.commands.uninstall import _copies_to_remove
from samara.cli.inspect.cluster_plans import ClusterPlans
from samara.cli.session import Session
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, LABELS, SECRET, Kind, ManagedKey, Object, Ref, namespace_ref
from samara.core.vocabulary import VocabularySettings
from samara.kube.cache import address_hash
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec
from samara.kube.snapshot import Snapshot
from samara.settings import Settings
from samara.vocabularies import sync_to
from samara.vocabularies.fishysecret import FINALIZER, FISHY_SECRET, OWNER_NAME, OWNER_NAMESPACE, FishySecretSettings
from samara.vocabularies.secret_copy import SecretCopySettings
from samara.vocabularies.sync_to import SyncToSettings

OF_FISHY = {OWNER_NAME: "db", OWNER_NAMESPACE: "team"}
MADE = Object(
    Ref(SECRET, "a", "db"),
    "u-copy",
    5,
    secret(),
    OF_FISHY,
    managed_keys=frozenset(ManagedKey(FIELD_MANAGER, LABELS, key) for key in OF_FISHY),
)


def a_session(settings: Settings) -> Session:
    access = an_access()
    return Session(Client(access, may_write=unrestricted), access, settings, None, WELL_KNOWN)


def cluster_of(
    session: Session, *objects: Object, unserved: Iterable[Kind] = (), unlisted: dict[Kind, str] | None = None
) -> ClusterPlans:
    """A cluster with two namespaces and these objects; what is `unserved` the server answers with 404."""
    registry = session.full_registry
    namespaces = [Object(namespace_ref(name), f"u-{name}", 1) for name in ("a", "team")]
    cache, marked = a_plain_cache(registry, keep_bytes=True), {obj.ref: obj for obj in objects if obj.managed_keys}
    for obj in (*namespaces, *objects):
        cache.put(obj)
    for kind in set(registry.kinds) - {*unserved, *(unlisted or {})}:
        cache.finish_list(kind, {address_hash(obj.ref) for obj in (*namespaces, *objects) if obj.ref.kind == kind})
    snapshot = Snapshot(
        session.client,
        Codec(registry.managers),
        cache,
        session.operator_namespace,
        unread,
        marked=marked,
        unlisted=unlisted or {},
    )
    return ClusterPlans(snapshot, registry, asyncio.run(snapshot.plans(session.policy)))


def listed(session: Session, cluster: ClusterPlans) -> tuple[list[str], list[str]]:
    """The addresses that are listed, and those of them that `--delete` would delete."""
    orphans = _without_unread(session, cluster, list(find_orphans(cluster, session.policy)))
    deletable = _without_missing_definitions(session, cluster, orphans)
    return [orphan.live.ref.path for orphan in orphans], [orphan.live.ref.path for orphan in deletable]


def serving_only(own: VocabularySettings, name: str) -> Settings:
    return Settings(vocabularies={name: own})


FISHY = serving_only(FishySecretSettings(), "fishysecret")


def test_copy_whose_source_was_deleted_with_its_crd_is_listed_and_not_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = a_session(FISHY)
    assert listed(session, cluster_of(session, MADE, unserved=[FISHY_SECRET])) == (["a/db"], [])
    err = capsys.readouterr().err
    assert "whether a source wants them" not in err
    assert "1 orphan not removed: the server does not serve fishykeys.2v.pm/v1alpha1/FishySecret" in err
    assert "not a request to delete copies" in err


def test_copy_whose_sources_may_not_be_listed_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    session = a_session(FISHY)
    assert listed(session, cluster_of(session, MADE, unlisted={FISHY_SECRET: "403 Forbidden"})) == ([], [])
    assert "1 copy left out" in capsys.readouterr().err


def test_copy_of_a_vocabulary_that_is_not_configured_can_be_deleted_without_its_crd() -> None:
    session = a_session(serving_only(SecretCopySettings(), "secret-copy"))
    assert listed(session, cluster_of(session, MADE, unserved=[FISHY_SECRET])) == (["a/db"], ["a/db"])


# A namespace that was protected later

ASKS = {
    "data": [{"secretPath": "app/db", "secretKeyName": "password"}],
    "target": {"name": "db", "namespace": "a"},
}
ASKING = Object(
    Ref(FISHY_SECRET, "team", "db"), "u-fishy", 3, content(spec=ASKS), generation=1, finalizers=(FINALIZER,)
)
LISTING = {"openkruise.io/sync-to": "namespaces", "openkruise.io/sync-to-namespaces": "a;Bad_Name"}
SOURCE = Object(Ref(SECRET, "team", "db"), "u-source", 3, secret(), {}, LISTING)
SYNCED = replace(
    MADE,
    labels={},
    annotations={sync_to.FROM: "team/db"},
    managed_keys=frozenset({ManagedKey(FIELD_MANAGER, ANNOTATIONS, sync_to.FROM)}),
)


@pytest.mark.parametrize(("protected", "orphaned"), [((), []), (("a",), ["a/db"])])
@pytest.mark.parametrize(
    ("settings", "source", "copy"),
    [(FISHY, ASKING, MADE), (serving_only(SyncToSettings(), "sync-to"), SOURCE, SYNCED)],
    ids=["fishysecret", "sync-to with an illegal name"],
)
def test_copy_in_a_namespace_that_was_protected_later_is_an_orphan(
    settings: Settings, source: Object, copy: Object, protected: tuple[str, ...], orphaned: list[str]
) -> None:
    session = a_session(msgspec.structs.replace(settings, protected_namespaces=protected))
    cluster = cluster_of(session, source, copy)
    assert listed(session, cluster)[0] == orphaned


# A Secret of a FishySecret that asks for copies of itself

HANDED_ON = replace(
    MADE, annotations={"openkruise.io/sync-to": "namespaces", "openkruise.io/sync-to-namespaces": "team"}
)
SYNC_TO = serving_only(SyncToSettings(), "sync-to")


def test_copy_that_requests_copies_is_an_orphan_once_its_source_is_not_served() -> None:
    session = a_session(SYNC_TO)
    assert listed(session, cluster_of(session, ASKING, HANDED_ON)) == (["a/db"], ["a/db"])


def test_copy_that_requests_copies_is_no_orphan_while_its_source_is_served() -> None:
    session = a_session(msgspec.structs.replace(FISHY, vocabularies={**FISHY.vocabularies, **SYNC_TO.vocabularies}))
    assert listed(session, cluster_of(session, ASKING, HANDED_ON))[0] == []


def test_source_with_marks_that_another_client_set_is_no_orphan() -> None:
    session = a_session(SYNC_TO)
    forged = replace(HANDED_ON, managed_keys=frozenset())
    cluster = cluster_of(session, forged)
    cluster.snapshot.marked[forged.ref] = forged
    assert listed(session, cluster)[0] == []


def test_uninstall_removes_a_copy_that_requests_copies() -> None:
    session = a_session(SYNC_TO)
    assert [copy.live.ref.path for copy in _copies_to_remove(cluster_of(session, HANDED_ON))] == ["a/db"]
