"""Checks whether the values of a launch are consistent, to detect flipped bits inside a report's
blocks. Neither the file's frame (see ``container``) nor the native reader detects them. These
relations hold in every launch of 118 public reports (ncu 2020.3 to 2025.2, compute capability 7.0
to 12.0) and of the shipped recordings; a launch that breaks one is shown with the values that
contradict each other, never silently.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
import pandas as pd

from ncubble.analysis.account.units import MEMORY, PIPES, TENSOR, utilization
from ncubble.analysis.report.frames import STALLED, UNKNOWN, short_name, stall_columns, without_text
from ncubble.analysis.report.report import Launch
from ncubble.profiling.metrics.generations import series_prefix

CLOCK_TOLERANCE = 0.1
"""Cycles against duration times clock: from different passes; they agree to 2.3 % at worst in the
reports above."""
PCT_RANGE = (-0.5, 103.0)
"""Utilization in percent: passes disagree by some 3 points on a saturated unit."""
SERIES_PCT = (0.0, 125.0)
"""A sampled series in percent: its peak is that of another clock than its interval, so that L2 at
work shows more than its nominal peak."""
HIT_RATE = "hit_rate"
"""Parts of the names of series that are ratios of two series: not shares (-27 % where L1 serves
nearly all loads, H100)."""
PACE_TOLERANCE = 0.5
"""Steps between PM samples differ by less than 5 % from each other in the reports above."""
TINY = 1e-20
"""The smallest value of any series in the reports above, 0 aside, is 1.8e-4."""
INSTRUCTION_B = 16
"""From compute capability 7.0 on. Older GPUs are not in reports that this reader opens."""
MOST_ALIKE = 3
FEW_SAMPLES = 10
"""Launches of fewer sampling intervals may have been missed by the sampler."""
TITLED = {
    "HighPipeUtilization": "High Pipe Utilization",
    "LaunchConfiguration": "Launch Configuration",
    "MemoryL2Compression": "Memory L2 Compression",
    "Occupancy": "Occupancy",
    "SOLBottleneck": "Bottleneck",
    "WorkloadImbalance": "Workload Imbalance",
}
"""Rules whose optimizations have a title of their own in all reports (at least 24 of each), and
the name that is shown in place of a title that is missing."""
ESTIMATING = (
    *("AchievedOccupancy", "IssueSlotUtilization", "MemoryL2Compression", "Occupancy", "TheoreticalOccupancy"),
    "WorkloadImbalance",
)
"""Rules whose optimizations estimate a gain in all reports (at least 20 of each)."""
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]"
GEOMETRY = tuple(
    f"launch__{name}"
    for name in (
        *(f"{what}_{part}" for what in ("grid", "block") for part in ("dim_x", "dim_y", "dim_z", "size")),
        *("thread_count", "registers_per_thread", "shared_mem_per_block", "waves_per_multiprocessor"),
        *(f"shared_mem_per_block_{part}" for part in ("allocated", "driver", "dynamic", "static")),
        *(f"occupancy_limit_{limit}" for limit in ("blocks", "registers", "shared_mem", "warps")),
    )
)
"""What ncu (2020 to 2025) writes with every kernel launch, whatever else it collects."""
_OF_PEAK = ".pct_of_peak_sustained_elapsed"
_ROLLUP = re.compile(r"(.+)\.(min|avg|max|sum)(\..+)?")
_TOLERANCE = 1e-6
_SHARE_TOLERANCE = 5.0
"""Points: each unit has cycles of its own, so that the average of a share may lie a little beyond
its extremes."""
_NOT_ORDERED = ".pct_of_peak_sustained_active"
"""Active cycles differ far more: a share of them is not compared with its extremes."""


def doubts(launch: Launch) -> list[str]:
    """Contradictions in one launch, each beginning with ``suspicious:`` and naming the values."""
    exact, measured = contradictions(launch)
    return [f"suspicious: {text}; the file may be damaged" for text in exact] + [
        f"suspicious: {text}; the file may be damaged, or its passes saw different runs" for text in measured
    ]


def contradictions(launch: Launch) -> tuple[list[str], list[str]]:
    """Contradictory values of one launch, in words: those that only a damaged file explains, and
    those that passes over different runs also explain."""
    exact = [
        *_end(launch),
        *_samples(launch),
        *_counts(launch),
        *_rules(launch),
        *islice(disagreements(launch.scalars), MOST_ALIKE),
    ]
    return exact, [*_clock(launch), *_shares(launch), *_code(launch), *_timeline(launch)]


def _end(launch: Launch) -> Iterator[str]:
    """A cut between two blocks leaves a shorter report; it shows where the cut is right behind the
    first launch."""
    frame = launch.report.frame
    if not (frame.ends and frame.ncu_version):
        yield "the report lacks what ncu writes after the first launch, so other data may be missing, too"
    if not frame.ordered:
        yield "launches of the report are duplicated or out of order"
    if not frame.rules_speak:
        yield "a result of an Nsight rule has no message"


def _clock(launch: Launch) -> Iterator[str]:
    row = launch.identity
    cycles, expected = row.cycles, row.duration_ns * row.sm_clock_hz * 1e-9
    if expected > 0 and abs(cycles / expected - 1.0) > CLOCK_TOLERANCE:
        yield f"{cycles:.6g} cycles, but duration times SM clock gives {expected:.6g}"
    for name in ("duration_ns", "cycles", "sm_clock_hz"):
        if (value := getattr(row, name)) <= 0:
            yield f"{name} is {value}"


def _shares(launch: Launch) -> Iterator[str]:
    """Throughputs in percent of what is possible in the elapsed time: those of the units that count
    by their names."""
    known = {"tensor": TENSOR, **PIPES, **MEMORY}
    shares = {unit: utilization(launch, stems) for unit, stems in known.items()}
    shares |= {name: value for name, value in launch.scalars.items() if name.endswith(_OF_PEAK)}
    wrong = [f"{name} is busy for {value:.4g} % of the time" for name, value in shares.items() if _impossible(value)]
    yield from wrong[:MOST_ALIKE]


def _impossible(pct: float) -> bool:
    return not (math.isnan(pct) or PCT_RANGE[0] <= pct <= PCT_RANGE[1])


def _samples(launch: Launch) -> Iterator[str]:
    """Counts per instruction must add up to the launch's own.

    Samples are also kept by reason, which must agree with those that are not.
    """
    source = launch.source
    if source.empty:
        return
    reasons = stall_columns(source)
    counted = dict(zip(reasons, source[reasons].to_numpy().sum(axis=0).tolist(), strict=True))
    samples, executed = np.nansum(source[["samples", "executed"]].to_numpy(), axis=0).tolist()
    totals = {reason: (counted[reason], launch.value(STALLED + reason)) for reason in reasons}
    totals["executed"] = executed, launch.value("inst_executed")
    totals["samples"] = samples, launch.value("smsp__pcsamp_sample_count")
    totals["samples by stall reason"] = samples, sum(counted.values())
    wrong = [
        f"{what}: {count:.0f} over the instructions, but {total:.0f} in total"
        for what, (count, total) in totals.items()
        if not math.isnan(total) and count != total
    ]
    yield from wrong[:MOST_ALIKE]


def _code(launch: Launch) -> Iterator[str]:
    """Every sampled instruction has its text, 16 bytes after another.

    Code of a chip that the reader cannot disassemble is unknown as a whole, which is no damage.
    """
    source = launch.source
    if source.empty:
        return
    lost = int(without_text(source).sum())
    if lost and not (source["opcode"] == UNKNOWN).all():
        yield f"{lost} of {len(source)} sampled instructions are not in the code"
    if (source["pc"] % INSTRUCTION_B).any():
        yield "sampled addresses are inside instructions"


def _counts(launch: Launch) -> Iterator[str]:
    """Launch geometry and executions are whole numbers of a size that a GPU can have."""
    if not launch.scalars:
        yield "the launch has no metrics"
    if not launch.identity.device:
        yield "the launch has no device"
    kernel, demangled = launch.identity.kernel, launch.identity.demangled
    if not re.search(rf"(?<![\w$]){re.escape(kernel)}(?![\w$])", demangled):
        yield f"the launch is called {kernel} and {demangled}"
    yield from _hollow(launch)
    odd = [(name, value) for name, value in launch.scalars.items() if name.startswith("launch__")]
    yield from (f"{name} is {value:g}" for name, value in odd if math.isinf(value) or abs(value) >= 2**53)
    yield from _geometry(launch)
    executed = launch.source["executed"].dropna()
    if len(executed) and ((executed < 0) | (executed != executed.round())).any():
        yield "the execution count of an instruction is not an integer"


def _hollow(launch: Launch) -> Iterator[str]:
    """What is named has a value or a series, and a series with an average has samples.

    A launch that ends before the second sample may lack all series.
    """
    names = launch.identity.without_value.split()
    interval = launch.value("profiler__pmsampler_interval_time")
    if not launch.identity.duration_ns > FEW_SAMPLES * interval:
        names = [name for name in names if not series_prefix().match(name)]
    elif launch.timeline.empty:
        yield "PM sampling ran, but no series has samples"
    sampled = {short_name(name) for name in launch.scalars if series_prefix().match(name)}
    if not launch.timeline.empty and (lost := sorted(sampled - set(launch.timeline["metric"].unique()))):
        yield f"the report has no sampling times for {', '.join(lost[:MOST_ALIKE])}"
    if names:
        yield f"{len(names)} metrics have neither value nor series: {', '.join(names[:MOST_ALIKE])}"


def _geometry(launch: Launch) -> Iterator[str]:
    """A launch has all of its geometry, and its sizes are products of its dimensions."""
    lacking = [name for name in GEOMETRY if math.isnan(launch.value(name))]
    if 0 < len(lacking) < len(GEOMETRY):
        yield f"the launch has no {', '.join(lacking[:MOST_ALIKE])}, which ncu writes for each launch"
    grid, block = (
        math.prod(launch.value(f"launch__{what}_dim_{axis}") for axis in "xyz") for what in ("grid", "block")
    )
    for name, product in (("grid_size", grid), ("block_size", block), ("thread_count", grid * block)):
        size = launch.value(f"launch__{name}")
        if not math.isnan(size - product) and size != product:
            yield f"launch__{name} is {size:.0f}, but the dimensions give {product:.0f}"


def _rules(launch: Launch) -> Iterator[str]:
    """A rule of Nsight has a name and a section, says once what it has to say, in characters that
    print, under its title, and estimates a gain of what it proposes."""
    rules = launch.rules
    texts = rules[["section", "rule", "title", "message"]].astype(str)
    title, message, proposes = texts["title"], texts["message"], rules["kind"] == "optimization"
    unestimated = rules["speedup_pct"].isna() & (rules["speedup_kind"] == "")
    untitled = (title == texts["rule"].map(TITLED)) | (title.str.len() > message.str.len())
    faults = {
        "lacks its name": (texts[["section", "rule", "title"]] == "").any(axis=1),
        "lacks its text": ((rules["kind"] != "") | ~unestimated) & (message == ""),
        "lacks its title": proposes & texts["rule"].isin(TITLED) & untitled,
        "lacks its estimate": proposes & texts["rule"].isin(ESTIMATING) & unestimated,
        "is duplicated": rules.duplicated(["section", "rule", "title", "message"]),
        "contains control characters": texts.apply(lambda text: text.str.contains(CONTROL)).any(axis=1),
    }
    for fault, wrong in faults.items():
        yield from (f"Nsight's rule {name or '(no name)'} {fault}" for name in texts["rule"][wrong][:MOST_ALIKE])
    yield from islice(_estimates(rules), MOST_ALIKE)


def _estimates(rules: pd.DataFrame) -> Iterator[str]:
    """An estimate is that of an optimization, local or global, above 0 and up to 100 %."""
    for name, kind, pct, scope in rules[["rule", "kind", "speedup_pct", "speedup_kind"]].itertuples(index=False):
        if math.isnan(pct) and not scope:
            continue
        if not (kind == "optimization" and scope in ("local", "global") and 0 < pct <= 100):
            scoped = f"{kind or 'of unknown kind'}, {scope or 'neither local nor global'}"
            yield f"Nsight's rule {name} ({scoped}) estimates a gain of {pct:g} %"


def _timeline(launch: Launch) -> Iterator[str]:
    """Series are sampled at one pace, and shares stay within ``SERIES_PCT``."""
    frame = launch.timeline
    if frame.empty:
        return
    values, times = frame["value"].to_numpy(), frame["t_ns"].to_numpy()
    rates = [name for name in frame["metric"].cat.categories if HIT_RATE in name]
    shares = values[(frame["unit"].eq("%") & ~frame["metric"].isin(rates)).to_numpy()]
    if len(shares) and not SERIES_PCT[0] <= shares.min() <= shares.max() <= SERIES_PCT[1]:
        yield f"a sampled series ranges from {shares.min():.4g} to {shares.max():.4g} %"
    if ((values != 0) & (abs(values) < TINY)).any():
        yield f"a sampled series contains {values[(values != 0) & (abs(values) < TINY)][0]:.3g}"
    names = frame["metric"].cat.codes.to_numpy()
    for steps in (np.diff(times[names == name]) for name in np.unique(names)):
        if len(steps) and np.ptp(steps) > PACE_TOLERANCE * abs(np.median(steps)):
            yield f"samples of a series are {steps.min()} to {steps.max()} ns apart"
            return


def disagreements(scalars: Mapping[str, float]) -> Iterator[str]:
    """Sentences about counters whose roll-ups cannot be true together, NaN aside."""
    rollups: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for name, value in scalars.items():
        if (match := _ROLLUP.fullmatch(name)) and not math.isnan(value):
            rollups[match[1], match[3] or ""][match[2]] = value
    for (counter, share), values in rollups.items():
        if wrong := _wrong(share, values):
            yield f"{counter}{share}: {wrong}"


def _wrong(share: str, values: Mapping[str, float]) -> str:
    low, mean, high, total = (values.get(name, math.nan) for name in ("min", "avg", "max", "sum"))
    exact = _TOLERANCE * max(abs(low), abs(high), abs(mean)) + 1e-9
    slack = _SHARE_TOLERANCE if share.startswith(".pct") else exact
    if share != _NOT_ORDERED and (low > mean + slack or mean > high + slack):
        return f"an average of {mean:.6g} between {low:.6g} and {high:.6g}"
    if share.startswith(".pct") and abs(total - mean) > exact:
        return f"{total:.6g} % in total, but {mean:.6g} % on average"
    if not share and mean > 0 and total >= mean and abs(total / mean - round(total / mean)) > 1e-3:
        return f"a sum of {total:.6g} and an average of {mean:.6g}: not a whole number of units"
    return ""
