"""The fields of the custom resources as tables, from the definitions that `samara crds` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from samara import crds

Json = dict[str, Any]
HEAD = "| field | type | required | is |\n| --- | --- | --- | --- |"
KNOWN = ("apiVersion", "kind", "metadata")
"""Fields of every object, which our CRDs do not describe further."""


class Field(NamedTuple):
    path: str
    type: str
    required: bool
    about: str


def custom_resources() -> str:
    return "\n".join(part for name in crds.shipped() for part in _resource(yaml.safe_load(crds.text(name))))


def _resource(definition: Json) -> Iterator[str]:
    spec = definition["spec"]
    where = "In a namespace" if spec["scope"] == "Namespaced" else "In no namespace"
    for version in spec["versions"]:
        if version["served"]:
            stored = ", and stored in this version" if version["storage"] else ""
            schema = version["schema"]["openAPIV3Schema"]
            yield f"## {spec['names']['kind']} `{spec['group']}/{version['name']}`\n"
            yield f"{where}{stored}. {_line(schema)}".rstrip() + "\n"
            yield "\n".join((HEAD, *map(_row, _fields(schema, ""))))
            yield ""


def _row(field: Field) -> str:
    return f"| `{field.path}` | {field.type} | {'yes' if field.required else ''} | {field.about} |"


def _fields(schema: Json, parent: str) -> Iterator[Field]:
    """The fields of an object, each followed by the fields inside it."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if parent or name not in KNOWN:
            path = f"{parent}.{name}" if parent else name
            yield Field(path, _type(field), name in required, _about(field))
            yield from _fields(*_within(field, path))


def _within(schema: Json, path: str) -> tuple[Json, str]:
    """Where the fields inside a field are: in its own schema, or for a list in that of its items."""
    return _within(schema["items"], f"{path}[]") if "items" in schema else (schema, path)


def _type(schema: Json) -> str:
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return f"map of {_type(values)}"
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return str(schema.get("type", "any"))


def _about(schema: Json) -> str:
    """The description, the allowed values and the default."""
    sentences = [
        _line(schema),
        f"One of {', '.join(f'`{value}`' for value in schema['enum'])}." if "enum" in schema else "",
        f"Without it: `{schema['default']}`." if "default" in schema else "",
    ]
    return " ".join(filter(None, sentences))


def _line(schema: Json) -> str:
    return " ".join(str(schema.get("description", "")).split()).replace("|", "\\|")
