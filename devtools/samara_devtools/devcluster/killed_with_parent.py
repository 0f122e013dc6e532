"""Run as a script: becomes the given program, after asking the kernel to kill it when its parent ends."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    # A script, not a preexec_fn, which is unsafe with threads. Python 3.12 warns of it.
    parent, program, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it ended before the request reached the kernel
        sys.exit(1)
    os.execv(program, [program, *arguments])  # noqa: S606


if __name__ == "__main__":
    main()
