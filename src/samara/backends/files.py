"""`file:///directory`: one file per value, for development and for volumes that others fill."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote

from samara.backends.base import (
    MOST,
    Absent,
    Denied,
    Spot,
    StoreError,
    Unavailable,
    Unfit,
    Whole,
    taken_apart,
    wrong_url,
)
from samara.core.match import shown

CLOSED = tuple(map(Path, ("/var/run/secrets", "/run/secrets", "/proc", "/sys")))
"""Where the pod's own credentials are, and what the kernel shows of every process."""


@dataclass(frozen=True, slots=True)
class Files:
    """Reads in a thread: a volume may be a network away."""

    directory: Path
    scheme: str = "file"

    def spot(self, path: str) -> Spot:
        document, field = taken_apart(path)
        if field:
            raise Unfit(f"expected the path of a file without a #, found {shown(path)}")
        return Spot(document)

    async def read(self, document: str) -> Whole:
        return await asyncio.to_thread(self._read, document)

    async def close(self) -> None:
        """Nothing is held open between reads."""

    def _read(self, document: str) -> Whole:
        try:
            return self._once(document)
        except Absent:
            # A kubelet replaces a volume's files by turning a link: what it led to a moment ago may be gone.
            return self._once(document)

    def _once(self, document: str) -> Whole:
        root = self._root()
        try:
            found = (root / document).resolve(strict=True)
            if not found.is_relative_to(root) or _is_closed(found):
                raise Denied(f"the file {shown(document)} leads out of the directory {self.directory}")
            return Whole(_content(found, document))
        except OSError as error:
            raise _fault(error, document) from None
        except RuntimeError:  # how a loop of links shows in older Pythons
            raise Unfit(f"the file {shown(document)} is a link that leads to itself") from None

    def _root(self) -> Path:
        """The directory as it is now; one that is missing or empty says nothing about the files that belong in it."""
        try:
            root = self.directory.resolve(strict=True)
            with os.scandir(root) as entries:
                empty = next(entries, None) is None
        except (OSError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or "not readable"
            raise Unavailable(f"the directory {self.directory} cannot be read ({why}): is it mounted?") from None
        if empty:
            raise Unavailable(f"the directory {self.directory} is empty: is it mounted?")
        return root


def open_file(url: SplitResult) -> Files:
    directory = Path(os.path.normpath(unquote(url.path))) if "\0" not in unquote(url.path) else Path()
    if url.netloc not in ("", "localhost") or not directory.is_absolute() or url.query or url.fragment:
        raise wrong_url("expected file:///directory, an absolute path and nothing more")
    if _is_closed(directory) or _is_closed(Path(os.path.realpath(directory))):
        closed = ", ".join(map(str, CLOSED))
        raise wrong_url(f"{directory} is never read, nor is anything below {closed}")
    return Files(directory)


def _is_closed(path: Path) -> bool:
    return any(path.is_relative_to(each) for each in CLOSED)


def _content(found: Path, document: str) -> bytes:
    # Without blocking: opening a pipe would wait for somebody to write.
    descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unfit(f"{shown(document)} is not a regular file")
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise Unfit(f"the file {shown(document)} is larger than the {MOST} bytes a value may have")
    return content


def _fault(error: OSError, document: str) -> StoreError:
    name = shown(document)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return Absent(f"there is no file {name}")
        case errno.EACCES | errno.EPERM:
            return Denied(f"the file {name} may not be read by this user")
        case errno.ELOOP | errno.ENAMETOOLONG | errno.EISDIR:
            return Unfit(f"{name} cannot be the path of a file ({error.strerror})")
    return Unavailable(f"the file {name} could not be read ({error.strerror})")
