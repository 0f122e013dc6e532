"""Exec plugins: real commands, run by the real kubeconfig that names them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.kube import pki
from tests.kube.files import headers
from tests.kube.plugins import BETA, CONTEXT, ENV, V1, access, credential, prints, ready, runs, script, spec

from samara.kube.auth.exec_plugin import Exec, ExecCredentials, checked_plugin
from samara.kube.errors import ConfigError, Unreachable


@pytest.mark.parametrize("version", [V1, BETA])
def test_the_token_a_plugin_prints_is_sent(tmp_path: Path, version: str) -> None:
    command = prints(tmp_path, credential(version, token="t"))

    assert headers(access(tmp_path, spec(command, version))) == [("Authorization", "Bearer t")]


def test_a_plugin_gets_its_arguments_and_both_environments(tmp_path: Path) -> None:
    answer = f'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"$1-$2-$MINE-$0"}}}}'
    command = script(tmp_path / "plugin", f'test -n "$PATH" || exit 1; cat <<END\n{answer}\nEND')

    loaded = access(tmp_path, spec(command, args=["a", "b"], env=[{"name": "MINE", "value": "c"}]))

    assert headers(loaded) == [("Authorization", f"Bearer a-b-c-{command}")]


def test_a_command_with_a_slash_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "plugin", f"echo '{credential(token='t')}'")

    assert headers(access(tmp_path, spec("bin/plugin"))) == [("Authorization", "Bearer t")]


def test_a_bare_command_is_found_on_the_path(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "plugin-on-path", f"echo '{credential(token='t')}'")
    path = f"{tmp_path}/bin{os.pathsep}{ENV['PATH']}"
    on_path = checked_plugin(
        "u", Exec(V1, "plugin-on-path", interactive_mode="Never"), None, {"PATH": path}, has_terminal=False
    )

    assert asyncio.run(ExecCredentials(on_path, CONTEXT).headers()) == [("Authorization", "Bearer t")]


def test_an_answer_without_expiry_is_kept_until_a_401(tmp_path: Path) -> None:
    loaded = access(tmp_path, spec(prints(tmp_path, credential(token="t"))))
    headers(loaded)
    headers(loaded)
    assert runs(tmp_path) == 1

    loaded.credentials.forget()
    headers(loaded)

    assert runs(tmp_path) == 2


def test_an_answer_is_kept_until_it_expires(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    command = prints(tmp_path, credential(token="t", expirationTimestamp="2030-01-01T00:10:00Z"))
    credentials = ExecCredentials(ready(command), CONTEXT, now=lambda: now)

    asyncio.run(credentials.headers())
    now += timedelta(minutes=10, seconds=-1)
    asyncio.run(credentials.headers())
    assert runs(tmp_path) == 1
    now += timedelta(seconds=1)
    asyncio.run(credentials.headers())

    assert runs(tmp_path) == 2


def test_concurrent_requests_wait_for_one_run(tmp_path: Path) -> None:
    loaded = access(tmp_path, spec(prints(tmp_path, credential(token="t"))))

    async def many() -> list[list[tuple[str, str]]]:
        return await asyncio.gather(*(loaded.credentials.headers() for _ in range(20)))

    assert asyncio.run(many()) == [[("Authorization", "Bearer t")]] * 20
    assert runs(tmp_path) == 1


def test_a_token_in_the_kubeconfig_outranks_the_plugin(tmp_path: Path) -> None:
    loaded = access(tmp_path, spec(str(tmp_path / "missing")), user={"token": "t"})

    assert headers(loaded) == [("Authorization", "Bearer t")]


def test_a_client_certificate_from_a_plugin_is_presented_by_the_same_context(tmp_path: Path) -> None:
    ca = pki.authority()
    serving, ann, bob = pki.server(ca, "server"), pki.client(ca, "ann"), pki.client(ca, "bob")
    command = prints(tmp_path, _pair(ann))
    authority = {"certificate-authority-data": base64.b64encode(ca.certificate).decode()}
    loaded = access(tmp_path, spec(command), authority)
    context = loaded.ssl
    assert context

    assert pki.handshake(context, ca, serving, "server") is None
    assert headers(loaded) == []
    assert pki.handshake(context, ca, serving, "server") == "ann"
    prints(tmp_path, _pair(bob))
    loaded.credentials.forget()
    headers(loaded)
    assert pki.handshake(context, ca, serving, "server") == "bob"


def _pair(pair: pki.Pair) -> str:
    return credential(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode())


def test_a_plugin_gets_the_cluster_with_provide_cluster_info(tmp_path: Path) -> None:
    ca = pki.authority()
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    config = {"audience": "x"}
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "inner",
        "proxy-url": "http://p",
        "extensions": [
            {"name": "other", "extension": {}},
            {"name": "client.authentication.k8s.io/exec", "extension": config},
        ],
    }
    command = script(
        tmp_path / "plugin", f"echo \"$KUBERNETES_EXEC_INFO\" > '{tmp_path}/info'; echo '{credential(token='t')}'"
    )

    headers(access(tmp_path, spec(command, provideClusterInfo=True), cluster))

    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://server:6443",
                "certificate-authority-data": base64.b64encode(ca.certificate).decode(),
                "tls-server-name": "inner",
                "proxy-url": "http://p",
                "config": config,
            },
        },
    }


def test_a_plugin_does_not_get_the_cluster_otherwise(tmp_path: Path) -> None:
    info = json.loads(ready("c").env["KUBERNETES_EXEC_INFO"])

    assert info == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}


def test_a_plugin_can_ask_at_a_terminal() -> None:
    asks = {
        (mode, terminal): checked_plugin(
            "u", Exec(BETA, "c", interactive_mode=mode), None, ENV, terminal
        ).is_interactive
        for mode in ("", "Never", "IfAvailable")
        for terminal in (True, False)
    }

    assert [key for key, interactive in asks.items() if interactive] == [("", True), ("IfAvailable", True)]
    assert checked_plugin("u", Exec(V1, "c", interactive_mode="Always"), None, ENV, has_terminal=True).is_interactive


def test_the_output_of_a_plugin_appears_at_a_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = script(tmp_path / "plugin", "echo 'open the browser' >&2; exit 3")
    asking = checked_plugin("u", Exec(BETA, command), None, ENV, has_terminal=True)

    with pytest.raises(Unreachable, match="exited 3: see what it printed above"):
        asyncio.run(ExecCredentials(asking, CONTEXT).headers())

    assert "open the browser" in capfd.readouterr().err


def test_an_interactive_plugin_is_refused_without_a_terminal() -> None:
    with pytest.raises(ConfigError, match=r"user 'u': the exec plugin c needs a terminal \(interactiveMode: Always\)"):
        checked_plugin("user 'u'", Exec(V1, "c", interactive_mode="Always"), None, ENV, has_terminal=False)
