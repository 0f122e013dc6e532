"""The policy that guards our marks, on a real server: Samara keeps working, and no other user can write a mark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml
from tests.cluster.support.api import ApiFault
from tests.cluster.support.stage import FROM, ORIGIN, USER, Stage
from tests.cluster.support.waiting import eventually
from tests.support.pages import EXAMPLES

from samara.cli.deploy.manifests import MARKS_POLICY, Installation, objects
from samara.settings import parse
from samara_devtools.devcluster import DevclusterError

MARKS = {ORIGIN: "admin/db"}


@pytest.fixture
def guarded(stage: Stage) -> Iterator[Stage]:
    """The example, with the name that the operator has here. A policy works some moments after it is stored."""
    text = (EXAMPLES / "security" / "marks-policy.yaml").read_text()
    policy = text.replace("system:serviceaccount:samara:samara", USER)
    assert policy != text
    stage.cluster.kubectl("apply", "--filename=-", input=policy)
    eventually(lambda: refused(stage, "trial", annotations=MARKS, dry=True))
    yield stage
    stage.cluster.kubectl("delete", "--filename=-", input=policy)
    eventually(lambda: not refused(stage, "trial", annotations=MARKS, dry=True))


def refused(
    stage: Stage,
    name: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    dry: bool = False,
) -> str:
    """The refusal of a create by an administrator, or an empty text if the Secret was created."""
    query = {"dryRun": "All"} if dry else {}
    body = {"metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}}}
    try:
        stage.api.create("/api/v1/namespaces/default/secrets", body, **query)
    except ApiFault as fault:
        if fault.status != 403:
            raise
        return str(fault)
    return ""


def test_other_users_cannot_create_an_object_with_a_mark(guarded: Stage) -> None:
    assert ORIGIN in refused(guarded, "forged", annotations=MARKS)
    assert FROM in refused(guarded, "forged", labels={FROM: "admin-db"})
    assert not refused(guarded, "plain", labels={"app": "x"}, annotations={"samara.dev/released": "true"}, dry=True)


def test_samara_creates_copies_and_repairs_them(guarded: Stage) -> None:
    guarded.namespace("shop")
    guarded.source("db", "shop", {"password": "1"})
    guarded.operator()
    guarded.until_copied("db", "shop")
    copy = guarded.path("shop", "db")
    for patch in ({"annotations": {ORIGIN: None}}, {"labels": {FROM: "somebody-else"}}):
        with pytest.raises(ApiFault, match="only Samara writes its marks"):
            guarded.api.patch(copy, {"metadata": patch})
    guarded.api.patch(copy, {"metadata": {"labels": {"mine": "1"}}})
    guarded.bump("db")
    guarded.until_copied("db", "shop")


# The policy of the installation


TENANT = "edit-of-mine"


@pytest.fixture
def installed(stage: Stage) -> Iterator[Stage]:
    """The policy that chart and manifests bring, and a tenant who may edit one namespace."""
    config = "vocabularies: {secret-copy: {}}\n"
    made = objects(Installation(parse(config, "test"), config, "samara"))
    text = yaml.safe_dump_all([obj for obj in made if obj["kind"].startswith(MARKS_POLICY)])
    stage.namespace("mine")
    role = {"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"}
    subject = {"kind": "User", "name": TENANT, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "edit"}, "roleRef": role, "subjects": [subject]}
    stage.api.create("/apis/rbac.authorization.k8s.io/v1/namespaces/mine/rolebindings", binding)
    stage.cluster.kubectl("apply", "--filename=-", input=text)
    eventually(lambda: tenant_is_refused(stage, "trial", MARKS))
    yield stage
    stage.cluster.kubectl("delete", "--filename=-", input=text)
    eventually(lambda: not tenant_is_refused(stage, "trial", MARKS))


def tenant_is_refused(stage: Stage, name: str, annotations: dict[str, str]) -> str:
    """The refusal of a dry-run create by the tenant under the name of our field manager, or an empty text."""
    metadata = {"name": name, "namespace": "mine", "annotations": annotations}
    body = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    flags = (f"--as={TENANT}", "--dry-run=server", "--field-manager=samara", "--filename=-")
    try:
        stage.cluster.kubectl("create", *flags, input=body)
    except DevclusterError as fault:
        return str(fault)
    return ""


def test_a_tenant_cannot_forge_a_mark_in_its_own_namespace(installed: Stage) -> None:
    assert "only Samara writes its marks" in tenant_is_refused(installed, "forged", MARKS)
    assert not tenant_is_refused(installed, "plain", {"note": "1"})


def test_accounts_that_may_write_the_kind_in_every_namespace_may_write_marks(installed: Stage) -> None:
    installed.source("db", "mine", {"password": "1"})
    installed.operator()
    installed.until_copied("db", "mine")
    copy = installed.path("mine", "db")
    removal = (f"--as={TENANT}", "--namespace=mine", "annotate", "secret", "db", f"{ORIGIN}-")
    with pytest.raises(DevclusterError, match="only Samara writes its marks"):
        installed.cluster.kubectl(*removal)
    assert not refused(installed, "restored", annotations=MARKS, dry=True)
    installed.api.patch(copy, {"metadata": {"annotations": {ORIGIN: None}}})
    installed.until_copied("db", "mine")
