"""`samara demo`: a real local control plane, the operator, the examples, and a guided look at the result."""

from __future__ import annotations

import signal
import time
from types import FrameType

import click

from samara.cli.options import Command
from samara_devtools.demo.screen import Screen, duration_text
from samara_devtools.demo.stage import DemoError, Stage
from samara_devtools.demo.steps import timed
from samara_devtools.demo.walks import walks
from samara_devtools.devcluster import DevclusterError, find

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(
    "demo",
    cls=Command,
    examples={
        "See what Samara does, step by step": "samara demo",
        "Keep the cluster, and try things by hand with kubectl": "samara demo --keep",
    },
)
@click.option("--keep", is_flag=True, help="Show no steps, and keep the cluster and the operator running until Ctrl-C.")
@click.pass_context
def command(context: click.Context, keep: bool) -> None:
    """Start a local API server, the operator and the examples, show each step, and remove everything."""
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    screen = Screen()
    try:
        show(screen, keep)
    except KeyboardInterrupt:
        screen.title("Stopped. Nothing is left of it.")
        context.exit(0 if keep else 128 + signal.SIGINT)
    except DevclusterError as error:
        raise DemoError(str(error)) from error
    screen.say("The cluster, the operator and their data are gone.")


def show(screen: Screen, keep: bool) -> None:
    screen.title("Samara on a real Kubernetes API server, on this machine only")
    with Stage(find(screen.say)) as stage:
        screen.took("etcd, kube-apiserver and kube-controller-manager are up", timed(stage.start_cluster))
        seconds = timed(lambda: stage.start_operator(log_to_terminal=keep))
        screen.took("samara run is in sync, with the rights of `samara rbac` and no others", seconds)
        if keep:
            _keep(stage, screen)
        began = time.monotonic()
        for vocabulary, walk in walks().items():
            walk(vocabulary, stage, screen).all()
        screen.title(f"That was all of it, in {duration_text(time.monotonic() - began)}.")


def _keep(stage: Stage, screen: Screen) -> None:
    """Keeps all running until a signal, or until a process ends by itself."""
    for vocabulary, walk in walks().items():
        walk(vocabulary, stage, screen).sources()
    screen.title("All of it runs until Ctrl-C. In a second terminal:")
    click.echo(f"export KUBECONFIG={stage.cluster.kubeconfig}")
    click.echo(f"export PATH={stage.cluster.binaries.kubectl.parent}:$PATH")
    while True:
        stage.check()
        time.sleep(0.5)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Only once: a second signal must not interrupt the clean-up that the first one began.
    for ignored in _SIGNALS:
        signal.signal(ignored, signal.SIG_IGN)
    raise KeyboardInterrupt
