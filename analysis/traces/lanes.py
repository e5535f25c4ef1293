"""Lanes: what every warp, stream or engine did when. The ``lanes.parquet`` of a run directory.

One row per interval, with these columns: ``lane`` (a warp, a stream), ``group`` (its role or
engine), ``tag`` (what it did), ``start_ns`` and ``end_ns`` on one clock with any zero. Lanes of
warps also have ``index`` (which tile or chunk), ``sm``, ``cta``, ``warp`` (-1: in flight beside the
warps) and ``launch``, all whole numbers. Tags that begin with ``wait`` are time in which the lane
could do nothing. The file's metadata hold ``ncubble.lanes`` (schema, 1), ``ncubble.lanes.kind``
(``warps`` or ``streams``) and ``ncubble.trace`` (facts, a JSON object).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ncubble.errors import ReportError

FILE = "lanes.parquet"
WARPS = "warps"
"""Folder of a run of streams that holds the trace of the warps of its kernels, a run itself."""
SCHEMA = 1
KINDS = ("warps", "streams")
TEXTS, TIMES, PLACES = ("lane", "group", "tag"), ("start_ns", "end_ns"), ("index", "sm", "cta", "warp", "launch")
COLUMNS = (*TEXTS, *TIMES, *PLACES)
INDEX = "index"
NO_INDEX = -1
MOST_ROWS = 1_000_000
LARGEST_B, MOST_UNPACKED_B = 64 << 20, 512 << 20
LONGEST = 80
"""Maximum length of a lane, group or tag."""
MOST = 10**15
"""Maximum of a number in ``PLACES``."""
_REMEDY, _SHORTER = "record the run again, or delete the file", "record a shorter section"


@dataclass(frozen=True)
class Lanes:
    """``rows`` by start, with ``TEXTS``, ``TIMES`` and, where they are whole numbers, ``PLACES``.
    ``facts``: what the recorder tells beside them."""

    kind: str
    rows: pd.DataFrame
    facts: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write ``lanes.parquet`` into ``folder``; raises OSError."""
        rows = self.rows.astype(dict.fromkeys(TEXTS, "category") | dict.fromkeys(TIMES, float))
        marks = {"ncubble.lanes": str(SCHEMA), "ncubble.lanes.kind": self.kind, "ncubble.trace": json.dumps(self.facts)}
        pq.write_table(
            pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(marks),
            folder / FILE,
            compression="zstd",
            compression_level=12,
            use_dictionary=[name for name in (*TEXTS, *PLACES) if name in rows],
            column_encoding=dict.fromkeys(TIMES, "BYTE_STREAM_SPLIT"),
        )


def run_id(folder: Path) -> str:
    """16 hex digits that stand for a run directory in addresses, without telling its path."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:16]


def folders_with(file: str, roots: Iterable[Path]) -> Iterator[Path]:
    """Every folder with such a file at or below ``roots``, in order of path; links are not
    followed."""
    for root in roots:
        for folder, inside, names in os.walk(root):
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            if file in names and not os.path.islink(os.path.join(folder, file)):  # noqa: PTH114, PTH118 - many folders
                yield Path(folder)


def lane_kind(folder: Path) -> str:
    """The kind of a run's lanes, without reading them; empty where the file is none, or cannot be
    read."""
    try:
        with pq.ParquetFile(folder / FILE) as file:
            return _kind(folder / FILE, file)
    except (ReportError, OSError, pa.ArrowException, ValueError):
        return ""


def traced_kernel(folder: Path) -> str:
    """The name of the kernel that a run's lanes are of, without reading them; empty where they name
    none."""
    try:
        known = _facts(pq.read_schema(folder / FILE)).get("kernel")
    except (OSError, pa.ArrowException, ValueError):
        return ""
    return str(known.get("name") or "") if isinstance(known, dict) else ""


def read_lanes(folder: Path) -> Lanes:
    """The lanes of a run; raises ReportError naming the file and what is wrong with it."""
    path = folder / FILE
    try:
        if path.stat().st_size > LARGEST_B:
            raise ReportError(f"{path}: larger than {LARGEST_B >> 20} MB", _SHORTER)
        with pq.ParquetFile(path) as file:
            kind, schema = _kind(path, file), file.schema_arrow
        whole = [name for name in PLACES if name in schema.names and pa.types.is_integer(schema.field(name).type)]
        # As dictionaries: a long text in a million rows is stored once, and cut before it is
        # repeated.
        with pq.ParquetFile(path, read_dictionary=[*TEXTS]) as file:
            table = file.read(columns=[*TEXTS, *TIMES, *whole])
        texts = {name: table[name].to_pandas().astype("category") for name in TEXTS}
        rows = pd.DataFrame({name: text.map(_shortened, na_action="ignore") for name, text in texts.items()})
        rows = rows.astype(dict.fromkeys(TEXTS, object))
        for name in TIMES:
            rows[name] = table[name].cast(pa.float64()).to_numpy()
        for name in whole:
            rows[name] = table[name].cast(pa.int64()).fill_null(NO_INDEX).to_numpy()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise unreadable(path, error, _REMEDY) from error
    # Nothing drawn from intervals that are none would be true.
    if rows[[*TEXTS, *TIMES]].isna().to_numpy().any():
        raise ReportError(f"{path}: a text or time is missing", _REMEDY)
    if (rows["end_ns"] < rows["start_ns"]).any() or (rows[[*TIMES]].abs() > 1e18).to_numpy().any():
        raise ReportError(f"{path}: an interval ends before it starts", _REMEDY)
    return Lanes(kind, rows.sort_values("start_ns", kind="stable", ignore_index=True), _facts(schema))


def read_warps(folder: Path) -> Lanes:
    """Lanes of warps that tell whose they are; raises ReportError for all others."""
    lanes = read_lanes(folder)
    lacking = [name for name in PLACES if name not in lanes.rows or (lanes.rows[name].abs() > MOST).any()]
    if lanes.kind != "warps" or lacking:
        why = f"{lacking[0]} lacks, or holds a number that cannot be" if lanes.kind == "warps" else "but of streams"
        raise ReportError(f"{folder / FILE}: not a trace of warps ({why})", "record it again")
    return lanes


def unreadable(path: Path, error: Exception, remedy: str) -> ReportError:
    """The error for a file that Arrow or the system could not read."""
    what = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return ReportError(f"{path}: not readable ({what})", remedy)


def _kind(path: Path, file: pq.ParquetFile) -> str:
    """The kind that a file tells; refuses what no recorder wrote, and by its metadata what would
    take too much memory, before any row is read."""
    schema, size = file.schema_arrow, file.metadata
    marks = schema.metadata or {}
    version, kind = marks.get(b"ncubble.lanes", b""), marks.get(b"ncubble.lanes.kind", b"").decode(errors="replace")
    if not version.isdigit() or kind not in KINDS:
        raise ReportError(f"{path}: not a file of lanes", _REMEDY)
    if int(version) > SCHEMA:
        raise ReportError(f"{path}: schema {int(version)} is newer than {SCHEMA}", "upgrade ncubble")
    for name in (*TEXTS, *TIMES):
        if name not in schema.names:
            raise ReportError(f"{path}: lacks the column {name!r}", _REMEDY)
        if pa.types.is_nested(schema.field(name).type):
            raise ReportError(f"{path}: a column has neither texts nor numbers", _REMEDY)
    if size.num_rows > MOST_ROWS:
        raise ReportError(f"{path}: more than {MOST_ROWS:,} intervals", _SHORTER)
    if sum(size.row_group(group).total_byte_size for group in range(size.num_row_groups)) > MOST_UNPACKED_B:
        raise ReportError(f"{path}: unpacks to more than {MOST_UNPACKED_B >> 20} MB", _SHORTER)
    return str(kind)


def _shortened(text: object) -> str:
    return str(text)[:LONGEST]


def _facts(schema: pa.Schema) -> dict[str, Any]:
    try:
        facts = json.loads((schema.metadata or {}).get(b"ncubble.trace", b"{}"))
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def cut(rows: pd.DataFrame, low_ns: float, high_ns: float) -> pd.DataFrame:
    """What lanes show from ``low_ns`` to ``high_ns``, times as they are; intervals that reach out
    are cut there."""
    start, end = rows["start_ns"].clip(lower=low_ns), rows["end_ns"].clip(upper=high_ns)
    return rows.assign(start_ns=start, end_ns=end)[start < end].reset_index(drop=True)


WAIT = "wait"
MOST_KINDS = 8
"""Maximum kinds of work compared: those with most of it."""


@dataclass(frozen=True)
class Overlap:
    """Time in which all of ``what`` happen: in ns, in percent of the span, and of the least of
    them."""

    what: tuple[str, ...]
    ns: float
    pct_of_span: float
    pct_of_least: float


@dataclass(frozen=True)
class Concurrency:
    """``busy_ns``: time in which any lane does this kind of work; ``idle_ns``: time of ``span_ns``
    in which none works.

    ``overlaps`` holds every pair, then every three, in the order of ``busy_ns``.
    """

    span_ns: float
    busy_ns: dict[str, float]
    idle_ns: float
    overlaps: tuple[Overlap, ...]


@dataclass(frozen=True)
class Share:
    """Time of the lanes of ``group`` in intervals of ``tag``: how often, in ns in all, in percent
    of the lanes' time, and the median of one (None: not known)."""

    group: str
    tag: str
    count: int
    ns: float
    pct: float
    median_ns: float | None


def percent(part: float, whole: float) -> float:
    """``part`` in percent of ``whole``; 0 of nothing."""
    return 100.0 * part / whole if whole > 0 else 0.0


def works(rows: pd.DataFrame) -> pd.Series:
    """Which intervals are work: all but those whose tag begins with ``wait``."""
    working: pd.Series = ~rows["tag"].str.lower().str.startswith(WAIT)
    return working


def union(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the disjoint stretches that intervals cover, in order of time."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([np.flatnonzero(first)[1:] - 1, [len(starts) - 1]])
    return starts[first], reach[last]


def concurrency(
    rows: pd.DataFrame,
    kind: str = "group",
    within: Sequence[str] = (),
    span_ns: float | None = None,
    most: int = MOST_KINDS,
) -> Concurrency:
    """What goes on at the same time, by the column ``kind``; nothing of no rows.

    ``within``: columns whose values keep work apart, as that of two SMs. ``span_ns``: the whole
    time, by default from the first start to the last end.
    """
    if rows.empty:
        return Concurrency(0.0, {}, 0.0, ())
    span = float(rows["end_ns"].max() - rows["start_ns"].min()) if span_ns is None else span_ns
    work = rows[works(rows)]
    stretches: dict[tuple[object, ...], dict[str, tuple[np.ndarray, np.ndarray]]] = defaultdict(dict)
    busy: Counter[str] = Counter()
    for (*place, name), own in work.groupby([*within, kind], sort=False):
        starts, ends = union(own["start_ns"].to_numpy(float), own["end_ns"].to_numpy(float))
        stretches[tuple(place)][str(name)] = starts, ends
        busy[str(name)] += float((ends - starts).sum())  # type: ignore[assignment]
    chosen = {name for name, _ in busy.most_common(most)}
    names = [name for name in map(str, work[kind].unique()) if name in chosen]
    times: Counter[int] = Counter()
    for own_stretches in stretches.values():
        times += _by_mask([own_stretches.get(name, (np.empty(0), np.empty(0))) for name in names])
    overlaps = []
    for what in (*combinations(names, 2), *combinations(names, 3)):
        wanted = sum(1 << names.index(name) for name in what)
        ns = float(sum(lasting for mask, lasting in times.items() if mask & wanted == wanted))
        overlaps.append(Overlap(what, ns, percent(ns, span), percent(ns, min(busy[name] for name in what))))
    return Concurrency(span, {name: float(busy[name]) for name in names}, span - sum(times.values()), tuple(overlaps))


def _by_mask(stretches: Sequence[tuple[np.ndarray, np.ndarray]]) -> Counter[int]:
    """Time in ns by the set of kinds that go on, as a bit mask; outside of all work is not
    counted."""
    edges = np.concatenate([np.concatenate(pair) for pair in stretches] or [np.empty(0)])
    bits = [np.repeat([1 << number, -(1 << number)], len(pair[0])) for number, pair in enumerate(stretches)]
    order = np.argsort(edges, kind="stable")
    # Several events at one instant pass through states of no duration, which may not be valid
    # masks.
    lasting = np.diff(edges[order])
    states = np.cumsum(np.concatenate([*bits, np.empty(0, int)])[order])[:-1][lasting > 0]
    masks, number = np.unique(states, return_inverse=True)
    times = np.bincount(number, lasting[lasting > 0], len(masks))
    return Counter({mask: ns for mask, ns in zip(masks.tolist(), times.tolist(), strict=True) if mask})


def tag_times(rows: pd.DataFrame, low: float, high: float) -> list[Share]:
    """Time by group and tag in a window (ns), those with most first; medians are of the intervals
    that lie in it as a whole."""
    inside = rows[(rows["end_ns"] > low) & (rows["start_ns"] < high)]
    lanes = inside.groupby("group", observed=True)["lane"].nunique().to_dict()
    within = inside["end_ns"].clip(upper=high) - inside["start_ns"].clip(lower=low)
    length = inside["end_ns"] - inside["start_ns"]
    complete = length.where((inside["start_ns"] >= low) & (inside["end_ns"] <= high))
    times = []
    for (group, tag), own in inside.assign(ns=within, whole=complete).groupby(
        ["group", "tag"], observed=True, sort=False
    ):
        ns, median = float(own["ns"].sum()), own["whole"].median()
        share = percent(ns, (high - low) * float(lanes[group]))
        times.append(Share(str(group), str(tag), len(own), ns, share, None if pd.isna(median) else float(median)))
    return sorted(times, key=lambda share: -share.ns)
