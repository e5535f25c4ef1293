"""The tables of docs/tune.md: the best of a whole grid against what ``ncubble tune`` finds of it.

    python -m benchmarks.tune OUT [--only REGEX]   # measure on this machine's GPU: OUT/tune.json and the table
    python -m benchmarks.tune --write              # write docs/tune.md from docs/validation/tune.json

Of each kernel that ``PLAN`` names every valid configuration is verified and timed; then the search
runs twice with its usual budget, from the default and from the slowest configuration of the grid,
and knows nothing of the grid. What it found and the best of the grid are timed again, in turns.
Results are written after every kernel.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness.command import REPOSITORY
from benchmarks.readme_tables import fill, table
from ncubble.cli.commands.tune.measuring import GpuBench
from ncubble.errors import NcubbleError
from ncubble.kernels.build.build import arch_for, build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.inputs import fresh_seed
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Value
from ncubble.kernels.tuning.space import Point, Space, space_of
from ncubble.kernels.tuning.trials import Trial
from ncubble.kernels.tuning.tuner import Tuner, usual_budget

DOCUMENT, RESULTS = REPOSITORY / "docs/tune.md", REPOSITORY / "docs/validation/tune.json"
PLAN = ("tensor_core_gemm", "gemm_mma_swizzled", "cluster_dsmem", "gemm_ws")
"""Named in docs/tune.md before any of them was measured."""
NEAR_PCT, MOST_SHARE = 2.0, 1.0 / 3.0
"""The claim: how far from the best of the grid, at which share of its launches."""
ITERATIONS, BUILDERS = 60, 16
START, SLOWEST = "default", "slowest"


def bench_of(kernel: str, seed: int, shape: Mapping[str, int]) -> GpuBench:
    return GpuBench(kernel, None, shape, seed, ITERATIONS, tell=lambda text: print(f"  {text}", flush=True))


def measured(kernel: str) -> dict[str, Any]:
    """The grid of one kernel, and both searches."""
    spec, began = find_spec(kernel), time.monotonic()
    shape = make_case(spec).shape
    bench = bench_of(kernel, fresh_seed(), shape)
    try:
        device = bench.device()
        space = space_of(spec, {}, {}, {}, device)
        with ThreadPoolExecutor(BUILDERS) as pool:
            list(pool.map(lambda case: build(case, arch_for(*device.compute_capability)), space.cases.values()))
        trials = {point: bench.measure(case) for point, case in space.cases.items()}
        times = {point: trial.p50_us for point, trial in trials.items() if trial.p50_us is not None}
        best, slowest = min(times, key=lambda point: times[point]), max(times, key=lambda point: times[point])
        print(f"{kernel}: {len(times)} of {len(trials)} timed, {time.monotonic() - began:.0f} s", flush=True)
        return {
            "kernel": kernel,
            "shape": dict(shape),
            "device": device.name,
            "driver": device.driver,
            "configurations": len(trials),
            "failed": sorted({f"{trial.outcome}: {trial.why}" for trial in trials.values() if not trial.p50_us}),
            "best": space.settings(best),
            "grid": [{**space.settings(point), "p50_us": time_us} for point, time_us in times.items()],
            "searches": [
                {"from": begin, **search(bench, space_of(spec, {}, {}, space.settings(start), device), best)}
                for begin, start in ((START, space.start), (SLOWEST, slowest))
            ],
            "seconds": time.monotonic() - began,
        }
    finally:
        bench.process.close()


def search(bench: GpuBench, space: Space, best: Point) -> dict[str, Any]:
    """One search, and its best timed in turns with the best of the grid."""
    began, steps = time.monotonic(), []

    def tell(point: Point, trial: Trial, why: str) -> None:
        steps.append({**space.settings(point), "p50_us": trial.p50_us, "outcome": trial.outcome, "why": why})

    tuner = Tuner(space, bench, usual_budget(len(space.cases)), tell)
    found = tuner.search()[0]
    took = time.monotonic() - began
    ours, grids = bench.in_turns([space.cases[found.point], space.cases[best]]) if found.point != best else (1.0, 1.0)
    result = {
        "start": space.settings(space.start),
        "found": space.settings(found.point),
        "apart_pct": 100.0 * (ours / grids - 1.0),
        "start_us": steps[0]["p50_us"],
        "found_us": found.p50_us,
        "launches": tuner.launches,
        "profiles": len(tuner.advice),
        "seconds": took,
        "steps": steps,
    }
    said = f"{result['apart_pct']:+.2f} %, {tuner.launches} launches, {len(tuner.advice)} profiles, {took:.0f} s"
    print(f"  {_words(result['found'])}: {said}", flush=True)
    return result


def rows(results: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A row for each search."""
    lines = []
    for name in PLAN:
        for found in results.get(name, {}).get("searches", []):
            one = results[name]
            share = found["launches"] / one["configurations"]
            lines.append(
                (
                    f"`{name}`",
                    found["from"],
                    f"{found['start_us']:.1f}",
                    _words(one["best"]),
                    _words(found["found"]),
                    f"**{found['apart_pct']:+.1f} %**",
                    f"{found['launches']} of {one['configurations']} (**{100 * share:.0f} %**)",
                    str(found["profiles"]),
                    f"{found['seconds']:.0f} s",
                )
            )
    return lines


def tables(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The table, and in a sentence whether the claim holds."""
    if not results:
        return "Not measured yet."
    searches = [(one, found) for one in results.values() for found in one["searches"]]
    near = sum(found["apart_pct"] <= NEAR_PCT for _, found in searches)
    few = sum(found["launches"] <= MOST_SHARE * one["configurations"] for one, found in searches)
    devices = sorted({f"{one['device']}, driver {one['driver']}" for one in results.values()})
    head = ("kernel", "from", "µs there", "best of the grid", "found", "apart", "launches", "profiles", "took")
    verdict = (
        f"{near} of {len(searches)} searches end within {NEAR_PCT:g} % of the best of the grid, "
        f"{few} of {len(searches)} at a third of its launches or fewer. Measured on {'; '.join(devices)}."
    )
    return f"{table(head, rows(results))}\n\n{verdict}"


def _words(settings: Mapping[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="folder for tune.json; what is in it stays")
    parser.add_argument("--only", metavar="REGEX", default="", help="only kernels that match")
    parser.add_argument("--write", action="store_true", help="write docs/tune.md")
    given = parser.parse_args()
    if given.write:
        fill(DOCUMENT, {"tune": tables(json.loads(RESULTS.read_text(encoding="utf-8")))})
        return 0
    if given.out is None:
        parser.error("give a folder, or --write")
    given.out.mkdir(parents=True, exist_ok=True)
    file, failed = given.out / "tune.json", False
    results = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for kernel in filter(re.compile(given.only).search, PLAN):
        try:
            results[kernel] = measured(kernel)
        except NcubbleError as error:
            print(f"{kernel}: {error}", file=sys.stderr)
            failed = True
        file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(tables(results))
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
