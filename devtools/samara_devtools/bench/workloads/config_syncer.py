"""Config-syncer: Secrets for every namespace."""

from __future__ import annotations

from samara_devtools.bench.workload import Workload

WORKLOAD = Workload({"kubed.appscode.com/sync": ""})
