"""What many launches lose, in a sentence: how much of their time, to what and where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncubble.analysis.account.parts import PARTS, WORK, part_label
from ncubble.analysis.launches.columns import Codes, LaunchColumns
from ncubble.text.values import duration, fixed, short_name

MOST_PCT = 50.0
"""Above this share of the loss, a bubble is called most of it."""
LEAST_PCT = 0.5
"""Percent of the time; smaller losses count as none."""

UNSPLIT = [part.name for part in PARTS.values() if part.kind == "rest"]
"""The part of idle time without samples to split it."""


@dataclass(frozen=True)
class Headline:
    """Of some launches: the time of all, and what of it is lost. A kernel that ran on several of
    ``devices`` (GPU models) is counted once.

    ``lost_ns`` of ``judged_ns``, the time of launches with an account. ``part`` in ``kernel`` has
    ``largest_pct`` of the loss; ``unsplit_pct`` of it lies in accounts without samples. Tensor:
    kernels whose counted unit is the tensor pipe, their time, and how much of it the pipe is busy
    (None without such). ``unjudged`` launches lack an account or a duration; their known time is
    the rest of ``time_ns``.
    """

    launches: int
    kernels: int
    devices: int
    time_ns: float
    judged_ns: float
    lost_ns: float
    part: str
    kernel: str
    largest_pct: float
    unsplit_pct: float
    tensor_ns: float
    tensor_busy_pct: float | None
    unjudged: int

    @property
    def lost_pct(self) -> float:
        """Of the time of judged launches; 0 without any."""
        return 100.0 * self.lost_ns / self.judged_ns if self.judged_ns else 0.0

    @property
    def claim(self) -> str:
        """The loss: ``12 kernels, 41 % of 3.20 ms GPU time lost``."""
        kernels = f"{self.kernels:,} kernel{'' if self.kernels == 1 else 's'}"
        kernels += f" on {self.devices:,} GPU models" if self.devices > 1 else ""
        if not self.launches:
            return "No launch"
        if not self.judged_ns:
            return f"{kernels}, lost time unknown"
        if self.lost_pct < LEAST_PCT:
            return f"{kernels}, no recoverable idle time in {duration(self.judged_ns)} of GPU time"
        return f"{kernels}, {fixed(self.lost_pct, 0)} % of {duration(self.judged_ns)} GPU time lost"

    @property
    def place(self) -> str:
        """Where most of it is lost; empty where nothing is, or no part is known."""
        if not self.part or self.lost_pct < LEAST_PCT:
            return ""
        share, where = fixed(self.largest_pct, 0), f"{part_label(self.part)} in {short_name(self.kernel, 48)}"
        return f"most of it ({share} %) to {where}" if self.largest_pct > MOST_PCT else f"{share} % of it to {where}"

    @property
    def tensor(self) -> str:
        """How busy the tensor pipe is in the kernels that use it."""
        if self.tensor_busy_pct is None or not self.time_ns:
            return ""
        pct = 100.0 * self.tensor_ns / self.time_ns
        share = fixed(pct, 0) if pct >= LEAST_PCT else f"less than {LEAST_PCT}"
        busy = fixed(self.tensor_busy_pct, 0)
        return f"Tensor-pipe kernels take {share} % of the time and keep the pipe busy for {busy} % of their time."

    @property
    def doubt(self) -> str:
        """What of the loss has no cause, and which launches are not counted; empty where all is
        known."""
        sentences = []
        if self.lost_pct >= LEAST_PCT and self.unsplit_pct >= LEAST_PCT:
            sentences.append(
                f"{fixed(self.unsplit_pct, 0)} % of the loss has no cause, because there are no warp samples."
            )
        if self.unjudged:
            of = f" ({fixed(100.0 * (1.0 - self.judged_ns / self.time_ns), 0)} % of the time)" if self.time_ns else ""
            noun = "launch is" if self.unjudged == 1 else "launches are"
            sentences.append(f"{self.unjudged:,} {noun} not judged{of}: counters or duration not collected.")
        return " ".join(sentences)


def headline(columns: LaunchColumns, chosen: Codes) -> Headline:
    """Of the launches at the places ``chosen``."""
    time, lost, busy = (columns.of(name)[chosen] for name in ("duration_ns", "recoverable_ns", "busy"))
    judged = ~np.isnan(lost) & ~np.isnan(time)
    tensor = columns.tensor[chosen] & ~np.isnan(time)
    known = tensor & ~np.isnan(busy)
    weight = float(time[known].sum())
    kernel, part, largest, unsplit = _largest(columns, chosen[judged & (lost > 0.0)])
    return Headline(
        len(chosen),
        len(np.unique(columns.kernel[chosen])),
        len(np.unique(columns.device[chosen][columns.device[chosen] >= 0])),
        float(np.nansum(time)),
        float(time[judged].sum()),
        float(lost[judged].sum()),
        part,
        kernel,
        largest,
        unsplit,
        float(time[tensor].sum()),
        float((busy[known] * time[known]).sum() / weight) if weight else None,
        int((~judged).sum()),
    )


def _largest(columns: LaunchColumns, lossy: Codes) -> tuple[str, str, float, float]:
    """The kernel and the part of its bubbles that cost most, its percent of the loss, and the
    percent that is not split into causes."""
    bubbles = [place for place, name in enumerate(columns.parts) if name not in WORK]
    if not len(lossy) or not bubbles:
        return "", "", 0.0, 0.0
    time, kernel, count = columns.of("duration_ns")[lossy], columns.kernel[lossy], len(columns.kernels)
    parts = [np.bincount(kernel, np.nan_to_num(columns.accounts[lossy, place]) * time, count) for place in bubbles]
    table = np.column_stack(parts)
    total = float(table.sum())
    if not total > 0.0:
        return "", "", 0.0, 0.0
    coarse = [place for place, part in enumerate(bubbles) if columns.parts[part] in UNSPLIT]
    unsplit = 100.0 * float(table[:, coarse].sum()) / total
    table[:, coarse] = 0.0
    first, part = divmod(int(table.argmax()), len(bubbles))
    if not table[first, part] > 0.0:
        return "", "", 0.0, unsplit
    return columns.kernels[first], columns.parts[bubbles[part]], 100.0 * float(table[first, part]) / total, unsplit
