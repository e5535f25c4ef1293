"""Elapsed cycles of replayed launches, as ncu counts them."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import TAKEN
from ncubble.profiling.capsules.replays import TRIES, argv
from ncubble.profiling.ncu.log import NcuLog, ReplayedLaunch
from ncubble.profiling.ncu.ncu import Control, failure, find_ncu
from ncubble.profiling.processes import process

METRIC = "sm__cycles_elapsed.max"
TIMEOUT_S = 600.0


def cycles_of(
    capsule: Capsule,
    plan: Path,
    heard: Callable[[ReplayedLaunch], None] = lambda launch: None,
) -> list[float]:
    """Cycles of each launch of ``plan``, in order: one pass each, caches and clocks as ``profile``
    has them by default.

    Raises MeasurementError where ncu fails or a launch does not end.
    """
    table, control = plan.with_suffix(".csv"), Control()
    command = [
        find_ncu().path,
        *("--config-file", "off"),
        *("--clock-control", control.clock),
        *("--cache-control", control.cache),
        *("--metrics", METRIC),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(table)),
        *argv(capsule, plan),
    ]
    for _ in range(TRIES):
        log = NcuLog(heard, lambda stream, line: None)
        try:
            status = process.stream(command, dict(os.environ), log.feed, TIMEOUT_S)
        except process.TimedOutError as error:
            message = f"the variants were not measured in {TIMEOUT_S:g} s"
            raise MeasurementError(message, "measure again, with fewer --rounds") from error
        log.close()
        if status != TAKEN:
            break
    values = _parsed(table)
    if not values:
        raise failure(log, status, "") or MeasurementError("ncu measured no cycles", "see `ncubble doctor --gpu`")
    return values


def _parsed(table: Path) -> list[float]:
    if not table.is_file():
        return []
    rows = list(csv.reader(table.read_text(encoding="utf-8", errors="replace").splitlines()))
    start = next((number for number, row in enumerate(rows) if METRIC in row), None)
    if start is None:
        return []
    column = rows[start].index(METRIC)
    cells = [row[column] for row in rows[start + 2 :] if len(row) > column]
    try:
        return [float(cell.replace(",", "")) for cell in cells]
    except ValueError as error:
        raise MeasurementError(f"ncu did not count the cycles of a launch: {error}", "measure again") from error
