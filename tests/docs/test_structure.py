"""The shape of the code: small folders, small modules, and a docstring wherever a reader arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.source_files import MODULES, SOURCES, read

ROOT = Path(__file__).resolve().parents[2]
TREES = {
    "src": MODULES,
    **{name: sorted((ROOT / name).rglob("*.py")) for name in ("tests", "bench")},
}
#: One module per verb; one state machine, and its tests (docs/decisions/0018-sub-packages.md).
LARGE_FOLDERS = {"src/vcjob/cli", "src/vcjob/lifecycle", "tests/lifecycle"}
MAX_MODULES, MAX_LINES = 15, 400
#: What the module holds, who calls it, what it must not know, how it fails.
MIN_DOCSTRING, MAX_DOCSTRING = 2, 6
#: Trees of files, packages or errors, tables, and protocols: each of their lines is needed.
LONG_DOCSTRINGS = {
    "__init__.py",
    "cluster/controller/__init__.py",
    "cluster/install/__init__.py",
    "errors.py",
    "kube/__init__.py",
    "kube/errors.py",
    "lifecycle/__init__.py",
    "local/run/home.py",
    "local/run/run_dir.py",
    "local/warm/__init__.py",
    "local/warm/server.py",
    "plugins/edition.py",
    "plugins/wait.py",
    "rank_agent/agent.py",
}
SHORT_DOCSTRINGS = {"ui/producers/__init__.py", "ui/producers/listing.py", "ui/producers/pacing.py"}


@pytest.mark.parametrize("modules", TREES.values(), ids=TREES)
def test_no_folder_has_more_than_fifteen_modules(modules: Iterable[Path]) -> None:
    counted = Counter(
        str(path.parent.relative_to(ROOT))
        for path in modules
        if path.name not in ("__init__.py", "conftest.py")
    )
    assert {
        folder: n for folder, n in counted.items() if n > MAX_MODULES and folder not in LARGE_FOLDERS
    } == {}


@pytest.mark.parametrize("modules", TREES.values(), ids=TREES)
def test_no_module_has_more_than_four_hundred_lines(modules: Iterable[Path]) -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in modules
    }
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_every_module_has_a_docstring() -> None:
    assert [str(path.relative_to(SOURCES)) for path in MODULES if not read(path).documented] == []


def test_the_docstring_of_a_module_has_two_to_six_lines() -> None:
    lengths = {
        str(path.relative_to(SOURCES)): read(path).docstring_lines for path in MODULES if read(path).lines
    }
    outside = {name for name, length in lengths.items() if not MIN_DOCSTRING <= length <= MAX_DOCSTRING}
    assert sorted(outside - LONG_DOCSTRINGS - SHORT_DOCSTRINGS) == []


def test_every_class_that_another_module_imports_has_a_docstring() -> None:
    imported = frozenset[tuple[str, str]]().union(*(read(path).imports for path in MODULES))
    bare = {
        (".".join(("vcjob", *path.relative_to(SOURCES).with_suffix("").parts)), name)
        for path in MODULES
        for name in read(path).bare_classes
    }
    assert sorted(bare & imported) == []
