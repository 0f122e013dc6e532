"""Tests the headers of each request, and when credentials are renewed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.kube.files import CANARY, POD, access, b64, headers, pod, refusal

from samara.kube.auth import load
from samara.kube.auth.credentials import TokenFile
from samara.kube.errors import ConfigError


def test_without_credentials_there_are_no_headers(tmp_path: Path) -> None:
    assert headers(access(tmp_path)) == []


def test_a_token_is_sent_as_it_is(tmp_path: Path) -> None:
    loaded = access(tmp_path, {"token": CANARY})
    loaded.credentials.forget()

    assert headers(loaded) == [("Authorization", f"Bearer {CANARY}")]


@pytest.mark.parametrize(
    "user", [{"token": CANARY}, {"tokenFile": "t"}, {"client-key": "k"}, {"exec": {"command": "c"}}]
)
def test_no_credentials_are_sent_over_plain_http(tmp_path: Path, user: dict[str, Any]) -> None:
    loaded = access(tmp_path, user | {"as": "bob"}, {"server": "http://localhost:8001"})

    assert headers(loaded) == [("Impersonate-User", "bob")]


def test_a_username_and_password_are_sent_as_basic(tmp_path: Path) -> None:
    assert headers(access(tmp_path, {"username": "ann", "password": "pä:ss"})) == [
        ("Authorization", f"Basic {b64('ann:pä:ss'.encode())}")
    ]


def test_a_token_file_is_relative_to_its_kubeconfig_and_wins_over_the_token(tmp_path: Path) -> None:
    loaded = access(tmp_path, {"tokenFile": "secret/token", "token": "inline"})
    assert headers(loaded) == [("Authorization", "Bearer inline")]

    (tmp_path / "folder" / "secret").mkdir()
    (tmp_path / "folder" / "secret" / "token").write_text("from-file\n")
    loaded = access(tmp_path, {"tokenFile": "secret/token", "token": "inline"})
    assert headers(loaded) == [("Authorization", "Bearer from-file")]


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    now = 1000.0
    path = tmp_path / "token"
    credentials = TokenFile(path, clock=lambda: now)

    async def seen() -> str:
        return (await credentials.headers())[0][1]

    path.write_text("one")
    assert asyncio.run(seen()) == "Bearer one"
    path.write_text("two")
    now += 59
    assert asyncio.run(seen()) == "Bearer one"
    now += 1
    assert asyncio.run(seen()) == "Bearer two"


def test_a_token_file_is_read_again_after_a_401(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path, clock=lambda: 0.0)
    asyncio.run(credentials.headers())
    path.write_text("two")

    credentials.forget()

    assert asyncio.run(credentials.headers()) == [("Authorization", "Bearer two")]


def test_a_token_is_used_after_its_file_is_gone_until_the_server_refuses_it(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "token"
    path.write_text("one")
    credentials = TokenFile(path, clock=lambda: now)
    asyncio.run(credentials.headers())
    path.unlink()
    now += 61

    assert asyncio.run(credentials.headers()) == [("Authorization", "Bearer one")]
    credentials.forget()
    with pytest.raises(ConfigError, match="expected a file with a token, found: No such file"):
        asyncio.run(credentials.headers())


@pytest.mark.parametrize("content", [b"", b" \n", f"{CANARY}\nX: y".encode(), f"{CANARY} ä".encode(), b"\xff\xfe"])
def test_a_token_that_fits_no_header_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="expected a token") as caught:
        asyncio.run(TokenFile(path).headers())

    assert CANARY not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"token": f"{CANARY} x"}, "user 'u' in .*folder/config: expected a token"),
        ({"token": CANARY, "username": "ann"}, "expected a token or a username, found both"),
        ({"client-certificate-data": b64(b"x")}, "client-certificate and client-key together"),
        ({"client-key-data": b64(b"x")}, "client-certificate and client-key together"),
        ({"client-certificate-data": f"{CANARY}!", "client-key": "x"}, "expected base64 in client-certificate-data"),
        ({"client-certificate-data": b64(b"x"), "client-key-data": b64(CANARY.encode())}, "certificate in PEM"),
        ({"client-certificate": "missing", "client-key": "missing"}, "certificate or key cannot be read: .*"),
        ({"as-groups": ["g"]}, "need a user; set `as` or give --as"),
        ({"as": "a\r\nX-Evil: 1"}, "impersonated names to be printable"),
    ],
)
def test_an_unusable_user_is_refused(tmp_path: Path, user: dict[str, Any], says: str) -> None:
    assert re.search(says, refusal(tmp_path, user))


# Impersonation


def test_impersonation_is_sent_with_our_own_credentials(tmp_path: Path) -> None:
    extra = {"acme.com/Pröject %": ["one", "two"]}
    user = {"token": "t", "as": "bob", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": extra}

    loaded = access(tmp_path, user)

    assert headers(loaded) == [
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-acme.com%2FPr%C3%B6ject%20%25", "one"),
        ("Impersonate-Extra-acme.com%2FPr%C3%B6ject%20%25", "two"),
    ]


def test_the_flag_replaces_the_user_and_keeps_the_groups_like_kubectl(tmp_path: Path) -> None:
    loaded = access(tmp_path, {"as": "bob", "as-groups": ["dev"]}, as_user="eve")

    assert headers(loaded) == [("Impersonate-User", "eve"), ("Impersonate-Group", "dev")]


def test_a_pod_can_impersonate_and_still_forgets_its_token(tmp_path: Path) -> None:
    directory = pod(tmp_path / "sa")
    loaded = load(None, None, None, "eve", POD, tmp_path, service_account=directory)
    headers(loaded)
    (directory / "token").write_text("second")

    loaded.credentials.forget()

    assert headers(loaded) == [("Authorization", "Bearer second"), ("Impersonate-User", "eve")]


def test_the_repr_shows_the_server_and_the_context_only(tmp_path: Path) -> None:
    user = {"token": CANARY, "as": CANARY}
    loaded = access(tmp_path, user, {"proxy-url": f"http://u:{CANARY}@p"})

    assert repr(loaded) == "Access(server='https://server:6443', context='here')"
    assert CANARY not in f"{loaded.credentials!r}"
