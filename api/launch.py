"""One launch of a report, judged, with all data of its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.results import CONTRADICTIONS, ReportResult, Unread, contradiction, judge_all
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import measured_sentence
from ncubble.analysis.report.report import Launch, Report
from ncubble.api.display import account_bar, paragraph, safe, table
from ncubble.errors import ReportError, UsageError
from ncubble.records import JsonObject
from ncubble.text.values import duration, percent, short_name

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from ncubble.analysis.account.explain import Explanation
    from ncubble.analysis.model.depths import Depths

MOST_STAGES = 64
"""Maximum present depth that may be given."""


class ReportVerdict(LaunchVerdict):
    """The verdict on one launch, as printed by ``ncubble report``. ``changes`` ranks what to
    change, each with the ``part`` that it acts on and its ``gain_pct`` of kernel time; ``cause`` is
    the part of the first one, ``change`` its kind, and ``where`` has the hottest source lines of
    each part. Further members: ``account`` (percent by part), ``unit``, ``duration_ns``,
    ``cycles``, ``sm_clock_hz``, ``tensor_elapsed_pct``, ``dram_pct``, ``integrity``, ``warnings``.
    None marks values missing from the report. docs/reference/verdicts.md defines each.
    """

    @property
    def sentence(self) -> str:
        """The verdict as a sentence: how busy the unit is, the largest loss, and its location."""
        return words.sentence(self)

    @property
    def bubble_pct(self) -> float | None:
        """Percent of elapsed SM cycles in which the unit is idle; None without account."""
        return words.bubble_pct(self.account)

    def __repr__(self) -> str:
        return f"<ReportVerdict {self.cause}: {self.sentence}>"

    def _repr_html_(self) -> str:
        return paragraph(self.sentence)


@dataclass(frozen=True, eq=False)
class JudgedReport:
    """An opened report, judged as by ``ncubble report`` when a verdict is first used."""

    report: Report

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by path and content: another process reads it from the cache."""
        return _opened, (self.report.path, self.report.frame.sha256)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of its launches. Raises ReportError if the report contradicts itself."""
        try:
            return tuple(launch.number for launch in self.report)
        except CONTRADICTIONS:
            message = self.errors[0].error if self.errors else f"{self.report.path}: its launches cannot be listed"
            raise ReportError(message) from None

    @cached_property
    def result(self) -> ReportResult:
        """Estimated verdicts, ablations, and launches that could not be judged."""
        return judge_all([self.report], [])

    @property
    def errors(self) -> list[Unread]:
        """Launches that could not be judged, with the reason."""
        return self.result.errors

    @cached_property
    def verdicts(self) -> dict[int, LaunchVerdict]:
        """Verdict of each judgeable launch, by number."""
        return {verdict.launch: verdict for verdict in self.result.verdicts}

    @cached_property
    def ablations(self) -> dict[int, Ablation]:
        """Ablation of each ablated launch, by number."""
        pairs = zip(self.result.verdicts, self.result.ablations, strict=True)
        return {verdict.launch: ablation for verdict, ablation in pairs if ablation is not None}


def _opened(path: Path, sha256: str) -> JudgedReport:
    """The report at ``path``. Raises ReportError if its content is not that which was pickled."""
    report = Report.open(path)
    if report.frame.sha256 != sha256:
        raise ReportError(f"{path}: the report has changed since it was pickled", "load it again")
    return JudgedReport(report)


@dataclass(frozen=True, repr=False)
class ReportLaunch:
    """One launch of a report: ``r[0]``.

    ``number`` is its number in its report, from 0; ``judged`` is the report itself. Values are read
    on first use, and equal those of ``ncubble report``.
    """

    judged: JudgedReport
    number: int

    @property
    def launch(self) -> Launch:
        """The launch object of ``ncubble.analysis``, for anything this class does not offer."""
        return self.judged.report.launch(self.number)

    @property
    def report(self) -> str:
        """The path of its report or run directory."""
        return str(self.judged.report.path)

    @property
    def address(self) -> str:
        """``REPORT#NUMBER``, as the command line names a launch."""
        return f"{self.report}#{self.number}"

    @property
    def kernel(self) -> str:
        """The base name of the kernel."""
        return self.launch.identity.kernel

    @property
    def label(self) -> str:
        """Name and parameters of the run, or the file name if it declares none."""
        return self.launch.label

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the kernel and dimensions of its problem, as its run declares them."""
        known = self.judged.report.run.manifest.kernel_of(self.number)
        return {**(known.get("parameters") or {}), **(known.get("shape") or {})}

    @property
    def changes(self) -> list[Change]:
        """What to change, in the order in which it is worth doing (docs/changes.md): predicted, or
        measured by ``ncubble try``. Raises as ``verdict``."""
        return list(self.verdict.changes)

    @property
    def verdict(self) -> ReportVerdict:
        """The verdict: what limits the launch. If it was ablated (``ncubble ablate``), the measured
        cause as on the command line; ``to_json`` also has the estimate. Raises ReportError if its
        values contradict each other.
        """
        return ReportVerdict(**vars(as_measured(self.estimate, self.ablation)))

    @property
    def verdict_or_none(self) -> ReportVerdict | None:
        """``verdict``, or None if the launch cannot be judged."""
        return self.verdict if self.number in self.judged.verdicts else None

    @property
    def estimate(self) -> LaunchVerdict:
        """The verdict by counters and samples, whether or not the launch was ablated. Raises
        ReportError if it cannot be judged."""
        if self.number not in self.judged.verdicts:
            reason = self.judged.errors[0].error if self.judged.errors else "unknown reason"
            raise ReportError(f"{self.report}: launch {self.number} cannot be judged: {reason}")
        return self.judged.verdicts[self.number]

    @property
    def ablation(self) -> Ablation | None:
        """What ``ncubble ablate`` measured of the launch."""
        return self.judged.ablations.get(self.number)

    @property
    def account(self) -> pd.Series:
        """The bubble account: percent of elapsed SM cycles by part; sums to 100.

        ``attrs``: ``unit`` is the unit that counts as busy, ``merged`` lists the finer parts of
        each coarse part. Raises ReportError if the report lacks the counters for an account.
        """
        import pandas as pd

        from ncubble.analysis.account.parts import display_order

        verdict = self.verdict
        if not verdict.account:
            remedy = "profile again with the default metric sets: ncubble profile, or ncubble.profile([...])"
            raise ReportError(f"{self.report}: launch {self.number} has no counters for an account", remedy)
        names = display_order(verdict.account)
        series = pd.Series([verdict.account[name] for name in names], index=names, name="account", dtype=float)
        series.attrs = {"units": "% of elapsed SM cycles", "unit": verdict.unit, "merged": dict(verdict.merged)}
        return series

    @property
    def measured(self) -> pd.DataFrame:
        """Results of ``ncubble ablate``: ``part``, ``measured`` and ``se`` (its standard error) and
        ``alone``, in percent of the kernel's cycles. Empty if it was not ablated."""
        import pandas as pd

        rows: Sequence[object] = self.to_json()["measured"] or []
        return pd.DataFrame(rows, columns=["part", "measured", "se", "alone"])

    @property
    def metrics(self) -> pd.DataFrame:
        """Every scalar counter: ``value`` and ``unit``, indexed by ``metric``."""
        rows = self.judged.report.metrics
        own = rows[rows["launch"] == self.number].drop(columns="launch")
        return own.astype({"metric": "str"}).set_index("metric")

    @property
    def timeline(self) -> pd.DataFrame:
        """Counters over time (PM sampling): ``t_ns``, ``metric``, ``value``, ``unit``. Empty if
        nothing was sampled."""
        from ncubble.api.frames import with_units

        return with_units(self.launch.timeline.drop(columns="launch").reset_index(drop=True), "timeline")

    @property
    def source(self) -> pd.DataFrame:
        """One row per instruction: ``pc``, ``sass``, ``opcode``, ``file``, ``line``, ``samples``,
        ``executed``, and warp samples by stall reason."""
        from ncubble.api.frames import with_units

        return with_units(self.launch.source.drop(columns="launch").reset_index(drop=True), "source")

    @property
    def rules(self) -> pd.DataFrame:
        """Findings of Nsight Compute's rules, with its estimated speedup in percent."""
        from ncubble.api.frames import with_units

        return with_units(self.launch.rules.drop(columns="launch").reset_index(drop=True), "rules")

    def value(self, metric: str) -> float:
        """Value of a scalar counter; NaN if it was not collected."""
        return self.launch.value(metric)

    def plot(self, theme: str = "light") -> Figure:
        """Waterfall figure of the account, from 100 % of elapsed SM cycles down to work; uses the
        measured account if the launch was ablated. ``theme`` is ``light`` or ``dark``. Raises
        ReportError if there is no account."""
        from ncubble.api.display import themed
        from ncubble.dashboard.ui.figures import waterfall

        verdict, estimate = self.verdict, dict(self.account)
        shown = (self.ablation.account(estimate) if self.ablation else None) or estimate
        unit = words.unit_words(verdict.unit)
        return themed(waterfall(shown, verdict.duration_ns, unit), self._title, theme)

    def plot_timeline(self, theme: str = "light") -> Figure:
        """Figure of the timeline: linked tracks on one time axis, bubbles shaded, idle time
        coloured by its cause. ``theme`` is ``light`` or ``dark``. Raises ReportError if there are
        no samples, or too few to draw."""
        from ncubble.api.display import timeline_figure

        return timeline_figure(self.launch, self._title, theme)

    def explain(self) -> Explanation:
        """The inputs of its account, part by part. Raises NcubbleError where its values allow
        none."""
        from ncubble.analysis.account.explain import explain

        try:
            return explain(self.launch)
        except CONTRADICTIONS as error:
            raise contradiction(self.judged.report.path, f"launch {self.number} ", error) from error

    def predict_depths(self, stages: int | None = None) -> Depths:
        """Predictions at depths 1 to 8 of its pipeline, as ``ncubble report --depths`` prints them.
        ``stages``: the present depth, if neither manifest nor code shows it. Raises NcubbleError
        where its values allow none."""
        from ncubble.analysis.model.depths import depths_of

        if stages is not None and not 1 <= stages <= MOST_STAGES:
            raise UsageError(f"stages={stages}", f"give the present depth, 1 to {MOST_STAGES}")
        try:
            return depths_of(self.launch, stages)
        except CONTRADICTIONS as error:
            raise contradiction(self.judged.report.path, f"launch {self.number} ", error) from error

    @property
    def depths(self) -> pd.DataFrame:
        """Predictions indexed by ``depth`` (1 to 8 stages): ``tensor_elapsed_pct`` (busy share of
        the unit) with the bounds ``low`` and ``high`` of a 90 % interval, in percent of elapsed
        cycles, and ``cycles``. NaN if a depth is not identified; the present depth is as measured.
        ``attrs``: ``stages`` (the present depth, or None), ``stages_from`` and ``notes``."""
        import pandas as pd

        told, columns = self.predict_depths(), ["tensor_elapsed_pct", "low", "high", "cycles"]
        rows = {depth: vars(predicted) if predicted else {} for depth, predicted in told.predicted.items()}
        frame = pd.DataFrame.from_dict(rows, orient="index").reindex(columns=columns).astype(float)
        frame.attrs = {"stages": told.stages, "stages_from": told.stages_from, "notes": list(told.notes)}
        return frame.rename_axis("depth").sort_index()

    def plot_depths(self, theme: str = "light") -> Figure:
        """Figure of the predicted busy share by depth. ``theme`` is ``light`` or ``dark``. Raises
        UsageError if no depth is identified."""
        from ncubble.api.display import depth_figure

        told = self.predict_depths()
        if not any(told.predicted.values()):
            raise UsageError(f"{self.label}: no depth is identified", "; ".join(told.notes))
        return depth_figure(told, self._title, words.unit_words(self.estimate.unit), theme)

    def hot_lines(self, limit: int) -> tuple[list[JsonObject], list[str]]:
        """The ``limit`` source lines with most warp samples, and what the report lacks of them."""
        from ncubble.analysis.details.source_columns import hot_lines

        return hot_lines(self.launch.source, limit)

    def brief(self, depths: Depths | None = None) -> JsonObject:
        """The short verdict of ``ncubble report --json --brief``: changes with gains, locations,
        what was not measured, and ``depths`` where they are given."""
        from ncubble.analysis.diagnosis.brief import brief

        return brief(self.launch, self.estimate, self.ablation, depths)

    def to_json(self) -> JsonObject:
        """The element of ``launches`` in ``ncubble report --json`` (docs/reference/verdicts.md)."""
        whole = ReportResult([self.estimate], ablations=[self.ablation]).to_json()
        return dict(whole["launches"][0])

    @property
    def _title(self) -> str:
        label = self.label
        return label if label.split(" ")[0] == self.kernel else f"{label} · {short_name(self.kernel)}"

    @property
    def sentence(self) -> str:
        """The verdict as a sentence, or the reason why there is none."""
        try:
            sentence, ablation = self.verdict.sentence, self.ablation
        except ReportError as error:
            return error.message
        return f"{sentence} {measured_sentence(self.estimate, ablation)}" if ablation else sentence

    def __repr__(self) -> str:
        return f"<ReportLaunch {self._title!r} of {self.report!r}, launch {self.number}: {self.sentence}>"

    def _repr_html_(self) -> str:
        verdict = self.verdict_or_none
        head = f"<p><b>{safe(self._title)}</b> · {safe(self.report)}, launch {self.number}</p>"
        if verdict is None:
            return head + paragraph(self.sentence)
        unit = words.unit_words(verdict.unit)
        bar = account_bar(verdict.account, unit) if verdict.account else ""
        facts = [
            ("time", duration(verdict.duration_ns)),
            ("tensor pipe", percent(verdict.tensor_elapsed_pct)),
            ("DRAM", percent(verdict.dram_pct)),
            ("GPU", verdict.device or "not known"),
        ]
        doubts = "".join(paragraph(text) for text in verdict.warnings)
        cells = table([name for name, _ in facts], [[safe(text) for _, text in facts]])
        return f"{head}{bar}{paragraph(self.sentence)}{cells}{doubts}"
