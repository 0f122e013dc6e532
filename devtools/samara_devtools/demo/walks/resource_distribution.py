"""The walk through ResourceDistribution: a custom resource with an object and its target namespaces."""

from __future__ import annotations

import json

from samara_devtools.demo.stage import PROTECTED
from samara_devtools.demo.steps import Steps

REGISTRY, PROXY = "company-registry", "proxy-settings"
NOTHING_EXCLUDED = '{"spec":{"targets":{"excludedNamespaces":null}}}'


class Walk(Steps):
    def all(self) -> None:
        self.sources()
        self.new_namespace()
        self.more_targets()

    def sources(self) -> None:
        """A Secret for every namespace, and a ConfigMap for those with a certain label."""
        self._screen.step("ResourceDistribution: a Secret for every namespace, a ConfigMap for those with a label")
        self._kubectl("apply", "-f", self._file("namespaces.yaml"))
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file(f"{REGISTRY}.yaml"), "-f", self._file(f"{PROXY}.yaml"))
        wanted = {(namespace, REGISTRY) for namespace in self._namespaces(*PROTECTED)}
        took = self._until("create", wanted)
        self._screen.took(f"{len(wanted)} Secrets, from the first request to the last copy", took)
        self._until_reported(REGISTRY, len(wanted))
        self._until_reported(PROXY, 1)
        self._kubectl("get", "distributor")

    def new_namespace(self) -> None:
        """A namespace that the targets list is created, and gets its copy."""
        self._screen.step("A namespace that a distribution waits for")
        self._skip_earlier_writes()
        self._kubectl("create", "namespace", "build")
        took = self._until("create", {("build", PROXY)}, "configmaps")
        self._screen.took("the namespace has what was waiting for it", took)
        self._until_reported(PROXY, 2)
        self._kubectl("get", "distributor", PROXY)

    def more_targets(self) -> None:
        """An excluded namespace becomes a target."""
        self._screen.step("An excluded namespace is excluded no more")
        self._skip_earlier_writes()
        self._kubectl("patch", "distributor", PROXY, "--type=merge", f"--patch={NOTHING_EXCLUDED}")
        took = self._until("create", {("billing", PROXY)}, "configmaps")
        self._screen.took("it has its copy", took)
        self._samara("status")

    def _until_reported(self, name: str, succeeded: int) -> None:
        def has_succeeded() -> bool:
            distribution = json.loads(self._stage.cluster.kubectl("get", "distributor", name, "--output=json"))
            return bool(distribution.get("status", {}).get("succeeded") == succeeded)

        self._stage.wait_for(f"the status of {name}", has_succeeded)
