"""Tests AWS Secrets Manager against moto, an independent server that checks signatures and policies."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import botocore.session
import pytest
import uvloop
from botocore.config import Config

from samara.secretstores.aws import SecretsManager, open_aws
from samara.secretstores.base import Forbidden, NotFound, StoreError, Unavailable, Unusable

pytestmark = pytest.mark.cluster

REGION = "eu-west-1"
ADMIN = {"access-key-id": b"AKIAADMIN", "secret-access-key": b"anything"}
Api = Callable[[str], Any]
Scenario = Callable[[SecretsManager], Awaitable[object]]


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """The address of a server that runs as long as this module's tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
        assert server.stderr is not None
        try:
            output = ""
            while (match := re.search(r"Running on (http://127\.0\.0\.1:\d+)", output)) is None:
                line = server.stderr.readline().decode()
                assert line, f"moto has not started: {output}"
                output += line
            yield match[1]
        finally:
            server.kill()


@pytest.fixture
def api(moto: str) -> Iterator[Api]:
    """The API of the server, which is empty before and after each test."""

    def client(name: str) -> Any:
        made = botocore.session.get_session().create_client(
            name,
            region_name=REGION,
            endpoint_url=moto,
            aws_access_key_id="AKIAADMIN",
            aws_secret_access_key="anything",
            config=Config(proxies={}),
        )
        clients.append(made)
        return made

    clients: list[Any] = []
    post(f"{moto}/moto-api/reset")
    yield client
    for made in clients:
        made.close()


@contextmanager
def judged(moto: str) -> Iterator[None]:
    """Makes the server check signatures and policies, as the real one does."""
    post(f"{moto}/moto-api/reset-auth", b"0")
    try:
        yield
    finally:
        post(f"{moto}/moto-api/reset-auth", b"inf")


def post(url: str, body: bytes = b"") -> None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/octet-stream"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def a_user(api: Api, name: str, **statement: object) -> dict[str, bytes]:
    """A user with this one right or prohibition, and its credentials."""
    iam = api("iam")
    iam.create_user(UserName=name)
    policy = {"Version": "2012-10-17", "Statement": [{"Action": "secretsmanager:GetSecretValue", **statement}]}
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return {"access-key-id": made["AccessKeyId"].encode(), "secret-access-key": made["SecretAccessKey"].encode()}


def play(moto: str, config: Mapping[str, bytes], scenario: Scenario) -> object:
    async def main() -> object:
        store = open_aws(urlsplit(f"aws-sm://{REGION}?endpoint={moto}"), config)
        try:
            async with asyncio.timeout(30):
                return await scenario(store)
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def value(store: SecretsManager, path: str) -> bytes:
    location = store.locate(path)
    return (await store.read(location.document)).value(location.field)


def read(moto: str, *paths: str, config: Mapping[str, bytes] = ADMIN) -> object:
    async def scenario(store: SecretsManager) -> list[bytes]:
        return [await value(store, path) for path in paths]

    return play(moto, config, scenario)


def refused(kind: type[StoreError], moto: str, path: str, config: Mapping[str, bytes] = ADMIN) -> str:
    with pytest.raises(kind) as caught:
        read(moto, path, config=config)
    return str(caught.value)


def test_strings_fields_and_binaries_are_read(moto: str, api: Api) -> None:
    manager = api("secretsmanager")
    manager.create_secret(Name="/app/db", SecretString='{"user": "app_user", "tls": {"port": 5432}}')
    manager.create_secret(Name="plain", SecretString="click me!")
    manager.create_secret(Name="binary", SecretBinary=b"\x00\xff")
    values = read(moto, "/app/db#user", "/app/db#tls.port", "plain", "binary")
    assert values == [b"app_user", b"5432", b"click me!", b"\x00\xff"]


def test_the_current_version_is_read(moto: str, api: Api) -> None:
    manager = api("secretsmanager")
    manager.create_secret(Name="db", SecretString="old")

    async def scenario(store: SecretsManager) -> list[bytes]:
        before = await value(store, "db")
        manager.put_secret_value(SecretId="db", SecretString="new")
        return [before, await value(store, "db")]

    assert play(moto, ADMIN, scenario) == [b"old", b"new"]


def test_a_leading_slash_belongs_to_the_name(moto: str, api: Api) -> None:
    api("secretsmanager").create_secret(Name="/app/db", SecretString="x")
    refused(NotFound, moto, "app/db")


def test_a_missing_secret_is_absent(moto: str, api: Api) -> None:
    refused(NotFound, moto, "nothing")


def test_a_secret_of_another_region_is_absent(moto: str, api: Api) -> None:
    api("secretsmanager").create_secret(Name="db", SecretString="x")

    async def main() -> None:
        store = open_aws(urlsplit(f"aws-sm://us-east-1?endpoint={moto}"), ADMIN)
        try:
            with pytest.raises(NotFound, match="us-east-1"):
                await store.read("db")
        finally:
            await store.close()

    asyncio.run(main())


def test_a_secret_without_a_value_is_absent(moto: str, api: Api) -> None:
    api("secretsmanager").create_secret(Name="db")
    refused(NotFound, moto, "db")


def test_a_secret_marked_for_deletion_is_not_absent_and_can_be_restored(moto: str, api: Api) -> None:
    manager = api("secretsmanager")
    manager.create_secret(Name="db", SecretString="x")
    manager.delete_secret(SecretId="db", RecoveryWindowInDays=7)
    assert "marked for deletion" in refused(Forbidden, moto, "db")
    manager.restore_secret(SecretId="db")
    assert read(moto, "db") == [b"x"]


def test_a_missing_field_is_absent_and_a_field_of_plain_text_unusable(moto: str, api: Api) -> None:
    manager = api("secretsmanager")
    manager.create_secret(Name="object", SecretString='{"user": "x"}')
    manager.create_secret(Name="plain", SecretString="x")
    refused(NotFound, moto, "object#password")
    refused(Unusable, moto, "plain#password")


def test_a_wrong_signature_or_a_denied_user_is_refused(moto: str, api: Api) -> None:
    """Moto refuses in XML without the code of the real server, so only the status 403 can be checked."""
    api("secretsmanager").create_secret(Name="db", SecretString="x")
    reader = a_user(api, "reader", Effect="Allow", Resource="*")
    other = a_user(api, "other", Effect="Deny", Resource="*")
    with judged(moto):
        assert read(moto, "db", config=reader) == [b"x"]
        for config in (other, ADMIN, {**reader, "secret-access-key": b"another"}):
            assert "403" in refused(Forbidden, moto, "db", config)


def test_a_server_that_stops_is_an_outage(moto: str) -> None:
    refused(Unavailable, "http://127.0.0.1:1", "db")
