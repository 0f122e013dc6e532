"""CPU time and memory of processes, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


def cpu_of(stat: str) -> float:
    """The CPU seconds in a /proc/<pid>/stat, including children that ended. The name in it may hold any character."""
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def parent_of(stat: str) -> int:
    return int(stat.rpartition(")")[2].split()[1])


def megabytes_of(status: str, name: str) -> float:
    """A field of a /proc/<pid>/status, in MB of 1,000,000 bytes."""
    line = next((line for line in status.splitlines() if line.startswith(f"{name}:")), "")
    return int(line.split()[1]) * 1024 / 1e6 if line else 0.0


def tree(pid: int) -> list[int]:
    """A process and everything below it."""
    parents = {int(path.name): parent for path in PROC.glob("[0-9]*") if (parent := _parent(path)) is not None}
    pids = [pid]
    for above in pids:
        pids.extend(child for child, parent in parents.items() if parent == above)
    return pids


def _parent(path: Path) -> int | None:
    try:
        return parent_of((path / "stat").read_text())
    except OSError:
        return None


def _read(pid: int, name: str) -> str | None:
    try:
        return (PROC / str(pid) / name).read_text()
    except OSError:
        return None


def cpu_seconds(pid: int) -> float:
    """Of a process and everything below it."""
    return sum(cpu_of(stat) for process in tree(pid) if (stat := _read(process, "stat")) is not None)


def peak_megabytes(pid: int) -> float:
    """The highest resident size that a process and each one below it ever had."""
    return sum(megabytes_of(text, "VmHWM") for process in tree(pid) if (text := _read(process, "status")) is not None)


def resident_megabytes(pid: int) -> float:
    return sum(megabytes_of(text, "VmRSS") for process in tree(pid) if (text := _read(process, "status")) is not None)
