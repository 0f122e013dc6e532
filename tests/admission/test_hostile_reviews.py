"""Reviews that are as large as possible: how much memory they take, and for how long no other task runs.

Each is measured in a process of its own, because a process never gives its peak back.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from tests.admission.scene import a_converter, a_thing
from tests.admission.test_conversion import a_body

from samara.admission.conversion import MAX_COMMAS, MAX_CONVERSION_BYTES, MAX_OBJECTS, Conversions, convert_review
from samara.admission.live_recheck import Validator
from samara.admission.review import MAX_OBJECT_BYTES, MAX_VALUES, MalformedError, guarded_kinds, read_review
from samara.assembly import registry_of
from samara.core.model import CONFIG_MAP, Kind
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Cache
from samara.kube.client import Client
from samara.kube.codec import Codec, encode
from samara.kube.errors import Invalid
from samara.settings import Settings
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION

LONGEST_STALL = 0.6
"""Seconds of CPU."""
MOST_MEMORY = 150
"""MiB. The operator of the chart may take 512."""


def filled(begin: bytes, item: bytes, end: bytes, most: int, size: int) -> bytes:
    """As many items as fit into so many bytes, but at most so many."""
    number = min(most, (size - 1000) // len(item))
    return begin + (item * number).rstrip(b",") + end


def measured(answer: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """The longest CPU time in seconds for which no other task ran, and by how many MiB the process grew."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def stall() -> float:
        longest, last = 0.0, time.process_time()
        answering = asyncio.ensure_future(answer())
        while not answering.done():
            await asyncio.sleep(0)
            longest, last = max(longest, time.process_time() - last), time.process_time()
        if not isinstance(answering.exception(), MalformedError):
            encode(answering.result())
        return max(longest, time.process_time() - last)

    return asyncio.run(stall()), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def costs(measurement: str) -> tuple[float, float]:
    """The result of an expression of this module, in another process."""
    program = f"from tests.admission.test_hostile_reviews import *; print(*{measurement})"
    same_sources = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=same_sources, capture_output=True, text=True, timeout=60, check=True
    )
    seconds, mebibytes = map(float, done.stdout.split())
    return seconds, mebibytes


# /convert

LISTS = b"[" * 50 + b"]" * 50 + b","
LARGE_OBJECT = b'{"apiVersion":"toys.dev/v1","kind":"Thing","spec":{"name":"x","more":[%b{}]}},' % (b"{}," * 120_000)
NESTED_OBJECT = b'{"apiVersion":"toys.dev/v1","kind":"Thing","spec":[%b[]]},' % (LISTS * (MAX_VALUES // 51 - 10))
CONVERSIONS: dict[str, tuple[bytes, bytes, bytes, int]] = {
    "empty objects": (b"[", b"{},", b"]", MAX_COMMAS - 10),
    "too many empty objects": (b"[", b"{},", b"]", MAX_CONVERSION_BYTES),
    "objects with many values": (b"[", LARGE_OBJECT, b"]", 8),
    "objects with many lists in lists": (b"[", NESTED_OBJECT, b"]", 30),
    "one object": (b'[{"apiVersion":"toys.dev/v1","spec":[', b"{},", b"]}]", MAX_COMMAS - 10),
    "numbers": (b"[", b"1,", b"]", MAX_COMMAS - 10),
    "brackets": (b"[", b"[", b"]", MAX_CONVERSION_BYTES),
    "spaces": (b"[", b" ", b"]", MAX_CONVERSION_BYTES),
    "things": (b"[", encode(a_thing(name="x" * 1400)) + b",", b"]", MAX_OBJECTS),
}


def cost_of_conversion(name: str) -> tuple[float, float]:
    body = a_body(filled(*CONVERSIONS[name], MAX_CONVERSION_BYTES))
    return measured(lambda: convert_review(body, {"toys.dev/Thing": a_converter}))


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_hostile_conversion_takes_little_memory_and_leaves_the_loop_running(name: str) -> None:
    seconds, mebibytes = costs(f"cost_of_conversion({name!r})")

    assert seconds < LONGEST_STALL
    assert mebibytes < MOST_MEMORY


def cost_of_conversions_at_once(name: str) -> tuple[float, float]:
    """Of twenty reviews with one object. The server accepts some more at the same time."""
    begin, item, end, _ = CONVERSIONS[name]
    body = a_body(filled(begin, item, end, 1, MAX_CONVERSION_BYTES))
    conversions = Conversions({"toys.dev/Thing": a_converter})

    async def all_answered() -> list[int]:
        return [len(answer) for answer in await asyncio.gather(*(conversions.answer(body) for _ in range(20)))]

    return measured(all_answered)


@pytest.mark.parametrize("name", ["objects with many values", "objects with many lists in lists"])
def test_conversions_that_arrive_together_leave_the_loop_running(name: str) -> None:
    seconds, _ = costs(f"cost_of_conversions_at_once({name!r})")

    assert seconds < LONGEST_STALL


# /admit

DISTRIBUTED = b"""{"metadata":{"name":"x"},"spec":{"targets":{"allNamespaces":true},"resource":
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"q"},"data":%b}}}"""
CONFIGURED = b'{"metadata":{"name":"x"},"data":%b}'
LISTED = b'{"metadata":{"name":"x"},"spec":{"resource":{},"targets":{"includedNamespaces":{"list":%b}}}}'
ADMISSIONS: dict[str, tuple[Kind, bytes, bytes, bytes, bytes, int]] = {
    "many values": (RESOURCE_DISTRIBUTION, DISTRIBUTED, b'{"k":[', b"{},", b"]}", MAX_VALUES // 2 - 50),
    "many lists in lists": (RESOURCE_DISTRIBUTION, DISTRIBUTED, b'{"k":[', LISTS, b"]}", MAX_VALUES // 51 - 10),
    "many names": (RESOURCE_DISTRIBUTION, LISTED, b"[", b'{"name":"a"},', b"]", MAX_VALUES // 2 - 50),
    "a large text": (RESOURCE_DISTRIBUTION, DISTRIBUTED, b'{"k":"', "\U0001f512".encode(), b'"}', 2**30),
    "an escaped text before many values": (CONFIG_MAP, CONFIGURED, b'["\\u0041",', b"{},", b"]", MAX_VALUES // 2 - 50),
}


class Server:
    """Rejects all dry runs as soon as the last one has been sent: until then the memory of all reviews is in use."""

    def __init__(self, number: int) -> None:
        self._all_sent = asyncio.Barrier(number)
        self.memory_in_use = 0

    async def request(self, *request: object, **more: object) -> bytes:
        self.memory_in_use = tracemalloc.get_traced_memory()[0]
        await self._all_sent.wait()
        raise Invalid(422, "Invalid", "not like this")


@dataclass
class Webhook:
    """Judges reviews with the vocabularies of the default settings."""

    server: Server
    validator: Validator = field(init=False)

    def __post_init__(self) -> None:
        registry = registry_of(Settings(), own_namespace="samara")
        codec = Codec(registry.managers)
        cache = Cache(registry, build_content=codec.content, readings=NO_READINGS)
        self.guarded = guarded_kinds(registry)
        self.validator = Validator(cache, cast(Client, self.server), codec, "samara")

    async def judged(self, body: bytes) -> tuple[str, ...]:
        review = await self.validator.in_turn(lambda: read_review(body, self.guarded, self.validator.codec))
        assert review.request is not None
        assert review.guarded is not None
        return await self.validator.faults(review.request, review.guarded.admissions)


def a_hostile_review(name: str) -> bytes:
    kind, template, begin, item, end, most = ADMISSIONS[name]
    kind_names = json.dumps({"group": kind.group, "version": kind.version, "kind": kind.name}).encode()
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
        b'"name":"x","namespace":"a","kind":%b,"object":%b}}'
        % (kind_names, template % filled(begin, item, end, most, MAX_OBJECT_BYTES))
    )


def cost_of_admissions(name: str) -> tuple[float, float]:
    """Of two at once."""
    bodies = [a_hostile_review(name) for _ in range(2)]
    webhook = Webhook(Server(len(bodies)))

    async def all_judged() -> list[tuple[str, ...]]:
        return await asyncio.gather(*map(webhook.judged, bodies))

    return measured(all_judged)


@pytest.mark.parametrize("name", ADMISSIONS)
def test_hostile_admission_reviews_take_little_memory_and_leave_the_loop_running(name: str) -> None:
    seconds, mebibytes = costs(f"cost_of_admissions({name!r})")

    assert seconds < LONGEST_STALL
    assert mebibytes < MOST_MEMORY


def test_a_review_that_waits_for_the_api_server_keeps_its_bytes_and_no_values() -> None:
    """Values take twenty times the memory of their bytes, and the server accepts 16 MiB of reviews at once."""
    webhook = Webhook(Server(1))
    body = a_hostile_review("many values").replace(b"{}," * 100_000, b"")
    tracemalloc.start()
    try:
        faults = asyncio.run(webhook.judged(body))
    finally:
        tracemalloc.stop()

    assert any("not like this" in fault for fault in faults)
    assert webhook.server.memory_in_use < 10 * len(body), f"{webhook.server.memory_in_use / len(body):.0f} per byte"
