"""Namespace trees for the cluster tests: the actions of users, and a judge that knows only the specification.

A test opts out of the judge with a reason: `@pytest.mark.forest_off(reason="…")`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.cli.program import Done, samara
from tests.cluster.support import definitions
from tests.cluster.support.api import Api
from tests.cluster.support.audit import Event
from tests.cluster.support.granting import granted
from tests.cluster.support.operators import Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import OWN, SECOND, USER, Stage, encoded
from tests.cluster.support.waiting import eventually, no_faults

from samara import crds
from samara.cli.deploy.rights import cluster_rules
from samara.settings import Settings
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.secret_copy import SecretCopySettings
from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
GROUP = "accurate.cybozu.com"
DEFINITION = f"subnamespaces.{GROUP}"
TEXT = crds.text(DEFINITION)
TYPE, PARENT, TEMPLATE = f"{GROUP}/type", f"{GROUP}/parent", f"{GROUP}/template"
PROPAGATE, FROM = f"{GROUP}/propagate", f"{GROUP}/from"
FINALIZER = f"{GROUP}/finalizer"
CREATED_BY = "app.kubernetes.io/created-by"
ORIGINAL = "accurate-controller"
"""The field manager of the original: of its server-side applies, and of its plain creates by its program's name."""
SPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
APPLY = "application/apply-patch+yaml"
SETTLED = 0.5
APIS = {
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "resourcequotas": "/api/v1",
    "roles": RBAC,
    "rolebindings": RBAC,
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "subnamespaces": f"/apis/{GROUP}/v2",
}
MODES = ("create", "update")
COPIED = tuple(plural for plural in APIS if plural != "subnamespaces")
CONFIG: Json = {
    "labelKeys": ["team", "*.glob/*"],
    "annotationKeys": ["note"],
    "subNamespaceLabelKeys": ["app", "team"],
    "subNamespaceAnnotationKeys": ["foo"],
    "propagateLabelKeyExcludes": ["*kubernetes.io/*"],
    "propagateAnnotationKeyExcludes": ["*kubernetes.io/*"],
    "watches": [
        {"version": "v1", "kind": "Secret"},
        {"version": "v1", "kind": "ConfigMap"},
        {"version": "v1", "kind": "ResourceQuota"},
        {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "Role"},
        {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "RoleBinding"},
        {"group": "networking.k8s.io", "version": "v1", "kind": "NetworkPolicy"},
    ],
}
"""Settings with the keys of the original's configuration."""
REGISTERING = [
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
        "verbs": ["get", "list", "create", "update", "delete"],
    }
]
"""Further rights of an operator outside of a cluster. In a cluster, the chart owns the configurations."""
CERTIFICATE = [
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get", "list", "watch", "update", "delete"]}
]


# the definition and the rights


@contextmanager
def defined(cluster: Devcluster) -> Iterator[None]:
    """The definition, and exactly the rights that `samara rbac` prints for the vocabulary."""
    settings = Settings(vocabularies={"accurate": AccurateSettings(config=CONFIG), "secret-copy": SecretCopySettings()})
    rules = [rule.manifest() for rule in cluster_rules(settings)]
    with definitions.defined(cluster, TEXT), granted(cluster, "trees", [*rules, *REGISTERING], USER, SECOND):
        yield


def define(cluster: Devcluster, api: Api) -> None:
    definitions.define(cluster, api, TEXT)


# actions of users


class Trees:
    """Creates, changes and reads namespace trees for a test."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.api = stage.api
        self.not_ours: set[tuple[str, str]] = set()
        """(namespace, name) of foreign objects at addresses where a source wants a copy."""

    # namespaces

    def space(self, name: str, labels: Json | None = None, annotations: Json | None = None) -> Json:
        return self.api.create(
            SPACES, {"metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}}}
        )

    def root(self, name: str = "root", **labels: str) -> Json:
        return self.space(name, {TYPE: "root", **labels})

    def template(self, name: str, **labels: str) -> Json:
        return self.space(name, {TYPE: "template", **labels})

    def hang(self, name: str, parent: str) -> Json:
        """A sub-namespace by its label, without a SubNamespace."""
        return self.space(name, {PARENT: parent})

    def label(self, name: str, labels: Mapping[str, str | None]) -> Json:
        return self.api.patch(f"{SPACES}/{name}", {"metadata": {"labels": dict(labels)}})

    def note(self, name: str, annotations: Mapping[str, str | None]) -> Json:
        return self.api.patch(f"{SPACES}/{name}", {"metadata": {"annotations": dict(annotations)}})

    def there(self, name: str) -> Json | None:
        """The namespace, unless it is terminating."""
        namespace = self.api.find(f"{SPACES}/{name}")
        return None if namespace is None or "deletionTimestamp" in namespace["metadata"] else namespace

    def labels(self, name: str) -> dict[str, str]:
        """The labels without the name label of the server."""
        namespace = self.there(name) or {"metadata": {}}
        return {
            key: value
            for key, value in metadata_of(namespace, "labels").items()
            if key != "kubernetes.io/metadata.name"
        }

    # SubNamespaces

    def ask(self, name: str, holder: str, finalizers: Iterable[str] = (), **spec: Json) -> Json:
        meta = {"name": name, "finalizers": list(finalizers)}
        body = {"apiVersion": f"{GROUP}/v2", "kind": "SubNamespace", "metadata": meta, "spec": spec}
        return self.api.create(self.path("subnamespaces", holder), body)

    def grow(self, *names: str) -> None:
        """Creates a root and a chain of SubNamespaces below it."""
        self.root(names[0])
        for above, name in pairwise(names):
            self.ask(name, above)
            eventually(lambda child=name: self.there(child))  # type: ignore[misc]

    def grow_ready(self, *names: str, **served: Any) -> Operator:
        """Starts an operator, creates a chain and waits until it is ready."""
        operator = self.serve(**served)
        self.grow(*names)
        for above, name in pairwise(names):
            self.until_well(name, above)
        return operator

    def sub_namespace(self, name: str, holder: str) -> Json | None:
        return self.get("subnamespaces", holder, name)

    def status(self, name: str, holder: str) -> Json:
        status: Json = (self.sub_namespace(name, holder) or {}).get("status") or {}
        return status

    def condition(self, name: str, holder: str, type_: str) -> Json:
        """The condition of this type, or an empty mapping."""
        conditions = self.status(name, holder).get("conditions", ())
        return next((condition for condition in conditions if condition["type"] == type_), {})

    def reason(self, name: str, holder: str) -> str:
        """The reason of its stalled condition, or an empty text."""
        reasons = [
            condition["reason"]
            for condition in self.status(name, holder).get("conditions", ())
            if condition["status"] == "True"
        ]
        return "".join(reasons)

    def until_well(self, name: str, holder: str) -> None:
        """Waits until its namespace exists and its status is current for kstatus."""

        def is_well() -> bool:
            live = self.sub_namespace(name, holder) or {"metadata": {"generation": 0}}
            status = live.get("status") or {}
            seen = status.get("observedGeneration") == live["metadata"]["generation"]
            types = [condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"]
            return seen and types == ["Ready"] and self.there(name) is not None

        eventually(is_well)

    # objects

    def path(self, plural: str, namespace: str, name: str = "") -> str:
        return f"{APIS[plural]}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self, plural: str, namespace: str, name: str) -> Json | None:
        return self.api.find(self.path(plural, namespace, name))

    def put(
        self,
        namespace: str,
        name: str,
        mode: str | None = "update",
        plural: str = "secrets",
        labels: Json | None = None,
        **body: Any,
    ) -> Json:
        meta = {"name": name, "annotations": {} if mode is None else {PROPAGATE: mode}, "labels": labels or {}}
        content = body or ({"data": encoded({"k": "1"})} if plural == "secrets" else {"data": {"k": "1"}})
        return self.api.create(self.path(plural, namespace), {"metadata": meta, **content})

    def edit(self, namespace: str, name: str, patch: Json, plural: str = "secrets") -> Json:
        return self.api.patch(self.path(plural, namespace, name), patch)

    def mode(self, namespace: str, name: str, mode: str | None, plural: str = "secrets") -> Json:
        return self.edit(namespace, name, {"metadata": {"annotations": {PROPAGATE: mode}}}, plural)

    def data(self, namespace: str, name: str) -> dict[str, str] | None:
        return self.stage.data(namespace, name)

    def is_copy(self, namespace: str, name: str, above: str, plural: str = "secrets") -> bool:
        """True if the copy equals the object in the namespace above and its mark names that namespace."""
        source, copy = self.get(plural, above, name), self.get(plural, namespace, name)
        if source is None or copy is None:
            return False
        return content(source) == content(copy) and metadata_of(copy).get(FROM) == above

    def until_copied(self, name: str, *path: str, plural: str = "secrets") -> None:
        """Waits for the copies along a path of namespaces, each below the one before."""
        eventually(lambda: all(self.is_copy(down, name, up, plural) for up, down in pairwise(path)))

    def until_gone(self, name: str, *namespaces: str, plural: str = "secrets") -> None:
        eventually(lambda: not any(self.get(plural, namespace, name) for namespace in namespaces))

    # operators

    def serve(
        self,
        *flags: str,
        accurate: Json | None = None,
        wait: str = "synced",
        user: str = USER,
        program: tuple[str, ...] | None = None,
        **more: Any,
    ) -> Operator:
        config = {"vocabularies": {"accurate": {**CONFIG, **(accurate or {})}}, **more}
        chosen = self.stage.kubeconfig(user)
        return self.stage.operator(*flags, config=config, wait=wait, kubeconfig=chosen, program=program)

    def settings(self, **accurate: Any) -> Path:
        """The settings of these tests as a file, for the commands."""
        file = self.stage.folder / "settings.yaml"
        file.write_text(json.dumps({"vocabularies": {"accurate": {**CONFIG, **accurate}}}))
        return file

    def samara(self, *args: str) -> Done:
        """A command of the program, as an administrator would type it."""
        own = {"release": ("-n", OWN), "status": ("-A", "-n", OWN), "plan": ("-A", "-n", OWN)}
        return samara(*args, f"--kubeconfig={self.stage.cluster.kubeconfig}", *own.get(args[0], ()))

    # requests of the operator

    def writes(self, mark: int = 0) -> list[Event]:
        """All writes of the operator except Events, Leases, access reviews, `samara-holds` and dry runs."""
        apart = ("events", "leases", "selfsubjectaccessreviews", "subjectaccessreviews")
        return [
            event
            for event in self.stage.audit.since(mark)
            if event.ours
            and event.mutating
            and not event.dry_run
            and event.resource not in apart
            and event.address[1] != "samara-holds"
        ]

    def sent(self, mark: int = 0) -> list[str]:
        """The writes in short form, sorted: `update secrets a/db`."""
        return sorted(short(event) for event in self.writes(mark))

    def kubectl(self, *args: str, input: str | None = None) -> str:
        return self.stage.cluster.kubectl(*args, input=input)


def short(event: Event) -> str:
    resource = f"{event.resource}/{event.subresource}" if event.subresource else event.resource
    namespace, name = event.address
    address = name if event.resource == "namespaces" else f"{namespace}/{name}"
    return f"{event.verb} {resource} {address}"


def content(obj: Json) -> Json:
    """The fields that a copy takes over, without labels and annotations."""
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}


# the judge


def judge(trees: Trees, settled: bool = True) -> None:
    """At the end of a test every tree is as specified, and no write was unsafe."""
    if settled and any(operator.running for operator in trees.stage.operators):
        no_faults(lambda: list(faults(trees)), 10.0)
    unsafe = [f"{short(event)}: {why}" for event in trees.writes() if (why := unsafe_write(event))]
    assert not unsafe, "unsafe writes:\n" + "\n".join(unsafe)


def unsafe_write(event: Event) -> str:
    """Why a write is unsafe, or an empty text. A write other than a create must name uid and version."""
    if not event.done or event.verb == "create" or event.resource.endswith("webhookconfigurations"):
        return ""
    if event.name in ("samara-holds", "samara-webhook-tls") or event.resource == "customresourcedefinitions":
        return ""
    named = event.request.get("preconditions") if event.verb == "delete" else event.request.get("metadata")
    if not (named or {}).get("uid") or not (named or {}).get("resourceVersion"):
        return "it does not name the uid and the version it was planned on"
    if event.verb == "update" and FROM not in metadata_of(event.request):
        return "it replaces an object without saying where it is from"
    return ""


def faults(trees: Trees) -> Iterator[str]:
    """The differences between the cluster and the specification."""
    spaces = {namespace["metadata"]["name"]: namespace for namespace in trees.api.items(SPACES)}
    alive = {name: namespace for name, namespace in spaces.items() if "deletionTimestamp" not in namespace["metadata"]}
    below = {name: upstream(namespace) for name, namespace in alive.items() if is_sound(name, alive)}
    for name, above in below.items():
        yield from _inherited(trees, alive[name], alive[above])
    for plural in COPIED:
        objects = {
            (obj["metadata"]["namespace"], obj["metadata"]["name"]): obj
            for obj in trees.api.items(f"{APIS[plural]}/{plural}")
        }
        yield from _copies(trees, plural, objects, below)


def upstream(namespace: Json) -> str:
    labels = metadata_of(namespace, "labels")
    return labels.get(PARENT) or labels.get(TEMPLATE) or ""


def is_sound(name: str, spaces: dict[str, Json]) -> bool:
    """True if all ancestors exist and do not form a loop."""
    above, seen = upstream(spaces[name]), {name}
    if above not in spaces:
        return False
    while above in spaces and above not in seen:
        seen.add(above)
        above = upstream(spaces[above])
    return above not in seen


def _inherited(trees: Trees, namespace: Json, above: Json) -> Iterator[str]:
    name = namespace["metadata"]["name"]
    sub = trees.sub_namespace(name, above["metadata"]["name"]) if metadata_of(namespace, "labels").get(PARENT) else None
    spec = (sub or {}).get("spec") or {}
    for where, keys, own in (
        ("labels", CONFIG["labelKeys"], CONFIG["subNamespaceLabelKeys"]),
        ("annotations", CONFIG["annotationKeys"], CONFIG["subNamespaceAnnotationKeys"]),
    ):
        wanted = {key: value for key, value in metadata_of(above, where).items() if _matches(keys, key)}
        wanted |= {key: value for key, value in (spec.get(where) or {}).items() if _matches(own, key)}
        actual = metadata_of(namespace, where)
        if not wanted.items() <= actual.items():
            yield f"namespace {name}: {where} are {actual}, and {wanted} were to be inherited"


def _matches(globs: list[str], key: str) -> bool:
    """Matches a glob in which a star matches no slash."""
    return any(glob.count("/") == key.count("/") and fnmatchcase(key, glob) for glob in globs)


def _copies(trees: Trees, plural: str, objects: dict[tuple[str, str], Json], below: dict[str, str]) -> Iterator[str]:
    passed_on = {
        address: mode for address, obj in objects.items() if (mode := metadata_of(obj).get(PROPAGATE)) in MODES
    }
    for name, above in below.items():
        for (namespace, what), mode in passed_on.items():
            if namespace == above and (name, what) not in trees.not_ours:
                yield from _wrong(trees, plural, mode, above, (name, what))
    for (namespace, what), mode in passed_on.items():
        origin = metadata_of(objects[namespace, what]).get(FROM)
        if mode != "update" or not origin or (namespace, what) in trees.not_ours:
            continue
        if below.get(namespace) != origin or passed_on.get((origin, what)) != "update":
            yield f"{plural} {namespace}/{what}: a copy is left of {origin}"


def _wrong(trees: Trees, plural: str, mode: str, above: str, address: tuple[str, str]) -> Iterator[str]:
    if trees.get(plural, *address) is None:
        yield f"{plural} {'/'.join(address)}: no copy is there of the one in {above}"
    elif mode == "update" and not trees.is_copy(*address, above, plural):
        yield f"{plural} {'/'.join(address)}: it is not as the one in {above}"
