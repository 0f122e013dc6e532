"""One control plane with its namespaces, its audit log, the benchmark's own client and the controller's identity."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from samara import crds
from samara_devtools.bench import procfs
from samara_devtools.bench.audit import AuditLog, Entry, Pending, by, written
from samara_devtools.bench.bare import Bare, BareError, bare, encode, spread
from samara_devtools.bench.controller import SETTINGS, Controller
from samara_devtools.bench.figures import Cpu
from samara_devtools.bench.options import BRANCHES, CONFIGURED, Options
from samara_devtools.bench.secrets import Source
from samara_devtools.devcluster import Devcluster, DevclusterOptions
from samara_devtools.devcluster.cluster import APISERVER, ETCD

ADMIN = "bench"
BARE = "bench-bare"
BYSTANDER = "bench-bystander"
CONTROLLER = "bench-controller"
SET_UP = (("kube-root-ca.crt", "configmaps"), ("default", "serviceaccounts"))
"""Objects that Kubernetes' own controllers create in every namespace."""
ALL_RIGHTS = "system:masters"
POLL = 0.02
SELDOM = 0.25
"""Seconds between two reads of the log while speed is measured: reading it costs the measured processes CPU."""
WORKERS = 16
PATIENCE = 120.0
"""Seconds without progress after which a wait fails."""
CONTROLLER_MANAGER_QPS = 5000


def role_of(name: str, options: Options) -> dict[str, str]:
    """The labels of a namespace: Accurate's make a tree, in which n-00004 is the first child of n-00000."""
    if options.vocabulary != "accurate":
        return {}
    if name == options.home:
        return {"accurate.cybozu.com/type": "root"}
    above = int(name.removeprefix("n-")) // BRANCHES - 1 if options.deep else -1
    return {"accurate.cybozu.com/parent": options.home if above < 0 else f"n-{above:05}"}


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Lab:
    options: Options
    cluster: Devcluster
    log: AuditLog
    admin: Bare
    bare: Bare
    other: Bare
    """The bystander's client."""
    kubeconfig: Path
    namespaces: list[str] = field(default_factory=list)
    runs: int = 0
    started: int = 0
    """Where the log stood when the controller was last started."""

    # namespaces and sources

    async def grow(self, total: int) -> None:
        """Adds namespaces and waits until the server's own controllers are done with them."""
        say(f"making {total - len(self.namespaces)} namespaces")
        names = [f"n-{number:05}" for number in range(len(self.namespaces), total)]
        mark = self.log.catch_up()
        await spread(names, WORKERS, self.add_namespace)
        for name, resource in SET_UP:
            await self._served_by_server(mark, set(names), name, resource)
        await self.quiet(lambda entry: entry.is_write, 1.0)

    async def _served_by_server(self, mark: int, namespaces: set[str], name: str, resource: str) -> None:
        pending = Pending(self.log, mark, namespaces, lambda entries: written(entries, name, resource))
        await self.until(pending.is_over, f"{name} in every namespace")

    async def add_namespace(self, name: str) -> None:
        self.namespaces.append(name)
        await self.make_namespace(name)

    async def make_namespace(self, name: str) -> None:
        labels = role_of(name, self.options)
        await self.admin.send("POST", "/api/v1/namespaces", encode({"metadata": {"name": name, "labels": labels}}))

    async def write(self, source: Source) -> None:
        await self.admin.send(*source.request())

    async def verify(self, source: Source) -> None:
        """Fails unless every namespace has a copy with the content of the source."""
        secrets = await self.admin.get("/api/v1/secrets", fieldSelector=f"metadata.name={source.name}")
        right = {copy["metadata"]["namespace"] for copy in secrets["items"] if copy.get("data") == source.data}
        missing = set(self.namespaces) - right
        if missing:
            raise BareError(f"{len(missing)} namespaces lack a right copy of {source.name}, such as {min(missing)}")

    # waiting

    async def until(self, done: Callable[[], bool], what: str, every: float = POLL) -> None:
        """Reads the log until `done` is true. Fails if nothing is logged for long."""
        seen, moved = -1, time.monotonic()
        while not done():
            await asyncio.sleep(every)
            count = self.log.poll()
            if count != seen:
                seen, moved = count, time.monotonic()
            if time.monotonic() - moved > PATIENCE:
                raise BareError(f"waited in vain for {what}")

    async def all_copied(self, sources: Sequence[Source], mark: int) -> None:
        for source in sources:
            await self.copied(source, mark)

    async def copied(self, source: Source, mark: int, namespaces: set[str] | None = None) -> None:
        """Waits until these namespaces, or all, have had a write of this source's copy since the mark."""
        missing = set(self.namespaces) if namespaces is None else namespaces
        pending = Pending(self.log, mark, missing, lambda entries: written(by(entries, CONTROLLER), source.name))
        await self.until(pending.is_over, f"the copies of {source.name}", SELDOM if namespaces is None else POLL)

    async def quiet(self, what: Callable[[Entry], bool], seconds: float = 0.5) -> None:
        """Waits until no such request has been made for a while."""
        at, since = self.log.catch_up(), time.monotonic()
        while time.monotonic() - since < seconds:
            await asyncio.sleep(POLL)
            self.log.poll()
            if any(map(what, self.log.entries[at:])):
                since = time.monotonic()
            at = len(self.log.entries)

    async def settled(self) -> None:
        """Waits until the controller writes no more; its Events come up to a second later."""
        await self.quiet(lambda entry: entry.user == CONTROLLER and entry.is_write and entry.resource != "leases", 1.5)

    # the controller

    @contextmanager
    def running(self) -> Iterator[Controller]:
        """A controller that has just been started."""
        self.runs += 1
        self.started = self.log.catch_up()
        controller = Controller(self.options, self.kubeconfig, self.cluster.data / f"controller-{self.runs}.log")
        try:
            yield controller
        finally:
            controller.stop()

    async def up(self, controller: Controller) -> float | None:
        """Waits until it is ready, and returns the seconds that this took. None if it cannot report that."""
        if self.options.ready_url:
            return await controller.ready()
        await self.until(self._has_asked, "the first request of the controller")
        await self.quiet(lambda entry: entry.user == CONTROLLER, 3.0)
        return None

    def _has_asked(self) -> bool:
        return any(entry.user == CONTROLLER for entry in self.log.entries[self.started :])

    @asynccontextmanager
    async def ready(self) -> AsyncIterator[Controller]:
        """A controller that is ready and has nothing to do."""
        with self.running() as controller:
            await self.up(controller)
            await self.settled()
            yield controller

    def cpu(self, client: float) -> Cpu:
        pids = self.cluster.pids
        return Cpu(procfs.cpu_seconds(pids[APISERVER]), procfs.cpu_seconds(pids[ETCD]), client)


@asynccontextmanager
async def lab(options: Options, namespaces: int) -> AsyncIterator[Lab]:
    """A new control plane. Its data directory is removed at the end, which is faster than deleting objects."""
    say("starting a control plane")
    with Devcluster(DevclusterOptions(controller_manager_qps=CONTROLLER_MANAGER_QPS)) as cluster:
        users = [cluster.kubeconfig_for(user, [ALL_RIGHTS]) for user in (ADMIN, BARE, BYSTANDER, CONTROLLER)]
        log = AuditLog(cluster.audit_log)
        async with bare(users[0], ADMIN) as admin, bare(users[1], BARE) as loop, bare(users[2], BYSTANDER) as other:
            made = Lab(options, cluster, log, admin, loop, other, users[3])
            await made.make_namespace(options.home)
            (cluster.data / SETTINGS).write_text("vocabularies: {accurate: {watches: [{version: v1, kind: Secret}]}}")
            if options.vocabulary in ("resource-distribution", *CONFIGURED):
                cluster.kubectl("apply", "--filename=-", input="---\n".join(map(crds.text, crds.shipped())))
                cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
            await made.grow(namespaces)
            yield made
        log.close()
