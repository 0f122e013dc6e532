"""What ends while Samara may not write: the end of a pause, of `ignore`, of consent and of protection; and adoption."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.cluster.support.operators import Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import Stage, encoded
from tests.cluster.support.waiting import eventually, never

pytestmark = pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only")

Json = dict[str, Any]
SYNC_TO = "openkruise.io/sync-to"
LISTED = "openkruise.io/sync-to-namespaces"
FROM = "openkruise.io/synced-from"
ADOPTED = "samara.dev/adopted"
ACCEPT = "samara.dev/accept-from"
PAUSED = "samara.dev/paused"
IGNORE = "samara.dev/ignore"
SETTLED = 0.5


@pytest.fixture(autouse=True)
def _sync_to(stage: Stage) -> None:
    stage.namespace("team", "a", "b")


def serve(stage: Stage, **general: Any) -> Operator:
    """Without a resync: what is made up is made up at once."""
    own = {"kinds": ["v1/Secret"], **general.pop("own", {})}
    return stage.operator(config={"vocabularies": {"sync-to": own}, "resync": "0s", **general})


def to(*names: str) -> dict[str, str | None]:
    """The annotations that list these namespaces; without one, those that select every namespace."""
    if not names:
        return {SYNC_TO: "cluster", LISTED: None}
    return {SYNC_TO: "namespaces", LISTED: ";".join(names)}


def source(stage: Stage, name: str, *targets: str, namespace: str = "team", **metadata: str) -> None:
    annotations = {key: value for key, value in {**to(*targets), **metadata}.items() if value is not None}
    stage.foreign(namespace, name, metadata={"annotations": annotations})


def ask(stage: Stage, name: str, annotations: dict[str, str | None]) -> None:
    stage.annotate(stage.path("team", name), annotations)


def change(stage: Stage, name: str) -> None:
    stage.api.patch(stage.path("team", name), {"data": encoded({"mine": f"changed-{stage.rising()}"})})


def space(stage: Stage, name: str, **annotations: str | None) -> None:
    keys = {"paused": PAUSED, "ignore": IGNORE, "accept": ACCEPT}
    stage.annotate(f"/api/v1/namespaces/{name}", {keys[key]: value for key, value in annotations.items()})
    if stage.operators:
        stage.until_seen()


def is_copied(stage: Stage, namespace: str, name: str, source: str = "team") -> bool:
    live = stage.secret(namespace, name)
    is_marked = live is not None and metadata_of(live).get(FROM) == f"{source}/{name}"
    return is_marked and stage.data(namespace, name) == stage.data(source, name)


def until_copied(stage: Stage, name: str, *namespaces: str, source: str = "team") -> None:
    for namespace in namespaces:
        eventually(lambda where=namespace: is_copied(stage, where, name, source))  # type: ignore[misc]


def test_what_ended_while_a_namespace_was_paused_is_made_up_when_its_pause_ends(stage: Stage) -> None:
    for name in ("narrowed", "ended", "gone", "changed"):
        source(stage, name, "a", "b")
    serve(stage)
    for name in ("narrowed", "ended", "gone", "changed"):
        until_copied(stage, name, "a", "b")

    space(stage, "a", paused="true")
    ask(stage, "narrowed", to("b"))
    ask(stage, "ended", {SYNC_TO: None, LISTED: None})
    stage.api.delete(stage.path("team", "gone"))
    change(stage, "changed")
    source(stage, "new", "a", "b")
    for name in ("ended", "gone"):
        stage.until_gone("b", name)
    until_copied(stage, "changed", "b")
    until_copied(stage, "new", "b")
    assert all(stage.secret("a", name) for name in ("narrowed", "ended", "gone"))
    assert not is_copied(stage, "a", "changed")
    assert stage.secret("a", "new") is None

    space(stage, "a", paused=None)
    for name in ("narrowed", "ended", "gone"):
        stage.until_gone("a", name)
    until_copied(stage, "changed", "a")
    until_copied(stage, "new", "a")


def test_what_changed_while_a_namespace_was_ignored_is_made_up_when_that_ends(stage: Stage) -> None:
    for name in ("changed", "ended"):
        source(stage, name)
    serve(stage)
    for name in ("changed", "ended"):
        until_copied(stage, name, "a", "b")

    space(stage, "a", ignore="true")
    change(stage, "changed")
    source(stage, "new")
    until_copied(stage, "changed", "b")
    until_copied(stage, "new", "b")
    ask(stage, "ended", {SYNC_TO: None})
    stage.until_gone("b", "ended")
    stage.until_gone("a", "ended")  # nothing wants it any more
    assert not is_copied(stage, "a", "changed")
    assert stage.secret("a", "new") is None

    space(stage, "a", ignore=None)
    until_copied(stage, "changed", "a")
    until_copied(stage, "new", "a")


def test_consent_that_ended_during_a_pause_takes_its_copies_when_the_pause_ends_and_returns_them_with_it(
    stage: Stage,
) -> None:
    for namespace in ("a", "b"):
        space(stage, namespace, accept="team")
    for name in ("kept", "ended"):
        source(stage, name, "a", "b")
    serve(stage, own={"crossNamespace": "consent"})
    for name in ("kept", "ended"):
        until_copied(stage, name, "a", "b")

    space(stage, "a", paused="true")
    space(stage, "a", accept=None)
    change(stage, "kept")
    until_copied(stage, "kept", "b")
    assert stage.secret("a", "kept") is not None
    space(stage, "a", paused=None)
    for name in ("kept", "ended"):
        stage.until_gone("a", name)

    ask(stage, "ended", {SYNC_TO: None, LISTED: None})
    stage.until_gone("b", "ended")
    space(stage, "a", accept="team")
    until_copied(stage, "kept", "a")
    assert stage.secret("a", "ended") is None


def test_a_paused_source_without_a_copy_blocks_nobody_and_keeps_the_copies_that_it_has(stage: Stage) -> None:
    stage.namespace("shop")
    source(stage, "db", "a")
    serve(stage)
    until_copied(stage, "db", "a")
    ask(stage, "db", {PAUSED: "true"})
    ask(stage, "db", to("a", "b"))
    stage.until_seen()
    source(stage, "db", "a", "b", namespace="shop")
    until_copied(stage, "db", "b", source="shop")
    assert is_copied(stage, "a", "db")
    assert "sync-to/Secret/team/db" in stage.until_event("Conflict", "shop", "db")["message"]


def test_an_adopted_object_that_is_deleted_and_created_for_another_type_is_adopted_no_longer(stage: Stage) -> None:
    fields = {"username": "u", "password": "p"}
    stage.foreign("a", "db", fields)
    stage.foreign("team", "db", fields, metadata={"annotations": to("a")})
    serve(stage)
    until_copied(stage, "db", "a")
    assert metadata_of(stage.secret("a", "db") or {})[ADOPTED] == "true"
    stage.api.delete(stage.path("team", "db"))
    stage.foreign("team", "db", fields, metadata={"annotations": to("a")}, type="kubernetes.io/basic-auth")
    eventually(lambda: (stage.secret("a", "db") or {}).get("type") == "kubernetes.io/basic-auth")
    assert ADOPTED not in metadata_of(stage.secret("a", "db") or {})
    ask(stage, "db", to("b"))
    stage.until_gone("a", "db")


def test_under_strict_tenancy_events_name_only_the_namespaces_that_the_source_lists(stage: Stage) -> None:
    stage.namespace("hidden-one", "hidden-two")
    source(stage, "listing", "a", "hidden-one")
    source(stage, "all")
    serve(stage, tenancy="strict")
    listing = stage.until_event("NotAccepted", "team", "listing")["message"]
    assert "hidden-one" in listing
    assert "hidden-two" not in listing
    everywhere = stage.until_event("NotAccepted", "team", "all")["message"]
    assert not re.search(r"hidden-|namespace [ab]\b", everywhere)


def test_a_copy_in_a_namespace_that_becomes_protected_stays_as_it_is(stage: Stage) -> None:
    source(stage, "db", "a", "b")
    operator = serve(stage)
    until_copied(stage, "db", "a", "b")
    operator.stop()
    change(stage, "db")
    serve(stage, protectedNamespaces=["a"])
    until_copied(stage, "db", "b")
    assert "protected" in stage.until_event("Refused", "team", "db")["message"]
    never(lambda: stage.secret("a", "db") is None or is_copied(stage, "a", "db"), SETTLED)
