"""The gate as a function: compares launches with baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from ncubble.analysis.gate import output
from ncubble.analysis.gate.annotations import CheckoutFiles, sarif
from ncubble.analysis.gate.check import judge_reports
from ncubble.analysis.gate.history import keep
from ncubble.analysis.gate.settings import GateSettings, load
from ncubble.analysis.gate.verdicts import GateResult
from ncubble.analysis.report import report
from ncubble.analysis.report.report import Report, ReportFailure
from ncubble.api.display import columns, safe, table
from ncubble.api.measuring import CheckInputs, CheckRequest, measure_against, measure_now
from ncubble.api.reports import ReportPath, ReportSet, as_names, as_paths, by_report
from ncubble.errors import ReportError, UsageError
from ncubble.profiling.runs import require_paths
from ncubble.profiling.session import Observer
from ncubble.records import JsonObject
from ncubble.text.values import expression


@dataclass(frozen=True, repr=False)
class CheckResult:
    """Verdict of the gate, as returned by ``ncubble.check``. True only if the gate passed, so
    ``assert ncubble.check(...)`` fails on a regression and if nothing was measured."""

    result: GateResult
    paths: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """``pass``, ``improved``, ``regressed``, ``not_comparable`` or ``nothing_measured``."""
        return self.result.verdict

    @property
    def exit_code(self) -> int:
        """Exit code of ``ncubble check``: 0 passed, 1 regressed, 3 could not be judged."""
        return self.result.exit_code

    @property
    def passed(self) -> bool:
        """Whether every requested kernel was judged and none regressed."""
        return self.exit_code == 0

    def __bool__(self) -> bool:
        return self.passed

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel: ``label``, ``device``, ``verdict``, ``reason``, ``baseline`` (its
        file) and ``launches`` (how many were judged)."""
        names = ["label", "device", "verdict", "reason", "baseline", "launches"]
        return pd.DataFrame([{name: row[name] for name in names} for row in self.to_json()["kernels"]], columns=names)

    @property
    def metrics(self) -> pd.DataFrame:
        """One row per kernel and metric: ``label``, ``name``, ``unit``, ``better``, ``gated``,
        ``verdict``, ``reason``, means ``baseline`` and ``now``, ``change_pct``, and
        ``threshold_pct``, the change that fails."""
        names = ["name", "unit", "better", "gated", "verdict", "reason", "change_pct", "threshold_pct"]
        rows = [
            {"label": kernel["label"], **{name: metric[name] for name in names}}
            | {side: metric[side]["mean"] for side in ("baseline", "now")}
            for kernel in self.to_json()["kernels"]
            for metric in kernel["metrics"]
        ]
        return pd.DataFrame(rows, columns=["label", *names[:-2], "baseline", "now", *names[-2:]])

    @property
    def errors(self) -> list[tuple[str, str]]:
        """Unreadable reports and baselines, as (file, error)."""
        return list(self.result.errors)

    @property
    def notes(self) -> list[str]:
        """Remarks on the verdicts."""
        return list(self.result.notes)

    def to_json(self) -> JsonObject:
        """The object of ``ncubble check --json`` (docs/reference/gate.md)."""
        return output.as_json(self.result)

    def to_markdown(self) -> str:
        """The text of ``ncubble check --markdown``, for a merge request."""
        return output.markdown(self.result)

    def to_junit(self) -> str:
        """The document of ``ncubble check --junit``."""
        return output.junit(self.result)

    def to_sarif(self) -> str:
        """The document of ``ncubble check --sarif``, with paths of the repository around the
        working directory."""
        return sarif(self.result, CheckoutFiles.here().locate)

    def keep(self, folder: ReportPath) -> Path:
        """Add the result to the history in ``folder``; returns its file. Raises OSError if it
        cannot be written, and MeasurementError for what is no file in its place."""
        return keep(as_paths([folder])[0], self.result, self.paths, Path.cwd())

    @property
    def _remarks(self) -> list[str]:
        own = [f"{kernel.label}: {text}" for kernel in self.result.kernels for text in output.remarks(kernel)]
        return [*own, *(f"not read: {file}: {error}" for file, error in self.errors), *self.notes]

    @property
    def _headline(self) -> str:
        return f"ncubble check {output.headline(self.result)}"

    def _rows(self) -> list[list[str]]:
        return [
            [kernel.label, name, *texts, verdict]
            for kernel in self.result.kernels
            for name, _, _, *texts, verdict in output.rows(kernel)
            if verdict != "info"
        ]

    def __repr__(self) -> str:
        head = ["kernel", "metric", "change", "fails beyond", "verdict"]
        rows = self._rows()
        return "\n".join([self._headline, *([columns(head, rows, (2, 3))] if rows else []), *self._remarks])

    def _repr_html_(self) -> str:
        rows = [[safe(cell) for cell in row] for row in self._rows()]
        body = table(["kernel", "metric", "change", "fails beyond", "verdict"], rows, (2, 3))
        remarks = "".join(f"<li>{safe(text)}</li>" for text in self._remarks)
        return f"<p><b>{safe(self._headline)}</b></p>{body}<ul>{remarks}</ul>"


def checked(request: CheckRequest, observer: Observer | None = None) -> CheckResult:
    """The verdict on what ``request`` names, measured first where it says so.

    Raises UsageError for a wrong request, and MeasurementError where nothing can be measured; no
    run is left then.
    """
    observer = observer or Observer()
    broken: list[tuple[str, str]] = []
    request.validate()
    if request.against:
        inputs = measure_against(request, observer)
        baselines = inputs.baselines or []
    else:
        if not (request.measures or request.store.exists()):  # a path that does not exist comes first
            require_paths(request.paths)
        baselines, broken = request.stored()
        measured = measure_now(request, baselines, observer) if request.measures else None
        inputs = measured or CheckInputs(list(request.paths), request.kernel)
        baselines = baselines if inputs.baselines is None else inputs.baselines
    observer.doing("reading reports")
    skipped: list[ReportError] = []
    opened, failures = report.open_reports(
        inputs.paths,
        lambda done, total: observer.doing(f"reading reports: {done} of {total}"),
        skipped=skipped.append,
    )
    judged = judge_reports(
        opened,
        failures,
        baselines,
        inputs.options(request.options),
        errors=[*inputs.errors, *broken, *_unread(skipped)],
        notes=inputs.notes,
        judged=bool(inputs.judged),
        by_nvtx=request.settings.by_nvtx,
    )
    return CheckResult(replace(judged, kernels=(*judged.kernels, *inputs.judged)), tuple(map(str, inputs.paths)))


def check(
    *reports: ReportSet | ReportPath | Iterable[ReportPath],
    baseline: ReportPath | None = None,
    rules: str | Sequence[str] = (),
    kernel: str = "",
    require_all: bool = False,
    allow_new: bool = False,
    same_gpu: bool = False,
    allow_suspicious: bool = False,
    by_nvtx: bool = True,
    config: bool = True,
) -> CheckResult:
    """Compare launches with baselines like ``ncubble check``, without measuring or storing
    anything.

    ``reports``: paths, or the whole result of ``load``. ``baseline``: a folder of baselines or one
    file (default: the project's setting, else ``./baselines``). ``rules``: further rules, such as
    ``'cycles 2%'`` or ``'tensor_elapsed_pct >= 50'``. ``kernel``: only kernels whose name or label
    matches this regular expression. ``require_all``: every baseline of this GPU must have been
    measured. ``allow_new``: accept kernels without a baseline. ``same_gpu``: assume the baseline's
    GPU for reports that do not name theirs. ``allow_suspicious``: also judge launches with
    contradictory values. ``by_nvtx=False``: treat launches in different NVTX ranges as repeats.
    ``config=False``: ignore ``[tool.ncubble.gate]`` of the nearest ``pyproject.toml``.

    Raises UsageError for a wrong rule, expression or path. An unreadable report or baseline is
    listed in the result's errors, and the result does not pass.
    """
    expression(kernel, f"kernel {kernel!r}")
    known = (load(Path.cwd()) if config else GateSettings()).with_rules(as_names(rules))
    settings = replace(
        known,
        same_gpu=same_gpu or known.same_gpu,
        allow_suspicious=allow_suspicious or known.allow_suspicious,
        by_nvtx=by_nvtx and known.by_nvtx,
    )
    place = as_paths([baseline])[0] if baseline is not None else None
    request = CheckRequest((), settings, place, kernel, require_all, allow_new)
    baselines, broken = request.stored()
    opened, failures, skipped = _opened(reports)
    unread = [error for item in reports if isinstance(item, ReportSet) for error in item.unread]
    errors = [*broken, *unread, *_unread(skipped)]
    judged = judge_reports(opened, failures, baselines, request.options, errors=errors, by_nvtx=settings.by_nvtx)
    return CheckResult(judged, tuple(str(item.run.path) for item in opened))


def _opened(
    given: Iterable[ReportSet | ReportPath | Iterable[ReportPath]],
) -> tuple[list[Report], list[ReportFailure], list[ReportError]]:
    """Reports of a call, those of its paths that could not be read, and what was skipped below
    them."""
    reports: list[Report] = []
    failures: list[ReportFailure] = []
    skipped: list[ReportError] = []
    for item in given:
        if isinstance(item, ReportSet):
            reports += _whole(item)
            continue
        opened, failed = report.open_reports(as_paths([item]), skipped=skipped.append)
        reports += opened
        failures += failed
    return reports, failures, skipped


def _unread(skipped: Iterable[ReportError]) -> list[tuple[str, str]]:
    """What was not read below a path, as errors of a check: (file, message and remedy)."""
    pairs = ((error.message.partition(": not read, "), error.remedy) for error in skipped)
    return [(place, f"not read, {why} ({remedy})") for (place, _, why), remedy in pairs]


def _whole(reports: ReportSet) -> list[Report]:
    """Reports of the selection. Raises UsageError if launches of a report are left out, because
    repeats are counted."""
    pairs = by_report(reports)
    for judged, numbers in pairs:
        if set(numbers) != set(judged.numbers):
            what = f"{judged.report.path}: {len(numbers)} of its {len(judged.numbers)} launches"
            raise UsageError(f"{what} are chosen, but check judges whole reports", "pass all of r, with kernel='REGEX'")
    return [judged.report for judged, _ in pairs]
