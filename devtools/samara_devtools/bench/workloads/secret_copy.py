"""Secret copy: Secrets of the home namespace."""

from __future__ import annotations

from samara_devtools.bench.workload import Workload

WORKLOAD = Workload({"secret-copy/namespaces": ""})
