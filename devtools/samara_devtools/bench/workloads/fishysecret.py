"""Measures many FishySecrets over few paths: requests to the secret manager and the API server, and a rotation."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

from samara_devtools.bench.audit import Counts, Entry, count, of_user
from samara_devtools.bench.bare import encode, spread
from samara_devtools.bench.controller import SETTINGS
from samara_devtools.bench.figures import Cpu
from samara_devtools.bench.lab import CONTROLLER, POLL, SLOW_POLL, WORKERS, Lab, say
from samara_devtools.bench.options import Options
from samara_devtools.bench.provider import Provider, provider
from samara_devtools.bench.secrets import secret, secrets_path
from samara_devtools.bench.table import Row
from samara_devtools.bench.workload import OwnMeasurement

OPERATOR_NAMESPACE = "default"
"""In which an operator outside of a cluster reads its configuration."""
TOKEN = "dG9rZW4="
INTERVAL = 20
REFRESHES = 3
"""Refresh intervals that are measured at rest."""
SLOW_INTERVAL = 30
"""Seconds of the refresh interval in the measurement in which each refresh writes a status."""
SLOW_REFRESHES = 2
CONCURRENCY = 8
"""Reads of a secret manager at the same time."""
FIRST_READS = 0.85
"""Share of an interval after the start in which no path is read twice, with any jitter."""


@dataclass(slots=True)
class FishySecrets:
    objects: int
    paths: int
    filled: float = 0.0
    """Seconds from the start of the controller to the last Secret."""
    fill: Counts | None = None
    first_calls: int = 0
    """Reads of the manager while every path was read for the first time."""
    calls_per_path: float = 0.0
    """Reads of a path in one refresh interval at rest."""
    most_calls_of_path: int = 0
    """The most reads of one path in all intervals together."""
    most_at_once: int = 0
    """The most reads that waited for their answers at the same time."""
    rest: Counts | None = None
    restart: Counts | None = None
    restart_calls: int = 0
    rotated: float = 0.0
    """Seconds from the change of a value in the manager to the last Secret that has it."""
    rotation: Counts | None = None
    sync_time: Counts | None = None
    """Requests at rest if each refresh writes the time of the last sync."""
    sync_time_cpu: Cpu | None = None
    """Milliseconds for each such write."""
    peak: float = 0.0

    def rows(self) -> Iterator[Row]:
        yield Row("fill: Secrets", self.objects / max(self.filled, 1e-9), "/s", 0)
        yield Row("fill: reads of the manager", self.first_calls, digits=0, most=self.paths)
        yield Row("at rest: reads of a path in an interval", self.calls_per_path, most=1.15)
        yield Row("reads at the same time, ever", self.most_at_once, digits=0, most=CONCURRENCY)
        yield from _requests("at rest", self.rest, most=0)
        yield from _requests("restart in sync", self.restart, most=0)
        yield Row("restart in sync: reads of the manager", self.restart_calls, digits=0, most=self.paths)
        yield Row("rotation: from the manager to the last Secret", self.rotated, "s", 1)
        yield Row("rotation: writes", self.rotation.writes if self.rotation else None, digits=0)
        status_writes = self.sync_time.status / SLOW_REFRESHES / self.objects if self.sync_time else None
        yield Row(f"lastSynced: status writes an object in {SLOW_INTERVAL} s", status_writes, most=1.15)
        yield Row("  server and etcd CPU for each", self.sync_time_cpu.serving if self.sync_time_cpu else None, "ms")
        yield Row("peak memory", self.peak, "MB", 1)


def _requests(when: str, counts: Counts | None, most: float) -> Iterator[Row]:
    yield Row(f"{when}: writes", counts.writes if counts else None, digits=0, most=most)
    yield Row(f"{when}: status writes", counts.status if counts else None, digits=0, most=most)
    yield Row(f"{when}: requests that read", counts.reads if counts else None, digits=0)


class ManyOverFewPaths(OwnMeasurement):
    def heading(self, options: Options) -> str:
        return f"{options.objects:,} FishySecrets over {options.paths:,} paths"

    async def measure(self, lab: Lab) -> FishySecrets:
        result = FishySecrets(lab.options.objects, lab.options.paths)
        async with provider() as manager:
            await _prepare(lab, manager)
            _write_settings(lab, INTERVAL, "change")
            with lab.running() as controller:
                await _fill(lab, manager, result)
                await _rest(lab, manager, result)
                await _rotate(lab, manager, result)
                result.peak = controller.peak()
            await _restart(lab, manager, result)
            _write_settings(lab, SLOW_INTERVAL, "interval")
            await _measure_sync_time(lab, result)
            result.most_at_once = manager.most_at_once
        return result


WORKLOAD = ManyOverFewPaths(
    settings={},
    namespaces=10,  # few are enough: the cost of FishySecrets depends on their paths, not on their namespaces
)


def _write_settings(lab: Lab, interval: int, last_synced: str) -> None:
    own = {"refreshInterval": f"{interval}s", "lastSynced": last_synced}
    (lab.cluster.data / SETTINGS).write_text(json.dumps({"vocabularies": {"fishysecret": own}}))


def _document_of(number: int, paths: int) -> str:
    return f"app-{number % paths:04}"


async def _prepare(lab: Lab, manager: Provider) -> None:
    say(f"making {lab.options.objects:,} FishySecrets over {lab.options.paths} paths")
    config = secret(OPERATOR_NAMESPACE, "fishysecret-config", {"token": TOKEN})
    await lab.admin.send(
        "POST", secrets_path(OPERATOR_NAMESPACE), encode({**config, "stringData": {"url": manager.url}})
    )

    async def make(number: int) -> None:
        namespace, name = lab.namespaces[number % len(lab.namespaces)], f"fishy-{number:05}"
        item = {"secretPath": f"{_document_of(number, lab.options.paths)}#value", "secretKeyName": "value"}
        spec = {"target": {"name": name, "namespace": namespace}, "data": [item]}
        kind = {"apiVersion": "fishykeys.2v.pm/v1alpha1", "kind": "FishySecret"}
        path = f"/apis/fishykeys.2v.pm/v1alpha1/namespaces/{namespace}/fishysecrets"
        await lab.admin.send("POST", path, encode({**kind, "metadata": {"name": name}, "spec": spec}))

    await spread(range(lab.options.objects), WORKERS, make)
    await lab.wait_quiet(lambda entry: entry.is_write, 1.0)


async def _fill(lab: Lab, manager: Provider, result: FishySecrets) -> None:
    mark, began = lab.log.catch_up(), time.time()
    writes = await _wait_for_writes(lab, mark, "create", result.objects)
    await lab.wait_settled()
    result.filled = max(entry.ended for entry in writes) - began
    result.fill = count(of_user(lab.log.since(mark), CONTROLLER))
    result.first_calls = manager.within(FIRST_READS * INTERVAL)
    say(f"filled in {result.filled:.1f} s with {len(manager.calls)} reads: {result.fill}")


async def _rest(lab: Lab, manager: Provider, result: FishySecrets) -> None:
    mark, calls = lab.log.catch_up(), len(manager.calls)
    await asyncio.sleep(REFRESHES * INTERVAL)
    reads = manager.reads(calls)
    result.rest = count(of_user(lab.log.since(mark), CONTROLLER))
    result.calls_per_path = reads.total() / REFRESHES / result.paths
    result.most_calls_of_path = max(reads.values(), default=0)
    say(f"at rest: {reads.total()} reads in {REFRESHES} refreshes of {result.paths} paths, {result.rest}")


async def _rotate(lab: Lab, manager: Provider, result: FishySecrets) -> None:
    document = _document_of(0, result.paths)
    sharing = sum(1 for number in range(result.objects) if _document_of(number, result.paths) == document)
    mark, began = lab.log.catch_up(), time.time()
    manager.rotate(document)
    writes = await _wait_for_writes(lab, mark, "update", sharing)
    await lab.wait_settled()
    result.rotated = max(entry.ended for entry in writes) - began
    result.rotation = count(of_user(lab.log.since(mark), CONTROLLER))


async def _restart(lab: Lab, manager: Provider, result: FishySecrets) -> None:
    mark, calls = lab.log.catch_up(), len(manager.calls)
    with lab.running() as controller:
        await lab.wait_ready(controller)
        await controller.synced()
        await lab.wait_until(lambda: len(manager.reads(calls)) >= result.paths, "the reads of a restart")
        await lab.wait_settled()
        controller.check()
        result.restart_calls = manager.within(FIRST_READS * INTERVAL, calls)
    result.restart = count(of_user(lab.log.since(mark), CONTROLLER))
    say(f"restart in sync: {result.restart_calls} reads, {result.restart}")


async def _measure_sync_time(lab: Lab, result: FishySecrets) -> None:
    """Measures the server's CPU for writes of the last sync time, after the first ones."""
    with lab.running() as controller:
        await lab.wait_ready(controller)
        await asyncio.sleep(1.2 * SLOW_INTERVAL)
        mark, before = lab.log.catch_up(), lab.cpu(controller.cpu())
        await asyncio.sleep(SLOW_REFRESHES * SLOW_INTERVAL)
        used = lab.cpu(controller.cpu()).since(before)
    result.sync_time = count(of_user(lab.log.since(mark), CONTROLLER))
    result.sync_time_cpu = used.per(result.sync_time.status)
    say(f"with the time of the last sync: {result.sync_time}")


async def _wait_for_writes(lab: Lab, mark: int, verb: str, number: int) -> list[Entry]:
    """Waits for this number of successful writes of Secrets since the mark."""
    writes: list[Entry] = []

    def are_done() -> bool:
        nonlocal mark
        new, mark = lab.log.entries[mark:], len(lab.log.entries)
        of_secrets = [entry for entry in of_user(new, CONTROLLER) if entry.resource == "secrets" and entry.succeeded]
        writes.extend(entry for entry in of_secrets if entry.verb == verb)
        return len(writes) >= number

    await lab.wait_until(are_done, f"{number} Secrets", POLL if number < 1000 else SLOW_POLL)
    return writes
