"""Two sides of a search, measured in turns into a folder: ``a/1``, ``b/1``, ``b/2``, ``a/2``, …

What lies there already is not measured again, so that a search that was interrupted goes on; a round
of which one side is missing is begun anew, since both belong into the same minutes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import typer

from ncubble.analysis.gate.baseline import baseline, repeats
from ncubble.analysis.gate.baseline.baseline import Baseline
from ncubble.analysis.gate.baseline.repeats import Repeats
from ncubble.analysis.gate.check.check import check as check_groups
from ncubble.analysis.gate.check.result import CheckOptions, GateResult
from ncubble.cli.commands.check.now import profiled
from ncubble.cli.commands.check.options import MOST_ROUNDS, ROUNDS, Measuring
from ncubble.cli.commands.check.subject import CatalogKernel, SideLaunch, describe, launching
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.profiling.ncu import failures
from ncubble.profiling.revisions.sides import RevisionSide, build, in_turns, refuse_fixed_paths, require_program
from ncubble.profiling.revisions.worktree import CheckoutError
from ncubble.profiling.runs.run import MANIFEST


class GoodSideError(MeasurementError):
    """The side that all candidates are compared with could not be measured again."""


OF_THE_MACHINE = (
    CheckoutError,
    failures.CounterPermissionError,
    failures.DiskError,
    failures.LockFileError,
    failures.NcuFailedError,
    failures.NcuMissingError,
    failures.NcuTooOldError,
    failures.NcuUnusableError,
    failures.NoGpuError,
    failures.ProfilerBusyError,
    GoodSideError,
)
"""Failures that say nothing of a candidate: they end the search, which goes on with the same command."""


@dataclass(frozen=True)
class ReadySide:
    """A side that is built: the program with the function that it is about, and for a kernel of the
    catalog what it would launch."""

    side: RevisionSide
    program: tuple[list[str], str]
    launch: SideLaunch | None = None


@dataclass(frozen=True)
class PairResult:
    """Side B judged by A's repeats, the launches of both, and how many processes of each ran."""

    gate: GateResult
    before: list[Repeats]
    now: list[Repeats]
    rounds: int


@dataclass(frozen=True)
class SideBench:
    """How sides are prepared and compared. ``subject`` is None for a program."""

    measuring: Measuring
    options: CheckOptions
    nvtx: bool
    subject: CatalogKernel | None
    root: Path | None = None

    @property
    def rounds(self) -> int:
        """Processes of each side to begin with."""
        return self.measuring.rounds or ROUNDS

    @property
    def most(self) -> int:
        """Processes of each side at most."""
        return max(self.measuring.most_rounds or MOST_ROUNDS, self.rounds)

    def ready(self, side: RevisionSide) -> ReadySide:
        """``side``, built. Raises UsageError where it has no such kernel or program, MeasurementError where
        it does not build."""
        if self.subject is not None:
            launch = describe(self.measuring, side, self.subject)
            return ReadySide(side, (launching(self.measuring, side, self.subject), launch.function), launch)
        program, command = self.measuring.program or [], self.measuring.build
        if self.root is not None:
            refuse_fixed_paths(self.root, program, "--")
            refuse_fixed_paths(self.root, [command], "--build")
        if command:
            typer.echo(f"building {side.what}", err=True)
            build(side, command, lambda stream, text: typer.echo(text, nl=False, err=True))
        require_program(side, program)
        return ReadySide(side, (program, ""))

    def compared(self, pair: tuple[ReadySide, ReadySide], place: Path, rounds: int) -> PairResult:
        """The pair after ``rounds`` processes of each side, those that lie at ``place`` included."""
        done = rounds_at(place)
        sides = {ready.side.name: ready for ready in pair}
        for number, side in in_turns([ready.side for ready in pair], rounds, done):
            out = place / side.name.lower() / str(number)
            typer.echo(f"  round {number} of {rounds}, {side.name}: {side.what}", err=True)
            self._profiled(sides[side.name], out)
        return self.judged(place, rounds)

    def _profiled(self, ready: ReadySide, out: Path) -> None:
        try:
            profiled(self.measuring, ready.program, self.options.kernel, out, ready.side.place)
        except OF_THE_MACHINE:
            raise
        except (UsageError, MeasurementError) as error:
            if ready.side.name == "A":  # no candidate is to blame
                raise GoodSideError(
                    f"{ready.side.what} could not be measured: {error.message}", error.remedy
                ) from error
            raise

    def judged(self, place: Path, rounds: int) -> PairResult:
        """What the runs at ``place`` say."""
        from ncubble.analysis.report.report import open_reports

        paths = {name: [place / name / str(number + 1) for number in range(rounds)] for name in ("a", "b")}
        before, unread = open_reports(paths["a"])
        now, more = open_reports(paths["b"])
        errors = [(str(failure.path), failure.error.message) for failure in (*unread, *more)]
        groups, _ = repeats.collect(before, nvtx=self.nvtx)
        groups_now, _ = repeats.collect(now, nvtx=self.nvtx)
        baselines, refused = self._baselines(groups)
        options = replace(self.options, require_all=True, exact=False, kernel="")
        gate = check_groups(groups_now, baselines, options, [*errors, *refused])
        return PairResult(gate, groups, groups_now, rounds)

    def _baselines(self, groups: Sequence[Repeats]) -> tuple[list[Baseline], list[tuple[str, str]]]:
        recorded, refused = datetime.now(UTC).isoformat(timespec="seconds"), []
        made: list[Baseline] = []
        for group in groups:
            try:
                made += baseline.record(
                    [group], recorded, baseline.FEWEST_REPEATS, allow_suspicious=self.options.allow_suspicious
                )
            except NcubbleError as error:
                refused.append((group.key.label, error.message))
        return made, refused


def rounds_at(place: Path) -> int:
    """How many rounds of both sides lie at ``place``; what is there of a later one is removed."""
    done = 0
    while all(_is_run(place / side / str(done + 1)) for side in ("a", "b")):
        done += 1
    for side in ("a", "b"):
        for folder in (place / side).glob("*"):
            if folder.name.isdecimal() and int(folder.name) > done:
                shutil.rmtree(folder, ignore_errors=True)
    return done


def _is_run(folder: Path) -> bool:
    """Runs appear whole or not at all, with their manifest."""
    return (folder / MANIFEST).is_file()
