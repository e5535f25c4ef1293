"""What ``bubble_probe.cuh`` recorded, as lanes on one axis of time: dumps read, clocks unwrapped,
SMs related, regions checked. Anything may be in a file.

A file holds dumps, one after the other: ``bubbles2``, eight digits with the length of a JSON
object, the object, 64 bytes for each warp, and for each warp ``marks`` marks of 8 bytes: the clock
(32 low bits), and a word with tag (6 bits), kind (2) and index (24).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pandas as pd

from ncubble.analysis.traces.lanes import (
    COLUMNS,
    INDEX,
    MOST_ROWS,
    TIMES,
    Lanes,
    Overlap,
    Share,
    concurrency,
    cut,
    percent,
)
from ncubble.errors import ReportError

MAGIC = b"bubbles2"
LARGEST_B = 4 << 30
WARP = np.dtype(
    [(name, "<u8") for name in ("begin_ns", "begin_clock", "end_ns", "end_clock")]
    + [(name, "<u4") for name in ("sm", "cta", "warp", "role", "marks", "launch")]
    + [("spare", "<u4", (2,))]
)
MARK = np.dtype([("clock", "<u4"), ("word", "<u4")])
STEP, BEGIN, END = 1, 2, 3
"""Kinds of marks: replace the current region, interrupt it, or end and resume it."""
WRAP = 1 << 32
LONGEST = 2**47
"""Maximum lifetime of a warp, in cycles or ns: more than a day. (Unsigned: an end before the start
is longer.)"""
_FASTEST, _SLOWEST = 0.2, 20.0
"""Allowed ns per cycle of a clock; any other fit means that the times are invalid."""
_STEPS = 8
"""Minimum distances between values of %globaltimer to take their greatest common divisor as the
timer's step."""
_REMEDY = "record it again"
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
_Names = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=80)], ...], msgspec.Meta(max_length=500)]


class DumpHead(msgspec.Struct, frozen=True):
    """What a dump tells of itself. ``started``: warps that asked for a slot on a recorded SM."""

    warps: _Count
    marks: Annotated[int, msgspec.Meta(gt=1, lt=1 << 32)]
    started: _Count
    slots: _Count
    tags: _Names
    roles: _Names


_HEAD = msgspec.json.Decoder(DumpHead)


@dataclass(frozen=True)
class Dump:
    """One recording: ``warps`` (of ``WARP``) and ``marks`` (of ``MARK``, a row for each warp)."""

    head: DumpHead
    warps: np.ndarray
    marks: np.ndarray


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
    """``lanes`` of warps, sorted by start; ``warps`` with one row for each (its life in ns, ``sm``,
    ``cta``, ``warp``, ``launch``, ``group``, ``kept`` marks, whether its slot was ``full``)."""

    lanes: pd.DataFrame
    warps: pd.DataFrame
    clock: Clock
    loss: Loss


def read_dumps(path: Path) -> list[Dump]:
    """The dumps of a file; raises ReportError naming it and what is wrong."""
    try:
        if path.stat().st_size > LARGEST_B:
            raise ReportError(f"{path}: larger than {LARGEST_B >> 30} GB", "record fewer SMs")
        return parse_dumps(path.read_bytes(), str(path))
    except OSError as error:
        raise ReportError(f"{path}: cannot be read ({error.strerror or error})", _REMEDY) from error


def parse_dumps(data: bytes, origin: str) -> list[Dump]:
    """The dumps of ``data``; raises ReportError naming ``origin``."""
    dumps: list[Dump] = []
    view = memoryview(data)
    while view or not dumps:
        start = bytes(view[:16])
        if start[:8] != MAGIC or not start[8:].isdigit() or len(start) < 16:
            raise ReportError(f"{origin}: not a recording of the probe", _REMEDY)
        length = int(start[8:])
        try:
            head = _HEAD.decode(view[16 : 16 + length])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ReportError(f"{origin}: its description is not readable ({error})", _REMEDY) from error
        if head.warps > min(head.started, head.slots):
            raise ReportError(f"{origin}: its description is invalid", _REMEDY)
        view = view[16 + length :]
        first, size = head.warps * WARP.itemsize, head.warps * (WARP.itemsize + head.marks * MARK.itemsize)
        if len(view) < size:
            raise ReportError(f"{origin}: is shorter than its {head.warps} warps", _REMEDY)
        marks = np.frombuffer(view[first:size], dtype=MARK).reshape(head.warps, head.marks)
        dumps.append(Dump(head, np.frombuffer(view[:first], dtype=WARP), marks))
        view = view[size:]
    return dumps


def decode(dumps: Sequence[Dump]) -> Recorded:
    """All warps of all dumps, those of a later dump under later numbers of ``launch``; time starts
    at the first."""
    warps = pd.concat([_warps(dump, number) for number, dump in enumerate(dumps)], ignore_index=True)
    warps["launch"] = warps.groupby(["dump", "grid"], sort=True).ngroup()
    parts = [_regions(dump, warps[warps["dump"] == number]) for number, dump in enumerate(dumps)]
    regions = pd.concat([part for part, _ in parts], ignore_index=True)
    warps, clock = _place_warps(warps)
    loss = Loss(
        warps=sum(max(0, dump.head.started - len(dump.warps)) for dump in dumps),
        full=int(warps["full"].sum()),
        unseen_ns=_unseen(regions, warps),
        unended=int((~warps["ended"]).sum()),
        damaged=sum(bad for _, bad in parts),
    )
    return Recorded(_place_regions(regions, warps), warps, clock, loss)


def _warps(dump: Dump, number: int) -> pd.DataFrame:
    """One row for each warp, with clocks as integers."""
    records = dump.warps
    roles = np.array([*dump.head.roles, "unknown"], dtype=object)
    # The probe never wrote entries that live longer than LONGEST.
    lived = records["end_clock"] - records["begin_clock"]
    ended = (records["end_ns"] > 0) & (lived < LONGEST) & (records["end_ns"] - records["begin_ns"] < LONGEST)
    # The last mark of a slot stands for all that did not fit. A warp that did not finish never
    # stored its count: written marks have a kind.
    written, most = dump.marks["word"] >> 6 & 3 > 0, dump.marks.shape[1] - 1
    leading = np.cumprod(written[:, :-1], axis=1, dtype=np.int8).sum(axis=1)
    kept = np.where(ended, np.minimum(records["marks"], most), leading)
    return pd.DataFrame(
        {
            "dump": number,
            "grid": records["launch"].astype(np.int64),
            **{name: records[name].astype(np.int64) for name in ("sm", "cta", "warp")},
            "group": roles[np.minimum(records["role"], len(roles) - 1)],
            "ended": ended,
            "kept": kept.astype(np.int64),
            "full": (kept == most) & written[:, -1],
            **{name: records[name] for name in ("begin_clock", "end_clock", "begin_ns", "end_ns")},
        }
    )


def _regions(dump: Dump, warps: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The regions between the kept marks of a dump, with unwrapped clocks relative to the begin of
    their warp; how many marks made no sense."""
    clock, word = dump.marks["clock"].astype(np.int64), dump.marks["word"].astype(np.int64)
    start = (warps["begin_clock"].to_numpy() % WRAP).astype(np.int64)
    # Marks are written in order, each less than one counter wrap after the previous.
    times = np.cumsum(np.diff(clock, axis=1, prepend=start[:, None]) % WRAP, axis=1)
    ended, full, kept = (warps[name].to_numpy() for name in ("ended", "full", "kept"))
    life = np.where(ended, (warps["end_clock"] - warps["begin_clock"]).to_numpy().astype(np.int64), 2**62)
    stored = np.arange(clock.shape[1])[None, :] < kept[:, None]
    known = (word >> 6 & 3 > 0) & (word & 63 < len(dump.head.tags)) & (times <= life[:, None])
    row, column = np.nonzero(stored & known)
    marks = pd.DataFrame({"row": row, "start": times[row, column], "word": word[row, column]})
    marks["end"] = marks.groupby("row")["start"].shift(-1)
    # The end of the last one is only known for a warp that finished with room left.
    last = marks["end"].isna()
    marks.loc[last, "end"] = np.where(ended & ~full, life, -1)[marks.loc[last, "row"]]
    word = _in_force(marks)
    drawn = (word & 63 > 0) & (marks["end"] >= marks["start"]).to_numpy()
    marks, word = marks[drawn], word[drawn]
    frame = pd.DataFrame(
        {
            "of": warps.index.to_numpy()[marks["row"]],
            "start": marks["start"].to_numpy(),
            "end": marks["end"].to_numpy().astype(np.int64),
            "tag": np.array(dump.head.tags, dtype=object)[word & 63],
            "index": word >> 8,
        }
    )
    return frame, int((stored & ~known).sum())


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
    of_sm, ended, cycles = ["dump", "sm"], warps["ended"], _cycles(warps)
    begin = (warps["begin_clock"] - warps.groupby(of_sm)["begin_clock"].transform("min")).astype(float)
    begun = warps[of_sm].assign(clock=begin, ns=warps["begin_ns"])
    pairs = pd.concat([begun, warps.loc[ended, of_sm].assign(clock=begin + cycles, ns=warps["end_ns"])])
    zero_ns = int(pairs["ns"].min()) if len(pairs) else 0
    pairs["ns"] = (pairs["ns"] - zero_ns).astype(float)
    # The greatest step that all distances are multiples of. A few of them are by chance multiples
    # of a larger one.
    steps = np.diff(np.unique(pairs["ns"].to_numpy(np.int64)))
    quantum = float(np.gcd.reduce(steps)) if len(steps) >= _STEPS else None
    slope = _slope(pairs)
    scale = slope if slope is not None else 1.0
    pairs["offset"] = pairs["ns"] - scale * pairs["clock"]
    # %globaltimer shows its last step: the true time is up to one step later.
    bounds = pairs.groupby(of_sm)["offset"].agg(["max", "min"])
    middle = (bounds["max"] + bounds["min"]) / 2 + (quantum or 0.0) / 2
    residual = float((bounds["max"] - bounds["min"]).max() / 2) if len(bounds) else 0.0
    offset = middle.reindex(pd.MultiIndex.from_frame(warps[of_sm])).to_numpy() if len(bounds) else np.zeros(0)
    start = offset + scale * begin.to_numpy()
    end = start + scale * cycles.to_numpy()
    zero = float(start.min()) if len(start) else 0.0
    return warps.assign(start_ns=start - zero, end_ns=end - zero), Clock(slope, quantum, residual)


def _cycles(warps: pd.DataFrame) -> pd.Series:
    """How long each warp lived; 0 of one that never ended."""
    return (warps["end_clock"] - warps["begin_clock"]).where(warps["ended"], 0).astype(float)


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
    cycles = float(_cycles(warps).sum())
    scale = float((warps["end_ns"] - warps["start_ns"]).sum()) / cycles if cycles > 0 else 1.0
    times = {f"{edge}_ns": own["start_ns"].to_numpy() + scale * regions[edge].to_numpy() for edge in ("start", "end")}
    lanes = own.assign(**times, tag=regions["tag"].to_numpy(), index=regions["index"].to_numpy())
    return lanes[[*COLUMNS]].sort_values("start_ns", kind="stable", ignore_index=True)


ASYNCHRONOUS = (
    ("copies", "copy in flight", "load", "wait_data"),
    ("products", "product in flight", "compute", "wait_mma"),
)
"""Group and tag of the derived lanes, the tag that starts the work, and the tag that waits for
it."""
ELSEWHERE = "elsewhere"
"""Time of a warp outside all regions."""
FINEST_NS = 1 / 16
"""Times are rounded to this step, an eighth of a cycle; finer digits are noise and take space."""
MOST_TAGS = 60
_SM, _CTA = ["launch", "sm"], ["launch", "sm", "cta"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """``span_ns``: mean time of an SM; ``busy_pct``: percent of SM time in which a kind of work is
    under way."""

    span_ns: float
    sms: int
    warps: int
    shares: tuple[Share, ...]
    busy_pct: dict[str, float]
    overlaps: tuple[Overlap, ...]


@dataclass(frozen=True)
class ProbeCost:
    """As ``kernels.run.probe.Cost``. Traces that ship were recorded before ``chosen_pct`` was
    measured."""

    off_us: float
    idle_pct: float
    on_pct: float
    on_low_pct: float
    on_high_pct: float
    rounds: int
    kept_pct: float
    sms: int = 0
    chosen_pct: float | None = None


@dataclass(frozen=True)
class TracedKernel:
    """A kernel of the catalog that was traced."""

    name: str
    parameters: dict[str, Any]
    shape: dict[str, Any]


@dataclass(frozen=True)
class TracedResult:
    """Whether a traced kernel computed what it should."""

    passed: bool


@dataclass(frozen=True, kw_only=True)
class TraceFacts(Summary):
    """What of the facts of a trace is shown: its numbers, what was traced, what the probe costs,
    and the stretch of the whole trace (ns), if it is one."""

    clock: Clock
    loss: Loss
    kernel: TracedKernel | None = None
    argv: tuple[str, ...] = ()
    cost: ProbeCost | None = None
    verification: TracedResult | None = None
    cut_ns: tuple[float, float] | None = None


def traced_lanes(recorded: Recorded, more: Mapping[str, Any]) -> Lanes:
    """What a run directory keeps of a trace: the lanes of the warps and what is in flight, at most
    ``MOST_ROWS``, the earliest, and all numbers beside ``more``, which are facts of kernel, build,
    device and cost."""
    rows = pd.concat([recorded.lanes, flights(recorded.lanes)], ignore_index=True)
    clock = {**asdict(recorded.clock), "mhz": recorded.clock.mhz}
    facts = {**more, "clock": clock, "loss": asdict(recorded.loss), **asdict(summarize(rows, recorded.warps))}
    rows[[*TIMES]] = (rows[[*TIMES]] / FINEST_NS).round() * FINEST_NS
    return Lanes("warps", rows.sort_values("start_ns", kind="stable", ignore_index=True).iloc[:MOST_ROWS], facts)


def cut_lanes(lanes: Lanes, low_ns: float, high_ns: float) -> Lanes:
    """A stretch of a trace, with numbers of its own."""
    rows = cut(lanes.rows, low_ns, high_ns)
    stretch = {"cut_ns": [low_ns, high_ns], "whole_ns": lanes.facts.get("span_ns")}
    return Lanes(lanes.kind, rows, {**lanes.facts, **asdict(summarize(rows)), **stretch})


def summarize(rows: pd.DataFrame, lives: pd.DataFrame | None = None) -> Summary:
    """The numbers of a trace. Kinds of work are the tags that are no waits. ``lives``: one row for
    each warp; by default a warp lives from its first interval to its last."""
    warps = rows[rows["warp"] >= 0]
    if lives is None:
        own = warps.groupby([*_CTA, "warp", "group"], as_index=False, sort=False, observed=True)
        lives = own.agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    spans = lives.groupby(_SM).agg(start=("start_ns", "min"), end=("end_ns", "max"))
    total = float((spans["end"] - spans["start"]).sum())
    ordered = pd.concat([warps, rows[rows["warp"] < 0]])
    together = concurrency(ordered, "tag", _SM, total, MOST_TAGS)
    return Summary(
        span_ns=total / max(len(spans), 1),
        sms=int(lives["sm"].nunique()),
        warps=len(lives),
        shares=_shares(warps, lives),
        busy_pct={tag: percent(ns, total) for tag, ns in together.busy_ns.items()},
        overlaps=together.overlaps,
    )


def _shares(warps: pd.DataFrame, lives: pd.DataFrame) -> tuple[Share, ...]:
    """Where the time of the warps goes, by role and tag, in the order of the roles' and tags' first
    appearance."""
    shares = []
    for group, alive in lives.groupby("group", sort=False):
        rest = life = float((alive["end_ns"] - alive["start_ns"]).sum())
        own = warps[warps["group"] == group]
        for tag, lasted in (own["end_ns"] - own["start_ns"]).groupby(own["tag"], sort=False):
            ns = float(lasted.sum())
            rest -= ns
            shares.append(Share(str(group), str(tag), len(lasted), ns, percent(ns, life), float(lasted.median())))
        shares.append(Share(str(group), ELSEWHERE, 0, rest, percent(rest, life), None))
    return tuple(shares)


def flights(lanes: pd.DataFrame) -> pd.DataFrame:
    """Lanes of copies and tensor products in flight, with the columns of ``lanes`` (``warp`` is
    -1); empty where nothing is awaited.

    A copy of tile i is in flight from the begin of its ``load`` until the wait for it ends, in any
    warp of its CTA; a product from the begin of its ``compute`` until the end of ``wait_mma``. It
    may have ended before somebody looked: these are the longest times that the record allows.
    """
    several = lanes["launch"].nunique() > 1
    parts = [lanes.iloc[:0]]
    for group, tag, starts, awaits in ASYNCHRONOUS:
        begun = lanes[lanes["tag"] == starts].groupby([*_CTA, INDEX])["start_ns"].min()
        ended = lanes[lanes["tag"] == awaits].groupby([*_CTA, INDEX])["end_ns"].max()
        flying = pd.concat([begun, ended], axis=1, join="inner").reset_index()
        flying = flying[flying["end_ns"] >= flying["start_ns"]].sort_values("start_ns", kind="stable")
        for (launch, sm, cta), own in flying.groupby(_CTA, sort=False):
            name = f"{f'launch {launch} ' if several else ''}SM {sm} CTA {cta} {group}"
            places = beside(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
            lane = [f"{name} {place + 1}" for place in places]
            parts.append(own.assign(lane=lane, group=group, tag=tag, warp=-1)[list(lanes.columns)])
    both = pd.concat(parts[1:] or parts, ignore_index=True)
    return both.sort_values("start_ns", kind="stable", ignore_index=True)


def beside(starts: np.ndarray, ends: np.ndarray) -> list[int]:
    """For intervals in order of their start: the lowest lane in which each overlaps no other."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    places = []
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        places.append(lane)
    return places
