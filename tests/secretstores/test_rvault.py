"""How RustyVault is built, with a stand-in for cargo."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.secretstores import rvault

# Writes what `cargo install … --root DIR` would write, after noting that it ran.
BUILDS = """
echo "$@" >> "$NOTES/calls"
for each in "$@"; do root="$each"; done
mkdir "$root/bin"
echo '#!/bin/sh' > "$root/bin/rvault"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and only a shell on its PATH."""
    (tmp_path / "path").mkdir()
    for name in ("sh", "mkdir", "sleep"):
        (tmp_path / "path" / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("NOTES", str(tmp_path))
    return tmp_path


def install(machine: Path, script: str) -> None:
    path = machine / "path" / "cargo"
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_one_build_fills_the_cache_and_leaves_nothing_else(machine: Path) -> None:
    install(machine, BUILDS)
    lines: list[str] = []
    with ThreadPoolExecutor(3) as several:
        programs = set(several.map(lambda _: rvault.find(lines.append), range(3)))
    assert programs == {rvault.program()}
    (call,) = (machine / "calls").read_text().splitlines()
    assert call.startswith("install rusty_vault --version =0.2.1 --locked")
    assert [path.name for path in rvault.program().parent.iterdir()] == ["rvault"]
    assert not list((machine / "cache" / "samara" / "rvault").glob("*.building"))
    assert f"about {rvault.MINUTES} minutes" in lines[0]


def test_without_cargo_one_line_says_what_to_install(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rvault.main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "cargo" in line
    assert "https://rustup.rs" in line


def test_a_failed_build_gives_its_reason_in_one_line_and_leaves_nothing(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(machine, "echo 'error: no such crate'; echo 'and more'; exit 101")
    assert rvault.main() == 1
    assert "(error: no such crate)" in capsys.readouterr().err.splitlines()[-1]
    assert not rvault.program().exists()
    assert not list((machine / "cache" / "samara" / "rvault").glob("*.building"))


def test_a_long_build_reports_progress(machine: Path) -> None:
    install(machine, f"sleep 0.1\n{BUILDS}")
    lines: list[str] = []
    rvault.find(lines.append, heartbeat=0.01)
    assert "Still building" in lines[1]
