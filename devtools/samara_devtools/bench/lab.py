"""One control plane with its namespaces, its audit log, the benchmark's own client and the controller's identity."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from samara import crds
from samara_devtools.bench import procfs
from samara_devtools.bench.audit import AuditLog, Entry, MissingWrites, last_writes, of_user
from samara_devtools.bench.bare import Bare, BareError, encode, open_client, spread
from samara_devtools.bench.controller import SETTINGS, Controller
from samara_devtools.bench.figures import Cpu
from samara_devtools.bench.options import Options
from samara_devtools.bench.secrets import Source
from samara_devtools.bench.workload import Workload
from samara_devtools.bench.workloads import workload_of
from samara_devtools.devcluster import Devcluster, DevclusterOptions
from samara_devtools.devcluster.cluster import APISERVER, ETCD

ADMIN = "bench"
BARE = "bench-bare"
BYSTANDER = "bench-bystander"
CONTROLLER = "bench-controller"
CREATED_EVERYWHERE = (("kube-root-ca.crt", "configmaps"), ("default", "serviceaccounts"))
"""Names and resources of objects that Kubernetes' own controllers create in every namespace."""
ALL_RIGHTS = "system:masters"
POLL = 0.02
SLOW_POLL = 0.25
"""Seconds between two reads of the log while speed is measured: reading it costs the measured processes CPU."""
WORKERS = 16
STALL_TIMEOUT = 120.0
"""Seconds without progress after which a wait fails."""
CONTROLLER_MANAGER_QPS = 5000


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Lab:
    options: Options
    cluster: Devcluster
    log: AuditLog
    admin: Bare
    bare: Bare
    bystander: Bare
    kubeconfig: Path
    namespaces: list[str] = field(default_factory=list)
    runs: int = 0
    started: int = 0
    """The mark in the log at the last start of the controller."""

    @property
    def workload(self) -> Workload:
        return workload_of(self.options.vocabulary) or Workload()

    # namespaces and sources

    def source(self, name: str) -> Source:
        """A source of the vocabulary that is measured."""
        return self.workload.source(self.options, name)

    async def grow(self, total: int) -> None:
        """Adds namespaces and waits until the server's own controllers are done with them."""
        say(f"making {total - len(self.namespaces)} namespaces")
        names = [f"n-{number:05}" for number in range(len(self.namespaces), total)]
        mark = self.log.catch_up()
        await spread(names, WORKERS, self.add_namespace)
        for name, resource in CREATED_EVERYWHERE:
            await self._wait_for_object(mark, set(names), name, resource)
        await self.wait_quiet(lambda entry: entry.is_write, 1.0)

    async def _wait_for_object(self, mark: int, namespaces: set[str], name: str, resource: str) -> None:
        writes = MissingWrites(self.log, mark, namespaces, lambda entries: last_writes(entries, name, resource))
        await self.wait_until(writes.are_done, f"{name} in every namespace")

    async def add_namespace(self, name: str) -> None:
        self.namespaces.append(name)
        await self.make_namespace(name)

    async def make_namespace(self, name: str) -> None:
        labels = self.workload.labels_of(name, self.options)
        await self.admin.send("POST", "/api/v1/namespaces", encode({"metadata": {"name": name, "labels": labels}}))

    async def write(self, source: Source) -> None:
        await self.admin.send(*source.request())

    async def verify(self, source: Source) -> None:
        """Raises unless every namespace has a copy with the content of the source."""
        secrets = await self.admin.get("/api/v1/secrets", fieldSelector=f"metadata.name={source.name}")
        equal = {copy["metadata"]["namespace"] for copy in secrets["items"] if copy.get("data") == source.data}
        missing = set(self.namespaces) - equal
        if missing:
            raise BareError(f"{len(missing)} namespaces lack a right copy of {source.name}, such as {min(missing)}")

    # waiting

    async def wait_until(self, done: Callable[[], bool], what: str, every: float = POLL) -> None:
        """Reads the log until `done` is true. Raises if nothing is logged for long."""
        last_count, changed_at = -1, time.monotonic()
        while not done():
            await asyncio.sleep(every)
            count = self.log.poll()
            if count != last_count:
                last_count, changed_at = count, time.monotonic()
            if time.monotonic() - changed_at > STALL_TIMEOUT:
                raise BareError(f"waited in vain for {what}")

    async def wait_copied(self, source: Source, mark: int, namespaces: set[str] | None = None) -> None:
        """Waits until the copy of this source has been written in these namespaces, or in all, since the mark."""

        def namespaces_in(entries: list[Entry]) -> Iterable[str]:
            return last_writes(of_user(entries, CONTROLLER), source.name)

        writes = MissingWrites(self.log, mark, namespaces or set(self.namespaces), namespaces_in)
        await self.wait_until(writes.are_done, f"the copies of {source.name}", POLL if namespaces else SLOW_POLL)

    async def wait_quiet(self, counts: Callable[[Entry], bool], seconds: float) -> None:
        """Waits until no request that counts has been made for so many seconds."""
        mark, since = self.log.catch_up(), time.monotonic()
        while time.monotonic() - since < seconds:
            await asyncio.sleep(POLL)
            self.log.poll()
            if any(map(counts, self.log.entries[mark:])):
                since = time.monotonic()
            mark = len(self.log.entries)

    async def wait_settled(self) -> None:
        """Waits until the controller has written nothing for 1.5 s. Its Events come up to a second late."""
        await self.wait_quiet(
            lambda entry: entry.user == CONTROLLER and entry.is_write and entry.resource != "leases", 1.5
        )

    # the controller

    @contextmanager
    def running(self) -> Iterator[Controller]:
        """Starts a controller, and stops it at the end."""
        self.runs += 1
        self.started = self.log.catch_up()
        controller = Controller(self.options, self.kubeconfig, self.cluster.data / f"controller-{self.runs}.log")
        try:
            yield controller
        finally:
            controller.stop()

    async def wait_ready(self, controller: Controller) -> float | None:
        """Waits until it is ready, and returns the seconds that this took. None if it cannot report that."""
        if self.options.ready_url:
            return await controller.ready()
        await self.wait_until(self._has_sent_requests, "the first request of the controller")
        await self.wait_quiet(lambda entry: entry.user == CONTROLLER, 3.0)
        return None

    def _has_sent_requests(self) -> bool:
        return any(entry.user == CONTROLLER for entry in self.log.entries[self.started :])

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[Controller]:
        """A controller that is ready and has nothing to do."""
        with self.running() as controller:
            await self.wait_ready(controller)
            await self.wait_settled()
            yield controller

    def cpu(self, client: float) -> Cpu:
        pids = self.cluster.pids
        return Cpu(procfs.cpu_seconds(pids[APISERVER]), procfs.cpu_seconds(pids[ETCD]), client)


@asynccontextmanager
async def open_lab(options: Options, namespaces: int) -> AsyncIterator[Lab]:
    """A new control plane. Its data directory is removed at the end, which is faster than deleting objects."""
    say("starting a control plane")
    with Devcluster(DevclusterOptions(controller_manager_qps=CONTROLLER_MANAGER_QPS)) as cluster:
        kubeconfigs = {
            user: cluster.kubeconfig_for(user, [ALL_RIGHTS]) for user in (ADMIN, BARE, BYSTANDER, CONTROLLER)
        }
        log = AuditLog(cluster.audit_log)
        async with (
            open_client(kubeconfigs[ADMIN], ADMIN) as admin,
            open_client(kubeconfigs[BARE], BARE) as bare,
            open_client(kubeconfigs[BYSTANDER], BYSTANDER) as bystander,
        ):
            lab = Lab(options, cluster, log, admin, bare, bystander, kubeconfigs[CONTROLLER])
            await lab.make_namespace(options.home)
            if options.settings is not None:
                settings = {"vocabularies": {options.vocabulary: options.settings}}
                (cluster.data / SETTINGS).write_text(json.dumps(settings))
            if options.has_custom_resources:
                cluster.kubectl("apply", "--filename=-", input="---\n".join(map(crds.text, crds.shipped())))
                cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
            await lab.grow(namespaces)
            yield lab
        log.close()
