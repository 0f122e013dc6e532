"""RustyVault, an independent Vault: built once with cargo into the user's cache folder, and run for tests.

`python -m tests.secretstores.rvault` builds it. Only the standard library is used until something is built or run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

CRATE, VERSION, PROGRAM = "rusty_vault", "0.2.1", "rvault"
# Unoptimised and without symbols, which builds in a third of the time. The tests are not slower.
COMMAND = ("install", CRATE, "--version", f"={VERSION}", "--locked", "--quiet", "--debug")
SETTINGS = {"CARGO_PROFILE_DEV_DEBUG": "0"}
MINUTES = 3
HEARTBEAT_SECONDS = 30.0
PATIENCE = 30.0

Progress = Callable[[str], None]


class Unbuilt(Exception):  # noqa: N818 - the name says the state
    """RustyVault cannot be built. The message gives the reason in one line."""


class Running(NamedTuple):
    base: str
    root: str
    """The token that may do everything."""
    key: str
    """Unseals it."""


def program() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parts = "\0".join((*COMMAND, platform.system(), platform.machine()))
    return base / "samara" / "rvault" / hashlib.sha256(parts.encode()).hexdigest()[:16] / PROGRAM


def find(progress: Progress, heartbeat: float = HEARTBEAT_SECONDS) -> Path:
    """The program. It is built first if necessary, and concurrent callers wait."""
    program_ = program()
    folder = program_.parent
    if not program_.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program_.exists():
                _build(folder, progress, heartbeat)
    return program_


def _build(folder: Path, progress: Progress, heartbeat: float) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        raise Unbuilt(
            f"cargo was not found, and {CRATE} {VERSION} is built with it: install Rust from https://rustup.rs"
        )
    progress(f"Building {CRATE} {VERSION} with cargo into {folder}: about {MINUTES} minutes on two cores, once.")
    work = folder.with_suffix(".building")  # a fixed name, so that the next build removes what a killed one left
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        _compile(cargo, work, progress, heartbeat)
        shutil.rmtree(folder, ignore_errors=True)
        (work / "bin").rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _compile(cargo: str, work: Path, progress: Progress, heartbeat: float) -> None:
    from samara_devtools.devcluster.process import killed_with_parent

    log = work / "log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            killed_with_parent(cargo, *COMMAND, "--root", str(work)),
            env=os.environ | SETTINGS | {"CARGO_TARGET_DIR": str(work / "target")},
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        )
        code = _waited(child, progress, heartbeat)
    if code != 0 or not (work / "bin" / PROGRAM).exists():
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        why = next((line for line in lines if line.startswith("error")), lines[-1] if lines else "it said nothing")
        raise Unbuilt(
            f"cargo could not build {CRATE} {VERSION} ({why[:300]}): a newer Rust, or OpenSSL's headers, may help"
        )


def _waited(child: subprocess.Popen[bytes], progress: Progress, heartbeat: float) -> int:
    started = time.monotonic()
    try:
        while True:
            try:
                return child.wait(heartbeat)
            except subprocess.TimeoutExpired:
                progress(f"Still building, {time.monotonic() - started:.0f} s so far.")
    finally:
        if child.poll() is None:  # interrupted: its compilers are killed too
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """A server with an empty store below this folder, initialised and unsealed."""
    from samara_devtools.devcluster.process import Children

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "config.json"
    settings = {
        "storage": {"file": {"path": str(folder / "data")}},
        "listener": {"tcp": {"address": f"127.0.0.1:{port}", "tls_disable": True}},
        "work_dir": str(folder / "work"),
        "log_level": "warn",
    }
    config.write_text(json.dumps(settings))
    (folder / "data").mkdir()
    children = Children(folder)
    try:
        children.start(PROGRAM, find(_say), ["server", "--config", str(config)])
        yield _opened(f"http://127.0.0.1:{port}", children)
    finally:
        children.stop_all()


def _opened(base: str, children: Any) -> Running:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            keys = _call(base, "init", {"secret_shares": 1, "secret_threshold": 1})
            break
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline or children.ended():
                raise Unbuilt(f"{PROGRAM} does not answer: {children.tail(PROGRAM)}") from None
            time.sleep(0.05)
    _call(base, "unseal", {"key": keys["keys"][0]})
    return Running(base, keys["root_token"], keys["keys"][0])


def _call(base: str, operation: str, body: object) -> Any:
    request = urllib.request.Request(f"{base}/v1/sys/{operation}", json.dumps(body).encode(), method="PUT")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    try:
        find(_say)
    except Unbuilt as fault:
        _say(str(fault))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
