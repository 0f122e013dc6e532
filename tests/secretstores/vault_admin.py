"""Prepares a Vault through its HTTP interface, in the same way for every server."""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aiohttp import ClientSession, TCPConnector

from samara.secretstores.vault import Vault, open_vault

ADDRESS, TOKEN = "SAMARA_TEST_VAULT_ADDR", "SAMARA_TEST_VAULT_TOKEN"


@dataclass(frozen=True)
class Admin:
    base: str
    token: str
    session: ClientSession
    stores: list[Vault] = field(default_factory=list)

    async def call(self, method: str, path: str, body: object = None, token: str | None = None) -> tuple[int, Any]:
        headers = {"X-Vault-Token": self.token if token is None else token}
        sent = io.BytesIO(json.dumps(body).encode()) if body is not None else None
        async with self.session.request(method, f"{self.base}/v1/{path}", data=sent, headers=headers) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if text else None

    async def do(self, method: str, path: str, body: object = None) -> Any:
        status, answer = await self.call(method, path, body)
        assert status < 300, f"{method} {path}: {status}"
        return answer

    async def mount(self, version: str) -> str:
        """Creates a mount for one test, so that a real server can be reused."""
        mount = f"samara-{uuid.uuid4().hex[:8]}"
        await self.do("POST", f"sys/mounts/{mount}", {"type": "kv", "options": {"version": version}})
        return mount

    async def write(self, mount: str, version: str, path: str, data: object) -> None:
        at, body = (f"{mount}/data/{path}", {"data": data}) if version == "2" else (f"{mount}/{path}", data)
        await self.do("POST", at, body)

    async def policy(self, *paths: str) -> str:
        name = f"samara-{uuid.uuid4().hex[:8]}"
        rules = {"path": {path: {"capabilities": ["read"]} for path in paths}}
        await self.do("PUT", f"sys/policies/acl/{name}", {"policy": json.dumps(rules)})
        return name

    async def make_token(self, policy: str, **more: Any) -> str:
        made = await self.do("POST", "auth/token/create", {"policies": [policy], "ttl": "600s", **more})
        return str(made["auth"]["client_token"])

    async def approle(self, policy: str, **more: Any) -> tuple[str, dict[str, bytes]]:
        """The path of a role, and the configuration that logs in with it."""
        mount = f"samara-{uuid.uuid4().hex[:8]}"
        await self.do("POST", f"sys/auth/{mount}", {"type": "approle"})
        role = f"auth/{mount}/role/reader"
        await self.do("POST", role, {"token_policies": [policy], "token_ttl": "600s", **more})
        role_id = (await self.do("GET", f"{role}/role-id"))["data"]["role_id"]
        secret_id = (await self.do("POST", f"{role}/secret-id", {}))["data"]["secret_id"]
        return role, {"role-id": role_id.encode(), "secret-id": secret_id.encode(), "auth-mount": mount.encode()}

    def opened(self, mount: str, config: dict[str, bytes], version: str = "2", **more: Any) -> Vault:
        """Our own store on this server; it is closed after the test."""
        self.stores.append(open_vault(urlsplit(f"vault+{self.base}/{mount}?kv={version}"), config, **more))
        return self.stores[-1]


@asynccontextmanager
async def administering(base: str, token: str) -> AsyncIterator[Admin]:
    # A new connection for each request: RustyVault closes idle ones, and a POST on such a connection fails.
    async with ClientSession(connector=TCPConnector(force_close=True)) as session:
        admin = Admin(base, token, session)
        try:
            yield admin
        finally:
            for store in admin.stores:
                await store.close()


async def value(store: Vault, path: str) -> bytes:
    location = store.locate(path)
    return (await store.read(location.document)).value(location.field)


def real() -> tuple[str, str] | None:
    """Address and token of a Vault or OpenBao that the environment provides for the tests."""
    address, token = os.environ.get(ADDRESS), os.environ.get(TOKEN)
    return (address.rstrip("/"), token) if address and token else None
