"""The Secret that configures the secret manager is created, changed, broken and deleted."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.kube.scripted import Answer, access, cuts, refuses, says, serving
from tests.secretstores.test_poller import Manager
from tests.support.samples import Clock, a_key

from samara import secretstores
from samara.core.model import SECRET, Ref
from samara.core.queries import SecretPath, SecretReading
from samara.kube.client import Client, unrestricted
from samara.secretstores.base import (
    Forbidden,
    NamedValues,
    NotFound,
    StoreConfigError,
    StoreContext,
    StoreError,
    Unauthenticated,
    Unavailable,
    Unusable,
)
from samara.secretstores.config import StoreConfigWatcher, read_once, secret_reader
from samara.secretstores.poller import PollTimings, SecretPoller, SecretValues
from samara.secretstores.readings import Readings

CONFIG = Ref(SECRET, "samara", "fishysecret-config")
CANARY = "canary-7f3a9"
Config = Mapping[str, bytes]


def sight(version: int = 1, **keys: str) -> bytes:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}
    meta = {"name": CONFIG.name, "uid": "u", "resourceVersion": str(version)}
    return json.dumps({"metadata": meta, "type": "Opaque", "data": data}).encode()


def a_poller(clock: Callable[[], float], post: Callable[[SecretValues], None]) -> SecretPoller:
    timings = PollTimings(clock, lambda: "now", lambda: 1.0)
    calls = Counter[tuple[str, str]]()
    return SecretPoller(
        Readings(clock, None), frozenset({"fetch"}), timings, post=post, count_call=lambda *call: calls.update([call])
    )


@dataclass
class Stage:
    """A watcher with a Secret and stores from the test."""

    client: Client
    opened: list[Manager] = field(default_factory=list)
    refusal: Exception | None = None
    gate: asyncio.Event | None = None
    """Opening a store waits for it."""
    contexts: list[StoreContext] = field(default_factory=list)
    poller: SecretPoller = field(init=False)
    watcher: StoreConfigWatcher = field(init=False)
    posted: list[SecretValues] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.poller = a_poller(Clock(), self.posted.append)
        self.watcher = StoreConfigWatcher(self.client, CONFIG, CONFIG.namespace, self.poller, self._open)
        self.tasks = [asyncio.create_task(task) for task in (self.watcher._reopen_on_change(), self.poller.run())]

    async def _open(self, config: Config, context: StoreContext) -> Manager:
        self.contexts.append(context)
        if self.refusal is not None:
            raise self.refusal
        documents = {"db": NamedValues({"": config["url"] + b" " + config.get("token", b"")})}
        self.opened.append(Manager(dict(documents), gate=self.gate))
        return self.opened[-1]

    async def shown(self, raw: bytes | None) -> None:
        """Passes the Secret, or its absence, to the watcher."""
        self.watcher._on_object(raw)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    def ask(self) -> None:
        self.poller.subscribe(a_key(), (SecretPath("db", 300.0),))

    def known(self) -> SecretReading | None:
        return self.poller.readings.known.get("db")

    def fault(self) -> str:
        known = self.known()
        return "" if known is None or known.fault is None else f"{known.fault.reason}: {known.fault.message}"


def on_stage(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(refuses(500)) as script, Client(access(script), may_write=unrestricted) as client:
            stage = Stage(client)
            stage.ask()
            await scenario(stage)
            await _ended(*stage.tasks)

    asyncio.run(run())


async def _ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_the_store_is_opened_from_the_secret_and_read() -> None:
    async def scenario(stage: Stage) -> None:
        assert stage.known() is None
        await stage.shown(sight(url="toy://a", token="t"))
        assert stage.known() == SecretReading(b"toy://a t", "now")
        assert [(context.config, context.own_namespace) for context in stage.contexts] == [(CONFIG, CONFIG.namespace)]

    on_stage(scenario)


def test_all_sources_learn_that_the_secret_is_missing_until_it_exists() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shown(None)
        message = "TokenError: Secret samara/fishysecret-config is not there; create it with the keys url and token"
        assert stage.fault() == message
        await stage.shown(sight(url="toy://a"))
        assert stage.known() == SecretReading(b"toy://a ", "now")

    on_stage(scenario)


def test_deleting_the_secret_keeps_all_values() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shown(sight(url="toy://a"))
        await stage.shown(None)
        known = stage.known()
        assert known is not None
        assert known.value == b"toy://a "
        assert stage.fault().startswith("TokenError")
        assert stage.opened[0].closed
        await stage.shown(sight(2, url="toy://a"))
        assert stage.known() == SecretReading(b"toy://a ", "now")

    on_stage(scenario)


@pytest.mark.parametrize("reason", ["TokenError", "ConnectionError"])
def test_an_invalid_configuration_is_reported_with_its_reason(reason: Any) -> None:
    async def scenario(stage: Stage) -> None:
        stage.refusal = StoreConfigError(reason, "the url: odd")
        await stage.shown(sight(url="toy://a"))
        assert stage.fault() == f"{reason}: Secret samara/fishysecret-config: the url: odd"

    on_stage(scenario)


def test_an_unexpected_error_is_reported_without_its_text() -> None:
    async def scenario(stage: Stage) -> None:
        stage.refusal = RuntimeError(CANARY)
        await stage.shown(sight(url="toy://a"))
        assert stage.fault().startswith("ConnectionError")
        assert "RuntimeError" in stage.fault()
        assert CANARY not in stage.fault()

    on_stage(scenario)


def test_opening_a_store_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secretstores.config, "_REOPEN_AFTER", 0.001)

    async def scenario(stage: Stage) -> None:
        stage.refusal = StoreConfigError("ConnectionError", "no such directory")
        await stage.shown(sight(url="toy://a"))
        stage.refusal = None
        async with asyncio.timeout(8):
            while not stage.opened:  # noqa: ASYNC110 - it is retried in real time
                await asyncio.sleep(0.001)
        await stage.settle()
        assert stage.known() == SecretReading(b"toy://a ", "now")

    on_stage(scenario)


def test_an_unchanged_secret_opens_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        for version in (1, 1, 2):
            await stage.shown(sight(version, url="toy://a", token="t"))
        assert len(stage.opened) == 1

    on_stage(scenario)


def test_a_new_token_keeps_values_until_they_are_read_again() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shown(sight(url="toy://a", token="one"))
        stage.gate = asyncio.Event()
        await stage.shown(sight(2, url="toy://a", token="two"))
        assert stage.opened[0].closed
        assert stage.known() == SecretReading(b"toy://a one", "now")
        stage.gate.set()
        await stage.settle()
        assert stage.known() == SecretReading(b"toy://a two", "now")

    on_stage(scenario)


def test_a_new_url_drops_all_values() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shown(sight(url="toy://a"))
        stage.gate = asyncio.Event()
        await stage.shown(sight(2, url="toy://b"))
        assert stage.known() is None
        stage.gate.set()
        await stage.settle()
        assert stage.known() == SecretReading(b"toy://b ", "now")

    on_stage(scenario)


@pytest.mark.parametrize("name", ["namespace", "access-key-id"])
def test_another_tenant_or_account_at_the_same_url_is_another_store(name: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shown(sight(1, url="toy://a", **{name: "one"}))
        stage.gate = asyncio.Event()
        await stage.shown(sight(2, url="toy://a", **{name: "two"}))
        assert stage.known() is None
        stage.gate.set()
        await stage.settle()

    on_stage(scenario)


def test_another_url_after_a_missing_secret_is_another_store() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shown(sight(url="toy://a"))
        await stage.shown(None)
        stage.gate = asyncio.Event()
        await stage.shown(sight(2, url="toy://b"))
        assert stage.known() is None

    on_stage(scenario)


def test_no_credential_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def scenario(stage: Stage) -> None:
        await stage.shown(sight(url="toy://a", token=CANARY))
        stage.refusal = StoreConfigError("TokenError", "odd")
        await stage.shown(sight(2, url="toy://b", token=CANARY))
        assert CANARY not in repr(vars(stage.watcher._opener))

    on_stage(scenario)
    logged = " ".join(f"{record.getMessage()} {record.__dict__.get('fields')}" for record in caplog.records)
    assert "store.opened" in logged
    assert CANARY not in logged


# against a server


def test_without_subscribers_nothing_is_watched(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"one")

    async def run() -> None:
        async with (
            serving(says(sight(url=f"file://{tmp_path}"))) as script,
            Client(access(script), may_write=unrestricted) as client,
        ):
            read = asyncio.Event()
            poller = a_poller(asyncio.get_running_loop().time, lambda message: read.set())
            task = asyncio.create_task(StoreConfigWatcher(client, CONFIG, CONFIG.namespace, poller).run())
            for _ in range(20):
                await asyncio.sleep(0)
            assert script.seen == []
            poller.subscribe(a_key(), (SecretPath("db", 300.0),))
            async with asyncio.timeout(8):
                await read.wait()
            assert poller.readings.known["db"].value == b"one"
            assert script.seen[0].path == "/api/v1/namespaces/samara/secrets/fishysecret-config"
            await _ended(task)

    asyncio.run(run())


@pytest.mark.parametrize("fault", [refuses(403, "Forbidden", "you may not"), cuts, says(b"odd")], ids=range(3))
def test_an_unreadable_secret_is_reported_at_once(fault: Answer) -> None:
    async def run() -> SecretReading:
        async with serving(fault) as script, Client(access(script), may_write=unrestricted) as client:
            read = asyncio.Event()
            poller = a_poller(asyncio.get_running_loop().time, lambda message: read.set())
            poller.subscribe(a_key(), (SecretPath("db", 300.0),))
            task = asyncio.create_task(StoreConfigWatcher(client, CONFIG, CONFIG.namespace, poller).run())
            async with asyncio.timeout(8):
                await read.wait()
            await _ended(task)
            return poller.readings.known["db"]

    known = asyncio.run(run())
    assert known.fault is not None
    assert known.fault.reason == "TokenError"
    assert known.fault.message.startswith("Secret samara/fishysecret-config cannot be read: ")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (refuses(404, "NotFound"), NotFound),
        (refuses(403, "Forbidden"), Forbidden),
        (refuses(401, "Unauthorized"), Unauthenticated),
        (refuses(500), Unavailable),
        (refuses(429, "TooManyRequests", retryAfterSeconds=7), Unavailable),
        (cuts, Unavailable),
        (says(b"odd"), Unusable),
    ],
)
def test_errors_of_the_api_server_become_errors_of_a_store(answer: Answer, fault: type[StoreError]) -> None:
    async def run() -> None:
        async with serving(answer) as script, Client(access(script), may_write=unrestricted) as client:
            await secret_reader(client)("team", "db")

    with pytest.raises(fault):
        asyncio.run(run())


def test_a_secret_of_this_cluster_is_its_type_and_its_bytes() -> None:
    async def run() -> None:
        async with serving(says(sight(a="one"))) as script, Client(access(script), may_write=unrestricted) as client:
            secret = await secret_reader(client)("team", "db")
            assert (secret.type, secret.data) == ("Opaque", {"a": b"one"})
            assert script.seen[0].path == "/api/v1/namespaces/team/secrets/db"

    asyncio.run(run())


# once


def glanced(answer: Answer, *paths: str) -> dict[str, SecretReading]:
    async def run() -> dict[str, SecretReading]:
        async with serving(answer) as script, Client(access(script), may_write=unrestricted) as client:
            return await read_once(
                client, CONFIG, CONFIG.namespace, [SecretPath(path, 300.0) for path in paths], lambda: "now"
            )

    return asyncio.run(run())


def test_a_plan_reads_each_path_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    readings = glanced(says(sight(url=f"file://{tmp_path}")), "one", "two", "none")

    assert (readings["one"].value, readings["two"].value) == (b"one", b"two")
    assert readings["none"].fault is not None
    assert readings["none"].fault.reason == "FetchError"


@pytest.mark.parametrize("answer", [refuses(403, "Forbidden"), refuses(404, "NotFound"), says(b"odd"), cuts])
def test_each_path_says_that_the_configuration_may_not_be_read(answer: Answer) -> None:
    readings = glanced(answer, "one", "two")

    assert [reading.fault.reason for reading in readings.values() if reading.fault is not None] == [
        "TokenError",
        "TokenError",
    ]


def test_each_path_says_that_the_store_is_unreachable(tmp_path: Path) -> None:
    readings = glanced(says(sight(url=f"file://{tmp_path}/none")), *(f"d{number}" for number in range(30)))

    reasons = {reading.fault.reason for reading in readings.values() if reading.fault is not None}
    assert (len(readings), reasons) == (30, {"FetchError"})
