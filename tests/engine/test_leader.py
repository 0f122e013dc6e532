"""Leader election, which uses only our own monotonic clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from tests.kube.scripted import Script, Store, access, cuts, gated, refuses, serving
from tests.support.samples import Clock

from samara.engine.leader import LeaderElector
from samara.kube.client import Client, unrestricted

PATH = "/apis/coordination.k8s.io/v1/namespaces/samara/leases/samara"
DURATION, RENEW = 15.0, 10.0


class Stage:
    def __init__(self, client: Client, store: Store, script: Script) -> None:
        self.client, self.store, self.script = client, store, script
        self.clock = Clock()

    def lease(self, identity: str = "we", clock: Clock | None = None) -> LeaderElector:
        return LeaderElector(self.client, "samara", identity, DURATION, RENEW, clock or self.clock)

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.store.objects[PATH]["spec"]
        return spec


def on_stage(scenario: Callable[[Stage], Awaitable[None]], *answers: Any) -> None:
    async def run() -> None:
        store = Store()
        async with serving(*answers, store) as script, Client(access(script), may_write=unrestricted) as client:
            await scenario(Stage(client, store, script))

    asyncio.run(run())


def test_nothing_is_written_before_leading() -> None:
    async def scenario(stage: Stage) -> None:
        assert not stage.lease().is_leader()

    on_stage(scenario)


def test_a_leader_may_write_exactly_until_the_deadline() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        await lease.acquire()
        assert lease.deadline == stage.clock.now + RENEW
        stage.clock.now += RENEW - 0.001
        assert lease.is_leader()
        stage.clock.now += 0.001
        assert not lease.is_leader()

    on_stage(scenario)


def test_the_deadline_counts_from_before_the_request() -> None:
    async def scenario(stage: Stage) -> None:
        class Ticking(Clock):
            def __call__(self) -> float:
                self.now += 1.0
                return self.now

        clock = Ticking()
        lease = stage.lease(clock=clock)
        began = clock.now
        assert await lease._try_once()
        assert lease.deadline == began + 1.0 + RENEW

    on_stage(scenario)


def test_the_deadline_ends_before_the_lease_does_for_others() -> None:
    async def scenario(stage: Stage) -> None:
        ours, theirs = stage.lease("we"), stage.lease("they")
        await ours.acquire()
        assert not await theirs._try_once()
        stage.clock.now = ours.deadline
        assert not ours.is_leader()
        assert not await theirs._try_once()
        stage.clock.now += DURATION - RENEW + 0.1
        assert await theirs._try_once()
        assert stage.spec["holderIdentity"] == "they"
        assert stage.spec["leaseTransitions"] == 1

    on_stage(scenario)


def test_clocks_of_other_machines_are_ignored() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.lease("they").acquire()
        stage.spec["renewTime"] = "1999-01-01T00:00:00.000000Z"
        ours = stage.lease("we", Clock(5_000_000.0))
        assert not await ours._try_once()

    on_stage(scenario)


def test_a_lease_that_is_renewed_never_expires() -> None:
    async def scenario(stage: Stage) -> None:
        ours, theirs = stage.lease("we"), stage.lease("they")
        for _ in range(5):
            assert await ours._try_once()
            assert not await theirs._try_once()
            stage.clock.now += DURATION - 1

    on_stage(scenario)


def test_the_others_duration_is_respected() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.lease("they").acquire()
        stage.spec["leaseDurationSeconds"] = 60
        ours = stage.lease("we")
        await ours._try_once()
        stage.clock.now += 59.0
        assert not await ours._try_once()
        stage.clock.now += 2.0
        assert await ours._try_once()

    on_stage(scenario)


def test_a_released_lease_is_taken_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        ours, theirs = stage.lease("we"), stage.lease("they")
        await ours.acquire()
        await ours.release()
        assert not ours.is_leader()
        assert stage.spec["holderIdentity"] == ""
        assert await theirs._try_once()

    on_stage(scenario)


def test_a_process_does_not_take_a_lease_again_that_it_released() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        await lease.acquire()
        await lease.release()
        assert not await lease._try_once()
        assert stage.spec["holderIdentity"] == ""
        stage.store.objects.clear()
        assert not await lease._try_once()
        assert not lease.is_leader()
        assert PATH not in stage.store.objects

    on_stage(scenario)


def test_a_renewal_during_the_release_does_not_keep_the_lease() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        await lease.acquire()

        async def renewed_just_now(request: web.Request) -> web.StreamResponse:
            stage.store.write(PATH, stage.store.objects[PATH])
            return await stage.store(request)

        so_far = len(stage.script.seen)
        stage.script.answers = [*[stage.store] * so_far, stage.store, renewed_just_now, stage.store]
        await lease.release()
        assert [request.method for request in stage.script.seen[so_far:]] == ["GET", "PUT", "GET", "PUT"]
        assert stage.spec["holderIdentity"] == ""

    on_stage(scenario)


def test_nothing_is_written_after_the_lease_is_released() -> None:
    """A standby may take over before our answer comes: a write that outlives the drain must not be sent."""

    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        await lease.acquire()
        so_far = len(stage.script.seen)
        stage.script.answers = [gated(stage.store)]
        releasing = asyncio.create_task(lease.release())
        await stage.script.until(lambda: len(stage.script.seen) > so_far)
        assert not lease.is_leader()
        stage.script.gate.set()
        await releasing

    on_stage(scenario)


def test_releasing_the_lease_is_not_losing_it_even_during_a_renewal() -> None:
    """Otherwise a normal stop would sometimes exit with a failure."""

    async def scenario(stage: Stage) -> None:
        lease = LeaderElector(stage.client, "samara", "we", DURATION, 0.01, stage.clock)
        await lease.acquire()
        so_far = len(stage.script.seen)
        stage.script.answers = [gated(stage.store)]
        keeping = asyncio.create_task(lease.renew_until_lost())
        await stage.script.until(lambda: len(stage.script.seen) == so_far + 1)
        releasing = asyncio.create_task(lease.release())
        await stage.script.until(lambda: len(stage.script.seen) == so_far + 2)
        stage.script.gate.set()
        await releasing
        done, _ = await asyncio.wait([keeping], timeout=0.1)
        assert not done
        assert not lease.is_leader()
        assert stage.spec["holderIdentity"] == ""
        keeping.cancel()

    on_stage(scenario)


def test_only_our_own_lease_is_released() -> None:
    async def scenario(stage: Stage) -> None:
        ours, theirs = stage.lease("we"), stage.lease("they")
        await theirs.acquire()
        await ours.release()
        assert stage.spec["holderIdentity"] == "they"

    on_stage(scenario)


def test_a_leader_that_loses_the_lease_stops_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        ours = stage.lease("we")
        await ours.acquire()
        stage.spec["holderIdentity"] = "they"
        assert not await ours._try_once()
        assert not ours.is_leader()

    on_stage(scenario)


@pytest.mark.parametrize("answer", [cuts, refuses(503, "ServiceUnavailable"), refuses(403, "Forbidden")])
def test_after_an_error_the_lease_and_its_deadline_are_as_before(answer: Any) -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        await lease.acquire()
        before = lease.deadline
        stage.script.answers = [answer]
        stage.clock.now += 1.0
        assert not await lease._try_once()
        assert lease.deadline == before
        assert lease.is_leader()
        stage.script.answers = [stage.store]
        assert await lease._try_once()
        assert lease.deadline == before + 1.0

    on_stage(scenario)


def test_a_conflict_on_renewal_is_retried() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        await lease.acquire()
        before = lease.deadline
        stage.script.answers = [stage.store, refuses(409, "Conflict")]
        stage.clock.now += 1.0
        assert not await lease._try_once()
        assert lease.deadline == before
        stage.script.answers = [stage.store]
        assert await lease._try_once()
        assert lease.deadline == before + 1.0

    on_stage(scenario)


def test_renewing_keeps_when_it_was_acquired() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        await lease.acquire()
        before = dict(stage.spec)
        assert await lease._try_once()
        assert stage.spec["acquireTime"] == before["acquireTime"]
        assert stage.spec["renewTime"] > before["renewTime"]
        assert stage.spec["leaseTransitions"] == 0

    on_stage(scenario)


def test_a_lease_that_is_unreachable_for_two_durations_is_reported() -> None:
    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        stage.clock.now += 2 * DURATION
        assert lease.stall_reason() is None
        stage.clock.now += 1.0
        assert lease.stall_reason() == "the lease has been out of reach for 31 s"
        await lease._try_once()
        assert lease.stall_reason() is None

    on_stage(scenario)


@pytest.mark.parametrize(("duration", "seconds"), [(15.0, 15), (0.75, 1), (1.5, 2)])
def test_the_lease_names_its_duration_rounded_up_to_seconds(duration: float, seconds: int) -> None:
    async def scenario(stage: Stage) -> None:
        await LeaderElector(stage.client, "samara", "we", duration, duration / 2, stage.clock).acquire()
        assert stage.spec["leaseDurationSeconds"] == seconds

    on_stage(scenario)


def test_a_lease_that_can_be_read_and_not_written_is_not_reported_as_unreachable() -> None:
    """etcd may be full. A restart would not help, so the liveness probe must not fail."""

    async def scenario(stage: Stage) -> None:
        lease = stage.lease()
        stage.clock.now += 3 * DURATION
        assert lease.refusal_reason() is None
        assert not await lease._try_once()
        assert lease.stall_reason() is None
        assert "database space exceeded" in (lease.refusal_reason() or "")
        assert await lease._try_once()
        assert lease.refusal_reason() is None

    on_stage(
        scenario, refuses(404, "NotFound"), refuses(500, "InternalError", "etcdserver: mvcc: database space exceeded")
    )
