"""Questions that only the API server can answer. Each takes a few requests, and none changes anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from samara.core.kinds import SERVICE_ACCOUNT
from samara.core.model import NAMESPACE, Content, Kind, Object, OwnerReference, Ref
from samara.core.queries import CrdExists, DryRunCreate, NamespaceIsActive, OwnerAnnotation, Rejected
from samara.kube.client import METADATA, METADATA_LIST, OUR_WRITES, Client, address, collection
from samara.kube.codec import Codec, decode, encode
from samara.kube.discovery import kinds_of
from samara.kube.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    Invalid,
    InvalidName,
    NotFound,
    ServerFault,
    TooMany,
    Unauthorized,
)

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
REVIEW_OF_OTHERS = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
DRY_RUN = {"dryRun": "All"}
_MAX_ACCOUNTS = 20
"""ServiceAccounts of a namespace that are asked about."""
_LISTED_ACCOUNTS = 500


class _OwnerReference(msgspec.Struct):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[_OwnerReference] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Object] | None = None


class _Verdict(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Verdict


_object = msgspec.json.Decoder(_Object).decode
_list = msgspec.json.Decoder(_List).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_review = msgspec.json.Decoder(_Review).decode


async def dry_run_create(client: Client, codec: Codec, namespace: str, query: DryRunCreate) -> Content | Rejected:
    """The content that the API server would store if the object were created in this namespace, or why it refuses.

    Callers pass the operator's own namespace, where it may create objects for a dry run.
    """
    try:
        return codec.object(query.kind, await _dry_run(client, namespace, query)).content
    except (TooMany, ServerFault, Unauthorized, NotFound):
        raise
    except ApiError as fault:
        return Rejected(str(fault), is_about_object=isinstance(fault, Invalid) and not fault.denied)


async def _dry_run(client: Client, namespace: str, query: DryRunCreate) -> bytes:
    manifest = _fields(query.body)  # only metadata is decoded: the values would take many times the memory of the bytes
    metadata = {**_metadata_in(manifest), "generateName": "samara-trial-", "namespace": namespace}

    async def create(metadata: object) -> bytes:
        body = encode({**manifest, "metadata": metadata})
        path = collection(query.kind, namespace)
        return await client.request("POST", path, body, params={**OUR_WRITES, **DRY_RUN})

    try:
        return await create(metadata)
    except AlreadyExists:
        # The API server checks the name last, so the object is valid. A generated name shows its stored content.
        return await create({key: value for key, value in metadata.items() if key != "name"})


def _metadata_in(manifest: Mapping[str, msgspec.Raw]) -> Mapping[str, Any]:
    return decode(manifest["metadata"]) or {} if "metadata" in manifest else {}


async def crd_established(client: Client, query: CrdExists) -> bool:
    """False if the CRD is gone or being deleted. The API server then deletes its objects as well."""
    kind = query.kind
    try:
        crd = _object(await client.get(address(Ref(CRD, "", f"{kind.plural}.{kind.group}"))))
    except NotFound:
        return False
    return crd.metadata.deletionTimestamp is None


async def namespace_alive(client: Client, query: NamespaceIsActive) -> bool:
    """False if the Namespace is gone or being deleted. It is listed rather than read, since the reflector needs the
    right to list Namespaces anyway."""
    namespaces = _list(await client.get(collection(NAMESPACE), {"fieldSelector": f"metadata.name={query.name}"}))
    return any(namespace.metadata.deletionTimestamp is None for namespace in namespaces.items or ())


async def read_object(client: Client, codec: Codec, ref: Ref) -> Object | None:
    """The current object, or None if it does not exist."""
    try:
        return codec.object(ref.kind, await client.get(address(ref)))
    except NotFound:
        return None


async def owner_annotation(client: Client, query: OwnerAnnotation) -> str | Rejected:
    """The value of an annotation of an object's owner: empty if the owner does not exist, was replaced, or lacks the
    annotation, and `Rejected` if we may not read it."""
    try:
        owner = await _controller(client, query.owner) if isinstance(query.owner, Ref) else query.owner
        if owner is None:
            return ""
        kind = (await kinds_of(client, owner.api_version)).get(owner.kind)
        if kind is None:
            return ""
        ref = Ref(kind, query.namespace if kind.namespaced else "", owner.name)
        metadata = _object(await client.get(address(ref), accept=METADATA)).metadata
    except (NotFound, InvalidName):  # users can write any name into an owner reference
        return ""
    except Forbidden as fault:
        return Rejected(str(fault))
    return (metadata.annotations or {}).get(query.annotation, "") if metadata.uid == owner.uid else ""


async def _controller(client: Client, ref: Ref) -> OwnerReference | None:
    metadata = _object(await client.get(address(ref), accept=METADATA)).metadata
    controllers = (owner for owner in metadata.ownerReferences or () if owner.controller)
    return next((OwnerReference(owner.apiVersion, owner.kind, owner.name, owner.uid) for owner in controllers), None)


async def is_allowed(
    request: Callable[[str, str, bytes], Awaitable[bytes]], verb: str, kind: Kind, namespace: str = "", name: str = ""
) -> bool:
    """True if RBAC lets us use this verb on a kind: everywhere, in one namespace, or on one object."""
    return await _is_granted(request, ACCESS_REVIEW, {}, verb, kind, namespace, name)


async def may_any_account(client: Client, namespace: str, verb: str, kind: Kind, hints: str) -> bool:
    """True if a ServiceAccount of this namespace may use this verb on a kind in every namespace.

    Only an administrator can have granted that: no user can grant more rights than their own. Accounts whose name
    occurs in `hints` are asked about first, then the oldest. The pod in the name of a holder would say which account it
    is, but the operator has no right to read pods.
    """
    query = {"limit": str(_LISTED_ACCOUNTS)}
    raw = await client.get(collection(SERVICE_ACCOUNT, namespace), query, accept=METADATA_LIST)
    accounts = [account.metadata for account in _list(raw).items or ()]
    accounts.sort(key=lambda account: (account.name not in hints, account.creationTimestamp or "", account.name))
    for account in accounts[:_MAX_ACCOUNTS]:
        if await may_account(client, namespace, account.name, verb, kind):
            return True
    return False


async def may_account(client: Client, namespace: str, name: str, verb: str, kind: Kind) -> bool:
    """True if this ServiceAccount may use this verb on a kind in every namespace."""
    everyone = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    subject = {"user": f"system:serviceaccount:{namespace}:{name}", "groups": everyone}
    return await _is_granted(client.request, REVIEW_OF_OTHERS, subject, verb, kind)


async def _is_granted(  # noqa: PLR0913 - the parts of a review
    request: Callable[[str, str, bytes], Awaitable[bytes]],
    review_kind: Kind,
    subject: Mapping[str, object],
    verb: str,
    kind: Kind,
    namespace: str = "",
    name: str = "",
) -> bool:
    attributes = {
        "verb": verb,
        "group": kind.group,
        "version": kind.version,
        "resource": kind.plural,
        "namespace": namespace,
        "name": name,
    }
    review = {
        "apiVersion": review_kind.api_version,
        "kind": review_kind.name,
        "spec": {**subject, "resourceAttributes": attributes},
    }
    return _review(await request("POST", collection(review_kind), encode(review))).status.allowed
