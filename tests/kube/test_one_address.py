"""A cache of which only some addresses were read notes what else a plan asks for."""

from __future__ import annotations

from tests.support.world import at, secret

from samara.assembly import registry_of
from samara.core.model import SECRET, Object, namespace_ref
from samara.kube.answers import NO_READINGS
from samara.kube.codec import Codec
from samara.kube.one_address import PartialCache
from samara.settings import Settings
from samara.vocabularies.fishysecret import FISHY_SECRET

REGISTRY = registry_of(Settings())
PLACE = at("shop", "db")


def a_cache() -> PartialCache:
    return PartialCache(REGISTRY, build_content=Codec(REGISTRY.managers).content, readings=NO_READINGS)


def test_an_address_that_was_not_read_is_noted() -> None:
    cache = a_cache()
    assert cache.get(PLACE) is None
    assert not cache.exists_unread(at("shop", "other"))
    assert list(cache.missed) == [PLACE, at("shop", "other")]


def test_an_address_that_was_read_is_not_noted_whether_an_object_is_there_or_not() -> None:
    cache = a_cache()
    cache.get(PLACE)
    cache.note_read([PLACE, namespace_ref("shop")])
    cache.put(Object(namespace_ref("shop"), "u", 1))
    assert cache.get(namespace_ref("shop")) is not None
    assert cache.get(PLACE) is None
    assert not cache.missed


def test_a_name_or_a_kind_that_was_listed_is_known_in_every_namespace() -> None:
    cache = a_cache()
    cache.note_names_listed(SECRET, "db")
    cache.note_kind_listed(FISHY_SECRET)
    cache.get(PLACE)
    cache.get(at("billing", "db"))
    cache.get(at("billing", "any", FISHY_SECRET))
    assert not cache.missed


def test_the_sources_of_another_name_have_not_been_listed() -> None:
    cache = a_cache()
    cache.note_names_listed(SECRET, "db")
    cache.put(Object(at("admin", "db"), "u", 1, secret(), annotations={"secret-copy/namespaces": ""}))
    assert [key.source for key in cache.claimants(PLACE)] == [at("admin", "db")]
    assert not cache.missed_claims
    cache.claimants(at("shop", "other"))
    assert cache.missed_claims


def test_only_a_custom_resource_must_be_listed_as_a_whole() -> None:
    cache = a_cache()
    assert cache.has_synced(SECRET)
    assert not cache.has_synced(FISHY_SECRET)
