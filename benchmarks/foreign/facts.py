"""What a launch computes: its work, and the facts of it that go into the manifest. Nothing here
needs PyTorch."""

from __future__ import annotations

from typing import Any

from benchmarks.foreign.experiment import Launch, Options

ITEM_B = {"float32": 4, "float16": 2, "bfloat16": 2}
FUNCTIONS = {
    "gemm": "foreign_gemm",
    "gemm_persistent": "foreign_gemm_persistent",
    "dequant": "foreign_dequant",
    "attention": "foreign_attention",
    "softmax": "foreign_softmax",
    "layernorm": "foreign_layernorm",
}
"""Function that a program launches; what a library launches is its own choice."""
_MATRIX = ("gemm", "gemm_persistent", "dequant", "matmul")
_SIZES = ("batch", "m", "n", "k", "heads", "sequence", "dim", "rows", "columns")


def work(program: str, options: Options) -> float:
    """Useful work of a launch: FLOPs of a matrix program or of attention, elements of any other."""
    if program in _MATRIX:
        return 2.0 * options.get("batch", 1) * options["m"] * options["n"] * options["k"]
    if program in ("attention", "sdpa"):
        pairs = options["sequence"] ** 2 / (2 if options.get("causal") else 1)
        return 4.0 * options.get("batch", 1) * options["heads"] * pairs * options["dim"]
    return float(options["rows"] * options["columns"])


def compulsory_bytes(program: str, options: Options) -> float:
    """Bytes that a launch has to read and write at least."""
    size = ITEM_B[options.get("dtype", "float16")]
    if program in _MATRIX:
        m, n, k = options["m"], options["n"], options["k"]
        left = 1 if options.get("mode") == "int8" else size
        return float(options.get("batch", 1) * (m * k * left + (k * n + m * n) * size))
    if program in ("attention", "sdpa"):
        return 4.0 * options.get("batch", 1) * options["heads"] * options["sequence"] * options["dim"] * size
    elements = options["rows"] * options["columns"]
    op = options.get("op", "")
    written = options["rows"] if op == "sum" else elements
    return float(((2 if op == "add" else 1) * elements + written) * size)


def of(launch: Launch) -> dict[str, Any]:
    """The launch as an object like ``kernel`` of a facts file."""
    options = launch.options
    matrix = launch.program in (*_MATRIX, "attention", "sdpa")
    rest = {key: value for key, value in options.items() if key not in (*_SIZES, "dtype", "tile")}
    tile = {"tile": "x".join(str(size) for size in options["tile"])} if "tile" in options else {}
    return {
        "name": launch.name,
        "function": FUNCTIONS.get(launch.program),
        "parameters": {"program": launch.program, **tile, **rest},
        "shape": {key: options[key] for key in _SIZES if key in options},
        "stages": options.get("stages"),
        "flops": work(launch.program, options) if matrix else None,
        "bytes": compulsory_bytes(launch.program, options),
        "dtype": options.get("dtype", "float16"),
    }
