"""Writes what the program is made of, from the lock file and without a network: a CycloneDX SBOM and a licence list.

Versions and hashes are those of requirements/all.txt. Licences are read from the installed packages, which the
development environment has all of.
"""

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from samara import __version__

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "all.txt"
UNKNOWN = "unknown"


class Part(NamedTuple):
    """One pinned package."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def parts(lock: str) -> list[Part]:
    """The packages of a lock file, in its order."""
    entries = re.sub(r"\\\n\s*", " ", lock).splitlines()
    return [_part(entry) for entry in entries if entry and not entry.startswith("#")]


def _part(entry: str) -> Part:
    head, *hashes = entry.split(" --hash=sha256:")
    pin, _, marker = head.partition(" ; ")
    name, _, version = pin.strip().partition("==")
    return Part(name, version, marker.strip(), tuple(each.strip() for each in hashes))


def licence(name: str) -> str:
    """What the package itself says; the classifiers where it says nothing short."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return UNKNOWN
    said = next((about[key] for key in ("License-Expression", "License") if key in about), "")
    if said and "\n" not in said and len(said) < 60:
        return said
    found = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier", []) if each.startswith("License ::")]
    return " AND ".join(found) or UNKNOWN


def bom(lock: str) -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _samara()},
        "components": [_component(part) for part in parts(lock)],
    }


def _samara() -> dict[str, Any]:
    purl = f"pkg:pypi/samara@{__version__}"
    known = {"type": "application", "bom-ref": purl, "name": "samara", "version": __version__, "purl": purl}
    return {**known, "licenses": [{"expression": "Apache-2.0"}]}


def _component(part: Part) -> dict[str, Any]:
    purl = f"pkg:pypi/{part.name}@{part.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": part.name,
        "version": part.version,
        "purl": purl,
        "licenses": [{"license": {"name": licence(part.name)}}],
        "hashes": [{"alg": "SHA-256", "content": each} for each in part.hashes],
        **({"properties": [{"name": "samara:only-where", "value": part.marker}]} if part.marker else {}),
    }


def licences(lock: str) -> str:
    return "".join(f"{part.name} {part.version}: {licence(part.name)}\n" for part in parts(lock))


def main(folder: Path) -> int:
    lock = LOCK.read_text()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "samara.cdx.json").write_text(json.dumps(bom(lock), indent=2) + "\n")
    (folder / "licences.txt").write_text(licences(lock))
    print(f"wrote samara.cdx.json and licences.txt, of {len(parts(lock))} packages, into {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/sbom")))
