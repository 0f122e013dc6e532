"""The rules of sync-to on a real server, for Secrets and ConfigMaps, by their numbers in the specification."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.cluster.support.api import Api, ApiFault
from tests.cluster.support.audit import Event, until_recorded
from tests.cluster.support.operators import Operator
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.stage import SECOND, SYSTEM, USER, Stage, encoded
from tests.cluster.support.waiting import eventually, never

from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
ASK = "openkruise.io/sync-to"
LIST = "openkruise.io/sync-to-namespaces"
FROM = "openkruise.io/synced-from"
ACCEPT = "samara.dev/accept-from"
PAUSED = "samara.dev/paused"
SETTLED = 0.5
"""For how many seconds a test watches for something that must not happen."""
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
USED = frozenset({"secrets", "configmaps", "namespaces", "resourcequotas", "events"})
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVERY = {ASK: "cluster"}


def to(*names: str) -> dict[str, str]:
    return {ASK: "namespaces", LIST: ";".join(names)}


@pytest.fixture(scope="module", autouse=True)
def _rights(cluster: Devcluster) -> Iterator[None]:
    """Grants the users of the operator the rights for ConfigMaps that `samara rbac` prints for these settings."""
    api = Api(cluster.url, cluster._credentials.admin_context())
    role = {
        "metadata": {"name": "sync-to"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": VERBS}],
    }
    group = "rbac.authorization.k8s.io"
    users = [{"kind": "User", "name": user, "apiGroup": group} for user in (USER, SECOND)]
    reference = {"kind": "ClusterRole", "name": "sync-to", "apiGroup": group}
    api.create(f"{RBAC}/clusterroles", role)
    api.create(
        f"{RBAC}/clusterrolebindings", {"metadata": {"name": "sync-to"}, "roleRef": reference, "subjects": users}
    )
    yield
    for plural in ("clusterrolebindings", "clusterroles"):
        api.delete(f"{RBAC}/{plural}/sync-to")
    for path in _left(api):
        api.gone(f"/api/v1/namespaces/{path.replace('/', '/configmaps/', 1)}")
    api.close()


def _left(api: Api) -> list[str]:
    """Removes the ConfigMaps of a test, because the stage removes only Secrets."""
    metadata = [config_map["metadata"] for config_map in api.items("/api/v1/configmaps")]
    mine = [meta for meta in metadata if FROM in (meta.get("labels") or {}) or meta["namespace"] not in SYSTEM]
    return [f"{meta['namespace']}/{meta['name']}" for meta in mine if meta["name"] != "kube-root-ca.crt"]


class Scene:
    """A stage for one kind. The default source is `team/db`."""

    def __init__(self, stage: Stage, plural: str) -> None:
        self.stage = stage
        self.plural = plural
        self.kind = {"secrets": "Secret", "configmaps": "ConfigMap"}[plural]

    def path(self, namespace: str, name: str = "db") -> str:
        return f"/api/v1/namespaces/{namespace}/{self.plural}/{name}"

    def get(self, namespace: str, name: str = "db") -> Json | None:
        return self.stage.api.find(self.path(namespace, name))

    def data(self, **values: str) -> Json:
        return {"data": encoded(values) if self.plural == "secrets" else values}

    def make(
        self,
        namespace: str = "team",
        name: str = "db",
        annotations: Mapping[str, str] | None = None,
        metadata: Json | None = None,
        **fields: Any,
    ) -> Json:
        meta = {"name": name, **(metadata or {})}
        meta["annotations"] = {**(meta.get("annotations") or {}), **(annotations or {})}
        body = {"metadata": meta, **self.data(value="1"), **fields}
        return self.stage.api.create(f"/api/v1/namespaces/{namespace}/{self.plural}", body)

    def edit(self, namespace: str, body: Json, name: str = "db") -> Json:
        return self.stage.api.patch(self.path(namespace, name), body)

    def ask(self, annotations: Mapping[str, str | None]) -> None:
        self.stage.annotate(self.path("team"), {ASK: None, LIST: None, **annotations})

    def delete(self, namespace: str, name: str = "db") -> None:
        self.stage.api.delete(self.path(namespace, name))

    def operator(self, config: Mapping[str, Any] | None = None, **own: Any) -> Operator:
        return self.stage.operator(config={"vocabularies": {"sync-to": own}, **(config or {})})

    def is_copy(self, namespace: str, name: str = "db", source: str = "team") -> bool:
        """True if the copy equals its source except for metadata and has the marks."""
        actual, wanted = self.get(namespace, name), self.get(source, name)
        return (
            actual is not None
            and wanted is not None
            and _content(actual) == _content(wanted)
            and metadata_of(actual).get(FROM) == f"{source}/{name}"
            and FROM in metadata_of(actual, "labels")
        )

    def until_copied(self, *namespaces: str, name: str = "db", source: str = "team", deadline: float = 20.0) -> None:
        for namespace in namespaces:
            eventually(lambda where=namespace: self.is_copy(where, name, source), deadline)  # type: ignore[misc]

    def until_gone(self, *namespaces: str, name: str = "db") -> None:
        for namespace in namespaces:
            eventually(lambda where=namespace: self.get(where, name) is None)  # type: ignore[misc]

    def until_reported(self, reason: str, namespace: str = "team") -> str:
        event = self.stage.until_event(reason, namespace, "db")
        assert event["involvedObject"]["kind"] == self.kind
        return str(event["message"])

    def copies(self, operator: Operator, state: str) -> float:
        return operator.metrics()[f'samara_copies{{state="{state}",vocabulary="sync-to"}}']

    def writes(self, mark: int = 0) -> list[Event]:
        """The writes of the operator to sources, copies and Namespaces, without its own objects."""
        return [
            event
            for event in self.stage.audit.ours(mark)
            if event.mutating
            and event.resource in ("secrets", "configmaps", "namespaces")
            and event.name != "samara-holds"
            and not event.dry_run
        ]


def _content(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in ("metadata", "apiVersion", "kind", "status")}


@pytest.fixture(autouse=True)
def _ready(stage: Stage) -> None:
    stage.expect.home = "nobody"  # the oracles know only Secret copy
    stage.forget(*(f"configmaps/{path}" for path in _left(stage.api)), exact=True)
    stage.namespace("team")


@pytest.fixture(params=["secrets", "configmaps"])
def scene(request: pytest.FixtureRequest, stage: Stage) -> Scene:
    return Scene(stage, request.param)


@pytest.fixture
def secrets(stage: Stage) -> Scene:
    return Scene(stage, "secrets")


@pytest.fixture
def config_maps(stage: Stage) -> Scene:
    return Scene(stage, "configmaps")


# 1. A source is an object of a served kind with the annotation, in any namespace, that is not itself a copy


def test_rule_1_a_source_is_an_object_with_sync_to_in_any_namespace(scene: Scene) -> None:
    scene.stage.namespace("a")
    for namespace in ("team", "default", "kube-system"):
        scene.make(namespace, f"from-{namespace}", to("a"))
    scene.make("team", "plain")
    scene.operator()
    for namespace in ("team", "default", "kube-system"):
        scene.until_copied("a", name=f"from-{namespace}", source=namespace)
    assert scene.get("a", "plain") is None
    for namespace in ("default", "kube-system"):
        scene.stage.also_remove(scene.path(namespace, f"from-{namespace}"))


def test_rule_1_an_object_becomes_a_source_when_the_annotation_is_added(scene: Scene) -> None:
    scene.stage.namespace("a")
    scene.make()
    scene.operator()
    scene.ask(to("a"))
    scene.until_copied("a")


def test_rule_1_a_copy_with_sync_to_is_not_a_source(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    scene.make(annotations=to("a"))
    scene.operator()
    scene.until_copied("a")
    mark = scene.stage.audit.mark()
    scene.edit("a", {"metadata": {"annotations": to("b")}})
    never(lambda: scene.get("b") or scene.writes(mark), SETTLED)


def test_rule_1_the_served_kinds_are_a_setting(secrets: Scene, config_maps: Scene) -> None:
    secrets.stage.namespace("a")
    for scene in (secrets, config_maps):
        scene.make(annotations=to("a"))
    secrets.operator(kinds=["v1/ConfigMap"])
    config_maps.until_copied("a")
    assert secrets.get("a") is None


# 2. `cluster` and `namespaces`


def test_rule_2_cluster_is_every_namespace_except_its_own_and_the_protected(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    scene.make(annotations=EVERY)
    operator = scene.operator()
    scene.until_copied("a", "b", "default", "admin")
    assert {event.namespace for event in scene.writes()} == {"a", "b", "default", "admin"}
    assert scene.copies(operator, "blocked") == 0


@pytest.mark.parametrize("listed", ["a;b", "a,b", "a b", " b ;\n\ta ,;", "a;a;b,team"])
@pytest.mark.parametrize("word", ["namespaces", "namespace"])
def test_rule_2_semicolons_commas_and_spaces_separate_duplicates_are_merged_and_its_own_namespace_is_skipped(
    config_maps: Scene, word: str, listed: str
) -> None:
    config_maps.stage.namespace("a", "b", "c")
    config_maps.make(annotations={ASK: word, LIST: listed})
    operator = config_maps.operator()
    config_maps.until_copied("a", "b")
    assert config_maps.copies(operator, "blocked") == 0
    assert sorted(event.namespace for event in config_maps.writes()) == ["a", "b"]


def test_rule_2_a_listed_namespace_that_does_not_exist_yet_is_waited_for(scene: Scene) -> None:
    scene.make(annotations=to("late"))
    operator = scene.operator()
    assert scene.copies(operator, "blocked") == 1
    scene.stage.namespace("late")
    scene.until_copied("late")
    assert not [event for event in scene.stage.events("team") if event["type"] == "Warning"]


def test_rule_2_a_protected_namespace_is_refused_even_when_listed_by_name_and_reported(scene: Scene) -> None:
    scene.stage.namespace("a")
    scene.make(annotations=to("a", "kube-system"))
    scene.operator()
    scene.until_copied("a")
    message = scene.until_reported("Refused")
    assert "kube-system" in message
    assert "protected" in message
    assert scene.get("kube-system") is None


def test_rule_2_a_namespace_removed_from_the_protected_ones_in_the_settings_is_served(scene: Scene) -> None:
    scene.make(annotations=to("kube-system"))
    scene.operator({"protectedNamespaces": ["kube-public"]})
    scene.until_copied("kube-system")
    scene.stage.also_remove(scene.path("kube-system"))


# 3. The copy


def test_rule_3_a_copy_has_the_content_and_the_copyable_labels_and_annotations(scene: Scene) -> None:
    scene.stage.namespace("a")
    stays = {
        "app.kubernetes.io/managed-by": "Helm",
        "argocd.argoproj.io/tracking-id": "t",
        "meta.helm.sh/release-name": "r",
        "secret-copy/from": "x",
        "samara.dev/note": "x",
    }
    annotations = {**stays, "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "any value, even / this"}
    metadata = {"labels": {**stays, "team": "red"}, "annotations": annotations}
    more = {"type": "example.com/own"} if scene.plural == "secrets" else {"binaryData": {"b": "AP/+/w=="}}
    scene.make(annotations=to("a"), metadata=metadata, **more)
    scene.operator()
    scene.until_copied("a")
    copy = scene.get("a") or {}
    assert metadata_of(copy) == {"note": "any value, even / this", FROM: "team/db"}
    assert metadata_of(copy, "labels") == {"team": "red", FROM: "team-db"}


def test_rule_3_a_label_removed_from_the_source_is_removed_from_the_copies_and_those_of_others_stay(
    scene: Scene,
) -> None:
    scene.stage.namespace("a")
    scene.make(annotations=to("a"), metadata={"labels": {"team": "red", "old": "1"}})
    scene.operator()
    scene.until_copied("a")
    scene.edit("a", {"metadata": {"labels": {"theirs": "x"}, "annotations": {"theirs": "y"}}})
    scene.edit("team", {"metadata": {"labels": {"team": "blue", "old": None}}})
    wanted = {"team": "blue", "theirs": "x", FROM: "team-db"}
    eventually(lambda: metadata_of(scene.get("a") or {}, "labels") == wanted)
    assert metadata_of(scene.get("a") or {})["theirs"] == "y"


def test_rule_3_under_strict_tenancy_no_metadata_is_copied_and_consent_is_needed(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    scene.stage.annotate("/api/v1/namespaces/a", {ACCEPT: "team"})
    scene.make(annotations=EVERY, metadata={"labels": {"team": "red"}, "annotations": {"note": "n"}})
    scene.operator({"tenancy": "strict"})
    scene.until_copied("a")
    copy = scene.get("a") or {}
    assert (metadata_of(copy, "labels"), metadata_of(copy)) == ({FROM: "team-db"}, {FROM: "team/db"})
    assert scene.get("b") is None


def test_rule_3_a_name_of_253_characters_gets_a_legal_label_by_which_copies_are_selected(scene: Scene) -> None:
    scene.stage.namespace("a")
    names = ["x" * 253, "x" * 252 + "y"]
    for name in names:
        scene.make("team", name, to("a"))
    scene.operator()
    for name in names:
        scene.until_copied("a", name=name)
    tokens = [metadata_of(scene.get("a", name) or {}, "labels")[FROM] for name in names]
    assert len(set(tokens)) == 2
    assert all(re.fullmatch(r"team-x+-[0-9a-f]{10}", token) for token in tokens)
    selected = scene.stage.api.items(f"/api/v1/{scene.plural}", labelSelector=f"{FROM}={tokens[0]}")
    assert [item["metadata"]["name"] for item in selected] == [names[0]]


# 4. Consent, and invalid values


def test_rule_4_a_namespace_is_written_only_if_it_accepts_and_gets_the_copy_with_its_consent(scene: Scene) -> None:
    scene.stage.namespace("a", "b", "c")
    scene.stage.annotate("/api/v1/namespaces/a", {ACCEPT: "other, team"})
    scene.stage.annotate("/api/v1/namespaces/c", {ACCEPT: f"team:{scene.kind}/other"})
    scene.make(annotations=to("a", "b", "c"))
    scene.operator(crossNamespace="consent")
    scene.until_copied("a")
    assert "does not accept team/db" in scene.until_reported("NotAccepted")
    assert (scene.get("b"), scene.get("c")) == (None, None)
    scene.stage.annotate("/api/v1/namespaces/b", {ACCEPT: f"team:{scene.kind}/db"})
    scene.until_copied("b")


def test_rule_4_withdrawn_consent_deletes_the_copy(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    for namespace in ("a", "b"):
        scene.stage.annotate(f"/api/v1/namespaces/{namespace}", {ACCEPT: "*"})
    scene.make(annotations=to("a", "b"))
    scene.operator(crossNamespace="consent")
    scene.until_copied("a", "b")
    scene.stage.annotate("/api/v1/namespaces/a", {ACCEPT: None})
    scene.until_gone("a")
    assert scene.is_copy("b")


def test_rule_4_withdrawn_consent_deletes_the_copy_even_while_the_value_is_invalid(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    _accept(scene, "team", "a", "b")
    scene.make(annotations=to("a", "b"))
    scene.operator(crossNamespace="consent")
    scene.until_copied("a", "b")
    scene.ask({ASK: "everywhere"})
    scene.until_reported("Invalid")
    _accept(scene, None, "a")
    scene.until_gone("a")
    assert scene.is_copy("b")


def _accept(scene: Scene, word: str | None, *namespaces: str) -> None:
    for namespace in namespaces:
        scene.stage.annotate(f"/api/v1/namespaces/{namespace}", {ACCEPT: word})


def test_rule_4_consent_withdrawn_in_many_namespaces_is_held_and_restored_consent_ends_the_hold(
    secrets: Scene,
) -> None:
    eight = tuple(f"t{number}" for number in range(8))
    secrets.stage.namespace(*eight)
    _accept(secrets, "*", *eight)
    secrets.make(annotations=to(*eight))
    operator = secrets.operator(crossNamespace="consent")
    secrets.until_copied(*eight)
    _accept(secrets, None, *eight)
    eventually(lambda: operator.metrics()["samara_mass_delete_held"] == 3)  # the brake allows five of eight
    eventually(lambda: "3 deletions are held" in secrets.until_reported("Held"))
    _accept(secrets, "*", *eight)
    secrets.until_copied(*eight)
    eventually(lambda: operator.metrics()["samara_mass_delete_held"] == 0)


def test_sources_beyond_the_limits_are_reported_and_served_when_there_is_room(secrets: Scene) -> None:
    names = ("a", "b", "c", "d")
    secrets.stage.namespace(*names)
    secrets.make(annotations=to("a", "b", "c"), name="aaa-first")
    secrets.operator({"limits": {"listedNames": 3, "listedNamesPerNamespace": 4}})
    secrets.until_copied("a", "b", "c", name="aaa-first")
    secrets.make(annotations=to("a", "b"))
    assert "limits.listedNamesPerNamespace" in secrets.until_reported("LimitExceeded")
    secrets.make(annotations=to(*names), name="many")
    event = secrets.stage.until_event("LimitExceeded", "team", "many")
    assert "at most 3 names" in event["message"]
    never(lambda: secrets.get("a") or secrets.get("a", "many"), SETTLED)
    secrets.delete("team", "aaa-first")
    secrets.until_gone("a", "b", "c", name="aaa-first")
    secrets.until_copied("a", "b")
    secrets.stage.namespace("e")
    secrets.ask(to("a", "e", "f"))
    secrets.until_copied("a", "e")
    secrets.stage.namespace("f")
    secrets.until_copied("f")


def test_rule_8_events_about_copies_appear_on_their_source_even_if_it_is_no_longer_a_source(scene: Scene) -> None:
    scene.stage.namespace("a")
    source = scene.make(annotations=to("a"))
    scene.operator()
    scene.until_copied("a")
    assert "copied" in scene.until_reported("Copied")
    scene.ask({})
    scene.until_gone("a")
    assert "removed in 1 namespace: a" in scene.until_reported("Removed")
    event = scene.stage.until_event("Removed", "team", "db")
    assert event["involvedObject"]["uid"] == source["metadata"]["uid"]


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({ASK: "everywhere"}, f"{ASK} is 'everywhere'; accepted are 'cluster' and 'namespaces'"),
        ({ASK: ""}, f"{ASK} is ''; accepted are 'cluster' and 'namespaces'"),
        ({ASK: "namespaces"}, f"{LIST} is '', which names no namespace"),
        ({ASK: "namespaces", LIST: " ; , "}, f"{LIST} is ' ; , ', which names no namespace"),
        ({ASK: "namespaces", LIST: "Bad_Name"}, f"{LIST} names what cannot be a namespace: 'Bad_Name'"),
    ],
)
def test_rule_4_an_invalid_value_is_an_event_and_no_change_to_existing_copies(
    scene: Scene, annotations: dict[str, str], message: str
) -> None:
    scene.stage.namespace("a", "b")
    scene.make(annotations=to("a", "b"))
    scene.operator()
    scene.until_copied("a", "b")
    mark = scene.stage.audit.mark()
    scene.ask(annotations)
    assert message in scene.until_reported("Invalid")
    never(lambda: scene.writes(mark), SETTLED)


def test_rule_4_the_copy_of_a_source_with_an_invalid_value_is_not_taken_over_by_a_younger_one(scene: Scene) -> None:
    scene.stage.namespace("a", "younger")
    scene.make(annotations=to("a"))
    scene.operator()
    scene.until_copied("a")
    scene.ask({ASK: "everywhere"})
    scene.until_reported("Invalid")
    mark = scene.stage.audit.mark()
    scene.make(
        "younger", annotations=to("a"), **scene.data(value="2")
    )  # for equal creation times the first by name wins
    assert "sync-to/" in scene.until_reported("Conflict", "younger")
    assert scene.writes(mark) == []
    scene.ask({})
    scene.until_copied("a", source="younger")


def test_rule_4_ten_good_names_and_a_bad_one_serve_the_ten_and_report_the_one(scene: Scene) -> None:
    good = [f"good-{number}" for number in range(10)]
    scene.stage.namespace(*good)
    scene.make(annotations=to(*good[:5], "No/Name", *good[5:]))
    scene.operator()
    scene.until_copied(*good)
    assert "'No/Name'" in scene.until_reported("Invalid")


# 5. Annotation cleared or changed, source deleted


@pytest.mark.parametrize("how", ["source deleted", "annotation cleared"])
@pytest.mark.parametrize("when", ["running", "down"])
def test_rule_5_all_copies_are_deleted_with_their_source_even_if_it_was_deleted_during_a_downtime(
    scene: Scene, how: str, when: str
) -> None:
    scene.stage.namespace("a", "b")
    scene.make(annotations=to("a", "b"))
    operator = scene.operator()
    scene.until_copied("a", "b")
    if when == "down":
        operator.stop()
    scene.delete("team") if how == "source deleted" else scene.ask({LIST: "a;b"})
    if when == "down":
        scene.operator()
    scene.until_gone("a", "b")


@pytest.mark.oracle_off("O4", reason="it takes the mark that somebody adds for that of Secret copy")
def test_rule_5_an_unwanted_copy_is_deleted_despite_a_forged_mark_of_another_vocabulary(secrets: Scene) -> None:
    secrets.stage.namespace("a", "b")
    secrets.make(annotations=to("a", "b"))
    secrets.operator()
    secrets.until_copied("a", "b")
    secrets.edit("a", {"metadata": {"annotations": {"secret-copy/origin": "admin/db"}}})
    secrets.delete("team")
    secrets.until_gone("a", "b")


def test_rule_5_copies_no_longer_wanted_are_deleted_by_uid_and_version(secrets: Scene) -> None:
    secrets.stage.namespace("a", "b")
    secrets.make(annotations=EVERY)
    secrets.operator()
    secrets.until_copied("a", "b", "default", "admin")
    mark = secrets.stage.audit.mark()
    secrets.ask(to("b"))
    secrets.until_gone("a", "default", "admin")
    assert secrets.is_copy("b")
    conditions = [event.request["preconditions"] for event in secrets.writes(mark)]
    assert all(condition.get("uid") and condition.get("resourceVersion") for condition in conditions)


def test_rule_5_a_pasted_copy_at_an_unwanted_address_is_never_deleted(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    scene.make(annotations=to("a"))
    scene.operator()
    scene.until_copied("a")
    copy = scene.get("a") or {}
    pasted = {"labels": metadata_of(copy, "labels"), "annotations": metadata_of(copy)}
    uid = scene.make("b", metadata=pasted)["metadata"]["uid"]
    scene.delete("team")
    scene.until_gone("a")
    never(lambda: ((scene.get("b") or {}).get("metadata") or {}).get("uid") != uid, SETTLED)


def test_rule_5_no_finalizer_is_added_to_a_source(scene: Scene) -> None:
    scene.stage.namespace("a")
    before = scene.make(annotations=to("a"))
    scene.operator()
    scene.until_copied("a")
    assert scene.get("team") == before


# 6. Namespaces are created, deleted and recreated


def test_rule_6_a_new_namespace_gets_all_cluster_sources_and_those_that_list_it(scene: Scene) -> None:
    for name, request in (("all-1", EVERY), ("all-2", EVERY), ("named", to("late")), ("elsewhere", to("other"))):
        scene.make("team", name, request)
    scene.operator()
    scene.stage.namespace("late")
    for name in ("all-1", "all-2", "named"):
        scene.until_copied("late", name=name)
    assert scene.get("late", "elsewhere") is None


def test_rule_6_a_recreated_namespace_gets_its_copies_again(scene: Scene) -> None:
    scene.stage.namespace("a")
    scene.make(annotations=to("a"))
    scene.operator()
    scene.until_copied("a")
    scene.stage.api.delete("/api/v1/namespaces/a")
    eventually(lambda: scene.stage.api.find("/api/v1/namespaces/a") is None, 60.0)
    scene.stage.namespace("a")
    scene.until_copied("a")


def test_rule_6_a_namespace_deleted_during_a_fan_out_delays_no_other(scene: Scene) -> None:
    names = [f"n-{number}" for number in range(30)]
    scene.stage.namespace(*names)
    scene.stage.api.patch("/api/v1/namespaces/n-7", {"metadata": {"finalizers": ["tests.samara.dev/wait"]}})
    scene.operator()
    scene.make(annotations=EVERY)
    scene.stage.api.delete("/api/v1/namespaces/n-7")
    scene.until_copied(*(name for name in names if name != "n-7"))
    scene.stage.namespace("later")
    scene.until_copied("later")  # the operator has then also seen that the other one terminates
    ended = scene.stage.audit.mark()
    never(lambda: [event for event in scene.writes(ended) if event.namespace == "n-7"], SETTLED)
    scene.stage.api.patch("/api/v1/namespaces/n-7", {"metadata": {"finalizers": None}})


# 7. Foreign objects of the same name, and two sources that want one address


def test_rule_7_a_different_object_is_left_alone_reported_and_replaced_when_it_is_deleted(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    theirs = scene.make("b", **scene.data(value="theirs"))
    scene.make(annotations=to("a", "b"))
    scene.operator()
    scene.until_copied("a")
    assert "b" in scene.until_reported("Conflict").split()
    assert scene.get("b") == theirs
    scene.delete("b")
    scene.until_copied("b")


@pytest.mark.oracle_off("O4", reason="it knows a mark that may be taken off only as one of Secret copy")
def test_rule_7_an_identical_object_is_adopted_and_loses_only_the_marks_when_no_longer_wanted(scene: Scene) -> None:
    scene.stage.namespace("a")
    theirs = scene.make("a", metadata={"labels": {"theirs": "x"}})
    scene.make(annotations=to("a"))
    scene.operator()
    scene.until_copied("a")
    assert metadata_of(scene.get("a") or {})["samara.dev/adopted"] == "true"
    scene.delete("team")
    eventually(lambda: FROM not in metadata_of(scene.get("a") or {"metadata": {}}))
    left = scene.get("a") or {}
    assert left["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert (metadata_of(left, "labels"), metadata_of(left)) == ({"theirs": "x"}, {"samara.dev/released": "true"})
    assert _content(left) == _content(theirs)


@pytest.mark.parametrize("where", ["general", "own"])
def test_rule_7_conflicts_overwrite_takes_a_different_object_over(scene: Scene, where: str) -> None:
    scene.stage.expect.overwrite = True
    scene.stage.namespace("a")
    scene.make("a", **scene.data(value="theirs"))
    scene.make(annotations=to("a"))
    scene.operator({"conflicts": "overwrite"}) if where == "general" else scene.operator(conflicts="overwrite")
    scene.until_copied("a")


def test_rule_7_the_older_of_two_sources_wins_and_the_other_is_reported_until_the_first_is_deleted(
    scene: Scene,
) -> None:
    scene.stage.namespace("a", "early")
    first = scene.make(annotations=to("a"), **scene.data(value="older"))["metadata"]["creationTimestamp"]
    annotations = to("a", "early")

    def is_younger() -> bool:
        """Creation times have whole seconds: recreates the object until its second is a later one."""
        scene.stage.api.gone(scene.path("early"))
        return bool(
            scene.make("early", annotations=annotations, **scene.data(value="other"))["metadata"]["creationTimestamp"]
            != first
        )

    eventually(is_younger, every=0.2)
    scene.operator()
    scene.until_copied("a")
    assert "team/db" in scene.until_reported("Conflict", "early")
    scene.delete("team")
    scene.until_copied("a", source="early")


def test_rule_7_two_sources_that_name_each_others_namespace_leave_each_other_alone(scene: Scene) -> None:
    scene.stage.namespace("other")
    mine = scene.make(annotations=to("other"), **scene.data(value="mine"))
    theirs = scene.make("other", annotations=to("team"), **scene.data(value="theirs"))
    scene.operator()
    scene.until_reported("Conflict", "team")
    scene.until_reported("Conflict", "other")
    assert (scene.get("team"), scene.get("other")) == (mine, theirs)


# 8. Edited or deleted copies; immutable objects and changed types


@pytest.mark.parametrize(
    "edit",
    [
        {"data": {"value": "MA=="}},
        {"data": {"more": "MA=="}},
        {"data": None},
        {"metadata": {"annotations": {FROM: None}}},
        {"metadata": {"annotations": {FROM: "other/db"}}},
        {"metadata": {"labels": {FROM: None, "team": None}}},
        {"metadata": {"annotations": {FROM: None}, "labels": {FROM: None}}, "data": {"value": "MA=="}},
    ],
)
def test_rule_8_an_edited_copy_is_repaired_at_once_with_one_request(scene: Scene, edit: Json) -> None:
    scene.stage.namespace("a")
    scene.make(annotations=to("a"), metadata={"labels": {"team": "red"}})
    scene.operator()
    scene.until_copied("a")
    mark = scene.stage.audit.mark()
    scene.edit("a", edit)
    eventually(lambda: scene.writes(mark) and scene.is_copy("a"))
    assert metadata_of(scene.get("a") or {}, "labels") == {"team": "red", FROM: "team-db"}
    assert [event.verb for event in scene.writes(mark)] == ["update"]


def test_rule_8_a_deleted_copy_is_recreated_at_once(scene: Scene) -> None:
    scene.stage.namespace("a")
    scene.make(annotations=to("a"))
    scene.operator()
    scene.until_copied("a")
    scene.delete("a")
    scene.until_copied("a")


def test_rule_8_a_changed_source_updates_every_copy_including_removed_keys(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    scene.make(annotations=to("a", "b"), **scene.data(value="1", old="1"))
    scene.operator()
    scene.until_copied("a", "b")
    scene.edit("team", {"data": {**scene.data(value="2")["data"], "old": None}})
    eventually(
        lambda: (scene.get("a") or {})["data"] == (scene.get("b") or {})["data"] == scene.data(value="2")["data"]
    )


def test_rule_8_a_changed_immutable_object_is_recreated_with_a_delete_by_uid_and_a_create(scene: Scene) -> None:
    scene.stage.namespace("a")
    scene.make(annotations=to("a"), immutable=True)
    scene.operator()
    scene.until_copied("a")
    assert (scene.get("a") or {})["immutable"] is True
    uid, mark = (scene.get("a") or {})["metadata"]["uid"], scene.stage.audit.mark()
    scene.delete("team")
    scene.make(annotations=to("a"), immutable=True, **scene.data(value="2"))
    scene.until_copied("a")
    assert (scene.get("a") or {})["metadata"]["uid"] != uid
    assert [event.verb for event in until_recorded(lambda: scene.writes(mark), 2)] == ["delete", "create"]


def test_rule_8_a_changed_secret_type_is_recreated_with_a_delete_by_uid_and_a_create(secrets: Scene) -> None:
    secrets.stage.namespace("a")
    fields = {**secrets.data(username="u", password="p")}
    secrets.make(annotations=to("a"), **fields)
    secrets.operator()
    secrets.until_copied("a")
    uid, mark = (secrets.get("a") or {})["metadata"]["uid"], secrets.stage.audit.mark()
    secrets.delete("team")
    secrets.make(annotations=to("a"), type="kubernetes.io/basic-auth", **fields)
    secrets.until_copied("a")
    writes = until_recorded(lambda: secrets.writes(mark), 2)
    assert [event.verb for event in writes] == ["delete", "create"]
    assert writes[0].request["preconditions"]["uid"] == uid


def test_rule_8_with_recreate_refuse_an_immutable_copy_stays_and_is_reported(config_maps: Scene) -> None:
    config_maps.stage.namespace("a")
    config_maps.make(annotations=to("a"), immutable=True)
    config_maps.operator({"recreate": "refuse"})
    config_maps.until_copied("a")
    before = config_maps.get("a")
    config_maps.delete("team")
    config_maps.make(annotations=to("a"), immutable=True, **config_maps.data(value="2"))
    assert "immutable" in config_maps.until_reported("Refused")
    assert config_maps.get("a") == before


def test_rule_8_a_copy_in_sync_causes_no_write_at_the_start_at_a_resync_or_when_its_source_is_touched(
    scene: Scene,
) -> None:
    scene.stage.namespace("a", "b")
    scene.make(annotations=EVERY, metadata={"labels": {"team": "red"}, "annotations": {"note": "n"}})
    first = scene.operator()
    scene.until_copied("a", "b", "default", "admin")
    first.stop()
    mark = scene.stage.audit.mark()
    scene.operator({"resync": "200ms"})
    scene.stage.annotate(scene.path("team"), {"helm.sh/resource-policy": "nothing that travels"})
    scene.stage.annotate("/api/v1/namespaces/a", {"note": "nothing that matters"})
    never(lambda: scene.writes(mark), 3.0)


# 9. `type: generic`


def test_rule_9_type_generic_is_stored_literally_and_copied_literally(secrets: Scene) -> None:
    secrets.stage.namespace("a")
    secrets.make(annotations=to("a"), type="generic", stringData={"username": "admin"})
    secrets.operator()
    secrets.until_copied("a")
    assert (secrets.get("a") or {})["type"] == "generic"


# Bad input, and the rules of every vocabulary


def test_the_key_of_the_proposal_is_refused_by_the_server_itself(scene: Scene) -> None:
    with pytest.raises(ApiFault, match="422"):
        scene.make(annotations={ASK: "namespaces", "openkruise.io/sync-to/namespaces": "a"})


def test_an_object_of_just_under_one_mebibyte_is_copied_and_kept_in_sync(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    big = "x" * (2**20 - 64)
    scene.make(annotations=to("a", "b"), **scene.data(big=big))
    scene.operator()
    scene.until_copied("a", "b")
    scene.edit("a", {"data": {"big": base64.b64encode(b"0").decode()}})
    scene.until_copied("a")


@pytest.mark.parametrize("type_", ["kubernetes.io/service-account-token", "helm.sh/release.v1"])
def test_tokens_and_helm_releases_are_never_copied_but_reported(secrets: Scene, type_: str) -> None:
    secrets.stage.namespace("a")
    account = {"annotations": {"kubernetes.io/service-account.name": "default"}}
    secrets.make(annotations=EVERY, metadata=account, type=type_)
    secrets.operator()
    assert type_ in secrets.until_reported("Refused")
    assert secrets.writes() == []


def test_the_certificates_that_the_cluster_keeps_in_every_namespace_are_never_overwritten(config_maps: Scene) -> None:
    stage, name = config_maps.stage, "kube-root-ca.crt"
    stage.namespace("a")
    eventually(lambda: config_maps.get("a", name) and config_maps.get("team", name))
    stage.also_remove(config_maps.path("team", name))
    config_maps.edit("team", {"metadata": {"annotations": EVERY}}, name)
    config_maps.operator()
    assert "never copied" in stage.until_event("Refused", "team", name)["message"]
    assert config_maps.writes() == []


def test_a_paused_source_is_not_served_and_a_namespace_that_ignores_gets_nothing_by_cluster(scene: Scene) -> None:
    scene.stage.namespace("a")
    scene.stage.namespace("b", samara_ignore="true")
    scene.make(annotations={**EVERY, "samara.dev/paused": "true"})
    scene.operator()
    assert scene.writes() == []
    scene.edit("team", {"metadata": {"annotations": {"samara.dev/paused": None}}})
    scene.until_copied("a")
    assert scene.get("b") is None


def test_many_removals_at_once_are_held_and_reported_on_the_source(scene: Scene) -> None:
    names = [f"n-{number}" for number in range(12)]
    scene.stage.namespace(*names)
    scene.make(annotations=to(*names))
    scene.operator()
    scene.until_copied(*names)
    scene.ask(to("n-0"))
    assert "held by the limit on mass deletion" in scene.until_reported("Held")
    assert sum(scene.get(name) is not None for name in names) >= len(names) - 5
    scene.ask(to(*names))
    scene.until_copied(*names)


def test_the_rights_on_the_served_kinds_are_enough_and_nothing_is_refused(scene: Scene) -> None:
    scene.stage.namespace("a", "b")
    scene.make("b", **scene.data(value="theirs"))
    scene.make(annotations=EVERY)
    scene.operator()
    scene.until_copied("a")
    scene.edit("a", {"data": None})
    scene.until_copied("a")
    scene.delete("team")
    scene.until_gone("a")
    refused = [event for event in scene.stage.audit.ours() if event.code in (401, 403)]
    assert not [str(event) for event in refused if event.resource in USED]


# Pauses


def test_copies_of_a_request_that_ended_during_a_pause_are_deleted_when_the_pause_ends(secrets: Scene) -> None:
    secrets.stage.namespace("a", "b")
    secrets.make(annotations=to("a", "b"))
    secrets.operator(config={"resync": "0s"})
    secrets.until_copied("a", "b")
    secrets.stage.annotate(secrets.path("team"), {PAUSED: "true"})
    secrets.ask({})
    never(lambda: secrets.get("a") is None, SETTLED)
    secrets.stage.annotate(secrets.path("team"), {PAUSED: None})
    secrets.until_gone("a", "b")
