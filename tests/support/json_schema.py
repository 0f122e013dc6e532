"""The published JSON Schemas, and a small validator for the keywords they use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from tests.support.pages import ROOT

from samara.cli.main import COMMANDS, samara

FOLDER = ROOT / "docs" / "reference" / "schemas"
LISTS = frozenset({"crds", "manifests"})
"""These commands print Kubernetes Lists, which need no schema of ours. The schema of `rbac` is that of `--explain`."""
OF_LISTS = frozenset({"why-list"})
"""The schemas of what a command prints for several objects, beside the schema of one."""
_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}
_KEYWORDS = {"type", "enum", "minimum", "required", "properties", "items", "$ref"}
_IGNORED = {"$comment", "$schema", "$defs", "title", "description"}

Json = Any


def commands() -> tuple[str, ...]:
    """The commands that print JSON of our own shape."""
    with samara.make_context("samara", [], resilient_parsing=True) as context:
        registered = {name: samara.get_command(context, name) for name in COMMANDS if name not in LISTS}
    return tuple(name for name, command in registered.items() if command is not None and _prints_json(command))


def _prints_json(command: click.Command) -> bool:
    shown = (parameter.metavar or "" for parameter in command.params if "-o" in parameter.opts)
    return any("json" in metavar.strip("[]").split("|") for metavar in shown)


def schema(command: str) -> dict[str, Json]:
    document: dict[str, Json] = json.loads((FOLDER / f"{command}.json").read_text())
    return document


def check(command: str, answer: Json) -> None:
    """Fails if an answer violates its schema or has a field that the schema does not name."""
    faults = list(faults_of(schema(command), answer))
    assert not faults, "\n".join(faults)


def faults_of(schema_document: dict[str, Json], answer: Json) -> Iterator[str]:
    return _faults(schema_document, schema_document, answer, "$")


def _faults(schema_document: dict[str, Json], rule: dict[str, Json], value: Json, at: str) -> Iterator[str]:
    unknown = rule.keys() - _KEYWORDS - _IGNORED
    assert not unknown, f"this validator does not know the keywords {sorted(unknown)}"
    if "$ref" in rule:
        other, _, name = rule["$ref"].partition("#/$defs/")
        document = schema(other.removesuffix(".json")) if other else schema_document
        yield from _faults(document, document["$defs"][name] if name else document, value, at)
        return
    if "enum" in rule and value not in rule["enum"]:
        yield f"{at}: expected one of {rule['enum']}, found {value!r}"
    if "type" in rule and not _is_of(value, rule["type"]):
        yield f"{at}: expected {rule['type']}, found {value!r}"
    elif isinstance(value, dict):
        yield from _members(schema_document, rule, value, at)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _faults(schema_document, rule["items"], item, f"{at}[{number}]")
    elif isinstance(value, int) and value < rule.get("minimum", value):
        yield f"{at}: expected at least {rule['minimum']}, found {value}"


def _members(schema_document: dict[str, Json], rule: dict[str, Json], value: dict[str, Json], at: str) -> Iterator[str]:
    for name in rule["required"]:
        if name not in value:
            yield f"{at}.{name}: the field is missing"
    for name, member in value.items():
        if name not in rule["properties"]:
            yield f"{at}.{name}: the schema does not have this field"
        else:
            yield from _faults(schema_document, rule["properties"][name], member, f"{at}.{name}")


def _is_of(value: Json, types: str | list[str]) -> bool:
    named = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return "boolean" in named
    return any(isinstance(value, _TYPES[name]) for name in named if name != "boolean")
