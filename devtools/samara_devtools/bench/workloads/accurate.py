"""Accurate: Secrets that are passed on from the root of a tree of namespaces."""

from __future__ import annotations

from samara_devtools.bench.options import BRANCHES, Options
from samara_devtools.bench.workload import Workload


class Tree(Workload):
    def labels_of(self, namespace: str, options: Options) -> dict[str, str]:
        """In a deep tree, n-00004 is the first child of n-00000."""
        if namespace == options.home:
            return {"accurate.cybozu.com/type": "root"}
        above = int(namespace.removeprefix("n-")) // BRANCHES - 1 if options.deep else -1
        return {"accurate.cybozu.com/parent": options.home if above < 0 else f"n-{above:05}"}


WORKLOAD = Tree(
    {"accurate.cybozu.com/propagate": "update"},
    {"watches": [{"version": "v1", "kind": "Secret"}]},
    least_rate=80,  # in a tree each hop waits for the one before
)
