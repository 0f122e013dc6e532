"""Short constructors for namespaces and objects of trees."""

from __future__ import annotations

from samara.cli.inspect.namespaces import Namespace, Object

KEY = "accurate.cybozu.com"


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(name, {f"{KEY}/{key}": value for key, value in labels.items()})


def obj(namespace: str, name: str, mode: str = "", origin: str = "") -> Object:
    marks = {f"{KEY}/propagate": mode, f"{KEY}/from": origin}
    return Object(namespace, name, {key: value for key, value in marks.items() if value})
