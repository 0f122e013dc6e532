"""Lays out the files of the image in a folder: Python, our program and its dependencies, and nothing else.

The image has no shell, pip, compiler or .pth file, and every run lays out the same bytes. The files come from the
environment that runs this: `python scripts/image_tree.py FOLDER`.
"""

import os
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USER = 65532
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
HOME = Path("usr/local")
LIBRARY = HOME / "lib" / VERSION
PACKAGES = LIBRARY / "site-packages"
LEFT_OUT = (
    *("ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tests", "tkinter", "turtledemo"),
    *("venv", "__pycache__", "config-*", "*.a", "_tkinter*", "_test*", "_ctypes_test*", "*.pth"),
)
"""Parts of the standard library for installing, compiling, drawing and testing."""
BUNDLES = tuple(
    map(Path, ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"))
)
"""Files in which systems keep the certificate authorities that they trust."""
FILE_TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
"""The modification time of every file. The default is the earliest time that a zip archive can hold."""


def requirements() -> list[str]:
    """The installed packages that the program needs, including the clients of secret managers."""
    lines = (ROOT / "requirements" / "all.txt").read_text().splitlines()
    names = [match[1] for line in lines if (match := re.match(r"([a-z0-9-]+)==", line))]
    return [name for name in names if _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except ModuleNotFoundError:  # for another platform or Python version, or for a secret manager that is not installed
        return False
    return True


def lay_out(tree: Path) -> None:
    (tree / HOME / "bin").mkdir(parents=True)
    shutil.copyfile(_interpreter(), tree / HOME / "bin" / "python3")
    (tree / HOME / "bin" / "python3").chmod(0o755)
    shutil.copytree(sysconfig.get_paths()["stdlib"], tree / LIBRARY, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for name in requirements():
        _copy_package(name, tree / PACKAGES)
    shutil.copytree(ROOT / "src" / "samara", tree / PACKAGES / "samara", ignore=shutil.ignore_patterns("__pycache__"))
    _copy_libraries(tree)
    _copy_authorities(tree)
    _write_etc(tree)
    _compile(tree)
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (FILE_TIME, FILE_TIME), follow_symlinks=False)


def _compile(tree: Path) -> None:
    """Compiles in a separate process, because the bytecode of a module depends on other objects in memory."""
    flags = ("-qq", "--invalidation-mode=unchecked-hash", "-s", str(tree))
    command = (sys.executable, "-m", "compileall", *flags, str(tree / LIBRARY))
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False)


def _interpreter() -> Path:
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def _copy_package(name: str, into: Path) -> None:
    """Copies the files of one package, except its scripts, which are outside site-packages."""
    package = distribution(name)
    for file in package.files or ():
        if ".." in file.parts or file.suffix in (".pth", ".pyc"):
            continue
        target = into / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(package.locate_file(file)), target)


def _copy_libraries(tree: Path) -> None:
    """Copies the shared libraries that the tree needs to the folder in which the loader looks by default."""
    needed = {path for binary in _binaries(tree) for path in _libraries(binary)}
    default_folder = next(path.parent for path in needed if path.name.startswith("libc.so"))
    for path in sorted(needed):
        if path.is_relative_to(tree):  # a package brought it along
            continue
        target = tree / str(path if path.name.startswith("ld-") else default_folder / path.name).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(0o755)


def _binaries(tree: Path) -> Iterator[Path]:
    yield _interpreter()
    yield from (path for path in tree.rglob("*.so*") if path.is_file())


def _libraries(binary: Path) -> Iterator[Path]:
    """The libraries that the loader finds for a binary."""
    listing = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        match = re.match(r"\s*(?:\S+ => )?(/\S+) \(0x", line)
        if match:
            yield Path(match[1])


def _copy_authorities(tree: Path) -> None:
    """Copies the trusted authorities, for the certificates of secret managers, to the path in the tree's OpenSSL."""
    bundle = Path(ssl.get_default_verify_paths().openssl_cafile)
    target = tree / str(bundle).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(authorities([bundle, *BUNDLES]), target)


def authorities(bundles: Sequence[Path]) -> Path:
    """The first of these files that exists. Files that environment variables name are not trusted."""
    bundle = next((path for path in bundles if path.is_file()), None)
    if bundle is None:
        paths = ", ".join(map(str, bundles))
        sys.exit(f"expected the certificates of authorities in one of {paths}, found none: install ca-certificates")
    return bundle


def _write_etc(tree: Path) -> None:
    etc = tree / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "passwd").write_text(f"samara:x:{USER}:{USER}:samara:/nonexistent:/nonexistent\n")
    (etc / "group").write_text(f"samara:x:{USER}:\n")
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    (tree / "tmp").mkdir(mode=0o1777)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
