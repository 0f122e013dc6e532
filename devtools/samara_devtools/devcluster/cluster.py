"""Starts one local control plane, issues credentials, injects faults on request, and removes everything at the end."""

import atexit
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from samara_devtools.devcluster import arguments, wire
from samara_devtools.devcluster.arguments import DevclusterOptions, Files
from samara_devtools.devcluster.binaries import Binaries, Progress, find
from samara_devtools.devcluster.credentials import Credentials
from samara_devtools.devcluster.errors import DevclusterError
from samara_devtools.devcluster.folder import DataFolder
from samara_devtools.devcluster.process import Children

ETCD, APISERVER, CONTROLLER_MANAGER = "etcd", "kube-apiserver", "kube-controller-manager"
READY_SECONDS = 120.0
POLL_SECONDS = 0.02
GRACE_SECONDS = 10.0
KUBECTL_SECONDS = 120.0
PORT_ATTEMPTS = 3
IN_USE = "address already in use"


def to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Devcluster:
    """A running control plane. A context manager that calls `start` and `stop`; `stop` deletes the data."""

    def __init__(
        self,
        options: DevclusterOptions | None = None,
        binaries: Binaries | None = None,
        progress: Progress = to_stderr,
    ) -> None:
        self.options = options or DevclusterOptions()
        self.url = ""
        self.etcd_url = ""
        self._binaries = binaries
        self._progress = progress
        self._folder: DataFolder | None = None
        self._numbers = itertools.count(2)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when the server is ready and the `default` namespace can be used."""
        if self._folder is not None:
            raise DevclusterError("This control plane was started already.")
        self.binaries = self._binaries or find(self._progress)
        self._folder = DataFolder()
        self._children = Children(self.data)
        atexit.register(self.stop)
        try:
            self._credentials = Credentials(self.files)
            self._admin = self._credentials.admin_context()
            self._start_etcd()
            self._prepare_audit()
            self.url = self._start_apiserver(APISERVER, self.etcd_url, self.options.apiserver_port)
            self._credentials.write_admin(self.url)
            self._start_controllers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kills all processes at once, because their data is thrown away, and removes the data folder."""
        if self._folder is None:
            return
        self._children.stop_all()
        self._folder.remove()
        self._folder = None
        atexit.unregister(self.stop)

    @property
    def files(self) -> Files:
        if self._folder is None:
            raise DevclusterError("This control plane is not running: call start() first.")
        return Files(self._folder.path)

    @property
    def data(self) -> Path:
        return self.files.data

    @property
    def kubeconfig(self) -> Path:
        return self.files.admin_kubeconfig

    @property
    def ca_file(self) -> Path:
        return self.files.ca

    @property
    def audit_log(self) -> Path:
        return self.files.audit_log

    @property
    def pids(self) -> dict[str, int]:
        return self._children.pids if self._folder else {}

    def ended(self) -> str | None:
        """The name of a process that ended by itself, if any did."""
        return self._children.ended() if self._folder else None

    def kubectl(self, *args: str, input: str | None = None, kubeconfig: Path | None = None) -> str:
        """The output of kubectl, as admin unless another kubeconfig is given."""
        command = [str(self.binaries.kubectl), f"--kubeconfig={kubeconfig or self.kubeconfig}"]
        # A separate cache: the one in the home folder is keyed by host and port, which another cluster may have had.
        command += [f"--cache-dir={self.data / 'kubectl-cache'}", *args]
        env = os.environ | {"KUBERC": "off"}
        done = subprocess.run(
            command, input=input or "", env=env, capture_output=True, text=True, timeout=KUBECTL_SECONDS, check=False
        )
        if done.returncode != 0:
            raise DevclusterError(f"kubectl {' '.join(args)} failed: {done.stderr.strip()}")
        return done.stdout

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), url: str | None = None) -> Path:
        """A kubeconfig with a client certificate of this user in these groups."""
        return self._credentials.for_user(url or self.url, user, groups)

    def kubeconfig_with_token(self, token: str, url: str | None = None) -> Path:
        return self._credentials.for_token(url or self.url, token)

    def service_account_token(self, namespace: str, name: str, duration: str = "1h") -> str:
        return self.kubectl("create", "token", name, f"--namespace={namespace}", f"--duration={duration}").strip()

    def kill_apiserver(self) -> None:
        self._children.stop(APISERVER)

    def restart_apiserver(self) -> None:
        """Stops the API server as an upgrade would, if it runs, and starts it with the same address and data."""
        self._children.stop(APISERVER, GRACE_SECONDS)
        self._start_apiserver(APISERVER, self.etcd_url, int(self.url.rpartition(":")[2]))

    def start_second_apiserver(
        self, etcd_url: str | None = None, port: int | None = None, apiserver_args: tuple[str, ...] = ()
    ) -> str:
        """Starts one more API server on the same etcd, which it reaches at `etcd_url` if given. Returns its address."""
        name = f"{APISERVER}-{next(self._numbers)}"
        return self._start_apiserver(name, etcd_url or self.etcd_url, port, apiserver_args)

    def stop_process(self, name: str) -> None:
        """Kills one process by its name in `pids`."""
        self._children.stop(name)

    def etcd_call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A call of etcd's JSON gateway, such as /v3/maintenance/alarm."""
        try:
            return wire.post(self.etcd_url, path, body)
        except OSError as error:
            raise DevclusterError(f"etcd refused {path}: {error}") from error

    def compact(self) -> int:
        """Removes all history before the present revision from etcd, and returns that revision."""
        header = self.etcd_call("/v3/kv/range", {"key": "AA==", "count_only": True})["header"]
        self.etcd_call("/v3/kv/compaction", {"revision": header["revision"], "physical": True})
        return int(header["revision"])

    def _prepare_audit(self) -> None:
        self.files.audit_policy.write_text(yaml.safe_dump(arguments.audit_policy(self.options)))
        self.audit_log.touch(mode=0o600)  # a server appends to a file that it finds, so that two can share it

    def _start_etcd(self) -> None:
        def run() -> None:
            self.etcd_url, peer = (f"http://127.0.0.1:{wire.free_port()}" for _ in range(2))
            args = arguments.etcd(self.files, self.etcd_url, peer, self.options)
            self._children.start(ETCD, self.binaries.etcd, args)

        self._start_listening(ETCD, run, self._etcd_is_ready)

    def _etcd_is_ready(self) -> bool:
        # The name is compared, because the etcd of another program may answer on the port.
        try:
            members = wire.post(self.etcd_url, "/v3/cluster/member/list", {}, wire.PROBE_SECONDS)["members"]
            return bool(members[0]["name"] == self.data.name)
        except (OSError, ValueError, LookupError):
            return False

    def _start_apiserver(self, name: str, etcd_url: str, port: int | None, extra: tuple[str, ...] = ()) -> str:
        url = ""

        def run() -> None:
            nonlocal url
            chosen = port or wire.free_port()
            url = f"https://127.0.0.1:{chosen}"
            args = arguments.apiserver(self.files, etcd_url, chosen, self.options)
            self._children.start(name, self.binaries.apiserver, [*args, *extra])

        self._start_listening(name, run, lambda: self._is_ready(url))
        return url

    def _is_ready(self, url: str) -> bool:
        return all(wire.answers(url, path, self._admin) for path in ("/readyz", "/api/v1/namespaces/default"))

    def _start_controllers(self) -> None:
        if not self.options.controllers:
            return
        self._credentials.write_controllers(self.url)
        args = arguments.controller_manager(self.files, self.options)
        self._children.start(CONTROLLER_MANAGER, self.binaries.controller_manager, args)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait(CONTROLLER_MANAGER, lambda: wire.answers(self.url, account, self._admin))

    def _start_listening(self, name: str, run: Callable[[], None], ready: Callable[[], bool]) -> None:
        """Starts a server. Chooses another port if another program has taken the first one meanwhile."""
        for attempt in range(PORT_ATTEMPTS):
            run()
            try:
                self._wait(name, ready)
                return
            except DevclusterError as error:
                self._children.stop(name)
                if IN_USE not in str(error) or attempt == PORT_ATTEMPTS - 1:
                    raise

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not ready():
            if self._children.has_ended(name):
                raise DevclusterError(f"{name} ended while starting; the end of its log: {self._children.tail(name)}")
            if time.monotonic() > deadline:
                raise DevclusterError(f"{name} was not ready within {READY_SECONDS:.0f} s: {self._children.tail(name)}")
            time.sleep(POLL_SECONDS)
