"""Kernels that fault, trap and never end, to see a sweep outlive them: docs/sweeps.md, Measured."""

from ncubble.kernels.spec import Array, Dim, KernelSpec, Parameter

SPEC = KernelSpec(
    name="broken",
    source="broken.cu",
    idea="y = 2 x, or a bad address, an endless loop, a trap",
    dims=(Dim("n", 1 << 22),),
    arrays=(Array("x", ("n",)), Array("out", ("n",), output=True)),
    scalars=("n",),
    parameters=(
        Parameter("mode", 0, (0, 1, 2, 3), "0 right, 1 writes to a bad address, 2 never ends, 3 traps"),
        Parameter("again", 0, (0, 1, 2, 3), "changes nothing: the same once more"),
    ),
    grid=lambda shape, parameters: (-(-shape["n"] // 256),),
    block=lambda shape, parameters: (256,),
    reference=lambda inputs, rows: {"out": 2.0 * inputs["x"][rows].astype("float64")},
)
