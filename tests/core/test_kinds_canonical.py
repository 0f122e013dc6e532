"""The canonical form in which the server stores content."""

from typing import Any

import pytest

from samara.core.kinds import CLAIM, SERVICE, rules_for
from samara.core.model import CONFIG_MAP, SECRET, Kind


def normal(kind: Kind, **fields: Any) -> Any:
    made = rules_for(kind).canonical
    assert made is not None
    return made(fields)


def test_string_data_is_merged_into_data_and_wins() -> None:
    assert normal(SECRET, data={"a": "YQ==", "b": "Yg=="}, stringData={"b": "two"}) == {
        "data": {"a": "YQ==", "b": "dHdv"},
        "type": "Opaque",
    }


def test_an_empty_mapping_is_omitted_as_the_server_omits_it() -> None:
    assert normal(SECRET, data={}, type="kubernetes.io/tls") == {"type": "kubernetes.io/tls"}
    assert normal(CONFIG_MAP, data={}, binaryData=None) == {}


def test_base64_is_normalized() -> None:
    assert normal(SECRET, data={"a": "YW\nJj\r\n"})["data"] == {"a": "YWJj"}
    assert normal(CONFIG_MAP, binaryData={"a": "YR=="})["binaryData"] == {"a": "YQ=="}


def test_null_becomes_an_empty_value() -> None:
    assert normal(SECRET, data={"a": None})["data"] == {"a": ""}


def test_an_explicit_immutable_field_is_kept() -> None:
    assert normal(CONFIG_MAP, data={"a": "1"}, immutable=False) == {"data": {"a": "1"}, "immutable": False}


def test_fields_that_the_server_does_not_know_are_omitted() -> None:
    assert normal(CONFIG_MAP, data={"a": "1"}, extra="x") == {"data": {"a": "1"}}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (SECRET, {"data": {"a": "no base64!"}}),
        (SECRET, {"data": {"a": 1}}),
        (SECRET, {"data": ["a"]}),
        (SECRET, {"stringData": {"a": True}}),
        (SECRET, {"type": 5}),
        (SECRET, {"immutable": "yes"}),
        (CONFIG_MAP, {"data": {"a": 8080}}),
        (CONFIG_MAP, {"binaryData": {"a": "%"}}),
    ],
)
def test_content_that_the_server_would_refuse_has_no_stored_form(kind: Kind, fields: dict[str, Any]) -> None:
    assert normal(kind, **fields) is None


def test_a_service_is_compared_without_its_allocated_addresses() -> None:
    spec = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80, "nodePort": 30080}]}
    assert rules_for(SERVICE).strip_own_fields["spec"](spec) == {"ports": [{"port": 80}]}


def test_a_headless_service_has_headless_copies() -> None:
    spec = {"clusterIP": "None", "clusterIPs": ["None"]}
    assert rules_for(SERVICE).strip_own_fields["spec"](spec) == spec


def test_a_claim_is_compared_without_its_bound_volume() -> None:
    assert rules_for(CLAIM).strip_own_fields["spec"]({"volumeName": "pv-1", "accessModes": ["A"]}) == {
        "accessModes": ["A"]
    }
