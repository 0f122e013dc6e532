"""Exec plugins that are missing, fail, hang or print what cannot be used."""

from __future__ import annotations

import asyncio
import json
import os
import select
from pathlib import Path
from typing import Any

import pytest
from tests.kube.files import CANARY, headers
from tests.kube.plugins import BETA, CONTEXT, ENV, V1, access, credential, fault, prints, ready, script, spec

from samara.kube.auth.exec_plugin import Exec, ExecCredentials, Plugin
from samara.kube.errors import ConfigError, SamaraError, Unreachable


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "found 'client.authentication.k8s.io/v1alpha1'"),
        ({"apiVersion": None}, "expected an exec apiVersion of"),
        ({"command": ""}, "expected a command in exec, found none"),
        ({"interactiveMode": None}, "expected an exec interactiveMode of Never, IfAvailable, Always, found ''"),
        ({"interactiveMode": "Sometimes"}, "found 'Sometimes'"),
    ],
)
def test_a_plugin_that_cannot_run_is_refused_when_loading(tmp_path: Path, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        access(tmp_path, spec("c") | wrong)


def test_the_error_for_a_missing_command_has_the_install_hint(tmp_path: Path) -> None:
    error = fault(tmp_path, spec("no-such-plugin", installHint="Get it\n  from example.com\n"))

    assert isinstance(error, ConfigError)
    assert str(error).endswith("the exec plugin no-such-plugin was not found; Get it from example.com")
    assert str(fault(tmp_path, spec("no-such-plugin"))).endswith("install it or correct PATH")


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plugin"
    path.write_text("#!/no/such/shell\n")
    path.chmod(0o700)

    assert "cannot run: " in str(fault(tmp_path, spec(str(path))))


def test_the_error_contains_the_last_line_of_a_failing_plugin(tmp_path: Path) -> None:
    command = script(tmp_path / "plugin", f"echo {CANARY}; echo first >&2; echo 'please log in' >&2; exit 7")

    error = fault(tmp_path, spec(command))

    assert isinstance(error, Unreachable)
    assert str(error).endswith(f"the exec plugin {command} exited 7: please log in")


def test_the_error_names_a_failing_plugin_without_output(tmp_path: Path) -> None:
    assert str(fault(tmp_path, spec(script(tmp_path / "plugin", "exit 1")))).endswith("it printed nothing on stderr")


def test_a_token_on_stderr_is_not_repeated(tmp_path: Path) -> None:
    token = f"{CANARY}-{'x' * 40}"
    command = script(tmp_path / "plugin", f"echo 'bad token {token} given' >&2; exit 1")

    assert str(fault(tmp_path, spec(command))).endswith("exited 1: bad token … given")


@pytest.mark.parametrize("bad", ["exit 1", "echo no", f"echo '{credential(token='two words')}'"])
def test_a_plugin_that_failed_is_run_again_for_the_next_request(tmp_path: Path, bad: str) -> None:
    loaded = access(tmp_path, spec(script(tmp_path / "plugin", bad)))
    with pytest.raises(SamaraError):
        headers(loaded)

    prints(tmp_path, credential(token="t"))

    assert headers(loaded) == [("Authorization", "Bearer t")]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "an ExecCredential in JSON"),
        (CANARY, "an ExecCredential in JSON"),
        (f'{{"kind": "ExecCredential", "status": {{"token": ["{CANARY}"]}}}}', "an ExecCredential in JSON"),
        (credential(BETA, token=CANARY), f"an ExecCredential of {V1}; let both name the same apiVersion"),
        (json.dumps({"apiVersion": V1, "kind": "Secret", "status": {"token": CANARY}}), "an ExecCredential of"),
        (credential(), "a token or a client certificate"),
        (json.dumps({"apiVersion": V1, "kind": "ExecCredential"}), "a token or a client certificate"),
        (credential(token=CANARY, clientKeyData=CANARY), "together"),
        (credential(token=f"{CANARY}\r\nX-Evil: 1"), "expected a token"),
        (credential(token=CANARY, expirationTimestamp="tomorrow"), "an ExecCredential in JSON"),
        (credential(token=CANARY, expirationTimestamp="2030-01-01T00:00:00"), "an ExecCredential in JSON"),
        (credential(clientCertificateData=CANARY, clientKeyData=CANARY), "a client certificate in PEM"),
    ],
)
def test_an_unusable_answer_is_refused_without_showing_it(tmp_path: Path, answer: str, says: str) -> None:
    error = fault(tmp_path, spec(prints(tmp_path, answer)))

    assert isinstance(error, ConfigError)
    assert says in str(error)


@pytest.mark.parametrize("end", ["wait", "exit 0"])
def test_a_plugin_that_hangs_is_killed_with_its_child_processes(tmp_path: Path, end: str) -> None:
    command = script(tmp_path / "plugin", f"sleep 1000 & echo $! > '{tmp_path}/child'; {end}")
    fast = Plugin("user 'u'", Exec(V1, command), ENV, is_interactive=False, timeout=3.0)

    with pytest.raises(Unreachable, match="gave no answer in 3 s"):
        asyncio.run(ExecCredentials(fast, CONTEXT).headers())

    assert _gone(int((tmp_path / "child").read_text()))


def test_a_plugin_does_not_outlive_the_request_that_started_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = script(tmp_path / "plugin", f"echo $$ > '{pipe}'; exec sleep 1000")

    async def cancel() -> int:
        task = asyncio.create_task(ExecCredentials(ready(command), CONTEXT).headers())
        started = int(await asyncio.to_thread(pipe.read_text))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return started

    assert _gone(asyncio.run(cancel()))


def _gone(pid: int) -> bool:
    """True if a process has ended or is ending. A killed process closes its pipes shortly before it ends."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([handle], [], [], 5)
    os.close(handle)
    return bool(ended)


def test_no_repr_shows_a_secret(tmp_path: Path) -> None:
    loaded = ready("c", args=(CANARY,))
    credentials = ExecCredentials(ready(prints(tmp_path, credential(token=CANARY))), CONTEXT)
    asyncio.run(credentials.headers())

    assert CANARY not in f"{loaded!r} {credentials!r}"
