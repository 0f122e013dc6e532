"""Tests webhook configurations and the conversion of CRDs."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from tests.admission.scene import (
    ABOVE,
    ROLE,
    THING,
    TRY,
    TWIN,
    WORD,
    a_registry,
    a_source_type,
    annotated,
    marking,
    spaces,
    spelled,
)
from tests.kube.scripted import merged

from samara.admission.webhooks import (
    ADMIT,
    CONVERT,
    MUTATE,
    MUTATING,
    NO_CONVERSION,
    VALIDATING,
    Endpoint,
    conversion_patch,
    needed_configurations,
    webhook_configuration,
    webhook_conversion,
)
from samara.core.model import NAMESPACE, SECRET, Kind
from samara.core.registry import Registry
from samara.kube.errors import ConfigError

SERVICE = Endpoint("samara")
URL = Endpoint("samara", "https://127.0.0.1:9443/")


TO_SERVICE, TO_URL = (webhook_conversion(endpoint.client_config(CONVERT, b"CA")) for endpoint in (SERVICE, URL))


def hooks(registry: Registry | None = None, excepted: tuple[str, ...] = (), kind: Kind = VALIDATING) -> dict[str, Any]:
    made = webhook_configuration(registry or a_registry(), SERVICE.client_config(ADMIT, b"CA"), excepted, kind)
    return {hook["name"]: hook for hook in made["webhooks"]}


def test_there_is_one_webhook_per_guarded_kind() -> None:
    assert list(hooks()) == ["configmaps.samara.dev", "secrets.samara.dev", "things.toys.dev.samara.dev"]


def test_only_webhooks_for_our_custom_resources_fail_closed() -> None:
    policies = {name: hook["failurePolicy"] for name, hook in hooks().items()}

    assert policies == {
        "configmaps.samara.dev": "Ignore",
        "secrets.samara.dev": "Ignore",
        "things.toys.dev.samara.dev": "Fail",
    }
    assert {hook["timeoutSeconds"] for hook in hooks().values()} == {5}
    assert {hook["sideEffects"] for hook in hooks().values()} == {"None"}


def test_a_foreign_custom_resource_with_our_annotations_fails_open() -> None:
    annotated = a_source_type("annotated", spelled, SECRET, THING, asks=frozenset({WORD}))

    assert {hook["failurePolicy"] for hook in hooks(Registry((annotated,))).values()} == {"Ignore"}


def test_one_source_type_that_fails_closed_makes_the_webhook_fail_closed() -> None:
    both = a_source_type("words", spelled, THING, asks=frozenset({WORD})), a_source_type("things", spelled, THING)
    (hook,) = hooks(Registry(both)).values()

    assert hook["failurePolicy"] == "Fail"
    assert hook["matchConditions"][0]["name"] == "not-deleting"


def test_only_objects_with_one_of_our_keys_match() -> None:
    (condition,) = hooks()["secrets.samara.dev"]["matchConditions"]

    assert all(f"'{word}'" in condition["expression"] for word in (WORD, TWIN, TRY))
    assert all(f"has(o.metadata.{where})" in condition["expression"] for where in ("annotations", "labels"))
    assert "toys.dev/never" not in condition["expression"]  # its vocabulary has no admission rules


def test_the_rule_names_kind_versions_scope_and_operations() -> None:
    later = THING._replace(version="v2")
    (hook,) = hooks(Registry((a_source_type("things", spelled, later, THING),))).values()

    assert hook["rules"] == [
        {
            "apiGroups": ["toys.dev"],
            "apiVersions": ["v1", "v2"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["things"],
            "scope": "Namespaced",
        }
    ]
    assert hook["matchPolicy"] == "Equivalent"


def test_cluster_scoped_kinds_have_their_scope() -> None:
    (hook,) = hooks(Registry((a_source_type("spaces", spelled, NAMESPACE, asks=frozenset({WORD})),))).values()

    assert hook["rules"][0]["scope"] == "Cluster"


def test_the_operators_own_namespace_is_excluded() -> None:
    apart = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["samara"]}

    assert {str(hook["namespaceSelector"]) for hook in hooks(excepted=("samara",)).values()} == {
        str({"matchExpressions": [apart]})
    }


def test_a_registry_without_guarded_kinds_has_no_webhook() -> None:
    assert hooks(Registry((a_source_type("silent", None, SECRET),))) == {}


def test_keys_of_a_label_scope_match_labels_only_and_may_fail_closed() -> None:
    (hook,) = hooks(Registry((spaces(),))).values()

    assert hook["failurePolicy"] == "Fail"
    alive, carries = hook["matchConditions"]
    assert (alive["name"], carries["name"]) == ("not-deleting", "carries-our-words")
    assert f"['{ABOVE}', '{ROLE}']" in carries["expression"]
    assert "annotations" not in carries["expression"]
    (hook,) = hooks(Registry((replace(spaces(), source=annotated(frozenset({WORD}))),))).values()
    assert WORD not in hook["matchConditions"][1]["expression"]


def test_the_operations_are_those_that_a_source_type_judges() -> None:
    (hook,) = hooks(Registry((spaces(),))).values()
    assert hook["rules"][0]["operations"] == ["CREATE", "UPDATE", "DELETE"]
    both = spaces(), a_source_type("words", spelled, NAMESPACE, asks=frozenset({WORD}))
    (hook,) = hooks(Registry(both)).values()
    assert hook["rules"][0]["operations"] == ["CREATE", "UPDATE", "DELETE"]
    assert all(f"'{word}'" in hook["matchConditions"][1]["expression"] for word in (ABOVE, ROLE, WORD))


def test_a_mutated_kind_has_a_mutating_webhook_for_its_creation() -> None:
    registry = Registry((marking(), a_source_type("words", spelled, SECRET, asks=frozenset({WORD}))))
    (hook,) = hooks(registry, kind=MUTATING).values()

    assert hook["name"] == "things.toys.dev.samara.dev"
    assert hook["rules"][0]["operations"] == ["CREATE"]
    assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["reinvocationPolicy"]) == ("Fail", 5, "Never")
    assert "reinvocationPolicy" not in hooks(registry)["things.toys.dev.samara.dev"]
    assert webhook_configuration(registry, {}, kind=MUTATING)["kind"] == "MutatingWebhookConfiguration"


def test_only_the_configurations_that_have_a_webhook_are_needed() -> None:
    assert needed_configurations(a_registry().source_types) == (VALIDATING,)
    assert needed_configurations((marking(),)) == (VALIDATING, MUTATING)
    assert needed_configurations((a_source_type("silent", None, SECRET),)) == ()
    assert MUTATE == "/mutate"


def test_an_endpoint_is_a_service_or_a_url() -> None:
    bundle = base64.b64encode(b"CA").decode()
    service = {"name": "samara-webhook", "namespace": "samara", "path": "/convert", "port": 443}

    assert SERVICE.client_config(CONVERT, b"CA") == {"service": service, "caBundle": bundle}
    assert URL.client_config(CONVERT, b"CA") == {"url": "https://127.0.0.1:9443/convert", "caBundle": bundle}
    assert "caBundle" not in SERVICE.client_config(ADMIT, b"")
    assert (SERVICE.host, SERVICE.port) == ("samara-webhook.samara.svc", 443)
    assert (URL.host, URL.port) == ("127.0.0.1", 9443)


def test_an_endpoint_recognises_client_configs_that_call_it() -> None:
    for endpoint in (SERVICE, URL):
        assert endpoint.is_called_by(endpoint.client_config(ADMIT, b""))
    assert not URL.is_called_by(Endpoint("samara", "https://127.0.0.1:9444").client_config(ADMIT, b""))
    assert not SERVICE.is_called_by(Endpoint("elsewhere").client_config(ADMIT, b""))
    assert not SERVICE.is_called_by({"service": {"namespace": "samara", "name": "other"}})
    assert not SERVICE.is_called_by({})


def test_a_conversion_leads_to_the_endpoint() -> None:
    conversion = webhook_conversion(SERVICE.client_config(CONVERT, b"CA"))

    assert conversion["strategy"] == "Webhook"
    assert conversion["webhook"]["conversionReviewVersions"] == ["v1"]
    assert SERVICE.is_called_by(conversion["webhook"]["clientConfig"])


@pytest.mark.parametrize(
    "url", ["http://a", "https://", "a.b", "https://a?b=c", "https://a#b", "https://me:word@a", "https://a:port"]
)
def test_a_url_that_the_api_server_would_refuse_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="webhook-url"):
        Endpoint("samara", url)


@pytest.mark.parametrize("wanted", [NO_CONVERSION, TO_SERVICE, TO_URL], ids=["none", "service", "url"])
@pytest.mark.parametrize("have", [None, NO_CONVERSION, TO_SERVICE, TO_URL], ids=["absent", "none", "service", "url"])
def test_after_the_patch_any_crd_converts_as_wanted(have: Any, wanted: Any) -> None:
    before = {"metadata": {"resourceVersion": "7"}, "spec": {"group": "toys.dev", "conversion": have}}
    patch = conversion_patch(before, wanted)
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert merged(before, patch) == {**before, "spec": {"group": "toys.dev", "conversion": wanted}}


def test_vocabularies_that_guard_one_kind_share_a_webhook_that_either_of_them_calls() -> None:
    keys = ("toys.dev/one", "toys.dev/two")
    both = [a_source_type(key[-3:], spelled, SECRET, asks=frozenset({key})) for key in keys]
    (joined,) = hooks(Registry(tuple(both))).values()
    alone = [next(iter(hooks(Registry((source_type,))).values())) for source_type in both]
    conditions = [webhook["matchConditions"][0]["expression"] for webhook in (joined, *alone)]
    assert conditions[0] == f"{conditions[1]} || {conditions[2]}"
