"""What a gated test measured, held to what it requires: a baseline, rules; and what is said and kept of it."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.gate import baseline, baseline_file
from ncubble.analysis.gate.baseline import Baseline
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.metrics import METRICS
from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.gate.output import cells, number
from ncubble.analysis.gate.repeats import REMEDY, Repeats, SuspiciousLaunch, collect, listed
from ncubble.analysis.gate.rules import GateRule, GateRules, parse_all
from ncubble.analysis.gate.settings import load
from ncubble.analysis.gate.verdicts import CheckOptions, GateResult
from ncubble.analysis.report.launch_key import slug
from ncubble.analysis.report.report import open_reports
from ncubble.cli.pytest_plugin.settings import ALLOW_SUSPICIOUS, STARTED
from ncubble.errors import MeasurementError, NcubbleError, UsageError
from ncubble.text.markup import printable

TENSOR = "tensor_elapsed_pct"
OPTIONS = ("min", "baseline", "rules")
"""What a marker or a call may require."""
_WIDTH = 120
_RULES = pytest.StashKey[GateRules]()
_KEEP = "\n(--ncubble-runs DIR keeps the profiled runs for `ncubble report`)"


def failed(what: str, remedy: str) -> BaseException:
    """The outcome of a test that ncubble fails."""
    return pytest.fail.Exception(f"ncubble: {what}" + (f"\n  remedy: {remedy}" if remedy else ""), pytrace=False)


@contextmanager
def refusals() -> Iterator[None]:
    """Errors of ncubble inside the block fail the test with their message and remedy, and without a traceback."""
    try:
        yield
    except NcubbleError as error:
        what = error.message if isinstance(error, UsageError) else f"nothing measured: {error.message}"
        raise failed(what, error.remedy) from None


@dataclass(frozen=True)
class Gate:
    """Requirements on the launches of each kernel. ``baseline``: folder of baselines or one file,
    relative to pytest's root, in which ``{test}`` stands for the test's name with its parameters.
    ``rules``: as in ``check.rules``; absolute ones, as that of ``min``, need no baseline.
    """

    baseline: str | None = None
    rules: tuple[GateRule, ...] = ()

    def place(self, item: pytest.Item) -> Path:
        """Folder or file of the baselines of a test."""
        return item.config.rootpath / str(self.baseline).replace("{test}", slug(item.name))

    def require(self) -> None:
        """Raise UsageError where nothing could fail, or a limit lacks the baseline that it is told from."""
        if not self.baseline and not self.rules:
            raise UsageError(
                "the gate has none of min, baseline and rules: it could never fail",
                "pass at least one of min=, baseline=, rules=",
            )
        relative = [rule.text for rule in self.rules if not rule.absolute]
        if relative and not self.baseline:
            raise UsageError(
                f"rules= {', '.join(map(repr, relative))}: a baseline is needed, but none is given",
                "pass baseline=, or only absolute limits: rules=['data_wait <= 10', 'cycles <= 2e6']",
            )


def refuse_unknown(options: Iterable[str], known: Collection[str], of: str = "") -> None:
    """Raise UsageError for options, ``of`` a marker or call, that are not known."""
    if wrong := [name for name in options if name not in known]:
        raise UsageError(f"{of}unknown option {', '.join(wrong)}", f"options: {', '.join(known)}")


def gate_of(options: Mapping[str, Any]) -> Gate:
    """The gate among the options of a marker or a call; raises UsageError."""
    least, baseline, rules = (options.get(name) for name in OPTIONS)
    made: list[GateRule] = []
    if least is not None:
        if type(least) not in (int, float) or not 0 < least <= 100:
            raise UsageError(f"min={least!r}: not a percentage above 0", "for example min=50 for half of the cycles")
        made.append(GateRule(TENSOR, "at_least", least))
    if rules is not None:
        texts = [f"{name} {value}%" for name, value in rules.items()] if isinstance(rules, Mapping) else rules
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise UsageError(f"rules={rules!r}: not a list of rules", "write rules=['cycles 3%', 'data_wait +2']")
        made += parse_all(texts)
    return Gate(None if baseline is None else str(baseline), tuple(made))


def check_request(gate: Gate, item: pytest.Item) -> None:
    """Raise UsageError, before anything is measured, where nothing could fail, or the baselines do not exist."""
    gate.require()
    _project_rules(item.config)
    place = gate.place(item)
    if gate.baseline and not place.exists() and not item.config.getoption("--ncubble-record"):
        raise UsageError(f"{place}: no such baseline file or folder", "record it: pytest --ncubble-record")


@dataclass(frozen=True)
class MeasuredKernel:
    """One kernel on one GPU model; ``values`` holds what each launch measured by metric of the gate, in their units."""

    label: str
    device: str
    launches: int
    values: Mapping[str, tuple[float, ...]]

    @classmethod
    def of(cls, group: Repeats) -> MeasuredKernel:
        """The launches of a group, with what can be real of the first counter of each metric that has any."""
        values = {
            metric.name: tuple(group.measured(metric, counter))
            for metric in METRICS
            if (counter := group.counter(metric))
        }
        return cls(group.key.label, group.device, group.launches, values)

    @property
    def metrics(self) -> dict[str, float]:
        """Means by metric; a metric that was not collected is absent."""
        return {name: mean_sd(values)[0] for name, values in self.values.items()}


class Result:
    """Measured launches of run directories, report files, or folders of them, with methods to judge them. Attributes
    of a single kernel raise UsageError if there are several: choose one with ``kernel=``. A broken report is kept in
    ``errors``."""

    def __init__(self, paths: Iterable[Path], item: pytest.Item, kernel: str = "") -> None:
        self.reports, failures = open_reports(paths)  # all of a report: whether its values contradict each other
        self.errors = tuple((str(failure.path), failure.error.message) for failure in failures)
        self.remedies = tuple(dict.fromkeys(failure.error.remedy for failure in failures if failure.error.remedy))
        self.groups, self.notes = collect(self.reports, kernel=kernel)
        self.wanted = kernel
        self.profiled = False
        self.item = item

    def assert_tensor_util(self, **options: Any) -> None:
        """Fail the test unless the launches meet ``min=``, ``baseline=``, ``rules=``, as the marker
        does; with ``--ncubble-record``, record the baseline."""
        with refusals():
            settle(self, self._gate(options), self.item)

    def _gate(self, options: dict[str, Any]) -> Gate:
        refuse_unknown(options, OPTIONS)
        gate = gate_of(options)
        check_request(gate, self.item)
        return gate

    @cached_property
    def kernels(self) -> tuple[MeasuredKernel, ...]:
        """All measured kernels, in order of appearance."""
        return tuple(map(MeasuredKernel.of, self.groups))

    @cached_property
    def suspicious(self) -> tuple[SuspiciousLaunch, ...]:
        """Launches whose values contradict each other."""
        return tuple(launch for group in self.groups for launch in group.suspicious)

    @property
    def allows_suspicious(self) -> bool:
        """Whether the session accepts launches whose values contradict each other."""
        return bool(self.item.config.getoption(ALLOW_SUSPICIOUS))

    def refuse_suspicious(self) -> None:
        """Raise MeasurementError for launches whose values contradict each other, unless the session accepts them."""
        if self.suspicious and not self.allows_suspicious:
            texts = "\n  ".join(listed(self.suspicious))
            count = f"{len(self.suspicious)} of {sum(group.launches for group in self.groups)}"
            raise MeasurementError(
                f"{count} launches are suspicious:\n  {texts}", f"{REMEDY}, or accept them with {ALLOW_SUSPICIOUS}"
            )

    @property
    def others(self) -> tuple[str, ...]:
        """Labels of all kernels in the reports, also of those that ``kernel`` left out."""
        return tuple(dict.fromkeys(group.key.label for group in collect(self.reports)[0]))

    @property
    def kernel(self) -> MeasuredKernel:
        """The only kernel. Raises MeasurementError if there is none, and UsageError if there are
        several."""
        if not self.kernels:
            raise MeasurementError("no launch was measured", "check kernel=, and check that the kernel is launched")
        if len(self.kernels) > 1:
            names = "; ".join(kernel.label for kernel in self.kernels)
            raise UsageError(f"{len(self.kernels)} kernels were measured: {names}", "choose one with kernel=REGEX")
        return self.kernels[0]

    @property
    def metrics(self) -> dict[str, float]:
        """Means of the only kernel by metric of the gate (``docs/gate.md``); metrics that were not
        collected are absent."""
        return self.kernel.metrics

    @property
    def tensor_elapsed_pct(self) -> float:
        """Percent of elapsed cycles in which the tensor pipe was active; raises MeasurementError if not collected."""
        means = self.metrics
        if TENSOR not in means:
            raise MeasurementError(f"{TENSOR} was not collected", "profile with the set tensor")
        return means[TENSOR]


@dataclass(frozen=True)
class Judgement:
    """``verdict`` is one of the gate's (``pass``, ``improved``, ``regressed``, ``limit_broken``,
    ``not_comparable``, ``nothing_measured``). ``line`` says it with figures in one line, ``text``
    with all details; ``result`` is the comparison with the baseline, or with limits that need none;
    None where a baseline is recorded without these."""

    verdict: str
    line: str
    text: str
    result: GateResult | None = None

    @property
    def passed(self) -> bool:
        """Whether everything was measured and nothing is too slow."""
        return self.verdict in ("pass", "improved")


def judge(result: Result, gate: Gate, item: pytest.Item, recording: bool = False) -> Judgement:
    """Hold what was measured to ``gate`` and the project's limits; where it is ``recording``, to what needs no
    baseline. Raises UsageError for a baseline that does not exist."""
    if not result.kernels:
        why = "; ".join(f"{path}: {message}" for path, message in result.errors) or "no launch was measured"
        return Judgement("nothing_measured", why, why)
    compared = _compared(result, gate, item, alone=recording or not gate.baseline)
    if compared is not None:
        verdict, text = compared.verdict, _rendered(compared)
    else:
        verdict = "not_comparable" if result.errors else "pass"
        text = "\n".join(f"could not read {path}: {message}" for path, message in result.errors)
    if len(result.kernels) > 1:
        text += f"\n{len(result.kernels)} kernels were measured, and limits hold for each: choose with kernel=REGEX"
    accepted = [f"accepted although suspicious: {text}" for text in listed(result.suspicious)]
    line = "; ".join([*(_line(kernel, compared) for kernel in result.kernels), *accepted])
    return Judgement(verdict, printable(line), text, compared)


def _compared(result: Result, gate: Gate, item: pytest.Item, alone: bool) -> GateResult | None:
    """The comparison with the baselines of ``gate``; where it is held to absolute limits ``alone``, with those, or None
    where there is none."""
    keys = [group.key for group in result.groups]
    kept = _project_rules(item.config)
    # Entries for kernels that this test did not launch are left out: other tests launch these.
    here = [entry for entry in kept.overrides if any(entry.matches(key.label, key.kernel) for key in keys)]
    rules = replace(kept, overrides=tuple(here)).plus(gate.rules)
    baselines: list[Baseline] = []
    errors, place = list(result.errors), gate.place(item)
    if not alone:
        baselines, broken = baseline_file.load_store(place)
        errors += [(str(place), error.message) for error in broken]
    elif not any(rule.absolute for key in keys for of in rules.of(key.label, key.kernel).values() for rule in of):
        return None
    exact = alone or place.is_dir()
    options = CheckOptions(rules, exact, allow_new=alone, allow_suspicious=result.allows_suspicious)
    return check(result.groups, baselines, options, errors, result.notes)


def _project_rules(config: pytest.Config) -> GateRules:
    """The limits that the project of pytest's root keeps, read once a session; none with ``--ncubble-no-config``.

    Raises NcubbleError for a table that says something wrong.
    """
    if _RULES not in config.stash:
        ignored = config.getoption("--ncubble-no-config")
        config.stash[_RULES] = GateRules() if ignored else load(config.rootpath).rules
    return config.stash[_RULES]


def _rendered(result: GateResult) -> str:
    """The table of ``ncubble check``, as plain text."""
    from rich.console import Console

    from ncubble.cli.gate import print_result

    sink = io.StringIO()
    print_result(result, Console(file=sink, width=_WIDTH, color_system=None, highlight=False))
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())


def _line(kernel: MeasuredKernel, compared: GateResult | None) -> str:
    figure = kernel.metrics.get(TENSOR)
    facts = [f"tensor {figure:.1f} %" if figure is not None else "tensor not collected"]
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


def settle(result: Result, gate: Gate, item: pytest.Item) -> None:
    """Judge or record, keep figures and history, and fail the test unless it passed. Raises NcubbleError."""
    add = item.user_properties.append  # shown by the terminal's summary and by JUnit XML
    recording = bool(gate.baseline) and item.config.getoption("--ncubble-record")
    judged = judge(result, gate, item, recording)
    add(("ncubble", f"{judged.verdict.replace('_', ' ')}: {judged.line}"))
    add(("ncubble_verdict", judged.verdict))
    for kernel in result.kernels:
        for name, value in kernel.metrics.items():
            add((f"{name}[{printable(kernel.label)}]", f"{value:.6g}" if abs(value) < 1e5 else f"{value:.0f}"))
    if judged.result is not None and gate.baseline and not recording:
        _keep_history(judged.result, item)
    if not judged.passed:
        keep = "" if item.config.getoption("--ncubble-runs") or not result.profiled else _KEEP
        message = f"ncubble: {judged.verdict.replace('_', ' ')}: {judged.line}\n{judged.text}{keep}"
        pytest.fail(message, pytrace=False)
    if recording:
        try:
            paths = record(result, gate.place(item), item.config)
        except NcubbleError as error:
            message = f"nothing recorded: {error.message}"
            add(("ncubble", message))
            raise UsageError(message, error.remedy) from error
        item.user_properties += [("ncubble_recorded", path) for path in paths]


def _keep_history(compared: GateResult, item: pytest.Item) -> None:
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


def record(result: Result, place: Path, config: pytest.Config) -> list[str]:
    """Write a baseline for every kernel of ``result`` to ``place``, a folder or one ``.json`` file; the texts name the
    files, relative to pytest's root.

    Raises UsageError where a file exists and ``--ncubble-force`` was not given, or where another test of this session
    wrote it: of two tests with one baseline, neither may win unseen. Raises MeasurementError for too few launches.
    """
    if result.errors:
        raise MeasurementError("; ".join(f"{path}: {why}" for path, why in result.errors), "remove broken reports")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    baselines = baseline.record(result.groups, now, allow_suspicious=result.allows_suspicious)
    paths = baseline_file.places(place, baselines)
    force, root = bool(config.getoption("--ncubble-force")), config.rootpath
    with baseline_file.locked(place):
        for path in filter(Path.exists, paths):
            if path.stat().st_mtime >= config.stash[STARTED]:
                raise UsageError(
                    f"{path}: another test of this session recorded the same baseline",
                    "give each test its own folder, or choose its kernel with kernel=",
                )
            if not force:
                raise UsageError(f"would overwrite {path}", "add --ncubble-force to --ncubble-record to replace it")
        baseline_file.save(zip(paths, baselines, strict=True), force=force)
    weak = [f" (warning: {text})" for item in baselines for text in baseline.weaknesses(item)]
    shown = [str(path.relative_to(root)) if path.is_relative_to(root) else str(path) for path in paths]
    return [f"{path}{''.join(weak) if len(baselines) == 1 else ''}" for path in shown]
