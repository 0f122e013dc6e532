"""Removes this machine's settings for secret managers from the environment of the tests."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # as the program does, before grpc is imported


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Removes credentials and proxies, and disables requests to the machine's own cloud."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "VAULT_", "BAO_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
