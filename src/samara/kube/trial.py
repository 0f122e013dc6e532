"""Asks the server what it would make of an object; nothing is stored."""

from __future__ import annotations

from samara.core.model import Content, Kind
from samara.core.reads import Rejected, Trial
from samara.kube.client import AS_US, Client, collection
from samara.kube.codec import Codec, decode, encode
from samara.kube.errors import AlreadyExists, ApiError, NotFound, ServerFault, TooMany, Unauthorized

DRY_RUN = {"dryRun": "All"}


async def tried(client: Client, codec: Codec, home: str, trial: Trial) -> Content | Rejected:
    """The content that the server would store in our own namespace, or why it would not."""
    sent = decode(trial.body)
    meta = {**(sent.get("metadata") or {}), "generateName": "samara-trial-", "namespace": home}
    nameless = {key: value for key, value in meta.items() if key != "name"}
    try:
        try:
            raw = await _created(client, trial.kind, home, {**sent, "metadata": meta})
        except AlreadyExists:  # the server judges the name before it looks; the content is learnt under a free one
            raw = await _created(client, trial.kind, home, {**sent, "metadata": nameless})
    except (TooMany, ServerFault, Unauthorized, NotFound):
        raise
    except ApiError as fault:
        return Rejected(str(fault))
    return codec.object(trial.kind, raw).content


async def _created(client: Client, kind: Kind, home: str, body: object) -> bytes:
    return await client.request("POST", collection(kind, home), encode(body), params={**AS_US, **DRY_RUN})
