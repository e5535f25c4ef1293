"""``ncubble check --against REV``: the working tree and another revision, built and profiled in turns.

A is REV in a temporary worktree, B the working tree as it is, uncommitted changes included. The repeats of A are the
baseline in memory, those of B are what is judged. Both are measured in the same minutes on the same GPU, so that no
shift between machine starts, clocks or drivers enters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ncubble.cli.commands.check.now import CheckInputs, fresh, keeping, profiled, subjects_of
from ncubble.cli.commands.check.options import ROUNDS, Measuring
from ncubble.cli.commands.check.subject import SAME, CatalogKernel, describe, launching
from ncubble.cli.terminal import ended_by_signals
from ncubble.errors import NcubbleError, UsageError
from ncubble.profiling import ncu
from ncubble.profiling.failures import of_subject
from ncubble.profiling.revisions.sides import RevisionSide, build, in_turns, refuse_fixed_paths, require_program, sides
from ncubble.profiling.revisions.worktree import Checkout, checkout_of, worktree

if TYPE_CHECKING:
    from ncubble.analysis.gate.verdicts import CheckOptions, KernelVerdict
    from ncubble.analysis.report.report import Report

SKIPPED = "machine code and launch are the same as in {}: not measured (--skip-same)"
NOT_SKIPPED = "--skip-same: the machine code is known only once it has run, so it was measured"
_SHOWN = 3


@dataclass(frozen=True)
class AgainstPlan:
    """A comparison: what was asked for, the user's tree, and the commit."""

    measuring: Measuring
    checkout: Checkout
    sha: str
    options: CheckOptions
    nvtx: bool

    @property
    def revision(self) -> str:
        """REV as it was given."""
        return self.measuring.against or ""


def take_against(measuring: Measuring, names: Sequence[Path], options: CheckOptions, nvtx: bool) -> CheckInputs:
    """Measure both sides: the runs of B, with baselines made of A's. Raises UsageError and MeasurementError; then
    neither runs nor the worktree are left."""
    measuring.check(names)
    ncu.find_ncu()  # before anything is built
    checkout = checkout_of(measuring.catalog or Path.cwd())
    sha = checkout.resolve(measuring.against or "")
    plan = AgainstPlan(measuring, checkout, sha, options, nvtx)
    folder = _folder(plan)
    if not checkout.holds(sha, folder):
        raise UsageError(
            f"{folder} is not in {plan.revision} ({sha[:7]})", "name a revision that has it, or measure with --profile"
        )
    with ended_by_signals(), worktree(checkout, sha) as tree, keeping() as kept:
        pair = sides(checkout, plan.revision, sha, tree, folder)
        taken = CheckInputs([], baselines=[], alike=True, notes=[*_told(plan)])
        if measuring.program is not None:
            _take_program(plan, pair, taken, kept)
        for subject in subjects_of(measuring, names):
            _take_kernel(plan, pair, subject, taken, kept)
        return taken


def _folder(plan: AgainstPlan) -> Path:
    """Where in the tree the subject lies: the catalog, the root of ncubble's own, or the working directory."""
    if plan.measuring.catalog is not None:
        return plan.checkout.place_of(plan.measuring.catalog)
    if plan.measuring.program is not None:
        return plan.checkout.place_of(Path.cwd())
    if not any((plan.checkout.root / "kernels" / name).is_dir() for name in ("catalog", "specs")):  # specs: until 0.1
        raise UsageError(
            f"{plan.checkout.root}: no checkout of ncubble, so there is no other revision of its kernels",
            "name the folder of your own kernels by --catalog DIR, or a program after --",
        )
    return Path()


def _told(plan: AgainstPlan) -> Iterator[str]:
    """What is compared with what."""
    here = plan.checkout
    parts = [_listed(here.changed, "changed"), _listed(here.untracked, "untracked")]
    state = f"with {' and '.join(part for part in parts if part)}" if any(parts) else "without uncommitted changes"
    yield f"baseline: {plan.revision} ({plan.sha[:7]}); now: the working tree at {here.sha[:7]} {state}"
    if here.sha == plan.sha and not any(parts):
        yield "both sides are the same commit: any difference is noise"


def _listed(names: Sequence[str], what: str) -> str:
    """``2 changed files (a.cu, b.cu)``; empty where there are none."""
    if not names:
        return ""
    shown = ", ".join(names[:_SHOWN]) + (" …" if names[_SHOWN:] else "")
    return f"{len(names)} {what} file{'s' if len(names) > 1 else ''} ({shown})"


def _turns(rounds: int) -> str:
    order = " ".join(side for number in range(rounds) for side in ("AB" if number % 2 == 0 else "BA"))
    processes = f"{rounds} processes" if rounds > 1 else "a process"
    return f"one GPU, {processes} of each side in turns ({order}; A is the baseline)"


def _take_program(
    plan: AgainstPlan, pair: tuple[RevisionSide, RevisionSide], taken: CheckInputs, kept: list[Path]
) -> None:
    program, command = plan.measuring.program or [], plan.measuring.build
    refuse_fixed_paths(plan.checkout.root, program, "--")
    refuse_fixed_paths(plan.checkout.root, [command], "--build")
    for side in pair:
        with _blame(side):
            if command:
                typer.echo(f"building {side.what}", err=True)
                build(side, command, lambda stream, text: typer.echo(text, nl=False, err=True))
            require_program(side, program)
    if plan.measuring.skip_same:
        taken.notes.append(NOT_SKIPPED)
    out = _out_of(plan, Path(program[0]).name)
    runs = _measure(plan, pair, {side.name: (program, "") for side in pair}, out, kept)
    _check_against(plan, runs, taken, same=None)


def _take_kernel(
    plan: AgainstPlan,
    pair: tuple[RevisionSide, RevisionSide],
    subject: CatalogKernel,
    taken: CheckInputs,
    kept: list[Path],
) -> None:
    """Measure one kernel of the catalog on both sides, unless A lacks it, or ``--skip-same`` applies."""
    old, new = pair
    with _blame(new):  # first: what is wrong with the request is wrong here, too
        there = describe(plan.measuring, new, subject)
    try:
        before = describe(plan.measuring, old, subject)
    except UsageError as error:
        reason = f"{old.what} does not have it: {error.message}"
        taken.judged.append(_verdict(there.label, "not_comparable", reason))
        return
    same = there.likeness(before)
    if plan.measuring.skip_same and same == SAME:
        taken.judged.append(_verdict(there.label, "pass", SKIPPED.format(old.what)))
        return
    if plan.measuring.skip_same and same is None:
        taken.notes.append(f"{there.label}: {NOT_SKIPPED}")
    described = ((old, before), (new, there))
    programs = {side.name: (launching(plan.measuring, side, subject), launch.function) for side, launch in described}
    runs = _measure(plan, pair, programs, _out_of(plan, subject.label), kept)
    _check_against(plan, runs, taken, same)


def _verdict(label: str, verdict: str, reason: str) -> KernelVerdict:
    from ncubble.analysis.gate.verdicts import KernelVerdict

    return KernelVerdict(label, "", verdict, reason)


def _out_of(plan: AgainstPlan, label: str) -> Path:
    from ncubble.profiling.staging import default_out

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", label.replace("=", ""))
    if plan.measuring.out is not None:
        return plan.measuring.out / name
    return fresh(default_out(f"{name}-against-{plan.sha[:7]}"))


def _measure(
    plan: AgainstPlan,
    pair: tuple[RevisionSide, RevisionSide],
    programs: dict[str, tuple[list[str], str]],
    out: Path,
    kept: list[Path],
) -> dict[str, list[Path]]:
    """The runs of both sides, by their names: ``out/a/1``, ``out/b/1``, …, each a process."""
    if out.exists():
        raise UsageError(f"{out} exists", "choose another --out")
    rounds = plan.measuring.rounds or ROUNDS
    runs: dict[str, list[Path]] = {side.name: [] for side in pair}
    for number, side in in_turns(pair, rounds):
        place = out / side.name.lower() / str(number)
        typer.echo(f"round {number} of {rounds}, {side.name}: {side.what}", err=True)
        with _blame(side):
            profiled(plan.measuring, programs[side.name], plan.options.kernel, place, side.place)
        kept.append(place)
        runs[side.name].append(place)
    typer.echo(f"side by side: ncubble compare {out / 'a'} {out / 'b'}", err=True)
    return runs


def _blame(side: RevisionSide) -> AbstractContextManager[None]:
    """What fails in the working tree says something of it; what fails in the other revision says nothing."""
    return of_subject() if side.name == "B" else nullcontext()


def _check_against(plan: AgainstPlan, runs: dict[str, list[Path]], taken: CheckInputs, same: str | None) -> None:
    """Add B's runs to what is to be judged, with baselines of A's. ``same`` is to be said of the machine code; None
    where only the reports show it."""
    from ncubble.analysis.gate import repeats
    from ncubble.analysis.report.report import open_reports

    before, failures = open_reports(runs["A"])
    taken.errors.extend((str(failure.path), failure.error.message) for failure in failures)
    groups, notes = repeats.collect(before, nvtx=plan.nvtx)
    turns = _turns(len(runs["A"]))
    taken.notes.extend([*([] if turns in taken.notes else [turns]), *notes])
    taken.paths.extend(runs["B"])
    for group in groups:
        _add_baseline(plan, group, taken)
    now, _ = open_reports(runs["B"])
    _refuse_changes(now, taken)
    if same:
        taken.notes.extend(f"{label}: {same}" for label in sorted({report.run.label for report in now}))


def _add_baseline(plan: AgainstPlan, group: Any, taken: CheckInputs) -> None:
    from ncubble.analysis.gate import baseline

    recorded = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        made = baseline.record(
            [group], recorded, baseline.FEWEST_REPEATS, allow_suspicious=plan.options.allow_suspicious
        )
    except NcubbleError as error:
        taken.errors.append((f"{plan.revision} ({plan.sha[:7]})", error.message))
        return
    assert taken.baselines is not None  # noqa: S101 (made with the object)
    taken.baselines.extend(made)


def _refuse_changes(now: Sequence[Report], taken: CheckInputs) -> None:
    """Someone may edit the working tree while it is measured: then its repeats are none."""
    builds = [report.run.manifest.build for report in now]
    built = {build.get("code_sha256") or build.get("cubin_sha256") for build in builds}
    if len(built) > 1:
        taken.errors.append(("the working tree", "it changed while it was measured: its runs hold several builds"))
