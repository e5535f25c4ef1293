"""An own kernel in CUDA C++: one spec beside its source."""

from ncubble.kernels.spec import Array, Dim, KernelSpec, Parameter, Scalar

SPEC = KernelSpec(
    name="saxpy",
    source="saxpy.cu",
    idea="out = 2 x + y",
    dims=(Dim("n", 1 << 24),),
    arrays=(Array("x", ("n",)), Array("y", ("n",)), Array("out", ("n",), output=True)),
    scalars=(Scalar("a", "float32", 2.0), "n"),
    parameters=(Parameter("threads", 256, (128, 256, 512)),),
    grid=lambda shape, parameters: (-(-shape["n"] // parameters["threads"]),),
    block=lambda shape, parameters: (parameters["threads"],),
    reference=lambda inputs, rows: {"out": 2.0 * inputs["x"][rows].astype(float) + inputs["y"][rows]},
)
