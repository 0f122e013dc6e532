"""Asks the server what it would make of an object; nothing is stored."""

from __future__ import annotations

from samara.core.model import Content
from samara.core.reads import Rejected, Trial
from samara.kube.client import OUR_WRITES, Client, collection
from samara.kube.codec import Codec, decode, encode
from samara.kube.errors import AlreadyExists, ApiError, NotFound, ServerFault, TooMany, Unauthorized

DRY_RUN = {"dryRun": "All"}


async def tried(client: Client, codec: Codec, home: str, trial: Trial) -> Content | Rejected:
    """The content that the server would store in our own namespace, or why it would not."""
    try:
        return codec.object(trial.kind, await _answer(client, home, trial)).content
    except (TooMany, ServerFault, Unauthorized, NotFound):
        raise
    except ApiError as fault:
        return Rejected(str(fault))


async def _answer(client: Client, home: str, trial: Trial) -> bytes:
    """A name that is taken in our namespace has been judged, and is good: the content is learnt under a free one."""
    sent = decode(trial.body)
    meta = {**(sent.get("metadata") or {}), "generateName": "samara-trial-", "namespace": home}

    async def created(metadata: object) -> bytes:
        body = encode({**sent, "metadata": metadata})
        return await client.request("POST", collection(trial.kind, home), body, params={**OUR_WRITES, **DRY_RUN})

    try:
        return await created(meta)
    except AlreadyExists:
        return await created({key: value for key, value in meta.items() if key != "name"})
