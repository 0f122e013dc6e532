"""`kube://` reads Secrets of one namespace of this cluster, except for those that are never read."""

import asyncio
from urllib.parse import urlsplit

import pytest

from samara.secretstores.base import Forbidden, KubeSecret, Location, NotFound, StoreConfigError, Unusable
from samara.secretstores.local import KubeSecrets, open_kube

CONFIG = ("samara", "fishysecret-config")


class Server:
    """The cluster's Secrets, and the names that were requested."""

    def __init__(self, *secrets: tuple[str, str, KubeSecret]) -> None:
        self.secrets = {(namespace, name): secret for namespace, name, secret in secrets}
        self.requested: list[tuple[str, str]] = []

    async def read(self, namespace: str, name: str) -> KubeSecret:
        self.requested.append((namespace, name))
        if (namespace, name) not in self.secrets:
            raise NotFound("no such Secret")
        return self.secrets[namespace, name]


def store(server: Server, url: str = "kube://vault") -> KubeSecrets:
    return open_kube(urlsplit(url), server.read, [CONFIG])


def value(store: KubeSecrets, path: str) -> bytes:
    async def run() -> bytes:
        location = store.locate(path)
        return (await store.read(location.document)).value(location.field)

    return asyncio.run(run())


def test_a_path_is_a_secret_and_a_key_of_it() -> None:
    server = Server(("vault", "db", KubeSecret("Opaque", {"password": b"\0\xff"})))
    assert value(store(server), "/db/password") == b"\0\xff"
    assert value(store(server), "db/password") == b"\0\xff"
    assert server.requested == [("vault", "db")] * 2


def test_all_keys_of_a_secret_are_one_document() -> None:
    there = store(Server())
    assert there.locate("db/user") == Location("db", "user")
    assert there.locate("db/tls.crt").document == "db"


@pytest.mark.parametrize("path", ["db", "a/b/c", "db#user", "db/a#b", "Db/user", "db/a b", "db/ü", "-db/user"])
def test_any_other_path_is_refused(path: str) -> None:
    with pytest.raises(Unusable):
        store(Server()).locate(path)


def test_a_missing_secret_and_a_missing_key_are_absent() -> None:
    server = Server(("vault", "db", KubeSecret("Opaque", {})))
    for path in ("db/password", "other/password"):
        with pytest.raises(NotFound):
            value(store(server), path)


@pytest.mark.parametrize(
    ("url", "path"), [("kube://samara", "fishysecret-config/token"), ("kube://vault", "samara-webhook-tls/tls.key")]
)
def test_the_operators_own_secrets_are_refused_without_a_request(url: str, path: str) -> None:
    server = Server()
    with pytest.raises(Forbidden, match="operator's own"):
        value(store(server, url), path)
    assert server.requested == []


def test_a_secret_of_the_configurations_name_in_another_namespace_is_read() -> None:
    server = Server(("vault", "fishysecret-config", KubeSecret("Opaque", {"token": b"x"})))
    assert value(store(server), "fishysecret-config/token") == b"x"


@pytest.mark.parametrize(
    "kind", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"]
)
def test_secrets_that_are_never_copied_are_refused(kind: str) -> None:
    server = Server(("vault", "db", KubeSecret(kind, {"token": b"x"})))
    with pytest.raises(Forbidden, match=kind):
        value(store(server), "db/token")


@pytest.mark.parametrize("url", ["kube://", "kube://A", "kube://a/b", "kube://a?b=c", "kube://a:1", "kube://u@a"])
def test_the_url_names_one_namespace(url: str) -> None:
    with pytest.raises(StoreConfigError, match="kube://<namespace>") as caught:
        open_kube(urlsplit(url), Server().read, ())
    assert caught.value.reason == "ConnectionError"
