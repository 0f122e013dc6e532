"""A control plane and an operator, which are removed at the end in any case."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from samara.core.metadata_keys import APP
from samara.kube.errors import SamaraError
from samara.vocabularies import VOCABULARIES
from samara_devtools.devcluster import Binaries, Devcluster
from samara_devtools.devcluster.process import killed_with_parent
from samara_devtools.devcluster.wire import answers, free_port

HOME = "samara"
"""The operator's own namespace and its service account in it."""
EXAMPLES = Path(__file__).resolve().parents[1].joinpath("examples").resolve()
"""In a checkout the folder is a link. The commands of the demo show the path of its target."""
SETTINGS = "settings.yaml"
PROTECTED = ("kube-system", "kube-public", "kube-node-lease", HOME)
"""No targets of sources that ask for every namespace."""
OPERATOR_LIFETIME = "720h"
"""How long the credentials of a kept operator are valid."""
TIMEOUT = 60.0
STOP_TIMEOUT = 15.0
_POLL = 0.02
_TAIL = 2000
# -P: a folder named samara in the working directory must not be imported instead of ours.
_SAMARA = (sys.executable, "-P", "-m", "samara.cli.main")


class DemoError(SamaraError):
    """The demo cannot go on."""


class Operator:
    """`samara run` as a child process, which the kernel kills when this process ends."""

    def __init__(self, kubeconfig: Path, settings: Path, data: Path, log_to_terminal: bool) -> None:
        self._address = f"127.0.0.1:{free_port()}"
        self._log = data / "samara.log"
        access = (f"--kubeconfig={kubeconfig}", f"--namespace={HOME}")
        arguments = ("run", *access, f"--config={settings}", f"--http-address={self._address}")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603
                killed_with_parent(*_SAMARA, *arguments),
                cwd=data,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=None if log_to_terminal else log,
                process_group=0,  # only this process gets Ctrl-C, so that it can stop all in order
            )

    def is_ready(self) -> bool:
        if self.has_ended():
            tail = self._log.read_text(errors="replace")[-_TAIL:].strip()
            raise DemoError(f"the operator ended by itself; the end of its log: {tail or 'nothing'}")
        return answers(f"http://{self._address}", "/syncz")

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment() -> dict[str, str]:
    """Our environment without variables that would change the operator's cluster or settings."""
    return {
        name: value for name, value in os.environ.items() if name != "KUBECONFIG" and not name.startswith("SAMARA_")
    }


def settings_text() -> str:
    """Serves every vocabulary as its example does, and protects our own namespace, as commands assume it."""
    vocabularies = {vocabulary.name: _example_settings(vocabulary.name) for vocabulary in VOCABULARIES}
    return yaml.safe_dump({"vocabularies": vocabularies, "protectedNamespaces": list(PROTECTED)})


def _example_settings(vocabulary: str) -> object:
    """The own settings of a vocabulary in its example. None if the example has no settings."""
    path = EXAMPLES / vocabulary / SETTINGS
    return yaml.safe_load(path.read_text(encoding="utf-8"))["vocabularies"][vocabulary] if path.exists() else None


class Stage:
    """Runs the cluster after `start_cluster` and the operator after `start_operator`. Leaving it removes both."""

    def __init__(self, binaries: Binaries) -> None:
        self.cluster = Devcluster(binaries=binaries)
        self._operator: Operator | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start_cluster(self) -> None:
        self._stack.enter_context(self.cluster)

    def samara(self, *arguments: str) -> str:
        """The output of one of our own commands about the cluster."""
        env = {**_environment(), "KUBECONFIG": str(self.cluster.kubeconfig)}
        command = [*_SAMARA, *arguments]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)  # noqa: S603
        if done.returncode != 0:
            raise DemoError(f"samara {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def start_operator(self, *, log_to_terminal: bool = False) -> None:
        """Starts it with exactly the rights that `samara rbac` prints. Returns when it is in sync."""
        settings = self.cluster.data / SETTINGS
        settings.write_text(settings_text(), encoding="utf-8")
        self._publish_settings(settings)
        self.cluster.kubectl("apply", "--filename=-", input=self.samara("crds"))
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.cluster.kubectl("apply", "--filename=-", input=self.samara("rbac", f"--namespace={HOME}"))
        token = self.cluster.service_account_token(HOME, HOME, OPERATOR_LIFETIME)
        kubeconfig = self.cluster.kubeconfig_with_token(token)
        self._operator = Operator(kubeconfig, settings, self.cluster.data, log_to_terminal)
        self._stack.callback(self._operator.stop)
        self.wait_for("the operator", self._operator.is_ready)

    def _publish_settings(self, settings: Path) -> None:
        """Puts the settings into the ConfigMap from which commands read them, as an installation does."""
        self.cluster.kubectl("create", "namespace", HOME)
        self.cluster.kubectl("create", "configmap", HOME, f"--namespace={HOME}", f"--from-file=config.yaml={settings}")
        self.cluster.kubectl("label", "configmap", HOME, f"--namespace={HOME}", f"{APP}=samara")

    def check(self) -> None:
        """Raises if the cluster or the operator has ended by itself."""
        ended = self.cluster.ended()
        if ended is not None:
            raise DemoError(f"{ended} ended by itself, so everything was stopped")
        if self._operator is not None and self._operator.has_ended():
            raise DemoError("the operator ended by itself, so everything was stopped")

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise DemoError(f"expected {what} within {TIMEOUT:.0f} s; it did not come")
            time.sleep(_POLL)
