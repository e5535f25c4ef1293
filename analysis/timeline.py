"""Names of PM-sampling series across GPU generations and ncu versions, and the time axis they share.

The same series is ``pmsampling:X`` in most versions and ``UNIT.TriageGROUP.X`` in others; the part after the prefix
agrees. Which spellings there are is data (``profiling/generations``).
"""

from __future__ import annotations

import re

import pandas as pd

from ncubble.profiling.generations import load_generations

_PREFIX = re.compile("^(?:" + "|".join(load_generations().prefixes) + ")")
_STALL = re.compile(r"^smsp__(?:pcsamp_)?warps_issue_stalled_(\w+?)(?:\.avg)?$")
_SHORT = load_generations().series


def short_name(metric: str) -> str:
    """``tensor``, ``dram``, ``l2``, ``sm_active``, ``stall_REASON``, or the metric's own name without version
    prefix."""
    bare = _PREFIX.sub("", metric)
    if stall := _STALL.match(bare):
        return f"stall_{stall.group(1)}"
    stem, _, rollup = bare.partition(".")
    if stem in _SHORT and (rollup in ("avg", "sum") or rollup.endswith("pct_of_peak_sustained_elapsed")):
        return _SHORT[stem]
    return bare


def tidy(raw: pd.DataFrame) -> pd.DataFrame:
    """The ``timeline`` frame: ``t_ns`` from the first aligned sample of the launch, ``metric`` by its short name.

    Where two spellings of one series are in a report, the one sampled more finely stays.
    """
    if raw.empty:
        return raw.assign(t_ns=raw["t_ns"].astype("int64"))
    frame = raw.assign(short=raw["metric"].map({name: short_name(name) for name in raw["metric"].unique()}))
    counts = frame.groupby(["launch", "short", "metric"])["value"].transform("size")
    best = counts.groupby([frame["launch"], frame["short"]]).transform("max") == counts
    first = frame.groupby(["launch", "short"])["metric"].transform("first") == frame["metric"]
    tied = frame[best].groupby(["launch", "short"])["metric"].transform("nunique") > 1
    frame = frame[best & (first | ~tied.reindex(frame.index, fill_value=False))].copy()
    frame["t_ns"] = _from_start(frame)
    frame["metric"] = frame["short"]
    return frame.drop(columns="short").sort_values(["launch", "metric", "t_ns"], ignore_index=True)


def _from_start(frame: pd.DataFrame) -> pd.Series:
    """Time from the start of the kernel in ns: of the first sample where the reader aligned, else the first active."""
    begin = frame.groupby(["launch", "metric"])["t_ns"].transform("min")
    moving = frame["t_ns"].where(frame["value"] > 0)
    active = moving.groupby([frame["launch"], begin]).transform("min").fillna(begin)
    return (frame["t_ns"].astype("int64") - begin.where(begin == 0, active).astype("int64")).astype("int64")


def series(timeline: pd.DataFrame, launch: int, metric: str) -> pd.Series:
    """One series as values indexed by ``t_ns``; empty where it was not sampled."""
    rows = timeline[(timeline["launch"] == launch) & (timeline["metric"] == metric)]
    return pd.Series(rows["value"].to_numpy(), index=rows["t_ns"].to_numpy(), name=metric)
