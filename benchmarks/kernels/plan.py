"""What ``kernels/ladder.py`` measures: kernels beside a library, and kernels beside their own other
settings. What ``kernels/sanitize.py`` runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

TOKENS = 16384  # batch x tokens of the attention rows, as papers keep it
COPY = {"n": 2**26}  # 256 MiB, four times the L2 of an H200
PINGPONG_FP8: dict[str, int | str] = {"schedule": "pingpong", "tile_n": 128, "stages": 6, "band": 1024}
PROMOTED_FP8: dict[str, int | str] = {"accumulate": "promoted", "tile_n": 128, "stages": 6, "band": 1024}


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
    for chosen in ({}, PINGPONG_FP8, PROMOTED_FP8, {"scaling": "block", **PROMOTED_FP8}):
        for size in (2048, 4096, 8192):
            yield Entry("gemm_fp8", chosen, cube(size))
    yield Entry("softmax_online")
    yield Entry("attention_scalar")
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
    for dim in (64, 128):  # 8 heads of K and V, as models have them
        for causal in (0, 1):
            for tokens in (4096, 16384):
                shape = {"batch": TOKENS // tokens, "heads": 32, "tokens": tokens, "dim": dim}
                yield Entry("attention_fwd", {"causal": causal, "group": 4}, shape)
    yield Entry("numba_tiled_matmul")
    yield Entry("numba_async_pipeline")
    for size in (4096, 8192):
        yield Entry("numba_tensor_core_gemm", {}, cube(size))
    yield Entry("numba_softmax_online")


def _each(kernel: str, *settings: dict[str, int | str], shape: dict[str, int] | None = None) -> tuple[Entry, ...]:
    return tuple(Entry(kernel, chosen, shape or {}) for chosen in settings)


def _attention_in_e4m3() -> Iterator[Group]:
    """Both types on shapes alike; at the default shape the other ways of adding and of
    exponentials, too."""
    fast: dict[str, int | str] = {"accumulate": "fast"}
    others = ({}, fast, {**fast, "keys": 192}, {**fast, "polynomial": 2}, {**fast, "polynomial": 4})
    yield Group("attention in bfloat16, and ways of e4m3", (Entry("attention_fwd"), *_each("attention_fp8", *others)))
    for tokens, dim in ((1024, 128), (4096, 128), (8192, 128), (16384, 128), (4096, 64), (16384, 64)):
        shape = {"batch": TOKENS // tokens, "heads": 16, "tokens": tokens, "dim": dim}
        for causal in (0, 1):
            entries = tuple(Entry(kernel, {"causal": causal}, shape) for kernel in ("attention_fwd", "attention_fp8"))
            yield Group(f"attention in bfloat16 and e4m3: {tokens} tokens, dim={dim}, causal={causal}", entries)


def _host_pairs() -> Iterator[Group]:
    """Of programs that the host drives, and of launches against a barrier of the grid."""
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
            {"memory": "staged", "slots": 8, "threads": 1},
            {"memory": "staged", "slots": 8, "threads": 8},
        ),
    )
    yield Group(
        "a pipeline of pipelines",
        _each(
            "warp_pipeline",
            {"streams": 1},
            {"streams": 2},
            {"streams": 4},
            {"alloc": "reserved"},
            {"alloc": "sync"},
            {"launch": "graph"},
            {"chunk": 1},
            {"chunk": 1, "launch": "graph"},
        ),
    )
    yield Group("streams that depend on each other", _each("event_graph", {"order": "one"}, {"order": "host"}, {}))
    caches = [{"grow": grow, "streams": streams} for grow in ("reserved", "async", "sync") for streams in (1, 2)]
    yield Group("layers whose caches grow", _each("kv_layers", *caches))
    for size in (2**16, 2**20, 2**24):
        yield Group(
            f"steps over 2^{size.bit_length() - 1}", _each("grid_sync", {"mode": "many"}, {}, shape={"n": size})
        )


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
        "online while blocks arrive, against maximum, then sum",
        _each("softmax_online", {"path": "registers"}, *({"stages": stages} for stages in (1, 2, 4))),
    )
    for keys in (128, 64):  # document 004 has 64 KB of keys and values, which are 128 keys
        phases = (
            {"copy": "plain", "stages": 1},
            *({"copy": copy, "stages": stages} for copy in ("async", "pipeline", "tma") for stages in (1, 2)),
        )
        for rows in (16, 1):
            yield Group(
                f"scalar attention, tiles of {keys} keys, queries of a warp: {rows}",
                _each("attention_scalar", *({**phase, "keys": keys, "rows": rows} for phase in phases)),
            )
    yield Group(
        "cp.async in 8-bit attention",
        _each(
            "sdpa_fp8_stage_c_wmma", *({"use_cp_async": ring, "pv": pv} for pv in ("wmma", "scalar") for ring in (0, 1))
        ),
    )
    yield from _attention_in_e4m3()
    roles = [{"roles": roles, "slots": slots} for roles in ("specialized", "pipelines") for slots in (1, 2, 3, 4)]
    yield Group("warps with roles", _each("warp_specialized", {"roles": "fused", "slots": 1}, *roles))
    # Unshared in each size, too: the size of a cluster alone decides how well the last wave fills
    # the SMs.
    ways = ("none", "dsmem", "split", "multicast")
    clusters = [{"share": share, "cluster": size} for share in ways for size in (2, 4, 8)]
    yield Group("one tile for a cluster", _each("cluster_dsmem", *clusters))
    yield Group("launches", _each("persistent", {"mode": "many"}, {"mode": "grid"}, {"mode": "persistent"}))
    yield from _host_pairs()


SANITIZED: tuple[tuple[str, str], ...] = (
    ("async_copy_manual", "--shape n=100003"),
    ("async_copy_pipeline", "--shape n=100003"),
    ("async_copy_pipeline", "-p stages=1 --shape n=100003"),
    ("async_copy_coop", "--shape n=100003"),
    ("async_copy_tma", "--shape n=100003"),
    ("async_copy_tma", "-p path=bulk --shape n=100003"),
    ("tiled_matmul", "--shape m=256,n=256,k=64"),
    ("async_pipeline", "-p stages=3 --shape m=256,n=256,k=64"),
    ("numba_tiled_matmul", "--shape m=65,n=130,k=33"),
    ("numba_async_pipeline", "--shape m=65,n=130,k=33"),
    ("tensor_core_gemm", "-p stages=3 -p vec=4 --shape m=256,n=256,k=128"),
    ("gemm_mma_swizzled", "--shape m=256,n=512,k=256"),
    ("gemm_mma_swizzled", "-p tile_n=128 -p tile_k=32 --shape m=256,n=256,k=256"),
    ("numba_tensor_core_gemm", "--shape m=256,n=512,k=384"),
    ("numba_tensor_core_gemm", "-p stages=1 -p tile_n=128 -p tile_k=32 --shape m=256,n=256,k=192"),
    ("gemm_tma", "--shape m=200,n=328,k=136"),
    ("gemm_ws", "--shape m=200,n=328,k=136"),
    ("gemm_ws", "-p stages=5 -p tile_n=128 -p schedule=pingpong --shape m=200,n=328,k=136"),
    ("gemm_fp8", "--shape m=200,n=328,k=272"),
    ("gemm_fp8", "-p stages=6 -p tile_n=128 -p schedule=pingpong --shape m=200,n=328,k=272"),
    (
        "gemm_fp8",
        "-p stages=6 -p tile_n=128 -p accumulate=promoted -p scaling=block --shape m=200,n=328,k=400",
    ),
    ("gemm_ws", "-p tile_m=176 -p tile_n=192 -p form=turned --shape m=200,n=328,k=1000"),
    (
        "gemm_ws",
        "-p tile_m=104 -p tile_n=128 -p form=turned -p schedule=pingpong -p cluster=1 --shape m=200,n=328,k=1000",
    ),
    ("gemm_ws", "-p tile_n=192 -p schedule=pingpong -p cluster=1 --shape m=200,n=328,k=1000"),
    ("gemm_ws", "-p edge=moved --shape m=400,n=328,k=1000"),
    ("gemm_ws", "-p tile_m=80 -p tile_n=128 -p form=turned -p edge=moved -p cluster=1 --shape m=200,n=328,k=1000"),
    ("gemm_ws", "-p tile_m=48 -p tile_n=64 -p form=turned -p cluster=1 -p split=4 --shape m=37,n=328,k=1000"),
    ("gemm_ws", "-p tile_m=24 -p tile_n=64 -p form=turned -p schedule=pingpong -p stages=14 --shape m=41,n=328,k=1000"),
    ("gemm_ws", "-p tile_m=24 -p tile_n=64 -p form=turned -p schedule=pingpong -p split=3 --shape m=41,n=328,k=1000"),
    ("softmax_online", "--shape rows=33,cols=1001"),
    ("softmax_online", "--shape rows=5,cols=60000"),
    ("softmax_online", "-p path=registers --shape rows=33,cols=1004"),
    ("numba_softmax_online", "--shape rows=33,cols=1001"),
    ("attention_scalar", "--shape batch=1,heads=2,tokens=300,dim=128"),
    ("attention_scalar", "-p copy=plain -p stages=1 -p rows=1 --shape batch=1,heads=2,tokens=300,dim=64"),
    ("attention_scalar", "-p copy=pipeline --shape batch=1,heads=2,tokens=300,dim=128"),
    ("attention_scalar", "-p copy=tma --shape batch=1,heads=2,tokens=300,dim=64"),
    ("attention_fwd", "--shape batch=1,heads=2,tokens=300,dim=128"),
    ("attention_fwd", "-p causal=1 --shape batch=1,heads=2,tokens=300,dim=64"),
    ("attention_fwd", "-p path=cp_async -p causal=1 --shape batch=1,heads=2,tokens=300,dim=128"),
    ("attention_fp8", "--shape batch=1,heads=2,tokens=300,dim=128"),
    ("attention_fp8", "-p causal=1 --shape batch=1,heads=2,tokens=300,dim=64"),
    ("attention_fp8", "--shape batch=1,heads=2,tokens=300,dim=64"),
    ("attention_fp8", "-p accumulate=fast -p causal=1 -p keys=192 --shape batch=1,heads=1,tokens=300,dim=128"),
    ("sdpa_fp8_stage_c_wmma", "-p use_cp_async=0 --shape b=1,h=2,s=100,d=64"),
    ("sdpa_fp8_stage_c_wmma", "-p use_cp_async=1 --shape b=1,h=2,s=100,d=64"),
    ("sdpa_fp8_stage_c_wmma", "-p pv=scalar --shape b=1,h=2,s=100,d=64"),
    ("warp_specialized", "-p roles=fused --shape n=65536"),
    ("warp_specialized", "--shape n=65536"),
    ("warp_specialized", "-p roles=pipelines --shape n=65536"),
    ("cluster_dsmem", "-p share=dsmem --shape m=300,n=64,k=100"),
    ("cluster_dsmem", "-p share=multicast --shape m=300,n=64,k=100"),
    ("persistent", "--shape batches=3,rows=100"),
    ("grid_sync", "--shape n=65540"),
    ("grid_sync", "-p mode=many --shape n=65540"),
    ("stream_pipeline", "--shape n=1000003"),
    ("warp_pipeline", "--shape n=1048576"),
    ("pipeline_levels", "-p layers=1 -p cluster=2 --shape n=1048576"),
    ("event_graph", "--shape n=1000"),
    ("stream_priority", "--shape n=262144"),
    ("kv_layers", "--shape tokens=12,batch=2"),
    ("peer_pipeline", "--shape n=1000003"),
    ("planted_gemm", "--shape m=256,n=512,k=384"),
    ("planted_gemm", "-p disease=no_async -p stages=1 --shape m=128,n=256,k=256"),
    ("planted_gemm", "-p disease=uncoalesced -p stages=2 --shape m=128,n=256,k=256"),
    ("planted_dequant", "-p disease=dequant_issue --shape m=128,n=256,k=384"),
    ("planted_waves", "--shape m=256,n=384,k=640"),
    ("planted_ramp", "-p search=serial --shape m=256,n=128,k=128,groups=40"),
    ("planted_ramp", "--shape m=256,n=128,k=128,groups=40"),
    ("planted_epilogue", "-p store=narrow --shape m=256,n=128,k=256"),
    ("planted_raster", "-p tile_n=64 -p raster=column --shape m=256,n=192,k=256"),
    ("planted_boxes", "-p box_rows=8 --shape m=256,n=128,k=256"),
    ("planted_roles", "-p producer=warp --shape m=256,n=128,k=512"),
    ("planted_residual", "--shape m=256,n=128,k=256"),
    ("planted_banks", "-p pitch=34 --shape rows=1024"),
    ("planted_strides", "-p order=columns --shape rows=256,cols=24"),
    ("planted_strides", "-p order=sectors --shape rows=256,cols=24"),
    ("planted_untiled", "--shape m=24,n=64,k=96"),
    ("planted_untiled", "-p use=once --shape m=24,n=1,k=96"),
    ("planted_untiled", "-p use=column --shape m=64,n=64,k=96"),
    ("planted_untiled", "-p use=block --shape m=128,n=256,k=96"),
    ("planted_untiled_mma", "--shape m=48,n=128,k=80"),
    ("planted_local", "-p index=runtime --shape n=1024"),
    ("planted_atomics", "-p mode=threads --shape n=1024,ctas=4,bins=7"),
    ("planted_atomics", "--shape n=1024,ctas=4"),
    ("planted_literals", "-p literal=double --shape n=1024"),
    ("planted_doubles", "--shape n=1024"),
    ("planted_stream", "-p width=1 -p ahead=1 -p steps=16 --shape n=4096"),
    ("planted_stream", "-p width=4 -p ahead=8 -p steps=4 -p threads=32 --shape n=8192"),
    ("planted_chain", "--shape n=4096,chains=256"),
    ("planted_lookup", "--shape n=512"),
    ("planted_members", "-p order=members --shape n=512"),
    ("planted_members", "-p order=passes --shape n=512"),
    ("planted_sums", "-p at=memory --shape terms=9,n=512"),
    ("planted_sums", "-p at=running --shape terms=9,n=512,kept=9"),
    ("planted_serial", "-p touch=within --shape m=256,n=256,k=192"),
)
"""Kernel and arguments of each case, small and with remainders where the kernel takes them."""

TWO_GPUS = ("peer_pipeline",)
"""Kernels that one GPU alone cannot run."""
