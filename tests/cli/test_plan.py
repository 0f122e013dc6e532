"""`samara plan` on a real cluster: its JSON, its diff, and the brake. Nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Shell
from tests.cluster.support.operators import FAST
from tests.cluster.support.stage import Stage

pytestmark = pytest.mark.cluster

WRITE = ["verb", "kind", "namespace", "name", "vocabulary", "source", "why", "rule"]
BLOCKED = ["kind", "namespace", "name", "vocabulary", "source", "reason", "message", "rule"]
VERBS = ["create", "update", "recreate", "delete", "overlay", "guard", "report"]


def settings(folder: Path, text: str) -> str:
    file = folder / "cli-settings.yaml"
    file.write_text(text)
    return f"--config={file}"


def test_json_has_the_promised_shape(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b,later,Bad_Name")
    stage.foreign("b", "db")
    plan = shell("plan", "-o", "json").json
    assert list(plan) == ["writes", "blocked", "summary"]
    (write,) = plan["writes"]
    assert list(write) == WRITE
    assert list(write.values())[:6] == ["create", "v1/Secret", "a", "db", "secret-copy", "admin/db"]
    assert all(list(blocked) == BLOCKED for blocked in plan["blocked"])
    assert {(blocked["namespace"], blocked["reason"]) for blocked in plan["blocked"]} == {
        ("admin", "invalid"),
        ("b", "conflict"),
        ("later", "no-namespace"),
    }
    assert list(plan["summary"]) == [*VERBS, "blocked"]
    assert (plan["summary"]["create"], plan["summary"]["blocked"]) == (1, 3)


def test_yaml_has_the_same_values_as_json(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    assert yaml.safe_load(shell("plan", "-o", "yaml").out) == shell("plan", "-o", "json").json


def test_plan_writes_nothing(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    shell("plan")
    assert stage.secret("a", "db") is None


def test_exit_code_is_3_only_with_the_flag_and_something_to_write(stage: Stage, shell: Shell) -> None:
    assert shell("plan", "--exit-code").code == 0
    stage.namespace("a")
    stage.source("db", "a")
    assert shell("plan").code == 0
    assert shell("plan", "--exit-code").code == 3
    assert shell("plan", "--exit-code", "-o", "json").code == 3


def test_plan_in_sync_has_nothing_to_write(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    assert shell("plan", "--exit-code").out == "Nothing to write.\n"


def test_the_operator_does_what_was_planned(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b", "c")
    stage.source("db", "a,b")
    stage.operator().stop()
    stage.bump("db")
    stage.retarget("db", "a,c")
    stage.source("tls", "a", type="kubernetes.io/basic-auth", data={"username": "u", "password": "p"})
    planned = {
        (write["verb"], write["namespace"], write["name"]) for write in shell("plan", "-o", "json").json["writes"]
    }
    assert planned == {("update", "a", "db"), ("delete", "b", "db"), ("create", "c", "db"), ("create", "a", "tls")}
    stage.operator()
    stage.until_gone("b", "db")
    stage.until_copied("db", "a", "c")
    stage.until_copied("tls", "a")


def test_address_with_a_foreign_object_is_read_and_blocked(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "z")
    stage.foreign("a", "db", {"n": "another"})
    stage.source("db", "")
    blocked = shell("plan", "-o", "json").json["blocked"]
    assert [(blocker["namespace"], blocker["reason"]) for blocker in blocked] == [("a", "conflict")]


def test_many_pages_are_all_read(stage: Stage, shell: Shell) -> None:
    names = [f"n{number:04}" for number in range(620)]
    stage.namespace(*names)
    stage.source("db", "")
    stage.operator()
    stage.bump("db")
    stage.until_copied("db", *names[::50], names[-1], deadline=60)
    source = shell("status", "-o", "json").json["sources"][0]
    assert (source["wanted"], source["right"]) == (624, 624)


def test_a_table_groups_by_source_and_all_lists_each(stage: Stage, shell: Shell) -> None:
    stage.namespace(*(f"n{number}" for number in range(9)))
    stage.source("db", "")
    grouped = shell("plan").out.splitlines()
    assert len(grouped) == 3
    assert grouped[0] == "13 to create."
    assert "13" in grouped[2]
    assert "and 10 more" in grouped[2]
    assert len(shell("plan", "--all").out.splitlines()) == 15


def test_diff_shows_keys_sizes_types_and_marks(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a", {"same": "x", "longer": "12", "gone": "123"})
    stage.operator().stop()
    data = {"longer": "MTIzNA==", "new": "MTIzNDU=", "gone": None}
    stage.api.patch(stage.path("admin", "db"), {"data": data})
    out = shell("plan", "--diff").out
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "1 to update."
    assert lines[1].startswith("update Secret a/db, secret-copy from admin/db: ")
    assert lines[2:5] == ["- data gone: 3 bytes", "~ data longer: 2 bytes → 4 bytes", "+ data new: 5 bytes"]
    diff = shell("plan", "--diff", "-o", "json").json["writes"][0]["diff"]
    assert {"change": "changed", "field": "data", "key": "longer", "before": 2, "after": 4} in diff


def test_diff_shows_a_changed_type(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a", {"username": "u", "password": "p"})
    stage.operator().stop()
    stage.api.patch(stage.path("a", "db"), {"metadata": {"labels": {"mine": "1"}}})
    stage.api.delete(stage.path("admin", "db"))
    stage.source("db", "a", {"username": "u", "password": "p"}, type="kubernetes.io/basic-auth")
    out = shell("plan", "--diff").out
    assert out.startswith("1 to recreate.\nrecreate Secret a/db")
    assert "~ type: Opaque → kubernetes.io/basic-auth" in out
    assert "mine" not in out  # the annotations of users are on the recreated copy too


def test_diff_of_an_adoption_shows_the_added_marks(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    made = stage.source("db", "a")
    stage.api.create("/api/v1/namespaces/a/secrets", {"metadata": {"name": "db"}, "data": made["data"]})
    lines = [line.strip() for line in shell("plan", "--diff").out.splitlines()]
    assert lines[2:5] == [
        "+ label secret-copy/from",
        "+ annotation samara.dev/adopted",
        "+ annotation secret-copy/origin",
    ]


def test_diff_of_a_take_over_shows_the_replaced_data(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.foreign("a", "db", {"theirs": "123"})
    out = shell("plan", "--diff", settings(stage.folder, "conflicts: overwrite")).out
    assert "- data theirs: 3 bytes" in out
    assert "+ data n: 1 byte" in out


# the brake


def test_removals_that_the_brake_would_hold_are_blocked_and_not_written(stage: Stage, shell: Shell) -> None:
    names = [f"n{number}" for number in range(8)]
    stage.namespace(*names)
    stage.source("db", ",".join(names))
    stage.operator().stop()
    stage.retarget("db", "n0")
    given = settings(stage.folder, yaml.safe_dump(FAST))
    done = shell("plan", "-o", "json", "--exit-code", given)
    assert done.code == 0
    assert done.json["summary"]["delete"] == 0
    assert {blocked["reason"] for blocked in done.json["blocked"]} == {"held"}
    assert len(done.json["blocked"]) == 7
    release = "`samara release secret-copy/Secret/admin/db`"
    assert {release in blocked["message"] for blocked in done.json["blocked"]} == {True}
    assert release in shell("plan", given).out
    assert shell("plan", "-o", "json", settings(stage.folder, "massDelete: null")).json["summary"]["delete"] == 7


def test_the_brake_counts_all_sources_of_a_namespace_together(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b", "c")
    for name in ("one", "two", "three"):
        stage.source(name, "a,b,c")
    stage.operator().stop()
    for name in ("one", "two", "three"):
        stage.retarget(name, "c")
    plan = shell("plan", "-o", "json", settings(stage.folder, yaml.safe_dump(FAST))).json
    assert (plan["summary"]["delete"], plan["summary"]["blocked"]) == (4, 2)


# who may


def test_a_forbidden_list_is_one_line_and_exit_1(stage: Stage) -> None:
    without_rights = Shell(stage.kubeconfig("nobody"))
    done = without_rights("plan")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("samara: the API server answered 403 Forbidden")
    assert "Traceback" not in done.err


def test_settings_of_the_installed_operator_are_used_and_named(stage: Stage, shell: Shell) -> None:
    stage.namespace("samara-system", "shop", "a")
    body = {
        "metadata": {"name": "samara", "labels": {"app.kubernetes.io/name": "samara"}},
        "data": {"config.yaml": "vocabularies: {secret-copy: {home: shop}}"},
    }
    stage.api.create("/api/v1/namespaces/samara-system/configmaps", body)
    stage.source("db", "a", home="shop")
    done = shell("plan", "--exit-code")
    assert done.code == 3
    assert "settings: from ConfigMap samara-system/samara" in done.err
    given = shell("plan", "--exit-code", settings(stage.folder, "{}"))
    assert given.code == 0
    assert "settings" not in given.err
