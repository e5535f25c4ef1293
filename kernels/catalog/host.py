"""Rung 13: pipelines of copies and kernels that the host drives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ncubble.kernels.catalog.copies import EXACT, doubled
from ncubble.kernels.catalog.shared import SOURCES, integer
from ncubble.kernels.catalog.structure import SLOT, TILE, WARP_SPECIALIZED, recurrence, roles_grid
from ncubble.kernels.spec.spec import Array, Arrays, Dim, KernelSpec, Parameter, Parameters, Reference, Shape, Tolerance

PER_CTA = 1024  # floats: kThreads * kPerThread of stream_pipeline.cu
MIB_FLOATS = 2**18
STREAMS = Parameter("streams", 4, (1, 2, 3, 4, 5, 6, 7, 8), "number of streams, which take chunks in turn")
MEMORY = Parameter(
    "memory", "pinned", ("pinned", "pageable", "staged"), "kind of host memory; staged: through a pinned ring"
)
THREADS = Parameter(
    "threads", 4, (1, 2, 4, 8, 16), "host threads that fill and empty the pinned ring (memory=staged)", tacit=True
)
ALLOC = Parameter("alloc", "reserved", ("reserved", "async", "sync"), "device memory: allocated once, or per chunk")
THRESHOLD = Parameter("threshold", "max", ("zero", "max"), "release threshold of the pool (alloc=async)")


def _chunk(shape: Shape, parameters: Parameters) -> int:
    """Floats of a full chunk."""
    return min(shape["n"], integer(parameters, "chunk") * MIB_FLOATS)


def _chunks(shape: Shape, parameters: Parameters) -> int:
    return -(-shape["n"] // _chunk(shape, parameters))


STREAM_PIPELINE = KernelSpec(
    name="stream_pipeline",
    folder=SOURCES,
    source="cuda/stream_pipeline.cu",
    language="host",
    program="host/stream_pipeline.py",
    idea="copies and kernels of several streams overlap, if the host allows it",
    dims=(Dim("n", 2**25),),
    arrays=(Array("x", ("n",)), Array("y", ("n",), output=True)),
    parameters=(
        STREAMS,
        Parameter("chunk", 4, (1, 2, 4, 8, 16, 32, 64), "MiB of a chunk"),
        MEMORY,
        Parameter("slots", 4, (1, 2, 3, 4, 8, 16), "chunks in the pinned ring (memory=staged)", change="stages"),
        THREADS,
        ALLOC,
        THRESHOLD,
        Parameter("stream_kind", "nonblocking", ("nonblocking", "blocking", "default"), "how streams are created"),
        Parameter("stray", 0, (0, 1), "issue four bytes of work on the legacy default stream after each chunk"),
        Parameter("work", 2048, (0, 64, 512, 2048), "FMAs per element"),
    ),
    grid=lambda shape, parameters: (-(-_chunk(shape, parameters) // PER_CTA),),
    block=(PER_CTA // 4,),
    launches=_chunks,
    reference=doubled,
    tolerance=EXACT,
    unit="link",
    sass={"LDG.E.128 STG.E.128": True, "FFMA": lambda parameters: integer(parameters, "work") > 0},
    demonstrates="bubbles between kernels: pageable memory, the default stream and synchronous allocation serialize",
)


def _replayed(shape: Shape, parameters: Parameters) -> str | None:
    """What a graph cannot replay: work of the host."""
    if parameters["launch"] == "graph" and (parameters["memory"] != "pinned" or parameters["alloc"] == "sync"):
        given = f"memory={parameters['memory']} and alloc={parameters['alloc']}"
        return f"launch=graph replays only device work, but {given} need the host: use memory=pinned"
    return None


ROLES = {parameter.name: parameter for parameter in WARP_SPECIALIZED.parameters}

WARP_PIPELINE = replace(
    WARP_SPECIALIZED,
    name="warp_pipeline",
    folder=SOURCES,
    source="cuda/warp_specialized.cu",
    function=WARP_SPECIALIZED.entry,
    language="host",
    program="host/warp_pipeline.py",
    idea="nested pipelines: chunks over streams, and tiles over specialized warps within each kernel",
    scalars=(),
    parameters=(
        STREAMS,
        Parameter("chunk", 4, (1, 2, 4, 8, 16, 32, 64), "MiB of a chunk of each array"),
        MEMORY,
        Parameter("ring", 8, (1, 2, 3, 4, 8, 16), "chunks in the pinned ring (memory=staged)"),
        replace(THREADS, default=8),
        replace(ALLOC, default="async"),
        THRESHOLD,
        Parameter("launch", "streams", ("streams", "graph"), "queued chunk by chunk, or replayed as one CUDA graph"),
        ROLES["roles"],
        ROLES["slots"],
        Parameter("work", 512, (64, 128, 512, 1024, 2048), "FMAs per element: sets the compute time"),
        ROLES["ctas"],
    ),
    persistent=lambda sms, shape, parameters: roles_grid(sms, {"n": _chunk(shape, parameters)}, parameters),
    launches=_chunks,
    # As in WARP_SPECIALIZED, where RATIO damps what more than 256 steps add. The largest error of
    # 2048 steps is 1.5e-5; a step too many, or an A that is missing, is off by 3e-4 still.
    tolerance=Tolerance(absolute=2.4e-5),
    unit="link",
    requires=_replayed,
    demonstrates="both levels of overlap in one run: copies beside kernels, and loads beside computing within them",
)


SHARED = 4  # tiles that meet the same tile of B


def shared_recurrence(parameters: Parameters) -> Reference:
    """``recurrence``, with every tile of b (n/4,) as often as it is met."""

    def reference(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        b = np.repeat(inputs["b"].reshape(-1, TILE), SHARED, axis=0).reshape(-1)
        return recurrence(parameters)({"a": inputs["a"], "b": b}, rows)

    return reference


def _levels_require(shape: Shape, parameters: Parameters) -> str | None:
    if parameters["cluster"] != 1 and parameters["roles"] != "specialized":
        return f"roles={parameters['roles']} shares no loads: use cluster=1"
    return _replayed(shape, parameters)


PIPELINE_LEVELS = replace(
    WARP_PIPELINE,
    name="pipeline_levels",
    idea="one pipeline climbed level by level: streams, roles of warps, slots, clusters that share tiles",
    dims=(Dim("n", 2**25, SHARED * TILE, 2**31 - SHARED * TILE),),
    arrays=(Array("a", ("n",)), Array("b", (f"n/{SHARED}",)), Array("c", ("n",), output=True)),
    parameters=(
        *WARP_PIPELINE.parameters,
        Parameter("layers", 32, (1, 8, 32), "kernels per chunk: computing takes longer than copies", problem=True),
        Parameter("cluster", 1, (1, 2, SHARED), "CTAs that get a tile of B by one load; from 2 on Hopper or later"),
    ),
    defines=lambda shape, parameters: {"SHARED": SHARED},
    smem=lambda shape, parameters: (SLOT + 8 * (parameters["cluster"] != 1)) * integer(parameters, "slots"),
    launches=lambda shape, parameters: _chunks(shape, parameters) * integer(parameters, "layers"),
    arch_of=lambda parameters: 90 if parameters["cluster"] != 1 else 80,
    reference=shared_recurrence({"work": 64}),
    reference_of=shared_recurrence,
    requires=_levels_require,
    work=lambda shape, parameters: 2.0 * integer(parameters, "layers") * (integer(parameters, "work") + 1) * shape["n"],
    demonstrates="what each level of overlap takes away, and that the next loss shows only then",
)


def _octupled(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """``y`` and ``z``: x and w doubled thrice."""
    return {result: 8.0 * inputs[name][rows].astype(np.float64) for name, result in (("x", "y"), ("w", "z"))}


EVENT_GRAPH = replace(
    STREAM_PIPELINE,
    name="event_graph",
    function=STREAM_PIPELINE.entry,
    language="host",
    program="host/event_graph.py",
    idea="events order the work of streams, A before B before D, independent of C",
    dims=(Dim("n", 2**16),),
    arrays=(Array("x", ("n",)), Array("w", ("n",)), Array("y", ("n",), output=True), Array("z", ("n",), output=True)),
    parameters=(
        Parameter(
            "order",
            "events",
            ("events", "host", "one"),
            "ordering by events, a waiting host, or a single stream",
            change="cta_order",
        ),
        Parameter("work", 16384, (64, 2048, 16384), "FMAs per element of each of the six kernels"),
    ),
    grid=lambda shape, parameters: (-(-shape["n"] // PER_CTA),),
    launches=6,
    reference=_octupled,
    demonstrates="dependencies that block neither the CPU nor other streams",
)

STREAM_PRIORITY = replace(
    STREAM_PIPELINE,
    name="stream_priority",
    function=STREAM_PIPELINE.entry,
    language="host",
    program="host/stream_priority.py",
    idea="a small kernel beside a large one: CTAs of the higher-priority stream go first",
    dims=(Dim("n", 2**25, 4),),
    parameters=(
        Parameter("priority", "high", ("same", "high"), "priority of the small kernel's stream"),
        Parameter("work", 2048, (64, 2048), "FMAs per element"),
    ),
    requires=lambda shape, parameters: None if shape["n"] >= 2**17 else f"n={shape['n']} is below 131072",
    grid=lambda shape, parameters: (-(-shape["n"] // 4 // PER_CTA),),
    launches=5,
    demonstrates="latency of urgent work: until the next CTA ends, not the whole kernel",
)

KV_HEAD, KV_WIDTH = 64, 1024  # kHead and kWidth of kv_layers.cu


def decoded(parameters: Parameters) -> Reference:
    """``y`` (tokens, batch, width): ``layers`` times causal attention of each head, whose rows are
    queries, keys and values."""
    layers = integer(parameters, "layers")

    def reference(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        tokens, batch = inputs["x"].shape[:2]
        heads = inputs["x"].astype(np.float64).reshape(tokens, -1, KV_HEAD).swapaxes(0, 1)
        x, later = np.ascontiguousarray(heads), np.triu(np.full((tokens, tokens), -np.inf), 1)
        for _ in range(layers):
            weights = x @ x.swapaxes(1, 2)  # in place from here on: it is the largest array
            weights /= np.sqrt(KV_HEAD)
            weights += later
            weights -= weights.max(axis=2, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=2, keepdims=True)
            x = weights @ x
        return {"y": x.swapaxes(0, 1).reshape(tokens, batch, KV_WIDTH)[rows]}

    return reference


KV_LAYERS = KernelSpec(
    name="kv_layers",
    folder=SOURCES,
    source="cuda/kv_layers.cu",
    language="host",
    program="host/kv_layers.py",
    idea="layers over streams, each with a buffer that grows token by token (KV cache)",
    dims=(
        Dim("tokens", 32, maximum=4096),
        Dim("batch", 1024, maximum=4096),
        Dim("width", KV_WIDTH, KV_WIDTH, KV_WIDTH),
    ),
    arrays=(Array("x", ("tokens", "batch", "width")), Array("y", ("tokens", "batch", "width"), output=True)),
    parameters=(
        Parameter("streams", 2, (1, 2, 4), "streams, each with the same number of layers"),
        Parameter("layers", 4, (4, 8), "layers of the model"),
        Parameter("ctas", 64, (32, 64, 128), "CTAs of a layer; other layers use the remaining SMs"),
        Parameter(
            "grow", "async", ("reserved", "async", "sync"), "cache: allocated at full size, or reallocated per token"
        ),
    ),
    grid=lambda shape, parameters: (min(shape["batch"], integer(parameters, "ctas")),),
    block=(KV_WIDTH // 2,),
    launches=lambda shape, parameters: shape["tokens"] * integer(parameters, "layers"),
    reference=decoded({"layers": 4}),
    reference_of=decoded,
    unit="latency",
    # Of a layer the sums of 64 products and of up to 4096 weights err by some 1e-6 of values below
    # 6; layers average, and hardly add to it. A token too few or too many is off by about 0.1.
    tolerance=Tolerance(absolute=5e-5),
    sass={"LDG.E.64 SHFL MUFU.EX2": True},
    demonstrates="a cache that grows in stream order while other layers compute; cudaMalloc blocks them all",
)


def doubled_twice(inputs: Arrays, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """``y[rows] = 4 x[rows]`` for x (n,): each of the two GPUs doubles."""
    return {"y": 4.0 * inputs["x"][rows].astype(np.float64)}


PEER_PIPELINE = replace(
    STREAM_PIPELINE,
    name="peer_pipeline",
    function=STREAM_PIPELINE.entry,
    language="host",
    program="host/peer_pipeline.py",
    idea="one GPU produces chunks and signals a second one by events, which consumes them",
    parameters=(
        Parameter("overlap", 1, (0, 1), "0: a chunk starts after the previous one is consumed"),
        Parameter("chunk", 16, (1, 2, 4, 8, 16, 32, 64), "MiB of a chunk"),
        Parameter("slots", 2, (1, 2, 3, 4, 8), "chunks buffered between the two GPUs", change="stages"),
        Parameter(
            "via",
            "copy",
            ("copy", "read", "write"),
            "peer copy, or a kernel that reads or writes the other GPU's memory",
        ),
        Parameter("work", 2048, (0, 64, 512, 2048), "FMAs per element, on each GPU"),
    ),
    launches=lambda shape, parameters: 2 * _chunks(shape, parameters),
    reference=doubled_twice,
    demonstrates="bubbles between GPUs: without a second slot or in one order, each waits for the other",
)

SPECS: tuple[KernelSpec, ...] = (
    STREAM_PIPELINE,
    WARP_PIPELINE,
    PIPELINE_LEVELS,
    EVENT_GRAPH,
    STREAM_PRIORITY,
    KV_LAYERS,
    PEER_PIPELINE,
)
