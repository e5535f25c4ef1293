"""The kernel that docs/own-kernels.md shows is one that this version loads, checks and compiles."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import KernelSpec


def block(text: str, language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{len(found)} blocks of {language}"
    return str(found[0])


@pytest.fixture
def spec(repository: Path, tmp_path: Path) -> KernelSpec:
    text = (repository / "docs" / "own-kernels.md").read_text()
    (tmp_path / "scale.cu").write_text(block(text, "cuda"))
    (tmp_path / "scale.py").write_text(block(text, "python"))
    return find_spec("scale", tmp_path)


def test_its_rules_agree_with_each_other(spec: KernelSpec) -> None:
    case = make_case(spec, shape={"n": 1000})
    assert case.grid[0] * case.block[0] >= 1000
    assert case.bytes == 8000
    x = np.arange(1000, dtype=np.float32)
    assert spec.reference({"x": x}, np.array([0, 7]))["out"].tolist() == [0.0, 14.0]


@pytest.mark.usefixtures("compiler")
def test_it_compiles(spec: KernelSpec) -> None:
    assert build(make_case(spec), "sm_80").resources.spill_B == 0
