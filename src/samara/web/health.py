"""Reports whether the process is alive, ready and in sync. If it is not, the answer names the reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from samara.core.model import Kind
from samara.kube.reflector import Reflector


class Controller(Protocol):
    @property
    def synced(self) -> bool: ...

    @property
    def obstacle(self) -> str | None:
        """Why no write can succeed. None if writes can. A restart would not help, and reads still work."""


class Leader(Protocol):
    def stall_reason(self) -> str | None:
        """A description of what has made no progress for too long. None if all is well."""

    def refusal_reason(self) -> str | None:
        """Why the API server refused the lease. None if it did not."""


class WebhookServer(Protocol):
    @property
    def not_ready_reason(self) -> str | None:
        """Why the server does not answer yet. None if it does."""


@dataclass(frozen=True, slots=True)
class Health:
    """The answers of the health endpoints, computed at each request."""

    reflectors: tuple[Reflector, ...]
    controller: Controller
    leader: Leader | None
    """None if there is no leader election."""
    webhooks: WebhookServer | None
    """None if there is no webhook server."""
    unserved: Callable[[], Mapping[str, str]]
    """By kind or vocabulary: why it is not served although the settings name it. The others are served meanwhile."""
    converted: frozenset[Kind]
    """Kinds with a conversion webhook of ours. The API server may be unable to list them until we are ready."""

    def live(self) -> tuple[bool, dict[str, Any]]:
        """False if a watch or the lease has made no progress for longer than allowed."""
        now = asyncio.get_running_loop().time()
        stalled = self.leader.stall_reason() if self.leader is not None else None
        faults = [] if stalled is None else [stalled]
        for reflector in self.reflectors:
            silence = now - reflector.last_received
            if not reflector.not_served and silence > 2 * reflector.timings.silence:
                faults.append(f"the watch of {reflector.kind} has been quiet for {silence:.0f} s")
        return not faults, {"ok": not faults, "faults": faults}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """True if every kind that can be listed has been listed, and the webhook server answers."""
        reasons = {str(reflector.kind): reflector.not_ready_reason for reflector in self.reflectors}
        waiting = {kind: reason for kind, reason in reasons.items() if reason is not None}
        waiting.update(self.unserved())
        webhook = self.webhooks.not_ready_reason if self.webhooks is not None else None
        refusal = self.leader.refusal_reason() if self.leader is not None else None
        obstacles = {"webhook": webhook, "writes": self.controller.obstacle, "lease": refusal}
        waiting.update({name: reason for name, reason in obstacles.items() if reason is not None})
        ready = webhook is None and not any(map(self._is_unlisted, self.reflectors))
        return ready, {"ok": ready, "waiting": waiting}

    def _is_unlisted(self, reflector: Reflector) -> bool:
        can_be_listed = not reflector.not_served and reflector.kind not in self.converted
        return can_be_listed and reflector.not_ready_reason is not None

    def synced(self) -> tuple[bool, dict[str, Any]]:
        """True if the process is ready, and everything that was listed has been planned and written once."""
        ready, answer = self.ready()
        synced = ready and self.controller.synced
        return synced, {**answer, "ok": synced, "synced": self.controller.synced}
