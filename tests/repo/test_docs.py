"""The pages match the program: their fences parse, their links have targets, their tables are complete."""

import ast
import json
import re
from math import inf
from pathlib import Path
from typing import get_args

import pytest
import yaml
from scripts import reference
from tests.support.pages import PAGES, ROOT, Fence, fences, prose

from samara.cli.main import COMMANDS, DEVTOOLS_COMMANDS, HELP, samara
from samara.core.desired import Reason
from samara.core.mass_delete import WINDOW
from samara.core.occupant import Occupant
from samara.core.ownership import Ownership
from samara.core.rules import RULES, UNWANTED_RULES
from samara.core.vocabulary import declared_reasons
from samara.engine import events
from samara.engine.event_sink import EVENT_REASONS
from samara.settings import Settings, parse
from samara.vocabularies import VOCABULARIES

DOCS = ROOT / "docs"
LISTED = tuple(fences())


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("fence", [fence for fence in LISTED if fence.language in ("yaml", "json", "python")], ids=str)
def test_data_on_a_page_parses(fence: Fence) -> None:
    if fence.language == "python":
        ast.parse(fence.text)
    elif fence.language == "json":
        json.loads(fence.text)
    else:
        assert all(isinstance(document, dict) for document in yaml.safe_load_all(fence.text))


@pytest.mark.parametrize(
    "fence",
    [fence for fence in LISTED if fence.language == "yaml" and not fence.is_manifest and not fence.not_run],
    ids=str,
)
def test_settings_on_a_page_are_accepted(fence: Fence) -> None:
    parse(fence.text, str(fence))


def test_every_fence_names_its_language() -> None:
    assert [str(fence) for fence in LISTED if not fence.language] == []
    assert {fence.language for fence in LISTED} <= {"yaml", "json", "sh", "console", "text", "python"}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_has_a_target(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose(page))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_page_is_reachable_from_the_index() -> None:
    seen, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.exists():
            seen.add(page)
            waiting += [(page.parent / target).resolve() for target in re.findall(r"\]\(([^)#:]+)", prose(page))]
    assert sorted(map(named, set(DOCS.rglob("*.md")) - seen)) == []


def test_commands_on_a_page_exist() -> None:
    shown = [fence.text for fence in LISTED if fence.language in ("sh", "console")]
    shown += re.findall(r"`([^`\n]+)`", "\n".join(map(prose, PAGES)))
    used = {
        word for text in shown for word in re.findall(r"(?:^|[|$] )(?:kubectl )?samara ([a-z]+)", text, re.MULTILINE)
    }
    assert used <= {*COMMANDS, *DEVTOOLS_COMMANDS, HELP}
    assert {"plan", "why", "run"} <= used


def test_flags_of_commands_in_a_sentence_exist() -> None:
    shown = re.findall(r"`(?:kubectl )?samara ([a-z]+)( [^`\n]+)`", "\n".join(map(prose, PAGES)))
    unknown = {
        f"samara {name} {flag}"
        for name, rest in shown
        for flag in re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest)
        if flag not in flags_of(name)
    }
    assert unknown == set()
    assert len(shown) > 20


def flags_of(name: str) -> set[str]:
    with samara.make_context("samara", [], resilient_parsing=True) as context:
        command = samara.get_command(context, name)
        assert command is not None
        return {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}


def test_names_on_a_page_are_in_the_module_that_it_gives() -> None:
    """Such as `RULES` in `core/rules.py` or `Reflector` (`kube/reflector.py`); share_to.py is the example of a page."""
    given = [place for page in PAGES for place in re.findall(r"`([\w.]+)`\s+(?:in\s+|\()`([\w/]+\.py)`", prose(page))]
    places = [(name, path) for name, path in given if not path.endswith("/share_to.py")]
    files = {path: next(filter(Path.exists, (ROOT / "src/samara" / path, ROOT / path))) for _, path in places}
    assert [place for place in places if place[0].rpartition(".")[2] not in files[place[1]].read_text()] == []
    assert len(places) > 20


def test_make_targets_on_a_page_exist() -> None:
    used = {word for page in PAGES for word in re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)\b(?=[` \n])", _commands(page))}
    defined = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert used <= defined
    assert {"demo", "test", "check", "bench"} <= used


def _commands(page: Path) -> str:
    """The commands on a page: its shell fences and the code in its sentences."""
    typed = [fence.text for fence in LISTED if fence.page == page and fence.language == "sh"]
    return "\n".join([*typed, *re.findall(r"`[^`\n]+`", prose(page))])


@pytest.mark.parametrize("page", sorted(reference.PAGES))
def test_every_generated_page_is_up_to_date(page: str) -> None:
    assert reference.renewed(page) == (reference.FOLDER / page).read_text(), "run make docs"


def test_the_pages_name_every_rule_every_occupant_and_every_fact_of_ownership() -> None:
    decides, ownership = (
        (reference.FOLDER / "concepts" / name).read_text() for name in ("how-it-decides.md", "ownership.md")
    )
    for name in [*(rule.name for rule in RULES), *(rule.name for rule in UNWANTED_RULES)]:
        assert f"| `{name}` |" in decides
    for fact in (*Occupant.__members__, *(name for name in vars(Ownership) if not name.startswith("_"))):
        assert f"| `{fact}` |" in ownership


def test_every_field_of_a_served_definition_is_on_the_page() -> None:
    page = (reference.FOLDER / "reference" / "custom-resources.md").read_text()
    for path in ("spec.data[].secretPath", "spec.targets.includedNamespaces.list[].name", "spec.labels"):
        assert f"| `{path}` |" in page
    assert "v2alpha1" not in page, "a version that is not served"


def test_every_reason_of_an_event_is_explained() -> None:
    reasons = {*events._EVENT_REASONS.values(), *(reason for reason, _ in events._WRITE_EVENTS.values())}
    declared = declared_reasons(VOCABULARIES)
    assert reasons == set(EVENT_REASONS)
    assert reasons.isdisjoint(declared)
    page = (reference.FOLDER / "reference/events.md").read_text()
    assert all(f"| `{reason}` | " in page for reason in (*reasons, *declared))


def test_every_reason_for_a_blocked_copy_has_its_own_explanation() -> None:
    assert {reason for reason in get_args(Reason) if reason != "no-namespace"} == set(events._EVENT_REASONS)


def test_the_change_log_names_every_command() -> None:
    named = re.search(r"- Commands: (.*?);", (ROOT / "CHANGELOG.md").read_text(), re.DOTALL)
    assert named is not None
    assert set(re.findall(r"`([a-z]+)`", named[1])) == {*COMMANDS, *DEVTOOLS_COMMANDS}


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_a_page_states_the_limit_on_mass_deletion_with_the_defaults(page: str) -> None:
    default = Settings().mass_delete
    assert default is not None
    copies = f"more than {default.most} copies and more than {default.percent} % of a source's copies"
    assert f"Deletions of {copies} within ten minutes are held until you release them" in words(page)
    assert (WINDOW, default.hold) == (10 * 60, inf)


def test_the_page_on_deletion_states_the_defaults_of_the_limit() -> None:
    default = Settings().mass_delete
    assert default is not None
    stated = f"`most` ({default.most})", f"`percent` ({default.percent} %)", f"`namespaces` ({default.namespaces})"
    assert [number for number in stated if number not in words("docs/concepts/deletion.md")] == []


def words(page: str) -> str:
    """The text of a page in one line."""
    return " ".join((ROOT / page).read_text().split())


def test_the_readme_has_the_markers_for_its_figures() -> None:
    assert (ROOT / "README.md").read_text().count("<!-- figures -->") == 2
