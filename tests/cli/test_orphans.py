"""`samara orphans` on a real cluster: which copies it lists, deletes and leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Shell
from tests.cli.test_why_and_status import hold
from tests.cluster.support.granting import granted
from tests.cluster.support.operators import FAST
from tests.cluster.support.stage import FROM, ORIGIN, USER, Stage
from tests.cluster.support.waiting import eventually

from samara.assembly import WELL_KNOWN
from samara.cli.commands.orphans import find_orphans
from samara.cli.inspect.cluster_plans import plan_cluster, take_snapshot
from samara.cli.inspect.orphan_scan import Orphan
from samara.cli.session import Session
from samara.kube.auth import load
from samara.kube.client import Client, unrestricted
from samara.settings import Settings
from samara_devtools.devcluster import Devcluster

pytestmark = pytest.mark.cluster


def orphans(shell: Shell, *flags: str) -> dict[tuple[str, str], dict[str, Any]]:
    listed = shell("orphans", "-o", "json", *flags).json["orphans"]
    return {(orphan["namespace"], orphan["name"]): orphan for orphan in listed}


def left_behind(stage: Stage, *namespaces: str) -> None:
    """Copies whose source is gone."""
    stage.namespace(*namespaces)
    stage.source("db", ",".join(namespaces))
    operator = stage.operator()
    stage.until_copied("db", *namespaces)
    operator.stop()
    stage.api.delete(stage.path("admin", "db"))


def test_json_has_the_promised_shape(stage: Stage, shell: Shell) -> None:
    left_behind(stage, "a")
    (orphan,) = orphans(shell).values()
    assert list(orphan.items()) == [
        ("kind", "v1/Secret"),
        ("namespace", "a"),
        ("name", "db"),
        ("vocabulary", "secret-copy"),
        ("origin", "admin/db"),
        ("ours", True),
        ("reason", "source-gone"),
    ]


def test_orphans_are_filtered_by_vocabulary_namespace_and_reason(stage: Stage, shell: Shell) -> None:
    left_behind(stage, "a", "b")
    stage.source("db", "a")
    assert {place: orphan["reason"] for place, orphan in orphans(shell).items()} == {("b", "db"): "not-wanted"}
    stage.api.delete(stage.path("admin", "db"))
    assert orphans(shell, "-n", "a").keys() == {("a", "db")}
    assert orphans(shell, "--reason", "source-gone", "--vocabulary", "secret-copy").keys() == {("a", "db"), ("b", "db")}
    assert orphans(shell, "--reason", "not-wanted") == orphans(shell, "--vocabulary", "sync-to") == {}


def test_delete_removes_only_the_orphans_that_the_filter_lets_through(stage: Stage, shell: Shell) -> None:
    left_behind(stage, "a")
    assert "0 orphans to remove" in shell("orphans", "--delete", "--yes", "--vocabulary", "sync-to").err
    assert stage.secret("a", "db") is not None


def test_wanted_copy_is_no_orphan(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    assert orphans(shell) == {}
    assert shell("orphans").out == "No orphans.\n"


def test_copy_that_an_invalid_source_keeps_is_no_orphan(stage: Stage, shell: Shell) -> None:
    ask, listed = "openkruise.io/sync-to", "openkruise.io/sync-to-namespaces"
    stage.namespace("team", "a", "b")
    stage.foreign("team", "db", metadata={"annotations": {ask: "namespaces", listed: "a"}})
    stage.foreign("b", "db", metadata={"annotations": {"openkruise.io/synced-from": "team/db"}})
    operator = stage.operator(config={"vocabularies": {"sync-to": {"kinds": ["v1/Secret"]}}})
    eventually(lambda: stage.secret("a", "db"))
    stage.annotate(stage.path("team", "db"), {ask: "everywhere"})
    operator.stop()
    assert [address for address, orphan in orphans(shell).items() if orphan["ours"]] == []
    assert list(orphans(shell)) == [("b", "db")]
    stage.annotate(stage.path("team", "db"), {ask: None})
    assert orphans(shell)["a", "db"]["ours"] is True


def test_a_pasted_copy_is_listed_and_not_ours(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a")
    stage.foreign("b", "db", metadata={"annotations": {ORIGIN: "admin/db"}, "labels": {FROM: "admin-db"}})
    assert orphans(shell)["b", "db"]["ours"] is False
    shell("orphans", "--delete", "--yes")
    assert stage.secret("b", "db") is not None


def test_copies_of_another_home_are_listed(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    file = stage.folder / "other.yaml"
    file.write_text("vocabularies: {secret-copy: {home: elsewhere}}")
    listed = orphans(shell, f"--config={file}")
    assert (listed["a", "db"]["origin"], listed["a", "db"]["ours"]) == ("admin/db", True)


def test_copies_of_a_vocabulary_that_is_switched_off_are_listed(stage: Stage) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    stage.operator()
    stage.until_copied("db", "a")
    listed = asyncio.run(_with_nothing_on(stage))
    assert [(orphan.live.ref.namespace, orphan.origin, orphan.ours) for orphan in listed] == [("a", "admin/db", True)]


async def _with_nothing_on(stage: Stage) -> list[Orphan]:
    """A settings file must serve a vocabulary; a `Settings` value need not."""
    settings = Settings(vocabularies={})
    access = load(str(stage.cluster.kubeconfig), None, None, None, {}, stage.folder)
    async with Client(access, may_write=unrestricted) as client:
        session = Session(client, access, settings, None, WELL_KNOWN)
        plans = await plan_cluster(session, await take_snapshot(session, session.full_registry))
        return list(find_orphans(plans, session.policy))


def test_copies_in_a_namespace_that_was_protected_later_are_listed(stage: Stage, shell: Shell, tmp_path: Path) -> None:
    stage.namespace("team", "a", "b")
    marks = {"openkruise.io/sync-to": "namespaces", "openkruise.io/sync-to-namespaces": "a;b"}
    stage.foreign("team", "db", metadata={"annotations": marks})
    operator = stage.operator(config={"vocabularies": {"sync-to": {}}})
    eventually(lambda: stage.secret("a", "db"))
    eventually(lambda: stage.secret("b", "db"))
    operator.stop()
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"vocabularies": {"sync-to": {}}, "protectedNamespaces": ["a"]}))
    assert list(orphans(shell, "--config", str(settings))) == [("a", "db")]


def test_delete_asks_first_and_n_deletes_nothing(stage: Stage, shell: Shell) -> None:
    left_behind(stage, "a", "b")
    done = shell("orphans", "--delete", stdin="n\n")
    assert done.code == 1
    assert "2 orphans to remove" in done.err
    assert stage.secret("a", "db") is not None


def test_delete_removes_only_our_copies(stage: Stage, shell: Shell) -> None:
    left_behind(stage, "a", "b")
    stage.foreign("a", "bystander")
    done = shell("orphans", "--delete", "-n", "a", stdin="y\n")
    assert (done.code, "Removed 1 orphan." in done.err) == (0, True)
    assert stage.secret("a", "db") is None
    assert stage.secret("b", "db") is not None
    assert shell("orphans", "--delete", "--yes").code == 0
    assert stage.secret("b", "db") is None
    assert stage.secret("a", "bystander") is not None


def test_adopted_object_only_loses_our_marks(stage: Stage, shell: Shell) -> None:
    stage.namespace("a")
    made = stage.source("db", "a")
    stage.api.create("/api/v1/namespaces/a/secrets", {"metadata": {"name": "db"}, "data": made["data"]})
    operator = stage.operator()
    stage.until_copied("db", "a")
    operator.stop()
    stage.api.delete(stage.path("admin", "db"))
    assert shell("orphans", "--delete", "--yes").code == 0
    left = stage.secret("a", "db")
    assert left is not None
    assert left["data"] == made["data"]
    assert ORIGIN not in left["metadata"]["annotations"]
    assert orphans(shell) == {}


def test_a_paused_namespace_is_left_alone(stage: Stage, shell: Shell) -> None:
    left_behind(stage, "a")
    stage.annotate("/api/v1/namespaces/a", {"samara.dev/paused": "true"})
    done = shell("orphans", "--delete", "--yes")
    assert "0 orphans to remove" in done.err
    assert stage.secret("a", "db") is not None


def test_delete_obeys_the_brake_whatever_others_have_marked(stage: Stage, shell: Shell, tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(8)]
    left_behind(stage, *names)
    for number in range(30):
        stage.foreign("n0", f"forged{number}", metadata={"annotations": {ORIGIN: "admin/db"}})
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(FAST))
    done = shell("orphans", "--delete", "--yes", f"--config={file}")
    assert done.code == 1
    assert "8 orphans of secret-copy admin/db stay" in done.err.splitlines()[-1]
    assert all(stage.secret(name, "db") is not None for name in names)
    assert shell("orphans", "--delete", "--yes", "-n", "n1", f"--config={file}").code == 0
    assert stage.secret("n1", "db") is None


def braked(folder: Path, most: int = 5) -> str:
    file = folder / f"most-{most}.yaml"
    file.write_text(yaml.safe_dump({**FAST, "massDelete": {"most": most, "percent": 30}}))
    return f"--config={file}"


def test_operator_5_delete_obeys_the_brake_over_all_sources_of_one_namespace(
    stage: Stage, shell: Shell, tmp_path: Path
) -> None:
    names = [f"s{number}" for number in range(10)]
    stage.namespace("a")
    for name in names:
        stage.source(name, "a")
    operator = stage.operator()
    for name in names:
        stage.until_copied(name, "a")
    operator.stop()
    for name in names:
        stage.api.delete(stage.path("admin", name))
    done = shell("orphans", "--delete", "--yes", braked(tmp_path))
    assert done.code == 1
    assert "5 orphans to remove, 5 held by the limit on mass deletion" in done.err
    assert sum(stage.secret("a", name) is not None for name in names) == 5


def test_operator_5_what_the_operator_holds_is_not_deleted_without_a_release(
    stage: Stage, shell: Shell, tmp_path: Path
) -> None:
    names = hold(stage, shell)
    for flags in (("-n", "n1", braked(tmp_path)), (braked(tmp_path, most=1000),)):
        done = shell("orphans", "--delete", "--yes", *flags)
        assert done.code == 1
        assert "the operator holds their deletion" in done.err.splitlines()[-1]
        assert "`samara release secret-copy/Secret/admin/db`" in done.err.splitlines()[-1]
    assert all(stage.secret(name, "db") is not None for name in names)


def test_operator_6_copies_of_a_paused_source_are_left_alone(stage: Stage, shell: Shell) -> None:
    stage.namespace("a", "b")
    stage.source("db", "a,b")
    operator = stage.operator()
    stage.until_copied("db", "a", "b")
    operator.stop()
    stage.annotate(stage.path("admin", "db"), {"samara.dev/paused": "true"})
    stage.retarget("db", "a")
    assert list(orphans(shell)) == [("b", "db")]
    done = shell("orphans", "--delete", "--yes")
    assert (done.code, "0 orphans to remove" in done.err) == (0, True)
    stage.retarget("db", None)
    shell("orphans", "--delete", "--yes")
    assert stage.secret("a", "db") is not None
    assert stage.secret("b", "db") is not None


def test_a_pause_holds_for_copies_of_another_home_too(stage: Stage, shell: Shell, tmp_path: Path) -> None:
    stage.namespace("a")
    stage.source("db", "a")
    operator = stage.operator()
    stage.until_copied("db", "a")
    operator.stop()
    file = tmp_path / "other.yaml"
    file.write_text("vocabularies: {secret-copy: {home: elsewhere}}")
    stage.annotate(stage.path("admin", "db"), {"samara.dev/paused": "true"})
    assert "0 orphans to remove" in shell("orphans", "--delete", "--yes", f"--config={file}").err
    assert stage.secret("a", "db") is not None
    stage.annotate(stage.path("admin", "db"), {"samara.dev/paused": None})
    assert shell("orphans", "--delete", "--yes", f"--config={file}").code == 0
    assert stage.secret("a", "db") is None


def test_nothing_is_deleted_while_the_held_deletions_cannot_be_read(
    stage: Stage, shell: Shell, cluster: Devcluster
) -> None:
    left_behind(stage, "a")
    rules = [{"apiGroups": [""], "resources": ["namespaces", "secrets"], "verbs": ["get", "list", "delete"]}]
    with granted(cluster, "reads-no-holds", rules, "blind"):
        eventually(lambda: shell("orphans", "--as=blind").code == 0)
        done = shell("orphans", "--delete", "--yes", "--as=blind")
    assert done.code == 1
    assert "expected to read first which deletions the operator holds" in done.err.splitlines()[-1]
    assert stage.secret("a", "db") is not None


# kinds and vocabularies that the settings no longer name

POLICY = "networking.k8s.io/v1/NetworkPolicy"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"


@pytest.fixture
def _rights(cluster: Devcluster) -> Iterator[None]:
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    kinds = {"": ["configmaps"], "networking.k8s.io": ["networkpolicies"]}
    rules = [{"apiGroups": [group], "resources": names, "verbs": verbs} for group, names in kinds.items()]
    with granted(cluster, "kinds-to-drop", rules, USER):
        yield


@pytest.mark.usefixtures("_rights")
def test_operator_2_copies_of_a_kind_that_is_no_longer_configured_stay_are_listed_and_can_be_removed(
    stage: Stage, shell: Shell, tmp_path: Path
) -> None:
    stage.namespace("team", "a")
    annotations = {"openkruise.io/sync-to": "namespaces", "openkruise.io/sync-to-namespaces": "a"}
    for path, more in ((CONFIG_MAPS, {"data": {"k": "v"}}), (POLICIES, {"spec": {"podSelector": {}}})):
        for namespace in ("team", "a"):
            stage.also_remove(f"{path.format(namespace)}/db")
        stage.api.create(path.format("team"), {"metadata": {"name": "db", "annotations": annotations}, **more})
    copies = [f"{path.format('a')}/db" for path in (CONFIG_MAPS, POLICIES)]
    operator = stage.operator(config={"vocabularies": {"sync-to": {"kinds": ["v1/ConfigMap", POLICY]}}})
    eventually(lambda: all(stage.api.find(path) is not None for path in copies))
    assert orphans(shell, f"--config={settings(tmp_path, 'v1/ConfigMap', POLICY)}") == {}
    operator.stop()

    stage.operator(config={"vocabularies": {"sync-to": {"kinds": ["v1/Secret"]}}})
    fewer = f"--config={settings(tmp_path, 'v1/Secret')}"
    listed = shell("orphans", "-o", "json", fewer).json["orphans"]
    assert [(orphan["kind"], orphan["namespace"], orphan["origin"], orphan["ours"]) for orphan in listed] == [
        ("v1/ConfigMap", "a", "team/db", True),
        (POLICY, "a", "team/db", True),
    ]
    assert all(stage.api.find(path) is not None for path in copies)
    done = shell("orphans", "--delete", "--yes", fewer)
    assert (done.code, done.err.splitlines()[-1]) == (0, "Removed 2 orphans.")
    assert all(stage.api.find(path) is None for path in copies)


def test_kinds_that_may_not_be_listed_are_noted_in_one_line(stage: Stage, shell: Shell, cluster: Devcluster) -> None:
    left_behind(stage, "a")
    rules = [{"apiGroups": [""], "resources": ["namespaces", "secrets", "configmaps"], "verbs": ["get", "list"]}]
    with granted(cluster, "reads-a-little", rules, "reader"):
        done = shell("orphans", "--as=reader")
    assert done.code == 0
    assert "admin/db" in done.out
    notes = [line for line in done.err.splitlines() if "not searched" in line]
    assert len(notes) == 1
    assert "apps/v1/ControllerRevision, apps/v1/DaemonSet, apps/v1/Deployment and " in notes[0]


def settings(folder: Path, *kinds: str) -> Path:
    file = folder / "settings.yaml"
    file.write_text(yaml.safe_dump({"vocabularies": {"sync-to": {"kinds": list(kinds)}}}))
    return file


def test_a_copy_whose_marks_were_removed_while_its_source_ended_is_listed_and_never_deleted(
    stage: Stage, shell: Shell
) -> None:
    left_behind(stage, "a", "b")
    metadata = {"labels": {FROM: None}, "annotations": {ORIGIN: None}}
    stage.api.patch(stage.path("a", "db"), {"metadata": metadata})
    stage.api.patch(stage.path("b", "db"), {"metadata": metadata})
    stage.annotate(stage.path("b", "db"), {"samara.dev/released": "true"})
    listed = orphans(shell)
    assert list(listed) == [("a", "db")]
    assert [listed["a", "db"][field] for field in ("vocabulary", "origin", "ours")] == ["", "", False]
    assert "marks-removed" in shell("orphans").out
    shell("orphans", "--delete", "--yes")
    assert stage.secret("a", "db") is not None
