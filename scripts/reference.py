"""Writes the generated parts of docs/reference anew, from the program itself; `--check` only compares."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from scripts.definitions_reference import custom_resources

from samara.cli.main import COMMANDS, SEPARATE, samara
from samara.core.vocabulary import declared_reasons
from samara.engine.event_sink import EVENT_REASONS
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.metrics import Metrics
from samara.engine.workqueue import WorkQueue
from samara.settings import Settings, help_text
from samara.source_types import registry_of
from samara.vocabularies import VOCABULARIES
from samara.web.health import Health
from samara.web.metrics import MetricsPage, Sources

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
BEGIN, END = "<!-- generated: make docs -->\n", "<!-- end of the generated part -->\n"
WIDTH = 100


def settings() -> str:
    return f"```yaml\n{help_text().rstrip()}\n```\n"


def commands() -> str:
    return "\n".join(f"### `samara {name}`\n\n```text\n{_help(name)}\n```\n" for name in (*COMMANDS, *SEPARATE))


def _help(name: str) -> str:
    with samara.make_context("samara", [], resilient_parsing=True) as above:
        command = samara.get_command(above, name)
        assert command is not None
        made = click.Context(command, info_name=name, parent=above, terminal_width=WIDTH, max_content_width=WIDTH)
        return "\n".join(line.rstrip() for line in command.get_help(made).splitlines())


def metrics() -> str:
    rows = "\n".join(f"| `{name}` | {kind} | {labels} | {about} |" for name, kind, labels, about in _families())
    return f"| name | type | labels | is |\n| --- | --- | --- | --- |\n{rows}\n"


def _families() -> Iterator[tuple[str, str, str, str]]:
    for family in sorted(asyncio.run(_collected()), key=lambda each: str(each.name)):
        names = getattr(family, "_labelnames", None) or [name for name in family.samples[0].labels if name != "le"]
        labels = ", ".join(f"`{name}`" for name in names)
        yield family.name + ("_total" if family.type == "counter" else ""), family.type, labels, family.documentation


async def _collected() -> list[Any]:
    """The families of an operator without sources. A counter shows its labels once it has counted."""
    counted = Metrics()
    counted.write_done("", "", "", 0.0)
    counted.provider_called("", "")
    counted.admission_answered("", "", 0.0)
    clock = asyncio.get_running_loop().time
    parts: dict[str, Any] = {each.name: lambda *about: 0 for each in fields(Sources)}
    parts |= {
        "registry": registry_of(Settings()),
        "tallies": {},
        "reflectors": (),
        "sources": lambda source_type: (),
    }
    parts |= {"queue": WorkQueue(clock), "metrics": counted, "holds": MassDeleteGuard(None, 0.0, clock), "unserved": ()}
    idle = SimpleNamespace(synced=False, obstacle=None)
    parts |= {"health": Health((), idle, leader=None, webhooks=None, unserved={}, converted=frozenset())}
    return [*MetricsPage(Sources(**parts)).collect(), *counted.registry.collect()]


def events() -> str:
    reasons = {reason: (about.type, about.meaning) for reason, about in EVENT_REASONS.items()}
    reasons |= {reason: ("Warning", about.meaning) for reason, about in declared_reasons(VOCABULARIES).items()}
    rows = "\n".join(f"| `{reason}` | {kind} | {meaning} |" for reason, (kind, meaning) in reasons.items())
    return f"| reason | type | means |\n| --- | --- | --- |\n{rows}\n"


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings,
    "commands.md": commands,
    "metrics.md": metrics,
    "events.md": events,
    "custom-resources.md": custom_resources,
}


def renewed(page: str) -> str:
    """A page with its generated part written anew."""
    text = (FOLDER / page).read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{PAGES[page]()}{END}{after}"


def main(arguments: list[str]) -> int:
    stale = [page for page in PAGES if renewed(page) != (FOLDER / page).read_text()]
    if arguments == ["--check"]:
        print(*(f"docs/reference/{page} is not what the program says: run make docs" for page in stale), sep="\n")
        return 1 if stale else 0
    for page in stale:
        (FOLDER / page).write_text(renewed(page))
        print(f"wrote docs/reference/{page}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
