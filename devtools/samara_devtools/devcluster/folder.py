"""The temporary data folder of one control plane, and the removal of folders whose owner process has died."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TextIO

PREFIX = "samara-devcluster-"
OWNER = "owner.pid"


class DataFolder:
    """A private folder that is locked for as long as its owner lives."""

    def __init__(self) -> None:
        remove_stale()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._owner = _locked(self.path / OWNER)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._owner.close()


def _locked(path: Path) -> TextIO:
    file = path.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(f"{os.getpid()}\n")  # after the lock: a folder with an empty file is new, and not stale
    file.flush()
    return file


def remove_stale() -> None:
    """Removes the folders of this user whose owner was killed before it could remove them."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_stale(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_stale(path: Path) -> bool:
    try:
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            return False
        with (path / OWNER).open("r+") as owner:
            # The pid alone proves nothing, because pids are used again. The kernel drops the lock with its owner.
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return bool(owner.read().strip())
    except OSError:
        return False
