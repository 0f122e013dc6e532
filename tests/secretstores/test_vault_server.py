"""Tests our small Vault without our client: the parts of the interface on which other tests rely."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.secretstores.vault_admin import Admin, administering
from tests.secretstores.vault_server import Reply, VaultServer, vault_server


def with_server(deed: Callable[[Admin, VaultServer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with vault_server() as server, administering(server.base, server.root) as admin:
            await deed(admin, server)

    asyncio.run(run())


def test_version_2_keeps_versions_and_reports_a_deleted_newest_one() -> None:
    async def deed(admin: Admin, server: VaultServer) -> None:
        mount = await admin.mount("2")
        for word in ("one", "two"):
            await admin.write(mount, "2", "db", {"word": word})
        status, body = await admin.call("GET", f"{mount}/data/db")
        assert (status, body["data"]["data"], body["data"]["metadata"]["version"]) == (200, {"word": "two"}, 2)
        await admin.do("DELETE", f"{mount}/data/db")
        status, body = await admin.call("GET", f"{mount}/data/db")
        assert (status, body["data"]["data"]) == (404, None)
        assert body["data"]["metadata"]["deletion_time"]
        assert await admin.call("GET", f"{mount}/data/none") == (404, {"errors": []})

    with_server(deed)


def test_version_1_has_its_data_at_the_path_itself() -> None:
    async def deed(admin: Admin, server: VaultServer) -> None:
        mount = await admin.mount("1")
        await admin.write(mount, "1", "a/b", {"word": "one"})
        status, body = await admin.call("GET", f"{mount}/a/b")
        assert (status, body["data"]) == (200, {"word": "one"})
        await admin.do("DELETE", f"{mount}/a/b")
        assert await admin.call("GET", f"{mount}/a/b") == (404, {"errors": []})

    with_server(deed)


def test_a_wrong_mount_or_version_is_a_404_of_its_own() -> None:
    async def deed(admin: Admin, server: VaultServer) -> None:
        mount = await admin.mount("2")
        assert (await admin.call("GET", "nowhere/db"))[1]["errors"]
        assert (await admin.call("GET", f"{mount}/db"))[1]["warnings"]

    with_server(deed)


def test_a_policy_decides_which_paths_a_token_reads() -> None:
    async def deed(admin: Admin, server: VaultServer) -> None:
        mount = await admin.mount("2")
        await admin.write(mount, "2", "app/db", {"word": "one"})
        token = await admin.make_token(await admin.policy(f"{mount}/data/app/*"))
        for path, status in ((f"{mount}/data/app/db", 200), (f"{mount}/data/other", 403), ("sys/mounts/x", 403)):
            assert (await admin.call("GET", path, token=token))[0] == status

    with_server(deed)


def test_a_token_expires_is_renewed_up_to_its_maximum_and_looks_itself_up() -> None:
    async def deed(admin: Admin, server: VaultServer) -> None:
        token = await admin.make_token("none", ttl="60s", explicit_max_ttl="100s")
        server.now += 50
        assert (await admin.call("GET", "auth/token/lookup-self", token=token))[1]["data"]["ttl"] == 10
        renewed = (await admin.call("POST", "auth/token/renew-self", {}, token=token))[1]["auth"]
        assert (renewed["lease_duration"], renewed["renewable"]) == (50, True)
        server.now += 50
        status, body = await admin.call("GET", "auth/token/lookup-self", token=token)
        assert status == 403
        assert "invalid token" in body["errors"][0]

    with_server(deed)


def test_a_token_without_the_default_policy_may_not_look_itself_up() -> None:
    async def deed(admin: Admin, server: VaultServer) -> None:
        token = await admin.make_token("none", no_default_policy=True)
        status, body = await admin.call("GET", "auth/token/lookup-self", token=token)
        assert status == 403
        assert "invalid token" not in body["errors"][0]

    with_server(deed)


def test_a_login_needs_valid_credentials() -> None:
    async def deed(admin: Admin, server: VaultServer) -> None:
        role, config = await admin.approle("none")
        login = role.replace("role/reader", "login")
        proof = {"role_id": config["role-id"].decode(), "secret_id": config["secret-id"].decode()}
        status, body = await admin.call("POST", login, proof, token="")
        assert status == 200
        assert (await admin.call("GET", "auth/token/lookup-self", token=body["auth"]["client_token"]))[0] == 200
        assert (await admin.call("POST", login, {**proof, "secret_id": "other"}, token=""))[0] == 400
        server.logins["kubernetes"], server.jwts["reader", "jwt-1"] = "kubernetes", {"ttl": 60}
        for jwt, expected in (("jwt-1", 200), ("jwt-2", 403)):
            answer = await admin.call("POST", "auth/kubernetes/login", {"role": "reader", "jwt": jwt}, token="")
            assert answer[0] == expected

    with_server(deed)


def test_a_test_can_seal_it_and_set_its_answers() -> None:
    async def deed(admin: Admin, server: VaultServer) -> None:
        server.sealed = True
        assert (await admin.call("GET", "secret/db"))[0] == 503
        server.instead.append(Reply(473, b"x"))
        async with admin.session.get(server.base) as answer:
            assert (answer.status, await answer.read()) == (473, b"x")

    with_server(deed)
