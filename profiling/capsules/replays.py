"""Replays capsules in disposable processes: finds out which variants run, and the cycles of
each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import TAKEN

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
