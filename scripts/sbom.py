"""Writes a CycloneDX SBOM and a licence list of the dependencies, from the lock file and without a network.

Versions and hashes are those of requirements/all.txt. Licences are read from the installed packages, all of
which the development environment has. They are SPDX expressions if the metadata of the package allows it.
"""

import json
import re
import sys
from importlib import metadata
from importlib.metadata import PackageMetadata
from pathlib import Path
from typing import Any, NamedTuple

from samara import __version__

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "all.txt"
UNKNOWN = "unknown"
IDS = ("Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0")
"""The SPDX identifiers to which free texts and classifiers are mapped."""
SPDX_BY_NAME = {
    **{identifier.lower(): identifier for identifier in IDS},
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}


class Package(NamedTuple):
    """One pinned package."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def packages(lock: str) -> list[Package]:
    """The packages of a lock file, in its order."""
    entries = re.sub(r"\\\n\s*", " ", lock).splitlines()
    return [_package(entry) for entry in entries if entry and not entry.startswith("#")]


def _package(entry: str) -> Package:
    head, *hashes = entry.split(" --hash=sha256:")
    pin, _, marker = head.partition(" ; ")
    name, _, version = pin.strip().partition("==")
    return Package(name, version, marker.strip(), tuple(digest.strip() for digest in hashes))


class Licence(NamedTuple):
    text: str
    is_spdx: bool


def licence(name: str) -> Licence:
    """The package's own expression, else the identifier of its license field, else those of its classifiers."""
    try:
        about = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return Licence(UNKNOWN, False)
    return licence_of(about.metadata, _licence_texts(about))


def licence_of(about: PackageMetadata, texts: str) -> Licence:
    if "License-Expression" in about:
        return Licence(about["License-Expression"], True)
    declared = next(iter(about.get_all("License", [])), "")
    if declared.lower() in SPDX_BY_NAME:
        return Licence(SPDX_BY_NAME[declared.lower()], True)
    classified = [
        classifier.rpartition(" :: ")[2]
        for classifier in about.get_all("Classifier", [])
        if classifier.startswith("License ::")
    ]
    identifiers = [SPDX_BY_NAME.get(classifier.lower()) or _bsd(classifier, texts) for classifier in classified]
    if identifiers and all(identifiers):
        # Classifiers do not say whether all licences apply or one may be chosen. AND is the safe reading.
        return Licence(" AND ".join(sorted(filter(None, identifiers))), True)
    name = declared if "\n" not in declared and len(declared) < 60 else ""  # else it is the text of the licence
    return Licence(name or ", ".join(classified) or UNKNOWN, False)


def _bsd(classified: str, texts: str) -> str | None:
    """The classifier does not say how many clauses the licence has. Its text does."""
    if classified != "BSD License" or "Redistributions in binary form" not in texts:
        return None
    return "BSD-3-Clause" if "Neither the name" in texts else "BSD-2-Clause"


def _licence_texts(about: metadata.Distribution) -> str:
    return "".join(file.read_text() for file in about.files or () if file.name.upper().startswith(("LICEN", "COPYING")))


def bom(lock: str) -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _samara()},
        "components": [_component(package) for package in packages(lock)],
    }


def _samara() -> dict[str, Any]:
    purl = f"pkg:pypi/samara@{__version__}"
    component = {"type": "application", "bom-ref": purl, "name": "samara", "version": __version__, "purl": purl}
    return {**component, "licenses": [{"expression": "Apache-2.0"}]}


def _component(package: Package) -> dict[str, Any]:
    purl = f"pkg:pypi/{package.name}@{package.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "licenses": [_shown(licence(package.name))],
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.hashes],
        **({"properties": [{"name": "samara:only-where", "value": package.marker}]} if package.marker else {}),
    }


def _shown(licence: Licence) -> dict[str, Any]:
    return {"expression": licence.text} if licence.is_spdx else {"license": {"name": licence.text}}


def licences(lock: str) -> str:
    return "".join(f"{package.name} {package.version}: {licence(package.name).text}\n" for package in packages(lock))


def main(folder: Path) -> int:
    lock = LOCK.read_text()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "samara.cdx.json").write_text(json.dumps(bom(lock), indent=2) + "\n")
    (folder / "licences.txt").write_text(licences(lock))
    print(f"wrote samara.cdx.json and licences.txt, of {len(packages(lock))} packages, into {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/sbom")))
