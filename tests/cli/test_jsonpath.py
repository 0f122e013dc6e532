"""JSONPath templates print what kubectl prints for them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from samara.cli.jsonpath import TemplateError, parse_template
from samara_devtools.devcluster import find
from samara_devtools.devcluster.cluster import to_stderr

ANSWER: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "metadata": {"name": "one"},
    "sources": [
        {
            "name": "db",
            "wanted": 3,
            "held": None,
            "own": True,
            "reasons": [
                {"reason": "conflict", "sample": ["shop", "till"]},
                {"reason": "invalid", "sample": []},
            ],
        },
        {"name": "ca", "wanted": 10, "own": False, "origin": "x", "reasons": []},
    ],
    "labels": {"a.b": "dotted", "a": {"b": "nested"}},
}

ACCEPTED_BY_KUBECTL = {
    "{.sources[*].name}": "db ca",
    "{.sources[0].name}{.sources[-1].name}": "dbca",
    "{.sources[0:1].name} {.sources[1:].name} {.sources[:2].name} {.sources[::2].name}": "db ca db ca db",
    "{.sources[0,1].name}": "db ca",
    "{.sources[*]['name', 'wanted']}": "db ca 3 10",
    '{range .sources[*]}{.name}{"\\t"}{.wanted}{"\\n"}{end}done': "db\t3\nca\t10\ndone",
    "{range .sources[*]}{.name}:{range .reasons[*]} {.reason}={range .sample[*]}{@},{end}{end};{end}": (
        "db: conflict=shop,till, invalid=;ca:;"
    ),
    "{range .sources[*]}{.name} ": "db ca ",
    "{range .missing[*]}x{end}": "",
    '{.sources[?(@.name=="db")].wanted}': "3",
    "{.sources[?(@.name!='db')].wanted}": "10",
    "{.sources[?(@.wanted>3)].name}{.sources[?(@.wanted>=3)].name}": "cadb ca",
    "{.sources[?(@.wanted<10)].name}{.sources[?(@.wanted<=10)].name}": "dbdb ca",
    "{.sources[?(@.own==true)].name}": "db",
    "{.sources[?(@.own)].name}": "db ca",
    "{.sources[?(@.origin)].name}": "ca",
    '{.sources[?("db"==@.name)].name}': "db",
    "{.sources[*].reasons[*].reason}": "conflict invalid",
    "{.sources..reason}": "conflict invalid",
    "{.sources[0].reasons[0]}": '{"reason":"conflict","sample":["shop","till"]}',
    "{.sources[0].own} {.sources[0].held}": "true null",
    "{.labels.a\\.b} {.labels['a\\.b']} {.labels['a.b']}": "dotted dotted nested",
    "{.missing.deeper}|{.kind.name}|{.sources.name}": "||",
    "{$.kind} {@.kind} {['kind']} { .kind } kind": "Thing Thing Thing Thing kind",
    '{"\\"quoted\\" \\\\ \\u00e9"}': '"quoted" \\ é',
}
MARKER = "\n%%\n"


@pytest.mark.parametrize("template", ACCEPTED_BY_KUBECTL)
def test_a_template_is_filled_in(template: str) -> None:
    assert parse_template(template).render(ANSWER) == ACCEPTED_BY_KUBECTL[template]


@pytest.mark.cluster
def test_kubectl_prints_the_same(tmp_path: Path) -> None:
    file = tmp_path / "thing.json"
    file.write_text(json.dumps(ANSWER))
    closed = [template for template in ACCEPTED_BY_KUBECTL if template.count("range") == template.count("end}")]
    command = [str(find(to_stderr).kubectl), "annotate", "--local", f"--filename={file}", "a=b", "--output"]
    done = subprocess.run(
        [*command, f"jsonpath={MARKER.join(closed)}"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split(MARKER) == [ACCEPTED_BY_KUBECTL[template] for template in closed]


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ('{.sources[?(@.reasons[*].reason=="invalid")].name}', "db"),
        ('{.sources[?(@.reasons[1].reason=="invalid")].name}', "db"),
        ('{.sources[?(@.reasons[-1].reason=="invalid")].name}', "db"),
        ("{.sources[?(@.held==null)].name}", "db"),
        ("{.sources[?(@.origin!=null)].name}", "ca"),
        ("{.metadata[*]} {.metadata.*}", "one one"),
        ('{.labels["a\\.b"]}', "dotted"),
        ("{.sources[ 0 ].name}", "db"),
        ("{.sources[5:7].name}", ""),
        ("{.}", json.dumps(ANSWER, sort_keys=True, separators=(",", ":"))),
    ],
)
def test_some_templates_mean_more_than_in_kubectl(template: str, printed: str) -> None:
    assert parse_template(template).render(ANSWER) == printed


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (".sources[*].name", "expected paths in braces such as {.sources[*].name}, found '.sources[*].name'"),
        ("{.sources[*].name", "expected } at the end of an expression, found the end"),
        ("{.sources[", "expected *, an index, a slice such as 0:2, a name in quotes or a filter ?(…), found the end"),
        ("{.sources[x]}", "a filter ?(…), found 'x]}'"),
        ("{.sources[0}", "expected ] at the end of a subscript, found '}'"),
        ("{.sources[::0]}", "expected a step of 1 or more, found 0"),
        ("{.a}{end}", "expected a range before its end, found {end}"),
        ("{name}", "expected a path that begins with . or [, a text in quotes, range or end, found 'name}'"),
        ("{.a.}", "expected a name or * after ., found '}'"),
        ("{.a, .b}", "expected } at the end of an expression, found ', .b}'"),
        ('{.a[?(@.b=="x" && @.c)]}', "expected ) after one comparison with ==, !=, <, <=, > or >=, found '&& @.c)]}'"),
        ('{"\\q"}', 'expected only escapes such as \\n, \\t, \\" and \\\\ in quotes, found "\\q"'),
    ],
)
def test_a_mistake_in_a_template_is_named(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as raised:
        parse_template(template)
    assert str(raised.value).endswith(message)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.sources[2].name}", "[2]: expected a longer list, found one of 2"),
        ("{.sources[-3].name}", "[-3]: expected a longer list, found one of 2"),
        ("{.kind[0]}", "[…]: expected a list, found a text"),
        ('{.sources[?(@.wanted=="3")]}', "==: expected two numbers or two texts, found a number and a text"),
    ],
)
def test_a_template_that_does_not_fit_the_answer_says_what_was_expected(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as raised:
        parse_template(template).render(ANSWER)
    assert str(raised.value) == message


def test_control_characters_of_others_are_not_printed() -> None:
    assert parse_template('{.message}{"\\n"}').render({"message": "a\x1b[2Jb"}) == "a·[2Jb\n"
