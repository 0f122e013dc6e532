"""The command line of the benchmark."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from samara.vocabularies import VOCABULARIES
from samara_devtools.bench.workload import Workload
from samara_devtools.bench.workloads import workload_of

PHASES = ("fill", "change", "bystander", "latency", "rest", "restart", "memory", "commands", "large")
OURS = "{python} -m samara.cli.main run --kubeconfig {kubeconfig} --http-address 127.0.0.1:{port}"
READY = "http://127.0.0.1:{port}/readyz"
SYNCED = "http://127.0.0.1:{port}/syncz"
METRICS = "http://127.0.0.1:{port}/metrics"
FULL = 10_000
SMALL = 1_000
"""Namespaces at which memory and the time to ready are measured."""
SOURCES = 10
"""Sources of the large run."""
BRANCHES = 4
"""Children of each namespace of a tree that is not a leaf."""


@dataclass(frozen=True, slots=True)
class Options:
    vocabulary: str
    has_custom_resources: bool
    settings: Mapping[str, object] | None
    """The vocabulary's own settings. None: the operator runs without a settings file."""
    least_rate: int
    namespaces: int
    only: frozenset[str]
    controller: str
    copies: int
    rest: float
    unrelated: int
    rounds: int
    trial: int
    fresh: int
    small: int
    home: str
    """The namespace of the sources."""
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    ready_url: str
    synced_url: str
    metrics_url: str
    out: str
    resources: int
    """Sources that are written together in each round."""
    deep: bool
    """True if the namespaces of Accurate are a deep tree. Otherwise the root is the parent of all."""
    objects: int
    """Number of FishySecrets."""
    paths: int

    def wants(self, *phases: str) -> bool:
        return any(phase in self.only for phase in phases)


def parse(arguments: list[str] | None = None) -> Options:
    parser = _parser()
    given = parser.parse_args(arguments)
    is_ours = given.controller == OURS
    vocabulary = next(known for known in VOCABULARIES if known.name == given.vocabulary)
    own, annotations = workload_of(given.vocabulary), dict(given.source_annotation)
    if not annotations and own is None:
        parser.error(f"--vocabulary {given.vocabulary}: expected --source-annotation, which makes a Secret its source")
    workload = own or Workload()
    settings = workload.settings
    if settings is None and vocabulary.is_off_until_named:
        settings = {}
    return Options(
        vocabulary=given.vocabulary,
        has_custom_resources=bool(vocabulary.custom_resources),
        settings=settings,
        least_rate=workload.least_rate,
        namespaces=given.namespaces or (FULL if given.full else SMALL),
        only=frozenset(given.only.split(",")) if given.only else _default_phases(given.full or given.copies),
        controller=f"{OURS} --config {{config}}" if is_ours and settings is not None else given.controller,
        copies=given.copies or SOURCES * FULL,
        rest=given.rest,
        unrelated=given.unrelated,
        rounds=given.rounds,
        trial=given.trial,
        fresh=given.fresh,
        small=given.small,
        home=given.source_namespace,
        annotations=annotations or workload.annotations,
        labels=dict(given.source_label),
        ready_url=given.ready_url,
        synced_url=given.synced_url if given.synced_url is not None else SYNCED * is_ours,
        metrics_url=given.metrics_url if given.metrics_url is not None else METRICS * is_ours,
        out=given.out,
        resources=given.resources,
        deep=given.deep,
        objects=given.objects,
        paths=given.paths,
    )


def _default_phases(large: bool) -> frozenset[str]:
    return frozenset(PHASES) if large else frozenset(PHASES) - {"commands", "large"}


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected key=value, found {text!r}")
    return key, value


def _phases(text: str) -> str:
    for name in text.split(","):
        if name not in PHASES:
            raise argparse.ArgumentTypeError(f"expected some of {','.join(PHASES)}, found {name!r}")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m samara_devtools.bench",
        description="Measures speed and memory beside a bare client on the same server, and prints one table.",
    )
    add = parser.add_argument
    add(
        "--vocabulary",
        choices=[known.name for known in VOCABULARIES],
        default=VOCABULARIES[0].name,
        help="what is measured",
    )
    add("--namespaces", type=int, metavar="N", help=f"how many the fan-outs go to (default {SMALL}, {FULL} if --full)")
    add("--full", action="store_true", help=f"{FULL} namespaces, and the phases commands and large too")
    add("--only", type=_phases, metavar="PHASES", help=f"some of {','.join(PHASES)}")
    add(
        "--copies",
        type=int,
        metavar="N",
        help=f"also do the phase large, with this many copies of {SOURCES} sources, and commands on as many namespaces",
    )
    add("--rest", type=float, default=60.0, metavar="S", help="seconds at rest")
    add(
        "--unrelated", type=int, default=5000, metavar="N", help="Secrets of 10 KiB that are neither sources nor copies"
    )
    add("--rounds", type=int, default=3, metavar="N", help="how often bare client and controller take turns")
    add("--trial", type=int, default=2000, metavar="N", help="writes in one trial of the bare client")
    add("--fresh", type=int, default=200, metavar="N", help="namespaces created one after another for the latency")
    add("--small", type=int, default=SMALL, metavar="N", help="namespaces of the memory phase")
    add("--resources", type=int, default=1, metavar="N", help="sources that are written at once in a turn")
    add(
        "--deep",
        action="store_true",
        help=f"accurate: a tree with {BRANCHES} children each; else all are children of the root",
    )
    add("--objects", type=int, default=5000, metavar="N", help="fishysecret: how many there are")
    add("--paths", type=int, default=200, metavar="N", help="fishysecret: how many paths they read together")
    add("--out", default="build/bench", metavar="FOLDER", help="where the JSON goes")
    add = parser.add_argument_group("another controller").add_argument
    add("--controller", default=OURS, metavar="COMMAND", help="may use {kubeconfig}, {port} and {python}")
    add("--source-namespace", default="admin", metavar="NAME", help="where its sources live")
    add(
        "--source-annotation",
        type=_pair,
        action="append",
        default=[],
        metavar="K=V",
        help="what makes a Secret its source",
    )
    add("--source-label", type=_pair, action="append", default=[], metavar="K=V")
    add(
        "--ready-url",
        default=READY,
        metavar="URL",
        help="200 when it is ready; empty: it is ready when it has sent nothing for a while",
    )
    add("--synced-url", metavar="URL", help="200 when all is in sync, if it has such an address")
    add("--metrics-url", metavar="URL", help="metrics that hold the longest stall of its event loop")
    return parser
