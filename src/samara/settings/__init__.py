"""The settings: their model, their strict reader and their manual."""

from samara.core.model import KindName
from samara.settings.manual import help_text
from samara.settings.model import STRUCTS, CopiedMetadata, Limits, MassDelete, NeverCopied, Settings, Timers, Writes
from samara.settings.reader import load, parse
from samara.settings.yaml_text import SettingsError

__all__ = [
    "STRUCTS",
    "CopiedMetadata",
    "KindName",
    "Limits",
    "MassDelete",
    "NeverCopied",
    "Settings",
    "SettingsError",
    "Timers",
    "Writes",
    "help_text",
    "load",
    "parse",
]
