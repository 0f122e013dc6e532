"""Sends Kubernetes Events: one per object and reason, aggregated, with a count and a sample of namespaces."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from samara import log
from samara.core.model import Key, Object, Ref
from samara.core.names import sample
from samara.kube.client import MERGE_PATCH, OUR_WRITES, Client
from samara.kube.codec import decode, encode
from samara.kube.errors import AlreadyExists, NotFound, SamaraError


class EventReason(NamedTuple):
    type: Literal["Normal", "Warning"]
    meaning: str
    """Shown in the reference of Events."""


EVENT_REASONS = {
    "Copied": EventReason("Normal", "copies were created"),
    "Updated": EventReason("Normal", "copies were updated, or deleted and created again"),
    "Removed": EventReason("Normal", "copies were deleted, or kept without Samara's marks"),
    "Conflict": EventReason("Warning", "an object of that name exists, or another source comes first"),
    "Refused": EventReason(
        "Warning",
        "a kind, a Secret type or a namespace is not allowed; a namespace cannot be created or deleted at present; "
        "the API server refused a write, or failed at it three times in a row",
    ),
    "NotAccepted": EventReason(
        "Warning",
        "the target namespace does not accept copies from the source's namespace; only for sources that tenants write",
    ),
    "Invalid": EventReason(
        "Warning",
        "a name or a value on the source is not valid; a label or an annotation has no effect: its key is misspelt, or "
        "it is on the wrong kind, in the wrong namespace, a label in place of an annotation, or on a copy; a listed "
        "namespace has not existed for a minute",
    ),
    "Held": EventReason("Warning", "deletions are held, or the source or a namespace is paused"),
    "Fought": EventReason(
        "Warning",
        "another client keeps changing copies, or labels and annotations that a Namespace inherits; they are restored "
        "less often",
    ),
}
"""The reasons that all vocabularies share. Each vocabulary declares its own ones, which are all of type Warning."""
REPEAT_AFTER = 1800.0
"""Seconds after which the Event of a lasting problem is sent again."""
REVERTED = "put back"
"""The internal reason of a copy that was reverted, sent as `Updated`. The copy may also be a source with an Event
`Updated` of its own, and there is one Event per object and reason."""
_NORMAL = {REVERTED, *(reason for reason, about in EVENT_REASONS.items() if about.type == "Normal")}
"""Reasons that report what has happened. The others report problems that may last."""
_MAX_MESSAGE = 1000
NAMESPACES = "samara.dev/namespaces"
"""The namespaces that an Event is about, as a JSON list of at most `MAX_NAMES`."""
NAMESPACE_COUNT = "samara.dev/namespace-count"
KEY = "samara.dev/key"
"""The source as `samara status` prints it. Several are separated by commas."""
MAX_NAMES = 100


class Namespaces(NamedTuple):
    """The namespaces that an Event is about: those that it names, and those that it only counts."""

    named: AbstractSet[str] = frozenset()
    hidden: AbstractSet[str] = frozenset()


NOWHERE = Namespaces()


@dataclass(slots=True)
class _Topic:
    """The Event of one object and reason: its next content, and the content last sent."""

    about: Ref
    uid: str
    reason: str
    keys: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    """The namespaces that the Event names, and those that it only counts."""
    hidden: set[str] = field(default_factory=set)
    message: str = ""
    advice: str = ""
    count: int = 0
    first_timestamp: str = ""
    sent_at: float = float("-inf")
    sent_text: str = ""
    dirty: bool = False
    """True if the content has to be sent with the next flush."""
    is_counted: bool = False
    """True once `count` includes what the Event had counted before this process wrote it."""

    @property
    def namespace_count(self) -> int:
        return len(self.named | self.hidden) if self.hidden else len(self.named)

    @property
    def sent_reason(self) -> str:
        return "Updated" if self.reason == REVERTED else self.reason


class EventSink:
    """Owns the content of all Events. The recorder adds to it and flushes it.

    It sends an Event when it is flushed, or only logs it if `silent`. It never retries a lost Event.
    """

    def __init__(self, client: Client, clock: Callable[[], float], *, silent: bool = False) -> None:
        self._silent = silent
        self._client = client
        self._clock = clock
        self._topics: dict[tuple[Ref, str], _Topic] = {}

    def add(
        self,
        about: Object | Ref,
        reason: str,
        keys: Collection[Key],
        where: Namespaces,
        message: str,
        advice: str = "",
    ) -> None:
        """Adds to the Event of an object and reason. An unchanged warning is not sent again before its time."""
        ref, uid = (about.ref, about.uid) if isinstance(about, Object) else (about, self._uid(about))
        topic = self._topics.get((ref, reason))
        if topic is None or (uid and topic.uid not in ("", uid)):  # a new object of that name has an Event of its own
            topic = self._topics[ref, reason] = _Topic(ref, uid, reason)
        sources = {str(key) for key in keys}
        if reason in _NORMAL:
            topic.keys |= sources
            topic.named |= where.named
            topic.hidden |= where.hidden
        else:
            topic.keys, topic.named, topic.hidden = sources, set(where.named), set(where.hidden)
        topic.uid, topic.message, topic.advice = uid or topic.uid, message, advice
        due = self._clock() - topic.sent_at >= REPEAT_AFTER
        if reason in _NORMAL or due or _text(topic) != topic.sent_text:
            topic.dirty = True

    def _uid(self, about: Ref) -> str:
        """The uid of an object that is gone, from its last Event. `kubectl describe` finds Events by uid."""
        earlier = (self._topics.get((about, reason)) for reason in sorted(_NORMAL))
        return next((topic.uid for topic in earlier if topic is not None), "")

    def clear(self, about: Object | Ref, reason: str) -> None:
        """Ends a lasting problem. If it comes back, its Event is sent at once."""
        topic = self._topics.get((about.ref if isinstance(about, Object) else about, reason))
        if topic is not None:
            topic.sent_text = ""

    def due(self) -> list[tuple[Ref, str]]:
        """The objects and reasons whose Event is sent again now if the problem still lasts."""
        now = self._clock()
        return [address for address, topic in self._topics.items() if now - topic.sent_at >= REPEAT_AFTER]

    async def flush(self) -> None:
        """Sends every Event that has changed, and forgets those that have not been sent for long."""
        for address, topic in list(self._topics.items()):
            if topic.dirty:
                topic.dirty = False
                await self._send_topic(topic)
            elif self._clock() - topic.sent_at > 2 * REPEAT_AFTER:
                self._topics.pop(address, None)  # another flush may run at shutdown

    async def _send_topic(self, topic: _Topic) -> None:
        text, annotations = _text(topic), _annotations(topic)
        topic.count += max(1, topic.namespace_count) if topic.reason in _NORMAL else 1
        topic.sent_text, topic.sent_at = text, self._clock()
        if topic.reason in _NORMAL:
            topic.keys, topic.named, topic.hidden = set(), set(), set()
        report = log.info if topic.reason in _NORMAL else log.warning
        report(f"told.{topic.sent_reason}", about=topic.about, message=text)
        if self._silent:
            return
        try:
            await self._send(topic, text[:_MAX_MESSAGE], annotations)
        except SamaraError as fault:  # a lost Event must not stop the work
            log.debug("event.lost", about=topic.about, reason=topic.reason, fault=fault)

    async def _send(self, topic: _Topic, text: str, annotations: dict[str, str]) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        topic.first_timestamp = topic.first_timestamp or now
        namespace = topic.about.namespace or "default"
        path = f"/api/v1/namespaces/{namespace}/events"
        name = _name(topic)
        try:
            event = _event(topic, name, namespace, text, annotations, now)
            await self._client.request("POST", path, encode(event), params=OUR_WRITES)
        except AlreadyExists:
            patch = {"metadata": {"annotations": annotations}, "message": text, "lastTimestamp": now}
            await self._update(topic, f"{path}/{name}", patch)
        topic.is_counted = True

    async def _update(self, topic: _Topic, path: str, patch: dict[str, Any]) -> None:
        """Updates the Event, and adds to the count that an earlier process left in it."""
        try:
            if topic.is_counted:
                await self._patch(path, {**patch, "count": topic.count})
            else:
                topic.count += int((await self._patch(path, patch)).get("count") or 0)
                await self._patch(path, {"count": topic.count})
        except NotFound:
            topic.dirty = True

    async def _patch(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        raw = await self._client.request("PATCH", path, encode(patch), params=OUR_WRITES, content_type=MERGE_PATCH)
        answer: dict[str, Any] = decode(raw)
        return answer


def _text(topic: _Topic) -> str:
    count = topic.namespace_count
    names = f": {sample(topic.named, hidden=count - len(topic.named))}" if topic.named else ""
    where = f" in {count} namespace{'s' if count > 1 else ''}{names}" if count else ""
    advice = f"; {topic.advice}" if topic.advice else ""
    return f"{topic.message}{where}{advice}"


def _annotations(topic: _Topic) -> dict[str, str]:
    """Annotations for programs, so that none has to parse the message."""
    return {
        NAMESPACES: json.dumps(sorted(topic.named)[:MAX_NAMES]),
        NAMESPACE_COUNT: str(topic.namespace_count),
        KEY: ",".join(sorted(topic.keys)[:MAX_NAMES]),
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
        "reason": topic.sent_reason,
        "message": text,
        "type": "Normal" if topic.reason in _NORMAL else "Warning",
        "count": topic.count,
        "firstTimestamp": topic.first_timestamp,
        "lastTimestamp": now,
        "reportingComponent": "samara",
        "source": {"component": "samara"},
    }
