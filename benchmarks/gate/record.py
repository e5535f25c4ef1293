"""What ``docs/validation/gate.md`` is computed from: many repeats of a few kernels on this machine's GPU.

    python -m benchmarks.gate.record OUT [--processes 2] [--repeats 7] [--quick 4] [--only REGEX]
    python -m benchmarks.gate.record --keep SERIES.parquet OUT...

The first writes OUT/SERIES/pPROCESS, runs of ``--repeats`` launches with the default sets, and
OUT/SERIES/qPROCESS, runs of QUICK_REPEATS launches with ``tensor`` and ``dram`` alone, which take a
third of the passes. The kernels take turns, so that what drifts over minutes falls on all of them.
Run it once per machine start: the noise between repeats, between processes, and between starts are
three things. Ends with 1 where any run failed.

The second takes the gate's values out of several starts: a row per launch, small enough to commit.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ncubble.analysis.account.account import account
from ncubble.analysis.gate.metrics import METRICS
from ncubble.analysis.report.report import open_reports

SERIES = {
    "tensor_core_gemm-stages2": ("tensor_core_gemm", "-p", "stages=2"),
    "tensor_core_gemm-stages3": ("tensor_core_gemm", "-p", "stages=3"),
    "gemm_mma_swizzled": ("gemm_mma_swizzled",),
    "gemm_tma-stages3": ("gemm_tma", "-p", "stages=3"),
    "gemm_ws": ("gemm_ws",),
    "attention_fwd": ("attention_fwd",),
    "softmax_online": ("softmax_online",),
    "numba_tiled_matmul": ("numba_tiled_matmul",),
}
"""By name of the series: what follows ``ncubble profile``. Six use the tensor pipe, one DRAM, one
FMA."""
QUICK = ("--set", "tensor", "--set", "dram")
QUICK_REPEATS = 10


def record(out: Path, what: tuple[str, ...], repeats: int) -> bool:
    """One process of one series; kept where it is there already."""
    if (out / "run.json").is_file():
        return True
    argv = ["ncubble", "profile", *what, "--count", str(repeats), "--out", str(out)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    print(
        f"{'FAILED' if done.returncode else 'ok    '} {out}\n{done.stderr[-1000:] if done.returncode else ''}".rstrip()
    )
    return done.returncode == 0


def rows(start: Path) -> Iterator[dict[str, Any]]:
    """The launches of one machine start: where and when, SM clock, the counters that the gate reads, parts."""
    counters = [name for metric in METRICS for name in metric.counters if name != "gpu__time_duration"]
    for folder in sorted(path for path in start.iterdir() if path.is_dir()):
        reports, failures = open_reports([folder])
        for failure in failures:
            print(f"left out {failure.path}: {failure.error}", file=sys.stderr)
        for report in reports:
            table, manifest = report.wide(counters), report.run.manifest
            for launch, row in zip(report, report.launches.to_dict("records"), strict=True):
                found = account(launch)
                device = {"gpu": manifest.device.get("uuid", ""), "driver": manifest.device.get("driver", "")}
                yield {
                    "start": start.name,
                    **device,
                    "series": folder.name,
                    "run": report.run.path.name,
                    "sets": " ".join(manifest.metric_set),
                    **{name: row[name] for name in ("ncu_version", "launch", "sm_clock_hz", "duration_ns")},
                    **table.loc[row["launch"]].to_dict(),
                    **{f"part:{name}": pct for name, pct in (found.parts if found else {}).items()},
                }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("--keep", type=Path, metavar="PARQUET", help="the launches of these folders as rows")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", type=int, default=4)
    parser.add_argument("--only", default="", help="regular expression over the names of the series")
    given = parser.parse_args()
    if given.keep:
        kept = pd.DataFrame([row for start in given.out for row in rows(start)]).dropna(axis="columns", how="all")
        kept.to_parquet(given.keep, compression="zstd", index=False)
        return 0
    (out,), results = given.out, []
    for turn in range(max(given.processes, given.quick)):
        for name, what in SERIES.items():
            if re.search(given.only, name) and turn < given.quick:
                results.append(record(out / name / f"q{turn}", (*what, *QUICK), QUICK_REPEATS))
            if re.search(given.only, name) and turn < given.processes:
                results.append(record(out / name / f"p{turn}", what, given.repeats))
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
