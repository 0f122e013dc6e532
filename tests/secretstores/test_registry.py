"""Tests which store a configuration opens, and which configurations are refused without a connection."""

from __future__ import annotations

import asyncio

import pytest
from tests.secretstores.contexts import CONTEXT

from samara.core.model import SECRET, Ref
from samara.secretstores import registry
from samara.secretstores.aws import SecretsManager
from samara.secretstores.base import Store, StoreConfigError
from samara.secretstores.local import Files, KubeSecrets
from samara.secretstores.registry import Scheme, StoreArguments, open_store, refuse_plain_text
from samara.secretstores.vault import Vault

CANARY = "canary-7f3a9"


def open_url(url: str) -> Store:
    return asyncio.run(open_store({"url": url.encode(), "token": b"t"}, CONTEXT))


def refused(url: str) -> StoreConfigError:
    with pytest.raises(StoreConfigError) as caught:
        open_url(url)
    return caught.value


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> list[StoreArguments]:
    """Three more schemes, whose stores only record their arguments."""
    seen: list[StoreArguments] = []

    def make(given: StoreArguments) -> Store:
        seen.append(given)
        return Files.__new__(Files)

    def missing(given: StoreArguments) -> Store:
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")

    more = {"fishykeys": Scheme(make, is_plain_text=True), "safe+tls": Scheme(make), "rare": Scheme(missing)}
    monkeypatch.setattr(registry, "SCHEMES", {**registry.SCHEMES, **more})
    return seen


def test_the_scheme_chooses_the_store() -> None:
    assert isinstance(open_url("file:///etc/values\n"), Files)
    assert isinstance(open_url("kube://team"), KubeSecrets)


VAULT_URL = "vault+https://vault.example:8200/secret"
AWS_URL = "aws-sm://eu-central-1"


@pytest.mark.parametrize(
    ("url", "keys"),
    [
        ("kube://team", {}),
        ("kube://samara", {}),
        ("file:///etc/values", {}),
        (VAULT_URL, {"role": b"samara"}),
        (AWS_URL, {}),
    ],
)
def test_a_store_that_reads_as_the_operator_needs_a_configuration_in_the_operators_namespace(
    url: str, keys: dict[str, bytes]
) -> None:
    """The authors of a configuration in a tenant's namespace would otherwise read with the operator's rights."""
    elsewhere = CONTEXT._replace(config=Ref(SECRET, "tenant", "config"))
    with pytest.raises(StoreConfigError, match="operator's namespace team; this one is in tenant") as caught:
        asyncio.run(open_store({"url": url.encode(), **keys}, elsewhere))
    assert caught.value.reason == "ConnectionError"


@pytest.mark.parametrize(
    ("url", "keys"),
    [(VAULT_URL, {"token": b"t"}), (AWS_URL, {"access-key-id": b"AKIA", "secret-access-key": b"s"})],
)
def test_a_store_with_credentials_of_its_configuration_may_be_configured_in_any_namespace(
    url: str, keys: dict[str, bytes]
) -> None:
    elsewhere = CONTEXT._replace(config=Ref(SECRET, "tenant", "config"))

    async def opened() -> type[Store]:
        store = await open_store({"url": url.encode(), **keys}, elsewhere)
        await store.close()
        return type(store)

    assert asyncio.run(opened()) in (Vault, SecretsManager)


def test_the_store_gets_the_names_of_the_operators_own_secrets() -> None:
    store = open_url("kube://team")
    assert isinstance(store, KubeSecrets)
    assert "config" in store.refused


def test_an_address_without_a_scheme_is_a_fishykeys_server(toys: list[StoreArguments]) -> None:
    open_url("localhost:8090")
    (given,) = toys
    assert (given.url.scheme, given.url.hostname, given.url.port) == ("fishykeys", "localhost", 8090)
    assert given.config["token"] == b"t"


@pytest.mark.parametrize("url", ["localhost:1", "127.0.0.1:1", "[::1]:1", "keys.example:1?insecure=true"])
def test_plain_text_is_sent_to_loopback_or_with_insecure_true(toys: list[StoreArguments], url: str) -> None:
    open_url(url)
    assert len(toys) == 1


@pytest.mark.parametrize(
    "url", ["keys.example:1", "10.0.0.1:1", "localhost.example:1", "k:1?insecure=yes", "k:1?insecure="]
)
def test_plain_text_is_sent_to_no_other_host(toys: list[StoreArguments], url: str) -> None:
    fault = refused(url)
    assert fault.reason == "ConnectionError"
    assert "insecure=true" in str(fault)
    assert toys == []


def test_a_store_can_check_another_address_by_the_same_rule() -> None:
    url = registry.parse_url("aws-sm://eu-west-1?endpoint=http://e.example")
    with pytest.raises(StoreConfigError):
        refuse_plain_text(url, "e.example")
    refuse_plain_text(url, "127.0.0.1")


@pytest.mark.parametrize("who", [f"me:{CANARY}@", f"{CANARY}@", f":{CANARY}@", f"me:{CANARY}%40@"])
def test_credentials_in_the_url_are_refused_without_showing_them(toys: list[StoreArguments], who: str) -> None:
    fault = refused(f"safe+tls://{who}v.example/kv")
    assert fault.reason == "ConnectionError"
    assert CANARY not in str(fault)
    assert toys == []


@pytest.mark.parametrize(
    "url",
    [
        "https://v.example",
        "dns:///keys:8090",
        "localhost:port",
        "localhost:99999",
        "safe+tls://[::1",
        "safe+tls://keys#1",
        "safe+tls://ke ys",
        "safe+tls://v.example/kv?kv=1&kv=2",
    ],
)
def test_an_invalid_url_is_refused(toys: list[StoreArguments], url: str) -> None:
    assert refused(url).reason == "ConnectionError"
    assert toys == []


@pytest.mark.parametrize("config", [{}, {"url": b""}, {"url": b" \n"}, {"url": b"\xff"}])
def test_without_a_url_there_is_no_store(config: dict[str, bytes]) -> None:
    with pytest.raises(StoreConfigError) as caught:
        asyncio.run(open_store(config, CONTEXT))
    assert caught.value.reason == "TokenError"
    assert "url" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["keys.example:8090", "fishykeys://keys.example:8090", "fishykeys+tls://keys.example:1"]
)
@pytest.mark.parametrize("token", [{}, {"token": b" \n"}])
def test_a_missing_token_is_reported_before_faults_of_the_url(url: str, token: dict[str, bytes]) -> None:
    with pytest.raises(StoreConfigError, match="has no token") as caught:
        asyncio.run(open_store({"url": url.encode(), **token}, CONTEXT))
    assert caught.value.reason == "TokenError"


def test_an_unknown_scheme_names_those_that_are_known() -> None:
    assert "file, " in str(refused("gopher://v.example"))
    assert "found 'gopher'" in str(refused("gopher://v.example"))


@pytest.mark.parametrize(
    "url",
    [
        "s.canaryCanary4711://host",
        "hvs.canary",
        "fishykeys://canary.example:8090",
        "aws-sm://eu-west-1?endpoint=https://key:canary@host.example",
        "aws-sm://eu-west-1?endpoint=https%3A%2F%2Fkey%3Acanary%40host.example",
        "aws-sm://eu-west-1?endpoint=http://canary.example",
        "aws-sm://eu-west-1?endpoint=canary",
        "vault+http://canary.example/kv",
    ],
)
def test_no_message_quotes_a_part_of_the_url_that_may_be_a_token(url: str) -> None:
    assert "canary" not in str(refused(url)).lower()


def test_a_package_that_is_not_installed_is_named(toys: list[StoreArguments]) -> None:
    fault = refused("rare://v.example")
    assert fault.reason == "ConnectionError"
    assert "the package grpc" in str(fault)
