"""Finds the kinds that are copied down namespace trees: in Samara's settings, or in an original's configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samara.assembly import kinds_in_trees
from samara.cli.options import Cluster
from samara.cli.output import note
from samara.cli.session import settings_or_defaults
from samara.core.model import CONFIG_MAP, Kind, KindName, Ref
from samara.core.vocabulary import OriginalConfig, SettingError, Vocabulary
from samara.kube.client import Client, address
from samara.kube.codec import decode
from samara.kube.discovery import discover
from samara.kube.errors import Forbidden, NotFound, SamaraError
from samara.setting_types import Inline, Struct, settings_of
from samara.settings import SettingsError
from samara.settings.keys_file import read_keys
from samara.vocabularies import VOCABULARIES


async def kinds_in_settings(cluster: Cluster, config: str | None = None) -> tuple[KindName, ...]:
    """The kinds in the settings: those in the given file, else those of the operator in the cluster."""
    try:
        settings, _ = await settings_or_defaults(cluster, config)
    except SettingsError as error:
        if config is not None:
            raise
        # The settings may name a file that only the operator's pods have.
        note(f"which kinds are propagated is not known: {error}")
        return ()
    return kinds_in_trees(settings)


async def kinds_of_originals(client: Client) -> tuple[KindName, ...]:
    """The kinds in the configurations of the original controllers that are installed."""
    kinds = [await kinds_of_original(client, vocabulary) or () for vocabulary in VOCABULARIES]
    return tuple(kind for kinds_of_one in kinds for kind in kinds_of_one)


async def kinds_of_original(
    client: Client, vocabulary: Vocabulary[Any], namespace: str | None = None
) -> tuple[KindName, ...] | None:
    """The kinds in the configuration of the original controller, in the given namespace or where it usually is.

    None if it is not installed, or may not be read.
    """
    original = vocabulary.original_config
    if original is None:
        return None
    ref = original.deployment if namespace is None else original.deployment._replace(namespace=namespace)
    try:
        deployment = decode(await client.get(address(ref)))
    except NotFound:
        return None
    except Forbidden as error:
        note(f"what the original watches could not be read: {error}")
        return None
    name = _config_map_name(deployment, ref, original.volume)
    try:
        config_map = decode(await client.get(address(Ref(CONFIG_MAP, ref.namespace, name))))
    except NotFound as error:
        raise SamaraError(
            f"{ref}: expected the ConfigMap of its volume {original.volume}, found none: {name}"
        ) from error
    text = (config_map.get("data") or {}).get(original.file, "")
    return kinds_in_file(text, f"ConfigMap {ref.namespace}/{name}", original, _keys_of(vocabulary))


def _config_map_name(deployment: Any, ref: Ref, volume: str) -> str:
    for candidate in deployment["spec"]["template"]["spec"].get("volumes") or ():
        if candidate.get("name") == volume and candidate.get("configMap"):
            return str(candidate["configMap"]["name"])
    raise SamaraError(f"{ref}: expected a volume {volume} of a ConfigMap, found none")


def _keys_of(vocabulary: Vocabulary[Any]) -> Inline:
    struct: type[Struct] = vocabulary.settings
    shapes = (setting.shape for setting in settings_of(struct))
    return next(shape for shape in shapes if isinstance(shape, Inline))


def kinds_in_file(text: str, where: str, original: OriginalConfig, keys: Inline) -> tuple[KindName, ...]:
    """The kinds in an original's configuration file."""
    try:
        return original.kinds(read_keys(text.encode(), keys))
    except SettingError as error:
        raise SamaraError(f"{where}: {error}") from error


async def resolve_kinds(client: Client, names: Iterable[KindName]) -> list[Kind]:
    """The kinds as the server serves them, in the given order. A kind that it does not serve is noted on stderr."""
    wanted = list(dict.fromkeys(names))
    discovered = await discover(client, wanted, {})
    for name, why in discovered.missing.items():
        note(f"failed to list {name.group}/{name.version}, Kind={name.kind}: {why}")
    return [discovered.kinds[name] for name in wanted if name in discovered.kinds]
