"""Predictions for other pipeline depths and for the fix of each cause."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ncubble.analysis.account.parts import part_label
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.advise import Advice
from ncubble.analysis.diagnosis.advise import advise as advise_launch
from ncubble.api.display import paragraph, safe
from ncubble.api.launch import ReportLaunch
from ncubble.api.reports import ReportPath, ReportSet, load
from ncubble.errors import UsageError
from ncubble.records import JsonObject
from ncubble.text.values import fixed

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure


@dataclass(frozen=True, repr=False)
class LaunchAdvice:
    """Predictions for one launch, as returned by ``ncubble.advise``."""

    advice: Advice
    unit: str

    @property
    def stages(self) -> int | None:
        """The present depth of the pipeline; None if neither manifest nor code shows it."""
        return self.advice.stages

    @property
    def notes(self) -> list[str]:
        """Remarks on the numbers, such as why a depth is not identified."""
        return list(self.advice.notes)

    @property
    def depths(self) -> pd.DataFrame:
        """Predictions indexed by ``depth`` (1 to 8 stages): ``tensor_elapsed_pct`` (busy share of
        the unit) with the bounds ``low`` and ``high`` of a 90 % interval, in percent of elapsed
        cycles, and ``cycles``. NaN if a depth is not identified; the present depth is as
        measured."""
        import pandas as pd

        columns = ["tensor_elapsed_pct", "low", "high", "cycles"]
        rows = {depth: asdict(predicted) if predicted else {} for depth, predicted in self.advice.depths.items()}
        frame = pd.DataFrame.from_dict(rows, orient="index").reindex(columns=columns).astype(float)
        return frame.rename_axis("depth").sort_index()

    @property
    def fixes(self) -> pd.DataFrame:
        """One row per cause, largest gain first: ``cause``, ``fix``, and its gain in percent of
        kernel time: ``predicted_gain_pct``, at least ``low``, at most ``high``."""
        import pandas as pd

        columns = ["cause", "fix", "predicted_gain_pct", "low", "high"]
        frame = pd.DataFrame([asdict(fix) for fix in self.advice.fixes], columns=columns)
        return frame.astype(dict.fromkeys(columns[2:], float))

    def plot(self, theme: str = "light") -> Figure:
        """Figure of the predicted busy share by depth. ``theme`` is ``light`` or ``dark``. Raises
        UsageError if no depth is identified."""
        from ncubble.api.display import depth_figure

        if not any(self.advice.depths.values()):
            raise UsageError(f"{self.advice.label}: no depth is identified", "; ".join(self.notes))
        return depth_figure(self.advice, self.advice.label, self.unit, theme)

    def to_json(self) -> JsonObject:
        """The object of ``ncubble advise --json`` (docs/reference/verdicts.md)."""
        return self.advice.to_json()

    @property
    def _lines(self) -> list[str]:
        gains = [
            f"{part_label(fix.cause)}: {fix.fix}"
            + ("" if fix.predicted_gain_pct is None else f" (gains about {fixed(fix.predicted_gain_pct)} %)")
            for fix in self.advice.fixes
        ]
        return [*gains, *(f"note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        depth = f", depth {self.stages}" if self.stages else ""
        return "\n".join([f"<LaunchAdvice {self.advice.label!r}, launch {self.advice.launch}{depth}>", *self._lines])

    def _repr_html_(self) -> str:
        depth = f" · depth {self.stages}" if self.stages else ""
        depths = self.depths.dropna(how="all")
        table = depths.round(1).to_html(border=0) if len(depths) else ""
        return f"<p><b>{safe(self.advice.label)}</b>{depth}</p>{''.join(map(paragraph, self._lines))}{table}"


def advise(
    launch: ReportLaunch | ReportSet | ReportPath, *, number: int | None = None, stages: int | None = None
) -> LaunchAdvice:
    """Predict utilization and cycles at depths 1 to 8, and the gain of each cause's fix.

    ``launch``: a launch (``r[0]``) or a report; ``number`` selects one of several launches.
    ``stages``: the present depth, if neither manifest nor code shows it. The numbers are those of
    ``ncubble advise``.

    Raises UsageError if several launches are given and none is chosen.
    """
    one = launch if isinstance(launch, ReportLaunch) else _chosen(launch, number)
    if stages is not None and not 1 <= stages <= 64:
        raise UsageError(f"stages={stages}", "give the present depth, 1 to 64")
    verdict = one.verdict_or_none
    return LaunchAdvice(advise_launch(one.launch, stages), words.unit_words(verdict.unit if verdict else None))


def _chosen(given: ReportSet | ReportPath, number: int | None) -> ReportLaunch:
    reports = given if isinstance(given, ReportSet) else load(given)
    if number is None and len(reports) != 1:
        choose = f"choose one of 0 to {len(reports) - 1}: number=0, or r[0]" if len(reports) else "choose others"
        raise UsageError(f"{len(reports)} launches, but advice is for one", choose)
    if not -len(reports) <= (number or 0) < len(reports):
        raise UsageError(f"number={number}: no such launch", f"launches are 0 to {len(reports) - 1}")
    return reports[number or 0]
