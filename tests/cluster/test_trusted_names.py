"""Names that are trusted already, and consent by tree, with a running operator on the real server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.support.stage import encoded
from tests.cluster.support.trees import CONFIG, PARENT, SETTLED, SPACES, TYPE, Trees
from tests.cluster.support.waiting import eventually, never
from tests.cluster.test_accurate_admission import a_sub, guard, refusal, unregistered

pytestmark = [
    pytest.mark.oracle_off("O4", reason="it knows the rules of Secret copy only; trees have a judge of theirs"),
    pytest.mark.usefixtures("unregistered"),
]

__all__ = ["unregistered"]
Json = dict[str, Any]
ACCEPT = "samara.dev/accept-from"
POLICY = {"root": "^(shop|team)$", "match": "^$1-"}


def served(**accurate: Any) -> Json:
    """Every vocabulary that trusts names, in the settings."""
    paths = [{"namespaces": ["shop-*"], "allow": ["/shop/*"]}]
    return {"secret-copy": {}, "fishysecret": {"paths": paths}, "accurate": {**CONFIG, **accurate}}


def landscape(trees: Trees) -> None:
    """Three trees, a consent for `ci-tools`, and a Secret for `payments`, which does not exist."""
    trees.root("team")
    trees.root("shop")
    trees.space("tools", {TYPE: "root"}, {ACCEPT: "ci-tools"})
    trees.stage.ensure_home()
    trees.stage.source("db", "payments")


TRUSTED = {
    "shop-x": "the setting vocabularies.fishysecret.paths names it",
    "ci-tools": f"Namespace tools accepts it ({ACCEPT})",
    "payments": "Secret admin/db lists it",
}


def test_admission_refuses_a_trusted_name_and_the_operator_creates_no_namespace_of_it(trees: Trees) -> None:
    landscape(trees)
    for name in TRUSTED:
        trees.ask(name, "team")  # nobody judged these
    guard(trees, vocabularies=served())
    for name, why in TRUSTED.items():
        error = refusal(trees, "create", "-f", "-", body=a_sub(name, "shop"))
        assert f"the name {name} is trusted already: {why}" in error
        eventually(lambda name=name: trees.reason(name, "team") == "Refused")  # type: ignore[misc]
        assert why in trees.condition(name, "team", "Stalled")["message"]
    trees.ask("other", "team")
    trees.until_well("other", "team")
    assert [trees.api.find(f"{SPACES}/{name}") for name in TRUSTED] == [None, None, None]

    trees.stage.retarget("db", "elsewhere")
    eventually(lambda: refusal(trees, "create", "-f", "-", body=a_sub("payments", "shop")) == "")
    trees.edit("team", "payments", {"spec": {"labels": {"app": "x"}}}, "subnamespaces")
    trees.until_well("payments", "team")


def test_under_strict_tenancy_a_refusal_names_no_object_of_another_namespace(trees: Trees) -> None:
    landscape(trees)
    guard(trees, tenancy="strict", vocabularies=served())
    for name, kind in {"ci-tools": "Namespace", "payments": "Secret"}.items():
        error = refusal(trees, "create", "-f", "-", body=a_sub(name, "team"))
        assert f"the name {name} is trusted already: a {kind} elsewhere " in error
        assert not any(hidden in error for hidden in ("Namespace tools", "admin/", "/db"))


def test_a_name_that_the_naming_policies_reserve_for_its_root_is_created_there_alone(trees: Trees) -> None:
    landscape(trees)
    trees.ask("shop-y", "team")  # nobody judged this one
    guard(trees, vocabularies=served(namingPolicies=[POLICY]))
    assert "is not match naming policies" in refusal(trees, "create", "-f", "-", body=a_sub("shop-x", "team"))
    trees.ask("shop-x", "shop")
    trees.until_well("shop-x", "shop")
    never(lambda: trees.api.find(f"{SPACES}/shop-y") is not None, SETTLED)


def test_what_exists_when_its_name_becomes_trusted_is_served_as_before(trees: Trees) -> None:
    trees.root("team")
    trees.stage.ensure_home()
    guard(trees, vocabularies=served())
    trees.ask("payments", "team")
    trees.until_well("payments", "team")
    trees.stage.source("db", "payments")
    trees.stage.until_copied("db", "payments")
    assert refusal(trees, "apply", "-f", "-", body=a_sub("payments", "team", labels={"app": "x"})) == ""
    before = trees.api.get(f"{SPACES}/payments")["metadata"]["uid"]
    trees.api.delete(f"{SPACES}/payments")
    eventually(lambda: (trees.there("payments") or {"metadata": {"uid": before}})["metadata"]["uid"] != before)
    trees.until_well("payments", "team")
    trees.stage.until_copied("db", "payments")


# Consent by tree


TENANTS: Json = {"tenancy": "strict", "vocabularies": {"sync-to": {}, "accurate": CONFIG}}


def annotated(trees: Trees, namespace: str, name: str) -> None:
    body = {"metadata": {"name": name, "annotations": {"openkruise.io/sync-to": "cluster"}}, "data": {"k": name}}
    trees.api.create(trees.path("configmaps", namespace), body)


def accepted(trees: Trees, *names: str) -> bool:
    """True if exactly these of the ConfigMaps are in the namespace that gives the consent."""
    return {name for name in ("root", "low", "other") if trees.get("configmaps", "shop", name)} == set(names)


def test_consent_by_tree_follows_the_labels_of_namespaces(trees: Trees) -> None:
    trees.space("shop", {}, {ACCEPT: "tree:team"})
    trees.root("team")
    trees.root("rival")
    trees.serve(**TENANTS)
    for name, parent in (("web", "team"), ("api", "web"), ("team-x", "rival")):
        trees.ask(name, parent)
        trees.until_well(name, parent)
    for namespace, name in (("team", "root"), ("api", "low"), ("team-x", "other")):
        annotated(trees, namespace, name)
    eventually(lambda: accepted(trees, "root", "low"))
    trees.hang("late", "api")  # a source may be seen before its namespace
    annotated(trees, "late", "other-one")
    eventually(lambda: trees.get("configmaps", "shop", "other-one"))
    never(lambda: not accepted(trees, "root", "low"), SETTLED)

    trees.label("web", {PARENT: "rival"})  # the subtree moves, and loses the consent
    trees.api.delete(trees.path("subnamespaces", "team", "web"))
    eventually(lambda: accepted(trees, "root"))
    trees.note("shop", {ACCEPT: "tree:rival"})
    eventually(lambda: accepted(trees, "low", "other"))


def test_a_name_in_a_consent_by_tree_is_trusted(trees: Trees) -> None:
    trees.space("shop", {}, {ACCEPT: "tree:payments"})
    trees.root("team")
    trees.ask("payments", "team")
    trees.serve(**TENANTS)
    eventually(lambda: trees.reason("payments", "team") == "Refused")
    assert trees.api.find(f"{SPACES}/payments") is None


# Labels that tenants choose


def selected(trees: Trees) -> str | None:
    """The Secret that the source selects by the label `stage`, if it is there."""
    return "there" if trees.get("secrets", "web", "db") else None


def test_a_label_from_a_spec_selects_its_namespace_only_if_its_key_is_written_in_full(trees: Trees) -> None:
    def served_with(*keys: str) -> Json:
        return {"replicator": {}, "accurate": {**CONFIG, "subNamespaceLabelKeys": keys}}

    operator = trees.serve(vocabularies=served_with("*"))
    assert operator.log.count("labels.not-selected setting=vocabularies.accurate.subNamespaceLabelKeys") == 1
    trees.root("team")
    trees.ask("web", "team", labels={"stage": "payments"})
    eventually(lambda: trees.labels("web").get("stage") == "payments")
    meta = {"name": "db", "annotations": {"replicator.v1.mittwald.de/replicate-to-matching": "stage=payments"}}
    trees.api.create(trees.path("secrets", "team"), {"metadata": meta, "data": encoded({"k": "1"})})
    message = trees.stage.until_event("Refused", "team")["message"]
    assert "only labels that tenants chose select the namespace (stage)" in message
    assert selected(trees) is None
    operator.stop()
    trees.serve(vocabularies=served_with("stage"))
    eventually(lambda: selected(trees) == "there")
