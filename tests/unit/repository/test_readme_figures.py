"""Every figure in README and docs is what the shipped recordings give today."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.markdown import formatted

FILES = (
    "README.md",
    "docs/account.md",
    "docs/accuracy.md",
    "docs/profile.md",
    "docs/program.md",
    "docs/streams.md",
    "docs/trace.md",
    "docs/tutorial/README.md",
    "docs/tutorial/0-copies.md",
    "docs/tutorial/1-tiles.md",
    "docs/tutorial/2-cp-async.md",
    "docs/tutorial/3-stages.md",
    "docs/tutorial/4-swizzle.md",
    "docs/tutorial/5-tma.md",
    "docs/tutorial/6-roles.md",
    "docs/without-counters.md",
)


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return importlib.import_module("benchmarks.readme_tables")


def test_every_generated_file_is_compared(tables: ModuleType) -> None:
    assert set(FILES) == set(tables.BLOCKS)


@pytest.mark.parametrize("file", FILES)
def test_the_figures_are_those_of_the_recordings(tables: ModuleType, repository: Path, file: str) -> None:
    text = (repository / file).read_text(encoding="utf-8")
    blocks = {name: make() for name, make in tables.BLOCKS[file].items()}
    assert formatted(tables.fill(text, blocks)) == text, "run: python -m benchmarks.readme_tables --write"
