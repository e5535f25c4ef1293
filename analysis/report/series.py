"""Names of PM-sampling series across GPU generations and ncu versions, and the time axis they
share.

The same series is ``pmsampling:X`` in most versions and ``UNIT.TriageGROUP.X`` in others; the part
after the prefix agrees. Which spellings there are is data (``profiling/generations``).
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from ncubble.profiling.metrics.generations import load_generations, series_prefix

_STALL = re.compile(r"^smsp__(?:pcsamp_)?warps_issue_stalled_(\w+?)(?:\.avg)?$")


def short_name(metric: str) -> str:
    """``tensor``, ``dram``, ``l2``, ``sm_active``, ``stall_REASON``, or the metric's own name
    without version prefix."""
    prefix = series_prefix().match(metric)
    bare = metric[prefix.end() :] if prefix else metric
    if stall := _STALL.match(bare):
        return f"stall_{stall.group(1)}"
    stem, _, rollup = bare.partition(".")
    known = load_generations().series
    if stem in known and (rollup in ("avg", "sum") or rollup.endswith("pct_of_peak_sustained_elapsed")):
        return known[stem]
    return bare


def tidy(raw: pd.DataFrame) -> pd.DataFrame:
    """The ``timeline`` frame: ``t_ns`` from the first aligned sample of the launch, ``metric`` by
    its short name.

    Where two spellings of one series are in a report, the one sampled more finely stays. A series
    of ``raw`` is a run of rows with the same launch and metric.
    """
    if raw.empty:
        return raw.assign(t_ns=raw["t_ns"].astype("int64"))
    runs = _runs(raw)
    finest = runs.sort_values("count", ascending=False, kind="stable").drop_duplicates(["launch", "short"])
    kept = finest.sort_values(["launch", "short"], ignore_index=True)
    size = kept["count"].to_numpy()
    within = np.arange(size.sum()) - np.repeat(size.cumsum() - size, size)
    frame: pd.DataFrame = raw.iloc[np.repeat(kept["first"].to_numpy(), size) + within].reset_index(drop=True)
    frame["metric"] = pd.Categorical(kept["short"]).repeat(size)
    frame["t_ns"] = frame["t_ns"].astype("int64") - np.repeat(_starts(kept).to_numpy(), size)
    series_of = np.repeat(np.arange(len(kept)), size)
    if ((np.diff(frame["t_ns"]) < 0) & (np.diff(series_of) == 0)).any():
        frame = frame.iloc[np.lexsort((frame["t_ns"], series_of))].reset_index(drop=True)
    return frame


def _runs(raw: pd.DataFrame) -> pd.DataFrame:
    """One row per series: launch, short name, first row, count, time of the first sample and of the
    first above 0."""
    metric = raw["metric"].astype("category")
    launch, code = raw["launch"].to_numpy(), metric.cat.codes.to_numpy()
    first = np.flatnonzero(np.r_[True, (np.diff(launch) != 0) | (np.diff(code) != 0)])
    times = raw["t_ns"].to_numpy().astype("int64")
    moving = np.where(raw["value"].to_numpy() > 0, times, np.iinfo(np.int64).max)
    names = np.array([short_name(name) for name in metric.cat.categories], dtype=object)
    return pd.DataFrame(
        {
            "launch": launch[first],
            "short": names[code[first]],
            "first": first,
            "count": np.diff(np.r_[first, len(raw)]),
            "begin": np.minimum.reduceat(times, first),
            "active": np.minimum.reduceat(moving, first),
        }
    )


def _starts(runs: pd.DataFrame) -> pd.Series:
    """When the kernel starts on each series' own axis (ns): 0 where the reader aligned it, else
    when the first of the series that begin together is above 0."""
    active = runs.groupby(["launch", "begin"])["active"].transform("min")
    return active.where(active < np.iinfo(np.int64).max, runs["begin"]).where(runs["begin"] != 0, 0)


def series(timeline: pd.DataFrame, metric: str) -> pd.Series:
    """One series of a launch's ``timeline``, as values indexed by ``t_ns``; empty where it was not
    sampled."""
    rows = timeline[timeline["metric"] == metric]
    return pd.Series(rows["value"].to_numpy(), index=rows["t_ns"].to_numpy(), name=metric)
