"""The command line of the local control plane: `python -m samara_devtools.devcluster build`, `… up` and `… helm`."""

import argparse
import signal
import sys
import time
from types import FrameType

from samara_devtools.devcluster.binaries import find
from samara_devtools.devcluster.cluster import Devcluster, to_stderr
from samara_devtools.devcluster.errors import DevclusterError
from samara_devtools.devcluster.helm_program import find_helm

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_SECONDS = 1.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m samara_devtools.devcluster", description="A local Kubernetes control plane"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="make sure that its programs exist, and print where")
    commands.add_parser("up", help="start one, print its KUBECONFIG line and keep it until a signal")
    commands.add_parser("helm", help="make sure that the helm exists with which the chart is tested, and print where")
    command = parser.parse_args(arguments).command
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        return {"build": build, "up": up, "helm": helm}[command]()
    except DevclusterError as error:
        to_stderr(str(error))
        return 1
    except KeyboardInterrupt:
        return 0 if command == "up" else 130


def build() -> int:
    _say(str(find(to_stderr).apiserver.parent))
    return 0


def helm() -> int:
    _say(str(find_helm(to_stderr)))
    return 0


def up() -> int:
    with Devcluster() as cluster:
        _say(f"export KUBECONFIG={cluster.kubeconfig}")
        to_stderr("The control plane runs until Ctrl-C.")
        while True:
            time.sleep(POLL_SECONDS)
            ended = cluster.ended()
            if ended:
                raise DevclusterError(f"{ended} ended by itself, so the control plane was stopped.")


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Only once: a second signal must not interrupt the clean-up that the first one began.
    for ignored in SIGNALS:
        signal.signal(ignored, signal.SIG_IGN)
    raise KeyboardInterrupt


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
