"""Mutants of values: several fields of a report are changed together, as one who forges a report or
a fault in a tool would, and all that frames them stays whole.

A draw is a kind of ``KINDS``, then what of the report it changes. Counters are drawn from those whose
values the verdict depends on (their removal changes it), in *families*: all roll-ups, shares and
rates of one counter. Tables are those that NVIDIA's reader gives (docs/reference/reports.md), so that
a mutant takes milliseconds; damage to the file is the matter of ``mutations`` and ``structure``.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.diagnosis.results import CONTRADICTIONS
from ncubble.analysis.report.frames import STALLED, short_name
from ncubble.analysis.report.report import Report
from ncubble.errors import NcubbleError

Tables = dict[str, pd.DataFrame]
NAMES = ("actions", "metrics", "texts", "timeline", "code", "samples", "rules", "files")
SHOWN = ("duration_ns", "cycles", "sm_clock_hz", "tensor_elapsed_pct", "tensor_of_active_pct", "dram_pct")
"""Numbers of a verdict that are compared, beside account, copies and causes."""
LEAST = 0.01
"""Relative; and of what is in percent, points as well: less is not seen."""
FACTORS = (0.0, 0.2, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, 5.0, 100.0)
SPECIAL = (float("inf"), -1.0, 0.0, 1.0, 1e-300, 1e308, float(2**31 - 1), float(2**53), float(2**64 - 1))
FACTS = ("device__", "numa__", "nvlink__", "profiler__", "c2clink__")
"""What is no measurement: begins of names."""


class Changed(Report):
    """A report with other tables."""

    def __init__(self, intact: Report, tables: Tables) -> None:
        super().__init__(intact.run, intact._file)
        self.tables = tables

    def _table(self, name: str, launch: int | None = None) -> pd.DataFrame:
        table = self.tables[name]
        return table if launch is None else table[table["launch"] == launch].reset_index(drop=True)


@dataclass(frozen=True)
class Source:
    """An intact report: its tables, what its first launch shows, and families that this depends
    on."""

    report: Report
    tables: Tables
    shown: dict[str, Any]
    families: list[str]

    @classmethod
    def of(cls, report: Report) -> Source:
        """With every counter but facts of the device of which the verdict depends."""
        tables = {name: report._table(name) for name in NAMES}
        whole = cls.known(report, tables, [])
        names = whole.tables["metrics"]["metric"]
        families = sorted(set(names[~names.str.startswith(FACTS)].map(family)))
        without = {one: verdict_of(report, _dropped(whole.tables, one)) for one in families}
        used = [one for one, found in without.items() if found is None or changes(found, whole.shown)]
        return replace(whole, families=used)

    @classmethod
    def known(cls, report: Report, tables: Tables, families: list[str]) -> Source:
        """With these counters. ValueError if the verdict of the intact report fails."""
        first = {name: _first(_plain(table)) for name, table in tables.items()}
        if (shown := verdict_of(report, first)) is None:
            raise ValueError(f"{report.path} has no verdict")
        return cls(report, first, shown, families)


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    names = [name for name in table if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return table.astype(dict.fromkeys(names, object))


def _first(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["launch"] == 0].reset_index(drop=True) if "launch" in table else table


def family(metric: str) -> str:
    """The counter of which ``metric`` is a roll-up."""
    return metric.partition(".")[0]


def _dropped(tables: Tables, name: str) -> Tables:
    metrics = tables["metrics"]
    return {**tables, "metrics": metrics[metrics["metric"].map(family) != name]}


def verdict_of(report: Report, tables: Tables) -> dict[str, Any] | None:
    """What is shown of the first launch; None where it is refused."""
    try:
        return launch_verdict(Changed(report, tables).launch(0)).to_json()
    except (*CONTRADICTIONS, NcubbleError):  # as ``results.judge``, which remembers verdicts by file
        return None


def changes(found: Mapping[str, Any], intact: Mapping[str, Any]) -> list[str]:
    """What is shown otherwise: another cause, another first change, or a number by more than
    ``LEAST``."""
    new, old = dict(_numbers(found)), dict(_numbers(intact))
    wrong = [name for name in {*new, *old} if _apart(new.get(name), old.get(name))]
    words = {"cause": lambda one: one["cause"], "change": lambda one: [each["text"] for each in one["changes"][:1]]}
    return sorted([*(name for name, word in words.items() if word(found) != word(intact)), *wrong])


def _numbers(verdict: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    yield from ((name, verdict[name]) for name in SHOWN)
    for group in ("account", "async_copy"):
        yield from ((f"{group} {name}", value) for name, value in (verdict[group] or {}).items())


def _apart(new: float | None, old: float | None) -> bool:
    if new is None or old is None:
        return new is not old and max(new or 0.0, old or 0.0) > LEAST
    return abs(new - old) > LEAST * max(abs(new), abs(old), 1.0)


@dataclass(frozen=True)
class Draw:
    """One mutant: its kind, what was changed, its tables."""

    kind: str
    where: str
    tables: Tables


def draw(number: int, seed: int, sources: Sequence[Source]) -> tuple[Source, Draw]:
    """Mutant ``number`` of ``seed`` of one of ``sources``."""
    rng = random.Random(f"values/{seed}/{number}")  # noqa: S311
    source = rng.choice(sources)
    while True:
        kind = rng.choice(sorted(KINDS))
        made = KINDS[kind](source, rng, sources)
        if made is not None and any(not made[1][name].equals(source.tables[name]) for name in NAMES):
            return source, Draw(kind, *made)


Made = tuple[str, Tables] | None


def _with(tables: Tables, table: str, rows: Any, values: Any, column: str = "value") -> Tables:
    frame = tables[table].copy()
    frame.loc[rows, column] = values
    return {**tables, table: frame}


def _rows(tables: Tables, name: str) -> pd.Series:
    metrics = tables["metrics"]
    return metrics["metric"].map(family) == name


def scale_family(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    name, factor = rng.choice(source.families), rng.choice(FACTORS)
    rows = _rows(source.tables, name)
    values = source.tables["metrics"].loc[rows, "value"] * factor
    return f"{name} x {factor}", _with(source.tables, "metrics", rows, values)


def scale_one(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    metrics, name = source.tables["metrics"], rng.choice(source.families)
    row, factor = rng.choice(metrics.index[_rows(source.tables, name)].tolist()), rng.choice(FACTORS)
    value = metrics.loc[row, "value"] * factor
    return f"{metrics.loc[row, 'metric']} x {factor}", _with(source.tables, "metrics", row, value)


def special(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    metrics, name = source.tables["metrics"], rng.choice(source.families)
    row, value = rng.choice(metrics.index[_rows(source.tables, name)].tolist()), rng.choice(SPECIAL)
    return f"{metrics.loc[row, 'metric']} = {value:g}", _with(source.tables, "metrics", row, value)


def swap_families(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    """Two counters change places, in all roll-ups that both have."""
    one, other = rng.choice(source.families), rng.choice(source.families)
    metrics = source.tables["metrics"]
    ours = metrics["metric"].map(family).isin([one, other])
    value_of = metrics.drop_duplicates("metric").set_index("metric")["value"]
    partner = metrics["metric"][ours].map(
        lambda name: (other if family(name) == one else one) + name[len(family(name)) :]
    )
    values = partner.map(value_of).fillna(metrics["value"][ours])
    return f"{one} <> {other}", _with(source.tables, "metrics", ours, values)


def splice(source: Source, rng: random.Random, sources: Sequence[Source]) -> Made:
    """One family, all counters of a unit, or one table of another report."""
    other = rng.choice(sources)
    what = rng.choice((rng.choice(source.families), rng.choice(source.families).split("__")[0], "samples", "timeline"))
    if what in ("samples", "timeline"):
        parts = ("code", "samples") if what == "samples" else ("timeline",)
        return what, {**source.tables, **{part: other.tables[part] for part in parts}}
    metrics, theirs = source.tables["metrics"], other.tables["metrics"]
    theirs = theirs.drop_duplicates("metric").set_index("metric")["value"]
    ours = metrics["metric"].map(family).str.split("__").str[0].eq(what) | metrics["metric"].map(family).eq(what)
    values = metrics["metric"][ours].map(theirs).fillna(metrics["value"][ours])
    return what, _with(source.tables, "metrics", ours, values)


def permute_instructions(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    """The counts of one metric, or of each, among the instructions."""
    samples = source.tables["samples"]
    names = sorted(samples["metric"].unique())
    if not names:
        return None
    chosen = names if rng.random() < 0.3 else [rng.choice(names)]
    values = samples["value"].to_numpy().copy()
    for name in chosen:
        rows = np.flatnonzero((samples["metric"] == name).to_numpy())
        values[rows] = values[np.array(rng.sample(rows.tolist(), len(rows)))]
    return ", ".join(chosen[:1]) if len(chosen) == 1 else "each metric", {
        **source.tables,
        "samples": samples.assign(value=values),
    }


def scale_instructions(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    """The counts of one metric of every instruction, and its total."""
    samples, factor = source.tables["samples"], rng.choice((0.0, 2.0, 5.0))
    names = sorted(samples["metric"].unique())
    if not names:
        return None
    name = rng.choice(names)
    rows = samples["metric"] == name
    tables = _with(source.tables, "samples", rows, samples.loc[rows, "value"] * factor)
    total = tables["metrics"]["metric"] == name
    return f"{name} x {factor}", _with(tables, "metrics", total, tables["metrics"].loc[total, "value"] * factor)


def permute_rows(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    """All samples of an instruction go to another: reasons and totals agree."""
    samples = source.tables["samples"]
    rows = samples["metric"].str.startswith("smsp__pcsamp")
    pcs = sorted(samples["pc"][rows].unique())
    places = dict(zip(pcs, rng.sample(pcs, len(pcs)), strict=True))
    return "samples by instruction", _with(source.tables, "samples", rows, samples["pc"][rows].map(places), "pc")


def rename_reasons(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    """Two stall reasons change places everywhere."""
    samples = source.tables["samples"]
    names = sorted(name for name in samples["metric"].unique() if name.startswith(STALLED))
    if len(names) < 2:
        return None
    one, other = rng.sample(names, 2)
    swapped = {one: other, other: one}
    tables = dict(source.tables)
    for table in ("samples", "metrics"):
        tables[table] = tables[table].assign(metric=tables[table]["metric"].replace(swapped))
    return f"{one.removeprefix(STALLED)} <> {other.removeprefix(STALLED)}", tables


def change_series(source: Source, rng: random.Random, _: Sequence[Source]) -> Made:
    """One series, or each, is cut, scaled, zeroed, set flat, reversed, shuffled, or stretched in
    time."""
    frame = source.tables["timeline"]
    names = sorted(frame["metric"].unique())
    if not names:
        return None
    chosen = names if rng.random() < 0.5 else [rng.choice(names)]
    how = rng.choice(("cut", "scale", "zero", "flat", "reverse", "shuffle", "stretch"))
    parts, factor = [frame[~frame["metric"].isin(chosen)]], rng.choice((0.2, 0.5, 0.9, 1.1, 2.0))
    for name in chosen:
        rows = frame[(frame["metric"] == name)].sort_values("t_ns")
        value = rows["value"].to_numpy()
        if how == "cut":
            rows = rows.iloc[: int(len(rows) * min(factor, 1 / factor))]
        elif how == "stretch":
            rows = rows.assign(t_ns=(rows["t_ns"].astype(float) * factor).astype(rows["t_ns"].dtype))
        else:
            made = {
                "scale": value * factor,
                "zero": value * 0,
                "flat": value * 0 + value.mean(),
                "reverse": value[::-1],
            }
            rows = rows.assign(value=made.get(how, np.array(rng.sample(value.tolist(), len(value)))))
        parts.append(rows)
    what = "each series" if len(chosen) > 1 else short_name(chosen[0])
    return f"{what}: {how}{f' {factor}' if how in ('cut', 'scale', 'stretch') else ''}", {
        **source.tables,
        "timeline": pd.concat(parts, ignore_index=True),
    }


KINDS: dict[str, Callable[[Source, random.Random, Sequence[Source]], Made]] = {
    made.__name__.replace("_", " "): made
    for made in (
        *(scale_family, scale_one, special, swap_families, splice),
        *(permute_instructions, scale_instructions, permute_rows, rename_reasons, change_series),
    )
}

UNREPEATED = {
    r"permute rows|rename reasons": "where a warp waited, and for what, is sampled once; only issuing has a counter",
    r"change series, .*: (reverse|shuffle|flat|cut)": "the order of a series is in it alone; its sum has a counter",
    r"change series|x (0\.8|0\.95|1\.05|1\.25)$": "two runs of a launch differ by as much in whole reports",
    r"splice": "values of another run of the same kernel",
    r"l1tex__": "a counter of its own",
    r"fma|alu": "the pipe has no other counter, and its series another definition",
}
"""Why a mutant contradicts no other value of its report, by a pattern of what was changed. What is
silent and matches none contradicts one."""


def reason(where: str) -> str:
    """Why nothing contradicts a change; empty where something does."""
    return next((why for pattern, why in UNREPEATED.items() if re.search(pattern, where)), "")


def table(where: Sequence[str], count: int) -> str:
    """How many silent changes there are of each reason, and which have none."""
    found = Counter(map(reason, where))
    known = [f"{number} silent: {why}" for why, number in found.most_common() if why]
    others = Counter(one for one in where if not reason(one))
    listed = [f"  {number} times {one}" for one, number in sorted(others.items())]
    share = f"{found['']} of {count} contradict another value ({100 * found[''] / count:.1f} %)"
    return "\n".join([*known, share, *listed])
