"""Another version of the program: its own source with another number, and with whatever a test changes in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import samara


class Edit(NamedTuple):
    """A text in one file, and what another version has in its place."""

    file: str
    ours: str
    theirs: str


NEXT = "9.9.9"


def other_version(folder: Path, *edits: Edit, version: str = NEXT) -> dict[str, str]:
    """Makes the other version below a folder; returns the environment in which it is the one that runs."""
    source = Path(samara.__file__).parent
    tree = folder / f"samara-{version}"
    shutil.copytree(source, tree / "samara", ignore=shutil.ignore_patterns("__pycache__", "devcluster"))
    for edit in (Edit("__init__.py", f'"{samara.__version__}"', f'"{version}"'), *edits):
        file = tree / "samara" / edit.file
        text = file.read_text()
        assert text.count(edit.ours) == 1, f"{edit.file} no longer holds {edit.ours!r} once"
        file.write_text(text.replace(edit.ours, edit.theirs))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH"))))}
