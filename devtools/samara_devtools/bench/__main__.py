"""`python -m samara_devtools.bench`: measures, prints one table and writes the same as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop

from samara_devtools.bench.bare import BareError
from samara_devtools.bench.bars import Row, of_bystander, of_calm, of_fishy, of_large, of_memory, of_turns, table
from samara_devtools.bench.bystander import Bystander, stand_by
from samara_devtools.bench.controller import ControllerError
from samara_devtools.bench.fishysecret import Fishy, fish
from samara_devtools.bench.idle import Calm, stay_calm
from samara_devtools.bench.lab import lab, say
from samara_devtools.bench.memory import Large, Memory, enlarge, weigh
from samara_devtools.bench.options import SOURCES, Options, parse
from samara_devtools.bench.turns import Turns, take_turns
from samara_devtools.devcluster import DevclusterError

FEW = 10
"""Namespaces of the FishySecrets. Their cost depends on the paths, not on the namespaces."""


@dataclass(slots=True)
class Report:
    vocabulary: str
    calm: Calm | None = None
    turns: Turns | None = None
    bystander: Bystander | None = None
    memory: Memory | None = None
    large: Large | None = None
    fishy: Fishy | None = None

    def rows(self) -> list[Row]:
        return [
            *(of_turns(self.turns, self.vocabulary) if self.turns else ()),
            *(of_bystander(self.bystander) if self.bystander else ()),
            *(of_calm(self.calm) if self.calm else ()),
            *(of_memory(self.memory) if self.memory else ()),
            *(of_large(self.large) if self.large else ()),
            *(of_fishy(self.fishy) if self.fishy else ()),
        ]


async def measure(options: Options, report: Report) -> None:
    if options.vocabulary == "fishysecret":
        async with lab(options, FEW) as pond:
            report.fishy = await fish(pond)
        return
    if options.wants("memory"):
        async with lab(options, options.small) as small:
            report.memory = await weigh(small)
    if options.wants("latency", "rest", "restart", "fill", "change", "bystander"):
        async with lab(options, options.namespaces) as usual:
            if options.wants("latency", "rest", "restart"):
                report.calm = await stay_calm(usual)
            if options.wants("fill", "change"):
                report.turns = await take_turns(usual)
            if options.wants("bystander"):
                report.bystander = await stand_by(usual)
    if options.wants("large"):
        async with lab(options, options.copies // SOURCES) as wide:
            report.large = await enlarge(wide)


def written(options: Options, report: Report) -> Path:
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    path.write_text(json.dumps(_document(options, report), indent=1, default=_plain) + "\n")
    return path


def _document(options: Options, report: Report) -> dict[str, Any]:
    machine = {"cores": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()}
    rows = [{**row._asdict(), "bar": row.bar, "passed": row.passed} for row in report.rows()]
    return {"machine": machine, "options": asdict(options), "table": rows, "measured": asdict(report)}


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset | set) else str(value)


def _setting(options: Options) -> str:
    if options.vocabulary == "fishysecret":
        return f"{options.objects:,} FishySecrets over {options.paths:,} paths"
    return f"{options.namespaces:,} namespaces where nothing else is said, Secrets of 1 KiB"


def main() -> int:
    options = parse()
    report = Report(options.vocabulary)
    code = 0
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure(options, report))
    except* (BareError, ControllerError, DevclusterError) as faults:
        code = 1
        for fault in faults.exceptions:
            say(f"gave up: {fault}")
    rows = report.rows()
    if not rows:
        return 1
    print(f"\n{_setting(options)}, {options.controller}\n")
    print(table(rows))
    print(f"\n{written(options, report)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
