"""Tests which configurations open a Vault, and the messages for invalid ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from samara.secretstores.base import StoreConfigError
from samara.secretstores.vault import AppRole, Kubernetes, Login, StaticToken, Vault, open_vault

URL = "vault+https://vault.example:8200/secret"
BOTH = {"role-id": b"a", "secret-id": b"b"}
POD = Path("/var/run/secrets/samara.dev/login/token")


@pytest.mark.parametrize(
    ("url", "config", "reason", "words"),
    [
        (URL, {}, "TokenError", "token, role, or role-id with secret-id; found none"),
        (URL, {"token": b" \n"}, "TokenError", "found none"),
        (URL, {"token": b"t", "role": b"r"}, "TokenError", "found token, role"),
        (URL, {"role-id": b"a"}, "TokenError", "found role-id"),
        (URL, {"secret-id": b"a"}, "TokenError", "found secret-id"),
        (URL, {"token": b"a\nb"}, "TokenError", "key token"),
        (URL, {"token": b"t", "namespace": b"a\r\nb"}, "TokenError", "key namespace"),
        (URL, {**BOTH, "auth-mount": b"../sys"}, "TokenError", "auth-mount"),
        (URL, {"token": b"t", "ca.crt": b"nonsense"}, "ConnectionError", "ca.crt"),
        (URL, {"token": b"t", "ca.crt": b"\xff\xfe"}, "ConnectionError", "ca.crt"),
        ("vault+https://vault.example:8200", {"token": b"t"}, "ConnectionError", "mount"),
        ("vault+https://vault.example:8200/", {"token": b"t"}, "ConnectionError", "mount"),
        ("vault+https://vault.example:8200/a//b", {"token": b"t"}, "ConnectionError", "mount"),
        ("vault+https://vault.example:8200/..", {"token": b"t"}, "ConnectionError", "mount"),
        ("vault+https:///secret", {"token": b"t"}, "ConnectionError", "host"),
        (f"{URL}?kv=3", {"token": b"t"}, "ConnectionError", "kv=1"),
        (f"{URL}?insecure=true", {"token": b"t"}, "ConnectionError", "kv=1"),
        ("vault+http://vault.example/secret", {"token": b"t"}, "ConnectionError", "vault\\+https"),
    ],
)
def test_an_invalid_configuration_is_refused(url: str, config: dict[str, bytes], reason: str, words: str) -> None:
    async def run() -> None:
        open_vault(urlsplit(url), config)

    with pytest.raises(StoreConfigError, match=words) as caught:
        asyncio.run(run())
    assert caught.value.reason == reason


def opened(url: str, config: dict[str, bytes]) -> tuple[Vault, Login]:
    async def run() -> tuple[Vault, Login]:
        store = open_vault(urlsplit(url), config)
        await store.close()
        return store, store.session._login

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("config", "login"),
    [
        ({"token": b"t\n"}, StaticToken("t")),
        ({"token": b"t", "namespace": b"n", "other": b"x"}, StaticToken("t")),
        (BOTH, AppRole("approle", "a", "b")),
        ({**BOTH, "auth-mount": b"/ci/"}, AppRole("ci", "a", "b")),
        ({"role": b"r"}, Kubernetes("kubernetes", "r", POD)),
        ({"role": b"r", "auth-mount": b"clusters/one"}, Kubernetes("clusters/one", "r", POD)),
    ],
)
def test_the_keys_of_the_configuration_choose_the_login(config: dict[str, bytes], login: Login) -> None:
    assert opened(URL, config)[1] == login


@pytest.mark.parametrize(
    ("url", "base", "mount", "version"),
    [
        (URL, "https://vault.example:8200", "secret", "2"),
        (f"{URL}?kv=1", "https://vault.example:8200", "secret", "1"),
        ("vault+https://vault.example/team/kv/?kv=2", "https://vault.example:8200", "team/kv", "2"),
        ("vault+https://[fd00::1]:443/kv", "https://[fd00::1]:443", "kv", "2"),
        ("vault+http://localhost:8200/kv", "http://localhost:8200", "kv", "2"),
    ],
)
def test_the_url_gives_address_mount_and_version(url: str, base: str, mount: str, version: str) -> None:
    store, _ = opened(url, {"token": b"t"})
    assert (store.http.base, store.mount, store.version) == (base, mount, version)
