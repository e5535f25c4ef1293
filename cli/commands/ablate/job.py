"""Records launches of a program, measures each, and writes run directories."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ncubble.analysis.ablation.result import FILE, Ablation
from ncubble.api.subjects import chosen_subject
from ncubble.cli.commands.ablate.measuring import measure
from ncubble.cli.commands.ablate.profiling import AblationOrder
from ncubble.cli.terminal import ended_by_signals
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.profiling import processes, staging
from ncubble.profiling.doctor import require_gpu
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders.capsules import Captured, CaptureRequest, capture
from ncubble.profiling.runs import MANIFEST, Run, find_runs
from ncubble.profiling.staging import default_out

Result = tuple[Path, str, Ablation]
Say = Callable[[str], None]


@dataclass(frozen=True)
class AblateJob:
    """Request of the command line."""

    request: CaptureRequest
    label: str
    rounds: int | None
    slack: bool
    timed: bool = False

    @classmethod
    def of(
        cls,
        program: list[str] | None,
        name: str | None,
        parameters: list[str],
        shape: str | None,
        catalog: Path | None,
        choice: Filters,
        rounds: int | None,
        slack: bool,
        memory_gib: float,
        timeout_s: float | None,
        timed: bool = False,
    ) -> AblateJob:
        """The job; raises UsageError."""
        launches = 1 if program is not None else choice.skip + (choice.count or 1)
        subject = chosen_subject(program, name, parameters, shape, catalog, launches)
        filters = replace(choice, kernel=choice.kernel or subject.function)
        most = int(memory_gib * (1 << 30))
        return cls(
            CaptureRequest(subject.argv, filters, timeout_s, most), f"ablate-{subject.label}", rounds, slack, timed
        )


def run_job(job: AblateJob, out: Path | None, force: bool) -> list[Result]:
    """Measure all launches of the job, with a run directory each, below ``out`` if there are
    several. A launch that cannot be measured is reported and skipped. Without a GPU the program does
    not run."""
    target = out or default_out(job.label)
    problems: list[str] = []
    staging.check_target(target, force)
    require_gpu()
    with ended_by_signals(), _progress() as (say, echo), staging.staged(target, force) as folder:
        work = folder.parent / "capsules"
        work.mkdir()
        say("running the program")
        captured = capture(job.request, work, echo)
        problems += [f"{kernel}: {why}" for kernel, why in captured.refused]
        runs = _measure_all(job, captured, folder, work, say, problems)
    for problem in problems:
        typer.echo(f"  note: {problem}", err=True)
    return [(target / name, label, ablation) for name, label, ablation in runs]


def _measure_all(
    job: AblateJob, captured: Captured, folder: Path, work: Path, say: Say, problems: list[str]
) -> list[tuple[str, str, Ablation]]:
    """Measure captured launches; those that cannot be measured are added to ``problems``."""
    results: list[tuple[str, str, Ablation]] = []
    for number, capsule in enumerate(captured.capsules):
        place = work / f"work-{number}"
        place.mkdir()
        name = f"launch-{number}" if len(captured.capsules) > 1 else ""
        try:
            order = AblationOrder(job.request.program, job.rounds, job.timed, job.slack, say=say)
            measured = measure(capsule, place, order)
        except NcubbleError as error:
            problems.append(f"{capsule.kernel}: {error.message}")
        else:
            (folder / name).mkdir(exist_ok=True)
            for path in measured.path.iterdir():
                shutil.move(path, folder / name / path.name)
            results.append((name, _label(folder / name, measured.ablation), measured.ablation))
        shutil.rmtree(place)
        shutil.rmtree(capsule.folder)
    if not results:
        raise MeasurementError(f"no launch could be measured: {'; '.join(problems)}", "see docs/ablation.md")
    if captured.status:
        problems.append(f"the program ended with {processes.ending(captured.status)}")
    return results


def _label(folder: Path, ablation: Ablation) -> str:
    if ablation.timed:
        return ablation.label or ablation.kernel
    run = Run.load(folder)
    return run.label_of(0) if run.manifest.kernel_of(0) else ablation.kernel


def shown(folder: Path) -> list[Result]:
    """Ablations of the runs at or below ``folder``; raises UsageError if there are none."""
    results = []
    for path in sorted({*find_runs([folder]), *timed_runs(folder)}):
        if ablation := Ablation.load(path):
            results.append((path, _label(path, ablation), ablation))
    if not results:
        raise UsageError(f"{folder}: no run in it was ablated", "name one that `ncubble ablate` wrote")
    return results


def timed_runs(folder: Path) -> Iterator[Path]:
    """Folders at or below ``folder`` with an ablation but no manifest: timed ablations have no
    report."""
    for place in folder.rglob(FILE):
        if not (place.parent / MANIFEST).exists():
            yield place.parent


@contextmanager
def _progress() -> Iterator[tuple[Say, Callable[[processes.Stream, str], None]]]:
    """Shows progress and the program's output on stderr."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting")

        def say(text: str) -> None:
            progress.update(task, description=escape(text))

        def echo(stream: processes.Stream, text: str) -> None:
            if text.strip():
                progress.console.print(text.rstrip("\n"), style="dim", markup=False, highlight=False)

        yield say, echo
