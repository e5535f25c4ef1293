"""An own kernel in Numba-CUDA: spec and source in one file."""

from numba import cuda

from ncubble.kernels.catalog.numba.jit import jit
from ncubble.kernels.spec import Array, Dim, KernelSpec

SPEC = KernelSpec(
    name="numba_scale",
    source="numba_scale.py",
    language="numba",
    idea="out = 3 x",
    dims=(Dim("n", 1 << 24),),
    arrays=(Array("x", ("n",)), Array("out", ("n",), output=True)),
    scalars=("n",),
    grid=lambda shape, parameters: (-(-shape["n"] // 256),),
    block=lambda shape, parameters: (256,),
    reference=lambda inputs, rows: {"out": 3.0 * inputs["x"][rows].astype(float)},
)


def make():
    def numba_scale(x, out, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = 3 * x[i]

    return jit(numba_scale)
