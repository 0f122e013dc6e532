"""Ports that tests choose before a program of theirs listens on them."""

from __future__ import annotations

import itertools
import socket

import pytest
from tests import ports
from tests.ports import EACH, FIRST, WORKERS, free_port


def test_none_is_chosen_twice_in_a_row() -> None:
    assert len({free_port() for _ in range(50)}) == 50


def test_one_that_is_listened_on_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = free_port()
    monkeypatch.setattr(ports, "_numbers", itertools.count((taken - FIRST) % EACH))
    with socket.create_server(("127.0.0.1", taken)):
        assert free_port() != taken


def test_each_worker_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for worker in range(WORKERS):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        assert (free_port() - FIRST) // EACH == worker
