"""The Secrets of the benchmark: sources, what the bare client writes, and bystanders."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from bench.bare import encode
from bench.options import Options

KIB = 1024


def content(seed: str, size: int = KIB) -> dict[str, str]:
    """Data of this many bytes, the same for the same seed."""
    return {"value": base64.b64encode(random.Random(seed).randbytes(size)).decode()}


def secret(namespace: str, name: str, data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": data}


def folder(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


@dataclass(frozen=True, slots=True)
class Source:
    """A Secret that the controller copies to every namespace; each edition has another content."""

    options: Options
    name: str
    edition: int = 0

    @property
    def folder(self) -> str:
        return folder(self.options.home)

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def data(self) -> dict[str, str]:
        return content(f"{self.name} {self.edition}")

    def body(self) -> bytes:
        words = {"labels": self.options.labels, "annotations": self.options.annotations}
        return encode(secret(self.options.home, self.name, self.data, **words))

    def changed(self) -> Source:
        return replace(self, edition=self.edition + 1)


def like_a_copy(namespace: str, name: str, data: dict[str, str], version: str = "") -> bytes:
    """What a controller has to send for a copy: the content, one label and one annotation."""
    words = {"labels": {"bench/from": f"admin-{name}"}, "annotations": {"bench/origin": f"admin/{name}"}}
    return encode(secret(namespace, name, data, **words, **({"resourceVersion": version} if version else {})))


def unrelated(namespaces: list[str], number: int) -> Iterator[tuple[str, bytes]]:
    """Folders and bodies of Secrets of 10 KiB that nobody has asked to copy."""
    for index in range(number):
        namespace = namespaces[index % len(namespaces)]
        name = f"unrelated-{index}"
        yield folder(namespace), encode(secret(namespace, name, content(name, 10 * KIB)))
