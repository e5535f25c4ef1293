"""All experiments, as data. Sizes are multiples of the tiles; a wave is one CTA per SM of an H200
(132), or two."""

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
PERSISTENT = Change("persistent", ("wave_gap",), program="gemm_persistent", cure=True, evidence=False, swap=True)
LARGER = Change("tile128", ("copy_cost",), {"tile": (128, 128, 64), "warps": 8}, cure=True, evidence=False, swap=True)
WGMMA = Change("wgmma", ("slow_path",), {"mma": "wgmma"}, cure=True, swap=True)
TWICE = Change("twice", kind="bytes", options={"load": "twice"}, bytes=0.5)
HALVED = Change("half", kind="bytes", options={"dtype": "float16"}, bytes=0.5)
DOUBLED = Change("double", kind="bytes", options={"dtype": "float32"}, bytes=2.0)


def experiments() -> Iterator[Experiment]:
    """Every experiment of the first set, in the order in which it runs."""
    yield from gemms()
    yield from triton_others()
    yield from products()
    yield from attentions()
    yield from rows()


def second() -> Iterator[Experiment]:
    """A set of the same families with other settings, chosen before any of it was measured.

    The first set was looked at while rules of the diagnosis were changed; this one is for rules
    that are fixed.
    """
    yield from second_gemms()
    yield from second_triton()
    yield from second_products()
    yield from second_attentions()
    yield from second_rows()


SETS = {"first": experiments, "second": second}


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
    """No copies in the loop; no result written; a loop four times as long, so that what is paid per
    CTA fades."""
    one_wave = options["m"] // options["tile"][0] * (options["n"] // options["tile"][1]) <= SMS
    longer = 4 * options["k"]
    yield Change("nostore", ("epilogue",), {"store": 0})
    yield Change("longk", ("ramp",) if one_wave else ("wave_gap",), {"k": longer}, beyond=("epilogue",))
    # Without a ring more CTAs may fit, which hide what each of them pays once: compared where that
    # is little.
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
    taller = {"m": 4224}
    yield gemm("s1", cube(4096), square, 1, whole=taller)
    yield gemm("s2", cube(4096), square, 2, whole=taller)
    yield gemm("s3_bf16", cube(4096), square, 3, whole=taller, dtype="bfloat16", extra=(PERSISTENT,))
    yield gemm("s4", cube(4096), square, 4, whole=taller, extra=(PERSISTENT,))
    yield gemm("wide_s3", {**cube(8192), "k": 4096}, wide, 3, whole={"m": 8448}, extra=(PERSISTENT,))
    yield gemm("flat_s2_bf16", cube(4096), (64, 256, 64), 2, whole={"m": 4224}, dtype="bfloat16", warps=4)
    yield gemm("small_s3", cube(2048), (64, 64, 32), 3, whole={"m": 2112}, warps=4, extra=(LARGER,))
    yield gemm("thin_s4", cube(4096), (128, 128, 32), 4, whole=taller)
    odd = {"m": 17 * 128, "n": 9 * 256, "k": 8192}
    yield gemm("odd_waves", odd, wide, 4, whole={"m": 12 * 128, "n": 11 * 256})
    yield gemm("few_ctas", {"m": 1024, "n": 1024, "k": 16384}, square, 5, whole={"m": 11 * 128, "n": 12 * 128})
    yield gemm("short_k", {"m": 8192, "n": 8192, "k": 256}, square, 3, whole={"m": 8448}, extra=(PERSISTENT,))
    yield gemm("mma_sync", cube(4096), (128, 128, 32), 4, whole=taller, mma="mma_sync", registers=128, extra=(WGMMA,))
    yield gemm("skinny", {"m": 64, "n": 16896, "k": 8192}, (64, 128, 64), 5, warps=4, extra=(TWICE,))


def dequant(name: str, shape: dict[str, int], tile: tuple[int, int, int], stages: int, warps: int) -> Experiment:
    """A GEMM that converts one operand on its way to the MMA."""
    options = {**shape, "tile": tile, "stages": stages, "warps": warps, "mode": "int8"}
    options["registers"] = 128  # so that every variant fits as often on an SM
    changes = (
        *deeper(options, most=5),
        Change("scaled", ("issue",), {"mode": "scaled"}),
        Change("plain", ("smem_wait", "sync_wait"), {"mode": "plain"}, beyond=("issue",)),
        Change("nostore", ("epilogue",), {"store": 0}),
    )
    return Experiment(f"dequant_{name}", TRITON, "dequant", options, changes)


def attention(name: str, options: Options) -> Experiment:
    """Attention in Triton; with 66 heads, tiles of 128 rows make whole waves."""
    stages = options["stages"]
    changes = (
        *(Change(f"stages{depth}", ("data_wait",), {"stages": depth}, cure=True) for depth in (stages + 1, stages + 2)),
        Change("nosoftmax", ("issue",), {"softmax": False}),
        Change("once", ("copy_cost",), {"load": "once"}, beyond=("data_wait",)),
        Change("nostore", ("epilogue",), {"store": 0}),
        Change("whole", ("tail",), {"heads": 66}, cure=True),
    )
    return Experiment(f"attention_{name}", TRITON, "attention", options, changes)


def triton_others() -> Iterator[Experiment]:
    """Conversion on the way to the MMA, attention, and kernels that stream rows, all in Triton."""
    yield dequant("s3", cube(4096), (128, 128, 64), 3, warps=8)
    yield dequant("s2_small", cube(4096), (64, 128, 64), 2, warps=4)
    heads = {"heads": 64, "sequence": 4096, "tile": (128, 64)}
    yield attention("d128", {**heads, "dim": 128, "warps": 8, "stages": 2})
    yield attention("d64_s1", {**heads, "dim": 64, "warps": 4, "stages": 1})
    plain = {"rows": 16384, "columns": 4096, "dtype": "float32"}
    yield Experiment("softmax", TRITON, "softmax", {**plain, "warps": 8}, (HALVED,))
    yield Experiment("layernorm", TRITON, "layernorm", {**plain, "block": 1024, "warps": 4}, (HALVED,))
    lonely = {"rows": 1056, "columns": 16384, "dtype": "float32", "block": 32, "warps": 1}
    more = Change("block1024", ("no_tensor_work",), {"block": 1024, "warps": 4}, cure=True)
    yield Experiment("layernorm_lonely", TRITON, "layernorm", lonely, (HALVED, more))


def product(name: str, shape: dict[str, int], *changes: Change, dtype: str = "bfloat16") -> Experiment:
    return Experiment(f"matmul_{name}", LIBRARY, "matmul", {**shape, "dtype": dtype}, changes)


def longer(k: int, times: int = 4) -> Change:
    return Change("longk" if times == 4 else f"longk{times}", FIXED, {"k": times * k})


def whole(number: int, m: int, n: int) -> Change:
    return Change(f"whole{number}", ("tail",), {"m": m, "n": n}, cure=True)


def products() -> Iterator[Experiment]:
    """cuBLAS. Which kernel it takes shows when it runs: a change that takes another is no
    evidence."""
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


def sdpa(name: str, backend: str, changes: tuple[Change, ...], **other: int | str) -> Experiment:
    shape = {"batch": 4, "heads": 16, "sequence": 4096, "dim": 128, "dtype": "bfloat16"}
    return Experiment(f"sdpa_{name}", LIBRARY, "sdpa", {**shape, "backend": backend, **other}, changes)


def wider(dim: int) -> Change:
    """Twice the products for each exponential: what vanishes is softmax."""
    return Change(f"dim{2 * dim}", ("issue",), {"dim": 2 * dim}, swap=True)


ALIGNED = Change("whole", ("tail",), {"batch": 1, "heads": 66}, cure=True)
"""Whole waves of tiles of 128 rows."""
HOPPER = Change("cudnn", ("slow_path",), {"backend": "cudnn"}, cure=True, swap=True)
FULL = Change("full", options={"causal": 0}, evidence=False, swap=True)


def attentions() -> Iterator[Experiment]:
    """cuDNN's attention and PyTorch's own flash attention, which is built for Ampere."""
    longer = Change("longer", FIXED, {"batch": 1, "sequence": 16384})
    yield sdpa("cudnn_d128", "cudnn", (longer, ALIGNED, wider(128)))
    yield sdpa("cudnn_d64", "cudnn", (longer, ALIGNED, wider(64)), dim=64)
    yield sdpa("cudnn_causal", "cudnn", (longer, ALIGNED, wider(128), FULL), causal=1)
    yield sdpa("flash_d128", "flash", (longer, ALIGNED, wider(128), HOPPER))
    fed = Change("longer", FIXED, {"heads": 1, "sequence": 8192})  # as many CTAs, each with a loop 16 times as long
    filled = Change("whole", ("tail",), {"heads": 33}, cure=True)
    smaller = Change("smaller", kind="less", options={"heads": 8, "sequence": 256})
    yield sdpa("cudnn_short", "cudnn", (fed, filled, smaller), batch=1, sequence=512)


def rows() -> Iterator[Experiment]:
    """Reductions, norms, and other kernels of PyTorch that stream rows; and one launch that is too
    small."""
    plain = {"rows": 16384, "columns": 4096, "dtype": "float32"}
    for op in ("softmax", "layer_norm", "sum", "add", "lgamma", "cumsum"):
        yield Experiment(f"rows_{op}", LIBRARY, "pointwise", {**plain, "op": op}, (HALVED,))
    smaller = Change("smaller", kind="less", options={"columns": 1024})
    small = {"rows": 1, "columns": 4096, "dtype": "float32", "op": "add"}
    yield Experiment("rows_tiny", LIBRARY, "pointwise", small, (smaller,))


def second_gemms() -> Iterator[Experiment]:
    """Other tiles, depths, shapes and warps of the Triton GEMM."""
    square, tall, flat = (128, 128, 64), (128, 64, 64), (64, 128, 64)
    large, thick, bf16 = (256, 128, 64), (128, 128, 128), {"dtype": "bfloat16"}
    yield gemm("tall_s2", cube(3072), tall, 2, whole={"m": 2816}, warps=4)
    yield gemm("flat_s3", {**cube(6144), "k": 1024}, flat, 3, whole={"m": 6336}, warps=4)
    yield gemm("large_s2", {"m": 8192, "n": 2048, "k": 8192}, large, 2, whole={"m": 8448}, **bf16)
    yield gemm("large_s4", {**cube(6144), "k": 2048}, large, 4, whole={"m": 5632})
    yield gemm("thick_s1", cube(3072), thick, 1, whole={"m": 2816}, **bf16)
    yield gemm("thick_s2", {**cube(5120), "k": 2560}, thick, 2, whole={"m": 4224})
    yield gemm("four_warps_s3", {**cube(6144), "k": 3072}, square, 3, whole={"m": 5632}, warps=4)
    yield gemm("short_s4", {"m": 8192, "n": 8192, "k": 512}, square, 4, whole={"m": 8448}, extra=(PERSISTENT,), **bf16)
    few = {"m": 512, "n": 1536, "k": 16384}
    yield gemm("few_s4", few, square, 4, whole={"m": 11 * 128, "n": 12 * 128})
    begun = {"m": 10 * 256, "n": 14 * 128, "k": 6144}
    yield gemm("begun_wave_s3", begun, large, 3, whole={"m": 11 * 256, "n": 12 * 128})
    slow = {"warps": 4, "mma": "mma_sync", "registers": 128}
    yield gemm("mma_sync_s3", cube(3072), (64, 128, 32), 3, whole={"m": 2816}, extra=(WGMMA,), **slow)
    yield gemm("cubes_s5", cube(3072), (64, 64, 64), 5, whole={"m": 2816}, warps=4, extra=(LARGER,), **bf16)
    yield gemm("skinny_s3", {"m": 64, "n": 33792, "k": 4096}, (64, 256, 64), 3, warps=4, extra=(TWICE,))


def second_triton() -> Iterator[Experiment]:
    """Conversion, attention and softmax in Triton."""
    yield dequant("s3_small", {"m": 5120, "n": 4096, "k": 2048}, (64, 128, 64), 3, warps=4)
    yield attention("d128_s1", {"heads": 48, "sequence": 2048, "dim": 128, "tile": (128, 64), "warps": 8, "stages": 1})
    yield attention("d64_s2", {"heads": 20, "sequence": 6144, "dim": 64, "tile": (128, 128), "warps": 8, "stages": 2})
    options = {"rows": 8192, "columns": 8192, "dtype": "bfloat16", "warps": 8}
    yield Experiment("softmax_bf16", TRITON, "softmax", options, (DOUBLED,))


def second_products() -> Iterator[Experiment]:
    """cuBLAS: a short K, a long one, a batch, and a small product."""
    yield product("k1024", {**cube(8192), "k": 1024}, longer(1024), longer(1024, 2), whole(1, 8448, 8192))
    deep = {**cube(4096), "k": 16384}
    yield product("k16384", deep, longer(16384, 2), whole(1, 4224, 4096), whole(2, 4096, 4224))
    batch = {"batch": 33, **cube(1024), "k": 256}
    yield product("batch33", batch, longer(256), longer(256, 2), longer(256, 16), dtype="float16")
    yield product("small", cube(384), Change("smaller", kind="less", options=cube(128)))


def second_attentions() -> Iterator[Experiment]:
    """cuDNN: long and causal, narrow heads, few heads; and flash attention with narrow heads."""
    longest = Change("longer", FIXED, {"batch": 1, "sequence": 16384})
    changes = (longest, ALIGNED, wider(128), FULL)
    yield sdpa("cudnn_causal8192", "cudnn", changes, batch=2, sequence=8192, causal=1)
    short = {"sequence": 2048, "dim": 64}
    fed = Change("longer", FIXED, {"batch": 2, "sequence": 8192})
    yield sdpa("cudnn_d64_fp16", "cudnn", (fed, ALIGNED, wider(64)), batch=8, heads=12, dtype="float16", **short)
    filled = Change("whole", ("tail",), {"heads": 33}, cure=True)
    yield sdpa("cudnn_few", "cudnn", (filled, wider(128)), batch=1, heads=2)
    fed = Change("longer", FIXED, {"batch": 1, "sequence": 8192})
    yield sdpa("flash_d64", "flash", (fed, ALIGNED, wider(64), HOPPER), **short)


def second_rows() -> Iterator[Experiment]:
    """Kernels of PyTorch that stream rows of half precision; and a launch that is too small."""
    for op, count, columns in (("layer_norm", 8192, 8192), ("sum", 32768, 4096), ("add", 8192, 16384)):
        options = {"rows": count, "columns": columns, "dtype": "bfloat16", "op": op}
        yield Experiment(f"rows_{op}_bf16", LIBRARY, "pointwise", options, (DOUBLED,))
    options = {"rows": 4096, "columns": 16384, "dtype": "float16", "op": "cumsum"}
    yield Experiment("rows_cumsum_fp16", LIBRARY, "pointwise", options, (DOUBLED,))
    small = {"rows": 4, "columns": 2048, "dtype": "float32", "op": "sum"}
    less = Change("smaller", kind="less", options={"columns": 512})
    yield Experiment("rows_tiny_sum", LIBRARY, "pointwise", small, (less,))
