"""Runs commands, and returns their exit code and both outputs.

`samara` runs a process of its own. `samara_inside` runs inside this process, which is much faster.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.support import forks

from samara.cli.main import main

TIMEOUT = 60


class Terminal(io.StringIO):
    """A stream that a program takes for a terminal."""

    def isatty(self) -> bool:
        return True


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        assert self.code in (0, 1, 3), self.err
        answer: dict[str, Any] = json.loads(self.out)
        return answer

    @property
    def fault(self) -> str:
        """The only line on stderr of a command that failed."""
        assert self.code == 1, f"expected exit code 1, found {self.code}: {self.err}"
        lines = [line for line in self.err.splitlines() if not line.startswith("samara: settings: ")]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("samara: ")
        assert "Traceback" not in self.err
        return lines[0]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without the kubeconfig, the settings and the colours of the developer."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SAMARA_", "KUBE"))}
    return {**kept, "HOME": "/nonexistent", "NO_COLOR": "1", **(more or {})}


def samara(*args: str | Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
    done = forks.run("samara", list(map(str, args)), environment(env), stdin, TIMEOUT)
    return Done(done.returncode, done.stdout, done.stderr)


def samara_inside(*args: str | Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Done:
    return Done(*inside(main, *args, stdin=stdin, env=env))


def inside(
    program: Callable[[], None], *args: str | Path, stdin: str = "", env: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Runs a program in this process, with its own arguments, variables and streams."""
    source, out, err = (io.BytesIO(data) for data in (stdin.encode(), b"", b""))
    streams: dict[str, Any] = {"stdin": _text(source), "stdout": _text(out), "stderr": _text(err)}
    code, limit = 0, sys.getrecursionlimit()
    with (
        patch.dict(os.environ, environment(env), clear=True),
        patch.multiple(sys, argv=["", *map(str, args)], **streams),
    ):
        try:
            program()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            sys.setrecursionlimit(limit)
    return code, out.getvalue().decode(), err.getvalue().decode()


def _text(stream: io.BytesIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(stream, "utf-8", write_through=True)
