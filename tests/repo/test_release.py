"""What the release workflow runs: the check of wheels, the packaged chart, `make image`."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from scripts import package_chart, wheels

from samara import __version__
from samara_devtools.devcluster.cluster import to_stderr
from samara_devtools.devcluster.helm_program import find_helm

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "sha256:" + "0" * 64
IMAGE = "images.example.com/team/samara"


# wheels


def wheel(folder: Path, name: str, tag: str) -> str:
    """Makes an empty wheel. Returns its pinned requirement."""
    head = f"{name}-1.0.dist-info"
    files = {
        f"{head}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{head}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    digests = {file: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()) for file, text in files.items()}
    files[f"{head}/RECORD"] = "".join(
        f"{file},sha256={digest.decode().rstrip('=')},\n" for file, digest in digests.items()
    )
    path = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return f"--hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def check_wheels(folder: Path, requirements: str) -> subprocess.CompletedProcess[str]:
    file = folder / "requirements.txt"
    file.write_text(requirements)
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}
    command = (sys.executable, wheels.__file__, file)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.heavy
def test_a_dependency_without_a_wheel_for_arm64_is_reported(tmp_path: Path) -> None:
    tag = f"cp{wheels.python_version().replace('.', '')}"
    both = [wheel(tmp_path, "fast", f"{tag}-{tag}-manylinux_2_28_{machine}") for machine in ("x86_64", "aarch64")]
    stable = [wheel(tmp_path, "stable", f"cp311-abi3-manylinux2014_{machine}") for machine in ("x86_64", "aarch64")]
    pure = wheel(tmp_path, "pure", "py3-none-any")
    one = wheel(tmp_path, "narrow", f"{tag}-{tag}-manylinux_2_17_x86_64")
    good = f"fast==1.0 {' '.join(both)}\nstable==1.0 {' '.join(stable)}\npure==1.0 {pure}\n"
    done = check_wheels(tmp_path, good)
    assert (done.returncode, done.stdout) == (0, "linux/amd64: 3 wheels\nlinux/arm64: 3 wheels\n"), done.stderr
    done = check_wheels(tmp_path, f"{good}narrow==1.0 {one}\n")
    assert done.returncode == 1
    assert done.stdout.startswith("linux/amd64: 4 wheels\nlinux/arm64: not every dependency has a wheel:")
    assert "narrow" in done.stdout


def test_the_wheels_are_those_of_the_python_in_the_image() -> None:
    assert f"ARG PYTHON=python:{wheels.python_version()}." in (ROOT / "Containerfile").read_text()


# the chart


@pytest.mark.cluster
def test_the_packaged_chart_names_the_image_of_its_release(tmp_path: Path) -> None:
    helm = find_helm(to_stderr)
    package_chart.package(IMAGE, DIGEST, tmp_path, helm)
    chart = tmp_path / f"samara-{__version__}.tgz"
    printed = subprocess.run([helm, "template", "samara", chart], capture_output=True, text=True, check=True).stdout
    images = {
        container["image"]
        for obj in yaml.safe_load_all(printed)
        if obj and obj["kind"] in ("Deployment", "Job")
        for container in obj["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"{IMAGE}@{DIGEST}"}
    with tarfile.open(chart) as archive:
        names = archive.getnames()
        readme = archive.extractfile("samara/README.md")
        assert readme is not None
        assert f'`"{IMAGE}"`' in readme.read().decode()
    assert {"samara/values.schema.json", "samara/files/vocabularies.yaml", "samara/templates/rbac.yaml"} <= set(names)


def test_a_chart_is_packaged_only_with_the_digest_of_an_image(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="expected the digest of an image"):
        package_chart.package(IMAGE, "", tmp_path, Path("helm"))


# the image


def make_image(*variables: str) -> str:
    """What `make image` would run."""
    command = ("make", "--dry-run", "--no-print-directory", "image", *variables)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_make_image_builds_with_the_given_engine(engine: str) -> None:
    assert f'"{engine}" build --file Containerfile --tag "samara:{__version__}" .' in make_image(f"ENGINE={engine}")
    assert f'--tag "{IMAGE}"' in make_image(f"ENGINE={engine}", f"IMAGE={IMAGE}")


def test_make_image_says_what_is_missing_without_an_engine() -> None:
    done = subprocess.run(["make", "image", "ENGINE="], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "docker or podman was not found" in done.stderr


def test_make_image_is_named_like_the_default_of_the_manifests() -> None:
    from samara.cli.deploy.manifests import IMAGE as DEFAULT

    assert f'--tag "{DEFAULT}"' in make_image("ENGINE=docker")


def test_everything_that_the_image_copies_is_sent_to_the_engine() -> None:
    """docker and podman read .dockerignore, whose last matching line decides."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line[1:] for line in ignored if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    assert "*" in ignored
    assert {name for names in copied for name in names.split()} <= {*sent, "scripts/"}
