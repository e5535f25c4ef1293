"""Replay passes by metric set, and what each metric and section of the default sets adds to them,
on this GPU.

    python -m benchmarks.profiling.passes [--each] [--json]

Passes depend on the chip and the version of ncu, not on the kernel, so an empty kernel is profiled.
``--each`` leaves every metric and section of the default sets out in turn: those that make a
difference are what a budget is met with.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from ncubble.profiling import processes
from ncubble.profiling.driver import describe
from ncubble.profiling.metrics.metrics import DEFAULT_SETS, MetricSelection, Target, load_sets, resolve
from ncubble.profiling.ncu import NcuLog, failure, find_ncu, ncu_argv

TINY = [sys.executable, "-m", "ncubble.profiling.tiny"]


def passes(ncu: str, selection: MetricSelection) -> int:
    """Replay passes of one launch."""
    log = NcuLog()
    with tempfile.TemporaryDirectory() as folder:
        status = processes.stream(ncu_argv(ncu, Path(folder) / "r", TINY, selection), os.environ, log.feed, 120.0)
    log.close()
    problem = failure(log, status, "the empty kernel")
    if problem:
        raise problem
    return log.profiled[0].passes or 0


def without_each(selection: MetricSelection) -> dict[str, MetricSelection]:
    """The selection without one of its members, by the member's name."""
    lesser = {name: replace(selection, metrics=_without(selection.metrics, name)) for name in selection.metrics}
    return lesser | {
        name: replace(selection, sections=_without(selection.sections, name)) for name in selection.sections
    }


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(other for other in names if other != name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tool, target = find_ncu(), Target(describe().capability, find_ncu().version)
    choices = {name: [name] for name in load_sets()} | {"default": list(DEFAULT_SETS)}
    found = {name: passes(tool.path, resolve(sets, target=target)) for name, sets in choices.items()}
    saved: dict[str, int] = {}
    if options.each:
        lesser = without_each(resolve(DEFAULT_SETS, target=target))
        saved = {name: found["default"] - passes(tool.path, selection) for name, selection in lesser.items()}
    if options.json:
        print(json.dumps({"schema": 1, "passes": found, "saved_without": saved}, indent=1))
        return
    for name, number in found.items():
        print(f"{number:4}  {name}")
    for name, number in sorted(saved.items(), key=lambda item: -item[1]):
        print(f"{-number:+4}  default without {name}")


if __name__ == "__main__":
    main()
