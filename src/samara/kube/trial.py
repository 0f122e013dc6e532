"""Asks the server what it would make of an object; nothing is stored."""

from __future__ import annotations

from samara.core.model import Content
from samara.core.reads import Rejected, Trial
from samara.kube.client import AS_US, Client, collection
from samara.kube.codec import Codec, decode, encode
from samara.kube.errors import ApiError, NotFound, ServerFault, TooMany, Unauthorized

DRY_RUN = {"dryRun": "All"}


async def tried(client: Client, codec: Codec, home: str, trial: Trial) -> Content | Rejected:
    """The content that the server would store in our own namespace, or why it would not."""
    sent = decode(trial.body)
    sent["metadata"] = {**(sent.get("metadata") or {}), "generateName": "samara-trial-", "namespace": home}
    try:
        raw = await client.request("POST", collection(trial.kind, home), encode(sent), params={**AS_US, **DRY_RUN})
    except (TooMany, ServerFault, Unauthorized, NotFound):
        raise
    except ApiError as fault:
        return Rejected(str(fault))
    return codec.object(trial.kind, raw).content
