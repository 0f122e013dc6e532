"""What the objects of an installation have in common."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from samara import __version__
from samara.admission.configuration import Endpoint
from samara.core.travel import APP
from samara.settings import Settings

NAME = "samara"
LABELS = {APP: NAME}
POD = {**LABELS, "app.kubernetes.io/component": "operator"}
IMAGE = f"samara:{__version__}"
HTTP, WEBHOOK = 8080, 9443
FILE = "config.yaml"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Installation:
    """What an administrator decides."""

    settings: Settings
    config: str
    """The settings as they were written: the operator reads this text."""
    namespace: str
    image: str = IMAGE
    observe: bool = False
    webhook_url: str | None = None
    cert_manager: bool = False
    monitoring: bool = False

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.namespace, self.webhook_url)

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.config.encode()).hexdigest()

    def object(self, api_version: str, kind: str, name: str = NAME, **rest: Any) -> Json:
        """An object in the operator's namespace."""
        meta = {"name": name, "namespace": self.namespace, "labels": LABELS}
        return {"apiVersion": api_version, "kind": kind, "metadata": meta, **rest}


def cluster_wide(api_version: str, kind: str, name: str = NAME, **rest: Any) -> Json:
    """An object without a namespace."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": LABELS}, **rest}
