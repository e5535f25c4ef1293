"""What ``kernels/ladder.py`` measures: kernels beside a library, and kernels beside their own other
settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

TOKENS = 16384  # batch x tokens of the attention rows, as papers keep it
COPY = {"n": 2**26}  # 256 MiB, four times the L2 of an H200


@dataclass(frozen=True)
class Entry:
    """One kernel with parameters and shape; what is not named is default."""

    kernel: str
    parameters: dict[str, int | str] = field(default_factory=dict)
    shape: dict[str, int] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """For ``--only`` and for progress."""
        settings = (f"{key}={value}" for key, value in (*self.parameters.items(), *self.shape.items()))
        return " ".join((self.kernel, *settings))


@dataclass(frozen=True)
class Group:
    """Settings that are timed in turns. The first is what the others are compared with."""

    about: str
    entries: tuple[Entry, ...]


def cube(size: int) -> dict[str, int]:
    """m = n = k."""
    return {"m": size, "n": size, "k": size}


def against() -> Iterator[Entry]:
    """The rungs that a library call stands beside."""
    for name in ("manual", "pipeline", "coop", "tma"):
        yield Entry(f"async_copy_{name}")
    yield Entry("tiled_matmul")
    yield Entry("async_pipeline", {"stages": 3})
    yield Entry("async_pipeline", {"stages": 3, "threads": 128})
    for stages in (2, 3, 4):
        yield Entry("tensor_core_gemm", {"stages": stages})
    for size in (4096, 8192):
        yield Entry("gemm_mma_swizzled", {}, cube(size))
    for size in (4096, 8192):
        yield Entry("gemm_tma", {}, cube(size))
    for size in (2048, 4096, 8192):
        yield Entry("gemm_ws", {}, cube(size))
    yield Entry("softmax_online")
    yield Entry("attention_fwd", {"path": "cp_async", "causal": 0})
    yield Entry("attention_fwd", {"path": "cp_async", "causal": 1})
    for causal in (0, 1):
        yield Entry("attention_fwd", {"causal": causal}, {"batch": 4, "heads": 16, "tokens": 4096, "dim": 128})
    for dim in (64, 128):
        for causal in (0, 1):
            for tokens in (1024, 2048, 4096, 8192, 16384):
                shape = {"batch": TOKENS // tokens, "heads": 16, "tokens": tokens, "dim": dim}
                if shape["batch"] != 4 or dim != 128:  # that one is above
                    yield Entry("attention_fwd", {"causal": causal}, shape)
    yield Entry("numba_tiled_matmul")
    yield Entry("numba_async_pipeline")
    yield Entry("numba_softmax_online")


def _each(kernel: str, *settings: dict[str, int | str], shape: dict[str, int] | None = None) -> tuple[Entry, ...]:
    return tuple(Entry(kernel, chosen, shape or {}) for chosen in settings)


def pairs() -> Iterator[Group]:
    """The rungs whose point is a comparison with themselves."""
    ring = tuple(Entry("async_pipeline", {"stages": 3, "threads": threads}) for threads in (256, 128))
    yield Group("cp.async against plain loads, with as many warps and with half", (Entry("tiled_matmul"), *ring))
    yield Group(
        "swizzled shared memory against rows in a row",
        _each("gemm_mma_swizzled", {"layout": "plain"}, {"layout": "xor"}),
    )
    stages = [{"stages": count} for count in (1, 2, 3, 4)]
    # One CTA an SM: with more of them, the others' copies hide what a CTA with one buffer waits
    # for.
    alone = [{**one, "ctas": 1} for one in stages]
    yield Group("buffers of a copy, one CTA an SM", _each("async_copy_tma", *alone, shape=COPY))
    computing = [{**one, "work": 64} for one in alone]
    yield Group("the same, computing 64 FMAs an element", _each("async_copy_tma", *computing, shape=COPY))
    yield Group(
        "cp.async in 8-bit attention",
        _each("sdpa_fp8_stage_c_wmma", {"use_cp_async": 0}, {"use_cp_async": 1}),
    )
    roles = [{"roles": "specialized", "slots": slots} for slots in (1, 2, 3, 4)]
    yield Group("warps with roles", _each("warp_specialized", {"roles": "fused", "slots": 1}, *roles))
    # Unshared in each size, too: the size of a cluster alone decides how well the last wave fills
    # the SMs.
    ways = ("none", "dsmem", "split", "multicast")
    clusters = [{"share": share, "cluster": size} for share in ways for size in (2, 4, 8)]
    yield Group("one tile for a cluster", _each("cluster_dsmem", *clusters))
    yield Group("launches", _each("persistent", {"mode": "many"}, {"mode": "grid"}, {"mode": "persistent"}))
    yield Group(
        "streams",
        _each(
            "stream_pipeline",
            {"streams": 1},
            {"streams": 2},
            {"streams": 3},
            {"streams": 4},
            {"memory": "pageable"},
            {"alloc": "async"},
            {"alloc": "sync"},
            {"stream_kind": "default"},
        ),
    )
