"""The cluster of one test: creates objects, runs operators, and empties the cluster afterwards."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.support.api import Api, ApiFault, in_parallel
from tests.cluster.support.audit import Audit
from tests.cluster.support.operators import Operator, settings
from tests.cluster.support.proxy import Proxy
from tests.cluster.support.registry import forget
from tests.cluster.support.waiting import eventually

from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
TARGETS = "secret-copy/namespaces"
ORIGIN = "secret-copy/origin"
FROM = "secret-copy/from"
HOME = "admin"
USER = "samara"
SECOND = "samara-2"
"""A second user, so that the audit log distinguishes two operators."""
OWN = "default"
"""The operator's own namespace: lease and holds."""
CONTENTS = ("roles", "rolebindings", "configmaps", "networkpolicies")
"""Other resources in the namespaces of tests, by their key below /registry/."""
CUSTOM = ("accurate.cybozu.com/subnamespaces", "fishykeys.2v.pm/fishysecrets")
SYSTEM = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
READ_ALL = [{"apiGroups": [""], "resources": ["namespaces", "resourcequotas"], "verbs": ["list", "watch"]}]
READ_SECRETS = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}]
WRITE_SECRETS = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "update", "patch", "delete"]}]
OWN_THINGS = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]


@dataclass(slots=True)
class Expect:
    """The settings and the blocked copies of a test that the oracles need to know."""

    home: str = HOME
    on_source_gone: str = "keep"
    overwrite: bool = False
    blocked: set[tuple[str, str]] = field(default_factory=set)
    """(namespace, name) of copies that cannot be right at the end: quota, rights, immutable with `recreate: refuse`."""
    kept: set[tuple[str, str]] = field(default_factory=set)
    """(namespace, name) of copies that stay although nothing wants them: held by the brake, or discarded."""
    quiet: float = 0.5
    """The window of O2 in seconds, after O5 has seen that nothing is pending."""


def prepare(cluster: Devcluster) -> None:
    """Gives the operator's user exactly the rights of rule 12."""
    api = Api(cluster.url, cluster._credentials.admin_context())
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    subject = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"} for user in (USER, SECOND)]
    for name, rules in (("samara", [*READ_ALL, *READ_SECRETS, *WRITE_SECRETS, *OWN_THINGS[2:]]),):
        _made(api, f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        role = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        _made(api, f"{rbac}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": subject})
    own = f"{rbac}/namespaces/{OWN}"
    role = {"kind": "Role", "name": "samara", "apiGroup": "rbac.authorization.k8s.io"}
    _made(api, f"{own}/roles", {"metadata": {"name": "samara"}, "rules": OWN_THINGS[:2]})
    _made(api, f"{own}/rolebindings", {"metadata": {"name": "samara"}, "roleRef": role, "subjects": subject})
    api.close()


def _made(api: Api, path: str, body: Json) -> None:
    try:
        api.create(path, body)
    except ApiFault as fault:
        if fault.status != 409:
            raise


class Stage:
    """The cluster, the operators and the proxies of a test."""

    def __init__(self, cluster: Devcluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.api = Api(cluster.url, cluster._credentials.admin_context())
        self.audit = Audit(cluster.audit_log)
        self.expect = Expect()
        self.operators: list[Operator] = []
        self.proxies: list[Proxy] = []
        self._numbers = itertools.count(1)
        self._extras: list[str] = []

    # objects of users

    def namespace(self, *names: str, **annotations: str) -> None:
        """Creates namespaces, many at a time; `samara_ignore="true"` stands for the annotation samara.dev/ignore."""
        prefixed = {f"samara.dev/{key.removeprefix('samara_')}": value for key, value in annotations.items()}

        def make(name: str) -> None:
            self.api.create("/api/v1/namespaces", {"metadata": {"name": name, "annotations": prefixed}})

        if len(names) > 4:
            in_parallel(make, names)
        else:
            for name in names:
                make(name)

    def annotate(self, path: str, annotations: Mapping[str, str | None]) -> Json:
        return self.api.patch(path, {"metadata": {"annotations": dict(annotations)}})

    def ensure_home(self, name: str = HOME) -> None:
        if self.api.find(f"/api/v1/namespaces/{name}") is None:
            self.namespace(name)

    def rising(self) -> str:
        """A strictly increasing number for the data of sources: O4 checks that no copy returns to an older one."""
        return str(next(self._numbers))

    def source(
        self,
        name: str,
        targets: str | None = "",
        data: Mapping[str, str] | None = None,
        *,
        home: str = HOME,
        type: str = "Opaque",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        immutable: bool = False,
    ) -> Json:
        """A Secret in the home namespace; `targets=None` leaves the annotation out."""
        self.ensure_home(home)
        all_annotations = {**(annotations or {}), **({} if targets is None else {TARGETS: targets})}
        body = {
            "metadata": {"name": name, "annotations": all_annotations, "labels": dict(labels or {})},
            "type": type,
            "data": encoded({"n": self.rising(), **(data or {})}),
            **({"immutable": True} if immutable else {}),
        }
        return self.api.create(f"/api/v1/namespaces/{home}/secrets", body)

    def bump(self, name: str, home: str = HOME, **data: str) -> Json:
        """Gives a source a new number and further data. Its other data stay."""
        return self.api.patch(
            f"/api/v1/namespaces/{home}/secrets/{name}", {"data": encoded({"n": self.rising(), **data})}
        )

    def retarget(self, name: str, targets: str | None, home: str = HOME) -> Json:
        return self.annotate(f"/api/v1/namespaces/{home}/secrets/{name}", {TARGETS: targets})

    def foreign(self, namespace: str, name: str, data: Mapping[str, str] | None = None, **fields: Any) -> Json:
        """Creates a Secret that does not belong to us."""
        meta = {"name": name, **fields.pop("metadata", {})}
        body = {"metadata": meta, "type": "Opaque", "data": encoded(data or {"mine": "1"}), **fields}
        return self.api.create(f"/api/v1/namespaces/{namespace}/secrets", body)

    # reading

    def secret(self, namespace: str, name: str) -> Json | None:
        return self.api.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")

    def path(self, namespace: str, name: str) -> str:
        return f"/api/v1/namespaces/{namespace}/secrets/{name}"

    def data(self, namespace: str, name: str) -> dict[str, str] | None:
        """The decoded data of a Secret, or None if it does not exist."""
        secret = self.secret(namespace, name)
        return None if secret is None else decoded(secret)

    def has_copy(self, namespace: str, name: str, home: str = HOME) -> bool:
        """True if the copy equals its source and has the mark."""
        source, copy = self.secret(home, name), self.secret(namespace, name)
        return (
            source is not None
            and copy is not None
            and (copy.get("data"), copy["type"]) == (source.get("data"), source["type"])
            and (copy["metadata"].get("annotations") or {}).get(ORIGIN) == f"{home}/{name}"
        )

    def until_copied(self, name: str, *namespaces: str, deadline: float = 20.0) -> None:
        for namespace in namespaces:
            eventually(lambda where=namespace: self.has_copy(where, name), deadline)  # type: ignore[misc]

    def explained(self, path: str, api_version: str) -> str:
        """The output of `kubectl explain` in one line.

        The server publishes the OpenAPI document, and lists it in its index, a little later than it serves the kind.
        kubectl has a cache of its own here. The index has no ETag, and its Last-Modified is the current second: kubectl
        would go on using an older index that it read in this second.
        """
        eventually(lambda: self._publishes(api_version))
        cache = f"--cache-dir={self.folder / 'explain' / api_version}"
        return " ".join(self.cluster.kubectl(cache, "explain", path, f"--api-version={api_version}").split())

    def _publishes(self, api_version: str) -> bool:
        index = self.api.find("/openapi/v3") or {}
        if f"apis/{api_version}" not in index.get("paths", ()):
            return False
        openapi = self.api.find(f"/openapi/v3/apis/{api_version}") or {}
        return any("{name}" in path for path in openapi.get("paths", ()))

    def until_seen(self) -> None:
        """Waits until the operator has seen all changes of Secrets and Namespaces so far.

        Each kind has its own watch, and one may be ahead of the other. A test that changes a Namespace and a Secret and
        expects no write must know that the operator has seen both changes. The operator creates a new copy in a new
        namespace only after it has seen the newest events of both kinds.
        """
        name = f"seen-{self.rising()}"
        self.namespace(name)
        self.source(name, name)
        self.until_copied(name, name)

    def until_gone(self, namespace: str, name: str, deadline: float = 20.0) -> None:
        eventually(lambda: self.secret(namespace, name) is None, deadline)

    def events(self, namespace: str = HOME, reason: str | None = None, about: str | None = None) -> list[Json]:
        """The Kubernetes Events that Samara wrote in a namespace."""
        return [
            event
            for event in self.api.items(f"/api/v1/namespaces/{namespace}/events")
            if event.get("reportingComponent") == "samara"
            and reason in (None, event["reason"])
            and about in (None, event["involvedObject"]["name"])
        ]

    def until_event(self, reason: str, namespace: str = HOME, about: str | None = None) -> Json:
        return eventually(lambda: self.events(namespace, reason, about))[0]

    # operators

    def operator(
        self,
        *flags: str,
        config: Mapping[str, Any] | None = None,
        kubeconfig: Path | None = None,
        through: Proxy | None = None,
        env: Mapping[str, str] | None = None,
        wait: str = "synced",
        program: tuple[str, ...] | None = None,
    ) -> Operator:
        """Starts an operator and waits until it is `synced`, `ready` or merely `started`."""
        chosen = through.kubeconfig() if through is not None else kubeconfig or self.kubeconfig()
        flags = (f"--namespace={OWN}", *flags)
        made = Operator(self.folder, chosen, flags, settings(config or {}), dict(env or {}), program)
        self.operators.append(made)
        made.start()
        if wait != "started":
            made.ready() if wait == "ready" else made.synced()
        return made

    def kubeconfig(self, user: str = USER) -> Path:
        return self.cluster.kubeconfig_for(user)

    def proxy(self, user: str = USER) -> Proxy:
        made = Proxy(self.cluster.url, self.cluster.kubeconfig_for(user), self.folder).start()
        self.proxies.append(made)
        return made

    @property
    def leaders(self) -> list[Operator]:
        return [operator for operator in self.operators if operator.leads]

    # the end

    def also_remove(self, path: str) -> None:
        """Registers an object outside of namespaces for removal after the test."""
        self._extras.append(path)

    def end_processes(self) -> None:
        for operator in self.operators:
            operator.kill()
        for proxy in self.proxies:
            proxy.stop()

    def sweep(self) -> None:
        """Empties the cluster: only the system namespaces remain, and no Secrets.

        This deletes keys in etcd. The namespace controller would wait for five seconds and then empty a namespace of
        the same name that the next test has created meanwhile.
        """
        for path in self._extras:
            self.api.gone(path)
        namespaces = [namespace["metadata"]["name"] for namespace in self.api.items("/api/v1/namespaces")]
        ours = [name for name in namespaces if name not in SYSTEM]
        self.forget(*(f"{plural}/" for plural in ("secrets", "resourcequotas", "events", *CUSTOM)))
        self.forget(f"leases/{OWN}/samara", f"configmaps/{OWN}/samara-holds", exact=True)
        self.forget(*(f"{plural}/{name}/" for name in ours for plural in CONTENTS))
        self.forget(*(f"namespaces/{name}" for name in ours), exact=True)
        eventually(lambda: not self._left())
        self.api.close()

    def forget(self, *keys: str, exact: bool = False) -> None:
        forget(self.cluster, *keys, exact=exact)

    def _left(self) -> list[str]:
        namespaces = [namespace["metadata"]["name"] for namespace in self.api.items("/api/v1/namespaces")]
        secrets = [secret["metadata"]["name"] for secret in self.api.items("/api/v1/secrets")]
        return [name for name in namespaces if name not in SYSTEM] + secrets


@contextmanager
def on_stage(request: pytest.FixtureRequest, cluster: Devcluster, folder: Path) -> Iterator[Stage]:
    """A stage for one test. The report of a failure contains the logs of the operators."""
    made = Stage(cluster, folder)
    try:
        yield made
    finally:
        made.end_processes()
        for operator in made.operators:
            request.node.add_report_section("teardown", f"log of {operator.log_file.name}", operator.tail())
        made.sweep()


def encoded(data: Mapping[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}


def decoded(secret: Json) -> dict[str, str]:
    return {key: base64.b64decode(value).decode(errors="replace") for key, value in (secret.get("data") or {}).items()}
