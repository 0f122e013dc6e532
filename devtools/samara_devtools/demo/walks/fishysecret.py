"""The walk through FishySecret: a password that is rotated in a secret manager. Here the manager is a folder."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from samara_devtools.demo.stage import HOME
from samara_devtools.demo.steps import Address, Steps

NAME, CONFIG = "fishysecret-db", "fishysecret-config"
SECRET: Address = ("target-namespace", "test-secret")
USER, PASSWORD = "app/db/username", "app/db/password"
EVERY_TWO_SECONDS = '{"spec":{"refreshInterval":"2s"}}'


class Walk(Steps):
    def all(self) -> None:
        self.sources()
        self.rotated()
        self.manager_away()
        self.removed()

    def sources(self) -> None:
        """A folder is the manager. A FishySecret reads two of its values."""
        self._screen.step("FishySecret: a Secret from a secret manager")
        self._screen.say(f"The manager is a folder, with the files {USER} and {PASSWORD} in it.")
        self._put(USER, "app_user")
        self._put(PASSWORD, "an-example-not-a-password")
        self._kubectl("apply", "-f", self._file("namespaces.yaml"))
        url = f"--from-literal=url=file://{self._folder}"
        self._kubectl("create", "secret", "generic", CONFIG, f"--namespace={HOME}", url)
        self._skip_earlier_writes()
        self._kubectl("apply", "-f", self._file("fishysecret.yaml"))
        took = self._until("create", {SECRET})
        self._screen.took("the Secret is there, with one key for each value", took)
        self._until_condition("SecretSynced")
        self._kubectl("get", "fishysecrets", "--all-namespaces")

    def rotated(self) -> None:
        """The value changes in the manager, without any event in Kubernetes."""
        self._screen.step("The password is rotated")
        self._kubectl("patch", "fishysecret", NAME, "--type=merge", f"--patch={EVERY_TWO_SECONDS}")
        self._skip_earlier_writes()
        self._screen.say("Now the file is replaced. Nothing happens in the cluster that could tell of it.")
        rotated = datetime.now(UTC)
        self._put(PASSWORD, "another-example-not-a-password")
        took = self._until("update", {SECRET}, since=rotated)
        self._screen.took("the Secret has the new password; the manager is read every two seconds", took)

    def manager_away(self) -> None:
        """The manager does not answer, and the Secret is deleted."""
        self._screen.step("The manager is down, and another client deletes the Secret")
        self._folder.rename(self._elsewhere)
        self._until_condition("FetchError")
        self._kubectl("get", "fishysecrets", "--all-namespaces")
        self._skip_earlier_writes()
        self._kubectl("delete", "secret", SECRET[1], f"--namespace={SECRET[0]}")
        took = self._until("create", {SECRET})
        self._screen.took("the Secret is back, with the last good values", took)
        self._elsewhere.rename(self._folder)
        self._until_condition("SecretSynced")
        self._screen.say("The manager is there again, and so is Ready.")

    def removed(self) -> None:
        """The FishySecret is deleted, and its Secret with it."""
        self._screen.step("The FishySecret is deleted")
        self._skip_earlier_writes()
        self._kubectl("delete", "fishysecret", NAME)
        took = self._until("delete", {SECRET})
        self._screen.took("its Secret is gone", took)

    @property
    def _folder(self) -> Path:
        return self._stage.cluster.data / "secret-manager"

    @property
    def _elsewhere(self) -> Path:
        return self._folder.with_name("away")

    def _put(self, path: str, value: str) -> None:
        file, new = self._folder / path, self._folder.with_name("new")
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(value)
        new.replace(file)  # never a half-written value

    def _until_condition(self, reason: str) -> None:
        def has_reason() -> bool:
            fishysecret = json.loads(self._stage.cluster.kubectl("get", "fishysecret", NAME, "--output=json"))
            conditions = fishysecret.get("status", {}).get("conditions", ())
            return any(condition["reason"] == reason for condition in conditions)

        self._stage.wait_for(f"the condition {reason} of {NAME}", has_reason)
