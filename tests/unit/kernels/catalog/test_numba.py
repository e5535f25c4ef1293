"""Numba kernels without a GPU: their logic on the CPU, their machine code by compiling and linking
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import occurs
from ncubble.kernels.catalog.gemm import NUMBA_ASYNC_PIPELINE, NUMBA_TENSOR_CORE_GEMM
from ncubble.kernels.catalog.numba import jit
from ncubble.kernels.catalog.registry import find_spec, load_module
from ncubble.kernels.catalog.softmax import NUMBA_SOFTMAX_ONLINE
from ncubble.kernels.run.launch import make_dispatcher
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Parameter
from tests.helpers.numba_code import numba_opcodes
from tests.helpers.numba_cta import Cta

OWN = Path(__file__).parents[3] / "data" / "catalog"
SIMULATE = """
import json
import sys
import traceback
import numpy as np
from pathlib import Path
from numba.cuda.simulator.kernelapi import FakeCUDAModule
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.launch import make_dispatcher
from ncubble.kernels.run.session import parse_parameters, parse_shape
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case

def shuffled(cuda, mask, value, lanes, places={}):
    # For kernels whose threads all shuffle: the simulator has no shuffles.
    places[cuda.threadIdx.x] = value
    cuda.syncthreads()
    other = places[cuda.threadIdx.x ^ lanes]
    cuda.syncthreads()
    return other

FakeCUDAModule.shfl_xor_sync = shuffled

def simulated(name, parameters, shape):
    case = make_case(find_spec(name, Path(sys.argv[1])), parse_parameters(parameters.split()), parse_shape([shape]))
    arrays = draw_inputs(case, 5)
    arrays |= {array.name: np.full(case.extent(array), np.nan, array.dtype) for array in case.spec.outputs}
    make_dispatcher(case)[case.grid, case.block](*(arrays[array.name] for array in case.spec.arrays), *case.scalars())
    checked = verify(case, arrays, arrays, 5)
    return checked.passed, checked.describe()

for words in json.load(sys.stdin):
    try:
        result = simulated(*words)
    except Exception:
        result = False, traceback.format_exc()
    print(json.dumps(result), flush=True)
"""
SIMULATED = [
    ("numba_tiled_matmul", "blocking=1", "m=16,n=16,k=16"),
    ("numba_tiled_matmul", "blocking=1", "m=33,n=21,k=19"),
    ("numba_tiled_matmul", "blocking=2", "m=40,n=50,k=35"),
    ("numba_softmax_online", "threads=128", "rows=2,cols=300"),
    ("numba_softmax_online", "threads=128", "rows=1,cols=1100"),
    ("numba_softmax_online", "threads=128", "rows=1,cols=5"),
    ("numba_scale", "", "n=300"),
    ("numba_async_pipeline", "stages=2 blocking=4", "m=16,n=20,k=40"),  # rows of whole pieces: 16 bytes a copy
    ("numba_async_pipeline", "stages=3 blocking=4", "m=66,n=7,k=33"),  # any rows: 4 bytes a copy
    ("numba_async_pipeline", "stages=4 blocking=4", "m=3,n=5,k=1"),  # fewer tiles than stages
    ("numba_async_pipeline", "stages=3 blocking=8", "m=5,n=130,k=9"),
]


@pytest.fixture(scope="module")
def simulated():
    """What the simulator says of each case; in a process of its own, as it replaces numba.cuda."""
    argv = [sys.executable, "-c", SIMULATE, str(OWN)]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    given = json.dumps(SIMULATED)
    done = subprocess.run(argv, input=given, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(zip(SIMULATED, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("case", SIMULATED, ids="-".join)
def test_a_kernel_computes_its_reference_in_the_simulator(simulated, case):
    passed, described = simulated[case]
    assert passed, described


def test_a_make_that_does_not_take_the_parameters_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("def make():\n    return None\n")
    own = replace(find_spec("numba_scale", OWN), folder=tmp_path, source="mine.py")
    with pytest.raises(UsageError, match=r"mine.py: make\(\) failed: TypeError"):
        make_dispatcher(make_case(replace(own, parameters=(Parameter("width", 1, (1, 2)),))))


def test_softmax_merges_its_pairs_by_shuffles():
    found = numba_opcodes(make_case(NUMBA_SOFTMAX_ONLINE))
    assert occurs("SHFL.BFLY", found) and occurs("MUFU.EX2", found)
    assert found["BAR.SYNC.DEFER_BLOCKING"] == 1, "no barrier but the one between warps"


def test_copies_become_instructions_of_the_kernel():
    found = numba_opcodes(make_case(NUMBA_ASYNC_PIPELINE, {"stages": 4, "blocking": 8}))
    for opcode in ("LDGSTS.E.BYPASS.128", "LDGSTS.E", "LDGDEPBAR", "DEPBAR.LE", "FFMA"):
        assert occurs(opcode, found), opcode
    assert not occurs("CALL", found), "the device functions are inlined"
    assert not occurs("STS", found), "nothing goes to shared memory through registers"
    assert not occurs("STL", found), "no accumulator lies in local memory"


# The GEMM on tensor cores: the simulator has no instructions of a warp, so they are computed here.

INSTRUCTIONS = ("shared_address", "copy_16", "commit", "wait_for_all_but")
OF_A_WARP = ("ldmatrix", "ldmatrix_transposed", "mma", "store_2")


def computed(monkeypatch, case, late, **changes):
    """The kernel's result on the CPU, verified; ``changes`` replace members of its module."""
    monkeypatch.setattr(jit, "jit", lambda function, **options: function)
    monkeypatch.setattr(jit, "inlined", lambda function: function)
    module = load_module(NUMBA_TENSOR_CORE_GEMM.path)
    cta = Cta(case.block[0], case.smem, late)
    vars(module).update({name: getattr(cta, name) for name in (*INSTRUCTIONS, *OF_A_WARP)}, cuda=cta, **changes)
    arrays = draw_inputs(case, 5)
    arrays["c"] = np.full((case.shape["m"], case.shape["n"]), np.nan, np.float32)
    cta.launch(module.make(**case.parameters), case.grid, *(arrays[name] for name in "abc"), *case.scalars())
    return verify(case, arrays, arrays, 5)


def tensor_gemm(shape, **parameters):
    return make_case(NUMBA_TENSOR_CORE_GEMM, parameters, dict(zip("mnk", shape, strict=True)))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("tile_k", [32, 64])
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_it_computes_its_reference(monkeypatch, stages, tile_k, late):
    case = tensor_gemm((128, 256, 4 * tile_k), stages=stages, tile_n=128, tile_k=tile_k)
    found = computed(monkeypatch, case, late)
    assert found.passed, found.describe()


def test_more_tile_rows_than_a_band_has_and_wide_tiles(monkeypatch):
    case = tensor_gemm((17 * 128, 256, 64))
    assert case.grid == (16, 1, 2)  # of which 15 CTAs have nothing to do
    found = computed(monkeypatch, case, late=False)
    assert found.passed, found.describe()


def test_a_wait_that_is_missing_and_a_tile_without_swizzle_show(monkeypatch):
    case = tensor_gemm((128, 128, 256), stages=3, tile_n=128)
    assert not computed(monkeypatch, case, True, wait_for_all_but=lambda count: lambda: None).passed
    with pytest.raises(AssertionError, match="meet in a bank"):
        computed(monkeypatch, case, True, swizzled=lambda row_bytes: lambda row, piece: row * row_bytes + piece * 16)


@pytest.mark.parametrize("parameters", [{}, {"stages": 1}, {"stages": 3, "tile_n": 128, "tile_k": 32}], ids=str)
def test_its_machine_code_is_what_its_spec_promises(parameters):
    case = make_case(NUMBA_TENSOR_CORE_GEMM, parameters)
    found = numba_opcodes(case)
    assert {prefix: occurs(prefix, found) for prefix in case.sass("sm_90a")} == case.sass("sm_90a")
    assert found["HMMA.16816.F32"] == 32 * case.parameters["tile_k"] // 16, "the loop over steps is unrolled once"
