"""A SubNamespace cannot take a name that is trusted already: admission refuses it, and no namespace is created."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.settle import plan_of, settle
from tests.support.world import World, at, content, secret

from samara.assembly import registry_of
from samara.core.admission import Refused, Request, Undecidable
from samara.core.metadata_keys import ACCEPT
from samara.core.model import SECRET, Key, Kind, Object, Ref, namespace_ref
from samara.core.policy import ClusterPolicy
from samara.core.status import status_of
from samara.core.writes import Blocked
from samara.settings import Settings
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.accurate.labels import FINALIZER, PARENT, SUB_NAMESPACE, TYPE
from samara.vocabularies.accurate.sub import SUB
from samara.vocabularies.fishysecret import FISHY_SECRET, FishySecretSettings, PathRule
from samara.vocabularies.secret_copy import TARGETS, SecretCopySettings

RULES = ClusterPolicy()
HOME = at("admin", "db")
ADVICE = "choose another name, or let an administrator reserve it for this tree (setting namingPolicies)"
BY_PATHS = "the setting vocabularies.fishysecret.paths names it (shop-*)"


def a_world(tenancy: str = "open", **config: Any) -> World:
    """Two roots. Path rules name `shop-*`, the namespace `billing` accepts `ci-tools`, a Secret lists `payments`."""
    own: dict[str, Any] = {
        "secret-copy": SecretCopySettings(),
        "fishysecret": FishySecretSettings(paths=(PathRule(("shop-*",), ("/shop/*",)),)),
        "accurate": AccurateSettings(config=config),
    }
    world = World(registry_of(Settings(tenancy=tenancy, vocabularies=own)))  # type: ignore[arg-type]
    world.namespace("shop", {TYPE: "root"}), world.namespace("team", {TYPE: "root"})
    world.namespace("billing", annotations={ACCEPT: "ci-tools"})
    world.put(HOME, secret(), annotations={TARGETS: "payments"})
    return world


def at_sub(name: str, parent: str = "team") -> Ref:
    return Ref(SUB_NAMESPACE, parent, name)


def a_sub(world: World, name: str, parent: str = "team") -> Ref:
    """A SubNamespace that admission did not see, settled."""
    world.put(at_sub(name, parent), content(spec={}), finalizers=(FINALIZER,), generation=1)
    settle(world, RULES)
    return at_sub(name, parent)


def admitted(world: World, name: str, parent: str = "team", kind: type[str] = Refused) -> tuple[str, ...]:
    admission = world.registry[SUB].admission
    assert admission is not None
    faults = admission.validate(Request("CREATE", Object(at_sub(name, parent), "u", 1, content(spec={})), None), world)
    assert all(isinstance(fault, kind) for fault in faults)
    return faults


def exists(world: World, name: str) -> bool:
    return namespace_ref(name) in world.objects


def stalled(world: World, ref: Ref) -> tuple[str, str]:
    conditions = status_of(world.objects[ref]).get("conditions") or []
    return next(((one["reason"], one["message"]) for one in conditions if one["type"] == "Stalled"), ("", ""))


TRUSTED = [
    ("shop-x", BY_PATHS),
    ("ci-tools", f"Namespace billing accepts it ({ACCEPT})"),
    ("payments", "Secret admin/db lists it"),
]


@pytest.mark.parametrize(("name", "why"), TRUSTED)
def test_admission_refuses_a_trusted_name_and_says_what_trusts_it(name: str, why: str) -> None:
    assert admitted(a_world(), name) == (f"the name {name} is trusted already: {why}; {ADVICE}",)
    assert admitted(a_world(), f"x-{name}") == ()


@pytest.mark.parametrize(("name", "why"), TRUSTED)
def test_a_trusted_name_becomes_no_namespace_although_admission_did_not_see_it(name: str, why: str) -> None:
    world = a_world()
    ref, other = a_sub(world, name), a_sub(world, "other")
    message = f"the name {name} is trusted already: {why}; {ADVICE}"
    assert not exists(world, name)
    assert exists(world, "other")
    assert stalled(world, ref) == ("Refused", message)
    assert stalled(world, other) == ("", "")
    (step,) = plan_of(Key(SUB, ref), world, RULES).blocked
    assert isinstance(step, Blocked)
    assert (step.reason, step.message) == ("refused", message)


HIDDEN = [
    ("shop-x", "the setting vocabularies.fishysecret.paths names it"),
    ("ci-tools", f"a Namespace elsewhere accepts it ({ACCEPT})"),
    ("payments", "a Secret elsewhere lists it"),
]


@pytest.mark.parametrize(("name", "why"), HIDDEN)
def test_under_strict_tenancy_the_refusal_names_no_other_namespace_and_no_source(name: str, why: str) -> None:
    world, message = a_world("strict"), f"the name {name} is trusted already: {why}; {ADVICE}"
    assert admitted(world, name) == (message,)
    assert stalled(world, a_sub(world, name)) == ("Refused", message)


def test_a_namespace_is_created_once_nothing_trusts_its_name_any_more() -> None:
    world = a_world()
    ref = a_sub(world, "payments")
    world.edit(HOME, annotations={})
    settle(world, RULES)
    assert exists(world, "payments")
    assert stalled(world, ref) == ("", "")


@pytest.mark.parametrize("kind", [SECRET, FISHY_SECRET])
def test_no_namespace_is_created_before_the_sources_that_may_list_its_name_are_known(kind: Kind) -> None:
    """At a start the kinds arrive in any order."""
    world = a_world()
    world.unlisted.add(kind)
    ref = a_sub(world, "web")
    assert not exists(world, "web")
    assert status_of(world.objects[ref]) == {}, "nothing is wrong with it"
    (fault,) = admitted(world, "web", kind=Undecidable)
    assert fault == "it is not known yet what trusts the name web: not every source has been listed"
    world.unlisted.clear()
    settle(world, RULES)
    assert exists(world, "web")
    assert admitted(world, "other") == ()


# What exists stays


@pytest.mark.parametrize("parent", ["team", "team-a"])
def test_a_namespace_that_exists_keeps_its_sub_namespace_when_its_name_is_trusted_later(parent: str) -> None:
    world = a_world()
    a_sub(world, "team-a")
    ref = a_sub(world, "web", parent)
    world.edit(HOME, annotations={TARGETS: "payments,web"})
    assert {write.ref for write in settle(world, RULES)} == {at("web", "db")}
    assert plan_of(Key(SUB, ref), world, RULES).blocked == ()
    assert stalled(world, ref) == ("", "")


def test_a_namespace_that_was_deleted_by_hand_is_created_again_though_its_name_is_trusted() -> None:
    world = a_world()
    ref = a_sub(world, "web")
    world.edit(HOME, annotations={TARGETS: "payments,web"})
    settle(world, RULES)
    world.delete(namespace_ref("web"))
    settle(world, RULES)
    assert exists(world, "web")
    assert stalled(world, ref) == ("", "")


def test_a_sub_namespace_that_never_had_its_namespace_does_not_get_a_trusted_one() -> None:
    """The name was taken, and was trusted by the time it became free."""
    world = a_world()
    world.namespace("web")
    ref = a_sub(world, "web")
    assert stalled(world, ref)[0] == "Conflict"
    world.edit(HOME, annotations={TARGETS: "web"})
    world.delete(namespace_ref("web"))
    settle(world, RULES)
    assert not exists(world, "web")
    assert stalled(world, ref)[0] == "Refused"


def test_a_new_sub_namespace_does_not_inherit_trust_from_a_namespace_that_is_going_away() -> None:
    world = a_world()
    world.namespace("payments", {PARENT: "team"})
    world.terminate("payments")
    assert admitted(world, "payments") != ()
    ref = a_sub(world, "payments")
    world.edit(namespace_ref("payments"), finalizers=())
    settle(world, RULES)
    assert not exists(world, "payments")
    assert stalled(world, ref)[0] == "Refused"


def test_admission_accepts_a_sub_namespace_for_a_namespace_that_is_already_its_own() -> None:
    """People move and graft namespaces, and restore SubNamespaces."""
    world = a_world()
    world.namespace("payments", {PARENT: "team"})
    assert admitted(world, "payments") == ()
    world.namespace("ci-tools", {PARENT: "shop"})
    assert admitted(world, "ci-tools") != ()


# Naming policies


OF_TEAM = {"root": "^(.+)$", "match": "^$1-"}


@pytest.mark.parametrize(
    "policy",
    [OF_TEAM, {"root": "^shop$", "match": "^shop-"}],
)
def test_a_name_that_a_naming_policy_reserves_for_its_root_is_allowed_there_alone(policy: dict[str, str]) -> None:
    world = a_world(namingPolicies=[policy])
    assert admitted(world, "shop-x", "shop") == ()
    a_sub(world, "shop-x", "shop")
    assert exists(world, "shop-x")

    world = a_world(namingPolicies=[policy])
    assert admitted(world, "shop-x", "team") != ()
    a_sub(world, "shop-x", "team")
    assert not exists(world, "shop-x")


def test_a_policy_that_every_root_meets_reserves_nothing() -> None:
    world = a_world(namingPolicies=[{"root": ".*", "match": "^[a-z-]+$"}])
    assert admitted(world, "shop-x", "shop") == (f"the name shop-x is trusted already: {BY_PATHS}; {ADVICE}",)


def test_a_name_that_the_policies_give_to_two_roots_is_reserved_for_none() -> None:
    world = a_world(namingPolicies=[OF_TEAM])
    world.namespace("shop-a", {TYPE: "root"})
    assert admitted(world, "shop-a-x", "shop") != ()
    assert admitted(world, "shop-a-x", "shop-a") != ()
    assert admitted(world, "shop-b-x", "shop") == ()
