"""Makes `kubectl samara` for krew: an archive for each platform, and the manifest that names them.

`python scripts/plugin.py archive TREE ARCHIVE` packs a file tree of the image, which has a Python in it.
`python scripts/plugin.py manifest URL ARCHIVE…` prints the manifest of archives that can be downloaded below the URL.
"""

import gzip
import hashlib
import io
import os
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "kubectl-samara"
FILE_TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
ARCHIVE = re.compile(rf"{PROGRAM}_(?P<os>[a-z]+)_(?P<arch>[a-z0-9]+)\.tar\.gz")
LAUNCHER = """\
#!/bin/sh
# Starts the Python of this folder with its own loader and libraries.
here=$(dirname "$(readlink -f "$0")")
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt "$here/tree/{authorities}"; do
    if [ -z "$SSL_CERT_FILE" ] && [ -f "$bundle" ]; then export SSL_CERT_FILE="$bundle"; fi
done
exec "$here/tree/{loader}" --library-path "$here/tree/{libraries}" "$here/tree/usr/local/bin/python3" \\
    -I -m samara.cli.main "$@"
"""
DESCRIPTION = """\
Samara is an operator that copies namespaced objects to the namespaces that need them. This plugin shows what it would
write, why an object is or is not in a namespace, which sources have problems, and mistakes in manifests. It prints the
manifests of the operator, too.
"""


def archive(tree: Path, out: Path) -> None:
    """Every run on the same tree writes the same bytes."""
    with (
        out.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, FILE_TIME) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        _add(tar, PROGRAM, launcher(tree).encode(), 0o755)
        _add(tar, "LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644)
        for path in sorted(tree.rglob("*")):
            if path.is_file():
                mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
                _add(tar, f"tree/{path.relative_to(tree)}", path.read_bytes(), mode)


def launcher(tree: Path) -> str:
    [loader] = tree.rglob("ld-linux*")
    [libc] = tree.rglob("libc.so.6")
    [authorities] = tree.rglob("cert.pem")  # OpenSSL's name of the file that it reads by default
    paths = {"loader": loader, "libraries": libc.parent, "authorities": authorities}
    return LAUNCHER.format(**{name: path.relative_to(tree) for name, path in paths.items()})


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content), mode, FILE_TIME
    tar.addfile(entry, io.BytesIO(content))


def manifest(version: str, url: str, archives: list[Path]) -> dict[str, Any]:
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "samara"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "See what the Samara operator copies, and why",
            "description": DESCRIPTION,
            "platforms": [_platform(url, path) for path in archives],
        },
    }


def _platform(url: str, path: Path) -> dict[str, Any]:
    match = ARCHIVE.fullmatch(path.name)
    if match is None:
        sys.exit(f"expected archives with a name such as {PROGRAM}_linux_amd64.tar.gz, found {path.name}")
    return {
        "selector": {"matchLabels": match.groupdict()},
        "uri": f"{url.rstrip('/')}/{path.name}",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bin": PROGRAM,
    }


def main(arguments: list[str]) -> None:
    match arguments:
        case ["archive", tree, out]:
            archive(Path(tree), Path(out))
        case ["manifest", url, *archives]:
            from samara import __version__

            print(yaml.safe_dump(manifest(__version__, url, list(map(Path, archives))), sort_keys=False), end="")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
