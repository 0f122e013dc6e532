"""Stores that need no credentials: files below a directory, and Secrets of this cluster.

`file:///directory` has one file per value, for development and for volumes that another program fills.
`kube://<namespace>` reads the Secrets of one namespace; a path is `name/key`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote

from samara.assembly import CERTIFICATE
from samara.core.kinds import NEVER_COPIED_TYPES
from samara.core.names import is_namespace_name, quoted
from samara.secretstores.base import (
    MAX_VALUE,
    Forbidden,
    Location,
    NamedValues,
    NotFound,
    ReadSecret,
    SingleValue,
    StoreError,
    Unavailable,
    Unusable,
    bad_url,
    split_path,
)

FORBIDDEN_DIRECTORIES = tuple(map(Path, ("/var/run/secrets", "/run/secrets", "/proc", "/sys")))
"""They hold the pod's own credentials, and data of every process."""

_SECRET_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


@dataclass(frozen=True, slots=True)
class Files:
    """Reads in a thread, since the volume may be on a network."""

    directory: Path
    scheme: str = "file"

    def locate(self, path: str) -> Location:
        document, field = split_path(path)
        if field:
            raise Unusable(f"expected the path of a file without a #, found {quoted(path)}")
        return Location(document)

    async def read(self, document: str) -> SingleValue:
        return await asyncio.to_thread(self._read, document)

    async def close(self) -> None:
        """Nothing is open between reads."""

    def _read(self, document: str) -> SingleValue:
        try:
            return self._read_once(document)
        except NotFound:
            # The kubelet updates a volume by swapping a symlink: the file may have gone between resolve and open.
            return self._read_once(document)

    def _read_once(self, document: str) -> SingleValue:
        root = self._root()
        try:
            file = (root / document).resolve(strict=True)
            if not file.is_relative_to(root) or _is_forbidden(file):
                raise Forbidden(f"the file {quoted(document)} leads out of the directory {self.directory}")
            return SingleValue(_file_content(file, document))
        except OSError as error:
            raise _file_error(error, document) from None
        except RuntimeError:  # Python before 3.13 raises this for a loop of symlinks
            raise Unusable(f"the file {quoted(document)} is a link that leads to itself") from None

    def _root(self) -> Path:
        """The directory with its symlinks resolved now. If it is missing or empty, most likely nothing is mounted, so
        its files are not taken for deleted."""
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
        raise bad_url("expected file:///directory, an absolute path and nothing more")
    if _is_forbidden(directory) or _is_forbidden(Path(os.path.realpath(directory))):
        forbidden = ", ".join(map(str, FORBIDDEN_DIRECTORIES))
        raise bad_url(f"{directory} is never read, nor is anything below {forbidden}")
    return Files(directory)


def _is_forbidden(path: Path) -> bool:
    return any(path.is_relative_to(directory) for directory in FORBIDDEN_DIRECTORIES)


def _file_content(file: Path, document: str) -> bytes:
    # Without blocking: opening a pipe would wait for a writer.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unusable(f"{quoted(document)} is not a regular file")
        content = opened.read(MAX_VALUE + 1)
    if len(content) > MAX_VALUE:
        raise Unusable(f"the file {quoted(document)} is larger than the {MAX_VALUE} bytes a value may have")
    return content


def _file_error(error: OSError, document: str) -> StoreError:
    name = quoted(document)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return NotFound(f"there is no file {name}")
        case errno.EACCES | errno.EPERM:
            return Forbidden(f"the file {name} may not be read by this user")
        case errno.ELOOP | errno.ENAMETOOLONG | errno.EISDIR:
            return Unusable(f"{name} cannot be the path of a file ({error.strerror})")
    return Unavailable(f"the file {name} could not be read ({error.strerror})")


@dataclass(frozen=True, slots=True)
class KubeSecrets:
    """Reads with the operator's own client, so RBAC in that namespace decides what can be read."""

    namespace: str
    read_secret: ReadSecret
    refused: frozenset[str]
    """Names of Secrets that are never read, because they are the operator's own."""
    scheme: str = "kube"

    def locate(self, path: str) -> Location:
        document, field = split_path(path)
        name, slash, key = document.partition("/")
        if field or not slash or not _SECRET_NAME.fullmatch(name) or not _SECRET_KEY.fullmatch(key):
            raise Unusable(
                f"expected name/key, a Secret of namespace {self.namespace} and a key of it, found {quoted(path)}"
            )
        return Location(name, key)

    async def read(self, document: str) -> NamedValues:
        if document in self.refused:
            raise Forbidden(f"Secret {document} of namespace {self.namespace} is the operator's own and is never read")
        secret = await self.read_secret(self.namespace, document)
        if secret.type in NEVER_COPIED_TYPES:
            raise Forbidden(f"Secret {document} is of type {secret.type}, which is never copied")
        return NamedValues(secret.data)

    async def close(self) -> None:
        """The client belongs to the operator and stays open."""


def open_kube(url: SplitResult, read_secret: ReadSecret, own_secrets: Collection[tuple[str, str]]) -> KubeSecrets:
    """`own_secrets` are the namespaces and names of the operator's own Secrets, such as the configuration."""
    namespace = url.netloc
    if not is_namespace_name(namespace) or url.path.strip("/") or url.query or url.fragment:
        raise bad_url("expected kube://<namespace> and nothing more")
    refused = {name for own_namespace, name in own_secrets if own_namespace == namespace}
    return KubeSecrets(namespace, read_secret, frozenset({CERTIFICATE, *refused}))
