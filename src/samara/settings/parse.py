"""From YAML text to Settings: every fault is collected, and nothing is guessed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, assert_never

from samara.dialects.accurate.config import BadConfigError
from samara.settings.accurate_file import content_of, read_document
from samara.settings.durations import format_duration
from samara.settings.faults import SettingsError, located, mismatch, unknown_key
from samara.settings.model import VOCABULARIES, Accurate, Settings, SyncTo
from samara.settings.schema import (
    AsGiven,
    Leaf,
    ListOf,
    Nullable,
    Record,
    Setting,
    Type,
    UnfitError,
    Vocabularies,
    keys_of,
    settings_of,
)
from samara.settings.text import read_text

RENAMED = {"dialects": "vocabularies"}
"""Keys by their path that were called otherwise before the first release; a file that still has one is refused."""
Narrow = Callable[[Settings], Settings]
"""Leaves out of settings what is not to be served."""


def _whole(settings: Settings) -> Settings:
    return settings


def load(path: str | None, narrow: Narrow = _whole) -> Settings:
    """The settings in a file; without one, the defaults."""
    return parse("" if path is None else _content(path), path or "settings", narrow)


def parse(text: str, name: str, narrow: Narrow = _whole) -> Settings:
    """The settings in a YAML text; `name` says in messages where it came from.

    Every value has to be right. Together they have to be right for what `narrow` leaves: the rest is not served.
    """
    document = read_text(text, name)
    reader = _Reader()
    settings = reader.settings({} if document is None else document)
    if settings is None or reader.faults:
        raise SettingsError(name, reader.faults)
    settings = narrow(settings)
    faults = tuple(_contradictions(settings))
    if faults:
        raise SettingsError(name, faults)
    return _with_the_originals_file(settings, name)


def _content(path: str) -> str:
    if not path:
        raise SettingsError("--config", ["expected the name of a file with settings, found an empty one"])
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise SettingsError(path, ["expected a file with settings, found none there"]) from error
    except OSError as error:
        raise SettingsError(path, [f"expected a readable file with settings, found: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise SettingsError(path, [f"expected UTF-8 text, found something else at byte {error.start}"]) from error


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads values by their declared type; a faulty one is noted and read as None."""

    faults: list[str] = field(default_factory=list)

    def settings(self, raw: object) -> Settings | None:
        if isinstance(raw, dict) and "vocabularies" not in raw:
            raw = {"vocabularies": dict.fromkeys(VOCABULARIES), **raw}
        settings: Settings | None = self.record(Settings, raw, "")
        return settings

    def read(self, kind: Type, raw: object, path: str, expects: str = "") -> Any:
        """`expects` is what the type around this one says that it accepts."""
        expects = expects or kind.expects
        match kind:
            case Leaf():
                return self.leaf(kind, raw, path, expects)
            case Nullable():
                return None if raw is None else self.read(kind.inner, raw, path, expects)
            case ListOf():
                return self.list_of(kind, raw, path, expects)
            case Record():
                return self.record(kind.into, raw, path, expects)
            case Vocabularies():
                return self.vocabularies(kind, raw, path)
            case AsGiven():
                return raw if raw is None or isinstance(raw, list) else self.wrong(raw, kind.expects, path)
            case _:
                assert_never(kind)

    def wrong(self, raw: object, expected: str, path: str) -> Any:
        self.faults.append(mismatch(path, raw, expected))
        return None  # so that a reader can return it in place of a value

    def leaf(self, kind: Leaf, raw: object, path: str, expects: str) -> object:
        try:
            return kind.read(raw)
        except UnfitError as unfit:
            hint = f" ({unfit})" if str(unfit) else ""
            return self.wrong(raw, expects + hint, path)

    def list_of(self, kind: ListOf, raw: object, path: str, expects: str) -> Any:
        if not isinstance(raw, list) or len(raw) < kind.least:
            return self.wrong(raw, expects, path)
        # Merged, because a kind listed twice would be watched twice.
        return tuple(dict.fromkeys(self.read(kind.item, item, f"{path}[{n}]") for n, item in enumerate(raw)))

    def record(self, into: type[Any], raw: object, path: str, expects: str = "") -> Any:
        if not isinstance(raw, dict):
            return self.wrong(raw, expects or Record(into).expects, path)
        accepted = keys_of(into)
        for key in raw:
            if key not in accepted:
                self.faults.append(unknown_key(path, key, accepted, RENAMED.get(_below(path, str(key)), "")))
        given = (each for each in settings_of(into) if self.is_given(each, raw, path))
        return into(**{each.attribute: self.field(each, raw, path) for each in given})

    def is_given(self, each: Setting, raw: dict[Any, Any], path: str) -> bool:
        given = any(key in raw for key in each.keys)
        if each.required and not given:
            self.faults.append(located(path, f"key '{each.key}' is missing, expected {each.type.expects}"))
        return given

    def field(self, each: Setting, raw: dict[Any, Any], path: str) -> Any:
        values = {key: self.read(each.type, raw[key], _below(path, key)) for key in each.keys if key in raw}
        return MappingProxyType(values) if isinstance(each.type, AsGiven) else values[each.key]

    def vocabularies(self, kind: Vocabularies, raw: object, path: str) -> Any:
        if not isinstance(raw, dict) or not raw:
            return self.wrong(raw, kind.expects, path)
        self.faults.extend(unknown_key(path, name, VOCABULARIES) for name in raw if name not in VOCABULARIES)
        served = {
            name: self.record(into, {} if raw[name] is None else raw[name], _below(path, name))
            for name, into in VOCABULARIES.items()
            if name in raw
        }
        return MappingProxyType(served)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _contradictions(settings: Settings) -> Iterator[str]:
    """Faults of settings that are right one by one but not together."""
    lease, renew = settings.timers.lease, settings.timers.renew
    if renew >= lease:
        expected = f"less than timers.lease ({format_duration(lease)})"
        yield located("timers.renew", f"found {format_duration(renew)}, expected {expected}")
    accurate = settings.vocabularies.get("accurate")
    if isinstance(accurate, Accurate) and accurate.config_file is not None and accurate.config:
        inline = ", ".join(accurate.config)
        yield located(
            "vocabularies.accurate", f"found configFile and {inline}, expected the file or the keys, not both"
        )
    if settings.tenancy == "strict" and settings.conflicts_of("sync-to") == "overwrite":
        yield _overwriting_tenants(settings)


def _with_the_originals_file(settings: Settings, name: str) -> Settings:
    """The settings with what Accurate's configFile says in the place of its keys; both are checked alike."""
    accurate = settings.vocabularies.get("accurate")
    if not isinstance(accurate, Accurate):
        return settings
    if accurate.config_file is None:
        for key, value in accurate.config.items():
            with _told_by(name, f"vocabularies.accurate.{key}"):
                replace(accurate, config=MappingProxyType({key: value})).read_config()
        with _told_by(name, "vocabularies.accurate"):
            accurate.read_config()
        return settings
    with _told_by(name, "vocabularies.accurate.configFile"):
        content = content_of(accurate.config_file)
    with _told_by(accurate.config_file):
        accurate = replace(accurate, config=MappingProxyType(read_document(content)))
        accurate.read_config()
    return replace(settings, vocabularies=MappingProxyType({**settings.vocabularies, "accurate": accurate}))


@contextmanager
def _told_by(name: str, path: str = "") -> Iterator[None]:
    try:
        yield
    except BadConfigError as error:
        raise SettingsError(name, [located(path, str(error))]) from error


def _overwriting_tenants(settings: Settings) -> str:
    own = settings.vocabularies["sync-to"]
    if isinstance(own, SyncTo) and own.conflicts:
        return mismatch("vocabularies.sync-to.conflicts", own.conflicts, "refuse, because tenancy is strict")
    expected = "refuse, because tenancy is strict and sync-to is served (or set vocabularies.sync-to.conflicts: refuse)"
    return mismatch("conflicts", settings.conflicts, expected)
