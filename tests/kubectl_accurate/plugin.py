"""Runs the plugin as a process or inside this one, and returns its exit code and both outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.cli.program import TIMEOUT, environment, inside
from tests.support import forks

from kubectl_accurate.program import main


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def good(self) -> str:
        """The output of a command that succeeded without a note on stderr."""
        assert (self.code, self.err) == (0, ""), self
        return self.out

    @property
    def fault(self) -> str:
        """The only line on stderr of a command that failed."""
        assert self.code == 1, self
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("kubectl-accurate: ")
        return self.err.removeprefix("kubectl-accurate: ").strip()


def accurate(*args: str | Path, env: Mapping[str, str] | None = None) -> Result:
    done = forks.run("kubectl-accurate", list(map(str, args)), environment(env), timeout=TIMEOUT)
    return Result(done.returncode, done.stdout, done.stderr)


def accurate_inside(*args: str | Path, env: Mapping[str, str] | None = None) -> Result:
    return Result(*inside(main, *args, env=env))
