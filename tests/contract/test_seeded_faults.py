"""Every seeded fault is caught by its test."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.verify
@pytest.mark.timeout(1800)
def test_every_seeded_fault_is_caught() -> None:
    command = (sys.executable, "-m", "tests.contract.seeded_faults")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
