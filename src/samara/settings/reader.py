"""Reads settings strictly: collects every fault with its path and the accepted values, and guesses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

import msgspec
from msgspec.structs import replace

from samara.core.model import KindName
from samara.core.vocabulary import SettingError, Vocabulary
from samara.setting_types import (
    KINDS_NEVER_COPIED,
    Inline,
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
from samara.settings.keys_file import content_of, read_keys
from samara.settings.model import SERVED_BY_DEFAULT, Settings
from samara.settings.yaml_text import SettingsError, is_plain_key, located, quoted, read_text
from samara.vocabularies import VOCABULARIES

Narrow = Callable[[Settings], Settings]
"""Removes vocabularies that are not served from the settings, as the option `--vocabulary` asks."""

CUSTOM_RESOURCES = frozenset(
    (kind.group, kind.name) for vocabulary in VOCABULARIES for kind in vocabulary.custom_resources
)
"""By group and kind. A custom resource that requests copies is never copied: its author could request anything."""
RENAMED = {"dialects": "vocabularies"}
"""By the path of a key before the first release: its name now. A file that still has the old key is refused."""


def load(path: str | None, narrow: Narrow | None = None) -> Settings:
    """The settings in a file, or the defaults if there is no file."""
    return parse("" if path is None else _content(path), path or "settings", narrow)


def parse(text: str, name: str, narrow: Narrow | None = None) -> Settings:
    """The settings in a YAML text. Messages begin with `name`, which says where the text came from.

    Every value must be valid. Contradictions between settings are faults only in vocabularies that `narrow` keeps,
    since the others are not served.
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
    return _with_keys_files(settings, name)


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
            raw = {"vocabularies": dict.fromkeys(SERVED_BY_DEFAULT), **raw}
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
                raise UnfitError(KINDS_NEVER_COPIED)
        except UnfitError as unfit:
            hint = f" ({unfit})" if str(unfit) else ""
            return self.wrong(raw, expects + hint, path)
        except msgspec.ValidationError:
            return self.wrong(raw, expects, path)
        return value

    def list_of(self, shape: ListOf, raw: object, path: str, expects: str) -> Any:
        if not isinstance(raw, list) or len(raw) < shape.min_length:
            return self.wrong(raw, expects, path)
        items = (self.read(shape.item, item, f"{path}[{index}]") for index, item in enumerate(raw))
        return tuple(dict.fromkeys(items))  # without duplicates, because a kind listed twice would be watched twice

    def record(self, struct: type[Struct], raw: object, path: str, expects: str = "") -> Any:
        if not isinstance(raw, dict):
            return self.wrong(raw, expects or Record(struct).expects, path)
        accepted = keys_of(struct)
        for key in raw:
            if key not in accepted:
                self.faults.append(_unknown_key(path, key, accepted))
        given = [setting for setting in settings_of(struct) if any(key in raw for key in setting.keys)]
        missing = [setting for setting in settings_of(struct) if setting.required and setting not in given]
        for setting in missing:
            self.faults.append(located(path, f"key '{setting.key}' is missing, expected {setting.shape.expects}"))
        values = {setting.attribute: self.field(setting, raw, path) for setting in given}
        return None if missing else struct(**values)

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
    """Faults of settings that are valid alone but not together."""
    lease, renew = settings.timers.lease, settings.timers.renew
    if renew >= lease:
        expected = f"less than timers.lease ({format_duration(lease)})"
        yield located("timers.renew", f"found {format_duration(renew)}, expected {expected}")
    for name, own in settings.vocabularies.items():
        file = _KeysFile.of(own)
        if file is not None and file.path is not None and file.inline:
            fault = f"found {file.key} and {', '.join(file.inline)}, expected the file or the keys, not both"
            yield located(f"vocabularies.{name}", fault)
    for vocabulary in VOCABULARIES:
        if (
            vocabulary.is_written_by_tenants
            and settings.tenancy == "strict"
            and settings.conflicts_of(vocabulary.name) == "overwrite"
        ):
            yield _overwriting_tenants(settings, vocabulary.name)


def _overwriting_tenants(settings: Settings, name: str) -> str:
    """Tenants could overwrite objects in the namespaces of others."""
    key = f"vocabularies.{name}.conflicts"
    own = settings.vocabularies[name].conflicts
    if own:
        return _mismatch(key, own, "refuse, because tenancy is strict")
    expected = f"refuse, because tenancy is strict and {name} is served (or set {key}: refuse)"
    return _mismatch("conflicts", settings.conflicts, expected)


def _with_keys_files(settings: Settings, name: str) -> Settings:
    """The settings with the content of each vocabulary's file of keys. Every vocabulary checks its own settings.

    Raises SettingsError.
    """
    vocabularies = {
        vocabulary.name: _checked(vocabulary, settings.vocabularies[vocabulary.name], name)
        for vocabulary in VOCABULARIES
        if vocabulary.name in settings.vocabularies
    }
    return replace(settings, vocabularies=MappingProxyType(vocabularies))


class _KeysFile(NamedTuple):
    """A setting that names a file, and the keys of the same mapping that the file replaces."""

    own: Any
    """The settings of the vocabulary."""
    key: str
    """The key of the setting that names the file."""
    path: str | None
    attribute: str
    """The attribute of `own` that holds the keys."""
    shape: Inline

    @classmethod
    def of(cls, own: Any) -> _KeysFile | None:
        """None if the vocabulary has no such setting."""
        struct: type[Struct] = type(own)
        settings = {setting.attribute: setting for setting in settings_of(struct)}
        for name, setting in settings.items():
            if isinstance(setting.shape, Inline):
                file = settings[setting.shape.file]
                return cls(own, file.key, getattr(own, file.attribute), name, setting.shape)
        return None

    @property
    def inline(self) -> Mapping[str, object]:
        keys: Mapping[str, object] = getattr(self.own, self.attribute)
        return keys

    def with_keys(self, keys: Mapping[str, object]) -> Any:
        return replace(self.own, **{self.attribute: MappingProxyType(keys)})


def _checked(vocabulary: Vocabulary[Any], own: Any, name: str) -> Any:
    path, file = f"vocabularies.{vocabulary.name}", _KeysFile.of(own)
    if file is not None and file.path is not None:
        with _reported_as(name, f"{path}.{file.key}"):
            content = content_of(file.path)
        with _reported_as(file.path):
            own = file.with_keys(read_keys(content, file.shape))
            vocabulary.check(own)
        return own
    if file is not None:
        for key, value in file.inline.items():  # one key at a time, so that the message names the wrong one
            with _reported_as(name, f"{path}.{key}"):
                vocabulary.check(file.with_keys({key: value}))
    with _reported_as(name, path):
        vocabulary.check(own)
    return own


@contextmanager
def _reported_as(name: str, path: str = "") -> Iterator[None]:
    """Turns a SettingError into a SettingsError with the name of the text and the path of the key."""
    try:
        yield
    except SettingError as error:
        raise SettingsError(name, [located(path, str(error))]) from error
