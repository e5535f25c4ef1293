"""The kernels that docs/own-kernels.md shows are ones that this version loads, checks and
compiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import KernelSpec
from tests.helpers.own_kernels import write_own_kernels


@pytest.fixture(params=["scale", "scale_tiles"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> KernelSpec:
    return find_spec(request.param, write_own_kernels(tmp_path))


def test_its_rules_agree_with_each_other(spec: KernelSpec) -> None:
    case = make_case(spec, shape={"n": 1000})
    assert case.grid[0] * int(case.parameters.get("BLOCK", case.block[0])) >= 1000
    assert case.bytes == 8000
    x = np.arange(1000, dtype=np.float32)
    assert spec.reference({"x": x}, np.array([0, 7]))["out"].tolist() == [0.0, 14.0]


@pytest.mark.usefixtures("compiler")
def test_it_compiles(spec: KernelSpec) -> None:
    if spec.language == "triton":
        pytest.importorskip("triton")
    assert build(make_case(spec), "sm_80").resources.spill_B == 0
