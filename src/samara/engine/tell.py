"""Kubernetes Events: one per source and reason, merged, with a count and a sample of namespaces."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from samara import log
from samara.core.match import sample
from samara.core.model import Key, Object, Ref
from samara.engine.reasons import NORMAL
from samara.kube.client import AS_US, MERGE_PATCH, Client
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, NotFound, SamaraError

AGAIN = 1800.0
"""What lasts is said again after this long."""
PUT_BACK = "put back"
"""What is told at a copy that was changed. It may be a source, too: what it tells as one must not replace this."""
_SHOWN = {PUT_BACK: "Updated"}
"""The reason that people see, where it is not the topic's own."""
_NORMAL = NORMAL | {PUT_BACK}
_MOST_MESSAGE = 1000
NAMESPACES = "samara.dev/namespaces"
"""The namespaces that an Event is about, as a JSON list: all of them, or the first ones if there are more."""
NAMESPACE_COUNT = "samara.dev/namespace-count"
KEY = "samara.dev/key"
"""The source as `samara status` prints it. Several are separated by commas."""
MOST_NAMES = 100


@dataclass(slots=True)
class _Topic:
    """What is to be said about one object for one reason."""

    about: Ref
    uid: str
    reason: str
    keys: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    message: str = ""
    advice: str = ""
    count: int = 0
    first: str = ""
    said_at: float = float("-inf")
    said: str = ""
    dirty: bool = False
    sent: bool = False
    """True once the Event is ours to count; one that was there before has counted already."""

    @property
    def shown(self) -> str:
        return _SHOWN.get(self.reason, self.reason)


class Teller:
    """Collects what happened and says it, a little later and merged."""

    def __init__(self, client: Client, clock: Callable[[], float], *, silent: bool = False) -> None:
        self._silent = silent
        self._client = client
        self._clock = clock
        self._topics: dict[tuple[Ref, str], _Topic] = {}

    def note(
        self,
        about: Object | Ref,
        reason: str,
        keys: Collection[Key],
        namespaces: set[str],
        message: str,
        advice: str = "",
    ) -> None:
        """Takes a piece of news; the same news is not said again before its time."""
        ref, uid = (about.ref, about.uid) if isinstance(about, Object) else (about, self._uid(about))
        topic = self._topics.get((ref, reason))
        if topic is None or (uid and topic.uid not in ("", uid)):  # another one of the same name has its own Event
            topic = self._topics[ref, reason] = _Topic(ref, uid, reason)
        told = {str(key) for key in keys}
        if reason in _NORMAL:
            topic.keys |= told
            topic.namespaces |= namespaces
        else:
            topic.keys, topic.namespaces = told, namespaces
        topic.uid, topic.message, topic.advice = uid or topic.uid, message, advice
        due = self._clock() - topic.said_at >= AGAIN
        if reason in _NORMAL or due or _text(topic) != topic.said:
            topic.dirty = True

    def _uid(self, about: Ref) -> str:
        """Of what is not held any more, as we have last spoken of it: people find an Event by it."""
        earlier = (self._topics.get((about, reason)) for reason in sorted(_NORMAL))
        return next((topic.uid for topic in earlier if topic is not None), "")

    def over(self, about: Object | Ref, reason: str) -> None:
        """What does not last any more is news when it comes again."""
        topic = self._topics.get((about.ref if isinstance(about, Object) else about, reason))
        if topic is not None:
            topic.said = ""

    def due(self) -> list[tuple[Ref, str]]:
        """The objects and reasons of which it is time to speak again, where it lasts."""
        now = self._clock()
        return [place for place, topic in self._topics.items() if now - topic.said_at >= AGAIN]

    async def flush(self) -> None:
        for place, topic in list(self._topics.items()):
            if topic.dirty:
                topic.dirty = False
                await self._say(topic)
            elif self._clock() - topic.said_at > 2 * AGAIN:
                self._topics.pop(place, None)  # two may flush at once, at the end

    async def _say(self, topic: _Topic) -> None:
        text, annotations = _text(topic), _annotations(topic)
        topic.count += max(1, len(topic.namespaces)) if topic.reason in _NORMAL else 1
        topic.said, topic.said_at = text, self._clock()
        if topic.reason in _NORMAL:
            topic.keys, topic.namespaces = set(), set()
        report = log.info if topic.reason in _NORMAL else log.warning
        report(f"told.{topic.shown}", about=topic.about, message=text)
        if self._silent:
            return
        try:
            await self._send(topic, text[:_MOST_MESSAGE], annotations)
        except SamaraError as fault:  # an Event is a courtesy: losing one must not stop the work
            log.debug("event.lost", about=topic.about, reason=topic.reason, fault=fault)

    async def _send(self, topic: _Topic, text: str, annotations: dict[str, str]) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        topic.first = topic.first or now
        namespace = topic.about.namespace or "default"
        path = f"/api/v1/namespaces/{namespace}/events"
        name = _name(topic)
        try:
            event = _event(topic, name, namespace, text, annotations, now)
            await self._client.request("POST", path, encode(event), params=AS_US)
        except AlreadyExists:
            told = {"metadata": {"annotations": annotations}, "message": text, "lastTimestamp": now}
            await self._say_again(topic, f"{path}/{name}", told)
        topic.sent = True

    async def _say_again(self, topic: _Topic, path: str, told: dict[str, Any]) -> None:
        """What was counted before this process began, or before it forgot, goes on to count."""
        try:
            if topic.sent:
                await self._patch(path, {**told, "count": topic.count})
            else:
                topic.count += int((await self._patch(path, told)).get("count") or 0)
                await self._patch(path, {"count": topic.count})
        except NotFound:
            topic.dirty = True

    async def _patch(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        raw = await self._client.request("PATCH", path, encode(patch), params=AS_US, content_type=MERGE_PATCH)
        answer: dict[str, Any] = decode(raw)
        return answer


def _text(topic: _Topic) -> str:
    many = len(topic.namespaces)
    where = f" in {many} namespace{'s' if many > 1 else ''}: {sample(topic.namespaces)}" if many else ""
    advice = f"; {topic.advice}" if topic.advice else ""
    return f"{topic.message}{where}{advice}"


def _annotations(topic: _Topic) -> dict[str, str]:
    """What programs read, so that none has to take the message apart."""
    return {
        NAMESPACES: json.dumps(sorted(topic.namespaces)[:MOST_NAMES]),
        NAMESPACE_COUNT: str(len(topic.namespaces)),
        KEY: ",".join(sorted(topic.keys)[:MOST_NAMES]),
    }


def _name(topic: _Topic) -> str:
    digest = hashlib.sha256(f"{topic.about.kind}{topic.uid}{topic.reason}".encode()).hexdigest()[:12]
    return f"{topic.about.name[:220].rstrip('-.')}.{digest}"


def _event(
    topic: _Topic, name: str, namespace: str, text: str, annotations: dict[str, str], now: str
) -> dict[str, Any]:
    kind = topic.about.kind
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "involvedObject": {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "name": topic.about.name,
            **({"namespace": topic.about.namespace} if topic.about.namespace else {}),
            **({"uid": topic.uid} if topic.uid else {}),
        },
        "reason": topic.shown,
        "message": text,
        "type": "Normal" if topic.reason in _NORMAL else "Warning",
        "count": topic.count,
        "firstTimestamp": topic.first,
        "lastTimestamp": now,
        "reportingComponent": "samara",
        "source": {"component": "samara"},
    }
