"""Ports that tests choose before a program of theirs listens on them."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import ports
from tests.support.ports import BLOCKS, FIRST, SIZE, free_port, reserved

LAST_PORT = 32_767
"""The ephemeral ports of the system are above it."""


def test_a_port_is_not_chosen_twice_in_a_row() -> None:
    assert len({free_port() for _ in range(50)}) == 50


def test_a_port_in_use_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = free_port()
    monkeypatch.setattr(ports, "_numbers", itertools.count((taken - FIRST) % SIZE))
    with socket.create_server(("127.0.0.1", taken)):
        assert free_port() != taken


def test_test_runs_choose_from_different_blocks_of_ports() -> None:
    """Another run on the same machine is another process without knowledge of this one."""
    ours = free_port() // SIZE
    code = "from tests.support.ports import free_port; print(free_port())"
    theirs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(theirs) // SIZE != ours


def test_a_finished_run_releases_its_ports(tmp_path: Path) -> None:
    first, lock = reserved(tmp_path)
    second, other = reserved(tmp_path)
    assert not set(first) & set(second)
    lock.close()
    again, third = reserved(tmp_path)
    assert again == first
    other.close()
    third.close()


def test_all_ports_are_below_the_ephemeral_ones(tmp_path: Path) -> None:
    blocks = [reserved(tmp_path) for _ in range(BLOCKS)]
    assert max(own[-1] for own, _ in blocks) <= LAST_PORT
    with pytest.raises(RuntimeError, match="have reserved all ports"):
        reserved(tmp_path)
    for _, lock in blocks:
        lock.close()
