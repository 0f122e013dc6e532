"""What the settings make of the vocabularies."""

from __future__ import annotations

import pytest
from tests.support.world import World, at, content, path

from samara.core.model import Key, Ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.queries import SecretReading
from samara.core.writes import Plan
from samara.settings import parse
from samara.source_types import registry_of, store_config
from samara.vocabularies import VOCABULARIES
from samara.vocabularies.fishysecret import FINALIZER, FISHY_SECRET, NAME

SOURCE = Ref(FISHY_SECRET, "team-a", "db")
PATHS = "paths: [{namespaces: [team-*], allow: [/app/*, kv/db#user]}, {namespaces: [ops], allow: ['*']}]"


def planned(settings: str, where: str = "/app/db", target: str = "team-a/db", namespace: str = "team-a") -> Plan:
    world = World(registry_of(parse(settings, "test"), own_namespace="samara"))
    to, _, name = target.partition("/")
    for each in ("team-a", "team-b", "ops", "samara", "keys"):
        world.namespace(each)
    source = SOURCE._replace(namespace=namespace)
    item = {"secretPath": where, "secretKeyName": "key"}
    spec = {"target": {"name": name, "namespace": to}, "data": [item]}
    world.put(source, content(spec=spec), finalizers=(FINALIZER,), generation=1)
    world.values[path(where)] = SecretReading(b"value")
    return plan(Key(NAME, source), world, world.registry, ClusterPolicy())


def told(settings: str, *asked: str) -> list[str]:
    found = planned(settings, *asked)
    return [*(each.reason for each in found.faults), *(each.reason for each in found.blocked)]


@pytest.mark.parametrize(
    ("namespace", "where", "allowed"),
    [
        ("team-a", "/app/db", True),
        ("team-a", "/app/deep/er/db", True),
        ("team-a", "/app", False),
        ("team-a", "app/db", False),
        ("team-a", "kv/db#user", True),
        ("team-a", "kv/db#password", False),
        ("ops", "kv/db#password", True),
        ("samara", "/app/db", False),
    ],
)
def test_rules_say_which_namespaces_may_read_which_paths(namespace: str, where: str, allowed: bool) -> None:
    settings = f"vocabularies: {{fishysecret: {{{PATHS}}}}}"
    assert told(settings, where, f"{namespace}/db", namespace) == ([] if allowed else ["PathNotAllowed"])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("tenancy: open", []),
        ("tenancy: strict", ["PathNotAllowed"]),
        ("{tenancy: open, vocabularies: {fishysecret: {paths: []}}}", ["PathNotAllowed"]),
    ],
)
def test_without_rules_tenancy_says_whether_paths_may_be_read(settings: str, expected: list[str]) -> None:
    assert told(settings) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("tenancy: open", []),
        (f"{{tenancy: strict, vocabularies: {{fishysecret: {{{PATHS}}}}}}}", ["not-accepted"]),
        (f"{{tenancy: strict, vocabularies: {{fishysecret: {{crossNamespace: allow, {PATHS}}}}}}}", []),
        ("vocabularies: {fishysecret: {crossNamespace: consent}}", ["not-accepted"]),
    ],
)
def test_another_namespace_is_reached_as_the_settings_say(settings: str, expected: list[str]) -> None:
    assert told(settings, "/app/db", "team-b/db") == expected


def test_the_configuration_of_the_store_is_in_the_operators_namespace_unless_said_otherwise() -> None:
    assert store_config(parse("{}", "test"), "samara") == at("samara", "fishysecret-config")
    said = parse("vocabularies: {fishysecret: {namespace: keys}}", "test")
    assert store_config(said, "samara") == at("keys", "fishysecret-config")


def test_without_a_vocabulary_that_reads_a_secret_manager_there_is_no_configuration_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = tuple(vocabulary for vocabulary in VOCABULARIES if vocabulary.secret_store is None)
    monkeypatch.setattr("samara.source_types.VOCABULARIES", others)
    assert store_config(parse("{}", "test"), "samara") is None


def test_one_that_is_switched_off_is_recognised_and_asks_for_nothing() -> None:
    registry = registry_of(parse("vocabularies: {sync-to: {}}", "test"))
    world = World(registry)
    world.namespace("team-a")
    obj = world.put(SOURCE, content(spec={}))
    assert list(registry.sources(obj, world)) == []
    assert registry[NAME].desired(SOURCE, world).reads == ()
