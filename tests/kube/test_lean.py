"""What is not loaded costs nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.heavy

ASK = "import os, samara.app, aiohttp.connector as c; print(len(c._SSL_CONTEXT_VERIFIED.get_ca_certs()), os.getenv({}))"
VARIABLE = "SSL_CERT_FILE"


@pytest.mark.parametrize("named", [None, "/somewhere/authorities.pem"])
def test_the_public_authorities_of_the_system_are_not_loaded_and_the_environment_stays(named: str | None) -> None:
    others = {key: value for key, value in os.environ.items() if key != VARIABLE}
    environment = others if named is None else {**others, VARIABLE: named}
    told = subprocess.run(
        [sys.executable, "-c", ASK.format(repr(VARIABLE))], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["0", str(named)]
