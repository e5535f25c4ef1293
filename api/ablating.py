"""Ablation: what parts of a launch cost, measured by removing them from its machine code."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ncubble.analysis.ablation.code import listing
from ncubble.analysis.ablation.experiment import AblationSettings, Experiment, LaunchFacts
from ncubble.analysis.ablation.result import FILE, Ablation
from ncubble.analysis.account.account import account
from ncubble.analysis.report.report import Report
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.profiling.capsules import replays
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import TAKEN
from ncubble.profiling.failures import CounterPermissionError, NcuUnusableError, ProgramFailedError
from ncubble.profiling.ncu import Filters
from ncubble.profiling.provenance import read_facts
from ncubble.profiling.recorders import capsules, ncu
from ncubble.profiling.runs import Manifest, Run, find_runs
from ncubble.profiling.session import Observer, Session, run_folder
from ncubble.profiling.subject import Subject

CUBIN = "kernel.cubin"
NO_COUNTERS = (CounterPermissionError, NcuUnusableError)
"""Why counters cannot be read on a machine, so that time is measured."""


@dataclass(frozen=True)
class AblatedLaunch:
    """One measured launch: its run directory, which has no report if time was measured, and what
    the launch is called."""

    run: Path
    label: str
    ablation: Ablation

    @classmethod
    def of(cls, folder: Path, ablation: Ablation) -> AblatedLaunch:
        """The launch in a run directory."""
        if ablation.timed:
            return cls(folder, ablation.label or ablation.kernel, ablation)
        run = Run.load(folder)
        return cls(folder, run.label_of(0) if run.manifest.kernel_of(0) else ablation.kernel, ablation)


def ablate(
    subject: Subject,
    filters: Filters | None = None,
    out: Path | None = None,
    *,
    rounds: int | None = None,
    timed: bool = False,
    force: bool = False,
    timeout_s: float | None = None,
    observer: Observer | None = None,
) -> list[AblatedLaunch]:
    """Run a subject once, unchanged, to record the launches that ``filters`` select (kernel, skip,
    count), and measure each, with a run directory of its own, below ``out`` if there are several.

    ``rounds``: measurements per variant. ``timed``: measure time, without counters; so it is where
    they cannot be read. A launch that
    cannot be measured is said and skipped. Raises UsageError, and MeasurementError where nothing
    could be measured; nothing is kept then.
    """
    observer = observer or Observer()
    session = Session(subject, run_folder(out, f"ablate-{subject.label}"), force, timeout_s, observer)
    session.require_gpu()
    settings = AblationSettings(rounds, timed, doing=observer.doing)
    names: list[str] = []
    problems: list[str] = []
    with session.open():
        work = session.work / "capsules"
        work.mkdir()
        observer.doing("running the program")
        captured = capsules.record(session, filters or Filters(), work)
        problems += [f"{kernel}: {why}" for kernel, why in captured.refused]
        many = len(captured.capsules) > 1
        for number, capsule in enumerate(captured.capsules):
            name = f"launch-{number}" if many else ""
            part = session.part(name) if many else session
            try:
                measure(part, capsule, settings)
                names.append(name)
            except NcubbleError as error:
                problems.append(f"{capsule.kernel}: {error.message}")
                if many:
                    shutil.rmtree(part.folder)
            else:
                part.close()
            shutil.rmtree(capsule.folder)
        if not names:
            raise MeasurementError(f"no launch could be measured: {'; '.join(problems)}", "see docs/ablation.md")
        if captured.end.failure:
            problems.append(captured.end.failure)
    for problem in problems:
        observer.say(f"note: {problem}")
    return [launch for name in names for launch in ablated(session.out / name)]


def ablated(folder: Path) -> list[AblatedLaunch]:
    """Ablations of the runs at or below ``folder``; raises UsageError if there are none."""
    places = sorted({*find_runs([folder]), *(path.parent for path in folder.rglob(FILE))})
    found = [AblatedLaunch.of(path, ablation) for path in places if (ablation := Ablation.load(path))]
    if not found:
        raise UsageError(f"{folder}: no run in it was ablated", "name one that `ncubble ablate` wrote")
    return found


def measure(session: Session, capsule: Capsule, settings: AblationSettings) -> Ablation:
    """Profile the recorded launch, then measure its variants, into an open session. If counters
    cannot be read, or with ``settings.timed``, variants are timed without a profile. Raises
    MeasurementError and ReportError."""
    folder = session.work / f"work-{capsule.folder.name}"
    folder.mkdir()
    begun = time.monotonic()
    session.observer.doing("profiling the launch")
    refused: NcubbleError | None = None
    try:
        if not settings.timed:
            _profile(session, capsule, folder)
    except NO_COUNTERS as error:
        refused = error
    if settings.timed or refused:
        ablation = _timed(session, capsule, folder, replace(settings, timed=True), refused)
    else:
        session.close()  # the manifest, which reading the report needs
        launch = Report.open(session.folder).launch(0)
        bubbles = account(launch)
        if bubbles is None:
            raise ReportError("the launch has no account: the report holds no utilization", "profile the default sets")
        middle = time.monotonic()
        ablation = Experiment(capsule, LaunchFacts.profiled(launch, bubbles), folder, settings).result()
        seconds = {"profile": middle - begun, "ablate": time.monotonic() - middle}
        ablation = replace(ablation, seconds={name: round(value, 2) for name, value in seconds.items()})
    ablation.save(session.folder)
    shutil.copy(capsule.cubin, session.folder / CUBIN)
    shutil.rmtree(folder)
    return ablation


def _profile(session: Session, capsule: Capsule, folder: Path) -> None:
    """Profile a replay of the launch, as if it were the program."""
    plan = replays.write_plan(folder / "whole.json", [replays.ReplayVariant("none", capsule.cubin)])
    for attempt in range(1, replays.TRIES + 1):
        try:
            ncu.record(session, ncu.NcuSettings(filters=Filters(without="")), replays.argv(capsule, plan))
            break
        except ProgramFailedError as error:
            if error.code != TAKEN or attempt == replays.TRIES:
                raise
    session.note("profiled from a replay of the recorded launch (ncubble ablate)")


def _timed(
    session: Session, capsule: Capsule, folder: Path, settings: AblationSettings, refused: NcubbleError | None
) -> Ablation:
    from ncubble.kernels.build import disassemble

    begun = time.monotonic()
    source = listing(disassemble(capsule.cubin.read_bytes(), lines=True), capsule.function)
    ablation = Experiment(capsule, LaunchFacts.of_code(source), folder, settings).result()
    kernel = read_facts(capsule.folder.parent / "facts.json").members.get("kernel", {})
    session.record(kernel=kernel)
    label = Run(Path(capsule.kernel), session.folder, Manifest(kernel=kernel)).label if kernel else capsule.kernel
    why = [f"time was measured, not cycles: {refused.message}"] if refused else []
    return replace(
        ablation,
        label=label,
        argv=session.manifest.argv,
        notes=[*why, *ablation.notes],
        seconds={"ablate": round(time.monotonic() - begun, 2)},
    )
