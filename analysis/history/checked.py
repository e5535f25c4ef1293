"""The kernels that a history holds, one per kernel and GPU model, and the checks of one of them.

Pure functions of ``History``; what takes time is remembered by the history's token.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ncubble.analysis.gate.metrics import METRICS
from ncubble.analysis.gate.verdicts import RANKS
from ncubble.analysis.history.file import History, HistoryReader
from ncubble.analysis.report.launch_key import slug
from ncubble.text.values import number, short_name, string

MOST_CHECKS = 200
"""Maximum checks drawn per subject, newest first: more could not be distinguished, and would draw
slowly."""
STRIP = 14
"""Maximum verdicts in the strip of a subject, newest last."""
NO_KERNEL = "no kernel checked"
NAME = r"(?=.{1,120}$)[a-z0-9]+(?:-[a-z0-9]+)*"
"""Pattern of names of kernels and GPU models in an address."""
_LISTED = [
    *("check", "checked", "id", "key", "label", "device", "kernel_verdict", "kernel_reason"),
    *("metric", "gated", "verdict", "change_pct", "git_sha", "checked_sha"),
]
_DRAWN = [
    *("check", "checked", "measured", "metric", "counter", "unit", "better", "gated", "verdict", "reason"),
    *("kernel_verdict", "kernel_reason", "gate_errors", "notes", "mean", "sd", "n", "baseline_mean", "baseline_sd"),
    *("baseline_n", "baseline_recorded", "baseline_path", "limit_pct", "decision_pct", "threshold", "change_pct"),
    *("git_sha", "git_dirty", "checked_sha", "ncu_version", "driver", "gpu", "reports", "paths", "exit_code"),
]
_ORDER = {metric.name: place for place, metric in enumerate(METRICS)}
_RANK = {verdict: place for place, verdict in enumerate(RANKS)}


@dataclass(frozen=True)
class CheckedKernel:
    """One kernel with its parameters on one GPU model, and how its checks went.

    ``strip`` holds the verdicts of the last ``STRIP`` checks, oldest first; ``counts`` those of all
    by verdict; ``metric`` and ``change_pct`` are what decided the last check, empty and None where
    no number did.
    """

    kernel: str
    gpu: str
    label: str
    device: str
    verdict: str
    reason: str
    checked: pd.Timestamp
    sha: str
    checks: int
    strip: tuple[str, ...]
    counts: dict[str, int]
    metric: str = ""
    change_pct: float | None = None


@lru_cache(maxsize=8)
def reader(folder: Path) -> HistoryReader:
    """The reader of a folder: one for all requests, which remembers the files that it has read."""
    return HistoryReader(folder)


def default_checks(paths: Iterable[Path], here: Path = Path()) -> Path:
    """Where results of checks are looked for: ``here/checks``.

    Where that is not there and all ``paths`` are recordings that are shipped, the shipped checks,
    if any are.
    """
    from ncubble import recordings

    own, shipped = here / "checks", recordings.CHECKS
    if own.is_dir() or not shipped.is_dir():
        return own
    ours, shown = Path(os.path.realpath(recordings.ROOT.parent)), [Path(os.path.realpath(path)) for path in paths]
    return shipped if shown and all(path.is_relative_to(ours) for path in shown) else own


_listed: dict[Path, tuple[str, list[CheckedKernel]]] = {}


def subjects(history: History) -> list[CheckedKernel]:
    """All subjects, regressed ones first, then those checked last. Computed once per state of the
    folder."""
    known = _listed.get(history.folder)
    if known is None or known[0] != history.token:
        known = _listed[history.folder] = (history.token, _subjects(history))
    return known[1]


def _subjects(history: History) -> list[CheckedKernel]:
    if not len(history.table):
        return []
    frame = history.table.select(_LISTED).to_pandas()
    group = frame.groupby(["id", "device"], observed=True, dropna=False, sort=False).ngroup()
    frame = frame.assign(group=group.to_numpy())
    single = frame.drop_duplicates(["check", "group"])
    verdicts = single.groupby("group")["kernel_verdict"].agg(list)
    last = single.drop_duplicates("group", keep="last").set_index("group")
    deciding = _deciding(frame.merge(last[["check"]].reset_index(), on=["group", "check"]))
    rows = zip(last.index, last.to_dict("records"), strict=True)
    kernels = [_subject(row, [string(verdict) for verdict in verdicts[key]], deciding.get(key)) for key, row in rows]
    return sorted(kernels, key=lambda kernel: (kernel.verdict != "regressed", -kernel.checked.value, kernel.label))


def _subject(
    row: Mapping[Any, Any], verdicts: Sequence[str], decided: tuple[str, float | None] | None
) -> CheckedKernel:
    return CheckedKernel(
        kernel=_name(row["id"]),
        gpu=slug(string(row["device"])),
        label=short_name(string(row["label"]), 200) or NO_KERNEL,
        device=string(row["device"])[:100],
        verdict=string(row["kernel_verdict"]),
        reason=string(row["kernel_reason"]),
        checked=row["checked"],
        sha=string(row["git_sha"]) or string(row["checked_sha"]),
        checks=len(verdicts),
        strip=tuple(verdicts[-STRIP:]),
        counts=dict(Counter(verdicts)),
        metric=decided[0] if decided else "",
        change_pct=decided[1] if decided else None,
    )


def _name(own: Any) -> str:
    """The name of a kernel in addresses: its own, or a hash where a file holds something that is
    none."""
    text = string(own)
    return text if re.fullmatch(NAME, text) else f"x{sha256(text.encode()).hexdigest()[:12]}"


def _deciding(rows: pd.DataFrame) -> dict[Any, tuple[str, float | None]]:
    """Name and change of the gated metric that decided the last check, by group; groups without one
    are not there."""
    gated = rows[rows["gated"].eq(True) & rows["metric"].notna()]
    rank = gated["verdict"].astype(object).map(_RANK).fillna(9)
    order = gated["metric"].astype(object).map(_ORDER).fillna(9)
    first = gated.assign(rank=rank, order=order).sort_values(["group", "rank", "order"]).drop_duplicates("group")
    return {
        key: (str(metric), number(change))
        for key, metric, change in zip(first["group"], first["metric"], first["change_pct"], strict=True)
    }


def find(history: History, kernel: str, gpu: str) -> CheckedKernel | None:
    """The subject of an address. Without a GPU model, the first of that kernel."""
    named = (subject for subject in subjects(history) if subject.kernel == kernel and (not gpu or subject.gpu == gpu))
    return next(named, None) if kernel else None


def checks_of(history: History, subject: CheckedKernel) -> pd.DataFrame:
    """All rows of the last ``MOST_CHECKS`` checks of one subject, oldest first."""
    table = history.table
    devices = [text for text in pc.unique(table["device"]).to_pylist() if slug(string(text)) == subject.gpu]
    ids = [text for text in pc.unique(table["id"]).to_pylist() if _name(text) == subject.kernel]
    wanted = pc.and_(_among(table["id"], ids), _among(table["device"], devices))
    places = pc.indices_nonzero(pc.fill_null(wanted, False))
    newest = places.slice(max(0, len(places) - MOST_CHECKS * (len(_ORDER) + 1)))
    rows = table.select(_DRAWN).take(newest)
    # Dictionaries hold the texts of all rows, and would be traversed completely for a few of them.
    texts = {
        name: rows[name].cast(pa.string()).to_pylist() for name in _DRAWN if pa.types.is_dictionary(rows[name].type)
    }
    frame: pd.DataFrame = rows.drop_columns(list(texts)).to_pandas()
    frame = frame.assign(**{name: pd.Series(cells, dtype=object) for name, cells in texts.items()})
    return frame[frame["check"].isin(frame["check"].unique()[-MOST_CHECKS:])]


def _among(column: pa.ChunkedArray, texts: Sequence[str | None]) -> pa.ChunkedArray:
    """Where a dictionary column holds one of ``texts``; None stands for null."""
    decoded = column.cast(pa.string())
    known = pa.array([text for text in texts if text is not None], pa.string())
    among = pc.is_in(decoded, value_set=known)
    return pc.or_(among, pc.is_null(decoded)) if None in texts else among


def metrics_of(frame: pd.DataFrame) -> list[str]:
    """The metrics of a subject's rows: gated ones first, then in the order of the gate's table."""
    named = frame[frame["metric"].notna()]
    gated = set(named.loc[named["gated"].eq(True), "metric"])
    return sorted(set(named["metric"]), key=lambda name: (name not in gated, _ORDER.get(name, 99), name))


def of_metric(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row per check: that of ``metric``, or the one that says why nothing was judged. A new
    index from 0."""
    rows = frame[(frame["metric"] == metric) | frame["metric"].isna()]
    return rows.drop_duplicates("check", keep="last").reset_index(drop=True)
