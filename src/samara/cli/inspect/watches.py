"""Reads which kinds are propagated along trees, from the original's configuration or from Samara's settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samara.cli.options import Cluster
from samara.cli.output import note
from samara.cli.session import settings_or_defaults
from samara.core.model import CONFIG_MAP, DEPLOYMENT, Kind, KindName, Ref
from samara.core.vocabulary import SettingError
from samara.kube.client import Client, address
from samara.kube.codec import decode
from samara.kube.discovery import discover
from samara.kube.errors import Forbidden, NotFound, SamaraError
from samara.settings import SettingsError
from samara.settings.keys_file import read_keys
from samara.vocabularies.accurate import CONFIG_KEYS, AccurateSettings, watched_kinds
from samara.vocabularies.accurate.config import read

DEPLOYMENT_NAME = "accurate-controller-manager"
VOLUME = "config"
FILE = "config.yaml"


async def watched_by_accurate(client: Client, namespace: str) -> tuple[KindName, ...] | None:
    """The kinds that the original controller watches. None if it is not installed, or may not be read."""
    ref = Ref(DEPLOYMENT, namespace, DEPLOYMENT_NAME)
    try:
        deployment = decode(await client.get(address(ref)))
    except NotFound:
        return None
    except Forbidden as error:
        note(f"what the original watches could not be read: {error}")
        return None
    name = _config_map_name(deployment, ref)
    try:
        config_map = decode(await client.get(address(Ref(CONFIG_MAP, namespace, name))))
    except NotFound as error:
        raise SamaraError(f"{ref}: expected the ConfigMap of its volume {VOLUME}, found none: {name}") from error
    return parse_watches((config_map.get("data") or {}).get(FILE, ""), f"ConfigMap {namespace}/{name}")


def _config_map_name(deployment: Any, ref: Ref) -> str:
    for volume in deployment["spec"]["template"]["spec"].get("volumes") or ():
        if volume.get("name") == VOLUME and volume.get("configMap"):
            return str(volume["configMap"]["name"])
    raise SamaraError(f"{ref}: expected a volume {VOLUME} of a ConfigMap, found none")


def parse_watches(text: str, where: str) -> tuple[KindName, ...]:
    """The `watches` of the original's configuration file. Other keys are not checked here."""
    try:
        watches = read_keys(text.encode(), CONFIG_KEYS).get("watches")
        return tuple(KindName(*watch) for watch in read({"watches": watches} if watches else {}).watches)
    except SettingError as error:
        raise SamaraError(f"{where}: {error}") from error


async def watched_by_samara(cluster: Cluster, config: str | None = None) -> tuple[KindName, ...]:
    """The kinds in the settings: those in the given file, else those of the operator in the cluster."""
    try:
        settings, _ = await settings_or_defaults(cluster, config)
    except SettingsError as error:
        if config is not None:
            raise
        # The settings may name a file that only the operator's pods have.
        note(f"expected to learn which kinds are propagated, found: {error}")
        return ()
    accurate = settings.vocabularies.get("accurate")
    return watched_kinds(accurate) if isinstance(accurate, AccurateSettings) else ()


async def resolve_kinds(client: Client, names: Iterable[KindName]) -> list[Kind]:
    """The kinds as the server serves them, in the given order. A kind that it does not serve is noted on stderr."""
    wanted = list(dict.fromkeys(names))
    discovered = await discover(client, wanted, {})
    for name, why in discovered.missing.items():
        note(f"failed to list {name.group}/{name.version}, Kind={name.kind}: {why}")
    return [discovered.kinds[name] for name in wanted if name in discovered.kinds]
