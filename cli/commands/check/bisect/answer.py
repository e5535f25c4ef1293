"""The end of a search: the step of the culprit from its own parent, and the comparison that all outputs show."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ncubble.analysis.gate.bisect.code import code_changes
from ncubble.analysis.gate.bisect.judging import Aim, CandidateJudgement, aims, confirmed, kernel_of
from ncubble.analysis.gate.bisect.result import BisectResult
from ncubble.cli.commands.check.bisect.hunt import Hunt, progress, steps_of
from ncubble.cli.commands.check.bisect.measuring import OF_THE_MACHINE, GoodSideError, PairResult, rounds_at
from ncubble.errors import MeasurementError, UsageError

if TYPE_CHECKING:
    from ncubble.analysis.gate.check.result import GateResult, KernelVerdict


def answer(hunt: Hunt, suspects: tuple[str, ...]) -> BisectResult:
    """The result of a search that is over. ``suspects``: all that may be the first bad one."""
    assert hunt.proof is not None  # noqa: S101 (the proof came before)
    candidates = tuple(hunt.range.candidate(name) for name in suspects)
    result = BisectResult(
        kind=hunt.range.kind,
        good=hunt.range.good,
        bad=hunt.range.candidate(hunt.bad),
        number=len(hunt.range.candidates.order),
        gate=hunt.proof.gate,
        aim=hunt.aim,
        suspects=candidates,
        judged=tuple(hunt.judged),
        notes=tuple(hunt.range.notes()),
        folder=str(hunt.journal.folder),
        more=tuple(aim for aim in aims(hunt.proof.gate) if hunt.aim and aim.key != hunt.aim.key),
    )
    if hunt.aim is None:
        return result
    pair = hunt.proof
    if result.culprit is not None:
        result, pair = _with_step(hunt, result, hunt.aim)
    return replace(result, gate=_with_code(result, pair, hunt.aim))


def _with_step(hunt: Hunt, result: BisectResult, aim: Aim) -> tuple[BisectResult, PairResult]:
    """``result`` with what the culprit lost against its own parent, and the comparison to show."""
    assert hunt.proof is not None and result.culprit is not None  # noqa: S101 (asked for where both are)
    name = result.culprit.name
    parent = hunt.range.parent(name)
    if parent is None:
        return result, hunt.proof
    progress(f"confirming {result.culprit.words} against its parent {parent[:12]}")
    try:
        pair = _step(hunt, name, parent, aim)
    except (UsageError, MeasurementError) as error:
        if isinstance(error, OF_THE_MACHINE) and not isinstance(error, GoodSideError):
            raise
        note = f"the step from its parent {parent[:12]} was not measured: {error.message}"
        return replace(result, notes=(*result.notes, note)), hunt.proof
    sure = confirmed(aim, pair.gate)
    kernel = kernel_of(pair.gate, aim)
    step = _step_judgement(kernel, aim)
    known = replace(result, against=hunt.range.candidate(parent), confirmed=sure, step=step)
    return (replace(known, gate=pair.gate), pair) if sure and pair.gate.verdict == "regressed" else (known, hunt.proof)


def _step(hunt: Hunt, name: str, parent: str, aim: Aim) -> PairResult:
    """The culprit (B) against its parent (A), with more repeats while the step is not confirmed."""
    bench = hunt.bench
    of_good = parent == hunt.range.good.name
    place = hunt.place(name) if of_good else hunt.place(name).with_name(f"{hunt.place(name).name}-step")
    done = rounds_at(place)
    if done >= bench.rounds and confirmed(aim, (pair := bench.judged(place, done)).gate):
        return pair
    with ExitStack() as stack:
        before = hunt.good if of_good else bench.ready(stack.enter_context(hunt.range.opened(parent, "A")))
        now = bench.ready(stack.enter_context(hunt.range.opened(name, "B")))
        for rounds in steps_of(bench):
            pair = bench.compared((before, now), place, max(rounds, done))
            if confirmed(aim, pair.gate):
                break
    return pair


def _step_judgement(kernel: KernelVerdict | None, aim: Aim) -> CandidateJudgement | None:
    if kernel is None:
        return None
    for metric in kernel.metrics:
        if metric.name == aim.name and metric.comparison is not None:
            test = metric.comparison
            return CandidateJudgement(metric.verdict, metric.reason, test.loss_pct, test.reach_pct)
    return next(
        (
            CandidateJudgement(rule.verdict, rule.reason, rule.value)
            for rule in kernel.rules
            if rule.rule.text == aim.name
        ),
        None,
    )


def _with_code(result: BisectResult, pair: PairResult, aim: Aim) -> GateResult:
    """The comparison with what changed in the machine code, among the notes of its kernel."""
    kernel = kernel_of(pair.gate, aim)
    changes = code_changes(pair.before, pair.now, aim.kernel)
    kernels = tuple(
        replace(item, notes=(*item.notes, *([changes] if changes else []))) if item is kernel else item
        for item in pair.gate.kernels
    )
    return replace(pair.gate, kernels=kernels, notes=(*pair.gate.notes, *result.notes))
