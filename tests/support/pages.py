"""The pages of the project and the fenced blocks in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CHART_PAGE = ROOT / "deploy" / "chart" / "README.md"
PAGES = tuple(sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *EXAMPLES.rglob("*.md"), CHART_PAGE)))
SETTINGS = tuple(sorted(EXAMPLES.rglob("settings.yaml")))
MANIFESTS = tuple(path for path in sorted(EXAMPLES.rglob("*.yaml")) if path not in SETTINGS)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"^\*Not run by the tests: ([^*]+)\.\*\n\n\Z", re.MULTILINE)


class Fence(NamedTuple):
    page: Path
    line: int
    language: str
    text: str
    not_run: str
    """Why no test runs the block, from the paragraph before it. Empty if a test runs it."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_manifest(self) -> bool:
        return self.language == "yaml" and re.search(r"^apiVersion:", self.text, re.MULTILINE) is not None

    @property
    def is_for_the_server(self) -> bool:
        """True for a configuration file of the API server, which cannot be applied."""
        return self.is_manifest and "apiVersion: apiserver.config.k8s.io/" in self.text


def fences() -> Iterator[Fence]:
    for page in PAGES:
        text = page.read_text()
        for match in _FENCE.finditer(text):
            marked = _NOT_RUN.search(text, 0, match.start())
            line = text.count("\n", 0, match.start()) + 1
            yield Fence(page, line, match[1], match[2], marked[1] if marked else "")


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())
