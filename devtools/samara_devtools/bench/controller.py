"""One run of the controller under test, which a command line starts."""

from __future__ import annotations

import asyncio
import ctypes
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from samara_devtools.bench import procfs
from samara_devtools.bench.options import Options
from samara_devtools.devcluster.wire import free_port

POLL = 0.004
"""Seconds."""
SETTINGS = "settings.yaml"
STOP_TIMEOUT = 20.0
START_TIMEOUT = 180.0
PROBE_PAUSE = 0.01
_STALL = re.compile(r"^\w*loop\w*(?:stall|block|longest|lag|stood)\w*(?:\{[^}]*\})?\s+([0-9.eE+-]+)$", re.MULTILINE)
_DEATH_SIGNAL = 1
_libc = ctypes.CDLL(None)


class ControllerError(Exception):
    """The controller ended, or never became ready."""


def _dies_with_us() -> None:
    _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)


class Controller:
    """A running controller."""

    def __init__(self, options: Options, kubeconfig: Path, log: Path) -> None:
        self._placeholders = {
            "port": str(free_port()),
            "kubeconfig": str(kubeconfig),
            "python": sys.executable,
            "config": str(log.with_name(SETTINGS)),
        }
        self._options = options
        self._log = log
        self.longest_answer: float | None = None
        """The longest answer to a probe: an upper bound for the time that the event loop was blocked."""
        command = [self._filled(argument) for argument in shlex.split(options.controller)]
        self.started = time.monotonic()
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                process_group=0,
                preexec_fn=_dies_with_us,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def _filled(self, text: str) -> str:
        for name, value in self._placeholders.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def check(self) -> None:
        if self._process.poll() is not None:
            end = self._log.read_text(errors="replace")[-1500:]
            raise ControllerError(f"the controller ended with {self._process.returncode}; the end of its log:\n{end}")

    def cpu(self) -> float:
        return procfs.cpu_seconds(self.pid)

    def peak(self) -> float:
        return procfs.peak_megabytes(self.pid)

    def resident(self) -> float:
        return procfs.resident_megabytes(self.pid)

    async def ready(self) -> float:
        """Seconds from its start until it reports that it is ready."""
        return await self._wait_for_200(self._options.ready_url)

    async def synced(self) -> float | None:
        """Seconds from its start until it reports that all is in sync. None if it cannot report that."""
        return await self._wait_for_200(self._options.synced_url) if self._options.synced_url else None

    async def _wait_for_200(self, url: str) -> float:
        async with aiohttp.ClientSession() as session:
            while not await _is_good(session, self._filled(url)):
                self.check()
                if time.monotonic() - self.started > START_TIMEOUT:
                    raise ControllerError(f"{self._filled(url)} did not answer with 200 within {START_TIMEOUT:.0f} s")
                await asyncio.sleep(POLL)
        return time.monotonic() - self.started

    async def wait_for_answer(self) -> None:
        """Waits for any answer. Before that, the controller may have no event loop that could be blocked."""
        if not self._options.ready_url:
            return
        async with aiohttp.ClientSession() as session:
            while await _status(session, self._filled(self._options.ready_url)) is None:
                self.check()
                await asyncio.sleep(POLL)

    async def probe(self) -> None:
        """Sends requests until cancelled, and notes the longest wait for an answer."""
        if not self._options.ready_url:
            return
        async with aiohttp.ClientSession() as session:
            while True:
                began = time.monotonic()
                await _is_good(session, self._filled(self._options.ready_url))
                self.longest_answer = max(self.longest_answer or 0.0, time.monotonic() - began)
                await asyncio.sleep(PROBE_PAUSE)

    async def stall(self) -> float | None:
        """The longest stall of its event loop in seconds. None if its metrics do not report it."""
        if not self._options.metrics_url:
            return None
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(self._filled(self._options.metrics_url)) as response,
            ):
                return stall_in(await response.text())
        except aiohttp.ClientError:
            return None

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


async def _is_good(session: aiohttp.ClientSession, url: str) -> bool:
    return await _status(session, url) == 200


async def _status(session: aiohttp.ClientSession, url: str) -> int | None:
    try:
        async with session.get(url) as response:
            return response.status
    except (aiohttp.ClientError, OSError):
        return None


def stall_in(metrics: str) -> float | None:
    """The largest value of the metrics whose names speak of a stall of the event loop."""
    return max(map(float, _STALL.findall(metrics)), default=None)
