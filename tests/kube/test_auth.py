"""The sources of the configuration of the client, and their order."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from tests.kube import pki
from tests.kube.files import POD, access, headers, pod, write

from samara.kube.auth import load
from samara.kube.errors import ConfigError


def test_the_flag_comes_before_the_variable_and_the_variable_before_the_home_folder(tmp_path: Path) -> None:
    flag = write(tmp_path / "flag", cluster={"server": "https://flag"})
    variable = write(tmp_path / "variable", cluster={"server": "https://variable"})
    write(tmp_path / ".kube" / "config", cluster={"server": "https://home"})
    env = {"KUBECONFIG": str(variable), **POD}

    assert load(str(flag), None, None, None, env, tmp_path).server == "https://flag"
    assert load(None, None, None, None, env, tmp_path).server == "https://variable"
    assert load("", "", "", "", POD, tmp_path).server == "https://home"


def test_missing_files_of_the_variable_are_skipped(tmp_path: Path) -> None:
    there = write(tmp_path / "there", cluster={"server": "https://there"})
    listed = os.pathsep.join([str(tmp_path / "missing"), "", str(there), str(there)])

    assert load(None, None, None, None, {"KUBECONFIG": listed}, tmp_path).server == "https://there"


def test_a_variable_that_names_no_file_is_refused_even_in_a_pod(tmp_path: Path) -> None:
    env = {"KUBECONFIG": str(tmp_path / "missing"), **POD}

    with pytest.raises(ConfigError, match=r"KUBECONFIG names .*missing; expected a file, found none there"):
        load(None, None, None, None, env, tmp_path, service_account=pod(tmp_path / "sa"))


def test_an_empty_variable_is_ignored(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", cluster={"server": "https://home"})

    assert load(None, None, None, None, {"KUBECONFIG": ""}, tmp_path).server == "https://home"


def test_a_flag_that_names_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing: expected a readable kubeconfig, found: No such file"):
        load(str(tmp_path / "missing"), None, None, None, POD, tmp_path)


def test_the_error_without_any_configuration_names_every_location(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no --kubeconfig, KUBECONFIG is not set, .*/\.kube/config does not exist"):
        load(None, None, None, None, {}, tmp_path)


def test_the_namespace_comes_from_the_flag_or_the_context_or_is_default(tmp_path: Path) -> None:
    plain, with_one = write(tmp_path / "1"), write(tmp_path / "2", namespace="team")

    assert load(str(with_one), None, "mine", None, {}, tmp_path).namespace == "mine"
    assert load(str(with_one), None, None, None, {}, tmp_path).namespace == "team"
    assert load(str(plain), None, None, None, {}, tmp_path).namespace == "default"


# In a pod


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    loaded = load(None, None, None, None, POD, tmp_path, service_account=pod(tmp_path / "sa", "team\n"))

    assert (loaded.server, loaded.namespace, loaded.context) == ("https://10.0.0.1:443", "team", "in-cluster")
    assert loaded.in_cluster
    assert headers(loaded) == [("Authorization", "Bearer first")]


def test_access_from_a_kubeconfig_is_not_in_cluster(tmp_path: Path) -> None:
    assert not access(tmp_path).in_cluster


def test_a_pod_trusts_its_own_authority_only(tmp_path: Path) -> None:
    directory, ca, other = pod(tmp_path / "sa"), pki.authority(), pki.authority("other")
    (directory / "ca.crt").write_bytes(ca.certificate)

    context = load(None, None, None, None, POD, tmp_path, service_account=directory).ssl

    assert context
    pki.handshake(context, ca, pki.server(ca, "10.0.0.1"), "10.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        pki.handshake(context, other, pki.server(other, "10.0.0.1"), "10.0.0.1")


@pytest.mark.parametrize("host", ["fd00::1", "[fd00::1]"])
def test_an_ipv6_host_is_in_brackets(tmp_path: Path, host: str) -> None:
    env = POD | {"KUBERNETES_SERVICE_HOST": host}

    assert load(None, None, None, None, env, tmp_path, service_account=pod(tmp_path / "sa")).server == (
        "https://[fd00::1]:443"
    )


def test_a_pod_without_a_namespace_file_is_in_default(tmp_path: Path) -> None:
    directory = pod(tmp_path / "sa", namespace=None)

    assert load(None, None, None, None, POD, tmp_path, service_account=directory).namespace == "default"


@pytest.mark.parametrize(
    ("missing", "says"),
    [("token", "token: expected a file with a token, found: No such file"), ("ca.crt", "authority cannot be read: ")],
)
def test_a_pod_without_its_files_is_refused(tmp_path: Path, missing: str, says: str) -> None:
    directory = pod(tmp_path / "sa")
    (directory / missing).unlink()

    with pytest.raises(ConfigError, match=says):
        load(None, None, None, None, POD, tmp_path, service_account=directory)


def test_a_pod_has_no_contexts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--context x needs a kubeconfig and there is none"):
        load(None, "x", None, None, POD, tmp_path, service_account=pod(tmp_path / "sa"))
