"""Is the process well, ready, in sync? Each answer says in JSON which part is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from samara.core.model import Kind
from samara.kube.reflector import Reflector


class Progress(Protocol):
    """Something that must go on: a lease, by its own clock."""

    def stalled(self) -> str | None:
        """What has made no progress for its allowed time, in words."""

    def refused(self) -> str | None:
        """Why it cannot be had although it is reached, in words."""


class Synced(Protocol):
    @property
    def synced(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Health:
    """Judged when asked."""

    reflectors: tuple[Reflector, ...]
    engine: Synced
    parts: tuple[Progress, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    """What is not served besides the watches' kinds, and why; the rest is."""
    unanswered: Callable[[], str | None] = lambda: None
    """Why the webhook server does not answer, where there is one and it does not."""
    obstacle: Callable[[], str | None] = lambda: None
    """Why nothing can be written, where that is so: a restart would not help, and others can still be heard."""
    converted: frozenset[Kind] = frozenset()
    """Kinds behind our own conversion: the server may need us ready before it can list them."""

    def live(self) -> tuple[bool, dict[str, Any]]:
        """False where a watch or the lease has made no progress for its allowed time."""
        now = asyncio.get_running_loop().time()
        faults = [fault for part in self.parts if (fault := part.stalled()) is not None]
        for reflector in self.reflectors:
            quiet = now - reflector.last_heard
            if not reflector.not_served and quiet > 2 * reflector.timings.silence:
                faults.append(f"the watch of {reflector.kind} has been quiet for {quiet:.0f} s")
        return not faults, {"ok": not faults, "faults": faults}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """True where every kind that can be listed has been listed, and the webhook server answers."""
        reasons = {str(reflector.kind): reflector.not_ready_reason for reflector in self.reflectors}
        waiting = {kind: reason for kind, reason in reasons.items() if reason is not None}
        waiting.update(self.waiting)
        served = [reflector for reflector in self.reflectors if not reflector.not_served]
        counted = [reflector for reflector in served if reflector.kind not in self.converted]
        unlisted = [reflector for reflector in counted if reflector.not_ready_reason is not None]
        webhook, obstacle = self.unanswered(), self.obstacle()
        if webhook is not None:
            waiting["webhook"] = webhook
        if obstacle is not None:
            waiting["writes"] = obstacle
        for refused in filter(None, (part.refused() for part in self.parts)):
            waiting["lease"] = refused  # nobody leads, or not for long; what is known can be asked for all the same
        ready = not unlisted and webhook is None
        return ready, {"ok": ready, "waiting": waiting}

    def synced(self) -> tuple[bool, dict[str, Any]]:
        """True where, besides, the queue has been empty once since."""
        ready, told = self.ready()
        synced = ready and self.engine.synced
        return synced, {**told, "ok": synced, "synced": self.engine.synced}
