"""`kube://<namespace>`: the Secrets of one namespace of this cluster; a path is `name/key`."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import SplitResult

from samara.backends.base import Denied, Fields, ReadSecret, Spot, Unfit, taken_apart, wrong_url
from samara.core.kinds import NEVER_COPIED_TYPES
from samara.core.match import is_namespace_name, shown
from samara.vocabularies import CERTIFICATE

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


@dataclass(frozen=True, slots=True)
class KubeSecrets:
    """Reads through the operator's own client, with the rights that its role gives it in that namespace."""

    namespace: str
    read_secret: ReadSecret
    refused: frozenset[str]
    """Names that are never read: the operator's own."""
    scheme: str = "kube"

    def spot(self, path: str) -> Spot:
        document, field = taken_apart(path)
        name, slash, key = document.partition("/")
        if field or not slash or not _NAME.fullmatch(name) or not _KEY.fullmatch(key):
            raise Unfit(
                f"expected name/key, a Secret of namespace {self.namespace} and a key of it, found {shown(path)}"
            )
        return Spot(name, key)

    async def read(self, document: str) -> Fields:
        if document in self.refused:
            raise Denied(f"Secret {document} of namespace {self.namespace} is the operator's own and is never read")
        secret = await self.read_secret(self.namespace, document)
        if secret.type in NEVER_COPIED_TYPES:
            raise Denied(f"Secret {document} is of type {secret.type}, which is never copied")
        return Fields(secret.data)

    async def close(self) -> None:
        """Nothing is held: the client is the operator's."""


def open_kube(url: SplitResult, read_secret: ReadSecret, own: Collection[tuple[str, str]] = ()) -> KubeSecrets:
    """`own`: namespace and name of the operator's own Secrets, the one with the configuration first of all."""
    namespace = url.netloc
    if not is_namespace_name(namespace) or url.path.strip("/") or url.query or url.fragment:
        raise wrong_url("expected kube://<namespace> and nothing more")
    refused = {name for place, name in own if place == namespace}
    return KubeSecrets(namespace, read_secret, frozenset({CERTIFICATE, *refused}))
