"""numba_async_pipeline without a GPU: its logic in Numba's simulator, its machine code by compiling
and linking it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ncubble.kernels.build import occurs
from ncubble.kernels.catalog.gemm import NUMBA_ASYNC_PIPELINE
from ncubble.kernels.spec.case import make_case
from tests.helpers.numba_code import numba_opcodes

SIMULATE = """
import sys
import numpy as np
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.run.launch import make_dispatcher
from ncubble.kernels.run.session import parse_parameters, parse_shape
from ncubble.kernels.catalog.gemm import NUMBA_ASYNC_PIPELINE as spec
from ncubble.kernels.run.verify import verify

case = make_case(spec, parse_parameters(sys.argv[1].split()), parse_shape([sys.argv[2]]))
arrays = draw_inputs(case, 5)
arrays["c"] = np.full((case.shape["m"], case.shape["n"]), np.nan, np.float32)
make_dispatcher(case)[case.grid, case.block](arrays["a"], arrays["b"], arrays["c"], *case.scalars())
checked = verify(case, arrays, arrays, 5)
print(checked.describe())
sys.exit(not checked.passed)
"""


def run(program, *argv, **environment):
    command = [sys.executable, "-c", program, *argv]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("parameters", "shape"),
    [
        ("stages=2 blocking=4", "m=16,n=20,k=40"),  # rows of whole pieces: 16 bytes a copy
        ("stages=3 blocking=4", "m=66,n=7,k=33"),  # any rows: 4 bytes a copy
        ("stages=4 blocking=4", "m=3,n=5,k=1"),  # fewer tiles than stages
        ("stages=3 blocking=8", "m=5,n=130,k=9"),
    ],
)
def test_it_computes_its_reference_also_at_the_edges(parameters, shape):
    run(SIMULATE, parameters, shape, NUMBA_ENABLE_CUDASIM="1")


def test_the_linked_copies_become_instructions_of_the_kernel():
    found = numba_opcodes(make_case(NUMBA_ASYNC_PIPELINE, {"stages": 4, "blocking": 8}))
    for opcode in ("LDGSTS.E.BYPASS.128", "LDGSTS.E", "LDGDEPBAR", "DEPBAR.LE", "FFMA"):
        assert occurs(opcode, found), opcode
    assert not occurs("CALL", found), "the device functions are inlined"
    assert not occurs("STS", found), "nothing goes to shared memory through registers"
    assert not occurs("STL", found), "no accumulator lies in local memory"
