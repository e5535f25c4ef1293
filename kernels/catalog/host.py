"""Rung 13: a pipeline of copies and kernels that the host drives."""

from __future__ import annotations

from ncubble.kernels.catalog.copies import doubled, exact
from ncubble.kernels.catalog.shared import SOURCES, integer
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec, Parameter, Parameters, Shape

PER_CTA = 1024  # floats: kThreads * kPerThread of stream_pipeline.cu
MIB_FLOATS = 2**18


def _chunk(shape: Shape, parameters: Parameters) -> int:
    """Floats of a full chunk."""
    return min(shape["n"], integer(parameters, "chunk") * MIB_FLOATS)


def _chunks(shape: Shape, parameters: Parameters) -> int:
    return -(-shape["n"] // _chunk(shape, parameters))


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
        Parameter("slots", 4, (1, 2, 3, 4, 8), "chunks in the pinned ring (memory=staged)"),
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

SPECS: tuple[KernelSpec, ...] = (STREAM_PIPELINE,)
