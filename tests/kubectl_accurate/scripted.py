"""A server of namespaces and SubNamespaces in memory, with an operator, on which any request can fail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from samara.kube.client import JSON
from samara.kube.errors import Conflict, Forbidden, NotFound, SamaraError, Unreachable
from samara.vocabularies.accurate.labels import PARENT

Json = dict[str, Any]
Way = Literal["refused", "lost", "answer lost", "late"]
"""The fault of a request: refused, lost, executed without an answer, or executed after the command has ended."""
REVIEWS = "selfsubjectaccessreviews"


def refused() -> SamaraError:
    return Forbidden(403, "Forbidden", "somebody says no")


@dataclass(slots=True)
class Scripted:
    spaces: dict[str, Json] = field(default_factory=dict)
    subs: dict[tuple[str, str], Json] = field(default_factory=dict)
    fault_at: int | None = None
    way: Way = "refused"
    also_down: bool = False
    """True if no request after the fault is answered."""
    is_slow: bool = False
    """True if the operator works only after the command has ended."""
    sent: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Namespaces that the operator has deleted or recreated."""
    late: list[tuple[str, str, bytes | None]] = field(default_factory=list)
    _numbers: int = 100

    def space(self, name: str, **labels: str) -> None:
        labels_by_key = {f"accurate.cybozu.com/{key}": value for key, value in labels.items()}
        self.spaces[name] = {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels_by_key, **self._version()}
        }

    def sub(self, namespace: str, name: str, **spec: Json) -> None:
        meta = {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}"}
        self.subs[namespace, name] = {"metadata": meta, "spec": spec}

    def parent(self, name: str) -> str | None:
        parent: str | None = self.spaces[name]["metadata"]["labels"].get(PARENT)
        return parent

    def _version(self) -> Json:
        self._numbers += 1
        return {"resourceVersion": str(self._numbers)}

    # requests of the plugin

    async def get(self, path: str, params: Mapping[str, str] | None = None, accept: str = "") -> bytes:
        return self._taken("GET", path, None, dry=False)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> bytes:
        return self._taken(method, path, body, dry="dryRun" in (params or {}))

    def _taken(self, method: str, path: str, body: bytes | None, dry: bool) -> bytes:
        number = len(self.sent)
        self.sent.append(f"{method}{' (dry)' if dry else ''} {path.removeprefix('/api/v1').removeprefix('/apis/')}")
        if self.also_down and self.fault_at is not None and number > self.fault_at:
            raise Unreachable("nothing answers")
        if number != self.fault_at:
            return self._done(method, path, body, dry)
        if self.way == "refused":
            raise refused()
        if self.way == "answer lost":
            self._done(method, path, body, dry)
        if self.way == "late" and method != "GET" and not dry:
            self.late.append((method, path, body))
        raise Unreachable("no answer")

    def end(self) -> None:
        """Delivers delayed requests, and lets the operator finish its work."""
        for request in self.late:
            try:
                self._done(*request, dry=False)
            except SamaraError:
                continue  # a precondition no longer holds
        self.is_slow = False
        self._operate()

    # the server

    def _done(self, method: str, path: str, body: bytes | None, dry: bool) -> bytes:
        if path.endswith(REVIEWS):
            return b'{"status": {"allowed": true}}'
        segments = path.split("/")
        sent = json.loads(body) if body else {}
        if "subnamespaces" not in segments:
            answer = self._space(method, segments[-1], sent, dry)
        else:
            namespace = segments[segments.index("namespaces") + 1]
            answer = self._sub(method, namespace, sent if method == "POST" else {**sent, "name": segments[-1]})
        if not self.is_slow:
            self._operate()
        return json.dumps(answer).encode()

    def _space(self, method: str, name: str, sent: Json, dry: bool) -> Json:
        if name not in self.spaces:
            raise NotFound(404, "NotFound", f'namespaces "{name}" not found')
        metadata = self.spaces[name]["metadata"]
        if method == "PATCH":
            if sent["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
                raise Conflict(409, "Conflict", "changed")
            if not dry:
                labels = {**metadata["labels"], **sent["metadata"]["labels"]}
                metadata["labels"] = {key: value for key, value in labels.items() if value is not None}
                metadata |= self._version()
        return self.spaces[name]

    def _sub(self, method: str, namespace: str, sent: Json) -> Json:
        if method == "POST":
            name = sent["metadata"]["name"]
            self.sub(namespace, name, **sent.get("spec", {}))
            return self.subs[namespace, name]
        where = (namespace, sent["name"])
        if where not in self.subs:
            raise NotFound(404, "NotFound", f'subnamespaces "{where[1]}" not found')
        sub = self.subs[where]
        if method == "DELETE":
            assert sent["preconditions"]["uid"] == sub["metadata"]["uid"]
            sub["metadata"]["deletionTimestamp"] = "now"
        return sub

    # the operator

    def _operate(self) -> None:
        """The work of the operator after every request: it finishes deletions and creates missing objects."""
        for (namespace, name), sub in list(self.subs.items()):
            if "deletionTimestamp" in sub["metadata"]:
                del self.subs[namespace, name]
                if name in self.spaces and self.parent(name) == namespace:
                    self.lost.append(name)
            elif name not in self.spaces:
                self.lost.append(name)
