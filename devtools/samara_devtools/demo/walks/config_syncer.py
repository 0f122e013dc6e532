"""The walk through config-syncer: an object for every namespace, and one for the namespaces with a label."""

from __future__ import annotations

from samara_devtools.demo.steps import Steps

HOME = "platform"
QUEUE, ROOTS = "event-stream", "internal-roots"


class Walk(Steps):
    def all(self) -> None:
        self.sources()
        self.labels()

    def sources(self) -> None:
        """A Secret for the namespaces with a label, and a ConfigMap for every namespace."""
        self._screen.step("config-syncer: a Secret for the namespaces with a label, and a ConfigMap for all")
        self._kubectl("apply", "-f", self._file("namespaces.yaml"))
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("event-stream.yaml"))
        took = self._until("create", {("shop", QUEUE), ("billing", QUEUE)})
        self._screen.took("2 Secrets, from the first request to the last copy", took)
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("internal-roots.yaml"))
        took = self._until("create", {(name, ROOTS) for name in ("shop", "billing", "shop-test")}, "configmaps")
        self._screen.took("a ConfigMap in every namespace, from the first request to the last copy", took)
        self._kubectl("get", "configmaps", "--all-namespaces", f"--field-selector=metadata.name={ROOTS}")

    def labels(self) -> None:
        """A namespace loses its label, and with it the copy. The original waits until the source is changed."""
        self._screen.step("A namespace loses the label")
        self._skip_earlier_writes()
        self._kubectl("label", "namespace", "billing", "stage-")
        took = self._until("delete", {("billing", QUEUE)})
        self._screen.took("the Secret in billing is gone, that in shop stays", took)
        self._expect_equal((HOME, QUEUE), ("shop", QUEUE), "secret")
