"""Another version of the program: a copy of its source with another version number and the edits of a test."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import samara


class Edit(NamedTuple):
    """A text in one file and its replacement in another version."""

    file: str
    ours: str
    theirs: str


NEXT = "9.9.9"


def other_version(folder: Path, *edits: Edit, version: str = NEXT) -> dict[str, str]:
    """Creates the other version below a folder and returns the environment that runs it."""
    source = Path(samara.__file__).parent
    tree = folder / f"samara-{version}"
    shutil.copytree(source, tree / "samara", ignore=shutil.ignore_patterns("__pycache__", "devcluster"))
    for edit in (Edit("__init__.py", f'"{samara.__version__}"', f'"{version}"'), *edits):
        file = tree / "samara" / edit.file
        text = file.read_text()
        assert text.count(edit.ours) == 1, f"{edit.file} no longer holds {edit.ours!r} once"
        file.write_text(text.replace(edit.ours, edit.theirs))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH"))))}
