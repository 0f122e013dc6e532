"""The original's configuration: legal values, and the message for each mistake."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.core.model import NAMESPACE, SECRET, Kind
from samara.core.vocabulary import SettingError
from samara.vocabularies.accurate.config import (
    KEYS,
    VERBS,
    Config,
    Watch,
    cluster_scoped_fault,
    missing_rights_fault,
    read,
)
from samara.vocabularies.accurate.globs import Globs, Keys
from samara.vocabularies.accurate.naming import NamingPolicy, Policies

INHERITED = ("labelKeys", "annotationKeys", "subNamespaceLabelKeys", "subNamespaceAnnotationKeys")
EXCLUDED = ("propagateLabelKeyExcludes", "propagateAnnotationKeyExcludes")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
A_WATCH = "expected a group such as apps (none for the core group), a version such as v1 and a kind such as Secret"
TEXT = "expected text (in quotes, if it looks like something else)"


def fault(raw: dict[Any, Any]) -> str:
    with pytest.raises(SettingError) as error:
        read(raw)
    return str(error.value)


def watching(*watches: dict[str, str]) -> tuple[Watch, ...]:
    return read({"watches": list(watches)}).watches


def test_every_key_is_read_into_its_field() -> None:
    assert read(
        {
            "labelKeys": ["team", "*.example.com/*"],
            "annotationKeys": ["owner"],
            "subNamespaceLabelKeys": ["stage"],
            "subNamespaceAnnotationKeys": ["note"],
            "watches": [{"version": "v1", "kind": "Secret"}, {"group": "apps", "version": "v1", "kind": "Deployment"}],
            "propagateLabelKeyExcludes": ["*kubernetes.io/*"],
            "propagateAnnotationKeyExcludes": ["accurate.cybozu.com/*"],
            "namingPolicies": [{"root": "^a", "match": "^$0"}],
        }
    ) == Config(
        label_keys=Keys(("team", "*.example.com/*")),
        annotation_keys=Keys(("owner",)),
        sub_label_keys=Keys(("stage",)),
        sub_annotation_keys=Keys(("note",)),
        watches=(Watch("", "v1", "Secret"), Watch("apps", "v1", "Deployment")),
        label_excludes=Globs(("*kubernetes.io/*",)),
        annotation_excludes=Globs(("accurate.cybozu.com/*",)),
        naming=Policies((NamingPolicy("^a", "^$0"),)),
    )


@pytest.mark.parametrize("raw", [{}, dict.fromkeys(KEYS), {key: [] for key in KEYS}])
def test_every_key_is_optional_and_an_empty_configuration_is_valid(raw: dict[str, object]) -> None:
    assert read(raw) == Config()
    assert Config() == Config(Keys(), Keys(), Keys(), Keys(), (), Globs(), Globs(), Policies())


def test_the_keys_are_the_eight_of_the_original() -> None:
    assert {*KEYS} == {*INHERITED, *EXCLUDED, "watches", "namingPolicies"}


@pytest.mark.parametrize("key", INHERITED + EXCLUDED)
def test_a_malformed_pattern_is_reported_with_its_key(key: str) -> None:
    expected = f"invalid configurations: malformed pattern for {key} a/[b: syntax error in pattern"
    assert fault({key: ["team", "a/[b"]}) == expected


@pytest.mark.parametrize(
    ("key", "singular"),
    [
        ("labelKeys", "labelKey"),
        ("annotationKeys", "annotationKey"),
        ("subNamespaceLabelKeys", "subNamespaceLabelKey"),
        ("subNamespaceAnnotationKeys", "subNamespaceAnnotationKey"),
    ],
)
def test_keys_of_our_own_cannot_be_inherited(key: str, singular: str) -> None:
    expected = f"invalid configurations: misconfigured {singular}: accurate.cybozu.com/type is not allowed"
    assert fault({key: ["accurate.cybozu.com/type"]}) == expected


def test_a_wide_pattern_is_accepted_and_does_not_reach_our_own_keys() -> None:
    keys = read({"labelKeys": ["*.cybozu.com/*"]}).label_keys
    assert keys.admits("other.cybozu.com/x")
    assert not keys.admits("accurate.cybozu.com/type")


@pytest.mark.parametrize("key", EXCLUDED)
def test_keys_of_our_own_may_be_excluded(key: str) -> None:
    assert read({key: ["accurate.cybozu.com/*"]}) != Config()


def test_a_syntax_error_of_a_pattern_is_reported_before_its_prefix() -> None:
    assert "malformed pattern for labelKeys accurate.cybozu.com/[:" in fault({"labelKeys": ["accurate.cybozu.com/["]})


WRONG = {
    "labelKeys": ["["],
    "annotationKeys": ["["],
    "subNamespaceLabelKeys": ["["],
    "subNamespaceAnnotationKeys": ["["],
    "watches": [{"version": "v1", "kind": "Namespace"}],
    "propagateLabelKeyExcludes": ["["],
    "propagateAnnotationKeyExcludes": ["["],
    "namingPolicies": [{"root": "("}],
}
MESSAGES = {
    **{key: f"malformed pattern for {key} [: syntax error in pattern" for key in INHERITED + EXCLUDED},
    "watches": "/v1, Kind=Namespace is not namespace-scoped",
    "namingPolicies": "invalid naming policy: error parsing regexp: missing ): (",
}


@pytest.mark.parametrize("first", range(len(WRONG)))
def test_the_first_fault_wins_in_the_order_of_the_keys(first: int) -> None:
    wrong = dict(reversed(list(WRONG.items())[first:]))
    assert fault(wrong) == f"invalid configurations: {MESSAGES[list(WRONG)[first]]}"


def test_unreadable_keys_are_reported_before_invalid_values() -> None:
    assert fault({"labelKeys": ["["], "extra": 1}).startswith("unable to load the configuration file: ")


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"labelkeys": []}, "labelkeys"),
        ({"configFile": "x"}, "configFile"),
        ({5: []}, "5"),
        ({"watches": [{"version": "v1", "kind": "Secret", "name": "x"}]}, "name"),
        ({"namingPolicies": [{"root": "a", "regexp": "x"}]}, "regexp"),
    ],
)
def test_an_unknown_key_is_reported_in_the_words_of_the_original(raw: dict[Any, Any], key: str) -> None:
    library = f'error unmarshaling JSON: while decoding JSON: json: unknown field "{key}"'
    assert fault(raw) == f"unable to load the configuration file: {library}"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"labelKeys": "team"}, "labelKeys: expected a list, found text"),
        ({"labelKeys": {}}, "labelKeys: expected a list, found a mapping"),
        ({"watches": True}, "watches: expected a list, found true or false"),
        ({"labelKeys": ["a", 5]}, f"labelKeys[1]: {TEXT}, found a number"),
        ({"annotationKeys": [None]}, f"annotationKeys[0]: {TEXT}, found null"),
        ({"propagateLabelKeyExcludes": [["a"]]}, f"propagateLabelKeyExcludes[0]: {TEXT}, found a list"),
        ({"watches": ["Secret"]}, "watches[0]: expected a mapping with group, version, kind, found text"),
        ({"watches": [{"version": 1, "kind": "Secret"}]}, f"watches[0].version: {TEXT}, found a number"),
        ({"namingPolicies": [None]}, "namingPolicies[0]: expected a mapping with root, match, found null"),
        ({"namingPolicies": [{"root": []}]}, f"namingPolicies[0].root: {TEXT}, found a list"),
    ],
)
def test_a_wrong_type_is_reported_with_its_path(raw: dict[str, object], expected: str) -> None:
    assert fault(raw) == f"unable to load the configuration file: {expected}"


def test_a_fault_is_one_line_whatever_it_quotes() -> None:
    assert fault({"labelKeys": ["a\nb["]}) == (
        r"invalid configurations: malformed pattern for labelKeys a\nb[: syntax error in pattern"
    )
    assert "\n" not in fault({"namingPolicies": [{"root": "(\n"}]})
    assert "\x1b" not in fault({"\x1b[31m": []})


def test_a_kind_that_is_named_twice_is_watched_once() -> None:
    secret, role = {"version": "v1", "kind": "Secret"}, {"group": ROLE.group, "version": "v1", "kind": "Role"}
    assert watching(secret, role, {**secret, "group": ""}) == (
        Watch("", "v1", "Secret"),
        Watch(ROLE.group, "v1", "Role"),
    )
    assert watching({**secret, "group": None}) == (Watch("", "v1", "Secret"),)  # type: ignore[dict-item]


def test_kinds_of_one_name_are_distinguished_by_group() -> None:
    ours, theirs = {"group": "a.example.com", "kind": "Pool"}, {"group": "b.example.com", "kind": "Pool"}
    assert len(watching({"version": "v1", **ours}, {"version": "v1", **theirs})) == 2
    assert len(watching({"group": "example.com", "version": "v1", "kind": "Namespace"})) == 1
    assert len(watching({"group": "example.com", "version": "v1", "kind": "SubNamespace"})) == 1


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        ({"version": "v1", "kind": "Namespace"}, "/v1, Kind=Namespace is not namespace-scoped"),
        (
            {"group": "accurate.cybozu.com", "version": "v2", "kind": "SubNamespace"},
            "invalid gvk accurate.cybozu.com/v2, Kind=SubNamespace: "
            "SubNamespaces define the tree, so they are not propagated along it",
        ),
        ({}, f"invalid gvk /, Kind=: {A_WATCH}"),
        ({"kind": "Secret"}, f"invalid gvk /, Kind=Secret: {A_WATCH}"),
        ({"version": "v1"}, f"invalid gvk /v1, Kind=: {A_WATCH}"),
        ({"version": "apps/v1", "kind": "Secret"}, f"invalid gvk /apps/v1, Kind=Secret: {A_WATCH}"),
        ({"group": "../x", "version": "v1", "kind": "A"}, f"invalid gvk ../x/v1, Kind=A: {A_WATCH}"),
        ({"group": "apps", "version": "v1", "kind": "A/b"}, f"invalid gvk apps/v1, Kind=A/b: {A_WATCH}"),
        ({"group": "apps", "version": "v1?x", "kind": "A"}, f"invalid gvk apps/v1?x, Kind=A: {A_WATCH}"),
    ],
)
def test_a_kind_that_cannot_be_watched_is_refused(watch: dict[str, str], expected: str) -> None:
    assert fault({"watches": [watch]}) == f"invalid configurations: {expected}"


def test_a_kind_in_two_versions_would_be_propagated_twice() -> None:
    older, newer = ({"group": "apps", "version": version, "kind": "A"} for version in ("v1beta1", "v1"))
    assert fault({"watches": [older, newer]}) == (
        "invalid configurations: invalid gvk apps/v1, Kind=A: expected one version of a kind, "
        "found apps/v1beta1, Kind=A as well; leave one of them out"
    )


def test_a_naming_policy_is_checked_by_its_root_alone() -> None:
    assert read({"namingPolicies": [{"root": "a", "match": "("}]}).naming.policies == (NamingPolicy("a", "("),)
    assert fault({"namingPolicies": [{"root": "ok"}, {"root": "a(b"}]}) == (
        "invalid configurations: invalid naming policy: error parsing regexp: missing ): a(b"
    )


def test_a_cluster_scoped_kind_is_reported_in_the_words_of_the_original() -> None:
    node = Kind("", "v1", "Node", "nodes", namespaced=False)
    cluster_role = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
    assert cluster_scoped_fault([SECRET, ROLE]) is None
    assert (
        cluster_scoped_fault([SECRET, node, NAMESPACE])
        == "invalid configurations: /v1, Kind=Node is not namespace-scoped"
    )
    assert cluster_scoped_fault([cluster_role]) == (
        "invalid configurations: rbac.authorization.k8s.io/v1, Kind=ClusterRole is not namespace-scoped"
    )


def test_the_required_rights_are_those_that_are_used() -> None:
    assert VERBS == ("get", "list", "watch", "create", "update", "delete")


def test_one_missing_right_is_reported_alone_and_several_in_brackets() -> None:
    prefix = "when validating RBAC to support configuration: "
    assert missing_rights_fault([]) is None
    assert missing_rights_fault([("create", SECRET)]) == f"{prefix}missing permission to create /v1, Resource=secrets"
    assert missing_rights_fault([("get", SECRET), ("delete", ROLE), ("get", SECRET)]) == (
        f"{prefix}[missing permission to get /v1, Resource=secrets, "
        "missing permission to delete rbac.authorization.k8s.io/v1, Resource=roles]"
    )


def message(raw: dict[str, object]) -> str:
    """The message for a configuration. Empty if it is valid; another exception fails the test."""
    try:
        read(raw)
    except SettingError as error:
        return str(error)
    return ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("a[*\\(\n/", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["group", "version", "kind", "root", "match", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*KEYS, "x"]), VALUES, max_size=4))
def test_any_configuration_is_read_or_reported_on_one_line(raw: dict[str, object]) -> None:
    text = message(raw)
    assert text.isprintable()
    assert not text or text.startswith(("unable to load the configuration file: ", "invalid configurations: "))
