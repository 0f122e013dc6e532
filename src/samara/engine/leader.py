"""Leader election by a Lease: one writer at a time, a warm standby beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from samara import log
from samara.core.model import Kind, Ref
from samara.kube.client import OUR_WRITES, Client, address, collection
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, Conflict, NotFound, SamaraError

LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
NAME = "samara"


def boot_time() -> float:
    """Seconds that go on while the machine sleeps: a suspended leader must know that its time is over."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class LeaderElector:
    """Who leads. No write may be sent after `deadline` by our own clock."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        duration: float,
        renew: float,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._client = client
        self._ref = Ref(LEASE, namespace, NAME)
        self._identity = identity
        self._duration = duration
        self._renew = renew
        self._clock = clock
        self.deadline = float("-inf")
        self.progress = clock()
        """When the Lease was last read or written."""
        self._releasing = False
        self._told = ""
        """Why the last try failed: the same is told once, however long it lasts."""
        self._seen: tuple[str, str] = ("", "")
        self._seen_at = clock()

    def is_leader(self) -> bool:
        return self._clock() < self.deadline

    def stalled(self) -> str | None:
        quiet = self._clock() - self.progress
        return f"the lease has been out of reach for {quiet:.0f} s" if quiet > 2 * self._duration else None

    def refused(self) -> str | None:
        return f"the lease can be neither taken nor renewed: {self._told}" if self._told else None

    async def acquire(self) -> None:
        """Returns when we lead."""
        while True:
            if await self._try_once():
                break
            await asyncio.sleep(min(1.0, self._duration / 5))
        log.info("lease.acquired", identity=self._identity)

    async def renew_until_lost(self) -> None:
        """Renews until that fails for too long, and then returns: whoever calls ends the process."""
        while self.is_leader():
            await asyncio.sleep(self._renew / 5)
            if not await self._try_once() and self._clock() >= self.deadline:
                break
        if self._releasing:
            await asyncio.Event().wait()  # let go, not lost: the process ends anyway
        log.warning("lease.lost", identity=self._identity)

    async def release(self) -> None:
        """Lets a standby take over at once."""
        self._releasing, self.deadline = True, float("-inf")
        try:
            async with asyncio.timeout(3):
                while not await self._give_up():
                    log.debug("lease.changed-meanwhile")
        except (SamaraError, TimeoutError) as fault:
            log.debug("lease.not-released", fault=fault)

    async def _give_up(self) -> bool:
        """False where our own last renewal came between."""
        lease = decode(await self._client.get(address(self._ref)))
        if lease["spec"].get("holderIdentity") != self._identity:
            return True
        lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._put(lease)
        except Conflict:
            return False
        return True

    async def _try_once(self) -> bool:
        began = self._clock()
        try:
            async with asyncio.timeout(max(0.5, self._renew / 2)):
                held = await self._take()
        except (Conflict, AlreadyExists):
            return False  # perhaps by our own write, whose answer was late: the next look says whose it is
        except (SamaraError, TimeoutError) as fault:
            self._failed(str(fault) or "timed out")
            return False
        self._told = ""
        if held and not self._releasing:
            self.deadline = began + self._renew
        elif self.is_leader():  # somebody took it from us
            self.deadline = float("-inf")
        return held

    def _failed(self, why: str) -> None:
        tell = log.debug if why == self._told else log.warning
        self._told = why
        tell("lease.failed", fault=why)

    async def _take(self) -> bool:
        try:
            lease = decode(await self._client.get(address(self._ref)))
        except NotFound:
            lease = None
        self.progress = self._clock()  # whoever cannot write it is reached all the same: a restart would not help
        if self._releasing:  # an empty holder is our own doing: it is not for us
            return False
        if lease is None:
            await self._create()
            return True
        spec = lease.setdefault("spec", {})
        mine = spec.get("holderIdentity") == self._identity
        if not mine and not self._is_over(lease):
            return False
        changes = 0 if mine else 1
        spec |= self._spec(spec.get("acquireTime") if mine else None)
        spec["leaseTransitions"] = spec.get("leaseTransitions", 0) + changes
        await self._put(lease)
        return True

    def _is_over(self, lease: dict[str, Any]) -> bool:
        """Judged by our own clock since we last saw it change, never by the other's."""
        spec = lease["spec"]
        state = (lease["metadata"]["resourceVersion"], spec.get("holderIdentity") or "")
        if state != self._seen:
            self._seen, self._seen_at = state, self._clock()
        if not spec.get("holderIdentity"):
            return True
        return self._clock() - self._seen_at > float(spec.get("leaseDurationSeconds") or self._duration)

    def _spec(self, acquired: str | None) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, -int(-self._duration // 1)),
            "acquireTime": acquired or now,
            "renewTime": now,
        }

    async def _create(self) -> None:
        spec = {**self._spec(None), "leaseTransitions": 0}
        meta = {"name": self._ref.name, "namespace": self._ref.namespace}
        lease = {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": meta, "spec": spec}
        await self._client.request("POST", collection(LEASE, self._ref.namespace), encode(lease), params=OUR_WRITES)

    async def _put(self, lease: dict[str, Any]) -> None:
        await self._client.request("PUT", address(self._ref), encode(lease), params=OUR_WRITES)
