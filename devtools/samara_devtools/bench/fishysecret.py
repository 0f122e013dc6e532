"""Measures many FishySecrets over few paths: requests to the secret manager and the API server, and a rotation."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

from samara_devtools.bench.audit import Counts, Entry, by, count
from samara_devtools.bench.bare import encode, spread
from samara_devtools.bench.controller import SETTINGS
from samara_devtools.bench.figures import Cpu
from samara_devtools.bench.lab import CONTROLLER, POLL, SELDOM, WORKERS, Lab, say
from samara_devtools.bench.provider import Provider, provider
from samara_devtools.bench.secrets import folder, secret

OWN = "default"
"""The operator's own namespace outside of a cluster."""
TOKEN = "dG9rZW4="
INTERVAL = 20
REFRESHES = 3
"""Refresh intervals that are measured at rest."""
SLOW_INTERVAL = 30
"""Seconds of the refresh interval in the measurement in which each refresh writes a status."""
SLOW_REFRESHES = 2
FIRST = 0.85
"""Share of an interval in which no path is read twice."""


@dataclass(slots=True)
class Fishy:
    objects: int
    paths: int
    filled: float = 0.0
    """Seconds from the start of the controller to the last Secret."""
    fill: Counts | None = None
    first_calls: int = 0
    calls_each: float = 0.0
    """Reads of a path in one refresh interval at rest."""
    most_each: int = 0
    """Most reads of one path in all intervals together."""
    at_once: int = 0
    rest: Counts | None = None
    restart: Counts | None = None
    restart_calls: int = 0
    rotated: float = 0.0
    """Seconds from the change of a value in the manager to the last Secret that has it."""
    rotation: Counts | None = None
    timed: Counts | None = None
    """The intervals in which the time of the last sync is written."""
    timed_cpu: Cpu | None = None
    """Milliseconds for each such write."""
    peak: float = 0.0


async def fish(lab: Lab) -> Fishy:
    options = lab.options
    fishy = Fishy(options.objects, options.paths)
    async with provider() as manager:
        await _prepare(lab, manager)
        _settings(lab, INTERVAL, "change")
        with lab.running() as controller:
            await _fill(lab, manager, fishy)
            await _rest(lab, manager, fishy)
            await _rotate(lab, manager, fishy)
            fishy.peak = controller.peak()
        await _restart(lab, manager, fishy)
        _settings(lab, SLOW_INTERVAL, "interval")
        await _time(lab, fishy)
        fishy.at_once = manager.most
    return fishy


def _settings(lab: Lab, interval: int, last_synced: str) -> None:
    own = {"refreshInterval": f"{interval}s", "lastSynced": last_synced}
    (lab.cluster.data / SETTINGS).write_text(json.dumps({"vocabularies": {"fishysecret": own}}))


def document_of(number: int, paths: int) -> str:
    return f"app-{number % paths:04}"


async def _prepare(lab: Lab, manager: Provider) -> None:
    say(f"making {lab.options.objects:,} FishySecrets over {lab.options.paths} paths")
    config = secret(OWN, "fishysecret-config", {"token": TOKEN})
    await lab.admin.send("POST", folder(OWN), encode({**config, "stringData": {"url": manager.url}}))

    async def make(number: int) -> None:
        namespace, name = lab.namespaces[number % len(lab.namespaces)], f"fishy-{number:05}"
        item = {"secretPath": f"{document_of(number, lab.options.paths)}#value", "secretKeyName": "value"}
        spec = {"target": {"name": name, "namespace": namespace}, "data": [item]}
        kind = {"apiVersion": "fishykeys.2v.pm/v1alpha1", "kind": "FishySecret"}
        where = f"/apis/fishykeys.2v.pm/v1alpha1/namespaces/{namespace}/fishysecrets"
        await lab.admin.send("POST", where, encode({**kind, "metadata": {"name": name}, "spec": spec}))

    await spread(range(lab.options.objects), WORKERS, make)
    await lab.quiet(lambda entry: entry.is_write, 1.0)


async def _fill(lab: Lab, manager: Provider, fishy: Fishy) -> None:
    mark, began = lab.log.catch_up(), time.time()
    made = await _written(lab, mark, "create", fishy.objects)
    await lab.settled()
    fishy.filled = max(entry.ended for entry in made) - began
    fishy.fill = count(by(lab.log.since(mark), CONTROLLER))
    fishy.first_calls = manager.within(FIRST * INTERVAL)
    say(f"filled in {fishy.filled:.1f} s with {len(manager.calls)} reads: {fishy.fill}")


async def _rest(lab: Lab, manager: Provider, fishy: Fishy) -> None:
    mark, calls = lab.log.catch_up(), len(manager.calls)
    await asyncio.sleep(REFRESHES * INTERVAL)
    reads = manager.reads(calls)
    fishy.rest = count(by(lab.log.since(mark), CONTROLLER))
    fishy.calls_each = reads.total() / REFRESHES / fishy.paths
    fishy.most_each = max(reads.values(), default=0)
    say(f"at rest: {reads.total()} reads in {REFRESHES} refreshes of {fishy.paths} paths, {fishy.rest}")


async def _rotate(lab: Lab, manager: Provider, fishy: Fishy) -> None:
    document = document_of(0, fishy.paths)
    sharing = sum(1 for number in range(fishy.objects) if document_of(number, fishy.paths) == document)
    mark, began = lab.log.catch_up(), time.time()
    manager.rotate(document)
    made = await _written(lab, mark, "update", sharing)
    await lab.settled()
    fishy.rotated = max(entry.ended for entry in made) - began
    fishy.rotation = count(by(lab.log.since(mark), CONTROLLER))


async def _restart(lab: Lab, manager: Provider, fishy: Fishy) -> None:
    mark, calls = lab.log.catch_up(), len(manager.calls)
    with lab.running() as controller:
        await lab.up(controller)
        await controller.synced()
        await lab.until(lambda: len(manager.reads(calls)) >= fishy.paths, "the reads of a restart")
        await lab.settled()
        controller.check()
        fishy.restart_calls = manager.within(FIRST * INTERVAL, calls)
    fishy.restart = count(by(lab.log.since(mark), CONTROLLER))
    say(f"restart in sync: {fishy.restart_calls} reads, {fishy.restart}")


async def _time(lab: Lab, fishy: Fishy) -> None:
    """Measures the server's CPU for writes of the last sync time, once they are regular."""
    with lab.running() as controller:
        await lab.up(controller)
        await asyncio.sleep(1.2 * SLOW_INTERVAL)
        mark, before = lab.log.catch_up(), lab.cpu(controller.cpu())
        await asyncio.sleep(SLOW_REFRESHES * SLOW_INTERVAL)
        used = lab.cpu(controller.cpu()).since(before)
    fishy.timed = count(by(lab.log.since(mark), CONTROLLER))
    fishy.timed_cpu = used.per(fishy.timed.status)
    say(f"with the time of the last sync: {fishy.timed}")


async def _written(lab: Lab, mark: int, verb: str, wanted: int) -> list[Entry]:
    """Waits for this number of successful writes of Secrets."""
    written: list[Entry] = []
    at = mark

    def enough() -> bool:
        nonlocal at
        fresh, at = lab.log.entries[at:], len(lab.log.entries)
        mine = [entry for entry in by(fresh, CONTROLLER) if entry.resource == "secrets" and entry.is_good]
        written.extend(entry for entry in mine if entry.verb == verb)
        return len(written) >= wanted

    await lab.until(enough, f"{wanted} Secrets", POLL if wanted < 1000 else SELDOM)
    return written
