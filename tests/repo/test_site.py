"""The documentation site is built without a warning, holds every page, and fetches nothing from outside."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pages import ROOT

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    # Not --quiet, because mkdocs then does not count warnings.
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={out}")
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= {path.relative_to(site) for path in site.rglob("*.html")}


def test_no_page_loads_external_resources(site: Path) -> None:
    fetched = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")
    styled = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//[^)]*""")
    matches = [match for page in site.rglob("*.html") for match in fetched.findall(page.read_text())]
    matches += [match for page in site.rglob("*.css") for match in styled.findall(page.read_text())]
    assert matches == []
