"""One row of the overview's table per launch. Pure: a report, a launch number and a verdict in, a
flat dict out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.parts import JOINED, PARTS, WORK, display_order, part_label
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import cause_words, kind_words, largest_part, recoverable_ns, unit_short
from ncubble.analysis.launches.table import LaunchRows
from ncubble.analysis.model.roofs import Subject, speeds
from ncubble.analysis.report.launch_key import telling_dims
from ncubble.analysis.report.report import LaunchIdentity
from ncubble.profiling.ranks import rank_of
from ncubble.text.values import location, number, short_gpu


def launch_row(report: Any, launch: int, verdict: LaunchVerdict, ablation: Ablation | None = None) -> dict[str, Any]:
    """JSON-ready row: text or None, finite floats or None; ``parameters`` and ``dims`` of the run
    by name. Cause and largest bubble are those of ``ablation`` where it measured them, and say so;
    ``measured`` is the account as it measured it, ``account`` the estimate; ``code`` is a hash of
    the machine code, where the run names it.

    Durations in ns, shares in percent of elapsed time. ``recoverable_ns`` is the idle time of the
    counted unit, by which the table is ordered: zero for a launch that is saturated or
    memory-bound, None where the account or the duration is not collected.
    """
    account, kernel = verdict.account or {}, verdict.kernel
    judged, largest, measured = as_measured(verdict, ablation), largest_part(account, ablation), None
    if ablation and (whole := ablation.account(account)):
        measured = [[name, _rounded(whole[name])] for name in display_order(whole)]
    subject = report.launch(launch)
    known, facts = subject.identity, facts_of(report, launch, kernel)
    label, shape = kernel_label(known, facts)
    rank, build = rank_of(report.run), report.run.manifest.build
    demangled = known.demangled or kernel
    return {
        "id": f"{report.key[:16]}/{launch}",
        "kernel": kernel,
        "name": telling_name(kernel, demangled),
        "demangled": demangled,
        "label": label,
        "shape": shape,
        "launch": launch,
        "device": verdict.device or None,
        "gpu": short_gpu(verdict.device),
        "duration_ns": _rounded(verdict.duration_ns, 1),
        "unit": unit_short(verdict.unit) or None,
        "busy": _rounded(_busy_pct(account)),
        "tensor": _rounded(verdict.tensor_elapsed_pct),
        "dram": _rounded(verdict.dram_pct),
        "account": [[name, _rounded(account.get(name))] for name in PARTS if account.get(name)],
        "measured": measured,
        "cause": _words(cause_words(judged), judged.cause in judged.measured),
        "cause_key": judged.cause,
        "change": kind_words(judged) or None,
        "cause_pct": _rounded(judged.cause_pct),
        "at": location(judged.places[0].file, judged.places[0].line) or None if judged.places else None,
        "bubble": _words(part_label(largest[0]), largest[2]) if largest else None,
        "bubble_key": largest[0].split(JOINED)[0] if largest else None,
        "bubble_pct": _rounded(largest[1]) if largest else None,
        "recoverable_ns": recoverable_ns(verdict),
        "cycles": _rounded(verdict.cycles, 0),
        "parameters": dict(facts.get("parameters") or {}),
        "dims": dict(facts.get("shape") or {}),
        "code": (build.get("code_sha256") or build.get("cubin_sha256")) if facts else None,
        **_launch_facts(known, subject.scalars),
        **speeds(_subject(known, subject.scalars, verdict, facts)),
        "report": report.run.label_of(verdict.launch),
        "path": str(report.run.path),
        "rank": rank.rank if rank else None,
        "program": rank.program if rank else None,
        "rank_order": None,
        "rank_spread_pct": None,
    }


def _launch_facts(known: LaunchIdentity, scalars: Mapping[str, float]) -> dict[str, Any]:
    """Geometry, resources and provenance of the launch: text or None, finite floats or None."""
    clock = number(known.sm_clock_hz)
    texts = ("grid", "block", "compute_capability", "ncu_version", "nvtx")
    return {
        **{name: getattr(known, name) or None for name in texts},
        "clock_ghz": None if clock is None else round(clock / 1e9, 4),
        "registers": number(known.registers),
        "smem_B": number(known.smem_static_B + known.smem_dynamic_B),
        "ctas": number(scalars.get("launch__grid_size")),
        "waves": _rounded(scalars.get("launch__waves_per_multiprocessor")),
        "occupancy": _rounded(scalars.get("sm__warps_active.avg.pct_of_peak_sustained_active")),
        "occupancy_limit": _rounded(scalars.get("sm__maximum_warps_per_active_cycle_pct")),
    }


def _subject(
    known: LaunchIdentity, scalars: Mapping[str, float], verdict: LaunchVerdict, facts: Mapping[str, Any]
) -> Subject:
    """The launch as the roofline sees it."""
    return Subject(
        scalars,
        verdict.duration_ns,
        number(known.sm_clock_hz),
        number(facts.get("flops")),
        str(facts.get("dtype") or ""),
        verdict.tensor_elapsed_pct,
        known.compute_capability,
    )


def labels(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The label of each row, and behind it the dimensions in which rows of the same name and label
    differ."""
    return labelled(LaunchRows.of(rows)).cells("label")


def labelled(rows: LaunchRows) -> LaunchRows:
    """``rows``, which are ``whole``, with their ``labels``."""
    codes, first = rows.combined(("name", "label", "shape"))
    each = rows.at(first)  # few, however many launches
    dims = telling_dims([(row["name"], row["label"]) for row in each], [row["shape"].split() for row in each])
    labels = [f"{row['label']} {words}".rstrip() for row, words in zip(each, dims, strict=True)]
    return rows.with_column("label", [labels[code] for code in codes.tolist()])


def ranked(rows: LaunchRows) -> LaunchRows:
    """``rows``, which are ``whole``, with ``rank_order``: the how-many-eth launch of its kernel,
    grid and block in its rank, from 0; and ``rank_spread_pct``: how much longer the slowest rank of
    the program took for that launch than the fastest, in percent of the median."""
    rank, time = rows.numbers("rank"), rows.numbers("duration_ns")
    if np.isnan(rank).all():
        return rows
    kernel = rows.combined(("program", "kernel", "grid", "block"))[0]
    order = np.lexsort((rows.numbers("launch"), rank, kernel))
    order = order[~np.isnan(rank[order])]
    first = np.r_[True, (np.diff(kernel[order]) != 0) | (np.diff(rank[order]) != 0)]
    number = np.arange(len(order)) - np.flatnonzero(first)[np.cumsum(first) - 1]
    orders: list[int | None] = [None] * len(rows)
    spreads: list[float | None] = [None] * len(rows)
    alike: dict[tuple[int, int], list[int]] = {}
    for place, count in zip(order.tolist(), number.tolist(), strict=True):
        orders[place] = count
        if not np.isnan(time[place]):
            alike.setdefault((int(kernel[place]), count), []).append(place)
    for places in alike.values():
        if len(places) > 1:
            spread = 100.0 * np.ptp(time[places]) / np.median(time[places])
            for place in places:
                spreads[place] = _rounded(spread)
    return rows.with_column("rank_order", orders).with_column("rank_spread_pct", spreads)


def _busy_pct(account: Mapping[str, float]) -> float | None:
    """Percent of elapsed time in which the counted unit works; None without an account."""
    work = [account[name] for name in WORK if name in account]
    return sum(work) if work else None


def _words(name: str, measured: bool) -> str:
    """The words of a part or cause, and whether it was measured."""
    return f"{name} (measured)" if measured else name


def kernel_label(known: LaunchIdentity, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Parameters and shape of the run's ``facts``; where there are none, grid and block of the
    launch, twice.

    A kernel without parameters shows its shape in their place.
    """
    geometry = f"grid {known.grid} × block {known.block}" if known.grid else ""
    parameters, shape = (_pairs(facts.get(name)) for name in ("parameters", "shape"))
    return parameters or shape or geometry, shape or geometry


def facts_of(report: Any, launch: int, kernel: str) -> dict[str, Any]:
    """What the manifest says of this kernel; empty where it speaks of another one that the program
    launched, too."""
    facts: dict[str, Any] = report.run.manifest.kernel_of(launch)
    function = str(facts.get("function") or "")
    return facts if function and function in kernel else {}


def _pairs(values: Any) -> str:
    return " ".join(f"{key}={value}" for key, value in (values or {}).items())


_CASTS = re.compile(r"\((?:int|bool|unsigned int|long|unsigned long)\)(?=-?\d)")


def telling_name(kernel: str, demangled: str) -> str:
    """The kernel's base name; where that is a word that every library uses, the qualified name with
    its arguments.

    The demangler's casts before values are left out.
    """
    if kernel.lower().rstrip("0123456789_") not in ("kernel", "main", "device_kernel", ""):
        return kernel
    return _CASTS.sub("", demangled).removeprefix("void ").rsplit("(", 1)[0] or kernel


def _rounded(value: Any, digits: int = 4) -> float | None:
    """Short in JSON, yet so fine that what is shown of it is rounded as the verdict itself would
    be."""
    result = number(value)
    return None if result is None else round(result, digits)
