"""From what the probe recorded to lanes on one axis of time: clocks unwrapped, SMs related, regions
checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ncubble.analysis.traces.dump import BEGIN, END, Dump

WRAP = 1 << 32
LONGEST = 2**47
"""Maximum lifetime of a warp, in cycles or ns: more than a day. (Unsigned: an end before the start
is longer.)"""
COLUMNS = ("lane", "group", "tag", "start_ns", "end_ns", "index", "sm", "cta", "warp", "launch")
_FASTEST, _SLOWEST = 0.2, 20.0
"""Allowed ns per cycle of a clock; any other fit means that the times are invalid."""
_STEPS = 8
"""Minimum distances between values of %globaltimer to take their greatest common divisor as the
timer's step."""


@dataclass(frozen=True)
class Clock:
    """How SM clocks were related to ns. ``ns_per_cycle`` is None where nothing told it: times are
    cycles then.

    ``quantum_ns``: the step of %globaltimer, None where too few of its values were seen.
    ``residual_ns``: the largest distance of a reading from the line. Within one SM the order is
    exact to the cycle, whatever these are.
    """

    ns_per_cycle: float | None
    quantum_ns: float | None
    residual_ns: float

    @property
    def mhz(self) -> float | None:
        """The SM clock while it was recorded."""
        return 1e3 / self.ns_per_cycle if self.ns_per_cycle else None


@dataclass(frozen=True)
class Loss:
    """What is not in the lanes: warps without a slot; warps whose slot was ``full`` before their
    end, and the time of them that is not seen; warps that never came to their end; marks that no
    kernel could have written."""

    warps: int
    full: int
    unseen_ns: float
    unended: int
    damaged: int


@dataclass(frozen=True)
class Recorded:
    """Lanes with the columns ``COLUMNS``, sorted by start; ``warps`` with one row for each (its
    life in ns, ``sm``, ``cta``, ``warp``, ``launch``, ``group``, ``kept`` marks, whether its slot
    was ``full``)."""

    lanes: pd.DataFrame
    warps: pd.DataFrame
    clock: Clock
    loss: Loss


def decode(dumps: Sequence[Dump]) -> Recorded:
    """All warps of all dumps, those of a later dump under later numbers of ``launch``; time starts
    at the first."""
    warps = pd.concat([_warps(dump, number) for number, dump in enumerate(dumps)], ignore_index=True)
    warps["launch"] = warps.groupby(["dump", "grid"], sort=True).ngroup()
    parts = [_regions(dump, warps[warps["dump"] == number]) for number, dump in enumerate(dumps)]
    regions = pd.concat([part for part, _ in parts], ignore_index=True)
    warps, clock = _place_warps(warps)
    lanes = _place_regions(regions, warps)
    loss = Loss(
        warps=sum(max(0, dump.started - len(dump.warps)) for dump in dumps),
        full=int(warps["full"].sum()),
        unseen_ns=_unseen(regions, warps),
        unended=int((~warps["ended"]).sum()),
        damaged=sum(bad for _, bad in parts),
    )
    return Recorded(lanes, warps, clock, loss)


def _warps(dump: Dump, number: int) -> pd.DataFrame:
    """One row for each warp, with clocks as integers."""
    records = dump.warps
    roles = np.array([*dump.roles, "unknown"], dtype=object)
    # The probe never wrote entries that live longer than LONGEST.
    lived = records["end_clock"] - records["begin_clock"]
    ended = (records["end_ns"] > 0) & (lived < LONGEST) & (records["end_ns"] - records["begin_ns"] < LONGEST)
    # The last mark of a slot stands for all that did not fit. A warp that did not finish never
    # stored its count: written marks have a kind.
    written, most = dump.marks["word"] >> 6 & 3 > 0, dump.marks.shape[1] - 1
    kept = np.where(ended, np.minimum(records["marks"], most), _leading(written[:, :-1]))
    return pd.DataFrame(
        {
            "dump": number,
            "slot": np.arange(len(records)),
            "grid": records["launch"].astype(np.int64),
            "sm": records["sm"].astype(np.int64),
            "cta": records["cta"].astype(np.int64),
            "warp": records["warp"].astype(np.int64),
            "group": roles[np.minimum(records["role"], len(roles) - 1)],
            "ended": ended,
            "kept": kept.astype(np.int64),
            "full": (kept == most) & written[:, -1],
            "begin_clock": records["begin_clock"],
            "end_clock": records["end_clock"],
            "begin_ns": records["begin_ns"],
            "end_ns": records["end_ns"],
        }
    )


def _leading(marks: np.ndarray) -> np.ndarray:
    """How many leading entries of each row are set."""
    return np.where(marks.all(axis=1), marks.shape[1], np.argmin(marks, axis=1)) if len(marks) else np.zeros(0, int)


def _regions(dump: Dump, warps: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The regions between the kept marks of a dump, with unwrapped clocks relative to the begin of
    their warp; how many marks made no sense."""
    clock, word = dump.marks["clock"].astype(np.int64), dump.marks["word"].astype(np.int64)
    start = (warps["begin_clock"].to_numpy() % WRAP).astype(np.int64)
    # Marks are written in order, each less than one counter wrap after the previous.
    times = np.cumsum(np.diff(clock, axis=1, prepend=start[:, None]) % WRAP, axis=1)
    ended, full, kept = (warps[name].to_numpy() for name in ("ended", "full", "kept"))
    life = np.where(ended, (warps["end_clock"] - warps["begin_clock"]).to_numpy().astype(np.int64), 2**62)
    place = np.arange(clock.shape[1])[None, :]
    known = (word >> 6 & 3 > 0) & (word & 63 < len(dump.tags)) & (times <= life[:, None])
    row, column = np.nonzero((place < kept[:, None]) & known)
    marks = pd.DataFrame({"row": row, "start": times[row, column], "word": word[row, column]})
    marks["end"] = marks.groupby("row")["start"].shift(-1)
    # The end of the last one is only known for a warp that finished with room left.
    last = marks["end"].isna()
    marks.loc[last, "end"] = np.where(ended & ~full, life, -1)[marks.loc[last, "row"]]
    names = np.array(dump.tags, dtype=object)
    word = _in_force(marks)
    drawn = (word & 63 > 0) & (marks["end"] >= marks["start"]).to_numpy()
    marks, word = marks[drawn], word[drawn]
    frame = pd.DataFrame(
        {
            "of": warps.index.to_numpy()[marks["row"]],
            "start": marks["start"].to_numpy(),
            "end": marks["end"].to_numpy().astype(np.int64),
            "tag": names[word & 63],
            "index": word >> 8,
        }
    )
    return frame, int(((place < kept[:, None]) & ~known).sum())


def _in_force(marks: pd.DataFrame) -> np.ndarray:
    """What goes on after each mark, as a word: its own, or after an end what it had interrupted (0:
    nothing)."""
    word = marks["word"].to_numpy()
    kind = word >> 6 & 3
    if not (kind == END).any():
        return word
    step = pd.Series((kind == BEGIN).astype(int) - (kind == END), index=marks.index)
    depth = step.groupby(marks["row"]).cumsum()
    own = marks["word"].astype(float).where(kind != END)
    return own.groupby([marks["row"], depth]).ffill().fillna(0).where(depth >= 0, 0).to_numpy().astype(np.int64)


def _unseen(regions: pd.DataFrame, warps: pd.DataFrame) -> float:
    """ns of the warps with full slots after their last region."""
    full = warps[warps["full"] & warps["ended"]]
    seen = regions.groupby("of")["end"].max().reindex(full.index).fillna(0)
    cycles = (full["end_clock"] - full["begin_clock"]).astype(float)
    length = (full["end_ns"] - full["start_ns"]).astype(float)
    return float((length * (1 - seen / cycles.where(cycles > 0, 1))).sum())


def _place_warps(warps: pd.DataFrame) -> tuple[pd.DataFrame, Clock]:
    """The warps with ``start_ns`` and ``end_ns`` of their lives, and how that was found."""
    ended = warps["ended"]
    pairs = pd.concat(
        [
            warps[["dump", "sm", "begin_clock", "begin_ns"]].set_axis(["dump", "sm", "clock", "ns"], axis=1),
            warps.loc[ended, ["dump", "sm", "end_clock", "end_ns"]].set_axis(["dump", "sm", "clock", "ns"], axis=1),
        ]
    )
    first = pairs.groupby(["dump", "sm"])[["clock", "ns"]].transform("min")
    pairs["clock"] = (pairs["clock"] - first["clock"]).astype(float)
    zero_ns = int(pairs["ns"].min()) if len(pairs) else 0
    pairs["ns"] = (pairs["ns"] - zero_ns).astype(float)
    quantum = _quantum(pairs["ns"].to_numpy())
    slope = _slope(pairs)
    scale = slope if slope is not None else 1.0
    pairs["offset"] = pairs["ns"] - scale * pairs["clock"]
    # %globaltimer shows its last step: the true time is up to one step later.
    bounds = pairs.groupby(["dump", "sm"])["offset"].agg(["max", "min"])
    middle = (bounds["max"] + bounds["min"]) / 2 + (quantum or 0.0) / 2
    residual = float((bounds["max"] - bounds["min"]).max() / 2) if len(bounds) else 0.0
    key = pd.MultiIndex.from_frame(warps[["dump", "sm"]])
    base = warps.groupby(["dump", "sm"])["begin_clock"].transform("min")
    offset = middle.reindex(key).to_numpy() if len(bounds) else np.zeros(0)
    start = offset + scale * (warps["begin_clock"] - base).astype(float).to_numpy()
    end = start + scale * (warps["end_clock"] - warps["begin_clock"]).where(ended, 0).astype(float).to_numpy()
    zero = float(start.min()) if len(start) else 0.0
    placed = warps.assign(start_ns=start - zero, end_ns=end - zero)
    return placed, Clock(slope, quantum, residual)


def _quantum(times: np.ndarray) -> float | None:
    """The greatest step that all distances are multiples of. A few of them are by chance multiples
    of a larger one."""
    steps = np.diff(np.unique(times.astype(np.int64)))
    return float(np.gcd.reduce(steps)) if len(steps) >= _STEPS else None


def _slope(pairs: pd.DataFrame) -> float | None:
    """ns per cycle by least squares over all SMs, each with an offset of its own; None where
    nothing tells."""
    means = pairs.groupby(["dump", "sm"])[["clock", "ns"]].transform("mean")
    clock, ns = pairs["clock"] - means["clock"], pairs["ns"] - means["ns"]
    spread = float((clock**2).sum())
    slope = float((clock * ns).sum()) / spread if spread > 0 else 0.0
    return slope if _FASTEST <= slope <= _SLOWEST else None


def _place_regions(regions: pd.DataFrame, warps: pd.DataFrame) -> pd.DataFrame:
    """The lanes: regions in ns, with the names of their warps."""
    several = warps["launch"].nunique() > 1
    names = [
        f"{f'launch {launch} ' if several else ''}SM {sm} CTA {cta} warp {warp}"
        for launch, sm, cta, warp in warps[["launch", "sm", "cta", "warp"]].itertuples(index=False)
    ]
    own = warps.assign(lane=np.array(names, dtype=object)).loc[regions["of"]].reset_index(drop=True)
    cycles = (warps["end_clock"] - warps["begin_clock"]).where(warps["ended"], 0).astype(float)
    length = (warps["end_ns"] - warps["start_ns"]).astype(float)
    scale = float(length.sum() / cycles.sum()) if cycles.sum() > 0 else 1.0
    frame = own[["lane", "group"]].assign(
        tag=regions["tag"].to_numpy(),
        start_ns=own["start_ns"].to_numpy() + scale * regions["start"].to_numpy(),
        end_ns=own["start_ns"].to_numpy() + scale * regions["end"].to_numpy(),
        index=regions["index"].to_numpy(),
        **{name: own[name].to_numpy() for name in ("sm", "cta", "warp", "launch")},
    )
    return frame.sort_values("start_ns", kind="stable", ignore_index=True)


def only(recorded: Recorded, sm: int) -> Recorded:
    """What one SM did."""
    lanes, warps = recorded.lanes, recorded.warps
    return replace(
        recorded,
        lanes=lanes[lanes["sm"] == sm].reset_index(drop=True),
        warps=warps[warps["sm"] == sm].reset_index(drop=True),
    )
