"""Both programs import aiohttp without loading the public authorities of the system."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.heavy

VARIABLE = "SSL_CERT_FILE"
PROGRAM = """
import contextlib, os, sys
import {module} as program
with contextlib.suppress(SystemExit):
    program.main()
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as context
print(len(context.get_ca_certs()), os.getenv("SSL_CERT_FILE"))
"""
COMMANDS = {
    "samara.cli.main": ("run", "--http-address=nowhere"),
    "kubectl_accurate.program": ("list", "--context=unknown"),
}
"""By program: a command that ends with an error after its imports."""


@pytest.mark.parametrize("named", [None, "/somewhere/authorities.pem"])
@pytest.mark.parametrize("module", COMMANDS)
def test_public_authorities_of_the_system_are_not_loaded_and_the_environment_stays(
    named: str | None, module: str
) -> None:
    others = {key: value for key, value in os.environ.items() if key != VARIABLE}
    environment = others if named is None else {**others, VARIABLE: named}
    command = [sys.executable, "-c", PROGRAM.format(module=module), *COMMANDS[module]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", str(named)], done.stderr
