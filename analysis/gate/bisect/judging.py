"""Whether a candidate is good or bad: on which side of the half of a loss that was proven. Pure.

First BAD must be a regression against GOOD, by the gate's rule and the user's limits. What
regressed most, one metric of one kernel, is the *aim*, and its loss L what the search is for. A
candidate is

- **bad** if it lost more than half of L against GOOD, beyond chance: the gate's rule with the limit
  L. It is measured in turns with GOOD.
- **good** if BAD lost more than half of L against the candidate, beyond chance. BAD's repeats are
  those of the proof.

Else it is *unsure*, and gets more repeats. So both verdicts need proof, and a test without power
cannot call a candidate good. The half is the point that is farthest from both ends: a comparison
with a neighbour would look for a step of unknown size, and one by the user's limit would name the
first small step where a large one is sought. A step of more than half of L is always the one that
is named; smaller ones are left for another search.

A limit in points or an absolute one has no such half: its own verdict decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ncubble.analysis.gate.check.kernel_rules import one_gpu
from ncubble.analysis.gate.check.result import GateResult, KernelVerdict, MetricVerdict
from ncubble.analysis.gate.check.rule_verdict import RuleVerdict
from ncubble.analysis.gate.noise.metrics import BY_NAME, GateMetric
from ncubble.analysis.gate.noise.noise import ALPHA, NoiseTest, Sample, compare, mean_sd


@dataclass(frozen=True)
class Aim:
    """What is searched for: a metric, or a limit by its text, of the kernel with the canonical key
    ``key`` and the name ``kernel``. ``loss_pct``: L, in percent of GOOD's mean (points, or the
    value, for a limit); ``reach_pct``: half of its 95 % interval; ``mean``: GOOD's mean."""

    key: str
    kernel: str
    label: str
    name: str
    loss_pct: float
    reach_pct: float = 0.0
    mean: float = 0.0
    rule: bool = False


@dataclass(frozen=True)
class CandidateJudgement:
    """``verdict``: good, bad or unsure. ``loss_pct`` and ``reach_pct`` (half of its 95 % interval)
    against GOOD, ``missing_pct``: what BAD lost against the candidate; None where not measured."""

    verdict: str
    reason: str = ""
    loss_pct: float | None = None
    reach_pct: float | None = None
    missing_pct: float | None = None


def aims(result: GateResult) -> list[Aim]:
    """What regressed, the heaviest first: by how many times the loss exceeds what would count."""
    weighed: list[tuple[float, Aim]] = []
    for kernel in result.kernels:
        if kernel.baseline is None:
            continue
        key = kernel.baseline.key
        names = (key.canonical, key.kernel, kernel.label)
        for metric in kernel.metrics:
            if metric.verdict == "regressed" and metric.comparison is not None:
                test, mean = metric.comparison, mean_sd(metric.baseline.measured)[0]
                aim = Aim(*names, metric.name, test.loss_pct, test.reach_pct, mean)
                weighed.append((test.loss_pct / test.threshold_pct, aim))
        for rule in kernel.rules:
            if rule.verdict == "regressed":
                weighed.append((0.0, Aim(*names, rule.rule.text, rule.value or 0.0, rule=True)))
    return [aim for _, aim in sorted(weighed, key=lambda pair: -pair[0])]


def undecided(result: GateResult) -> bool:
    """Whether more repeats may turn the result into a regression: nothing regressed, and some test
    was inconclusive."""
    tests: list[MetricVerdict | RuleVerdict] = []
    for kernel in result.kernels:
        tests += [*kernel.metrics, *kernel.rules]
    open_ = any(item.verdict == "not_comparable" and item.comparison is not None for item in tests)
    return open_ and result.verdict != "regressed"


def kernel_of(result: GateResult, aim: Aim) -> KernelVerdict | None:
    """The verdict on the kernel of ``aim``, by its key or, where its grid changed, by its name
    alone; None where the result has none that was launched."""
    launched = [kernel for kernel in result.kernels if kernel.baseline is not None and kernel.repeats]
    for kernel in launched:
        if kernel.baseline is not None and kernel.baseline.key.canonical == aim.key:
            return kernel
    named = [kernel for kernel in launched if kernel.baseline and kernel.baseline.key.kernel == aim.kernel]
    return named[0] if len(named) == 1 else None


def judge(aim: Aim, candidate: GateResult, bad: KernelVerdict, *, same_gpu: bool = False) -> CandidateJudgement:
    """The judgement on a candidate. ``candidate``: it against GOOD; ``bad``: the kernel of ``aim``
    in BAD, from the proof."""
    kernel = kernel_of(candidate, aim)
    if kernel is None:
        reasons = [item.reason for item in candidate.kernels if item.reason] or ["it was not launched"]
        return CandidateJudgement("unsure", f"{aim.label}: {reasons[0]}")
    if aim.rule:
        return _by_rule(aim, kernel)
    metric = next((item for item in kernel.metrics if item.name == aim.name), None)
    if metric is None or metric.comparison is None:
        return CandidateJudgement(
            "unsure", (metric.reason if metric else "") or kernel.reason or f"no {aim.name} was measured"
        )
    before, now, far = _samples(metric, kernel, bad)
    if not far.values:
        return CandidateJudgement("unsure", f"BAD has no {metric.baseline.counter}")
    return weigh(before, now, far, BY_NAME[aim.name], aim.loss_pct, same_gpu=same_gpu)


def weigh(
    good: Sample, candidate: Sample, bad: Sample, metric: GateMetric, loss_pct: float, *, same_gpu: bool = False
) -> CandidateJudgement:
    """The judgement on repeats of one metric; ``loss_pct`` is L, in percent of the mean of
    ``good``. Raises ValueError for fewer values than ``noise.compare`` needs."""
    lost, own = _compared(good, candidate, metric, loss_pct, same_gpu), mean_sd(candidate.values)[0]
    missing = None  # percentages of a mean of 0 are undefined: a kernel without tensor instructions
    if own:
        missing = _compared(candidate, bad, metric, loss_pct * mean_sd(good.values)[0] / own, same_gpu)
    verdict = "unsure"
    if lost.outcome == "regressed":
        verdict = "bad"
    elif missing is not None and missing.outcome == "regressed":
        verdict = "good"
    reason = "" if verdict != "unsure" else _between(lost, loss_pct)
    return CandidateJudgement(verdict, reason, lost.loss_pct, lost.reach_pct, missing.loss_pct if missing else None)


def _compared(first: Sample, other: Sample, metric: GateMetric, loss_pct: float, same_gpu: bool) -> NoiseTest:
    if one_gpu(first.gpus, other.gpus, same_gpu):
        first, other = replace(first, gpus=()), replace(other, gpus=())
    return compare(first, other, better=metric.better, limit_pct=loss_pct, cv_pct=metric.cv_pct, shifts=metric.shifts)


def _between(lost: NoiseTest, loss_pct: float) -> str:
    near = abs(lost.loss_pct - loss_pct / 2) <= lost.reach_pct
    if near:
        return f"it lost {lost.loss_pct:.2f} %, about half of the {loss_pct:.2f} % searched for"
    return f"it lost {lost.loss_pct:.2f} %, but its repeats scatter (±{lost.reach_pct:.2f})"


def _samples(metric: MetricVerdict, kernel: KernelVerdict, bad: KernelVerdict) -> tuple[Sample, Sample, Sample]:
    known, counter = BY_NAME[metric.name], metric.baseline.counter
    assert kernel.baseline is not None and kernel.repeats is not None  # noqa: S101 (``kernel_of`` gives no other)
    far = bad.repeats.sample(known, counter) if bad.repeats else Sample(())
    return kernel.baseline.sample(metric.name), kernel.repeats.sample(known, counter), far


def _by_rule(aim: Aim, kernel: KernelVerdict) -> CandidateJudgement:
    rule = next((item for item in kernel.rules if item.rule.text == aim.name), None)
    if rule is None:
        return CandidateJudgement("unsure", kernel.reason or f"'{aim.name}' was not judged")
    verdict = {"regressed": "bad", "pass": "good"}.get(rule.verdict, "unsure")
    return CandidateJudgement(verdict, "" if verdict == "good" else rule.reason, rule.value)


def confirmed(aim: Aim, step: GateResult) -> bool:
    """Whether a culprit lost more than half of L against its own parent, beyond chance. ``step``:
    it against the parent."""
    kernel = kernel_of(step, aim)
    if kernel is None:
        return False
    if aim.rule:
        return any(rule.verdict == "regressed" and rule.rule.text == aim.name for rule in kernel.rules)
    return any(
        test.p_value < ALPHA and (test.loss_pct - test.clock_pct) * mean_sd(metric.baseline.measured)[0] > half
        for metric in kernel.metrics
        for half in (aim.loss_pct / 2 * aim.mean,)
        if metric.name == aim.name and (test := metric.comparison) is not None
    )
