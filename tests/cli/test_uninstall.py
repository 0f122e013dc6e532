"""`samara uninstall` shows what it will remove, asks, and leaves everything else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.cli.conftest import Shell
from tests.cluster.support.stage import OWN, Stage

from samara.assembly import served_source_types
from samara.cli.deploy.removal import cluster_rights, guarded_resources
from samara.settings import Settings

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def test_every_finalizer_of_ours_is_of_the_domain_of_the_resource_that_carries_it() -> None:
    """`samara uninstall` tells our finalizers from others by their domain."""
    guarding = [source_type for source_type in served_source_types(Settings()) if source_type.finalizer]
    assert {source_type.name for source_type in guarding} == {"accurate:sub", "fishysecret"}
    for source_type in guarding:
        assert {source_type.finalizer.split("/")[0]} == {source_type.resource.group if source_type.resource else ""}
    assert {kind.name for kind in guarded_resources()} == {"SubNamespace", "FishySecret"}


def test_the_uninstall_job_may_change_only_custom_resources_that_carry_a_finalizer_of_ours() -> None:
    patched = {rule.kind.name for rule in cluster_rights() if "patch" in rule.verbs}
    assert patched == {"CustomResourceDefinition", "SubNamespace", "FishySecret"}


def hook(stage: Stage, name: str, webhook: str) -> None:
    """A webhook configuration with our label."""
    client = {"url": "https://127.0.0.1:1/admit"}
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}
    entry = {"name": webhook, "clientConfig": client, "rules": [rule], "sideEffects": "None"}
    meta = {"name": name, "labels": {"app.kubernetes.io/name": "samara"}}
    stage.also_remove(f"{HOOKS}/{name}")
    stage.api.create(HOOKS, {"metadata": meta, "webhooks": [{**entry, "admissionReviewVersions": ["v1"]}]})


def copied(stage: Stage) -> None:
    stage.namespace("a", "b", "c")
    stage.source("db", "a,b")
    stage.foreign("c", "db")
    operator = stage.operator()
    stage.until_copied("db", "a", "b")
    operator.stop()


@pytest.mark.cluster
def test_nothing_to_remove_is_exit_0_with_a_message(shell: Shell, stage: Stage) -> None:
    done = shell("uninstall", "-n", OWN)
    assert done.code == 0
    assert done.out.splitlines()[-1] == "Nothing to remove."


@pytest.mark.cluster
def test_uninstall_asks_first_and_n_removes_nothing(shell: Shell, stage: Stage) -> None:
    hook(stage, "ours", "things.example.com.samara.dev")
    done = shell("uninstall", "-n", OWN, stdin="n\n")
    assert done.code == 1
    assert "Deletes the ValidatingWebhookConfiguration ours." in done.out
    assert stage.api.find(f"{HOOKS}/ours") is not None
    assert shell("uninstall", "-n", OWN, "--yes").code == 0
    assert stage.api.find(f"{HOOKS}/ours") is None


@pytest.mark.cluster
def test_a_configuration_whose_webhooks_are_not_ours_stays(shell: Shell, stage: Stage) -> None:
    hook(stage, "theirs", "things.example.com")
    assert "Nothing to remove." in shell("uninstall", "-n", OWN, "--yes").out
    assert stage.api.find(f"{HOOKS}/theirs") is not None


@pytest.mark.cluster
def test_nothing_is_removed_while_an_operator_runs(shell: Shell, stage: Stage) -> None:
    hook(stage, "ours", "things.example.com.samara.dev")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 15, "renewTime": now}
    stage.also_remove(f"{LEASES}/samara")
    stage.api.create(LEASES, {"metadata": {"name": "samara"}, "spec": spec})
    done = shell("uninstall", "-n", OWN, "--yes")
    assert "held by somebody" in done.fault
    assert stage.api.find(f"{HOOKS}/ours") is not None


@pytest.mark.cluster
def test_copies_stay_without_the_flag(shell: Shell, stage: Stage) -> None:
    copied(stage)
    done = shell("uninstall", "-n", OWN, "--yes")
    assert "Copies stay; --copies deletes them." in done.out
    assert stage.has_copy("a", "db")


@pytest.mark.cluster
def test_with_the_flag_only_our_copies_are_deleted(shell: Shell, stage: Stage) -> None:
    copied(stage)
    annotations = {"secret-copy/origin": "admin/db"}
    stage.foreign("c", "pasted", metadata={"annotations": annotations})
    done = shell("uninstall", "-n", OWN, "--copies", "--yes")
    assert done.code == 0, done.err
    assert "Deletes 2 copies of secret-copy." in done.out
    assert stage.secret("a", "db") is stage.secret("b", "db") is None
    for namespace, name in (("admin", "db"), ("c", "db"), ("c", "pasted")):
        assert stage.secret(namespace, name) is not None
    again = shell("uninstall", "-n", OWN, "--copies", "--yes")
    assert again.code == 0
    assert "Nothing to remove." in again.out


@pytest.mark.cluster
def test_copies_stay_while_an_operator_without_a_lease_restores_them(shell: Shell, stage: Stage) -> None:
    stage.namespace("a", "b", "c")
    stage.source("db", "a,b")
    stage.source("other", "c")
    operator = stage.operator()
    stage.until_copied("db", "a", "b")
    stage.until_copied("other", "c")
    hook(stage, "ours", "things.example.com.samara.dev")
    assert stage.api.find(f"{LEASES}/samara") is None
    done = shell("uninstall", "-n", OWN, "--copies", "--yes")
    assert "expected no operator at work, found one that has restored Secret" in done.fault
    assert all(stage.has_copy(*where) for where in (("a", "db"), ("b", "db"), ("c", "other")))
    assert stage.api.find(f"{HOOKS}/ours") is not None, "nothing else was removed"
    operator.stop()
    assert "Removed 3 copies." in shell("uninstall", "-n", OWN, "--copies", "--yes").err
    assert not any(stage.has_copy(*where) for where in (("a", "db"), ("b", "db"), ("c", "other")))


@pytest.mark.cluster
def test_copies_that_no_operator_would_restore_do_not_hide_one_that_runs(shell: Shell, stage: Stage) -> None:
    names = ("a", "b", "c", "d")
    stage.namespace(*names)
    stage.source("db", "")
    stage.operator()
    stage.until_copied("db", *names)
    for name in names[:3]:
        stage.annotate(f"/api/v1/namespaces/{name}", {"samara.dev/ignore": "true"})
    done = shell("uninstall", "-n", OWN, "--copies", "--yes")
    assert "expected no operator at work, found one that has restored Secret" in done.fault
    assert all(stage.has_copy(name, "db") for name in names)


@pytest.mark.cluster
def test_copies_in_a_paused_namespace_stay_with_a_note(shell: Shell, stage: Stage) -> None:
    copied(stage)
    stage.annotate("/api/v1/namespaces/a", {"samara.dev/paused": "true"})
    done = shell("uninstall", "-n", OWN, "--copies", "--yes")
    assert "1 copy stay" in done.err
    assert stage.secret("a", "db") is not None
    assert stage.secret("b", "db") is None


@pytest.mark.cluster
def test_copies_of_a_paused_source_stay_with_a_note(shell: Shell, stage: Stage) -> None:
    copied(stage)
    stage.annotate(stage.path("admin", "db"), {"samara.dev/paused": "true"})
    done = shell("uninstall", "-n", OWN, "--copies", "--yes")
    assert "2 copies stay" in done.err
    assert stage.secret("a", "db") is not None
    assert stage.secret("b", "db") is not None


@pytest.mark.cluster
def test_without_a_terminal_and_without_yes_nothing_happens(shell: Shell, stage: Stage) -> None:
    copied(stage)
    assert shell("uninstall", "-n", OWN, "--copies").code == 1
    assert stage.has_copy("a", "db")
