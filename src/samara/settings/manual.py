"""The annotated settings file that `samara run --help-settings` prints; read back, it gives the defaults."""

from collections.abc import Iterator
from typing import Any

from samara.core.travel import NEVER_TRAVELS, NOT_BY_DEFAULT
from samara.settings.model import Settings
from samara.settings.schema import AsGiven, Leaf, ListOf, Nullable, Record, Setting, Type, Vocabularies, settings_of

HEADER = (
    "# The settings of samara, with their defaults. Every key is optional; an unknown one stops the start.",
    "# A comment gives what a key accepts, then what it means. A duration is like 90s, 5m, 1h30m or 500ms.",
    f"# Labels and annotations that never travel: {', '.join(NEVER_TRAVELS)}, and all marks and asks.",
    "# Also left behind, except by a resource-distribution, where the author wrote them:",
    *(f"#   {pattern}" for pattern in NOT_BY_DEFAULT),
)
COLUMN = 34


def help_text() -> str:
    return "\n".join((*HEADER, *_record(Settings(), ""))) + "\n"


def _record(value: Any, indent: str) -> Iterator[str]:
    for each in settings_of(type(value)):
        yield from _setting(each, getattr(value, each.attribute), indent)


def _setting(each: Setting, value: Any, indent: str) -> Iterator[str]:
    kind = each.type.inner if isinstance(each.type, Nullable) and value is not None else each.type
    match kind:
        case Vocabularies():
            yield _line(f"{indent}{each.key}:", each.about)
            for name, own in value.items():
                yield f"{indent}  {name}:"
                yield from _record(own, indent + "    ")
        case Record():
            yield _line(f"{indent}{each.key}:", each.about)
            yield from _record(value, indent + "  ")
        case AsGiven():
            yield from (_line(f"{indent}# {key}: []", each.about) for key in kind.keys)
        case _:
            yield _line(f"{indent}{each.key}: {_shown(kind, value)}", f"{each.type.form}; {each.about}")


def _shown(kind: Type, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(kind, ListOf):
        return f"[{', '.join(_shown(kind.item, item) for item in value)}]"
    assert isinstance(kind, Leaf)
    return kind.show(value)


def _line(text: str, comment: str) -> str:
    return f"{text:<{COLUMN}} # {comment}"
