"""What is wrong with a launch: its cause, what that costs, and what to do about it."""

from __future__ import annotations

from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.api.markup import paragraph


class ReportVerdict(LaunchVerdict):
    """The verdict on one launch, as ``ncubble report`` prints it.

    ``cause`` and ``disease`` name what to remove first; ``causes`` ranks all of them, each with
    ``pct`` (of kernel time), ``where`` (source lines), ``fix`` and ``predicted_gain_pct``. Further
    members: ``account`` (percent by part), ``unit``, ``duration_ns``, ``cycles``, ``sm_clock_hz``,
    ``tensor_elapsed_pct``, ``dram_pct``, ``integrity``, ``warnings``. None stands for what the
    report does not hold. docs/reference/verdicts.md defines each.
    """

    @property
    def sentence(self) -> str:
        """The verdict in words: how busy the unit is, what is lost most, and where."""
        return words.sentence(self)

    @property
    def bubble_pct(self) -> float | None:
        """Percent of elapsed SM cycles in which the counted unit is idle; None without account."""
        return words.bubble_pct(self.account)

    def __repr__(self) -> str:
        return f"<ReportVerdict {self.cause}: {self.sentence}>"

    def _repr_html_(self) -> str:
        return paragraph(self.sentence)
