"""The walk through Secret copy: Secrets that an annotation copies to other namespaces."""

from __future__ import annotations

from samara_devtools.demo.steps import Steps

HOME = "admin"
PULL, DATABASE = "registry-pull", "orders-database"
CHANGED = '{"stringData":{"password":"changed-by-hand"}}'


class Walk(Steps):
    def all(self) -> None:
        self.sources()
        self.edited_copy()
        self.new_namespace()
        self.dropped_target()
        self.questions()

    def sources(self) -> None:
        """Two Secrets request copies and get them."""
        self._screen.step("Secret copy: two Secrets that ask to be copied")
        self._screen.say("One goes to every namespace, one to the two that its annotation lists.")
        self._kubectl("apply", "-f", self._file("namespaces.yaml"))
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("pull-secret.yaml"), "-f", self._file("database.yaml"))
        wanted = {(namespace, PULL) for namespace in self._namespaces(HOME)} | {
            ("shop", DATABASE),
            ("billing", DATABASE),
        }
        took = self._until("create", wanted)
        self._screen.took(f"{len(wanted)} copies, from the first request to the last copy", took)
        self._kubectl("get", "secrets", "--all-namespaces", "--selector=secret-copy/from")

    def edited_copy(self) -> None:
        """A user changes a copy. The operator reverts it and explains this in an Event."""
        self._screen.step("Another client edits a copy")
        self._skip_earlier_writes()
        self._kubectl("patch", "secret", DATABASE, "--namespace=shop", "--type=merge", f"--patch={CHANGED}")
        took = self._until("update", {("shop", DATABASE)})
        self._expect_equal((HOME, DATABASE), ("shop", DATABASE))
        self._screen.took("the copy is equal to its source again", took)
        events = ("get", "events", "--namespace=shop", f"--field-selector=involvedObject.name={DATABASE}")
        self._stage.wait_for("an Event in shop", lambda: DATABASE in self._stage.cluster.kubectl(*events))
        self._kubectl(*events, "--output=custom-columns=REASON:.reason,MESSAGE:.message")

    def new_namespace(self) -> None:
        """A new namespace gets the copies that go to every namespace."""
        self._screen.step("A new namespace")
        self._skip_earlier_writes()
        self._kubectl("create", "namespace", "warehouse")
        took = self._until("create", {("warehouse", PULL)})
        self._expect_equal((HOME, PULL), ("warehouse", PULL))
        self._screen.took("the new namespace has its copy", took)
        self._kubectl("get", "secrets", "--namespace=warehouse")

    def dropped_target(self) -> None:
        """A namespace is removed from the list. Its copy is deleted, the others stay."""
        self._screen.step("A target leaves the list")
        self._skip_earlier_writes()
        targets = "secret-copy/namespaces=shop"
        self._kubectl("annotate", "secret", DATABASE, f"--namespace={HOME}", "--overwrite", targets)
        took = self._until("delete", {("billing", DATABASE)})
        self._screen.took("the copy in billing is gone", took)
        self._kubectl("get", "secrets", "--all-namespaces", f"--selector=secret-copy/from={HOME}-{DATABASE}")

    def questions(self) -> None:
        """Commands explain the state, with the same function that decides."""
        self._screen.step("Ask it")
        self._samara("why", f"secret/{DATABASE}", "-n", "billing")
        self._samara("status")
