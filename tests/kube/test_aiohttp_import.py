"""Both programs import aiohttp without the public authorities of the system and without libstdc++."""

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
extension = "frozenlist._frozenlist" in sys.modules
print(len(context.get_ca_certs()), extension, os.getenv("SSL_CERT_FILE"), os.getenv("FROZENLIST_NO_EXTENSIONS"))
"""
COMMANDS = {
    "samara.cli.main": ("run", "--http-address=nowhere"),
    "kubectl_accurate.program": ("list", "--context=unknown"),
}
"""By program: a command that ends with an error after its imports."""


@pytest.mark.parametrize("named", [None, "/somewhere/authorities.pem"])
@pytest.mark.parametrize("module", COMMANDS)
def test_aiohttp_is_imported_without_what_it_does_not_need_and_the_environment_stays(
    named: str | None, module: str
) -> None:
    others = {key: value for key, value in os.environ.items() if key != VARIABLE}
    environment = others if named is None else {**others, VARIABLE: named}
    command = [sys.executable, "-c", PROGRAM.format(module=module), *COMMANDS[module]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False", str(named), "None"], done.stderr
