"""The command line of the benchmark."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

ABOUT = "Measures speed and memory beside a bare client on the same server, and prints one table."
PHASES = ("fill", "change", "bystander", "latency", "rest", "restart", "memory", "large")
OURS = "{python} -m samara.cli.main run --kubeconfig {kubeconfig} --http-address 127.0.0.1:{port}"
READY = "http://127.0.0.1:{port}/readyz"
SYNCED = "http://127.0.0.1:{port}/syncz"
METRICS = "http://127.0.0.1:{port}/metrics"
FULL = 10_000
SMALL = 1_000
"""Namespaces at which memory and the time to ready are measured."""
ASKS: dict[str, dict[str, str]] = {
    "secret-copy": {"secret-copy/namespaces": ""},
    "sync-to": {"openkruise.io/sync-to": "cluster"},
    "resource-distribution": {},
    "accurate": {"accurate.cybozu.com/propagate": "update"},
    "fishysecret": {},
}
"""The annotations that make a Secret a source."""
CONFIGURED = ("accurate", "fishysecret")
"""These vocabularies need a settings file."""
SOURCES = 10
"""Sources of the large run."""
BRANCHES = 4
"""Children of each namespace of a tree that is not a leaf."""


@dataclass(frozen=True, slots=True)
class Options:
    vocabulary: str
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
    annotations: dict[str, str]
    labels: dict[str, str]
    ready_url: str
    synced_url: str
    metrics_url: str
    out: str
    resources: int = 1
    """Sources that are written together in each round."""
    deep: bool = False
    """True if the namespaces of Accurate are a deep tree. Otherwise the root is the parent of all."""
    objects: int = 0
    """Number of FishySecrets."""
    paths: int = 0

    def wants(self, *phases: str) -> bool:
        return any(phase in self.only for phase in phases)


def parse(arguments: list[str] | None = None) -> Options:
    given = _parser().parse_args(arguments)
    namespaces = given.namespaces or (FULL if given.full else SMALL)
    chosen = frozenset(given.only.split(",")) if given.only else _usual(given.full or given.copies)
    ours = given.controller == OURS
    command = f"{OURS} --config {{config}}" if ours and given.vocabulary in CONFIGURED else given.controller
    return Options(
        given.vocabulary,
        namespaces,
        chosen,
        command,
        given.copies or SOURCES * FULL,
        given.rest,
        given.unrelated,
        given.rounds,
        given.trial,
        given.fresh,
        given.small,
        given.source_namespace,
        dict(given.source_annotation) if given.source_annotation else ASKS[given.vocabulary],
        dict(given.source_label),
        given.ready_url,
        given.synced_url if given.synced_url is not None else SYNCED * ours,
        given.metrics_url if given.metrics_url is not None else METRICS * ours,
        given.out,
        given.resources,
        given.deep,
        given.objects,
        given.paths,
    )


def _usual(large: bool) -> frozenset[str]:
    return frozenset(PHASES) if large else frozenset(PHASES) - {"large"}


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
    add("--vocabulary", choices=sorted(ASKS), default="secret-copy", help="which of ours is measured")
    add("--namespaces", type=int, metavar="N", help=f"how many the fan-outs go to (default {SMALL}, {FULL} if --full)")
    add("--full", action="store_true", help=f"{FULL} namespaces, and the large run too")
    add("--only", type=_phases, metavar="PHASES", help=f"some of {','.join(PHASES)}")
    add("--copies", type=int, metavar="N", help=f"do the large run, with this many copies of {SOURCES} sources")
    add("--rest", type=float, default=60.0, metavar="S", help="seconds at rest")
    add("--unrelated", type=int, default=5000, metavar="N", help="Secrets of 10 KiB that are nobody's business")
    add("--rounds", type=int, default=3, metavar="N", help="how often bare client and controller take turns")
    add("--trial", type=int, default=2000, metavar="N", help="writes in one trial of the bare client")
    add("--fresh", type=int, default=200, metavar="N", help="namespaces made one after another for the latency")
    add("--small", type=int, default=SMALL, metavar="N", help="namespaces of the memory phase")
    add("--resources", type=int, default=1, metavar="N", help="sources that are written at once in a turn")
    add("--deep", action="store_true", help=f"accurate: a tree of {BRANCHES} branches each; else all hang on the root")
    add("--objects", type=int, default=5000, metavar="N", help="fishysecret: how many there are")
    add("--paths", type=int, default=200, metavar="N", help="fishysecret: distinct paths that they ask for")
    add("--out", default="build/bench", metavar="FOLDER", help="where the JSON goes")
    theirs = parser.add_argument_group("another controller")
    add = theirs.add_argument
    add("--controller", default=OURS, metavar="COMMAND", help="may use {kubeconfig}, {port} and {python}")
    add("--source-namespace", default="admin", metavar="NAME", help="where its sources live")
    add("--source-annotation", type=_pair, action="append", metavar="K=V", help="what makes a Secret its source")
    add("--source-label", type=_pair, action="append", default=[], metavar="K=V")
    add("--ready-url", default=READY, metavar="URL", help="200 when it is ready; empty: when it has been quiet")
    add("--synced-url", metavar="URL", help="200 when all is in sync, where it has such an address")
    add("--metrics-url", metavar="URL", help="metrics that name the longest stall of its loop")
    return parser
