"""Tests how the settings configure the vocabularies."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.support.pages import ROOT
from tests.support.world import World, at, content, path

from samara.assembly import registry_of, store_config
from samara.core.model import Key, Ref, namespace_ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.queries import SecretReading
from samara.core.writes import Plan
from samara.settings import parse
from samara.vocabularies import VOCABULARIES
from samara.vocabularies.accurate.labels import PARENT, TYPE
from samara.vocabularies.fishysecret import FINALIZER, FISHY_SECRET, NAME

SOURCE = Ref(FISHY_SECRET, "team-a", "db")
PATHS = "paths: [{namespaces: [team-*], allow: [/app/*, kv/db#user]}, {namespaces: [ops], allow: ['*']}]"


def planned(settings: str, where: str = "/app/db", target: str = "team-a/db", namespace: str = "team-a") -> Plan:
    world = World(registry_of(parse(settings, "test"), own_namespace="samara"))
    to, _, name = target.partition("/")
    for existing in ("team-a", "team-b", "ops", "samara", "keys"):
        world.namespace(existing)
    source = SOURCE._replace(namespace=namespace)
    item = {"secretPath": where, "secretKeyName": "key"}
    spec = {"target": {"name": name, "namespace": to}, "data": [item]}
    world.put(source, content(spec=spec), finalizers=(FINALIZER,), generation=1)
    world.values[path(where)] = SecretReading(b"value")
    return plan(Key(NAME, source), world, world.registry, ClusterPolicy())


def reasons(settings: str, *paths: str) -> list[str]:
    result = planned(settings, *paths)
    return [*(fault.reason for fault in result.faults), *(fault.reason for fault in result.blocked)]


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
def test_rules_decide_which_namespaces_may_read_which_paths(namespace: str, where: str, allowed: bool) -> None:
    settings = f"vocabularies: {{fishysecret: {{{PATHS}}}}}"
    assert reasons(settings, where, f"{namespace}/db", namespace) == ([] if allowed else ["PathNotAllowed"])


def is_readable(world: World, namespace: str) -> bool:
    """Whether a FishySecret in this namespace may read the path, as the plan says."""
    source, item = SOURCE._replace(namespace=namespace), {"secretPath": "/app/db", "secretKeyName": "key"}
    spec = {"target": {"name": "db", "namespace": namespace}, "data": [item]}
    if source not in world.objects:
        world.put(source, content(spec=spec), finalizers=(FINALIZER,), generation=1)
    return not world.registry[NAME].desired(source, world).faults


TREE = 'vocabularies: {fishysecret: {paths: [{namespaces: ["tree:shop"], allow: [/app/*]}]}}'


def test_a_rule_for_a_tree_follows_the_labels_of_namespaces() -> None:
    world = World(registry_of(parse(TREE, "test")))
    world.namespace("shop", {TYPE: "root"}), world.namespace("web", {PARENT: "shop"}), world.namespace("shop-x")
    assert [is_readable(world, name) for name in ("shop", "web", "shop-x")] == [True, True, False]
    world.edit(namespace_ref("web"), labels={PARENT: "shop-x"})
    assert not is_readable(world, "web")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("tenancy: open", []),
        ("tenancy: strict", ["PathNotAllowed"]),
        ("{tenancy: open, vocabularies: {fishysecret: {paths: []}}}", ["PathNotAllowed"]),
    ],
)
def test_without_rules_tenancy_decides_whether_paths_may_be_read(settings: str, expected: list[str]) -> None:
    assert reasons(settings) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("tenancy: open", []),
        (f"{{tenancy: strict, vocabularies: {{fishysecret: {{{PATHS}}}}}}}", ["not-accepted"]),
        (f"{{tenancy: strict, vocabularies: {{fishysecret: {{crossNamespace: allow, {PATHS}}}}}}}", []),
        ("vocabularies: {fishysecret: {crossNamespace: consent}}", ["not-accepted"]),
    ],
)
def test_the_settings_decide_about_consent_between_namespaces(settings: str, expected: list[str]) -> None:
    assert reasons(settings, "/app/db", "team-b/db") == expected


def test_the_store_configuration_is_in_the_operators_namespace_by_default() -> None:
    assert store_config(parse("{}", "test"), "samara") == at("samara", "fishysecret-config")
    settings = parse("vocabularies: {fishysecret: {namespace: keys}}", "test")
    assert store_config(settings, "samara") == at("keys", "fishysecret-config")


def test_without_a_vocabulary_that_reads_a_secret_manager_there_is_no_configuration_of_one() -> None:
    others = tuple(vocabulary for vocabulary in VOCABULARIES if vocabulary.secret_store is None)
    assert store_config(parse("{}", "test"), "samara", others) is None


def test_a_disabled_vocabulary_recognises_its_copies_and_desires_none() -> None:
    registry = registry_of(parse("vocabularies: {sync-to: {}}", "test"))
    world = World(registry)
    world.namespace("team-a")
    obj = world.put(SOURCE, content(spec={}))
    assert list(registry.sources(obj, world)) == []
    assert registry[NAME].desired(SOURCE, world).reads == ()


SPELLED = frozenset(
    text for vocabulary in VOCABULARIES for text in (vocabulary.name, vocabulary.name.replace("-", "_"))
)
CODE = ("src/samara", "scripts", "devtools/samara_devtools/bench", "devtools/samara_devtools/demo")
THEIR_CODE = (
    "src/samara/vocabularies",
    "devtools/samara_devtools/bench/workloads",
    "devtools/samara_devtools/demo/walks",
)


@pytest.mark.parametrize("folder", CODE)
def test_only_the_code_of_a_vocabulary_spells_its_name(folder: str) -> None:
    theirs = [ROOT / path for path in THEIR_CODE]
    modules = [file for file in (ROOT / folder).rglob("*.py") if not any(map(file.is_relative_to, theirs))]
    assert modules
    assert [f"{file}: {text}" for file in modules for text in texts_in(file) if text in SPELLED] == []


def texts_in(file: Path) -> list[object]:
    return [node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]


def test_a13_the_order_of_vocabularies_is_a_promise() -> None:
    promised = (
        "secret-copy",
        "resource-distribution",
        "clustersecret",
        "accurate",
        "fishysecret",
        "sync-to",
        "replicator",
        "reflector",
        "config-syncer",
    )
    names = [vocabulary.name for vocabulary in VOCABULARIES]
    assert names == [name for name in promised if name in names]
    assert set(names) <= set(promised)
