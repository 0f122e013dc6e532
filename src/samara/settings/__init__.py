"""The settings: their model, their strict reader and their manual."""

from samara.core.travel import NEVER_TRAVELS, NOT_BY_DEFAULT
from samara.setting_types import KindName
from samara.settings.manual import help_text
from samara.settings.model import (
    VOCABULARIES,
    Accurate,
    FishySecret,
    MassDelete,
    NeverCopied,
    PathRule,
    ResourceDistribution,
    SecretCopy,
    Settings,
    SyncTo,
    Timers,
    Vocabulary,
    Writes,
    watched_kinds,
)
from samara.settings.reader import load, parse
from samara.settings.yaml_text import SettingsError

__all__ = [
    "NEVER_TRAVELS",
    "NOT_BY_DEFAULT",
    "VOCABULARIES",
    "Accurate",
    "FishySecret",
    "KindName",
    "MassDelete",
    "NeverCopied",
    "PathRule",
    "ResourceDistribution",
    "SecretCopy",
    "Settings",
    "SettingsError",
    "SyncTo",
    "Timers",
    "Vocabulary",
    "Writes",
    "help_text",
    "load",
    "parse",
    "watched_kinds",
]
