"""A write in a forecast changes the cache, and queues the sources that it concerns."""

from __future__ import annotations

from dataclasses import replace

from tests.support.caches import a_plain_cache
from tests.support.world import at, content, secret

from samara.assembly import registry_of
from samara.cli.inspect.forecast import apply_all, apply_to_cache
from samara.core.desired import Copy, Template
from samara.core.model import Key, Object, namespace_ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.writes import Create
from samara.kube.cache import Cache
from samara.settings import Settings
from samara.vocabularies.accurate.labels import PARENT, SUB_NAMESPACE

NOW = "2030-01-01T00:00:00Z"
REGISTRY = registry_of(Settings())
SUB_KEY = Key("accurate:sub", at("root", "web", SUB_NAMESPACE))
COPY_KEY = Key("secret-copy", at("admin", "db"))


def a_cache(*objects: Object) -> Cache:
    cache = a_plain_cache(REGISTRY, keep_bytes=True)
    for kind in REGISTRY.kinds:
        cache.finish_list(kind, set())
    for obj in objects:
        cache.put(obj)
    return cache


def a_namespace(name: str) -> Object:
    return Object(namespace_ref(name), f"u-{name}", 1)


def a_source(targets: str) -> Object:
    return Object(COPY_KEY.source, "u", 1, secret(), annotations={"secret-copy/namespaces": targets})


def test_created_copy_is_in_the_cache_and_its_source_is_planned_again() -> None:
    source = a_source("a")
    cache = a_cache(a_namespace("admin"), a_namespace("a"), source)
    template = Template(source.content, {"secret-copy/from": "admin-db"}, {"secret-copy/origin": "admin/db"})
    copy = Copy(at("a", "db"), template)
    assert COPY_KEY in set(apply_to_cache(cache, Create(COPY_KEY, copy.ref, copy), NOW))
    cached = cache.get(copy.ref)
    assert cached is not None
    assert cached.known_copy


def test_new_copies_of_an_annotated_source_need_no_second_plan_of_it() -> None:
    """They are as it wants them, and it has neither a status nor a finalizer that comes next."""
    cache = a_cache(a_namespace("admin"), a_namespace("a"), a_namespace("b"), a_source("a,b"))
    writes = plan(COPY_KEY, cache, REGISTRY, ClusterPolicy()).writes
    assert [type(write) for write in writes] == [Create, Create]
    assert apply_all(cache, list(writes)) == set()
    assert {step.rule for step in plan(COPY_KEY, cache, REGISTRY, ClusterPolicy()).steps} == {"in-sync"}


def test_a_rival_of_a_new_copy_is_planned_again() -> None:
    cache = a_cache(a_namespace("admin"), a_namespace("a"), a_source("a"))
    rival = at("team", "db")
    cache.put(Object(rival, "u-rival", 1, secret(), annotations={"openkruise.io/sync-to": "cluster"}))
    writes = plan(COPY_KEY, cache, REGISTRY, ClusterPolicy()).writes
    assert apply_all(cache, list(writes)) == {Key("sync-to", rival)}


def test_a_custom_resource_is_planned_again_after_it_created_its_copy() -> None:
    """Its status says what is there, and can be written only then."""
    cache = a_cache(a_namespace("root"))
    created = Create(SUB_KEY, namespace_ref("web"), Copy(namespace_ref("web"), Template(content(), {PARENT: "root"})))
    cache.put(Object(SUB_KEY.source, "u-sub", 1))
    assert SUB_KEY in apply_all(cache, [created])


def test_a_changed_copy_is_planned_again() -> None:
    cache = a_cache(a_namespace("admin"), a_namespace("a"), a_source("a"))
    apply_all(cache, list(plan(COPY_KEY, cache, REGISTRY, ClusterPolicy()).writes))
    cache.put(replace(a_source("a"), resource_version=2, content=secret("two")))
    (write,) = plan(COPY_KEY, cache, REGISTRY, ClusterPolicy()).writes
    assert apply_all(cache, [write]) == {COPY_KEY}


def test_created_namespace_queues_the_sources_that_select_it() -> None:
    cache = a_cache(a_namespace("admin"), a_source(""))
    ref = namespace_ref("web")
    assert COPY_KEY in set(apply_to_cache(cache, Create(SUB_KEY, ref, Copy(ref, Template(content()))), NOW))
