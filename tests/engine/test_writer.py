"""The writer sends a write only if its object is still the one that it was planned for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.kube.scripted import Seen, access, says, serving
from tests.support.controller import ControllerHarness
from tests.support.samples import a_copy, a_key, a_source
from tests.support.world import secret

from samara.core.copy_counts import CopyCounts
from samara.core.desired import Copy, Template
from samara.core.model import Object
from samara.core.writes import Delete, SetFinalizer, Update, WriteStatus
from samara.engine.writer import WriteDone, WriteDropped
from samara.kube.cache import Cache
from samara.kube.client import Client, unrestricted

COPY = a_copy("a", version=40, content=secret("old"))
SOURCE = a_source(targets="a", version=40)
STORED = {"metadata": {"name": "db", "namespace": "a", "uid": "new", "resourceVersion": "50"}, "type": "Opaque"}
Planned = Update | Delete | SetFinalizer | WriteStatus
WRITES: dict[str, Planned] = {
    "update": Update(a_key(), COPY.ref, Copy(COPY.ref, Template(secret("new"))), COPY, "differs"),
    "delete": Delete(a_key(), COPY.ref, COPY),
    "finalizer": SetFinalizer(a_key(), SOURCE.ref, SOURCE, "samara.dev/guard", add=True, why="first"),
    "status": WriteStatus(a_key(), SOURCE.ref, SOURCE, {"observedGeneration": 1}),
}
METHODS = {"update": "PUT", "delete": "DELETE", "finalizer": "PATCH", "status": "PATCH"}


def after_a_change(
    name: str, change: Callable[[Cache, Object], object]
) -> tuple[Planned, list[Seen], ControllerHarness]:
    """Plans a write for the object in the cache, changes that object, and lets the writer send."""

    async def run() -> tuple[Planned, list[Seen], ControllerHarness]:
        async with serving(says(STORED)) as script, Client(access(script), may_write=unrestricted) as client:
            harness = ControllerHarness(client=client, namespaces=["a"])
            harness.cache.put(WRITES[name].live)
            live = harness.cache.get(WRITES[name].ref)
            assert live is not None
            write = replace(WRITES[name], live=live)
            harness.writer.stop_verifying()
            harness.outbox.put(write, urgent=False)
            change(harness.cache, live)
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                harness.writer.send_waiting(group)
            return write, script.seen, harness

    return asyncio.run(run())


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_sent_if_its_object_is_as_planned(name: str) -> None:
    write, seen, harness = after_a_change(name, lambda cache, live: None)

    assert [request.method for request in seen] == [METHODS[name]]
    message = harness.inbox.take()
    assert isinstance(message, WriteDone)
    assert message.write is write


CHANGES: dict[str, Callable[[Cache, Object], object]] = {
    "newer version": lambda cache, live: cache.put(replace(live, resource_version=41)),
    "deleted": lambda cache, live: cache.remove_deleted(live),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_dropped_and_planned_again_if_its_object_changed(
    name: str, change: Callable[[Cache, Object], object]
) -> None:
    write, seen, harness = after_a_change(name, change)
    message = harness.inbox.take()
    assert (seen, message) == ([], WriteDropped(write))

    harness.counts[a_key()] = CopyCounts()  # the controller queues only keys that it knows
    harness.post(WriteDropped(write))
    assert harness.outbox.in_flight(write.ref) is None
    assert [key.all_namespaces for key in harness.requeued()] == [a_key()]
