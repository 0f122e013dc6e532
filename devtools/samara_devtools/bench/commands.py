"""Measures how long the commands that read take, in turns with `kubectl get secrets -A` on the same cluster."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samara_devtools.bench.bare import BareError
from samara_devtools.bench.lab import Lab, say

SOURCES = 3
KUBECTL, STATUS, PLAN = "kubectl get secrets -A", "samara status", "samara plan"
WHY, WHY_SOURCE = "samara why, of a copy", "samara why, of a source"
SAMARA = (sys.executable, "-m", "samara.cli.main")


@dataclass(slots=True)
class Commands:
    """Seconds of each run, by command. The commands take turns, because the speed of a machine varies."""

    namespaces: int
    copies: int
    before: dict[str, list[float]] = field(default_factory=dict)
    """When the sources were written and no copy was there, so that all copies are to be created."""
    filled: dict[str, list[float]] = field(default_factory=dict)
    """When all copies were right."""


def fastest(runs: Mapping[str, Sequence[float]], command: str) -> float:
    """The time of the fastest run of a command: whatever else the machine does only makes a run slower."""
    return min(runs[command], default=math.nan)


async def measure_commands(lab: Lab) -> Commands:
    sources = [lab.source(f"source-{number}") for number in range(SOURCES)]
    commands = Commands(len(lab.namespaces), SOURCES * len(lab.namespaces))
    mark = lab.log.catch_up()
    for source in sources:
        await lab.write(source)
    lines = _lines(lab, sources[0].name)
    commands.before = await _take_turns(lab, {name: lines[name] for name in (STATUS, PLAN)})
    async with lab.ready():
        for source in sources:
            await lab.wait_copied(source, mark)
        await lab.wait_settled()
    for source in sources:
        await lab.verify(source)
    commands.filled = await _take_turns(lab, {name: lines[name] for name in (KUBECTL, WHY, WHY_SOURCE, STATUS)})
    return commands


def _lines(lab: Lab, source: str) -> dict[str, tuple[str, ...]]:
    """The command lines. `why` is asked about the copy of one source in a namespace in the middle of the list."""
    cluster, middle = f"--kubeconfig={lab.kubeconfig}", lab.namespaces[len(lab.namespaces) // 2]
    kubectl = (str(lab.cluster.binaries.kubectl), cluster, f"--cache-dir={lab.cluster.data / 'kubectl'}")
    return {
        KUBECTL: (*kubectl, "get", "secrets", "-A"),
        WHY: (*SAMARA, "why", f"secret/{source}", "-n", middle, cluster),
        WHY_SOURCE: (*SAMARA, "why", f"secret/{source}", "-n", lab.options.home, cluster),
        STATUS: (*SAMARA, "status", cluster),
        PLAN: (*SAMARA, "plan", cluster),
    }


async def _take_turns(lab: Lab, lines: Mapping[str, Sequence[str]]) -> dict[str, list[float]]:
    """Runs every command once to warm it up, and then the commands in turns."""
    environment = _environment(lab.cluster.data / "bytecode")
    for line in lines.values():
        await _seconds(line, environment)
    runs: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(lab.options.rounds):
        for name, line in lines.items():
            runs[name].append(await _seconds(line, environment))
        say(", ".join(f"{name}: {times[-1]:.2f} s" for name, times in runs.items()))
    return runs


def _environment(bytecode: Path) -> dict[str, str]:
    """An installed program is compiled. A checkout is too, unless the environment forbids it."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(bytecode)}


async def _seconds(line: Sequence[str], environment: Mapping[str, str]) -> float:
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *line, stdin=nothing, stdout=nothing, stderr=pipe, env=dict(environment)
    )
    _, errors = await process.communicate()
    seconds = time.perf_counter() - began
    if process.returncode:
        raise BareError(f"{' '.join(line)} ended with {process.returncode}: {errors.decode(errors='replace')[-500:]}")
    return seconds
