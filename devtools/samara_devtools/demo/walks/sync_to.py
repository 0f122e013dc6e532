"""The walk through sync-to: objects whose annotations name the namespaces that need them."""

from __future__ import annotations

from samara_devtools.demo.stage import PROTECTED
from samara_devtools.demo.steps import Steps

HOME = "platform"
BUNDLE, RELAY = "company-ca", "mail-relay"


class Walk(Steps):
    def all(self) -> None:
        self.sources()
        self.deleted_copy()
        self.cleared_annotation()

    def sources(self) -> None:
        """A ConfigMap for every namespace, and a Secret for two."""
        self._screen.step("sync-to: a ConfigMap for every namespace, and a Secret for two")
        self._kubectl("apply", "-f", self._file("namespaces.yaml"))
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("company-ca.yaml"), "-f", self._file("mail-relay.yaml"))
        bundles = {(namespace, BUNDLE) for namespace in self._namespaces(HOME, *PROTECTED)}
        took = self._until("create", bundles, "configmaps")
        self._screen.took(f"{len(bundles)} ConfigMaps, from the first request to the last copy", took)
        self._kubectl("get", "configmaps,secrets", "--all-namespaces", "--selector=openkruise.io/synced-from")

    def deleted_copy(self) -> None:
        """A user deletes a copy, and the operator creates it again."""
        self._screen.step("Another client deletes a copy")
        self._skip_earlier_writes()
        self._kubectl("delete", "secret", RELAY, "--namespace=shop")
        took = self._until("create", {("shop", RELAY)})
        self._expect_equal((HOME, RELAY), ("shop", RELAY))
        self._screen.took("the copy is back", took)

    def cleared_annotation(self) -> None:
        """The annotation is removed. The copies are deleted, and the source stays."""
        self._screen.step("The annotation is taken away")
        self._skip_earlier_writes()
        self._kubectl("annotate", "secret", RELAY, f"--namespace={HOME}", "openkruise.io/sync-to-")
        took = self._until("delete", {("shop", RELAY), ("billing", RELAY)})
        self._screen.took("both copies of the Secret are gone", took)
        self._kubectl("get", "secrets", "--all-namespaces", f"--field-selector=metadata.name={RELAY}")
