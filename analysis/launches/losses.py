"""What many launches lose: as columns, summed to rows of groups, and in a sentence. Groups of
100,000 launches take milliseconds.

Rows are those of the dashboard's table; the rules are those of ``diagnosis.groups``, which
``ncubble report`` follows for verdicts of one report, without numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncubble.analysis.account.parts import PARTS, WORK, display_order, part_label
from ncubble.analysis.diagnosis.groups import UNJUDGED, main_cause
from ncubble.analysis.diagnosis.verdict import idle_pct
from ncubble.analysis.diagnosis.words import biggest_bubble
from ncubble.analysis.launches.table import LaunchRows
from ncubble.text.values import duration, fixed, number, short_name

MEASURED = " (measured)"
"""Suffix of a cause that was measured."""
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Row = Mapping[str, Any]
SUMS = ("duration_ns", "recoverable_ns", "cycles")
MEANS = ("busy", "tensor", "dram", "occupancy", "clock_ghz", "tflops", "dram_gbs")
"""Columns averaged by time: rates and shares of time."""


@dataclass(frozen=True)
class LaunchColumns:
    """One element per launch: ``kernel``, ``cause`` and ``tensor`` (whether the counted unit is the
    tensor pipe) as codes into ``kernels`` and ``causes`` and as bool. ``device``: a code for each
    GPU model, -1 where it is not known.

    ``values`` has a column for each of SUMS and MEANS, NaN where not collected; ``accounts`` one
    for each of ``parts``, NaN in all of them where a launch has no account.
    """

    kernels: list[str]
    kernel: Codes
    device: Codes
    causes: list[str]
    cause: Codes
    tensor: NDArray[np.bool_]
    values: Floats
    parts: list[str]
    accounts: Floats

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> LaunchColumns:
        """Of rows of the dashboard. What an ablation ``measured`` stands in place of the
        ``account``."""
        packed = LaunchRows.of(rows)
        kernel, kernels = packed.coded("name")
        models, names = packed.coded("device")
        known = coded([None, *names])[0]
        cause, causes = packed.coded("cause")
        plain, causes = coded([str(words).removesuffix(MEASURED) for words in causes])
        accounts, parts = _accounts(packed)
        values = np.array([packed.numbers(name) for name in (*SUMS, *MEANS)]).T
        units, tensor = packed.coded("unit")
        return cls(
            kernels,
            kernel,
            known[1:][models] - 1,
            causes,
            plain[cause],
            np.array([unit == "tensor" for unit in tensor], bool)[units],
            values,
            parts,
            accounts,
        )

    def __len__(self) -> int:
        return len(self.kernel)

    def of(self, name: str) -> Floats:
        """One of SUMS or MEANS."""
        return self.values[:, (*SUMS, *MEANS).index(name)]


def _accounts(rows: LaunchRows) -> tuple[Floats, list[str]]:
    """A row for each account, and the parts of its columns."""
    measured, first = rows.coded("measured")
    estimated, second = rows.coded("account")
    there = np.array([bool(account) for account in first], bool)[measured]
    given = [account or () for account in (*first, *second)]
    flat: list[Any] = list(chain.from_iterable(chain.from_iterable(given)))  # name, share, name, share …
    part, parts = coded(flat[::2])
    lengths = np.fromiter(map(len, given), np.int64, len(given))
    found = np.full((len(given), len(parts)), np.nan)
    found[lengths > 0] = 0.0
    found[np.repeat(np.arange(len(given)), lengths), part] = numbers(flat[1::2])
    return found[np.where(there, measured, len(first) + estimated)], parts


def coded(values: Sequence[Any]) -> tuple[Codes, list[Any]]:
    """A code for each value, and the distinct values in the order of their codes."""
    known = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return np.fromiter(map(known.__getitem__, values), np.int64, len(values)), list(known)


def numbers(values: Sequence[Any]) -> Floats:
    """Values as floats, NaN for what is none."""
    return np.array(values, np.float64)


def sums(values: Floats, codes: Codes, count: int) -> Floats:
    """What the known ``values`` of each of ``count`` groups sum to; NaN where none is known."""
    known = ~np.isnan(values)
    total = np.bincount(codes[known], values[known], count).astype(np.float64)  # whole numbers unless given
    total[np.bincount(codes[known], minlength=count) == 0] = np.nan
    return total


def means(values: Floats, time_ns: Floats, codes: Codes, count: int) -> Floats:
    """Means of the known ``values`` of each group, weighted by time, or unweighted where no time is
    known; NaN where no value is."""
    known = ~np.isnan(values)
    time = np.where(np.isnan(time_ns), 0.0, time_ns)[known]
    codes, values = codes[known], values[known]
    weight = np.bincount(codes, time, count)
    flat = np.bincount(codes, minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        weighted = np.bincount(codes, values * time, count) / weight
        plain = np.bincount(codes, values, count) / flat
    return np.where(weight > 0.0, weighted, plain)


def mean_of_columns(values: Floats, time_ns: Floats) -> Floats:
    """The mean of each column of ``values`` (launches × columns) by the rule of ``means``."""
    known = ~np.isnan(values)
    weight = np.nan_to_num(time_ns)[:, None] * known
    weighted = (np.nan_to_num(values) * weight).sum(axis=0) / np.where(
        weight.sum(axis=0) > 0.0, weight.sum(axis=0), np.nan
    )
    plain = np.nan_to_num(values).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    mean: Floats = np.where(np.isnan(weighted), plain, weighted)
    return mean


def share_pct(time_ns: float | None, total_ns: float) -> float | None:
    """Percent of the whole time; None where either is not known."""
    return round(100.0 * time_ns / total_ns, 4) if time_ns is not None and total_ns > 0.0 else None


# --- A row of several launches ---

TYPICAL = ("cause", "cause_key", "change", "at")
"""Columns taken from the typical launch: the longest one with the main cause."""


def common_row(rows: Sequence[Row], kinds: Sequence[Row], columns: LaunchColumns, places: Codes) -> dict[str, Any]:
    """``rows``, at least two, as one; they are those of ``columns`` at ``places``, and ``kinds``
    those of ``kinds_of``. With ``count``, and ``judged``, the launches whose cause is known.

    ``several`` names the fields whose values differ and are neither summed nor averaged: they are
    None. ``cause_pct`` is what the cause takes of the account of all.
    """
    packed = LaunchRows.of(rows)
    values, time = columns.values[places], columns.of(SUMS[0])[places]
    totals = [*_sums(values[:, : len(SUMS)]), *mean_of_columns(values[:, len(SUMS) :], time)]
    account = _account(columns, places, time)
    alike, judged = _main(columns, places, time)
    typical = rows[int(alike[np.nan_to_num(time[alike]).argmax()])]
    bubble = biggest_bubble(account)
    shares = [(name, round(account[name], 4)) for name in display_order(account)]
    known: dict[str, Any] = {name: _rounded(value) for name, value in zip((*SUMS, *MEANS), totals, strict=True)}
    known |= {name: typical.get(name) for name in TYPICAL}
    known |= {
        "cause_pct": _rounded(idle_pct(account, str(typical.get("cause_key")))),
        "account": shares,
        "measured": shares if all(packed.distinct("measured")) else None,
        "bubble": part_label(bubble[0]) if bubble else None,
        "bubble_key": bubble[0] if bubble else None,
        "bubble_pct": _rounded(bubble[1]) if bubble else None,
        "count": len(rows),
        "judged": judged,
        "parameters": _shared([row.get("parameters") or {} for row in kinds]),
        "dims": _shared([row.get("dims") or {} for row in kinds]),
    }
    first = rows[0]
    beside = [name for name in first if name not in known and name != "id"]
    several = [name for name in beside if packed.differs(name)]
    return {**{name: None if name in several else first[name] for name in beside}, **known, "several": several}


def kinds_of(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """One of the rows of each parameters and problem, and how many runs there are."""
    packed = LaunchRows.of(rows)
    _, first = packed.combined(("label", "shape"))
    return list(packed.at(first)), len(packed.distinct("path"))


def _sums(values: Floats) -> list[float]:
    """Of each column what is known; NaN where nothing is."""
    known = np.where(np.isnan(values).all(axis=0), np.nan, np.nansum(values, axis=0))
    return [float(total) for total in known]


def _account(columns: LaunchColumns, places: Codes, time: Floats) -> dict[str, float]:
    """The mean account, without the parts that no launch has."""
    means = mean_of_columns(columns.accounts[places], time)
    return {part: float(pct) for part, pct in zip(columns.parts, means, strict=True) if pct > 0.0}


def _main(columns: LaunchColumns, places: Codes, time: Floats) -> tuple[Codes, int]:
    """Which of ``places`` have the main cause, and how many have any."""
    causes = columns.cause[places]
    there, codes = np.unique(causes, return_inverse=True)
    spent = np.bincount(codes, np.nan_to_num(time), len(there))
    names = [columns.causes[cause] for cause in there]
    chosen = names.index(main_cause(names, spent.tolist()))
    unjudged = sum(int((codes == place).sum()) for place, name in enumerate(names) if name == UNJUDGED)
    return np.flatnonzero(codes == chosen), len(places) - unjudged


def _shared(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all have, with the same value."""
    first = given[0]
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in given)}


def _rounded(value: float | None) -> float | None:
    known = number(value)
    return None if known is None else round(known, 4)


# --- In a sentence ---

MOST_PCT = 50.0
"""Above this share of the loss, a bubble is called most of it."""
LEAST_PCT = 0.5
"""Percent of the time; smaller losses count as none."""

UNSPLIT = [part.name for part in PARTS.values() if part.kind == "rest"]
"""The part of idle time without samples to split it."""


class Loss(NamedTuple):
    """What a part of a kernel's bubbles costs, in percent of a whole loss."""

    part: str
    kernel: str
    pct: float


@dataclass(frozen=True)
class Headline:
    """Of some launches: the time of all, and what of it is lost. A kernel that ran on several of
    ``devices`` (GPU models) is counted once.

    ``lost_ns`` of ``judged_ns``, the time of launches with an account. ``losses``: the largest of a
    tensor kernel, then the largest of all, where that is another; ``unsplit_pct`` of the loss lies
    in accounts without samples. Tensor: kernels whose counted unit is the tensor pipe, their time,
    and how much of it the pipe is busy (None without such). ``unjudged`` launches lack an account
    or a duration; their known time is the rest of ``time_ns``.
    """

    launches: int
    kernels: int
    devices: int
    time_ns: float
    judged_ns: float
    lost_ns: float
    losses: list[Loss]
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
        words, of_it = [], " of it"
        for part, kernel, pct in self.losses if self.lost_pct >= LEAST_PCT else ():
            share = f"most{of_it} ({fixed(pct, 0)} %)" if pct > MOST_PCT else f"{fixed(pct, 0)} %{of_it}"
            words.append(f"{share} to {part_label(part)} in {short_name(kernel, 48)}")
            of_it = ""
        return ", ".join(words)

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
    losses, unsplit = _largest(columns, chosen[judged & (lost > 0.0)])
    return Headline(
        len(chosen),
        len(np.unique(columns.kernel[chosen])),
        len(np.unique(columns.device[chosen][columns.device[chosen] >= 0])),
        float(np.nansum(time)),
        float(time[judged].sum()),
        float(lost[judged].sum()),
        losses,
        unsplit,
        float(time[tensor].sum()),
        float((busy[known] * time[known]).sum() / weight) if weight else None,
        int((~judged).sum()),
    )


def _largest(columns: LaunchColumns, lossy: Codes) -> tuple[list[Loss], float]:
    """``Headline.losses``, and the percent of the whole loss that is not split into causes."""
    bubbles = [place for place, name in enumerate(columns.parts) if name not in WORK]
    if not len(lossy) or not bubbles:
        return [], 0.0
    time, kernel, count = columns.of("duration_ns")[lossy], columns.kernel[lossy], len(columns.kernels)
    parts = [np.bincount(kernel, np.nan_to_num(columns.accounts[lossy, place]) * time, count) for place in bubbles]
    table = np.column_stack(parts)
    total = float(table.sum())
    if not total > 0.0:
        return [], 0.0
    coarse = [place for place, part in enumerate(bubbles) if columns.parts[part] in UNSPLIT]
    unsplit = 100.0 * float(table[:, coarse].sum()) / total
    table[:, coarse] = 0.0
    of_tensor = table * (np.bincount(kernel, columns.tensor[lossy], count) > 0)[:, None]
    places = dict.fromkeys(divmod(int(one.argmax()), len(bubbles)) for one in (of_tensor, table))
    losses = [
        Loss(columns.parts[bubbles[part]], columns.kernels[name], 100.0 * float(table[name, part]) / total)
        for name, part in places
    ]
    return [loss for loss in losses if loss.pct >= LEAST_PCT], unsplit
