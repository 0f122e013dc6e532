"""Breaks core, trees and some of the engine in many small ways, one at a time; shows that the suite notices each.

First the suites are run on the code as it is: what fails without a fault would notice everything.

python -m tests.seeded_faults             every fault against the whole suite of its layer
python -m tests.seeded_faults --contract  against the properties alone
python -m tests.seeded_faults owner held  only the faults whose titles contain one of these words
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import hypothesis.strategies  # noqa: F401 - loaded once, before the forks
import pytest

ROOT = Path(__file__).resolve().parent.parent
SUITE = ("tests/core", "tests/dialects", "tests/test_contract.py")
FORK = get_context("fork")
CONTRACT = ("tests/test_contract.py",)
_PARTS = ("apply", "read", "holds_and_removals", "loop", "refusals", "namespaces_brake", "route", "waits")
ENGINE = (*(f"tests/engine/test_{each}.py" for each in _PARTS), *CONTRACT)


class Fault(NamedTuple):
    """A text in one file, and what is put in its place; a file without a folder is one of the core."""

    title: str
    file: str
    good: str
    bad: str


class Verdict(NamedTuple):
    fault: Fault
    caught_by: str
    seconds: float


FAULTS = (
    Fault(
        "writes for a paused source", "place", "if case.source is not None and is_paused(case.source):\n", "if False:\n"
    ),
    Fault(
        "writes into terminating namespaces",
        "place",
        "namespaced and (namespace is None or namespace.deleting):\n        found",
        "namespaced and namespace is None:\n        found",
    ),
    Fault("no rival check", "place", "    if rival is not None:\n", "    if False:\n"),
    Fault(
        "a forbidden rival has the place",
        "place",
        " and allow(copy, rival.source, namespace, dialect, case.rules) is None",
        "",
    ),
    Fault(
        "a tie that both win",
        "place",
        "key.source.namespace, key.source.name, key.dialect",
        'key.source.namespace, key.source.name, ""',
    ),
    Fault("creates without looking", "place", "if case.view.taken(copy.ref):", "if False:"),
    Fault("writes over what is being deleted", "place", "    if have.deleting:\n", "    if False:\n"),
    Fault(
        "overwrites a seed", "place", "if copy.mode is Mode.SEED or copy.content is KEEP:", "if copy.content is KEEP:"
    ),
    Fault(
        "a stripped mark frees a copy",
        "place",
        "if not made or RELEASED in have.annotations or",
        "if True or",
    ),
    Fault(
        "forgets released at wanted places",
        "place",
        "if not made or RELEASED in have.annotations or",
        "if not made or",
    ),
    Fault(
        "takes what was kept on purpose", "place", "return gone and dialect.rank <", "return False and dialect.rank <"
    ),
    Fault("takes what was orphaned", "place", "return not _is_orphaned(case, have)", "return True"),
    Fault("adopts different content", "place", "copy.content == have.content and _is_free(have)", "_is_free(have)"),
    Fault("adopts what has an owner", "place", "return not have.owners and not any(", "return not any("),
    Fault(
        "adopts a source of another dialect",
        "place",
        "if holder is None and any(case.table.sources(",
        "if False and any(case.table.sources(",
    ),
    Fault("updates a fixed field", "place", "if not kinds.must_recreate(", "if True or not kinds.must_recreate("),
    Fault("recreates where refused", "place", "if case.rules.recreate:", "if True:"),
    Fault("any mark is ours where unwanted", "place", "if not is_marked_by_us(have, case.dialect):", "if False:"),
    Fault(
        "deletes in a paused namespace",
        "place",
        "held_by = (namespace, case.source,",
        "held_by = (None, case.source,",
    ),
    Fault("deletes what was adopted", "place", "    if ADOPTED in have.annotations:\n", "    if False:\n"),
    Fault("deletes released copies", "place", "lost or RELEASED in have.annotations:", "lost:"),
    Fault("deletes what another source wants", "place", "    if have.made and any(\n", "    if False and any(\n"),
    Fault(
        "never takes overlay keys back", "place", "if valued and wanted == applied:", "if valued and wanted <= applied:"
    ),
    Fault(
        "lays overlays on what is paused",
        "place",
        "if any(is_paused(each) for each in (have,",
        "if any(False for each in (have,",
    ),
    Fault("prunes where it must not", "plan", "    if want.prune and not (", "    if not ("),
    Fault("what has moved does not wait", "plan", " and not (want.in_turn and busy):", ":"),
    Fault("what hands on is held back", "table", " if not dialect.hands_on)", ")"),
    Fault(
        "writes before the guard is there",
        "plan",
        "        return  # a source that is deleted",
        "        pass  # a source that is deleted",
    ),
    Fault("a slice releases the guard for all", "plan", " and not _is_left(case, want)", ""),
    Fault("plans an unlisted kind", "plan", "if not all(view.known(kind)", "if False and not all(view.known(kind)"),
    Fault(
        "takes away what is spared",
        "plan",
        "        stays.add(copy.ref)\n        if not isinstance(outcome, Refusal):\n",
        "        if not isinstance(outcome, Refusal):\n            stays.add(copy.ref)\n",
    ),
    Fault("a copy is a source of all dialects", "plan", "case.key not in table.sources(source, view)", "False"),
    Fault(
        "subset instead of exact content",
        "compare",
        "(copy.content == have.content or view",
        "(set(copy.content.fields) <= set(have.content.fields) or view",
    ),
    Fault(
        "leaves old labels of ours",
        "compare",
        "        and not any(_is_stale(owned.where, owned.key, copy, have, dialect) for owned in have.ours)\n",
        "",
    ),
    Fault("drops foreign annotations", "compare", "return {**kept, **wanted}", "return dict(wanted)"),
    Fault("any manager proves a mark", "compare", " and owned.manager in dialect.all_managers", ""),
    Fault(
        "ignored namespaces are not spared",
        "allow",
        "return SPARED if _says(namespace, IGNORE) and not copy.named else None",
        "return None",
    ),
    Fault("consent is not asked", "allow", 'if accepts(namespace.annotations.get(ACCEPT, ""), source):', "if True:"),
    Fault(
        "protected namespaces are open", "allow", "or not any_glob(rules.protected, copy.ref.namespace):", "or True:"
    ),
    Fault("the operator's own is open", "allow", "or copy.ref not in rules.own:", "or True:"),
    Fault("tokens are copied", "allow", 'return None if denied is None else Refusal("refused", denied)', "return None"),
    Fault(
        "narrow ignores its namespace",
        "view",
        "self._view.copies_of(key.part(self._namespace))",
        "self._view.copies_of(key)",
    ),
    Fault("asks and marks travel", "table", "if key not in self.words}", "if True}"),
    Fault(
        "annotations in a repr",
        "model",
        "annotations: Mapping[str, str] = field(default_factory=lambda: EMPTY, repr=False)",
        "annotations: Mapping[str, str] = field(default_factory=lambda: EMPTY)",
    ),
    Fault("labels that no server takes", "match", "    if is_label_value(text):\n", "    if True:\n"),
    Fault("a brake with one limit", "brake", "removed > brake.most and", "False and"),
    Fault("a mark makes an owner's object ours", "place", "    if case.dialect.by_owner:\n", "    if False:\n"),
    Fault("takes over what has an owner reference", "place", "not (case.table[owner.dialect].by_owner or", "not ("),
    Fault("an owner's rival keeps its place", "place", " or _replace(case, copy, have) or ", " or "),
    Fault(
        "replaces what comes first",
        "place",
        " or _takes_over(case, holder) or not _precedes(case, holder):",
        " or _takes_over(case, holder):",
    ),
    Fault("replaces what was adopted", "place", "if ADOPTED in have.annotations or not _is", "if not _is"),
    Fault("replaces what a paused source made", "place", " or (source and is_paused(source)):", ":"),
    Fault(
        "replaces what somebody forged",
        "place",
        "return is_marked_by_us(have, case.table[holder.dialect]) and RELEASED",
        "return RELEASED",
    ),
    Fault("takes what an earlier source keeps", "place", "    if keeper is not None:\n", "    if False:\n"),
    Fault("a forged mark keeps a place", "place", " or not is_marked_by_us(have, dialect):", ":"),
    Fault("what an earlier owner made stays", "place", "return _left_over(case, have) or _rep", "return _rep"),
    Fault("what an earlier owner made goes at once", "place", "why=EARLIER, late=True)", "why=EARLIER)"),
    Fault("deletes what a later owner made", "place", "have.created > case.source.created:", "False:"),
    Fault(
        "an owner may not know, and is content", "place", "and copy.content is KEEP and not is", "and False and not is"
    ),
    Fault("a definition takes all with it", "plan", "want if stands else replace(", "want if True else replace("),
    Fault("nobody asks for the definition", "plan", "    if stands is UNREAD:\n", "    if False:\n"),
    Fault("a definition that goes is held", "plan", "barred=(), prune=False)", "barred=(), prune=False, guard=None)"),
    Fault(
        "what should go late goes at once",
        "engine/removals",
        "return () if self._waits(key, self._left_since) else late",
        "return late",
    ),
    Fault("a definition stands for ever", "engine/read", "if _is_of_the_moment(read):", "if False:"),
    Fault("an owner is known by its name", "compare", "owner.uid == source.uid", "owner.name == source.ref.name"),
    Fault("fights with admission", "compare", " or view.stands_for(copy.ref.kind, copy.content, have.content))", ")"),
    Fault(
        "one unlisted kind stops everybody",
        "plan",
        "if place is None else (NAMESPACE, key.source.kind, place.kind)",
        "if True else ()",
    ),
    Fault("plans into an unlisted kind", "plan", "key.source.kind, place.kind)", "key.source.kind)"),
    Fault("withdrawn consent keeps its copies", "allow", "expected, withdraw=True)", "expected)"),
    Fault(
        "any refusal takes the copy away", "place", "if refusal.withdraw and have is not None", "if have is not None"
    ),
    Fault("what was held is held for ever", "tally", 'if each.reason != "held"}', "if True}"),
    Fault("a hold forgets what was refused", "tally", "self.removals = left | dict", "self.removals = {} | dict"),
    Fault("an explicit deletion is held", "brake", "return dialect.explicit and (", "return False and ("),
    Fault("every deletion is explicit", "brake", "return dialect.explicit and (source", "return (source"),
    Fault(
        "forgets what admission made", "engine/apply", "self.cache.answers.stored(copy.ref.kind", "str(copy.ref.kind"
    ),
    Fault("never tries before it writes", "engine/apply", "if not self.is_new():", "if True:"),
    Fault("tries what others wrote", "engine/apply", "if have.editor or not have.made or content", "if content"),
    Fault("tries what is known", "engine/apply", " or content in self._as_sent:", ":"),
    Fault("keeps a label that admission saw", "engine/apply", "return words and tried", "return tried"),
    Fault(
        "takes over what goes by its owner",
        "place",
        "if copy.adopt is Adopt.ANY and not referred:",
        "if copy.adopt is Adopt.ANY:",
    ),
    Fault(
        "what was adopted goes on asking",
        "compare",
        "gone = dialect.marks | asked | {ADOPTED}",
        "gone = dialect.marks | {ADOPTED}",
    ),
    Fault("makes reserved namespaces", "allow", "    if is_reserved(ref.name, rules):\n", "    if False:\n"),
    Fault(
        "a healthy reserved namespace is refused",
        "allow",
        "return None if copy.content is KEEP else _reserved(copy.ref, rules)",
        "return _reserved(copy.ref, rules)",
    ),
    Fault(
        "what is barred is forgotten",
        "plan",
        "yield Step(ref, Blocked(case.key, ref, reason, message))",
        "yield Step(ref, None)",
    ),
    Fault(
        "a loop elsewhere is cut to one namespace",
        "table",
        "return place is None or not place.below or place.below in self.upstream(obj)",
        "return True",
    ),
    Fault("what is whole is cut", "plan", "key = key.whole if dialect.whole else key", "key = key"),
    Fault("a copy of its own vocabulary is no source", "table", ".title == dialect.title:", " is None:"),
    Fault("namespaces go without end", "brake", "return gone + asked > brake.namespaces", "return False"),
    Fault("takes away what another version wrote", "compare", " or is_of_another_version(key):", ":"),
    Fault("an applied status keeps old conditions", "status", "    if dialect.reporter:  #", "    if False:  #"),
    Fault(
        "a sub-namespace hangs on a template",
        "dialects/accurate/words",
        "yield from (each for each in instances_of(name, view) if not parent_of(each))",
        "yield from instances_of(name, view)",
    ),
    Fault(
        "a loop goes on for ever one way",
        "dialects/accurate/words",
        "return len(set(names)) < len(names)",
        "return False",
    ),
    Fault(
        "a loop that opens wakes the next only",
        "dialects/accurate/words",
        "while near and is_in_loop(namespace, view):",
        "while False:",
    ),
    Fault(
        "what was inherited goes after a cut",
        "dialects/accurate/tree",
        "return Want()  # what was inherited stays",
        "return Want(overlays=(Overlay(source, manager=APPLIER),))  # what was inherited stays",
    ),
    Fault(
        "the parent comes before the object",
        "dialects/accurate/tree",
        'labels |= config.sub_label_keys.admitted(_texts(spec.get("labels")))',
        'labels = config.sub_label_keys.admitted(_texts(spec.get("labels"))) | labels',
    ),
    Fault(
        "any key of a SubNamespace is taken",
        "dialects/accurate/tree",
        'config.sub_label_keys.admitted(_texts(spec.get("labels")))',
        '_texts(spec.get("labels"))',
    ),
    Fault(
        "closing the gate takes away what was generated",
        "dialects/accurate/propagate",
        " and not self._was_generated(source, view)",
        "",
    ),
    Fault(
        "asks nobody whose object is not held",
        "dialects/accurate/propagate",
        "PROPAGATE_GENERATED) if view.taken(source) else None",
        "PROPAGATE_GENERATED) if False else None",
    ),
    Fault(
        "the end of a former source is nobody's news",
        "engine/route",
        "yield from (key for key in once if any(",
        "yield from (key for key in once if False and any(",
    ),
    Fault(
        "created copies are kept equal",
        "dialects/accurate/propagate",
        "return Mode.SYNC if is_stale or kept_for == source.ref else Mode.SEED",
        "return Mode.SYNC",
    ),
    Fault(
        "a stale copy of a former parent stays",
        "dialects/accurate/propagate",
        "return Mode.SYNC if is_stale or kept_for == source.ref else Mode.SEED",
        "return Mode.SYNC if kept_for == source.ref else Mode.SEED",
    ),
    Fault(
        "drift flows down",
        "dialects/accurate/propagate",
        "if self._is_astray(have, view) else copies",
        "if False else copies",
    ),
    Fault(
        "a deleted copy takes the next with it",
        "dialects/accurate/propagate",
        "prune=not self._comes_back(source, view) and",
        "prune=",
    ),
    Fault(
        "two deleted copies take the next with them",
        "dialects/accurate/propagate",
        "return self._comes_back(above, view)",
        "return False",
    ),
    Fault(
        "what waited for a copy is forgotten",
        "dialects/accurate/propagate",
        "for each in below if any(downstream_of(each, view))]",
        "for each in below if False]",
    ),
    Fault(
        "in a loop things are deleted",
        "dialects/accurate/propagate",
        "return Want(prune=False)  # what is being deleted",
        "return Want()  # what is being deleted",
    ),
    Fault(
        "created copies go with their source",
        "dialects/accurate/propagate",
        "kept_equal = obj.annotations.get(PROPAGATE) == UPDATE and above",
        "kept_equal = above",
    ),
    Fault(
        "a left-over copy hands on",
        "dialects/accurate/propagate",
        "if namespace is None or self._is_left_over(have, namespace):",
        "if namespace is None:",
    ),
    Fault(
        "excluded keys end the chain",
        "dialects/accurate/propagate",
        "annotations |= {FROM: source.ref.namespace, PROPAGATE: str(self._said(source, view))}",
        "annotations |= {FROM: source.ref.namespace}",
    ),
    Fault(
        "a vanished SubNamespace takes its namespace along",
        "dialects/accurate/sub",
        "return Want(prune=False)  # a sub-namespace without",
        "return Want()  # a sub-namespace without",
    ),
    Fault(
        "children go with their parent",
        "dialects/accurate/sub",
        "if not self.cascading and has_children(source.name, view):",
        "if False:",
    ),
    Fault(
        "a removed finalizer comes back",
        "dialects/accurate/sub",
        "if _is_new(obj) or FINALIZER in",
        "if True or FINALIZER in",
    ),
    Fault(
        "a status comes before the finalizer",
        "dialects/accurate/sub",
        "if _is_new(obj) and FINALIZER not in obj.finalizers:",
        "if False:",
    ),
    Fault(
        "any namespace may hold SubNamespaces",
        "dialects/accurate/sub",
        "if holder is None or holder.deleting or not (is_root(holder) or parent_of(holder)):",
        "if holder is None:",
    ),
    Fault(
        "a holder that becomes a root is not noticed",
        "dialects/accurate/sub",
        "return (*view.sources(SUB, obj.ref.name), *(",
        "return (*(), *(",
    ),
    Fault(
        "one that waits does not say so",
        "dialects/accurate/sub",
        "if FINALIZER in obj.finalizers and there is not None and",
        "if False and there is not None and",
    ),
    Fault(
        "conditions of others are a reason to write",
        "status",
        'if each.get("type") in dialect.conditions]',
        "if each]",
    ),
    Fault(
        "a source that ends takes its copies along",
        "dialects/accurate/propagate",
        "if (have is not None and have.deleting) or (",
        "if (",
    ),
    Fault(
        "a namespace is its own child",
        "dialects/accurate/words",
        "return any(each.ref.name != name for each in children_of(name, view))",
        "return any(True for each in children_of(name, view))",
    ),
    Fault("a name is judged again", "dialects/accurate/admit", "    elif old is None:\n", "    else:\n"),
    Fault(
        "a large plan knows better than a slice",
        "engine/loop",
        "if step.ref.namespace not in growth.overtaken:",
        "if True:",
    ),
    Fault(
        "what is on the way is forgotten",
        "engine/outbox",
        "if write.key == key.whole and key.slice in (None, _lot(ref)):",
        "if False:",
    ),
    Fault("nobody fights over labels", "engine/fights", "return any(was.get(key)", "return False and any(was.get(key)"),
    Fault("a restart forgets namespaces", "engine/holds", "or self.write_down is None or", "or True or"),
    Fault("a namespace is kept for ever", "engine/removals", "if isinstance(removal, Spare) and", "if False and"),
    Fault("takes what the cluster gave", "engine/apply", "if row(have.ref.kind).kept:", "if False:"),
    Fault(
        "a vanished FishySecret takes its Secret along",
        "dialects/fishysecret/__init__",
        "return Want(prune=False)  # its finalizer",
        "return Want()  # its finalizer",
    ),
    Fault(
        "what is not known takes the old Secret away",
        "dialects/fishysecret/__init__",
        "prune=built is not None,",
        "prune=True,",
    ),
    Fault(
        "reads before it may write",
        "dialects/fishysecret/__init__",
        "or FINALIZER not in obj.finalizers or asked.faults(obj):",
        "or asked.faults(obj):",
    ),
    Fault(
        "a time that has not come yet stays",
        "dialects/fishysecret/status",
        "_seconds(time) > _seconds(now) + _SKEW",
        "False",
    ),
    Fault("one label makes an owner", "dialects/fishysecret/words", " or not is_namespace_name(namespace):", ":"),
    Fault(
        "what is optional is left out at once",
        "dialects/fishysecret/values",
        "if not (item.optional and found.absent):",
        "if not (item.optional and found.fault):",
    ),
    Fault(
        "every read is a sync",
        "dialects/fishysecret/status",
        "(interval is not None and _is_over(stored, read_at, interval))",
        "interval is not None",
    ),
    Fault("two sources share one wait", "engine/retry", "spot = write.key, write.ref", "spot = None, write.ref"),
    Fault("a failing server has answered", "engine/read", "failed = _AFTER_FAILURE", "failed = 0.0"),
)


def seeded(fault: Fault | None, folder: Path) -> Path:
    """A copy of the source with this one fault in it, or with none."""
    shutil.copytree(
        ROOT / "src" / "samara", folder / "samara", ignore=shutil.ignore_patterns("__pycache__", "devcluster")
    )
    if fault is None:
        return folder
    file = folder / "samara" / (f"{fault.file}.py" if "/" in fault.file else f"core/{fault.file}.py")
    text = file.read_text()
    assert text.count(fault.good) == 1, f"{fault.title}: its text is {text.count(fault.good)} times in {file.name}"
    file.write_text(text.replace(fault.good, fault.bad))
    return folder


def judge(fault: Fault, suite: tuple[str, ...]) -> Verdict:
    started = time.monotonic()
    caught_by = first_failure(ENGINE if fault.file.startswith("engine/") else suite, fault)
    return Verdict(fault, caught_by, time.monotonic() - started)


def first_failure(suite: tuple[str, ...], fault: Fault | None = None) -> str:
    """Runs the suite in a fork of its own, which has pytest loaded already and nothing of samara."""
    with tempfile.TemporaryDirectory(prefix="samara-fault-") as name:
        folder, log = seeded(fault, Path(name)), Path(name) / "log"
        child = FORK.Process(target=_run, args=(folder, log, suite))
        child.start()
        child.join()
        found = re.search(r"^FAILED \S+::(\S+)", log.read_text(), re.MULTILINE)
        assert found or child.exitcode == 0, log.read_text()
    return found.group(1) if child.exitcode == 1 and found else ""


def _run(folder: Path, log: Path, suite: tuple[str, ...]) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_PROFILE"] = "seeded"
    sys.dont_write_bytecode = True
    quiet = ("-q", "--no-header", "--tb=no", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    code = pytest.main(["-x", *quiet, "-p", "no:cacheprovider", "-o", f"pythonpath={folder} .", *suite])
    sys.stdout.flush()
    os._exit(int(code))


def verdicts(faults: list[Fault], suite: tuple[str, ...]) -> Iterator[Verdict]:
    """As many at a time as there are processors."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(partial(judge, suite=suite), faults)


def broken(*suites: tuple[str, ...]) -> str:
    """The first test that fails on the code as it is, if one does."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return next(filter(None, pool.map(first_failure, suites)), "")


def _chosen(arguments: list[str]) -> list[Fault]:
    words = [each for each in arguments if not each.startswith("--")]
    return [fault for fault in FAULTS if not words or any(word in fault.title for word in words)]


def main(arguments: list[str]) -> int:
    assert not any(name.startswith("samara") for name in sys.modules), "samara must not be loaded here"
    started, found = time.monotonic(), list[Verdict]()
    suite = CONTRACT if "--contract" in arguments else SUITE
    if failing := broken(suite, ENGINE):
        print(f"{failing} fails on the code as it is: what it notices proves nothing")  # noqa: T201
        return 1
    for each in verdicts(_chosen(arguments), suite):
        caught = f"caught by {each.caught_by}" if each.caught_by else "SURVIVED"
        print(f"{each.fault.file:15} {each.fault.title:36} {each.seconds:5.1f} s  {caught}", flush=True)  # noqa: T201
        found.append(each)
    survivors = sum(not each.caught_by for each in found)
    print(f"{len(found)} faults, {survivors} survived, {time.monotonic() - started:.0f} s")  # noqa: T201
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
