"""Kernels of the catalog for measurements: their times, and what ncu counts of them."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.claims.measurements.tools import FOLDER
from benchmarks.harness.command import NCUBBLE
from ncubble.analysis.report.report import Report
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import time_launches
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import Value

Settings = Mapping[str, Value]
SEED = 1
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
FMA = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"
LDGSTS = "smsp__inst_executed_op_ldgsts.sum"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"


def times(name: str, settings: Sequence[Settings], shape: Mapping[str, int] | None = None) -> list[float]:
    """Median microseconds of a kernel in several settings: same inputs, each verified first."""
    spec = find_spec(name, FOLDER)
    cases = [make_case(spec, chosen, shape) for chosen in settings]
    inputs = draw_inputs(cases[0], SEED)
    gpu = Gpu.open()
    try:
        if spec.language == "cuda":
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda case: build(case, gpu.arch), cases))
    finally:
        gpu.close()
    return [_timed(case, inputs) for case in cases]


def _timed(case: Case, inputs: dict[str, Any]) -> float:
    gpu = Gpu.open()
    try:
        prepared = prepare(case, gpu)
        prepared.upload(inputs)
        prepared.poison()
        prepared.run()
        outputs, overrun = prepared.outputs()
        verify(case, inputs, outputs, SEED, overrun).require(case.label, SEED)
        return time_launches(gpu, prepared.run).p50_us
    finally:
        gpu.close()


@functools.cache
def counters(name: str, settings: str = "", shape: str = "") -> dict[str, float]:
    """What ncu counts of one launch: the sets tensor and dram, and counters of copies.
    ``settings``: ``"a=1 b=2"``."""
    further = (
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        LDGSTS,
        "smsp__inst_executed_op_tma_ld.sum",
    )
    with tempfile.TemporaryDirectory(prefix="ncubble-claims-") as folder:
        out = Path(folder) / "run"
        argv = [*NCUBBLE, "profile", name]
        argv += ["--set", "tensor", "--set", "dram", "--out", str(out), "--timeout", "60"]
        argv += [text for item in settings.split() for text in ("-p", item)]
        argv += [text for item in further for text in ("--metrics", item)]
        argv += ["-p", shape] if shape else []
        done = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)
        if not (out / "run.json").is_file():
            raise RuntimeError(f"ncubble profile {name} {settings}: {done.stderr.strip()[-400:]}")
        return dict(Report.open(out).launch(0).scalars)


def dram_bytes(found: Mapping[str, float]) -> float:
    """Bytes read from and written to DRAM."""
    return found["dram__bytes_read.sum"] + found["dram__bytes_write.sum"]
