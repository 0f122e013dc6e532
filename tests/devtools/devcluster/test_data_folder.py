"""A data folder is removed by its owner, or by the next start when its owner was killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from samara_devtools.devcluster.folder import DataFolder, remove_stale

OWNER = """
from samara_devtools.devcluster.folder import DataFolder
folder = DataFolder()
print(folder.path, flush=True)
input()
"""


pytestmark = pytest.mark.usefixtures("temporary")


def test_the_owner_removes_its_folder() -> None:
    folder = DataFolder()
    (folder.path / "etcd").mkdir()
    folder.remove()
    assert not folder.path.exists()


def test_only_folders_of_dead_owners_are_removed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        path = Path(owner.stdout.readline().decode().strip())
        remove_stale()
        assert path.exists()
        owner.kill()
    remove_stale()
    assert not path.exists()


def test_a_folder_that_is_being_created_stays(temporary: Path) -> None:
    path = temporary / "samara-devcluster-new"
    path.mkdir()
    (path / "owner.pid").touch()
    remove_stale()
    assert path.exists()
