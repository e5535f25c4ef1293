"""Replays capsules in disposable processes: which variants run, and what each launch takes, in
cycles that ncu counts, or in time without any counter.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from ncubble.errors import MeasurementError
from ncubble.profiling import processes
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import TAKEN
from ncubble.profiling.ncu import NcuLog, failure, find_ncu, raw_page

NOT_TRIED = "not tried: one of its parts fails alone"
HANGS, DIED = "hangs", "the process died"
"""Statuses of a launch that reported none: ncu kills a process whose launch faults."""
TRIES = 5
"""Maximum processes started until one has the program's addresses free."""
HANG_S = 2.0
"""A variant silent for this many seconds hangs; a launch takes milliseconds, but see ``COPIED``."""
COPIED = 250e6
"""A variant gets one more second per this many bytes of the launch's memory, which is restored
before a launch and compared on the CPU afterwards."""
START_S, UNDER_NCU_S = 120.0, 4.0
"""Time that a replay may take to start, without ncu, and with it in addition to a launch."""
METRIC, MOVED = "sm__cycles_elapsed.max", "dram__bytes.sum"
"""What ncu counts, in one pass."""
WARM_UP = 1
"""Warm-up rounds of timed launches that do not count: code is loaded, results are compared, clocks
rise."""


@dataclass(frozen=True)
class ReplayVariant:
    """Machine code to launch instead of the program's. ``harmless``: its results must be the
    program's, bit by bit. ``holds``: variants whose failure is this one's, too."""

    name: str
    cubin: Path
    harmless: bool = False
    holds: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplayRow:
    """A line that a replay prints: the ``overhead_ns`` of its clock, what ``starts``, or how a
    launch ended (``capsules.replay``)."""

    name: str = ""
    starts: str = ""
    status: str = ""
    same: bool | None = None
    ns: float | None = None
    mhz: float | None = None
    late: bool = False
    overhead_ns: float | None = None


_ROW = msgspec.json.Decoder(ReplayRow)


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


def run_plan(capsule: Capsule, plan: Path, on_row: Callable[[ReplayRow], None]) -> tuple[int | None, str]:
    """One process that replays ``plan``, until it ends or hangs. ``on_row`` is called with each row
    of its output. Returns its exit status (None: it hung) and the last line of its stderr."""
    limits, said = [START_S], [""]

    def hear(stream: processes.Stream, line: str) -> None:
        if stream == "stderr":
            said.append(line) if line.strip() else None
        for row in rows_of([line] if stream == "stdout" else []):
            on_row(row)
            limits[0] = silence_s(capsule)

    env = {name: value for name, value in os.environ.items() if name != "CUDA_INJECTION64_PATH"}
    lines = processes.LineSplitter(hear)
    try:
        status = processes.stream(argv(capsule, plan), env, lines, silence_s=lambda: limits[0])
    except processes.TimedOutError:
        return None, said[-1]
    lines.close()
    return status, said[-1]


def probe(
    capsule: Capsule, variants: Sequence[ReplayVariant], folder: Path, heard: Callable[[str], None] = lambda name: None
) -> dict[str, ReplayOutcome]:
    """Launch each variant once. A fault or hang only ends its process; the next one continues.
    ``heard`` is called with each name before its launch. Sets are not tried if one of their parts
    failed alone. Raises MeasurementError if replaying itself fails.
    """
    outcomes: dict[str, ReplayOutcome] = {}
    tries = 0

    def hopeless(variant: ReplayVariant) -> bool:
        return any(outcomes[name].status != "ok" for name in variant.holds if name in outcomes)

    while rest := [variant for variant in variants if variant.name not in outcomes and not hopeless(variant)]:
        before, tried = len(outcomes), MeasuredRounds()

        def on_row(row: ReplayRow, tried: MeasuredRounds = tried) -> None:
            tried.take(row)
            if tried.running:
                heard(tried.running)

        status, error = run_plan(capsule, write_plan(folder / "probe.json", rest), on_row)
        outcomes |= tried.cut_off(DIED if status is not None else HANGS).outcomes
        if status == TAKEN and (tries := tries + 1) < TRIES:
            continue
        if len(outcomes) == before:
            raise _not_replayed(error or str(status))
    return {variant.name: outcomes.get(variant.name, ReplayOutcome(NOT_TRIED)) for variant in variants}


def _not_replayed(why: str) -> MeasurementError:
    return MeasurementError(f"the launch cannot be replayed: {why}", "see docs/ablation.md for what cannot be replayed")


def silence_s(capsule: Capsule) -> float:
    """Seconds without output after which a variant counts as hanging."""
    return HANG_S + capsule.size / COPIED


def rows_of(lines: Iterable[str]) -> Iterator[ReplayRow]:
    """The replay's own output in these lines, without that of others."""
    for line in lines:
        with suppress(msgspec.DecodeError):
            yield _ROW.decode(line)


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

    def take(self, row: ReplayRow) -> None:
        """Process a row of the replay's output."""
        if row.overhead_ns is not None:
            self.overhead_ns = row.overhead_ns
            return
        self.running = row.starts
        if not row.status:
            return
        outcome = ReplayOutcome(row.status, row.same)
        if outcome.status != "ok":
            self.outcomes[row.name] = outcome
        self.outcomes.setdefault(row.name, outcome)
        if outcome.status == "ok" and row.ns is not None:
            self.values.append(row.ns)
            self.dram_B.append(math.nan)
            self.clock_mhz.append(math.nan if row.mhz is None else row.mhz)
            self.late += row.late

    def cut_off(self, status: str) -> MeasuredRounds:
        """The same after the running launch has ended the process."""
        if self.running:
            self.outcomes[self.running] = ReplayOutcome(status)
        return self


def count_rounds(capsule: Capsule, plan: Path, heard: Callable[[int], None]) -> MeasuredRounds:
    """Cycles of each launch of ``plan``: one pass each, caches and clocks as ``profile`` has them
    by default. ``heard`` is called with the number of each launch. It ends early if a launch fails
    or hangs. Raises MeasurementError if ncu measures nothing.
    """
    table = plan.with_suffix(".csv")
    table.unlink(missing_ok=True)
    command = [
        find_ncu().path,
        *("--config-file", "off"),
        *("--clock-control", "none"),
        *("--cache-control", "all"),
        *("--metrics", f"{METRIC},{MOVED}"),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(table)),
        *argv(capsule, plan),
    ]
    for _ in range(TRIES):
        counted = MeasuredRounds()

        def hear(stream: str, line: str, counted: MeasuredRounds = counted) -> None:
            for row in rows_of([line]):
                counted.take(row)

        log = NcuLog(lambda launch: heard(launch.index), hear)
        try:
            silent_s = UNDER_NCU_S + silence_s(capsule)
            status = processes.stream(command, dict(os.environ), log.feed, silence_s=partial(float, silent_s))
        except processes.TimedOutError:
            return counted.cut_off(HANGS)
        log.close()
        if status != TAKEN:
            break
    counted.values, counted.dram_B = counted_launches(table)
    counted.clock_mhz = [math.nan] * len(counted.values)
    if not counted.values:
        raise failure(log, status, "") or MeasurementError("ncu measured no cycles", "see `ncubble doctor --gpu`")
    return counted.cut_off(DIED)


def counted_launches(table: Path) -> tuple[list[float], list[float]]:
    """Cycles, and bytes moved (NaN: not counted), of the launches in a CSV file of ncu, which may
    begin with messages. Raises MeasurementError for a launch without cycles."""
    text = table.read_text(encoding="utf-8", errors="replace") if table.is_file() else ""
    cycles, moved = [], []
    for launch in raw_page(text) or ():
        try:
            cycles.append(float(launch.get(METRIC, "n/a").replace(",", "")))
            moved.append(float(launch.get(MOVED, "nan").replace(",", "")))
        except ValueError as error:
            raise MeasurementError(f"ncu did not count the cycles of a launch: {error}", "measure again") from error
    return cycles, moved


def time_rounds(capsule: Capsule, plan: Path, heard: Callable[[int], None]) -> MeasuredRounds:
    """Time of each launch of ``plan`` (``write_plan`` with ``timed``). ``heard`` is called with the
    number of timed launches. It ends early if a launch fails or hangs. Raises MeasurementError if
    nothing was timed.
    """
    for _ in range(TRIES):
        timed = MeasuredRounds()

        def on_row(row: ReplayRow, timed: MeasuredRounds = timed) -> None:
            timed.take(row)
            heard(len(timed.values))

        status, error = run_plan(capsule, plan, on_row)
        if status != TAKEN:
            break
    if not timed.values and not timed.outcomes:
        raise _not_replayed(error or str(status))
    return timed.cut_off(DIED if status is not None else HANGS)
