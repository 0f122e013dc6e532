"""The annotated settings file that `samara run --help-settings` prints; read back, it gives the defaults."""

from collections.abc import Iterator
from typing import Any

from samara.core.metadata_keys import NEVER_COPIED, NOT_COPIED_BY_DEFAULT
from samara.setting_types import Inline, Leaf, ListOf, Named, Nullable, Record, Setting, Shape, Struct, settings_of
from samara.settings.model import Settings

HEADER = (
    "# The settings of samara, with their defaults. Every key is optional. An unknown key prevents the start.",
    "# A comment says what a key accepts, then what it means. A duration is like 90s, 5m, 1h30m or 500ms.",
    f"# Labels and annotations that are never copied: {', '.join(NEVER_COPIED)}, and the keys of all vocabularies.",
    "# Not copied either, unless their author wrote them for the copies:",
    *(f"#   {pattern}" for pattern in NOT_COPIED_BY_DEFAULT),
)
COLUMN = 34


def help_text() -> str:
    return "\n".join((*HEADER, *_record(Settings(), ""))) + "\n"


def _record(value: Struct, indent: str) -> Iterator[str]:
    for setting in settings_of(type(value)):
        yield from _setting(setting, getattr(value, setting.attribute), indent)


def _setting(setting: Setting, value: Any, indent: str) -> Iterator[str]:
    shape = setting.shape.inner if isinstance(setting.shape, Nullable) and value is not None else setting.shape
    match shape:
        case Named():
            yield _line(f"{indent}{setting.key}:", setting.about)
            for name, own in value.items():
                yield f"{indent}  {name}:"
                yield from _record(own, indent + "    ")
            for name, struct in shape.structs().items():
                if name not in value:
                    yield _line(f"{indent}  # {name}:", "off until it is named")
                    yield from _record(struct(), f"{indent}  #   ")
        case Record():
            yield _line(f"{indent}{setting.key}:", setting.about)
            yield from _record(value, indent + "  ")
        case Inline():
            yield from (_line(f"{indent}# {key}: []", setting.about) for key in shape.keys)
        case _:
            yield _line(f"{indent}{setting.key}: {_shown(shape, value)}", f"{setting.shape.form}; {setting.about}")


def _shown(shape: Shape, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(shape, ListOf):
        return f"[{', '.join(_shown(shape.item, item) for item in value)}]"
    assert isinstance(shape, Leaf)
    return shape.show(value)


def _line(text: str, comment: str) -> str:
    return f"{text:<{COLUMN}} # {comment}"
