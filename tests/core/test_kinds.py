"""Rules of single kinds: which are denied, which fields are immutable, which belong to each object."""

from typing import Any

import pytest
from tests.support.world import content, secret

from samara.core.kinds import CLAIM, SERVICE, SERVICE_ACCOUNT, is_refused, must_recreate, rules_for
from samara.core.model import NAMESPACE, SECRET, Kind

DENIED = [
    (SECRET, False),
    (Kind("", "v1", "ConfigMap", "configmaps"), False),
    (Kind("apps", "v1", "Deployment", "deployments"), False),
    (NAMESPACE, True),
    (Kind("", "v1", "ServiceAccount", "serviceaccounts"), True),
    (Kind("", "v1", "Event", "events"), True),
    (Kind("rbac.authorization.k8s.io", "v1", "Role", "roles"), True),
    (Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"), True),
    (Kind("coordination.k8s.io", "v1", "Lease", "leases"), True),
    (Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"), True),
    (Kind("example.com", "v1", "Thing", "things", namespaced=False), True),
    (Kind("example.com", "v1", "Event", "events"), False),
]


@pytest.mark.parametrize(("kind", "denied"), DENIED, ids=lambda value: str(value))
def test_kinds_that_grant_rights_are_denied(kind: Kind, denied: bool) -> None:
    assert is_refused(kind) is denied


def test_a_changed_type_recreates_a_secret_and_changed_data_does_not() -> None:
    assert must_recreate(SECRET, secret("one"), secret("one", "kubernetes.io/tls"))
    assert not must_recreate(SECRET, secret("one"), secret("two"))


def test_an_immutable_secret_is_recreated_for_any_difference() -> None:
    assert must_recreate(SECRET, secret("one", immutable=True), secret("two"))
    assert must_recreate(SECRET, secret("one", immutable=True), secret("one"))
    assert not must_recreate(SECRET, secret("one", immutable=False), secret("two"))


def test_an_immutable_secret_of_which_only_digests_are_cached_is_recreated_too() -> None:
    assert must_recreate(SECRET, secret("one", immutable=True).digests_only(), secret("two"))


def test_a_kind_without_rules_has_no_immutable_field() -> None:
    config = Kind("", "v1", "ConfigMap", "configmaps")
    assert not must_recreate(config, content(data={"a": "1"}), content(data={"a": "2"}))
    assert rules_for(config).refusal(content(type="helm.sh/release.v1")) is None


@pytest.mark.parametrize(
    "kind", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"]
)
def test_secrets_that_are_credentials_of_the_cluster_are_denied_by_type(kind: str) -> None:
    refusal = rules_for(SECRET).refusal(secret("one", kind))
    assert refusal is not None
    assert kind in refusal
    assert rules_for(SECRET).refusal(secret("one")) is None


# fields that belong to an object itself

GIVEN = {"name": "web-dockercfg-x7k2p"}
OURS = {"name": "registry"}


@pytest.mark.parametrize(
    ("sent", "there", "kept"),
    [
        ([OURS], [GIVEN], [OURS, GIVEN]),
        (None, [GIVEN], [GIVEN]),
        ([OURS], None, [OURS]),
        ([OURS], [{"name": "stale"}], [OURS]),
        (None, [{"name": "stale"}], None),
        (None, None, None),
        ([OURS], ["odd", {}, {"name": 7}], [OURS]),
    ],
)
def test_a_service_account_keeps_the_pull_secrets_that_a_controller_added(
    sent: list[Any] | None, there: list[Any] | None, kept: list[Any] | None
) -> None:
    assert rules_for(SERVICE_ACCOUNT).restore_own_fields["imagePullSecrets"](sent, there) == kept


def test_pull_secrets_are_copied_except_those_that_a_controller_added() -> None:
    own = rules_for(SERVICE_ACCOUNT).strip_own_fields["imagePullSecrets"]
    assert own([OURS, GIVEN]) == [OURS]
    assert own([GIVEN]) is None


def test_a_service_account_keeps_its_own_secrets_and_never_copies_them() -> None:
    assert rules_for(SERVICE_ACCOUNT).strip_own_fields["secrets"]([OURS]) is None
    assert rules_for(SERVICE_ACCOUNT).restore_own_fields["secrets"](None, [GIVEN]) == [GIVEN]
    assert rules_for(SERVICE_ACCOUNT).restore_own_fields["secrets"](None, None) is None


def test_a_bound_claim_keeps_its_volume_and_gets_every_other_field_from_its_source() -> None:
    there = {"volumeName": "pv-1", "accessModes": ["old"], "old": 1}
    assert rules_for(CLAIM).restore_own_fields["spec"]({"accessModes": ["new"]}, there) == {
        "accessModes": ["new"],
        "volumeName": "pv-1",
    }
    assert rules_for(CLAIM).restore_own_fields["spec"]({"accessModes": ["new"]}, {"old": 1}) == {"accessModes": ["new"]}


def test_the_server_keeps_the_addresses_of_a_service_by_itself() -> None:
    assert not rules_for(SERVICE).restore_own_fields
