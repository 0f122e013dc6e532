"""The setting `limits` holds for every vocabulary that tenants can write, whatever the vocabulary itself does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support.examples import a_world, examples, populate, registry_for
from tests.support.settle import RULES, plan_of
from tests.support.world import World

from samara.core.model import Key, vocabulary_of
from samara.core.registry import Registry
from samara.core.restrictions import limited
from samara.core.source_limits import LIMIT_EXCEEDED, SourceLimits
from samara.core.source_type import Names, SourceType
from samara.core.vocabulary import declared_reasons
from samara.vocabularies import VOCABULARIES

TENANTS = [vocabulary.name for vocabulary in VOCABULARIES if vocabulary.is_written_by_tenants]
LISTING = [name for name in TENANTS if name != "config-syncer"]
"""Sources of config-syncer select namespaces by their labels, and list none."""


def sources(vocabulary: str) -> Iterator[tuple[World, Key, int]]:
    """Every source of an example that lists namespaces, with how many of its copies are in such a namespace."""
    world = a_world(registry_for(vocabulary))
    populate(world, examples(vocabulary))
    for key in world.source_keys():
        copies = world.registry[key.source_type].desired(key.source, world).copies
        listed = sum(copy.by_name for copy in copies)
        if listed and vocabulary_of(key.source_type) == vocabulary:
            yield world, key, listed


def reasons(world: World, key: Key, limits: SourceLimits, source_type: SourceType | None = None) -> tuple[str, ...]:
    """The reasons of the faults of a plan under these limits. A refused source may have no other result."""
    registry, source_type = world.registry, source_type or world.registry[key.source_type]
    others = tuple(other for other in registry.source_types if other.name != key.source_type)
    world.registry = Registry((*others, limited(source_type, limits)))
    plan = plan_of(key, world, RULES)
    world.registry = registry
    refused = tuple(fault.reason for fault in plan.faults)
    assert LIMIT_EXCEEDED not in refused or not (plan.writes or plan.desired)
    return refused


@pytest.mark.parametrize("vocabulary", LISTING)
def test_a_source_that_lists_more_names_than_the_setting_allows_gets_no_copies(vocabulary: str) -> None:
    listing = list(sources(vocabulary))
    assert listing, "an example of this vocabulary must list a namespace by its name"
    for world, key, names in listing:
        assert LIMIT_EXCEEDED not in reasons(world, key, SourceLimits())
        assert reasons(world, key, SourceLimits(listed_names=names - 1)) == (LIMIT_EXCEEDED,)


@pytest.mark.parametrize("vocabulary", TENANTS)
def test_the_names_of_a_source_count_for_its_namespace(vocabulary: str) -> None:
    for world, key, names in sources(vocabulary):
        assert reasons(world, key, SourceLimits(listed_names_per_namespace=names - 1)) == (LIMIT_EXCEEDED,)


@pytest.mark.parametrize("vocabulary", TENANTS)
def test_a_vocabulary_that_does_not_say_what_its_sources_list_is_noticed(vocabulary: str) -> None:
    """Shows that the two tests above can fail."""
    for world, key, names in sources(vocabulary):
        forgetful = replace(world.registry[key.source_type], names=Names())
        assert reasons(world, key, SourceLimits(listed_names=names - 1), forgetful) == ()


@pytest.mark.parametrize("vocabulary", TENANTS)
def test_the_reason_of_a_refused_source_is_declared(vocabulary: str) -> None:
    assert LIMIT_EXCEEDED in declared_reasons(each for each in VOCABULARIES if each.name == vocabulary)
