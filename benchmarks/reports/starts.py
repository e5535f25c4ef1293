"""The command line from the start of its process to its end: parts of ``reports/speed.py``."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reports.measuring import SETTLED_S, Bench, Cost, run

ENTRY = "import sys; from ncubble.cli.main import main; sys.exit(main(sys.argv[1:]))"
BARE = Path(__file__).with_name("bare_tables.py")
FEW = (("default", 1), ("default", 6), ("full", 1), ("full", 6))
"""Kind of launches and how many are in a report that is opened for the first time."""


def cold(bench: Bench) -> None:
    """``ncubble report`` on an empty cache and again, against a bare loop that reads the same
    tables."""
    for kind, launches in FEW:
        path = bench.report(kind, launches)
        time.sleep(SETTLED_S)
        _same_rows(bench, path)
        turns = [_turn(bench, path) for _ in range(bench.repeats + 1)][1:]  # the first fills the system's page cache
        _compare(bench, f"{launches} {kind} launch{'es' * (launches > 1)}", turns)


def _same_rows(bench: Bench, path: Path) -> None:
    """Whether the bare loop reads what ncubble does."""
    bare = json.loads(run([str(BARE), str(path)], bench.folder).printed)
    ours = bench.cold("rows", path=str(path), tables=list(bare))
    assert bare == ours, f"the bare loop read {bare} rows of {path.name}, ncubble {ours}"


def _turn(bench: Bench, path: Path) -> tuple[Cost, Cost, Cost]:
    """Bare, cold, cached."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        ours = ["-c", ENTRY, "report", str(path)]
        return run([str(BARE), str(path)], Path(folder)), run(ours, Path(folder)), run(ours, Path(folder))


def _compare(bench: Bench, what: str, turns: Sequence[tuple[Cost, Cost, Cost]]) -> None:
    names = ("bare loop", "ncubble report, empty cache", "ncubble report, cached")
    costs = dict(zip(names, zip(*turns, strict=True), strict=True))
    for name, found in costs.items():
        bench.result.add(f"{what}: {name}", "s", [cost.wall_s for cost in found])
        bench.result.add(f"{what}: {name}, processor", "s", [cost.cpu_s for cost in found])
    ratio = bench.result.add(f"{what}: empty cache / bare", "×", [ours.wall_s / bare.wall_s for bare, ours, _ in turns])
    bench.result.add(
        f"{what}: empty cache / bare, processor", "×", [ours.cpu_s / bare.cpu_s for bare, ours, _ in turns]
    )
    bench.result.ask(f"{what}: ncubble report on an empty cache / bare loop", ratio.median, 3)
    cached = [cost.wall_s for cost in costs[names[2]]]
    bench.result.ask(f"{what}: ncubble report, cached, s", sorted(cached)[len(cached) // 2], 0.4)


def command(bench: Bench) -> None:
    """Commands that read nothing, or what was read before."""
    path = bench.report("default", 10)
    time.sleep(SETTLED_S)
    with tempfile.TemporaryDirectory(dir=bench.folder) as cache:
        calls = {
            "python -c pass": ["-c", "pass"],
            "python -c 'import ncubble'": ["-c", "import ncubble"],
            "ncubble --help": ["-c", ENTRY, "--help"],
            "ncubble report, 10 launches, cached": ["-c", ENTRY, "report", str(path)],
        }
        turns = [
            {name: run(call, Path(cache)).wall_s for name, call in calls.items()} for _ in range(bench.repeats + 1)
        ]
    spreads = {name: bench.result.add(name, "s", [turn[name] for turn in turns[1:]]) for name in calls}  # 0 fills it
    bench.result.ask("ncubble --help, s", spreads["ncubble --help"].median, 0.3)
    bench.result.ask(
        "ncubble report of a cached report of 10 launches, s", spreads["ncubble report, 10 launches, cached"].median, 1
    )
