"""How `plan -f` reads manifests in YAML and in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samara.cli.files import Text, documents
from samara.kube.errors import ConfigError

CANARY = "CANARY-5a90"


def read(text: str) -> list[Any]:
    return documents(Text("m", text))


def a_map(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


SMILE = "\U0001f600"


@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("data", [{"a": SMILE, SMILE: "b"}, {"a": 'one\ttwo\\ " / {[,:]}'}, {"a": "\x7f\x85\u2028"}])
def test_json_is_read_as_json(indent: int | str | None, data: dict[str, str]) -> None:
    for ascii_only in (True, False):
        assert read(json.dumps(a_map(**data), indent=indent, ensure_ascii=ascii_only)) == [a_map(**data)]


def test_values_of_json_manifests_are_read_as_json() -> None:
    values: dict[str, Any] = {
        "a": 1e3,
        "b": -0.5,
        "c": [],
        "d": {},
        "e": [None, True, False],
        "f": 7,
        "<<": "g",
        "=": "h",
    }
    assert read(json.dumps(values)) == [values]
    assert read('{"a": 1e3, "b": 2001-01-01}') == [{"a": "1e3", "b": "2001-01-01"}], "no JSON, so YAML"


def test_key_is_read_as_text() -> None:
    assert read("{1: a, 2.5: {true: b}}") == [{"1": "a", "2.5": {"true": "b"}}]


def test_half_of_a_surrogate_pair_is_read_as_kubectl_reads_it() -> None:
    assert read(r'{"a": "x\ud83dy"}') == [{"a": "x\ufffdy"}]


def test_json_may_have_several_documents_and_space_around() -> None:
    assert read('\n {"a": 1}\n\t{"b": 2} {"c": 3}\n') == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_text_that_only_begins_like_json_is_read_as_yaml() -> None:
    assert read("{a: b, c: [d]}\n---\ne: f\n") == [{"a": "b", "c": ["d"]}, {"e": "f"}]


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a": "{CANARY}",\n\t"b": ]}}',
        f'{{"a": "{CANARY}"',
        '{"a":' * 4000 + f'"{CANARY}"' + "}" * 4000,
        '{"a": ' + "9" * 5000 + "}",
        f'a: "{CANARY}\\ud83d"',
        f"? [{CANARY}, b]\n: c\n",
        f"a: &a [{CANARY}, *a]\n",
        f"a: !!set {{{CANARY}}}\n",
        f"a: !!timestamp {CANARY}\n",
        f"a: !!bool {CANARY}\n",
        f"a: !!int {CANARY}\n",
        f"a: !{CANARY} b\n",
    ],
)
def test_text_that_is_no_manifest_is_refused_in_one_line_without_values(text: str) -> None:
    with pytest.raises(ConfigError) as fault:
        read(text)
    assert str(fault.value).startswith("m: ")
    assert "expected" in str(fault.value)
    assert "\n" not in str(fault.value)
    assert CANARY not in str(fault.value)


def listed(*items: Any, kind: str = "List", version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "items": list(items)}


@pytest.mark.parametrize("kind", ["List", "ConfigMapList"])
def test_the_items_of_every_list_are_documents_in_their_order(kind: str) -> None:
    assert read(json.dumps(listed(a_map(a="1"), a_map(b="2"), kind=kind))) == [a_map(a="1"), a_map(b="2")]


def test_lists_are_read_within_lists() -> None:
    inner = listed(a_map(b="2"), listed(a_map(c="3")), kind="ConfigMapList")
    assert read(json.dumps(listed(a_map(a="1"), inner, a_map(d="4")))) == [
        a_map(a="1"), a_map(b="2"), a_map(c="3"), a_map(d="4")
    ]  # fmt: skip


def test_an_item_without_a_kind_is_of_the_kind_of_its_list() -> None:
    item = {"metadata": {"name": "a"}}
    (document,) = read(json.dumps(listed(item, kind="RoleList", version="rbac.authorization.k8s.io/v1")))
    assert document == {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **item}
    assert read(json.dumps(listed(item))) == [item]


def test_an_object_that_only_sounds_like_a_list_is_one_document() -> None:
    for items in ({"a": "b"}, None):
        wish = {"apiVersion": "shop/v1", "kind": "WishList", "items": items}
        assert read(json.dumps(wish)) == [wish]


def test_deep_lists_are_read_and_recursive_ones_are_refused() -> None:
    with pytest.raises(ConfigError):
        read("&a\nkind: List\nitems: [*a]\n")
    deep = '{"kind": "List", "items": [' * 150 + "{}" + "]}" * 150
    assert read(deep) == [{}]
