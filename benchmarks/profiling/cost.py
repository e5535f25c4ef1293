"""What a profile costs: the default metric sets against ``--set full``, on this machine's GPU.

    python -m benchmarks.profiling.cost [NAME] [-p k=v …] [--further 6] [--repeats 3] [--json]

A launch costs its replay passes; starting the program and ncu costs the same for every set. So the
wall time of a *further* launch is (wall of 1 + n launches - wall of 1 launch) / n, medians over the
repeats, whole command each time: ncu, reading the report back, compressing, writing. Targets: the
default takes at most 12 passes, 0.5 of the wall time per further launch and 1/3 of the report's
bytes of ``full``. Ends with 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ncubble.profiling.metrics.metrics import DEFAULT_SETS
from ncubble.profiling.recorders.ncu import NcuSettings, profile
from ncubble.profiling.runs import Manifest
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject

PASSES, WALL, BYTES = 12, 0.5, 1 / 3


@dataclass(frozen=True)
class Cost:
    """Costs of one choice of sets. Seconds are medians; bytes are of the report of one launch."""

    sets: str
    passes: int
    first_s: float
    further_s: float
    raw_bytes: int
    stored_bytes: int


def timed(program: list[str], sets: tuple[str, ...], launches: int) -> tuple[float, Manifest]:
    """Wall seconds and manifest of one whole profile of ``launches`` launches."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        subject = Subject([*program, "--launches", str(launches)])
        run = profile(Session(subject, Path(folder) / "run"), NcuSettings(sets))
        return time.perf_counter() - begun, run.manifest


def measure(program: list[str], sets: tuple[str, ...], further: int, repeats: int) -> Cost:
    """Alternate one launch and ``1 + further`` launches, so that drift of the machine meets both
    alike."""
    one, many = [], []
    for _ in range(repeats):
        seconds, manifest = timed(program, sets, 1)
        one.append(seconds)
        many.append(timed(program, sets, 1 + further)[0])
    report = manifest.report
    return Cost(
        sets=" + ".join(sets),
        passes=max(launch["passes"] for launch in report["launches"]),
        first_s=statistics.median(one),
        further_s=(statistics.median(many) - statistics.median(one)) / further,
        raw_bytes=report["raw_bytes"],
        stored_bytes=report["bytes"],
    )


def verdicts(default: Cost, full: Cost) -> dict[str, tuple[float, float]]:
    """Measured value and allowed maximum of each target."""
    return {
        "passes": (default.passes, PASSES),
        "wall time per further launch, of full": (default.further_s / full.further_s, WALL),
        "report bytes, of full": (default.raw_bytes / full.raw_bytes, BYTES),
    }


def show(costs: list[Cost], targets: dict[str, tuple[float, float]]) -> None:
    print(f"{'sets':32} {'passes':>6} {'first s':>8} {'further s':>9} {'report B':>10} {'zstd B':>9}")
    for cost in costs:
        figures = (
            f"{cost.passes:6} {cost.first_s:8.2f} {cost.further_s:9.3f} {cost.raw_bytes:10,} {cost.stored_bytes:9,}"
        )
        print(f"{cost.sets:32} {figures}")
    for name, (value, allowed) in targets.items():
        print(f"{'ok  ' if value <= allowed else 'MISS'} {name}: {value:.3g} (at most {allowed:.3g})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="tensor_core_gemm")
    parser.add_argument("-p", action="append", default=[], metavar="K=V")
    parser.add_argument("--further", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    program = [sys.executable, "-m", "ncubble.kernels", options.name, "--once", "--no-verify"]
    for item in options.p:
        program += ["-p", item]
    timed(program, ("dram",), 1)  # compiles the kernel, warms the page cache
    costs = [measure(program, sets, options.further, options.repeats) for sets in (DEFAULT_SETS, ("full",))]
    targets = verdicts(*costs)
    if options.json:
        print(json.dumps({"schema": 1, "costs": [asdict(cost) for cost in costs], "targets": targets}, indent=1))
    else:
        show(costs, targets)
    return 0 if all(value <= allowed for value, allowed in targets.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
