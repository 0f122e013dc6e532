"""The file tree of the image runs by itself, and contains no shell, installer or compiler."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest
from scripts import image_tree

from samara import __version__

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "bash", "dash", "busybox", "pip", "pip3", "gcc", "cc", "ld", "as", "apt", "dpkg", "perl", "wget", "curl")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("image") / "tree"
    image_tree.lay_out(made)
    return made


def run(tree: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return python(tree, "-m", "samara.cli.main", *args)


def python(tree: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with the loader and the libraries of the tree and an empty environment, as in the container."""
    [loader] = tree.rglob("ld-linux*")
    [libc] = tree.rglob("libc.so.6")
    program = tree / "usr" / "local" / "bin" / "python3"
    command = [str(loader), "--library-path", str(libc.parent), str(program), "-I", *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def digest(tree: Path) -> dict[str, str]:
    files = (path for path in sorted(tree.rglob("*")) if path.is_file())
    return {str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_operator_runs_from_the_tree(tree: Path) -> None:
    done = run(tree, "version")
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout


def test_every_import_of_the_operator_is_in_the_tree(tree: Path) -> None:
    done = run(tree, "run")
    assert done.returncode == 1
    assert done.stderr.startswith("samara: expected a cluster to talk to, found none")
    assert run(tree, "manifests").returncode == 0


def test_the_system_certificates_are_where_the_tree_expects_them(tree: Path) -> None:
    path = python(tree, "-c", "import ssl; print(ssl.get_default_verify_paths().openssl_cafile)")
    bundle = tree / path.stdout.strip().lstrip("/")
    # Here the tree is not the root: of the paths that OpenSSL was built with, only the first part is given.
    given = {"SSL_CERT_FILE": str(bundle), "SSL_CERT_DIR": str(tree / "nowhere")}
    count = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(python(tree, "-c", count, **given).stdout) > 0


def test_without_system_certificates_the_error_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"expected the certificates of authorities in one of .*ca-certificates"):
        image_tree.authorities([tmp_path / "cert.pem"])


def test_there_is_no_shell_no_installer_and_no_compiler(tree: Path) -> None:
    names = {path.name for path in tree.rglob("*")}
    assert names.isdisjoint(TOOLS)
    assert [path.name for path in tree.rglob("bin/*")] == ["python3"]
    assert not [path for path in tree.rglob("*") if path.name in ("ensurepip", "pip", "setuptools", "venv")]


def test_there_is_no_pth_file(tree: Path) -> None:
    assert list(tree.rglob("*.pth")) == []


def test_no_link_in_the_tree_points_outside(tree: Path) -> None:
    assert [path for path in tree.rglob("*") if path.is_symlink()] == []


def test_only_locked_packages_are_in_the_tree(tree: Path) -> None:
    names = {re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower() for path in tree.rglob("*.dist-info")}
    assert names == set(image_tree.requirements())


def test_a_second_tree_is_identical(tree: Path, tmp_path: Path) -> None:
    again = tmp_path / "tree"
    image_tree.lay_out(again)
    assert digest(again) == digest(tree)
    assert {os.stat(path).st_mtime for path in again.rglob("*")} == {float(image_tree.FILE_TIME)}


def test_the_image_starts_the_program_of_the_tree_as_an_unprivileged_user() -> None:
    text = (ROOT / "Containerfile").read_text()
    assert 'ENTRYPOINT ["/usr/local/bin/python3", "-I", "-m", "samara.cli.main"]' in text
    assert f"USER {image_tree.USER}:{image_tree.USER}" in text
    assert text.rindex("FROM scratch") < text.rindex("COPY --from=tree /tree /")


def test_every_base_of_the_image_is_pinned_by_its_digest() -> None:
    text = (ROOT / "Containerfile").read_text()
    given = dict(re.findall(r"^ARG (\w+)=(.+)$", text, re.MULTILINE))
    bases = [given.get(base.strip("${}"), base) for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE)]
    assert bases[-1] == "scratch"
    assert [base for base in bases[:-1] if not re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", base)] == []
