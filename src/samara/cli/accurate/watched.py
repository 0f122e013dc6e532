"""Which kinds are propagated: what the original's configuration says, or Samara's own settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samara.cli.base import note
from samara.cli.kubectl_flags import Cluster
from samara.cli.session import settings_if_any
from samara.core.model import CONFIG_MAP, DEPLOYMENT, Kind, Ref
from samara.dialects.accurate.config import BadConfigError, read
from samara.kube.client import Client, address
from samara.kube.codec import decode
from samara.kube.discovery import discover
from samara.kube.errors import Forbidden, NotFound, SamaraError
from samara.settings import Accurate, KindName, SettingsError, watched_kinds
from samara.settings.accurate_file import read_document

NAME = "accurate-controller-manager"
VOLUME = "config"
FILE = "config.yaml"


async def of_original(client: Client, namespace: str) -> tuple[KindName, ...] | None:
    """The kinds that the original watches; None where there is no original, or none that we may see."""
    where = Ref(DEPLOYMENT, namespace, NAME)
    try:
        deployment = decode(await client.get(address(where)))
    except NotFound:
        return None
    except Forbidden as fault:
        note(f"what the original watches could not be read: {fault}")
        return None
    name = _config_map(deployment, where)
    try:
        found = decode(await client.get(address(Ref(CONFIG_MAP, namespace, name))))
    except NotFound as fault:
        raise SamaraError(f"{where}: expected the ConfigMap of its volume {VOLUME}, found none: {name}") from fault
    return parsed((found.get("data") or {}).get(FILE, ""), f"ConfigMap {namespace}/{name}")


def _config_map(deployment: Any, where: Ref) -> str:
    """The name of the ConfigMap behind the volume `config`."""
    for each in deployment["spec"]["template"]["spec"].get("volumes") or ():
        if each.get("name") == VOLUME and each.get("configMap"):
            return str(each["configMap"]["name"])
    raise SamaraError(f"{where}: expected a volume {VOLUME} of a ConfigMap, found none")


def parsed(text: str, where: str) -> tuple[KindName, ...]:
    """The kinds that a configuration file of the original lists; whoever serves it is strict about the rest."""
    try:
        watches = read_document(text.encode()).get("watches")
        return tuple(KindName(*each) for each in read({"watches": watches} if watches else {}).watches)
    except BadConfigError as fault:
        raise SamaraError(f"{where}: {fault}") from fault


async def of_samara(cluster: Cluster, config: str | None = None) -> tuple[KindName, ...]:
    """The kinds that Samara's settings list: those in the given file, else those of the operator in the cluster."""
    try:
        settings, _ = await settings_if_any(cluster, config)
    except SettingsError as fault:
        if config is not None:
            raise
        note(f"which kinds are propagated is not known: {fault}")  # it may name a file that only the operator has
        return ()
    own = settings.vocabularies.get("accurate")
    return watched_kinds(own) if isinstance(own, Accurate) else ()


async def resolved(client: Client, names: Iterable[KindName]) -> list[Kind]:
    """The kinds as the server knows them, in the order of the list; what it does not know is told."""
    wanted = list(dict.fromkeys(names))
    found = await discover(client, wanted, {})
    for name, why in found.missing.items():
        note(f"failed to list {name.group}/{name.version}, Kind={name.kind}: {why}")
    return [found.kinds[name] for name in wanted if name in found.kinds]
