"""Tests how the settings configure the operator."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest
from prometheus_client import enable_created_metrics, generate_latest
from tests.kube.scripted import access, hangs, refuses, says, serving
from tests.support.caches import a_plain_cache
from tests.support.samples import a_copy, a_namespace, a_source, an_access
from tests.support.world import at

from samara import app
from samara.admission.admission import Listener
from samara.admission.webhooks import MUTATING, VALIDATING
from samara.app import Clients, Operator, Options, leader_elector, may_write
from samara.assembly import cluster_policy, copyable_metadata, registry_of
from samara.core.desired import Adopt
from samara.core.model import ANNOTATIONS, CONFIG_MAP, LABELS, NAMESPACE, SECRET, Key, Kind, Object, Ref
from samara.core.plan import plan
from samara.core.policy import ClusterPolicy
from samara.core.writes import Create, Plan, Update
from samara.engine.metrics import Metrics
from samara.environment import Environment, discover_environment
from samara.kube.cache import Cache
from samara.kube.client import Client, unrestricted
from samara.settings import NeverCopied, Settings, parse
from samara.vocabularies import VOCABULARIES
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.accurate.labels import SUB_NAMESPACE
from samara.vocabularies.fishysecret import FishySecretSettings
from samara.vocabularies.secret_copy import TARGETS, SecretCopySettings


def an_operator(
    settings: Settings,
    client: Client | None = None,
    options: Options | None = None,
    environment: Environment | None = None,
) -> Operator:
    """An operator that is built but not started."""
    client = client or Client(an_access(), may_write=unrestricted)
    clients = Clients(client, client, client)
    return Operator(settings, options or Options(), client.access, clients, None, environment or Environment())


KEY = Key("secret-copy", at("admin", "db"))


def planned(settings: Settings, *objects: Object, key: Key = KEY) -> Plan:
    registry = registry_of(settings, every_kind=True)
    cache = a_plain_cache(registry)
    for obj in objects:
        cache.put(obj)
    for kind in (NAMESPACE, SECRET):
        cache.finish_list(kind, {hash((obj.ref.namespace, obj.ref.name)) for obj in objects if obj.ref.kind == kind})
    return plan(key, cache, registry, cluster_policy(settings, "samara", in_cluster=False))


def with_secret_copy(secret_copy: SecretCopySettings) -> Settings:
    return Settings(vocabularies={"secret-copy": secret_copy})


def test_by_default_every_vocabulary_is_served() -> None:
    assert [type(write) for write in planned(Settings(), a_namespace("a"), a_source()).writes] == [Create]


def test_a_disabled_vocabulary_plans_no_writes() -> None:
    off = Settings(vocabularies={})
    plan_ = planned(off, a_namespace("a"), a_namespace("b"), a_source(targets="b"), a_copy("a"))

    assert plan_ == Plan()


def test_a_disabled_vocabulary_still_recognises_its_copies_and_keys() -> None:
    registry = registry_of(Settings(vocabularies={}))

    assert registry.owner(a_copy("a"), a_plain_cache(registry)) == KEY
    assert TARGETS in registry.metadata_keys
    copyable = copyable_metadata(Settings(vocabularies={}), VOCABULARIES)
    assert copyable.of_source(ANNOTATIONS, {TARGETS: "", "team": "red"}) == {"team": "red"}


def test_the_namespace_of_secret_copy_is_a_setting() -> None:
    moved = with_secret_copy(SecretCopySettings(home="vault"))
    source = replace(a_source(), ref=at("vault", "db"))
    plan_ = planned(moved, a_namespace("a"), source, a_source(), key=Key("secret-copy", source.ref))

    assert [item.ref for item in plan_.writes] == [at("a", "db")]
    assert planned(moved, a_namespace("a"), a_source()).writes == ()


def test_a_setting_decides_whether_copies_of_a_deleted_source_stay() -> None:
    there = a_namespace("a"), a_copy("a")

    assert planned(Settings(), *there).writes == ()
    assert len(planned(with_secret_copy(SecretCopySettings(on_source_gone="delete")), *there).writes) == 1


def test_conflicts_are_refused_unless_the_settings_say_otherwise() -> None:
    there = (
        a_namespace("a"),
        a_source(),
        replace(a_copy("a"), annotations={}, managed_keys=frozenset(), known_copy=False),
    )

    assert [item.reason for item in planned(Settings(), *there).blocked] == ["conflict"]
    for settings in (Settings(conflicts="overwrite"), with_secret_copy(SecretCopySettings(conflicts="overwrite"))):
        (plan_,) = planned(settings, *there).writes
        assert isinstance(plan_, Create | Update) or plan_.ref == at("a", "db")
        desired = registry_of(settings)["secret-copy"].desired(KEY.source, _view(settings, *there))
        assert desired.copies[0].template.adopt is Adopt.ANY


def _view(settings: Settings, *objects: Object) -> Cache:
    cache = a_plain_cache(registry_of(settings))
    for obj in objects:
        cache.put(obj)
    return cache


def test_the_managers_of_an_original_are_known() -> None:
    registry = registry_of(with_secret_copy(SecretCopySettings(managers=("old-copier",))))

    assert registry.managers - registry_of(Settings()).managers == {"old-copier"}
    assert registry.managers >= {"samara", "accurate-controller"}


def test_marks_of_accurates_own_manager_count_as_ours_unless_the_settings_say_otherwise() -> None:
    for managers, trusted in ((AccurateSettings(), True), (AccurateSettings(managers=()), False)):
        registry = registry_of(Settings(vocabularies={"accurate": managers}))
        assert ("accurate-controller" in registry["accurate"].ownership.managers) is trusted
        assert "accurate-controller" in registry["accurate:tree"].ownership.managers  # we apply overlays under its name


def test_the_settings_add_keys_that_are_never_copied() -> None:
    copyable = copyable_metadata(
        Settings(never_copied=NeverCopied(labels=("team/*",), annotations=("note",))), VOCABULARIES
    )

    metadata = {"team/a": "1", "note": "2", "kept": "3"}
    assert copyable.of_source(LABELS, metadata) == {"note": "2", "kept": "3"}
    assert copyable.of_source(ANNOTATIONS, metadata) == {"team/a": "1", "kept": "3"}


def test_the_cluster_policy_comes_from_the_settings() -> None:
    settings = Settings(protected_namespaces=("kube-*",), recreate="refuse")

    own = cluster_policy(settings, "samara", in_cluster=False).operators_own

    assert cluster_policy(settings, "samara", in_cluster=False) == ClusterPolicy(
        ("kube-*",), False, ("kube-*", "default", "kube-*", "samara", "admin"), own
    )


@pytest.mark.parametrize(
    ("settings_text", "home"), [("{}", "samara"), ("vocabularies: {fishysecret: {namespace: keys}}", "keys")]
)
def test_the_policy_names_the_operators_own_objects(settings_text: str, home: str) -> None:
    assert cluster_policy(parse(settings_text, "test"), "samara", in_cluster=False).operators_own == {
        Ref(SECRET, home, "fishysecret-config"),
        Ref(SECRET, "samara", "samara-webhook-tls"),
        Ref(CONFIG_MAP, "samara", "samara-holds"),
        Ref(Kind("coordination.k8s.io", "v1", "Lease", "leases"), "samara", "samara"),
    }


def test_in_a_cluster_our_own_namespace_is_protected() -> None:
    settings = Settings(protected_namespaces=("kube-*",))

    assert cluster_policy(settings, "samara", in_cluster=True).protected == ("kube-*", "samara")


@pytest.mark.parametrize(
    ("options", "may"), [(Options(), True), (Options(observe=True), False), (Options(leader_elect=True), False)]
)
def test_copies_are_written_only_while_leading_and_not_with_observe(options: Options, may: bool) -> None:
    reached = an_access()
    leader = (
        leader_elector(Settings(), reached, Client(reached, may_write=unrestricted)) if options.leader_elect else None
    )

    assert may_write(options, leader)() is may


def test_only_the_kinds_of_served_vocabularies_are_watched() -> None:
    assert [kind.name for kind in registry_of(with_secret_copy(SecretCopySettings())).kinds] == ["Namespace", "Secret"]
    registry = registry_of(with_secret_copy(SecretCopySettings()), every_kind=True)
    assert {kind.name for kind in registry.kinds} == {
        "Namespace",
        "Secret",
        "ConfigMap",
        "ResourceDistribution",
        "SubNamespace",
        "FishySecret",
    }


@pytest.mark.parametrize("in_cluster", [True, False])
def test_admission_judges_for_vocabularies_that_wait(in_cluster: bool) -> None:
    """Otherwise the naming policies would not be asked meanwhile. In a cluster the webhooks are registered anyway."""
    listener, reached = Listener(in_cluster=in_cluster), an_access()
    around = Environment(originals={"accurate": "accurate"})
    settings = Settings(vocabularies={"accurate": AccurateSettings()})
    operator = an_operator(settings, Client(reached, may_write=unrestricted), Options(webhook=listener), around)

    admission = operator._admission
    assert admission is not None
    assert admission._registrar._registration.configurations == (VALIDATING, MUTATING)
    assert admission._registrar._registration.crds == ()  # meanwhile the original controller converts
    assert {kind for _, _, kind in admission._server._guarded} == {"Namespace", "SubNamespace"}
    assert admission._server._is_listed(SUB_NAMESPACE)  # it is not watched meanwhile
    assert not admission._server._is_listed(NAMESPACE)


@pytest.mark.parametrize(
    ("options", "excepted"),
    [(Options(), set()), (Options(webhook=Listener(in_cluster=True)), {"ResourceDistribution", "SubNamespace"})],
    ids=["without a webhook server", "with one"],
)
def test_readiness_waits_for_every_kind_except_those_that_we_convert(options: Options, excepted: set[str]) -> None:
    operator = an_operator(Settings(), options=options)

    assert {kind.name for kind in operator.health.converted} == excepted


def test_a_vocabulary_that_waits_for_its_original_is_disabled() -> None:
    registry = registry_of(Settings(), waiting=frozenset({"resource-distribution"}))
    assert registry["resource-distribution"].status is None
    assert {kind.name for kind in registry.kinds} == {"Namespace", "Secret", "ConfigMap", "SubNamespace", "FishySecret"}


def test_the_operator_is_rebuilt_when_something_missing_appears_and_not_for_another_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "DISCOVERY_FIRST", 0.0)
    kinds = {"resources": [{"name": "widgets", "kind": "Widget", "namespaced": True}]}
    settings = parse("vocabularies: {sync-to: {kinds: [toys.dev/v1/Widget]}}", "test")

    async def run() -> None:
        answers = (refuses(404, "NotFound"), refuses(500, "InternalError", "etcd is away"), says(kinds))
        async with serving(*answers) as script, Client(access(script), may_write=unrestricted) as client:
            first = await discover_environment(client, settings)
            operator = an_operator(settings, client, environment=first)
            metrics = operator.metrics.text()
            await operator._await_environment()
            assert len(script.seen) == 3
            assert "etcd is away" in operator.health.unserved()["toys.dev/v1/Widget"]
            assert b'samara_kind_waiting{kind="toys.dev/v1/Widget"} 1.0' in metrics
            assert operator.environment.waiting == {}

    asyncio.run(run())


def test_a_metric_names_a_vocabulary_that_waits_for_its_original() -> None:
    async def run() -> None:
        async with (
            serving(refuses(404, "NotFound")) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            around = Environment(originals={"accurate": "original running"})
            operator = an_operator(Settings(), client, environment=around)
            assert b'samara_kind_waiting{kind="accurate"} 1.0' in operator.metrics.text()

    asyncio.run(run())


def test_a_signal_ends_the_operator_while_the_server_does_not_answer() -> None:
    async def run() -> None:
        async with serving(hangs) as script, asyncio.timeout(5):
            running = asyncio.create_task(app.run(Settings(), Options(), access(script)))
            await script.until(lambda: bool(script.seen))
            os.kill(os.getpid(), signal.SIGTERM)
            await running

    asyncio.run(run())


def test_the_operator_exports_no_second_series_for_the_time_when_a_counter_began() -> None:
    async def run() -> None:
        async with serving(hangs) as script, asyncio.timeout(5):
            running = asyncio.create_task(app.run(Settings(), Options(), access(script)))
            await script.until(lambda: bool(script.seen))
            os.kill(os.getpid(), signal.SIGTERM)
            await running

    enable_created_metrics()  # type: ignore[no-untyped-call]
    asyncio.run(run())
    metrics = Metrics()
    metrics.count_write("sync-to", "create", "ok", 0.1)
    assert b"_created" not in generate_latest(metrics.registry)


def test_the_store_configuration_is_watched_only_if_a_vocabulary_reads_a_store() -> None:
    assert an_operator(with_secret_copy(SecretCopySettings()))._store_config is None


@pytest.mark.parametrize(("setting", "namespace"), [(None, "samara"), ("keys", "keys")])
def test_the_store_configuration_is_in_the_namespace_of_the_settings_or_our_own(
    setting: str | None, namespace: str
) -> None:
    operator = an_operator(Settings(vocabularies={"fishysecret": FishySecretSettings(namespace=setting)}))

    assert operator._store_config is not None
    assert operator._store_config._ref == at(namespace, "fishysecret-config")
    assert operator._store_config._poller.vocabularies == {"fishysecret"}
