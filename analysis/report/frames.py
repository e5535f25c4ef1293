"""From raw tables to the tidy frames (columns and units: ``docs/reference/reports.md``). Pure
functions.

The same PM-sampling series is ``pmsampling:X`` in most versions of ncu and ``UNIT.TriageGROUP.X``
in others; the part after the prefix agrees. Which spellings there are is data
(``profiling/generations``).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from ncubble.analysis.report.tables import MEASURED
from ncubble.profiling.metrics.generations import load_generations, series_names, series_prefix

DURATION, CYCLES, CLOCK = (load_generations().quantities[name] for name in ("duration", "cycles", "sm_clock"))
NANOSECONDS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
ABI_TAG = r"\[abi:[^\]]*\]"
"""Suffix that Numba appends to function names: a hash of the environment."""
STALLED = "smsp__pcsamp_warps_issue_stalled_"
UNKNOWN = "???"
"""Opcode of code that NVIDIA's reader cannot disassemble, such as for chips it no longer
supports."""
TEXT = pd.StringDtype("python", na_value=np.nan)
"""``str`` as Python's own: what judges a launch takes text after text, and Arrow makes an object
each time."""
NOT_STALLS = frozenset({"launch", "pc", "sass", "opcode", "file", "line", "samples", "executed"})
"""Columns of a ``source`` frame that are not sample counts of a stall reason."""
_OF_SMS = re.compile(r"\b(sm|smsp|tpc|l1tex)__")
_STALL = re.compile(r"^smsp__(?:pcsamp_)?warps_issue_stalled_(\w+?)(?:\.avg)?$")


def wide(metrics: pd.DataFrame, names: Sequence[str], launches: Sequence[int]) -> pd.DataFrame:
    """One column per metric of ``names``, indexed by launch; NaN where a launch does not hold the
    metric."""
    known = metrics["metric"].astype("category").cat
    columns = pd.Index(names).get_indexer(known.categories)[known.codes]
    chosen = metrics[columns >= 0]
    rows = pd.Index(launches).get_indexer(pd.Index(chosen["launch"]))
    table = np.full((len(launches), len(names)), np.nan)
    table[rows, columns[columns >= 0]] = chosen["value"]
    return pd.DataFrame(table, index=list(launches), columns=list(names))


def _first_of(columns: Mapping[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    """For each launch, the first of ``names`` that is collected; NaN where none is."""
    values = np.stack([columns[name] for name in names])
    return np.asarray(values[np.argmax(~np.isnan(values), axis=0), np.arange(values.shape[1])])


def launches(actions: pd.DataFrame, metrics: pd.DataFrame, texts: pd.DataFrame, ncu_version: str) -> pd.DataFrame:
    """The ``launches`` frame: who ran, how it was launched, for how long; ``without_value`` are the
    measured metrics that are named only, with blanks between them."""
    ids = list(actions["launch"])
    axes = {what: [f"launch__{what}_dim_{axis}" for axis in "xyz"] for what in ("grid", "block")}
    capability = [f"device__attribute_compute_capability_{part}" for part in ("major", "minor")]
    plain = {
        "registers": "launch__registers_per_thread",
        "smem_static_B": "launch__shared_mem_per_block_static",
        "smem_dynamic_B": "launch__shared_mem_per_block_dynamic",
    }
    wanted = [*axes["grid"], *axes["block"], *capability, *plain.values(), *DURATION, *CYCLES, *CLOCK]
    metrics = metrics[metrics["metric"].isin(wanted)]
    table = dict(zip(wanted, wide(metrics, wanted, ids).to_numpy().T, strict=True))
    names = texts[texts["metric"] == "device__attribute_display_name"].set_index("launch")["value"]
    hollow = texts[texts["value"] == ""]
    hollow = hollow[np.array([bool(MEASURED.match(name)) for name in hollow["metric"].tolist()], dtype=bool)]
    without_value = hollow["metric"].astype(str).groupby(hollow["launch"]).agg(" ".join)
    duration, cycles, clock = _duration(metrics, table, ids), _first_of(table, CYCLES), _first_of(table, CLOCK)
    rate = cycles / np.where(duration > 0, duration, np.nan) * 1e9
    bare = {name: re.sub(ABI_TAG, "", name) for name in actions["kernel"].unique()}
    columns = {
        "launch": actions["launch"],
        "kernel": actions["kernel"].map(bare),
        "demangled": actions["demangled"],
        "mangled": actions["mangled"],
        **{what: _joined([table[axis] for axis in three], ",") for what, three in axes.items()},
        **{column: _whole(table[metric]) for column, metric in plain.items()},
        "device": names.reindex(ids).to_numpy(),
        "compute_capability": _joined([table[name] for name in capability], "."),
        "ncu_version": ncu_version,
        "nvtx": actions["nvtx"],
        "duration_ns": duration,
        "cycles": cycles,
        "sm_clock_hz": np.where(np.isnan(clock), rate, clock),
        "without_value": without_value.reindex(ids, fill_value="").to_numpy(),
    }
    return pd.DataFrame(columns)


def _joined(columns: Sequence[np.ndarray], mark: str) -> np.ndarray:
    """The whole numbers of each row with ``mark`` between them; empty where one is NaN."""
    rows = list(zip(*(_possible(column).tolist() for column in columns), strict=True))
    known: dict[tuple[float, ...], str] = {}
    for row in rows:
        if row not in known:
            known[row] = "" if any(map(math.isnan, row)) else mark.join(str(int(value)) for value in row)
    return np.array([known[row] for row in rows], dtype=object)


def _whole(column: np.ndarray) -> ExtensionArray:
    known = _possible(column)
    lost = np.isnan(known)
    return pd.arrays.IntegerArray(np.where(lost, 1.0, known).round().astype("int64"), lost)


def _possible(values: np.ndarray) -> np.ndarray:
    """NaN for what no count can be: infinite, or beyond what a double counts exactly."""
    return np.where(np.abs(values) < 2**53, values, np.nan)


def _duration(metrics: pd.DataFrame, table: Mapping[str, np.ndarray], ids: Sequence[int]) -> np.ndarray:
    """Duration in ns. The reader gives base units; a report that names another unit is converted,
    an unknown one is NaN."""
    told = metrics["metric"].isin(DURATION).to_numpy()
    launches, first = np.unique(metrics["launch"].to_numpy()[told], return_index=True)
    units = metrics["unit"][told].astype("category").cat
    factors = np.array([NANOSECONDS.get(unit, np.nan) for unit in units.categories])
    factor = np.full(len(ids), np.nan)
    factor[pd.Index(ids).get_indexer(pd.Index(launches))] = (
        factors[units.codes.to_numpy()[first]] if len(first) else np.nan
    )
    return np.asarray(_first_of(table, DURATION) * factor)


def source(code: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """The ``source`` frame: one row per sampled or executed instruction, in the order of its
    address.

    ``samples`` and the stall columns count warp samples; ``executed`` counts warp instructions
    (NaN: not collected).
    """
    if code.empty:
        return pd.DataFrame(columns=["launch", "pc", "sass", "opcode", "file", "line", "samples", "executed"])
    order = np.lexsort((code["pc"], code["launch"]))
    sass, files = (code[name].iloc[order].astype("category").cat for name in ("sass", "file"))
    texts = ["" if text == "N/A" else str(text) for text in sass.categories]
    launch, pc = (code[name].to_numpy()[order] for name in ("launch", "pc"))
    table = {
        "launch": launch,
        "pc": pc,
        "sass": _texts(texts, sass.codes),
        "opcode": _texts([opcode(text) for text in texts], sass.codes),
        "file": _texts(list(files.categories), files.codes),
        "line": code["line"].to_numpy()[order],
    }
    counts = _by_instruction(launch, pc, samples)
    reasons = sorted(name.removeprefix(STALLED) for name in counts if name.startswith(STALLED))
    stalls = {name: np.nan_to_num(counts[STALLED + name], posinf=np.inf, neginf=-np.inf) for name in reasons}
    sampled = counts.get("smsp__pcsamp_sample_count")
    if sampled is None:
        sampled = sum(stalls.values(), np.zeros(len(code)))
    table["samples"] = np.nan_to_num(sampled, posinf=np.inf, neginf=-np.inf)
    return pd.DataFrame(table | {"executed": counts.get("inst_executed", np.nan)} | stalls)


def _texts(known: Sequence[str], codes: pd.Series) -> ExtensionArray:
    return pd.array(np.array(known, dtype=object)[codes], TEXT)


def _by_instruction(launch: np.ndarray, pc: np.ndarray, samples: pd.DataFrame) -> dict[str, np.ndarray]:
    """The counts of ``samples`` beside the instructions at ``pc`` (sorted), by metric; NaN where
    there is none."""
    reach = int(pc.max()) + 1
    sampled = samples["launch"].to_numpy(np.int64) * reach + samples["pc"].to_numpy()
    rows = np.searchsorted(launch.astype(np.int64) * reach + pc, sampled)
    names = samples["metric"].astype("category").cat
    table = np.full((len(names.categories), len(pc)), np.nan)
    table[names.codes, rows] = samples["value"]
    return dict(zip(names.categories.astype(object), table, strict=True))


def opcode(sass: str) -> str:
    """The mnemonic with its modifiers: ``LDGSTS.E.BYPASS.128`` of ``@!P0 LDGSTS.E.BYPASS.128 [R1],
    [R2.64]``."""
    words = sass.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return words[0].rstrip(";") if words else ""


def short_name(metric: str) -> str:
    """``tensor``, ``dram``, ``l2``, ``sm_active``, ``stall_REASON``, or the metric's own name
    without version prefix."""
    prefix = series_prefix().match(metric)
    bare = metric[prefix.end() :] if prefix else metric
    if stall := _STALL.match(bare):
        return f"stall_{stall.group(1)}"
    stem, _, rollup = bare.partition(".")
    known = series_names()
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
    first above 0, which others than those of SMs may have before the kernel begins."""
    metric = raw["metric"].astype("category")
    launch, code = raw["launch"].to_numpy(), metric.cat.codes.to_numpy()
    first = np.flatnonzero(np.r_[True, (np.diff(launch) != 0) | (np.diff(code) != 0)])
    times = raw["t_ns"].to_numpy().astype("int64")
    of_sms = np.array([bool(_OF_SMS.search(name)) for name in metric.cat.categories])
    moving = np.where((raw["value"].to_numpy() > 0) & of_sms[code], times, np.iinfo(np.int64).max)
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
    rows = (timeline["metric"] == metric).to_numpy()
    return pd.Series(timeline["value"].to_numpy()[rows], index=timeline["t_ns"].to_numpy()[rows], name=metric)


def stall_columns(source: pd.DataFrame) -> list[str]:
    """The columns of a ``source`` frame that count samples by stall reason."""
    return [str(name) for name in source.columns if name not in NOT_STALLS]


def executions(source: pd.DataFrame) -> dict[str, float]:
    """Executions by mnemonic, by warps; 0 where the report does not count them."""
    sums: dict[str, float] = defaultdict(float)
    for name, count in zip(source["opcode"].tolist(), source["executed"].fillna(0.0).tolist(), strict=True):
        sums[name] += count
    return sums


def without_text(source: pd.DataFrame) -> pd.Series:
    """Of each instruction, whether its text is missing."""
    return source["opcode"].isin(["", UNKNOWN])


def stall_shares(source: pd.DataFrame) -> list[tuple[str, float]]:
    """(reason, percent of all warp samples), largest first; empty where no samples were
    collected."""
    totals = {reason: float(source[reason].sum()) for reason in stall_columns(source)}
    whole = sum(totals.values())
    if whole <= 0:
        return []
    shares = [(reason, 100.0 * count / whole) for reason, count in totals.items() if count > 0]
    return sorted(shares, key=lambda item: -item[1])
