"""`samara why` of several objects, and of names that are misspelt."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.conftest import Shell
from tests.cluster.support.granting import granted
from tests.cluster.support.stage import Stage
from tests.cluster.support.waiting import eventually
from tests.support.json_schema import check

from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.cluster


def answer(shell: Shell, *args: str) -> dict[str, Any]:
    done = shell("why", *args, "-o", "json")
    assert done.code == 0, done.err
    return done.json


def test_each_of_several_objects_has_the_answer_that_it_has_alone(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a")
    stage.foreign("a", "other")
    objects = ("secret/db", "secret/other", "namespace/a", "namespace/b", "secret/db")
    several = answer(shell, *objects, "-n", "a")
    check("why-list", several)
    assert several == {"items": [answer(shell, name, "-n", "a") for name in objects]}
    assert [item["object"]["name"] for item in several["items"]] == ["db", "other", "a", "b", "db"]


def test_a_kind_and_names_are_the_same_objects_as_with_slashes(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    assert answer(shell, "secret", "db", "-n", "a") == answer(shell, "secret/db", "-n", "a")
    assert answer(shell, "secrets", "db", "x", "-n", "a") == answer(shell, "secret/db", "secret/x", "-n", "a")


def test_the_texts_of_several_objects_have_an_empty_line_between_them(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    texts = [shell("why", f"secret/{name}", "-n", "a").out for name in ("db", "x")]
    assert shell("why", "secret", "db", "x", "-n", "a").out == "\n".join(texts)


def test_the_whole_cluster_is_read_once_for_several_namespaces(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    mark = stage.audit.mark()
    several = answer(shell, "namespace", "a", "b")
    assert [item["incoming"][0]["name"] for item in several["items"]] == ["db", "db"]
    lists = [event.uri for event in stage.audit.ours(mark) if (event.verb, event.resource) == ("list", "secrets")]
    assert sum(uri.startswith("/api/v1/secrets") and "fieldSelector" not in uri for uri in lists) == 1


def test_several_objects_are_answered_with_rights_in_their_namespace_only(stage: Stage) -> None:
    without_rights = Shell(stage.kubeconfig("nobody"))
    several = answer(without_rights, "secret", "a", "b", "-n", "admin")
    check("why-list", several)
    assert [item["wanted"] for item in several["items"]] == [None, None]


# names that are misspelt


def test_names_in_the_namespace_that_are_nearly_the_same_are_suggested(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.foreign("a", "registry-pull")
    stage.foreign("a", "database")
    stage.foreign("b", "regsitry-pul")
    done = shell("why", "secret/regsitry-pull", "-n", "a")
    assert done.code == 0
    assert done.err.splitlines()[-1] == "samara: there is no Secret a/regsitry-pull; did you mean 'registry-pull'?"


def test_a_misspelt_namespace_is_named_with_the_one_that_was_meant(stage: Stage, shell: Shell) -> None:
    stage.namespace("billing")
    meant = "; did you mean 'billing'?"
    assert shell("why", "secret/db", "-n", "biling").err.endswith(f"there is no namespace 'biling'{meant}\n")
    assert shell("why", "namespace", "biling").err.endswith(f"there is no Namespace biling{meant}\n")


def test_a_misspelt_root_of_a_tree_is_reported_with_similar_namespaces(stage: Stage, shell: Shell) -> None:
    stage.namespace("billing")
    done = shell("tree", "biling")
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("; did you mean 'billing'?\n")


def test_an_object_that_is_there_or_that_a_source_wants_gets_no_suggestion(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("orders-db1", "a")
    stage.foreign("a", "orders-db2")
    stage.foreign("a", "orders-db3")
    for name in ("orders-db1", "orders-db2"):
        assert "did you mean" not in shell("why", "secret", name, "-n", "a").err


def test_the_suggestion_reads_no_value_of_a_secret(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.foreign("a", "registry-pull", {"password": "a-canary-value"})
    mark = stage.audit.mark()
    assert "'registry-pull'" in shell("why", "secret/registry-pul", "-n", "a").err
    (listing,) = [event for event in stage.audit.ours(mark) if event.uri.startswith("/api/v1/namespaces/a/secrets?")]
    assert listing.response["kind"] == "Table"
    assert [row["object"] for row in listing.response["rows"]] == [None]


def test_without_the_right_to_list_names_nothing_is_suggested_and_nothing_said(
    stage: Stage, cluster: Devcluster
) -> None:
    stage.namespace("a")
    stage.foreign("a", "registry-pull")
    with granted(cluster, "gets-secrets", [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}], "tenant"):
        tenant = Shell(stage.kubeconfig("tenant"))
        eventually(lambda: answer(tenant, "secret/registry-pul", "-n", "a")["present"] is False)
        done = tenant("why", "secret/registry-pul", "-n", "a")
    assert done.code == 0
    assert "registry-pull" not in done.err
    assert "Traceback" not in done.err
