"""The walk through reflector: automatic mirrors, and an object that asks for its content."""

from __future__ import annotations

from samara_devtools.demo.steps import Steps

HOME = "platform"
LOGIN, ROOTS, PULLED = "registry-login", "login-roots", "roots"


class Walk(Steps):
    def all(self) -> None:
        self.sources()
        self.pull()
        self.off()

    def sources(self) -> None:
        """Automatic mirrors for a namespace by its name, and for those with a label whose names are allowed."""
        self._screen.step("reflector: a Secret with automatic mirrors, where its patterns and labels allow them")
        self._kubectl("apply", "-f", self._file("namespaces.yaml"))
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("registry-login.yaml"))
        took = self._until("create", {("shop", LOGIN), ("billing", LOGIN)})
        self._screen.took("2 mirrors, from the first request to the last mirror; shop-test is not allowed", took)
        self._expect_equal((HOME, LOGIN), ("shop", LOGIN), "secret")

    def pull(self) -> None:
        """An object that a person made is filled from the object that it names."""
        self._screen.step("An object asks for the content of another one")
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("login-roots.yaml"))
        took = self._until("update", {("shop-test", PULLED)}, "configmaps")
        self._screen.took("it is filled by one update, and stays its maker's object", took)

    def off(self) -> None:
        """The mirrors are turned off. The original keeps them until their next event."""
        self._screen.step("The automatic mirrors are turned off")
        self._skip_earlier_writes()
        key = "reflector.v1.k8s.emberstack.com/reflection-auto-enabled-"
        self._kubectl("annotate", "secret", LOGIN, "-n", HOME, key)
        took = self._until("delete", {("shop", LOGIN), ("billing", LOGIN)})
        self._screen.took("both mirrors are gone", took)
