"""Toy source types that validate, reviews as the API server sends them, and a small API server for admission."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web
from tests.kube.scripted import SCRIPT, Answer, Script, Store, access, refuses, says, serving
from tests.support.ports import free_port
from tests.support.toys import unaffected

from samara.admission.admission import Admission, AdmissionDeps, Listener
from samara.admission.certificates import Certificates, Timings, TlsSecret
from samara.admission.live_recheck import Validator
from samara.admission.review import guarded_kinds
from samara.admission.server import WebhookServer
from samara.admission.webhooks import ADMIT, CONVERT, MUTATE
from samara.core.admission import PatchOperation, Refused, Request
from samara.core.desired import Desired
from samara.core.model import CONFIG_MAP, NAMESPACE, SECRET, Kind, namespace_ref
from samara.core.ownership import ByMark
from samara.core.queries import UNREAD, DryRunCreate, Rejected
from samara.core.registry import Registry
from samara.core.source_type import Admission as AdmissionRules
from samara.core.source_type import Annotated, CustomResource, Hierarchy, SourceType
from samara.core.view import View
from samara.engine.metrics import Metrics
from samara.kube.answers import NO_READINGS
from samara.kube.cache import Cache
from samara.kube.client import Client, unrestricted
from samara.kube.codec import Codec

HOME = "samara"
PATIENCE = 30.0
WORD, TWIN, TRY = "toys.dev/word", "toys.dev/twin", "toys.dev/trial"
ABOVE, ROLE, MARK = "toys.dev/above", "toys.dev/role", "toys.dev/mark"
THING = Kind("toys.dev", "v1", "Thing", "things")
CRD_NAME = "things.toys.dev"
NAMESPACES = "/api/v1/namespaces"
SECRET_PATH = f"/api/v1/namespaces/{HOME}/secrets/samara-webhook-tls"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CHANGING_HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CRD_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}"
Json = dict[str, Any]
Validate = Callable[[Request, View], tuple[str, ...]]


# source types


def a_source_type(
    name: str, validate: Validate | None, *guarded: Kind, asks: frozenset[str] = frozenset()
) -> SourceType:
    """Without annotations as requests, guarded kinds other than Secrets and ConfigMaps are custom resources."""
    copied = tuple(kind for kind in guarded if kind in (SECRET, CONFIG_MAP))
    resources = tuple(kind for kind in guarded if kind not in copied) if not asks else ()
    return SourceType(
        name,
        (*copied, *resources[:1]),
        CustomResource(resources[0]) if resources else annotated(asks),
        ByMark(frozenset(), lambda obj, view: None),
        lambda source, view: Desired(),
        unaffected,
        lambda source, view: None,
        admission=AdmissionRules(guarded, validate) if validate is not None else None,
    )


def annotated(annotations: frozenset[str]) -> Annotated:
    return Annotated(annotations, lambda obj, view: False)


def admitting(source_type: SourceType, **changes: Any) -> SourceType:
    """The same source type with other admission rules."""
    assert source_type.admission is not None
    return replace(source_type, admission=replace(source_type.admission, **changes))


def spelled(request: Request, view: View) -> tuple[str, ...]:
    """Each word of the annotation that begins with `bad` is a fault."""
    words = request.new.annotations.get(WORD, "").split() if request.new is not None else []
    return tuple(f"{WORD} says {word!r}" for word in words if word.startswith("bad"))


def twinned(request: Request, view: View) -> tuple[str, ...]:
    """The namespace in the annotation must exist."""
    name = request.new.annotations.get(TWIN) if request.new is not None else None
    return (f"there is no namespace {name!r}.",) if name and view.get(namespace_ref(name)) is None else ()


def tried(request: Request, view: View) -> tuple[str, ...]:
    """The annotation must be a body that the API server accepts in a dry run."""
    body = request.new.annotations.get(TRY) if request.new is not None else None
    if not body:
        return ()
    result = view.answer(DryRunCreate(SECRET, body.encode()))
    if result is UNREAD:
        return ("nobody has tried it",)
    return (f"the server says: {result.message}",) if isinstance(result, Rejected) else ()


def childless(request: Request, view: View) -> tuple[str, ...]:
    """A namespace with children must not be deleted."""
    old = request.old if request.operation == "DELETE" else None
    names = (
        sorted(namespace.ref.name for namespace in view.namespaces_with_label(ABOVE, old.ref.name))
        if old is not None
        else ()
    )
    return (Refused(f"below it are {', '.join(names)}"),) if names else ()


def marked(request: Request) -> tuple[PatchOperation, ...]:
    """Adds an annotation to every new object."""
    new = request.new
    return (PatchOperation("add", "/metadata/annotations", {**new.annotations, MARK: "1"}),) if new is not None else ()


def spaces() -> SourceType:
    """Validates every operation on namespaces with one of two labels, and fails closed."""
    made = admitting(
        a_source_type("spaces", childless, NAMESPACE),
        operations=("CREATE", "UPDATE", "DELETE"),
        labels=frozenset({ABOVE, ROLE}),
        fail_closed=True,
    )
    return replace(made, kinds=(), source=annotated(frozenset()), hierarchy=Hierarchy(frozenset({ABOVE})))


def marking() -> SourceType:
    return admitting(a_source_type("marking", spelled, THING), default=marked)


def a_registry() -> Registry:
    return Registry(
        (
            a_source_type("spelled", spelled, SECRET, CONFIG_MAP, asks=frozenset({WORD})),
            a_source_type("twinned", twinned, SECRET, asks=frozenset({TWIN})),
            a_source_type("tried", tried, SECRET, asks=frozenset({TRY})),
            a_source_type("things", spelled, THING),
            a_source_type("silent", None, SECRET, asks=frozenset({"toys.dev/never"})),
        )
    )


def a_converter(obj: Json, wanted: str) -> Json:
    """The field is `name` in v1 and `title` in v2."""
    was, now = {"toys.dev/v2": ("name", "title"), "toys.dev/v1": ("title", "name")}[wanted]
    return {**obj, "apiVersion": wanted, "spec": {now: obj["spec"][was]}}


# reviews


def an_object(kind: Kind = SECRET, name: str = "db", namespace: str = "a", **annotations: str) -> Json:
    annotations_by_key = {f"toys.dev/{key}": value for key, value in annotations.items()}
    meta = {"name": name, "namespace": namespace, "annotations": annotations_by_key}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "data": {"key": "b25l"}}


def a_review(new: Json | None, old: Json | None = None, kind: Kind = SECRET, **more: Any) -> Json:
    operation = "UPDATE" if new and old else "CREATE" if new else "DELETE"
    request = {
        "uid": "the-uid",
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        "name": "db",
        "namespace": "a",
        "operation": operation,
        "userInfo": {"username": "somebody", "groups": ["people"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def a_conversion(wanted: str, *objects: Json) -> Json:
    request = {"uid": "the-uid", "desiredAPIVersion": wanted, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def a_thing(version: str = "v1", **spec: str) -> Json:
    meta = {"name": "one", "namespace": "a", "uid": "u"}
    return {"apiVersion": f"toys.dev/{version}", "kind": "Thing", "metadata": meta, "spec": spec}


# an API server


class Cluster(Store):
    """A Store whose objects have uids and can be listed and deleted. The Secret can be watched."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[str, str]] = []
        self.broken: Answer | None = None
        """Answers every request instead of the store. None: the store answers."""
        self.odd: dict[tuple[str, str], Answer] = {}
        """Answers requests with one method and path instead of the store."""
        self._watches: list[asyncio.Queue[Json | None]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        odd = self.broken or self.odd.get((request.method, request.path))
        if odd is not None:
            return await odd(request)
        if request.query.get("watch"):
            return await self._watched(request)
        if request.path == NAMESPACES and "labelSelector" in request.query:
            namespaces = self._labelled(*request.query["labelSelector"].split("="))
            most = int(request.query.get("limit", len(namespaces)))
            return await says({"items": namespaces[:most]})(request)
        if request.method != "GET" and "dryRun" not in request.query:
            self.writes.append((request.method, request.path))
        return await super().__call__(request)

    def _labelled(self, label: str, value: str) -> list[Json]:
        near = [obj for path, obj in self.objects.items() if path.rpartition("/")[0] == NAMESPACES]
        return [obj for obj in near if obj["metadata"].get("labels", {}).get(label) == value]

    def _answer(self, method: str, path: str, body: bytes) -> Answer:
        below = [obj for where, obj in self.objects.items() if where.rpartition("/")[0] == path]
        if method == "GET" and path not in self.objects and below:
            return says({"items": below})
        if method == "DELETE" and path in self.objects:
            return says(self.delete(path))
        return super()._answer(method, path, body)

    def write(self, path: str, sent: Json) -> Answer:
        stored = self.objects.get(path)
        uid = stored["metadata"]["uid"] if stored else f"uid-{self.version}"
        response = super().write(path, {**sent, "metadata": {**sent.get("metadata", {}), "uid": uid}})
        self._send_event("MODIFIED" if stored else "ADDED", path)
        return response

    def delete(self, path: str) -> Json:
        self._send_event("DELETED", path)
        return self.objects.pop(path)

    def cut_watches(self) -> None:
        for watch in self._watches:
            watch.put_nowait(None)

    def _send_event(self, type: str, path: str) -> None:
        if path == SECRET_PATH:
            self.send_event(type, self.objects[path])

    def send_event(self, type: str, obj: Json) -> None:
        """Sends an event to the watches of the Secret, independent of the store."""
        for watch in self._watches:
            watch.put_nowait({"type": type, "object": obj})

    async def _watched(self, request: web.Request) -> web.StreamResponse:
        events: asyncio.Queue[Json | None] = asyncio.Queue()
        self._watches.append(events)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if SECRET_PATH in self.objects:
            events.put_nowait({"type": "ADDED", "object": self.objects[SECRET_PATH]})
        over = asyncio.create_task(request.app[SCRIPT].over.wait())
        over.add_done_callback(lambda _: events.put_nowait(None))
        while (event := await events.get()) is not None:
            await response.write(json.dumps(event).encode() + b"\n")
        self._watches.remove(events)
        over.cancel()
        return response


@dataclass
class Clock:
    """The current time plus an offset in seconds."""

    ahead: float = 0.0

    def __call__(self) -> datetime:
        return datetime.fromtimestamp(datetime.now(UTC).timestamp() + self.ahead, UTC)


@dataclass
class Scene:
    """One API server, and the parts of admission that run against it."""

    cluster: Cluster
    script: Script
    clock: Clock
    stack: AsyncExitStack
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    made: list[Admission] = field(default_factory=list)
    listed: bool = True
    leads: bool = True

    async def deps(self, registry: Registry | None = None, leads: Callable[[], bool] | None = None) -> AdmissionDeps:
        registry = registry or a_registry()
        codec = Codec(registry.managers)
        client = await self.stack.enter_async_context(Client(access(self.script), timeout=5.0, may_write=unrestricted))
        cache = Cache(registry, build_content=codec.content, readings=NO_READINGS)
        is_leading = leads or (lambda: self.leads)
        return AdmissionDeps(client, codec, cache, registry, HOME, is_leading, lambda kind: self.listed, Metrics())

    def timings(self) -> Timings:
        return Timings(now=self.clock, interval=0.01, recheck_interval=0.05)

    def start(self, part: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(part.run())
        self.tasks.append(task)
        return task

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                for task in self.tasks:
                    if task.done() and not task.cancelled():
                        task.result()
                await asyncio.sleep(0.002)

    async def turns(self, number: int = 5) -> None:
        """Waits for several intervals in which nothing must happen."""
        await asyncio.sleep(number * 0.01)

    async def secret(
        self, names: tuple[str, ...], load: Callable[[Certificates], None], leads: bool = True
    ) -> TlsSecret:
        deps = await self.deps()
        return TlsSecret(deps.client, deps.namespace, names, lambda: leads, load, self.timings())

    async def webhook_server(self) -> WebhookServer:
        """Without a certificate."""
        deps = await self.deps()
        validator = Validator(deps.view, deps.client, deps.codec, deps.namespace)
        return WebhookServer("127.0.0.1:0", guarded_kinds(deps.registry), validator, deps.is_listed, {}, deps.metrics)

    async def admission(
        self, listener: Listener, deps: AdmissionDeps | None = None, crds: tuple[str, ...] = ()
    ) -> Admission:
        deps = deps or await self.deps()
        converters = {"toys.dev/Thing": a_converter}
        return Admission(
            deps, listener, deps.registry.source_types, converters=converters, crds=crds, timings=self.timings()
        )

    async def server(
        self, in_cluster: bool = False, deps: AdmissionDeps | None = None, url: str = "", crds: tuple[str, ...] = ()
    ) -> Running:
        """A complete admission. Returns when it answers."""
        port = free_port()
        deps = deps or await self.deps()
        listener = Listener(f"127.0.0.1:{port}", url or f"https://127.0.0.1:{port}", in_cluster)
        made = await self.admission(listener, deps, crds)
        self.made.append(made)
        self.start(made)
        await self.until(lambda: made.not_ready_reason is None)
        return Running(made, port, self.cluster, deps)


@dataclass(frozen=True)
class Running:
    """A running admission, and requests to it."""

    admission: Admission
    port: int
    cluster: Cluster
    deps: AdmissionDeps

    def bundle(self) -> bytes:
        return held(self.cluster, "ca.crt")

    async def post(
        self, path: str, body: Any, bundle: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status and the answer, as an object or, if it is not JSON, as text."""
        trust = ssl.create_default_context(cadata=(bundle or self.bundle()).decode())
        sent = json.dumps(body).encode() if isinstance(body, dict) else body
        url = f"https://127.0.0.1:{self.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=sent, ssl=trust, headers=headers) as response,
        ):
            text = await response.text()
            return response.status, json.loads(text) if text[:1] == "{" else text

    async def admits(self, review: Any) -> tuple[int, Any]:
        status, answer = await self.post(ADMIT, review)
        return status, answer["response"] if isinstance(answer, dict) else answer

    async def mutates(self, review: Any) -> tuple[int, Any]:
        """Status and the steps of the patch, or the text of an error."""
        status, answer = await self.post(MUTATE, review)
        if not isinstance(answer, dict):
            return status, answer
        assert answer["response"]["allowed"]
        return status, json.loads(base64.b64decode(answer["response"].get("patch", "bnVsbA==")))

    async def converts(self, review: Any) -> tuple[int, Any]:
        status, answer = await self.post(CONVERT, review)
        return status, answer["response"] if isinstance(answer, dict) else answer


def held(cluster: Cluster, key: str) -> bytes:
    return base64.b64decode(cluster.objects[SECRET_PATH]["data"][key])


@asynccontextmanager
async def _scene() -> AsyncIterator[Scene]:
    cluster = Cluster()
    async with serving(cluster) as script, AsyncExitStack() as stack:
        scene = Scene(cluster, script, Clock(), stack)
        try:
            yield scene
        finally:
            script.over.set()  # ends hanging requests, which would keep the lock of a registration until their timeout
            for made in scene.made:
                await stack.enter_async_context(quiet(made))
            for task in scene.tasks:
                task.cancel()
            await asyncio.gather(*scene.tasks, return_exceptions=True)


def quiet(admission: Admission) -> asyncio.Lock:
    """Held while a scene ends: asyncio leaks a connection that an admission opens to itself while its server closes."""
    return admission._registrar._lock


def on_scene(scenario: Callable[[Scene], Any]) -> None:
    async def run() -> None:
        free_port()  # The first call opens a lock file that stays open, which is not a leak.
        before = open_files()
        async with _scene() as scene:
            await scenario(scene)
        async with asyncio.timeout(PATIENCE):
            while open_files() > before:  # noqa: ASYNC110 - TLS connections close after a close notification
                await asyncio.sleep(0.002)

    asyncio.run(run())


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


def forbidden() -> Answer:
    return refuses(403, "Forbidden", "you may not")
