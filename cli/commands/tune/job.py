"""Runs one search, from the command line to its output files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ncubble.cli.commands.tune.measuring import GpuBench
from ncubble.errors import UsageError, VerificationError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.tune import (
    ELITES_FILE,
    FILE,
    Elite,
    Journal,
    KeptBench,
    Point,
    Setting,
    Space,
    Trial,
    Tuner,
    space_of,
    usual_budget,
    write_json,
)
from ncubble.kernels.run.verify import fresh_seed
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Value

Tell = Callable[["Tuner", Point, Trial, str], None]


@dataclass(frozen=True)
class TuneJob:
    """Request of the command line."""

    kernel: str
    shape: Mapping[str, int]
    fixed: Mapping[str, Value]
    start: Mapping[str, Value]
    catalog: Path | None
    budget: int | None
    iterations: int
    seed: int | None
    out: Path
    resume: bool
    profiles: bool


@dataclass(frozen=True)
class TuneResult:
    """Result of the search; ``notes`` are for the reader."""

    setting: Setting
    tuner: Tuner
    elites: list[Elite]
    notes: list[str]

    @property
    def space(self) -> Space:
        """The searched configurations."""
        return self.tuner.space

    def to_json(self) -> dict[str, Any]:
        """The content of elites.json, and of --json."""
        tuner = self.tuner
        start = tuner.trials[self.space.start]
        return {
            "schema": 1,
            "kernel": self.setting.kernel,
            "shape": dict(self.setting.shape),
            "device": self.setting.device,
            "driver": self.setting.driver,
            "seed": self.setting.seed,
            "iterations": self.setting.iterations,
            "searched": {axis.name: list(axis.choices) for axis in self.space.axes},
            "left_out": dict(self.space.left_out),
            "configurations": len(self.space.cases),
            "launches": tuner.launches,
            "timed_again": len(tuner.turns),
            "profiles": len(tuner.advice),
            "stopped": tuner.stopped,
            "start": {"parameters": self.space.settings(self.space.start), "p50_us": start.p50_us},
            "elites": [self._elite(elite) for elite in self.elites],
            "notes": self.notes,
        }

    def _elite(self, elite: Elite) -> dict[str, Any]:
        trial = elite.trial
        return {
            "parameters": dict(trial.parameters),
            "p50_us": elite.p50_us,
            "in_turns": elite.point in self.tuner.turns,
            "p90_us": trial.p90_us,
            "std_us": trial.std_us,
            "cause": elite.cause or None,
            "verification": dict(trial.verification or {}),
            "build": dict(trial.build),
        }


def run_job(job: TuneJob, tell: Tell, note: Callable[[str], None]) -> TuneResult:
    """Searches, and writes ``tune.json`` and ``elites.json`` as it goes.

    Raises UsageError, MeasurementError, and VerificationError if no configuration is right.
    """
    spec = find_spec(job.kernel, job.catalog)
    first = make_case(spec, {**job.fixed, **job.start}, job.shape)
    kept = _kept(job)
    seed = kept.setting.seed if kept and job.seed is None else fresh_seed() if job.seed is None else job.seed
    notes: list[str] = []

    def noted(text: str) -> None:
        notes.append(text)
        note(text)

    bench = GpuBench(job.kernel, job.catalog, first.shape, seed, job.iterations, job.profiles, noted)
    try:
        device = bench.device()
        space = space_of(spec, job.shape, job.fixed, job.start, device)
        setting = Setting(
            *(job.kernel, dict(first.shape), dict(job.fixed), space.settings(space.start)),
            *(device.name, device.driver, job.iterations, seed),
        )
        if kept is not None:
            kept.require(setting)
        try:
            job.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {job.out}: {error.strerror}", "name a folder that can be written") from error
        journal = kept or Journal(job.out, setting)
        budget = usual_budget(len(space.cases)) if job.budget is None else job.budget
        tuner = Tuner(space, KeptBench(journal, bench), budget)

        def heard(point: Point, trial: Trial, why: str) -> None:
            tell(tuner, point, trial, why)
            write_json(job.out / ELITES_FILE, TuneResult(setting, tuner, tuner.elites, notes).to_json())

        tuner = replace(tuner, tell=heard)
        result = TuneResult(setting, tuner, tuner.run(), notes)
    finally:
        bench.process.close()
    write_json(job.out / ELITES_FILE, result.to_json())
    if not result.elites:
        why = next((trial.why for trial in tuner.trials.values()), "")
        raise VerificationError(f"{job.kernel}: no configuration gave a right result: {why}", f"see {job.out / FILE}")
    return result


def _kept(job: TuneJob) -> Journal | None:
    """The search to continue; raises UsageError if the folder and --resume do not match."""
    if job.resume:
        return Journal.load(job.out)
    try:
        empty = not job.out.exists() or not any(job.out.iterdir())
    except OSError as error:
        raise UsageError(f"--out {job.out}: {error.strerror}", "name a new folder") from error
    if not empty:
        raise UsageError(f"--out {job.out}: not empty", "name a new folder, or add --resume to continue")
    return None
