"""Logic of the Numba kernels, on the CPU in Numba's simulator (a process of its own: it replaces
numba.cuda)."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.launch import make_dispatcher
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Parameter

OWN = Path(__file__).parents[3] / "data" / "catalog"
PROGRAM = """
import sys
import numpy as np
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.run.launch import make_dispatcher
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.session import parse_parameters, parse_shape
from ncubble.kernels.run.verify import verify
from pathlib import Path

name, parameters, shape = sys.argv[1:4]
spec = find_spec(name, Path(sys.argv[4]))
case = make_case(spec, parse_parameters(parameters.split()), parse_shape([shape]))
arrays = draw_inputs(case, 5)
arrays |= {array.name: np.full(case.extent(array), np.nan, array.dtype) for array in spec.outputs}
make_dispatcher(case)[case.grid, case.block](*(arrays[array.name] for array in spec.arrays), *case.scalars())
checked = verify(case, arrays, arrays, 5)
print(checked.describe())
sys.exit(not checked.passed)
"""


@pytest.mark.parametrize(
    ("name", "parameters", "shape"),
    [
        ("numba_tiled_matmul", "blocking=1", "m=16,n=16,k=16"),
        ("numba_tiled_matmul", "blocking=1", "m=33,n=21,k=19"),
        ("numba_tiled_matmul", "blocking=2", "m=40,n=50,k=35"),
        ("numba_softmax_online", "threads=128", "rows=2,cols=300"),
        ("numba_softmax_online", "threads=128", "rows=1,cols=5"),
        ("numba_scale", "", "n=300"),
    ],
)
def test_a_numba_kernel_computes_its_reference(name, parameters, shape):
    argv = [sys.executable, "-c", PROGRAM, name, parameters, shape, str(OWN)]
    done = subprocess.run(
        argv, env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_make_that_does_not_take_the_parameters_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("def make():\n    return None\n")
    spec = replace(
        find_spec("numba_scale", OWN), folder=tmp_path, source="mine.py", parameters=(Parameter("width", 1, (1, 2)),)
    )
    with pytest.raises(UsageError, match=r"mine.py: make\(\) failed: TypeError"):
        make_dispatcher(make_case(spec))
