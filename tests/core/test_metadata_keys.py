"""Which labels and annotations are copied from a source, and which never are."""

import pytest
from tests.support import toys

from samara.core.metadata_keys import CopyableMetadata
from samara.core.model import LABELS

COPYABLE = CopyableMetadata(toys.registry().metadata_keys)
NEVER = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "samara.dev/adopted",
    "samara.dev/anything",
    "kubed.appscode.com/sync",
    "kubed.appscode.com/of-a-later-version",
    "clustersecret.io",
    "clustersecret.io/last-sync",
    "kopf.zalando.org/last-handled-configuration",
    "secret-copy/namespaces",
    "secret-copy/origin",
    "secret-copy/from",
    toys.CHAIN,
    toys.CHAINED,
    toys.LINK,
    toys.FETCHED,
    toys.PATH,
]
NOT_BY_DEFAULT = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "argocd.argoproj.io/tracking-id",
    "kustomize.toolkit.fluxcd.io/name",
    "helm.sh/chart",
    "meta.helm.sh/release-name",
    "cert-manager.io/certificate-name",
    "acme.cert-manager.io/http",
    "external-secrets.io/x",
    "reconcile.external-secrets.io/data-hash",
    "sealedsecrets.bitnami.com/managed",
    "reflector.v1.k8s.emberstack.com/reflects",
    "replicator.v1.mittwald.de/replicate-to",
    "hnc.x-k8s.io/inherited-from",
    "lifecycle.cattle.io/create",
    "kapp.k14s.io/identity",
    "velero.io/backup-name",
    "kubernetes.io/service-account.name",
]
TRAVEL = ["team", "app.kubernetes.io/name", "example.com/owner", "fluxcd.example.com/x"]


@pytest.mark.parametrize("key", NEVER)
def test_marks_requests_and_our_own_keys_are_never_copied(key: str) -> None:
    assert COPYABLE.of_source(LABELS, {key: "v", "team": "red"}) == {"team": "red"}
    assert COPYABLE.as_written(LABELS, {key: "v"}) == {}


@pytest.mark.parametrize("key", NOT_BY_DEFAULT)
def test_keys_of_other_tools_are_copied_only_from_a_template(key: str) -> None:
    assert COPYABLE.of_source(LABELS, {key: "v"}) == {}
    assert COPYABLE.as_written(LABELS, {key: "v"}) == {key: "v"}


@pytest.mark.parametrize("key", TRAVEL)
def test_other_keys_are_copied(key: str) -> None:
    assert COPYABLE.of_source(LABELS, {key: "v"}) == {key: "v"}


def test_settings_add_keys_that_are_never_copied() -> None:
    copyable = CopyableMetadata(COPYABLE.vocabulary_keys, never_labels=("example.com/*",))
    assert copyable.as_written(LABELS, {"example.com/owner": "me", "team": "red"}) == {"team": "red"}
