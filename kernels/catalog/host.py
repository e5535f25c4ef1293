"""Rung 13: pipelines of copies and kernels that the host drives."""

from __future__ import annotations

from dataclasses import replace

from ncubble.kernels.catalog.copies import doubled, exact
from ncubble.kernels.catalog.shared import SOURCES, integer
from ncubble.kernels.catalog.structure import WARP_SPECIALIZED, recurrence, roles_grid
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec, Parameter, Parameters, Shape

PER_CTA = 1024  # floats: kThreads * kPerThread of stream_pipeline.cu
MIB_FLOATS = 2**18


def _chunk(shape: Shape, parameters: Parameters) -> int:
    """Floats of a full chunk."""
    return min(shape["n"], integer(parameters, "chunk") * MIB_FLOATS)


def _chunks(shape: Shape, parameters: Parameters) -> int:
    return -(-shape["n"] // _chunk(shape, parameters))


_THREADS = Parameter(
    "threads",
    4,
    (1, 2, 4, 8, 16),
    "threads of the host that fill and empty the pinned ring (memory=staged)",
    tacit=True,
)

STREAM_PIPELINE = KernelSpec(
    name="stream_pipeline",
    folder=SOURCES,
    source="cuda/stream_pipeline.cu",
    program="host_streams/stream_pipeline.py",
    idea="copies and kernels of several streams overlap, if the host lets them",
    dims=(Dim("n", 2**25),),
    arrays=(Array("x", ("n",)), Array("y", ("n",), output=True)),
    parameters=(
        Parameter("streams", 4, (1, 2, 3, 4, 5, 6, 7, 8), "streams that take the chunks in turn"),
        Parameter("chunk", 4, (1, 2, 4, 8, 16, 32, 64), "MiB of a chunk"),
        Parameter("memory", "pinned", ("pinned", "pageable", "staged"), "host memory; staged: a pinned ring between"),
        Parameter("slots", 4, (1, 2, 3, 4, 8, 16), "chunks in the pinned ring (memory=staged)"),
        _THREADS,
        Parameter("alloc", "reserved", ("reserved", "async", "sync"), "device memory: made once, or for every chunk"),
        Parameter("threshold", "max", ("zero", "max"), "release threshold of the pool (alloc=async)"),
        Parameter("stream_kind", "nonblocking", ("nonblocking", "blocking", "default"), "how streams were made"),
        Parameter("stray", 0, (0, 1), "four bytes of work on the legacy default stream after every chunk"),
        Parameter("work", 2048, (0, 64, 512, 2048), "FMAs per element"),
    ),
    grid=lambda shape, parameters: (-(-_chunk(shape, parameters) // PER_CTA),),
    block=lambda shape, parameters: (PER_CTA // 4,),
    launches=_chunks,
    reference=doubled,
    tolerance=exact,
    unit="link",
    sass=lambda arch, parameters: {"LDG.E.128": True, "STG.E.128": True, "FFMA": integer(parameters, "work") > 0},
    demonstrates="bubbles between kernels: pageable memory, the default stream and synchronous allocation serialize",
)


def _replayed(shape: Shape, parameters: Parameters) -> str | None:
    """What a graph cannot replay: work of the host."""
    if parameters["launch"] == "graph" and (parameters["memory"] != "pinned" or parameters["alloc"] == "sync"):
        given = f"memory={parameters['memory']} and alloc={parameters['alloc']}"
        return f"launch=graph replays the work of the device alone, and {given} need the host: use memory=pinned"
    return None


def _specialized(name: str) -> Parameter:
    """A parameter of the kernel ``warp_specialized``, which this pipeline launches."""
    return next(parameter for parameter in WARP_SPECIALIZED.parameters if parameter.name == name)


WARP_PIPELINE = KernelSpec(
    name="warp_pipeline",
    folder=SOURCES,
    source="cuda/warp_specialized.cu",
    function=WARP_SPECIALIZED.entry,
    program="host_streams/warp_pipeline.py",
    idea="a pipeline of pipelines: chunks over streams, and within each kernel tiles over warps with roles",
    dims=WARP_SPECIALIZED.dims,
    arrays=WARP_SPECIALIZED.arrays,
    parameters=(
        Parameter("streams", 4, (1, 2, 3, 4, 5, 6, 7, 8), "streams that take the chunks in turn"),
        Parameter("chunk", 4, (1, 2, 4, 8, 16, 32, 64), "MiB of a chunk of each array"),
        Parameter("memory", "pinned", ("pinned", "pageable", "staged"), "host memory; staged: a pinned ring between"),
        Parameter("ring", 8, (1, 2, 3, 4, 8, 16), "chunks in the pinned ring (memory=staged)"),
        replace(_THREADS, default=8),
        Parameter("alloc", "async", ("reserved", "async", "sync"), "device memory: made once, or for every chunk"),
        Parameter("threshold", "max", ("zero", "max"), "release threshold of the pool (alloc=async)"),
        Parameter("launch", "streams", ("streams", "graph"), "queued chunk by chunk, or replayed as one CUDA graph"),
        _specialized("roles"),
        _specialized("slots"),
        Parameter("work", 512, (64, 128, 512, 1024, 2048), "FMAs per element: how long computing takes"),
        _specialized("ctas"),
    ),
    grid=lambda shape, parameters: WARP_SPECIALIZED.grid({"n": _chunk(shape, parameters)}, parameters),
    persistent=lambda sms, shape, parameters: roles_grid(sms, {"n": _chunk(shape, parameters)}, parameters),
    block=WARP_SPECIALIZED.block,
    smem=WARP_SPECIALIZED.smem,
    launches=_chunks,
    reference=WARP_SPECIALIZED.reference,
    reference_of=recurrence,
    work=WARP_SPECIALIZED.work,
    tolerance=WARP_SPECIALIZED.tolerance,
    unit="link",
    sass=WARP_SPECIALIZED.sass,
    requires=_replayed,
    demonstrates="both levels of overlap in one run: copies beside kernels, and loads beside computing within them",
)

SPECS: tuple[KernelSpec, ...] = (STREAM_PIPELINE, WARP_PIPELINE)
