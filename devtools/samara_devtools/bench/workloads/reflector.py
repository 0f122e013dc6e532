"""Reflector: Secrets with automatic mirrors in every namespace."""

from __future__ import annotations

from samara_devtools.bench.workload import Workload

_PREFIX = "reflector.v1.k8s.emberstack.com/reflection"
WORKLOAD = Workload({f"{_PREFIX}-allowed": "true", f"{_PREFIX}-auto-enabled": "true"})
