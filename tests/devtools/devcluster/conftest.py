"""One control plane for the tests of a module."""

from collections.abc import Iterator

import pytest

from samara_devtools.devcluster import Devcluster, DevclusterOptions


@pytest.fixture(scope="module")
def cluster() -> Iterator[Devcluster]:
    with Devcluster(DevclusterOptions(audit_secret_bodies=True)) as running:
        yield running
