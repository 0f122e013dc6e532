"""Tests Vault with KV version 1 against RustyVault, an independent server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests.secretstores.rvault import Running, running
from tests.secretstores.vault_admin import Admin, administering, value

from samara.secretstores.base import NotFound, Unauthenticated, Unavailable, Unusable

pytestmark = [pytest.mark.cluster, pytest.mark.verify]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("rvault")) as started:
        yield started


def with_admin(server: Running, scenario: Callable[[Admin, str], Awaitable[None]]) -> None:
    """An administrator, and a mount with one entry."""

    async def run() -> None:
        async with administering(server.base, server.root) as admin:
            mount = await admin.mount("1")
            await admin.write(mount, "1", "app/db", {"user": "app_user", "port": 5432, "text": "\0 ü\n", "empty": ""})
            await scenario(admin, mount)

    asyncio.run(run())


async def token_of(admin: Admin) -> str:
    made = await admin.do("POST", "auth/token/create", {"policies": ["default"], "ttl": "600s"})
    return str(made["auth"]["client_token"])


async def approle(admin: Admin) -> dict[str, bytes]:
    return (await admin.approle("default"))[1]


def test_values_are_read_with_a_token(server: Running) -> None:
    async def scenario(admin: Admin, mount: str) -> None:
        store = admin.opened(mount, {"token": (await token_of(admin)).encode()}, "1")
        assert await value(store, "/app/db#user") == b"app_user"
        assert await value(store, "app/db#port") == b"5432"
        assert await value(store, "app/db#text") == "\0 ü\n".encode()
        assert await value(store, "app/db#empty") == b""
        await admin.write(mount, "1", "app/db", {"user": "changed"})
        assert await value(store, "app/db#user") == b"changed"

    with_admin(server, scenario)


def test_a_missing_entry_and_a_missing_field_are_absent(server: Running) -> None:
    async def scenario(admin: Admin, mount: str) -> None:
        store = admin.opened(mount, {"token": admin.token.encode()}, "1")
        for path in ("app/db#other", "app/none#user"):
            with pytest.raises(NotFound):
                await value(store, path)
        await admin.do("DELETE", f"{mount}/app/db")
        with pytest.raises(NotFound):
            await value(store, "app/db#user")

    with_admin(server, scenario)


def test_a_missing_mount_is_not_absence(server: Running) -> None:
    async def scenario(admin: Admin, mount: str) -> None:
        with pytest.raises(Unusable, match="mount"):
            await value(admin.opened("nowhere", {"token": admin.token.encode()}, "1"), "app/db#user")

    with_admin(server, scenario)


def test_an_unknown_or_revoked_token_is_unauthenticated(server: Running) -> None:
    async def scenario(admin: Admin, mount: str) -> None:
        token = await token_of(admin)
        store = admin.opened(mount, {"token": token.encode()}, "1")
        await value(store, "app/db#user")
        await admin.do("POST", f"auth/token/revoke/{token}", {})
        unknown = admin.opened(mount, {"token": b"never-given"}, "1")
        for refused in (store, unknown):
            with pytest.raises(Unauthenticated) as caught:
                await value(refused, "app/db#user")
            assert token not in str(caught.value)

    with_admin(server, scenario)


def test_an_app_role_logs_in_again_after_its_token_was_revoked(server: Running) -> None:
    async def scenario(admin: Admin, mount: str) -> None:
        store = admin.opened(mount, await approle(admin), "1")
        assert await value(store, "app/db#user") == b"app_user"
        held = store.session._token
        assert held is not None
        await admin.do("POST", f"auth/token/revoke/{held.token}", {})
        assert await value(store, "app/db#user") == b"app_user"
        assert store.session._token is not held

    with_admin(server, scenario)


def test_an_app_role_with_a_wrong_secret_id_is_unauthenticated(server: Running) -> None:
    async def scenario(admin: Admin, mount: str) -> None:
        config = {**await approle(admin), "secret-id": b"canary-4711"}
        with pytest.raises(Unauthenticated) as caught:
            await value(admin.opened(mount, config, "1"), "app/db#user")
        assert "canary" not in str(caught.value)

    with_admin(server, scenario)


def test_a_sealed_server_is_an_outage_and_comes_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("sealed")) as server:

        async def scenario(admin: Admin, mount: str) -> None:
            store = admin.opened(mount, {"token": admin.token.encode()}, "1")
            assert await value(store, "app/db#user") == b"app_user"
            await admin.do("PUT", "sys/seal", {})
            with pytest.raises(Unavailable, match="sealed"):
                await value(store, "app/db#user")
            await admin.do("PUT", "sys/unseal", {"key": server.key})
            assert await value(store, "app/db#user") == b"app_user"

        with_admin(server, scenario)


def test_a_server_that_has_ended_is_an_outage(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("ended")) as server:
        base = server.base

    async def run() -> None:
        async with administering(base, "t") as admin:
            with pytest.raises(Unavailable, match="refused"):
                await value(admin.opened("kv", {"token": b"t"}, "1"), "app/db#user")

    asyncio.run(run())
