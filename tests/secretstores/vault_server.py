"""A small Vault on loopback, written from its public interface: tokens, policies, logins, KV versions 1 and 2.

Its clock stands still until a test moves it, and a test can replace its answers.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ssl import SSLContext
from typing import Any, NamedTuple

from aiohttp import web

DEFAULT = {
    f"auth/token/{operation}-self": {"capabilities": [might]}
    for operation, might in (("lookup", "read"), ("renew", "update"), ("revoke", "update"))
}
NEEDED = {"GET": "read", "POST": "update", "PUT": "update", "DELETE": "delete"}


class Reply(NamedTuple):
    status: int
    body: Any = None
    headers: Mapping[str, str] = {}


class Refused(Exception):  # noqa: N818 - an answer of the server, and not an error of ours
    def __init__(self, status: int, *errors: str) -> None:
        super().__init__(status)
        self.reply = Reply(status, {"errors": list(errors)})


@dataclass
class Token:
    policies: frozenset[str]
    ttl: float
    renewable: bool
    ends: float | None
    last: float | None
    """The time at which it expires, whether renewed or not."""


@dataclass
class Version:
    data: Any
    deleted: bool = False
    destroyed: bool = False


@dataclass
class Seen:
    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class VaultServer:
    root: str = "hvs.root"
    now: float = 1000.0
    sealed: bool = False
    terse: bool = False
    """Older servers answer an invalid token only with permission denied."""
    base: str = ""
    jwts: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """The fields of a new token, by role and accepted JWT. A real server validates the JWT with its cluster."""
    instead: deque[Reply] = field(default_factory=deque)
    """Answers that replace the normal ones."""
    seen: list[Seen] = field(default_factory=list)
    tokens: dict[str, Token] = field(default_factory=dict)
    policies: dict[str, Any] = field(default_factory=lambda: {"default": DEFAULT})
    mounts: dict[str, str] = field(default_factory=dict)
    logins: dict[str, str] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    secret_ids: dict[str, str] = field(default_factory=dict)
    kv1: dict[str, Any] = field(default_factory=dict)
    kv2: dict[str, list[Version]] = field(default_factory=dict)
    numbers: Callable[[], int] = field(default_factory=lambda: itertools.count(1).__next__)

    def __post_init__(self) -> None:
        self.tokens[self.root] = Token(frozenset({"root"}), 0, False, None, None)

    def requests(self, part: str) -> list[Seen]:
        return [request for request in self.seen if part in request.path]

    async def respond(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(Seen(request.method, request.raw_path, dict(request.headers)))
        body = await request.read()
        reply = self.instead.popleft() if self.instead else self._reply(request, json.loads(body) if body else {})
        if isinstance(reply.body, bytes):
            return web.Response(status=reply.status, body=reply.body, headers=reply.headers)
        return web.json_response(reply.body, status=reply.status, headers=reply.headers)

    def _reply(self, request: web.Request, body: dict[str, Any]) -> Reply:
        try:
            if self.sealed:
                raise Refused(503, "Vault is sealed")
            path = request.path.removeprefix("/v1/")
            entered = self._enter(path, body) if path.endswith("/login") else None
            return entered or self._served(request, path, body)
        except Refused as refused:
            return refused.reply

    def _served(self, request: web.Request, path: str, body: dict[str, Any]) -> Reply:
        name = request.headers.get("X-Vault-Token", "")
        token = self._alive(name)
        if not self._may(token, NEEDED[request.method], path):
            raise Refused(403, "1 error occurred:\n\t* permission denied\n\n")
        area, _, rest = path.partition("/")
        match area:
            case "sys":
                return self._sys(rest, body)
            case "auth":
                return self._auth(rest, body, name)
        return self._kv(request.method, path, body)

    def _alive(self, name: str) -> Token:
        token = self.tokens.get(name)
        if token is None or (token.ends is not None and token.ends <= self.now):
            reply = (
                "permission denied"
                if self.terse
                else "2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"
            )
            raise Refused(403, reply)
        return token

    def _may(self, token: Token, capability: str, path: str) -> bool:
        rules = [rule for name in token.policies for rule in self.policies.get(name, {}).items()]
        return "root" in token.policies or any(
            fnmatchcase(path, pattern) and capability in rule["capabilities"] for pattern, rule in rules
        )

    def _sys(self, rest: str, body: dict[str, Any]) -> Reply:
        match rest.split("/", 1):
            case ["mounts", mount]:
                self.mounts[mount] = body.get("options", {}).get("version", "1")
            case ["auth", mount]:
                self.logins[mount] = body["type"]
            case ["policies", name]:
                self.policies[name.removeprefix("acl/")] = json.loads(body["policy"])["path"]
            case _:
                raise Refused(404, "unsupported path")
        return Reply(204)

    def _auth(self, rest: str, body: dict[str, Any], name: str) -> Reply:
        area, _, operation = rest.partition("/")
        return self._token(operation, body, name) if area == "token" else self._approle(area, operation, body)

    def _token(self, operation: str, body: dict[str, Any], name: str) -> Reply:
        match operation:
            case "create":
                return self._given(body)
            case "lookup-self":
                token = self.tokens[name]
                left = 0 if token.ends is None else int(token.ends - self.now)
                return Reply(200, {"data": {"ttl": left, "renewable": token.renewable, "type": "service"}})
            case "renew-self":
                return self._renewed(name)
            case "revoke":
                self.tokens.pop(body["token"], None)
                return Reply(204)
        raise Refused(404, "unsupported path")

    def _approle(self, mount: str, operation: str, body: dict[str, Any]) -> Reply:
        match operation.split("/"):
            case ["role", role] if self.logins.get(mount) == "approle":
                self.roles[role] = body
                return Reply(204)
            case ["role", role, "role-id"] if role in self.roles:
                return Reply(200, {"data": {"role_id": f"id-of-{role}"}})
            case ["role", role, "secret-id"] if role in self.roles:
                made = f"secret-id-{self.numbers()}"
                self.secret_ids[made] = role
                return Reply(200, {"data": {"secret_id": made}})
            case ["role", role, "secret-id", "destroy"]:
                self.secret_ids.pop(body["secret_id"], None)
                return Reply(204)
        raise Refused(404, "unsupported path")

    def _enter(self, path: str, body: dict[str, Any]) -> Reply:
        match self.logins.get(path.removeprefix("auth/").removesuffix("/login")):
            case "approle":
                role = self.secret_ids.get(body.get("secret_id", ""))
                if role is None or body.get("role_id") != f"id-of-{role}":
                    raise Refused(400, "invalid role or secret ID")
                options = {name.removeprefix("token_"): value for name, value in self.roles[role].items()}
                return self._given(options)
            case "kubernetes":
                like = self.jwts.get((body.get("role", ""), body.get("jwt", "")))
                if like is None:
                    raise Refused(403, "permission denied")
                return self._given(like)
        raise Refused(403, "permission denied")

    def _given(self, like: Mapping[str, Any]) -> Reply:
        ttl = float(str(like.get("ttl", "0")).removesuffix("s"))
        most = float(str(like.get("explicit_max_ttl", like.get("max_ttl", "0"))).removesuffix("s"))
        policies = frozenset(like.get("policies", ())) | (set() if like.get("no_default_policy") else {"default"})
        name = f"hvs.{self.numbers()}"
        ends, last = (self.now + ttl if ttl else None), (self.now + most if most else None)
        self.tokens[name] = Token(policies, ttl, bool(like.get("renewable", True)), ends, last)
        return self._lease(name)

    def _renewed(self, name: str) -> Reply:
        token = self.tokens[name]
        if not token.renewable or token.ends is None:
            raise Refused(400, "lease is not renewable")
        token.ends = min(self.now + token.ttl, token.last if token.last is not None else self.now + token.ttl)
        return self._lease(name)

    def _lease(self, name: str) -> Reply:
        token = self.tokens[name]
        left = 0 if token.ends is None else int(token.ends - self.now)
        return Reply(200, {"auth": {"client_token": name, "lease_duration": left, "renewable": token.renewable}})

    def _kv(self, method: str, path: str, body: dict[str, Any]) -> Reply:
        mount = next((name for name in self.mounts if path.startswith(f"{name}/")), None)
        if mount is None:
            raise Refused(404, f'no handler for route "{path}". route entry not found.')
        rest = path.removeprefix(f"{mount}/")
        if self.mounts[mount] == "1":
            return self._first(method, f"{mount}/{rest}", body)
        if not rest.startswith("data/"):
            warning = "Invalid path for a versioned K/V secrets engine. See the API docs for the endpoints to use."
            return Reply(404, {"data": None, "warnings": [warning]})
        return self._second(method, f"{mount}/{rest.removeprefix('data/')}", body)

    def _first(self, method: str, key: str, body: dict[str, Any]) -> Reply:
        if method == "GET":
            if key not in self.kv1:
                raise Refused(404)
            return Reply(200, {"lease_duration": 2764800, "data": self.kv1[key]})
        self.kv1.pop(key, None) if method == "DELETE" else self.kv1.update({key: body})
        return Reply(204)

    def _second(self, method: str, key: str, body: dict[str, Any]) -> Reply:
        versions = self.kv2.setdefault(key, [])
        if method in ("POST", "PUT"):
            versions.append(Version(body["data"]))
            return Reply(200, {"data": {"version": len(versions)}})
        if not versions:
            raise Refused(404) if method == "GET" else Refused(400)
        newest = versions[-1]
        if method == "DELETE":
            newest.deleted = True
            return Reply(204)
        metadata = {
            "version": len(versions),
            "deletion_time": "2026-11-15T00:00:00Z" if newest.deleted else "",
            "destroyed": newest.destroyed,
        }
        gone = newest.deleted or newest.destroyed
        return Reply(404 if gone else 200, {"data": {"data": None if gone else newest.data, "metadata": metadata}})


@asynccontextmanager
async def vault_server(tls: SSLContext | None = None) -> AsyncIterator[VaultServer]:
    server = VaultServer()
    app = web.Application(client_max_size=32 * 2**20)
    app.router.add_route("*", "/{path:.*}", server.respond)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    port = runner.addresses[0][1]
    server.base = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()
