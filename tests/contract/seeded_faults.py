"""Breaks core, trees and some of the engine in many small ways, one at a time; shows that a test notices each.

First the tests are run on the code as it is: what fails without a fault would notice everything.

python -m tests.contract.seeded_faults             every fault against the test that catches it
python -m tests.contract.seeded_faults --suite     against the whole suite of its layer, until something fails
python -m tests.contract.seeded_faults --contract  against the properties alone
python -m tests.contract.seeded_faults owner held  only the faults whose titles contain one of these words
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import hypothesis.strategies  # noqa: F401 - loaded once, before the forks
import pytest
from tests.contract.seeds import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
SUITE = ("tests/core", "tests/dialects", "tests/contract/test_contract.py")
FORK = get_context("fork")
CONTRACT = ("tests/contract/test_contract.py",)
_PARTS = ("apply", "read", "holds_and_removals", "loop", "refusals", "namespaces_brake", "route", "waits")
ENGINE = (*(f"tests/engine/test_{each}.py" for each in _PARTS), *CONTRACT)


Tests = Callable[[Fault], tuple[str, ...]]


class Verdict(NamedTuple):
    fault: Fault
    caught_by: str
    seconds: float


def seeded(fault: Fault | None, folder: Path) -> Path:
    """A copy of the source with this one fault in it, or with none."""
    shutil.copytree(
        ROOT / "src" / "samara", folder / "samara", ignore=shutil.ignore_patterns("__pycache__", "devcluster")
    )
    if fault is None:
        return folder
    file = folder / "samara" / fault.path
    text = file.read_text()
    assert text.count(fault.good) == 1, f"{fault.title}: its text is {text.count(fault.good)} times in {file.name}"
    file.write_text(text.replace(fault.good, fault.bad))
    return folder


def judge(fault: Fault, tests: Tests) -> Verdict:
    started = time.monotonic()
    return Verdict(fault, first_failure(tests(fault), fault), time.monotonic() - started)


def first_failure(suite: tuple[str, ...], fault: Fault | None = None) -> str:
    """Runs the suite in a fork of its own, which has pytest loaded already and nothing of samara."""
    with tempfile.TemporaryDirectory(prefix="samara-fault-") as name:
        folder, log = seeded(fault, Path(name)), Path(name) / "log"
        child = FORK.Process(target=_run, args=(folder, log, suite))
        child.start()
        child.join()
        found = re.search(r"^FAILED \S+::(\S+)", log.read_text(), re.MULTILINE)
        assert found or child.exitcode == 0, log.read_text()  # no such test, or nothing of it can be imported
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


def _tests(arguments: list[str]) -> Tests:
    """By fault: what is to notice it."""
    if "--contract" in arguments:
        return lambda fault: CONTRACT
    if "--suite" in arguments:
        return lambda fault: ENGINE if fault.file.startswith("engine/") else SUITE
    return lambda fault: (f"tests/{fault.by}",)


def _chosen(arguments: list[str]) -> list[Fault]:
    words = [each for each in arguments if not each.startswith("--")]
    return [fault for fault in FAULTS if not words or any(word in fault.title for word in words)]


def main(arguments: list[str]) -> int:
    if "--help" in arguments:
        print(__doc__)  # noqa: T201
        return 0
    assert not any(name.startswith("samara") for name in sys.modules), "samara must not be loaded here"
    started, found = time.monotonic(), list[Verdict]()
    faults, tests = _chosen(arguments), _tests(arguments)
    if failing := first_failure(tuple(sorted({test for fault in faults for test in tests(fault)}))):
        print(f"{failing} fails on the code as it is: what it notices proves nothing")  # noqa: T201
        return 1
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for each in pool.map(partial(judge, tests=tests), faults):
            caught = f"caught by {each.caught_by}" if each.caught_by else "SURVIVED"
            print(f"{each.fault.file:15} {each.fault.title:36} {each.seconds:5.1f} s  {caught}", flush=True)  # noqa: T201
            found.append(each)
    survivors = sum(not each.caught_by for each in found)
    print(f"{len(found)} faults, {survivors} survived, {time.monotonic() - started:.0f} s")  # noqa: T201
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
