"""Tests the session with Vault: renewal at two thirds, a new login after that, one login for many reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.secretstores.vault_admin import Admin, administering, value
from tests.secretstores.vault_server import Reply, VaultServer, vault_server

from samara.secretstores.base import Forbidden, Unauthenticated, Unavailable
from samara.secretstores.vault import Vault

LOGIN, LOOKUP, RENEWAL = "/login", "/lookup-self", "/renew-self"


class Clock:
    """Sleeps that a test ends, and their durations."""

    def __init__(self, server: VaultServer) -> None:
        self._server = server
        self._requested: asyncio.Queue[float] = asyncio.Queue()
        self._over: asyncio.Queue[None] = asyncio.Queue()

    async def sleep(self, seconds: float) -> None:
        self._requested.put_nowait(seconds)
        await self._over.get()

    async def next(self) -> float:
        """The duration of the current or next sleep."""
        async with asyncio.timeout(5):
            return await self._requested.get()

    def passes(self, seconds: float) -> None:
        """Ends the current sleep, and advances the server's clock by its duration."""
        self._server.now += seconds
        self._over.put_nowait(None)


class Stage:
    def __init__(self, admin: Admin, server: VaultServer, mount: str, policy: str) -> None:
        self.admin, self.server, self.mount, self.policy = admin, server, mount, policy
        self.clock = Clock(server)

    def opened(self, config: dict[str, bytes], **more: Any) -> Vault:
        return self.admin.opened(self.mount, config, sleep=self.clock.sleep, **more)

    def count(self, part: str) -> int:
        return len(self.server.requests(part))

    async def token(self, **more: object) -> dict[str, bytes]:
        return {"token": (await self.admin.make_token(self.policy, **more)).encode()}


def staged(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        async with vault_server() as server, administering(server.base, server.root) as admin:
            mount = await admin.mount("2")
            await admin.write(mount, "2", "app/db", {"user": "x"})
            await scenario(Stage(admin, server, mount, await admin.policy(f"{mount}/data/app/*")))

    asyncio.run(run())


def test_a_token_is_renewed_repeatedly_at_two_thirds_of_its_life() -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.opened(await stage.token(ttl="90s"))
        await value(store, "app/db#user")
        for _ in range(3):
            assert await stage.clock.next() == 60
            stage.clock.passes(60)
        assert await stage.clock.next() == 60
        assert stage.count(RENEWAL) == 3
        stage.server.now += 50
        assert await value(store, "app/db#user") == b"x"
        assert stage.count(LOOKUP) == 1

    staged(scenario)


def test_a_token_without_expiry_is_not_renewed() -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.opened({"token": stage.admin.token.encode()})
        await value(store, "app/db#user")
        assert store.session._renewal is None

    staged(scenario)


def test_renewal_is_retried_after_an_outage_before_the_token_expires() -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.opened(await stage.token(ttl="90s"))
        await value(store, "app/db#user")
        assert await stage.clock.next() == 60
        stage.server.instead.append(Reply(503, b"{}"))
        stage.clock.passes(60)
        assert await stage.clock.next() == 20  # two thirds of the 30 s that were left
        stage.clock.passes(20)
        assert await stage.clock.next() == 60
        assert stage.count(RENEWAL) == 2

    staged(scenario)


@pytest.mark.parametrize(
    "like", [{"renewable": False}, {"token_max_ttl": "100s"}], ids=["not renewable", "at its last end"]
)
def test_a_token_that_cannot_be_renewed_is_replaced_before_it_expires(like: dict[str, object]) -> None:
    async def scenario(stage: Stage) -> None:
        _, config = await stage.admin.approle(stage.policy, token_ttl="90s", **like)
        store = stage.opened(config)
        await value(store, "app/db#user")
        for _ in range(2 if "token_max_ttl" in like else 1):
            seconds = await stage.clock.next()
            stage.clock.passes(seconds)
        assert store.session._renewal is not None
        await asyncio.wait_for(store.session._renewal, 5)
        assert await value(store, "app/db#user") == b"x"
        assert stage.count(LOGIN) == 2
        assert stage.count(RENEWAL) == (2 if "token_max_ttl" in like else 0)
        assert await stage.clock.next() == 60

    staged(scenario)


def test_a_dead_token_is_replaced_by_one_new_login() -> None:
    async def scenario(stage: Stage) -> None:
        _, config = await stage.admin.approle(stage.policy, token_ttl="90s")
        store = stage.opened(config)
        for terse in (False, True):
            stage.server.terse = terse
            await value(store, "app/db#user")
            logins = stage.count(LOGIN)
            stage.server.now += 91
            assert await value(store, "app/db#user") == b"x"
            assert stage.count(LOGIN) == logins + 1

    staged(scenario)


def test_logins_that_give_dead_tokens_are_not_repeated_forever() -> None:
    async def scenario(stage: Stage) -> None:
        _, config = await stage.admin.approle(stage.policy, token_ttl="90s")
        store = stage.opened(config)
        invalid = {"errors": ["permission denied", "invalid token"]}
        fresh = {"auth": {"client_token": "hvs.none", "lease_duration": 90, "renewable": True}}
        stage.server.instead.extend([Reply(200, fresh), Reply(403, invalid)] * 2)
        with pytest.raises(Unauthenticated):
            await value(store, "app/db#user")
        assert stage.count(LOGIN) == 2

    staged(scenario)


def test_a_forbidden_path_causes_no_login() -> None:
    async def scenario(stage: Stage) -> None:
        for more in ({}, {"token_no_default_policy": True}):
            _, config = await stage.admin.approle(stage.policy, **more)
            store = stage.opened(config)
            logins = stage.count(LOGIN)
            for _ in range(3):
                with pytest.raises(Forbidden):
                    await value(store, "other#user")
            assert stage.count(LOGIN) == logins + 1

    staged(scenario)


@pytest.mark.parametrize(("more", "logins"), [({}, 1), ({"token_no_default_policy": True}, 2)])
def test_a_forbidden_path_among_readable_ones_causes_at_most_one_login(more: dict[str, object], logins: int) -> None:
    """The session remembers whether its token may look itself up."""

    async def scenario(stage: Stage) -> None:
        _, config = await stage.admin.approle(stage.policy, **more)
        store = stage.opened(config)
        before = stage.count(LOGIN)
        for _ in range(4):
            assert await value(store, "app/db#user")
            with pytest.raises(Forbidden):
                await value(store, "other#user")
        assert stage.count(LOGIN) == before + logins

    staged(scenario)


def test_a_dead_token_is_recognised_on_an_older_server_without_a_reason() -> None:
    async def scenario(stage: Stage) -> None:
        stage.server.terse = True
        config = await stage.token(ttl="90s")
        store = stage.opened(config)
        with pytest.raises(Forbidden):
            await value(store, "other#user")
        stage.server.now += 91
        with pytest.raises(Unauthenticated):
            await value(store, "app/db#user")
        with pytest.raises(Unauthenticated):
            await value(stage.opened(config), "app/db#user")

    staged(scenario)


def test_concurrent_reads_log_in_once() -> None:
    async def scenario(stage: Stage) -> None:
        _, config = await stage.admin.approle(stage.policy)
        store = stage.opened(config)
        assert await asyncio.gather(*(value(store, "app/db#user") for _ in range(8))) == [b"x"] * 8
        assert stage.count(LOGIN) == 1

    staged(scenario)


def test_a_pod_reads_its_token_file_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"

    async def scenario(stage: Stage) -> None:
        stage.server.logins["cluster-1"] = "kubernetes"
        for jwt in ("jwt-1", "jwt-2"):
            stage.server.jwts["samara", jwt] = {"policies": [stage.policy], "ttl": "90s"}
        store = stage.opened({"role": b"samara", "auth-mount": b"cluster-1"}, login_token=file)
        with pytest.raises(Unauthenticated, match="pod"):
            await value(store, "app/db#user")
        file.write_text("jwt-1\n")
        assert await value(store, "app/db#user") == b"x"
        file.write_text("jwt-2\n")
        del stage.server.jwts["samara", "jwt-1"]
        stage.server.now += 91
        assert await value(store, "app/db#user") == b"x"
        assert stage.count("/cluster-1/login") == 2

    staged(scenario)


def test_a_pod_without_a_role_in_vault_is_unauthenticated(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary-jwt-4711")

    async def scenario(stage: Stage) -> None:
        stage.server.logins["kubernetes"] = "kubernetes"
        store = stage.opened({"role": b"samara"}, login_token=tmp_path / "token")
        with pytest.raises(Unauthenticated, match="403") as caught:
            await value(store, "app/db#user")
        assert "canary" not in str(caught.value)
        assert "canary" not in repr(store)

    staged(scenario)


def test_an_outage_at_login_is_an_outage_and_not_unauthenticated() -> None:
    async def scenario(stage: Stage) -> None:
        _, config = await stage.admin.approle(stage.policy)
        token = await stage.token()
        stage.server.sealed = True
        for keys in (config, token):
            with pytest.raises(Unavailable):
                await value(stage.opened(keys), "app/db#user")
        stage.server.sealed = False
        assert await value(stage.admin.stores[-1], "app/db#user") == b"x"

    staged(scenario)


def test_every_request_has_the_namespace_header() -> None:
    async def scenario(stage: Stage) -> None:
        _, config = await stage.admin.approle(stage.policy)
        stage.server.seen.clear()
        await value(stage.opened({**config, "namespace": b"team-a/\n"}), "app/db#user")
        assert [seen.headers.get("X-Vault-Namespace") for seen in stage.server.seen] == ["team-a/"] * 2
        await value(stage.opened(config), "app/db#user")
        assert "X-Vault-Namespace" not in stage.server.seen[-1].headers

    staged(scenario)
