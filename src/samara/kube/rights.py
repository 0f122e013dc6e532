"""Asks the server what we may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from samara.core.model import Kind
from samara.kube.client import collection
from samara.kube.codec import encode

REVIEW = Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False)


class _Verdict(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Verdict


_review = msgspec.json.Decoder(_Review).decode


async def may(
    request: Callable[[str, str, bytes], Awaitable[bytes]], verb: str, kind: Kind, namespace: str = "", name: str = ""
) -> bool:
    """Whether a verb is ours on a kind: everywhere, in one namespace, or on one object."""
    place = {"namespace": namespace, "name": name}
    asked = {"verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural, **place}
    review = {"apiVersion": REVIEW.api_version, "kind": REVIEW.name, "spec": {"resourceAttributes": asked}}
    return _review(await request("POST", collection(REVIEW), encode(review))).status.allowed
