"""Tests reads from Vault with our small server, and with a real one if the environment names it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import quote

import pytest
from tests.secretstores.vault_admin import Admin, administering, real, value
from tests.secretstores.vault_server import vault_server
from yarl import URL

from samara.secretstores.base import MAX_VALUE, Forbidden, Location, NotFound, StoreError, Unauthenticated, Unusable
from samara.secretstores.vault import Vault

Scenario = Callable[[Admin], Awaitable[None]]
OUTSIDE = real()


@pytest.fixture(params=["small", "real"] if OUTSIDE else ["small"])
def with_vault(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    async def run(scenario: Scenario) -> None:
        if request.param == "real":
            assert OUTSIDE is not None
            async with administering(*OUTSIDE) as admin:
                await scenario(admin)
        else:
            async with vault_server() as server, administering(server.base, server.root) as admin:
                await scenario(admin)

    return lambda scenario: asyncio.run(run(scenario))


async def fault(store: Vault, path: str, kind: type[StoreError]) -> str:
    with pytest.raises(kind) as caught:
        await value(store, path)
    return str(caught.value)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_path_and_a_field_are_a_value(with_vault: Callable[[Scenario], None], version: str) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount(version)
        store = admin.opened(mount, {"token": admin.token.encode()}, version)
        for word in ("app_user", "click me!"):
            await admin.write(mount, version, "app/db", {"user": word, "empty": ""})
            assert await value(store, "/app/db#user") == word.encode()
        assert await value(store, "app/db#empty") == b""

    with_vault(scenario)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_value_that_is_no_text_becomes_json_without_spaces(
    with_vault: Callable[[Scenario], None], version: str
) -> None:
    data = {
        "port": 5432,
        "on": True,
        "list": [1, {"a": "b c"}],
        "none": None,
        "text": '{"a": 1}',
        "hostile": "\0\n{{}}",
    }

    async def scenario(admin: Admin) -> None:
        mount = await admin.mount(version)
        await admin.write(mount, version, "db", data)
        store = admin.opened(mount, {"token": admin.token.encode()}, version)
        document = await store.read("db")
        assert document.value("port") == b"5432"
        assert document.value("on") == b"true"
        assert document.value("list") == b'[1,{"a":"b c"}]'
        assert document.value("none") == b"null"
        assert document.value("text") == b'{"a": 1}'
        assert document.value("hostile") == b"\0\n{{}}"

    with_vault(scenario)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_deleted_or_missing_entry_is_absent(with_vault: Callable[[Scenario], None], version: str) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount(version)
        await admin.write(mount, version, "db", {"user": "x"})
        store = admin.opened(mount, {"token": admin.token.encode()}, version)
        assert "'other'" in await fault(store, "db#other", NotFound)
        await fault(store, "never#user", NotFound)
        await admin.do("DELETE", f"{mount}/data/db" if version == "2" else f"{mount}/db")
        await fault(store, "db#user", NotFound)

    with_vault(scenario)


def test_a_wrong_mount_and_a_wrong_version_are_not_absence(with_vault: Callable[[Scenario], None]) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount("2")
        await admin.write(mount, "2", "db", {"user": "x"})
        for store in (
            admin.opened("not-mounted", {"token": admin.token.encode()}),
            admin.opened(mount, {"token": admin.token.encode()}, "1"),
        ):
            assert "kv=1" in await fault(store, "db#user", Unusable)

    with_vault(scenario)


def test_a_path_outside_the_policies_is_forbidden(with_vault: Callable[[Scenario], None]) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount("2")
        await admin.write(mount, "2", "app/db", {"user": "x"})
        token = await admin.make_token(await admin.policy(f"{mount}/data/app/*"))
        store = admin.opened(mount, {"token": token.encode()})
        assert "policies" in await fault(store, "other/db#user", Forbidden)
        assert await value(store, "app/db#user") == b"x"

    with_vault(scenario)


def test_a_token_that_may_not_look_itself_up_still_reads_and_is_refused(
    with_vault: Callable[[Scenario], None],
) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount("2")
        await admin.write(mount, "2", "app/db", {"user": "x"})
        token = await admin.make_token(await admin.policy(f"{mount}/data/app/*"), no_default_policy=True)
        store = admin.opened(mount, {"token": token.encode()})
        assert await value(store, "app/db#user") == b"x"
        await fault(store, "other/db#user", Forbidden)

    with_vault(scenario)


def test_a_dead_token_is_distinguished_from_a_forbidden_path(with_vault: Callable[[Scenario], None]) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount("2")
        token = await admin.make_token(await admin.policy(f"{mount}/data/*"))
        store = admin.opened(mount, {"token": token.encode()})
        await fault(store, "db#user", NotFound)
        await admin.do("POST", "auth/token/revoke", {"token": token})
        message = await fault(store, "db#user", Unauthenticated)
        assert token not in message
        await fault(admin.opened(mount, {"token": b"hvs.never-was"}), "db#user", Unauthenticated)

    with_vault(scenario)


def test_an_app_role_logs_in_and_logs_in_again(with_vault: Callable[[Scenario], None]) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount("2")
        await admin.write(mount, "2", "db", {"user": "x"})
        _, config = await admin.approle(await admin.policy(f"{mount}/data/*"))
        store = admin.opened(mount, config)
        assert await value(store, "db#user") == b"x"
        held = store.session._token
        assert held is not None
        await admin.do("POST", "auth/token/revoke", {"token": held.token})
        assert await value(store, "db#user") == b"x"

    with_vault(scenario)


def test_a_revoked_secret_id_is_unauthenticated(with_vault: Callable[[Scenario], None]) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount("2")
        role, config = await admin.approle(await admin.policy(f"{mount}/data/*"))
        await admin.do("POST", f"{role}/secret-id/destroy", {"secret_id": config["secret-id"].decode()})
        store = admin.opened(mount, config)
        message = await fault(store, "db#user", Unauthenticated)
        assert "login" in message
        assert config["secret-id"].decode() not in message

    with_vault(scenario)


@pytest.mark.parametrize("path", ["a b/ü", "a+b:c@d=e&f;g,h", "~a/-_.b", "(a)'!*$"])
def test_a_path_is_quoted_in_the_request(with_vault: Callable[[Scenario], None], path: str) -> None:
    async def scenario(admin: Admin) -> None:
        mount = await admin.mount("2")
        store = admin.opened(mount, {"token": admin.token.encode()})
        await fault(store, f"{path}#user", NotFound)
        at = URL(f"{admin.base}/v1/{mount}/data/{quote(path)}", encoded=True)
        headers = {"X-Vault-Token": admin.token}
        async with admin.session.post(at, json={"data": {"user": "x"}}, headers=headers) as answer:
            assert answer.status == 200
        assert await value(store, f"{path}#user") == b"x"

    with_vault(scenario)


def test_a_value_that_is_too_large_does_not_affect_others() -> None:
    async def run() -> None:
        async with vault_server() as server, administering(server.base, server.root) as admin:
            mount = await admin.mount("2")
            await admin.write(mount, "2", "db", {"more": "x" * (MAX_VALUE + 1), "most": "x" * MAX_VALUE, "user": "x"})
            store = admin.opened(mount, {"token": admin.token.encode()})
            await fault(store, "db#more", Unusable)
            assert len(await value(store, "db#most")) == MAX_VALUE
            assert await value(store, "db#user") == b"x"

    asyncio.run(run())


def test_a_path_without_a_field_is_refused() -> None:
    async def run() -> None:
        async with vault_server() as server, administering(server.base, "t") as admin:
            store = admin.opened("kv", {"token": b"t"})
            assert store.locate("/app/db#user") == Location("app/db", "user")
            for path in ("app/db", "a#b#c", "a//b#c", "../b#c", "a%2e#c", "a?b#c"):
                with pytest.raises(Unusable):
                    store.locate(path)

    asyncio.run(run())
