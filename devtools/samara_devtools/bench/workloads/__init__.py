"""The workloads of the benchmark. The module of a workload has the name of its vocabulary with `_` for `-`, and a
`WORKLOAD`. Without one, a vocabulary is measured with the annotations of `--source-annotation`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from samara_devtools.bench.workload import Workload


@cache
def workload_of(vocabulary: str) -> Workload | None:
    """The workload of a vocabulary that has one."""
    module = f"{__name__}.{vocabulary.replace('-', '_')}"
    if find_spec(module) is None:
        return None
    workload: Workload = import_module(module).WORKLOAD
    return workload
