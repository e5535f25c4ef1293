"""The tables of docs/tune.md: the best of a whole grid against what ``ncubble tune`` finds of it.

    python -m benchmarks.tune OUT [--only REGEX]   # measure on this machine's GPU: OUT/tune.json and the table
    python -m benchmarks.tune --write              # write docs/tune.md from docs/validation/tune.json

Of each kernel of ``PLAN`` every valid configuration is verified and timed; then the search runs with
its usual budget, and knows nothing of the grid: from the default and from the slowest configuration
by timings alone, and from the slowest with profiles, these last of all. What it found and the best
of the grid are timed again, in turns. Results are written after every search; ``--seconds`` starts
no further one after that time.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
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
PLAN: dict[str, tuple[str, ...]] = {
    "tensor_core_gemm": (),
    "gemm_mma_swizzled": (),
    "cluster_dsmem": (),
    "gemm_ws": ("stages", "tile_n", "cluster", "schedule"),
}
"""Kernels and the parameters that are searched, all of them where none is named: as docs/tune.md
said before any was measured."""
NEAR_PCT, MOST_SHARE = 2.0, 1.0 / 3.0
"""The claim: how far from the best of the grid, at which share of its launches."""
ITERATIONS, BUILDERS = 60, 16
DEFAULT, SLOWEST = "default", "slowest"


class Subject:
    """One kernel: its grid, and searches of it."""

    def __init__(self, kernel: str) -> None:
        self.spec = find_spec(kernel)
        held = [item for item in self.spec.parameters if PLAN[kernel] and item.name not in PLAN[kernel]]
        self.fixed = {item.name: item.default for item in held}
        self.shape = make_case(self.spec).shape
        self.bench = GpuBench(kernel, None, self.shape, fresh_seed(), ITERATIONS, tell=print)
        self.device = self.bench.device()
        self.arch = arch_for(*self.device.compute_capability)
        self.space = self.space_from({})
        self.best = self.slowest = self.space.start

    def space_from(self, start: Mapping[str, Value]) -> Space:
        return space_of(self.spec, {}, self.fixed, start, self.device)

    def grid(self) -> dict[str, Any]:
        """Every configuration, timed."""
        began = time.monotonic()
        trials = {point: self.bench.measure(case) for point, case in self.space.cases.items()}
        times = {point: trial.p50_us for point, trial in trials.items() if trial.p50_us is not None}
        self.best, self.slowest = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
        took = time.monotonic() - began
        print(f"{self.spec.name}: {len(times)} of {len(trials)} timed, {took:.0f} s", flush=True)
        return {
            "kernel": self.spec.name,
            "shape": dict(self.shape),
            "fixed": self.fixed,
            "device": self.device.name,
            "driver": self.device.driver,
            "configurations": len(trials),
            "failed": sorted({f"{trial.outcome}: {trial.why}" for trial in trials.values() if not trial.p50_us}),
            "best": self.space.settings(self.best),
            "grid": [{**self.space.settings(point), "p50_us": time_us} for point, time_us in times.items()],
            "seconds": took,
            "searches": [],
        }

    def search(self, begin: str, profiles: bool) -> dict[str, Any]:
        """One search, and its best timed in turns with the best of the grid."""
        began, steps = time.monotonic(), []
        start = self.space.settings(self.slowest) if begin == SLOWEST else {}
        space, self.bench.profiles = self.space_from(start), profiles

        def tell(point: Point, trial: Trial, why: str) -> None:
            steps.append({**space.settings(point), "p50_us": trial.p50_us, "outcome": trial.outcome, "why": why})

        tuner = Tuner(space, self.bench, usual_budget(len(space.cases)), tell)
        found = tuner.search()[0]
        took, apart = time.monotonic() - began, 0.0
        if found.point != self.best:
            ours, grids = self.bench.in_turns([space.cases[found.point], space.cases[self.best]])
            apart = 100.0 * (ours / grids - 1.0)
        said = f"{apart:+.2f} %, {tuner.launches} launches, {took:.0f} s"
        print(f"  {begin}: {_words(space.settings(found.point))}: {said}", flush=True)
        return {
            "from": begin,
            "start": space.settings(space.start),
            "found": space.settings(found.point),
            "apart_pct": apart,
            "start_us": steps[0]["p50_us"],
            "found_us": found.p50_us,
            "launches": tuner.launches,
            "profiles": len(tuner.advice) if profiles else None,
            "seconds": took,
            "steps": steps,
        }


def measure(kernels: Sequence[str], file: Path, seconds: float) -> dict[str, Any]:
    """Grids and searches of all kernels; ``file`` holds what there is so far."""
    results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    began = time.monotonic()
    with ThreadPoolExecutor(BUILDERS) as pool:
        subjects = dict(zip(kernels, pool.map(Subject, kernels), strict=True))
        cases = [(case, one.arch) for one in subjects.values() for case in one.space.cases.values()]
        list(pool.map(lambda item: build(*item), cases))
    print(f"{len(cases)} builds, {time.monotonic() - began:.0f} s", flush=True)
    orders = [(name, begin, False) for name in kernels for begin in (DEFAULT, SLOWEST)]
    for name, begin, profiles in [*orders, *((name, SLOWEST, True) for name in kernels)]:
        if time.monotonic() - began > seconds or (begin == SLOWEST and name not in results):
            print(f"no time left for {name} from the {begin}{' with profiles' if profiles else ''}")
            continue
        if begin == DEFAULT:
            results[name] = subjects[name].grid()
        results[name]["searches"].append(subjects[name].search(begin, profiles))
        file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for one in subjects.values():
        one.bench.process.close()
    return results


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
                    "–" if found["profiles"] is None else str(found["profiles"]),
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
    parser.add_argument("--seconds", type=float, default=600.0, help="start nothing new after so many")
    parser.add_argument("--write", action="store_true", help="write docs/tune.md")
    given = parser.parse_args()
    if given.write:
        made = {"tune": tables(json.loads(RESULTS.read_text(encoding="utf-8")))}
        DOCUMENT.write_text(fill(DOCUMENT.read_text(encoding="utf-8"), made), encoding="utf-8")
        return 0
    if given.out is None:
        parser.error("give a folder, or --write")
    given.out.mkdir(parents=True, exist_ok=True)
    kernels = [name for name in PLAN if re.search(given.only, name)]
    try:
        results = measure(kernels, given.out / "tune.json", given.seconds)
    except NcubbleError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(tables(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
