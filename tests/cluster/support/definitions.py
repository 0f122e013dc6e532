"""Installs custom resource definitions for a test and removes them afterwards, even if the test fails."""

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
"""Seconds. The server recreates the storage of a kind after each change of its definition, late on a busy machine."""


@contextmanager
def defined(cluster: Devcluster, text: str) -> Iterator[Api]:
    """Installs a definition and removes it afterwards. Removes one that an earlier test left behind, too."""
    with closing(Api(cluster.url, cluster._credentials.admin_context())) as api:
        undefine(cluster, api, _name(text))
        try:
            define(cluster, api, text)
            yield api
        finally:
            undefine(cluster, api, _name(text))


def define(cluster: Devcluster, api: Api, text: str) -> None:
    """Applies a definition with kubectl and waits until every version of it is served."""
    cluster.kubectl("apply", "-f", "-", input=text)
    eventually(lambda: all(map(api.serves, _served(text))), CHANGED)


def undefine(cluster: Devcluster, api: Api, name: str) -> None:
    """Deletes a definition with its objects, despite finalizers and without calling a conversion webhook."""
    path = f"{DEFINITIONS}/{name}"
    plural, _, group = name.partition(".")

    def is_gone() -> bool:
        if api.find(path) is None:
            return True
        with suppress(ApiFault):  # the server may delete or change it at the same time
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
            return False  # the server is overloaded: retry, because a remaining definition would fail later tests

    eventually(is_gone_by_now, CHANGED)


def _name(text: str) -> str:
    return str(yaml.safe_load(text)["metadata"]["name"])


def _served(text: str) -> list[str]:
    spec = yaml.safe_load(text)["spec"]
    names = [version["name"] for version in spec["versions"] if version["served"]]
    return [f"/apis/{spec['group']}/{name}/{spec['names']['plural']}" for name in names]
