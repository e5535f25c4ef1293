"""Record the runs that ship with the package, on this machine's GPU.

    python -m benchmarks.record OUT [--only REGEX] [--repeats 5]
    python -m benchmarks.record --stale   # recordings of other machine code than CUDA C++ gives today; needs no GPU

Writes OUT/runs/KERNEL/VARIANT (default sets, one launch: what reports and dashboard show) and
OUT/repeats/KERNEL/VARIANT (sets tensor and dram, several launches: what baselines are made of), and
of a few kernels OUT/full/KERNEL/VARIANT (everything that Nsight Compute offers). Existing run
directories are kept, so an interrupted recording goes on where it stopped. Ends with 1 where any
failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ncubble.analysis.report.report import Report
from ncubble.errors import UsageError
from ncubble.kernels.build import build, disassemble
from ncubble.kernels.catalog.registry import SPECS
from ncubble.kernels.spec.case import make_case
from ncubble.profiling.runs import Run, find_runs
from ncubble.recordings import FULL, H100, ROOT

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@dataclass(frozen=True)
class Recording:
    """One variant of one kernel. ``program`` is set where it is not of the catalog; ``repeats``
    where a baseline is."""

    kernel: str
    variant: str
    parameters: dict[str, object] = field(default_factory=dict)
    shape: dict[str, int] = field(default_factory=dict)
    program: tuple[str, ...] = ()
    repeats: bool = True

    def argv(self, out: Path, launches: int, sets: tuple[str, ...]) -> list[str]:
        """The ``ncubble profile`` command that records it."""
        argv = ["ncubble", "profile", *(text for name in sets for text in ("--set", name)), "--out", str(out)]
        if self.program:
            return [*argv, "--kernel", self.kernel, "--skip", "1", "--count", "1", "--", *self.program]
        given = [text for key, value in self.parameters.items() for text in ("-p", f"{key}={value}")]
        sizes = [text for key, value in self.shape.items() for text in ("-p", f"{key}={value}")]
        return [*argv, self.kernel, *given, *sizes, "--count", str(launches)]


UNGUARDED = {
    r"(stream|warp|peer)_pipeline|pipeline_levels|event_graph|stream_priority|kv_layers": "the bubbles of these "
    "programs lie between copies and kernels, and ncu runs launches one by one",
}
"""Kernels that no check guards, by name (regular expressions), with the reason."""


def plan() -> Iterator[Recording]:
    """Every kernel of the catalog with its interesting parameters, and a Triton GEMM at five
    depths."""
    yield from ladder_start()
    yield from copies()
    yield from tensor_cores()
    yield from attention()
    yield from structure()
    for stages in range(1, 6):
        program = (sys.executable, str(EXAMPLES / "triton_gemm.py"), "--stages", str(stages))
        yield Recording("triton_gemm", f"stages{stages}", program=program, repeats=False)


EVERYTHING = ("full", "warp_states", "pipeline", "timeline", "source")
"""Sets of the recordings that show what Nsight Compute has beside the default sets."""


def everything() -> Iterator[Recording]:
    """A few launches with all of it: some forty passes each."""
    for stages in (1, 3):
        yield Recording("tensor_core_gemm", f"stages{stages}-full", {"stages": stages})
    yield Recording("gemm_tma", "stages2-full", {"stages": 2})
    yield Recording("attention_fwd", "full")


def ladder_start() -> Iterator[Recording]:
    """Rungs 1, 2, 3 and 7, and the Numba twins."""
    yield Recording("tiled_matmul", "default")
    for stages in range(2, 7):
        yield Recording("async_pipeline", f"stages{stages}", {"stages": stages})
    yield Recording("async_pipeline", "stages3-threads128", {"stages": 3, "threads": 128})
    for stages in range(1, 7):
        yield Recording("tensor_core_gemm", f"stages{stages}", {"stages": stages})
    yield Recording("tensor_core_gemm", "stages1-plain", {"stages": 1, "copy": "plain"})
    yield Recording("tensor_core_gemm", "stages3-vec4", {"stages": 3, "vec": 4})
    yield Recording("softmax_online", "default")
    for name in ("tiled_matmul", "async_pipeline", "tensor_core_gemm", "softmax_online"):
        yield Recording(f"numba_{name}", "default")
    yield Recording("numba_tensor_core_gemm", "stages1", {"stages": 1}, repeats=False)


def copies() -> Iterator[Recording]:
    """The four ways to stage global memory in shared memory."""
    for way in ("manual", "pipeline", "coop", "tma"):
        yield Recording(f"async_copy_{way}", "default")


def tensor_cores() -> Iterator[Recording]:
    """Rungs 4, 5 and 6. Their baselines, and that of rung 8, are of more launches, on three GPUs:
    ``gate/record.py``."""
    yield Recording("gemm_mma_swizzled", "default", repeats=False)
    yield Recording("gemm_mma_swizzled", "plain", {"layout": "plain"}, repeats=False)
    for stages in (1, 2, 3, 6):
        yield Recording("gemm_tma", f"stages{stages}", {"stages": stages}, repeats=False)
    yield Recording("gemm_ws", "default", repeats=False)
    pingpong = {"stages": 5, "tile_n": 128, "schedule": "pingpong"}
    yield Recording("gemm_ws", "pingpong", pingpong)
    yield Recording("gemm_fp8", "default")
    promoted: dict[str, object] = {"accumulate": "promoted", "stages": 6, "tile_n": 128, "band": 1024}
    yield Recording("gemm_fp8", "promoted", promoted, repeats=False)
    yield Recording("gemm_fp8", "block", {"scaling": "block", **promoted})


def attention() -> Iterator[Recording]:
    """Rungs 8 and 9, and the scalar attention before them."""
    yield Recording("attention_scalar", "plain", {"copy": "plain", "stages": 1})
    yield Recording("attention_scalar", "default")
    yield Recording("attention_fwd", "default", repeats=False)
    yield Recording("attention_fwd", "causal", {"causal": 1})
    yield Recording("attention_fwd", "dim64", {}, {"dim": 64})
    yield Recording("attention_fwd", "cp_async", {"path": "cp_async"})
    yield Recording("attention_fwd", "grouped", {"causal": 1, "group": 4}, {"heads": 32}, repeats=False)
    yield Recording("attention_fp8", "default")
    yield Recording("attention_fp8", "fast", {"accumulate": "fast"}, repeats=False)
    yield Recording("attention_fp8", "dim64", {}, {"dim": 64}, repeats=False)
    for used in (0, 1):
        yield Recording("sdpa_fp8_stage_c_wmma", f"cp_async{used}", {"use_cp_async": used})


def structure() -> Iterator[Recording]:
    """Rungs 10 to 13."""
    yield Recording("warp_specialized", "fused", {"roles": "fused"})
    for slots in (1, 2):
        yield Recording("warp_specialized", f"slots{slots}", {"slots": slots})
    for share in ("none", "multicast"):
        yield Recording("cluster_dsmem", share, {"share": share})
    for mode in ("grid", "persistent"):
        yield Recording("persistent", mode, {"mode": mode})
    yield Recording("grid_sync", "cooperative")
    # One chunk: ncu runs launches one by one, so that nothing of the overlap would be seen.
    yield Recording("stream_pipeline", "default", {}, {"n": 2**20}, repeats=False)
    yield Recording("grid_sync", "default", repeats=False)
    level: dict[str, object] = {"chunk": 16, "work": 64, "layers": 1}
    for cluster in (1, 4):
        yield Recording(
            "pipeline_levels", f"cluster{cluster}", {**level, "cluster": cluster}, {"n": 2**22}, repeats=False
        )


def record(item: Recording, out: Path, launches: int, sets: tuple[str, ...]) -> bool:
    """Record one run unless it is there; says how it went."""
    if (out / "run.json").is_file():
        print(f"kept      {out}")
        return True
    done = subprocess.run(item.argv(out, launches, sets), capture_output=True, text=True, check=False)
    print(f"{'recorded' if done.returncode == 0 else 'FAILED  '}  {out}", flush=True)
    if done.returncode:
        print(done.stderr[-2000:], flush=True)
    return done.returncode == 0


def instruction(text: str) -> str:
    """``text`` as both the report and nvdisasm give it: without addresses of code and spacing."""
    text = re.sub(r"\.reuse|/\*.*?\*/|;", "", text).replace(", ", " ").replace(" gsb0", ".gsb0")
    return re.sub(r"\s+", " ", re.sub(r"(0x[0-9a-f]{6,}|`\(\S+\))", "@", text)).strip()


def stale() -> Iterator[str]:
    """A line for every shipped run whose instructions are others than those of today's build."""
    for run in map(Run.load, find_runs([ROOT, FULL, H100])):
        kernel = run.manifest.kernel
        spec = next((spec for spec in SPECS if spec.name == kernel["name"] and spec.language == "cuda"), None)
        if spec is None:
            continue
        try:
            built = build(make_case(spec, kernel["parameters"], kernel["shape"]), "sm_90a")
        except UsageError as error:
            yield f"{run.path}: {error}"
            continue
        lines = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?;)", disassemble(built.cubin))
        source = Report.open(run.path).source
        then = [instruction(text) for text in source[source["launch"] == 0]["sass"]]
        then, now = (
            [text for text in code if not re.search(r"\bBRA\b|^NOP$|^$", text)]
            for code in (then, map(instruction, lines))
        )
        changed = sum((Counter(then) - Counter(now)).values())
        if len(then) != len(now) or changed:
            yield f"{run.path}: {len(then)} instructions, {changed} of them others than the {len(now)} of today"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--stale", action="store_true", help="compare what is recorded with what is built today")
    parser.add_argument("--only", default="", help="regular expression over KERNEL/VARIANT")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    if given.stale:
        print(*stale(), sep="\n")
        return 0
    if given.out is None:
        parser.error("name a folder for the runs, or --stale")
    chosen = [item for item in plan() if re.search(given.only, f"{item.kernel}/{item.variant}")]
    results = []
    for item in chosen:
        results.append(record(item, given.out / "runs" / item.kernel / item.variant, 1, ()))
        if item.repeats:
            target = given.out / "repeats" / item.kernel / item.variant
            results.append(record(item, target, given.repeats, ("tensor", "dram")))
    for item in everything():
        if re.search(given.only, f"{item.kernel}/{item.variant}"):
            results.append(record(item, given.out / "full" / item.kernel / item.variant, 1, EVERYTHING))
    print(f"{sum(results)} of {len(results)} recordings")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
