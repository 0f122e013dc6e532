"""Starts and stops the child processes of a control plane. None outlives the process that started it."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from samara_devtools.devcluster.errors import DevclusterError

SCRIPT = Path(__file__).with_name("killed_with_parent.py")
TAIL_BYTES = 2000


def killed_with_parent(program: str, *arguments: str) -> list[str]:
    """The command line of a program that the kernel kills when the thread that starts it ends."""
    return [sys.executable, "-I", "-S", str(SCRIPT), str(os.getpid()), program, *arguments]


class Children:
    """The running children by name, each with a log file in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        # For the kernel, the parent is the thread that forked. A caller's thread may end long before the process.
        self._forking_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="devcluster")

    @property
    def pids(self) -> dict[str, int]:
        return {name: child.pid for name, child in self._running.items()}

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def start(self, name: str, program: Path, arguments: Sequence[str]) -> None:
        if name in self._running:
            raise DevclusterError(f"{name} runs already, as pid {self._running[name].pid}.")
        self._forking_thread.submit(self._fork, name, program, arguments).result()

    def _fork(self, name: str, program: Path, arguments: Sequence[str]) -> None:
        # A minimal environment: etcd would read every ETCD_* variable as a flag.
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._folder)}
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                killed_with_parent(str(program), *arguments),
                cwd=self._folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # only this process gets Ctrl-C, so that it can stop all in order
            )

    def ended(self) -> str | None:
        """The name of a child that ended by itself, if any did."""
        return next((name for name in self._running if self.has_ended(name)), None)

    def has_ended(self, name: str) -> bool:
        return self._running[name].poll() is not None

    def stop(self, name: str, grace: float = 0.0) -> None:
        """Asks with SIGTERM and waits `grace` seconds, then kills; without grace it kills at once."""
        child = self._running.pop(name, None)
        if child is None:
            return
        if grace > 0:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(grace)
            except subprocess.TimeoutExpired:
                child.kill()
        else:
            child.kill()
        child.wait()

    def stop_all(self) -> None:
        self._forking_thread.shutdown()  # first, so that a start interrupted halfway adds no child to the list below
        for name in reversed(list(self._running)):
            self.stop(name)

    def tail(self, name: str) -> str:
        """The end of a child's log, for an error message."""
        with self.log(name).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            return log.read().decode(errors="replace")
