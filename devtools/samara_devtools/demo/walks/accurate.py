"""The walk through Accurate: a tree of namespaces, and what they inherit."""

from __future__ import annotations

from samara_devtools.demo.steps import Address, Steps

TEMPLATE, ROOT, SHOP, BILLING, DEV = "baseline", "acme", "acme-shop", "acme-billing", "acme-shop-dev"
REGISTRY = "acme-registry"
NETWORK = "example.com/network"
SHOWN_LABELS = f"--label-columns={NETWORK},example.com/team,example.com/stage"
CHANGED = '{"stringData":{"extra":"changed-by-hand"}}'


class Walk(Steps):
    def all(self) -> None:
        self.sources()
        self.deeper()
        self.inherited()
        self.edited_in_the_middle()
        self.removed()

    def sources(self) -> None:
        """Creates a template and a root with objects to propagate, and then sub-namespaces."""
        self._screen.step("Accurate: a tree of namespaces, and what flows along it")
        self._screen.say("The root acme is made from a template. A SubNamespace in it makes a namespace below it.")
        self._kubectl("apply", *self._files("namespaces.yaml", "config-reader.yaml", "registry.yaml"))
        self._skip_earlier_writes()
        self._kubectl("apply", *self._files("sub-namespaces.yaml"))
        took = self._until("create", _copies(SHOP, BILLING))
        self._screen.took("two namespaces, each with its copy of the Secret", took)

    def deeper(self) -> None:
        """Namespaces below a sub-namespace inherit from it, hop by hop."""
        self._screen.step("One level further down")
        self._skip_earlier_writes()
        self._kubectl("apply", *self._files("stages.yaml"))
        took = self._until("create", _copies(DEV))
        self._expect_equal((ROOT, REGISTRY), (DEV, REGISTRY))
        self._screen.took("the namespace is there, and so is its copy, equal to that in the root", took)
        self._samara("tree", ROOT)

    def inherited(self) -> None:
        """A label changes at the top and arrives at the bottom."""
        self._screen.step("A label of the template changes, and flows three deep")
        self._skip_earlier_writes()
        self._kubectl("label", "namespace", TEMPLATE, "--overwrite", f"{NETWORK}=open")
        took = self._until("patch", {(name, name) for name in (ROOT, SHOP, BILLING, DEV)}, "namespaces")
        self._screen.took("the root and all below it have the new value", took)
        self._kubectl("get", "namespaces", TEMPLATE, ROOT, SHOP, BILLING, DEV, SHOWN_LABELS)

    def edited_in_the_middle(self) -> None:
        """A copy that is itself a source is repaired before its change can be propagated."""
        self._screen.step("Another client edits the copy in the middle")
        self._skip_earlier_writes()
        self._kubectl("patch", "secret", REGISTRY, f"--namespace={SHOP}", "--type=merge", f"--patch={CHANGED}")
        took = self._until("update", _copies(SHOP))
        self._expect_equal((ROOT, REGISTRY), (SHOP, REGISTRY))
        self._expect_equal((ROOT, REGISTRY), (DEV, REGISTRY))
        self._screen.took("it is as the root says again, and the copy below never saw the change", took)

    def removed(self) -> None:
        """A SubNamespace is deleted, and its namespace with it."""
        self._screen.step("A SubNamespace is removed")
        self._skip_earlier_writes()
        self._kubectl("delete", "subnamespace", DEV, f"--namespace={SHOP}", "--wait=false")
        took = self._until("delete", {(DEV, DEV)}, "namespaces")
        self._screen.took("its namespace is being deleted", took)
        self._stage.wait_for(f"the end of {DEV}", lambda: DEV not in self._namespaces())
        self._samara("tree", ROOT)

    def _files(self, *names: str) -> list[str]:
        return [argument for name in names for argument in ("-f", self._file(name))]


def _copies(*namespaces: str) -> set[Address]:
    return {(namespace, REGISTRY) for namespace in namespaces}
