"""`vault+https://host:port/<mount>`: HashiCorp Vault and OpenBao, KV versions 2 and 1; a path is `path#field`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, quote

import msgspec

from samara.backends.base import (
    Absent,
    ConfigFault,
    Denied,
    Document,
    Spot,
    Unauthenticated,
    Unfit,
    is_loopback,
    taken_apart,
    text_of,
    wrong_url,
)
from samara.backends.http import Answer, Wire, trusting
from samara.backends.json_fields import JsonFields
from samara.backends.vault_login import UNREADABLE, AppRole, Given, Kubernetes, Login, Session, Sleep, busy
from samara.core.match import shown
from samara.core.paths import MARK, fault_of

POD_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
PORT = 8200

Version = Literal["1", "2"]


@dataclass(frozen=True, slots=True)
class Vault:
    mount: str
    version: Version
    wire: Wire
    session: Session
    scheme: str = "vault"

    def spot(self, path: str) -> Spot:
        spot = taken_apart(path)
        if not spot.field:
            raise Unfit(f"expected path#field, found {shown(path)}: name the field after a #")
        return spot

    async def read(self, document: str) -> Document:
        middle = "/data" if self.version == "2" else ""
        answer = await self.session.get(f"/v1/{_quoted(self.mount)}{middle}/{_quoted(document)}")
        busy(answer, self.wire)
        if answer.status == HTTPStatus.OK:
            return self._found(answer, document)
        raise self._refused(answer.status) if answer.status != HTTPStatus.NOT_FOUND else self._missing(answer)

    async def close(self) -> None:
        await self.session.close()

    def _found(self, answer: Answer, document: str) -> Document:
        try:
            if self.version == "1":
                return JsonFields(msgspec.json.decode(answer.body, type=_Entry1).data)
            data = msgspec.json.decode(answer.body, type=_Entry2).data.data
        except UNREADABLE:
            fault = f"{shown(document)} is no entry of KV version {self.version}; check the mount and ?kv= in the url"
            raise Unfit(fault) from None
        if data is None:
            raise Absent("the newest version is deleted")
        return JsonFields(data)

    def _missing(self, answer: Answer) -> Absent | Unfit:
        """Only a plain not-found is one: a wrong mount, or a wrong version of KV, says nothing of a value."""
        try:
            said = msgspec.json.decode(answer.body, type=_Missing) if answer.body else _Missing(errors=[])
        except UNREADABLE:
            said = _Missing()
        deleted = said.data is not None and not said.data.data and said.data.metadata is not None
        if deleted or (said.errors == [] and not said.warnings):
            return Absent("there is no such entry, or its newest version is deleted")
        return Unfit(
            f"nothing answers at the mount {self.mount} as KV version {self.version} (404); "
            "check the mount in the url, and ?kv=1 for version 1"
        )

    def _refused(self, status: int) -> Denied | Unauthenticated | Unfit:
        if status == HTTPStatus.FORBIDDEN:
            return Denied("the token's policies do not let it read this path; extend them, or correct the path")
        if status == HTTPStatus.UNAUTHORIZED:
            return Unauthenticated("the credentials were refused (401); something in front of Vault wants others")
        return Unfit(f"Vault refuses to read this path ({status})")


def open_vault(
    url: SplitResult, config: Mapping[str, bytes], pod_token: Path = POD_TOKEN, sleep: Sleep = asyncio.sleep
) -> Vault:
    """Asks nobody yet: the first read logs in."""
    mount = url.path.strip("/")
    if not url.hostname or fault_of(mount) or MARK in mount:
        raise wrong_url("expected vault+https://host:8200/<mount>, found no host or mount")
    login, version, namespace = _login(config, pod_token), _version(url.query), text_of(config, "namespace")
    headers = {"X-Vault-Request": "true"} | ({"X-Vault-Namespace": namespace} if namespace else {})
    base, tls = _base(url), None if _is_plain(url) else trusting(config.get("ca.crt", b""))
    wire = Wire(base, tls, headers)
    return Vault(mount, version, wire, Session(wire, login, sleep))


def _is_plain(url: SplitResult) -> bool:
    return url.scheme == "vault+http"


def _base(url: SplitResult) -> str:
    host = url.hostname or ""
    if _is_plain(url) and not is_loopback(host):
        raise wrong_url("vault+http is for this machine only, found another host; use vault+https")
    name = f"[{host}]" if ":" in host else host
    return f"{'http' if _is_plain(url) else 'https'}://{name}:{url.port or PORT}"


def _version(query: str) -> Version:
    match query:
        case "" | "kv=2":
            return "2"
        case "kv=1":
            return "1"
    raise wrong_url("expected ?kv=1, ?kv=2 or nothing after the mount")


def _login(config: Mapping[str, bytes], pod_token: Path) -> Login:
    """Which keys are there decides; more than one way, or half of one, is a mistake."""
    token, role = text_of(config, "token"), text_of(config, "role")
    role_id, secret_id = text_of(config, "role-id"), text_of(config, "secret-id")
    mount = text_of(config, "auth-mount").strip("/")
    if mount and fault_of(mount):
        raise ConfigFault("TokenError", "the configuration's key auth-mount: expected the path of an auth method")
    match bool(token), bool(role), bool(role_id), bool(secret_id):
        case True, False, False, False:
            return Given(token)
        case False, True, False, False:
            return Kubernetes(_quoted(mount or "kubernetes"), role, pod_token)
        case False, False, True, True:
            return AppRole(_quoted(mount or "approle"), role_id, secret_id)
    found = ", ".join(key for key in ("token", "role", "role-id", "secret-id") if text_of(config, key)) or "none"
    raise ConfigFault("TokenError", f"expected one of token, role, or role-id with secret-id; found {found} of them")


def _quoted(path: str) -> str:
    return "/".join(quote(segment, safe="") for segment in path.split("/"))


class _Entry1(msgspec.Struct):
    data: dict[str, msgspec.Raw]


class _Version2(msgspec.Struct):
    data: dict[str, msgspec.Raw] | None
    metadata: dict[str, object] | None = None


class _Entry2(msgspec.Struct):
    data: _Version2


class _Missing(msgspec.Struct):
    errors: list[object] | None = None
    warnings: list[object] | None = None
    data: _Version2 | None = None
