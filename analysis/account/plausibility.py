"""Checks whether the values of a launch are consistent, to detect changed values inside a report
whose file is whole. Neither the file's frame (see ``container``) nor the native reader detects
them. A launch that breaks a relation is shown with the values that contradict each other, never
silently.

Each check names its law, its tolerance, and the spread that was measured, over 1,839 launches of
266 public reports of 60 repositories (ncu 2019 to 2025.4, compute capability 7.0 to 12.0) and
841 of the shipped recordings: ``python -m benchmarks.reports.versions FOLDER``. *Exact* is to
the last digits of a double. A relation without a law, or one that a whole report breaks, is no
check.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress
from typing import Any

import numpy as np

from ncubble.analysis.account.units import ACTIVE, ELAPSED, MEMORY, PIPES, TENSOR, utilization
from ncubble.analysis.report.frames import STALLED, executions, series, short_name, stall_columns, without_text
from ncubble.analysis.report.report import Launch
from ncubble.chips import parse_version
from ncubble.profiling.metrics.generations import load_generations, series_names, series_prefix
from ncubble.sass.opcodes import role

EXACT = 1e-6
"""Relative: what ncu computes from one measurement, stored as a double."""
CLOCK_TOLERANCE = 0.25
"""Cycles against duration times clock where no rate of the same pass is there: passes of a GPU
whose clocks were not locked differ by up to 14 %."""
RATE_TOLERANCE = 0.05
"""A rate times the duration, against its counter. Exact but for counters of NVLink: 1.6 %."""
PCT_RANGE = (-0.5, 103.0)
"""Utilization in percent; passes of a saturated unit differ: -0.16 to 100.08."""
SERIES_PCT = (0.0, 125.0)
"""A sampled series in percent: its peak is that of another clock than its interval: up to 109."""
HIT_RATE = "hit_rate"
"""Parts of the names of series that are ratios of two series: not shares (-27 % where L1 serves
nearly all loads, H100)."""
PACE_TOLERANCE = 0.5
"""Steps between PM samples differ by up to 5 %; the first is up to 82 % shorter (Tesla T4), or 3.4
times as long (RTX 5090)."""
TINY = 1e-20
"""The smallest value of any series, 0 aside, is 1.8e-4."""
INSTRUCTION_B = 16
"""From compute capability 7.0 on. Older GPUs are not in reports that this reader opens."""
FUNCTION_B = 128
WARP = 32
MOST_NAMED = 3
FEW_SAMPLES = 10
"""Launches of fewer sampling intervals may have been missed by the sampler."""
MEANS = {
    "tensor": (0.15, load_generations().of_kind("tensor")["tensor"].counters),
    "tensor_tc": (0.15, load_generations().of_kind("tensor")["tensor_tc"].counters),
    "alu": (0.3, PIPES["alu"]),
    "fma": (0.8, PIPES["fma"]),
    "issue": (0.6, ("smsp__issue_active",)),
    "dram": (1.0, MEMORY["dram"]),
}
"""By series: how far its mean and the average of these counters may be apart (logarithm). They
are of different runs: 0.10, 0.14, 0.58, 0.33; half the traffic of an A100's DRAM is in no series
(0.71)."""
FEW_PCT, FEW_POINTS = 1.0, 20
"""Series with less on average, or fewer samples, are not compared with counters."""
SELECTED, MANY_SAMPLES = 1.0, 400
"""Issue slots in use by samples and by counter: how far they may be apart (logarithm; up to 0.78
where passes saw different clocks and work), and how many samples tell."""
SPAN = 0.43, 5.0
"""How much shorter or longer a series may show SMs at work than the launch took: a share of the
duration (0.13, and 0.42 where processes share the GPU, so that passes see different neighbours),
and sampling intervals (4.3 where they are most of it)."""
SHARED_GRANULE_B = 256
"""The largest unit in which shared memory is allocated (compute capability 7.5)."""
OCCUPANCY_TOLERANCE = 0.1
"""Achieved over theoretical occupancy: up to 1.047, for passes that count warps and cycles
apart."""
MMAS_PER_CYCLE = 4
"""Warp schedulers of an SM, each of which starts at most one instruction in a cycle; at most
1.0."""
COUNTED = {
    "smsp__inst_executed_op_ldgsts.sum": (r"LDGSTS\b", True),
    "smsp__inst_executed_op_tma_ld.sum": (r"UTMALDG\b", False),
    "sm__inst_executed_pipe_tensor_op_gmma.sum": (r"[HIQB]GMMA\b", True),
    "sm__inst_executed_pipe_tensor_op_hmma.sum": (r"HMMA\b", False),
}
"""Hardware counters, the instructions that they count, and whether only those: HFMA2.MMA, too,
is an HMMA, and a copy without a tensor map one of TMA. Exact, but for ``DIVERGED``."""
DIVERGED = 0.12
"""Copies of a warp behind a wait at an mbarrier, which lanes may leave apart in one pass and not
in another: 5.3 %."""
RUNS = {"sass__inst_executed_per_opcode": 0.01, "smsp__inst_executed.sum": 0.25}
"""Instructions in total, of other runs of the launch: they differ by 0.2 % and 12 % where warps
wait for each other in loops, else not."""
PROPORTION_TOLERANCE = 0.05
"""Exact, but for ``dram__cycles_active``: 2.1 %."""
LEAVES = re.compile(r"BRA|BRX|JMP|JMX|CALL|RET|EXIT|KILL|BREAK|BSYNC|WARPSYNC|YIELD|BPT|RTT|NANOSLEEP|\?|$")
"""Instructions behind which fewer warps may go on; the first ten are jumps by the ISA, behind
BSYNC, WARPSYNC and YIELD diverged threads run on as warps of their own."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
SAID_LAST_SINCE = 2020, 3
"""The first ncu that writes a session's last words (reports of 2020.2 end without)."""
GEOMETRY = tuple(
    f"launch__{name}"
    for name in (
        *(f"{what}_{part}" for what in ("grid", "block") for part in ("dim_x", "dim_y", "dim_z", "size")),
        *("thread_count", "registers_per_thread", "shared_mem_per_block", "waves_per_multiprocessor"),
        *(f"shared_mem_per_block_{part}" for part in ("allocated", "driver", "dynamic", "static")),
        *(f"occupancy_limit_{limit}" for limit in ("blocks", "registers", "shared_mem", "warps")),
    )
)
"""What ncu writes with every kernel launch from 2020 on, whatever else it collects."""
_LIMITS = [f"launch__occupancy_limit_{limit}" for limit in ("blocks", "registers", "shared_mem", "warps")]
_OF_PEAK = ".pct_of_peak_sustained_elapsed"
_ROLLUP = re.compile(r"(.+)\.(min|avg|max|sum)(\..+)?")
_PROPORTIONAL = (".per_second", ".per_cycle_active", _OF_PEAK, ".pct_of_peak_sustained_active")
_DRAM_PCT = "dram__cycles_active" + ELAPSED, "gpu__dram_throughput" + ELAPSED
_BUS, _WIDTH = "device__attribute_fb_bus_width", "dram__bytes.{}.peak_sustained"
_ISSUED = "smsp__issue_active.avg.pct_of_peak_sustained_active"
_SMS = ("launch__sm_count", "device__attribute_multiprocessor_count")
_THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
_SHARE_TOLERANCE = 5.0
"""Points: each unit has cycles of its own, so that the average of a share may lie a little
beyond its extremes."""
_NOT_ORDERED = ".pct_of_peak_sustained_active"
"""Active cycles differ far more: a share of them is not compared with its extremes."""
_PER_SM = {"sm": 1, "l1tex": 1, "smsp": 4}
"""Units of which an SM has this many, on every chip."""


def doubts(launch: Launch) -> list[str]:
    """Contradictions in one launch, each beginning with ``suspicious:`` and naming the values."""
    exact, measured = contradictions(launch)
    return [f"suspicious: {text}; the file may be damaged" for text in exact] + [
        f"suspicious: {text}; the file may be damaged, or its passes saw different runs" for text in measured
    ]


def contradictions(launch: Launch) -> tuple[list[str], list[str]]:
    """Contradictory values of one launch, in words: those that only a damaged file explains, and
    those that passes over different runs also explain. One sentence of each kind, with the
    number of others."""
    return _told(launch, DAMAGE), _told(launch, DAMAGE_OR_RUNS)


def _told(launch: Launch, checks: Iterable[Callable[[Launch], Iterator[str]]]) -> list[str]:
    kinds = [found for check in checks if (found := list(check(launch)))]
    return [f"{first} (and {len(rest)} more of this kind)" if rest else first for first, *rest in kinds]


def _differ(one: float, other: float, tolerance: float) -> bool:
    """Whether two numbers are further apart than this part of the larger; never if one is NaN."""
    known = not (math.isnan(one) or math.isnan(other))
    return known and not math.isclose(one, other, rel_tol=tolerance)


def _ending(launch: Launch, suffix: str) -> dict[str, float]:
    """The launch's scalars whose names end so."""
    return {name: value for name, value in launch.scalars.items() if name.endswith(suffix)}


def _end(launch: Launch) -> Iterator[str]:
    """Law: ncu ends a session with its last words, writes each launch once and in order, and a
    rule that ran says something; so do all reports. A cut between two blocks shows where it is
    right behind the first launch."""
    frame = launch.report.frame
    old = frame.ncu_version and parse_version(frame.ncu_version) < SAID_LAST_SINCE
    if not (frame.ends or old):
        yield "the report lacks what ncu writes after the first launch, so other data may be missing, too"
    if not frame.ordered:
        yield "launches of the report are duplicated or out of order"
    if not frame.rules_speak:
        yield "a result of an Nsight rule has no message"


def _clock(launch: Launch) -> Iterator[str]:
    """Law: cycles are duration times clock, and all three are above 0; to ``CLOCK_TOLERANCE``."""
    row = launch.identity
    values = {name: getattr(row, name) for name in ("duration_ns", "cycles", "sm_clock_hz")}
    yield from (f"{name} is {value}" for name, value in values.items() if value <= 0)
    if _differ(row.cycles, expected := row.duration_ns * row.sm_clock_hz * 1e-9, CLOCK_TOLERANCE):
        yield f"{row.cycles:.6g} cycles, but duration times SM clock gives {expected:.6g}"


def _rates(launch: Launch) -> Iterator[str]:
    """Law: a rate times the duration is its counter; to ``RATE_TOLERANCE``."""
    for name, rate in _ending(launch, ".per_second").items():
        counter, total = name.removesuffix(".per_second"), rate * launch.identity.duration_ns * 1e-9
        if _differ(launch.value(counter), total, RATE_TOLERANCE):
            yield f"{counter} is {launch.value(counter):.6g}, but its rate times the duration is {total:.6g}"


def _shares(launch: Launch) -> Iterator[str]:
    """Law: no unit is busy for longer than the elapsed time; to ``PCT_RANGE``."""
    known = {"tensor": TENSOR, **PIPES, **MEMORY}
    shares = {unit: utilization(launch, stems) for unit, stems in known.items()}
    shares |= _ending(launch, _OF_PEAK)
    low, high = PCT_RANGE
    yield from (
        f"{name} is busy for {pct:.4g} % of the time" for name, pct in shares.items() if pct < low or pct > high
    )


def _busy_cycles(launch: Launch) -> Iterator[str]:
    """Law: the share of active cycles and that of elapsed ones count the same busy cycles.
    Exact."""
    active, elapsed = (launch.value(f"sm__cycles_{which}.avg") for which in ("active", "elapsed"))
    for name, of_elapsed in _ending(launch, ELAPSED).items():
        of_active = launch.value(name.removesuffix(ELAPSED) + ACTIVE)
        if name.startswith("sm__") and elapsed > 0 and _differ(of_elapsed, of_active * active / elapsed, EXACT):
            yield f"{name} is {of_elapsed:.6g} %, but of active cycles {of_active:.6g} %"


def _dram(launch: Launch) -> Iterator[str]:
    """Law: every pin of the DRAM moves two bits a cycle at most, and its share of that is its
    bytes. Exact on 28 models of GPU. The throughput of DRAM is that of its controllers where they
    are busier (B200)."""
    pct, hz, bits = launch.first(_DRAM_PCT), *map(launch.value, ("dram__cycles_elapsed.avg.per_second", _BUS))
    moved = launch.first(["dram__bytes.sum"])
    moved = launch.value("dram__bytes_read.sum") + launch.value("dram__bytes_write.sum") if moved != moved else moved
    expected = pct / 100.0 * bits / 8 * 2 * hz * launch.identity.duration_ns * 1e-9
    if _differ(moved, expected, EXACT):
        yield f"{moved:.6g} B of DRAM traffic, but its share of the peak gives {expected:.6g}"


def _units(launch: Launch) -> Iterator[str]:
    """Law: a sum over all SMs, or parts of them, is their number times the average. Exact."""
    sms = launch.first(_SMS)
    for name, total in _ending(launch, ".sum").items():
        number = sms * _PER_SM.get(name.partition("__")[0], math.nan)
        if _differ(total, number * launch.value(name[:-4] + ".avg"), EXACT):
            yield f"{name} is {total:.6g}, which is not {number:.0f} times its average"


def _proportions(launch: Launch) -> Iterator[str]:
    """Law: rates and shares are in proportion to their counter, so their maximum is as far above
    the average; to ``PROPORTION_TOLERANCE``. Not of DRAM channels of unlike width (B200)."""
    uneven = "dram__" if launch.value(_WIDTH.format("max")) > launch.value(_WIDTH.format("avg")) else "-"
    for name, high in launch.scalars.items():
        match = _ROLLUP.fullmatch(name) if ".max." in name else None
        if match and match[2] == "max" and match[3] in _PROPORTIONAL and not name.startswith(uneven):
            names = f"{match[1]}.avg{match[3]}", f"{match[1]}.max", f"{match[1]}.avg"
            mean, most, average = map(launch.value, names)
            if average and _differ(high * average, mean * most, PROPORTION_TOLERANCE):
                yield f"{name} is {high:.6g} on an average of {mean:.6g}, its counter {most:.6g} on {average:.6g}"


def _samples(launch: Launch) -> Iterator[str]:
    """Law: each sample has one instruction and one reason, so samples add up over both, per
    instruction and in total; executions add up likewise. Exact."""
    source = launch.source
    if source.empty:
        return
    reasons = stall_columns(source)
    by_reason = source[reasons].to_numpy()
    counted = dict(zip(reasons, by_reason.sum(axis=0).tolist(), strict=True))
    samples, executed = np.nansum(source[["samples", "executed"]].to_numpy(), axis=0).tolist()
    totals = {reason: (counted[reason], launch.value(STALLED + reason)) for reason in reasons}
    totals["executed"] = executed, launch.value("inst_executed")
    totals["samples"] = samples, launch.value("smsp__pcsamp_sample_count")
    totals["samples by stall reason"] = samples, sum(counted.values())
    for what, (count, total) in totals.items():
        if not math.isnan(total) and count != total:
            yield f"{what}: {count:.0f} over the instructions, but {total:.0f} in total"
    wrong = np.flatnonzero(by_reason.sum(axis=1) != source["samples"].to_numpy())
    for row in wrong if reasons else ():
        one = source.iloc[row]
        yield f"{one['samples']:.0f} samples of `{one['sass']}`, but {by_reason[row].sum():.0f} by stall reason"


def _straight_code(launch: Launch) -> Iterator[str]:
    """Law: in straight code, warps that execute an instruction execute the next. Exact but
    behind ``LEAVES``."""
    source = launch.source
    executed, after = source["executed"].to_numpy(float), np.diff(source["pc"].to_numpy()) == INSTRUCTION_B
    for row in np.flatnonzero(after & (executed[1:] < executed[:-1])):
        if not LEAVES.match(source["opcode"].iloc[row]):
            times = f"{executed[row]:.0f} times, the next instruction {executed[row + 1]:.0f}"
            yield f"`{source['sass'].iloc[row]}` was executed {times}"


def _opcodes(launch: Launch) -> Iterator[str]:
    """Law: a counter of instructions counts those that ran: exactly, or others as well. The code
    of all functions must be there."""
    source = launch.source
    if source["executed"].isna().all() or without_text(source).any():
        return
    ran = executions(source)
    for counter, (pattern, only) in COUNTED.items():
        count, total = sum(ran[name] for name in ran if re.match(pattern, name)), launch.value(counter)
        split = "LDGSTS" in pattern and any(name.startswith("SYNCS.PHASECHK") for name in ran)
        apart = DIVERGED * total if split else 0.0
        if count > total + apart or (only and count < total - apart):
            yield f"{counter} is {total:.0f}, but the code ran {count:.0f}"
    whole = sum(ran.values())
    for counter, tolerance in RUNS.items():
        if _differ(whole, total := launch.value(counter), tolerance):
            yield f"{counter} is {total:.0f}, but the code ran {whole:.0f}"


def _mmas(launch: Launch) -> Iterator[str]:
    """Law: MMAs that ran kept the tensor pipe busy: ``MMAS_PER_CYCLE`` of an SM at most."""
    mmas = sum(count for opcode, count in executions(launch.source).items() if role(opcode) == "mma")
    pct = utilization(launch, TENSOR)
    if mmas > MMAS_PER_CYCLE * pct / 100.0 * launch.identity.cycles * launch.first(_SMS):
        yield f"the tensor pipe is busy for {pct:.4g} % of the time, but {mmas:.0f} MMAs were executed"


def _means(launch: Launch) -> Iterator[str]:
    """Law: a series averages to the counter of its unit; to ``MEANS``."""
    for name, (most, stems) in MEANS.items():
        values = series(launch.timeline, name)
        values = values[(values.index >= 0) & (values.index <= launch.identity.duration_ns)]
        mean, pct = values.mean(), utilization(launch, stems)
        enough = len(values) >= FEW_POINTS and max(mean, pct) > FEW_PCT
        if enough and abs(math.log(max(mean, EXACT) / max(pct, EXACT))) > most:
            yield f"the series {name} averages {mean:.4g} %, but its counter is {pct:.4g} %"


def _selected(launch: Launch) -> Iterator[str]:
    """Law: the share of samples in which a warp issues, times the active warps, is the share of
    issue slots in use; to ``SELECTED``."""
    samples, selected = (launch.value(name) for name in ("smsp__pcsamp_sample_count", STALLED + "selected"))
    warps, issued = launch.value("smsp__warps_active.avg.per_cycle_active"), launch.value(_ISSUED)
    share = 100.0 * selected / samples * warps if samples else math.nan
    enough = max(selected, issued / 100.0 * samples / warps if warps else 0.0) > MANY_SAMPLES
    if enough and abs(math.log(max(share, EXACT) / max(issued, EXACT))) > SELECTED:
        yield f"warps issue in {share:.4g} % of the cycles by samples, but in {issued:.4g} % by the counter"


def _span(launch: Launch) -> Iterator[str]:
    """Law: SMs are active from the launch to its end; to ``SPAN``."""
    active = series(launch.timeline, "sm_active")
    duration, times = launch.identity.duration_ns, active.index[active > 0]
    if len(active) < FEW_POINTS:
        return
    step = float(np.median(np.diff(active.index)))
    seen = float(times.max() - times.min()) if len(times) else 0.0
    if duration > FEW_SAMPLES * step and abs(seen - duration) > SPAN[0] * duration + SPAN[1] * step:
        yield f"SMs are active over {seen:.0f} ns of their series, but the launch took {duration:.0f} ns"


def _code(launch: Launch) -> Iterator[str]:
    """Law: a report has all code of a function or none (of functions that a kernel calls, of
    chips that the reader cannot disassemble), 16 bytes after another; another function begins at a
    multiple of 128 bytes. Exact."""
    source = launch.source
    lost, pc = without_text(source).to_numpy(), source["pc"].to_numpy()
    apart = (np.diff(pc) == INSTRUCTION_B) & (lost[1:] != lost[:-1]) & (pc[1:] % FUNCTION_B != 0)
    if apart.any():
        yield f"{lost.sum()} of {len(source)} sampled instructions are not in the code, beside others that are"
    if (pc % INSTRUCTION_B).any():
        yield "sampled addresses are inside instructions"


def _whole_counts(launch: Launch) -> Iterator[str]:
    """Law: what is counted is a whole number of a size that a GPU can have. Exact."""
    for name, value in launch.scalars.items():
        beyond = math.isinf(value) and not name.endswith(".pct")  # a rate of nothing
        if beyond or (name.startswith("launch__") and abs(value) >= 2**53):
            yield f"{name} is {value:g}"
    executed = launch.source["executed"].dropna()
    if len(executed) and ((executed < 0) | (executed != executed.round())).any():
        yield "the execution count of an instruction is not an integer"


def _identity(launch: Launch) -> Iterator[str]:
    """Law: a launch was of a kernel, on a device, and both names of the kernel are of one."""
    if not launch.scalars:
        yield "the launch has no metrics"
    if not launch.identity.device:
        yield "the launch has no device"
    kernel, demangled = launch.identity.kernel, launch.identity.demangled
    if not re.search(rf"(?<![\w$]){re.escape(kernel)}(?![\w$])", demangled):
        yield f"the launch is called {kernel} and {demangled}"


def _hollow(launch: Launch) -> Iterator[str]:
    """Law: what was measured has a value or a series, and a series with an average has samples.
    A launch of ``FEW_SAMPLES`` may lack series; how many it had to have, an interval of 0 leaves
    open. Totals, and series of other sections, may come without samples (RTX 5090)."""
    names = launch.identity.without_value.split()
    interval = launch.value("profiler__pmsampler_interval_time")
    sampled = {short_name(name) for name in launch.scalars if series_prefix().match(name) and name[-4:] != ".sum"}
    if not launch.identity.duration_ns > FEW_SAMPLES * interval > 0:
        names = [name for name in names if not series_prefix().match(name)]
    elif launch.timeline.empty:
        yield "PM sampling ran, but no series has samples"
    elif lost := sorted(sampled & set(series_names().values()) - set(launch.timeline["metric"].unique())):
        yield from (f"the report has no sampling times for {name}" for name in lost)
    if names:
        yield f"{len(names)} metrics have neither value nor series: {', '.join(names[:MOST_NAMED])}"


def _lacking(launch: Launch) -> Iterator[str]:
    """Law: a launch has all of its geometry (ncu of 2019 did not write it)."""
    lacking = [name for name in GEOMETRY if math.isnan(launch.value(name))]
    if launch.identity.ncu_version and 0 < len(lacking) < len(GEOMETRY):
        yield f"the launch has no {', '.join(lacking[:MOST_NAMED])}, which ncu writes for each launch"


def _sizes(launch: Launch) -> Iterator[str]:
    """Law: the sizes of a launch are products of its dimensions. Exact."""
    grid, block = (
        math.prod(launch.value(f"launch__{what}_dim_{axis}") for axis in "xyz") for what in ("grid", "block")
    )
    for name, product in (("grid_size", grid), ("block_size", block), ("thread_count", grid * block)):
        size = launch.value(f"launch__{name}")
        if not math.isnan(size - product) and size != product:
            yield f"launch__{name} is {size:.0f}, but the dimensions give {product:.0f}"


def _occupancy(launch: Launch) -> Iterator[str]:
    """Law: an SM holds as many CTAs as its scarcest resource allows, which gives waves and
    theoretical occupancy, and a CTA the shared memory it asked for, rounded up. Exact."""
    limit, shared = min(map(launch.value, _LIMITS)), "launch__shared_mem_per_block_"
    waves, grid, block = map(
        launch.value, ("launch__waves_per_multiprocessor", "launch__grid_size", "launch__block_size")
    )
    if _differ(waves * launch.first(_SMS) * limit, grid, EXACT):
        yield f"launch__waves_per_multiprocessor is {waves:.4g} for {grid:.0f} CTAs of which an SM holds {limit:.0f}"
    theoretical, slots = map(launch.value, (_THEORETICAL, "device__attribute_max_warps_per_multiprocessor"))
    warps = -(-block // WARP) * limit
    if _differ(theoretical / 100.0 * slots, warps, EXACT):
        yield f"{_THEORETICAL} is {theoretical:.4g}, but {warps:.0f} of {slots:.0f} warps fit"
    asked = sum(launch.value(shared + part) for part in ("static", "dynamic", "driver"))
    if not math.isnan(more := launch.value(shared + "allocated") - asked) and not 0 <= more < SHARED_GRANULE_B:
        yield f"{shared}allocated is {asked + more:.0f} B for {asked:.0f} B"


def _achieved(launch: Launch) -> Iterator[str]:
    """Law: no more warps are active than fit; to ``OCCUPANCY_TOLERANCE``."""
    achieved, theoretical = launch.value("sm__warps_active" + ACTIVE), launch.value(_THEORETICAL)
    if achieved > theoretical * (1.0 + OCCUPANCY_TOLERANCE):
        yield f"an achieved occupancy of {achieved:.4g} %, but {theoretical:.4g} % in theory"


def _rules(launch: Launch) -> Iterator[str]:
    """Law: a rule of Nsight has a name and a section, and says once what it has to say, in
    characters that print; so do all reports."""
    rules: list[Any] = list(launch.rules.itertuples(index=False))
    texts = [tuple(map(str, (rule.section, rule.rule, rule.title, rule.message))) for rule in rules]
    told = [rule.kind or rule.speedup_kind or not math.isnan(rule.speedup_pct) for rule in rules]
    faults = {
        "lacks its name": [not all(text[:3]) for text in texts],
        "lacks its text": [told and not text[3] for told, text in zip(told, texts, strict=True)],
        "is duplicated": [text in texts[:number] for number, text in enumerate(texts)],
        "contains control characters": [any(map(CONTROL.search, text)) for text in texts],
    }
    for fault, wrong in faults.items():
        yield from (f"Nsight's rule {text[1] or '(no name)'} {fault}" for text in compress(texts, wrong))


def _estimates(launch: Launch) -> Iterator[str]:
    """Law: an optimization gives back from nothing to all of the time; so do all reports."""
    columns = launch.rules[["rule", "kind", "speedup_pct", "speedup_kind"]]
    for name, kind, pct, scope in columns.itertuples(index=False):
        estimates = scope or not math.isnan(pct)
        if estimates and not (kind == "optimization" and scope in ("local", "global") and 0 <= pct <= 100):
            scoped = f"{kind or 'of unknown kind'}, {scope or 'neither local nor global'}"
            yield f"Nsight's rule {name} ({scoped}) estimates a gain of {pct:g} %"


def _timeline(launch: Launch) -> Iterator[str]:
    """Law: sampled shares are shares, to ``SERIES_PCT``, and counts 0 or countable, above
    ``TINY``."""
    frame = launch.timeline
    if frame.empty:
        return
    values = frame["value"].to_numpy()
    rates = [name for name in frame["metric"].cat.categories if HIT_RATE in name]
    shares = values[(frame["unit"].eq("%") & ~frame["metric"].isin(rates)).to_numpy()]
    if ((shares < SERIES_PCT[0]) | (shares > SERIES_PCT[1])).any():
        yield f"a sampled series ranges from {shares.min():.4g} to {shares.max():.4g} %"
    if ((values != 0) & (abs(values) < TINY)).any():
        yield f"a sampled series contains {values[(values != 0) & (abs(values) < TINY)][0]:.3g}"


def _pace(launch: Launch) -> Iterator[str]:
    """Law: the sampler keeps its pace behind its first step; to ``PACE_TOLERANCE``."""
    for _, times in launch.timeline.groupby("metric", observed=True)["t_ns"]:
        steps = np.diff(times)
        usual = float(np.median(steps)) if len(steps) else 0.0
        if len(steps) > 1 and (steps[0] > 4 * usual or np.ptp(steps[1:]) > PACE_TOLERANCE * usual):
            yield f"samples of a series are {steps.min()} to {steps.max()} ns apart"


def disagreements(scalars: Mapping[str, float]) -> Iterator[str]:
    """Sentences about counters whose roll-ups cannot be true together, NaN aside: an average is
    between its extremes, and a sum a whole number of averages."""
    rollups: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for name, value in scalars.items():
        if (match := _ROLLUP.fullmatch(name)) and not math.isnan(value):
            rollups[match[1], match[3] or ""][match[2]] = value
    for (counter, share), values in rollups.items():
        if wrong := _wrong(share, values):
            yield f"{counter}{share}: {wrong}"


def _wrong(share: str, values: Mapping[str, float]) -> str:
    low, mean, high, total = (values.get(name, math.nan) for name in ("min", "avg", "max", "sum"))
    exact = EXACT * max(abs(low), abs(high), abs(mean)) + 1e-9
    slack = _SHARE_TOLERANCE if share.startswith(".pct") else exact
    if share != _NOT_ORDERED and (low > mean + slack or mean > high + slack):
        return f"an average of {mean:.6g} between {low:.6g} and {high:.6g}"
    if share.startswith(".pct") and abs(total - mean) > exact:
        return f"{total:.6g} % in total, but {mean:.6g} % on average"
    if not share and mean > 0 and total >= mean and abs(total / mean - round(total / mean)) > 1e-3:
        return f"a sum of {total:.6g} and an average of {mean:.6g}: not a whole number of units"
    return ""


DAMAGE = (
    *(_end, _samples, _whole_counts, _identity, _hollow, _lacking, _sizes, _occupancy, _rules, _estimates),
    lambda launch: disagreements(launch.scalars),
    *(_proportions, _busy_cycles, _units, _dram, _straight_code, _opcodes),
)
DAMAGE_OR_RUNS = _clock, _rates, _shares, _achieved, _mmas, _code, _timeline, _pace, _means, _selected, _span
"""Checks whose values may be of passes that saw different runs."""
