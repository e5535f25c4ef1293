"""Measures what the parts of one recorded launch cost: profile, variants, probe, cycles."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.model.account import account
from ncubble.analysis.report.report import Report
from ncubble.cli.commands.ablate.experiment import Experiment
from ncubble.cli.commands.ablate.profiling import AblationOrder, profiled
from ncubble.errors import ReportError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.runs.run import Run

CUBIN = "kernel.cubin"


@dataclass(frozen=True)
class AblatedRun:
    """A run directory with its ablation."""

    run: Run
    ablation: Ablation


def measure(capsule: Capsule, folder: Path, wanted: AblationOrder) -> AblatedRun:
    """Profile the launch, then its variants; the run is at ``folder/run``. Raises MeasurementError and
    ReportError."""
    begin = time.monotonic()
    wanted.say("profiling the launch")
    run = profiled(capsule, folder, wanted)
    launch = Report.open(run.path).launch(0)
    bubbles = account(launch)
    if bubbles is None:
        raise ReportError("the launch has no account: the report holds no utilization", "profile the default sets")
    middle = time.monotonic()
    ablation = Experiment(capsule, launch, bubbles, folder, wanted).result()
    seconds = {"profile": middle - begin, "ablate": time.monotonic() - middle}
    ablation = replace(ablation, seconds={name: round(value, 2) for name, value in seconds.items()})
    ablation.save(run.path)
    shutil.copy(capsule.cubin, run.path / CUBIN)
    return AblatedRun(run, ablation)
