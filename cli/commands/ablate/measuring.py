"""Measures the cost of the parts of one recorded launch: profile, variants, trials, turns."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.account import account
from ncubble.analysis.report.report import Report
from ncubble.cli.commands.ablate.experiment import Experiment
from ncubble.cli.commands.ablate.profiling import AblationOrder, profiled
from ncubble.cli.commands.ablate.subject import AblationSubject
from ncubble.errors import NcubbleError, ReportError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.failures import CounterPermissionError, NcuMissingError, NcuTooOldError, NcuUnusableError
from ncubble.profiling.provenance import read_facts
from ncubble.profiling.runs import Manifest, Run
from ncubble.profiling.session import portable

CUBIN = "kernel.cubin"
NO_COUNTERS = (CounterPermissionError, NcuMissingError, NcuTooOldError, NcuUnusableError)
"""Why counters cannot be read on a machine, so that time is measured."""


@dataclass(frozen=True)
class AblatedRun:
    """A run directory with its ablation; without a report if time was measured."""

    path: Path
    ablation: Ablation


def measure(capsule: Capsule, folder: Path, wanted: AblationOrder) -> AblatedRun:
    """Profile the launch, then its variants, into the run ``folder/run``. If counters cannot be
    read, or with ``wanted.timed``, variants are timed without a profile. Raises MeasurementError
    and ReportError."""
    if wanted.timed:
        return _timed(capsule, folder, wanted, ())
    begin = time.monotonic()
    wanted.say("profiling the launch")
    try:
        run = profiled(capsule, folder, wanted)
    except NO_COUNTERS as error:
        return _timed(capsule, folder, replace(wanted, timed=True), (_why(error),))
    launch = Report.open(run.path).launch(0)
    bubbles = account(launch)
    if bubbles is None:
        raise ReportError("the launch has no account: the report holds no utilization", "profile the default sets")
    middle = time.monotonic()
    ablation = Experiment(capsule, AblationSubject.profiled(launch, bubbles), folder, wanted).result()
    seconds = {"profile": middle - begin, "ablate": time.monotonic() - middle}
    return _kept(capsule, run.path, replace(ablation, seconds=_rounded(seconds)))


def _timed(capsule: Capsule, folder: Path, wanted: AblationOrder, why: tuple[str, ...]) -> AblatedRun:
    begin = time.monotonic()
    ablation = Experiment(capsule, AblationSubject.of_code(capsule), folder, wanted).result()
    place = folder / "run"
    place.mkdir(exist_ok=True)
    facts = read_facts(capsule.folder.parent / "facts.json").members.get("kernel", {})
    label = Run(Path(capsule.kernel), place, Manifest(kernel=facts)).label if facts else capsule.kernel
    named = replace(ablation, label=label, argv=portable(wanted.program), notes=[*why, *ablation.notes])
    return _kept(capsule, place, replace(named, seconds=_rounded({"ablate": time.monotonic() - begin})))


def _why(error: NcubbleError) -> str:
    return f"time was measured, not cycles: {error.message}"


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in seconds.items()}


def _kept(capsule: Capsule, place: Path, ablation: Ablation) -> AblatedRun:
    ablation.save(place)
    shutil.copy(capsule.cubin, place / CUBIN)
    return AblatedRun(place, ablation)
