"""Writes the generated parts of the pages in docs from the program; `--check` only compares."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from scripts.definitions_reference import custom_resources

from samara.assembly import registry_of
from samara.cli.advice import ADVICE
from samara.cli.deploy.marks import guarded_marks
from samara.cli.inspect.forecast import RULE_NAMES, VERBS
from samara.cli.inspect.namespace_state import STATES
from samara.cli.main import COMMANDS, DEVTOOLS_COMMANDS, samara
from samara.core.desired import REASONS, in_lower_case
from samara.core.occupant import Occupant
from samara.core.ownership import ByOwnerReference, Ownership
from samara.core.rules import RULES, UNWANTED_RULES, table
from samara.core.source_type import SourceType
from samara.core.vocabulary import Vocabulary, declared_reasons
from samara.engine.event_sink import EVENT_REASONS
from samara.engine.mass_delete import MassDeleteGuard
from samara.engine.metrics import Metrics
from samara.engine.workqueue import WorkQueue
from samara.settings import Settings, help_text
from samara.vocabularies import VOCABULARIES
from samara.web.health import Health
from samara.web.metrics import CopyMetrics, ProcessMetrics, QueueMetrics, WatchMetrics

FOLDER = Path(__file__).resolve().parents[1] / "docs"
POLICY = FOLDER.parent / "examples" / "security" / "marks-policy.yaml"
SCHEMAS = tuple(sorted((FOLDER / "reference" / "schemas").glob("*.json")))
BEGIN, END = "<!-- generated: make docs -->\n", "<!-- end of the generated part -->\n"
WIDTH = 100


def settings() -> str:
    return f"```yaml\n{help_text().rstrip()}\n```\n"


def commands() -> str:
    return "\n".join(
        f"### `samara {name}`\n\n```text\n{_help(name)}\n```\n" for name in (*COMMANDS, *DEVTOOLS_COMMANDS)
    )


def _help(name: str) -> str:
    with samara.make_context("samara", [], resilient_parsing=True) as parent:
        command = samara.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH)
        return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def metrics() -> str:
    rows = "\n".join(f"| `{name}` | {kind} | {labels} | {about} |" for name, kind, labels, about in _families())
    return f"| name | type | labels | is |\n| --- | --- | --- | --- |\n{rows}\n"


def _families() -> Iterator[tuple[str, str, str, str]]:
    for family in sorted(asyncio.run(_collected()), key=lambda family: str(family.name)):
        names = getattr(family, "_labelnames", None) or [name for name in family.samples[0].labels if name != "le"]
        labels = ", ".join(f"`{name}`" for name in names)
        yield family.name + ("_total" if family.type == "counter" else ""), family.type, labels, family.documentation


async def _collected() -> list[Any]:
    """The metric families of an operator without sources. Each counter counts once, because only then it has labels."""
    counters = Metrics()
    counters.count_write("", "", "", 0.0)
    counters.count_provider_call("", "")
    counters.count_admission("", "", 0.0)
    clock = asyncio.get_running_loop().time
    idle = SimpleNamespace(synced=False, obstacle=None)
    health = Health((), idle, leader=None, webhooks=None, unserved=dict, converted=frozenset())
    collectors = (
        CopyMetrics(registry_of(Settings()), {}, sources=lambda source_type: (), count_orphans=lambda source_type: 0),
        QueueMetrics(WorkQueue(clock), oldest_pending=lambda: 0.0),
        WatchMetrics((), unserved=()),
        ProcessMetrics(health, MassDeleteGuard(None, 0.0, clock), is_leading=lambda: False, longest_stall=lambda: 0.0),
    )
    return [*(family for collector in collectors for family in collector.collect()), *counters.registry.collect()]


def events() -> str:
    reasons = {reason: (about.type, about.meaning) for reason, about in EVENT_REASONS.items()}
    reasons |= {reason: ("Warning", about.meaning) for reason, about in declared_reasons(VOCABULARIES).items()}
    rows = "\n".join(f"| `{reason}` | {kind} | {meaning} |" for reason, (kind, meaning) in reasons.items())
    return f"| reason | type | means |\n| --- | --- | --- |\n{rows}\n"


def reasons_of_copies() -> str:
    return _reasons((reason, text.meaning, text.advice) for reason, text in REASONS.items())


def reasons_of_sources() -> str:
    declared = declared_reasons(VOCABULARIES).items()
    return _reasons((in_lower_case(reason), about.meaning, about.advice) for reason, about in declared if about.advice)


def _reasons(texts: Iterable[tuple[str, str, str]]) -> str:
    rows = "".join(f"| `{reason}` | {meaning} | {advice} |\n" for reason, meaning, advice in texts)
    return f"| reason | meaning | what to do |\n| --- | --- | --- |\n{rows}"


def rules() -> str:
    return "\n".join(table(RULES)) + "\n"


def unwanted_rules() -> str:
    return "\n".join(table(UNWANTED_RULES)) + "\n"


def vocabularies() -> str:
    rows = "".join(
        f"| [{title_of(vocabulary)}](reference/{vocabulary.name}.md) | {summary_of(vocabulary)}"
        f"{_off_until_named(vocabulary).replace(', ', '; ')} |\n"
        for vocabulary in VOCABULARIES
    )
    return f"| vocabulary | what happens |\n| --- | --- |\n{rows}"


def vocabularies_in_short() -> str:
    """The rows of README.md: what people write, and what they get."""
    rows = "".join(
        f"| [{title_of(vocabulary)}](docs/reference/{vocabulary.name}.md){_off_until_named(vocabulary)} "
        f"| {summary['you write']} | {summary['you get']} |\n"
        for vocabulary in VOCABULARIES
        for summary in table_of(vocabulary, "you want")
    )
    return f"| vocabulary | you write | you get |\n| --- | --- | --- |\n{rows}"


def vocabularies_by_purpose() -> str:
    """The rows of docs/start.md: which vocabulary serves which purpose."""
    rows = "".join(
        f"| {summary['you want']} | {summary['you write']} | {summary['guide'].replace('](../', '](')} "
        f"| [{title_of(vocabulary)}](reference/{vocabulary.name}.md){_off_until_named(vocabulary)} |\n"
        for vocabulary in VOCABULARIES
        for summary in table_of(vocabulary, "you want")
    )
    return f"| you want | you write | guide | every rule |\n| --- | --- | --- | --- |\n{rows}"


def writers() -> str:
    """Who can make each vocabulary write where."""
    rows = "".join(
        f"| {title_of(vocabulary)}{'' if row['with'] == 'always' else ', ' + row['with']} "
        f"| {' | '.join(list(row.values())[1:])} |\n"
        for vocabulary in VOCABULARIES
        for row in table_of(vocabulary, "with")
    )
    head = "| vocabulary | who | content | where | the setting that decides |\n"
    return f"{head}| --- | --- | --- | --- | --- |\n{rows}"


def _off_until_named(vocabulary: Vocabulary[Any]) -> str:
    return ", off until the settings name it" if vocabulary.is_off_until_named else ""


HEADS = {
    "you want": "| you want | you write | you get | guide |",
    "with": "| with | who | content | where | the setting that decides |",
}
"""The tables that the page with every rule of a vocabulary must have, from which others are generated."""


def table_of(vocabulary: Vocabulary[Any], first: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has this name, on the page with every rule of a vocabulary."""
    page = FOLDER / "reference" / f"{vocabulary.name}.md"
    _, head, after = page.read_text().partition(HEADS[first])
    assert head, f"{page.name}: expected a table that begins with {HEADS[first]}"
    columns = _cells(head)
    lines = takewhile(lambda line: line.startswith("| "), after.splitlines()[2:])
    return [dict(zip(columns, _cells(line), strict=True)) for line in lines]


def _cells(row: str) -> list[str]:
    return row.removeprefix("| ").removesuffix(" |").split(" | ")


def title_of(vocabulary: Vocabulary[Any]) -> str:
    """The title of its page with every rule."""
    first = (FOLDER / "reference" / f"{vocabulary.name}.md").read_text().partition("\n")[0]
    return first.removeprefix("# ")


def summary_of(vocabulary: Vocabulary[Any]) -> str:
    """What users do and what Samara does, from the docstring of its module."""
    about = sys.modules[vocabulary.build.__module__].__doc__ or ""
    return about.partition(": ")[2].partition("\n")[0].removesuffix(".")


def vocabulary_facts() -> str:
    rows = "".join(
        f"| {title_of(vocabulary)} | {'apply' if vocabulary.is_written_by_tenants else 'have no effect'} "
        f"| {_found_by(vocabulary)} "
        f"| {'no' if vocabulary.is_off_until_named else 'yes'} |\n"
        for vocabulary in VOCABULARIES
    )
    head = "| vocabulary | `tenancy: strict` and `limits` | its original is found by | served without being named |\n"
    return f"{head}| --- | --- | --- | --- |\n{rows}"


def _found_by(vocabulary: Vocabulary[Any]) -> str:
    """The Lease or the image of its original, for which it waits."""
    if vocabulary.original_lease:
        return f"the Lease `{vocabulary.original_lease}`"
    if vocabulary.original_workload is None:
        return "nothing"
    images, kinds = vocabulary.original_workload
    names = " or ".join(f"`{image}`" for image in sorted(images))
    return f"the image {names} in a {' or '.join(kind.name for kind in kinds)}"


def occupants() -> str:
    rows = "\n".join(f"| `{occupant.name}` | {occupant.value} |" for occupant in Occupant)
    return f"| occupant | the object at the address is |\n| --- | --- |\n{rows}\n"


def ownership_facts() -> str:
    """What the core asks of every `Ownership`: its properties and methods, each with its docstring."""
    members = {name: member for name, member in vars(Ownership).items() if not name.startswith("_")}
    rows = "\n".join(f"| `{name}` | {' '.join((member.__doc__ or '').split())} |" for name, member in members.items())
    return f"| fact | says |\n| --- | --- |\n{rows}\n"


def ownership_by_vocabulary() -> str:
    """How the copies of each source type are recognised, under the default settings."""
    head = "| source type | owns by | marks | field managers | transferable |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(map(_ownership_row, registry_of(Settings()).source_types))


def _ownership_row(source_type: SourceType) -> str:
    ownership = source_type.ownership
    by = "owner reference" if isinstance(ownership, ByOwnerReference) else "mark"
    marks, managers = (
        ", ".join(f"`{key}`" for key in sorted(keys)) or "none" for keys in (ownership.marks, ownership.managers)
    )
    return f"| `{source_type.name}` | {by} | {marks} | {managers} | {'yes' if ownership.transferable else 'no'} |\n"


PAGES: dict[str, tuple[Callable[[], str], ...]] = {
    "../README.md": (vocabularies_in_short,),
    "index.md": (vocabularies,),
    "start.md": (vocabularies_by_purpose,),
    "concepts/how-it-decides.md": (rules, unwanted_rules),
    "concepts/ownership.md": (occupants, ownership_facts, ownership_by_vocabulary),
    "concepts/security.md": (writers, vocabulary_facts),
    "reference/settings.md": (settings,),
    "reference/commands.md": (reasons_of_copies, reasons_of_sources, commands),
    "reference/metrics.md": (metrics,),
    "reference/events.md": (events,),
    "reference/custom-resources.md": (custom_resources,),
}
"""By page: the functions that generate its parts, in their order on the page."""

ENUMS: dict[str, tuple[str, ...]] = {
    "verbs": VERBS,
    "rules": RULE_NAMES,
    "reasons": tuple(REASONS),
    "reasons of sources": tuple(ADVICE),
    "states": STATES,
}
"""The lists of names in the JSON Schemas, by what `$comment` says after `GENERATED`."""
GENERATED = "generated: "


def marks_policy() -> str:
    """The example policy that guards the marks, with the marks of every vocabulary. They are inside a YAML text, where
    no comments can enclose the generated part."""
    marks = ",\n        ".join(f"'{mark}'" for mark in guarded_marks())
    return re.sub(r"(?<=expression: >-\n        )\['[^\]]*\]", f"[{marks}]", POLICY.read_text(), count=1)


def renewed(page: str) -> str:
    """The text of a page with its generated parts replaced."""
    before, *parts = (FOLDER / page).read_text().split(BEGIN)
    generated = (f"{BEGIN}{part()}{END}{rest.partition(END)[2]}" for part, rest in zip(PAGES[page], parts, strict=True))
    return before + "".join(generated)


def renewed_schema(path: Path) -> str:
    """The text of a JSON Schema with its generated lists of names replaced."""
    return json.dumps(_with_names(json.loads(path.read_text())), indent=2, ensure_ascii=False) + "\n"


def _with_names(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_names(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    renewed = {key: _with_names(value) for key, value in schema.items()}
    comment = schema.get("$comment", "")
    if comment.startswith(GENERATED):
        may_be_null = [None] if None in schema["enum"] else []
        renewed["enum"] = [*ENUMS[comment.removeprefix(GENERATED)], *may_be_null]
    return renewed


def stale() -> dict[Path, str]:
    """The files that differ from what the program generates, each with the text that it should have."""
    texts = {FOLDER / page: renewed(page) for page in PAGES} | {POLICY: marks_policy()}
    texts |= {path: renewed_schema(path) for path in SCHEMAS}
    return {path: text for path, text in texts.items() if text != path.read_text()}


def main(arguments: list[str]) -> int:
    for path, text in (outdated := stale()).items():
        name = path.resolve().relative_to(FOLDER.parent)
        if arguments == ["--check"]:
            print(f"{name} is out of date: run make docs")
        else:
            path.write_text(text)
            print(f"wrote {name}")
    return 1 if outdated and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
