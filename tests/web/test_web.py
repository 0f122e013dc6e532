"""Tests health, readiness, sync and metrics over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from prometheus_client import disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from tests.support.controller import ControllerHarness
from tests.support.ports import free_port
from tests.support.samples import Clock, a_copy, a_key, a_source, create, deletes, numbered
from tests.support.world import at, secret

from samara.core.copy_counts import CopyCounts
from samara.core.mass_delete import MassDeleteLimit
from samara.core.model import NAMESPACE, SECRET, Key
from samara.core.registry import Registry
from samara.core.writes import Blocked, ReadFirst, Step
from samara.engine.mass_delete import MassDeleteGuard
from samara.kube.errors import ConfigError
from samara.kube.reflector import Reflector, ReflectorTimings
from samara.vocabularies import secret_copy
from samara.web.health import Health, Leader
from samara.web.listener import split_address
from samara.web.metrics import CopyMetrics, MetricsPage, ProcessMetrics, QueueMetrics, WatchMetrics
from samara.web.server import serving

EXPOSITION = Path(__file__).with_name("exposition.txt")
SPECIFIED = {
    "samara_copies": {"vocabulary", "state"},
    "samara_sources": {"vocabulary"},
    "samara_writes": {"vocabulary", "verb", "result"},
    "samara_write_seconds": {"le"},
    "samara_plan_seconds": {"le"},
    "samara_queue_depth": set(),
    "samara_oldest_pending_seconds": set(),
    "samara_watch_last_event_seconds": {"kind"},
    "samara_watch_restarts": {"kind", "reason"},
    "samara_kind_waiting": {"kind"},
    "samara_orphans": {"vocabulary"},
    "samara_leader": set(),
    "samara_synced": set(),
    "samara_provider_calls": {"store", "result"},
    "samara_mass_delete_held": set(),
    "samara_loop_stall_seconds": set(),
    "samara_admission_requests": {"kind", "result"},
    "samara_admission_seconds": {"le"},
}


@pytest.fixture(autouse=True, scope="module")
def _no_created_series() -> None:
    """As `app.run` does."""
    disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass
class Synced:
    synced: bool = True
    obstacle: str | None = None


@dataclass
class Stalled:
    reason: str | None = None
    why: str | None = None

    def stall_reason(self) -> str | None:
        return self.reason

    def refusal_reason(self) -> str | None:
        return self.why


@dataclass
class Stage:
    """A controller that was never started, with reflectors whose state a test sets."""

    clock: Clock = field(default_factory=Clock)
    leader: Leader | None = None
    controller: Synced = field(default_factory=Synced)
    program: ControllerHarness = field(init=False)
    reflectors: tuple[Reflector, ...] = field(init=False)
    tallies: dict[Key, CopyCounts] = field(default_factory=dict)
    registry: Registry | None = None
    unserved: tuple[str, ...] = ()
    page: MetricsPage | None = None
    """None: a page of its own for each server, with the collectors of the program."""

    def __post_init__(self) -> None:
        self.program = program = ControllerHarness(
            clock=self.clock, holds=MassDeleteGuard(MassDeleteLimit(5, 30.0), 600.0, self.clock)
        )
        self.reflectors = tuple(
            Reflector(kind, program.client, program.cache, program.codec, program.inbox, ReflectorTimings(silence=10.0))
            for kind in (NAMESPACE, SECRET)
        )
        for reflector in self.reflectors:
            reflector.not_ready_reason, reflector.last_received = None, asyncio.get_running_loop().time()

    def health(self) -> Health:
        return Health(self.reflectors, self.controller, self.leader, None, dict, frozenset())

    def metrics(self) -> MetricsPage:
        program = self.program
        registry = self.registry or program.registry
        sources = program.cache.sources if self.registry is None else lambda source_type: [a_key().source]
        return MetricsPage(
            program.metrics.registry,
            CopyMetrics(registry, self.tallies, sources, lambda source_type: 2),
            QueueMetrics(program.queue, program.controller.oldest_pending),
            WatchMetrics(self.reflectors, self.unserved),
            ProcessMetrics(self.health(), program.holds, lambda: True, lambda: 0.25),
        )

    def samples(self) -> dict[tuple[str, ...], float]:
        """Every sample by its name and the values of its labels, in the order of their names."""
        text = self.metrics().text().decode()
        values = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, *(value for _, value in sorted(sample.labels.items())))
                assert key not in values, f"{key} is there twice"
                values[key] = sample.value
        return values


def on_stage(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(Stage())

    asyncio.run(run())


async def responses(stage: Stage, *paths: str) -> list[tuple[int, str, str]]:
    """The answers of the real server: status, type and text."""
    port = free_port()
    async with (
        serving(f"127.0.0.1:{port}", stage.health(), stage.page or stage.metrics()),
        aiohttp.ClientSession() as session,
        asyncio.timeout(8),
    ):
        return [await _get(session, f"http://127.0.0.1:{port}{path}") for path in paths]


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, str, str]:
    async with session.get(url) as response:
        return response.status, response.headers["Content-Type"], await response.text()


# health


def test_a_healthy_process_is_live_ready_and_synced() -> None:
    async def scenario(stage: Stage) -> None:
        answers = await responses(stage, "/healthz", "/readyz", "/syncz")
        assert [status for status, _, _ in answers] == [200, 200, 200]
        assert all(type_.startswith("application/json") for _, type_, _ in answers)
        reports = [json.loads(text) for _, _, text in answers]
        assert reports == [
            {"ok": True, "faults": []},
            {"ok": True, "waiting": {}},
            {"ok": True, "waiting": {}, "synced": True},
        ]

    on_stage(scenario)


def test_a_watch_without_progress_is_named() -> None:
    async def scenario(stage: Stage) -> None:
        stage.reflectors[1].last_received -= 21.0
        ((status, _, text), (ready, _, _)) = await responses(stage, "/healthz", "/readyz")
        assert (status, ready) == (503, 200)
        assert json.loads(text) == {"ok": False, "faults": ["the watch of v1/Secret has been quiet for 21 s"]}

    on_stage(scenario)


def test_a_watch_that_was_never_listed_must_make_progress_too() -> None:
    async def scenario(stage: Stage) -> None:
        stage.reflectors[1].not_ready_reason = "not listed yet"
        stage.reflectors[1].last_received -= 21.0
        assert stage.health().live()[1]["faults"] == ["the watch of v1/Secret has been quiet for 21 s"]

    on_stage(scenario)


def test_a_watch_may_be_quiet_for_twice_its_silence() -> None:
    async def scenario(stage: Stage) -> None:
        stage.reflectors[1].last_received -= 19.0
        assert stage.health().live() == (True, {"ok": True, "faults": []})

    on_stage(scenario)


def test_a_stalled_lease_is_named() -> None:
    async def scenario(stage: Stage) -> None:
        stage.leader = Stalled("the lease has been out of reach for 31 s")
        assert stage.health().live()[1]["faults"] == ["the lease has been out of reach for 31 s"]

    on_stage(scenario)


def test_a_refused_lease_is_named_and_does_not_make_a_standby_unready() -> None:
    async def scenario(stage: Stage) -> None:
        stage.leader = Stalled(why="forbidden")
        assert stage.health().live()[0]
        assert stage.health().ready() == (True, {"ok": True, "waiting": {"lease": "forbidden"}})

    on_stage(scenario)


def test_the_process_is_not_ready_before_every_kind_is_listed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.reflectors[1].not_ready_reason = "not listed yet"
        answers = await responses(stage, "/healthz", "/readyz", "/syncz")
        assert [status for status, _, _ in answers] == [200, 503, 503]
        assert json.loads(answers[1][2]) == {"ok": False, "waiting": {"v1/Secret": "not listed yet"}}

    on_stage(scenario)


def test_a_kind_that_is_not_served_is_named_and_does_not_prevent_readiness() -> None:
    async def scenario(stage: Stage) -> None:
        stage.reflectors[1].not_ready_reason = "the API server answered 403"
        stage.program.cache.set_served(SECRET, False)
        stage.reflectors[1].last_received -= 1000.0
        answers = await responses(stage, "/healthz", "/readyz", "/syncz")
        assert [status for status, _, _ in answers] == [200, 200, 200]
        assert json.loads(answers[1][2]) == {"ok": True, "waiting": {"v1/Secret": "the API server answered 403"}}

    on_stage(scenario)


def test_sync_depends_on_the_queue_and_readiness_does_not() -> None:
    async def scenario(stage: Stage) -> None:
        stage.controller.synced = False
        (ready, _, _), (synced, _, text) = await responses(stage, "/readyz", "/syncz")
        assert (ready, synced) == (200, 503)
        assert json.loads(text) == {"ok": False, "waiting": {}, "synced": False}

    on_stage(scenario)


def test_the_metric_of_sync_agrees_with_syncz() -> None:
    async def scenario(stage: Stage) -> None:
        assert stage.samples()[("samara_synced",)] == 1
        stage.reflectors[1].not_ready_reason = "not listed yet"
        assert not stage.health().synced()[0]
        assert stage.samples()[("samara_synced",)] == 0

    on_stage(scenario)


def test_other_paths_are_not_found() -> None:
    async def scenario(stage: Stage) -> None:
        assert [status for status, _, _ in await responses(stage, "/", "/debug")] == [404, 404]

    on_stage(scenario)


# metrics


def blocked(*namespaces: str) -> CopyCounts:
    tally = CopyCounts()
    tally.count(Step(at("right", "db"), None, "in-sync"))
    tally.count(Step(at("soon", "db"), ReadFirst(at("soon", "db")), "not-read-yet"))
    for name in namespaces:
        tally.count(Step(at(name, "db"), Blocked(a_key(), at(name, "db"), "conflict", "theirs"), "foreign"))
    return tally


def full(stage: Stage) -> None:
    """Fills every metric with at least one sample."""
    program = stage.program
    program.cache.put(a_source())
    program.cache.put(a_copy("a"))
    stage.tallies[a_key()] = blocked("a", "b")
    program.metrics.count_write("secret-copy", "create", "done", 0.02)
    program.metrics.observe_plan(0.002)
    program.metrics.count_provider_call("store", "done")
    program.metrics.count_admission("v1/Secret", "refused", 0.3)
    program.queue.add(a_key())
    stage.clock.now += 4.0
    program.holds.check(a_key(), deletes(numbered(0, 8)), 10, 10)
    stage.reflectors[1].restarts["gone"] = 3
    stage.reflectors[0].not_ready_reason = "not listed yet"


def test_every_figure_is_shown() -> None:
    async def scenario(stage: Stage) -> None:
        full(stage)
        samples = stage.samples()
        expected: dict[tuple[str, ...], float] = {
            ("samara_copies", "right", "secret-copy"): 1,
            ("samara_copies", "pending", "secret-copy"): 1,
            ("samara_copies", "blocked", "secret-copy"): 2,
            ("samara_sources", "secret-copy"): 1,
            ("samara_orphans", "secret-copy"): 2,
            ("samara_writes_total", "done", "create", "secret-copy"): 1,
            ("samara_write_seconds_bucket", "0.01"): 0,
            ("samara_write_seconds_bucket", "0.025"): 1,
            ("samara_write_seconds_bucket", "+Inf"): 1,
            ("samara_write_seconds_count",): 1,
            ("samara_write_seconds_sum",): 0.02,
            ("samara_queue_depth",): 1,
            ("samara_oldest_pending_seconds",): 4,
            ("samara_leader",): 1,
            ("samara_loop_stall_seconds",): 0.25,
            ("samara_synced",): 0,  # a kind is not listed yet
            ("samara_mass_delete_held",): 8,
            ("samara_watch_restarts_total", "v1/Secret", "gone"): 3,
            ("samara_kind_waiting", "v1/Namespace"): 1,
            ("samara_kind_waiting", "v1/Secret"): 0,
            ("samara_provider_calls_total", "done", "store"): 1,
            ("samara_admission_requests_total", "v1/Secret", "refused"): 1,
            ("samara_admission_seconds_bucket", "0.25"): 0,
            ("samara_admission_seconds_bucket", "0.5"): 1,
            ("samara_admission_seconds_count",): 1,
            ("samara_admission_seconds_sum",): 0.3,
        }
        assert {key: samples.get(key) for key in expected} == expected

    on_stage(scenario)


def test_the_oldest_work_may_wait_for_a_plan_or_for_its_write() -> None:
    async def scenario(stage: Stage) -> None:
        stage.program.outbox.put(create("a"), urgent=False)
        stage.clock.now += 3.0
        stage.program.queue.add(a_key())
        stage.clock.now += 4.0
        assert stage.samples()["samara_oldest_pending_seconds",] == 7
        stage.program.outbox.take()
        assert stage.samples()["samara_oldest_pending_seconds",] == 4

    on_stage(scenario)


def test_a_metric_names_a_kind_that_the_server_does_not_know() -> None:
    async def scenario(stage: Stage) -> None:
        stage.unserved = ("toys.dev/v1/Widget",)
        assert stage.samples()["samara_kind_waiting", "toys.dev/v1/Widget"] == 1

    on_stage(scenario)


def test_names_and_labels_are_those_of_the_specification() -> None:
    async def scenario(stage: Stage) -> None:
        full(stage)
        text = stage.metrics().text().decode()
        families = list(text_string_to_metric_families(text))
        labels = {family.name: {name for sample in family.samples for name in sample.labels} for family in families}
        assert labels == SPECIFIED
        counters = {family.name for family in families if family.type == "counter"}
        assert counters == {
            "samara_writes",
            "samara_watch_restarts",
            "samara_provider_calls",
            "samara_admission_requests",
        }
        assert {sample.name for family in families if family.type == "counter" for sample in family.samples} == {
            f"{name}_total" for name in counters
        }

    on_stage(scenario)


def test_the_exposition_is_the_one_that_dashboards_were_made_for() -> None:
    """Every line without its value: names, help, types, labels and buckets."""

    async def scenario(stage: Stage) -> None:
        full(stage)
        lines = stage.metrics().text().decode().splitlines()
        shown = sorted(line if line.startswith("#") else line.rpartition(" ")[0] for line in lines)
        assert shown == EXPOSITION.read_text().splitlines()

    on_stage(scenario)


@dataclass(eq=False)
class SlowCollector(Collector):
    """Takes three seconds at each scrape, by a clock that no test waits for."""

    clock: Clock
    scrapes: int = 0

    def collect(self) -> Iterable[Metric]:
        self.scrapes += 1
        self.clock.now += 3.0
        return ()


def test_scrapes_in_a_row_take_at_most_a_tenth_of_the_time() -> None:
    async def scenario(stage: Stage) -> None:
        clock = Clock()
        slow = SlowCollector(clock)
        stage.page = MetricsPage(stage.program.metrics.registry, slow, clock=clock)
        assert len({text for _, _, text in await responses(stage, *["/metrics"] * 20)}) == 1
        assert slow.scrapes == 1

        clock.now += 29.0
        await responses(stage, "/metrics")
        assert slow.scrapes == 1

        clock.now += 1.0
        await responses(stage, "/metrics")
        assert slow.scrapes == 2

    on_stage(scenario)


def test_no_label_grows_with_the_cluster() -> None:
    async def scenario(stage: Stage) -> None:
        full(stage)
        before = set(stage.samples())
        for number in range(50):
            key = a_key(f"source-{number}", f"home-{number}")
            stage.tallies[key] = blocked(*numbered(0, 20))
            stage.program.queue.add(key.in_namespace(f"ns-{number}"))
            stage.program.holds.check(key, deletes(numbered(0, 8), key), 10, 10)
        assert set(stage.samples()) == before

    on_stage(scenario)


def test_the_source_types_of_one_vocabulary_are_one_series() -> None:
    """Two samples with the same labels would make Prometheus refuse all of them."""

    async def scenario(stage: Stage) -> None:
        one = secret_copy.source_type()
        two = (replace(one, name="both:tree"), replace(one, name="both:sub"))
        stage.registry = Registry(two)
        stage.tallies = {a_key(source_type="both:tree"): blocked("a"), a_key(source_type="both:sub"): blocked("a", "b")}
        samples = stage.samples()
        assert samples["samara_copies", "blocked", "both"] == 3
        assert samples["samara_sources", "both"] == 2
        assert samples["samara_orphans", "both"] == 4

    on_stage(scenario)


def test_metrics_are_served_as_prometheus_reads_them() -> None:
    async def scenario(stage: Stage) -> None:
        ((status, type_, text),) = await responses(stage, "/metrics")
        assert (status, type_) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert re.search(r"^# TYPE samara_copies gauge$", text, re.MULTILINE)

    on_stage(scenario)


# the address


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        (":8080", None, 8080),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:9090", "::1", 9090),
        ("localhost:65535", "localhost", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, host: str | None, port: int) -> None:
    assert split_address(address) == (host, port)


@pytest.mark.parametrize("address", ["", "8080", "localhost", "localhost:", ":http", ":-1", ":65536", ":8 0", ":8080 "])
def test_an_invalid_address_is_refused_by_name(address: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"expected host:port or :port, found {address!r}")):
        split_address(address)


def test_the_error_names_an_address_in_use() -> None:
    async def scenario(stage: Stage) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*--http-address"):
                async with serving(f"127.0.0.1:{port}", stage.health(), stage.metrics()):
                    pytest.fail("two listen on one port")

    on_stage(scenario)


def test_for_port_0_the_log_names_the_chosen_port(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "samara")

    async def scenario(stage: Stage) -> None:
        async with serving("127.0.0.1:0", stage.health(), stage.metrics()), aiohttp.ClientSession() as session:
            (address,) = [getattr(record, "fields", {})["address"] for record in caplog.records]
            assert (await _get(session, f"http://{address}/healthz"))[0] == 200

    on_stage(scenario)


def test_no_answer_holds_a_value() -> None:
    async def scenario(stage: Stage) -> None:
        full(stage)
        stage.program.cache.put(a_copy("b", content=secret("canary-81f2")))
        answers = await responses(stage, "/healthz", "/readyz", "/syncz", "/metrics")
        assert not [text for _, _, text in answers if "canary" in text]

    on_stage(scenario)


def test_the_process_is_not_ready_while_the_webhook_server_does_not_answer() -> None:
    async def scenario(stage: Stage) -> None:
        health = replace(stage.health(), webhooks=SimpleNamespace(not_ready_reason="not listening yet"))
        assert health.ready() == (False, {"ok": False, "waiting": {"webhook": "not listening yet"}})
        assert not health.synced()[0]

    on_stage(scenario)


def test_readiness_does_not_wait_for_a_kind_behind_our_own_conversion() -> None:
    async def scenario(stage: Stage) -> None:
        stage.reflectors[1].not_ready_reason = "not listed yet"
        health = replace(stage.health(), converted=frozenset({SECRET}))
        assert health.ready() == (True, {"ok": True, "waiting": {"v1/Secret": "not listed yet"}})

    on_stage(scenario)


def test_a_waiting_vocabulary_is_named_and_does_not_prevent_readiness() -> None:
    async def scenario(stage: Stage) -> None:
        health = replace(stage.health(), unserved=lambda: {"resource-distribution": "original running"})
        assert health.ready() == (True, {"ok": True, "waiting": {"resource-distribution": "original running"}})

    on_stage(scenario)
