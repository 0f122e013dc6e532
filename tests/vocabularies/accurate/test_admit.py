"""Admission of namespace trees: every rule with its message, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.world import World, content

from samara.assembly import reserved_namespaces
from samara.core.admission import Operation, PatchOperation, Refused, Request, Undecidable
from samara.core.model import Object, Ref, namespace_ref
from samara.core.registry import Registry
from samara.kube.errors import redact
from samara.settings import Settings
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.accurate.admit import AdmitRules, add_finalizer, admit_namespace, admit_sub_namespace
from samara.vocabularies.accurate.labels import FINALIZER, PARENT, SUB_NAMESPACE, TEMPLATE, TYPE
from samara.vocabularies.fishysecret import FishySecretSettings
from samara.vocabularies.secret_copy import SecretCopySettings

CIRCULAR = ("circular reference is not permitted",)
CHILDREN = ("child namespaces exist",)


def judged_by(**more: Any) -> AdmitRules:
    """Without naming policies and reserved names, unless a test says otherwise."""
    none: dict[str, Any] = {
        "naming_refusal": lambda name, root: None,
        "is_reserved_for": lambda name, root, roots: False,
        "is_reserved": lambda name: False,
    }
    return AdmitRules(**{**none, **more})


STRICT, CASCADING = judged_by(), judged_by(allow_cascading=True)
ROOT, TEMPLATED = {TYPE: "root"}, {TYPE: "template"}
Words = dict[str, str]


def below(parent: str) -> Words:
    return {PARENT: parent}


def instance(template: str) -> Words:
    return {TEMPLATE: template}


def a_world(**namespaces: Words) -> World:
    world = World(Registry(()))
    for name, labels in namespaces.items():
        world.namespace(name, labels)
    return world


def namespace(labels: Words, name: str = "me", **more: Any) -> Object:
    return Object(namespace_ref(name), "u", 1, labels=labels, **more)


def created(world: World, labels: Words, rules: AdmitRules = STRICT) -> tuple[str, ...]:
    return messages(admit_namespace(Request("CREATE", namespace(labels), None), world, rules))


def updated(world: World, old: Words, new: Words) -> tuple[str, ...]:
    """Updates the namespace `me` from these labels to those."""
    world.namespace("me", old)
    return messages(admit_namespace(Request("UPDATE", namespace(new), namespace(old)), world, STRICT))


def deleted(world: World, old: Words, rules: AdmitRules = STRICT) -> tuple[str, ...]:
    world.namespace("me", old)
    return messages(admit_namespace(Request("DELETE", None, namespace(old)), world, rules))


def messages(faults: tuple[str, ...], kind: type[str] = Refused) -> tuple[str, ...]:
    assert all(isinstance(fault, kind) for fault in faults)
    return faults


# Namespaces: create


@pytest.mark.parametrize("labels", [{}, ROOT, TEMPLATED, {TYPE: "anything"}, {"other": ""}])
def test_plain_namespaces_of_any_type_are_allowed(labels: Words) -> None:
    assert created(a_world(), labels) == ()


def test_a_namespace_may_not_be_its_own_parent_or_template() -> None:
    assert created(a_world(), below("me")) == CIRCULAR
    assert created(a_world(), instance("me")) == CIRCULAR


@pytest.mark.parametrize("template", ["", "t", "nowhere"])
def test_a_sub_namespace_cannot_have_a_template(template: str) -> None:
    world = a_world(r=ROOT, t=TEMPLATED)
    assert created(world, below("r") | instance(template)) == ("a sub-namespace cannot have a template",)


@pytest.mark.parametrize("value", ["root", "template", "", "other"])
def test_a_sub_namespace_cannot_be_a_root_or_a_template(value: str) -> None:
    assert created(a_world(r=ROOT), below("r") | {TYPE: value}) == ("a sub-namespace cannot be a root or a template",)


def test_the_parent_must_exist_and_be_a_root_or_a_sub_namespace() -> None:
    world = a_world(r=ROOT, s=below("r"), t=TEMPLATED, plain={}, i=instance("t"))
    assert created(world, below("nowhere")) == ("namespace does not exist: nowhere",)
    for name in ("t", "plain", "i"):
        assert created(world, below(name)) == (f"{name} is not a valid root namespace",)
    assert created(world, below("r")) == created(world, below("s")) == ()


def test_the_template_must_exist_and_be_a_template() -> None:
    world = a_world(r=ROOT, t=TEMPLATED, tt=TEMPLATED | instance("t"), plain={})
    assert created(world, instance("nowhere")) == ("namespace does not exist: nowhere",)
    for name in ("r", "plain"):
        assert created(world, instance(name)) == (f"{name} is not a valid template namespace",)
    for name in ("t", "tt"):
        assert created(world, instance(name)) == created(world, ROOT | instance(name)) == ()


def test_a_sub_namespace_cannot_be_named_as_a_template() -> None:
    world = a_world(r=ROOT, s=below("r"), odd=below("r") | TEMPLATED)
    for name in ("s", "odd"):
        assert created(world, instance(name)) == (f"{name} is not a valid template namespace",)


@pytest.mark.parametrize("label", [PARENT, TEMPLATE])
def test_an_empty_parent_or_template_is_refused(label: str) -> None:
    fault = (f"{label} is empty: name a namespace or remove the label",)
    assert created(a_world(), {label: ""}) == fault
    assert updated(a_world(), {}, {label: ""}) == fault
    assert created(a_world(t=TEMPLATED), instance("t") | below("")) == (
        f"{PARENT} is empty: name a namespace or remove the label",
    )


def test_only_the_first_broken_rule_is_reported() -> None:
    assert created(a_world(), {**below("me"), **instance(""), TYPE: "root"}) == CIRCULAR
    assert created(a_world(), {**below("nowhere"), **instance(""), TYPE: "root"}) == (
        "a sub-namespace cannot have a template",
    )
    assert created(a_world(), {**below("nowhere"), TYPE: "root"}) == ("a sub-namespace cannot be a root or a template",)


# Namespaces: update


def test_the_ancestors_must_not_form_a_loop() -> None:
    world = a_world(a=below("b"), b=below("me"), t=TEMPLATED | instance("me"))
    assert updated(world, {}, below("a")) == CIRCULAR
    assert updated(world, {}, instance("t")) == CIRCULAR
    assert updated(world, {}, below("me")) == CIRCULAR
    assert updated(a_world(a=below("b"), b=below("a")), {}, below("a")) == CIRCULAR


def test_every_ancestor_must_exist() -> None:
    gone = ("parent namespace does not exist: gone",)
    assert updated(a_world(a=below("b"), b=below("gone")), {}, below("a")) == gone
    assert updated(a_world(t=TEMPLATED | instance("gone")), {}, instance("t")) == gone
    assert updated(a_world(), below("gone"), below("gone")) == gone
    assert updated(a_world(), below("gone"), {}) == ()


def test_a_root_with_children_keeps_its_type() -> None:
    for new in ({}, TEMPLATED, {TYPE: "other"}, below("r")):
        world = a_world(r=ROOT, child=below("me"))
        assert updated(world, ROOT, new) == ("there are sub-namespaces under me",)
        assert updated(a_world(r=ROOT), ROOT, new) == ()
    assert updated(a_world(child=below("me")), ROOT, ROOT | {"other": "label"}) == ()


def test_a_template_with_instances_keeps_its_type() -> None:
    for new in ({}, ROOT, {TYPE: "other"}):
        assert updated(a_world(i=instance("me")), TEMPLATED, new) == ("there are namespaces referencing me",)
        assert updated(a_world(), TEMPLATED, new) == ()
    assert updated(a_world(i=instance("me"), t=TEMPLATED), TEMPLATED, TEMPLATED | instance("t")) == ()


def test_a_sub_namespace_with_children_is_cut_only_to_a_root() -> None:
    def world(**more: Words) -> World:
        return a_world(r=ROOT, t=TEMPLATED, **more)

    for new in ({}, TEMPLATED, {TYPE: "other"}, below("")):
        assert updated(world(child=below("me")), below("r"), new) == ("there are sub-namespaces under me",)
    assert updated(world(child=below("me")), below("r"), ROOT) == ()
    assert updated(world(child=below("me")), below("r"), ROOT | instance("t")) == ()
    assert updated(world(), below("r"), {}) == updated(world(), below("r"), TEMPLATED) == ()
    assert updated(world(r2=ROOT, child=below("me")), below("r"), below("r2")) == ()


def test_a_sub_namespace_with_children_may_not_become_an_instance() -> None:
    world = a_world(r=ROOT, t=TEMPLATED, child=below("me"))
    assert updated(world, below("r"), instance("t")) == ("there are sub-namespaces under me",)


def test_the_rules_of_creation_count_for_updates_too() -> None:
    world = a_world(r=ROOT, plain={})
    assert updated(world, {}, below("plain")) == ("plain is not a valid root namespace",)
    assert updated(world, below("r"), below("r") | ROOT) == ("a sub-namespace cannot be a root or a template",)
    assert updated(world, {}, instance("plain")) == ("plain is not a valid template namespace",)


def test_labels_that_the_original_accepted_do_not_stop_other_changes() -> None:
    world = a_world(r=ROOT, s=below("r"))
    note = {"note": "new"}
    assert updated(world, instance("s"), instance("s") | note) == ()
    assert updated(world, {PARENT: ""}, {PARENT: "", **note}) == updated(world, {TEMPLATE: ""}, {TEMPLATE: ""}) == ()
    assert updated(world, {TEMPLATE: ""}, {PARENT: ""}) != ()
    assert updated(world, {}, instance("s")) == ("s is not a valid template namespace",)


def test_a_namespace_that_names_itself_is_neither_its_own_child_nor_its_instance() -> None:
    assert updated(a_world(), below("me"), {}) == ()
    assert deleted(a_world(), below("me")) == ()
    assert updated(a_world(), TEMPLATED | instance("me"), {}) == ()
    assert deleted(a_world(), TEMPLATED | instance("me")) == ()


def test_a_terminating_namespace_is_not_validated() -> None:
    new = namespace(below("nowhere"), deleting=True)
    assert admit_namespace(Request("UPDATE", new, new), a_world(), STRICT) == ()
    assert admit_namespace(Request("DELETE", None, new), a_world(child=below("me")), STRICT) == ()


# Namespaces: delete


def test_a_root_or_sub_namespace_with_children_cannot_be_deleted_without_cascading() -> None:
    for labels in (ROOT, below("r")):
        assert deleted(a_world(r=ROOT, child=below("me")), labels) == CHILDREN
        assert deleted(a_world(r=ROOT, child=below("me")), labels, CASCADING) == ()
        assert deleted(a_world(r=ROOT, i=instance("me")), labels) == ()


def test_a_template_with_instances_cannot_be_deleted_even_with_cascading() -> None:
    for rules in (STRICT, CASCADING):
        assert deleted(a_world(i=instance("me")), TEMPLATED, rules) == CHILDREN
        assert deleted(a_world(child=below("me")), TEMPLATED, rules) == ()


@pytest.mark.parametrize("labels", [{}, {TYPE: "other"}, instance("t")])
def test_every_other_namespace_may_be_deleted(labels: Words) -> None:
    assert deleted(a_world(child=below("me"), i=instance("me")), labels) == ()


NAMES = ["me", "a", "b"]
LABELS = st.dictionaries(st.sampled_from([PARENT, TEMPLATE, TYPE]), st.sampled_from([*NAMES, "", "root", "template"]))


@given(st.dictionaries(st.sampled_from(NAMES), LABELS), st.none() | LABELS, st.none() | LABELS)
def test_for_any_labels_there_is_at_most_one_fault(
    world: dict[str, Words], old: Words | None, new: Words | None
) -> None:
    operation: Operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    after, before = (None if labels is None else namespace(labels) for labels in (new, old))
    faults = messages(admit_namespace(Request(operation, after, before), a_world(**world), STRICT))
    assert len(faults) <= 1
    if not (old or new):
        assert faults == ()  # namespaces without our labels are never refused


# SubNamespaces


def sub(name: str = "me", home: str = "r", spec: object = None, **more: Any) -> Object:
    return Object(Ref(SUB_NAMESPACE, home, name), "u", 1, content(spec=spec if spec is not None else {}), **more)


def refusals(world: World, new: Object, old: Object | None = None, rules: AdmitRules = STRICT) -> tuple[str, ...]:
    return admit_sub_namespace(Request("UPDATE" if old else "CREATE", new, old), world, rules)


BOTH: list[Callable[..., tuple[str, ...]]] = [
    lambda world, new, rules=STRICT: refusals(world, new, None, rules),
    lambda world, new, rules=STRICT: refusals(world, new, replace(new, content=content(spec={"old": 1})), rules),
]
"""A creation and a change of the spec. Both are validated alike, except the name: only on creation."""
alike = pytest.mark.parametrize("judged", BOTH, ids=["create", "update"])


@alike
def test_a_sub_namespace_resource_must_be_in_a_root_or_a_sub_namespace(judged: Callable[..., tuple[str, ...]]) -> None:
    world = a_world(r=ROOT, s=below("r"), plain={}, t=TEMPLATED, i=instance("t"))
    assert judged(world, sub(home="r")) == judged(world, sub(home="s")) == ()
    for home in ("plain", "t", "i"):
        fault = f"namespace {home} is neither a root nor a sub namespace"
        assert messages(judged(world, sub(home=home))) == (fault,)


@alike
def test_a_parent_that_cannot_be_read_is_an_internal_error(judged: Callable[..., tuple[str, ...]]) -> None:
    assert messages(judged(a_world(), sub()), Undecidable) == ("namespace r cannot be read",)


BAD_SPEC = {
    "labels": {"a b": "x", "ok": "not ok", "fine.io/x": "", "-": "y", "a/b/c": "z", "Up.io/x": "v"},
    "annotations": {"no slash/": "x", "Up.io/x": "any value & more", "": "x"},
}


@alike
def test_all_violations_of_labels_and_annotations_are_reported_together(judged: Callable[..., tuple[str, ...]]) -> None:
    faults = messages(judged(a_world(r=ROOT), sub(spec=BAD_SPEC)))

    assert {fault.partition(": the ")[0] for fault in faults} == {
        'spec.labels: Invalid value: "a b"',
        'spec.labels: Invalid value: "not ok"',
        'spec.labels: Invalid value: "-"',
        'spec.labels: Invalid value: "a/b/c"',
        'spec.labels: Invalid value: "Up.io/x"',
        'spec.annotations: Invalid value: "no slash/"',
        'spec.annotations: Invalid value: ""',
    }
    assert len(faults) == 7
    assert "any value" not in " ".join(faults)


def test_redacted_messages_still_name_every_violation() -> None:
    spec = {"labels": {"app": "no good", "b": 'x "y": z'}, "annotations": {"a b": "1", "é\n" * 90: "2"}}
    faults = messages(refusals(a_world(r=ROOT), sub(spec=spec)))
    value = "spec.labels: Invalid value: …: the value of a label was expected"
    key = "spec.annotations: Invalid value: …: the key of an annotation was expected"
    assert redact(". ".join(faults)) == ". ".join([value, value, key, key])


def test_the_total_size_of_annotations_is_limited() -> None:
    def fault(size: int) -> tuple[str, ...]:
        return refusals(a_world(r=ROOT), sub(spec={"annotations": {"k": "x" * (size - 1)}}))

    assert fault(262144) == ()
    assert fault(262145) == ("spec.annotations: Too long: at most 262144 bytes were expected, found 262145",)


@pytest.mark.parametrize("spec", [{}, {"labels": None, "annotations": None}, {"labels": {"a": "b"}}, [], "text"])
def test_a_valid_spec_is_allowed(spec: object) -> None:
    assert refusals(a_world(r=ROOT), sub(spec=spec)) == ()


def test_an_unchanged_spec_is_not_validated_again() -> None:
    stored = sub(spec=BAD_SPEC)
    assert refusals(a_world(), replace(stored, labels={"note": "new"}), stored) == ()
    assert refusals(a_world(), replace(sub(spec={"labels": {"a b": ""}}), deleting=True), stored) == ()


@alike
def test_the_root_of_the_tree_must_be_found(judged: Callable[..., tuple[str, ...]]) -> None:
    assert messages(judged(a_world(r=below("gone")), sub())) == ("namespace gone is not found",)
    assert messages(judged(a_world(r=below("top"), top={}), sub())) == (
        "namespace top is not found to be a root or a sub namespace",
    )
    assert messages(judged(a_world(r=below("s"), s=below("r")), sub())) == CIRCULAR


def test_naming_policies_get_the_name_and_the_root() -> None:
    seen: list[tuple[str, str]] = []

    def denied(name: str, root: str) -> tuple[str, str] | None:
        seen.append((name, root))
        return ("^top$", "^$1-.*") if name == "bad" else None

    world = a_world(top=ROOT, r=below("s"), s=below("top"))
    assert refusals(world, sub("good"), None, judged_by(naming_refusal=denied)) == ()
    assert messages(refusals(world, sub("bad"), None, judged_by(naming_refusal=denied))) == (
        "namespace r is not match naming policies: "
        "namespace - target=bad root=top denied policy - root=^top$ match=^$1-.*",
    )
    assert seen == [("good", "top"), ("bad", "top")]


def test_an_expansion_that_cannot_be_compiled_is_an_error() -> None:
    def denied(name: str, root: str) -> tuple[str, str] | None:
        raise ValueError("missing closing )")

    (fault,) = messages(refusals(a_world(r=ROOT), sub(), None, judged_by(naming_refusal=denied)), Undecidable)
    assert "missing closing )" in fault


SPACES = st.sampled_from(["r", "secret-a", "secret-b", "secret-c"])
ABOVE = st.dictionaries(SPACES, st.sampled_from([{}, ROOT, TEMPLATED]) | SPACES.map(below) | SPACES.map(instance))
POLICIES: list[Callable[[str, str], tuple[str, str] | None]] = [
    lambda name, root: None,
    lambda name, root: (f"^{root}$", "^secret-policy-"),
]


def bad_policy(name: str, root: str) -> tuple[str, str] | None:
    raise ValueError(f"secret-policy of {root}")


@given(
    ABOVE,
    st.sampled_from([{}, ROOT]) | SPACES.map(below) | SPACES.map(instance),
    st.sampled_from([*POLICIES, bad_policy]),
)
def test_under_strict_tenancy_no_message_names_a_namespace_that_the_request_does_not(
    namespaces: dict[str, Words], labels: Words, policy: Callable[[str, str], tuple[str, str] | None]
) -> None:
    """Neither the tree above nor the policies, which tell how other teams are named."""
    world, rules = a_world(**namespaces), judged_by(naming_refusal=policy, is_strict=True)
    own = namespace(labels)
    answers = [
        *(judged(world, sub(), rules) for judged in BOTH),
        admit_namespace(Request("CREATE", own, None), world, rules),
        admit_namespace(Request("UPDATE", own, namespace({})), world, rules),
        admit_namespace(Request("DELETE", None, own), world, rules),
    ]
    for text in (fault for faults in answers for fault in faults):
        for named in labels.values():
            text = text.replace(named, "")
        assert "secret" not in text


def test_under_strict_tenancy_a_refusal_by_a_naming_policy_names_neither_root_nor_policy() -> None:
    rules = judged_by(naming_refusal=lambda name, root: ("^top$", "^$1-.*"), is_strict=True)
    world = a_world(top=ROOT, r=below("top"))
    expected = "namespace r is not match naming policies: namespace - target=bad"
    assert messages(refusals(world, sub("bad"), None, rules)) == (expected,)


def test_row_26_reserved_names_are_refused() -> None:
    rules = judged_by(is_reserved=lambda name: name.startswith("kube-"))
    assert messages(refusals(a_world(r=ROOT), sub("kube-x"), None, rules)) == (
        "namespace kube-x is reserved: a sub-namespace cannot have this name",
    )
    assert refusals(a_world(r=ROOT), sub("x"), None, rules) == ()


@pytest.mark.parametrize("own", ["admin", "vault"])
def test_row_26_the_home_namespace_of_secret_copy_is_reserved_if_it_is_enabled(own: str) -> None:
    on = Settings(vocabularies={"secret-copy": SecretCopySettings(home=own), "accurate": AccurateSettings()})
    assert own in reserved_namespaces(on, "operator")
    assert own not in reserved_namespaces(Settings(vocabularies={"accurate": AccurateSettings()}), "operator")
    always = {"kube-system", "kube-public", "kube-node-lease", "default", "kube-*", "operator"}
    assert always <= set(reserved_namespaces(Settings(vocabularies={"accurate": AccurateSettings()}), "operator"))


def test_the_namespace_of_the_configuration_of_fishysecret_is_reserved_even_if_it_does_not_exist() -> None:
    """Otherwise a tenant creates a SubNamespace of that name, and then writes the configuration."""
    elsewhere = Settings(vocabularies={"fishysecret": FishySecretSettings(namespace="vault")})
    assert "vault" in reserved_namespaces(elsewhere, "operator")
    beside_the_operator = Settings(vocabularies={"fishysecret": FishySecretSettings()})
    assert "vault" not in reserved_namespaces(beside_the_operator, "operator")
    assert None not in reserved_namespaces(beside_the_operator, "operator")


def test_3_2_a_name_is_validated_on_creation_only() -> None:
    """A naming policy that was added later does not stop changes of the spec."""

    def denied(name: str, root: str) -> tuple[str, str] | None:
        raise AssertionError("no policy is asked about a change")

    rules = judged_by(naming_refusal=denied, is_reserved=lambda name: True)
    assert refusals(a_world(r=ROOT), sub(spec={"labels": {"a": "b"}}), sub(), rules) == ()


def test_3_2_policies_do_not_apply_to_labels_of_namespaces() -> None:
    rules = judged_by(naming_refusal=lambda name, root: ("^r$", "^r-"), is_reserved=lambda name: True)
    world = a_world(r=ROOT)
    assert created(world, below("r"), rules) == ()
    assert admit_namespace(Request("UPDATE", namespace(below("r")), namespace({})), world, rules) == ()


def test_the_first_broken_rule_of_a_sub_namespace_is_reported() -> None:
    rules = judged_by(naming_refusal=lambda name, root: ("a", "b"), is_reserved=lambda name: True)
    (fault,) = refusals(a_world(r=ROOT), sub(), None, rules)
    assert "naming policies" in fault
    (fault,) = refusals(a_world(r=ROOT), sub(spec={"labels": {"a b": ""}}), None, rules)
    assert "spec.labels" in fault
    (fault,) = refusals(a_world(r={}), sub(spec={"labels": {"a b": ""}}), None, rules)
    assert "neither a root" in fault


def released(world: World, rules: AdmitRules = STRICT, **more: Any) -> tuple[str, ...]:
    return messages(admit_sub_namespace(Request("DELETE", None, sub(**more)), world, rules))


def test_a_sub_namespace_resource_cannot_be_deleted_while_its_namespace_has_children() -> None:
    world = a_world(r=ROOT, me=below("r"), child=below("me"))
    assert released(world) == CHILDREN
    assert released(world, CASCADING) == ()
    assert released(world, deleting=True) == ()
    assert released(a_world(r=ROOT, me=below("r"))) == ()


def test_a_sub_namespace_resource_without_a_namespace_of_its_own_may_be_deleted() -> None:
    assert released(a_world(r=ROOT, child=below("me"))) == ()
    assert released(a_world(r=ROOT, me=below("other"), child=below("me"))) == ()
    assert released(a_world(r=ROOT, me=ROOT, child=below("me"))) == ()


# The finalizer


def test_a_created_sub_namespace_gets_our_finalizer_and_keeps_others() -> None:
    path = "/metadata/finalizers"
    assert add_finalizer(Request("CREATE", sub(), None)) == (
        PatchOperation("add", path, ["accurate.cybozu.com/finalizer"]),
    )
    theirs = sub(finalizers=("mine.dev/guard",))
    assert add_finalizer(Request("CREATE", theirs, None)) == (
        PatchOperation("add", path, ["mine.dev/guard", FINALIZER]),
    )


def test_the_finalizer_is_not_added_twice_or_on_update_or_deletion() -> None:
    assert add_finalizer(Request("CREATE", sub(finalizers=(FINALIZER, "other")), None)) == ()
    assert add_finalizer(Request("UPDATE", sub(), sub())) == ()
    assert add_finalizer(Request("DELETE", None, sub())) == ()
