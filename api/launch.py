"""One launch of a kernel, with all data of its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.measured import as_measured, measured_sentence
from ncubble.api.judged import JudgedReport
from ncubble.api.markup import account_bar, paragraph, safe, table
from ncubble.api.verdict import ReportVerdict
from ncubble.errors import ReportError
from ncubble.text.values import duration, percent, short_name

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from ncubble.analysis.report.report import Launch
    from ncubble.api.timeline import TimelineFrame


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
    def tags(self) -> tuple[str, ...]:
        """Tags of its run (``ncubble note``, ``ncubble.annotate``)."""
        return self.judged.notes.tags

    @property
    def note(self) -> str:
        """The note on its run; empty if there is none."""
        return self.judged.notes.note

    @property
    def verdict(self) -> ReportVerdict:
        """The verdict: what limits the launch. If it was ablated (``ncubble ablate``), the measured
        cause as on the command line; ``to_json`` also has the estimate. Raises ReportError if its
        values contradict each other.
        """
        self.judged.result_of(self.number)  # raises
        verdict = self.verdict_or_none
        assert verdict is not None  # noqa: S101
        return verdict

    @property
    def verdict_or_none(self) -> ReportVerdict | None:
        """``verdict``, or None if the launch cannot be judged."""
        estimate = self.judged.verdicts.get(self.number)
        if estimate is None:
            return None
        return ReportVerdict(**vars(as_measured(estimate, self.judged.ablations.get(self.number))))

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

        rows = self.to_json()["measured"] or []
        return pd.DataFrame(rows, columns=["part", "measured", "se", "alone"])

    @property
    def metrics(self) -> pd.DataFrame:
        """Every scalar counter: ``value`` and ``unit``, indexed by ``metric``."""
        rows = self.judged.report.metrics
        own = rows[rows["launch"] == self.number].drop(columns="launch")
        return own.astype({"metric": "str"}).set_index("metric")

    @property
    def timeline(self) -> TimelineFrame:
        """Counters over time (PM sampling): ``t_ns``, ``metric``, ``value``, ``unit``. ``plot()``
        draws it. Empty if nothing was sampled."""
        from ncubble.api.timeline import TimelineFrame
        from ncubble.api.units import with_units

        frame = self.launch.timeline.drop(columns="launch").reset_index(drop=True)
        return TimelineFrame.of(with_units(frame, "timeline"), [self.plot_timeline])

    @property
    def source(self) -> pd.DataFrame:
        """One row per instruction: ``pc``, ``sass``, ``opcode``, ``file``, ``line``, ``samples``,
        ``executed``, and warp samples by stall reason."""
        from ncubble.api.units import with_units

        return with_units(self.launch.source.drop(columns="launch").reset_index(drop=True), "source")

    @property
    def rules(self) -> pd.DataFrame:
        """Findings of Nsight Compute's rules, with its estimated speedup in percent."""
        from ncubble.api.units import with_units

        return with_units(self.launch.rules.drop(columns="launch").reset_index(drop=True), "rules")

    def value(self, metric: str) -> float:
        """Value of a scalar counter; NaN if it was not collected."""
        return self.launch.value(metric)

    def plot(self, theme: str = "light") -> Figure:
        """Waterfall figure of the account, from 100 % of elapsed SM cycles down to work; uses the
        measured account if the launch was ablated. ``theme`` is ``light`` or ``dark``. Raises
        ReportError if there is no account."""
        from ncubble.api.figures import account_figure

        verdict, ablation = self.verdict, self.judged.ablations.get(self.number)
        estimate = dict(self.account)
        shown = (ablation.account(estimate) if ablation else None) or estimate
        unit = words.unit_words(verdict.unit)
        return account_figure(shown, self._title, verdict.duration_ns, unit, theme)

    def plot_timeline(self, theme: str = "light") -> Figure:
        """Same as ``timeline.plot``."""
        from ncubble.api.figures import timeline_figure

        return timeline_figure(self.launch, self._title, theme)

    def to_json(self) -> dict[str, Any]:
        """The element of ``launches`` in ``ncubble report --json`` (docs/reference/verdicts.md)."""
        launch: dict[str, Any] = self.judged.result_of(self.number).to_json()["launches"][0]
        return launch

    @property
    def _title(self) -> str:
        label = self.label
        return label if label.split(" ")[0] == self.kernel else f"{label} · {short_name(self.kernel)}"

    @property
    def sentence(self) -> str:
        """The verdict as a sentence, or the reason why there is none."""
        try:
            verdict, ablation = self.verdict, self.judged.ablations.get(self.number)
        except ReportError as error:
            return error.message
        if ablation is None:
            return verdict.sentence
        return f"{verdict.sentence} {measured_sentence(self.judged.verdicts[self.number], ablation)}"

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
