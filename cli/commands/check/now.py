"""What ``ncubble check`` measures before it judges: the options for that, and profiles of now.

What is measured is said by an option (``--profile``, ``--profile-all``, ``--against``) or by ``--``, never by whether a
name happens to be a path: a folder that is called like a kernel must not turn a measurement into a look at old runs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ncubble.cli.command import shape_text
from ncubble.cli.commands.check.options import Measuring
from ncubble.cli.commands.check.subject import CatalogKernel
from ncubble.cli.terminal import ended_by_signals, recording
from ncubble.errors import NcubbleError, UsageError
from ncubble.profiling.failures import NoGpuError, of_subject
from ncubble.profiling.ncu import Filters

if TYPE_CHECKING:
    from ncubble.analysis.gate.baseline import Baseline
    from ncubble.analysis.gate.verdicts import CheckOptions, GateResult, KernelVerdict
    from ncubble.profiling.runs import Run
    from ncubble.profiling.subject import Place


@dataclass(frozen=True)
class CheckInputs:
    """What is to be judged, and what is known already.

    ``paths`` are runs; ``kernel`` the filter that is still to be applied to their launches; ``baselines`` replace those
    of the store if not None, and each of them must have been measured; ``alike``: a kernel whose grid or name changed
    is compared with the one that is left; ``judged`` are kernels that needed no measurement.
    """

    paths: list[Path]
    kernel: str = ""
    baselines: list[Baseline] | None = None
    alike: bool = False
    errors: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    judged: list[KernelVerdict] = field(default_factory=list)

    def options(self, options: CheckOptions) -> CheckOptions:
        """``options`` as they are for what was measured: a filter that chose launches for ncu has done its work."""
        options = replace(options, kernel=self.kernel)
        if self.baselines is None:
            return options
        return replace(options, require_all=True, exact=options.exact and not self.alike)

    def complete(self, result: GateResult) -> GateResult:
        """``result`` with the kernels that needed no measurement."""
        return replace(result, kernels=(*result.kernels, *self.judged))


def check_request(measuring: Measuring, paths: Sequence[Path]) -> None:
    """Raise UsageError where the command line contradicts itself, before anything is read or measured."""
    measuring.check(paths)
    if measuring.reads:
        _refuse_kernel_names(paths)
    elif measuring.program is None and not measuring.profile_all:
        from ncubble.kernels.catalog.registry import find_spec

        with of_subject():
            for path in paths:
                find_spec(str(path), measuring.catalog)


def take(measuring: Measuring, paths: Sequence[Path], kernel: str, baselines: Sequence[Baseline]) -> CheckInputs:
    """The runs to be judged: ``paths``, or what is measured now. ``kernel`` is the expression of ``--kernel``.

    Raises UsageError, and the MeasurementErrors of ``profiling.failures``; nothing that was measured is kept then.
    """
    if measuring.reads:
        return CheckInputs(list(paths), kernel)
    Filters(kernel)  # refuses what is no regular expression
    with ended_by_signals(), keeping() as kept:
        if measuring.profile_all:
            return _take_all(measuring, paths, kernel, baselines, kept)
        with of_subject():
            if measuring.program is not None:
                return CheckInputs(_rounds(measuring, _program(measuring), kernel, _out_of(measuring), kept))
            subjects = subjects_of(measuring, paths)
            many = len(subjects) > 1
            runs = [
                _rounds(measuring, _catalog(measuring, launch), kernel, _out_of(measuring, launch, many), kept)
                for launch in subjects
            ]
            return CheckInputs([run for part in runs for run in part])


def subjects_of(measuring: Measuring, names: Iterable[Path]) -> list[CatalogKernel]:
    """The kernels that are named on the command line, with its parameters and shape."""
    return [CatalogKernel(str(name), tuple(measuring.parameters), shape_text(measuring.shape)) for name in names]


def profiled(
    measuring: Measuring, program: tuple[list[str], str], kernel: str, out: Path, place: Place | None = None
) -> Run:
    """One run of ``program`` (argv, and the function that it is about; empty: any), recorded at ``out``."""
    from ncubble.profiling.recorders import ncu
    from ncubble.profiling.session import Session
    from ncubble.profiling.subject import Place, Subject

    argv, function = program
    subject = Subject(argv, function=function, place=place or Place())
    filters = Filters(kernel, measuring.nvtx, measuring.skip, measuring.count)
    with recording() as observer:
        session = Session(subject, out, timeout_s=measuring.timeout, observer=observer)
        run = ncu.profile(session, ncu.NcuSettings(measuring.metric_sets, filters=filters))
    typer.echo(f"{run.path}: {len(run.manifest.report['launches'])} launches", err=True)
    return run


@contextmanager
def keeping() -> Iterator[list[Path]]:
    """Collects the runs that are made in the block; where it fails, they are removed with the folders left empty."""
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        folders = {parent for path in made for parent in list(path.parents)[:2]}
        for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
            with suppress(OSError):
                folder.rmdir()
        raise


def _rounds(
    measuring: Measuring, program: tuple[list[str], str], kernel: str, out: Path, kept: list[Path]
) -> list[Path]:
    """One process after the other: ``out`` itself, or a run for each below it."""
    count = measuring.rounds or 1
    places = [out] if count == 1 else [out / str(number + 1) for number in range(count)]
    for place in places:
        profiled(measuring, program, kernel, place)
        kept.append(place)
    return places


def _take_all(
    measuring: Measuring, paths: Sequence[Path], kernel: str, baselines: Sequence[Baseline], kept: list[Path]
) -> CheckInputs:
    """Every kernel of the catalog that has a baseline on this GPU; what else has one must be among ``paths``."""
    here = [
        baseline
        for baseline in baselines
        if baseline.device.name == _device() and re.search(kernel, baseline.key.label)
    ]
    if not here:
        raise UsageError(f"--profile-all: no baseline of {_device()}", "record some with `ncubble baseline record`")
    known = _catalog_names(measuring)
    taken = CheckInputs(list(paths), kernel, here)
    for baseline in here:
        if baseline.key.kernel not in known or baseline.key.nvtx or baseline.key.grid:
            taken.notes.append(f"{baseline.key.label}: no kernel of the catalog, so its runs have to be named")
            continue
        subject = recorded_subject(baseline)
        try:
            out = _out_of(measuring, subject, many=True)
            with keeping() as own, of_subject():
                runs = _rounds(measuring, _catalog(measuring, subject), "", out, own)
            kept.extend(own)
            taken.paths.extend(runs)
        except NcubbleError as error:
            if not error.of_subject:
                raise
            taken.errors.append((baseline.key.label, error.message))
    return taken


def recorded_subject(baseline: Baseline) -> CatalogKernel:
    """What a baseline was recorded of."""
    key = baseline.key
    shape = ",".join(f"{name}={size}" for name, size in key.shape.items())
    return CatalogKernel(key.kernel, tuple(f"{name}={value}" for name, value in key.parameters.items()), shape)


def _catalog(measuring: Measuring, subject: CatalogKernel) -> tuple[list[str], str]:
    from ncubble.api.subjects import catalog_subject

    program = catalog_subject(subject.name, subject.parameters, subject.shape, measuring.catalog, measuring.launches)
    if program.note:
        typer.echo(f"note: {program.note}", err=True)
    return list(program.argv), program.function


def _program(measuring: Measuring) -> tuple[list[str], str]:
    from ncubble.profiling.processes import require_program

    program = measuring.program or []
    require_program(program)
    return program, ""


def _out_of(measuring: Measuring, subject: CatalogKernel | None = None, many: bool = False) -> Path:
    """Where a run goes: ``--out`` (with several kernels a folder below it), or a new folder in ``runs``."""
    from ncubble.profiling.staging import default_out

    label = subject.label.replace("=", "") if subject else Path((measuring.program or [""])[0]).name
    if measuring.out is None:
        return fresh(default_out(label))
    return measuring.out / re.sub(r"[^A-Za-z0-9._-]+", "-", label) if many else measuring.out


def fresh(out: Path) -> Path:
    """``out``, or with a number behind it where that exists: two checks may begin in the same second."""
    names = (out, *(out.with_name(f"{out.name}-{number}") for number in range(2, 100)))
    return next((name for name in names if not name.exists()), out)


def _device() -> str:
    from ncubble.profiling.driver import DriverError, describe

    try:
        return describe().name
    except DriverError as error:
        raise NoGpuError(str(error)) from error


def _catalog_names(measuring: Measuring) -> set[str]:
    from ncubble.kernels.catalog.registry import catalog

    return set(catalog(measuring.catalog))


def _refuse_kernel_names(paths: Sequence[Path]) -> None:
    """A name that is no path but a kernel: say how it is measured."""
    for path in paths:
        if len(path.parts) == 1 and not path.suffix and not path.exists() and str(path) in _shipped():
            raise UsageError(
                f"{path}: no such file or directory, but a kernel of the catalog",
                f"to measure it now: `ncubble check --profile {path}`",
            )


def _shipped() -> set[str]:
    from ncubble.kernels.catalog.registry import catalog

    return set(catalog())
