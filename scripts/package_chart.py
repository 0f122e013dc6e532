"""Packages the chart of a release: `python scripts/package_chart.py REPOSITORY DIGEST FOLDER`.

The packaged chart names the image of the release by its digest, so it installs exactly that image.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from samara_devtools.devcluster.cluster import to_stderr
from samara_devtools.devcluster.helm_program import find_helm

CHART = Path(__file__).resolve().parents[1] / "deploy" / "chart"


def package(repository: str, digest: str, folder: Path, helm: Path) -> None:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        sys.exit(f"expected the digest of an image, sha256:…, found {digest!r}")
    with tempfile.TemporaryDirectory() as scratch:
        chart = Path(scratch, "samara")
        shutil.copytree(CHART, chart)
        for key, old, new in (("repository", "samara", repository), ("digest", '""', digest)):
            _replace(chart / "values.yaml", f"  {key}: {old}\n", f"  {key}: {new}\n")
        for value, old, new in (("repository", "samara", repository), ("digest", "", digest)):
            _replace(chart / "README.md", f'| `image.{value}` | `"{old}"` |', f'| `image.{value}` | `"{new}"` |')
        subprocess.run([helm, "package", chart, f"--destination={folder}"], check=True)


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    if text.count(old) != 1:
        sys.exit(f"{file.name}: expected {old.strip()!r} once, found it {text.count(old)} times")
    file.write_text(text.replace(old, new))


if __name__ == "__main__":
    package(sys.argv[1], sys.argv[2], Path(sys.argv[3]), find_helm(to_stderr))
