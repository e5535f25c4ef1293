"""The bubble account as the gate keeps it: its parts in every repeat, the lines that hold them, and
what grew between two of these.

Percentages are of elapsed SM cycles. Growth is in percent of the cycles before: what a part takes
of the launches after, times how many times as long they take, less what it took before. So the
growth of all parts sums to that of the cycles, and a part that takes as long as before has not
moved, however much longer the whole takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.account import account as bubble_account
from ncubble.analysis.account.code import main_loop
from ncubble.analysis.account.parts import STEADY, WORK, folded, merged_by_any
from ncubble.analysis.diagnosis.results import CONTRADICTIONS
from ncubble.analysis.report.report import Launch
from ncubble.records import Number, Percentage
from ncubble.sass.bystanders import homes
from ncubble.sass.opcodes import is_asynchronous, role

FINEST_PCT = 0.2
"""Places below this percent of elapsed cycles are dropped."""
_FINEST_OF_LAUNCH_PCT = 0.02
"""The same of each launch: a tenth, so that means over repeats stay unbiased."""
MOST_PLACES = 40
LONGEST = 120
"""Maximum length of a place's text."""
NOTHING = 0.2
"""More work is named as the cause only if no other part grew by this many points."""


@dataclass(frozen=True)
class CodePlace:
    """A line, or an instruction where there are no lines, and the percent of elapsed cycles of one
    part that it holds.

    ``file`` is a base name, empty where the report has no line information; ``text`` is the source
    line, or with ``sass`` the heaviest instruction, where the report carries no source. ``below``
    is the text of the line above where the file has the same text more than once, else empty.
    """

    part: str
    file: str
    line: int | None
    text: str
    pct: Number
    sass: bool = False
    below: str = ""

    @property
    def kin(self) -> tuple[str, str, str]:
        """Equal for places that may be the same before and after a change: it stays when lines
        above come or go, and when registers change."""
        if not self.sass:
            return self.part, self.file, self.text
        return self.part, self.file, str(self.line) if self.line else opcode(self.text)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Tells places of the same kin apart as far as what stands above them does."""
        return *self.kin, self.below


@dataclass(frozen=True)
class Account:
    """The accounts of repeats, or of one launch. ``parts`` has one value per launch, and those of a
    launch sum to 100; None where that launch has no account, or one that splits time otherwise.
    ``merged`` names the finer parts that a coarse one stands for; ``places`` are means over the
    launches that have one, largest first; ``unit`` is the one whose idle time the parts split.

    ``overlap`` says by which rule waits that coincide with a busy unit were taken out
    (``analysis/account/stalls.py``): ``asynchronous`` MMAs, ``phases`` of the CTA, or empty for
    neither.
    """

    parts: Mapping[str, tuple[Percentage | None, ...]]
    places: tuple[CodePlace, ...] = ()
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = ""
    overlap: str = ""

    @property
    def launches(self) -> int:
        """How many launches have an account."""
        return max((len(self.known(part)) for part in self.parts), default=0)

    @property
    def means(self) -> dict[str, float]:
        """The mean of every part over the launches that have an account."""
        return {part: math.fsum(known) / len(known) for part in self.parts if (known := self.known(part))}

    def known(self, part: str) -> list[float]:
        """The values of one part, without the launches that have none; empty for a part that is not
        there."""
        return [value for value in self.parts.get(part, ()) if value is not None]

    def to_json(self) -> dict[str, Any]:
        """A plain object for a baseline file, rounded to 3 decimals; ``baseline_file`` reads
        it."""
        parts = {
            part: [None if value is None else round(value, 3) for value in values]
            for part, values in self.parts.items()
        }
        merged = {"merged": {coarse: list(finer) for coarse, finer in self.merged.items()}} if self.merged else {}
        places = [_place_json(place) for place in self.places]
        return {"unit": self.unit, "overlap": self.overlap, "parts": parts, **merged, "places": places}


def gather(launches: Sequence[Account | None]) -> Account | None:
    """The accounts of launches, one each, as one; None where no launch has an account.

    Launches that were profiled with other metrics may split time otherwise, or count against
    another unit. Those that split it finest are taken, if they are two at least, and the others
    have no values.
    """
    alike: dict[tuple[str, frozenset[str]], list[Account]] = {}
    for account in launches:
        if account is not None:
            alike.setdefault(_split(account), []).append(account)
    if not alike:
        return None
    finest = max(alike, key=lambda split: (len(alike[split]) > 1, -len(split[1]), len(alike[split])))
    taken = alike[finest]
    parts = [account.means if account is not None and _split(account) == finest else None for account in launches]
    names = dict.fromkeys(name for account in taken for name in account.parts)
    values = {
        name: tuple(None if account is None else float(account.get(name, 0.0)) for account in parts) for name in names
    }
    kept = [place for place in mean_places([account.places for account in taken]) if place.pct >= FINEST_PCT]
    return Account(values, tuple(kept[:MOST_PLACES]), dict(taken[0].merged), finest[0], taken[0].overlap)


def _split(account: Account) -> tuple[str, frozenset[str]]:
    """Equal for accounts whose parts mean the same."""
    return account.unit, frozenset(f"{coarse}:{name}" for coarse, finer in account.merged.items() for name in finer)


def mean_places(launches: Sequence[Iterable[CodePlace]]) -> list[CodePlace]:
    """Places of the same key averaged over ``launches``, largest first; the heaviest gives the
    line."""
    heaviest: dict[tuple[str, str, str, str], CodePlace] = {}
    total: dict[tuple[str, str, str, str], float] = {}
    for place in (place for places in launches for place in places):
        known = heaviest.get(place.key)
        heaviest[place.key] = place if known is None or place.pct > known.pct else known
        total[place.key] = total.get(place.key, 0.0) + place.pct
    mean = [replace(place, pct=total[key] / len(launches)) for key, place in heaviest.items()]
    return sorted(mean, key=lambda place: (-place.pct, place.key))


def opcode(sass: str) -> str:
    """``LDG.E`` of ``@!P0 LDG.E R4, desc[UR4][R2.64]``; empty of an empty text."""
    words = sass.split()[1:] if sass.startswith("@") else sass.split()
    return words[0].rstrip(";") if words else ""


def _place_json(place: CodePlace) -> dict[str, Any]:
    where = {"file": place.file, "line": place.line} if place.file else {}
    text = {"sass" if place.sass else "text": place.text}
    below = {"below": place.below} if place.below else {}
    return {"part": place.part, **where, **text, **below, "pct": round(place.pct, 3)}


def account_of(launch: Launch) -> Account | None:
    """The account of one launch with its places; None where the report allows none, or its values
    contradict each other. Where only the code contradicts itself, parts stand without places."""
    try:
        computed = bubble_account(launch)
    except CONTRADICTIONS:
        return None
    if computed is None:
        return None
    parts = {part: (float(pct),) for part, pct in computed.parts.items()}
    known = Account(parts, (), dict(computed.merged), computed.unit)
    try:
        rule = _overlap(computed, launch.source)
        return replace(known, places=tuple(_places(launch, computed)), overlap=rule)
    except CONTRADICTIONS:
        return known


def _overlap(computed: BubbleAccount, source: pd.DataFrame) -> str:
    """By which rule samples were weighed: that of phases takes some out, that of asynchronous MMAs
    may take none."""
    if computed.weights is None:
        return ""
    if any(map(is_asynchronous, source["opcode"].unique())):
        return "asynchronous"
    counted, weighed = float(source["samples"].sum()), float(computed.weights.to_numpy().sum())
    return "phases" if weighed < 0.999 * counted else ""


def _places(launch: Launch, computed: BubbleAccount) -> list[CodePlace]:
    """All places of all steady parts, largest first; empty where no samples split them. A place is
    a line; without lines, the instructions of one opcode."""
    if computed.weights is None:
        return []
    source = launch.source.reset_index(drop=True)
    held = pd.DataFrame(dict(_held(computed, computed.weights, source)), index=source.index)
    files, lines = source["file"].fillna("").map(lambda name: PurePath(name).name), source["line"].astype(int)
    lined = (files != "") & (lines > 0)
    sites = [files.where(lined, ""), lines.where(lined, 0), source["sass"].map(opcode).where(~lined, "")]
    by_site = held.groupby([site.rename(name) for name, site in zip("flo", sites, strict=True)], sort=False)
    total, heaviest = by_site.sum(), by_site.idxmax()
    texts = {PurePath(name).name: list(map(_shown, text.splitlines())) for name, text in launch.report.files.items()}
    sass, spots = source["sass"].tolist(), []
    for part in held:
        found = zip(total.index.tolist(), total[part].tolist(), heaviest[part].tolist(), strict=True)
        for (file, line, _), pct, row in found:
            if pct >= _FINEST_OF_LAUNCH_PCT:
                text, below = _text(texts.get(file, []), line)
                spots.append(CodePlace(str(part), file, line or None, text or _shown(sass[row]), pct, not text, below))
    return mean_places([spots])


def _text(lines: Sequence[str], line: int) -> tuple[str, str]:
    """A source line and, where its text stands there more than once, the one above that is not
    empty; else empty."""
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    if not text or lines.count(text) == 1:
        return text, ""
    return text, next((above for above in reversed(lines[: line - 1]) if above), "")


def _held(computed: BubbleAccount, weights: pd.DataFrame, source: pd.DataFrame) -> Iterator[tuple[str, np.ndarray]]:
    """For each part with samples the percent of elapsed cycles at each instruction.

    Dependent latency at the MMA belongs to ``issue`` and lies where the waits for it were sampled.
    Samples have no time: gaps between waves are laid on what CTAs do outside their main loop, which
    is what fills the gaps.
    """
    pct = {part: weights[part].to_numpy(dtype=float) for part in STEADY}
    unit = weights["unit"].to_numpy(dtype=float)
    if (beyond := computed.steady["issue"] - pct["issue"].sum()) > 0 and unit.sum() > 0:
        pct["issue"] = pct["issue"] + unit * (beyond / unit.sum())
    pct["wave_gap"] = _outside(source, weights)
    for part, weight in pct.items():
        if (total := weight.sum()) > 0 and computed.parts.get(part, 0.0) > 0:
            yield part, computed.parts[part] * weight / total


def _outside(source: pd.DataFrame, weights: pd.DataFrame) -> np.ndarray:
    """Weight of each instruction that stands outside the main loop, 0 of the others."""
    opcodes = source["opcode"].tolist()
    home = np.asarray(homes(source["sass"].tolist(), opcodes), dtype=int)
    loop = main_loop([role(opcode) for opcode in opcodes], source["executed"].to_numpy(dtype=float), home.tolist())
    outside = (home < loop.start) | (home >= loop.stop)
    return np.asarray(np.where(outside, weights.drop(columns="aside").sum(axis=1), 0.0), dtype=float)


def plain(text: str) -> str:
    """One line without control characters: a report may hold anything."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())


def _shown(text: str) -> str:
    return plain(text)[:LONGEST]


@dataclass(frozen=True)
class Move:
    """How much a part grew (fell: below 0), in percent of the cycles before, and the place that
    grew most within it, as it is now, with its own growth as ``pct``; None where the part has no
    places, or none of them grew."""

    part: str
    points: float
    place: CodePlace | None = None

    @property
    def file(self) -> str:
        """Base name of the file of the place; empty where none is known."""
        return self.place.file if self.place else ""

    @property
    def line(self) -> int | None:
        """Line of the place, as it is now."""
        return self.place.line if self.place else None


def moves(before: Account, after: Account, cycles_ratio: float) -> tuple[Move, ...]:
    """All parts by their growth, largest first; ``cycles_ratio`` is the cycles after over those
    before.

    A busy unit comes behind all other parts that grew: with the work unchanged its share falls or
    stays. It comes first where nothing else grew, as then the work itself did. Parts that only one
    side splits are merged. Empty where the ratio is no positive number, or the accounts are
    ``incomparable``.
    """
    if not 0 < cycles_ratio < math.inf or incomparable(before, after):
        return ()
    merged = merged_by_any((before.merged, after.merged))
    then, now = (folded(side.means, merged) for side in (before, after))
    grown = {part: now.get(part, 0.0) * cycles_ratio - then.get(part, 0.0) for part in {**then, **now}}
    work_only = all(points <= NOTHING for part, points in grown.items() if part not in WORK)
    where = _grown_most(before.places, after.places, cycles_ratio)
    unsorted = [Move(part, points, where.get(part)) for part, points in grown.items()]
    return tuple(sorted(unsorted, key=lambda move: (_rank(move, work_only), -move.points)))


def incomparable(before: Account, after: Account) -> str:
    """Why parts of a name do not mean the same on both sides; empty where they do."""
    if not before.unit or not after.unit or before.unit == after.unit:
        return ""
    return (
        f"the baseline's account counts idle time of its busiest unit, {before.unit}; the current "
        f"account that of {after.unit}"
    )


def doubtful(before: Account, after: Account) -> str:
    """Why the split of idle time is less certain than usual; empty where it is not.

    A change that puts a kernel under another rule of overlap, such as a barrier that leaves the
    stretch of MMAs, changes which waits are counted, so that a part may grow or shrink by the rule
    alone.
    """
    if not before.unit or before.overlap == after.overlap:
        return ""
    return (
        "the parts are less certain than usual: the baseline used another rule for waits that "
        f"coincide with a busy unit ({before.overlap or 'none'}) than now ({after.overlap or 'none'})"
    )


def _rank(move: Move, work_only: bool) -> int:
    if move.points <= 0:
        return 2
    return int(move.part in WORK and not work_only)


def _grown_most(before: Iterable[CodePlace], after: Iterable[CodePlace], cycles_ratio: float) -> dict[str, CodePlace]:
    """For each part the place that grew most, where one grew."""
    best: dict[str, CodePlace] = {}
    for place, then in _partners(list(before), list(after)):
        grown = replace(place, pct=place.pct * cycles_ratio - then)
        if grown.pct > 0 and (place.part not in best or grown.pct > best[place.part].pct):
            best[place.part] = grown
    return best


def _partners(before: list[CodePlace], after: list[CodePlace]) -> Iterator[tuple[CodePlace, float]]:
    """Each place of ``after`` with the percent that it held before: by its key, else as the nearest
    of its kin that is left; by file and line alone where one side carries no source."""
    by_line = any(place.sass and place.line for place in (*before, *after))
    was, now = ([_by_line(place) if by_line else place for place in side] for side in (before, after))
    left = {place.key: place for place in was}
    pairs = [(place, known, left.pop(known.key, None)) for place, known in zip(after, now, strict=True)]
    for place, known, then in pairs:
        if then is None:
            kin = [candidate for candidate in left.values() if candidate.kin == known.kin]
            nearest = min(kin, key=lambda candidate: abs((candidate.line or 0) - (place.line or 0)), default=None)
            then = left.pop(nearest.key) if nearest else None
        yield place, then.pct if then else 0.0


def _by_line(place: CodePlace) -> CodePlace:
    return replace(place, sass=True, below="") if place.line else place


def sentence(move: Move) -> str:
    """A move in words, as for a terminal: ``data_wait grew by 23.4 points of the baseline's time,
    most at gemm.cu:191 `loop_sync();` (+23.3)``."""
    verb = "grew" if move.points >= 0 else "fell"
    words = f"{move.part} {verb} by {abs(move.points):.1f} points of the baseline's time"
    if move.part in WORK and move.points > 0:
        return f"the work itself grew: {words}"
    if move.place is None or move.points <= 0:
        return words
    return f"{words}, most at {spot(move.place)} ({move.place.pct:+.1f})"


def spot(place: CodePlace) -> str:
    """``gemm.cu:191 `loop_sync();` ``: where a place is, and what stands there."""
    text = place.text.replace("`", "'")
    where = f"{place.file}:{place.line} " if place.file and place.line else ""
    return f"{where}`{text}`"
