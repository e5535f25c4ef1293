"""Online softmax; attention: the gates of document 002 and the phases of document 004."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.claims.measurements.ladder import DRAM, FMA, LDGSTS, SEED, TENSOR, counters, dram_bytes, times
from benchmarks.claims.registry import measurement
from benchmarks.harness.command import NCUBBLE
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.gates import gates_of, run_acceptance
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import make_case
from ncubble.profiling.ncu import find_ncu


@measurement(timeout_s=60)
def sdpa_gates() -> dict[str, Any]:
    """The gates of document 002 on both paths, and whether both give the same bits."""
    name = "sdpa_fp8_stage_c_wmma"
    outcome = run_acceptance(name, gates_of(name))
    took = {item.path: item for item in outcome.resources}
    baseline, candidate = took["baseline"], took["candidate"]
    passed = {path: sum(check.passed for check in outcome.checks if check.path == path) for path in took}
    return {
        "baseline_passed": passed["baseline"],
        "candidate_passed": passed["candidate"],
        "checks": len(outcome.checks) // 2,
        "max_abs_error": max(check.verification.max_abs_error for check in outcome.checks),
        "baseline_us": outcome.timings["baseline"].p50_us,
        "candidate_us": outcome.timings["candidate"].p50_us,
        "gain_pct": outcome.gain_pct,
        "baseline_registers": baseline.registers,
        "candidate_registers": candidate.registers,
        "more_registers": candidate.registers - baseline.registers,
        "spills": baseline.spill_B + candidate.spill_B,
        "baseline_smem_kb": baseline.smem_B / 1024,
        "candidate_smem_kb": candidate.smem_B / 1024,
        "more_smem_kb": (candidate.smem_B - baseline.smem_B) / 1024,
        "ctas": candidate.ctas_per_sm,
        "occupancy_pct": candidate.occupancy_pct,
        "same_bits": _same_bits(),
    }


def _same_bits() -> bool:
    """Whether both paths of the attention give identical results on identical inputs."""
    results = []
    for ahead in (0, 1):
        case = make_case(find_spec("sdpa_fp8_stage_c_wmma"), {"use_cp_async": ahead})
        gpu = Gpu.open()
        try:
            prepared = prepare(case, gpu)
            prepared.upload(draw_inputs(case, SEED))
            prepared.poison()
            prepared.run()
            results.append(prepared.outputs()[0]["out"].tobytes())
        finally:
            gpu.close()
    return results[0] == results[1]


@measurement(timeout_s=60)
def sdpa_counters() -> dict[str, Any]:
    """ncu's counters of both paths of the attention over bytes, mission shape."""
    found: dict[str, Any] = {}
    for path in (0, 1):
        counted = counters("sdpa_fp8_stage_c_wmma", f"use_cp_async={path}")
        found[f"tensor_pct{path}"] = counted[TENSOR]
        found[f"throughput{path}"] = counted["sm__throughput.avg.pct_of_peak_sustained_elapsed"]
        found[f"dram_kb{path}"] = dram_bytes(counted) / 1024
        found[f"cycles{path}"] = counted["sm__cycles_elapsed.max"]
    return {
        **found,
        "tensor_ratio": found["tensor_pct1"] / found["tensor_pct0"],
        "throughput_ratio": found["throughput1"] / found["throughput0"],
        "dram_ratio": found["dram_kb1"] / found["dram_kb0"],
        "dram_change_pct": 100.0 * abs(found["dram_kb1"] / found["dram_kb0"] - 1.0),
    }


NAMES = {"tensor": "smsp__pipe_tensor_cycles_active", "throughput": "sm__throughput", "dram": "dram__bytes"}


@measurement(timeout_s=90)
def seed_metric_names() -> dict[str, Any]:
    """Whether ncu lists the metrics of document 002 for its GPU, an L4 (AD104), and whether it
    collects ``sm__throughput`` under the name that the document writes."""
    tool = find_ncu().path
    listing = subprocess.run([tool, "--query-metrics", "--chip", "ad104"], capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in listing.stdout.splitlines() if line.strip()}
    program = [sys.executable, "-P", "-m", "ncubble.kernels", "sdpa_fp8_stage_c_wmma", "--once", "--no-verify"]
    argv = [tool, "--metrics", NAMES["throughput"], *program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return {
        **{f"{key}_listed": name in listed for key, name in NAMES.items()},
        "throughput_as_written": done.returncode == 0 and NAMES["throughput"] in done.stdout,
    }


@measurement(timeout_s=60)
def sdpa_files() -> dict[str, Any]:
    """What ``ncubble verify --gates --out`` leaves behind."""
    with tempfile.TemporaryDirectory(prefix="ncubble-claims-") as folder:
        out = Path(folder) / "gates"
        argv = [*NCUBBLE, "verify"]
        argv += ["sdpa_fp8_stage_c_wmma", "--gates", "--out", str(out)]
        subprocess.run(argv, capture_output=True, text=True, timeout=55, check=False)
        names = sorted(path.name for path in out.iterdir())
        meta = (out / "build_meta.json").read_text(encoding="utf-8")
    return {
        "files": ", ".join(names),
        "has_sha": '"sha"' in meta or "git" in meta,
        "has_flags": "-arch=" in meta,
        "has_device": '"device"' in meta,
    }


@measurement(timeout_s=60)
def online_softmax() -> dict[str, Any]:
    """The default path of softmax_online: right, how near to a device copy, its instructions that copy
    asynchronously, and bytes read from DRAM beside those of its input."""
    outcome = execute(KernelRequest("softmax_online", seed=SEED))
    counted = counters("softmax_online")
    assert outcome.verification and outcome.timing and outcome.rates
    return {
        "us": outcome.timing.p50_us,
        "passed": outcome.verification.passed,
        "copy_pct": 100 * (outcome.rates.fraction or 0.0),
        "ldgsts": counted[LDGSTS],
        "read_ratio": counted["dram__bytes_read.sum"] / outcome.case.nbytes(outcome.case.array("x")),
    }


# 420 ms at 0.65 TFLOP/s are 273 GFLOP: those of 8 heads of 8192 tokens and 128 dimensions, without
# a mask.
PHASES = {"batch": 1, "heads": 8, "tokens": 8192, "dim": 128}


@measurement(timeout_s=90)
def attention_phases() -> dict[str, Any]:
    """Attention forward of as many FLOPs as document 004's first phase, by TMA and by cp.async."""
    tma, ring = times("attention_fwd", [{"path": "tma"}, {"path": "cp_async"}], PHASES)
    work = make_case(find_spec("attention_fwd"), {}, PHASES).flops
    shape = settings_of(PHASES, ",")
    counted, slower = counters("attention_fwd", "path=tma", shape), counters("attention_fwd", "path=cp_async", shape)
    rows = PHASES["batch"] * PHASES["heads"] * PHASES["tokens"]
    return {
        "tma_ms": tma / 1e3,
        "cp_async_ms": ring / 1e3,
        "tma_tflops": work / tma / 1e6,
        "cp_async_tflops": work / ring / 1e6,
        "tma_gain_pct": 100 * (ring / tma - 1),
        "dram_pct": counted[DRAM],
        "tensor_pct": counted[TENSOR],
        "l2_hit_pct": counted["lts__t_sector_hit_rate.pct"],
        "dram_mb": dram_bytes(counted) / 1e6,
        "scores_mb": rows * PHASES["tokens"] * 2 / 1e6,
        "compulsory_mb": 4 * rows * PHASES["dim"] * 2 / 1e6,
        "cp_async_dram_pct": slower[DRAM],
        "verified": True,  # what is not is not timed
    }


# Document 004's phases: plain copies into one buffer of 64 KB, then cp.async into two. ``loops``: each
# value of K and V that is read from shared memory serves one query only, not 16.
PHASE_ONE = {"copy": "plain", "stages": 1, "keys": 128}
PHASE_TWO = {"copy": "async", "stages": 2, "keys": 128}
SCALAR = {
    "loops_plain": {**PHASE_ONE, "rows": 1},
    "loops_async": {**PHASE_TWO, "rows": 1},
    "plain": {**PHASE_ONE, "rows": 16},
    "async": {**PHASE_TWO, "rows": 16},
}
COUNTED = {"dram_pct": DRAM, "fma_pct": FMA, "l2_hit_pct": "lts__t_sector_hit_rate.pct"}


@measurement(timeout_s=150)
def scalar_phases() -> dict[str, Any]:
    """Attention forward in scalar code, of as many FLOPs as document 004's first phase, by both of its
    phases."""
    work, shape = 4.0 * PHASES["heads"] * PHASES["tokens"] ** 2 * PHASES["dim"], settings_of(PHASES, ",")
    found: dict[str, Any] = {}
    for (name, chosen), us in zip(
        SCALAR.items(), times("attention_scalar", list(SCALAR.values()), PHASES), strict=True
    ):
        counted = counters("attention_scalar", settings_of(chosen, " "), shape)
        found |= {f"{name}_{what}": counted[metric] for what, metric in COUNTED.items()}
        found |= {f"{name}_ms": us / 1e3, f"{name}_tflops": work / us / 1e6}
        found[f"{name}_dram_mb"] = dram_bytes(counted) / 1e6
    return {
        **found,
        "loops_gain_pct": 100 * (found["loops_plain_ms"] / found["loops_async_ms"] - 1),
        "gain_pct": 100 * (found["plain_ms"] / found["async_ms"] - 1),
        "bytes_ratio": found["async_dram_mb"] / found["plain_dram_mb"],
        "verified": True,  # what is not is not timed
    }


def settings_of(values: Mapping[str, object], separator: str) -> str:
    """``name=value`` of each, joined."""
    return separator.join(f"{name}={value}" for name, value in values.items())
