"""The rendered chart on a real API server. The operator runs with its own account, whose rights are enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.helm import CHART, ROOT, Helm, is_hook
from tests.chart.pods import NAMESPACE, Account, Pod, by_kind, refused
from tests.cluster.support.api import ApiFault
from tests.cluster.support.operators import SHORT
from tests.cluster.support.stage import Stage, encoded
from tests.cluster.support.waiting import eventually
from tests.support import examples
from tests.support.ports import free_port

from samara.cli.deploy.manifests import Installation, objects
from samara.kube.client import address
from samara.settings import STRUCTS, parse
from samara.vocabularies import VOCABULARIES
from samara_devtools.devcluster import DevclusterError

Json = dict[str, Any]
EXAMPLES = ROOT / "examples"
SPACES = "/api/v1/namespaces"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DISTRIBUTIONS = "/apis/apps.kruise.io/v1beta1/resourcedistributions"
FISHYSECRETS = "/apis/fishykeys.2v.pm/v1alpha1"
SUB_NAMESPACES = "/apis/accurate.cybozu.com/v2"
SUB = "subnamespaces.accurate.cybozu.com"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/samara"
KINDS_OF_OTHERS = ("Issuer", "Certificate", "ServiceMonitor", "PrometheusRule")
"""Kinds whose CRDs Samara does not install."""
FAST = {"sourceGoneAfter": "300ms", **SHORT}
"""Short timers: a killed pod keeps its Lease until it expires, and the next test waits for it."""


class Installed:
    """The chart on the API server, with an operator that runs under the chart's account."""

    def __init__(self, stage: Stage, helm: Helm, settings: Json, **values: Any) -> None:
        self.stage = stage
        self.port = free_port()
        url = f"https://127.0.0.1:{self.port}"
        self.values = {"settings": {**settings, **FAST}, "webhook": {"url": url}, **values}
        self.objects = helm.template(self.values, NAMESPACE)
        self.pod = Pod.__new__(Pod)

    def start(self) -> None:
        self.pod = Pod(self.stage, self.objects, self.port)
        self.pod.start()
        self.pod.ready()
        if "ValidatingWebhookConfiguration" in by_kind(self.objects):
            eventually(self._is_trusted)
        if "MutatingWebhookConfiguration" in by_kind(self.objects):
            eventually(self._is_called)

    def _is_trusted(self) -> bool:
        """The operator has written the bundle into the chart's webhooks."""
        config = self.stage.api.get(f"{HOOKS}/validatingwebhookconfigurations/samara")
        return all(hook["clientConfig"].get("caBundle") for hook in config["webhooks"])

    def _is_called(self) -> bool:
        """The API server uses a new configuration with a delay, and may still call an earlier operator."""
        path = "/apis/accurate.cybozu.com/v2/namespaces/default/subnamespaces"
        sub = {"apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": {"name": "asked"}}
        return is_refused(lambda: self.stage.api.create(path, sub, dryRun="All"), "neither a root nor a sub namespace")

    @property
    def refused(self) -> list[str]:
        return refused(self.stage.cluster, self.pod.account.user)


@contextmanager
def installed(stage: Stage, helm: Helm, settings: Json) -> Iterator[Installed]:
    made = Installed(stage, helm, settings)
    stage.namespace(NAMESPACE)
    definitions = [obj for obj in made.objects if obj["kind"] == "CustomResourceDefinition"]
    others = [obj for obj in made.objects if not is_hook(obj) and obj not in definitions]
    text = yaml.safe_dump_all(others)
    stage.cluster.kubectl("apply", "--server-side", "--filename=-", input=yaml.safe_dump_all([*definitions, *others]))
    established(stage, definitions)
    try:
        made.start()
        yield made
    finally:
        made.pod.kill()
        stage.cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "--filename=-", input=text)


def established(stage: Stage, definitions: list[Json]) -> None:
    """The CRDs stay on the API server for later tests, as they stay in real clusters."""
    for definition in definitions:
        name = f"crd/{definition['metadata']['name']}"
        stage.cluster.kubectl("wait", "--for=condition=Established", name, "--timeout=60s")


def apply(stage: Stage, folder: str, *names: str) -> None:
    for name in names:
        stage.cluster.kubectl("apply", f"--filename={EXAMPLES / folder / name}.yaml")


def data(stage: Stage, namespace: str, name: str, plural: str = "secrets") -> Json | None:
    live = stage.api.find(f"{SPACES}/{namespace}/{plural}/{name}")
    return None if live is None else live["data"]


def is_refused(act: Callable[[], object], word: str) -> bool:
    try:
        act()
    except ApiFault as fault:
        return word in str(fault)
    return False


def is_let_through(act: Callable[[], object]) -> bool:
    """False while the API server still calls a webhook whose configuration is gone."""
    try:
        act()
    except ApiFault as fault:
        if "failed calling webhook" in str(fault):
            return False
        raise
    return True


def at_work_for_secret_copy(stage: Stage) -> None:
    apply(stage, "secret-copy", "namespaces", "pull-secret", "database")
    source = stage.api.get(f"{SPACES}/admin/secrets/orders-database")["data"]
    for namespace in ("shop", "billing"):
        eventually(lambda where=namespace: data(stage, where, "orders-database") == source)  # type: ignore[misc]
    eventually(lambda: data(stage, "reports", "registry-pull"))
    stage.api.delete(f"{SPACES}/shop/secrets/orders-database")
    eventually(lambda: data(stage, "shop", "orders-database") == source)
    stage.bump("orders-database")
    source = stage.api.get(f"{SPACES}/admin/secrets/orders-database")["data"]
    eventually(lambda: data(stage, "billing", "orders-database") == source)
    stage.retarget("orders-database", "shop")
    eventually(lambda: data(stage, "billing", "orders-database") is None)
    for reason in ("Copied", "Updated", "Removed"):
        stage.until_event(reason)


def at_work_for_sync_to(stage: Stage) -> None:
    apply(stage, "sync-to", "namespaces", "company-ca", "mail-relay")
    for namespace in ("shop", "billing", "reports"):
        eventually(lambda where=namespace: data(stage, where, "company-ca", "configmaps"))  # type: ignore[misc]
    for namespace in ("shop", "billing"):
        eventually(lambda where=namespace: data(stage, where, "mail-relay"))  # type: ignore[misc]
    assert data(stage, "reports", "mail-relay") is None
    wrong = {"metadata": {"name": "wrong", "annotations": {"openkruise.io/sync-to": "everywhere"}}, "data": {}}
    eventually(
        lambda: is_refused(lambda: stage.api.create(f"{SPACES}/platform/configmaps", wrong, dryRun="All"), "sync-to")
    )
    stage.api.delete(f"{SPACES}/platform/secrets/mail-relay")
    eventually(lambda: data(stage, "shop", "mail-relay") is None)


def at_work_for_resource_distribution(stage: Stage) -> None:
    apply(stage, "resource-distribution", "namespaces", "company-registry", "proxy-settings")
    for namespace in ("shop", "billing", "reports"):
        eventually(lambda where=namespace: data(stage, where, "company-registry"))  # type: ignore[misc]
    eventually(lambda: data(stage, "shop", "proxy-settings", "configmaps"))
    status = f"{DISTRIBUTIONS}/company-registry"
    eventually(lambda: (stage.api.get(status).get("status") or {}).get("succeeded"))
    resource = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong"}}
    wrong: Json = {"metadata": {"name": "wrong"}}
    wrong["spec"] = {"resource": resource, "targets": {"allNamespaces": True}}
    wrong |= {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution"}
    eventually(lambda: is_refused(lambda: stage.api.create(DISTRIBUTIONS, wrong, dryRun="All"), "samara.dev"))
    eventually(lambda: _converts(stage, "resourcedistributions.apps.kruise.io"))
    stage.cluster.kubectl("delete", "resourcedistributions", "--all")
    # The garbage collector looks for new kinds twice a minute.
    eventually(lambda: data(stage, "shop", "company-registry") is None, 90.0)


def at_work_for_accurate(stage: Stage) -> None:
    apply(stage, "accurate", "namespaces", "config-reader", "registry", "sub-namespaces")
    eventually(lambda: data(stage, "acme-shop", "acme-registry"))
    apply(stage, "accurate", "stages")
    eventually(lambda: data(stage, "acme-shop-dev", "acme-registry"))
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces"
    for namespace in ("acme", "acme-shop", "acme-shop-dev"):
        eventually(lambda where=namespace: stage.api.find(f"{roles}/{where}/roles/config-reader"))  # type: ignore[misc]
    shop = f"{SPACES}/acme-shop-dev"
    eventually(lambda: stage.api.get(shop)["metadata"]["labels"].get("example.com/team") == "acme")
    wrong = {"apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": {"name": "elsewhere"}}
    path = f"{SUB_NAMESPACES}/namespaces/acme/subnamespaces"
    eventually(lambda: is_refused(lambda: stage.api.create(path, wrong, dryRun="All"), "samara.dev"))
    eventually(lambda: _converts(stage, "subnamespaces.accurate.cybozu.com"))
    stage.api.delete(f"{SUB_NAMESPACES}/namespaces/acme-shop/subnamespaces/acme-shop-dev")
    eventually(lambda: stage.api.get(f"{SPACES}/acme-shop-dev")["metadata"].get("deletionTimestamp"))


def at_work_for_fishysecret(stage: Stage) -> None:
    values = stage.folder / "values" / "app" / "db"
    values.mkdir(parents=True)
    for name, value in (("username", "app_user"), ("password", "click me!")):
        (values / name).write_text(value)
    url = f"file://{stage.folder / 'values'}"
    stage.foreign(NAMESPACE, "fishysecret-config", {"url": url})
    apply(stage, "fishysecret", "namespaces", "fishysecret")
    wanted = encoded({"DB_USER": "app_user", "DB_PASS": "click me!"})
    eventually(lambda: data(stage, "target-namespace", "test-secret") == wanted)
    stage.api.delete(f"{SPACES}/target-namespace/secrets/test-secret")
    eventually(lambda: data(stage, "target-namespace", "test-secret") == wanted)
    path = f"{FISHYSECRETS}/namespaces/default/fishysecrets/fishysecret-db"
    eventually(lambda: (stage.api.get(path).get("status") or {}).get("conditions"))
    stage.api.delete(path)
    eventually(lambda: data(stage, "target-namespace", "test-secret") is None)
    eventually(lambda: stage.api.find(path) is None)


def at_work_for_example(stage: Stage, vocabulary: str) -> None:
    """Applies an example and waits for every copy that it has in a world."""
    world = examples.a_world(examples.registry_for(vocabulary))
    examples.populate(world, examples.examples(vocabulary))
    names = {path.stem for path in (EXAMPLES / vocabulary).glob("*.yaml")} - {"settings", "namespaces"}
    apply(stage, vocabulary, "namespaces", *sorted(names))
    copies = [obj.ref for obj in world.held() if world.owner(obj) is not None]
    assert copies
    for ref in copies:
        eventually(lambda copy=ref: stage.api.find(address(copy)))  # type: ignore[misc]


def _converts(stage: Stage, name: str) -> bool:
    return bool(stage.api.get(f"{CRDS}/{name}")["spec"]["conversion"]["strategy"] == "Webhook")


AT_WORK = {
    "secret-copy": at_work_for_secret_copy,
    "sync-to": at_work_for_sync_to,
    "resource-distribution": at_work_for_resource_distribution,
    "accurate": at_work_for_accurate,
    "fishysecret": at_work_for_fishysecret,
}
"""What is tried besides the copies of the example. A new vocabulary need not be here."""
NEEDS_MORE = frozenset(vocabulary.name for vocabulary in VOCABULARIES if vocabulary.custom_resources) & AT_WORK.keys()
"""Their functions apply the example step by step, with what it needs from outside."""
NEEDED: Json = {"fishysecret": {"paths": [{"namespaces": ["default"], "allow": ["/app/*"]}]}}
"""Settings without which a vocabulary copies nothing under strict tenancy."""


def settings_for(vocabulary: str) -> Json:
    """The settings of the examples, or else only the vocabulary. Copying a Role needs the rights that it grants."""
    file = EXAMPLES / vocabulary / "settings.yaml"
    given: Json = (
        yaml.safe_load(file.read_text()) if file.exists() else {"vocabularies": {vocabulary: NEEDED.get(vocabulary)}}
    )
    return {"vocabularies": {name: own or {} for name, own in given["vocabularies"].items()}}


@pytest.mark.parametrize("vocabulary", sorted(STRUCTS))
def test_the_rendered_account_has_all_the_rights_that_the_examples_need(
    stage: Stage, helm: Helm, vocabulary: str
) -> None:
    # The namespaces of a new example need not give the consent that strict tenancy, the chart's default, asks for.
    tenancy = {} if vocabulary in AT_WORK else {"tenancy": "open"}
    with installed(stage, helm, {**settings_for(vocabulary), **tenancy}) as running:
        if vocabulary not in NEEDS_MORE:
            at_work_for_example(stage, vocabulary)
        if vocabulary in AT_WORK:
            AT_WORK[vocabulary](stage)
        running.pod.stop()
        assert running.refused == []


def test_the_api_server_accepts_every_field_of_the_manifests(stage: Stage) -> None:
    config = "tenancy: strict\n"
    made = objects(Installation(parse(config, "test"), config, NAMESPACE))
    stage.cluster.kubectl("apply", "--filename=-", input=yaml.safe_dump(made[0]))
    for obj in made:
        if obj["kind"] not in KINDS_OF_OTHERS:
            stage.cluster.kubectl(
                "apply",
                "--server-side",
                "--dry-run=server",
                "--validate=strict",
                "--filename=-",
                input=json.dumps(obj),
            )


def asks(stage: Stage, user: str, *args: str) -> bool:
    """True if the user may do it in the namespace `acme`."""
    try:
        stage.cluster.kubectl("auth", "can-i", f"--as={user}", "--namespace=acme", *args)
    except DevclusterError:
        return False
    return True


def test_edit_in_a_root_allows_writing_sub_namespaces_and_view_allows_reading_them(stage: Stage, helm: Helm) -> None:
    with installed(stage, helm, settings_for("accurate")):
        apply(stage, "accurate", "namespaces")
        for role in ("admin", "edit", "view"):
            given = (f"--clusterrole={role}", f"--user={role}-of-acme", "--namespace=acme")
            stage.cluster.kubectl("create", "rolebinding", role, *given)
        eventually(lambda: asks(stage, "edit-of-acme", "create", SUB))
        eventually(lambda: asks(stage, "view-of-acme", "list", SUB))
        shop = (EXAMPLES / "accurate" / "sub-namespaces.yaml").read_text()
        stage.cluster.kubectl("create", "--as=edit-of-acme", "--filename=-", input=shop)
        eventually(lambda: stage.api.find(f"{SPACES}/acme-shop"))
        assert "acme-shop" in stage.cluster.kubectl("get", "--as=view-of-acme", "--namespace=acme", SUB)
        stage.cluster.kubectl("delete", "--as=admin-of-acme", "--namespace=acme", "--wait=false", SUB, "acme-shop")
        for verb, resource in (("create", SUB), ("delete", SUB), ("create", "fishysecrets.fishykeys.2v.pm")):
            assert not asks(stage, "view-of-acme", verb, resource)
        assert not asks(stage, "edit-of-acme", "create", "fishysecrets.fishykeys.2v.pm")
        assert not asks(stage, "edit-of-acme", "create", "resourcedistributions.apps.kruise.io")
        assert not asks(stage, "edit-of-acme", "patch", SUB, "--subresource=status")


def test_pod_security_restricted_admits_the_pods(stage: Stage, helm: Helm) -> None:
    stage.api.create(
        SPACES, {"metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    by_kind = {(obj["kind"], is_hook(obj)): obj for obj in helm.template({}, NAMESPACE)}
    for kind in (("Deployment", False), ("Job", True)):
        spec = by_kind[kind]["spec"]["template"]["spec"]
        # The priority class and the account belong to the installation. This test is about the pod only.
        spec = {**spec, "serviceAccountName": "default", "automountServiceAccountToken": False}
        spec.pop("priorityClassName", None)
        pod = {"metadata": {"name": "tried"}, "spec": spec}
        account = f"{SPACES}/{NAMESPACE}/serviceaccounts/default"
        eventually(lambda path=account: stage.api.find(path))  # type: ignore[misc]
        stage.api.create(f"{SPACES}/{NAMESPACE}/pods", pod, dryRun="All")


# the end


@contextmanager
def released(stage: Stage, helm: Helm, settings: Json, **values: Any) -> Iterator[Installed]:
    """Like `installed`, but installed by helm."""
    made = Installed(stage, helm, settings, **values)
    admin = f"--kubeconfig={stage.cluster.kubeconfig}"
    file = f"--values={helm.values(made.values)}"
    # CRDs of other tests are still installed, as those of an original controller may be.
    flags = (f"--namespace={NAMESPACE}", "--create-namespace", "--take-ownership", admin, file)
    done = helm.run("install", "samara", CHART, *flags)
    assert done.code == 0, done.err
    established(stage, [obj for obj in made.objects if obj["kind"] == "CustomResourceDefinition"])
    try:
        made.start()
        yield made
    finally:
        made.pod.kill()
        done = helm.run("uninstall", "samara", f"--namespace={NAMESPACE}", "--no-hooks", admin)
        assert done.code == 0, done.err


def second_release(stage: Stage, helm: Helm, release: str, namespace: str, *flags: str) -> str:
    """What helm says about one more release. Empty if it installs it."""
    admin = f"--kubeconfig={stage.cluster.kubeconfig}"
    values = {"fullnameOverride": "second", "crds": {"install": False}, "webhook": {"url": "https://127.0.0.1:1"}}
    settings: Json = {"settings": {"vocabularies": {"secret-copy": {}}}}
    file = f"--values={helm.values({**values, **settings})}"
    done = helm.run("install", release, CHART, f"--namespace={namespace}", "--create-namespace", admin, file, *flags)
    if done.code == 0:
        helm.run("uninstall", release, f"--namespace={namespace}", "--no-hooks", admin)
    return done.err


def test_a_second_release_in_the_cluster_is_refused(stage: Stage, helm: Helm) -> None:
    refusal = f"expected no other samara in this cluster, found release samara in namespace {NAMESPACE}"
    with released(stage, helm, settings_for("secret-copy")) as running:
        assert refusal in second_release(stage, helm, "samara", "elsewhere")
        assert refusal in second_release(stage, helm, "other", NAMESPACE)
        again = f"--values={helm.values(running.values)}"
        admin = f"--kubeconfig={stage.cluster.kubeconfig}"
        done = helm.run("upgrade", "samara", CHART, f"--namespace={NAMESPACE}", admin, again)
        assert done.code == 0, done.err
    assert "expected no other samara" not in second_release(stage, helm, "other", NAMESPACE, "--dry-run=server")


def test_a_release_beside_the_plain_manifests_is_refused_except_in_their_place(stage: Stage, helm: Helm) -> None:
    with installed(stage, helm, settings_for("secret-copy")):
        refusal = f"expected no other samara in this cluster, found namespace {NAMESPACE} (ClusterRoleBinding samara)"
        assert refusal in second_release(stage, helm, "samara", "elsewhere")
        dry = ("--dry-run=server", "--take-ownership")
        assert "expected no other" not in second_release(stage, helm, "samara", NAMESPACE, *dry)


def test_the_uninstall_job_stops_a_deployment_with_another_name(stage: Stage, helm: Helm) -> None:
    with released(stage, helm, settings_for("secret-copy"), fullnameOverride="syncer") as running:
        path = f"{DEPLOYMENT.removesuffix('samara')}syncer"
        assert f"Stops the Deployment {NAMESPACE}/syncer." in uninstall(stage, running, path)
        assert stage.api.get(path)["spec"]["replicas"] == 0


def uninstall(stage: Stage, running: Installed, deployment: str = DEPLOYMENT) -> str:
    """Runs the command of the rendered job with its account, and stops the operator like a kubelet would."""
    hooks = [obj for obj in running.objects if is_hook(obj)]
    stage.cluster.kubectl("apply", "--filename=-", input=yaml.safe_dump_all([h for h in hooks if h["kind"] != "Job"]))
    spec = by_kind(hooks)["Job"]["spec"]["template"]["spec"]
    account = Account(stage, spec["serviceAccountName"])
    with account.start(*spec["containers"][0]["args"]) as job:
        if running.pod.running:
            eventually(lambda: stage.api.get(deployment)["spec"]["replicas"] == 0)
            running.pod.stop()
        output, _ = job.communicate(timeout=60)
    assert job.returncode == 0, output
    assert refused(stage.cluster, account.user) == []
    for hook in hooks:
        if hook["kind"] != "Job":
            stage.cluster.kubectl("delete", "--ignore-not-found", "--filename=-", input=json.dumps(hook))
    return str(output)


def guarded(stage: Stage) -> list[Json]:
    subs = stage.api.items(f"{SUB_NAMESPACES}/subnamespaces")
    return [sub for sub in subs if sub["metadata"].get("finalizers")]


def test_after_uninstall_every_namespace_can_be_written_and_deleted(stage: Stage, helm: Helm) -> None:
    with released(stage, helm, settings_for("accurate")) as running:
        apply(stage, "accurate", "namespaces", "registry", "sub-namespaces")
        eventually(lambda: data(stage, "acme-shop", "acme-registry"))
        eventually(lambda: _converts(stage, "subnamespaces.accurate.cybozu.com"))
        assert len(guarded(stage)) == 2
        output = uninstall(stage, running)
        assert f"Stops the Deployment {NAMESPACE}/samara." in output
        assert "Removes Samara's finalizer from 2 SubNamespaces." in output
        assert output.index("Validating") < output.index("by webhook") < output.index("finalizer")
        for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            assert stage.api.items(f"{HOOKS}/{plural}") == []
        for name in ("subnamespaces.accurate.cybozu.com", "resourcedistributions.apps.kruise.io"):
            assert not _converts(stage, name)
        assert guarded(stage) == []
        assert data(stage, "acme-shop", "acme-registry")  # copies stay
        assert "Nothing to remove." in uninstall(stage, running)
    assert stage.api.find(f"{CRDS}/subnamespaces.accurate.cybozu.com") is not None
    change = {"metadata": {"labels": {"example.com/written": "yes"}}}
    eventually(lambda: is_let_through(lambda: stage.api.patch(f"{SPACES}/acme-shop", change)))
    for name in ("acme-shop", "acme-billing", "acme", "baseline"):
        stage.api.patch(f"{SPACES}/{name}", change)
        stage.api.delete(f"{SPACES}/{name}")
    for name in ("acme-shop", "acme-billing", "acme", "baseline"):
        eventually(lambda where=name: stage.api.find(f"{SPACES}/{where}") is None, 60.0)  # type: ignore[misc]


def test_without_the_uninstall_job_namespaces_of_trees_cannot_be_written(stage: Stage, helm: Helm) -> None:
    """This is why the chart has an uninstall job."""
    with installed(stage, helm, settings_for("accurate")) as running:
        apply(stage, "accurate", "namespaces", "sub-namespaces")
        eventually(lambda: stage.api.find(f"{SPACES}/acme-shop"))
        running.pod.kill()
        change = {"metadata": {"labels": {"example.com/written": "yes"}}}
        assert is_refused(lambda: stage.api.patch(f"{SPACES}/acme-shop", change), "failed calling webhook")
        with pytest.raises(DevclusterError, match="failed calling webhook"):
            apply(stage, "accurate", "stages")
        uninstall(stage, running)
        eventually(lambda: is_let_through(lambda: stage.api.patch(f"{SPACES}/acme-shop", change)))


def test_a_second_uninstall_job_finishes_an_interrupted_one(stage: Stage, helm: Helm, tmp_path: Path) -> None:
    with installed(stage, helm, settings_for("accurate")) as running:
        apply(stage, "accurate", "namespaces", "sub-namespaces")
        eventually(lambda: len(guarded(stage)) == 2)
        eventually(lambda: _converts(stage, "subnamespaces.accurate.cybozu.com"))
        running.pod.stop()
        for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            stage.api.delete(f"{HOOKS}/{plural}/samara")
        stage.api.patch(DEPLOYMENT, {"spec": {"replicas": 0}})
        output = uninstall(stage, running)
        assert "Stops" not in output
        assert guarded(stage) == []
        assert not _converts(stage, "subnamespaces.accurate.cybozu.com")
