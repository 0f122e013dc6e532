"""Checks FishySecrets against the specification alone and searches for leaked values."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.cluster.support.fishy import FISHY, OWNER_NAME, OWNER_NAMESPACE, Fishy, is_served
from tests.cluster.support.oracles import metadata_of
from tests.cluster.support.scripted_vault import TOKEN
from tests.cluster.support.stage import OWN
from tests.cluster.support.waiting import no_faults

Json = dict[str, Any]


def judge(fishy: Fishy) -> None:
    """Every ready FishySecret has its Secret, and no value appears anywhere else."""
    no_faults(lambda: list(_untrue(fishy)), 10.0)
    leaked = list(leaks(fishy))
    assert leaked == [], "a value was shown:\n" + "\n".join(leaked)


def _untrue(fishy: Fishy) -> Iterator[str]:
    if not any(operator.running for operator in fishy.stage.operators) or not is_served(fishy.api):
        return
    for fishysecret in fishy.api.items(f"{FISHY}/fishysecrets"):
        meta = fishysecret["metadata"]
        ready = [
            condition
            for condition in (fishysecret.get("status") or {}).get("conditions", ())
            if condition["status"] == "True"
        ]
        if not ready or "deletionTimestamp" in meta:
            continue
        target = fishysecret["spec"]["target"]
        what = f"{meta['namespace']}/{meta['name']} is said to be ready"
        secret = fishy.stage.secret(target["namespace"], target["name"])
        keys = {item["secretKeyName"] for item in fishysecret["spec"]["data"] if not item.get("optional")}
        if secret is None:
            yield f"{what}, and there is no Secret"
        elif not keys <= (secret.get("data") or {}).keys():
            yield f"{what}, and keys are missing"
        elif not _carries_marks(secret, meta):
            yield f"{what}, and its Secret has the labels {metadata_of(secret, 'labels')}"


def _carries_marks(secret: Json, meta: Json) -> bool:
    name, labels = meta["name"], metadata_of(secret, "labels")
    exact = metadata_of(secret).get(OWNER_NAME) if len(name) > 63 else labels.get(OWNER_NAME)
    return (exact, labels.get(OWNER_NAMESPACE)) == (name, meta["namespace"])


def leaks(fishy: Fishy) -> Iterator[str]:
    """Finds values, plain or in base64, in Events, ConfigMaps, FishySecrets, and the logs and pages of operators."""
    texts = {
        "Events": json.dumps(fishy.api.items("/api/v1/events")),
        "holds": json.dumps(fishy.api.items(f"/api/v1/namespaces/{OWN}/configmaps")),
    }
    if is_served(fishy.api):
        texts["FishySecrets"] = json.dumps(fishy.api.items(f"{FISHY}/fishysecrets"))
    for operator in fishy.stage.operators:
        texts[operator.log_file.name] = operator.log
        texts[f"pages of {operator.log_file.stem}"] = "".join(
            operator.answer(path)[1].decode() for path in ("/metrics", "/readyz", "/healthz") if operator.running
        )
    for value in (*fishy.folder.values, TOKEN):
        for form in (value, base64.b64encode(value.encode()).decode().rstrip("=")):
            yield from (f"{form} in {where}" for where, text in texts.items() if form in text)
