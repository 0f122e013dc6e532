"""Credentials that a command prints: client.authentication.k8s.io/v1 and v1beta1."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ssl import SSLContext
from typing import Annotated, Any

import msgspec

from samara.kube.auth.credentials import bearer
from samara.kube.auth.tls import load_client_certificate
from samara.kube.errors import ConfigError, Unreachable, redact

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MODES = ("Never", "IfAvailable", "Always")
INFO_VARIABLE = "KUBERNETES_EXEC_INFO"
TIMEOUT = 60.0
"""Seconds."""
INTERACTIVE_TIMEOUT = 300.0
"""Seconds. A person who logs in takes longer."""

# Matches a token that a plugin may print to stderr. No word of an explanation is this long.
_TOKEN_LIKE = re.compile(r"[\w+=.-]{40,}")


class EnvVar(msgspec.Struct, frozen=True):
    """An environment variable that the kubeconfig sets for the plugin."""

    name: str
    value: str = ""

    def __repr__(self) -> str:
        return f"EnvVar({self.name})"


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """The `exec` part of a kubeconfig's user."""

    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""

    def __repr__(self) -> str:
        return f"Exec({self.command})"


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    def __repr__(self) -> str:
        return "_Answer(…)"


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Answer | None = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """A command that was checked, with its environment."""

    origin: str
    """The part of the kubeconfig that names the command. Errors begin with it."""
    spec: Exec
    env: Mapping[str, str] = field(repr=False)
    is_interactive: bool
    """True if it may use the terminal."""
    timeout: float


def checked_plugin(
    origin: str, spec: Exec, cluster: Mapping[str, Any] | None, env: Mapping[str, str], has_terminal: bool
) -> Plugin:
    """Checks the `exec` part and builds the environment. `cluster` is passed on if provideClusterInfo is set."""
    if spec.api_version not in VERSIONS:
        raise ConfigError(
            f"{origin}: expected an exec apiVersion of {' or '.join(VERSIONS)}, found {spec.api_version!r}"
        )
    if not spec.command:
        raise ConfigError(f"{origin}: expected a command in exec, found none")
    is_interactive = _mode(origin, spec, has_terminal) != "Never" and has_terminal
    request = {"interactive": is_interactive} | ({"cluster": cluster} if cluster is not None else {})
    info = {"apiVersion": spec.api_version, "kind": "ExecCredential", "spec": request}
    configured = {variable.name: variable.value for variable in spec.env}
    environment = {**env, **configured, INFO_VARIABLE: msgspec.json.encode(info).decode()}
    return Plugin(origin, spec, environment, is_interactive, INTERACTIVE_TIMEOUT if is_interactive else TIMEOUT)


def _mode(origin: str, spec: Exec, has_terminal: bool) -> str:
    # v1 requires the field; v1beta1 has this default.
    mode = spec.interactive_mode or ("IfAvailable" if spec.api_version.endswith("beta1") else "")
    if mode not in MODES:
        raise ConfigError(f"{origin}: expected an exec interactiveMode of {', '.join(MODES)}, found {mode!r}")
    if mode == "Always" and not has_terminal:
        raise ConfigError(
            f"{origin}: the exec plugin {spec.command} needs a terminal (interactiveMode: Always) and there is none;"
            " use credentials that need no person"
        )
    return mode


def _now() -> datetime:
    return datetime.now(UTC)


class ExecCredentials:
    """Runs the plugin for the first request, when its credentials have expired, and after a 401."""

    __slots__ = ("_answer", "_context", "_lock", "_now", "_plugin")

    def __init__(self, plugin: Plugin, context: SSLContext, now: Callable[[], datetime] = _now) -> None:
        self._plugin = plugin
        self._context = context
        self._now = now
        self._answer: _Answer | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> list[tuple[str, str]]:
        async with self._lock:  # concurrent requests wait for one run
            answer = self._answer
            if answer is None or self._expired(answer):
                answer = self._answer = await self._fetch()
        return self._headers(answer)

    def forget(self) -> None:
        self._answer = None

    def _headers(self, answer: _Answer) -> list[tuple[str, str]]:
        return [bearer(answer.token, f"exec plugin {self._plugin.spec.command}")] if answer.token else []

    def _expired(self, answer: _Answer) -> bool:
        return answer.expiration_timestamp is not None and self._now() >= answer.expiration_timestamp

    async def _fetch(self) -> _Answer:
        answer = _parse(self._plugin, await _run(self._plugin))
        self._headers(answer)  # raises for an invalid token, so that it is not kept
        if answer.client_certificate_data and answer.client_key_data:
            # New connections of this context present the pair.
            certificate, key = answer.client_certificate_data.encode(), answer.client_key_data.encode()
            origin = f"{self._plugin.origin}, from its exec plugin"
            await asyncio.to_thread(load_client_certificate, self._context, certificate, key, origin)
        return answer


async def _run(plugin: Plugin) -> bytes:
    process = await _start(plugin)
    try:
        async with asyncio.timeout(plugin.timeout):
            out, err = await process.communicate()
    except TimeoutError as error:
        await _kill(plugin, process)
        raise Unreachable(
            f"{plugin.origin}: the exec plugin {plugin.spec.command} gave no answer in {plugin.timeout:g} s"
        ) from error
    except asyncio.CancelledError:
        await _kill(plugin, process)
        raise
    if process.returncode != 0:
        why = _last_line(err)
        raise Unreachable(f"{plugin.origin}: the exec plugin {plugin.spec.command} exited {process.returncode}: {why}")
    return out


async def _start(plugin: Plugin) -> Process:
    spec = plugin.spec
    command = shutil.which(spec.command, path=plugin.env.get("PATH"))
    if command is None:
        hint = f"; {' '.join(spec.install_hint.split())}" if spec.install_hint else "; install it or correct PATH"
        raise ConfigError(f"{plugin.origin}: the exec plugin {spec.command} was not found{hint}")
    uses_terminal = plugin.is_interactive  # stdin and stderr are ours then, so that a person can answer
    try:
        return await asyncio.create_subprocess_exec(
            command,
            *spec.args,
            env=plugin.env,
            stdin=None if uses_terminal else DEVNULL,
            stdout=PIPE,
            stderr=None if uses_terminal else PIPE,
            start_new_session=not uses_terminal,
        )
    except OSError as error:
        raise ConfigError(f"{plugin.origin}: the exec plugin {spec.command} cannot run: {error.strerror}") from error


async def _kill(plugin: Plugin, process: Process) -> None:
    """Kills the plugin and all processes it has started, after a timeout or a cancellation."""
    with suppress(ProcessLookupError, TimeoutError):
        if plugin.is_interactive:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait_for(process.communicate(), 1)  # reads to the end: otherwise the pipes stay open


def _parse(plugin: Plugin, out: bytes) -> _Answer:
    prefix = f"{plugin.origin}: the exec plugin {plugin.spec.command} should have printed"
    try:
        credential = msgspec.json.decode(out, type=_Credential)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # `from None`: the cause may quote the output.
        raise ConfigError(f"{prefix} an ExecCredential in JSON and printed something else ({error})") from None
    if credential.kind != "ExecCredential" or credential.api_version != plugin.spec.api_version:
        wanted = plugin.spec.api_version
        raise ConfigError(f"{prefix} an ExecCredential of {wanted}; let both name the same apiVersion")
    answer = credential.status or _Answer()
    if bool(answer.client_certificate_data) != bool(answer.client_key_data):
        raise ConfigError(f"{prefix} clientCertificateData and clientKeyData together and printed one of them")
    if not answer.token and not answer.client_key_data:
        raise ConfigError(f"{prefix} a token or a client certificate in status and printed neither")
    return answer


def _last_line(err: bytes | None) -> str:
    if err is None:
        return "see what it printed above"
    lines = err.decode("utf-8", "replace").strip().splitlines()
    return redact(_TOKEN_LIKE.sub("…", lines[-1])) if lines else "it printed nothing on stderr"
