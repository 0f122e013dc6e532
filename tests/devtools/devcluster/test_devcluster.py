"""The local control plane authenticates, authorises, audits, collects garbage and restarts like a real one."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.support.audit import lines_of
from tests.cluster.support.waiting import eventually

from samara_devtools.devcluster import Devcluster, DevclusterError, DevclusterOptions
from samara_devtools.devcluster.binaries import read_recipe

pytestmark = pytest.mark.cluster


def events(cluster: Devcluster) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(cluster.audit_log)]


def test_client_and_server_report_the_version_of_go_mod(cluster: Devcluster) -> None:
    version = json.loads(cluster.kubectl("version", "--output=json"))
    assert version["serverVersion"]["gitVersion"] == read_recipe().kubernetes
    assert version["clientVersion"]["gitVersion"] == read_recipe().kubernetes


def test_three_processes_run(cluster: Devcluster) -> None:
    assert list(cluster.pids) == ["etcd", "kube-apiserver", "kube-controller-manager"]
    for name, pid in cluster.pids.items():
        assert Path(os.readlink(f"/proc/{pid}/exe")).name == name


def test_rbac_denies_a_user_until_bound(cluster: Devcluster) -> None:
    jane = cluster.kubeconfig_for("jane", ["readers"])
    with pytest.raises(DevclusterError, match='User "jane" cannot list resource "secrets"'):
        cluster.kubectl("get", "secrets", kubeconfig=jane)
    cluster.kubectl("create", "clusterrolebinding", "readers", "--clusterrole=admin", "--group=readers")
    eventually(lambda: _may_list_secrets(cluster, jane), deadline=60.0)


def _may_list_secrets(cluster: Devcluster, kubeconfig: Path) -> bool:
    try:
        cluster.kubectl("get", "secrets", kubeconfig=kubeconfig)
    except DevclusterError:
        return False
    return True


def test_a_certificate_of_another_authority_is_refused(cluster: Devcluster) -> None:
    stranger = cluster.kubeconfig_with_token("not-a-token")
    with pytest.raises(DevclusterError, match=r"Unauthorized|must be logged in"):
        cluster.kubectl("get", "namespaces", kubeconfig=stranger)


def test_the_audit_log_has_a_create_by_the_time_its_answer_is_there(cluster: Devcluster) -> None:
    cluster.kubectl("create", "configmap", "recorded")
    [event] = [e for e in events(cluster) if e["verb"] == "create" and e["objectRef"].get("name") == "recorded"]
    assert event["userAgent"].startswith("kubectl/")
    assert event["user"]["username"] == "devcluster-admin"
    assert event["responseStatus"]["code"] == 201
    assert "requestObject" not in event


def test_the_audit_log_has_the_bodies_of_secrets_on_request(cluster: Devcluster) -> None:
    cluster.kubectl("create", "secret", "generic", "recorded", "--from-literal=key=value")
    [event] = [
        e
        for e in events(cluster)
        if e["verb"] == "create" and e["objectRef"]["resource"] == "secrets" and e["stage"] == "ResponseComplete"
    ]
    assert event["requestObject"]["data"] == {"key": "dmFsdWU="}
    assert event["responseObject"]["metadata"]["uid"]


def test_a_deleted_namespace_is_removed_with_its_content(cluster: Devcluster) -> None:
    cluster.kubectl("create", "namespace", "short-lived")
    cluster.kubectl("create", "secret", "generic", "inside", "--namespace=short-lived")
    cluster.kubectl("delete", "namespace", "short-lived", "--wait=true", "--timeout=60s")
    with pytest.raises(DevclusterError, match="NotFound"):
        cluster.kubectl("get", "namespace", "short-lived")


def test_a_dependent_is_collected_after_its_owner(cluster: Devcluster) -> None:
    cluster.kubectl("create", "configmap", "owner")
    uid = cluster.kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    metadata = {"name": "dependent", "namespace": "default", "ownerReferences": [owner]}
    dependent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    cluster.kubectl("create", "--filename=-", input=json.dumps(dependent))
    cluster.kubectl("delete", "configmap", "owner")
    cluster.kubectl("wait", "--for=delete", "configmap/dependent", "--timeout=60s")


def test_quotas_are_counted_and_the_root_certificate_is_published(cluster: Devcluster) -> None:
    cluster.kubectl("create", "namespace", "counted")
    cluster.kubectl("create", "quota", "secrets", "--hard=secrets=1", "--namespace=counted")
    counted = ("quota/secrets", "--for=jsonpath={.status.hard.secrets}=1", "--namespace=counted")
    cluster.kubectl("wait", *counted, "--timeout=60s")
    cluster.kubectl("create", "secret", "generic", "first", "--namespace=counted")
    with pytest.raises(DevclusterError, match="exceeded quota"):
        cluster.kubectl("create", "secret", "generic", "second", "--namespace=counted")
    cluster.kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "--namespace=counted", "--timeout=60s")


def test_a_bound_token_of_a_service_account_authenticates(cluster: Devcluster) -> None:
    token = cluster.service_account_token("default", "default")
    kubeconfig = cluster.kubeconfig_with_token(token)
    review = json.loads(cluster.kubectl("auth", "whoami", "--output=json", kubeconfig=kubeconfig))
    assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"


def test_a_second_server_shows_the_same_objects_and_writes_the_same_audit_log(cluster: Devcluster) -> None:
    url = cluster.start_second_apiserver()
    admin = cluster.kubeconfig_for("second-admin", ["system:masters"], url=url)
    cluster.kubectl("create", "configmap", "through-second", kubeconfig=admin)
    assert cluster.kubectl("get", "configmap", "through-second", "--output=name") == "configmap/through-second\n"
    assert "second-admin" in {event["user"].get("username") for event in events(cluster)}
    cluster.stop_process("kube-apiserver-2")
    assert "kube-apiserver-2" not in cluster.pids


def test_a_restart_and_a_kill_keep_address_and_data(cluster: Devcluster) -> None:
    cluster.kubectl("create", "configmap", "kept")
    url, pid, recorded = cluster.url, cluster.pids["kube-apiserver"], len(events(cluster))
    cluster.restart_apiserver()
    cluster.kill_apiserver()
    assert "kube-apiserver" not in cluster.pids
    cluster.restart_apiserver()
    assert cluster.url == url
    assert cluster.pids["kube-apiserver"] != pid
    assert cluster.kubectl("get", "configmap", "kept", "--output=name") == "configmap/kept\n"
    assert len(events(cluster)) > recorded


def test_revisions_before_a_compaction_cannot_be_read(cluster: Devcluster) -> None:
    cluster.kubectl("create", "configmap", "before-compaction")
    revision = cluster.compact()
    with pytest.raises(DevclusterError, match="compacted"):
        cluster.etcd_call("/v3/kv/range", {"key": "AA==", "revision": revision - 1})


def test_without_controllers_and_audit_two_processes_serve_on_the_requested_port() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with Devcluster(DevclusterOptions(audit=False, controllers=False, apiserver_port=port)) as bare:
        assert bare.url == f"https://127.0.0.1:{port}"
        assert list(bare.pids) == ["etcd", "kube-apiserver"]
        assert bare.kubectl("get", "namespace", "default", "--output=name") == "namespace/default\n"
        assert bare.audit_log.read_text() == ""


def test_a_port_in_use_and_an_unknown_flag_are_errors_that_leave_nothing() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        taken = Devcluster(DevclusterOptions(apiserver_port=sock.getsockname()[1]))
        with pytest.raises(DevclusterError, match="address already in use"):
            taken.start()
    unknown = Devcluster(DevclusterOptions(apiserver_args=("--no-such-flag",)))
    with pytest.raises(DevclusterError, match="unknown flag: --no-such-flag"):
        unknown.start()
    for failed in (taken, unknown):
        assert failed.pids == {}
        with pytest.raises(DevclusterError, match="not running"):
            failed.kubeconfig  # noqa: B018
