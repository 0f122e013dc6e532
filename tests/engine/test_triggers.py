"""The keys that a change queues."""

from __future__ import annotations

import pytest
from tests.support import toys
from tests.support.controller import ControllerHarness
from tests.support.samples import a_cache, a_copy, a_key, a_namespace, a_source, an_object
from tests.support.world import at

from samara.core.metadata_keys import ACCEPT, IGNORE, PAUSED
from samara.core.model import Key, Object
from samara.core.queries import UNREAD, CrdExists
from samara.engine.triggers import triggers
from samara.kube.cache import Cache, Change
from samara.vocabularies.accurate.labels import PARENT
from samara.vocabularies.sync_to import SYNC_TO


def concerned(change: Change, cache: Cache) -> tuple[Key, ...]:
    return triggers(change, cache.registry, cache).keys


REF = at("a", "x", toys.FETCH)
DEFINITION_QUERY = CrdExists(toys.FETCH)
WORDS = {toys.PATH: "p", toys.INTO: "b"}
BEFORE = an_object(REF, annotations=WORDS, finalizers=(toys.GUARD,))


@pytest.mark.parametrize(
    ("after", "answer"),
    [
        (None, UNREAD),
        (an_object(REF, 2, annotations=WORDS, finalizers=(toys.GUARD,), deleting=True), UNREAD),
        (an_object(REF, 2, annotations=WORDS, finalizers=(toys.GUARD,)), True),
    ],
    ids=["gone", "going", "changed"],
)
def test_the_end_of_a_custom_resource_drops_the_answer_about_its_definition(
    after: Object | None, answer: object
) -> None:
    """The CRD may have been deleted in between, and the resource with it."""
    harness = ControllerHarness(registry=toys.full_registry())
    harness.cache.answers.keep(DEFINITION_QUERY, True)
    harness.deliver(Change(REF, BEFORE, after))
    assert harness.cache.answer(DEFINITION_QUERY) is answer


def test_the_deletion_of_a_former_source_triggers_the_keys_of_its_copies() -> None:
    """The cache held no content of it, so only copies can show what it was."""
    cache = a_cache()
    cache.put(a_copy("a"))
    cache.note_ignored(a_key().source)
    gone = cache.remove(a_key().source)
    assert gone is not None
    assert (gone.old, gone.new) == (None, None)
    assert concerned(gone, cache) == (a_key(),)
    assert concerned(Change(at("admin", "other"), None, None), cache) == ()


@pytest.mark.parametrize("word", [{PAUSED: "true"}, {ACCEPT: "team"}], ids=["paused", "accepting"])
def test_a_changed_pause_or_consent_triggers_all_copies_in_the_namespace(
    word: dict[str, str],
) -> None:
    cache = a_cache()
    cache.put(a_source(targets="b"))
    cache.put(a_copy("a"))
    annotated, plain = a_namespace("a", 2, annotations=word), a_namespace("a")
    assert a_key().in_namespace("a") in concerned(Change(annotated.ref, plain, annotated), cache)
    assert a_key().in_namespace("a") in concerned(Change(annotated.ref, annotated, plain), cache)
    assert a_key().in_namespace("a") not in concerned(Change(annotated.ref, plain, plain), cache)


def test_pausing_a_namespace_triggers_its_custom_resources() -> None:
    cache = a_cache(toys.full_registry())
    cache.put(BEFORE)
    paused, served = a_namespace("a", 2, annotations={PAUSED: "true"}), a_namespace("a")
    own = list(cache.registry.sources(BEFORE, cache))
    for change in (Change(paused.ref, served, paused), Change(paused.ref, paused, served)):
        assert set(own) <= set(concerned(change, cache))
    assert own != []


@pytest.mark.parametrize("after", [{}, None], ids=["lifted", "deleted"])
@pytest.mark.parametrize("by_label", [False, True], ids=["annotation", "label"])
def test_the_end_of_a_pause_triggers_the_keys_of_the_copies_that_are_left(
    after: dict[str, str] | None, by_label: bool
) -> None:
    """The object may have stopped being a source while it was paused."""
    cache = a_cache()
    cache.put(a_copy("a"))
    words = {"labels" if by_label else "annotations": {PAUSED: "true"}}
    paused = an_object(a_key().source, 2, **words)
    cache.put(paused)
    change = cache.remove(paused.ref) if after is None else cache.put(an_object(paused.ref, 3, annotations=after))
    assert change is not None
    assert change.new is None
    assert concerned(change, cache) == (a_key(),)


def test_lifting_the_pause_of_an_object_without_copies_triggers_nothing() -> None:
    cache = a_cache()
    paused = an_object(at("a", "other"), 1, annotations={PAUSED: "true"})
    cache.put(paused)
    assert concerned(Change(paused.ref, paused, None), cache) == ()


@pytest.mark.parametrize("by_label", [False, True], ids=["annotation", "label"])
def test_a_namespace_that_is_ignored_no_longer_triggers_all_copies_in_it(by_label: bool) -> None:
    cache = a_cache()
    cache.put(a_copy("a"))
    words = {"labels" if by_label else "annotations": {IGNORE: "true"}}
    ignored, served = a_namespace("a", 2, **words), a_namespace("a")
    assert a_key().in_namespace("a") in concerned(Change(served.ref, ignored, served), cache)


def test_pausing_a_namespace_triggers_the_rivals_of_its_custom_resources() -> None:
    """A paused source claims no address that it does not have."""
    cache = a_cache(toys.full_registry())
    cache.put(BEFORE)
    rival = an_object(at("c", "x"), annotations={SYNC_TO: "cluster"})
    cache.put(rival)
    paused, served = a_namespace("a", 2, annotations={PAUSED: "true"}), a_namespace("a")
    for change in (Change(paused.ref, served, paused), Change(paused.ref, paused, served)):
        assert Key("sync-to", rival.ref) in concerned(change, cache)


def test_a_moved_namespace_triggers_the_sources_in_it_and_below_it() -> None:
    """Their trees have changed, and with them what consents accept."""
    cache = a_cache(toys.full_registry(consent=True))
    root, mid, low, side = (
        a_namespace(name, labels={PARENT: parent} if parent else {})
        for name, parent in (("root", ""), ("mid", "root"), ("low", "mid"), ("side", "root"))
    )
    for namespace in (root, mid, low, side):
        cache.put(namespace)
    keys = {}
    for name in ("mid", "low", "side"):
        cache.put(an_object(at(name, name), annotations={SYNC_TO: "cluster"}))
        keys[name] = Key("sync-to", at(name, name))
    moved = a_namespace("mid", 2, labels={PARENT: "side"})

    def triggered(change: Change) -> set[str]:
        concerned_keys = concerned(change, cache)
        return {name for name, key in keys.items() if key in concerned_keys}

    assert triggered(Change(mid.ref, mid, moved)) == {"mid", "low"}
    assert triggered(Change(mid.ref, None, mid)) == triggered(Change(mid.ref, mid, None)) == {"mid", "low"}
    assert triggered(Change(mid.ref, mid, a_namespace("mid", 2, labels={PARENT: "root", "note": "x"}))) == set()
    assert triggered(Change(root.ref, None, root)) == set()
