"""Checks that each pinned dependency of the image has a wheel for every platform of it. Asks the package index."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements" / "all.txt"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""By architecture of an image: the name of the machine in wheels."""
OLDEST_GLIBC, GLIBC = 17, 41
"""Wheels for these minor versions of glibc 2 are installed: the image has that of Debian 13."""


def python_version() -> str:
    """The version of the Python in the image."""
    match = re.search(r"^ARG PYTHON=python:(\d+\.\d+)", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    if match is None:
        sys.exit("expected a line ARG PYTHON=python:<version> in Containerfile, found none")
    return match[1]


def command(machine: str, requirements: Path, folder: Path) -> list[str]:
    tags = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(OLDEST_GLIBC, GLIBC + 1)))
    platforms = [f"--platform={tag}_{machine}" for tag in tags]
    only = ("--only-binary=:all:", "--implementation=cp", f"--python-version={python_version()}", *platforms)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download")
    return [*pip, "--no-deps", "--require-hashes", *only, f"--dest={folder}", f"--requirement={requirements}"]


def main(requirements: Path = REQUIREMENTS) -> int:
    missing = 0
    for architecture, machine in MACHINES.items():
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command(machine, requirements, Path(folder)), capture_output=True, text=True, check=False
            )
            count = len(list(Path(folder).iterdir()))
        if done.returncode == 0:
            print(f"linux/{architecture}: {count} wheels")
        else:
            missing += 1
            print(f"linux/{architecture}: not every dependency has a wheel:\n{done.stderr.rstrip()}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
