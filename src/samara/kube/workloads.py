"""Deployments and CronJobs of the cluster: which images they run, under which account, and whether they run at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from samara.core.model import Kind, Ref
from samara.kube.client import Client, collection

_PAGE = 500


class _Container(msgspec.Struct):
    image: str = ""


class _PodSpec(msgspec.Struct):
    containers: list[_Container] | None = None
    serviceAccountName: str = ""


class _Template(msgspec.Struct):
    spec: _PodSpec | None = None


class _JobSpec(msgspec.Struct):
    template: _Template | None = None


class _JobTemplate(msgspec.Struct):
    spec: _JobSpec | None = None


class _Spec(msgspec.Struct):
    replicas: int | None = None
    template: _Template | None = None
    suspend: bool | None = None
    jobTemplate: _JobTemplate | None = None


class _Status(msgspec.Struct):
    replicas: int | None = None


class _Metadata(msgspec.Struct):
    name: str
    namespace: str
    creationTimestamp: str | None = None


class _Workload(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


class _ListMetadata(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: list[_Workload] | None = None


_list = msgspec.json.Decoder(_List).decode


class Workload(NamedTuple):
    """A Deployment or a CronJob."""

    ref: Ref
    created: str
    images: frozenset[str]
    """The last part of the path of each image, without tag and digest."""
    account: str
    """The ServiceAccount of its pods."""
    replicas: int
    """Those that are wanted, or those that are left: the larger number. 1 for a CronJob that is not suspended."""

    @property
    def is_running(self) -> bool:
        return self.replicas > 0


async def workloads(client: Client, kind: Kind) -> AsyncIterator[Workload]:
    """All Deployments or all CronJobs."""
    token = ""
    while True:
        params = {"limit": str(_PAGE), **({"continue": token} if token else {})}
        page = _list(await client.get(collection(kind), params))
        for item in page.items or ():
            yield _workload(kind, item)
        token = page.metadata.continue_
        if not token:
            return


def _workload(kind: Kind, item: _Workload) -> Workload:
    meta, spec = item.metadata, item.spec
    template = spec.template
    if spec.jobTemplate is not None:
        template = spec.jobTemplate.spec.template if spec.jobTemplate.spec is not None else None
        replicas = 0 if spec.suspend else 1
    else:
        wanted, left = spec.replicas, item.status.replicas if item.status is not None else None
        replicas = max(1 if wanted is None else wanted, left or 0)
    pods = template.spec if template is not None and template.spec is not None else _PodSpec()
    images = frozenset(image_name(container.image) for container in pods.containers or ())
    ref = Ref(kind, meta.namespace, meta.name)
    return Workload(ref, meta.creationTimestamp or "", images, pods.serviceAccountName or "default", replicas)


def image_name(image: str) -> str:
    """The last part of the path of an image: `ghcr.io/emberstack/kubernetes-reflector:9` is `kubernetes-reflector`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
