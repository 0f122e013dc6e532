"""Rows 20–22 and 24–29 of the fault catalogue: the faults of one target must not affect others."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
from tests.cluster.support.api import ApiFault
from tests.cluster.support.audit import Event, due_again, until_recorded
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import FROM, ORIGIN, OWN_THINGS, READ_ALL, READ_SECRETS, WRITE_SECRETS, Stage, encoded
from tests.cluster.support.waiting import eventually, never

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SETTLED = 0.5


def quota(stage: Stage, namespace: str) -> str:
    """Creates a quota that allows no further Secret, and waits until the server enforces it."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    stage.api.create(path, {"metadata": {"name": "few"}, "spec": {"hard": {"count/secrets": "0"}}})
    eventually(lambda: is_full(stage, namespace))
    return f"{path}/few"


def is_full(stage: Stage, namespace: str) -> bool:
    """Admission learns of a quota a little after it is stored."""
    try:
        stage.api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "probe"}}, dryRun="All")
    except ApiFault as fault:
        return "exceeded quota" in str(fault)
    return False


def posts(stage: Stage, namespace: str, mark: int = 0) -> list[int]:
    """The answers to our attempts to create something in a namespace."""
    return [attempt.code for attempt in attempts(stage, namespace, mark)]


def attempts(stage: Stage, namespace: str, mark: int = 0) -> list[Event]:
    return [event for event in stage.audit.writes(mark) if event.verb == "create" and event.namespace == namespace]


# 20


def test_fault_20_a_refusal_for_a_terminating_namespace_is_not_an_error(stage: Stage) -> None:
    """The watch of Namespaces is frozen, so the operator does not know yet and gets a 403."""
    stage.namespace("a", "ending-20")
    stage.api.patch("/api/v1/namespaces/ending-20", {"metadata": {"finalizers": ["tests.samara.dev/wait"]}})
    proxy = stage.proxy()
    operator = stage.operator(through=proxy)
    proxy.freeze("namespaces")
    stage.api.delete("/api/v1/namespaces/ending-20")
    mark = stage.audit.mark()
    stage.source("db", "a,ending-20")
    stage.until_copied("db", "a")
    eventually(lambda: posts(stage, "ending-20", mark))
    assert set(posts(stage, "ending-20", mark)) == {403}
    proxy.thaw("namespaces")
    eventually(lambda: operator.copies("blocked") == 1)
    known = stage.audit.mark()
    assert len(posts(stage, "ending-20", mark)) < 8, "no hot loop"
    never(lambda: posts(stage, "ending-20", known), 1.0)
    assert not [event for event in stage.events() if event["type"] == "Warning"]
    assert "write.refused" not in operator.log


def test_fault_20_a_recreated_namespace_gets_its_copies(stage: Stage) -> None:
    stage.namespace("a", "again-20")
    stage.source("db", "a,again-20")
    stage.source("all", "")
    stage.operator()
    stage.until_copied("db", "a", "again-20")
    stage.api.delete("/api/v1/namespaces/again-20")
    mark = stage.audit.mark()
    eventually(lambda: stage.api.find("/api/v1/namespaces/again-20") is None, 30)
    assert not posts(stage, "again-20", mark), "what goes with its namespace is not put back"
    stage.namespace("again-20")
    stage.until_copied("db", "again-20")
    stage.until_copied("all", "again-20")


# 21


@pytest.mark.oracle_off("O2", reason="what the quota refuses is tried again, now and then and for ever")
def test_fault_21_a_full_quota_degrades_only_its_own_namespace(stage: Stage) -> None:
    names = [f"t{number}" for number in range(10)]
    stage.namespace(*names, "full")
    quota(stage, "full")
    stage.expect.blocked.add(("full", "db"))
    operator = stage.operator(config={"timers": {"backoffMost": "15m"}})
    mark = stage.audit.mark()
    stage.source("db", ",".join([*names[:5], "full", *names[5:]]))
    stage.until_copied("db", *names)
    event = stage.until_event("Refused", about="db")
    assert "full" in event["message"]
    eventually(lambda: (operator.copies("right"), operator.copies("blocked")) == (10, 1))
    tried = until_recorded(lambda: attempts(stage, "full", mark), 3)
    assert all(tried[many].received >= due_again(tried[:many]) for many in range(1, len(tried))), "later each time"


def test_fault_21_the_copy_is_created_at_once_when_the_quota_is_raised(stage: Stage) -> None:
    stage.namespace("full")
    path = quota(stage, "full")
    stage.operator(config={"timers": {"backoffMost": "15m"}})
    mark = stage.audit.mark()
    stage.source("db", "full")
    tried = until_recorded(lambda: attempts(stage, "full", mark), 3)  # the next try is some 8 s away
    stage.api.patch(path, {"spec": {"hard": {"count/secrets": "5"}}})
    stage.until_copied("db", "full")
    made = until_recorded(lambda: [attempt for attempt in attempts(stage, "full", mark) if attempt.done], 1)
    assert made[0].received < due_again(tried)


@pytest.mark.oracle_off("O2", reason="what the quota refuses is tried again, now and then and for ever")
def test_fault_21_a_change_of_the_source_or_of_the_namespace_retries_at_once(stage: Stage) -> None:
    stage.namespace("full")
    path = quota(stage, "full")
    stage.expect.blocked.add(("full", "db"))
    stage.operator(config={"timers": {"backoffMost": "15m"}})
    mark = stage.audit.mark()
    stage.source("db", "full")
    tried = until_recorded(lambda: attempts(stage, "full", mark), 3)  # the next try is some 8 s away
    changed = stage.audit.mark()
    stage.bump("db")
    assert until_recorded(lambda: attempts(stage, "full", changed), 1)[0].received < due_again(tried)
    tried = until_recorded(lambda: attempts(stage, "full", changed), 3)  # with the first waits again
    noted = stage.audit.mark()
    stage.annotate("/api/v1/namespaces/full", {"note": "anything"})
    assert until_recorded(lambda: attempts(stage, "full", noted), 1)[0].received < due_again(tried)
    assert stage.api.get(path)["status"]["used"]["count/secrets"] == "0"


# 22


def bind(stage: Stage, namespace: str) -> None:
    subject = [{"kind": "User", "name": "narrow", "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"kind": "ClusterRole", "name": "narrow-write", "apiGroup": "rbac.authorization.k8s.io"}
    body = {"metadata": {"name": "narrow"}, "roleRef": role, "subjects": subject}
    stage.api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", body)


def narrow(stage: Stage) -> None:
    """A user that may read everywhere and write only in namespaces with a RoleBinding."""
    subject = [{"kind": "User", "name": "narrow", "apiGroup": "rbac.authorization.k8s.io"}]
    for name, rules in (("narrow-read", [*READ_ALL, *READ_SECRETS, *OWN_THINGS]), ("narrow-write", WRITE_SECRETS)):
        stage.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        stage.also_remove(f"{RBAC}/clusterroles/{name}")
    role = {"kind": "ClusterRole", "name": "narrow-read", "apiGroup": "rbac.authorization.k8s.io"}
    body = {"metadata": {"name": "narrow"}, "roleRef": role, "subjects": subject}
    stage.api.create(f"{RBAC}/clusterrolebindings", body)
    stage.also_remove(f"{RBAC}/clusterrolebindings/narrow")


def test_fault_22_rights_missing_in_one_namespace_degrade_only_it_and_it_recovers_when_granted(stage: Stage) -> None:
    narrow(stage)
    stage.namespace("a", "b", "denied")
    bind(stage, "a")
    bind(stage, "b")
    operator = stage.operator(kubeconfig=stage.kubeconfig("narrow"))
    stage.source("db", "a,b,denied")
    stage.until_copied("db", "a", "b")
    assert "denied" in stage.until_event("Refused", about="db")["message"]
    assert operator.copies("blocked") == 1
    stage.bump("db")
    stage.until_copied("db", "a", "b")
    bind(stage, "denied")
    stage.until_copied("db", "denied")


def test_fault_22_rights_revoked_later_keep_the_last_good_copy_and_recover(stage: Stage) -> None:
    narrow(stage)
    stage.namespace("a", "b")
    bind(stage, "a")
    bind(stage, "b")
    operator = stage.operator(kubeconfig=stage.kubeconfig("narrow"))
    stage.source("db", "a,b")
    stage.until_copied("db", "a", "b")
    stage.api.delete(f"{RBAC}/namespaces/b/rolebindings/narrow")
    before = stage.secret("b", "db")
    eventually(lambda: not may_write(stage, "b"))
    stage.bump("db")
    stage.until_copied("db", "a")
    eventually(lambda: operator.copies("blocked") == 1)
    assert stage.secret("b", "db") == before
    bind(stage, "b")
    stage.until_copied("db", "b")


def may_write(stage: Stage, namespace: str) -> bool:
    attributes = {"namespace": namespace, "verb": "update", "resource": "secrets"}
    review = {"spec": {"user": "narrow", "resourceAttributes": attributes}}
    answer = stage.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


# 24, 25


def test_fault_24_an_immutable_copy_is_recreated_if_the_policy_allows_it(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    first = stage.operator()
    stage.until_copied("db", "a")
    first.stop()
    uid = stage.api.patch(stage.path("a", "db"), {"immutable": True})["metadata"]["uid"]
    stage.bump("db")
    mark = stage.audit.mark()
    stage.operator()
    stage.until_copied("db", "a")
    writes = stage.audit.writes(mark)
    assert [event.verb for event in writes] == ["delete", "create"]
    assert writes[0].request["preconditions"]["uid"] == uid
    assert "immutable" not in (stage.secret("a", "db") or {})


@pytest.mark.parametrize("row", ["24 immutable", "25 type"])
def test_fault_24_25_with_recreate_refuse_the_old_copy_stays_and_it_is_reported(stage: Stage, row: str) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b", {"username": "u", "password": "p"})
    operator = stage.operator(config={"recreate": "refuse"})
    stage.until_copied("db", "a", "b")
    stage.expect.blocked |= {("a", "db")} if "immutable" in row else {("a", "db"), ("b", "db")}
    if "immutable" in row:
        stage.api.patch(stage.path("a", "db"), {"immutable": True})
        stage.bump("db")
        stage.until_copied("db", "b")
    else:
        stage.api.delete(stage.path("admin", "db"))
        stage.source("db", "a,b", {"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")
    eventually(lambda: operator.copies("blocked") == len(stage.expect.blocked))
    assert "recreate" in stage.until_event("Refused", about="db")["message"]
    assert (stage.secret("a", "db") or {})["type"] == "Opaque"
    assert not [event for event in stage.audit.writes() if event.verb == "delete"]


def test_fault_25_the_old_copy_stays_if_the_server_would_refuse_the_new_one(stage: Stage) -> None:
    """The quota is used up: a create after the delete might be refused, so nothing is deleted."""
    stage.namespace("a", "full")
    stage.source("db", "a,full", {"username": "u", "password": "p"})
    stage.operator()
    stage.until_copied("db", "a", "full")
    quota(stage, "full")
    stage.expect.blocked.add(("full", "db"))
    stage.api.delete(stage.path("admin", "db"))
    stage.source("db", "a,full", {"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")
    stage.until_copied("db", "a")
    stage.until_event("Refused", about="db")
    assert (stage.secret("full", "db") or {})["type"] == "Opaque"
    assert not [event for event in stage.audit.writes() if event.verb == "delete" and event.namespace == "full"]


def test_fault_25_a_changed_type_is_recreated_by_uid_with_a_dry_run_before_the_delete(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a", {"username": "u", "password": "p"})
    stage.operator()
    stage.until_copied("db", "a")
    mark = stage.audit.mark()
    stage.api.delete(stage.path("admin", "db"))
    stage.source("db", "a", {"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")
    stage.until_copied("db", "a")
    sent = until_recorded(
        lambda: [event for event in stage.audit.ours(mark) if event.mutating and event.resource == "secrets"], 3
    )
    assert [(event.verb, event.dry_run, event.code) for event in sent] == [
        ("create", True, 409),
        ("delete", False, 200),
        ("create", False, 201),
    ]


def test_fault_25_a_recreated_copy_keeps_the_metadata_of_others_and_their_ownership_of_it(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a", {"username": "u", "password": "p"})
    stage.operator()
    stage.until_copied("db", "a")
    theirs = {"labels": {"mine": "1"}, "annotations": {"note": "n"}}
    uid = stage.api.patch(stage.path("a", "db"), {"metadata": theirs})["metadata"]["uid"]
    stage.api.delete(stage.path("admin", "db"))
    stage.source("db", "a", {"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")

    def has_theirs() -> bool:
        live = stage.secret("a", "db") or {"metadata": {}}
        return metadata_of(live, "labels").get("mine") == "1" and metadata_of(live).get("note") == "n"

    eventually(lambda: stage.has_copy("a", "db") and (stage.secret("a", "db") or {})["metadata"]["uid"] != uid)
    eventually(has_theirs)
    stage.bump("db")
    stage.until_copied("db", "a")
    assert has_theirs()
    stage.operators[0].stop()
    mark = stage.audit.mark()
    stage.operator()
    never(lambda: stage.audit.writes(mark), 0.5)
    assert has_theirs()


# 26


def test_fault_26_a_foreign_object_is_reported_and_never_overwritten_for_any_number_of_source_changes(
    stage: Stage,
) -> None:
    stage.namespace("a", "taken")
    mine = stage.foreign("taken", "db")
    stage.source("db", "a,taken")
    first = stage.operator()
    for _ in range(5):
        stage.bump("db")
    stage.until_copied("db", "a")
    event = stage.until_event("Conflict", about="db")
    assert "taken" in event["message"]
    first.kill()
    again = stage.operator()
    eventually(lambda: again.copies("blocked") == 1)
    assert stage.secret("taken", "db") == mine
    assert not [event for event in stage.audit.writes() if event.namespace == "taken" and event.done]


def test_fault_26_an_object_that_appears_between_plan_and_write_is_never_overwritten(stage: Stage) -> None:
    """The watch of Secrets is frozen, so the operator plans a create although another client has created the object."""
    stage.namespace("a", "b")
    proxy = stage.proxy()
    stage.operator(through=proxy)
    stage.source("db", ",")
    proxy.freeze("secrets")
    mine = stage.foreign("b", "db")
    stage.retarget("db", "a,b")
    proxy.thaw("secrets")
    stage.until_copied("db", "a")
    stage.until_event("Conflict", about="db")
    assert stage.secret("b", "db") == mine


# 27


class Mutator(threading.Thread):
    """A foreign controller that sets a copy's data to its own value whenever it differs."""

    def __init__(self, stage: Stage, path: str) -> None:
        super().__init__(daemon=True)
        self._api = stage.api.as_agent("gitops/1")
        self._path = path
        self.edits = 0
        self.over = threading.Event()

    def run(self) -> None:
        wanted = encoded({"n": "0", "theirs": "1"})
        while not self.over.wait(0.02):
            live = self._api.find(self._path)
            if live is not None and live["data"] != wanted:
                with contextlib.suppress(ApiFault):  # the operator restored the copy first, so the edit is repeated
                    self._api.replace(self._path, {**live, "data": wanted}, fieldManager="gitops")
                    self.edits += 1
        self._api.close()


def test_fault_27_a_fight_over_a_copy_is_given_up_after_five_reversals_and_reported_with_the_other_manager(
    stage: Stage,
) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    operator = stage.operator()
    stage.until_copied("db", "a", "b")
    mark = stage.audit.mark()
    mutator = Mutator(stage, stage.path("a", "db"))
    mutator.start()
    try:
        event = stage.until_event("Fought", about="db")
        assert "gitops" in event["message"]
        assert operator.copies("blocked") == 1
        repairs = [event for event in stage.audit.writes(mark) if event.namespace == "a" and event.done]
        assert len(repairs) in (5, 6), "a change that comes before the answer to a repair counts as our own"
        never(
            lambda: len([event for event in stage.audit.writes(mark) if event.namespace == "a" and event.done]) > 6, 1.5
        )
        stage.bump("db")
        stage.until_copied("db", "b")
    finally:
        mutator.over.set()
        mutator.join(10)
    stage.bump("db")
    stage.until_copied("db", "a", "b")


def test_fault_27_a_changed_source_reaches_a_copy_that_was_fought_over_at_once(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    operator = stage.operator()
    for number in range(6):
        stage.until_copied("db", "a")
        eventually(lambda: operator.copies("right") == 1)  # until it has its answer, it takes an edit for its own write
        stage.api.patch(stage.path("a", "db"), {"data": encoded({"theirs": str(number)})})
    stage.until_event("Fought", about="db")
    stage.bump("db")
    stage.until_copied("db", "a")


# 28


def test_fault_28_stripped_marks_do_not_free_a_copy_even_while_the_operator_is_down(stage: Stage) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    first = stage.operator()
    stage.until_copied("db", "a", "b")
    strip = {"metadata": {"annotations": {ORIGIN: None}, "labels": {FROM: None}}}
    uid = stage.api.patch(stage.path("a", "db"), strip)["metadata"]["uid"]
    stage.until_copied("db", "a")
    first.stop()
    stage.api.patch(stage.path("b", "db"), {**strip, "data": encoded({"n": "0"})})
    stage.operator()
    stage.until_copied("db", "b")
    assert (stage.secret("a", "db") or {})["metadata"]["uid"] == uid


def test_fault_28_forged_ownership_never_deletes_an_object_and_never_reveals_content(stage: Stage) -> None:
    stage.expect.on_source_gone = "delete"
    stage.namespace("a", "b", "c")
    marks = {"annotations": {ORIGIN: "admin/db"}, "labels": {FROM: "admin-db"}}
    stage.source("db", "a")
    stage.source("private", targets=None)
    forged = [
        stage.foreign("b", "db", metadata=marks),
        stage.foreign("c", "other", metadata=marks),
        stage.foreign("c", "private", metadata={"annotations": {ORIGIN: "admin/private"}}),
    ]
    operator = stage.operator(config={"vocabularies": {"secret-copy": {"onSourceGone": "delete"}}})
    stage.until_copied("db", "a")
    stage.api.delete(stage.path("admin", "db"))
    stage.until_gone("a", "db")
    stage.api.delete(stage.path("admin", "private"))
    never(lambda: any(stage.secret(*place(obj)) != obj for obj in forged), SETTLED)
    assert operator.metrics()['samara_writes_total{result="done",verb="delete",vocabulary="secret-copy"}'] == 1


def place(secret: Json) -> tuple[str, str]:
    return secret["metadata"]["namespace"], secret["metadata"]["name"]


def test_fault_28_a_copy_that_is_edited_and_deleted_repeatedly_is_restored_each_time(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    for _ in range(2):
        stage.until_copied("db", "a")
        stage.api.patch(stage.path("a", "db"), {"data": encoded({"n": "0"})})
        stage.until_copied("db", "a")
        stage.api.delete(stage.path("a", "db"))
    stage.until_copied("db", "a")


# 29


def test_fault_29_a_copy_whose_deletion_a_finalizer_blocks_delays_no_other(stage: Stage) -> None:
    stage.namespace("a", "b", "stuck")
    stage.source("db", "a,b,stuck")
    operator = stage.operator()
    stage.until_copied("db", "a", "b", "stuck")
    stage.api.patch(stage.path("stuck", "db"), {"metadata": {"finalizers": ["tests.samara.dev/wait"]}})
    mark = stage.audit.mark()
    stage.retarget("db", "a")
    stage.until_gone("b", "db")
    eventually(lambda: (stage.secret("stuck", "db") or {})["metadata"].get("deletionTimestamp"))
    stage.source("other", "a,stuck")
    stage.until_copied("other", "a", "stuck")
    stage.bump("db")
    stage.until_copied("db", "a")
    deletes = [event for event in stage.audit.writes(mark) if event.verb == "delete" and event.namespace == "stuck"]
    assert len(deletes) == 1, "asked once; what is being deleted is not deleted again"
    stage.retarget("db", "a,stuck")
    eventually(lambda: operator.copies("blocked") == 1)
    stage.api.patch(stage.path("stuck", "db"), {"metadata": {"finalizers": None}})
    stage.until_copied("db", "stuck")
    assert ORIGIN in metadata_of(stage.secret("stuck", "db") or {})
