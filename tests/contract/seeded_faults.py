"""Breaks the code in many small ways, one at a time, and checks that a test fails each time.

The tests run on the unchanged code first: a test that fails without a fault proves nothing about a fault.

python -m tests.contract.seeded_faults             run for every fault the test that is named to catch it
python -m tests.contract.seeded_faults --suite     run the tests of its package until one of them fails
python -m tests.contract.seeded_faults --contract  run only the properties
python -m tests.contract.seeded_faults owner held  only the faults whose titles contain one of these texts
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
FORK = get_context("fork")
CONTRACT = ("tests/contract/test_contract.py",)
DECISION = ("tests/core", "tests/vocabularies")
"""Core and the vocabularies make the plans together, so the tests of each may catch a fault in the other."""

Tests = Callable[[Fault], tuple[str, ...]]


class Verdict(NamedTuple):
    fault: Fault
    caught_by: str
    seconds: float


def seeded(fault: Fault | None, folder: Path) -> Path:
    """A copy of the source code with this fault in it, or without any."""
    shutil.copytree(
        ROOT / "src" / "samara", folder / "samara", ignore=shutil.ignore_patterns("__pycache__", "devcluster")
    )
    if fault is None:
        return folder
    file = folder / "samara" / fault.path
    text = file.read_text()
    times = text.count(fault.good)
    assert times == 1, f"{fault.title}: expected its text once in {file.name}, found it {times} times"
    file.write_text(text.replace(fault.good, fault.bad))
    return folder


def judge(fault: Fault, tests: Tests) -> Verdict:
    started = time.monotonic()
    return Verdict(fault, first_failure(tests(fault), fault), time.monotonic() - started)


def first_failure(tests: tuple[str, ...], fault: Fault | None = None) -> str:
    """Run the tests in a fork, which has pytest loaded already and nothing of samara."""
    with tempfile.TemporaryDirectory(prefix="samara-fault-") as name:
        folder, log = seeded(fault, Path(name)), Path(name) / "log"
        child = FORK.Process(target=_run, args=(folder, log, tests))
        child.start()
        child.join()
        match = re.search(r"^FAILED \S+::(\S+)", log.read_text(), re.MULTILINE)
        assert match or child.exitcode == 0, log.read_text()  # the test is missing or cannot be imported
    return match.group(1) if child.exitcode == 1 and match else ""


def _run(folder: Path, log: Path, tests: tuple[str, ...]) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_PROFILE"] = "seeded"
    sys.dont_write_bytecode = True
    quiet = ("-q", "--no-header", "--tb=no", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    code = pytest.main(["-x", *quiet, "-p", "no:cacheprovider", "-o", f"pythonpath={folder} .", *tests])
    sys.stdout.flush()
    os._exit(int(code))


def _tests(arguments: list[str]) -> Tests:
    """The tests to run for a fault."""
    if "--contract" in arguments:
        return lambda fault: CONTRACT
    if "--suite" in arguments:
        return suite
    return lambda fault: (f"tests/{fault.by}",)


def suite(fault: Fault) -> tuple[str, ...]:
    """The tests of the package that has the fault, then the properties."""
    package = f"tests/{fault.path.partition('/')[0]}"
    return (*(DECISION if package in DECISION else (package,)), *CONTRACT)


def _chosen(arguments: list[str]) -> list[Fault]:
    words = [argument for argument in arguments if not argument.startswith("--")]
    return [fault for fault in FAULTS if not words or any(word in fault.title for word in words)]


def main(arguments: list[str]) -> int:
    if "--help" in arguments:
        print(__doc__)  # noqa: T201
        return 0
    assert not any(name.startswith("samara") for name in sys.modules), "samara must not be loaded here"
    started, verdicts = time.monotonic(), list[Verdict]()
    faults, tests = _chosen(arguments), _tests(arguments)
    if failing := first_failure(tuple(sorted({test for fault in faults for test in tests(fault)}))):
        print(f"{failing} fails on the unchanged code, so it proves nothing")  # noqa: T201
        return 1
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for verdict in pool.map(partial(judge, tests=tests), faults):
            caught = f"caught by {verdict.caught_by}" if verdict.caught_by else "SURVIVED"
            title = f"{verdict.fault.path:36} {verdict.fault.title:70}"
            print(f"{title} {verdict.seconds:5.1f} s  {caught}", flush=True)  # noqa: T201
            verdicts.append(verdict)
    survivors = sum(not verdict.caught_by for verdict in verdicts)
    print(f"{len(verdicts)} faults, {survivors} survived, {time.monotonic() - started:.0f} s")  # noqa: T201
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
