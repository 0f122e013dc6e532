"""Custom resource definitions in tests: served while they are needed, and gone afterwards whatever has happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import yaml
from tests.cluster.support.api import Api, ApiFault
from tests.cluster.support.registry import forget
from tests.cluster.support.waiting import eventually

from samara_devtools.devcluster import Devcluster

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CHANGED = 60.0
"""The server makes the storage of a kind anew after each change of its definition: late, on a busy machine."""


@contextmanager
def defined(cluster: Devcluster, text: str) -> Iterator[Api]:
    """A definition, from nothing to nothing: also where a test before has left one behind."""
    with closing(Api(cluster.url, cluster._credentials.admin_context())) as api:
        undefine(cluster, api, _name(text))
        try:
            define(cluster, api, text)
            yield api
        finally:
            undefine(cluster, api, _name(text))


def define(cluster: Devcluster, api: Api, text: str) -> None:
    """As people do it; returns once every version of it is served."""
    cluster.kubectl("apply", "-f", "-", input=text)
    eventually(lambda: all(map(api.serves, _served(text))), CHANGED)


def undefine(cluster: Devcluster, api: Api, name: str) -> None:
    """Without its objects, whoever holds them, and without asking a webhook that may be gone."""
    path = f"{DEFINITIONS}/{name}"
    plural, _, group = name.partition(".")

    def is_gone() -> bool:
        if api.find(path) is None:
            return True
        with suppress(ApiFault):  # it may go, or be changed by the server, just now
            api.patch(path, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
        forget(cluster, f"{group}/{plural}/")
        api.gone(path)
        return False

    def is_gone_by_now() -> bool:
        try:
            return is_gone()
        except ApiFault as fault:
            if fault.status != 429 and fault.status < 500:
                raise
            return False  # the server was too busy to say: a definition left behind would fail the tests that follow

    eventually(is_gone_by_now, CHANGED)


def _name(text: str) -> str:
    return str(yaml.safe_load(text)["metadata"]["name"])


def _served(text: str) -> list[str]:
    spec = yaml.safe_load(text)["spec"]
    names = [version["name"] for version in spec["versions"] if version["served"]]
    return [f"/apis/{spec['group']}/{name}/{spec['names']['plural']}" for name in names]
