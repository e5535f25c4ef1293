"""Runs every kernel of the catalog under compute-sanitizer, and keeps the summaries.

    python -m benchmarks.kernels.sanitize OUT.json [--only REGEX] [--jobs 8]
    python -m benchmarks.kernels.sanitize --write        # write docs/validation/sanitizer.md from its JSON

``memcheck`` finds accesses outside of what was allocated, ``racecheck`` accesses to shared memory
that no barrier orders. Each case is one launch, verified, of a small problem with remainders where
the kernel takes them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.harness.command import REPOSITORY

KEPT = REPOSITORY / "docs" / "validation" / "sanitizer.json"
PAGE = KEPT.with_suffix(".md")
TOOLS = ("memcheck", "racecheck")
SUMMARY = re.compile(r"========= (?:ERROR SUMMARY|RACECHECK SUMMARY): (.*)")
TIMEOUT_S = 300.0
PLAN: tuple[tuple[str, str], ...] = (
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
    ("gemm_tma", "--shape m=200,n=328,k=136"),
    ("gemm_ws", "--shape m=200,n=328,k=136"),
    ("gemm_ws", "-p stages=5 -p tile_n=128 -p schedule=pingpong --shape m=200,n=328,k=136"),
    ("softmax_online", "--shape rows=33,cols=1001"),
    ("numba_softmax_online", "--shape rows=33,cols=1001"),
    ("attention_fwd", "--shape batch=1,heads=2,tokens=300,dim=128"),
    ("attention_fwd", "-p causal=1 --shape batch=1,heads=2,tokens=300,dim=64"),
    ("attention_fwd", "-p path=cp_async -p causal=1 --shape batch=1,heads=2,tokens=300,dim=128"),
    ("sdpa_fp8_stage_c_wmma", "-p use_cp_async=0 --shape b=1,h=2,s=100,d=64"),
    ("sdpa_fp8_stage_c_wmma", "-p use_cp_async=1 --shape b=1,h=2,s=100,d=64"),
    ("warp_specialized", "-p roles=fused --shape n=65536"),
    ("warp_specialized", "--shape n=65536"),
    ("cluster_dsmem", "-p share=dsmem --shape m=300,n=64,k=100"),
    ("cluster_dsmem", "-p share=multicast --shape m=300,n=64,k=100"),
    ("persistent", "--shape batches=3,rows=100"),
    ("stream_pipeline", "--shape n=1000003"),
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
)


@dataclass(frozen=True)
class Finding:
    """What one tool said of one case. ``clean`` also needs a verified result: exit code 0."""

    kernel: str
    arguments: str
    tool: str
    clean: bool
    summary: str


def check(kernel: str, arguments: str, tool: str) -> Finding:
    """One case under one tool."""
    argv = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, "-m", "ncubble.kernels"]
    try:
        done = subprocess.run(
            [*argv, kernel, *arguments.split(), "--once"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding(kernel, arguments, tool, False, f"not done within {TIMEOUT_S:.0f} s")
    said = SUMMARY.findall(done.stdout + done.stderr)
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["nothing was said"]
    return Finding(kernel, arguments, tool, done.returncode == 0 and bool(said), said[-1] if said else last[0])


def measure(out: Path, only: str, jobs: int) -> bool:
    """Checks the plan and writes ``out``; says whether all was clean."""
    chosen = [(kernel, arguments) for kernel, arguments in PLAN if re.search(only, f"{kernel} {arguments}")]
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(check, *case, tool) for case in chosen for tool in TOOLS]
        found = [item.result() for item in waiting]
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=True).stdout
    device = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    kept = {
        "device": device,
        "sanitizer": version.strip().splitlines()[-1],
        "findings": [asdict(item) for item in found],
    }
    out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for item in found:
        print(f"{'clean' if item.clean else 'FOUND'}  {item.tool:9}  {item.kernel} {item.arguments}: {item.summary}")
    return all(item.clean for item in found)


def page(kept: dict[str, object]) -> str:
    """The Markdown page of a kept result."""
    findings = [Finding(**item) for item in kept["findings"]]  # type: ignore[attr-defined]
    dirty = sum(not item.clean for item in findings)
    said = {(item.kernel, item.arguments, item.tool): item.summary for item in findings}
    cases = list(dict.fromkeys((item.kernel, item.arguments) for item in findings))
    rows = [
        f"| `{kernel}` | `{arguments}` | {' | '.join(said[kernel, arguments, tool] for tool in TOOLS)} |"
        for kernel, arguments in cases
    ]
    verdict = "all clean" if not dirty else f"{dirty} not clean"
    return "\n".join(
        [
            "# The catalog under compute-sanitizer",
            "",
            f"{len(findings)} checks, {verdict}. {kept['device']}; {kept['sanitizer']}.",
            "Measured by `python -m benchmarks.kernels.sanitize docs/validation/sanitizer.json`, written by `--write`.",
            "",
            f"| kernel | case | {' | '.join(TOOLS)} |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="The catalog under compute-sanitizer")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="regular expression over kernel and arguments")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.write:
        PAGE.write_text(page(json.loads(KEPT.read_text(encoding="utf-8"))), encoding="utf-8")
        return 0
    if given.out is None:
        parser.error("name the file to write, or --write")
    return 0 if measure(given.out, given.only, given.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
