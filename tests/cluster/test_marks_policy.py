"""The policy that guards our marks, on a real server: Samara keeps working, and no other user can write a mark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.stage import FROM, ORIGIN, USER, Stage
from tests.cluster.support.waiting import eventually
from tests.support.pages import EXAMPLES

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
