"""Every figure in README and docs is what the shipped recordings give today."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.harness import blocks
from ncubble.analysis.account.parts import PARTS
from tests.helpers.markdown import formatted

FILES = (
    "README.md",
    "docs/account.md",
    "docs/kernels.md",
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


HEADERS = [
    path
    for folder in ("cuda/*.cu", "catalog/numba/*.py")
    for path in sorted((blocks.REPOSITORY / "kernels").glob(folder))
]
BUBBLE = re.compile(r"^(?://)? *Bubble:(.*?)^(?://)? *[A-Z][a-z]+:", re.DOTALL | re.MULTILINE)
PIPES = {"LSU": "unit_busy", "FMA": "unit_busy", "ALU": "unit_busy", "DRAM": "dram_pct"}
SHARE = re.compile(rf"\b({'|'.join([*(set(PARTS) - {'other'}), *PIPES])})\b|\b(\d+) %")


@pytest.mark.parametrize("source", HEADERS, ids=lambda path: path.stem)
def test_shares_in_the_header_of_a_kernel_are_those_of_a_recording(source: Path) -> None:
    """A share belongs to the part that the field *Bubble* names last before it."""
    part, recorded = "", []
    for name, share in SHARE.findall(match[1] if (match := BUBBLE.search(source.read_text(encoding="utf-8"))) else ""):
        part = PIPES.get(name, name) or part
        if share:
            recorded = recorded or blocks.launches(source.stem)
            shares = {f"{launch['account'].get(part, launch.get(part, 0.0)):.0f}" for launch in recorded}
            assert share in shares, f"{part} {share} %: {blocks.RUNS / source.stem} has {sorted(shares)}"
