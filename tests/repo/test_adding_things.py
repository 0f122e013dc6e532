"""The vocabulary on the page about adding things works as it stands there, and so do its tests."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.pages import ROOT, fences

from samara import vocabularies

PAGE = ROOT / "docs" / "development" / "adding-things.md"
EXAMPLE, TESTS = (fence.text for fence in fences() if fence.page == PAGE and fence.language == "python")


def test_the_vocabulary_on_the_page_passes_the_tests_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = _module("samara.vocabularies.share_to", EXAMPLE, tmp_path, monkeypatch)
    monkeypatch.setattr(vocabularies, "share_to", added, raising=False)
    file = tmp_path / "test_share_to.py"
    file.write_text(TESTS)
    passed = _Passed()
    flags = ("-q", "-n0", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "--import-mode=importlib")
    assert pytest.main([str(file), *flags], plugins=[passed]) == 0
    assert passed.count > len(passed.failed) == 0
    assert len(EXAMPLE.splitlines()) <= 150


class _Passed:
    def __init__(self) -> None:
        self.count = 0
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.count += report.when == "call" and report.passed
        self.failed += [report.nodeid] if report.failed else []


def _module(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    file = folder / f"{name.rpartition('.')[2]}.py"
    file.write_text(text)
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module
