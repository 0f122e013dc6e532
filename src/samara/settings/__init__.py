"""The settings file: its model, its strict reading and its manual."""

from samara.core.travel import NEVER_TRAVELS, NOT_BY_DEFAULT
from samara.settings.faults import SettingsError
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
from samara.settings.parse import load, parse
from samara.settings.values import KindName

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
