"""FishySecrets for the cluster tests: the definition, the actions of users and the results they see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.cluster.support import definitions
from tests.cluster.support.api import Api
from tests.cluster.support.audit import Event
from tests.cluster.support.fishy_folder import CANARY, Folder
from tests.cluster.support.granting import granted
from tests.cluster.support.operators import Operator
from tests.cluster.support.proxy import Proxy
from tests.cluster.support.stage import OWN, SECOND, USER, Stage, encoded
from tests.cluster.support.waiting import eventually

from samara import crds
from samara.cli.deploy.rights import cluster_rules
from samara.settings import Settings
from samara.vocabularies.fishysecret import FishySecretSettings
from samara.vocabularies.secret_copy import SecretCopySettings
from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
GROUP = "fishykeys.2v.pm"
DEFINITION = f"fishysecrets.{GROUP}"
TEXT = crds.text(DEFINITION)
FISHY = f"/apis/{GROUP}/v1alpha1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FINALIZER = f"{GROUP}/finalizer"
OWNER_NAME, OWNER_NAMESPACE = f"{GROUP}/owner-name", f"{GROUP}/owner-namespace"
CONFIG = "fishysecret-config"
TEAM = "team"
"""The default namespace of the FishySecrets."""
TARGET = "target"
SETTLED = 0.5
EVERY = "1s"
"""How often the tests' operators read the folder."""
SELDOM = "1h"
"""For tests that must not depend on the next refresh."""


# the definition and the rights


@contextmanager
def defined(cluster: Devcluster) -> Iterator[None]:
    """The definition, and exactly the rights that `samara rbac` prints for the vocabulary."""
    settings = Settings(vocabularies={"fishysecret": FishySecretSettings(), "secret-copy": SecretCopySettings()})
    rules = [rule.manifest() for rule in cluster_rules(settings)]
    with definitions.defined(cluster, TEXT), granted(cluster, "fishy", rules, USER, SECOND):
        yield


def define(cluster: Devcluster, api: Api) -> None:
    definitions.define(cluster, api, TEXT)


def is_served(api: Api) -> bool:
    return api.serves(f"{FISHY}/fishysecrets")


# actions of users


class Fishy:
    """Creates, changes and reads FishySecrets for a test."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.api = stage.api
        self.folder = Folder(stage.folder / "manager")
        self.put = self.folder.put
        stage.namespace(TEAM, TARGET)

    # the configuration

    def configure(self, url: str | None = None, **more: str) -> None:
        """Creates or replaces the config Secret."""
        data = encoded({"url": self.folder.url if url is None else url, **more})
        self.configure_exactly(data)

    def configure_exactly(self, data: Mapping[str, str]) -> None:
        body = {"metadata": {"name": CONFIG}, "type": "Opaque", "data": dict(data)}
        if self.stage.secret(OWN, CONFIG) is None:
            self.api.create(f"/api/v1/namespaces/{OWN}/secrets", body)
        else:
            self.api.replace(self.stage.path(OWN, CONFIG), body)

    # FishySecrets

    def path(self, name: str = "", namespace: str = TEAM) -> str:
        return f"{FISHY}/namespaces/{namespace}/fishysecrets" + (f"/{name}" if name else "")

    def ask(
        self,
        name: str,
        items: Mapping[str, str],
        target: str = "",
        namespace: str = TEAM,
        finalizers: tuple[str, ...] = (),
        **spec: Any,
    ) -> Json:
        """Creates a FishySecret with these keys and paths. `target` is namespace/name; the default is target/`name`."""
        where, what = target.split("/") if target else (TARGET, name)
        data = [{"secretKeyName": key, "secretPath": path} for key, path in items.items()]
        wanted = {"target": {"name": what, "namespace": where, **spec.pop("of", {})}, "data": data, **spec}
        return self.api.create(self.path(namespace=namespace), manifest(name, wanted, namespace, finalizers))

    def change(self, name: str, namespace: str = TEAM, **spec: Any) -> Json:
        return self.api.patch(self.path(name, namespace), {"spec": spec})

    def items(self, name: str, items: Mapping[str, str], optional: tuple[str, ...] = ()) -> Json:
        listed = [
            {"secretKeyName": key, "secretPath": path, **({"optional": True} if key in optional else {})}
            for key, path in items.items()
        ]
        return self.change(name, data=listed)

    def get(self, name: str, namespace: str = TEAM) -> Json | None:
        return self.api.find(self.path(name, namespace))

    def let_go(self, name: str, namespace: str = TEAM) -> None:
        self.api.delete(self.path(name, namespace))

    def until_gone(self, name: str, namespace: str = TEAM) -> None:
        eventually(lambda: self.get(name, namespace) is None)

    def status(self, name: str, namespace: str = TEAM) -> Json:
        status: Json = (self.get(name, namespace) or {}).get("status") or {}
        return status

    def ready(self, name: str, namespace: str = TEAM) -> Json:
        """The only condition, or an empty mapping."""
        conditions = self.status(name, namespace).get("conditions") or []
        assert [condition["type"] for condition in conditions] in ([], ["Ready"])
        return conditions[0] if conditions else {}

    def reason(self, name: str, namespace: str = TEAM) -> str:
        return str(self.ready(name, namespace).get("reason", ""))

    def until(self, name: str, reason: str = "SecretSynced", namespace: str = TEAM, deadline: float = 20.0) -> str:
        """Waits until its condition, of its newest generation, has this reason, and returns the message."""

        def has_reason() -> bool:
            live = self.get(name, namespace)
            ready = self.ready(name, namespace)
            return (
                live is not None
                and ready.get("reason") == reason
                and ready.get("observedGeneration") == live["metadata"]["generation"]
            )

        eventually(has_reason, deadline)
        condition = self.ready(name, namespace)
        assert condition["status"] == ("True" if reason == "SecretSynced" else "False")
        return str(condition["message"])

    # Secrets

    def data(self, name: str, namespace: str = TARGET) -> dict[str, str] | None:
        return self.stage.data(namespace, name)

    def until_data(self, name: str, data: Mapping[str, str], namespace: str = TARGET, deadline: float = 20.0) -> None:
        eventually(lambda: self.data(name, namespace) == dict(data), deadline)

    def version(self, name: str, namespace: str = TARGET) -> str:
        secret = self.stage.secret(namespace, name)
        assert secret is not None
        return str(secret["metadata"]["resourceVersion"])

    # operators

    def serve(
        self,
        *flags: str,
        through: Proxy | None = None,
        user: str = USER,
        wait: str = "synced",
        program: tuple[str, ...] | None = None,
        **settings: Any,
    ) -> Operator:
        """Starts an operator. Settings named in OWN_SETTINGS belong to the vocabulary, the others to the operator."""
        own = {key: settings.pop(key) for key in OWN_SETTINGS if key in settings}
        vocabularies = {
            "fishysecret": {"refreshInterval": EVERY, "minRefreshInterval": "1s", **own},
            **settings.pop("vocabularies", {}),
        }
        return self.stage.operator(
            "--log-level=debug",
            *flags,
            config={"vocabularies": vocabularies, **settings},
            through=through,
            kubeconfig=None if through is not None else self.stage.kubeconfig(user),
            wait=wait,
            program=program,
        )

    def served(self, items: Mapping[str, str], name: str = "db", **more: Any) -> Operator:
        """Starts an operator with a value at each of these paths, and waits until one FishySecret is in sync."""
        for path in items.values():
            self.put(path, f"{CANARY}-{path}")
        self.configure()
        operator = self.serve(**more)
        self.ask(name, items)
        self.until(name)
        return operator

    # requests of the operator

    def writes(self, mark: int = 0) -> list[Event]:
        """All writes of the operator except Events, Leases, access reviews and dry runs."""
        apart = ("events", "leases", "selfsubjectaccessreviews")
        ours = [event for event in self.stage.audit.since(mark) if event.ours and event.mutating and not event.dry_run]
        return [event for event in ours if event.resource not in apart]

    def sent(self, mark: int = 0) -> list[str]:
        """The writes in short form and in order, without status updates: `update secrets target/db`."""
        return [short(event) for event in self.writes(mark) if event.subresource != "status"]

    def reports(self, mark: int = 0) -> list[Event]:
        return [event for event in self.writes(mark) if event.subresource == "status"]

    def calls(self, operator: Operator, result: str = "ok", store: str = "file") -> int:
        name = f'samara_provider_calls_total{{result="{result}",store="{store}"}}'
        return int(operator.metrics().get(name, 0))

    def kubectl(self, *args: str, input: str | None = None) -> str:
        return self.stage.cluster.kubectl(*args, input=input)


OWN_SETTINGS = ("paths", "crossNamespace", "refreshInterval", "lastSynced", "managers", "takeover", "namespace")


def manifest(name: str, spec: Json | None, namespace: str = TEAM, finalizers: tuple[str, ...] = ()) -> Json:
    meta = {"name": name, "namespace": namespace, "finalizers": list(finalizers)}
    kind = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "FishySecret"}
    return {**kind, "metadata": meta, **({} if spec is None else {"spec": spec})}


def marks(name: str, namespace: str = TEAM) -> dict[str, str]:
    return {OWNER_NAME: name, OWNER_NAMESPACE: namespace}


def short(event: Event) -> str:
    return f"{event.verb} {event.resource} {'/'.join(event.address)}"
