"""What the benchmark of reading measures with: composed reports, processes that measure one thing
each, and spreads over turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.reports.compose import compose
from ncubble.profiling.runs import Run, find_runs
from ncubble.recordings import FULL, REPEATS, ROOT

CONTESTANTS = Path(__file__).with_name("contestants.py")
KINDS = {"slim": REPEATS, "default": ROOT, "full": FULL}
SETTLED_S = 3.5
"""A file that was just written is not remembered by its time stamps
(``ncubble.analysis.report.walked``)."""


@dataclass(frozen=True)
class Spread:
    """Median and range of one figure over the repeats."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass
class Result:
    """Rows of (what, unit, spread), and what was asked: (what, measured, allowed, whether it is a
    lower bound)."""

    rows: list[tuple[str, str, Spread]] = field(default_factory=list)
    targets: list[tuple[str, float, float, bool]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, what: str, unit: str, values: Sequence[float]) -> Spread:
        self.rows.append((what, unit, Spread.of(values)))
        return self.rows[-1][2]

    def ask(self, what: str, measured: float, allowed: float, at_least: bool = False) -> None:
        self.targets.append((what, measured, allowed, at_least))

    def missed(self) -> list[str]:
        return [what for what, measured, allowed, lower in self.targets if not met(measured, allowed, lower)]


def met(measured: float, allowed: float, at_least: bool) -> bool:
    """Whether a target is reached."""
    return measured >= allowed if at_least else measured <= allowed


class Bench:
    """Composed reports in one folder, and children that measure one thing each."""

    def __init__(self, folder: Path, repeats: int) -> None:
        self.folder, self.repeats, self.result = folder, repeats, Result()
        self.warm_up = self.report("slim", 1)

    def report(self, kind: str, launches: int, turn: int = 0) -> Path:
        """A composed report; ``turn`` starts with another launch, so that contents differ."""
        path = self.folder / f"{kind}-{launches}-{turn}.ncu-rep"
        if not path.exists():
            found = [Run.load(one).report for one in find_runs([KINDS[kind]])]
            path.write_bytes(compose(found[turn:] + found[:turn], launches))
        return path

    def ask(self, name: str, cache: Path, **request: Any) -> dict[str, Any]:
        """What ``reports/contestants.py NAME`` answers, with the cache of ncubble at ``cache``."""
        environment = os.environ | {"NCUBBLE_CACHE": str(cache), "NSPY_NCU_INIT_AT_IMPORT": "0"}
        request |= {"warm_up": str(self.warm_up)}
        command = [sys.executable, str(CONTESTANTS), name]
        answer = subprocess.run(command, input=json.dumps(request), env=environment, capture_output=True, text=True)
        if answer.returncode:
            raise RuntimeError(f"{name}: {answer.stderr.strip()[-2000:]}")
        found: dict[str, Any] = json.loads(answer.stdout)
        return found

    def cold(self, name: str, **request: Any) -> dict[str, Any]:
        """The same with an empty cache."""
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:
            return self.ask(name, Path(cache), **request)


@dataclass(frozen=True)
class Cost:
    """What one process took: seconds from its start to its end, processor seconds of it and its
    workers, and what it printed."""

    wall_s: float
    cpu_s: float
    printed: str


def run(arguments: Sequence[str], cache: Path, variables: Mapping[str, str] | None = None) -> Cost:
    """``python ARGUMENTS`` with the cache of ncubble at ``cache``; raises RuntimeError where it
    fails."""
    environment = os.environ | {"NCUBBLE_CACHE": str(cache)} | dict(variables or {})
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as complaints:
        begun = time.perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=printed, stderr=complaints)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (printed, complaints):
            file.seek(0)
        if process.returncode:
            raise RuntimeError(f"{arguments} ended with {process.returncode}: {complaints.read()[-2000:]}")
        return Cost(wall_s, usage.ru_utime + usage.ru_stime, printed.read())
