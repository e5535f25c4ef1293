"""The tables of docs/tune.md: the best of a whole grid against what ``ncubble tune`` finds of it.

    python -m benchmarks.tune OUT [--only REGEX]   # measure on this machine's GPU: OUT/tune.json and the table
    python -m benchmarks.tune --write              # write docs/tune.md from docs/validation/tune.json
    python -m benchmarks.tune --replay             # search the measured grids from every start, without a GPU

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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness.blocks import fill, table
from benchmarks.harness.command import REPOSITORY
from ncubble.api.kernels import GpuBench
from ncubble.errors import NcubbleError
from ncubble.kernels.build import arch_for, build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.trials import OK, Trial
from ncubble.kernels.run.tune import Point, Space, TuneAdvice, Tuner, space_of, usual_budget
from ncubble.kernels.run.verify import fresh_seed
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import Value

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


class Replay:
    """Times configurations by the grid that was measured of a kernel; its searches take no
    profiles."""

    def __init__(self, grid: Mapping[str, Any]) -> None:
        spec = find_spec(grid["kernel"])
        self.axes = tuple(item for item in spec.parameters if item.name in grid["best"])
        self.times = {self._point(row): float(row["p50_us"]) for row in grid["grid"]}
        self.cases = {
            self._point(row): make_case(spec, {**grid["fixed"], **{axis.name: row[axis.name] for axis in self.axes}})
            for row in grid["grid"]
        }

    def _point(self, values: Mapping[str, Value]) -> Point:
        return tuple(axis.choices.index(values[axis.name]) for axis in self.axes)

    def measure(self, case: Case) -> Trial:
        return Trial(case.parameters, OK, p50_us=self.times[self._point(case.parameters)])

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        return [self.times[self._point(case.parameters)] for case in cases]

    def advise(self, case: Case) -> TuneAdvice | None:
        return None

    def apart_pct(self) -> list[float]:
        """For each start, how far the search ends from the best of the grid, in percent."""
        best, budget = min(self.times.values()), usual_budget(len(self.cases))
        ends = (Tuner(Space(self.axes, self.cases, start, {}), self, budget).search()[0] for start in self.cases)
        return [100.0 * (end.p50_us / best - 1.0) for end in ends]


def replayed(grid: Mapping[str, Any]) -> str:
    """From how many starts a search of a measured grid ends near its best, in a sentence."""
    apart = Replay(grid).apart_pct()
    near = sum(pct <= NEAR_PCT for pct in apart)
    return (
        f"{grid['kernel']}: {near} of {len(apart)} starts end within {NEAR_PCT:g} %, the worst {max(apart):.1f} % away"
    )


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
    missing = "; ".join(_missing(results))
    return f"{table(head, rows(results))}\n\n{verdict}" + (f"\n\nNot measured: {missing}." if missing else "")


def _missing(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What the rule asks for of each kernel and the results lack."""
    for name in PLAN:
        if name not in results:
            yield f"`{name}`, its grid and all searches"
            continue
        have = {(found["from"], found["profiles"] is not None) for found in results[name]["searches"]}
        wanted = {(DEFAULT, False): "default", (SLOWEST, False): "slowest", (SLOWEST, True): "slowest with profiles"}
        if lacking := [words for search, words in wanted.items() if search not in have]:
            yield f"`{name}` from the {' and the '.join(lacking)}"


def _words(settings: Mapping[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="folder for tune.json; what is in it stays")
    parser.add_argument("--only", metavar="REGEX", default="", help="only kernels that match")
    parser.add_argument("--seconds", type=float, default=600.0, help="start nothing new after so many")
    parser.add_argument("--write", action="store_true", help="write docs/tune.md")
    parser.add_argument("--replay", action="store_true", help="search the grids of docs/validation/tune.json")
    given = parser.parse_args()
    if given.replay:
        for grid in json.loads(RESULTS.read_text(encoding="utf-8")).values():
            print(replayed(grid), flush=True)
        return 0
    if given.write:
        made = {"tune": tables(json.loads(RESULTS.read_text(encoding="utf-8")))}
        DOCUMENT.write_text(fill(DOCUMENT.read_text(encoding="utf-8"), made), encoding="utf-8")
        return 0
    if given.out is None:
        parser.error("give a folder, --write or --replay")
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
