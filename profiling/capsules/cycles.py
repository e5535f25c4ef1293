"""Elapsed cycles and memory traffic of replayed launches, counted by ncu."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable
from pathlib import Path

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import TAKEN
from ncubble.profiling.capsules.replays import DIED, TRIES, argv
from ncubble.profiling.capsules.rounds import MeasuredRounds
from ncubble.profiling.ncu.log import NcuLog, ReplayedLaunch
from ncubble.profiling.ncu.ncu import Control, failure, find_ncu
from ncubble.profiling.processes import process

METRIC = "sm__cycles_elapsed.max"
MOVED = "dram__bytes.sum"
"""In the same pass."""


def count_rounds(
    capsule: Capsule,
    plan: Path,
    heard: Callable[[ReplayedLaunch], None],
    silence_s: float,
) -> MeasuredRounds:
    """Cycles of each launch of ``plan``: one pass each, caches and clocks as ``profile`` has them
    by default. It ends early if a launch fails, or is silent for longer than ``silence_s``. Raises
    MeasurementError if ncu measures nothing.
    """
    table, control = plan.with_suffix(".csv"), Control()
    table.unlink(missing_ok=True)
    command = [
        find_ncu().path,
        *("--config-file", "off"),
        *("--clock-control", control.clock),
        *("--cache-control", control.cache),
        *("--metrics", f"{METRIC},{MOVED}"),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(table)),
        *argv(capsule, plan),
    ]
    for _ in range(TRIES):
        counted = MeasuredRounds()
        log = NcuLog(heard, counted.hear)
        try:
            status = process.stream(command, dict(os.environ), log.feed, silence_s=silence_s)
        except process.TimedOutError:
            return counted.cut_off("hangs")
        log.close()
        if status != TAKEN:
            break
    counted.values, counted.dram_B = _parsed(table)
    counted.clock_mhz = [math.nan] * len(counted.values)
    if not counted.values:
        raise failure(log, status, "") or MeasurementError("ncu measured no cycles", "see `ncubble doctor --gpu`")
    return counted.cut_off(DIED)


def _parsed(table: Path) -> tuple[list[float], list[float]]:
    if not table.is_file():
        return [], []
    rows = list(csv.reader(table.read_text(encoding="utf-8", errors="replace").splitlines()))
    start = next((number for number, row in enumerate(rows) if METRIC in row), None)
    if start is None:
        return [], []
    head = rows[start]
    launches = [row for row in rows[start + 2 :] if len(row) == len(head)]
    try:
        cycles = [_number(row[head.index(METRIC)]) for row in launches]
    except ValueError as error:
        raise MeasurementError(f"ncu did not count the cycles of a launch: {error}", "measure again") from error
    return cycles, [_known(row[head.index(MOVED)]) if MOVED in head else math.nan for row in launches]


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


def _known(cell: str) -> float:
    try:
        return _number(cell)
    except ValueError:
        return math.nan
