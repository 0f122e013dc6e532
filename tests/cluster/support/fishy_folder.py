"""A folder as the secret manager of the cluster tests, with its faults."""

from __future__ import annotations

import contextlib
from pathlib import Path

CANARY = "canary-b1a6d0c4"
"""A part of every value. It must not appear anywhere but in Secrets."""


class Folder:
    """A secret manager made of files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.mkdir()
        self.values = {CANARY}
        """Every value that was ever stored and is long enough to be searched for."""
        self.put("unrelated", "x")  # an empty folder counts as not mounted

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def put(self, path: str, value: str | bytes) -> None:
        """Writes a value atomically, as kubelet replaces the files of a volume."""
        raw = value.encode() if isinstance(value, str) else value
        if isinstance(value, str) and len(value) > 5:
            self.values.add(value)
        file, fresh = self._place(path), self.path.parent / f"{self.path.name}.new"
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(raw)
        fresh.replace(file)

    def lose(self, path: str) -> None:
        self._place(path).unlink()

    def forbid(self, path: str) -> None:
        """Makes a path unreadable by a link out of the folder. This works for root too."""
        outside = self.path.parent / "outside"
        outside.write_text(f"{CANARY}-outside")
        self.values.add(f"{CANARY}-outside")
        with contextlib.suppress(FileNotFoundError):
            self.lose(path)
        self._place(path).symlink_to(outside)

    def allow(self, path: str, value: str) -> None:
        self.lose(path)
        self.put(path, value)

    def go_down(self) -> None:
        self.path.rename(self._away)

    def come_back(self) -> None:
        self._away.rename(self.path)

    @property
    def _away(self) -> Path:
        return self.path.with_name(f"{self.path.name}.away")

    def _place(self, path: str) -> Path:
        return self.path / path.removeprefix("/")
