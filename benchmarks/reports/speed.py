"""How fast reports are read, against the bare ``ncu_report`` loop and the loaders of other
projects.

    python -m benchmarks.reports.speed [--repeats 5] [--only loaders,reopen,…] [--json] [--check]

Reports are composed of the recorded launches (``reports/compose.py``): *slim* ones of the sets
``tensor`` and ``dram``, *default* ones with timeline and source, *full* ones with all that Nsight
Compute offers. Contestants take turns (A B C A B C …), each in a process of its own, and their
values are held against each other. The results are ratios within one turn: median, smallest and
largest. Seconds and milliseconds are of this machine.
``pip install -e '.[peers]'`` brings the other projects; without, they are left out. ``--check``
ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.reports.measuring import SETTLED_S, Bench, Result, Spread, met
from benchmarks.reports.starts import cold, command

PEERS = {
    "streamlit": ("streamlit_ncu_rep_viewer", "streamlit-ncu-rep-viewer==0.1.1"),
    "nsight": ("nsight", "nsight-python==1.1.0"),
}
KINDS = ("slim", "default")
LAUNCHES = 150
FILES = 40
ASKED = (
    ("slim", "metrics", (10, 100, 1000)),
    ("default", "launches", (10, 100, 1000)),
    ("default", "metrics", (10, 100, 1000)),
    ("default", "timeline", (10, 50, 150)),
    ("default", "source", (10, 50, 150)),
)
"""Kind of launches, frame, launches in the report: whose memory is measured."""
NOISE_MB = 0.05
"""Per launch: what allocators round to."""


def peers(result: Result) -> list[str]:
    """The other projects that are installed; notes the others."""
    missing = [pin for module, pin in PEERS.values() if importlib.util.find_spec(module) is None]
    if missing:
        result.notes.append(f"left out, not installed: pip install {' '.join(missing)}")
    return [name for name, (_, pin) in PEERS.items() if pin not in missing]


def loaders(bench: Bench) -> None:
    """All scalar metrics of 150 launches into a frame."""
    others = peers(bench.result)
    cold = [f"{name}_cold" for name in ("ncubble", "streamlit") if name == "ncubble" or name in others]
    for kind in KINDS:
        path = str(bench.report(kind, LAUNCHES))
        first = bench.cold("bare", path=path, names=True)
        seconds: dict[str, list[float]] = {name: [] for name in ("bare", "taken", "ncubble", *others, *cold)}
        for _ in range(bench.repeats):
            for name, found in seconds.items():
                answer = bench.cold(name, path=path, launches=LAUNCHES, metrics=first["names"])
                found.append(answer["seconds"])
                _agree(name, answer, first)
        _compare(bench.result, f"{LAUNCHES} {kind} launches", seconds, others)


def _agree(name: str, answer: dict[str, Any], floor: dict[str, Any]) -> None:
    """A contestant that read less than the floor is none. nsight-python reads only metrics that all
    launches have."""
    if name in ("taken", "nsight"):
        return
    same = math.isclose(answer["sum"], floor["sum"], rel_tol=1e-9) and answer["values"] >= floor["values"]
    assert same, f"{name} read other values: {answer} instead of {floor['values']}, {floor['sum']}"


def _compare(result: Result, what: str, seconds: dict[str, list[float]], others: list[str]) -> None:
    for name, found in seconds.items():
        result.add(f"{what}: {name}", "s", found)

    def ratio(name: str, base: str) -> Spread:
        values = [one / other for one, other in zip(seconds[name], seconds[base], strict=True)]
        return result.add(f"{what}: {name} / {base}", "×", values)

    result.ask(f"{what}: ncubble / bare", ratio("ncubble", "bare").median, 1.1)
    for other in others:
        result.ask(f"{what}: ncubble / {other}", ratio("ncubble", other).median, 1.0)
    ratio("ncubble_cold", "bare")
    if "streamlit" in others:
        result.ask(f"{what}: ncubble_cold / streamlit_cold", ratio("ncubble_cold", "streamlit_cold").median, 1.0)


def reopen(bench: Bench) -> None:
    """A cached report, opened again."""
    frames = {"slim": ["metrics", "launches"], "default": ["metrics", "launches", "timeline", "source"]}
    reports = [bench.report(kind, launches) for kind in KINDS for launches in (150, 1000)]
    time.sleep(SETTLED_S)
    for path in reports:
        kind, launches = path.stem.split("-")[:2]
        wanted = [name for name in frames[kind] if launches == "150" or name not in ("timeline", "source")]
        with tempfile.TemporaryDirectory(dir=bench.folder) as cache:
            turns = [bench.ask("reopen", Path(cache), path=str(path), frames=wanted) for _ in range(bench.repeats + 1)]
        what = f"cached, {launches} {kind} launches ({path.stat().st_size / 1e6:.0f} MB)"
        for step in turns[0]:
            bench.result.add(f"{what}: {step}", "ms", [turn[step] for turn in turns[1:]])
        total = [turn["open"] + turn["metrics"] + turn["launches"] for turn in turns[1:]]
        spread = bench.result.add(f"{what}: open + metrics + launches", "ms", total)
        bench.result.ask(f"{what}: open + metrics + launches, ms", spread.median, 50)


def many(bench: Bench) -> None:
    """Many reports with all their frames, on one core and on two."""
    folder = bench.folder / "many"
    folder.mkdir(exist_ok=True)
    for turn in range(FILES):
        target = folder / f"{turn:02}.ncu-rep"
        target.write_bytes(bench.report("default", 6, turn).read_bytes())
    one, two = [], []
    for _ in range(bench.repeats):
        one.append(bench.cold("many", path=str(folder), cores=1)["seconds"])
        two.append(bench.cold("many", path=str(folder), cores=2)["seconds"])
    bench.result.add(f"{FILES} reports of 6 default launches: one core", "s", one)
    bench.result.add(f"{FILES} reports of 6 default launches: two cores", "s", two)
    gain = bench.result.add(f"{FILES} reports: one core / two", "×", [a / b for a, b in zip(one, two, strict=True)])
    if len(os.sched_getaffinity(0)) < 2:
        bench.result.notes.append("this process has one core: no gain from a second to be seen")
        return
    bench.result.ask(f"{FILES} reports: one core / two cores", gain.median, 1.7, at_least=True)


def memory(bench: Bench) -> None:
    """Peak memory by launches asked for: of the largest worker, and of a process that opens what is
    cached."""
    for kind, frame, counts in ASKED:
        peaks: dict[str, list[float]] = {"largest worker": [], "opened from the cache": []}
        for count in counts:
            path = str(bench.report(kind, count))
            with tempfile.TemporaryDirectory(dir=bench.folder) as cache:
                first, second = (bench.ask("memory", Path(cache), path=path, frame=frame) for _ in range(2))
            peaks["largest worker"].append(first["worker_mb"])
            peaks["opened from the cache"].append(second["own_mb"])
        for who, found in peaks.items():
            _growth(bench.result, f"{frame} of {kind} launches, {who}", counts, found)


def _growth(result: Result, what: str, counts: Sequence[int], peaks: Sequence[float]) -> None:
    for count, peak in zip(counts, peaks, strict=True):
        result.add(f"{what}: peak at {count}", "MB", [peak])
    steps = list(zip(counts, peaks, strict=True))
    slopes = [(b - a) / (n - m) for (m, a), (n, b) in pairwise(steps)]
    result.add(f"{what}: per launch, {counts[-2]} to {counts[-1]}", "MB", slopes[-1:])
    result.ask(f"{what}: MB per launch, growing no more than before", slopes[-1], max(1.5 * slopes[0], NOISE_MB))


PARTS = {"loaders": loaders, "reopen": reopen, "many": many, "memory": memory, "command": command, "cold": cold}


def show(result: Result) -> None:
    for what, unit, spread in result.rows:
        print(f"{what:68} {spread.median:10.3f} {unit:2}  ({spread.low:.3f} to {spread.high:.3f})")
    for what, measured, allowed, at_least in result.targets:
        verdict = "ok  " if met(measured, allowed, at_least) else "MISS"
        print(f"{verdict} {what}: {measured:.3g} (at {'least' if at_least else 'most'} {allowed:g})")
    for note in result.notes:
        print(f"note: {note}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="end with 1 where a target is missed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), given.repeats)
        for name in given.only.split(","):
            PARTS[name](bench)
    result = bench.result
    if given.json:
        print(json.dumps({"schema": 1, **asdict(result), "missed": result.missed()}, indent=1))
    else:
        show(result)
    return 1 if given.check and result.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
