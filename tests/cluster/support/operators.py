"""The operator as a separate process: `samara run` with fast timers and its log in a file."""

from __future__ import annotations

import copy
import http.client
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster.support.waiting import eventually
from tests.support import forks
from tests.support.forks import Fork
from tests.support.ports import free_port

from samara_devtools.devcluster.process import killed_with_parent

Json = dict[str, Any]

FAST: Json = {
    "vocabularies": {"secret-copy": {}},
    "sourceGoneAfter": "300ms",
    "massDelete": {"most": 5, "percent": 30},
    "timers": {"lease": "15s", "renew": "10s", "silence": "75s", "backoffMost": "4s"},
}
"""The settings of the tests: most timers are ten times faster, and the brake holds already a few deletes.

The lease has its default length: a busy machine may stall for seconds, and a leader that cannot renew a short lease in
time ends.
"""
LEASE, RENEW = 5.0, 4.0
SHORT: Json = {"timers": {"lease": f"{LEASE:g}s", "renew": f"{RENEW:g}s"}}
"""For tests that wait for the end of a lease."""
STARTED = ("-m", "samara.cli.main")
"""The arguments of Python in tests about starting or memory. Other operators are forks: see `forks.py`."""


def settings(changes: Mapping[str, Any]) -> Json:
    """FAST merged with these changes, mapping by mapping. None removes the default of a key."""
    return _merged(copy.deepcopy(FAST), changes)


def _merged(under: Json, over: Mapping[str, Any]) -> Json:
    for key, value in over.items():
        under[key] = _merged(under[key], value) if isinstance(value, Mapping) and key in under else value
    return under


class Operator:
    """One running operator. `Stage.operator` starts it, and the end of the test kills it."""

    _numbers = itertools.count(1)

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        flags: tuple[str, ...],
        config: Json,
        env: dict[str, str],
        program: tuple[str, ...] | None = None,
    ) -> None:
        number = next(self._numbers)
        self.port = free_port()
        self.log_file = folder / f"operator-{number}.log"
        file = folder / f"operator-{number}.yaml"
        file.write_text(yaml.safe_dump(config))
        self._arguments = ["run", f"--kubeconfig={kubeconfig}", f"--config={file}"]
        self._arguments += [f"--http-address=127.0.0.1:{self.port}", *flags]
        self._command: list[str] | None = (
            None if program is None else killed_with_parent(sys.executable, *program, *self._arguments)
        )
        """The command line; None for a fork."""
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[bytes] | Fork | None = None

    # life

    def start(self) -> Operator:
        """Starts the process without waiting; see `ready` and `synced`."""
        with self.log_file.open("ab") as log, open(os.devnull, "rb") as nothing:
            if self._command is None:
                self._process = forks.start("samara", self._arguments, self._env, (nothing, log, log))
            else:
                self._process = subprocess.Popen(
                    self._command, env=self._env, stdin=nothing, stdout=log, stderr=log, process_group=0
                )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def ready(self, deadline: float = 20.0) -> Operator:
        self._until("/readyz", deadline)
        return self

    def synced(self, deadline: float = 30.0) -> Operator:
        self._until("/syncz", deadline)
        return self

    def _until(self, path: str, deadline: float) -> None:
        def good() -> bool:
            assert self.running, f"the operator ended with {self.exit_code}:\n{self.tail()}"
            return self.answer(path)[0] == 200

        eventually(good, deadline)

    def stop(self, deadline: float = 15.0) -> float:
        """Sends SIGTERM and asserts that the operator ends with exit code 0. Returns the duration."""
        assert self._process is not None
        began = time.monotonic()
        self.signal(signal.SIGTERM)
        code = self._process.wait(deadline)
        assert code == 0, f"after SIGTERM the operator ended with {code}, not 0:\n{self.tail()}"
        return time.monotonic() - began

    def wait(self, deadline: float = 20.0) -> int:
        """Waits for the end of the process and returns the exit code."""
        assert self._process is not None
        return self._process.wait(deadline)

    def kill(self) -> None:
        """Sends SIGKILL and waits for the end of the process."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._process is not None:
            self._process.wait(10)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    # pages, metrics and log

    def answer(self, path: str, timeout: float = 5.0) -> tuple[int, bytes]:
        """Status and body of a page; status 0 if the operator does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def waiting(self) -> dict[str, str]:
        """The kinds that /readyz names as waiting, with their reasons. The status is 200, because others are served."""
        status, body = self.answer("/readyz")
        assert status == 200, body
        kinds: dict[str, str] = json.loads(body)["waiting"]
        return kinds

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and sorted labels: `samara_copies{state="right",vocabulary="…"}`."""
        samples: dict[str, float] = {}
        for family in text_string_to_metric_families(self.answer("/metrics")[1].decode()):
            for sample in family.samples:
                labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return samples

    def copies(self, state: str) -> float:
        return self.metrics().get(f'samara_copies{{state="{state}",vocabulary="secret-copy"}}', 0.0)

    @property
    def leads(self) -> bool:
        return self.running and self.metrics().get("samara_leader") == 1.0

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def tail(self, size: int = 4000) -> str:
        return self.log[-size:]

    def memory_peak(self) -> int:
        """The peak resident memory in bytes."""
        return self._memory("VmHWM:")

    def memory(self) -> int:
        return self._memory("VmRSS:")

    @property
    def largest_core_dump(self) -> int:
        """In bytes."""
        return resource.prlimit(self.pid, resource.RLIMIT_CORE)[1]

    def _memory(self, field: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split(field)[1].split()[0]) * 1024
