"""`samara why`, `status` and `release` on a real cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.conftest import Shell
from tests.cluster.support.granting import granted
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually
from tests.support.json_schema import check

from samara.engine.hold_records import record_name
from samara.vocabularies.secret_copy import TARGETS
from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.cluster

QUOTA = {"metadata": {"name": "none"}, "spec": {"hard": {"count/secrets": "0"}}}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def why(shell: Shell, namespace: str, what: str = "secret/db") -> dict[str, Any]:
    done = shell("why", what, "-n", namespace, "-o", "json")
    assert done.code == 0, done.err
    return done.json


def the_answer(response: dict[str, Any]) -> dict[str, Any]:
    (answer,) = response["answers"]
    assert isinstance(answer, dict)
    return answer


# why


def test_why_has_the_promised_shape(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    response = why(shell, "a")
    assert list(response) == ["object", "present", "wanted", "answers"]
    assert response["object"] == {"kind": "v1/Secret", "namespace": "a", "name": "db"}
    assert (response["present"], response["wanted"]) == (True, True)
    answer = the_answer(response)
    assert list(answer) == ["vocabulary", "source", "wanted", "rule", "decision", "blocked"]
    assert (answer["vocabulary"], answer["source"], answer["wanted"]) == ("secret-copy", "admin/db", True)
    assert answer["rule"].startswith("secret-copy/namespaces on Secret admin/db names namespace a; nothing needs")
    assert answer["decision"] == "in-sync"
    assert answer["blocked"] is None


@pytest.mark.parametrize("what", ["secret/db", "Secrets/db", "SECRET/db", "v1/Secret/db"])
def test_why_accepts_a_kind_as_users_write_it(what: str, stage: Stage, shell: Shell) -> None:
    assert why(shell, "default", what)["object"]["kind"] == "v1/Secret"


def test_why_of_an_unknown_kind_is_wrong_usage(stage: Stage, shell: Shell) -> None:
    done = shell("why", "frobnicator/db")
    assert done.code == 2
    assert "namespace, secret" in done.err


def test_why_says_that_a_source_does_not_name_the_namespace(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a")
    response = why(shell, "b")
    assert (response["present"], response["wanted"]) == (False, False)
    assert "does not ask for a copy in namespace b" in the_answer(response)["rule"]


def test_why_says_that_a_namespace_is_excluded_from_all(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", samara_ignore="true")
    stage.source("db", "")
    response = why(shell, "a")
    assert (response["present"], response["wanted"]) == (False, False)
    assert "selects among all, and namespace a has samara.dev/ignore" in the_answer(response)["rule"]


def test_why_says_what_blocks_a_copy(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a,later")
    stage.foreign("a", "db")
    response = why(shell, "a")
    assert (response["present"], response["wanted"]) == (True, True)
    assert the_answer(response)["blocked"]["reason"] == "conflict"
    assert the_answer(why(shell, "later"))["blocked"]["reason"] == "no-namespace"


def test_write_that_the_server_refuses_is_blocked_with_its_message(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "full")
    stage.api.create("/api/v1/namespaces/full/resourcequotas", QUOTA)
    eventually(lambda: (stage.api.get("/api/v1/namespaces/full/resourcequotas/none").get("status") or {}).get("hard"))
    stage.expect.blocked.add(("full", "db"))
    stage.source("db", "a,full")
    stage.operator()
    stage.until_copied("db", "a")
    stage.until_event("Refused", about="db")
    (source,) = shell("status", "-o", "json").json["sources"]
    assert [source[count] for count in ("wanted", "right", "pending", "blocked")] == [2, 1, 0, 1]
    assert source["reasons"] == [{"reason": "refused", "count": 1, "sample": ["full"]}]
    blocked = the_answer(why(shell, "full"))["blocked"]
    assert (blocked["reason"], "exceeded quota" in blocked["message"]) == ("refused", True)
    assert the_answer(why(shell, "a"))["blocked"] is None


def test_why_of_an_unwanted_object_says_that_no_source_wants_it(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.foreign("a", "mine")
    response = why(shell, "a", "secret/mine")
    assert (response["present"], response["wanted"], response["answers"]) == (True, False, [])
    assert "no source wants it" in shell("why", "secret/mine", "-n", "a").out


def test_why_of_a_source_says_that_it_is_one(stage: Stage, shell: Shell) -> None:
    stage.source("db", "")
    assert "it is itself a source" in the_answer(why(shell, "admin"))["rule"]


def test_why_of_an_orphan_names_the_source_that_is_gone(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    stage.api.delete(stage.path("admin", "db"))
    answer = the_answer(why(shell, "a"))
    assert (answer["wanted"], answer["source"]) == (False, "admin/db")
    assert "which is gone" in answer["rule"]


def test_why_of_a_copy_whose_source_requests_no_copies_does_not_call_it_gone(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    stage.annotate(stage.path("admin", "db"), {TARGETS: None})
    answer = the_answer(why(shell, "a"))
    assert (answer["wanted"], answer["source"]) == (False, "admin/db")
    assert answer["rule"].startswith("its mark names Secret admin/db, which asks for no copies any more")


def as_tenant(stage: Stage) -> Shell:
    """A user with rights in one namespace, in which another user has changed a copy."""
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    stage.api.patch(stage.path("a", "db"), {"data": {"n": "Y2hhbmdlZA=="}})
    stage.until_event("Updated", "a", "db")
    rules = [{"apiGroups": [""], "resources": ["secrets", "events"], "verbs": ["get", "list"]}]
    subject = {"kind": "User", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"}
    path = f"{RBAC}/namespaces/a"
    stage.api.create(f"{path}/roles", {"metadata": {"name": "tenant"}, "rules": rules})
    stage.api.create(f"{path}/rolebindings", {"metadata": {"name": "tenant"}, "roleRef": role, "subjects": [subject]})
    tenant = Shell(stage.kubeconfig("tenant"))
    eventually(lambda: why(tenant, "a")["present"] is True)
    return tenant


def answers_from_marks_and_events(tenant: Shell) -> None:
    response = why(tenant, "a")
    assert response["wanted"] is None
    assert the_answer(response)["source"] == "admin/db"
    assert "Secret admin/db" in the_answer(response)["rule"]
    assert "gone" not in the_answer(response)["rule"]
    assert any(event.startswith("Updated: ") for event in response["events"])
    assert "the sources" in response["unread"][0]
    assert "could not be read: the sources" in tenant("why", "secret/db", "-n", "a").err


def test_why_with_rights_in_one_namespace_answers_from_marks_and_events(stage: Stage) -> None:
    answers_from_marks_and_events(as_tenant(stage))


def test_why_with_rights_in_one_namespace_answers_what_has_no_effect_there(stage: Stage) -> None:
    tenant = as_tenant(stage)
    stage.foreign("a", "own", metadata={"annotations": {"secret-copy/namespace": "b"}})
    response = tenant("why", "secret/own", "-n", "a", "-o", "json").json
    assert [miss["expected"] for miss in response["nearMisses"]] == [TARGETS]
    check("why", response)


def test_why_with_rights_to_list_namespaces_answers_from_marks_and_events(stage: Stage, cluster: Devcluster) -> None:
    tenant = as_tenant(stage)
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}]
    with granted(cluster, "lists-namespaces", rules, "tenant"):
        eventually(lambda: tenant("plan").code == 0)
        answers_from_marks_and_events(tenant)
        assert "secrets" in why(tenant, "a")["unread"][0]


def test_why_with_no_rights_at_all_still_says_what_it_could_not_read(stage: Stage) -> None:
    without_rights = Shell(stage.kubeconfig("nobody"))
    response = why(without_rights, "a")
    assert (response["present"], response["wanted"], len(response["unread"])) == (None, None, 3)


# status


def test_status_is_filtered_by_vocabulary_namespace_and_reason(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a")
    stage.source("taken", "a")
    stage.foreign("a", "taken")
    synced = {"name": "own", "annotations": {"openkruise.io/sync-to": "namespaces"}}
    stage.api.create("/api/v1/namespaces/b/secrets", {"metadata": synced})

    def names(*flags: str) -> list[str]:
        return [source["name"] for source in shell("status", "-o", "json", *flags).json["sources"]]

    assert names() == ["db", "taken", "own"]
    assert names("-n", "b") == names("--vocabulary", "sync-to") == ["own"]
    assert names("--reason", "conflict") == ["taken"]
    assert names("--reason", "conflict", "--reason", "invalid") == ["taken", "own"]
    assert names("-n", "b", "--reason", "conflict") == []


def test_status_has_the_promised_shape(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b,later")
    stage.foreign("b", "db")
    before = shell("status", "-o", "json").json["sources"][0]
    assert (before["wanted"], before["right"], before["pending"], before["blocked"]) == (3, 0, 1, 2)
    stage.operator()
    stage.until_copied("db", "a")
    status = shell("status", "-o", "json").json
    assert list(status) == ["sources", "held", "waiting"]
    (source,) = status["sources"]
    named = ["vocabulary", "kind", "namespace", "name", "wanted", "right", "pending", "blocked", "reasons"]
    assert list(source) == named
    assert list(source.values())[:8] == ["secret-copy", "v1/Secret", "admin", "db", 3, 1, 0, 2]
    assert source["reasons"] == [
        {"reason": "conflict", "count": 1, "sample": ["b"]},
        {"reason": "no-namespace", "count": 1, "sample": ["later"]},
    ]
    assert status["held"] == []


def test_status_shows_that_a_source_is_paused(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a", annotations={"samara.dev/paused": "true"})
    (source,) = shell("status", "-o", "json").json["sources"]
    assert source["reasons"][0]["reason"] == "held"


def test_status_without_sources_says_so(stage: Stage, shell: Shell) -> None:
    assert shell("status").out == "No sources.\n"


# the brake


def hold(stage: Stage, shell: Shell) -> list[str]:
    """Makes the operator hold seven deletions."""
    names = [f"n{number}" for number in range(8)]
    stage.namespace(*names)
    stage.source("db", ",".join(names))
    stage.operator()
    stage.until_copied("db", *names)
    stage.retarget("db", "n0")
    eventually(lambda: shell("status", "-o", "json").json["held"])
    return names


def test_held_deletions_are_listed_and_released(stage: Stage, shell: Shell) -> None:
    names = hold(stage, shell)
    (held,) = shell("status", "-o", "json").json["held"]
    assert list(held) == ["key", "count", "since", "until"]
    assert (held["key"], held["count"]) == ("secret-copy/Secret/admin/db", 7)
    assert held["since"] < held["until"]
    assert "secret-copy/Secret/admin/db" in shell("status").out
    for where in ((), ("-n", "n1")):  # the hold of the operator counts, whatever flags the command has
        assert shell("plan", "-o", "json", *where).json["summary"]["delete"] == 0
    done = shell("release", "secret-copy/Secret/admin/db")
    assert (done.code, "7 held deletions" in done.out) == (0, True)
    for name in names[1:]:
        stage.until_gone(name, "db")
    eventually(lambda: shell("status", "-o", "json").json["held"] == [])


def test_discarded_deletions_leave_orphans(stage: Stage, shell: Shell) -> None:
    names = hold(stage, shell)
    assert shell("release", "secret-copy/Secret/admin/db", "--discard").code == 0
    eventually(lambda: shell("status", "-o", "json").json["held"] == [])
    assert all(stage.secret(name, "db") is not None for name in names)
    assert len(shell("orphans", "-o", "json").json["orphans"]) == 7


def test_release_of_another_key_lists_the_held_keys(stage: Stage, shell: Shell) -> None:
    assert "nothing is held" in shell("release", "secret-copy/Secret/admin/other").fault
    hold(stage, shell)
    assert "held are: secret-copy/Secret/admin/db" in shell("release", "sync-to/ConfigMap/team/other").fault
    assert shell("release", "secret-copy/Secret/admin/bd").fault.endswith("did you mean 'secret-copy/Secret/admin/db'?")


def test_several_keys_are_released_together_or_none_of_them(stage: Stage, shell: Shell) -> None:
    db, mail = "secret-copy/Secret/admin/db", "secret-copy/Secret/admin/mail"
    path, record = "/api/v1/namespaces/default/configmaps", {"count": 7, "since": "", "until": "forever", "set": "x"}
    data = {record_name(key): json.dumps({"key": key, **record}) for key in (db, mail)}
    stage.api.create(path, {"metadata": {"name": "samara-holds"}, "data": data})

    def answers() -> list[str]:
        stored = map(json.loads, stage.api.get(f"{path}/samara-holds")["data"].values())
        return [entry["answer"] for entry in stored if "answer" in entry]

    assert "did you mean" in shell("release", db, "secret-copy/Secret/admin/mial").fault
    assert answers() == []
    done = shell("release", db, mail)
    assert [line.split()[4] for line in done.out.splitlines()] == [f"{db}:", f"{mail}:"]
    assert answers() == ["release x", "release x"]


@pytest.mark.parametrize("key", ["nothing/Secret/admin/db", "secret-copy/Thing/admin/db"])
def test_key_with_an_unknown_vocabulary_or_kind_is_wrong_usage(key: str, stage: Stage, shell: Shell) -> None:
    assert shell("release", key).code == 2
