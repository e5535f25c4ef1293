"""The verdict on what a test measured: against ``min``, against the baseline, and what is said and kept of it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from ncubble.analysis.gate import baseline_file
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.gate.output import cells, number
from ncubble.analysis.gate.repeats import Repeats, listed
from ncubble.analysis.gate.rules import GateRules
from ncubble.analysis.gate.settings import load
from ncubble.analysis.gate.verdicts import CheckOptions, GateResult
from ncubble.cli.pytest_plugin.measured import Measured, MeasuredKernel
from ncubble.cli.pytest_plugin.plan import Gate
from ncubble.cli.pytest_plugin.record import record
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.text.markup import printable

TENSOR = "tensor_elapsed_pct"
_WIDTH = 120
_RULES = pytest.StashKey[GateRules]()
_KEEP = "\n(--ncubble-runs DIR keeps the profiled runs for `ncubble report`)"


@dataclass(frozen=True)
class Judgement:
    """``verdict`` is one of the gate's (``pass``, ``improved``, ``regressed``, ``not_comparable``,
    ``nothing_measured``), or ``below_min``. ``line`` says it with figures in one line, ``text`` with all details;
    ``result`` is the comparison with the baseline, or with limits that need none; None where there is only ``min``."""

    verdict: str
    line: str
    text: str
    result: GateResult | None = None

    @property
    def passed(self) -> bool:
        """Whether everything was measured and nothing is too slow."""
        return self.verdict in ("pass", "improved")


def judge(result: Measured, gate: Gate, item: pytest.Item, recording: bool = False) -> Judgement:
    """Hold what was measured to ``gate`` and the project's limits; where it is ``recording``, to what needs no
    baseline. Raises UsageError for a baseline that does not exist."""
    if not result.kernels:
        why = "; ".join(f"{path}: {message}" for path, message in result.errors) or "no launch was measured"
        return Judgement("nothing_measured", why, why)
    low, absolute = _below(result.kernels, gate.min)
    compared = _alone(result, gate, item) if recording or not gate.baseline else _compare(result, gate, item)
    verdict = _worst(low, compared, bool(result.errors))
    details = [*absolute, *([_rendered(compared)] if compared is not None else [])]
    if compared is None:
        details += [f"could not read {path}: {message}" for path, message in result.errors]
    accepted = [f"accepted although suspicious: {text}" for text in listed(result.suspicious)]
    line = "; ".join([*(_line(kernel, gate, compared) for kernel in result.kernels), *accepted])
    return Judgement(verdict, printable(line), "\n".join(details), compared)


def _below(kernels: Sequence[MeasuredKernel], least: float | None) -> tuple[str, list[str]]:
    """The verdict of ``min``, or "", and a sentence for each kernel that does not keep it."""
    if least is None:
        return "", []
    verdicts, sentences = set(), []
    for kernel in kernels:
        values = kernel.values.get(TENSOR, ())
        name = printable(kernel.label)
        if len(values) < kernel.launches:
            verdicts.add("nothing_measured")
            lack = f"{kernel.launches - len(values)} of {kernel.launches} launches lack {TENSOR}"
            sentences.append(f"{name}: {lack}: profile with the set tensor")
        elif not mean_sd(values)[0] >= least:
            verdicts.add("below_min")
            spread = f"{len(values)} launches, {min(values):.2f} to {max(values):.2f}"
            sentences.append(f"{name}: {TENSOR} is {mean_sd(values)[0]:.2f} %, below min={least:g} ({spread})")
    if sentences and len(kernels) > 1:
        sentences.append(f"{len(kernels)} kernels were measured, and min= applies to each: choose with kernel=REGEX")
    return next((name for name in ("below_min", "nothing_measured") if name in verdicts), ""), sentences


def check_request(gate: Gate, item: pytest.Item) -> None:
    """Raise UsageError, before anything is measured, where nothing could fail, or the baselines do not exist."""
    gate.require()
    _project_rules(item.config)
    place = gate.place(item)
    if gate.baseline and not place.exists() and not item.config.getoption("--ncubble-record"):
        raise UsageError(f"{place}: no such baseline file or folder", "record it: pytest --ncubble-record")


def _compare(result: Measured, gate: Gate, item: pytest.Item) -> GateResult:
    place = gate.place(item)
    baselines, broken = baseline_file.load_store(place)
    errors = [*result.errors, *((str(place), error.message) for error in broken)]
    rules = _rules_of(gate, item.config, result.groups)
    return check(result.groups, baselines, _options(result, rules, place.is_dir()), errors, result.notes)


def _alone(result: Measured, gate: Gate, item: pytest.Item) -> GateResult | None:
    """Held to absolute limits alone; None where there is none."""
    rules = _rules_of(gate, item.config, result.groups)
    if not _any_absolute(rules, result.groups):
        return None
    return check(result.groups, [], _options(result, rules, allow_new=True), result.errors, result.notes)


def _options(result: Measured, rules: GateRules, exact: bool = True, allow_new: bool = False) -> CheckOptions:
    return CheckOptions(rules, exact, allow_new=allow_new, allow_suspicious=result.allows_suspicious)


def _project_rules(config: pytest.Config) -> GateRules:
    """The limits that the project of pytest's root keeps, read once a session; none with ``--ncubble-no-config``.

    Raises NcubbleError for a table that says something wrong.
    """
    if _RULES not in config.stash:
        ignored = config.getoption("--ncubble-no-config")
        config.stash[_RULES] = GateRules() if ignored else load(config.rootpath).rules
    return config.stash[_RULES]


def _rules_of(gate: Gate, config: pytest.Config, groups: Sequence[Repeats]) -> GateRules:
    """The table's limits with ``gate``'s as the last word. Entries for kernels that this test did not launch are left
    out: other tests launch these, so that they are not missed here. Raises NcubbleError for a wrong table."""
    kept = _project_rules(config)
    here = [
        override
        for override in kept.overrides
        if any(override.matches(group.key.label, group.key.kernel) for group in groups)
    ]
    return replace(kept, overrides=tuple(here)).plus(gate.rules)


def _any_absolute(rules: GateRules, groups: Sequence[Repeats]) -> bool:
    """Whether some kernel has a limit that needs no baseline."""
    by_metric = (rules.of(group.key.label, group.key.kernel).values() for group in groups)
    return any(rule.absolute for metrics in by_metric for metric in metrics for rule in metric)


def _worst(low: str, compared: GateResult | None, errors: bool) -> str:
    verdicts = [low, compared.verdict if compared is not None else "", "not_comparable" if errors else ""]
    ranks = ("below_min", "regressed", "not_comparable", "nothing_measured", "improved")
    return next((rank for rank in ranks if rank in verdicts), "pass")


def _rendered(result: GateResult) -> str:
    """The table of ``ncubble check``, as plain text."""
    from rich.console import Console

    from ncubble.cli.commands.check.render import print_result

    sink = io.StringIO()
    print_result(result, Console(file=sink, width=_WIDTH, color_system=None, highlight=False))
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())


def _line(kernel: MeasuredKernel, gate: Gate, compared: GateResult | None) -> str:
    figure = kernel.metrics.get(TENSOR)
    facts = [f"tensor {figure:.1f} %" if figure is not None else "tensor not collected"]
    facts += [f"min {gate.min:g}"] if gate.min is not None else []
    facts += list(_changes(kernel, compared))
    facts.append(f"{kernel.launches} launch{'es' if kernel.launches != 1 else ''}")
    return f"{kernel.label}: {', '.join(facts)}"


def _changes(kernel: MeasuredKernel, compared: GateResult | None) -> Iterator[str]:
    """How the gated metrics of one kernel compare with its baseline, and its parts and metrics with their limits."""
    for item in compared.kernels if compared is not None else ():
        if (item.label, item.device) != (kernel.label, kernel.device):
            continue
        gated = [metric for metric in item.metrics if metric.comparison is not None and metric.verdict != "info"]
        for metric in gated:
            _, _, change, limit = cells(metric)
            before = number(mean_sd(metric.baseline.measured)[0])
            yield f"{metric.name} {change} from {before} (fails beyond {limit})"
        for rule in item.rules:
            value = "not collected" if rule.value is None else number(rule.value)
            grew = "grew by " if rule.rule.kind == "growth" else ""
            yield f"{rule.rule.metric} {grew}{value} (limit {rule.rule.text})"
        reasons = "; ".join(rule.reason for rule in item.rules if rule.reason)
        if not gated and (item.reason != reasons or not item.rules):
            yield f"{item.verdict.replace('_', ' ')}: {item.reason}"


def settle(result: Measured, gate: Gate, item: pytest.Item) -> None:
    """Judge or record, keep figures and history, and fail the test unless it passed. Raises NcubbleError."""
    recording = bool(gate.baseline) and item.config.getoption("--ncubble-record")
    judged = judge(result, gate, item, recording)
    _keep_figures(judged, result, item)
    if judged.result is not None and gate.baseline and not recording:
        _keep_history(judged.result, result, item)
    if not judged.passed:
        keep = "" if item.config.getoption("--ncubble-runs") or not result.profiled else _KEEP
        message = f"ncubble: {judged.verdict.replace('_', ' ')}: {judged.line}\n{judged.text}{keep}"
        pytest.fail(message, pytrace=False)
    if recording:
        _record(result, gate, item)


def _record(result: Measured, gate: Gate, item: pytest.Item) -> None:
    try:
        paths = record(result, gate.place(item), item.config)
    except NcubbleError as error:
        message = f"nothing recorded: {error.message}"
        item.user_properties.append(("ncubble", message))
        raise UsageError(message, error.remedy) from error
    item.user_properties += [("ncubble_recorded", path) for path in paths]


def _keep_figures(judged: Judgement, result: Measured, item: pytest.Item) -> None:
    """Into the properties of the test: the terminal's summary and JUnit XML show them."""
    add = item.user_properties.append
    add(("ncubble", f"{judged.verdict.replace('_', ' ')}: {judged.line}"))
    add(("ncubble_verdict", judged.verdict))
    for kernel in result.kernels:
        for name, value in kernel.metrics.items():
            add((f"{name}[{printable(kernel.label)}]", f"{value:.6g}" if abs(value) < 1e5 else f"{value:.0f}"))


def _keep_history(compared: GateResult, result: Measured, item: pytest.Item) -> None:
    """Add the comparison to the history that the options name, if any. Raises MeasurementError."""
    config = item.config
    folder = config.getoption("--ncubble-history") or config.getini("ncubble_history")
    if not folder:
        return
    from ncubble.analysis.gate.history import keep

    place = config.rootpath / folder
    try:
        keep(place, compared, [item.nodeid], config.rootpath)
    except OSError as error:
        raise MeasurementError(f"{place}: the history could not be written ({error})", "use another folder") from error
