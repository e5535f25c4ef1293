"""The verdict on a launch: its cause, the cost, and the remedy."""

from __future__ import annotations

from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.api.markup import paragraph


class ReportVerdict(LaunchVerdict):
    """The verdict on one launch, as printed by ``ncubble report``. ``cause`` and ``disease`` name
    what to fix first; ``causes`` ranks all of them, each with ``pct`` (of kernel time), ``where``
    (source lines), ``fix`` and ``predicted_gain_pct``. Further members: ``account`` (percent by
    part), ``unit``, ``duration_ns``, ``cycles``, ``sm_clock_hz``, ``tensor_elapsed_pct``,
    ``dram_pct``, ``integrity``, ``warnings``. None marks values missing from the report.
    docs/reference/verdicts.md defines each.
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
