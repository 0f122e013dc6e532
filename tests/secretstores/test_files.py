"""Tests `file://`: only files below one directory are read."""

import asyncio
import errno
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from samara.secretstores import local
from samara.secretstores.base import MAX_VALUE, Forbidden, Location, NotFound, StoreConfigError, Unavailable, Unusable
from samara.secretstores.local import Files, open_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with one file, and a foreign secret beside it."""
    (tmp_path / "outside").write_bytes(b"canary-value-4711")
    made = tmp_path / "store"
    (made / "app").mkdir(parents=True)
    (made / "app" / "password").write_bytes(b"click me!\n")
    return made


def value(root: Path | str, path: str) -> bytes:
    store = open_file(urlsplit(f"file://{root}"))

    async def run() -> bytes:
        location = store.locate(path)
        return (await store.read(location.document)).value(location.field)

    return asyncio.run(run())


def test_a_path_is_a_file_below_the_directory(root: Path) -> None:
    assert value(root, "app/password") == b"click me!\n"  # the newline is part of the file
    assert value(root, "/app/password") == b"click me!\n"
    assert value(f"localhost{root}", "app/password") == b"click me!\n"


def test_binary_and_empty_values_stay_as_they_are(root: Path) -> None:
    (root / "binary").write_bytes(bytes(range(256)))
    (root / "empty").write_bytes(b"")
    assert value(root, "binary") == bytes(range(256))
    assert value(root, "empty") == b""


def test_links_of_a_mounted_volume_are_followed(root: Path) -> None:
    (root / "..2026_11_15").mkdir()
    (root / "..2026_11_15" / "key").write_bytes(b"v1")
    (root / "..data").symlink_to("..2026_11_15")
    (root / "key").symlink_to("..data/key")
    assert value(root, "key") == b"v1"


def test_a_link_that_changes_during_the_read_is_followed_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Path] = []
    read = local._file_content

    def once_gone(folder: Path, document: str) -> bytes:
        tries.append(folder)
        if len(tries) == 1:
            raise FileNotFoundError(errno.ENOENT, "gone")
        return read(folder, document)

    monkeypatch.setattr(local, "_file_content", once_gone)
    assert value(root, "app/password") == b"click me!\n"


@pytest.mark.parametrize("target", ["../outside", "/etc/hostname", "/proc/self/environ", "app/../../outside"])
def test_a_link_that_leads_out_is_refused(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    with pytest.raises(Forbidden, match="leads out") as caught:
        value(root, "link")
    assert "canary" not in str(caught.value)
    assert "/etc" not in str(caught.value)


def test_a_linked_folder_that_leads_out_is_refused(root: Path) -> None:
    (root / "folder").symlink_to(root.parent)
    with pytest.raises(Forbidden):
        value(root, "folder/outside")


@pytest.mark.parametrize("path", ["../outside", "app/../../outside", "app//password", "app/password#x", "a\0b"])
def test_an_illegal_path_of_a_file_is_refused(root: Path, path: str) -> None:
    with pytest.raises(Unusable):
        open_file(urlsplit(f"file://{root}")).locate(path)


def test_a_document_is_a_file() -> None:
    assert Files(Path("/x")).locate("/app/password") == Location("app/password", "")


def test_a_missing_file_is_absent(root: Path) -> None:
    for path in ("app/user", "other/user", "app/password/user"):
        with pytest.raises(NotFound):
            value(root, path)


def test_a_missing_or_empty_directory_is_an_outage_and_no_file_is_absent(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for directory in (tmp_path / "missing", tmp_path / "empty"):
        with pytest.raises(Unavailable, match="mounted"):
            value(directory, "app/password")


def test_a_folder_a_pipe_and_a_loop_of_links_are_refused(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    for path in ("app", "pipe", "loop", "x" * 300):
        with pytest.raises(Unusable):
            value(root, path)


def test_a_file_of_more_than_a_mebibyte_is_refused(root: Path) -> None:
    (root / "most").write_bytes(b"x" * MAX_VALUE)
    (root / "more").write_bytes(b"x" * (MAX_VALUE + 1))
    assert len(value(root, "most")) == MAX_VALUE
    with pytest.raises(Unusable, match="1048576"):
        value(root, "more")


@pytest.mark.parametrize(
    ("code", "fault"), [(errno.EACCES, Forbidden), (errno.EIO, Unavailable), (errno.ESTALE, Unavailable)]
)
def test_each_error_of_the_system_has_its_own_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int, fault: type[Exception]
) -> None:
    def refuse(folder: Path, document: str) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(local, "_file_content", refuse)
    with pytest.raises(fault):
        value(root, "app/password")


CLOSED = ["/var/run/secrets", "/var/run/secrets/kubernetes.io", "/run/secrets", "/proc", "/proc/self", "/sys/kernel"]


@pytest.mark.parametrize("directory", [*CLOSED, "/var/../proc", "/proc/", "/var/run/../run/secrets", "/%70roc"])
def test_directories_of_credentials_and_of_the_kernel_are_refused(directory: str) -> None:
    with pytest.raises(StoreConfigError, match="never read") as caught:
        open_file(urlsplit(f"file://{directory}"))
    assert caught.value.reason == "ConnectionError"


def test_a_link_to_a_forbidden_directory_is_refused_at_the_start_and_later(root: Path) -> None:
    (root.parent / "link").symlink_to("/proc")
    with pytest.raises(StoreConfigError, match="never read"):
        open_file(urlsplit(f"file://{root.parent}/link"))
    (root.parent / "later").symlink_to(root)
    store = open_file(urlsplit(f"file://{root.parent}/later"))
    (root.parent / "later").unlink()
    (root.parent / "later").symlink_to("/proc")
    with pytest.raises(Forbidden):
        asyncio.run(store.read("version"))


def test_a_forbidden_directory_is_refused_below_an_allowed_one() -> None:
    with pytest.raises(Forbidden):
        value("/", "proc/version")


@pytest.mark.parametrize("url", ["file://", "file:relative", "file://host/dir", "file:///dir?x=1", "file:///dir#x"])
def test_the_url_names_one_absolute_directory(url: str) -> None:
    with pytest.raises(StoreConfigError, match="absolute") as caught:
        open_file(urlsplit(url))
    assert caught.value.reason == "ConnectionError"
