"""Releases: the wheel works outside of the checkout, the lock is complete, and no file names a machine."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("all.txt", "dev.txt", "run.txt")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", f"--outdir={out}", str(ROOT))
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", f"--outdir={out}", str(ROOT / "devtools"))
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    [path] = dist.glob("samara-*.whl")
    return path


@pytest.fixture(scope="module")
def devtools_wheel(dist: Path) -> Path:
    [path] = dist.glob("samara_devtools-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_in(tmp_path_factory.mktemp("operator"), wheel)


@pytest.fixture(scope="module")
def installed_with_devtools(wheel: Path, devtools_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_in(tmp_path_factory.mktemp("devtools"), wheel, devtools_wheel)


def installed_in(folder: Path, *wheels: Path) -> Path:
    """The bin folder of a fresh environment outside the checkout; only the dependencies come from this one."""
    environment = folder / "venv"
    venv.create(environment)
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--no-index", *map(str, wheels))
    [site] = environment.glob("lib/python*/site-packages")
    # A path in a .pth file is searched, but the .pth files in it are not read: this checkout stays out of sight. Its
    # entry points would be seen, so the dependencies are links.
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    for path in (Path(path) for path in sys.path if path.endswith("site-packages")):
        for entry in path.iterdir():
            if not entry.name.startswith(("samara", "_samara")) and entry.suffix != ".pth":
                (dependencies / entry.name).symlink_to(entry)
    (site / "dependencies.pth").write_text(str(dependencies))
    return environment / "bin"


def run(*command: str, cwd: Path | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def tracked() -> Iterator[Path]:
    """Every text file that is, or is about to be, part of the repository."""
    listed = run("git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in sorted(filter(None, listed.split("\0"))):
        path = ROOT / name
        if path.is_file() and b"\0" not in path.read_bytes():
            yield path


def test_the_devtools_wheel_contains_the_examples_and_the_go_modules(devtools_wheel: Path) -> None:
    names = set(zipfile.ZipFile(devtools_wheel).namelist())
    files = ("go.mod", "go.sum", "tools.go")
    expected = {f"samara_devtools/devcluster/{module}/{file}" for module in ("tools", "helm") for file in files}
    expected |= {f"samara_devtools/{path.relative_to(ROOT)}" for path in (ROOT / "examples").rglob("*.yaml")}
    assert expected <= names
    assert len(expected) > 5


@pytest.mark.parametrize(
    ("built", "source", "packages"),
    [("wheel", "src", {"samara", "kubectl_accurate"}), ("devtools_wheel", "devtools", {"samara_devtools"})],
)
def test_every_wheel_contains_every_module_and_only_its_packages(
    built: str, source: str, packages: set[str], request: pytest.FixtureRequest
) -> None:
    names = set(zipfile.ZipFile(request.getfixturevalue(built)).namelist())
    assert {str(path.relative_to(ROOT / source)) for path in (ROOT / source).rglob("*.py")} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == packages
    assert not [name for name in names if name.endswith((".pth", ".pyc"))]


def test_the_sdist_contains_what_a_build_needs(dist: Path) -> None:
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/samara/__init__.py", "docs/index.md"} <= names


def test_the_version_is_the_same_in_the_project_and_the_package() -> None:
    from samara import __version__

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert project["optional-dependencies"]["demo"] == [f"samara-devtools=={__version__}"]


def test_both_wheels_have_the_same_version(wheel: Path, devtools_wheel: Path) -> None:
    assert wheel.name.split("-")[1] == devtools_wheel.name.split("-")[1]


def test_the_installed_wheel_works_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    where = run(str(installed / "python"), "-c", "import samara; print(samara.__file__)", cwd=tmp_path)
    assert where.startswith(str(installed.parent))
    assert "demo" in run(str(installed / "samara"), "--help", cwd=tmp_path)
    assert "--observe" in run(str(installed / "kubectl-samara"), "run", "--help", cwd=tmp_path)
    assert "plan" in run(str(installed / "kubectl_complete-samara"), "pl", cwd=tmp_path)


def test_the_installed_wheel_prints_its_version_without_a_cluster(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    from samara import __version__

    assert __version__ in run(str(installed / "samara"), "version", cwd=tmp_path)


def test_the_operator_alone_has_no_demo_and_names_the_package_that_has_it(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run([installed / "samara", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'samara[demo]'" in done.stderr


@pytest.mark.cluster
def test_the_demo_of_the_installed_wheels_works_outside_the_checkout(
    installed_with_devtools: Path, tmp_path: Path
) -> None:
    assert "the copy in billing is gone" in run(str(installed_with_devtools / "samara"), "demo", cwd=tmp_path)


@pytest.mark.parametrize("name", LOCKS)
def test_every_pinned_requirement_has_hashes_and_none_has_an_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    entries = [line for line in re.sub(r"\\\n\s*", " ", text).splitlines() if line and not line.startswith("#")]
    assert len(entries) > 10
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==[^ ]+( ; .+?)?(\s+--hash=sha256:[0-9a-f]{64})+$", entry), entry[:80]
    assert "://" not in text


@pytest.mark.parametrize("name", LOCKS)
def test_every_direct_dependency_is_pinned(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(project["optional-dependencies"]["dev"] if name == "dev.txt" else ())]
    pinned = {
        entry.lower() for entry in re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements" / name).read_text(), re.M)
    }
    for requirement in wanted:
        assert re.split(r"[<>=;\[ ]", requirement)[0].lower() in pinned


def test_no_file_mentions_a_machine_or_a_package_index() -> None:
    folders = "|".join(("home/[a-z]", "ro" + "ot", "Users/", "wo" + "rk/"))
    words = (
        rf"(?<![\w.~$}}-])/(?:{folders})",
        "(?<!--no-emit-)index-" + "url",
        r"\bfind-" + "links",
        r"\bGO" + r"PROXY\s*=\s*\S",
        r"(?:pypi|npm|pip|goproxy|registry|artifact\w*|nexus|mirror)[\w-]*\.(?!example\.)(?:[\w-]+\.)*(?:internal|local|corp|lan|org|io|com)/",
    )
    pattern = re.compile("|".join(words), re.IGNORECASE)
    matches = [
        f"{path.relative_to(ROOT)}: {match}" for path in tracked() for match in pattern.findall(path.read_text())
    ]
    assert matches == []


def test_no_file_mentions_internal_planning() -> None:
    pattern = re.compile(
        r"\b(?:is" + r"sue|se" + r"ssion) (?:#|no\.? ?)?\d+\b|\bshared/(?:specs|seeds|design)", re.IGNORECASE
    )
    matches = [
        f"{path.relative_to(ROOT)}: {match}" for path in tracked() for match in pattern.findall(path.read_text())
    ]
    assert matches == []
