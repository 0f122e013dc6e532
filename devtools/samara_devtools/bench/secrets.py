"""The Secrets of the benchmark: sources, copies of the bare client, and unrelated ones."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from samara_devtools.bench.bare import JSON, encode

if TYPE_CHECKING:
    from samara_devtools.bench.options import Options

KIB = 1024


def content(seed: str, size: int = KIB) -> dict[str, str]:
    """The data of a Secret with a value of this many bytes, the same for the same seed."""
    return {"value": base64.b64encode(random.Random(seed).randbytes(size)).decode()}


def secret(namespace: str, name: str, data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": data}


def secrets_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


@dataclass(frozen=True, slots=True)
class Source:
    """A Secret that the controller copies to every namespace. Each edition has other content."""

    options: Options
    name: str
    edition: int = 0

    resource = "secrets"

    @property
    def data(self) -> dict[str, str]:
        return content(f"{self.name} {self.edition}")

    def request(self) -> tuple[str, str, bytes, str]:
        """Method, path, body and content type of the write that makes this edition."""
        path = secrets_path(self.options.home)
        if self.edition:
            return "PUT", f"{path}/{self.name}", self.body(), JSON
        return "POST", path, self.body(), JSON

    def body(self) -> bytes:
        metadata = {"labels": self.options.labels, "annotations": self.options.annotations}
        return encode(secret(self.options.home, self.name, self.data, **metadata))

    def changed(self) -> Source:
        return replace(self, edition=self.edition + 1)


def copy_body(namespace: str, name: str, data: dict[str, str], version: str = "") -> bytes:
    """The body of a copy as a controller sends it: the content, one label and one annotation."""
    metadata = {"labels": {"bench/from": f"admin-{name}"}, "annotations": {"bench/origin": f"admin/{name}"}}
    return encode(secret(namespace, name, data, **metadata, **({"resourceVersion": version} if version else {})))


def unrelated_secrets(namespaces: list[str], number: int) -> Iterator[tuple[str, bytes]]:
    """Paths and bodies of Secrets of 10 KiB that are neither sources nor copies."""
    for index in range(number):
        namespace = namespaces[index % len(namespaces)]
        name = f"unrelated-{index}"
        yield secrets_path(namespace), encode(secret(namespace, name, content(name, 10 * KIB)))
