"""Which marked copies are orphans, judged on a picture of a cluster: also where a definition or a right is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest
from tests.engine.parts import an_access
from tests.support.caches import a_plain_cache, unread
from tests.support.world import content, secret

from samara.assembly import WELL_KNOWN
from samara.cli.commands.orphans import _certain, _meant, orphans
from samara.cli.commands.uninstall import _going
from samara.cli.session import Picture, Session
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


def a_picture(
    at: Session, *objects: Object, unserved: Iterable[Kind] = (), unknown: dict[Kind, str] | None = None
) -> Picture:
    """A cluster with two namespaces and these objects; what is `unserved` the server answers with 404."""
    registry, spaces = at.full_registry, [Object(namespace_ref(name), f"u-{name}", 1) for name in ("a", "team")]
    cache, marked = a_plain_cache(registry, keep_bytes=True), {each.ref: each for each in objects if each.managed_keys}
    for each in (*spaces, *objects):
        cache.put(each)
    for kind in set(registry.kinds) - {*unserved, *(unknown or {})}:
        cache.finish_list(kind, {address_hash(each.ref) for each in (*spaces, *objects) if each.ref.kind == kind})
    shot = Snapshot(at.client, Codec(registry.managers), cache, at.home, unread, marked=marked, unknown=unknown or {})
    return Picture(shot, registry, asyncio.run(shot.plans(at.rules)))


def listed(at: Session, seen: Picture) -> tuple[list[str], list[str]]:
    """The addresses that are listed, and those of them that `--delete` would take on."""
    found = _certain(at, seen, list(orphans(seen, at.rules)))
    return [each.live.ref.path for each in found], [each.live.ref.path for each in _meant(at, seen, found)]


def serving_only(own: VocabularySettings, name: str) -> Settings:
    return Settings(vocabularies={name: own})


FISHY = serving_only(FishySecretSettings(), "fishysecret")


def test_a_copy_whose_sources_went_with_their_definition_is_listed_and_not_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = a_session(FISHY)
    assert listed(at, a_picture(at, MADE, unserved=[FISHY_SECRET])) == (["a/db"], [])
    told = capsys.readouterr().err
    assert "passed over" not in told
    assert "1 orphan not removed: the server does not serve fishykeys.2v.pm/v1alpha1/FishySecret" in told
    assert "no wish to delete" in told


def test_a_copy_whose_sources_may_not_be_listed_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    at = a_session(FISHY)
    assert listed(at, a_picture(at, MADE, unknown={FISHY_SECRET: "403 Forbidden"})) == ([], [])
    assert "1 copy passed over" in capsys.readouterr().err


def test_of_a_vocabulary_that_is_not_configured_a_copy_can_go_whatever_became_of_its_definition() -> None:
    at = a_session(serving_only(SecretCopySettings(), "secret-copy"))
    assert listed(at, a_picture(at, MADE, unserved=[FISHY_SECRET])) == (["a/db"], ["a/db"])


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
def test_a_copy_in_a_namespace_that_was_protected_later_is_listed_though_its_source_would_keep_it(
    settings: Settings, source: Object, copy: Object, protected: tuple[str, ...], orphaned: list[str]
) -> None:
    at = a_session(msgspec.structs.replace(settings, protected_namespaces=protected))
    seen = a_picture(at, source, copy)
    assert listed(at, seen)[0] == orphaned


# A Secret of a FishySecret that asks for copies of itself

HANDED_ON = replace(
    MADE, annotations={"openkruise.io/sync-to": "namespaces", "openkruise.io/sync-to-namespaces": "team"}
)
SYNC_TO = serving_only(SyncToSettings(), "sync-to")


def test_what_was_made_and_asks_for_copies_is_an_orphan_once_nobody_makes_it() -> None:
    at = a_session(SYNC_TO)
    assert listed(at, a_picture(at, ASKING, HANDED_ON)) == (["a/db"], ["a/db"])


def test_it_is_none_while_its_own_source_is_served() -> None:
    at = a_session(msgspec.structs.replace(FISHY, vocabularies={**FISHY.vocabularies, **SYNC_TO.vocabularies}))
    assert listed(at, a_picture(at, ASKING, HANDED_ON))[0] == []


def test_what_only_carries_marks_that_somebody_else_has_set_is_a_source_like_any_other() -> None:
    at = a_session(SYNC_TO)
    forged = replace(HANDED_ON, managed_keys=frozenset())
    seen = a_picture(at, forged)
    seen.shot.marked[forged.ref] = forged
    assert listed(at, seen)[0] == []


def test_with_its_copies_it_goes_when_we_are_uninstalled() -> None:
    at = a_session(SYNC_TO)
    assert [each.live.ref.path for each in _going(a_picture(at, HANDED_ON))] == ["a/db"]
