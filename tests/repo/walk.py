"""Runs the blocks of a page in their order on a control plane.

Manifests are applied and saved under their name, settings are saved as settings.yaml, and commands are run in the
folder of those files. A command that fails, or prints something else than the page shows, is repeated for up to a
minute, because a reader is slower than the operator.
"""

import base64
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import yaml
from tests.support import forks
from tests.support.pages import ROOT, Fence
from tests.support.ports import free_port

from samara_devtools.devcluster import Devcluster
from samara_devtools.devcluster.process import killed_with_parent
from samara_devtools.devcluster.wire import answers

PATIENCE = 60.0
POLL = 0.2
_AGE = re.compile(r"\d+[smhd](?:\d+[smh])?")


def commands(text: str) -> list[str]:
    """The commands of a shell block, each on one line."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [line for line in joined.splitlines() if line and not line.startswith("#")]


def dialogue(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with its shown output."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0], "a console block begins with a command"
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts[1:])]


def is_as_shown(output: str, shown: str) -> bool:
    """True if the output equals the shown text except for column widths and ages, or if no text is shown."""
    return not shown or _words(output) == _words(shown)


def _words(text: str) -> list[list[str]]:
    return [["AGE" if _AGE.fullmatch(word) else word for word in line.split()] for line in text.splitlines()]


class Before(NamedTuple):
    """The state before the first block of a page."""

    namespaces: tuple[str, ...] = ()
    manifests: str = ""
    commands: str = ""


class Walk:
    """One page, with a folder and operators of its own."""

    def __init__(self, cluster: Devcluster, folder: Path, helm: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self._log = folder.parent / "operator.log"
        self._operator: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        programs = (self._programs(), Path(sys.executable).parent, cluster.binaries.kubectl.parent, helm.parent)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SAMARA_", "HELM", "KUBE"))}
        self._env = {
            **kept,
            "PATH": os.pathsep.join((*map(str, programs), kept.get("PATH", os.defpath))),
            "HOME": str(folder.parent),
            "KUBECONFIG": str(cluster.kubeconfig),
            "KUBERC": "off",
            "NO_COLOR": "1",
            "SAMARA_HTTP_ADDRESS": f"127.0.0.1:{self._port}",
        }

    def _programs(self) -> Path:
        """A folder with the forked program, and a `make` that only prints its commands."""
        folder = self.folder.parent / "bin"
        folder.mkdir()
        (folder / "make").write_text(
            f'#!/bin/sh\nexec {shutil.which("make")} -n -C {ROOT} PYTHON={sys.executable} "$@"\n'
        )
        (folder / "make").chmod(0o755)
        forks.on_path(folder)
        return folder

    def prepare(self, before: Before) -> None:
        """Creates the state that a page requires."""
        self.namespaces(*before.namespaces)
        if before.manifests:
            self.apply(before.manifests)
        for command in commands(before.commands):
            self.run(command)

    def take(self, fence: Fence) -> None:
        """One block of the page."""
        text = self.private(fence.text)
        if fence.is_manifest:
            self.apply(text)
        elif fence.language == "yaml":
            (self.folder / "settings.yaml").write_text(text)
        elif fence.language == "sh":
            for command in commands(text):
                self.run(command)
        elif fence.language == "console":
            for command, shown in dialogue(text):
                self.run(command, shown)

    def private(self, text: str) -> str:
        """Replaces /tmp by the folder of the walk."""
        return text.replace("/tmp/", f"{self.folder.parent}/tmp/")

    def apply(self, text: str) -> None:
        """Applies a manifest. Creates the namespaces it refers to first."""
        documents = [document for document in yaml.safe_load_all(text) if document]
        named = {document["metadata"].get("namespace") for document in documents} - {None}
        own = {document["metadata"]["name"] for document in documents if document["kind"] == "Namespace"}
        self.namespaces(*sorted(named - own))
        file = self.folder / f"{documents[-1]['metadata']['name']}.yaml"
        file.write_text(text)
        self.run(f"kubectl apply -f {file.name}")

    def namespaces(self, *names: str) -> None:
        there = self.cluster.kubectl("get", "namespaces", "--output=name").split()
        for name in names:
            if f"namespace/{name}" not in there:
                self.cluster.kubectl("create", "namespace", name)

    def run(self, command: str, shown: str = "") -> None:
        if command.startswith("samara run"):
            self._start(command)
            return
        end, attempts = time.monotonic() + PATIENCE, []
        while True:
            done = self.shell(command)
            if done.returncode == 0 and is_as_shown(done.stdout, shown):
                return
            attempts.append(f"$ {command}\n{done.stdout}{done.stderr}[{done.returncode}]")
            assert time.monotonic() < end, "\n".join((attempts[0], attempts[-1], f"expected:\n{shown}", self.log()))
            time.sleep(POLL)

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        line = ("bash", "-euo", "pipefail", "-c", command)
        # Confirms prompts.
        return subprocess.run(
            line, cwd=self.folder, env=self._env, input="y\n", capture_output=True, text=True, timeout=120, check=False
        )

    # the operator

    def _start(self, command: str) -> None:
        """Starts an operator instead of the present one, and waits until it is in sync."""
        self.stop()
        with self._log.open("ab") as log:
            self._operator = subprocess.Popen(
                killed_with_parent("/bin/bash", "-c", f"exec {command}"),
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + PATIENCE
        while not answers(f"http://127.0.0.1:{self._port}", "/syncz"):
            assert self._operator.poll() is None, f"{command} has ended:\n{self.log()}"
            assert time.monotonic() < end, f"{command} is not in sync:\n{self.log()}"
            time.sleep(POLL)

    def stop(self) -> None:
        if self._operator is not None:
            self._operator.terminate()
            self._operator.wait(30)
            self._operator = None

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""


class Slate:
    """Restores the keys of the cluster in etcd.

    Deletions through the server take seconds and wait for finalizers of operators that have ended.
    """

    def __init__(self, cluster: Devcluster) -> None:
        self._cluster = cluster
        self._kept = self._read()

    def restore(self) -> None:
        now = self._read()
        gone = [{"requestDeleteRange": {"key": key}} for key in now if key not in self._kept]
        changed = [(key, value) for key, value in self._kept.items() if now.get(key) != value]
        operations = [*gone, *({"requestPut": {"key": key, "value": value}} for key, value in changed)]
        for first in range(0, len(operations), 100):
            self._cluster.etcd_call("/v3/kv/txn", {"success": operations[first : first + 100]})

    def _read(self) -> dict[str, str]:
        """Every key and its value, as etcd's gateway writes them; the server's own leases are left to it."""
        everything = {"key": _encoded(b"/registry/"), "range_end": _encoded(b"/registry0")}
        entries = self._cluster.etcd_call("/v3/kv/range", everything)["kvs"]
        servers = (b"/registry/leases/kube-system/", b"/registry/masterleases/")
        return {
            entry["key"]: entry["value"] for entry in entries if not base64.b64decode(entry["key"]).startswith(servers)
        }


def _encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()
