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
from samara_devtools.bench.bystander import Bystander, measure_bystander
from samara_devtools.bench.commands import Commands, measure_commands
from samara_devtools.bench.controller import ControllerError
from samara_devtools.bench.fan_outs import FanOuts, measure_fan_outs
from samara_devtools.bench.in_sync import InSync, measure_in_sync
from samara_devtools.bench.lab import open_lab, say
from samara_devtools.bench.memory import Large, Memory, measure_large, measure_memory
from samara_devtools.bench.options import SOURCES, Options, parse
from samara_devtools.bench.table import (
    Row,
    bystander_rows,
    command_rows,
    fan_out_rows,
    in_sync_rows,
    large_rows,
    memory_rows,
    table,
)
from samara_devtools.bench.workload import Measured, OwnMeasurement
from samara_devtools.bench.workloads import workload_of
from samara_devtools.devcluster import DevclusterError


@dataclass(slots=True)
class Report:
    least_rate: float
    in_sync: InSync | None = None
    fan_outs: FanOuts | None = None
    bystander: Bystander | None = None
    memory: Memory | None = None
    commands: Commands | None = None
    large: Large | None = None
    own: Measured | None = None

    def rows(self) -> list[Row]:
        return [
            *(fan_out_rows(self.fan_outs, self.least_rate) if self.fan_outs else ()),
            *(bystander_rows(self.bystander) if self.bystander else ()),
            *(in_sync_rows(self.in_sync) if self.in_sync else ()),
            *(memory_rows(self.memory) if self.memory else ()),
            *(command_rows(self.commands) if self.commands else ()),
            *(large_rows(self.large) if self.large else ()),
            *(self.own.rows() if self.own else ()),
        ]


async def measure(options: Options, report: Report) -> None:
    workload = workload_of(options.vocabulary)
    if isinstance(workload, OwnMeasurement):
        async with open_lab(options, workload.namespaces) as lab:
            report.own = await workload.measure(lab)
        return
    if options.wants("memory"):
        async with open_lab(options, options.small) as lab:
            report.memory = await measure_memory(lab)
    if options.wants("latency", "rest", "restart", "fill", "change", "bystander"):
        async with open_lab(options, options.namespaces) as lab:
            if options.wants("latency", "rest", "restart"):
                report.in_sync = await measure_in_sync(lab)
            if options.wants("fill", "change"):
                report.fan_outs = await measure_fan_outs(lab)
            if options.wants("bystander"):
                report.bystander = await measure_bystander(lab)
    await _measure_many_copies(options, report)


async def _measure_many_copies(options: Options, report: Report) -> None:
    """The phases on ten thousand namespaces. Each has a control plane of its own, because both begin without copies."""
    if options.wants("commands"):
        async with open_lab(options, options.copies // SOURCES) as lab:
            report.commands = await measure_commands(lab)
    if options.wants("large"):
        async with open_lab(options, options.copies // SOURCES) as lab:
            report.large = await measure_large(lab)


def write_json(options: Options, report: Report) -> Path:
    """Writes the options, the table and all figures into a new file, and returns its path."""
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    path.write_text(json.dumps(_document(options, report), indent=1, default=_jsonable) + "\n")
    return path


def _document(options: Options, report: Report) -> dict[str, Any]:
    machine = {"cores": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()}
    rows = [{**row._asdict(), "limit": row.limit, "passed": row.passed} for row in report.rows()]
    return {"machine": machine, "options": asdict(options), "table": rows, "measured": asdict(report)}


def _jsonable(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset | set) else str(value)


def _heading(options: Options) -> str:
    workload = workload_of(options.vocabulary)
    if isinstance(workload, OwnMeasurement):
        return workload.heading(options)
    return f"{options.namespaces:,} namespaces unless a row names another number, Secrets of 1 KiB"


def main() -> int:
    options = parse()
    report = Report(options.least_rate)
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
    print(f"\n{_heading(options)}, {options.controller}\n")
    print(table(rows))
    print(f"\n{write_json(options, report)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
