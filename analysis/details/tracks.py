"""The PM-sampling timeline of one launch as data: tracks on one time axis, the phases of the
account, sampled warp states, and idle time by part.

Where a phase was found (ramp, gap between waves, tail), its loss is what ``account.phases`` counts:
missing CTAs, and what the unit stays below its steady level. All other idle time is steady: the
account shares it out by warp samples, which have no time stamp, so every sample's steady idle time
is split in the account's proportions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ncubble.analysis.account.parts import LAUNCH_SHAPE, WORK, display_order
from ncubble.analysis.account.phases import Phases
from ncubble.analysis.account.units import INCIDENTAL_PCT
from ncubble.analysis.diagnosis.words import unit_words
from ncubble.text.values import percent

PREFIX = "stall_"
MOST = 6
"""Maximum reasons with their own band; one more band sums the others."""
REST = "others"
Stalls = dict[str, pd.Series]
SMALL = 1.0
"""Steady parts below this percent of kernel time are merged into ``other``: thinner bands are
invisible."""
Bands = dict[str, np.ndarray]


@dataclass(frozen=True)
class Track:
    """One row of the figure: the series it shows, by short name, in order of preference; the first
    that exists wins."""

    label: str
    names: tuple[str, ...]
    color: str


TRACKS = (
    Track("tensor pipe", ("tensor", "tensor_inst"), "tensor"),
    Track("SMs active", ("sm_active",), "sm"),
    Track("DRAM", ("dram", "dram_read"), "dram"),
    Track("L2", ("l2", "l2_sectors"), "l2"),
    Track("L1", ("l1",), "l1"),
    Track("issue slots", ("issue", "smsp__inst_executed.avg.pct_of_peak_sustained_elapsed"), "issue"),
)


@dataclass(frozen=True)
class Stretch:
    """A shaded stretch of the axis: ``part`` of the account it belongs to, borders in ns."""

    part: str
    start_ns: float
    end_ns: float


def series_of(timeline: pd.DataFrame, names: Iterable[str]) -> tuple[str, pd.Series, str] | None:
    """(name, values indexed by t_ns, unit) of the first of ``names`` that was sampled in this
    launch, or None."""
    for name in names:
        rows = timeline[timeline["metric"] == name]
        if not rows.empty:
            values = pd.Series(rows["value"].to_numpy(dtype=float), index=rows["t_ns"].to_numpy(dtype=float))
            values = values.sort_index()
            return name, values[~values.index.duplicated()], str(rows["unit"].iloc[0] or "")
    return None


def sampling_interval_ns(timeline: pd.DataFrame) -> float | None:
    """Median distance of samples of the finest series in ns, or None where nothing was sampled
    twice."""
    steps = [
        float(np.median(np.diff(np.sort(rows["t_ns"].unique()))))
        for _, rows in timeline.groupby("metric")
        if len(rows) > 1
    ]
    return min(steps, default=None)


def stretches(phases: Phases | None) -> list[Stretch]:
    """What is shaded: ramp, tail and gaps between waves of ``analysis.phases.Phases``; nothing
    where it is None."""
    if phases is None:
        return []
    parts = [Stretch("ramp", phases.start_ns, phases.ramp_end_ns)] if phases.ramp_end_ns > phases.start_ns else []
    parts += [Stretch("wave_gap", start, end) for start, end in phases.dips]
    parts += [Stretch("tail", phases.tail_start_ns, phases.end_ns)] if phases.end_ns > phases.tail_start_ns else []
    return parts


@dataclass(frozen=True)
class Marks:
    """What is marked in the figure: shaded stretches, the share of each part in the account, and
    the steady level.

    ``series`` is what the phases were found on, ``label`` its name in words. ``unseen_tail`` is the
    share of the tail that comes from counted cycles without a CTA and not from samples. Shares and
    level in percent.
    """

    stretches: list[Stretch]
    shares: Mapping[str, float]
    steady: float
    series: str
    label: str
    unseen_tail: float

    @classmethod
    def of(cls, phases: Phases, parts: Mapping[str, float], shown: Window, unit: str) -> Marks:
        """The marks of ``analysis.phases.Phases``, which follow issued instructions where the unit
        was not sampled."""
        labels = {name: track.label for track, name, *_ in shown.tracks}
        series = unit if unit in labels else "issue"
        unseen = parts.get("tail", 0.0) - phases.tail
        return cls(stretches(phases), parts, phases.steady, series, labels.get(series, "issue slots"), unseen)

    def words(self) -> str:
        """One line below the figure: what the shaded stretches are, and what they cost."""
        count = sum(1 for stretch in self.stretches if stretch.part == "wave_gap")
        ramp, gap, tail = (percent(self.shares.get(name, 0.0)) for name in ("ramp", "wave_gap", "tail"))
        gaps = f"{count} wave gap{'' if count == 1 else 's'} {gap}" if count else "no wave gaps"
        text = (
            f"Shaded: {self.label} well below the steady level of {self.steady:.0f} % (dotted). "
            f"In the account: ramp {ramp}, {gaps}, tail {tail} of kernel time."
        )
        if self.unseen_tail < 0.1:
            return text
        return (
            f"{text} {self.unseen_tail:.1f} points of the tail come from counters (SM cycles without a "
            "CTA), not from the shaded range."
        )


@dataclass(frozen=True)
class Window:
    """The tracks of one launch that share its time base, the stretch that is shown, and what could
    not be shown.

    ``start_ns`` is the first sample in which the launch is active; ``apart`` names tracks from
    passes whose clock does not overlap it: drawn on this axis they would be wrong.
    """

    tracks: list[tuple[Track, str, pd.Series, str]]
    start_ns: float
    end_ns: float
    active: int
    apart: list[str]


def tracks_of(unit: str) -> list[Track]:
    """The tracks in the order of the figure, that of the account's unit first; a pipe that is none
    of them is added."""
    own = next((track for track in TRACKS if unit in track.names), Track(unit_words(unit), (unit,), "unit"))
    return [own, *(track for track in TRACKS if track != own)]


def window(timeline: pd.DataFrame, unit: str = "tensor") -> Window | None:
    """What of one launch's ``timeline`` rows is drawn; None where none of the tracks was sampled.

    The series of ``unit`` chooses the pass whose clock is shown, else that of active SMs, else the
    first track. Active SMs bound the launch where they were sampled in that pass: caches and DRAM
    still write back after its end. A tensor pipe that other pipes' instructions leak into has no
    track, unless ``unit`` is the tensor pipe.
    """
    sampled = [
        (track, *series) for track in tracks_of(unit) if (series := series_of(timeline, track.names)) is not None
    ]
    sampled = [
        entry for entry in sampled if entry[1] == unit or entry[0].color != "tensor" or entry[2].max() >= INCIDENTAL_PCT
    ]
    order = sorted(range(len(sampled)), key=lambda i: (sampled[i][1] != unit, sampled[i][1] != "sm_active", i))
    base = next((alive for i in order if len(alive := _alive(sampled[i][2]))), None)
    if base is None:
        return None
    launched = next((_alive(values) for _, name, values, _ in sampled if name == "sm_active"), base)
    if launched.index.min() <= base.index.max() and base.index.min() <= launched.index.max():
        base = launched
    start, end = float(base.index.min()), float(base.index.max())
    inside = [entry for entry in sampled if ((entry[2].index >= start) & (entry[2].index <= end)).sum() > 0]
    apart = [entry[0].label for entry in sampled if entry[0] not in {kept[0] for kept in inside}]
    return Window(inside, start, end, len(base), apart)


def _alive(values: pd.Series) -> pd.Series:
    """The samples in which the launch runs: sampling goes on after its end, and a little leaks into
    most series."""
    running: pd.Series = values[values > 0.01 * values.max()]
    return running


MIN_ACTIVE = 4
"""Minimum active samples for a figure: fewer would only show that the launch happened."""
NO_MARKS = "No bubbles are marked: the account's unit was not sampled, or too briefly to separate phases."


def as_percent(name: str, values: pd.Series, unit: str) -> tuple[pd.Series, str]:
    """Values and the words of their unit; active SMs, which are counted in cycles, become percent
    of their maximum."""
    if name == "sm_active" and unit != "%" and values.max() > 0:
        return 100.0 * values / values.max(), "% of max"
    return values, unit


def stall_series(timeline: pd.DataFrame, shown: Window) -> tuple[Stalls, str]:
    """(series by reason, their unit): sampled warp states that share the time base of ``shown``,
    largest first.

    At most ``MOST`` reasons and ``REST``; empty where none was sampled, or none on this clock. Of
    series that were sampled in several passes, those stay that lie on the times of the first.
    """
    names = sorted({str(name) for name in timeline["metric"].unique() if str(name).startswith(PREFIX)})
    sampled = {
        name.removeprefix(PREFIX): series for name in names if (series := _of(timeline, name, shown)) is not None
    }
    if not sampled:
        return {}, ""
    unit = series_of(timeline, [names[0]])
    base = next(iter(sampled.values())).index
    # Passes have different clocks: stacked series need the same times.
    on_base = {name: series.reindex(base, method="nearest") for name, series in sampled.items()}
    ranked = sorted(on_base, key=lambda name: -float(on_base[name].mean()))
    drawn = {name: on_base[name] for name in ranked[:MOST] if on_base[name].max() > 0}
    if rest := ranked[MOST:]:
        drawn[REST] = pd.Series(np.sum([on_base[name].to_numpy() for name in rest], axis=0), index=base)
    return drawn, unit[2] if unit else ""


def _of(timeline: pd.DataFrame, name: str, shown: Window) -> pd.Series | None:
    sampled = series_of(timeline, [name])
    if sampled is None:
        return None
    values = sampled[1]
    inside = values[(values.index >= shown.start_ns) & (values.index <= shown.end_ns)]
    return inside if len(inside) > 1 else None


def idle_bands(busy: pd.Series, active: pd.Series | None, phases: Phases, parts: Mapping[str, float]) -> Bands:
    """Percent of each sample by part, in display order, at the times of ``busy`` (percent, indexed
    by t_ns).

    Busy and bands together are 100 in every sample of the kernel, and 0 outside it. ``active`` is
    the series of SMs with a CTA in any unit, None where it was not sampled with ``busy``;
    ``phases`` as of ``analysis.phases``.
    """
    times, level = busy.index.to_numpy(dtype=float), np.clip(busy.to_numpy(dtype=float), 0.0, 100.0)
    inside = (times >= phases.start_ns) & (times <= phases.end_ns)
    with_cta = _share_active(busy, active)
    lost = 100.0 * (1.0 - with_cta) + np.clip(with_cta * phases.steady - level, 0.0, 100.0)
    idle = np.where(inside, 100.0 - level, 0.0)
    bands: Bands = {}
    steady = idle.copy()
    for part, within in _phases_of(times, phases).items():
        bands[part] = np.where(within & inside, np.minimum(lost, idle), 0.0)
        steady -= bands[part]
    for part, share in _steady_shares(parts).items():
        bands[part] = np.clip(steady, 0.0, 100.0) * share
    return {name: bands[name] for name in display_order(bands) if bands[name].any()}


def _share_active(busy: pd.Series, active: pd.Series | None) -> np.ndarray:
    """Share of SM cycles with a CTA, as ``analysis.phases`` reads it; 1 where it was not sampled
    along."""
    if active is None or len(active) != len(busy) or not active.max() > 0:
        return np.ones(len(busy))
    values = active.to_numpy(dtype=float)
    full = float(np.quantile(values, 0.95))
    return np.asarray(np.clip(values / full, 0.0, 1.0)) if full > 0 else np.ones(len(busy))


def _phases_of(times: np.ndarray, phases: Phases) -> dict[str, np.ndarray]:
    gap = np.zeros(len(times), dtype=bool)
    for start, end in phases.dips:
        gap |= (times >= start) & (times < end)
    return {"ramp": times < phases.ramp_end_ns, "tail": times > phases.tail_start_ns, "wave_gap": gap}


def _steady_shares(parts: Mapping[str, float]) -> dict[str, float]:
    """How steady idle time divides among parts, 0 to 1; all of it is ``other`` where the account
    has none."""
    known = {name: value for name, value in parts.items() if name not in (*WORK, *LAUNCH_SHAPE) and value > 0}
    total = sum(known.values())
    if total <= 0:
        return {"other": 1.0}
    large = {name: value / total for name, value in known.items() if value >= SMALL or name == "other"}
    rest = 1.0 - sum(large.values())
    return {**large, "other": large.get("other", 0.0) + rest} if rest > 1e-9 else large
