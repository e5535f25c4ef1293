"""All experiments, as data. Sizes are multiples of the tiles; a wave is one CTA per SM of an H200 (132), or two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.foreign.experiment import Change, Experiment, Options

SMS = 132
SMEM_B = 227 * 1024
"""Shared memory of a CTA on Hopper."""
TRITON, LIBRARY = FAMILIES = "triton", "library"
FIXED = ("ramp", "wave_gap", "epilogue")
"""What a CTA pays once, however long its loop is."""


def experiments() -> Iterator[Experiment]:
    """Every experiment, in the order in which it runs."""
    yield from gemms()
    yield from triton_others()
    yield from products()
    yield from attentions()
    yield from rows()


def cube(size: int) -> dict[str, int]:
    return {"m": size, "n": size, "k": size}


def fits(tile: tuple[int, int, int], stages: int) -> bool:
    """Whether a ring of half-precision tiles fits into shared memory."""
    bm, bn, bk = tile
    return (bm + bn) * bk * 2 * stages <= SMEM_B


def deeper(options: Options, most: int = 6) -> Iterator[Change]:
    """One stage more, and two more than that: if latency is exposed, they hide it."""
    for stages in (options["stages"] + 1, options["stages"] + 3):
        if stages <= most and fits(options["tile"], stages):
            yield Change(f"stages{stages}", ("data_wait",), {"stages": stages}, cure=True)


def removed(options: Options) -> Iterator[Change]:
    """No copies in the loop; no result written; a loop four times as long, so that what is paid per CTA fades."""
    one_wave = options["m"] // options["tile"][0] * (options["n"] // options["tile"][1]) <= SMS
    longer = 4 * options["k"]
    yield Change("nostore", ("epilogue",), {"store": 0})
    yield Change("longk", ("ramp",) if one_wave else ("wave_gap",), {"k": longer}, beyond=("epilogue",))
    # Without a ring more CTAs may fit, which hide what each of them pays once: compared where that is little.
    yield Change("once", ("copy_cost",), {"load": "once", "k": longer}, beyond=("data_wait",), against="longk")


def gemm(name: str, shape: dict[str, int], tile: tuple[int, int, int], stages: int, **other: Any) -> Experiment:
    """A Triton GEMM with everything taken away in turn; ``whole``: a shape with whole waves."""
    whole, extra = other.pop("whole", None), other.pop("extra", ())
    options = {**shape, "tile": tile, "stages": stages, "warps": 8, "dtype": "float16", **other}
    changes = [*deeper(options), *removed(options)]
    if whole:
        changes.append(Change("whole", ("tail",), whole, cure=True))
    return Experiment(f"gemm_{name}", TRITON, "gemm", options, (*changes, *extra))


def gemms() -> Iterator[Experiment]:
    """Depths, tiles, types and shapes of a Triton GEMM."""
    square, wide = (128, 128, 64), (128, 256, 64)
    persistent = Change("persistent", ("wave_gap",), program="gemm_persistent", cure=True, evidence=False, swap=True)
    larger = Change("tile128", ("copy_cost",), {"tile": square, "warps": 8}, cure=True, evidence=False, swap=True)
    wgmma = Change("wgmma", ("slow_path",), {"mma": "wgmma"}, cure=True, swap=True)
    halved = Change("twice", kind="bytes", options={"load": "twice"}, bytes=0.5)
    taller = {"m": 4224}
    yield gemm("s1", cube(4096), square, 1, whole=taller)
    yield gemm("s2", cube(4096), square, 2, whole=taller)
    yield gemm("s3_bf16", cube(4096), square, 3, whole=taller, dtype="bfloat16", extra=(persistent,))
    yield gemm("s4", cube(4096), square, 4, whole=taller, extra=(persistent,))
    yield gemm("wide_s3", {**cube(8192), "k": 4096}, wide, 3, whole={"m": 8448}, extra=(persistent,))
    yield gemm("flat_s2_bf16", cube(4096), (64, 256, 64), 2, whole={"m": 4224}, dtype="bfloat16", warps=4)
    yield gemm("small_s3", cube(2048), (64, 64, 32), 3, whole={"m": 2112}, warps=4, extra=(larger,))
    yield gemm("thin_s4", cube(4096), (128, 128, 32), 4, whole=taller)
    odd = {"m": 17 * 128, "n": 9 * 256, "k": 8192}
    yield gemm("odd_waves", odd, wide, 4, whole={"m": 12 * 128, "n": 11 * 256})
    yield gemm("few_ctas", {"m": 1024, "n": 1024, "k": 16384}, square, 5, whole={"m": 11 * 128, "n": 12 * 128})
    yield gemm("short_k", {"m": 8192, "n": 8192, "k": 256}, square, 3, whole={"m": 8448}, extra=(persistent,))
    yield gemm("mma_sync", cube(4096), (128, 128, 32), 4, whole=taller, mma="mma_sync", registers=128, extra=(wgmma,))
    yield gemm("skinny", {"m": 64, "n": 16896, "k": 8192}, (64, 128, 64), 5, warps=4, extra=(halved,))


def triton_others() -> Iterator[Experiment]:
    """Conversion on the way to the MMA, attention, and kernels that stream rows, all in Triton."""
    for name, tile, stages in (("s3", (128, 128, 64), 3), ("s2_small", (64, 128, 64), 2)):
        options = {**cube(4096), "tile": tile, "stages": stages, "warps": 8 if tile[0] == 128 else 4, "mode": "int8"}
        options["registers"] = 128  # so that every variant fits as often on an SM
        changes = (
            *deeper(options, most=5),
            Change("scaled", ("issue",), {"mode": "scaled"}),
            Change("plain", ("smem_wait", "sync_wait"), {"mode": "plain"}, beyond=("issue",)),
            Change("nostore", ("epilogue",), {"store": 0}),
        )
        yield Experiment(f"dequant_{name}", TRITON, "dequant", options, changes)
    for name, dim, tile, warps, stages in (("d128", 128, (128, 64), 8, 2), ("d64_s1", 64, (128, 64), 4, 1)):
        options = {"heads": 64, "sequence": 4096, "dim": dim, "tile": tile, "warps": warps, "stages": stages}
        changes = (
            *(
                Change(f"stages{depth}", ("data_wait",), {"stages": depth}, cure=True)
                for depth in (stages + 1, stages + 2)
            ),
            Change("nosoftmax", ("issue",), {"softmax": False}),
            Change("once", ("copy_cost",), {"load": "once"}, beyond=("data_wait",)),
            Change("nostore", ("epilogue",), {"store": 0}),
            Change("whole", ("tail",), {"heads": 66}, cure=True),
        )
        yield Experiment(f"attention_{name}", TRITON, "attention", options, changes)
    halved = Change("half", kind="bytes", options={"dtype": "float16"}, bytes=0.5)
    plain = {"rows": 16384, "columns": 4096, "dtype": "float32"}
    yield Experiment("softmax", TRITON, "softmax", {**plain, "warps": 8}, (halved,))
    yield Experiment("layernorm", TRITON, "layernorm", {**plain, "block": 1024, "warps": 4}, (halved,))
    lonely = {"rows": 1056, "columns": 16384, "dtype": "float32", "block": 32, "warps": 1}
    more = Change("block1024", ("no_tensor_work",), {"block": 1024, "warps": 4}, cure=True)
    yield Experiment("layernorm_lonely", TRITON, "layernorm", lonely, (halved, more))


def product(name: str, shape: dict[str, int], *changes: Change, dtype: str = "bfloat16") -> Experiment:
    return Experiment(f"matmul_{name}", LIBRARY, "matmul", {**shape, "dtype": dtype}, changes)


def products() -> Iterator[Experiment]:
    """cuBLAS. Which kernel it takes shows when it runs: a change that takes another is no evidence."""

    def longer(k: int) -> Change:
        return Change("longk", FIXED, {"k": 4 * k})

    def whole(number: int, m: int, n: int) -> Change:
        return Change(f"whole{number}", ("tail",), {"m": m, "n": n}, cure=True)

    yield product("8192", cube(8192), Change("longk", FIXED, {"k": 16384}), whole(1, 8448, 8192))
    yield product("4096_fp16", cube(4096), longer(4096), whole(1, 4224, 4096), whole(2, 4096, 4224), dtype="float16")
    odd = {"m": 2304, "n": 2304, "k": 8192}
    yield product("odd_waves", odd, longer(8192), whole(1, 1536, 2816), whole(2, 2816, 1536), whole(3, 3072, 2816))
    yield product("short_k", {"m": 8192, "n": 8192, "k": 256}, longer(256), whole(1, 8448, 8192))
    yield product("batched", {"batch": 66, **cube(512)}, longer(512), Change("longk16", FIXED, {"k": 8192}))
    smaller = Change("smaller", kind="less", options=cube(128))
    yield product("tiny", cube(256), smaller)
    tf32 = Change("tf32", ("no_tensor_work",), {"tf32": 1}, cure=True, swap=True)
    yield product("sgemm", cube(4096), tf32, dtype="float32")


def attentions() -> Iterator[Experiment]:
    """cuDNN's attention and PyTorch's own flash attention, which is built for Ampere."""

    def sdpa(name: str, backend: str, changes: tuple[Change, ...], **other: int) -> Experiment:
        shape = {"batch": 4, "heads": 16, "sequence": 4096, "dim": 128, "dtype": "bfloat16"}
        return Experiment(f"sdpa_{name}", LIBRARY, "sdpa", {**shape, "backend": backend, **other}, changes)

    longer = Change("longer", FIXED, {"batch": 1, "sequence": 16384})
    more = Change("whole", ("tail",), {"batch": 1, "heads": 66}, cure=True)
    # Twice the products for each exponential: what vanishes is softmax.
    wider = Change("dim256", ("issue",), {"dim": 256}, swap=True)
    hopper = Change("cudnn", ("slow_path",), {"backend": "cudnn"}, cure=True, swap=True)
    yield sdpa("cudnn_d128", "cudnn", (longer, more, wider))
    yield sdpa("cudnn_d64", "cudnn", (longer, more, Change("dim128", ("issue",), {"dim": 128}, swap=True)), dim=64)
    full = Change("full", options={"causal": 0}, evidence=False, swap=True)
    yield sdpa("cudnn_causal", "cudnn", (longer, more, wider, full), causal=1)
    yield sdpa("flash_d128", "flash", (longer, more, wider, hopper))
    fed = Change("longer", FIXED, {"heads": 1, "sequence": 8192})  # as many CTAs, each with a loop 16 times as long
    filled = Change("whole", ("tail",), {"heads": 33}, cure=True)
    smaller = Change("smaller", kind="less", options={"heads": 8, "sequence": 256})
    yield sdpa("cudnn_short", "cudnn", (fed, filled, smaller), batch=1, sequence=512)


def rows() -> Iterator[Experiment]:
    """Reductions, norms, and other kernels of PyTorch that stream rows; and one launch that is too small."""
    halved = Change("half", kind="bytes", options={"dtype": "float16"}, bytes=0.5)
    plain = {"rows": 16384, "columns": 4096, "dtype": "float32"}
    for op in ("softmax", "layer_norm", "sum", "add", "lgamma", "cumsum"):
        yield Experiment(f"rows_{op}", LIBRARY, "pointwise", {**plain, "op": op}, (halved,))
    smaller = Change("smaller", kind="less", options={"columns": 1024})
    small = {"rows": 1, "columns": 4096, "dtype": "float32", "op": "add"}
    yield Experiment("rows_tiny", LIBRARY, "pointwise", small, (smaller,))
