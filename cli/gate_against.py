"""``ncubble check --against REV``: the working tree and another revision, built and profiled in turns.

A is REV in a temporary worktree, B the working tree as it is, uncommitted changes included. The repeats of A are the
baseline in memory, those of B are what is judged. Both are measured in the same minutes on the same GPU, so that no
shift between machine starts, clocks or drivers enters.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ncubble.cli.gate_now import Subject, Taken, keeping, profiled, subjects_of
from ncubble.cli.gate_options import ROUNDS, Measuring
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.profiling.sides import Side, build, in_turns, refuse_fixed_paths, require_program, sides
from ncubble.profiling.worktree import Checkout, checkout_of, worktree

if TYPE_CHECKING:
    from ncubble.analysis.gate_result import KernelVerdict
    from ncubble.analysis.report import Report

SAME = "the machine code is the same on both sides: any difference is noise, or comes from outside of the kernel"
SKIPPED = "machine code and launch are the same as in {}: not measured (--skip-same)"
_SHOWN = 3
_DESCRIBE_S = 900.0


@dataclass(frozen=True)
class Plan:
    """A comparison: what was asked for, the user's tree, the commit, and the expression of ``--kernel``."""

    measuring: Measuring
    checkout: Checkout
    sha: str
    kernel: str
    nvtx: bool

    @property
    def revision(self) -> str:
        """REV as it was given."""
        return self.measuring.against or ""


def take_against(measuring: Measuring, names: Sequence[Path], kernel: str, nvtx: bool) -> Taken:
    """Measure both sides: the runs of B, with baselines made of A's. Raises UsageError and MeasurementError; then
    neither runs nor the worktree are left."""
    measuring.check(names)
    checkout = checkout_of(measuring.catalog or Path.cwd())
    sha = checkout.resolve(measuring.against or "")
    plan = Plan(measuring, checkout, sha, kernel, nvtx)
    folder = _folder(plan)
    if not checkout.holds(sha, folder):
        raise UsageError(
            f"{folder} is not in {plan.revision} ({sha[:7]})", "name a revision that has it, or measure with --profile"
        )
    with ending_cleanly(), worktree(checkout, sha) as tree, keeping() as kept:
        pair = sides(checkout, plan.revision, sha, tree, folder)
        taken = Taken([], baselines=[], alike=True, notes=[*_told(plan)])
        if measuring.program is not None:
            _take_program(plan, pair, taken, kept)
        for subject in subjects_of(measuring, names):
            _take_kernel(plan, pair, subject, taken, kept)
        return taken


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """SIGINT, SIGTERM and a closed terminal end the block by an exception, so that what it made is removed."""

    def end(number: int, frame: Any) -> None:
        raise typer.Exit(128 + number)

    numbers = [item for item in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(item) is not signal.SIG_IGN]
    before = {item: signal.signal(item, end) for item in numbers}
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("ncubble: interrupted; nothing was kept", err=True)
        raise typer.Exit(130) from None
    finally:
        for item, handler in before.items():
            signal.signal(item, handler)


def _folder(plan: Plan) -> Path:
    """Where in the tree the subject lies: the catalog, the root of ncubble's own, or the working directory."""
    if plan.measuring.catalog is not None:
        return plan.checkout.place_of(plan.measuring.catalog)
    if plan.measuring.program is not None:
        return plan.checkout.place_of(Path.cwd())
    if not (plan.checkout.root / "kernels" / "specs").is_dir():
        raise UsageError(
            f"{plan.checkout.root}: no checkout of ncubble, so there is no other revision of its kernels",
            "name the folder of your own kernels by --catalog DIR, or a program after --",
        )
    return Path()


def _told(plan: Plan) -> Iterator[str]:
    """What is compared with what."""
    changed, head = plan.checkout.changed, plan.checkout.sha
    names = ", ".join(changed[:_SHOWN]) + (" …" if changed[_SHOWN:] else "")
    state = f"with uncommitted changes in {len(changed)} files ({names})" if changed else "without uncommitted changes"
    yield f"baseline: {plan.revision} ({plan.sha[:7]}); now: the working tree at {head[:7]} {state}"
    if head == plan.sha and not changed:
        yield "both sides are the same commit: any difference is noise"


def _take_program(plan: Plan, pair: tuple[Side, Side], taken: Taken, kept: list[Path]) -> None:
    program, command = plan.measuring.program or [], plan.measuring.build
    refuse_fixed_paths(plan.checkout.root, program, "--")
    refuse_fixed_paths(plan.checkout.root, command.split(), "--build")
    for side in pair:
        if command:
            typer.echo(f"building {side.what}", err=True)
            build(side, command, lambda stream, text: typer.echo(text, nl=False, err=True))
        require_program(side, program)
    out = _out_of(plan, Path(program[0]).name)
    runs = _measure(plan, pair, {side.name: (program, "") for side in pair}, out, kept)
    _judge_against(plan, runs, taken, known_same=None)


def _take_kernel(plan: Plan, pair: tuple[Side, Side], subject: Subject, taken: Taken, kept: list[Path]) -> None:
    """Measure one kernel of the catalog on both sides, unless A lacks it, or ``--skip-same`` applies."""
    told = {}
    for side in reversed(pair):  # what is wrong with the request is wrong with B, too
        try:
            told[side.name] = _describe(plan, side, subject)
        except UsageError as error:
            if side.name == "B":
                raise
            reason = f"{side.what} does not have it: {error.message}"
            taken.judged.append(_verdict(told["B"]["label"], "not_comparable", reason))
            return
    code = told["A"]["code"], told["B"]["code"]
    same = None if None in code else code[0] == code[1]
    label = told["B"]["label"]
    if plan.measuring.skip_same and same and told["A"]["launch"] == told["B"]["launch"]:
        taken.judged.append(_verdict(label, "pass", SKIPPED.format(pair[0].what)))
        return
    programs = {side.name: (_launching(plan, side, subject), told[side.name]["function"]) for side in pair}
    runs = _measure(plan, pair, programs, _out_of(plan, subject.label), kept)
    _judge_against(plan, runs, taken, known_same=same)


def _verdict(label: str, verdict: str, reason: str) -> KernelVerdict:
    from ncubble.analysis.gate_result import KernelVerdict

    return KernelVerdict(label, "", verdict, reason)


def _arguments(plan: Plan, side: Side, subject: Subject) -> list[str]:
    """What follows the module: the kernel, its settings, and the folder that it is of."""
    settings = [text for item in subject.parameters for text in ("-p", item)]
    shape = ["--shape", subject.shape] if subject.shape else []
    catalog = ["--catalog", str(side.folder)] if plan.measuring.catalog is not None else []
    return [subject.name, *settings, *shape, *catalog]


def _module(plan: Plan, side: Side) -> list[str]:
    """The program that knows the kernels of ``side``: this ncubble with the side's catalog, or the side's ncubble."""
    tree = [] if plan.measuring.catalog is not None else ["--tree", str(side.root)]
    return [sys.executable, "-P", "-m", "ncubble.kernels.other_tree", *tree]


def _launching(plan: Plan, side: Side, subject: Subject) -> list[str]:
    once = ["--once", "--no-verify", "--launches", str(plan.measuring.launches)]
    return [*_module(plan, side), *_arguments(plan, side, subject), *once]


def _describe(plan: Plan, side: Side, subject: Subject) -> dict[str, Any]:
    """What ``side`` would launch, by a process of its own. Raises UsageError where it has no such kernel, or not with
    these settings, MeasurementError where it cannot be built."""
    argv = [*_module(plan, side), "--describe", _arch(), *_arguments(plan, side, subject)]
    env = {**os.environ, **side.place.env}
    try:
        done = subprocess.run(
            argv, cwd=side.folder, env=env, capture_output=True, text=True, timeout=_DESCRIBE_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"{side.what}: no build within {_DESCRIBE_S:g} s", "look for a hanging tool") from error
    if done.returncode == 0:
        told: dict[str, Any] = json.loads(done.stdout)
        return told
    message, _, remedy = done.stderr.strip().removeprefix("ncubble.kernels: ").partition("\n  remedy: ")
    if done.returncode == UsageError.exit_code:
        raise UsageError(message, remedy)
    last = message if done.returncode == MeasurementError.exit_code else message[-1000:]
    raise MeasurementError(f"{side.what}: {last}", remedy or "run the kernel of that revision by hand to see why")


def _arch() -> str:
    """nvcc's name of the GPU's architecture, or what stands for none."""
    from ncubble.kernels.build import arch_for
    from ncubble.kernels.other_tree import NOT_BUILT
    from ncubble.profiling.device import DriverError, describe

    try:
        capability = describe().capability
    except DriverError:
        return NOT_BUILT
    return arch_for(capability.major, capability.minor)


def _out_of(plan: Plan, label: str) -> Path:
    from ncubble.cli.profile import default_out

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", label.replace("=", ""))
    if plan.measuring.out is not None:
        return plan.measuring.out / name
    return default_out(f"{name}-against-{plan.sha[:7]}")


def _measure(
    plan: Plan, pair: tuple[Side, Side], programs: dict[str, tuple[list[str], str]], out: Path, kept: list[Path]
) -> dict[str, list[Path]]:
    """The runs of both sides, by their names: ``out/a/1``, ``out/b/1``, …, each a process."""
    if out.exists():
        raise UsageError(f"{out} exists", "choose another --out")
    rounds = plan.measuring.rounds or ROUNDS
    runs: dict[str, list[Path]] = {side.name: [] for side in pair}
    for number, side in in_turns(pair, rounds):
        place = out / side.name.lower() / str(number)
        typer.echo(f"round {number} of {rounds}, {side.name}: {side.what}", err=True)
        profiled(plan.measuring, programs[side.name], plan.kernel, place, side.place)
        kept.append(place)
        runs[side.name].append(place)
    typer.echo(f"side by side: ncubble compare {out / 'a'} {out / 'b'}", err=True)
    return runs


def _judge_against(plan: Plan, runs: dict[str, list[Path]], taken: Taken, known_same: bool | None) -> None:
    """Add B's runs to what is to be judged, with baselines of A's; say where the machine code is the same."""
    from ncubble.analysis import repeats
    from ncubble.analysis.report import open_reports

    before, failures = open_reports(runs["A"])
    taken.errors.extend((str(failure.path), failure.error.message) for failure in failures)
    groups, notes = repeats.collect(before, nvtx=plan.nvtx)
    taken.notes.extend(notes)
    taken.paths.extend(runs["B"])
    for group in groups:
        _add_baseline(plan, group, taken)
    now, _ = open_reports(runs["B"])
    _refuse_changes(now, taken)
    for name in _same_kernels(before, now, known_same):
        taken.notes.append(f"{name}: {SAME}")


def _add_baseline(plan: Plan, group: Any, taken: Taken) -> None:
    from ncubble.analysis import baseline

    recorded = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        made = baseline.record([group], recorded, baseline.FEWEST_REPEATS)
    except NcubbleError as error:
        taken.errors.append((f"{plan.revision} ({plan.sha[:7]})", error.message))
        return
    assert taken.baselines is not None  # noqa: S101 (made with the object)
    taken.baselines.extend(made)


def _refuse_changes(now: Sequence[Report], taken: Taken) -> None:
    """Someone may edit the working tree while it is measured: then its repeats are none."""
    built = {report.run.manifest.build.get("cubin_sha256") for report in now}
    if len(built) > 1:
        taken.errors.append(("the working tree", "it changed while it was measured: its runs hold several builds"))


def _same_kernels(before: Sequence[Report], now: Sequence[Report], known: bool | None) -> list[str]:
    """Labels of kernels whose machine code is the same on both sides, as far as that can be told."""
    from ncubble.analysis import same_code

    if known is not None:
        return sorted({report.run.label for report in now}) if known else []
    return same_code.same(same_code.codes(before), same_code.codes(now))
