"""Finds helm, with which the chart is tested: the variable HELM, then the user's cache folder, else a build with Go.

A separate module, so that an upgrade of helm does not rebuild the control plane.
"""

import hashlib
import os
import platform
import shutil
import time
from pathlib import Path

from samara_devtools.devcluster.binaries import (
    HEARTBEAT_SECONDS,
    Progress,
    cache_folder,
    duration_text,
    first_match,
    last_line,
    locked,
    run_go,
)
from samara_devtools.devcluster.errors import DevclusterError
from samara_devtools.devcluster.process import killed_with_parent

MODULE = Path(__file__).with_name("helm")
MODULE_FILES = ("go.mod", "go.sum", "tools.go")
PACKAGE = "helm.sh/helm/v4/cmd/helm"
VERSION = "helm.sh/helm/v4/internal/version.version"
MINUTES = 4
"""Duration of a build on two cores."""


def find_helm(progress: Progress, heartbeat: float = HEARTBEAT_SECONDS) -> Path:
    """The program. It is built first if it is not on this machine yet."""
    named = os.environ.get("HELM")
    if named:
        return Path(named)
    program = cached_helm()
    if not os.access(program, os.X_OK):
        program.parent.parent.mkdir(parents=True, exist_ok=True)
        with locked(program.parent.with_suffix(".lock"), progress):
            # Another process may have finished the build while this one waited for the lock.
            if not os.access(program, os.X_OK):
                _build(program, progress, heartbeat)
    return program


def cached_helm() -> Path:
    """Where the program is, or will be."""
    digest = hashlib.sha256()
    for part in (*((MODULE / name).read_text() for name in MODULE_FILES), platform.system(), platform.machine()):
        digest.update(part.encode() + b"\0")
    return cache_folder().with_name("helm") / digest.hexdigest()[:16] / "helm"


def helm_version() -> str:
    return first_match(r"^require helm\.sh/helm/v4 (v\S+)", (MODULE / "go.mod").read_text())


def _build(program: Path, progress: Progress, heartbeat: float) -> None:
    go = shutil.which("go")
    if go is None:
        raise DevclusterError("Go was not found on this machine: install it, or name a helm 4 with the variable HELM.")
    progress(
        f"Building helm {helm_version()} from Go modules into {program.parent}: "
        f"about {MINUTES} minutes on two cores, once."
    )
    # One fixed name, guarded by the lock: the next build removes the leftovers of a killed one.
    work = program.parent.with_suffix(".building")
    shutil.rmtree(work, ignore_errors=True)
    started = time.monotonic()
    try:
        _compile(go, work, progress, heartbeat)
        shutil.rmtree(program.parent, ignore_errors=True)
        (work / "bin").rename(program.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress(f"Built helm in {duration_text(time.monotonic() - started)}.")


def _compile(go: str, work: Path, progress: Progress, heartbeat: float) -> None:
    module, out, log = work / "module", work / "bin", work / "log"
    module.mkdir(parents=True)
    out.mkdir()
    for name in MODULE_FILES:
        shutil.copyfile(MODULE / name, module / name)
    flags = ("-trimpath", "-ldflags", f"-s -w -X {VERSION}={helm_version()}")
    command = killed_with_parent(go, "build", *flags, "-o", f"{out}/", PACKAGE)
    with log.open("wb") as output:
        code = run_go(command, module, output.fileno(), lambda s: progress(f"Still building, {s} so far."), heartbeat)
    if code != 0 or not (out / "helm").exists():
        raise DevclusterError(f"Building helm with Go failed ({last_line(log)}); the variable HELM may name another.")
