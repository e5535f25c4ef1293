"""A kernel with two parameters, for searches that need no GPU."""

from ncubble.kernels.spec import Array, Dim, KernelSpec, Parameter

SPEC = KernelSpec(
    name="toy",
    source="toy.cu",
    idea="y = x",
    dims=(Dim("n", 1 << 16),),
    arrays=(Array("x", ("n",)), Array("y", ("n",), output=True)),
    scalars=("n",),
    parameters=(
        Parameter("threads", 256, (128, 256, 512, 1024)),
        Parameter("items", 8, (1, 2, 3, 4, 5, 6, 7, 8)),
    ),
    grid=lambda shape, parameters: (-(-shape["n"] // (parameters["threads"] * parameters["items"])),),
    block=lambda shape, parameters: (parameters["threads"],),
    reference=lambda inputs, rows: {"y": inputs["x"][rows].astype("float64")},
)
