"""The walk through ResourceDistribution: a custom resource that holds the object and says where it goes."""

from __future__ import annotations

from samara.demo.steps import Steps

NAME, HELD = "company-registry", "company-registry"
EXCLUDE = '{"spec":{"targets":{"excludedNamespaces":{"list":[{"name":"shop"}]}}}}'


class ResourceDistribution(Steps):
    vocabulary = "resource-distribution"

    def all(self) -> None:
        self.sources()
        self.narrowed()

    def sources(self) -> None:
        """One resource that holds a Secret, and its status."""
        raise NotImplementedError

    def narrowed(self) -> None:
        raise NotImplementedError
