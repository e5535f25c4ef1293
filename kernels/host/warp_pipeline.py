"""The host's side of ``warp_pipeline`` and ``pipeline_levels``: the pipeline of
``stream_pipeline``, whose kernel is itself one of warps (``warp_specialized``). Rung 13."""

from __future__ import annotations

from typing import Any

from ncubble.kernels.host.driver import HostDriver
from ncubble.kernels.host.stream_pipeline import StreamPipeline
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.spec.case import Case

COMPILED = ("roles", "slots", "cluster", "work", "ctas")
"""Parameters that affect the device code."""


def make(case: Case, gpu: Gpu, kernel: Any) -> StreamPipeline:
    """The pipeline of ``case``; what ``host_program`` calls."""
    return StreamPipeline(case, kernel, HostDriver(gpu), int(case.parameters.get("ring", 0)))
