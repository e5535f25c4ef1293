"""numba_tensor_core_gemm without a GPU: its logic on the CPU, its machine code by compiling it."""

from __future__ import annotations

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import occurs
from ncubble.kernels.catalog.gemm import NUMBA_TENSOR_CORE_GEMM as SPEC
from ncubble.kernels.catalog.numba import jit
from ncubble.kernels.catalog.registry import load_module
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case
from tests.helpers.numba_code import numba_opcodes
from tests.helpers.numba_cta import Cta

INSTRUCTIONS = ("shared_address", "copy_16", "commit", "wait_for_all_but")
OF_A_WARP = ("ldmatrix", "ldmatrix_transposed", "mma", "store_2")


def computed(monkeypatch, case, late, **changes):
    """The kernel's result on the CPU, verified; ``changes`` replace members of its module."""
    monkeypatch.setattr(jit, "jit", lambda function, **options: function)
    monkeypatch.setattr(jit, "inlined", lambda function: function)
    module = load_module(SPEC.path)
    cta = Cta(case.block[0], case.smem, late)
    vars(module).update({name: getattr(cta, name) for name in (*INSTRUCTIONS, *OF_A_WARP)}, cuda=cta, **changes)
    arrays = draw_inputs(case, 5)
    arrays["c"] = np.full((case.shape["m"], case.shape["n"]), np.nan, np.float32)
    cta.launch(module.make(**case.parameters), case.grid, *(arrays[name] for name in "abc"), *case.scalars())
    return verify(case, arrays, arrays, 5)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("tile_k", [32, 64])
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_it_computes_its_reference(monkeypatch, stages, tile_k, late):
    case = make_case(SPEC, {"stages": stages, "tile_n": 128, "tile_k": tile_k}, {"m": 128, "n": 256, "k": 4 * tile_k})
    found = computed(monkeypatch, case, late)
    assert found.passed, found.describe()


def test_more_tile_rows_than_a_band_has_and_wide_tiles(monkeypatch):
    case = make_case(SPEC, {}, {"m": 17 * 128, "n": 256, "k": 64})
    assert case.grid == (16, 1, 2)  # of which 15 CTAs have nothing to do
    found = computed(monkeypatch, case, late=False)
    assert found.passed, found.describe()


def test_a_wait_that_is_missing_and_a_tile_without_swizzle_show(monkeypatch):
    case = make_case(SPEC, {"stages": 3, "tile_n": 128}, {"m": 128, "n": 128, "k": 256})
    assert not computed(monkeypatch, case, True, wait_for_all_but=lambda count: lambda: None).passed
    with pytest.raises(AssertionError, match="meet in a bank"):
        computed(monkeypatch, case, True, swizzled=lambda row_bytes: lambda row, piece: row * row_bytes + piece * 16)


@pytest.mark.parametrize("parameters", [{}, {"stages": 1}, {"stages": 3, "tile_n": 128, "tile_k": 32}], ids=str)
def test_its_machine_code_is_what_its_spec_promises(parameters):
    case = make_case(SPEC, parameters)
    found = numba_opcodes(case)
    assert {prefix: occurs(prefix, found) for prefix in case.sass("sm_90a")} == case.sass("sm_90a")
    assert found["HMMA.16816.F32"] == 32 * case.parameters["tile_k"] // 16, "the loop over steps is unrolled once"


@pytest.mark.parametrize(
    ("parameters", "shape", "words"),
    [
        ({}, {"n": 128}, "n=128 is not a multiple of tile_n=256"),
        ({}, {"k": 96}, "k=96 is not a multiple of tile_k=64"),
        ({}, {"m": 100}, "m=100 is not a multiple of 128"),
        ({"stages": 5}, {}, "bytes of shared memory"),
    ],
)
def test_what_it_does_not_take_is_refused(parameters, shape, words):
    with pytest.raises(UsageError, match=words):
        make_case(SPEC, parameters, shape)
