"""The pages of the project and the fenced blocks in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PAGES = tuple(sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *EXAMPLES.rglob("*.md"))))
SETTINGS = tuple(sorted(EXAMPLES.rglob("settings.yaml")))
MANIFESTS = tuple(path for path in sorted(EXAMPLES.rglob("*.yaml")) if path not in SETTINGS)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Fence(NamedTuple):
    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_manifest(self) -> bool:
        return self.language == "yaml" and re.search(r"^apiVersion:", self.text, re.MULTILINE) is not None


def fences() -> Iterator[Fence]:
    for page in PAGES:
        text = page.read_text()
        for match in _FENCE.finditer(text):
            yield Fence(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())
