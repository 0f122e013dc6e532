"""Kubernetes Events: one per source and reason, merged, with a count and a sample of namespaces."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from samara import log
from samara.core.match import sample
from samara.core.model import Object, Ref
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


@dataclass(slots=True)
class _Topic:
    """What is to be said about one object for one reason."""

    about: Ref
    uid: str
    reason: str
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

    def note(self, about: Object | Ref, reason: str, namespaces: set[str], message: str, advice: str = "") -> None:
        """Takes a piece of news; the same news is not said again before its time."""
        ref, uid = (about.ref, about.uid) if isinstance(about, Object) else (about, self._uid(about))
        topic = self._topics.get((ref, reason))
        if topic is None or (uid and topic.uid not in ("", uid)):  # another one of the same name has its own Event
            topic = self._topics[ref, reason] = _Topic(ref, uid, reason)
        if reason in _NORMAL:
            topic.namespaces |= namespaces
        else:
            topic.namespaces = namespaces
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
        text = _text(topic)
        topic.count += max(1, len(topic.namespaces)) if topic.reason in _NORMAL else 1
        topic.said, topic.said_at = text, self._clock()
        if topic.reason in _NORMAL:
            topic.namespaces = set()
        report = log.info if topic.reason in _NORMAL else log.warning
        report(f"told.{topic.shown}", about=topic.about, message=text)
        if self._silent:
            return
        try:
            await self._send(topic, text[:_MOST_MESSAGE])
        except SamaraError as fault:  # an Event is a courtesy: losing one must not stop the work
            log.debug("event.lost", about=topic.about, reason=topic.reason, fault=fault)

    async def _send(self, topic: _Topic, text: str) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        topic.first = topic.first or now
        namespace = topic.about.namespace or "default"
        path = f"/api/v1/namespaces/{namespace}/events"
        name = _name(topic)
        try:
            await self._client.request("POST", path, encode(_event(topic, name, namespace, text, now)), params=AS_US)
        except AlreadyExists:
            await self._say_again(topic, f"{path}/{name}", text, now)
        topic.sent = True

    async def _say_again(self, topic: _Topic, path: str, text: str, now: str) -> None:
        """What was counted before this process began, or before it forgot, goes on to count."""
        told = {"message": text, "lastTimestamp": now}
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


def _name(topic: _Topic) -> str:
    digest = hashlib.sha256(f"{topic.about.kind}{topic.uid}{topic.reason}".encode()).hexdigest()[:12]
    return f"{topic.about.name[:220].rstrip('-.')}.{digest}"


def _event(topic: _Topic, name: str, namespace: str, text: str, now: str) -> dict[str, Any]:
    kind = topic.about.kind
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
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
