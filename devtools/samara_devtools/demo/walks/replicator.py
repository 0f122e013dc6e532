"""The walk through replicator: objects that are pushed to namespaces by name and by label."""

from __future__ import annotations

from samara_devtools.demo.steps import Steps

HOME = "platform"
QUEUE, ROOTS = "message-queue", "trusted-roots"


class Walk(Steps):
    def all(self) -> None:
        self.sources()
        self.labelled_namespace()
        self.narrowed_list()

    def sources(self) -> None:
        """A Secret for two namespaces by name, and a ConfigMap for those with a label."""
        self._screen.step("replicator: a Secret for two namespaces, and a ConfigMap for those with a label")
        self._kubectl("apply", "-f", self._file("namespaces.yaml"))
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("message-queue.yaml"))
        took = self._until("create", {("shop", QUEUE), ("billing", QUEUE)})
        self._screen.took("2 Secrets, from the first request to the last copy", took)
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("trusted-roots.yaml"))
        took = self._until("create", {(name, ROOTS) for name in ("shop", "billing", "shop-test")}, "configmaps")
        self._screen.took("3 ConfigMaps, from the first request to the last copy", took)
        self._kubectl("get", "configmaps", "--all-namespaces", f"--field-selector=metadata.name={ROOTS}")

    def labelled_namespace(self) -> None:
        """A namespace gets a label that the source selects, and with it the copy."""
        self._screen.step("A namespace gets the label")
        self._kubectl("create", "namespace", "shop-next")
        self._skip_earlier_writes()
        self._kubectl("label", "namespace", "shop-next", "stage=test")
        took = self._until("create", {("shop-next", ROOTS)}, "configmaps")
        self._expect_equal((HOME, ROOTS), ("shop-next", ROOTS), "configmap")
        self._screen.took("the labelled namespace has its copy", took)

    def narrowed_list(self) -> None:
        """A namespace leaves the list. Its copy is deleted, which the original does not do."""
        self._screen.step("A namespace leaves the list")
        self._skip_earlier_writes()
        shop_only = "replicator.v1.mittwald.de/replicate-to=shop"
        self._kubectl("annotate", "secret", QUEUE, f"--namespace={HOME}", "--overwrite", shop_only)
        took = self._until("delete", {("billing", QUEUE)})
        self._screen.took("the Secret in billing is gone, that in shop stays", took)
        self._kubectl("get", "secrets", "--all-namespaces", f"--field-selector=metadata.name={QUEUE}")
