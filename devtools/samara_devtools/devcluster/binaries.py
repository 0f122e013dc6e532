"""Finds the programs of the control plane: KUBEBUILDER_ASSETS, then the user's cache folder, else a build with Go."""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from samara_devtools.devcluster.errors import DevclusterError
from samara_devtools.devcluster.process import killed_with_parent

MODULE = Path(__file__).with_name("tools")
MODULE_FILES = ("go.mod", "go.sum", "tools.go")
PACKAGES = (
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kubectl",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-apiserver",
)
VERSION_PACKAGE = "k8s.io/component-base/version"
MINUTES = 6
"""Duration of a build on two cores."""
HEARTBEAT_SECONDS = 30.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Binaries:
    etcd: Path
    apiserver: Path
    controller_manager: Path
    kubectl: Path


@dataclass(frozen=True, slots=True)
class Recipe:
    """Versions and flags of a build. Its key is the name of the folder with the result."""

    go: str
    kubernetes: str
    flags: tuple[str, ...]
    key: str


def find(progress: Progress, heartbeat: float = HEARTBEAT_SECONDS) -> Binaries:
    """The programs. They are built first if they are not on this machine yet."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return _from_assets(Path(assets))
    recipe = read_recipe()
    folder = cache_folder() / recipe.key
    binaries = _in_folder(folder)
    if _missing(binaries):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock"), progress):
            # Another process may have finished the build while this one waited for the lock.
            if _missing(binaries):
                _build(recipe, folder, progress, heartbeat)
    return binaries


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "samara" / "devcluster"


def read_recipe(module: Path = MODULE) -> Recipe:
    """Versions come from go.mod alone, so that an upgrade is one edit there."""
    go_mod = (module / "go.mod").read_text()
    go = first_match(r"^go (\d+\.\d+)", go_mod)
    kubernetes = first_match(r"^\s*k8s\.io/kubernetes (v\S+)", go_mod)
    flags = ("-trimpath", "-ldflags", _ldflags(kubernetes))
    digest = hashlib.sha256()
    for part in (go_mod, (module / "go.sum").read_text(), *flags, *PACKAGES, platform.system(), platform.machine()):
        digest.update(part.encode() + b"\0")
    return Recipe(go, kubernetes, flags, digest.hexdigest()[:16])


def first_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise DevclusterError(f"The go.mod of the local control plane has no line like {pattern}.")
    return match.group(1)


def _ldflags(kubernetes: str) -> str:
    # Without these the server reports v0.0.0 and kubectl refuses to parse it.
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    values = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return "-s -w " + " ".join(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in values.items())


def _in_folder(folder: Path) -> Binaries:
    return Binaries(
        etcd=folder / "etcd",
        apiserver=folder / "kube-apiserver",
        controller_manager=folder / "kube-controller-manager",
        kubectl=folder / "kubectl",
    )


def _missing(binaries: Binaries) -> list[str]:
    paths = (binaries.etcd, binaries.apiserver, binaries.controller_manager, binaries.kubectl)
    return [path.name for path in paths if not os.access(path, os.X_OK)]


def _from_assets(folder: Path) -> Binaries:
    binaries = _in_folder(folder.absolute())
    missing = _missing(binaries)
    if missing:
        raise DevclusterError(
            f"KUBEBUILDER_ASSETS names {folder}, which lacks {', '.join(missing)}: "
            "add what is missing, or unset the variable to have the programs built with Go."
        )
    return binaries


@contextmanager
def locked(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Another process is building the local control plane; waiting for it to finish.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(recipe: Recipe, folder: Path, progress: Progress, heartbeat: float) -> None:
    go = shutil.which("go")
    if go is None:
        raise DevclusterError(f"Go was not found on this machine: {_advice(recipe)}.")
    progress(
        f"Building a local control plane (Kubernetes {recipe.kubernetes} and etcd) from Go modules into {folder}: "
        f"about {MINUTES} minutes on two cores the first time, then never again for this version."
    )
    # One fixed name, guarded by the lock: the next build removes the leftovers of a killed one.
    work = folder.with_suffix(".building")
    shutil.rmtree(work, ignore_errors=True)
    started = time.monotonic()
    try:
        _compile(go, recipe, work, progress, heartbeat)
        shutil.rmtree(folder, ignore_errors=True)
        (work / "bin").rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress(f"Built the local control plane in {duration_text(time.monotonic() - started)}.")


def _compile(go: str, recipe: Recipe, work: Path, progress: Progress, heartbeat: float) -> None:
    # The installed package may be read-only, and Go wants to write beside go.mod.
    module, out, log = work / "tools", work / "bin", work / "log"
    module.mkdir(parents=True)
    out.mkdir()
    for name in MODULE_FILES:
        shutil.copyfile(MODULE / name, module / name)
    command = killed_with_parent(go, "build", *recipe.flags, "-o", f"{out}/", *PACKAGES)
    with log.open("wb") as output:
        code = run_go(command, module, output.fileno(), lambda s: progress(f"Still building, {s} so far."), heartbeat)
    if code == 0 and (out / "server").exists():
        (out / "server").rename(out / "etcd")  # Go names a program after the last folder of its package
    missing = _missing(_in_folder(out))
    if code != 0 or missing:
        reason = last_line(log) if code != 0 else f"no {', '.join(missing)} came out"
        raise DevclusterError(f"Building the local control plane with Go failed ({reason}): {_advice(recipe)}.")


def run_go(command: list[str], folder: Path, output: int, beat: Progress, heartbeat: float) -> int:
    env = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    started = time.monotonic()
    go = subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
    )
    try:
        while True:
            try:
                return go.wait(heartbeat)
            except subprocess.TimeoutExpired:
                beat(duration_text(time.monotonic() - started))
    finally:
        if go.poll() is None:  # interrupted: its compilers go with it
            os.killpg(go.pid, signal.SIGKILL)
            go.wait()


def _advice(recipe: Recipe) -> str:
    return (
        f"install Go {recipe.go} or newer from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a folder with etcd, "
        "kube-apiserver, kube-controller-manager and kubectl, "
        "or use `samara run --kubeconfig FILE` with a cluster of your own"
    )


def last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
