"""Replicator: Secrets with an empty label selector, which selects every namespace."""

from __future__ import annotations

from samara_devtools.bench.workload import Workload

WORKLOAD = Workload({"replicator.v1.mittwald.de/replicate-to-matching": ""})
