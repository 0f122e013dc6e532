"""Reads settings strictly: collects every fault, says where it is and what is accepted, and guesses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from samara.dialects.accurate.config import BadConfigError
from samara.dialects.accurate.words import SUB_NAMESPACE
from samara.dialects.fishysecret.words import FISHY_SECRET
from samara.dialects.resource_distribution import RESOURCE_DISTRIBUTION
from samara.setting_types import (
    NEVER_COPIED,
    Inline,
    KindName,
    Leaf,
    ListOf,
    Named,
    Nullable,
    Record,
    Setting,
    Shape,
    Struct,
    UnfitError,
    format_duration,
    keys_of,
    settings_of,
)
from samara.settings.accurate_file import content_of, read_document
from samara.settings.model import VOCABULARIES, Accurate, Settings, SyncTo
from samara.settings.yaml_text import SettingsError, is_plain_key, located, quoted, read_text

Narrow = Callable[[Settings], Settings]
"""Leaves out of settings what is not to be served."""

CUSTOM_RESOURCES = frozenset((kind.group, kind.name) for kind in (RESOURCE_DISTRIBUTION, SUB_NAMESPACE, FISHY_SECRET))
"""By group and kind. A source of copies is never copied itself: its author could have anything made elsewhere."""
RENAMED = {"dialects": "vocabularies"}
"""By path: keys that had another name before the first release. A file that still has one is refused."""


def load(path: str | None, narrow: Narrow | None = None) -> Settings:
    """The settings in a file; without one, the defaults."""
    return parse("" if path is None else _content(path), path or "settings", narrow)


def parse(text: str, name: str, narrow: Narrow | None = None) -> Settings:
    """The settings in a YAML text. Messages begin with `name`, which says where the text came from.

    Every value must be right. Contradictions between settings count only in what `narrow` leaves, since the rest is
    not served.
    """
    document = read_text(text, name)
    reader = _Reader()
    settings = reader.settings({} if document is None else document)
    if settings is None or reader.faults:
        raise SettingsError(name, reader.faults)
    settings = settings if narrow is None else narrow(settings)
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
    """Reads values by their shape. A faulty value is added to `faults` and read as None."""

    faults: list[str] = field(default_factory=list)

    def settings(self, raw: object) -> Settings | None:
        if isinstance(raw, dict) and "vocabularies" not in raw:
            raw = {"vocabularies": dict.fromkeys(VOCABULARIES), **raw}
        settings: Settings | None = self.record(Settings, raw, "")
        return settings

    def read(self, shape: Shape, raw: object, path: str, expects: str = "") -> Any:
        """`expects` is set if a shape around this one accepts more, such as null."""
        expects = expects or shape.expects
        match shape:
            case Leaf():
                return self.leaf(shape, raw, path, expects)
            case Nullable():
                return None if raw is None else self.read(shape.inner, raw, path, expects)
            case ListOf():
                return self.list_of(shape, raw, path, expects)
            case Record():
                return self.record(shape.struct, raw, path, expects)
            case Named():
                return self.named(shape.structs(), raw, path, expects)
            case Inline():
                return raw if raw is None or isinstance(raw, list) else self.wrong(raw, expects, path)
            case _:
                assert_never(shape)

    def wrong(self, raw: object, expected: str, path: str) -> None:
        self.faults.append(_mismatch(path, raw, expected))

    def leaf(self, leaf: Leaf, raw: object, path: str, expects: str) -> Any:
        try:
            value = leaf.parse(raw)
            if isinstance(value, KindName) and (value.group, value.kind) in CUSTOM_RESOURCES:
                raise UnfitError(NEVER_COPIED)
        except UnfitError as unfit:
            hint = f" ({unfit})" if str(unfit) else ""
            return self.wrong(raw, expects + hint, path)
        except msgspec.ValidationError:
            return self.wrong(raw, expects, path)
        return value

    def list_of(self, shape: ListOf, raw: object, path: str, expects: str) -> Any:
        if not isinstance(raw, list) or len(raw) < shape.least:
            return self.wrong(raw, expects, path)
        # Each item once, because a kind listed twice would be watched twice.
        return tuple(dict.fromkeys(self.read(shape.item, item, f"{path}[{n}]") for n, item in enumerate(raw)))

    def record(self, struct: type[Struct], raw: object, path: str, expects: str = "") -> Any:
        if not isinstance(raw, dict):
            return self.wrong(raw, expects or Record(struct).expects, path)
        accepted = keys_of(struct)
        for key in raw:
            if key not in accepted:
                self.faults.append(_unknown_key(path, key, accepted))
        given = [setting for setting in settings_of(struct) if self.is_given(setting, raw, path)]
        values = {setting.attribute: self.field(setting, raw, path) for setting in given}
        # A required field is missing only beside a fault, which `is_given` has added.
        return struct(**values) if all(s in given or not s.required for s in settings_of(struct)) else None

    def is_given(self, setting: Setting, raw: dict[Any, Any], path: str) -> bool:
        is_given = any(key in raw for key in setting.keys)
        if setting.required and not is_given:
            self.faults.append(located(path, f"key '{setting.key}' is missing, expected {setting.shape.expects}"))
        return is_given

    def field(self, setting: Setting, raw: dict[Any, Any], path: str) -> Any:
        values = {key: self.read(setting.shape, raw[key], _below(path, key)) for key in setting.keys if key in raw}
        return MappingProxyType(values) if isinstance(setting.shape, Inline) else values[setting.key]

    def named(self, structs: Mapping[str, type[Struct]], raw: object, path: str, expects: str) -> Any:
        if not isinstance(raw, dict) or not raw:
            return self.wrong(raw, expects, path)
        self.faults.extend(_unknown_key(path, name, structs) for name in raw if name not in structs)
        return MappingProxyType(
            {
                name: self.record(struct, {} if raw[name] is None else raw[name], _below(path, name))
                for name, struct in structs.items()
                if name in raw
            }
        )


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _mismatch(path: str, raw: object, expected: str) -> str:
    return located(path, f"found {quoted(raw)}, expected {expected}")


def _unknown_key(path: str, key: object, accepted: Iterable[str]) -> str:
    name = key if isinstance(key, str) and is_plain_key(key) else quoted(key)
    new_name = RENAMED.get(_below(path, name))
    near = get_close_matches(key, list(accepted), n=1) if isinstance(key, str) else []
    hint = f", it is called '{new_name}' now;" if new_name else f", did you mean '{near[0]}'?" if near else ";"
    return located(_below(path, name), f"unknown key{hint} accepted: {', '.join(accepted)}")


def _contradictions(settings: Settings) -> Iterator[str]:
    """Faults of settings that are right one by one but not together."""
    lease, renew = settings.timers.lease, settings.timers.renew
    if renew >= lease:
        expected = f"less than timers.lease ({format_duration(lease)})"
        yield located("timers.renew", f"found {format_duration(renew)}, expected {expected}")
    accurate = settings.vocabularies.get("accurate")
    if isinstance(accurate, Accurate) and accurate.config_file is not None and accurate.config:
        inline = ", ".join(accurate.config)
        fault = f"found configFile and {inline}, expected the file or the keys, not both"
        yield located("vocabularies.accurate", fault)
    if settings.tenancy == "strict" and settings.conflicts_of("sync-to") == "overwrite":
        yield _overwriting_tenants(settings)


def _overwriting_tenants(settings: Settings) -> str:
    own = settings.vocabularies["sync-to"]
    if isinstance(own, SyncTo) and own.conflicts:
        return _mismatch("vocabularies.sync-to.conflicts", own.conflicts, "refuse, because tenancy is strict")
    expected = "refuse, because tenancy is strict and sync-to is served (or set vocabularies.sync-to.conflicts: refuse)"
    return _mismatch("conflicts", settings.conflicts, expected)


def _with_the_originals_file(settings: Settings, name: str) -> Settings:
    """The settings with the content of Accurate's configFile in place of its keys. Both are checked alike."""
    accurate = settings.vocabularies.get("accurate")
    if not isinstance(accurate, Accurate):
        return settings
    if accurate.config_file is None:
        for key, value in accurate.config.items():
            with _reported_as(name, f"vocabularies.accurate.{key}"):
                replace(accurate, config=MappingProxyType({key: value})).read_config()
        with _reported_as(name, "vocabularies.accurate"):
            accurate.read_config()
        return settings
    with _reported_as(name, "vocabularies.accurate.configFile"):
        content = content_of(accurate.config_file)
    with _reported_as(accurate.config_file):
        accurate = replace(accurate, config=MappingProxyType(read_document(content)))
        accurate.read_config()
    return replace(settings, vocabularies=MappingProxyType({**settings.vocabularies, "accurate": accurate}))


@contextmanager
def _reported_as(name: str, path: str = "") -> Iterator[None]:
    try:
        yield
    except BadConfigError as error:
        raise SettingsError(name, [located(path, str(error))]) from error
