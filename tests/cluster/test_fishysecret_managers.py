"""FishySecrets with secret managers other than a folder, from the configuration to the Secret."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPSConnection
from urllib.parse import urlsplit

import pytest
from tests.cli.lint.test_fishysecret import GOOD as SAMPLE
from tests.cluster.support.fishy import CONFIG, SELDOM, TARGET, TEAM, Fishy
from tests.cluster.support.fishy_folder import CANARY
from tests.cluster.support.stage import OWN, Stage, encoded
from tests.cluster.support.waiting import eventually, never
from tests.secretstores.fishykeys_server import FishyKeysServer


@pytest.fixture
def keys(fishy: Fishy) -> Iterator[FishyKeysServer]:
    """FishyKeys' own server, as far as an operator sees it, with the values of the post."""
    with FishyKeysServer() as server:
        server.start()
        server.put("/app/db/username", "app_user")
        server.put("/app/db/password", f"{CANARY}-1")
        fishy.configure(server.address, token=server.token())
        yield server


def test_the_sample_of_the_post_is_served_from_fishykeys_itself(
    fishy: Fishy, stage: Stage, keys: FishyKeysServer
) -> None:
    stage.namespace("target-namespace")
    fishy.serve()
    fishy.kubectl("apply", "-f", "-", input=SAMPLE)
    fishy.until("fishysecret-db", namespace="default")
    assert fishy.data("test-secret", "target-namespace") == {"DB_USER": "app_user", "DB_PASS": f"{CANARY}-1"}
    keys.put("/app/db/password", f"{CANARY}-2")
    fishy.until_data("test-secret", {"DB_USER": "app_user", "DB_PASS": f"{CANARY}-2"}, "target-namespace")


def test_a_locked_fishykeys_deletes_nothing_and_is_read_again_when_unlocked(
    fishy: Fishy, keys: FishyKeysServer
) -> None:
    fishy.serve()
    fishy.ask("db", {"P": "/app/db/password"})
    fishy.until("db")
    keys.locked = True
    assert "locked" in fishy.until("db", "FetchError")
    assert fishy.data("db") == {"P": f"{CANARY}-1"}
    keys.locked = False
    fishy.until("db")


def test_a_path_that_fishykeys_forbids_does_not_count_as_absent_so_an_optional_key_stays(
    fishy: Fishy, keys: FishyKeysServer
) -> None:
    fishy.serve()
    fishy.ask("db", {"U": "/app/db/username", "P": "/app/db/password"})
    fishy.until("db")
    fishy.items("db", {"U": "/app/db/username", "P": "/app/db/password"}, optional=("P",))
    fishy.until("db")
    del keys.stored["/app/db/password"]
    assert "/app/db/password" in fishy.until("db", "FetchError")
    never(lambda: fishy.data("db") != {"U": "app_user", "P": f"{CANARY}-1"}, 3.0)


def test_an_expired_token_is_reported_and_a_new_one_is_used_at_once(fishy: Fishy, keys: FishyKeysServer) -> None:
    fishy.serve(refreshInterval="1s")
    fishy.ask("db", {"P": "/app/db/password"})
    fishy.until("db")
    keys.rotate_key()
    keys.put("/app/db/password", f"{CANARY}-2")
    fishy.until("db", "FetchError")
    assert fishy.data("db") == {"P": f"{CANARY}-1"}
    fishy.configure(keys.address, token=keys.token())
    fishy.until_data("db", {"P": f"{CANARY}-2"})


def test_secrets_of_a_namespace_can_be_the_manager(fishy: Fishy, stage: Stage) -> None:
    stage.namespace("vault")
    stage.foreign("vault", "app", {"user": "somebody", "pass": f"{CANARY}-1"})
    fishy.configure("kube://vault")
    fishy.serve()
    fishy.ask("db", {"U": "app/user", "P": "app/pass"})
    fishy.until("db")
    assert fishy.data("db") == {"U": "somebody", "P": f"{CANARY}-1"}
    stage.api.patch(stage.path("vault", "app"), {"data": encoded({"pass": f"{CANARY}-2"})})
    fishy.until_data("db", {"U": "somebody", "P": f"{CANARY}-2"})
    stage.api.delete(stage.path("vault", "app"))
    fishy.until("db", "FetchError")
    assert fishy.data("db") == {"U": "somebody", "P": f"{CANARY}-2"}


def test_a_configuration_in_a_tenants_namespace_cannot_name_the_clusters_secrets(fishy: Fishy, stage: Stage) -> None:
    stage.namespace("vault")
    stage.foreign("vault", "app", {"pass": CANARY})
    stage.foreign(TEAM, CONFIG, {"url": "kube://vault"})
    fishy.serve(namespace=TEAM)
    fishy.ask("db", {"P": "app/pass"})
    assert f"must be in the operator's namespace {OWN}; this one is in {TEAM}" in fishy.until("db", "ConnectionError")
    assert fishy.data("db") is None


@pytest.mark.parametrize(
    ("audience", "status"), [((), HTTPStatus.OK), (("--audience=vault",), HTTPStatus.UNAUTHORIZED)]
)
def test_the_api_server_refuses_the_token_for_logins(stage: Stage, audience: tuple[str, ...], status: int) -> None:
    """Whoever writes the configuration chooses who receives that token."""
    cluster = stage.cluster
    token = cluster.kubectl("create", "token", "default", "--namespace=default", *audience).strip()
    server = urlsplit(cluster.url)
    tls = ssl.create_default_context(cafile=cluster.ca_file)
    connection = HTTPSConnection(str(server.hostname), server.port, context=tls, timeout=10)
    connection.request("GET", "/api/v1", headers={"Authorization": f"Bearer {token}"})
    assert connection.getresponse().status == status
    connection.close()


def test_the_configuration_itself_is_never_read_as_a_value(fishy: Fishy) -> None:
    fishy.configure(f"kube://{OWN}", token=f"{CANARY}-token")
    fishy.serve(refreshInterval=SELDOM)
    fishy.ask("db", {"T": f"{CONFIG}/token"})
    fishy.until("db", "FetchError")
    assert fishy.data("db", TARGET) is None
    eventually(lambda: fishy.stage.events("team", "FetchError", "db"))
