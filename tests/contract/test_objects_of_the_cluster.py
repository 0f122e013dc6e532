"""The setting `neverCopied.objects` holds for every vocabulary: what it names is no source, and the source says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as evolve

import pytest
from msgspec.structs import replace
from tests.support.examples import a_world, examples, populate, registry_for, settings_of
from tests.support.settle import RULES, plan_of
from tests.support.world import World

from samara.assembly import WELL_KNOWN, kinds_in, registry_of
from samara.core.admission import Request
from samara.core.model import NAMESPACE, Key, KindName, ObjectName, Ref, vocabulary_of
from samara.core.source_type import Annotated
from samara.kube.discovery import guess
from samara.settings.model import NeverCopied
from samara.vocabularies import VOCABULARIES

ANNOTATING = [
    vocabulary.name
    for vocabulary in VOCABULARIES
    if any(
        isinstance(source_type.source, Annotated) and source_type.kinds != (NAMESPACE,)
        for source_type in registry_for(vocabulary.name).source_types
        if source_type.vocabulary == vocabulary.name
    )
]


def worlds(vocabulary: str) -> Iterator[tuple[World, Key]]:
    """For each annotated source of an example: the world in sync, and then settings that name the source."""
    settings, key_of = settings_of(vocabulary), dict[Ref, Key]()
    kinds = {**{name: guess(name) for name in kinds_in(settings)}, **WELL_KNOWN}
    world = a_world(registry_for(vocabulary))
    populate(world, examples(vocabulary))
    for key in world.source_keys():
        if vocabulary_of(key.source_type) == vocabulary and key.source.kind.name in ("Secret", "ConfigMap"):
            key_of.setdefault(key.source, key)
    for key in key_of.values():
        world.registry = registry_of(replace(settings, never_copied=NeverCopied(objects=(name_of(key.source),))), kinds)
        yield world, key


def name_of(ref: Ref) -> ObjectName:
    return ObjectName(KindName(ref.kind.group, ref.kind.version, ref.kind.name), ref.name)


@pytest.mark.parametrize("vocabulary", ANNOTATING)
def test_an_object_of_the_cluster_is_no_source_and_its_copies_from_before_stay(vocabulary: str) -> None:
    sources = 0
    for world, key in worlds(vocabulary):
        plan = plan_of(key, world, RULES)
        assert [fault.reason for fault in plan.faults] == ["Refused"]
        assert "never copied" in plan.faults[0].message
        assert (plan.writes, plan.blocked, tuple(plan.desired)) == ((), (), ())
        sources += 1
    assert sources


@pytest.mark.parametrize("vocabulary", ANNOTATING)
def test_an_object_of_the_cluster_that_is_deleted_ends_its_copies_as_any_source_does(vocabulary: str) -> None:
    for world, key in worlds(vocabulary):
        world.edit(key.source, deleting=True, finalizers=("example.com/wait",))
        plan = plan_of(key, world, RULES)
        world.registry = registry_for(vocabulary)
        assert plan == plan_of(key, world, RULES)


@pytest.mark.parametrize("vocabulary", ANNOTATING)
def test_the_webhook_refuses_only_that_an_object_of_the_cluster_becomes_a_source(vocabulary: str) -> None:
    for world, key in worlds(vocabulary):
        source, admission = world.objects[key.source], world.registry[key.source_type].admission
        if admission is not None:
            bare = evolve(source, annotations={}, labels={})
            assert len(admission.validate(Request("UPDATE", source, bare), world)) == 1
            assert admission.validate(Request("UPDATE", source, source), world) == ()
            assert admission.validate(Request("UPDATE", bare, source), world) == ()
