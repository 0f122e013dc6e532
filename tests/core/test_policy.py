"""Whether the policy allows a source to have a copy at an address."""

from typing import Any

import pytest
from tests.support import toys
from tests.support.world import Words, World, at, secret

from samara.core.desired import UNAVAILABLE, Copy, Template
from samara.core.metadata_keys import ACCEPT, IGNORE, PAUSED
from samara.core.model import CONFIG_MAP, SECRET, Content, Kind, Object, namespace_ref
from samara.core.policy import (
    ClusterPolicy,
    accepts,
    invalid_consent_items,
    is_ignored,
    is_paused,
    no_writes_at,
    pause_faults,
    refusal,
)
from samara.core.registry import Registry
from samara.core.source_type import Policy, Protected
from samara.vocabularies.accurate.labels import PARENT, TEMPLATE, TYPE

SOURCE = at("admin", "x")
NOWHERE = World(Registry(()))
"""A cluster without namespaces, in which every namespace is a tree of its own."""
PROTECTED = ClusterPolicy(protected=("kube-*",), operators_own=frozenset({at("ours", "x")}))


def reason(
    copy: Copy, annotations: Words | None = None, policy: Policy | None = None, labels: Words | None = None
) -> str:
    namespace = Object(namespace_ref(copy.ref.namespace), "u", 1, labels=labels or {}, annotations=annotations or {})
    refused = refusal(copy, SOURCE, namespace, policy or Policy(), PROTECTED, NOWHERE)
    if refused is None:
        return "allowed"
    return "excluded" if refused.excludes else refused.reason + ("+revoke" if refused.revokes else "")


def wanted(namespace: str = "a", by_name: bool = False, kind: Kind = SECRET, content: Content | None = None) -> Copy:
    return Copy(at(namespace, "x", kind), Template(content or secret()), by_name)


PROTECTED_NAMESPACE = [
    (Protected.ALLOW, False, "allowed"),
    (Protected.ALLOW, True, "allowed"),
    (Protected.BY_NAME, False, "excluded"),
    (Protected.BY_NAME, True, "allowed"),
    (Protected.REFUSE, False, "excluded"),
    (Protected.REFUSE, True, "refused"),
]


@pytest.mark.parametrize(("protected", "by_name", "answer"), PROTECTED_NAMESPACE)
def test_a_protected_namespace_is_written_as_the_source_type_may(
    protected: Protected, by_name: bool, answer: str
) -> None:
    assert reason(wanted("kube-system", by_name), policy=Policy(protected)) == answer


OWN = [
    (Protected.ALLOW, False, "allowed"),
    (Protected.BY_NAME, False, "allowed"),
    (Protected.BY_NAME, True, "allowed"),
    (Protected.REFUSE, False, "excluded"),
    (Protected.REFUSE, True, "refused"),
]


@pytest.mark.parametrize(("protected", "by_name", "answer"), OWN)
def test_an_object_of_the_operator_is_not_a_target_for_sources_of_tenants(
    protected: Protected, by_name: bool, answer: str
) -> None:
    assert reason(wanted("ours", by_name), policy=Policy(protected)) == answer


def test_only_the_exact_address_is_the_operators_own() -> None:
    assert reason(Copy(at("ours", "y"), Template(secret()), by_name=True)) == "allowed"
    assert reason(wanted("a", by_name=True)) == "allowed"
    assert reason(wanted("ours", by_name=True, kind=CONFIG_MAP)) == "allowed"


@pytest.mark.parametrize("protected", list(Protected))
def test_an_unprotected_namespace_is_open_to_every_source_type(protected: Protected) -> None:
    assert reason(wanted("a"), policy=Policy(protected)) == "allowed"


def test_a_denied_kind_is_refused_unless_the_administrator_lists_kinds() -> None:
    role = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
    assert reason(wanted(kind=role)) == "refused"
    assert reason(wanted(kind=role), policy=Policy(any_kind=True)) == "allowed"


@pytest.mark.parametrize("name", ["kube-root-ca.crt", "istio-ca-root-cert", "openshift-service-ca.crt"])
def test_an_object_that_the_cluster_keeps_in_every_namespace_is_never_overwritten(name: str) -> None:
    copy = Copy(at("a", name, CONFIG_MAP), Template(secret()), by_name=True)
    assert reason(copy, policy=Policy(Protected.ALLOW, any_kind=True)) == "refused"
    assert reason(copy._replace(ref=at("a", name)), policy=Policy(Protected.ALLOW)) == "allowed"


def test_a_denied_type_is_refused_even_if_any_kind_is_allowed() -> None:
    token = wanted(content=secret("one", "kubernetes.io/service-account-token"))
    assert reason(token, policy=Policy(Protected.ALLOW, any_kind=True)) == "refused"


def test_a_copy_with_unavailable_content_is_not_refused_for_its_type() -> None:
    assert reason(Copy(at("a", "x"), Template(UNAVAILABLE))) == "allowed"


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_nothing_is_written_in_or_on_a_paused_namespace(where: str) -> None:
    world = World(Registry(()))
    world.namespace("a", **{where: {PAUSED: "true"}})
    world.namespace("b", **{where: {PAUSED: "false"}})
    for ref in (at("a", "x"), namespace_ref("a")):
        assert no_writes_at(ref, world) == f"namespace a is paused ({PAUSED})"
    for ref in (at("b", "x"), namespace_ref("b"), at("missing", "x")):
        assert not no_writes_at(ref, world)


def test_an_ignored_namespace_is_a_target_only_by_name() -> None:
    assert reason(wanted(), {IGNORE: "true"}) == "excluded"
    assert reason(wanted(), labels={IGNORE: "true"}) == "excluded"
    assert reason(wanted(by_name=True), {IGNORE: "true"}) == "allowed"


def test_without_consent_a_copy_is_refused_and_withdrawn() -> None:
    assert reason(wanted(), policy=Policy(needs_consent=True)) == "not-accepted+revoke"
    assert reason(wanted(), {ACCEPT: "other"}, Policy(needs_consent=True)) == "not-accepted+revoke"
    assert reason(wanted(), {ACCEPT: "admin"}, Policy(needs_consent=True)) == "allowed"


def test_a_source_needs_no_consent_of_its_own_namespace() -> None:
    assert reason(wanted("admin"), policy=Policy(needs_consent=True)) == "allowed"


def test_a_source_type_without_consent_ignores_the_annotation() -> None:
    assert reason(wanted(), {ACCEPT: "other"}) == "allowed"


CONSENTS = [
    ("admin", True),
    ("*", True),
    ("other, admin", True),
    ("admin:Secret/x", True),
    ("admin:Secret/y", False),
    ("admin:ConfigMap/x", False),
    ("", False),
    (" , ", False),
    ("adm", False),
    ("admin*", False),
    ("ADMIN", False),
    ("admin/x", False),
]


@pytest.mark.parametrize(("consent", "accepted"), CONSENTS)
def test_consent_names_a_namespace_an_object_or_everything(consent: str, accepted: bool) -> None:
    assert accepts(consent, SOURCE, NOWHERE) is accepted


TREES = [
    ("tree:root", True),
    ("tree:mid", True),
    ("other, tree:admin", True),
    ("tree:side", False),
    ("tree:below", False),
    ("root", False),
    ("tree:", False),
    ("tree:*", False),
    ("tree:root:Secret/x", False),
    ("tree:Secret/x", False),
]


def a_tree() -> World:
    """`admin` is below `mid`, `mid` below `root`, `below` below `admin`, and `side` below `root`."""
    world = World(toys.full_registry())
    world.namespace("root", {TYPE: "root"})
    for name, parent in {"mid": "root", "admin": "mid", "below": "admin", "side": "root"}.items():
        world.namespace(name, {PARENT: parent})
    return world


@pytest.mark.parametrize(("consent", "accepted"), TREES)
def test_consent_names_a_tree_by_any_namespace_above_the_source(consent: str, accepted: bool) -> None:
    assert accepts(consent, SOURCE, a_tree()) is accepted


def test_a_tree_with_a_loop_ends() -> None:
    world = a_tree()
    world.edit(namespace_ref("root"), labels={PARENT: "admin"})
    assert accepts("tree:root", SOURCE, world)
    assert not accepts("tree:side", SOURCE, world)


def test_a_template_is_no_tree() -> None:
    world = a_tree()
    world.edit(namespace_ref("admin"), labels={TEMPLATE: "mid"})
    assert not accepts("tree:mid", SOURCE, world)


def test_an_object_of_a_namespace_named_tree_is_no_tree() -> None:
    assert accepts("tree:Secret/x", at("tree", "x"), NOWHERE)
    assert accepts("tree:tree", at("tree", "x"), NOWHERE)


@pytest.mark.parametrize(
    ("consent", "invalid"),
    [
        ("tree:root, a, b:Secret/x, *", []),
        ("tree:", ["tree:"]),
        ("tree:A, tree:a*", ["tree:A", "tree:a*"]),
        ("tree:root:Secret/x", ["tree:root:Secret/x"]),
    ],
)
def test_an_item_that_can_name_no_source_is_invalid(consent: str, invalid: list[str]) -> None:
    assert invalid_consent_items(consent) == invalid


# Values of control keys


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("value", "pauses", "ignores"),
    [("true", True, True), ("false", False, False), ("yes", True, False), ("", True, False), ("True", True, False)],
)
def test_an_unknown_value_pauses_and_does_not_ignore(where: str, value: str, pauses: bool, ignores: bool) -> None:
    """A misspelt value must not fail to stop us."""
    world = World(toys.registry())
    namespace = world.namespace("a", **{where: {PAUSED: value, IGNORE: value}})
    assert (is_paused(namespace), is_ignored(namespace)) == (pauses, ignores)


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_value_of_paused_on_a_source_other_than_true_and_false_is_a_fault(where: str) -> None:
    world = World(toys.registry())
    words: dict[str, Any] = {where: {PAUSED: "yes", IGNORE: "no"}}
    (fault,) = pause_faults(world.put(at("a", "x"), **words))
    expected = 'expected "true" or "false": with any other value it pauses'
    assert (fault.field, fault.message) == (PAUSED, f"samara.dev/paused: 'yes'; {expected}")
    known: dict[str, Any] = {where: {PAUSED: "true"}}
    assert pause_faults(world.put(at("a", "y"), **known)) == ()
