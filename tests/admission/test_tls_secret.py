"""Tests the Secret with our certificates: writing, watching, and edits by others."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tests.admission.scene import HOME, SECRET_PATH, Scene, held, on_scene
from tests.kube.scripted import Answer, cuts, refuses, says

from samara.admission.certificates import CERT_MANAGER, Certificates, TlsSecret, from_data, names_of, to_data
from samara.assembly import CERTIFICATE
from samara.kube.object_watch import secret_data

NAMES = ("samara-webhook.samara.svc",)
DAY = timedelta(days=1).total_seconds()


async def a_secret(
    scene: Scene, leads: bool = True, names: tuple[str, ...] = NAMES
) -> tuple[TlsSecret, list[Certificates]]:
    """A running replica, and the certificates that its server has loaded."""
    taken: list[Certificates] = []
    made = await scene.secret(names, taken.append, leads)
    scene.start(made)
    return made, taken


def shown(certificates: Certificates) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificates.serving)


def not_ready_reason(replica: TlsSecret) -> str | None:
    return replica.not_ready_reason


def stored(scene: Scene) -> Certificates | None:
    secret = scene.cluster.objects.get(SECRET_PATH)
    return None if secret is None else from_data(secret_data(json.dumps(secret).encode())[1])


def puts(scene: Scene, data: dict[str, Any], **more: Any) -> None:
    scene.cluster.write(SECRET_PATH, {"metadata": {"name": CERTIFICATE, "namespace": HOME}, "data": data, **more})


def test_the_leader_creates_the_secret_and_every_replica_serves_it() -> None:
    async def scenario(scene: Scene) -> None:
        standby, followed = await a_secret(scene, leads=False)
        await scene.turns()
        assert stored(scene) is None
        assert not_ready_reason(standby) == "no certificate yet"
        leader, taken = await a_secret(scene)
        await scene.until(lambda: followed and taken)
        assert followed == taken == [stored(scene)]
        assert not_ready_reason(standby) is not_ready_reason(leader) is None
        assert standby.bundle == held(scene.cluster, "ca.crt")
        assert scene.cluster.objects[SECRET_PATH]["type"] == "kubernetes.io/tls"

    on_scene(scenario)


def test_two_leaders_agree_on_one_certificate() -> None:
    async def scenario(scene: Scene) -> None:
        _, one = await a_secret(scene)
        _, two = await a_secret(scene)
        await scene.until(lambda: one and two and one[-1] == two[-1] == stored(scene))
        writes = len(scene.cluster.writes)
        await scene.turns()
        assert len(scene.cluster.writes) == writes

    on_scene(scenario)


def test_two_operators_with_different_names_agree_on_one_certificate() -> None:
    async def scenario(scene: Scene) -> None:
        _, one = await a_secret(scene, names=("one.svc",))
        _, two = await a_secret(scene, names=("two.svc",))
        both = frozenset({"one.svc", "two.svc"})
        await scene.until(lambda: all(seen and names_of(shown(seen[-1])) == both for seen in (one, two)))
        writes = len(scene.cluster.writes)
        await scene.turns(10)
        assert len(scene.cluster.writes) == writes

    on_scene(scenario)


def test_an_existing_secret_is_used_and_not_written() -> None:
    async def scenario(scene: Scene) -> None:
        await a_secret(scene)
        await scene.until(lambda: stored(scene))
        writes = list(scene.cluster.writes)
        _, taken = await a_secret(scene)
        await scene.until(lambda: taken)
        await scene.turns()
        assert scene.cluster.writes == writes

    on_scene(scenario)


def test_a_rotation_reaches_every_replica() -> None:
    async def scenario(scene: Scene) -> None:
        _, followed = await a_secret(scene, leads=False)
        await a_secret(scene)
        await scene.until(lambda: followed)
        scene.clock.ahead = 61 * DAY
        await scene.until(lambda: len(followed) == 2)
        assert followed[0].serving != followed[1].serving
        assert followed[0].bundle == followed[1].bundle

    on_scene(scenario)


def test_a_deleted_secret_is_restored() -> None:
    async def scenario(scene: Scene) -> None:
        await a_secret(scene)
        await scene.until(lambda: stored(scene))
        before = stored(scene)
        scene.cluster.delete(SECRET_PATH)
        await scene.until(lambda: stored(scene))
        assert stored(scene) == before

    on_scene(scenario)


BROKEN: list[dict[str, Any]] = [
    {},
    {"tls.crt": "", "tls.key": ""},
    {"tls.crt": "no base64", "tls.key": "=", "ca.crt": 7, "ca.key": None},
    {"tls.crt": base64.b64encode(b"no PEM").decode(), "tls.key": base64.b64encode(b"no key").decode()},
]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_secret_is_replaced_by_the_served_certificates(data: dict[str, Any]) -> None:
    async def scenario(scene: Scene) -> None:
        _, followed = await a_secret(scene, leads=False)
        await a_secret(scene)
        await scene.until(lambda: followed)
        before = stored(scene)
        puts(scene, data)
        await scene.until(lambda: stored(scene) == before)
        await scene.turns()
        assert followed == [before]

    on_scene(scenario)


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_a_secret_that_is_broken_at_the_start_is_replaced(data: dict[str, Any]) -> None:
    async def scenario(scene: Scene) -> None:
        puts(scene, data, type="Opaque")
        _, taken = await a_secret(scene)
        await scene.until(lambda: taken)
        assert taken == [stored(scene)]
        assert (
            scene.cluster.objects[SECRET_PATH]["type"] == "Opaque"
        )  # the server refuses every update of an immutable Secret

    on_scene(scenario)


def test_an_immutable_secret_is_deleted_and_created_again() -> None:
    async def scenario(scene: Scene) -> None:
        puts(scene, {}, immutable=True)
        scene.cluster.odd["PUT", SECRET_PATH] = refuses(422, "Invalid", "field is immutable when `immutable` is set")
        _, taken = await a_secret(scene)
        await scene.until(lambda: taken)
        assert "immutable" not in scene.cluster.objects[SECRET_PATH]

    on_scene(scenario)


def test_cert_managers_secret_is_served_and_never_written() -> None:
    async def scenario(scene: Scene) -> None:
        await a_secret(scene)
        await scene.until(lambda: stored(scene))
        theirs = stored(scene)
        assert theirs is not None
        scene.cluster.delete(SECRET_PATH)
        data = {key: value for key, value in to_data(theirs).items() if key != "ca.key"}
        meta = {"name": CERTIFICATE, "annotations": {CERT_MANAGER: "webhook"}}
        scene.cluster.write(SECRET_PATH, {"metadata": meta, "data": data})
        writes = list(scene.cluster.writes)
        _, taken = await a_secret(scene, names=("another.name",))
        await scene.until(lambda: taken)
        await scene.turns()
        assert scene.cluster.writes == writes

    on_scene(scenario)


FAULTS: list[Answer] = [refuses(500), refuses(403, "Forbidden"), cuts, says(b"no json"), says({"metadata": 7})]


@pytest.mark.parametrize("fault", FAULTS, ids=range(len(FAULTS)))
def test_errors_are_reported_and_retried(fault: Answer) -> None:
    async def scenario(scene: Scene) -> None:
        scene.cluster.broken = fault
        made, taken = await a_secret(scene)
        await scene.until(lambda: made.not_ready_reason != "no certificate yet")
        assert str(made.not_ready_reason).startswith(f"cannot read Secret {HOME}/{CERTIFICATE}: ")
        scene.cluster.broken = None
        await scene.until(lambda: taken)
        assert made.not_ready_reason is None

    on_scene(scenario)


def test_a_certificate_that_openssl_refuses_is_reported_and_ends_nothing() -> None:
    """The key belongs to the certificate but is too short for OpenSSL."""

    async def scenario(scene: Scene) -> None:
        server = await scene.webhook_server()
        replica = await scene.secret(NAMES, server.load, leads=False)
        short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
        puts(scene, to_data(short_lived(short)))
        scene.start(replica)
        await scene.until(lambda: replica.not_ready_reason != "no certificate yet")
        assert "expected a certificate that can be served, found: EE_KEY_TOO_SMALL" in str(replica.not_ready_reason)
        assert replica.bundle == b""

    on_scene(scenario)


def short_lived(key: rsa.RSAPrivateKey) -> Certificates:
    now, name = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAMES[0])])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1)).sign(key, SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificates(made.public_bytes(Encoding.PEM), private)


def test_a_closed_watch_is_opened_again() -> None:
    async def scenario(scene: Scene) -> None:
        _, followed = await a_secret(scene, leads=False)
        await a_secret(scene)
        await scene.until(lambda: followed)
        scene.cluster.cut_watches()
        scene.clock.ahead = 61 * DAY
        await scene.until(lambda: len(followed) == 2)

    on_scene(scenario)


def test_an_older_version_of_the_secret_is_ignored() -> None:
    async def scenario(scene: Scene) -> None:
        _, followed = await a_secret(scene, leads=False)
        await a_secret(scene)
        await scene.until(lambda: followed)
        before = scene.cluster.objects[SECRET_PATH]
        scene.clock.ahead = 61 * DAY
        await scene.until(lambda: len(followed) == 2)
        scene.cluster.send_event("MODIFIED", before)
        scene.cluster.send_event("DELETED", {**before, "metadata": {**before["metadata"], "uid": "another"}})
        scene.cluster.send_event("BOOKMARK", {"metadata": {"resourceVersion": "1"}})
        writes = list(scene.cluster.writes)
        await scene.turns()
        assert len(followed) == 2
        assert scene.cluster.writes == writes

    on_scene(scenario)


def test_an_error_in_the_watch_opens_it_again() -> None:
    async def scenario(scene: Scene) -> None:
        _, followed = await a_secret(scene, leads=False)
        await a_secret(scene)
        await scene.until(lambda: followed)
        scene.cluster.send_event("ERROR", {"kind": "Status", "code": 410})
        scene.clock.ahead = 61 * DAY
        await scene.until(lambda: len(followed) == 2)

    on_scene(scenario)


def test_no_key_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def scenario(scene: Scene) -> None:
        await a_secret(scene)
        await scene.until(lambda: stored(scene))
        puts(scene, {"tls.key": "c2VjcmV0"})
        await scene.turns()

    on_scene(scenario)
    logged = " ".join(f"{record.getMessage()} {record.__dict__.get('fields')}" for record in caplog.records)
    assert "webhook-certificate.written" in logged
    assert "PRIVATE" not in logged
    assert "c2VjcmV0" not in logged
