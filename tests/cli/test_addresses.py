"""How users name objects: the kind, and one or more names."""

from __future__ import annotations

import click
import pytest
from tests.support.toys import full_registry
from tests.support.world import at

from samara.cli.addresses import parse_refs, split_words
from samara.core.model import CONFIG_MAP, NAMESPACE, SECRET, Kind, Ref, namespace_ref
from samara.kube.discovery import Served
from samara.vocabularies.accurate.labels import SUB_NAMESPACE
from samara.vocabularies.fishysecret import FISHY_SECRET
from samara.vocabularies.resource_distribution import RESOURCE_DISTRIBUTION


def parsed(*words: str) -> list[Ref]:
    return parse_refs(split_words(words), "team", full_registry())


def config_map(name: str) -> Ref:
    return at("team", name)._replace(kind=CONFIG_MAP)


def refused(*words: str) -> str:
    with pytest.raises(click.UsageError) as caught:
        parsed(*words)
    return caught.value.message


@pytest.mark.parametrize("kind", ["cm", "configmap", "ConfigMaps", "v1/ConfigMap", "v1/configmap", "configmaps.v1."])
def test_kind_is_known_by_its_names_and_by_its_short_name(kind: str) -> None:
    assert parsed(kind, "ca") == parsed(f"{kind}/ca") == [config_map("ca")]


@pytest.mark.parametrize(("short", "kind"), [("fishy", FISHY_SECRET), ("distributor", RESOURCE_DISTRIBUTION)])
def test_custom_resource_is_known_by_the_short_name_in_its_definition(short: str, kind: Kind) -> None:
    assert [ref.kind for ref in parsed(f"{short}/db")] == [kind]


@pytest.mark.parametrize(
    "kind",
    [
        "subnamespace.accurate.cybozu.com",
        "subnamespaces.v2.accurate.cybozu.com",
        "accurate.cybozu.com/v2/SubNamespace",
    ],
)
def test_kind_may_have_its_group_as_kubectl_and_as_samara_write_it(kind: str) -> None:
    assert parsed(kind, "shop") == parsed(f"{kind}/shop") == [Ref(SUB_NAMESPACE, "team", "shop")]


def test_a_kind_that_only_the_cluster_knows_has_the_names_that_the_cluster_gives_it() -> None:
    gadget = Kind("toys.dev", "v2", "Gadget", "gadgets")
    served = [Served(gadget, ("gdg",), frozenset()), Served(Kind("", "v9", "Secret", "secrets"), (), frozenset())]
    named = split_words(["gdg/a", "gadgets.toys.dev/a", "secret/a"])
    kinds = [ref.kind for ref in parse_refs(named, "team", full_registry(), served)]
    assert kinds == [gadget, gadget, SECRET]


def test_an_object_without_a_namespace_has_none() -> None:
    assert parsed("ns", "shop") == [namespace_ref("shop")]
    assert parsed("namespace/shop")[0].kind == NAMESPACE


def test_several_objects_each_have_their_kind() -> None:
    assert parsed("secret/a", "cm/b") == [at("team", "a"), config_map("b")]


def test_several_names_share_the_kind_before_them() -> None:
    assert parsed("secret", "a", "b") == [at("team", "a"), at("team", "b")]


def test_several_kinds_with_commas_between_them_share_the_names_after_them() -> None:
    assert parsed("secret,cm", "a", "b") == [at("team", "a"), at("team", "b"), config_map("a"), config_map("b")]
    assert parsed("secret,cm/a") == [at("team", "a"), config_map("a")]


def test_the_objects_keep_the_order_in_which_they_are_given() -> None:
    assert [ref.name for ref in parsed("secret", "b", "a", "c", "a")] == ["b", "a", "c", "a"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("db",), "'db'"),
        (("secret/",), "'secret/'"),
        (("/db",), "'/db'"),
        (("secret", ""), "''"),
        (("secret", "cm/ca"), "'cm/ca'"),
        (("secret/a", "b"), "'b'"),
        (("v1/Secret",), "'v1/Secret'"),
        ((",", "db"), "','"),
    ],
)
def test_words_that_name_no_object_are_wrong_usage(words: tuple[str, ...], found: str) -> None:
    message = refused(*words)
    assert message.startswith("expected ")
    assert message.endswith(f"found {found}")


def test_unknown_kind_is_wrong_usage_and_similar_kinds_are_named() -> None:
    assert refused("deployment/db").endswith("found 'deployment'")
    assert "namespace, secret" in refused("deployment", "db")
    assert refused("secert", "db").endswith("found 'secert'; did you mean 'secret'?")
