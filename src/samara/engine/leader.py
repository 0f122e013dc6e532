"""Leader election by a Lease, so that only one process writes and the others stand by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil
from typing import Any

from samara import log
from samara.assembly import LEASE_NAME
from samara.core.model import LEASE, Ref
from samara.kube.client import OUR_WRITES, Client, address, collection
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, Conflict, NotFound, SamaraError


def boot_time() -> float:
    """Seconds on a clock that runs while the machine sleeps. Otherwise a leader would still write after a suspend."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class LeaderElector:
    """Takes and renews the Lease. No write may be sent after `deadline` by our own clock.

    It does not end the process when the Lease is lost: `app` does.
    """

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
        self._ref = Ref(LEASE, namespace, LEASE_NAME)
        self._identity = identity
        self._duration = duration
        self._renew = renew
        self._clock = clock
        self.deadline = float("-inf")
        self.progress = clock()
        """When the Lease was last read."""
        self._releasing = False
        self._error = ""
        """Why the last attempt failed, so that a lasting error is logged once; empty after a success."""
        self._observed: tuple[str, str] = ("", "")
        """Resource version and holder of another process's Lease when it was last read."""
        self._observed_at = clock()
        """When these last changed."""

    def is_leader(self) -> bool:
        return self._clock() < self.deadline

    def stall_reason(self) -> str | None:
        """Describes that the Lease could not be read for long; None if it could."""
        silence = self._clock() - self.progress
        return f"the lease has been out of reach for {silence:.0f} s" if silence > 2 * self._duration else None

    def refusal_reason(self) -> str | None:
        """Describes why the last attempt to take or renew the Lease failed; None if it did not."""
        return f"the lease can be neither taken nor renewed: {self._error}" if self._error else None

    async def acquire(self) -> None:
        """Returns when we lead."""
        while True:
            if await self._try_once():
                break
            await asyncio.sleep(min(1.0, self._duration / 5))
        log.info("lease.acquired", identity=self._identity)

    async def renew_until_lost(self) -> None:
        """Renews until the deadline passes without success. The caller must then end the process."""
        while self.is_leader():
            await asyncio.sleep(self._renew / 5)
            if not await self._try_once() and self._clock() >= self.deadline:
                break
        if self._releasing:
            await asyncio.Event().wait()  # we gave up the Lease, so it is not lost; the process is ending
        log.warning("lease.lost", identity=self._identity)

    async def release(self) -> None:
        """Gives up the Lease, so that a standby takes over at once."""
        self._releasing, self.deadline = True, float("-inf")
        try:
            async with asyncio.timeout(3):
                while not await self._give_up():
                    log.debug("lease.changed-meanwhile")
        except (SamaraError, TimeoutError) as fault:
            log.debug("lease.not-released", fault=fault)

    async def _give_up(self) -> bool:
        """Empties the holder of the Lease. False if our own last renewal changed the Lease in between."""
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
        """Tries to take or renew the Lease, and moves the deadline. True if this process holds it."""
        began = self._clock()
        try:
            async with asyncio.timeout(max(0.5, self._renew / 2)):
                held = await self._take_or_renew()
        except (Conflict, AlreadyExists):
            return False  # perhaps because of our own write, whose answer was late: the next read shows who holds it
        except (SamaraError, TimeoutError) as fault:
            self._note_error(str(fault) or "timed out")
            return False
        self._error = ""
        if held and not self._releasing:
            self.deadline = began + self._renew
        elif self.is_leader():  # another process took the Lease
            self.deadline = float("-inf")
        return held

    def _note_error(self, error: str) -> None:
        report = log.debug if error == self._error else log.warning
        self._error = error
        report("lease.failed", fault=error)

    async def _take_or_renew(self) -> bool:
        """True if this process holds the Lease now. False if another one does."""
        try:
            lease = decode(await self._client.get(address(self._ref)))
        except NotFound:
            lease = None
        self.progress = self._clock()  # even if we may not write it, because a restart would not help then
        if self._releasing:  # we emptied the holder ourselves, and must not take it again
            return False
        if lease is None:
            await self._create()
            return True
        spec = lease.setdefault("spec", {})
        is_ours = spec.get("holderIdentity") == self._identity
        if not is_ours and not self._has_expired(lease):
            return False
        spec |= self._spec(spec.get("acquireTime") if is_ours else None)
        spec["leaseTransitions"] = spec.get("leaseTransitions", 0) + (0 if is_ours else 1)
        await self._put(lease)
        return True

    def _has_expired(self, lease: dict[str, Any]) -> bool:
        """True if no process holds the Lease, or if it has not changed for its duration by our clock.

        Its own times are not used, because the clocks of other machines may differ.
        """
        spec = lease["spec"]
        state = (lease["metadata"]["resourceVersion"], spec.get("holderIdentity") or "")
        if state != self._observed:
            self._observed, self._observed_at = state, self._clock()
        if not spec.get("holderIdentity"):
            return True
        return self._clock() - self._observed_at > float(spec.get("leaseDurationSeconds") or self._duration)

    def _spec(self, acquired: str | None) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, ceil(self._duration)),
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
