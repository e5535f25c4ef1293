"""Replays capsules in disposable processes: which variants run, and what each launch takes, in
cycles that ncu counts, or in time without any counter.
"""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.profiling import processes
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import TAKEN
from ncubble.profiling.ncu import Control, NcuLog, ReplayedLaunch, failure, find_ncu

NOT_TRIED = "not tried: one of its parts fails alone"
DIED = "the process died"
"""Status of a launch that reported none: ncu kills a process whose launch faults."""
TRIES = 5
"""Maximum processes started until one has the program's addresses free."""
HANG_S = 2.0
"""A variant silent for this many seconds hangs; a launch takes milliseconds, but see ``COPIED``."""
COPIED = 250e6
"""A variant gets one more second per this many bytes of the launch's memory, which is restored
before a launch and compared on the CPU afterwards."""
START_S = 120.0


@dataclass(frozen=True)
class ReplayVariant:
    """Machine code to launch instead of the program's. ``harmless``: its results must be the
    program's, bit by bit. ``holds``: variants whose failure is this one's, too."""

    name: str
    cubin: Path
    harmless: bool = False
    holds: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplayOutcome:
    """How one launch of a variant ended: ``ok``, the driver's name of an error, or ``hangs``."""

    status: str
    same: bool | None = None


def argv(capsule: Capsule, plan: Path) -> list[str]:
    """The program that replays ``plan``."""
    return [sys.executable, "-P", "-m", "ncubble.profiling.capsules.replay", str(capsule.folder), str(plan)]


def turns(variants: Sequence[ReplayVariant], rounds: int, mirrored: bool = False) -> list[ReplayVariant]:
    """``variants`` repeated for all rounds; ``mirrored``: every second round in the opposite order,
    so that a drift of the GPU affects all of them equally."""
    back = list(reversed(variants)) if mirrored else list(variants)
    return [variant for number in range(rounds) for variant in (back if number % 2 else variants)]


def write_plan(path: Path, launches: Sequence[ReplayVariant], timed: bool = False) -> Path:
    """A plan of ``launches`` in this order. The first launch of those that must be harmless is
    compared with the program's. ``timed``: each launch is timed."""
    first = {variant.name: number for number, variant in reversed(list(enumerate(launches)))}
    rows = [
        {
            "name": variant.name,
            "cubin": str(variant.cubin),
            "compare": variant.harmless and first[variant.name] == number,
        }
        for number, variant in enumerate(launches)
    ]
    path.write_text(json.dumps({"launches": rows, "timed": timed}), encoding="utf-8")
    return path


def probe(
    capsule: Capsule, variants: Sequence[ReplayVariant], folder: Path, heard: Callable[[str], None] = lambda name: None
) -> dict[str, ReplayOutcome]:
    """Launch each variant once. A fault or hang only ends its process; the next one continues.
    ``heard`` is called with each name before its launch. Sets are not tried if one of their parts
    failed alone. Raises MeasurementError if replaying itself fails.
    """
    outcomes: dict[str, ReplayOutcome] = {}
    tries = 0
    while rest := [
        variant for variant in variants if variant.name not in outcomes and not _hopeless(variant, outcomes)
    ]:
        before = len(outcomes)
        status, stderr = _run(capsule, write_plan(folder / "probe.json", rest), outcomes, heard)
        if status == TAKEN and (tries := tries + 1) < TRIES:
            continue
        if len(outcomes) == before:
            raise MeasurementError(
                f"the launch cannot be replayed: {stderr.strip().splitlines()[-1] if stderr.strip() else status}",
                "see docs/ablation.md for what cannot be replayed",
            )
    return {variant.name: outcomes.get(variant.name, ReplayOutcome(NOT_TRIED)) for variant in variants}


def _hopeless(variant: ReplayVariant, outcomes: Mapping[str, ReplayOutcome]) -> bool:
    return any(outcomes[name].status != "ok" for name in variant.holds if name in outcomes)


@dataclass(frozen=True)
class ReplayEnd:
    """How the process of a plan ended: status, stderr, and whether it was killed because it
    hung."""

    status: int
    stderr: str
    hung: bool


def run_plan(capsule: Capsule, plan: Path, on_row: Callable[[dict[str, Any]], None]) -> ReplayEnd:
    """One process that replays ``plan``, until it ends or hangs. ``on_row`` is called with each
    output line."""
    env = {name: value for name, value in os.environ.items() if name != "CUDA_INJECTION64_PATH"}
    process = subprocess.Popen(
        argv(capsule, plan), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
    )
    assert process.stdout and process.stderr  # noqa: S101 (PIPE was asked for)
    watch = _Watch(process, START_S)
    try:
        for row in rows_of(process.stdout):
            on_row(row)
            watch.renew(silence_s(capsule))
        stderr = process.stderr.read()
        status = process.wait()
    finally:
        watch.end()
        _kill(process)
    return ReplayEnd(status, stderr, watch.bit)


def _run(
    capsule: Capsule, plan: Path, outcomes: dict[str, ReplayOutcome], heard: Callable[[str], None]
) -> tuple[int, str]:
    """One process, until it ends or hangs; fills ``outcomes``; its status and stderr."""
    started = ""

    def on_row(row: dict[str, Any]) -> None:
        nonlocal started
        started = str(row.get("starts", ""))
        if started:
            heard(started)
        elif "name" in row:
            outcomes[str(row["name"])] = outcome_of(row)

    ended = run_plan(capsule, plan, on_row)
    if started and started not in outcomes:
        outcomes[started] = ReplayOutcome("hangs" if ended.hung else DIED)
    return ended.status, ended.stderr


def silence_s(capsule: Capsule) -> float:
    """Seconds without output after which a variant counts as hanging."""
    return HANG_S + capsule.size / COPIED


def outcome_of(row: dict[str, Any]) -> ReplayOutcome:
    """Status of a launch, from its output line."""
    return ReplayOutcome(str(row["status"]), row["same"])


def rows_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The replay's own output in these lines, without that of others."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


class _Watch:
    """Kills a process that is silent for too long."""

    def __init__(self, process: subprocess.Popen[str], seconds: float) -> None:
        self.process, self.bit = process, False
        self.renew(seconds)

    def renew(self, seconds: float) -> None:
        """Restart the timeout with ``seconds``."""
        self.end()
        self.timer = threading.Timer(seconds, self._bite)
        self.timer.daemon = True
        self.timer.start()

    def _bite(self) -> None:
        self.bit = True
        _kill(self.process)

    def end(self) -> None:
        """Stop watching."""
        if timer := getattr(self, "timer", None):
            timer.cancel()


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@dataclass
class MeasuredRounds:
    """Results of a plan, per launch in its order, up to where it ended: ``values`` (elapsed cycles,
    or ns where launches were timed), bytes that each moved between L2 and DRAM (NaN where nothing
    counts them), the SM clock during it in MHz (NaN: not known), and how each variant's launches
    ended. ``running``: the variant that has not finished yet. ``late``: launches that the host may
    have queued too late to be timed without it; ``overhead_ns``: what an empty launch takes by the
    same clock (NaN: not timed)."""

    values: list[float] = field(default_factory=list)
    dram_B: list[float] = field(default_factory=list)  # noqa: N815
    clock_mhz: list[float] = field(default_factory=list)
    outcomes: dict[str, ReplayOutcome] = field(default_factory=dict)
    running: str = ""
    late: int = 0
    overhead_ns: float = math.nan

    def hear(self, stream: str, line: str) -> None:
        """Process a line of the replay's output."""
        for row in rows_of([line]):
            self.take(row)

    def take(self, row: dict[str, Any]) -> None:
        """Process a row of the replay's output."""
        if "overhead_ns" in row:
            self.overhead_ns = float(row["overhead_ns"])
            return
        self.running = str(row.get("starts", ""))
        if "status" not in row:
            return
        outcome = outcome_of(row)
        if outcome.status != "ok":
            self.outcomes[str(row["name"])] = outcome
        self.outcomes.setdefault(str(row["name"]), outcome)
        if outcome.status == "ok" and row.get("ns") is not None:
            self.values.append(float(row["ns"]))
            self.dram_B.append(math.nan)
            self.clock_mhz.append(math.nan if row.get("mhz") is None else float(row["mhz"]))
            self.late += bool(row.get("late"))

    def cut_off(self, status: str) -> MeasuredRounds:
        """The same after the running launch has ended the process."""
        if self.running:
            self.outcomes[self.running] = ReplayOutcome(status)
        return self


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
            status = processes.stream(command, dict(os.environ), log.feed, silence_s=silence_s)
        except processes.TimedOutError:
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


WARM_UP = 1
"""Warm-up rounds that do not count: code is loaded, results are compared, clocks rise."""


def time_rounds(capsule: Capsule, plan: Path, heard: Callable[[int], None]) -> MeasuredRounds:
    """Time of each launch of ``plan`` (``write_plan`` with ``timed``). ``heard`` is called with the
    number of timed launches. It ends early if a launch fails or hangs. Raises MeasurementError if
    nothing was timed.
    """
    for _ in range(TRIES):
        timed = MeasuredRounds()

        def on_row(row: dict[str, Any], timed: MeasuredRounds = timed) -> None:
            timed.take(row)
            heard(len(timed.values))

        ended = run_plan(capsule, plan, on_row)
        if ended.status != TAKEN:
            break
    if not timed.values and not timed.outcomes:
        last = ended.stderr.strip().splitlines()[-1:] or [str(ended.status)]
        message = f"the launch cannot be replayed: {last[0]}"
        raise MeasurementError(message, "see docs/ablation.md for what cannot be replayed")
    return timed.cut_off("hangs" if ended.hung else DIED)
