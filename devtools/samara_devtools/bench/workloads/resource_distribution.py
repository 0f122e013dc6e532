"""ResourceDistribution: custom resources that hold a Secret."""

from __future__ import annotations

from dataclasses import dataclass

from samara_devtools.bench.bare import JSON, encode
from samara_devtools.bench.options import Options
from samara_devtools.bench.secrets import Source, secret
from samara_devtools.bench.workload import Workload

DISTRIBUTIONS = "resourcedistributions"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Distribution(Source):
    """A source as a custom resource that holds the Secret."""

    resource = DISTRIBUTIONS

    def request(self) -> tuple[str, str, bytes, str]:
        path = f"/apis/apps.kruise.io/v1beta1/{DISTRIBUTIONS}"
        if self.edition:
            return "PATCH", f"{path}/{self.name}", encode({"spec": {"resource": {"data": self.data}}}), MERGE
        return "POST", path, self.body(), JSON

    def body(self) -> bytes:
        spec = {"resource": secret("", self.name, self.data), "targets": {"allNamespaces": True}}
        kind = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution"}
        return encode({**kind, "metadata": {"name": self.name}, "spec": spec})


class Distributions(Workload):
    def source(self, options: Options, name: str) -> Source:
        return Distribution(options, name)


WORKLOAD = Distributions()
